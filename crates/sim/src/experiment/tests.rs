// SPDX-License-Identifier: Apache-2.0
//! Whole runs: results that do not depend on details.

use holdfast_core::Scheme;
use holdfast_link::{OutageAt, OutageEffect, OutageSettings};

use super::*;
use crate::observe::{LinkId, PacketEvent};
use crate::packet::Packet;
use crate::tcp::{DelayedAck, Ending, Preset};

mod base_station;
mod compression;
mod gateway;
mod mobile_engine;
mod property;

fn wired() -> LinkSettings {
    LinkSettings {
        rate_mbit_per_s: Some(100.0),
        delay_ms: 10.0,
        ..LinkSettings::default()
    }
}

fn radio() -> LinkSettings {
    LinkSettings {
        rate_mbit_per_s: Some(20.0),
        delay_ms: 15.0,
        queue_packets_max: Some(150),
        ..LinkSettings::default()
    }
}

fn one_outage(at_s: f64, for_s: f64) -> OutageSettings {
    OutageSettings::List {
        list: vec![OutageAt { at_s, for_s }],
    }
}

/// `bytes` downlink over `wired` and this radio link.
fn download(bytes: u64, preset: Preset, radio: &LinkSettings) -> Experiment {
    let mut experiment = Experiment::new(3, Duration::from_secs(1000));
    experiment.hops = [&wired(), radio]
        .map(|settings| Hop::both_ways(settings).unwrap())
        .to_vec();
    experiment.transfers = vec![Transfer::download(bytes, preset.settings())];
    experiment
}

fn seconds(outcome: &Outcome) -> f64 {
    let time = outcome.transfers[0].transfer_time.expect("finished");
    time.as_nanos() as f64 / 1e9
}

#[test]
fn every_preset_fills_a_clean_link_and_closes() {
    for preset in Preset::ALL {
        let mut experiment = download(4_000_000, preset, &radio());
        experiment.run_until = RunUntil::Closed;
        let outcome = experiment.run();
        let transfer = &outcome.transfers[0];
        let name = preset.name();
        assert!(transfer.finished && transfer.intact, "{name}: {transfer:?}");
        assert_eq!(transfer.endings, [Ending::Closed; 2], "{name}");
        assert_eq!(transfer.delivered_bytes, 4_000_000, "{name}");
    }
}

/// Runs share nothing, so a sweep can use all cores.
#[test]
fn runs_on_threads_give_what_they_give_alone() {
    let lossy = LinkSettings {
        loss: 0.01,
        ..radio()
    };
    let of_seed = &|seed| {
        let mut experiment = download(500_000, Preset::Sack, &lossy);
        experiment.seed = seed;
        experiment
    };
    let alone: Vec<_> = (0..4).map(|seed| of_seed(seed).run()).collect();
    let together: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| scope.spawn(move || of_seed(seed).run()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(together, alone);
}

#[test]
fn upload_is_the_mirror_of_a_download() {
    let mut experiment = download(2_000_000, Preset::Sack, &radio());
    let down = experiment.run();
    experiment.transfers = vec![Transfer::upload(2_000_000, Preset::Sack.settings())];
    let up = experiment.run();
    assert!(up.transfers[0].finished && up.transfers[0].intact);
    assert!((seconds(&up) / seconds(&down) - 1.0).abs() < 0.05);
}

#[test]
fn equal_experiments_have_equal_outcomes_and_another_seed_another() {
    let lossy = LinkSettings {
        loss: 0.01,
        ..radio()
    };
    for gateway in [false, true] {
        let mut experiment = download(3_000_000, Preset::NewReno, &lossy);
        if gateway {
            let plan = GatewayPlan::before_last(Settings::default(), &experiment.hops);
            experiment.gateway = Some(plan);
        }
        let (first, second) = (experiment.run(), experiment.run());
        assert_eq!(first, second);
        // An observer does not change the run.
        let mut watched = Watcher::default();
        assert_eq!(experiment.run_observed(&mut watched), first);
        experiment.seed += 1;
        assert_ne!(experiment.run().digest, first.digest);
    }
}

/// Counts the bytes that the sender gives to its link.
#[derive(Default)]
struct Recount {
    first: u64,
    again: u64,
    highest: u64,
}

impl Observer for Recount {
    fn on_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, _: Instant) {
        let crate::packet::Body::Tcp(tcp) = packet.body else {
            return;
        };
        let len = u64::from(tcp.segment.payload_len);
        if link != LinkId(0) || event != PacketEvent::Sent || len == 0 {
            return;
        }
        let is_again = tcp.origin.offset < self.highest;
        self.highest = self.highest.max(tcp.origin.offset + len);
        // A byte alone is a probe of a closed window.
        if len > 1 {
            self.first += u64::from(!is_again);
            self.again += u64::from(is_again);
        }
    }
}

/// The retransmission ratio is computed from these counters.
#[test]
fn a_senders_counters_are_those_of_the_packets_on_its_link() {
    let lossy = LinkSettings {
        loss: 0.005,
        outages: one_outage(1.5, 4.0),
        ..radio()
    };
    for preset in Preset::ALL {
        let mut recount = Recount::default();
        let outcome = download(4_000_000, preset, &lossy).run_observed(&mut recount);
        let counters = &outcome.transfers[0].sender;
        let again = counters.data_segments_repeated;
        assert_eq!(
            (counters.data_segments - again, again),
            (recount.first, recount.again),
            "{}",
            preset.name()
        );
        assert!(again > 0 && recount.first > 500, "{}", preset.name());
    }
}

/// The digest is the same on every machine. A change to hosts, links or this experiment changes
/// it: replace it in the same commit.
#[test]
fn digest_of_a_lossy_run_is_the_same_on_every_machine() {
    let lossy = LinkSettings {
        loss: 0.02,
        jitter: Some(holdfast_link::Jitter::Exponential {
            mean_ms: 2.0,
            reorder: true,
        }),
        outages: OutageSettings::Exponential {
            up_mean_s: 3.0,
            down_mean_s: 0.3,
        },
        ..radio()
    };
    let outcome = download(1_000_000, Preset::Sack, &lossy).run();
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
    assert_eq!(outcome.digest, DIGEST);
}

const DIGEST: u64 = 2_408_739_107_942_155_153;

/// What TCP can use of a link with a sufficient queue, without headers: 1448 of 1500 bytes.
#[test]
fn bulk_transfers_use_the_link_but_for_headers_and_the_start() {
    for preset in [
        Preset::NewReno,
        Preset::Sack,
        Preset::LinuxReno,
        Preset::LinuxCubic,
    ] {
        let outcome = download(50_000_000, preset, &radio()).run();
        let ideal = 50e6 * 8.0 / 20e6 * 1500.0 / 1448.0;
        let utilisation = ideal / seconds(&outcome);
        let name = preset.name();
        assert!((0.93..=1.0).contains(&utilisation), "{name}: {utilisation}");
    }
}

/// With a window below the bandwidth-delay product, the goodput is window / round trip.
#[test]
fn receivers_window_bounds_the_rate() {
    let mut experiment = download(5_000_000, Preset::Sack, &radio());
    let tcp = &mut experiment.transfers[0];
    tcp.mh.receive_buffer_bytes = 32 * 1448;
    tcp.mh.window_scale = Some(0);
    tcp.mh.delayed_ack = DelayedAck::Off;
    let outcome = experiment.run();
    // 50 ms of propagation, and the time that a segment takes on both links.
    let round_trip_s = 0.05 + 1500.0 * 8.0 * (1.0 / 20e6 + 1.0 / 100e6);
    let expected = 32.0 * 1448.0 * 8.0 / round_trip_s;
    let goodput = outcome.transfers[0].goodput_bit_per_s;
    assert!(
        (goodput / expected - 1.0).abs() < 0.04,
        "{goodput} {expected}"
    );
}

#[test]
fn cross_traffic_takes_its_share_and_arrives() {
    let mut experiment = download(10_000_000, Preset::Sack, &radio());
    let alone = seconds(&experiment.run());
    experiment.cross_traffic = vec![CrossTraffic {
        direction: Direction::Downlink,
        from_hop: 1,
        to_hop: 1,
        rate_bit_per_s: 10_000_000,
        packet_bytes: 1000,
        start: Duration::ZERO,
        stop: Duration::from_secs(1000),
        poisson: false,
    }];
    let outcome = experiment.run();
    let slower = seconds(&outcome) / alone;
    assert!((1.7..2.6).contains(&slower), "{slower}");
    let CrossOutcome { sent, arrived } = outcome.cross_traffic[0];
    let expected = outcome.ended_at.as_secs_f64() * 10e6 / 8000.0;
    assert!(
        (sent as f64 / expected - 1.0).abs() < 0.01,
        "{sent} {expected}"
    );
    assert!(
        arrived <= sent && arrived * 100 >= sent * 90,
        "{arrived} of {sent}"
    );
    experiment.cross_traffic[0].poisson = true;
    let outcome = experiment.run();
    let sent = outcome.cross_traffic[0].sent as f64;
    let expected = outcome.ended_at.as_secs_f64() * 10e6 / 8000.0;
    assert!((sent / expected - 1.0).abs() < 0.05, "{sent} {expected}");
}

/// On a half-duplex medium each ACK takes time from data: fewer ACKs, more data.
#[test]
fn acks_cost_time_on_a_half_duplex_medium() {
    let mut times = Vec::new();
    for delayed in [true, false] {
        for half_duplex in [false, true] {
            let mut experiment = download(30_000_000, Preset::Sack, &radio());
            experiment.hops[1].half_duplex = half_duplex;
            experiment.hops[1].frame_overhead_bytes = 500;
            if !delayed {
                experiment.transfers[0].mh.delayed_ack = DelayedAck::Off;
            }
            times.push(seconds(&experiment.run()));
        }
    }
    let [full, half, full_each, half_each] = times[..] else {
        panic!("four runs");
    };
    // A segment takes 2000 bytes of the medium. An ACK takes 552, one for every second segment or each.
    assert!((full_each / full - 1.0).abs() < 0.05, "{times:?}");
    assert!(
        (half / full - (2000.0 + 276.0) / 2000.0).abs() < 0.06,
        "{times:?}"
    );
    assert!(
        (half_each / full - (2000.0 + 552.0) / 2000.0).abs() < 0.06,
        "{times:?}"
    );
}

#[test]
fn many_flows_share_a_bottleneck_fairly_enough() {
    let mut experiment = download(3_000_000, Preset::Sack, &radio());
    let transfer = experiment.transfers[0].clone();
    experiment.transfers = (0..8)
        .map(|mobile| Transfer {
            mobile,
            start: Duration::from_millis(u64::from(mobile) * 37),
            ..transfer.clone()
        })
        .collect();
    let outcome = experiment.run();
    assert!(outcome.transfers.iter().all(|t| t.finished && t.intact));
    let total = 8.0 * 3e6 * 8.0 / 20e6 * 1500.0 / 1448.0;
    let ended = outcome.ended_at.as_secs_f64();
    assert!((total..total * 1.15).contains(&ended), "{ended} {total}");
}

#[test]
fn stall_is_from_the_links_return_to_the_first_new_byte() {
    let radio = LinkSettings {
        outages: one_outage(4.0, 7.0),
        ..radio()
    };
    let mut experiment = download(30_000_000, Preset::NewReno, &radio);
    experiment.series_interval = Some(Duration::from_millis(250));
    let outcome = experiment.run();
    let transfer = &outcome.transfers[0];
    // The series has the link's state even while no packet is on the link.
    let down = transfer.series.iter().filter(|sample| !sample.link_up);
    let down: Vec<Instant> = down.map(|sample| sample.at).collect();
    assert_eq!((down.len(), down[0]), (28, Instant::from_millis(4000)));
    assert_eq!(transfer.stalls.len(), 1);
    let stall = transfer.stalls[0];
    assert_eq!(stall.link_up_at, Instant::from_millis(11_000));
    assert!(
        stall.ended && stall.length < Duration::from_secs(8),
        "{stall:?}"
    );
    assert!(transfer.sender.timeouts >= 2);
    assert_eq!(transfer.stalls_total(), stall.length);
}

/// F-RTO and tail loss probes first send new data beyond the hole: that does not end a stall.
#[test]
fn a_stall_ends_with_the_first_new_byte_in_order() {
    let radio = LinkSettings {
        outages: one_outage(2.0, 0.2),
        outage_effect: OutageEffect::Lose,
        ..radio()
    };
    let mut experiment = download(10_000_000, Preset::LinuxCubic, &radio);
    experiment.series_interval = Some(Duration::from_millis(1));
    let transfer = experiment.run().transfers[0].clone();
    let up = Instant::from_millis(2_200);
    let at_up = transfer.series.iter().find(|sample| sample.at == up);
    let before = at_up.expect("a sample each millisecond").rcv_nxt;
    let first = transfer
        .series
        .iter()
        .find(|sample| sample.rcv_nxt > before);
    let first = first.expect("the transfer goes on").at;
    let ended = up + transfer.stalls[0].length;
    let a_sample_before = first.saturating_since(ended);
    assert!(
        ended <= first && a_sample_before < Duration::from_millis(1),
        "{ended:?}, {first:?}"
    );
}

/// M-TCP+'s slides: with disconnections of 180 s NewReno's transfers never finish.
#[test]
fn senders_of_2007_give_up_in_an_outage_of_three_minutes() {
    let radio = LinkSettings {
        outages: OutageSettings::Periodic {
            first_at_s: 60.0,
            every_s: 300.0,
            for_s: 180.0,
        },
        rate_mbit_per_s: Some(3.2),
        ..radio()
    };
    for preset in [Preset::NewReno2007, Preset::Sack2007] {
        let outcome = download(100_000_000, preset, &radio).run();
        let transfer = &outcome.transfers[0];
        assert!(!transfer.finished && transfer.intact);
        assert_eq!(transfer.endings[0], Ending::GaveUp);
        assert!(transfer.delivered_bytes > 20_000_000);
        // In the first one, and nothing is to be waited for after that.
        let end_s = outcome.ended_at.as_secs_f64();
        assert!((60.0..240.0).contains(&end_s), "{end_s}");
        assert!(transfer.stalls.is_empty());
    }
}

#[test]
fn an_interrupted_run_has_no_outcome_and_ends_soon() {
    let experiment = download(1_000_000_000_000, Preset::Sack, &radio());
    let calls = core::cell::Cell::new(0);
    let interrupted = || {
        calls.set(calls.get() + 1);
        calls.get() == 3
    };
    assert!(experiment.run_unless(&interrupted, &mut ()).is_none());
    assert_eq!(calls.get(), 3);
    let short = download(100_000, Preset::Sack, &radio());
    assert_eq!(short.run_unless(&|| false, &mut ()), Some(short.run()));
}

#[test]
fn request_waits_at_the_fh_and_series_has_its_points() {
    let mut experiment = download(1_000_000, Preset::Sack, &radio());
    experiment.transfers[0].request_bytes = 300;
    experiment.transfers[0].start = Duration::from_secs(2);
    experiment.series_interval = Some(Duration::from_millis(100));
    let outcome = experiment.run();
    let transfer = &outcome.transfers[0];
    assert!(transfer.finished && transfer.intact);
    assert_eq!(transfer.receiver.data_bytes, 300);
    let end = outcome.ended_at.as_secs_f64();
    assert_eq!(transfer.series.len(), (end * 10.0) as usize + 1);
    assert!(
        transfer
            .series
            .is_sorted_by(|a, b| a.at < b.at && a.rcv_nxt <= b.rcv_nxt)
    );
}

#[test]
fn keeping_outage_delivers_the_queued_packets() {
    let radio = LinkSettings {
        outages: one_outage(1.0, 0.3),
        outage_effect: OutageEffect::Keep,
        ..radio()
    };
    let outcome = download(10_000_000, Preset::Sack, &radio).run();
    let transfer = &outcome.transfers[0];
    assert!(transfer.finished && transfer.stalls[0].length < Duration::from_millis(20));
}

/// Counts what it sees and checks that time does not go back.
#[derive(Default)]
struct Watcher {
    last: Instant,
    sent: u64,
    arrived: u64,
    dropped: u64,
}

impl Observer for Watcher {
    fn on_packet(&mut self, _: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        assert!(now >= self.last);
        self.last = now;
        assert!(packet.len_bytes() >= 40);
        match event {
            PacketEvent::Sent => self.sent += 1,
            PacketEvent::Dropped(_) => self.dropped += 1,
            PacketEvent::Arrived => self.arrived += 1,
        }
    }
}

#[test]
fn observer_sees_what_the_links_count() {
    let lossy = LinkSettings {
        loss: 0.01,
        queue_packets_max: Some(20),
        ..radio()
    };
    let mut watcher = Watcher::default();
    let outcome = download(2_000_000, Preset::Sack, &lossy).run_observed(&mut watcher);
    let counters = outcome.hops.as_flattened();
    let offered: u64 = counters.iter().map(|c| c.offered_packets).sum();
    let delivered: u64 = counters.iter().map(|c| c.delivered_packets).sum();
    let refused: u64 = counters.iter().map(|c| c.dropped_queue_packets).sum();
    assert_eq!((watcher.sent, watcher.arrived), (offered, delivered));
    assert_eq!(watcher.dropped, refused);
    assert!(refused > 0);
}
