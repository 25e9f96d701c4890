// SPDX-License-Identifier: Apache-2.0
//! The schemes of `holdfast mobile` with the simulator's senders.

use std::collections::BTreeMap;

use holdfast_core::mobile_host::{FreezeSet, MobileHostSettings, MobileScheme};
use holdfast_link::{LinkSettings, LinkState, OutageEffect, OutageSettings};
use holdfast_wire::{Duration, Flags, Instant, SeqNum};

use crate::observe::{LinkId, Observer, PacketEvent};
use crate::packet::Packet;
use crate::{Experiment, Hop, MobilePlan, Outcome, Preset, RunUntil, Transfer};

const OUTAGE_AT_S: f64 = 4.0;
const OUTAGE_S: f64 = 3.0;
/// A window of 32 KiB takes 133 ms on this path: so long is the round trip.
const WARNING: Duration = Duration::from_millis(300);
const UPLINK: LinkId = LinkId(3);

/// 2 Mb/s, 20 ms, one outage, a Linux 2.1 sender of the year 2000.
fn experiment(mobile: Option<MobilePlan>) -> Experiment {
    experiment_with(
        OutageSettings::Periodic {
            first_at_s: OUTAGE_AT_S,
            every_s: 1000.0,
            for_s: OUTAGE_S,
        },
        mobile,
    )
}

fn experiment_with(outages: OutageSettings, mobile: Option<MobilePlan>) -> Experiment {
    let wired = LinkSettings::default();
    let radio = LinkSettings {
        rate_mbit_per_s: Some(2.0),
        delay_ms: 10.0,
        queue_packets_max: Some(100),
        outage_effect: OutageEffect::LoseArriving,
        outages,
        ..LinkSettings::default()
    };
    let mut experiment = Experiment::new(3, Duration::from_secs(200));
    let hop = |settings| Hop::both_ways(settings).unwrap();
    experiment.hops = vec![hop(&wired), hop(&radio)];
    experiment.transfers = vec![Transfer::download(3_000_000, Preset::Linux21.settings())];
    experiment.mobile = mobile;
    experiment
}

fn plan(scheme: MobileScheme) -> MobilePlan {
    MobilePlan {
        settings: MobileHostSettings::new(scheme),
        told_after: Some(Duration::ZERO),
        warned_before: Some(WARNING),
    }
}

/// The windows that the MH's segments leave with, by time.
#[derive(Default)]
struct Windows(Vec<(Instant, u16)>);

impl Observer for Windows {
    fn on_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        if let (UPLINK, PacketEvent::Sent, Some(segment)) = (link, event, packet.segment()) {
            self.0.push((now, segment.window));
        }
    }

    fn on_link_state(&mut self, _: LinkId, _: LinkState, _: Instant) {}
}

fn at(s: f64) -> Instant {
    Instant::from_nanos((s * 1e9) as u64)
}

fn run(mobile: Option<MobilePlan>) -> (Outcome, Windows) {
    let mut windows = Windows::default();
    let outcome = experiment(mobile).run_observed(&mut windows);
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
    (outcome, windows)
}

fn time(outcome: &Outcome) -> Duration {
    outcome.transfers[0].transfer_time.unwrap()
}

#[test]
fn a_warned_sender_of_2000_neither_times_out_nor_waits_for_a_probe() {
    let (plain, _) = run(None);
    let (frozen, windows) = run(Some(plan(MobileScheme::Freeze)));
    let undisturbed = experiment_with(OutageSettings::None, None);
    let timeouts = |outcome: &Outcome| outcome.transfers[0].sender.timeouts;
    assert_eq!(timeouts(&frozen), timeouts(&undisturbed.run()));
    assert!(timeouts(&frozen) < timeouts(&plain));
    assert_eq!(frozen.mobile.unwrap().frozen, 1);
    assert!(time(&frozen) < time(&plain));
    let stall = frozen.transfers[0].stalls[0].length;
    assert!(stall < Duration::from_millis(100), "{stall:?}");
    let (goes, back) = (at(OUTAGE_AT_S), at(OUTAGE_AT_S + OUTAGE_S));
    for (when, window) in &windows.0 {
        // A round trip before: not shorter than the path, not longer than the window.
        let closed = *when > goes - Duration::from_millis(20) && *when < back;
        let open = *when < goes - Duration::from_millis(180) || *when >= back;
        assert!(!closed || *window == 0, "{window} at {when:?}");
        assert!(!open || *window > 0, "{window} at {when:?}");
    }
}

#[test]
fn three_acks_after_the_outage_are_the_mobiles_last_one() {
    let (outcome, windows) = run(Some(plan(MobileScheme::FastRetransmit)));
    let back = at(OUTAGE_AT_S + OUTAGE_S);
    let made = windows.0.iter().filter(|(when, _)| *when == back);
    assert_eq!(made.count(), 3);
    assert_eq!(outcome.mobile.unwrap().acks_made, 3);
    let stall = outcome.transfers[0].stalls[0].length;
    assert!(stall < Duration::from_millis(100), "{stall:?}");
}

#[test]
fn without_tr_acks_nothing_is_said_after_the_outage_as_published() {
    let mut silent = plan(MobileScheme::Freeze);
    silent.settings.tr_acks = false;
    let (outcome, windows) = run(Some(silent));
    assert_eq!(outcome.mobile.unwrap().acks_made, 1, "the one that closes");
    let back = at(OUTAGE_AT_S + OUTAGE_S);
    assert!(windows.0.iter().all(|(when, _)| *when != back));
}

#[test]
fn todays_set_leaves_alone_what_a_warning_does_not_cover() {
    let mut late = plan(MobileScheme::Freeze);
    late.settings.set = FreezeSet::Today;
    late.warned_before = Some(Duration::from_millis(10));
    let (outcome, windows) = run(Some(late));
    let counters = outcome.mobile.unwrap();
    assert_eq!((counters.frozen, counters.not_covered), (0, 1));
    assert!(windows.0.iter().all(|(_, window)| *window > 0));
}

#[test]
fn a_mobile_that_hears_nothing_does_nothing() {
    let (plain, _) = run(None);
    let (deaf, _) = run(Some(MobilePlan {
        told_after: None,
        warned_before: None,
        ..plan(MobileScheme::Freeze)
    }));
    assert_eq!(plain.digest, deaf.digest);
}

/// 20 Mb/s, 50 ms; an outage of so many seconds of which nobody was warned, that loses what
/// is on its way; all senders with timestamps, SACK or without.
fn unforeseen(for_s: f64, sender: Preset, scheme: Option<MobileScheme>) -> Experiment {
    let wired = LinkSettings {
        rate_mbit_per_s: Some(100.0),
        delay_ms: 24.0,
        ..LinkSettings::default()
    };
    let radio = LinkSettings {
        rate_mbit_per_s: Some(20.0),
        delay_ms: 1.0,
        queue_packets_max: Some(200),
        outage_effect: OutageEffect::Lose,
        outages: OutageSettings::Periodic {
            first_at_s: 9.3,
            every_s: 1000.0,
            for_s,
        },
        ..LinkSettings::default()
    };
    let mut experiment = Experiment::new(5, Duration::from_secs(400));
    experiment.hops = vec![
        Hop::both_ways(&wired).unwrap(),
        Hop::both_ways(&radio).unwrap(),
    ];
    let mut tcp = sender.settings();
    tcp.receive_buffer_bytes = 4 << 20;
    tcp.window_scale = Some(7);
    tcp.send_buffer_bytes = None;
    experiment.transfers = vec![Transfer::download(40_000_000, tcp)];
    experiment.mobile = scheme.map(|scheme| MobilePlan {
        warned_before: None,
        ..plan(scheme)
    });
    experiment
}

/// Round trips of the path, 50 ms; two of them and what a packet takes on the links.
const TWO_ROUND_TRIPS: Duration = Duration::from_millis(102);

fn stall(experiment: &Experiment) -> Duration {
    let outcome = experiment.run();
    let of = &outcome.transfers[0];
    assert!(of.finished && of.intact);
    of.stalls[0].length
}

#[test]
fn after_an_outage_that_nobody_foresaw_a_sender_that_was_woken_goes_on_within_two_round_trips() {
    for sender in [Preset::LinuxReno, Preset::NewReno, Preset::Reno] {
        let mut plain = Duration::ZERO;
        for for_s in [1.0, 3.0, 7.0, 15.0, 60.0] {
            let woken = stall(&unforeseen(for_s, sender, Some(MobileScheme::Wake)));
            assert!(woken <= TWO_ROUND_TRIPS, "{sender:?} {for_s} s: {woken:?}");
            plain += stall(&unforeseen(for_s, sender, None));
        }
        // One of them alone may find the sender's timer about to expire.
        assert!(plain > Duration::from_secs(3), "{sender:?}: {plain:?}");
    }
}

#[test]
fn a_sender_that_has_sent_all_is_not_kept_waiting_for_the_last_acknowledgement() {
    // Undisturbed: what is held back costs nothing at the end.
    let mut with = unforeseen(1.0, Preset::LinuxReno, Some(MobileScheme::Wake));
    let mut without = unforeseen(1.0, Preset::LinuxReno, None);
    for experiment in [&mut with, &mut without] {
        experiment.hops[1].downlink.outages = experiment.hops[0].downlink.outages.clone();
        experiment.hops[1].uplink.outages = experiment.hops[0].downlink.outages.clone();
        // Room for all that the receiver's window allows: no loss makes the two differ.
        experiment.hops[1].downlink.queue_packets_max = 2_000;
        experiment.transfers[0].mh.receive_buffer_bytes = 1 << 20;
        experiment.run_until = RunUntil::Closed;
    }
    let [with, without] = [with, without].map(|experiment| experiment.run());
    let timeouts = |outcome: &Outcome| outcome.transfers[0].sender.timeouts;
    assert_eq!(timeouts(&with), timeouts(&without));
    assert!(time(&with) <= time(&without) + Duration::from_millis(20));
    let late = with.ended_at.saturating_since(without.ended_at);
    assert!(late <= Duration::from_millis(400), "{late:?}");
}

/// What the MH's own ACKs say, as they leave: the highest, and how far it is behind what has
/// arrived at most.
#[derive(Default)]
struct Acknowledged {
    highest: Option<SeqNum>,
    arrived: Option<SeqNum>,
    behind: BTreeMap<u32, u32>,
    went_back: u32,
    ahead: u32,
}

impl Observer for Acknowledged {
    fn on_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, _: Instant) {
        let Some(segment) = packet.segment() else {
            return;
        };
        if segment.flags.has(Flags::SYN) {
            return;
        }
        match (link, event) {
            (LinkId(2), PacketEvent::Arrived) => {
                let end = segment.seq + segment.len();
                if self.arrived.is_none_or(|known| end.after(known)) {
                    self.arrived = Some(end);
                }
            }
            (UPLINK, PacketEvent::Sent) => {
                let ack = segment.ack;
                if let Some(arrived) = self.arrived {
                    self.ahead += u32::from(ack.after(arrived));
                    let behind = arrived.distance_from(ack);
                    *self.behind.entry(behind).or_default() += 1;
                }
                self.went_back += u32::from(self.highest.is_some_and(|known| ack.before(known)));
                self.highest = Some(ack);
            }
            _ => {}
        }
    }

    fn on_link_state(&mut self, _: LinkId, _: LinkState, _: Instant) {}
}

#[test]
fn what_leaves_is_a_segment_behind_and_never_goes_back_nor_ahead_of_what_has_arrived() {
    let mut seen = Acknowledged::default();
    let outcome =
        unforeseen(7.0, Preset::LinuxReno, Some(MobileScheme::Wake)).run_observed(&mut seen);
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
    assert_eq!((seen.went_back, seen.ahead), (0, 0));
    let one = u32::from(Preset::LinuxReno.settings().mss) - 12;
    let [held, all]: [u32; 2] = [
        seen.behind.get(&one).copied().unwrap_or_default(),
        seen.behind.values().sum(),
    ];
    assert!(held * 2 > all, "{held} of {all}: {:?}", seen.behind);
}

#[test]
fn todays_set_opens_a_window_in_steps_and_the_right_edge_never_goes_back() {
    let mut today = plan(MobileScheme::Freeze);
    today.settings.set = FreezeSet::Today;
    today.warned_before = Some(Duration::from_secs(1));
    let mut edges = Edges::default();
    let mut experiment = experiment(Some(today));
    // A window of 32 KiB is less than what is opened in steps.
    let mut wide = Preset::LinuxReno.settings();
    wide.receive_buffer_bytes = 1 << 18;
    experiment.transfers = vec![Transfer::download(3_000_000, wide)];
    let outcome = experiment.run_observed(&mut edges);
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
    let counters = outcome.mobile.unwrap();
    assert_eq!((counters.frozen, counters.opened_in_steps), (1, 1));
    let back = at(OUTAGE_AT_S + OUTAGE_S);
    let after: Vec<_> = edges.0.iter().filter(|(when, _)| *when >= back).collect();
    assert!(after.len() > 20);
    for pair in after.windows(2) {
        assert!(!pair[1].1.before(pair[0].1), "{pair:?}");
    }
}

/// The right edges that the MH's segments say, not scaled, by time.
#[derive(Default)]
struct Edges(Vec<(Instant, SeqNum)>, u8);

impl Observer for Edges {
    fn on_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        let (UPLINK, PacketEvent::Sent, Some(segment)) = (link, event, packet.segment()) else {
            return;
        };
        if segment.flags.has(Flags::SYN) {
            self.1 = segment.options.window_scale.unwrap_or(0);
        } else {
            let edge = segment.ack + (u32::from(segment.window) << self.1);
            self.0.push((now, edge));
        }
    }

    fn on_link_state(&mut self, _: LinkId, _: LinkState, _: Instant) {}
}
