// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile --scheme wake`, on an unmodified sender: an outage that nobody foresaw, what a
//! pause leaves, request and response, upload in the same flow, the daemon's death and hang.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;

use super::mobile_host::{Mobile, plain};
use super::{PORT, assert_shorter_than, await_that, connection, fh, start_link};

const MB: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// More than the way holds without a queue: a bulk download.
const ANSWER_BYTES: usize = 400_000;

pub(super) fn with_outages(outages: &[(f64, f64)]) -> EmulatedLink {
    let outages = outages.iter().map(|(at_s, for_s)| OutageAt {
        at_s: *at_s,
        for_s: *for_s,
    });
    EmulatedLink {
        outages: outages.collect(),
        ..EmulatedLink::default()
    }
}

/// A number that the FH's TCP counts, by its name in `/proc/net/netstat`.
pub(super) fn counted(harness: &Harness, name: &str) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/netstat");
    let text = harness.topology.fh.run(read).unwrap().unwrap();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let pair = lines
        .chunks(2)
        .find_map(|pair| Some((pair[1].clone(), pair[0].iter().position(|n| *n == name)?)));
    let (values, at) = pair.unwrap_or_else(|| panic!("nothing is called {name}"));
    values[at].parse().unwrap()
}

/// Bytes that the FH has sent, or is to send, and that are not acknowledged.
fn unacknowledged(harness: &Harness) -> u64 {
    let mut command = harness.topology.fh.command("ss");
    let filter = format!("sport = :{PORT}");
    command.args(["-Htn", "state", "established", &filter]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let of = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    text.lines().filter_map(of).sum()
}

/// Both ends of a connection, of which the FH has sent `bytes` and the MH read them, and no end
/// has closed.
pub(super) fn burst(harness: &Harness, bytes: usize) -> (TcpStream, TcpStream) {
    let (at_fh, at_mh) = connection(harness, fh(), PORT);
    read_burst(&at_fh, &at_mh, bytes);
    (at_fh, at_mh)
}

pub(super) fn read_burst(mut at_fh: &TcpStream, mut at_mh: &TcpStream, bytes: usize) {
    std::thread::scope(|scope| {
        scope.spawn(move || at_fh.write_all(&vec![7; bytes]).unwrap());
        at_mh.read_exact(&mut vec![0; bytes]).unwrap();
    });
}

/// A download through an outage: how long nothing came after the link's return, in milliseconds, and
/// how long all of it took, in nanoseconds.
fn through_an_outage(scheme: Option<&str>) -> (u64, u64) {
    let mut harness = plain(with_outages(&[(3.0, 5.0)]));
    let mobile = scheme.map(|scheme| Mobile::start(&harness, scheme, &[]));
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 14 * MB, 5);
    let start_ns = start_link(&mut harness);
    let received = flow.finish().unwrap();
    let took_ns = received.arrivals.last().unwrap().at_ns - start_ns;
    if let Some(mobile) = mobile {
        assert!(mobile.counter("path.held_back") > 100);
        assert_eq!(mobile.counter("path.held_not"), 0);
        assert!(mobile.counter("host.acks-made") > 0);
    }
    (received.stall_ms(start_ns + 8 * SECOND_NS), took_ns)
}

#[test]
fn an_outage_that_nobody_foresaw_ends_in_data_within_a_few_round_trips() {
    in_virtual_kernel!();
    let without = through_an_outage(None);
    let wake = through_an_outage(Some("wake"));
    let figures = format!("stall in ms, all in ns: {without:?} without, {wake:?} with wake");
    println!("{figures}");
    // In its back-off the sender is silent for seconds, unless it happens to try just then; two
    // round trips are 100 ms.
    assert_shorter_than((without.0 / 2).clamp(300, 1_000), &figures, wake.0);
    assert!(wake.1 < without.1 + SECOND_NS / 4, "{figures}");
}

#[test]
fn several_outages_in_a_row_and_upload_in_the_same_flow_harm_no_byte() {
    in_virtual_kernel!();
    let outages = [(2.0, 1.0), (3.3, 0.8), (4.25, 0.3), (5.0, 2.0)];
    let mut harness = plain(with_outages(&outages));
    let mobile = Mobile::start(&harness, "wake", &[]);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let [up_from, up_to] = [&at_mh, &at_fh].map(|end| end.try_clone().unwrap());
    let uplink = Flow::start(up_from, up_to, 8 * MB, 6);
    let downlink = Flow::start(at_fh, at_mh, 14 * MB, 7);
    start_link(&mut harness);
    // By their hashes.
    uplink.finish().unwrap();
    downlink.finish().unwrap();
    assert!(mobile.counter("path.held_back") > 100);
    assert_eq!(mobile.counter("path.held_not"), 0);
}

#[test]
fn a_pause_leaves_nothing_unacknowledged_and_provokes_no_probe() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "wake", &[]);
    let (at_fh, at_mh) = burst(&harness, 4_000_000);
    for _ in 0..8 {
        await_that("all is acknowledged", || unacknowledged(&harness) == 0);
        read_burst(&at_fh, &at_mh, 1_500_000);
    }
    await_that("all is acknowledged", || unacknowledged(&harness) == 0);
    assert!(mobile.counter("path.held_back") > 100);
    // The queue's own losses may have some; a probe each pause would be nine.
    let probes = counted(&harness, "TCPLossProbes");
    assert!(probes <= 2, "{probes} probes");
}

#[test]
fn after_a_down_that_no_up_follows_pauses_provoke_no_probe_either() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "wake", &[]);
    let (at_fh, at_mh) = burst(&harness, 4_000_000);
    await_that("all is acknowledged", || unacknowledged(&harness) == 0);
    let before = mobile.counter("path.held_back");
    mobile.signal(&["down"]);
    for _ in 0..8 {
        read_burst(&at_fh, &at_mh, 2_500_000);
        await_that("all is acknowledged", || unacknowledged(&harness) == 0);
    }
    assert!(mobile.counter("path.held_back") > before);
    // The first pause or two show that the link is up; then there would be a probe each.
    let probes = counted(&harness, "TCPLossProbes");
    assert!(probes <= 4, "{probes} probes");
}

#[test]
fn a_request_after_a_long_answer_is_answered_as_soon_as_without() {
    in_virtual_kernel!();
    let run = |scheme: Option<&str>| {
        let harness = plain(EmulatedLink::default());
        let mobile = scheme.map(|scheme| Mobile::start(&harness, scheme, &[]));
        // A download: of shorter answers nothing is held back.
        let (mut at_fh, mut at_mh) = burst(&harness, 8_000_000);
        let mut times = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut request = [0; 100];
                while at_fh.read_exact(&mut request).is_ok() {
                    at_fh.write_all(&vec![7; ANSWER_BYTES]).unwrap();
                }
            });
            for _ in 0..40 {
                let began = monotonic_ns();
                at_mh.write_all(&[1; 100]).unwrap();
                at_mh.read_exact(&mut vec![0; ANSWER_BYTES]).unwrap();
                times.push(Duration::from_nanos(monotonic_ns() - began));
            }
            at_mh.shutdown(std::net::Shutdown::Write).unwrap();
        });
        times.sort_unstable();
        let held = mobile.map_or(0, |mobile| mobile.counter("path.held_back"));
        (
            times[20],
            times[38],
            counted(&harness, "TCPLossProbes"),
            held,
        )
    };
    let (plain, wake) = (run(None), run(Some("wake")));
    let figures = format!("median, 38th of 40, probes, held: {plain:?}, {wake:?} with wake");
    println!("{figures}");
    // Held back for a pause or an answer's end, each would take 100 ms more; a round trip is 50.
    let later = Duration::from_millis(40);
    let is_as_soon = wake.0 < plain.0 + later && wake.1 < plain.1 + later;
    let has_as_few_probes = wake.2 <= plain.2 + 1;
    let is_held = wake.3 > 40;
    assert!(is_as_soon && has_as_few_probes && is_held, "{figures}");
}

#[test]
fn a_daemon_that_dies_or_hangs_leaves_nothing_held_back() {
    in_virtual_kernel!();
    for signal in [libc::SIGKILL, libc::SIGSTOP] {
        let harness = plain(EmulatedLink::default());
        let mut mobile = Mobile::start(&harness, "wake", &[]);
        let (mut at_fh, mut at_mh) = connection(&harness, fh(), PORT);
        let (part, parts) = (1_000_000, 20);
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                at_fh.write_all(&vec![7; part * parts]).unwrap();
                at_fh
            });
            let mut read = || at_mh.read_exact(&mut vec![0; part]).unwrap();
            let mut held_back = 0;
            let held_after = (1..parts).find(|_| {
                read();
                held_back = mobile.counter("path.held_back");
                held_back > 100
            });
            let held_after = held_after.unwrap_or_else(|| panic!("{held_back} held back"));
            mobile.child.signal(signal).unwrap();
            (held_after..parts).for_each(|_| read());
            // It stays open: no FIN says the true number.
            let open = sending.join().unwrap();
            await_that("all is acknowledged", || unacknowledged(&harness) == 0);
            drop(open);
        });
        if signal == libc::SIGSTOP {
            mobile.child.signal(libc::SIGCONT).unwrap();
            await_that("it goes on", || mobile.status().is_some());
        }
    }
}
