// SPDX-License-Identifier: Apache-2.0
//! Early set-up: connections that leave the gateway, for another station or for good.

use holdfast_wire::{Flags, Segment, SeqNum};

use super::{BOTH, Bench, OPENER, OTHER, at};
use crate::Direction;
use crate::testing::{MH, Packet};

#[test]
fn a_mobile_that_moves_to_another_station_during_the_set_up_resets_both_ends() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        bench.ask();
        let (mut pieces, mut actions) = (Vec::new(), Vec::new());
        let states = bench.gateway.export(&[MH.address], at(12), &mut actions);
        assert!(states.is_empty());
        bench
            .gateway
            .release(&[MH.address], &mut pieces, &mut actions);
        let out = bench.sent(actions);
        assert_eq!(out.len(), 2, "{out:?}");
        assert!(out.iter().all(|it| it.segment.flags.has(Flags::RST)));
        assert_ne!(out[0].segment.to, out[1].segment.to);
    }
}

/// A connection with 500 bytes of the FH in the cache: the number that the opener knows the FH by, and the
/// segment as the FH sent it.
fn with_data_cached() -> (Bench, SeqNum, Segment) {
    let mut bench = Bench::new(Direction::Uplink);
    let iss = bench.connect();
    let next = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 1);
    let _ = bench.give(next, b"request", 30);
    let (seq, ack) = (SeqNum::new(OTHER + 1), SeqNum::new(OPENER + 8));
    let data = bench.segment(false, Flags::ACK, seq, ack);
    let out = bench.give(data, &[7; 500], 40);
    assert_eq!(out.last().unwrap().segment.seq, iss + 1);
    (bench, iss, data)
}

#[test]
fn another_station_gets_what_is_kept_as_the_fh_sent_it() {
    let (mut bench, iss, data) = with_data_cached();
    let (mut pieces, mut actions) = (Vec::new(), Vec::new());
    let states = bench.gateway.export(&[MH.address], at(50), &mut actions);
    let numbers = states[0].renumber.expect("its halves differ");
    assert_eq!(states[0].fh_una, iss + 1);
    assert_eq!(numbers.of_fh(states[0].fh_una), SeqNum::new(OTHER + 1));
    bench
        .gateway
        .release(&[MH.address], &mut pieces, &mut actions);
    assert_eq!(pieces.len(), 1);
    let piece = Packet::of_resend(&pieces[0]).segment;
    assert_eq!((piece.seq, piece.ack), (data.seq, data.ack));
}

#[test]
fn a_station_that_gets_its_own_flow_back_keeps_what_it_has_cached() {
    let (mut bench, ..) = with_data_cached();
    let mut actions = Vec::new();
    let states = bench.gateway.export(&[MH.address], at(50), &mut actions);
    assert!(states[0].renumber.is_some());
    let cached = bench.gateway.stats().cached_bytes;
    assert!(cached >= 500, "{cached}");
    bench.gateway.adopt(&states[0], None, at(50), &mut actions);
    assert_eq!(bench.gateway.stats().cached_bytes, cached);
}

/// The time after which a closed connection of renumbered halves is forgotten: twice the MSL, and
/// a few steps of the sweep.
const CLOSED_FORGOTTEN_MS: u64 = (240 + 5) * 1000;

/// One end's FIN, the other's, and the last ACK. `first`: the opener is the first.
fn close(bench: &mut Bench, iss: SeqNum, first: bool) {
    let fin = Flags::FIN.with(Flags::ACK);
    // What each end sends next, and what it acknowledges of the other.
    let numbers = |by_opener| {
        if by_opener {
            (SeqNum::new(OPENER + 1), iss + 1)
        } else {
            (SeqNum::new(OTHER + 1), SeqNum::new(OPENER + 1))
        }
    };
    let ((seq, ack), (other_seq, other_ack)) = (numbers(first), numbers(!first));
    bench.give(bench.segment(first, fin, seq, ack), &[], 1000);
    bench.give(
        bench.segment(!first, fin, other_seq, other_ack + 1),
        &[],
        1040,
    );
    bench.give(
        bench.segment(first, Flags::ACK, seq + 1, ack + 1),
        &[],
        1080,
    );
}

#[test]
fn the_flow_leaves_the_table_after_both_ends_have_closed() {
    for direction in BOTH {
        for opener_first in [true, false] {
            let mut bench = Bench::new(direction);
            let iss = bench.connect();
            close(&mut bench, iss, opener_first);
            bench.wait(2000 + CLOSED_FORGOTTEN_MS);
            let flows = bench.gateway.stats().flows;
            assert_eq!(flows, 0, "{direction:?}, opener first: {opener_first}");
            assert_eq!(
                bench.records,
                [],
                "{direction:?}, opener first: {opener_first}"
            );
        }
    }
}

#[test]
fn a_flow_that_an_end_resets_leaves_the_table() {
    for direction in BOTH {
        for by_opener in [true, false] {
            let mut bench = Bench::new(direction);
            let iss = bench.connect();
            let (seq, ack) = if by_opener {
                (SeqNum::new(OPENER + 1), iss + 1)
            } else {
                (SeqNum::new(OTHER + 1), SeqNum::new(OPENER + 1))
            };
            let reset = Flags::RST.with(Flags::ACK);
            bench.give(bench.segment(by_opener, reset, seq, ack), &[], 1000);
            bench.wait(2000 + CLOSED_FORGOTTEN_MS);
            let flows = bench.gateway.stats().flows;
            assert_eq!(flows, 0, "{direction:?}, by opener: {by_opener}");
        }
    }
}
