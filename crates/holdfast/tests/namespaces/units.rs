// SPDX-License-Identifier: Apache-2.0
//! The units in `dist/`, and the daemons with no more privileges than these leave them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::report_skipped;
use holdfast_testbed::harness::Flow;
use holdfast_testbed::link_process::{EmulatedLink, MH_IF};
use holdfast_testbed::scratch::Scratch;
use holdfast_testbed::topology::{TopologySettings, Wireless};

use super::mobile_guard::stands_still;
use super::mobile_host::{download, plain};
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
        let program = confined("holdfast-gateway.service", folder.path());
        let settings = TopologySettings::new(program, Wireless::Veth { mtu: 1500 });
        let mut harness = topology(&settings, None);
        chown(
            harness.folder(),
            Some(UNPRIVILEGED_USER),
            Some(UNPRIVILEGED_USER),
        )
        .unwrap();
        harness.set_gateway_scheme(scheme);
        harness.start_gateway().unwrap();
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
