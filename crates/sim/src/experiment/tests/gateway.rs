// SPDX-License-Identifier: Apache-2.0
//! The engine of the daemon, inside the simulation.

use holdfast_core::{
    BandwidthSettings, LinkSource, MtcpSettings, RECONNECTION_FLAGS, SnoopSettings,
};

use super::*;

pub(super) fn settings(scheme: Scheme) -> Settings {
    Settings {
        scheme,
        ..Settings::default()
    }
}

/// Carrier, reported a millisecond late.
pub(super) const CARRIER: LinkSignal = LinkSignal {
    source: LinkSource::Carrier,
    down_after: Some(Duration::from_millis(1)),
    up_after: Some(Duration::from_millis(1)),
    warned_before: None,
};

fn with_gateway(mut experiment: Experiment, scheme: Scheme) -> Experiment {
    let mut plan = GatewayPlan::before_last(settings(scheme), &experiment.hops);
    plan.signal = Some(CARRIER);
    experiment.gateway = Some(plan);
    experiment
}

#[test]
fn gateway_shortens_the_stall_after_an_outage() {
    let radio = LinkSettings {
        outages: one_outage(4.0, 7.0),
        ..radio()
    };
    for preset in [
        Preset::NewReno,
        Preset::LinuxReno,
        Preset::LinuxCubic,
        Preset::NewReno2007,
    ] {
        let plain = download(30_000_000, preset, &radio);
        let without = plain.run().transfers[0].stalls_total();
        for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
            let outcome = with_gateway(plain.clone(), scheme).run();
            let transfer = &outcome.transfers[0];
            let name = preset.name();
            assert!(transfer.finished && transfer.intact, "{name} {scheme:?}");
            let stall = transfer.stalls_total();
            assert!(
                stall < Duration::from_millis(200) && stall <= without,
                "{name} {scheme:?}: {stall:?}, {without:?} without"
            );
        }
    }
}

/// The MH has no daemon, and the model no ICMP: the gateway's ACKs wake its sender.
#[test]
fn an_upload_of_each_of_todays_systems_goes_on_at_link_up() {
    let radio = LinkSettings {
        outages: one_outage(6.3, 7.0),
        ..radio()
    };
    for preset in [
        Preset::LinuxCubic,
        Preset::LinuxBbr,
        Preset::MacosLike,
        Preset::WindowsLike,
    ] {
        let mut plain = download(30_000_000, Preset::LinuxCubic, &radio);
        plain.transfers[0].mh = preset.settings();
        plain.transfers[0].direction = Direction::Uplink;
        let name = preset.name();
        let without = plain.run().transfers[0].stalls_total();
        assert!(without > Duration::from_secs(1), "{name}: {without:?}");
        for scheme in [Scheme::Hold, Scheme::Auto] {
            let outcome = with_gateway(plain.clone(), scheme).run();
            let transfer = &outcome.transfers[0];
            assert!(transfer.finished && transfer.intact, "{name} {scheme:?}");
            let stall = transfer.stalls_total();
            assert!(
                stall < Duration::from_millis(200),
                "{name} {scheme:?}: {stall:?}"
            );
        }
    }
}

/// M-TCP+'s purpose: the sender is frozen, nothing times out, and the connection survives a long
/// disconnection.
#[test]
fn mtcp_plus_freezes_the_sender_through_a_disconnection() {
    let radio = LinkSettings {
        outages: one_outage(20.0, 180.0),
        rate_mbit_per_s: Some(4.0),
        ..radio()
    };
    let plain = download(15_000_000, Preset::NewReno2007, &radio);
    assert_eq!(plain.run().transfers[0].endings[0], Ending::GaveUp);
    let outcome = with_gateway(plain, Scheme::MtcpPlus).run();
    let transfer = &outcome.transfers[0];
    assert!(transfer.finished && transfer.intact, "{transfer:?}");
    assert_eq!(transfer.sender.timeouts, 0);
    assert!(transfer.sender.probes > 0);
}

/// M-TCP of the M-TCP+ paper: warned more than a round trip before, it has acknowledged
/// everything and closed the window when the link goes down.
#[test]
fn a_warning_comes_before_each_outage_by_as_much_as_it_should() {
    let radio = LinkSettings {
        outages: OutageSettings::Periodic {
            first_at_s: 2.0,
            every_s: 3.0,
            for_s: 1.0,
        },
        ..radio()
    };
    let plain = download(20_000_000, Preset::NewReno2007, &radio);
    let mut experiment = with_gateway(plain, Scheme::Mtcp2007);
    experiment.series_interval = Some(Duration::from_millis(10));
    for warned_before in [None, Some(Duration::from_millis(500))] {
        if let Some(plan) = &mut experiment.gateway {
            plan.signal = Some(LinkSignal {
                warned_before,
                ..CARRIER
            });
        }
        let outcome = experiment.run();
        let transfer = &outcome.transfers[0];
        assert!(transfer.finished && transfer.intact, "{transfer:?}");
        for begins_ms in [2000, 5000] {
            let at = |ms: u64| {
                let series = transfer.series.iter();
                let at = Instant::ZERO + Duration::from_millis(ms);
                series.rev().find(|sample| sample.at <= at).unwrap().rwnd
            };
            assert!(at(begins_ms - 520) > 0);
            assert_eq!(at(begins_ms - 10) == 0, warned_before.is_some());
        }
    }
}

#[test]
fn undisturbed_the_gateway_costs_nothing() {
    let plain = download(10_000_000, Preset::Sack, &radio());
    let without = plain.run();
    for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
        let outcome = with_gateway(plain.clone(), scheme).run();
        let ratio = seconds(&outcome) / seconds(&without);
        assert!((0.99..1.01).contains(&ratio), "{scheme:?} {ratio}");
    }
}

#[test]
fn hold_survives_restarts_in_mid_flow() {
    let radio = LinkSettings {
        outages: one_outage(2.0, 2.0),
        ..radio()
    };
    let mut experiment = with_gateway(download(10_000_000, Preset::Sack, &radio), Scheme::Hold);
    if let Some(gateway) = &mut experiment.gateway {
        gateway.restarts = [500, 2500, 4001].map(Duration::from_millis).to_vec();
    }
    let outcome = experiment.run();
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
}

#[test]
fn word_of_one_mobile_reaches_its_flows_alone() {
    let mut experiment = with_gateway(download(1_000_000, Preset::Sack, &radio()), Scheme::Hold);
    let transfer = experiment.transfers[0].clone();
    experiment.transfers.push(Transfer {
        mobile: 1,
        ..transfer
    });
    if let Some(gateway) = &mut experiment.gateway {
        gateway.signal = Some(LinkSignal {
            source: LinkSource::Signal,
            ..CARRIER
        });
    }
    let outcome = experiment.run();
    assert!(outcome.transfers.iter().all(|t| t.finished && t.intact));
}

/// The time from the first sending of the MH's lost data on the link to its retransmission.
#[derive(Default)]
struct Repairs {
    sent: std::collections::BTreeMap<u32, (Instant, bool)>,
    waits: Vec<Duration>,
}

impl Observer for Repairs {
    fn on_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        let Some(segment) = packet.segment() else {
            return;
        };
        // The uplink of the second hop.
        if link != LinkId(3) || segment.payload_len < 2 {
            return;
        }
        let first = self
            .sent
            .entry(segment.seq.get())
            .or_insert((now, event != PacketEvent::Sent));
        match event {
            PacketEvent::Sent if first.0 < now && !first.1 => {
                self.waits.push(now.saturating_since(first.0));
                first.0 = now;
            }
            PacketEvent::Arrived => first.1 = true,
            PacketEvent::Sent | PacketEvent::Dropped(_) => {}
        }
    }
}

/// The median of these times for uploads over a wired half of 50 ms and a radio link of 10 ms and
/// 1% loss.
fn repair_wait(gateway: Option<SnoopSettings>) -> Duration {
    let wired = LinkSettings {
        delay_ms: 25.0,
        ..wired()
    };
    let lossy = LinkSettings {
        delay_ms: 5.0,
        loss: 0.01,
        ..radio()
    };
    let mut repairs = Repairs::default();
    for seed in 0..4 {
        let mut experiment = Experiment::new(seed, Duration::from_secs(1000));
        experiment.hops = [&wired, &lossy]
            .map(|settings| Hop::both_ways(settings).unwrap())
            .to_vec();
        experiment.transfers = vec![Transfer::upload(2_000_000, Preset::Sack.settings())];
        experiment.gateway = gateway.clone().map(|snoop| {
            let settings = Settings {
                snoop,
                ..settings(Scheme::Snoop)
            };
            GatewayPlan::before_last(settings, &experiment.hops)
        });
        repairs.sent.clear();
        let outcome = experiment.run_observed(&mut repairs);
        assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
    }
    repairs.waits.sort_unstable();
    repairs.waits[repairs.waits.len() / 2]
}

#[test]
fn an_mh_with_reports_of_snoop_recovers_its_losses_in_half_the_time() {
    let without = repair_wait(None);
    assert!(without > Duration::from_millis(55), "{without:?}");
    let wait = repair_wait(Some(SnoopSettings::paper_1995()));
    assert!(wait * 2 < without, "{wait:?}, {without:?} without");
}

/// Marked ACKs that mobiles have sent.
#[derive(Default)]
struct Greetings(Vec<Instant>);

impl Observer for Greetings {
    fn on_packet(&mut self, _: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        let marked = |s: &holdfast_wire::Segment| s.is_empty() && s.flags == RECONNECTION_FLAGS;
        if event == PacketEvent::Sent && packet.segment().is_some_and(marked) {
            self.0.push(now);
        }
    }

    fn wants_packets(&self) -> bool {
        true
    }
}

/// M-TCP's mobile part notifies the SH of link up within a round trip. Without it the SH's persist
/// packets find out, after up to their interval of 5 s.
#[test]
fn a_mobile_with_m_tcp_marks_its_ack_and_one_without_is_probed() {
    let radio = LinkSettings {
        rate_mbit_per_s: Some(1.0),
        outages: one_outage(4.0, 3.0),
        ..radio()
    };
    let mut experiment = with_gateway(download(2_000_000, Preset::Reno43bsd, &radio), Scheme::Mtcp);
    let plan = experiment.gateway.as_mut().unwrap();
    plan.signal = None;
    plan.settings.mtcp = MtcpSettings::published();
    plan.settings.bandwidth = BandwidthSettings::one_cell(Some(121_000));
    let stall = |experiment: &Experiment, greetings: &mut Greetings| {
        let outcome = experiment.run_observed(greetings);
        let transfer = &outcome.transfers[0];
        assert!(transfer.finished && transfer.intact);
        transfer.stalls_total()
    };
    let mut none = Greetings::default();
    let without = stall(&experiment, &mut none);
    assert_eq!(none.0, []);
    experiment.transfers[0].mh.m_tcp = true;
    let mut greetings = Greetings::default();
    let with = stall(&experiment, &mut greetings);
    // One for the connection at link up: the MH sends it, and the gateway forwards it or not.
    assert_eq!(greetings.0[0], Instant::from_millis(7000));
    assert!(
        greetings
            .0
            .iter()
            .all(|at| *at < Instant::from_millis(7100))
    );
    assert!(
        with < Duration::from_millis(200) && without > Duration::from_secs(1),
        "{with:?} {without:?}"
    );
}
