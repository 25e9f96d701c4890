// SPDX-License-Identifier: Apache-2.0
//! The demo ended at any moment leaves nothing: no namespace, device, rule, process or
//! file. Each runs in a namespace of its own, so that whatever else runs on this machine
//! is not taken for its.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use holdfast_net::netns::{ChildGuard, NetNs, available_or_skip};
use holdfast_testbed::stop::StopFlag;

/// No demo may take longer to end after a signal.
const END_LIMIT: Duration = Duration::from_secs(60);

/// What a demo could leave.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    devices: BTreeSet<String>,
    rules: String,
    named_namespaces: BTreeSet<String>,
    mounts: BTreeSet<String>,
    files: BTreeSet<String>,
}

/// A namespace and a folder for temporary files, for one demo after another.
struct Surroundings {
    ns: NetNs,
    folder: tempfile::TempDir,
    /// In the environment of all that the demo starts.
    mark: String,
}

impl Surroundings {
    fn new(test: &str) -> Option<Self> {
        available_or_skip(test).then(|| Self {
            ns: NetNs::new().unwrap(),
            folder: tempfile::tempdir().unwrap(),
            mark: format!("HOLDFAST_DEMO_MARK={}-{test}", std::process::id()),
        })
    }

    fn start(&self) -> ChildGuard {
        self.start_with("12")
    }

    /// One that takes minutes: it is not through before it is interrupted.
    fn start_long(&self) -> ChildGuard {
        self.start_with("100")
    }

    fn start_with(&self, megabytes: &str) -> ChildGuard {
        let mut command = self.ns.command(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["demo", "--megabytes", megabytes, "--outages", "0.5"]);
        let (name, value) = self.mark.split_once('=').unwrap();
        command.env("TMPDIR", self.folder.path()).env(name, value);
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.ns.spawn_guarded(command).unwrap()
    }

    /// Of what the whole machine has, only what is named after the project or the folder: others may
    /// make namespaces meanwhile.
    fn left(&self) -> Left {
        let names = |path: &Path| -> BTreeSet<String> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect()
        };
        let folder = self.folder.path().to_string_lossy();
        let is_own = |name: &str| name.contains("holdfast") || name.contains(&*folder);
        let output = |program: &str, arguments: &[&str]| {
            let output = self.ns.command(program).args(arguments).output().unwrap();
            assert!(output.status.success(), "{program}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let rules = [
            output("ip", &["-4", "rule"]),
            output("ip", &["-6", "rule"]),
            output("nft", &["list", "ruleset"]),
        ];
        let devices = output("ip", &["-o", "link"]);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        Left {
            devices: devices
                .lines()
                .filter_map(|line| Some(line.split(": ").nth(1)?.to_owned()))
                .collect(),
            rules: rules.concat(),
            named_namespaces: names(Path::new("/run/netns"))
                .into_iter()
                .filter(|name| is_own(name))
                .collect(),
            mounts: mounts
                .lines()
                .filter(|line| line.contains("nsfs") && is_own(line))
                .map(ToOwned::to_owned)
                .collect(),
            files: names(self.folder.path()),
        }
    }

    /// Processes that the demo, or what it started, has started.
    fn processes(&self) -> Vec<String> {
        let marked = |environment: Vec<u8>| {
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == self.mark.as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter(|entry| fs::read(entry.path().join("environ")).is_ok_and(marked))
            .map(|entry| {
                let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                format!("{} {}", entry.file_name().to_string_lossy(), name.trim())
            })
            .collect()
    }

    /// Waits until the demo has started its programs.
    fn await_programs(&self) {
        let stop = StopFlag::default();
        stop.wait_for("the demo has started its programs", END_LIMIT, || {
            Ok((self.processes().len() > 3).then_some(()))
        })
        .unwrap();
    }

    /// Waits until none of its programs runs. The kernel ends a daemon's broker after the daemon.
    fn await_end_of_programs(&self, case: &str) {
        let mut left = Vec::new();
        let ended = StopFlag::default().wait_for("its programs end with it", END_LIMIT, || {
            left = self.processes();
            Ok(left.is_empty().then_some(()))
        });
        ended.unwrap_or_else(|error| panic!("{case}: {error}: {left:?}"));
    }
}

#[test]
fn a_demo_that_is_interrupted_at_any_moment_leaves_nothing() {
    let test = "a_demo_that_is_interrupted_at_any_moment_leaves_nothing";
    let Some(folder) = Surroundings::new(test) else {
        return;
    };
    let before = folder.left();
    for (millis, signal) in [
        (0, libc::SIGINT),
        (5, libc::SIGTERM),
        (20, libc::SIGINT),
        (60, libc::SIGHUP),
        (120, libc::SIGINT),
        (200, libc::SIGTERM),
        (350, libc::SIGINT),
        (600, libc::SIGINT),
        (1000, libc::SIGHUP),
        (1800, libc::SIGINT),
        (3500, libc::SIGTERM),
    ] {
        let mut demo = folder.start();
        // The moment is what is tried; a demo that is through has nothing to interrupt.
        demo.wait_at_most(Duration::from_millis(millis)).unwrap();
        demo.signal(signal).unwrap();
        let status = demo.wait_at_most(END_LIMIT).unwrap();
        let status = status.unwrap_or_else(|| panic!("{millis} ms: it does not end"));
        // Before the demo takes over signals there is nothing yet to leave.
        let expected =
            status.signal() == Some(signal) || [Some(130), Some(0)].contains(&status.code());
        assert!(expected, "{millis} ms: {status}");
        folder.await_end_of_programs(&format!("{millis} ms"));
        assert_eq!(folder.left(), before, "{millis} ms");
    }
    // At its work, however fast this machine is.
    let mut demo = folder.start_long();
    folder.await_programs();
    demo.signal(libc::SIGINT).unwrap();
    let status = demo.wait_at_most(END_LIMIT).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(130));
    folder.await_end_of_programs("at its work");
    assert_eq!(folder.left(), before);
}

#[test]
fn what_a_killed_demo_leaves_the_next_one_removes() {
    let test = "what_a_killed_demo_leaves_the_next_one_removes";
    let Some(folder) = Surroundings::new(test) else {
        return;
    };
    let before = folder.left();
    let stop = StopFlag::default();
    let mut demo = folder.start_long();
    folder.await_programs();
    demo.kill().unwrap();
    folder.await_end_of_programs("killed");
    let left = folder.left();
    assert_eq!(left.files.len(), 1, "{left:?}");
    let mut demo = folder.start();
    stop.wait_for("the next one removes it", END_LIMIT, || {
        Ok((folder.left().files.is_disjoint(&left.files)).then_some(()))
    })
    .unwrap();
    demo.signal(libc::SIGINT).unwrap();
    demo.wait_at_most(END_LIMIT).unwrap().expect("it ends");
    assert_eq!(folder.left(), before);
}

#[test]
fn a_demo_over_the_trains_link_delivers_every_byte_and_reports_its_share() {
    let test = "a_demo_over_the_trains_link_delivers_every_byte_and_reports_its_share";
    let Some(folder) = Surroundings::new(test) else {
        return;
    };
    let mut command = folder.ns.command(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["demo", "--link", "train", "--scheme", "auto"]);
    command.args(["--megabytes", "1", "--json", "-"]);
    command.env("TMPDIR", folder.folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["conditions"]["link"], "train");
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(
        runs.len(),
        8,
        "TCP and QUIC, down and up, plain and with auto"
    );
    for run in runs {
        let share = run["link_share"].as_f64().unwrap();
        assert!((0.01..=1.0).contains(&share), "{run}");
        assert_eq!(run["sha256_ok"], true, "{run}");
    }
}
