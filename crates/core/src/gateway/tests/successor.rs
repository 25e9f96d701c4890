// SPDX-License-Identifier: Apache-2.0
//! What one gateway leaves to the next, for how long bytes are owed, and what is counted
//! when a flow begins anew.

use core::time::Duration;

use holdfast_wire::SeqNum;

use super::bench::{Bench, LEN, bench, bench_with, not_adopted, passed, settings, suppressed};
use crate::testing::{FH, MH, Packet};
use crate::{Action, Direction, FlowKey, FlowRecord, Scheme, Settings, Verdict};

/// What a gateway left that owed the FH's bytes up to 2000 to the MH.
const RECORD: FlowRecord = FlowRecord {
    key: FlowKey { fh: FH, mh: MH },
    mh_window_scale: Some(7),
    owed: Some(SeqNum::new(2001)),
    renumber: None,
    gone: false,
};

const RESETS: [&str; 2] = ["RST to FH seq 5001", "RST to MH seq 1"];

fn successor(settings: Settings) -> Bench {
    let mut bench = not_adopted(settings);
    bench.gateway.import(&RECORD, bench.now);
    bench
}

/// Time passes; the records that are written.
fn records_while(bench: &mut Bench, seconds: u64) -> Vec<FlowRecord> {
    let until = bench.now + Duration::from_secs(seconds);
    let mut actions = Vec::new();
    while let Some(at) = bench.gateway.poll_timeout().filter(|at| *at <= until) {
        bench.now = bench.now.max(at);
        bench.gateway.handle_timeout(bench.now, &mut actions);
    }
    bench.now = until;
    let record = |action| match action {
        Action::Record(record) => Some(record),
        _ => None,
    };
    actions.into_iter().filter_map(record).collect()
}

#[test]
fn a_handshake_makes_what_a_predecessor_owed_another_connections() {
    for opens_at_fh in [false, true] {
        let mut bench = successor(settings(Scheme::MtcpPlus));
        if opens_at_fh {
            bench.shake_hands_by_fh(0, 5000);
        } else {
            bench.shake_hands(0, 5000);
            assert_eq!(bench.up(1), passed());
        }
        bench.forward(1, 1);
        assert_eq!((bench.state(), bench.counter("owed_lost")), ("open", 0));
    }
}

#[test]
fn a_record_whose_flow_is_never_adopted_is_given_up() {
    let mut brief = settings(Scheme::MtcpPlus);
    brief.flow_idle_max = Duration::from_secs(10);
    let mut bench = successor(brief);
    assert_eq!(records_while(&mut bench, 9), []);
    let gone = FlowRecord {
        gone: true,
        ..RECORD
    };
    assert_eq!(records_while(&mut bench, 3), [gone]);
    assert_eq!(bench.gateway.poll_timeout(), None);
    assert_eq!(bench.down(2000, 0), passed());
}

#[test]
fn a_flow_seen_in_one_direction_alone_leaves_the_record_of_what_is_owed() {
    let mut bench = successor(settings(Scheme::MtcpPlus));
    assert!(bench.down(2000, 0).forwarded);
    assert_eq!(records_while(&mut bench, 40), []);
    assert_eq!(bench.gateway.stats().flows, 0, "not forgotten");
    assert!(bench.down(2000, 0).forwarded);
    assert_eq!(bench.up(1), suppressed(&RESETS));
}

#[test]
fn the_wait_for_an_mh_that_is_owed_bytes_begins_anew_with_each_that_it_takes() {
    let mut impatient = settings(Scheme::MtcpPlus);
    impatient.owed_wait_max = Duration::from_secs(5);
    let mut bench = bench_with(impatient);
    bench.forward(1, 3);
    assert!(!bench.link_down().is_empty());
    let resets = |lines: &[String]| lines.iter().filter(|line| line.starts_with("RST")).count();
    assert_eq!(resets(&bench.wait(4000)), 0);
    bench.link_up();
    assert!(bench.up(1001).forwarded);
    assert_eq!(resets(&bench.wait(4000)), 0);
    assert_eq!(bench.gateway.owed_bytes(), 2000);
    assert_eq!(resets(&bench.wait(4000)), 2);
}

#[test]
fn a_gateway_that_is_leaving_acknowledges_nothing_for_a_connection_that_begins_anew_either() {
    let mut bench = bench(Scheme::MtcpPlus);
    bench.gateway.stop_acknowledging();
    bench.shake_hands(300_000, 5000);
    assert!(bench.up(300_001).forwarded);
    bench.forward(300_001, 1);
    assert_eq!((bench.state(), bench.cached()), ("open", 1000));
    assert!(bench.link_down().is_empty());
    assert_eq!(bench.gateway.owed_bytes(), 0);
}

#[test]
fn what_is_forgotten_after_a_hang_is_no_longer_counted() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 2);
    assert_eq!(bench.cached(), 2000);
    let mut data = bench.mh_segment(20_000_001);
    (data.seq, data.payload_len) = (SeqNum::new(10_005_001), LEN);
    assert_eq!(bench.put(data), passed());
    let mut data = bench.fh_segment(20_000_001, LEN);
    data.ack = SeqNum::new(10_006_001);
    assert_eq!(bench.put(data), passed());
    // The old ones are gone, the new one is kept.
    assert_eq!(bench.cached(), 1000);
}

#[test]
fn an_ack_that_cannot_be_copied_is_not_repeated_after_an_outage() {
    for cacheable in [true, false] {
        let mut bench = bench(Scheme::Hold);
        bench.forward(1, 1);
        bench.link_down();
        let ack = bench.fh_segment(1001, 0);
        let mut packet = Packet::new(ack, &[], LEN);
        packet.cacheable = cacheable;
        let mut actions = Vec::new();
        let now = bench.now;
        let _ = bench
            .gateway
            .handle_segment(Direction::Downlink, &ack, &packet, now, &mut actions);
        let lines = bench.link_up();
        let repeated = lines.iter().any(|line| line.starts_with("AGAIN"));
        assert_eq!(repeated, cacheable, "{lines:?}");
    }
}

#[test]
fn owed_bytes_stay_in_the_record_until_both_ends_must_have_the_rst() {
    let mut bench = successor(settings(Scheme::MtcpPlus));
    assert!(bench.down(2001, LEN).forwarded);
    let (segment, now) = (bench.mh_segment(1), bench.now);
    let packet = Packet::new(segment, &[], LEN);
    let mut actions = Vec::new();
    let verdict =
        bench
            .gateway
            .handle_segment(Direction::Uplink, &segment, &packet, now, &mut actions);
    assert_eq!(verdict, Verdict::Suppress);
    assert_eq!(bench.counter("owed_lost"), 1);
    // Both RSTs are lost, and so is this gateway: the next one reads what is written now.
    let mut written = actions.iter().filter_map(|action| match action {
        Action::Record(record) => Some(*record),
        _ => None,
    });
    assert_eq!(written.next_back(), Some(RECORD));
    // Neither end has sent anything for a minute: both have the RST.
    let gone: Vec<bool> = records_while(&mut bench, 70)
        .iter()
        .map(|record| record.gone)
        .collect();
    assert_eq!(gone, [true]);
}
