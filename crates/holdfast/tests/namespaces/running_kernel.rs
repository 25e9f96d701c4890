// SPDX-License-Identifier: Apache-2.0
//! What must work on the running kernel: programs attach, bytes arrive through NAT, after a kill, a
//! restart and an outage, and nothing is left behind. No test here judges a time; each waits for
//! 30 s at most.

use std::io::Write as _;

use holdfast_net::lccwe::select;
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::tcp_info::TcpInfo;
use holdfast_testbed::harness::Flow;
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{TopologySettings, load_rules};

use super::mobile_host::{MB, Mobile, plain};
use super::router::MASQUERADE;
use super::sources::{daemon_with_pipe, link};
use super::{PORT, SCHEMES, await_that, connection, fh, harness, topology, wired};

/// A router that masquerades, with a stateful firewall.
fn masquerading() -> TopologySettings {
    TopologySettings {
        gateway_nft: MASQUERADE.into(),
        ..wired(1500)
    }
}

/// Devices, queueing disciplines and programs at interfaces, as `ip`, `tc` and `nft` show them.
fn state_of(ns: &NetNs) -> String {
    let commands = "ip -o link | cut -d: -f2; tc qdisc show; nft list ruleset; ip rule; \
        for device in $(ls /sys/class/net); do tc filter show dev $device ingress; \
        tc filter show dev $device egress; done";
    let run = || {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", commands]).output().unwrap()
    };
    String::from_utf8(ns.run(run).unwrap().stdout).unwrap()
}

/// Linux 6.6 and later: programs go with the process that attached them.
fn has_tcx() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    let version: [u32; 2] = [(); 2].map(|()| numbers.next().unwrap_or(0));
    version >= [6, 6]
}

#[test]
fn bytes_arrive_through_nat_a_kill_a_restart_and_a_stop() {
    if !available_or_skip("bytes_arrive_through_nat_a_kill_a_restart_and_a_stop") {
        return;
    }
    for scheme in SCHEMES {
        let mut harness = topology(&masquerading(), Some(scheme));
        harness.stop_gateway().unwrap();
        let before = state_of(harness.topology.gateway());
        harness.start_gateway().unwrap();
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let back = (at_mh.try_clone().unwrap(), at_fh.try_clone().unwrap());
        let downlink = Flow::start(at_fh, at_mh, 300 * MB, 1);
        let uplink = Flow::start(back.0, back.1, 20 * MB, 2);
        downlink.wait_bytes(10 * MB).unwrap();
        harness.kill_gateway().unwrap();
        downlink.wait_bytes(40 * MB).unwrap();
        harness.start_gateway().unwrap();
        downlink.wait_bytes(80 * MB).unwrap();
        harness.stop_gateway().unwrap();
        let mut after = state_of(harness.topology.gateway());
        if !has_tcx() {
            // The next gateway keeps the qdisc that a kill has left (docs/data-path.md).
            let lines = after.split_inclusive('\n');
            after = lines
                .filter(|line| !line.starts_with("qdisc clsact "))
                .collect();
        }
        assert_eq!(after, before, "{scheme}");
        for flow in [downlink, uplink] {
            flow.finish()
                .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        }
    }
}

#[test]
fn transfers_go_on_when_an_ethernet_has_its_carrier_again() {
    if !available_or_skip("transfers_go_on_when_an_ethernet_has_its_carrier_again") {
        return;
    }
    for scheme in SCHEMES {
        let harness = harness(&wired(1500), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let stop = StopFlag::default();
        let flow = Flow::start_until(&stop, at_fh, at_mh, 3);
        flow.wait_bytes(10 * MB).unwrap();
        harness.topology.set_mh_device(false).unwrap();
        await_that("the gateway reports the link down", || {
            let status = harness.gateway.as_ref().unwrap().status();
            status.is_ok_and(|status| status["mobiles"][0]["link"] == "down")
        });
        let before = flow.watch().bytes();
        harness.topology.set_mh_device(true).unwrap();
        flow.wait_bytes(before + 10 * MB).unwrap();
        stop.raise();
        flow.finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
    }
}

#[test]
fn the_mobiles_programs_attach_and_a_killed_daemon_leaves_none() {
    if !available_or_skip("the_mobiles_programs_attach_and_a_killed_daemon_leaves_none") {
        return;
    }
    for scheme in ["wake", "freeze", "keep"] {
        let harness = plain(EmulatedLink::default());
        let before = state_of(&harness.topology.mh);
        let mut mobile = Mobile::start(&harness, scheme, &[]);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 4 * MB, 4);
        flow.wait_bytes(MB).unwrap();
        mobile.signal(&["down"]);
        mobile.signal(&["up"]);
        mobile.child.kill().unwrap();
        flow.finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        await_that("nothing is left", || {
            state_of(&harness.topology.mh) == before
        });
    }
}

#[test]
fn the_congestion_control_follows_the_reports_of_the_mobiles_daemon() {
    if !available_or_skip("the_congestion_control_follows_the_reports_of_the_mobiles_daemon") {
        return;
    }
    // Instead of an outage that a clock ends.
    let lost = "table inet radio { chain forward { type filter hook forward priority 0; drop; }; }";
    let name = format!("hfe{}", std::process::id());
    let own = format!("congestion_control = {name:?}");
    // The window in the outage: with our congestion control, and with Reno.
    let window = |is_ours: bool| {
        let harness = plain(EmulatedLink::default());
        let (daemon, mut pipe) = daemon_with_pipe(&harness, "fast-retransmit", &own, "");
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        select(&at_mh, if is_ours { &name } else { "reno" }).unwrap();
        let watched = at_mh.try_clone().unwrap();
        let stop = StopFlag::default();
        let flow = Flow::start_until(&stop, at_mh, at_fh, 5);
        flow.wait_bytes(MB / 2).unwrap();
        writeln!(pipe, "down").unwrap();
        await_that("the daemon knows", || link(&daemon) == "down");
        let info = || TcpInfo::of(&watched).unwrap();
        // On a busy machine ACKs may be late: a timeout before the report is congestion's.
        // Each timeout after the report keeps the window.
        await_that("the window is open after the report", || {
            info().backoff == 0 && info().snd_cwnd >= 20
        });
        load_rules(harness.topology.gateway(), lost).unwrap();
        let mut in_outage = 0;
        await_that("two timeouts", || {
            let info = info();
            in_outage = info.snd_cwnd;
            info.backoff >= 2
        });
        let before = flow.watch().bytes();
        load_rules(harness.topology.gateway(), "delete table inet radio").unwrap();
        writeln!(pipe, "up").unwrap();
        flow.wait_bytes(before + MB).unwrap();
        stop.raise();
        flow.finish().unwrap();
        in_outage
    };
    let (ours, reno) = (window(true), window(false));
    let figures = format!("window after two timeouts: {ours} segments, Reno's {reno}");
    println!("{figures}");
    assert!(reno <= 2 && ours >= 10, "{figures}");
}
