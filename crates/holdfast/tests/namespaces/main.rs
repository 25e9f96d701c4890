// SPDX-License-Identifier: Apache-2.0
//! Real sockets through `holdfast gateway` and `holdfast mobile`, in network namespaces.
//!
//! Each test runs in a virtual kernel of its own: the load of the machine changes no verdict.
//! Without a virtual kernel the tests are skipped; with `HOLDFAST_NO_SKIP=1` they fail.
//! Those of [`running_kernel`] run on this machine's kernel, and judge no time.

/// The first line of each test. Outside of a virtual kernel it runs the test in one, and returns.
macro_rules! in_virtual_kernel {
    () => {
        if !holdfast_net::virtual_kernel::goes_on_here() {
            return;
        }
    };
}

mod absence;
mod auto;
mod bulk;
mod compression;
mod drain;
mod early;
mod handoff;
mod keep;
mod link_type;
mod losses;
mod mobile_guard;
mod mobile_host;
mod mobile_wake;
mod mobile_wake_senders;
mod next_hop;
mod operations;
mod outages;
mod path_mtu;
mod reload;
mod renamed;
mod restart;
mod router;
mod running_kernel;
mod service;
mod several;
mod snoop_uplink;
mod sources;
mod transparency;
mod units;
mod uploads;
mod uploads_by_gateway;
mod vehicle;

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

/// All schemes.
const SCHEMES: [&str; 5] = ["auto", "hold", "mtcp-plus", "snoop", "keep"];

/// The schemes that see each TCP segment.
const TCP_SCHEMES: [&str; 4] = ["auto", "hold", "mtcp-plus", "snoop"];

/// A veth pair instead of the link.
fn wired(mtu: u32) -> TopologySettings {
    TopologySettings::new(HOLDFAST, Wireless::Veth { mtu })
}

/// An emulated link.
fn emulated(link: EmulatedLink) -> TopologySettings {
    TopologySettings::new(HOLDFAST, Wireless::Emulated(link))
}

/// Topology and gateway.
fn harness(settings: &TopologySettings, scheme: &str) -> Harness {
    topology(settings, Some(scheme))
}

/// The same; without a scheme there is no gateway.
fn topology(settings: &TopologySettings, scheme: Option<&str>) -> Harness {
    let thread = std::thread::current();
    let test = thread.name().expect("the thread of a test has a name");
    let harness = Harness::new(test, settings, scheme).unwrap();
    harness.expect("namespaces and BPF programs can be had in a virtual kernel")
}

#[track_caller]
fn assert_shorter_than(limit_ms: u64, what: &str, measured_ms: u64) {
    assert!(
        measured_ms < limit_ms,
        "{what}: {measured_ms} ms, to be less than {limit_ms}"
    );
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

/// Starts the clock of the link's outages. Returns the time.
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
