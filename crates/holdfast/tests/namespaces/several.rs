// SPDX-License-Identifier: Apache-2.0
//! One gateway with two wireless interfaces.

use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_net::rtnl::Rtnl;
use holdfast_testbed::daemons::status_at;
use holdfast_testbed::harness::{Flow, Harness, accept, connect, listen};
use holdfast_testbed::link_process::GATEWAY_IF;
use holdfast_testbed::topology::MH;
use serde_json::Value;

use super::{HOLDFAST, PORT, await_that, fh, topology, wired};

const MB: u64 = 1_000_000;

/// The second interface, and the mobile there.
const SECOND_IF: &str = "w1";
const SECOND: &str = "10.77.0.2";

/// A mobile behind a second interface of the gateway.
fn second_mobile(gateway: &NetNs) -> NetNs {
    let mh = NetNs::new().unwrap();
    let add = || Rtnl::open()?.add_veth(SECOND_IF, gateway, "m0", &mh);
    gateway.run(add).unwrap().unwrap();
    let ip = |ns: &NetNs, arguments: &str| {
        let output = ns
            .command("ip")
            .args(arguments.split(' '))
            .output()
            .unwrap();
        assert!(output.status.success(), "ip {arguments}: {output:?}");
    };
    ip(gateway, "address add 10.77.0.1/24 dev w1");
    ip(gateway, "link set w1 up");
    ip(&mh, "address add 10.77.0.2/24 dev m0");
    ip(&mh, "link set m0 up");
    ip(&mh, "route add default via 10.77.0.1");
    mh
}

/// A gateway with both interfaces.
fn start(harness: &Harness, socket: &Path) -> ChildGuard {
    let gateway = harness.topology.gateway();
    let mut command = gateway.command(HOLDFAST);
    command.args(["gateway", "--wireless", GATEWAY_IF, "--wireless", SECOND_IF]);
    command.arg("--control-socket").arg(socket);
    command
        .arg("--state-file")
        .arg(harness.folder().join("state"))
        .stderr(Stdio::null());
    gateway.spawn_guarded(command).unwrap()
}

fn is_attached(socket: &Path) -> bool {
    status_at(socket).is_ok_and(|status| status["attached"] == true)
}

#[test]
fn the_status_names_the_interface_that_is_served_and_the_one_that_is_waited_for() {
    in_virtual_kernel!();
    let harness = topology(&wired(1500), None);
    let socket = harness.folder().join("gateway.sock");
    let _daemon = start(&harness, &socket);
    let first_line = || {
        let mut command = Command::new(HOLDFAST);
        let output = command.args(["status", "--socket"]).arg(&socket).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let shown = format!("(serves {GATEWAY_IF}, scheme auto; waits for the interface {SECOND_IF})");
    await_that("the status names both interfaces", || {
        first_line().ends_with(&shown)
    });
    let _second = second_mobile(harness.topology.gateway());
    await_that("both interfaces are attached to", || is_attached(&socket));
    let line = first_line();
    assert!(!line.ends_with(')'), "{line}");
}

#[test]
fn an_outage_of_one_interface_is_none_of_the_other() {
    in_virtual_kernel!();
    let harness = topology(&wired(1500), None);
    let gateway = harness.topology.gateway();
    let second = second_mobile(gateway);
    let socket = harness.folder().join("gateway.sock");
    let _daemon = start(&harness, &socket);
    await_that("both interfaces are attached to", || is_attached(&socket));
    let connection = |mh: &NetNs, port: u16| {
        let listener = listen(&harness.topology.fh, fh(), port).unwrap();
        let at_mh = connect(mh, fh(), port).unwrap();
        (accept(&listener).unwrap().0, at_mh)
    };
    let first = connection(&harness.topology.mh, PORT);
    let second_flow = connection(&second, PORT + 1);
    let set_second = |up: bool| {
        let change = || {
            let rtnl = Rtnl::open()?;
            let ifindex = rtnl.link_index("m0")?;
            if up {
                rtnl.set_up(ifindex)?;
                let gateway: IpAddr = "10.77.0.1".parse().expect("an address");
                return rtnl.add_route("0.0.0.0".parse().expect("all"), 0, Some(gateway), ifindex);
            }
            rtnl.set_down(ifindex)
        };
        second.run(change).unwrap().unwrap();
    };
    let mobile = |address: &str| {
        let status = status_at(&socket).unwrap();
        let mobiles = status["mobiles"].as_array().unwrap().clone();
        let has = |mobile: &Value| mobile["addresses"][0] == address;
        mobiles.into_iter().find(has).unwrap_or_default()
    };
    set_second(false);
    await_that("the second link is down", || {
        mobile(SECOND)["link"] == "down"
    });
    assert_eq!(mobile(SECOND)["interface"], SECOND_IF);
    let of_first = mobile(&MH.v4.to_string());
    assert_eq!(of_first["link"], "up");
    assert_eq!(of_first["interface"], GATEWAY_IF);
    // Downloads of both. One waits for its link.
    let waiting = Flow::start(second_flow.0, second_flow.1, MB, 7);
    let flow = Flow::start(first.0, first.1, MB, 8);
    assert_eq!(flow.finish().unwrap().bytes(), MB);
    assert_eq!(waiting.watch().bytes(), 0);
    set_second(true);
    await_that("the second link is up", || mobile(SECOND)["link"] == "up");
    assert_eq!(waiting.finish().unwrap().bytes(), MB);
    for name in [GATEWAY_IF, SECOND_IF] {
        let path = harness.folder().join(format!("state.{name}"));
        assert!(path.exists(), "{path:?}");
    }
}
