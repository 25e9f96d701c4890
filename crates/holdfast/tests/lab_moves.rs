// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab run` with an MH that moves between cells, on real hosts: base stations in
//! namespaces, real multicast on a bridge, the daemons of both sides.

use std::fs;
use std::process::Command;

use holdfast_lab::results::ResultLine;
use holdfast_lab::virtual_kernel::available_or_skip;
use holdfast_net::virtual_kernel::goes_on_here;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

const SCENARIO: &str = r#"
description = "two cells"
[transfer]
bytes = 2_000_000
limit_s = 60
[wired]
rate_mbit_per_s = 20
delay_ms = 1
[wireless]
rate_mbit_per_s = 4
delay_ms = 1
queue_packets_max = 50
[[cells]]
[[cells]]
[movement]
moves = { kind = "list", list = [{ at_s = 1, to = 2 }, { at_s = 2.5, to = 1 }] }
gap_ms = 10
warning_ms = 200
route_after_ms = 300
[gateway]
scheme = "snoop"
signal = "mobile"
[[sweep]]
name = "handoff"
key = "gateway.handoff.kind"
values = ["none", "multicast"]
"#;

/// The runs of the scenario on a substrate.
fn run(substrate: &str) -> Vec<ResultLine> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    let output = Command::new(HOLDFAST)
        .args(["lab", "run", "s.toml", "--out", "-", "--pcap", "packets"])
        .args(["--substrate", substrate])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let packets = fs::read_dir(folder.path().join("packets")).unwrap().count();
    // One for each device of each run.
    assert_eq!(packets, 2 * 6);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The MH is handed over in both runs; with multicast, before its route is changed.
fn assert_handed_over(lines: &[ResultLine]) {
    let [none, multicast] = lines else {
        panic!("two runs");
    };
    for line in lines {
        assert!(line.finished && line.intact, "{line:?}");
        assert_eq!(line.handoffs.len(), 2, "{line:?}");
    }
    assert_eq!(none.handoff.as_ref().unwrap().buffered_bytes_max, None);
    let figures = multicast.handoff.as_ref().unwrap();
    assert!(figures.buffered_bytes_max > Some(0), "{figures:?}");
    // The route changes after 300 ms.
    let is_soon = |ms: Option<f64>| ms.is_some_and(|ms| ms < 250.0);
    let are_soon = multicast
        .handoffs
        .iter()
        .all(|one| is_soon(one.new_byte_ms));
    let [with, without] = [multicast, none].map(|line| line.retransmitted_segments);
    assert!(
        are_soon && with < without,
        "{with} segments retransmitted, {without} without handoff; {:?}",
        multicast.handoffs
    );
}

#[test]
fn live_an_mh_is_handed_over_by_multicast_between_namespaces() {
    if goes_on_here() {
        assert_handed_over(&run("live"));
    }
}

#[test]
fn linux_an_mh_is_handed_over_by_multicast_between_namespaces() {
    let test = "linux_an_mh_is_handed_over_by_multicast_between_namespaces";
    if available_or_skip(test).is_some() {
        assert_handed_over(&run("linux"));
    }
}
