// SPDX-License-Identifier: Apache-2.0
//! `holdfast setup` in a network namespace with interfaces of many kinds, and with a terminal whose
//! user answers, or leaves.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use holdfast_net::netns::{ChildGuard, NetNs, available_or_skip};
use holdfast_testbed::harness::write_script;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

/// A router's interfaces: eth0 has the default route, wlan0 is a port of br0.
const ROUTER: &str = "
    ip link add eth0 type veth peer name far0 && ip link set eth0 up && ip link set far0 up
    ip address add 192.0.2.2/24 dev eth0 && ip route add default via 192.0.2.1
    ip link add wlan0 type veth peer name far1 && ip link set wlan0 up && ip link set far1 up
    ip link add br0 type bridge && ip link set wlan0 master br0 && ip link set br0 up
    ip address add 10.9.0.1/24 dev br0
    ip link add down0 type ifb
    ip tuntap add dev tap0 mode tap
    ip tuntap add dev tun0 mode tun && ip link set tun0 up
    sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1";

/// The choice of a gateway at wlan0, without a question.
const GATEWAY: [&str; 5] = ["--role", "gateway", "--wireless", "wlan0", "--yes"];

/// A router in a namespace, and a folder for its settings file.
struct Router {
    ns: NetNs,
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Router {
    /// None, and a loud line, where that cannot be.
    fn new(test: &str) -> Option<Self> {
        if !available_or_skip(test) {
            return None;
        }
        let ns = NetNs::new().unwrap();
        let mut shell = ns.command("sh");
        let status = shell.args(["-e", "-c", ROUTER]).status().unwrap();
        assert!(status.success());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hf.toml");
        Some(Self { ns, folder, file })
    }

    /// `holdfast setup` for the settings file.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.ns.command(HOLDFAST);
        command.arg("setup").args(arguments);
        command.arg("--config").arg(&self.file);
        command
    }

    /// The same without a terminal.
    fn setup(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn contents(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        contents(self.folder.path())
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

/// The files of a folder, with contents and modes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let mode = path.metadata().unwrap().permissions().mode();
        (path.clone(), (mode & 0o7777, fs::read(path).unwrap()))
    });
    files.collect()
}

/// The mode of a new file: the group of the units may read it, where there is that group.
fn new_file_mode() -> u32 {
    let groups = fs::read_to_string("/etc/group").unwrap();
    let has_group = groups.lines().any(|line| line.starts_with("holdfast:"));
    if has_group { 0o640 } else { 0o600 }
}

/// A `holdfast setup` on a terminal.
struct Session {
    child: ChildGuard,
    terminal: File,
    shown: String,
}

impl Session {
    fn start(router: &Router, arguments: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = text(ptsname(&master, Vec::new()).unwrap().as_bytes());
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        let mut command = router.command(arguments);
        command.stdin(open()).stdout(open()).stderr(open());
        Self {
            child: router.ns.spawn_guarded(command).unwrap(),
            terminal: master.into(),
            shown: String::new(),
        }
    }

    /// Waits for a question. The answer is what was shown until then.
    fn wait_for(&mut self, question: &str) -> String {
        let mut octets = [0; 4096];
        loop {
            if let Some(at) = self.shown.find(question) {
                let end = at + question.len();
                return self.shown.drain(..end).collect();
            }
            let length = self.terminal.read(&mut octets);
            let length = length.unwrap_or_else(|error| panic!("{error}: {}", self.shown));
            self.shown += &String::from_utf8_lossy(&octets[..length]);
        }
    }

    fn answer(&mut self, line: &str) {
        self.terminal
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    fn end(mut self) -> Option<i32> {
        self.child.child().wait().unwrap().code()
    }
}

#[test]
fn three_answers_make_a_checked_file() {
    let Some(router) = Router::new("three_answers_make_a_checked_file") else {
        return;
    };
    let mut session = Session::start(&router, &[]);
    session.wait_for("(mobile)? [gateway] ");
    session.answer("perhaps");
    session.wait_for("(mobile)? [gateway] ");
    session.answer("");
    let listed = session.wait_for("Which interface leads to the mobiles? ");
    for name in [
        "wlan0",
        "br0",
        "down0",
        "tap0",
        "tun0",
        "port of br0",
        "bridge",
        "default route",
    ] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
    assert!(!listed.contains("  lo "), "{listed}");
    session.wait_for("] ");
    session.answer("wlan0");
    let checked = session.wait_for("and start holdfast-gateway? [yes] ");
    assert!(checked.contains("wlan0 is a port of br0"), "{checked}");
    assert!(
        checked.contains("the data path attaches to wlan0"),
        "{checked}"
    );
    assert!(!router.file.exists());
    session.answer("y");
    let end = session.wait_for("\n");
    assert_eq!(session.end(), Some(0), "{end}");
    let files = router.contents();
    assert_eq!(files.len(), 1);
    let (mode, octets) = &files[&router.file];
    assert_eq!(*mode, new_file_mode());
    let table: toml::Table = text(octets).parse().unwrap();
    assert_eq!(table["gateway"]["wireless"].as_str(), Some("wlan0"));
    assert_eq!(table["gateway"]["wired"].as_str(), Some("eth0"));
}

#[test]
fn an_interrupt_at_any_question_leaves_nothing() {
    let Some(router) = Router::new("an_interrupt_at_any_question_leaves_nothing") else {
        return;
    };
    let devices = || {
        let ns = &router.ns;
        ns.run(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap())
            .unwrap()
    };
    let names = || {
        devices()
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
            .collect::<Vec<_>>()
    };
    let before = names();
    for old in [None, Some("[gateway]\nwireless = \"wlan9\"\n")] {
        if let Some(old) = old {
            fs::write(&router.file, old).unwrap();
        }
        let kept = router.contents();
        for questions in 1..=3 {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                let mut session = Session::start(&router, &["--force"]);
                for question in 1..=questions {
                    session.wait_for("] ");
                    if question < questions {
                        session.answer("");
                    }
                }
                session.child.signal(signal).unwrap();
                assert_ne!(session.end(), Some(0));
                assert_eq!(router.contents(), kept, "{questions}");
            }
        }
        // No, and no answer.
        for answer in ["no\n", "\x04"] {
            let gateway = &GATEWAY[..4];
            let mut session = Session::start(&router, &[gateway, &["--force"]].concat());
            session.wait_for("[yes] ");
            session.terminal.write_all(answer.as_bytes()).unwrap();
            session.wait_for("nothing was changed");
            assert_eq!(session.end(), Some(1));
            assert_eq!(router.contents(), kept);
        }
    }
    assert_eq!(names(), before);
}

#[test]
fn a_script_reads_what_would_be_done() {
    let Some(router) = Router::new("a_script_reads_what_would_be_done") else {
        return;
    };
    let output = router.setup(&["--yes", "--dry-run", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["role"], "gateway");
    assert_eq!(report["written"], false);
    assert!(
        report["findings"].as_array().unwrap().len() > 2,
        "{report:#}"
    );
    assert!(router.contents().is_empty());
    // The modem's interface of a mobile may be a tunnel.
    let mobile = ["--role", "mobile", "--wireless", "tun0", "--yes", "--json"];
    let output = router.setup(&mobile);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["service"], "other-file", "{report:#}");
    let written = fs::read_to_string(&router.file).unwrap();
    assert!(written.contains("interface = \"tun0\""), "{written}");
    assert_eq!(report["settings"], written);
}

#[test]
fn a_file_that_is_there_is_replaced_by_force_alone_and_is_kept() {
    let test = "a_file_that_is_there_is_replaced_by_force_alone_and_is_kept";
    let Some(router) = Router::new(test) else {
        return;
    };
    fs::write(&router.file, "mine").unwrap();
    let output = router.setup(&GATEWAY);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("--force") && error.lines().count() == 1,
        "{error}"
    );
    assert_eq!(fs::read(&router.file).unwrap(), b"mine");
    for number in 1..=2 {
        let output = router.setup(&[&GATEWAY[..], &["--force"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let old = fs::read_to_string(router.folder.path().join("hf.toml.old1")).unwrap();
        assert_eq!(old, "mine");
        assert_eq!(router.contents().len(), 1 + number);
    }
    assert!(
        router
            .contents()
            .values()
            .all(|(mode, _)| [0o600, new_file_mode()].contains(mode))
    );
    // The example as a package brings it is no operator's file.
    let made = Command::new(HOLDFAST)
        .args(["generate", "examples"])
        .arg(router.folder.path())
        .status()
        .unwrap();
    assert!(made.success());
    let file = router.folder.path().join("holdfast.toml");
    let router = Router { file, ..router };
    assert!(router.setup(&GATEWAY).status.success());
    assert!(fs::metadata(&router.file).unwrap().len() < 500);
}

#[test]
fn a_problem_is_reported_and_nothing_is_started() {
    let Some(router) = Router::new("a_problem_is_reported_and_nothing_is_started") else {
        return;
    };
    let output = router.setup(&["--role", "gateway", "--wireless", "down0", "--yes"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("PROBLEM down0 is down"), "{shown}");
    assert!(shown.contains("was not started"), "{shown}");
    assert!(router.file.exists());
}

/// Instead of systemd: it notes its orders.
const SYSTEMCTL: &str = "#!/bin/sh\necho \"$@\" >> /run/orders\n";

#[test]
fn the_unit_is_enabled_and_started_where_systemd_runs() {
    let test = "the_unit_is_enabled_and_started_where_systemd_runs";
    let Some(router) = Router::new(test) else {
        return;
    };
    let systemctl = router.folder.path().join("systemctl");
    write_script(&systemctl, SYSTEMCTL).unwrap();
    let gateway = GATEWAY.join(" ");
    let run = |before: &str, flags: &str| {
        // In a mount namespace of its own: /etc and /run are empty there.
        let script = format!(
            "mount -t tmpfs none /etc && mount -t tmpfs none /run && {before}
             {HOLDFAST} setup {gateway} {flags} && cat /etc/holdfast/holdfast.toml
             cat /run/orders 2>/dev/null || echo no orders"
        );
        let mut command = router.ns.command("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        let path = format!(
            "{}:{}",
            router.folder.path().display(),
            std::env::var("PATH").unwrap()
        );
        text(&command.env("PATH", path).output().unwrap().stdout)
    };
    let shown = run("mkdir -p /run/systemd/system &&", "");
    assert!(shown.contains("wireless = \"wlan0\""), "{shown}");
    let orders = "cat holdfast-gateway\nenable holdfast-gateway\nrestart holdfast-gateway\n";
    assert!(shown.ends_with(orders), "{shown}");
    for (before, flags, expected) in [
        ("", "", "no unit holdfast-gateway of systemd was found"),
        (
            "mkdir -p /run/systemd/system &&",
            "--no-start",
            "start it: systemctl enable --now",
        ),
        (
            "mkdir -p /run/systemd/system &&",
            "--dry-run",
            "nothing was written",
        ),
    ] {
        let shown = run(before, flags);
        assert!(
            shown.contains(expected) && shown.ends_with("no orders\n"),
            "{shown}"
        );
    }
}

#[test]
fn without_a_terminal_and_without_flags_it_asks_for_them_in_one_line() {
    let output = Command::new(HOLDFAST)
        .arg("setup")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("--yes") && error.lines().count() == 1,
        "{error}"
    );
}
