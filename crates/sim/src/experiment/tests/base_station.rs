// SPDX-License-Identifier: Apache-2.0
//! Base stations of other authors: a split connection, messages of a bad link.

use holdfast_core::LinkSource;
use holdfast_link::ArqSettings;

use super::*;
use crate::network::LinkSignal;
use crate::packet::Body;

fn splitting(mut experiment: Experiment, buffer_bytes: u32, preset: Preset) -> Experiment {
    let tcp = TcpSettings {
        receive_buffer_bytes: buffer_bytes,
        ..preset.settings()
    };
    experiment.base_station = Some(BaseStation::Splits(Box::new(SplitPlan {
        toward_fh: tcp,
        toward_mh: tcp,
        restarts: Vec::new(),
    })));
    experiment
}

fn lossy() -> LinkSettings {
    LinkSettings {
        loss: 0.01,
        ..radio()
    }
}

#[test]
fn split_connection_delivers_closes_and_repairs_at_the_base_station() {
    for direction in [Direction::Downlink, Direction::Uplink] {
        let mut plain = download(2_000_000, Preset::NewReno, &lossy());
        plain.transfers[0].direction = direction;
        plain.run_until = RunUntil::Closed;
        let outcome = splitting(plain, 65_535, Preset::NewReno).run();
        let transfer = &outcome.transfers[0];
        assert!(transfer.finished && transfer.intact, "{transfer:?}");
        assert_eq!(transfer.endings, [Ending::Closed; 2]);
        if direction == Direction::Downlink {
            // Nothing is lost on the FH's half.
            assert_eq!(transfer.sender.data_segments_repeated, 0);
        } else {
            assert!(transfer.sender.data_segments_repeated > 0);
        }
    }
}

/// With ACKs only from the MH, nothing is acknowledged that the MH does not have. A split
/// connection acknowledges what it has buffered.
#[test]
fn only_a_split_connection_acknowledges_ahead_of_the_receiver() {
    let plain = download(2_000_000, Preset::NewReno, &lossy());
    let ahead =
        |experiment: &Experiment| experiment.run().transfers[0].acknowledged_ahead_bytes_max;
    assert_eq!(ahead(&plain), 0);
    let mut with_gateway = plain.clone();
    let settings = Settings {
        scheme: Scheme::Snoop,
        ..Settings::default()
    };
    with_gateway.gateway = Some(GatewayPlan::before_last(settings, &plain.hops));
    assert_eq!(ahead(&with_gateway), 0);
    let split = ahead(&splitting(plain, 50_000, Preset::NewReno));
    assert!((20_000..=50_000).contains(&split), "{split}");
}

#[test]
fn sender_of_a_split_connection_has_no_timeout_in_an_outage() {
    let mut radio = radio();
    radio.outages = one_outage(1.0, 6.0);
    let plain = download(5_000_000, Preset::NewReno, &radio);
    assert!(plain.run().transfers[0].sender.timeouts > 0);
    let outcome = splitting(plain, 65_535, Preset::NewReno).run();
    let transfer = &outcome.transfers[0];
    assert!(transfer.finished && transfer.intact);
    assert_eq!(transfer.sender.timeouts, 0);
}

/// The node loses what it had acknowledged. The sender learns that from a RST. The receiver sends
/// nothing, and does not learn it.
#[test]
fn restart_of_a_split_connections_node_ends_the_connection() {
    let mut split = splitting(
        download(5_000_000, Preset::NewReno, &radio()),
        65_535,
        Preset::NewReno,
    );
    let Some(BaseStation::Splits(plan)) = &mut split.base_station else {
        panic!("it splits");
    };
    plan.restarts.push(Duration::from_secs(1));
    let outcome = split.run();
    let transfer = &outcome.transfers[0];
    assert!(!transfer.finished && transfer.intact);
    assert_eq!(transfer.endings, [Ending::Reset, Ending::Open]);
    assert!(transfer.delivered_bytes < 5_000_000);
}

/// The link stores packets in an outage, like a link that retransmits. The sender that heeds the
/// messages waits. The other one retransmits what the link already has.
#[test]
fn messages_of_a_bad_link_spare_a_sender_timeouts() {
    let mut radio = radio();
    radio.outages = one_outage(1.0, 4.0);
    radio.outage_effect = OutageEffect::Keep;
    let run = |messages: bool, heeds: bool| {
        let mut experiment = download(5_000_000, Preset::NewReno, &radio);
        experiment.transfers[0].fh.heeds_bad_link = heeds;
        // Link and queue have room for this window: nothing is lost.
        experiment.transfers[0].mh.receive_buffer_bytes = 150_000;
        experiment.base_station = messages.then_some(BaseStation::ReportsBadLink {
            every: Duration::from_millis(100),
        });
        let outcome = experiment.run();
        assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
        (outcome.transfers[0].sender.timeouts, seconds(&outcome))
    };
    let (plain, plain_s) = run(false, true);
    assert!(plain >= 2, "{plain}");
    assert_eq!(run(true, false).0, plain, "it ignores them");
    let (with_messages, with_messages_s) = run(true, true);
    assert_eq!(with_messages, 0);
    assert!(with_messages_s < plain_s, "{with_messages_s} {plain_s}");
}

/// Times of the messages.
#[derive(Default)]
struct Messages(Vec<Instant>);

impl Observer for Messages {
    fn on_packet(&mut self, _link: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        if matches!(event, PacketEvent::Sent) && matches!(packet.body, Body::BadLink { .. }) {
            self.0.push(now);
        }
    }
}

#[test]
fn messages_of_two_outages_in_a_row_keep_their_interval() {
    let mut radio = radio();
    radio.outages = OutageSettings::List {
        list: [(1.0, 0.05), (1.08, 0.92)]
            .map(|(at_s, for_s)| OutageAt { at_s, for_s })
            .to_vec(),
    };
    let mut experiment = download(5_000_000, Preset::NewReno, &radio);
    experiment.base_station = Some(BaseStation::ReportsBadLink {
        every: Duration::from_millis(100),
    });
    let mut messages = Messages::default();
    experiment.run_observed(&mut messages);
    let second: Vec<Instant> = messages.0.into_iter().skip(1).collect();
    assert!(second.len() >= 9, "{second:?}");
    for pair in second.windows(2) {
        let interval = pair[1].saturating_since(pair[0]);
        assert!(interval >= Duration::from_millis(100), "{second:?}");
    }
}

/// A link on which one attempt of three fails: each failure makes a message, so the sender waits.
#[test]
fn each_attempt_that_fails_is_reported_and_spares_timeouts() {
    let mut radio = radio();
    radio.loss = 0.33;
    radio.arq = Some(ArqSettings {
        retransmit_after_ms: 600.0,
        attempts_max: None,
        reassembly_ms: None,
        in_order: true,
    });
    let run = |heeds: bool| {
        let mut experiment = download(300_000, Preset::NewReno, &radio);
        experiment.transfers[0].fh.heeds_bad_link = heeds;
        experiment.base_station = Some(BaseStation::ReportsBadLink {
            every: Duration::from_millis(100),
        });
        let mut messages = Messages::default();
        let outcome = experiment.run_observed(&mut messages);
        let transfer = &outcome.transfers[0];
        assert!(transfer.finished && transfer.intact);
        (transfer.sender.timeouts, messages.0.len())
    };
    let (plain, messages) = run(false);
    assert!(plain > 0 && messages > 0, "{plain} {messages}");
    let (with_messages, messages) = run(true);
    assert!(with_messages < plain, "{with_messages} of {plain}");
    // 206 segments take about 100 attempts more.
    assert!((50..=200).contains(&messages), "{messages}");
}

/// Bit errors and an outage, so that each mechanism has something to do.
fn damaged() -> LinkSettings {
    LinkSettings {
        outages: one_outage(1.0, 4.0),
        ..lossy()
    }
}

/// A node that reads no segments changes no packet: the runs are equal to the bit.
#[test]
fn with_encrypted_headers_each_base_station_is_a_router() {
    let plain = download(3_000_000, Preset::NewReno, &damaged());
    let with_scheme = |scheme: Scheme| {
        let mut experiment = plain.clone();
        let settings = Settings {
            scheme,
            ..Settings::default()
        };
        experiment.gateway = Some(GatewayPlan {
            signal: Some(LinkSignal::at_once(LinkSource::Carrier)),
            ..GatewayPlan::before_last(settings, &plain.hops)
        });
        experiment
    };
    let mut notifying = plain.clone();
    notifying.transfers[0].fh.heeds_bad_link = true;
    notifying.base_station = Some(BaseStation::ReportsBadLink {
        every: Duration::from_millis(100),
    });
    let mut all: Vec<Experiment> = [
        Scheme::Hold,
        Scheme::Auto,
        Scheme::Snoop,
        Scheme::Mtcp,
        Scheme::MtcpPlus,
    ]
    .map(with_scheme)
    .to_vec();
    all.extend([splitting(plain.clone(), 65_535, Preset::NewReno), notifying]);
    let digest = plain.run().digest;
    for mut experiment in all {
        assert_ne!(experiment.run().digest, digest, "{experiment:?}");
        experiment.encrypted = true;
        assert_eq!(experiment.run().digest, digest, "{experiment:?}");
    }
}

/// Encryption has no effect on mechanisms of an end or of the link.
#[test]
fn with_encrypted_headers_what_the_ends_and_the_link_do_is_the_same() {
    let plain = download(3_000_000, Preset::NewReno, &damaged());
    let mut all = vec![download(3_000_000, Preset::Sack, &damaged())];
    let mut kept = damaged();
    kept.outage_effect = OutageEffect::Keep;
    all.push(download(3_000_000, Preset::NewReno, &kept));
    let mut mtcp = plain.clone();
    mtcp.transfers[0].mh.m_tcp = true;
    all.push(mtcp);
    for mut experiment in all {
        let digest = experiment.run().digest;
        assert_ne!(digest, plain.run().digest, "{experiment:?}");
        experiment.encrypted = true;
        assert_eq!(experiment.run().digest, digest, "{experiment:?}");
    }
}
