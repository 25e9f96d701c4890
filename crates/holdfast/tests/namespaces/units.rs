// SPDX-License-Identifier: Apache-2.0
//! The daemons with the privileges of their units in `dist/`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::Flow;
use holdfast_testbed::link_process::{EmulatedLink, MH_IF};
use holdfast_testbed::scratch::Scratch;
use holdfast_testbed::topology::{TopologySettings, Wireless};

use super::mobile_guard::stands_still;
use super::mobile_host::{download, plain};
use super::{HOLDFAST, PORT, assert_shorter_than, await_that, connection, fh, topology};

const MB: u64 = 1_000_000;

/// A program in `folder` that runs the binary under test as root with only the unit's capabilities.
fn confined(unit: &str, folder: &Path) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    let text = fs::read_to_string(path.join(unit)).unwrap();
    let granted = text
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .expect("the unit's capabilities");
    let set: Vec<String> = granted
        .split_whitespace()
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    assert!(text.contains("\nNoNewPrivileges=yes\n"), "{unit}");
    let (set, program) = (set.join(","), folder.join("holdfast"));
    let script = format!(
        "#!/bin/sh\nexec setpriv --bounding-set=-all,{set} --no-new-privs {HOLDFAST} \"$@\"\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn a_gateway_with_its_units_capabilities_takes_segments_and_writes_its_state() {
    in_virtual_kernel!();
    let folder = Scratch::new("holdfast-test-").unwrap();
    let program = confined("holdfast-gateway.service", folder.path());
    let wireless = Wireless::Veth { mtu: 1500 };
    let settings = TopologySettings::new(program, wireless);
    let mut harness = topology(&settings, Some("mtcp-plus"));
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 20 * MB, 5);
    flow.wait_bytes(MB).unwrap();
    harness.kill_gateway().unwrap();
    harness.start_gateway().unwrap();
    flow.finish().unwrap();
    // The first flow may have ended before the successor was ready.
    let (at_fh, at_mh) = connection(&harness, fh(), PORT + 1);
    let second = Flow::start(at_fh, at_mh, 20 * MB, 6);
    let gateway = harness.gateway.as_ref().unwrap();
    await_that("segments pass the successor", || {
        gateway.status().unwrap()["counters"]["segments"]
            .as_u64()
            .is_some_and(|count| count > 0)
    });
    second.finish().unwrap();
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
