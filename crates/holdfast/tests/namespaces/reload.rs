// SPDX-License-Identifier: Apache-2.0
//! Settings files that are read again while flows live.

use std::fmt::Write as _;

use holdfast_testbed::daemons::{Daemon, make_key};
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::stop::StopFlag;
use serde_json::Value;

use super::{HOLDFAST, PORT, await_that, connection, fh, harness, wired};

const MB: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

fn status(harness: &Harness) -> Value {
    harness.gateway.as_ref().unwrap().status().unwrap()
}

fn log(harness: &Harness) -> String {
    std::fs::read_to_string(harness.folder().join("gateway.log")).unwrap()
}

/// Has the gateway read this file, and waits until its log has a line.
fn reload(harness: &mut Harness, file: &str, line: &str) {
    let before = log(harness).len();
    std::fs::write(harness.folder().join("gateway.toml"), file).unwrap();
    harness.signal_gateway(libc::SIGHUP).unwrap();
    await_that(line, || log(harness)[before..].contains(line));
}

#[test]
fn in_mid_transfer_limits_and_keys_change_and_the_rest_is_named() {
    in_virtual_kernel!();
    let mut harness = harness(&wired(1500), "hold");
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 100 * MB, 7);
    flow.wait_bytes(MB).unwrap();
    assert_eq!(status(&harness)["cache"]["bytes_max"], 256 * MIB);
    let key = make_key(HOLDFAST.as_ref(), harness.folder()).unwrap();
    let mut file =
        "[gateway]\ncache_bytes_max = \"32 MiB\"\nflows_max = 100\nscheme = \"snoop\"\n".to_owned();
    let _ = writeln!(
        file,
        "[[mobile]]\nname = \"mh\"\nkey_file = {key:?}\naddresses = [\"10.0.0.0/8\", \"fd00::/8\"]"
    );
    let applied = "the settings were read again; applied: gateway.cache_bytes_max, mobile";
    reload(&mut harness, &file, applied);
    assert!(log(&harness).contains("gateway.flows_max: not applied"));
    assert!(log(&harness).contains("gateway.scheme: no effect, the flag --scheme stands over it"));
    await_that("the worker has its limit", || {
        status(&harness)["cache"]["bytes_max"] == 32 * MIB
    });
    assert_eq!(status(&harness)["flows"]["flows_max"], 65_536);
    // Its key is taken, and the socket for its signals is open.
    let (topology, folder) = (&harness.topology, harness.folder());
    let stop = StopFlag::default();
    let mobile = Daemon::start_mobile(topology, HOLDFAST.as_ref(), Some(&key), "", folder, &stop);
    let mobile = mobile.unwrap();
    await_that("the mobile is registered", || {
        status(&harness)["mobiles"][0]["epoch"] == 1
    });
    let refused = "key `gateway.cache_bytes_max`: got 5";
    reload(&mut harness, "[gateway]\ncache_bytes_max = 5\n", refused);
    assert!(log(&harness).contains("the settings of before stay in force"));
    assert_eq!(status(&harness)["cache"]["bytes_max"], 32 * MIB);
    assert_eq!(status(&harness)["mobiles"][0]["name"], "mh");
    drop(mobile);
    assert_eq!(flow.finish().unwrap().bytes(), 100 * MB);
    harness.stop_gateway().unwrap();
}
