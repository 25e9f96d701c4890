// SPDX-License-Identifier: Apache-2.0
//! Real sockets of real kernels through `holdfast gateway`, in network
//! namespaces. A test that cannot have namespaces says so loudly and passes;
//! with `HOLDFAST_NO_SKIP=1` it fails.

mod bulk;
mod compression;
mod drain;
mod early;
mod handoff;
mod keep;
mod losses;
mod mobile_guard;
mod mobile_host;
mod mobile_wake;
mod mobile_wake_senders;
mod operations;
mod path_mtu;
mod restart;
mod router;
mod snoop_uplink;
mod sources;
mod transparency;
mod units;

use std::net::{IpAddr, TcpStream};

use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Harness, SOCKET_LIMIT, accept, connect, listen};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, TopologySettings, Wireless};

/// The port on which the FH listens in these tests.
const PORT: u16 = 700;

/// The binary under test.
const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

/// What must hold holds for each scheme.
const SCHEMES: [&str; 4] = ["hold", "mtcp-plus", "snoop", "keep"];

/// Those that know TCP, and see each segment.
const TCP_SCHEMES: [&str; 3] = ["hold", "mtcp-plus", "snoop"];

/// A veth pair in place of the link.
fn wired(mtu: u32) -> TopologySettings {
    TopologySettings::new(HOLDFAST, Wireless::Veth { mtu })
}

/// An emulated link.
fn emulated(link: EmulatedLink) -> TopologySettings {
    TopologySettings::new(HOLDFAST, Wireless::Emulated(link))
}

/// Topology and gateway; none: skipped.
fn harness(test: &str, settings: &TopologySettings, scheme: &str) -> Option<Harness> {
    Harness::new(test, settings, Some(scheme)).unwrap_or_else(|error| panic!("{test}: {error:#}"))
}

/// A connection that the MH opened to the FH: the FH's end and the MH's.
fn connection(harness: &Harness, address: IpAddr, port: u16) -> (TcpStream, TcpStream) {
    let listener = listen(&harness.topology.fh, address, port).unwrap();
    let at_mh = connect(&harness.topology.mh, address, port).unwrap();
    let (at_fh, _) = accept(&listener).unwrap();
    (at_fh, at_mh)
}

/// The FH's IPv4 address.
fn fh() -> IpAddr {
    FH.v4.into()
}

/// Starts the clock of the link's outages; when that was.
fn start_link(harness: &mut Harness) -> u64 {
    let start_ns = monotonic_ns();
    let link = harness.topology.cells[0].link.as_mut().unwrap();
    link.start_clock(start_ns).unwrap();
    start_ns
}

/// Waits until the condition holds.
fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    StopFlag::default()
        .wait_for(what, SOCKET_LIMIT, || Ok(condition().then_some(())))
        .unwrap();
}

/// Waits until the link's outage has begun.
fn await_outage(harness: &Harness) {
    let link = harness.topology.cells[0].link.as_ref().unwrap();
    await_that("the outage begins", || !link.is_up());
}
