// SPDX-License-Identifier: Apache-2.0
//! What a mobile without a daemon sends, through outages that the gateway detects.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::Flow;
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::TopologySettings;

use super::mobile_host::{MB, Mobile};
use super::mobile_wake::with_outages;
use super::{
    PORT, assert_shorter_than, await_outage, connection, emulated, fh, start_link, topology,
};

const SECOND_NS: u64 = 1_000_000_000;
/// When outages begin, and how long they last, in seconds.
const OUTAGES: [(u64, u64); 3] = [(1, 1), (4, 3), (10, 7)];
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
const SCHEMES: [&str; 2] = ["auto", "hold"];
/// The longest stall if the carrier reports the outage. With a long queue Cubic waits for its timer: more ACKs may
/// have been lost than go ahead.
const REPORTED_STALL_MAX_MS: u64 = 450;
/// The longest stall if the gateway detects the outage by silence.
const DETECTED_STALL_MAX_MS: u64 = 260;
/// The longest stall with the mobile's own daemon. Seen: 255 once, 96 otherwise.
const DAEMON_STALL_MAX_MS: u64 = 300;

/// A round trip is 50 ms.
fn link(outages: &[(u64, u64)], carrier_follows: bool) -> EmulatedLink {
    let outages: Vec<_> = outages
        .iter()
        .map(|(at, length)| (*at as f64, *length as f64))
        .collect();
    EmulatedLink {
        carrier_follows,
        ..with_outages(&outages)
    }
}

/// From each link up to the first new byte at the FH, in milliseconds.
fn stalls_ms(control: &str, scheme: &str, carrier_follows: bool, daemon: bool) -> [u64; 3] {
    let settings = TopologySettings {
        congestion_control: control.to_owned(),
        ..emulated(link(&OUTAGES, carrier_follows))
    };
    let mut harness = topology(&settings, Some(scheme));
    let _mobile = daemon.then(|| Mobile::start(&harness, "auto", &[]));
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_mh, at_fh, 17 * MB, 5);
    let start_ns = start_link(&mut harness);
    let received = flow.finish().unwrap();
    let up_ns = OUTAGES.map(|(at, length)| start_ns + (at + length) * SECOND_NS);
    let stalls = up_ns.map(|up_ns| received.stall_ms(up_ns));
    println!(
        "{control}, gateway {scheme}, daemon {daemon}, carrier {carrier_follows}: {stalls:?} ms"
    );
    stalls
}

#[test]
fn with_a_report_an_upload_stalls_for_less_than_half_a_second() {
    in_virtual_kernel!();
    for control in CONTROLS {
        for scheme in SCHEMES {
            let stalls = stalls_ms(control, scheme, true, false);
            for stall_ms in stalls {
                assert_shorter_than(REPORTED_STALL_MAX_MS, scheme, stall_ms);
            }
        }
    }
}

#[test]
fn without_a_report_an_upload_stalls_for_three_round_trips_and_a_probe() {
    in_virtual_kernel!();
    for control in CONTROLS {
        for scheme in SCHEMES {
            let stalls = stalls_ms(control, scheme, false, false);
            for stall_ms in stalls {
                assert_shorter_than(DETECTED_STALL_MAX_MS, scheme, stall_ms);
            }
        }
    }
}

#[test]
fn a_gateway_does_not_disturb_the_mobiles_own_daemon() {
    in_virtual_kernel!();
    for control in CONTROLS {
        for carrier_follows in [true, false] {
            for scheme in SCHEMES {
                let stalls = stalls_ms(control, scheme, carrier_follows, true);
                for stall_ms in stalls {
                    assert_shorter_than(DAEMON_STALL_MAX_MS, scheme, stall_ms);
                }
            }
        }
    }
}

/// From link up to the arrival of a request that the MH sends in the outage, in milliseconds.
fn request_ms(scheme: Option<&str>) -> u64 {
    let mut harness = topology(&emulated(link(&[(1, 7)], true)), scheme);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let exchange = |mut from: &TcpStream, mut to: &TcpStream| {
        from.write_all(&[1; 100]).unwrap();
        to.read_exact(&mut [0; 100]).unwrap();
    };
    exchange(&at_mh, &at_fh);
    exchange(&at_fh, &at_mh);
    let start_ns = start_link(&mut harness);
    await_outage(&harness);
    let mut request = &at_mh;
    let arrival = thread::spawn(move || {
        (&at_fh).read_exact(&mut [0; 100]).unwrap();
        monotonic_ns()
    });
    request.write_all(&[2; 100]).unwrap();
    let arrival_ms = (arrival.join().unwrap() - start_ns - 8 * SECOND_NS) / 1_000_000;
    println!("gateway {scheme:?}: the request arrives after {arrival_ms} ms");
    arrival_ms
}

#[test]
fn a_request_of_the_outage_arrives_soon_after_link_up() {
    in_virtual_kernel!();
    let plain_ms = request_ms(None);
    for scheme in SCHEMES {
        let arrival_ms = request_ms(Some(scheme));
        assert_shorter_than(plain_ms / 2, scheme, arrival_ms);
    }
}
