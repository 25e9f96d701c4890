// SPDX-License-Identifier: Apache-2.0
//! The schemes of `holdfast mobile` with the simulator's senders.

use std::collections::BTreeMap;

use holdfast_core::mobile_host::{FreezeSet, MobileHostSettings, MobileScheme};
use holdfast_link::{LinkSettings, MediumState, OutageAt, OutageEffect, OutageSettings};
use holdfast_wire::{Duration, Flags, Instant, SeqNum};

use crate::observe::{LinkId, Observer, PacketEvent};
use crate::packet::Packet;
use crate::{Experiment, Hop, MobilePlan, Outcome, Preset, RunUntil, Transfer};

const OUTAGE_AT_S: f64 = 4.0;
const OUTAGE_S: f64 = 3.0;
/// More than a round trip: a window of 32 KiB takes 133 ms on this path.
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
        reported_after: Some(Duration::ZERO),
        warned_before: Some(WARNING),
        false_alarm_at: None,
        detects_silence: true,
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

    fn on_link_state(&mut self, _: LinkId, _: MediumState, _: Instant) {}
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
        // A round trip before: at least the path's delay, at most the window's time.
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
fn without_tr_acks_no_ack_is_made_after_the_outage_as_published() {
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
fn a_mobile_without_a_report_does_nothing() {
    let (plain, _) = run(None);
    let (deaf, _) = run(Some(MobilePlan {
        reported_after: None,
        warned_before: None,
        ..plan(MobileScheme::Freeze)
    }));
    assert_eq!(plain.digest, deaf.digest);
}

/// 20 Mb/s, 50 ms; an outage of `for_s` seconds without a warning, in which packets in flight
/// are lost; all senders with timestamps, with SACK or without.
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

/// Two round trips of the path, 50 ms each, and the time of a packet on the links.
const TWO_ROUND_TRIPS: Duration = Duration::from_millis(102);

fn stall(experiment: &Experiment) -> Duration {
    let outcome = experiment.run();
    let transfer = &outcome.transfers[0];
    assert!(transfer.finished && transfer.intact);
    transfer.stalls[0].length
}

#[test]
fn after_an_outage_without_a_warning_a_sender_that_was_woken_goes_on_within_two_round_trips() {
    for sender in [
        Preset::LinuxCubic,
        Preset::LinuxReno,
        Preset::NewReno,
        Preset::Reno,
    ] {
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
    // Undisturbed: a withheld segment costs nothing at the end.
    let mut with = unforeseen(1.0, Preset::LinuxReno, Some(MobileScheme::Wake));
    let mut without = unforeseen(1.0, Preset::LinuxReno, None);
    for experiment in [&mut with, &mut without] {
        experiment.hops[1].downlink.outages = experiment.hops[0].downlink.outages.clone();
        experiment.hops[1].uplink.outages = experiment.hops[0].downlink.outages.clone();
        // Room for the receiver's whole window: no loss makes the two runs differ.
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

/// The same outage without a report.
fn silent(for_s: f64, sender: Preset) -> Experiment {
    let mut experiment = unforeseen(for_s, sender, None);
    experiment.mobile = Some(MobilePlan {
        reported_after: None,
        warned_before: None,
        ..plan(MobileScheme::Wake)
    });
    experiment
}

#[test]
fn a_silent_outage_ends_when_a_probed_fh_answers() {
    for sender in [
        Preset::LinuxCubic,
        Preset::LinuxReno,
        Preset::NewReno,
        Preset::Reno,
    ] {
        // No whole seconds: a wake-up at its timer would end it by chance.
        for for_s in [1.37, 3.61, 5.0, 15.45] {
            let what = format!("{sender:?} {for_s} s");
            let outcome = silent(for_s, sender).run();
            let transfer = &outcome.transfers[0];
            assert!(transfer.finished && transfer.intact, "{what}");
            let mobile = outcome.mobile.unwrap();
            // A tenth of a second to the next probe, and its round trip, and those of the sender.
            let stall = transfer.stalls[0].length;
            let most = TWO_ROUND_TRIPS + Duration::from_millis(160);
            assert!(stall <= most, "{what}: {stall:?}");
            // Ten probes a second; wake-ups after 0.3, 0.9, 1.9, ... s.
            let probes_max = (for_s * 10.0) as u64 + 3;
            let counted = (mobile.silent_outages, mobile.probes, mobile.timed_wake_ups);
            assert_eq!(mobile.silent_outages, 1, "{what}: {counted:?}");
            assert!(
                (5..=probes_max).contains(&mobile.probes),
                "{what}: {counted:?}"
            );
            let wake_ups_max = for_s as u64 + 5;
            assert!(mobile.timed_wake_ups <= wake_ups_max, "{what}: {counted:?}");
        }
    }
}

#[test]
fn a_silent_outage_of_a_sender_that_keeps_no_queue_is_noticed() {
    let mut experiment = silent(5.0, Preset::LinuxReno);
    // Less than the path holds.
    experiment.transfers[0].mh.receive_buffer_bytes = 100_000;
    let outcome = experiment.run();
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
    let mobile = outcome.mobile.unwrap();
    assert_eq!(mobile.silent_outages, 1, "{mobile:?}");
    let stall = outcome.transfers[0].stalls[0].length;
    assert!(
        stall <= TWO_ROUND_TRIPS + Duration::from_millis(160),
        "{stall:?}"
    );
}

/// A download of this many bytes without any outage, whose sender then stays silent for ten seconds.
fn rest_after(bytes: u64) -> Outcome {
    let mut experiment = silent(1.0, Preset::LinuxReno);
    let without_outages = experiment.hops[0].downlink.outages.clone();
    experiment.hops[1].downlink.outages = without_outages.clone();
    experiment.hops[1].uplink.outages = without_outages;
    experiment.transfers[0].bytes = bytes;
    experiment.transfers[0].closes = false;
    experiment.transfers[0].mh.receive_buffer_bytes = 1 << 20;
    experiment.limit = Duration::from_secs(20);
    experiment.run_until = RunUntil::Limit;
    let outcome = experiment.run();
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
    outcome
}

#[test]
fn an_fh_that_pauses_in_mid_download_answers_one_probe_and_is_left_alone() {
    let segment = u64::from(Preset::LinuxReno.settings().mss) - 12;
    let mobile = rest_after(segment * 3_000).mobile.unwrap();
    assert_eq!((mobile.probes, mobile.pauses), (1, 1), "{mobile:?}");
    assert_eq!(
        (mobile.silent_outages, mobile.timed_wake_ups),
        (0, 0),
        "{mobile:?}"
    );
}

#[test]
fn a_flow_that_rests_after_a_short_segment_is_not_taken_for_silent() {
    let segment = u64::from(Preset::LinuxReno.settings().mss) - 12;
    let mobile = rest_after(segment * 3_000 + 300).mobile.unwrap();
    assert_eq!((mobile.probes, mobile.timed_wake_ups), (0, 0), "{mobile:?}");
}

#[test]
fn a_pause_leaves_nothing_unacknowledged() {
    let segment = u64::from(Preset::LinuxReno.settings().mss) - 12;
    for bytes in [segment * 3_000, segment * 3_000 + 300] {
        let outcome = rest_after(bytes);
        let sender = &outcome.transfers[0].sender;
        assert_eq!((sender.timeouts, sender.probes), (0, 0), "{bytes} bytes");
    }
}

#[test]
fn false_alarms_make_no_sender_time_out() {
    for at_s in [2.0, 3.0, 5.5] {
        let run = |false_alarm_at| {
            let mut experiment = unforeseen(1.0, Preset::LinuxReno, Some(MobileScheme::Wake));
            let without_outages = experiment.hops[0].downlink.outages.clone();
            experiment.hops[1].downlink.outages = without_outages.clone();
            experiment.hops[1].uplink.outages = without_outages;
            experiment.transfers[0].bytes = 20_000_000;
            experiment.mobile = Some(MobilePlan {
                false_alarm_at,
                warned_before: None,
                ..plan(MobileScheme::Wake)
            });
            experiment.run()
        };
        let (with, without) = (run(Some(Duration::from_secs_f64(at_s))), run(None));
        let timeouts = |outcome: &Outcome| outcome.transfers[0].sender.timeouts;
        assert_eq!(timeouts(&with), timeouts(&without), "{at_s} s");
        assert!(with.mobile.unwrap().acks_made > without.mobile.unwrap().acks_made);
        assert!(time(&with) <= time(&without) + Duration::from_millis(100));
    }
}

fn at_times(outages: &[(f64, f64)]) -> OutageSettings {
    let list = outages.iter().map(|(at_s, for_s)| OutageAt {
        at_s: *at_s,
        for_s: *for_s,
    });
    OutageSettings::List {
        list: list.collect(),
    }
}

#[test]
fn outages_amid_the_recovery_from_another_harm_no_byte() {
    for reported in [true, false] {
        let mut experiment = silent(1.0, Preset::LinuxReno);
        let radio = LinkSettings {
            rate_mbit_per_s: Some(20.0),
            delay_ms: 1.0,
            queue_packets_max: Some(200),
            outages: at_times(&[(9.3, 2.0), (11.5, 2.0), (13.65, 3.0)]),
            ..LinkSettings::default()
        };
        experiment.hops[1] = Hop::both_ways(&radio).unwrap();
        if let Some(plan) = &mut experiment.mobile {
            plan.reported_after = reported.then_some(Duration::ZERO);
        }
        let outcome = experiment.run();
        let transfer = &outcome.transfers[0];
        assert!(transfer.finished && transfer.intact);
        // In a recovery no segment is withheld, and there is no ICMP here: the later ones end as
        // without `wake`.
        let most = Duration::from_millis(if reported { 150 } else { 500 });
        let first = transfer.stalls[0];
        assert!(first.length <= most, "reported: {reported}, {first:?}");
    }
}

/// The machine of the product between real senders and receivers, through outages that are
/// reported at once, late or never, false alarms, warnings, random loss and reordering. The seeds
/// are 1 to 60; another one: `HOLDFAST_SEED=N`. A failure prints its own.
#[test]
fn through_whatever_outages_each_transfer_ends_intact_and_no_number_goes_back() {
    let seeds = match std::env::var("HOLDFAST_SEED") {
        Ok(seed) => vec![seed.parse().expect("HOLDFAST_SEED is a number")],
        Err(_) => (1..=60).collect(),
    };
    let mut silent_outages = 0;
    for seed in seeds {
        let mut below = random(seed);
        let scheme = [MobileScheme::Wake, MobileScheme::Freeze][usize::from(seed % 4 == 0)];
        let sender = [Preset::LinuxReno, Preset::NewReno, Preset::Sack][below(3) as usize];
        let mut begin_s = 1.0;
        let outages = [(); 4].map(|()| {
            let (at_s, for_s) = (begin_s, 0.2 + below(4_000) as f64 / 1e3);
            begin_s += for_s + 0.1 + below(4_000) as f64 / 1e3;
            (at_s, for_s)
        });
        let radio = LinkSettings {
            rate_mbit_per_s: Some(5.0 + below(20) as f64),
            delay_ms: 1.0 + below(40) as f64,
            queue_packets_max: Some(50 + below(200) as u32),
            loss: [0.0, 0.0005, 0.005][below(3) as usize],
            outages: at_times(&outages),
            ..LinkSettings::default()
        };
        let mut experiment = unforeseen(1.0, sender, None);
        experiment.seed = seed;
        experiment.hops[1] = Hop::both_ways(&radio).unwrap();
        experiment.transfers[0].bytes = 10_000_000;
        experiment.mobile = Some(MobilePlan {
            settings: MobileHostSettings::new(scheme),
            reported_after: [None, Some(0), Some(300)][below(3) as usize]
                .map(Duration::from_millis),
            warned_before: (below(2) == 0).then_some(WARNING),
            false_alarm_at: (below(2) == 0).then(|| Duration::from_millis(below(20_000))),
            detects_silence: true,
        });
        let mut seen = Acknowledged::default();
        let outcome = experiment.run_observed(&mut seen);
        let transfer = &outcome.transfers[0];
        assert!(
            transfer.finished && transfer.intact,
            "seed {seed}: {transfer:?}"
        );
        assert_eq!((seen.went_back, seen.ahead), (0, 0), "seed {seed}");
        silent_outages += outcome.mobile.unwrap().silent_outages;
    }
    // The runs had silent outages.
    assert!(silent_outages > 10 || std::env::var_os("HOLDFAST_SEED").is_some());
}

/// Random numbers below a limit (xorshift64).
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    }
}

/// The numbers of the MH's own ACKs as they leave: the highest, and how far it is at most behind
/// the data that has arrived.
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

    fn on_link_state(&mut self, _: LinkId, _: MediumState, _: Instant) {}
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

/// The right edges of the windows in the MH's segments, not scaled, by time.
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

    fn on_link_state(&mut self, _: LinkId, _: MediumState, _: Instant) {}
}

#[test]
fn at_an_interface_where_headers_are_encrypted_the_machine_does_nothing() {
    let digest = run(None).0.digest;
    for scheme in [
        MobileScheme::Freeze,
        MobileScheme::FastRetransmit,
        MobileScheme::Wake,
    ] {
        let mut experiment = experiment(Some(plan(scheme)));
        assert_ne!(experiment.run().digest, digest, "{scheme:?}");
        experiment.encrypted = true;
        let outcome = experiment.run();
        assert_eq!(outcome.digest, digest, "{scheme:?}");
        assert_eq!(outcome.mobile.unwrap().acks_made, 0, "{scheme:?}");
    }
}
