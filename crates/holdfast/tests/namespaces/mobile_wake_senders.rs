// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile --scheme wake` where no report of link down or link up comes, with other
//! senders and paths, in a second outage amid the repair of the first, after false alarms, and
//! without its guard.

use std::io::{Read as _, Write as _};

use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::{FH, GATEWAY_WIRED_IF, HostTuning, TopologySettings};

use super::mobile_host::{MB, Mobile, plain};
use super::mobile_wake::{burst, counted, read_burst, with_outages};
use super::router::MASQUERADE;
use super::{
    PORT, assert_shorter_than, await_that, connection, emulated, fh, start_link, topology, wired,
};

const SECOND_NS: u64 = 1_000_000_000;

/// Without a report of it.
fn silent(outages: &[(f64, f64)]) -> EmulatedLink {
    EmulatedLink {
        carrier_follows: false,
        ..with_outages(outages)
    }
}

/// How long nothing came after the link's return at `up_s`, in milliseconds.
fn stall_ms(harness: &mut Harness, is_v6: bool, up_s: u64) -> u64 {
    let address = if is_v6 { FH.v6.into() } else { fh() };
    let (at_fh, at_mh) = connection(harness, address, PORT);
    let flow = Flow::start(at_fh, at_mh, 14 * MB, 5);
    let start_ns = start_link(harness);
    let received = flow.finish().unwrap();
    received.stall_ms(start_ns + up_s * SECOND_NS)
}

/// What the daemon counts of a silent outage.
#[derive(Debug)]
struct Silence {
    /// Outages whose end was detected.
    outages: u64,
    /// Probes of FHs.
    probes: u64,
    /// Wake-ups by the clock.
    wake_ups: u64,
}

impl Silence {
    /// One silence of five seconds: probed about ten times a second, and no more; and woken 0.3, 0.9,
    /// 1.9 ... s after it was seen, until something arrives.
    fn is_probed_as_expected(&self) {
        let is_one = self.outages == 1 && (10..60).contains(&self.probes) && self.wake_ups < 12;
        assert!(is_one, "{self:?}");
    }
}

/// Sends a download through a silent outage of 5 s until it is noticed: the stall after it in milliseconds,
/// and what the daemon counted of it. What begins at what looks like an answer's end is not noticed.
fn through_silence(settings: &TopologySettings) -> (u64, Silence) {
    for _ in 0..4 {
        let mut harness = topology(settings, None);
        let mobile = Mobile::start(&harness, "wake", &[]);
        let stall = stall_ms(&mut harness, false, 8);
        let silence = Silence {
            outages: mobile.counter("host.silent-outages"),
            probes: mobile.counter("host.probes"),
            wake_ups: mobile.counter("host.silences"),
        };
        println!("{stall} ms: {silence:?}");
        if silence.probes > 2 {
            return (stall, silence);
        }
    }
    panic!("none of four was noticed");
}

#[test]
fn an_outage_without_a_report_ends_when_an_fh_answers() {
    in_virtual_kernel!();
    let settings = emulated(silent(&[(3.0, 5.0)]));
    let (stall, silence) = through_silence(&settings);
    silence.is_probed_as_expected();
    assert_shorter_than(1_500, "the stall", stall);
}

#[test]
fn an_fh_that_pauses_in_mid_download_answers_once_and_is_left_alone() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "wake", &[]);
    // Whole segments: no answer's end.
    let part = 1_448 * 3_000;
    let (at_fh, at_mh) = burst(&harness, part);
    let pauses = 4;
    for pause in 0..pauses {
        let until = monotonic_ns() + 3 * SECOND_NS;
        await_that("some time has passed", || monotonic_ns() > until);
        if pause + 1 < pauses {
            read_burst(&at_fh, &at_mh, part);
        }
    }
    let probes = mobile.counter("host.probes");
    // Otherwise each would be probed ten times a second.
    let outages = mobile.counter("host.silent-outages");
    let figures = format!("{probes} probes, {outages} outages");
    let is_left_alone = (1..=2 * pauses).contains(&probes) && outages == 0;
    assert!(is_left_alone, "{figures}");
}

#[test]
fn a_flow_that_rests_after_a_short_message_is_not_taken_for_silent() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "wake", &[]);
    let (mut at_fh, mut at_mh) = burst(&harness, 2_000_000);
    for bytes in [300, 200] {
        at_fh.write_all(&vec![7; bytes]).unwrap();
        at_mh.read_exact(&mut vec![0; bytes]).unwrap();
        // It would be looked at twice a second, and woken 0.3 s later.
        let until = monotonic_ns() + 2 * SECOND_NS;
        await_that("some time has passed", || monotonic_ns() > until);
    }
    let silences = mobile.counter("host.silences");
    assert!(silences == 0, "{silences} silences");
}

#[test]
fn a_silent_outage_of_a_sender_that_keeps_no_queue_is_noticed() {
    in_virtual_kernel!();
    let settings = TopologySettings {
        congestion_control: "bbr".to_owned(),
        ..emulated(silent(&[(3.0, 5.0)]))
    };
    through_silence(&settings).1.is_probed_as_expected();
}

#[test]
fn senders_without_timestamps_or_by_ipv6_are_woken() {
    in_virtual_kernel!();
    let no = |name: &str| vec![(format!("net.ipv4.{name}"), "0".to_owned())];
    for (control, sysctls, is_v6) in [
        ("reno", no("tcp_timestamps"), false),
        ("bbr", Vec::new(), true),
    ] {
        let settings = TopologySettings {
            congestion_control: control.to_owned(),
            fh: HostTuning {
                sysctls,
                ..HostTuning::default()
            },
            ..emulated(with_outages(&[(3.0, 4.0)]))
        };
        let mut harness = topology(&settings, None);
        let mobile = Mobile::start(&harness, "wake", &[]);
        let stall = stall_ms(&mut harness, is_v6, 7);
        assert!(mobile.counter("host.acks-made") > 0);
        println!("{control}, IPv6 {is_v6}: {stall} ms");
        // ICMP wakes both: too few segments in a round trip, and no queue that is known of (BBR
        // keeps none; without timestamps only the handshake's round trip is known).
        assert_shorter_than(1_000, &format!("{control}, IPv6 {is_v6}"), stall);
    }
}

#[test]
fn an_outage_amid_the_repair_of_another_is_got_over_too() {
    in_virtual_kernel!();
    let outages = with_outages(&[(3.0, 2.0), (5.2, 2.0), (7.35, 3.0)]);
    let mut harness = plain(outages);
    let mobile = Mobile::start(&harness, "wake", &[]);
    // 10.35 s: the stall is that much shorter.
    let stall = stall_ms(&mut harness, false, 10);
    println!("{stall} ms after 10 s");
    // Three times, each repeated if nothing came.
    let made = mobile.counter("host.acks-made");
    assert!(made >= 3, "{made} ACKs");
    assert_shorter_than(1_350, "the stall", stall);
}

#[test]
fn false_alarms_make_no_sender_time_out() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "wake", &[]);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 12 * MB, 5);
    for bytes in [3, 5, 7] {
        flow.wait_bytes(bytes * MB).unwrap();
        mobile.signal(&["down"]);
        mobile.signal(&["up"]);
    }
    flow.finish().unwrap();
    assert!(mobile.counter("host.acks-made") >= 3);
    let [spurious, all] = ["TCPSpuriousRTOs", "TCPTimeouts"].map(|name| counted(&harness, name));
    assert_eq!((spurious, all), (0, 0), "timeouts for nothing, and all");
}

#[test]
fn forwarded_and_masqueraded_flows_are_woken_by_the_router() {
    in_virtual_kernel!();
    let settings = TopologySettings {
        gateway_nft: MASQUERADE.into(),
        wired: Some(silent(&[(0.1, 4.0)])),
        ..wired(1500)
    };
    let harness = topology(&settings, None);
    // A vehicle's router: its own uplink is what the gateway's wired side is here.
    let ns = harness.topology.gateway();
    let mobile = Mobile::start_at(ns, GATEWAY_WIRED_IF, &harness, "wake", &[]);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 32 * MB, 5);
    // In a loss recovery no ACK is withheld, and the silence is not noticed.
    await_that("ACKs are withheld", || {
        mobile.counter("path.withheld") > 1_000
    });
    let start_ns = monotonic_ns();
    let mut harness = harness;
    let link = harness.topology.wired_link.as_mut().unwrap();
    link.start_clock(start_ns).unwrap();
    for (word, after_ms) in [("down", 500), ("up", 4_100)] {
        let at_ns = start_ns + after_ms * 1_000_000;
        await_that("its time", || monotonic_ns() >= at_ns);
        mobile.signal(&[word]);
    }
    let received = flow.finish().unwrap();
    let stall = received.stall_ms(start_ns + 4_100_000_000);
    println!("{stall} ms");
    assert!(mobile.counter("host.acks-made") > 0);
    assert_shorter_than(1_500, "the stall", stall);
}

/// The processes that the daemon `parent` has started, without its broker.
pub(super) fn children(parent: u32) -> Vec<u32> {
    all_children(parent)
        .filter(|pid| !is_broker(*pid))
        .collect()
}

/// The broker process of the daemon `parent`.
pub(super) fn broker_of(parent: u32) -> u32 {
    let broker = all_children(parent).find(|pid| is_broker(*pid));
    broker.expect("a broker process")
}

fn all_children(parent: u32) -> impl Iterator<Item = u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(move |pid| parent_of(*pid) == Some(parent))
}

fn is_broker(pid: u32) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.starts_with(b"holdfast\0broker\0")
}

/// The fourth field of `stat`; the second is the program's name in parentheses. None: it has ended.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_guard_that_died_is_replaced() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "wake", &[]);
    let daemon = mobile.child.id();
    await_that("there is a guard", || children(daemon).len() == 1);
    let guard = children(daemon)[0];
    let killed = std::process::Command::new("kill")
        .args(["-9", &guard.to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    await_that(
        "there is another one",
        || matches!(children(daemon)[..], [other] if other != guard),
    );
}
