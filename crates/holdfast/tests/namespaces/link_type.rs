// SPDX-License-Identifier: Apache-2.0
//! An interface whose frames begin with another header from some moment on, as those of a modem that is
//! set to raw IP.

use std::fs::{File, read_to_string};

use holdfast_net::rtnl::Rtnl;
use holdfast_net::tun::{LayerKind, Tun, TunOptions};
use holdfast_testbed::daemons::status_at;

use super::{HOLDFAST, await_that, topology, wired};

const MODEM_IF: &str = "wwan0";

/// `ARPHRD_ETHER` and `ARPHRD_RAWIP`, and the data path for each.
const ETHERNET: (u16, &str) = (1, "tc-tap");
const RAW_IP: (u16, &str) = (519, "tc-tun");

#[test]
fn an_interface_that_changes_between_ethernet_and_raw_ip_is_attached_to_again() {
    in_virtual_kernel!();
    let harness = topology(&wired(1500), None);
    let gateway = harness.topology.gateway();
    let modem = || {
        Tun::create(&TunOptions {
            name: MODEM_IF.into(),
            kind: LayerKind::Ethernet,
            up: true,
            ..TunOptions::default()
        })
    };
    let modem = gateway.run(modem).unwrap().unwrap();
    let socket = harness.folder().join("gateway.sock");
    let mut command = gateway.command(HOLDFAST);
    command.args(["gateway", "--wireless", MODEM_IF, "--control-socket"]);
    command.arg(&socket).arg("--state-file");
    let log = harness.folder().join("modem.log");
    command
        .arg(harness.folder().join("state"))
        .stderr(File::create(&log).unwrap());
    let _daemon = gateway.spawn_guarded(command).unwrap();
    let await_path = |path: &str| {
        await_that(path, || {
            let is_served = |status: &serde_json::Value| {
                status["attached"] == true && status["data_path"] == path
            };
            status_at(&socket).is_ok_and(|status| is_served(&status))
        });
    };
    await_path(ETHERNET.1);
    for (link_type, path) in [RAW_IP, ETHERNET] {
        let change = || {
            let rtnl = Rtnl::open()?;
            rtnl.set_down(modem.ifindex())?;
            modem.set_link_type(link_type)?;
            rtnl.set_up(modem.ifindex())
        };
        gateway.run(change).unwrap().unwrap();
        await_path(path);
    }
    // Nothing but a change is a reason.
    let attached = || {
        read_to_string(&log)
            .unwrap()
            .matches("attached again")
            .count()
    };
    await_that("the log is written", || attached() >= 2);
    assert_eq!(attached(), 2);
}
