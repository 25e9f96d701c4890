// SPDX-License-Identifier: Apache-2.0
//! The units in `dist/`, and the daemons with no more privileges than these leave them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::report_skipped;
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::{EmulatedLink, MH_IF};
use holdfast_testbed::scratch::Scratch;
use holdfast_testbed::topology::{TopologySettings, Wireless};

use super::mobile_guard::stands_still;
use super::mobile_host::{download, plain};
use super::mobile_wake_senders::{broker_of, children};
use super::{HOLDFAST, PORT, assert_shorter_than, await_that, connection, fh, topology};

const MB: u64 = 1_000_000;

/// A user that owns nothing.
const UNPRIVILEGED_USER: u32 = 65_534;

/// The text of a unit.
fn unit_text(unit: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    fs::read_to_string(path.join(unit)).unwrap()
}

/// The value of a key of a unit.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.next().expect(key)
}

/// A program in `folder` that is the binary under test, as a user without rights but for the unit's
/// capabilities. The folder becomes this user's.
fn confined(unit: &str, folder: &Path) -> PathBuf {
    let text = unit_text(unit);
    let granted = value(&text, "AmbientCapabilities");
    assert_eq!(granted, value(&text, "CapabilityBoundingSet"), "{unit}");
    assert_eq!(value(&text, "User"), "holdfast", "{unit}");
    assert_eq!(value(&text, "NoNewPrivileges"), "yes", "{unit}");
    let set: Vec<String> = granted
        .split_whitespace()
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let (set, program) = (set.join(","), folder.join("holdfast"));
    // The user may not be allowed to search the folders of the binary: it is opened before.
    let script = format!(
        "#!/bin/sh\nexec 9<{HOLDFAST}\nXDG_RUNTIME_DIR={} exec setpriv --reuid={UNPRIVILEGED_USER} \
         --regid={UNPRIVILEGED_USER} --clear-groups --bounding-set=-all,{set} --inh-caps=-all,{set} \
         --ambient-caps=-all,{set} --no-new-privs /proc/self/fd/9 \"$@\"\n",
        folder.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    chown(folder, Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER)).unwrap();
    // As udev has it.
    fs::set_permissions("/dev/net/tun", fs::Permissions::from_mode(0o666)).unwrap();
    program
}

/// The permitted capabilities of a process's threads, as the kernel has them: bits.
fn capabilities_of(pid: u32) -> Vec<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_thread = |status: PathBuf| {
        let text = fs::read_to_string(status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("CapPrm:"));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    };
    let statuses = threads.map(|thread| thread.unwrap().path().join("status"));
    statuses.map(of_thread).collect()
}

/// The bits of the capabilities that a unit grants (`linux/capability.h`).
fn granted_bits(unit: &str) -> u64 {
    let number = |name: &str| match name {
        "CAP_NET_ADMIN" => 12,
        "CAP_NET_RAW" => 13,
        "CAP_PERFMON" => 38,
        "CAP_BPF" => 39,
        other => panic!("{other}: give its number here"),
    };
    let text = unit_text(unit);
    let names = value(&text, "AmbientCapabilities").split_whitespace();
    names.map(|name| 1 << number(name)).sum()
}

/// The daemon has no capability in any thread, and its broker has what the unit grants.
fn assert_handed_over(unit: &str, pid: u32) {
    let threads = capabilities_of(pid);
    assert!(
        threads.iter().all(|bits| *bits == 0),
        "{unit}: {threads:x?}"
    );
    let broker = capabilities_of(broker_of(pid));
    assert_eq!(broker, [granted_bits(unit)], "{unit}: {broker:x?}");
}

fn gateway_pid(harness: &Harness) -> u32 {
    harness.gateway.as_ref().unwrap().child.id()
}

/// A gateway of the unit, and what its topology was built with.
fn confined_gateway(scheme: &str, folder: &Scratch) -> (Harness, TopologySettings) {
    let program = confined("holdfast-gateway.service", folder.path());
    let settings = TopologySettings::new(program, Wireless::Veth { mtu: 1500 });
    let mut harness = topology(&settings, None);
    let user = Some(UNPRIVILEGED_USER);
    chown(harness.folder(), user, user).unwrap();
    harness.set_gateway_scheme(scheme);
    harness.start_gateway().unwrap();
    (harness, settings)
}

#[test]
fn the_units_are_restricted_as_far_as_systemd_counts() {
    for unit in ["holdfast-gateway.service", "holdfast-mobile.service"] {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
        let mut command = Command::new("systemd-analyze");
        // In tenths.
        command.args(["security", "--offline=true", "--no-pager", "--threshold=25"]);
        let Ok(output) = command.arg(dist.join(unit)).output() else {
            report_skipped(
                "the_units_are_restricted_as_far_as_systemd_counts",
                "there is no systemd-analyze",
            );
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{unit}: {text}");
    }
}

#[test]
fn the_units_do_not_start_again_with_wrong_settings_nor_for_ever() {
    for unit in ["holdfast-gateway.service", "holdfast-mobile.service"] {
        let text = unit_text(unit);
        assert_eq!(value(&text, "Type"), "notify", "{unit}");
        assert_ne!(value(&text, "StartLimitIntervalSec"), "0", "{unit}");
        let daemon = value(&text, "ExecStart").split_whitespace().nth(1).unwrap();
        let wrong = Command::new(HOLDFAST)
            .args([daemon, "--config", "/nonexistent/holdfast.toml"])
            .output()
            .unwrap();
        let status = wrong.status.code().unwrap().to_string();
        assert_eq!(value(&text, "RestartPreventExitStatus"), status, "{unit}");
    }
}

#[test]
fn a_gateway_with_its_units_capabilities_takes_segments_and_leaves_a_state() {
    in_virtual_kernel!();
    for scheme in ["mtcp-plus", "auto"] {
        let folder = Scratch::new("holdfast-test-").unwrap();
        let (mut harness, _) = confined_gateway(scheme, &folder);
        assert_handed_over("holdfast-gateway.service", gateway_pid(&harness));
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 20 * MB, 5);
        flow.wait_bytes(MB).unwrap();
        harness.kill_gateway().unwrap();
        harness.start_gateway().unwrap();
        flow.finish().unwrap();
        // The first may have ended before the successor was there.
        let (at_fh, at_mh) = connection(&harness, fh(), PORT + 1);
        let second = Flow::start(at_fh, at_mh, 20 * MB, 6);
        let gateway = harness.gateway.as_ref().unwrap();
        await_that("segments pass the successor", || {
            gateway.status().unwrap()["counters"]["segments"]
                .as_u64()
                .is_some_and(|count| count > 0)
        });
        assert_eq!(gateway.status().unwrap()["keeps_records"], true);
        second.finish().unwrap();
        harness.stop_gateway().unwrap();
    }
}

#[test]
fn a_gateway_without_capabilities_attaches_to_an_interface_that_is_there_again() {
    in_virtual_kernel!();
    for scheme in ["hold", "auto", "keep"] {
        let folder = Scratch::new("holdfast-test-").unwrap();
        let (mut harness, settings) = confined_gateway(scheme, &folder);
        let is_attached = |harness: &Harness| {
            let status = harness.gateway.as_ref().unwrap().status().unwrap();
            status["attached"] == true
        };
        let removed = harness.topology.remove_wireless().unwrap();
        await_that("the gateway waits", || !is_attached(&harness));
        let made = harness.topology.make_wireless_again(&settings, &removed);
        made.unwrap();
        await_that("the gateway is attached again", || is_attached(&harness));
        assert_handed_over("holdfast-gateway.service", gateway_pid(&harness));
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        Flow::start(at_fh, at_mh, MB, 5).finish().unwrap();
        harness.stop_gateway().unwrap();
    }
}

#[test]
fn a_gateway_that_needs_its_broker_and_has_lost_it_ends_with_an_error() {
    in_virtual_kernel!();
    let folder = Scratch::new("holdfast-test-").unwrap();
    let (mut harness, settings) = confined_gateway("auto", &folder);
    let pid = gateway_pid(&harness);
    let broker = i32::try_from(broker_of(pid)).unwrap();
    let broker = rustix::process::Pid::from_raw(broker).unwrap();
    rustix::process::kill_process(broker, rustix::process::Signal::KILL).unwrap();
    // What is attached stays attached.
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    Flow::start(at_fh, at_mh, MB, 5).finish().unwrap();
    let removed = harness.topology.remove_wireless().unwrap();
    let made = harness.topology.make_wireless_again(&settings, &removed);
    made.unwrap();
    let mut gateway = harness.gateway.take().unwrap();
    let mut ended = None;
    await_that("the gateway ends", || {
        ended = gateway.child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(1));
    let last = gateway.log_end();
    assert!(
        last.contains("the broker process has ended") && last.contains("restart the daemon"),
        "{last}"
    );
    // Its packets pass.
    let (at_fh, at_mh) = connection(&harness, fh(), PORT + 1);
    Flow::start(at_fh, at_mh, MB, 6).finish().unwrap();
}

#[test]
fn a_mobile_with_its_units_capabilities_closes_windows_and_its_guard_opens_them() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let program = confined("holdfast-mobile.service", harness.folder());
    let socket = harness.folder().join("mobile.sock");
    let config = harness.folder().join("mobile.toml");
    let patient = "[mobile]\nfreeze_set = \"2000\"\nfalse_alarm_ms = 60000\n";
    fs::write(&config, patient).unwrap();
    let mut command = harness.topology.mh.command(program);
    command
        .args(["mobile", "--iface", MH_IF, "--scheme", "freeze"])
        .arg("--config")
        .arg(&config)
        .arg("--control-socket")
        .arg(&socket)
        .stderr(Stdio::null());
    let mut child = harness.topology.mh.spawn_guarded(command).unwrap();
    let holdfast = |arguments: &[&str]| {
        let mut command = Command::new(HOLDFAST);
        let output = command
            .args(arguments)
            .arg("--socket")
            .arg(&socket)
            .output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then_some(text)
    };
    let closed = || {
        let status: serde_json::Value =
            serde_json::from_str(&holdfast(&["status", "--json"])?).ok()?;
        status["counters"]["path.window_closed"].as_u64()
    };
    await_that("the daemon follows flows", || closed().is_some());
    assert_handed_over("holdfast-mobile.service", child.id());
    await_that("there is a guard", || children(child.id()).len() == 1);
    let guard = children(child.id())[0];
    await_that("the guard has no capability", || {
        capabilities_of(guard).iter().all(|bits| *bits == 0)
    });
    let flow = download(&harness, 8 * MB);
    // Without its guard the daemon would close no window.
    assert!(holdfast(&["mobile", "signal", "going-down-soon"]).is_some());
    await_that("the window is closed", || closed() > Some(0));
    // From then on the FH's probes are seconds apart.
    stands_still(&flow, 4_000_000_000);
    let killed_ns = monotonic_ns();
    child.kill().unwrap();
    let received = flow.finish().unwrap();
    // A probe of the FH would take seconds.
    assert_shorter_than(1_000, "the stall", received.stall_ms(killed_ns));
}
