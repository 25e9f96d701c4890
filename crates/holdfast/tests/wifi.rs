// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile` at a real kernel's Wi-Fi: two access points of hostapd, a station of
//! `wpa_supplicant`, radios of `mac80211_hwsim`.
//!
//! They load and unload that module, which a machine in use should be spared:
//! `scripts/kernel_tests.sh wifi` runs them in one of their own.
//!
//! ```text
//!   wlan0 (channel 1) AP --.
//!                           >-- air of mac80211_hwsim --- wlan2 station, holdfast mobile
//!   wlan1 (channel 6) AP --'
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_net::netns::ChildGuard;
use holdfast_testbed::daemons::make_key;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
const ACCESS_POINTS: [&str; 2] = ["wlan0", "wlan1"];
const CHANNELS: [u8; 2] = [1, 6];
const STATION: &str = "wlan2";
/// The machine may be an emulated one.
const LIMIT: Duration = Duration::from_secs(120);
/// A key for all, 32 octets.
const PSK: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// Whom the radios hear: those with a bit in common.
const TOGETHER: i64 = 1;
const ALONE: i64 = 2;
/// What the radios send with, dBm: it is added to what the module takes for the way.
const SENT_DBM: i32 = 20;

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn await_that(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

fn spawn(program: &str, args: &[&str], log: &Path) -> ChildGuard {
    let mut command = Command::new(program);
    let log = std::fs::File::create(log).unwrap();
    command.args(args).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log);
    ChildGuard::spawn(command).unwrap()
}

/// What the module lets a test change of an interface's radio.
///
/// Numbers below zero go there as if they were not: what Linux 6.1 takes.
fn set_radio(interface: &str, name: &str, value: i64) {
    let phy = std::fs::read_to_string(format!("/sys/class/net/{interface}/phy80211/name"));
    let phy = phy.unwrap();
    let path = format!("/sys/kernel/debug/ieee80211/{}/hwsim/{name}", phy.trim());
    let value = value.cast_unsigned().to_string();
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn load_radios() {
    run("modprobe", &["-r", "mac80211_hwsim"]);
    run("modprobe", &["mac80211_hwsim", "radios=3"]);
    await_that("three radios", || {
        let path = |name: &str| PathBuf::from(format!("/sys/class/net/{name}"));
        path(STATION).exists() && ACCESS_POINTS.iter().all(|name| path(name).exists())
    });
}

fn address(interface: &str) -> String {
    let path = format!("/sys/class/net/{interface}/address");
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Access points, the station and the daemon.
struct Air {
    folder: tempfile::TempDir,
    access_points: Vec<ChildGuard>,
    supplicant: Option<ChildGuard>,
    daemon: Option<ChildGuard>,
}

impl Air {
    /// None: these are not for this machine.
    fn new(test: &str) -> Option<Self> {
        let words = std::fs::read_to_string("/proc/cmdline").unwrap();
        if !words.contains("holdfast.kernel_tests") {
            println!("SKIPPED {test}: it is for scripts/kernel_tests.sh wifi");
            return None;
        }
        load_radios();
        let mut air = Self {
            folder: tempfile::tempdir().unwrap(),
            access_points: Vec::new(),
            supplicant: None,
            daemon: None,
        };
        air.start_radios();
        Some(air)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn start_radios(&mut self) {
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
            let child = spawn("hostapd", &[&config], &log);
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
        self.supplicant = Some(spawn("wpa_supplicant", &args, &log));
        await_that("the supplicant answers", || {
            self.ask(&["ping"]).contains("PONG")
        });
    }

    /// What the supplicant says.
    fn ask(&self, words: &[&str]) -> String {
        let socket = self.path("supplicant");
        run(
            "wpa_cli",
            &[&["-p", &socket, "-i", STATION], words].concat(),
        )
    }

    /// The access point that has let the station in, keys and all.
    fn associated(&self) -> Option<usize> {
        let status = self.ask(&["status"]);
        let is_complete = status.lines().any(|line| line == "wpa_state=COMPLETED");
        let is_at = |name: &&str| status.contains(&format!("bssid={}", address(name)));
        is_complete.then(|| ACCESS_POINTS.iter().position(is_at))?
    }

    fn await_associated(&self) -> usize {
        await_that("associated", || self.associated().is_some());
        self.associated().expect("still there")
    }

    /// The daemon, with these lines among the settings of its sources.
    fn start_daemon(&mut self, sources: &str) {
        let folder = self.folder.path();
        let key = folder.join("mobile.key");
        if !key.exists() {
            make_key(Path::new(HOLDFAST), folder).unwrap();
        }
        let config = self.path("mobile.toml");
        std::fs::write(&config, format!("[sources]\nwifi = true\n{sources}\n")).unwrap();
        let args = [
            "mobile",
            "--interface",
            STATION,
            // Nobody listens there: what is asked of the daemon is what it knows.
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
        self.daemon = Some(spawn(HOLDFAST, &args, &log));
        await_that("Wi-Fi is heard", || self.wifi()["runs"] == true);
        await_that("the carrier is known", || self.link() != "unknown");
    }

    fn status(&self) -> serde_json::Value {
        let text = run(
            HOLDFAST,
            &["status", "--json", "--socket", &self.path("mobile.sock")],
        );
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn wifi(&self) -> serde_json::Value {
        let status = self.status();
        let sources = status["sources"].as_array().cloned().unwrap_or_default();
        let found = sources.into_iter().find(|source| source["name"] == "wifi");
        found.unwrap_or_default()
    }

    fn link(&self) -> String {
        self.status()["link"].as_str().unwrap_or_default().into()
    }

    fn epoch(&self) -> u64 {
        self.status()["epoch"].as_u64().expect("an epoch")
    }

    fn dbm(&self) -> i32 {
        self.wifi()["signal_dbm"].as_f64().unwrap_or(0.0) as i32
    }

    /// What the daemon has logged before this is in its file: the thread that writes it sleeps.
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

    /// What became of the link, as the daemon has logged it: whose word it was, and what.
    fn events(&self) -> Vec<(String, String)> {
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

    /// Until the daemon has logged this event, behind the first `from`.
    fn await_event(&self, from: usize, event: &str) -> Duration {
        await_that(event, || {
            let events = self.events();
            events[from.min(events.len())..]
                .iter()
                .any(|(_, its)| its.starts_with(event))
        })
    }
}

impl Drop for Air {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["mobile.log", "supplicant.log", "wlan0.log", "wlan1.log"] {
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

#[test]
fn the_signal_is_the_access_points_and_a_threshold_is_told_between_two_questions() {
    let test = "the_signal_is_the_access_points_and_a_threshold_is_told_between_two_questions";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    let at = ACCESS_POINTS[air.await_associated()];
    air.start_daemon("poll_ms = 50");
    let near = air.dbm();
    let iw = run("iw", &["dev", STATION, "link"]);
    println!("near: {near} dBm; iw: {}", iw.replace('\n', ";"));
    assert!(iw.contains(&format!("signal: {near} dBm")), "{near}: {iw}");
    set_radio(at, "rx_rssi", -80);
    let far = -80 + SENT_DBM;
    // The kernel's average follows slowly.
    await_that("it is far", || (air.dbm() - far).abs() <= 1);
    set_radio(at, "rx_rssi", -50);
    await_that("it is near", || (air.dbm() - near).abs() <= 1);
    assert_eq!(air.wifi()["failures"], 0);
    assert_eq!(air.events(), [], "a signal is no event");
    // Asked once a minute: what comes before is the driver's. Its first word is on which side the
    // signal is.
    air.daemon = None;
    let begun = Instant::now();
    air.start_daemon("poll_ms = 60000\nwifi_threshold_dbm = -50");
    await_that("the first answer", || air.dbm() == near);
    set_radio(at, "rx_rssi", -80);
    let fell = await_that("it has fallen below", || air.dbm() < -50);
    let below = air.dbm();
    set_radio(at, "rx_rssi", -50);
    let rose = await_that("it has risen above", || air.dbm() > -50);
    assert!(begun.elapsed() < Duration::from_secs(60), "asked meanwhile");
    println!(
        "threshold of -50 dBm: {below} dBm after {fell:?}, {} after {rose:?}",
        air.dbm()
    );
    assert!(below < -50 && air.dbm() > -50, "{below}, {}", air.dbm());
    assert!(air.wifi()["note"].is_null(), "{}", air.wifi()["note"]);
}

#[test]
fn a_station_that_roams_has_no_link_between_its_access_points() {
    let test = "a_station_that_roams_has_no_link_between_its_access_points";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    let mut at = air.await_associated();
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    for round in 0..4 {
        let next = 1 - at;
        let bssid = address(ACCESS_POINTS[next]);
        air.ask(&["scan"]);
        await_that("it is found", || {
            air.ask(&["scan_results"]).contains(&bssid)
        });
        let (heard, epoch) = (air.events().len(), air.epoch());
        assert!(air.ask(&["roam", &bssid]).contains("OK"));
        let down = air.await_event(heard, "Down");
        let up = air.await_event(heard, "Up");
        await_that("it is there", || air.associated() == Some(next));
        await_that("up", || air.link() == "up");
        let told = air.events().split_off(heard);
        println!("round {round}: down seen after {down:?}, up {up:?} later: {told:?}");
        // A second `up` may come of the driver's: the station has roamed.
        assert_eq!(told[0].1, "Down");
        assert!(told[1..].iter().all(|(_, event)| event == "Up"), "{told:?}");
        assert!(air.epoch() > epoch);
        at = next;
    }
    assert_eq!(air.wifi()["failures"], 0);
}

#[test]
fn a_station_that_is_sent_away_has_no_link_until_it_is_let_in_again() {
    let test = "a_station_that_is_sent_away_has_no_link_until_it_is_let_in_again";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    let at = ACCESS_POINTS[air.await_associated()];
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    let (socket, station) = (air.path("hostapd"), address(STATION));
    for way in ["deauthenticate", "disassociate"] {
        // It takes the other one otherwise, perhaps.
        let other = ACCESS_POINTS.iter().find(|name| **name != at).unwrap();
        set_radio(other, "group", ALONE);
        let heard = air.events().len();
        run("hostapd_cli", &["-p", &socket, "-i", at, way, &station]);
        let down = air.await_event(heard, "Down");
        let up = air.await_event(heard, "Up");
        air.await_associated();
        await_that("up", || air.link() == "up");
        let told = air.events().split_off(heard);
        println!("{way}: down after {down:?}, up {up:?} later: {told:?}");
        assert_eq!(told[0].1, "Down");
    }
    assert_eq!(air.wifi()["failures"], 0);
}

#[test]
fn an_access_point_that_falls_silent_is_an_outage_until_it_is_heard_again() {
    let test = "an_access_point_that_falls_silent_is_an_outage_until_it_is_heard_again";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    air.await_associated();
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    let epoch = air.epoch();
    for name in ACCESS_POINTS {
        set_radio(name, "group", ALONE);
    }
    let down = air.await_event(0, "Down");
    await_that("down", || air.link() == "down");
    println!(
        "nothing heard of it any more: down after {down:?}; {:?}",
        air.events()
    );
    for name in ACCESS_POINTS {
        set_radio(name, "group", TOGETHER);
    }
    let heard = air.events().len();
    let up = air.await_event(heard, "Up");
    air.await_associated();
    await_that("up", || air.link() == "up");
    println!("it is back: up after {up:?}; {:?}", air.events());
    assert!(air.epoch() > epoch);
}

#[test]
fn a_radio_that_is_taken_away_and_put_back_is_heard_again() {
    let test = "a_radio_that_is_taken_away_and_put_back_is_heard_again";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    air.await_associated();
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    air.supplicant = None;
    air.access_points.clear();
    run("modprobe", &["-r", "mac80211_hwsim"]);
    await_that("down", || air.link() == "down");
    await_that("it has failed", || air.wifi()["runs"] == false);
    let problem = air.wifi()["problem"].to_string();
    println!("without a radio: {problem}");
    assert!(
        problem.contains("sources.wifi") && !problem.contains("\\n"),
        "{problem}"
    );
    load_radios();
    air.start_radios();
    air.await_associated();
    let heard = await_that("Wi-Fi is heard", || air.wifi()["runs"] == true);
    await_that("up", || air.link() == "up");
    println!(
        "with a radio again: heard after {heard:?}; {:?}",
        air.events()
    );
    await_that("its signal", || air.dbm() < 0);
}
