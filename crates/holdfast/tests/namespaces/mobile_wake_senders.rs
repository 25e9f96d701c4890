// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile --scheme wake` where nobody says that the link is down or back, with other
//! senders and paths, in a second outage amid the repair of the first, after false alarms, and
//! without its guard.

use std::io::{Read as _, Write as _};

use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::punctuality::{TooLong, in_time, punctual, shorter_than};
use holdfast_testbed::topology::{FH, GATEWAY_WIRED_IF, HostTuning, TopologySettings};

use super::mobile_host::{MB, Mobile, plain};
use super::mobile_wake::{burst, counted, read_burst, with_outages};
use super::router::MASQUERADE;
use super::{PORT, await_that, connection, emulated, fh, start_link, wired};

const SECOND_NS: u64 = 1_000_000_000;

/// Of which nobody is told.
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
    /// Outages whose end was heard of.
    outages: u64,
    /// Times that an FH was asked whether the link is back.
    asked: u64,
    /// Wake-ups by the clock.
    wake_ups: u64,
}

impl Silence {
    /// One silence of five seconds: asked about ten times a second, not once more; and woken 0.3, 0.9,
    /// 1.9 ... s after it was seen, until something is heard.
    fn is_as_asked(&self) -> Result<(), TooLong> {
        // Not for ever.
        assert!(self.asked < 600 && self.wake_ups < 120, "{self:?}");
        // A machine that stands still is silent too.
        let is_one = self.outages == 1 && (10..60).contains(&self.asked) && self.wake_ups < 12;
        in_time(is_one, &format!("{self:?}"))
    }
}

/// Sends a download through a silent outage of 5 s until it is noticed: the stall after it in milliseconds,
/// and what the daemon counted of it. What begins at what looks like an answer's end is not noticed.
fn through_silence(test: &str, settings: &TopologySettings) -> Option<(u64, Silence)> {
    for _ in 0..4 {
        let mut harness = Harness::new(test, settings, None).unwrap()?;
        let mobile = Mobile::start(&harness, "wake", &[]);
        let stall = stall_ms(&mut harness, false, 8);
        let silence = Silence {
            outages: mobile.counter("host.silent-outages"),
            asked: mobile.counter("host.asked"),
            wake_ups: mobile.counter("host.silences"),
        };
        println!("{stall} ms: {silence:?}");
        if silence.asked > 2 {
            return Some((stall, silence));
        }
    }
    panic!("none of four was noticed");
}

#[test]
fn an_outage_of_which_nobody_is_told_ends_when_an_fh_answers() {
    let test = "an_outage_of_which_nobody_is_told_ends_when_an_fh_answers";
    let settings = emulated(silent(&[(3.0, 5.0)]));
    punctual(|| {
        let Some((stall, silence)) = through_silence(test, &settings) else {
            return Ok(());
        };
        silence.is_as_asked()?;
        shorter_than(1_500, test, stall)
    });
}

#[test]
fn an_fh_that_pauses_in_mid_download_answers_once_and_is_left_alone() {
    let test = "an_fh_that_pauses_in_mid_download_answers_once_and_is_left_alone";
    punctual(|| {
        let Some(harness) = plain(test, EmulatedLink::default()) else {
            return Ok(());
        };
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
        let asked = mobile.counter("host.asked");
        // Each would be asked ten times a second else.
        let outages = mobile.counter("host.silent-outages");
        let figures = format!("asked {asked} times, {outages} outages");
        let is_left_alone = (1..=2 * pauses).contains(&asked) && outages == 0;
        in_time(is_left_alone, &figures)
    });
}

#[test]
fn a_flow_that_rests_after_a_short_message_is_not_taken_for_silent() {
    let test = "a_flow_that_rests_after_a_short_message_is_not_taken_for_silent";
    punctual(|| {
        let Some(harness) = plain(test, EmulatedLink::default()) else {
            return Ok(());
        };
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
        in_time(silences == 0, &format!("{silences} silences"))
    });
}

#[test]
fn a_silent_outage_of_a_sender_that_keeps_no_queue_is_noticed() {
    let test = "a_silent_outage_of_a_sender_that_keeps_no_queue_is_noticed";
    let settings = TopologySettings {
        congestion_control: "bbr".to_owned(),
        ..emulated(silent(&[(3.0, 5.0)]))
    };
    punctual(|| match through_silence(test, &settings) {
        Some((_, silence)) => silence.is_as_asked(),
        None => Ok(()),
    });
}

#[test]
fn senders_without_timestamps_or_by_ipv6_are_woken() {
    let test = "senders_without_timestamps_or_by_ipv6_are_woken";
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
        punctual(|| {
            let Some(mut harness) = Harness::new(test, &settings, None).unwrap() else {
                return Ok(());
            };
            let mobile = Mobile::start(&harness, "wake", &[]);
            let stall = stall_ms(&mut harness, is_v6, 7);
            assert!(mobile.counter("host.acks-made") > 0);
            println!("{control}, IPv6 {is_v6}: {stall} ms");
            // ICMP wakes both: too few segments in a round trip, and no queue that is known of (BBR
            // keeps none; without timestamps only the handshake's round trip is known).
            shorter_than(1_000, &format!("{control}, IPv6 {is_v6}"), stall)
        });
    }
}

#[test]
fn an_outage_amid_the_repair_of_another_is_got_over_too() {
    let test = "an_outage_amid_the_repair_of_another_is_got_over_too";
    punctual(|| {
        let outages = with_outages(&[(3.0, 2.0), (5.2, 2.0), (7.35, 3.0)]);
        let Some(mut harness) = plain(test, outages) else {
            return Ok(());
        };
        let mobile = Mobile::start(&harness, "wake", &[]);
        // 10.35 s: the stall is that much shorter.
        let stall = stall_ms(&mut harness, false, 10);
        println!("{stall} ms after 10 s");
        // Three times, each repeated if nothing came.
        let made = mobile.counter("host.acks-made");
        assert!(made >= 3, "{made} ACKs");
        shorter_than(1_350, test, stall)
    });
}

#[test]
fn false_alarms_make_no_sender_time_out() {
    let test = "false_alarms_make_no_sender_time_out";
    punctual(|| {
        let Some(harness) = plain(test, EmulatedLink::default()) else {
            return Ok(());
        };
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
        let [spurious, all] =
            ["TCPSpuriousRTOs", "TCPTimeouts"].map(|name| counted(&harness, name));
        // A busy machine makes one by itself; each alarm would make three.
        let is_as_without = spurious <= 1 && all <= 1;
        in_time(
            is_as_without,
            &format!("{all} timeouts, {spurious} for nothing"),
        )
    });
}

#[test]
fn forwarded_and_masqueraded_flows_are_woken_by_the_router() {
    let test = "forwarded_and_masqueraded_flows_are_woken_by_the_router";
    punctual(|| {
        let settings = TopologySettings {
            gateway_nft: MASQUERADE.into(),
            wired: Some(silent(&[(0.1, 4.0)])),
            ..wired(1500)
        };
        let Some(harness) = Harness::new(test, &settings, None).unwrap() else {
            return Ok(());
        };
        // A vehicle's router: its own uplink is what the gateway's wired side is here.
        let ns = harness.topology.gateway();
        let mobile = Mobile::start_at(ns, GATEWAY_WIRED_IF, &harness, "wake", &[]);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 32 * MB, 5);
        // In a loss recovery nothing is, and the silence is not noticed.
        let held = || mobile.counter("path.held_back");
        let mut is_held = false;
        await_that("ACKs are held back, or most of it has come", || {
            let before = held();
            // How many it takes depends on how the machine merges segments.
            is_held = before > 200 && held() > before;
            is_held || flow.watch().bytes() > 26 * MB
        });
        if !is_held {
            flow.finish().unwrap();
            return in_time(false, &format!("{} ACKs held back", held()));
        }
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
        shorter_than(1_500, test, stall)
    });
}

/// The processes that `parent` has started.
pub(super) fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{parent}/task"))
        .unwrap()
        .flatten()
    {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let pids = text
            .split_whitespace()
            .map(|pid| pid.parse::<u32>().unwrap());
        found.extend(pids);
    }
    found
}

#[test]
fn a_guard_that_died_is_replaced() {
    let test = "a_guard_that_died_is_replaced";
    let Some(harness) = plain(test, EmulatedLink::default()) else {
        return;
    };
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
