// SPDX-License-Identifier: Apache-2.0
//! Two access points of hostapd, a station of `wpa_supplicant`, and the daemon at it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_testbed::daemons::make_key;

pub(super) const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
pub(super) const ACCESS_POINTS: [&str; 2] = ["wlan0", "wlan1"];
const CHANNELS: [u8; 2] = [1, 6];
pub(super) const STATION: &str = "wlan2";
/// The machine may be emulated and slow.
pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// The key of all stations, 32 octets.
const PSK: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// A radio receives from radios with a common bit in their groups.
pub(super) const TOGETHER: i64 = 1;
pub(super) const ALONE: i64 = 2;
/// The radios' transmit power, dBm. The module adds it to the path's `rx_rssi`.
pub(super) const SENT_DBM: i32 = 20;

pub(super) fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
pub(super) fn await_that(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

pub(super) fn spawn(mut command: Command, args: &[&str], log: &Path) -> ChildGuard {
    let log = std::fs::File::create(log).unwrap();
    command.args(args).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log);
    ChildGuard::spawn(command).unwrap()
}

/// Sets a value of an interface's radio in the module's debugfs.
///
/// Linux 6.1 takes negative numbers only as unsigned ones.
pub(super) fn set_radio(interface: &str, name: &str, value: i64) {
    let phy = std::fs::read_to_string(format!("/sys/class/net/{interface}/phy80211/name"));
    let phy = phy.unwrap();
    let path = format!("/sys/kernel/debug/ieee80211/{}/hwsim/{name}", phy.trim());
    let value = value.cast_unsigned().to_string();
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

pub(super) fn load_radios() {
    run("modprobe", &["-r", "mac80211_hwsim"]);
    run("modprobe", &["mac80211_hwsim", "radios=3"]);
    await_that("three radios", || {
        let path = |name: &str| PathBuf::from(format!("/sys/class/net/{name}"));
        path(STATION).exists() && ACCESS_POINTS.iter().all(|name| path(name).exists())
    });
}

pub(super) fn address(interface: &str) -> String {
    let path = format!("/sys/class/net/{interface}/address");
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// A namespace for the station: packets between two interfaces of one namespace use no radio.
struct Namespace {
    ns: NetNs,
    /// `iw` finds the namespace by a process in it.
    process: ChildGuard,
}

impl Namespace {
    fn new() -> Self {
        let ns = NetNs::new().unwrap();
        let mut command = ns.command("sleep");
        command.arg("infinity");
        let process = ns.spawn_guarded(command).unwrap();
        Self { ns, process }
    }

    /// Moves the station's radio into the namespace.
    fn take_radio(&self) {
        let phy = std::fs::read_to_string(format!("/sys/class/net/{STATION}/phy80211/name"));
        let process = self.process.id().to_string();
        let phy = phy.unwrap();
        run("iw", &["phy", phy.trim(), "set", "netns", &process]);
        let path = PathBuf::from(format!("/sys/class/net/{STATION}"));
        await_that("the station's radio is in its namespace", || !path.exists());
    }
}

/// Access points, the station and the daemon.
pub(super) struct Air {
    folder: tempfile::TempDir,
    pub(super) access_points: Vec<ChildGuard>,
    pub(super) supplicant: Option<ChildGuard>,
    pub(super) daemon: Option<ChildGuard>,
    /// The station's namespace, if it is not the access points'.
    namespace: Option<Namespace>,
    pub(super) station: String,
}

impl Air {
    /// `None`: this machine is not one of `scripts/kernel_tests.sh wifi`.
    pub(super) fn new(test: &str) -> Option<Self> {
        Self::build(test, false)
    }

    /// The same with the station in a namespace of its own.
    pub(super) fn with_a_namespace(test: &str) -> Option<Self> {
        Self::build(test, true)
    }

    fn build(test: &str, has_namespace: bool) -> Option<Self> {
        let arguments = std::fs::read_to_string("/proc/cmdline").unwrap();
        if !arguments.contains("holdfast.kernel_tests") {
            println!("SKIPPED {test}: it is for scripts/kernel_tests.sh wifi");
            return None;
        }
        load_radios();
        let mut air = Self {
            folder: tempfile::tempdir().unwrap(),
            access_points: Vec::new(),
            supplicant: None,
            daemon: None,
            namespace: has_namespace.then(Namespace::new),
            station: address(STATION),
        };
        if let Some(namespace) = &air.namespace {
            namespace.take_radio();
        }
        air.start_radios();
        Some(air)
    }

    /// The station's namespace.
    pub(super) fn ns(&self) -> NetNs {
        match &self.namespace {
            Some(namespace) => namespace.ns.clone(),
            None => NetNs::current().unwrap(),
        }
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(super) fn start_radios(&mut self) {
        for (interface, channel) in ACCESS_POINTS.iter().zip(CHANNELS) {
            let config = self.path(interface);
            let text = format!(
                "interface={interface}\ndriver=nl80211\nssid=holdfast\nhw_mode=g\n\
                 channel={channel}\nctrl_interface={}\nwpa=2\nwpa_key_mgmt=WPA-PSK\n\
                 rsn_pairwise=CCMP\nwpa_psk={PSK}\n",
                self.path("hostapd")
            );
            std::fs::write(&config, text).unwrap();
            let log = self.folder.path().join(format!("{interface}.log"));
            let child = spawn(Command::new("hostapd"), &[&config], &log);
            self.access_points.push(child);
            await_that("the access point is there", || {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                log.contains("AP-ENABLED")
            });
        }
        let config = self.path("station");
        let text = format!(
            "ctrl_interface={}\nnetwork={{\nssid=\"holdfast\"\nkey_mgmt=WPA-PSK\npsk={PSK}\n}}\n",
            self.path("supplicant")
        );
        std::fs::write(&config, text).unwrap();
        let args = ["-D", "nl80211", "-i", STATION, "-c", &config];
        let log = self.folder.path().join("supplicant.log");
        self.supplicant = Some(spawn(self.ns().command("wpa_supplicant"), &args, &log));
        await_that("the supplicant answers", || {
            self.supplicant_command(&["ping"]).contains("PONG")
        });
    }

    /// The supplicant's answer to a command.
    pub(super) fn supplicant_command(&self, arguments: &[&str]) -> String {
        let socket = self.path("supplicant");
        run(
            "wpa_cli",
            &[&["-p", &socket, "-i", STATION], arguments].concat(),
        )
    }

    /// The access point with which the station is associated and has keys.
    pub(super) fn associated(&self) -> Option<usize> {
        let status = self.supplicant_command(&["status"]);
        let is_complete = status.lines().any(|line| line == "wpa_state=COMPLETED");
        let is_at = |name: &&str| status.contains(&format!("bssid={}", address(name)));
        is_complete.then(|| ACCESS_POINTS.iter().position(is_at))?
    }

    pub(super) fn await_associated(&self) -> usize {
        await_that("associated", || self.associated().is_some());
        self.associated().expect("still there")
    }

    /// The daemon, with these lines among the settings of its sources.
    pub(super) fn start_daemon(&mut self, sources: &str) {
        self.start_daemon_with(sources, &[]);
    }

    /// The same, with more arguments on its command line.
    pub(super) fn start_daemon_with(&mut self, sources: &str, more: &[&str]) {
        let folder = self.folder.path();
        let key = folder.join("mobile.key");
        if !key.exists() {
            make_key(Path::new(HOLDFAST), folder).unwrap();
        }
        let config = self.path("mobile.toml");
        std::fs::write(
            &config,
            format!("[mobile]\nscheme = \"none\"\n[sources]\nwifi = true\n{sources}\n"),
        )
        .unwrap();
        let args = [
            "mobile",
            "--interface",
            STATION,
            // No gateway runs there: the tests read the daemon's status.
            "--gateway",
            "127.0.0.1",
            "--key-file",
            &key.display().to_string(),
            "--config",
            &config,
            "--control-socket",
            &self.path("mobile.sock"),
            "--log-format",
            "json",
        ];
        let log = self.folder.path().join("mobile.log");
        let args = [&args, more].concat();
        self.daemon = Some(spawn(self.ns().command(HOLDFAST), &args, &log));
        await_that("the source Wi-Fi runs", || self.wifi()["runs"] == true);
        await_that("the carrier is known", || self.link() != "unknown");
    }

    pub(super) fn status(&self) -> serde_json::Value {
        let text = run(
            HOLDFAST,
            &["status", "--json", "--socket", &self.path("mobile.sock")],
        );
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub(super) fn wifi(&self) -> serde_json::Value {
        let status = self.status();
        let sources = status["sources"].as_array().cloned().unwrap_or_default();
        let found = sources.into_iter().find(|source| source["name"] == "wifi");
        found.unwrap_or_default()
    }

    pub(super) fn link(&self) -> String {
        self.status()["link"].as_str().unwrap_or_default().into()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.status()["epoch"].as_u64().expect("an epoch")
    }

    pub(super) fn dbm(&self) -> i32 {
        self.wifi()["signal_dbm"].as_f64().unwrap_or(0.0) as i32
    }

    /// True if the thread that writes the log sleeps: then the file has every line.
    fn has_written_its_log(&self) -> bool {
        let Some(daemon) = &self.daemon else {
            return true;
        };
        let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap();
        let mut stats = threads.flatten().map(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat"));
            stat.unwrap_or_default()
        });
        stats.any(|stat| stat.contains(" (log) S "))
    }

    /// The events of the link in the daemon's log, each with its source.
    pub(super) fn events(&self) -> Vec<(String, String)> {
        await_that("the log is written", || self.has_written_its_log());
        let log = std::fs::read_to_string(self.folder.path().join("mobile.log")).unwrap();
        let lines = log.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let is_it = line["message"] == "link" && line["event"].is_string();
            let text = |name: &str| line[name].as_str().map(str::to_owned);
            is_it.then(|| Some((text("source")?, text("event")?)))?
        });
        lines.collect()
    }

    /// Waits until the daemon has logged this event after the first `from` events.
    pub(super) fn await_event(&self, from: usize, event: &str) -> Duration {
        await_that(event, || {
            let events = self.events();
            events[from.min(events.len())..]
                .iter()
                .any(|(_, logged)| logged.starts_with(event))
        })
    }
}

impl Drop for Air {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let names = [
                "mobile.log",
                "gateway.log",
                "supplicant.log",
                "wlan0.log",
                "wlan1.log",
            ];
            for name in names {
                let log = std::fs::read_to_string(self.folder.path().join(name));
                println!("== {name}\n{}", log.unwrap_or_default());
            }
        }
        self.daemon = None;
        self.supplicant = None;
        self.access_points.clear();
        run("modprobe", &["-r", "mac80211_hwsim"]);
    }
}
