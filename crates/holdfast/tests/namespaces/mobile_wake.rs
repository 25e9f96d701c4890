// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile --scheme wake` with an unmodified sender: an outage without a warning, pauses, request
//! and response, an upload in the same flow, a daemon that dies or hangs.

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
/// More than the bandwidth-delay product: a bulk download.
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

/// A counter of the FH's TCP in `/proc/net/netstat`.
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
    let (values, at) = pair.unwrap_or_else(|| panic!("no counter {name}"));
    values[at].parse().unwrap()
}

/// Bytes in the FH's send queue that are not acknowledged.
fn unacknowledged(harness: &Harness) -> u64 {
    let mut command = harness.topology.fh.command("ss");
    let filter = format!("sport = :{PORT}");
    command.args(["-Htn", "state", "established", &filter]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let queued = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    text.lines().filter_map(queued).sum()
}

/// An open connection: the FH has sent `bytes`, and the MH has read them.
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

/// A download through an outage: the stall after link up in milliseconds, and the whole transfer in
/// nanoseconds.
fn through_an_outage(scheme: Option<&str>) -> (u64, u64) {
    let mut harness = plain(with_outages(&[(3.0, 5.0)]));
    let mobile = scheme.map(|scheme| Mobile::start(&harness, scheme, &[]));
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 14 * MB, 5);
    let start_ns = start_link(&mut harness);
    let received = flow.finish().unwrap();
    let took_ns = received.arrivals.last().unwrap().at_ns - start_ns;
    if let Some(mobile) = mobile {
        assert!(mobile.counter("path.withheld") > 100);
        assert_eq!(mobile.counter("path.not_withheld"), 0);
        assert!(mobile.counter("host.acks-made") > 0);
    }
    (received.stall_ms(start_ns + 8 * SECOND_NS), took_ns)
}

#[test]
fn data_arrives_a_few_round_trips_after_an_outage_without_a_warning() {
    in_virtual_kernel!();
    let without = through_an_outage(None);
    let wake = through_an_outage(Some("wake"));
    let figures = format!("stall in ms, transfer in ns: {without:?} without, {wake:?} with wake");
    println!("{figures}");
    // The sender's back-off takes seconds, unless its timer expires just then; two round trips are
    // 100 ms.
    assert_shorter_than((without.0 / 2).clamp(300, 1_000), &figures, wake.0);
    assert!(wake.1 < without.1 + SECOND_NS / 4, "{figures}");
}

#[test]
fn several_outages_and_an_upload_in_the_same_flow_harm_no_byte() {
    in_virtual_kernel!();
    let outages = [(2.0, 1.0), (3.3, 0.8), (4.25, 0.3), (5.0, 2.0)];
    let mut harness = plain(with_outages(&outages));
    let mobile = Mobile::start(&harness, "wake", &[]);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let [up_from, up_to] = [&at_mh, &at_fh].map(|end| end.try_clone().unwrap());
    let uplink = Flow::start(up_from, up_to, 8 * MB, 6);
    let downlink = Flow::start(at_fh, at_mh, 14 * MB, 7);
    start_link(&mut harness);
    uplink.finish().unwrap();
    downlink.finish().unwrap();
    assert!(mobile.counter("path.withheld") > 100);
    assert_eq!(mobile.counter("path.not_withheld"), 0);
}

#[test]
fn in_a_pause_all_bytes_are_acknowledged_and_the_fh_sends_no_probe() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "wake", &[]);
    let (at_fh, at_mh) = burst(&harness, 4_000_000);
    for _ in 0..8 {
        await_that("all bytes are acknowledged", || {
            unacknowledged(&harness) == 0
        });
        read_burst(&at_fh, &at_mh, 1_500_000);
    }
    await_that("all bytes are acknowledged", || {
        unacknowledged(&harness) == 0
    });
    assert!(mobile.counter("path.withheld") > 100);
    // Losses in the queue may cause some; a probe in each pause would be nine.
    let probes = counted(&harness, "TCPLossProbes");
    assert!(probes <= 2, "{probes} probes");
}

#[test]
fn after_a_down_without_an_up_pauses_cause_no_probe() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "wake", &[]);
    let (at_fh, at_mh) = burst(&harness, 4_000_000);
    await_that("all bytes are acknowledged", || {
        unacknowledged(&harness) == 0
    });
    let before = mobile.counter("path.withheld");
    mobile.signal(&["down"]);
    for _ in 0..8 {
        read_burst(&at_fh, &at_mh, 2_500_000);
        await_that("all bytes are acknowledged", || {
            unacknowledged(&harness) == 0
        });
    }
    assert!(mobile.counter("path.withheld") > before);
    // One or two pauses show that the link is up; a probe in each would be eight.
    let probes = counted(&harness, "TCPLossProbes");
    assert!(probes <= 4, "{probes} probes");
}

#[test]
fn wake_delays_no_answer_after_a_long_download() {
    in_virtual_kernel!();
    let run = |scheme: Option<&str>| {
        let harness = plain(EmulatedLink::default());
        let mobile = scheme.map(|scheme| Mobile::start(&harness, scheme, &[]));
        // A download: nothing is withheld in shorter answers.
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
        let held = mobile.map_or(0, |mobile| mobile.counter("path.withheld"));
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
    // An ACK withheld until a pause would delay each answer by 100 ms; a round trip is 50 ms.
    let delay_max = Duration::from_millis(40);
    let is_as_soon = wake.0 < plain.0 + delay_max && wake.1 < plain.1 + delay_max;
    let has_as_few_probes = wake.2 <= plain.2 + 1;
    let is_held = wake.3 > 40;
    assert!(is_as_soon && has_as_few_probes && is_held, "{figures}");
}

#[test]
fn a_daemon_that_dies_or_hangs_leaves_no_ack_withheld() {
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
            let mut withheld = 0;
            let withheld_after = (1..parts).find(|_| {
                read();
                withheld = mobile.counter("path.withheld");
                withheld > 100
            });
            let withheld_after = withheld_after.unwrap_or_else(|| panic!("{withheld} withheld"));
            mobile.child.signal(signal).unwrap();
            (withheld_after..parts).for_each(|_| read());
            // The connection stays open, so no FIN carries the true ACK.
            let open = sending.join().unwrap();
            await_that("all bytes are acknowledged", || {
                unacknowledged(&harness) == 0
            });
            drop(open);
        });
        if signal == libc::SIGSTOP {
            mobile.child.signal(libc::SIGCONT).unwrap();
            await_that("the daemon answers", || mobile.status().is_some());
        }
    }
}
