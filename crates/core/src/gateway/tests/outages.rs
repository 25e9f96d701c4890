// SPDX-License-Identifier: Apache-2.0
//! The records of outages, of one flow and of many mobiles.

use core::time::Duration;

use proptest::prelude::*;

use super::bench::{Bench, LEN, bench, not_adopted, settings};
use crate::schemes;
use crate::testing::MH;
use crate::{LinkEvent, LinkSource, Outage, Scheme};

/// Those that have ended since the last call.
fn ended(bench: &mut Bench) -> Vec<Outage<core::net::IpAddr>> {
    core::iter::from_fn(|| bench.gateway.poll_outage()).collect()
}

#[test]
fn a_reported_outage_has_its_length_its_flow_and_what_was_cached() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 3);
    let begin = bench.now;
    bench.link_down();
    bench.down(3001, LEN);
    bench.wait(3_000);
    assert!(!bench.gateway.has_outages(), "it lasts");
    bench.link_up();
    let records = ended(&mut bench);
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!(
        (record.mobile, record.source),
        (MH.address, LinkSource::Signal)
    );
    assert_eq!((record.begin, record.flows), (begin, 1));
    assert_eq!(record.length, Duration::from_secs(3));
    assert_eq!(record.cached_bytes, 4_000);
}

#[test]
fn what_noticed_an_outage_first_is_its_source() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 1);
    let begin = bench.now;
    bench.wait(2_000);
    bench.link_down();
    bench.wait(1_000);
    bench.link_up();
    let records = ended(&mut bench);
    assert_eq!(records.len(), 1, "one outage, though it was noticed twice");
    assert_eq!(records[0].source, LinkSource::Silence);
    assert_eq!(
        records[0].begin, begin,
        "the first segment without an answer"
    );
    assert_eq!(records[0].length, Duration::from_secs(3));
}

#[test]
fn an_outage_in_which_data_begins_to_flow_stalls_from_then_on() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 1);
    bench.up(1001);
    bench.wait(100);
    bench.link_down();
    bench.wait(60_000);
    let silent_for_long = bench.now;
    bench.down(1001, LEN);
    bench.wait(100);
    bench.link_up();
    let record = ended(&mut bench)[0];
    assert_eq!(record.flows, 1);
    // The FH's timer has not expired once.
    let rto = record.stall_saved + (bench.now.saturating_since(silent_for_long));
    assert!(rto < Duration::from_millis(1_200), "{rto:?}");
}

#[test]
fn a_mobile_whose_flows_wait_for_nothing_loses_no_time() {
    for scheme in Scheme::ALL {
        let mut bench = bench(*scheme);
        bench.link_down();
        bench.wait(1_000);
        bench.link_up();
        let records = ended(&mut bench);
        let survives = schemes::survives_outages(&settings(*scheme));
        assert_eq!(records.len(), usize::from(survives), "{scheme:?}");
        for record in records {
            assert_eq!(record.flows, 0, "{scheme:?}");
            assert_eq!(record.stall_saved, Duration::ZERO, "{scheme:?}");
        }
    }
}

#[test]
fn a_stranger_in_an_outage_of_the_carrier_gives_no_record() {
    let mut bench = not_adopted(settings(Scheme::Hold));
    let mut actions = Vec::new();
    for event in [LinkEvent::Down, LinkEvent::Up] {
        let (source, now) = (LinkSource::Carrier, bench.now);
        bench
            .gateway
            .handle_all_links(event, source, now, &mut actions);
        let mut syn = bench.mh_segment(0);
        syn.flags = holdfast_wire::Flags::SYN;
        bench.put(syn);
        bench.wait(1_000);
    }
    assert_eq!(bench.gateway.mobiles().count(), 1);
    assert_eq!(ended(&mut bench), []);
}

#[test]
fn an_upload_waits_in_an_outage_if_something_of_it_has_no_ack() {
    for unanswered in [0, 1] {
        let mut bench = bench(Scheme::Hold);
        for number in 0..20 {
            let mut data = bench.mh_segment(1);
            data.seq += number * LEN;
            data.payload_len = LEN;
            bench.put(data);
            bench.wait(5);
            let mut ack = bench.fh_segment(1, 0);
            ack.ack += (number + 1) * LEN;
            if number + unanswered < 20 {
                bench.put(ack);
            }
        }
        bench.wait(3_000);
        assert_eq!(bench.counter("silences"), 1);
        let mut answer = bench.mh_segment(1);
        answer.seq += 20 * LEN;
        bench.put(answer);
        let records = ended(&mut bench);
        assert_eq!(records.len() as u32, unanswered);
        assert!(records.iter().all(|record| record.flows == 1));
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Down,
    Up,
    Wait(u64),
    /// A segment of the FH, and one of the MH that acknowledges all.
    Fh,
    Mh,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        Just(Event::Down),
        Just(Event::Up),
        (1u64..20_000).prop_map(Event::Wait),
        Just(Event::Fh),
        Just(Event::Mh),
    ];
    proptest::collection::vec(event, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens, records are of separate times in order, and within their limits. Each
    /// reported link up after a link down ends one.
    #[test]
    fn records_are_apart_in_order_and_within_limits(
        events in events(),
        scheme in prop_oneof![
            Just(Scheme::Hold), Just(Scheme::Auto), Just(Scheme::Observe), Just(Scheme::MtcpPlus),
        ],
    ) {
        let mut bench = bench(scheme);
        let (mut seq, mut is_down) = (1, false);
        let mut last_end = bench.now;
        for event in events {
            match event {
                Event::Down => drop(bench.signal(LinkEvent::Down)),
                Event::Up => drop(bench.signal(LinkEvent::Up)),
                Event::Wait(ms) => drop(bench.wait(ms)),
                Event::Fh => {
                    bench.down(seq, LEN);
                    seq += LEN;
                }
                Event::Mh => drop(bench.up(seq)),
            }
            let records = ended(&mut bench);
            prop_assert!(records.len() <= 1, "one input ends one outage of one mobile");
            if matches!(event, Event::Up) && is_down {
                prop_assert_eq!(records.len(), 1);
            }
            is_down = match event {
                Event::Down => true,
                _ if !records.is_empty() => false,
                _ => is_down,
            };
            for record in records {
                prop_assert!(record.begin >= last_end, "{record:?} overlaps the one before");
                last_end = record.begin + record.length;
                prop_assert!(last_end <= bench.now);
                prop_assert!(record.flows <= 1);
                prop_assert!(record.stall_saved <= Duration::from_secs(60));
                prop_assert!(record.flows > 0 || record.stall_saved.is_zero());
            }
        }
    }
}
