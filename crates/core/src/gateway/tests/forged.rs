// SPDX-License-Identifier: Apache-2.0
//! Segments that a stranger made up, off the path: they pass and change nothing. And
//! numbers that only look so, after a stretch that the gateway did not see.
//!
//! The MH's windows are of 128,000 bytes, the FH's of 64,000.

use crate::gateway::tests::first_flow;
use holdfast_wire::{Flags, Segment, SeqNum, Timestamps};

use super::bench::{Bench, LEN, WINDOW, bench, not_adopted, passed, settings, suppressed};
use crate::flow::Stage;
use crate::{Scheme, Settings, SnoopSettings};

const MH_WINDOW: u32 = 128_000;
const FH_WINDOW: u32 = 65_535;

/// Everything that a forged segment could move.
fn state_of(bench: &Bench) -> String {
    let flow = first_flow(&bench.gateway);
    let (fh, mh) = (&flow.fh, &flow.mh);
    format!(
        "{:?} una {:?} max {:?} ack {:?} wnd {} nxt {:?} edge {:?} ts {:?} sent {:?} kept {} \
         owed {:?} {}",
        flow.stage,
        fh.una,
        fh.max,
        fh.ack,
        fh.window,
        mh.nxt,
        mh.right_edge,
        mh.timestamps,
        flow.sent_nxt,
        flow.cache.bytes(),
        flow.owed,
        bench.gateway.mobiles().next().expect("a mobile").outages,
    )
}

fn ack_with(bench: &Bench, ack: u32, seq: u32) -> Segment {
    let mut segment = bench.mh_segment(ack);
    (segment.seq, segment.window) = (SeqNum::new(seq), u16::MAX);
    segment
}

/// The same by one who does not know the clocks of the ends either.
fn blind(bench: &Bench, ack: u32, seq: u32) -> Segment {
    let mut segment = ack_with(bench, ack, seq);
    segment.options.timestamps = Some(Timestamps {
        tsval: 2_000_000_000,
        tsecr: 3_000_000_000,
    });
    segment
}

/// Three segments acknowledged, three on their way when the link goes.
fn away(scheme: Scheme) -> Bench {
    let mut bench = bench(scheme);
    bench.forward(1, 3);
    assert_eq!(bench.up(3001), passed());
    bench.forward(3001, 3);
    bench.link_down();
    bench.wait(1000);
    bench
}

#[test]
fn an_ack_that_no_window_reaches_changes_nothing() {
    for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
        let mut bench = away(scheme);
        let before = state_of(&bench);
        let old = 3001u32.wrapping_sub(MH_WINDOW + 1);
        for (ack, seq) in [
            // RFC 5961, 5: SEG.ACK older than SND.UNA - MAX.SND.WND.
            (old, 5001),
            (0u32.wrapping_sub(1 << 25), 5001),
            // RFC 9293, 3.10.7.4: SEG.SEQ outside of the window.
            (3001, 5001 + FH_WINDOW + 3),
            (6001, 5001 + FH_WINDOW + 3),
            (3001, 5001u32.wrapping_sub(FH_WINDOW + 1)),
            (6001, 1_000_000_000),
        ] {
            let forged = ack_with(&bench, ack, seq);
            assert_eq!(bench.put(forged), passed(), "{forged:?}");
            assert_eq!(state_of(&bench), before, "{forged:?}");
        }
        // An ACK of what was not sent, by one who knows the windows only roughly.
        for (ack, seq) in [(6002, 5000), (6002, 5003), (500_000, 5001 + 30_000)] {
            let forged = blind(&bench, ack, seq);
            assert_eq!(bench.put(forged), passed(), "{forged:?}");
            assert_eq!(state_of(&bench), before, "{forged:?}");
        }
        assert!(bench.down(6001, LEN).lines.len() <= 1);
        assert!(!bench.recovers().is_empty(), "nothing was kept");
    }
}

#[test]
fn an_old_ack_within_the_window_is_handled() {
    let mut bench = away(Scheme::Hold);
    let repeated = ack_with(&bench, 1, 5001);
    let answer = bench.put(repeated);
    assert!(answer.forwarded);
    assert_eq!(bench.counter("recoveries"), 1);
}

#[test]
fn forged_data_is_not_cached_instead_of_true_data() {
    let mut bench = away(Scheme::Hold);
    let before = state_of(&bench);
    for ack in [5002, 5001u32.wrapping_sub(FH_WINDOW + 1), 1_000_000_000] {
        let mut forged = bench.fh_segment(6001, LEN);
        forged.ack = SeqNum::new(ack);
        // The MH itself would drop it (RFC 9293, 3.10.7.4).
        assert_eq!(bench.put(forged), passed());
        assert_eq!(state_of(&bench), before, "{ack}");
    }
    assert_eq!(bench.down(6001, LEN), suppressed(&[]));
}

#[test]
fn two_forged_segments_that_agree_with_each_other_move_no_living_flow() {
    for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
        let mut bench = away(scheme);
        let before = state_of(&bench);
        for _ in 0..3 {
            bench.wait(2000);
            let forged = blind(&bench, 900_000_000, 700_000_000);
            assert_eq!(bench.put(forged), passed());
            let mut forged = bench.fh_segment(900_000_000, LEN);
            forged.ack = SeqNum::new(700_000_000);
            assert_eq!(bench.put(forged), passed());
            assert_eq!(state_of(&bench), before);
        }
    }
}

#[test]
fn no_two_forged_segments_release_what_is_owed() {
    let mut bench = away(Scheme::MtcpPlus);
    let before = state_of(&bench);
    for _ in 0..3 {
        bench.wait(2000);
        let forged = ack_with(&bench, 900_000_000, 700_000_000);
        assert_eq!(bench.put(forged), passed());
        let mut forged = bench.fh_segment(900_000_000, LEN);
        forged.ack = SeqNum::new(700_000_000);
        assert_eq!(bench.put(forged), passed());
        assert_eq!(state_of(&bench), before);
    }
}

#[test]
fn the_handshakes_numbers_are_what_the_first_segments_are_measured_by() {
    let mut bench = not_adopted(settings(Scheme::MtcpPlus));
    bench.shake_hands(0, 5000);
    let forged = bench.fh_segment(70_000_000, LEN);
    assert_eq!(bench.put(forged), passed());
    for (ack, seq) in [(900_000, 5003), (1, 500_000), (0x8000_0000, 5001)] {
        let forged = ack_with(&bench, ack, seq);
        assert_eq!(bench.put(forged), passed());
        assert_eq!(bench.state(), "adopting", "{forged:?}");
    }
    assert_eq!(bench.up(1), passed());
    let flow = first_flow(&bench.gateway);
    assert_eq!((flow.stage, flow.fh.max.get()), (Stage::Open, 1));
}

#[test]
fn a_forged_reset_of_a_flow_that_is_being_adopted_changes_nothing() {
    let mut bench = not_adopted(settings(Scheme::Hold));
    bench.shake_hands(0, 5000);
    let mut reset = bench.fh_segment(0, 0);
    reset.flags = Flags::RST.with(Flags::ACK);
    reset.ack = SeqNum::new(5555);
    assert_eq!(bench.put(reset), passed());
    assert_eq!(bench.state(), "adopting");
    reset.ack = SeqNum::new(5001);
    assert_eq!(bench.put(reset), passed());
    assert_eq!(bench.state(), "closed");
}

#[test]
fn a_reset_with_the_first_number_after_the_syns_closes_a_flow_that_is_being_adopted() {
    for from_mh in [false, true] {
        for (behind_syn, state) in [(0, "adopting"), (2, "adopting"), (1, "closed")] {
            let mut bench = not_adopted(settings(Scheme::Hold));
            bench.shake_hands(700, 5000);
            let mut reset = if from_mh {
                bench.mh_segment(0)
            } else {
                bench.fh_segment(0, 0)
            };
            let syn = if from_mh { 5000 } else { 700 };
            (reset.flags, reset.seq) = (Flags::RST, SeqNum::new(syn + behind_syn));
            assert_eq!(bench.put(reset), passed());
            assert_eq!(bench.state(), state, "{from_mh} {behind_syn}");
        }
    }
}

/// Whether a segment of the FH is kept when the link goes: the flow is followed.
fn follows(bench: &mut Bench, mut next: Segment) -> bool {
    bench.link_down();
    next.payload_len = LEN;
    !bench.put(next).forwarded
}

#[test]
fn an_upload_that_went_on_unseen_is_followed_again() {
    for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
        let mut bench = bench(scheme);
        bench.forward(1, 1);
        assert_eq!(bench.up(1001), passed());
        // 10 MB have passed by.
        let mut data = bench.mh_segment(1001);
        (data.seq, data.payload_len) = (SeqNum::new(10_005_001), LEN);
        let mut answer = bench.fh_segment(1001, 0);
        answer.ack = SeqNum::new(10_006_001);
        assert_eq!(bench.put(data), passed());
        assert_eq!(bench.put(answer), passed());
        data.seq += LEN;
        assert_eq!(bench.put(data), passed());
        let mut next = bench.fh_segment(1001, 0);
        next.ack = SeqNum::new(10_007_001);
        assert!(follows(&mut bench, next), "{scheme:?}");
    }
}

#[test]
fn both_directions_that_went_on_unseen_are_followed_again_after_a_second_of_doubt() {
    for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
        let mut bench = bench(scheme);
        bench.forward(1, 1);
        assert_eq!(bench.up(1001), passed());
        let (mut mine, mut theirs) = (10_005_001, 20_000_001);
        for _ in 0..15 {
            bench.wait(100);
            let mut data = bench.fh_segment(theirs, LEN);
            data.ack = SeqNum::new(mine);
            assert_eq!(bench.put(data), passed());
            theirs += LEN;
            let mut data = bench.mh_segment(theirs);
            (data.seq, data.payload_len) = (SeqNum::new(mine), LEN);
            assert_eq!(bench.put(data), passed());
            mine += LEN;
        }
        let mut next = bench.fh_segment(theirs, 0);
        next.ack = SeqNum::new(mine);
        assert!(follows(&mut bench, next), "{scheme:?}");
    }
}

#[test]
fn what_was_owed_and_went_on_unseen_within_the_window_is_settled() {
    let mut bench = away(Scheme::MtcpPlus);
    bench.recovers();
    assert_eq!(bench.gateway.owed_bytes(), 3000);
    // Three more segments reached the MH while the gateway hung.
    assert_eq!(bench.up(9001), passed());
    assert_eq!(bench.gateway.owed_bytes(), 0);
    let beyond = 3001 + u32::from(WINDOW) * 128;
    assert_eq!(bench.down(9001, LEN), passed());
    assert!(beyond > 10_001);
}

#[test]
fn a_forged_timestamp_does_not_make_later_pieces_old() {
    for (from_mh, number) in [
        (false, 1001_u32.wrapping_sub(50_000)),
        (false, 60_000),
        (true, 1_u32.wrapping_sub(50_000)),
    ] {
        let mut bench = bench(Scheme::Hold);
        bench.forward(1, 1);
        bench.wait(50);
        assert_eq!(bench.up(1001), passed());
        let far = Timestamps {
            tsval: bench.clock() + 0x7000_0000,
            tsecr: bench.clock() + 0x7000_0000,
        };
        let mut forged = if from_mh {
            bench.mh_segment(number)
        } else {
            bench.fh_segment(number, 0)
        };
        forged.options.timestamps = Some(far);
        let clock_seen = bench.fh_clock_seen;
        bench.put(forged);
        bench.fh_clock_seen = clock_seen;
        bench.forward(1001, 2);
        bench.link_down();
        bench.wait(1000);
        let pieces = ["DATA 1001..2001 ts 1050", "DATA 2001..3001 ts 1050"];
        assert_eq!(bench.recovers(), pieces, "{number}");
    }
}

#[test]
fn one_forged_segment_releases_nothing_that_is_owed_however_long_the_mh_is_away() {
    let mut bench = bench(Scheme::MtcpPlus);
    bench.forward(1, 3);
    bench.link_down();
    bench.wait(500_000);
    assert_eq!(bench.gateway.owed_bytes(), 3000);
    let mut forged = bench.mh_segment(900_000_000);
    forged.seq = SeqNum::new(5001 + 33_333);
    forged.options.timestamps = Some(Timestamps {
        tsval: 71_050 + 400_000_000,
        tsecr: 300_000_000,
    });
    bench.put(forged);
    assert_eq!(bench.gateway.owed_bytes(), 3000);
}

/// Segments of both ends with SACK blocks that no end of a connection could have sent.
fn with_blocks(segment: Segment, base: u32) -> [Segment; 3] {
    let blocks = [
        // The second one goes round the circle: each comparison of two numbers finds it right.
        [(4_055, 7_224), (1_050_164_062, 3_080_207_216)],
        [(0x7fff_ffff, 0x8000_0001), (0xffff_ff00, 4_000)],
        [(5_000, 4_000), (0x4000_0000, 0xc000_0000)],
    ];
    blocks.map(|blocks| {
        let mut forged = segment;
        for (left, right) in blocks {
            let seq = |offset: u32| SeqNum::new(base.wrapping_add(offset));
            forged.options.sack.push(seq(left), seq(right));
        }
        forged
    })
}

#[test]
fn sack_blocks_that_go_round_the_circle_report_nothing_in_either_direction() {
    for (scheme, set) in [
        (Scheme::Hold, SnoopSettings::today()),
        (Scheme::MtcpPlus, SnoopSettings::today()),
        (Scheme::Mtcp, SnoopSettings::today()),
        (Scheme::Mtcp2007, SnoopSettings::today()),
        (Scheme::Snoop, SnoopSettings::today()),
        (Scheme::Snoop, SnoopSettings::paper_1995()),
    ] {
        let mut bench = not_adopted(Settings {
            snoop: set,
            ..settings(scheme)
        });
        bench.sack_permitted = true;
        bench.shake_hands(0, 5000);
        assert!(bench.up(1).forwarded);
        for i in 0..8 {
            bench.down(1 + i * LEN, LEN);
        }
        let mut data = bench.mh_segment(1);
        data.payload_len = 2 * LEN;
        bench.put(data);
        bench.wait(10);
        for forged in with_blocks(bench.mh_segment(1), 1) {
            bench.put(forged);
        }
        for forged in with_blocks(bench.fh_segment(8001, 0), 5001) {
            bench.put(forged);
        }
        let flow = first_flow(&bench.gateway);
        let reported: Vec<_> = flow.sacked.iter().collect();
        let beyond = reported.iter().find(|(_, right)| right.after(flow.fh.max));
        assert_eq!(beyond, None, "{scheme:?}");
        assert!(flow.cache.holds(SeqNum::new(1)), "{scheme:?}");
    }
}

#[test]
fn a_segment_that_the_mh_drops_by_paws_is_not_cached() {
    for (scheme, timestamps) in [
        (Scheme::Hold, Some(1_000_000_000_u32)),
        (Scheme::MtcpPlus, Some(1)),
        (Scheme::Snoop, None),
    ] {
        let mut bench = bench(scheme);
        bench.forward(1, 1);
        bench.wait(50);
        assert!(bench.up(1001).forwarded);
        let mut old = bench.fh_segment(1001, LEN);
        old.options.timestamps = timestamps.map(|back| Timestamps {
            tsval: bench.fh_clock_seen.wrapping_sub(back),
            tsecr: 71_050,
        });
        let seen = bench.fh_clock_seen;
        assert_eq!(bench.put(old), passed());
        bench.fh_clock_seen = seen;
        assert_eq!(bench.cached(), 0, "{scheme:?}");
        // The true bytes are.
        bench.forward(1001, 1);
        assert_eq!(bench.cached(), 1000, "{scheme:?}");
    }
}

#[test]
fn one_forged_segment_does_not_hinder_that_a_flow_is_adopted() {
    for (seq, ack) in [
        (700_000_000, 900_000_000),
        (3_000_000_000, 900_000_000),
        (700_000_000, 4_000_000_000),
        (3_000_000_000, 4_000_000_000),
        // Ahead of the true ones, and near to them.
        (5_000, 60_000),
    ] {
        let mut bench = not_adopted(settings(Scheme::Hold));
        let mut forged = bench.fh_segment(seq, LEN);
        forged.ack = SeqNum::new(ack);
        assert_eq!(bench.put(forged), passed());
        assert_eq!(bench.up(1), passed(), "the MH agrees with nothing");
        assert_eq!(bench.state(), "adopting", "{seq} {ack}");
        bench.forward(1, 2);
        assert_eq!(bench.put(forged), passed());
        bench.forward(2001, 1);
        assert_eq!(bench.up(1001), passed());
        assert_eq!(bench.state(), "open", "{seq} {ack}");
        let flow = first_flow(&bench.gateway);
        let numbers = [flow.fh.ack, flow.mh.nxt, flow.fh.max].map(SeqNum::get);
        assert_eq!(numbers, [5001, 5001, 3001], "{seq} {ack}");
    }
}

#[test]
fn a_flow_with_data_in_both_directions_is_adopted_by_an_ack_of_an_earlier_segment() {
    let mut bench = not_adopted(settings(Scheme::Hold));
    for i in 0..20 {
        // Each end has ten segments on the way when it sends the next.
        bench.wait(10);
        let mut data = bench.fh_segment(10_001 + i * LEN, LEN);
        data.ack = SeqNum::new(50_001 + i * LEN);
        assert_eq!(bench.put(data), passed());
        let mut data = bench.mh_segment(1 + i * LEN);
        (data.seq, data.payload_len) = (SeqNum::new(60_001 + i * LEN), LEN);
        // It echoes the segment that it acknowledges.
        data.options.timestamps = Some(Timestamps {
            tsval: bench.clock() + 70_000,
            tsecr: bench.clock() - 100,
        });
        assert_eq!(bench.put(data), passed());
    }
    assert_eq!(bench.state(), "open");
}

#[test]
fn numbers_far_from_all_that_was_seen_move_no_adopted_flow() {
    let mut bench = not_adopted(settings(Scheme::Hold));
    bench.forward(1, 1);
    assert_eq!(bench.up(1001), passed());
    assert_eq!(bench.state(), "open");
    let before = state_of(&bench);
    for (seq, ack) in [
        (50_000_000, 5001),
        (1001, 5001_u32.wrapping_sub(50_000_000)),
        (0_u32.wrapping_sub(50_000_000), 5001),
    ] {
        let mut forged = bench.fh_segment(seq, LEN);
        forged.ack = SeqNum::new(ack);
        assert_eq!(bench.put(forged), passed());
        assert_eq!(state_of(&bench), before, "{seq} {ack}");
    }
}

#[test]
fn an_unknown_option_counts_only_in_a_segment_that_fits_the_handshake() {
    let mut bench = not_adopted(settings(Scheme::Hold));
    let mut forged = bench.fh_segment(700_000_000, LEN);
    forged.options.others = true;
    assert_eq!(bench.put(forged), passed());
    assert_eq!(bench.state(), "adopting");
    bench.shake_hands(0, 5000);
    assert_eq!(bench.put(forged), passed());
    let mut back = bench.mh_segment(700_000_000);
    back.options.others = true;
    assert_eq!(bench.put(back), passed());
    assert_eq!(bench.state(), "adopting");
    let mut joins = bench.mh_segment(1);
    joins.options.others = true;
    assert_eq!(bench.put(joins), passed());
    assert_eq!(bench.state(), "opaque");
}

#[test]
fn a_connection_in_use_does_not_give_way_to_a_handshake_of_strangers() {
    for scheme in [Scheme::Hold, Scheme::MtcpPlus, Scheme::Mtcp, Scheme::Snoop] {
        let mut bench = bench(scheme);
        bench.down(1, LEN);
        bench.up(1001);
        bench.wait(500);
        bench.shake_hands(700_000_000, 900_000_000);
        let flow = first_flow(&bench.gateway);
        assert_eq!(flow.stage, Stage::Open, "{scheme:?}");
        // With bytes in the cache it takes longer.
        bench.down(1001, LEN);
        bench.link_down();
        bench.wait(30_000);
        bench.shake_hands(700_000_000, 900_000_000);
        assert_eq!(bench.cached(), 1000, "{scheme:?}");
    }
}

#[test]
fn a_silent_connection_gives_way_to_a_new_one_wherever_its_numbers_lie() {
    for fh_iss in [300_000, 3_000_000_000] {
        let mut bench = bench(Scheme::MtcpPlus);
        bench.forward(1, 1);
        assert!(bench.up(1001).forwarded);
        // A repeated SYN/ACK of its own changes nothing.
        assert_eq!(bench.put(bench.syn_ack(0, 5000)), passed());
        bench.wait(61_000);
        assert_eq!(bench.put(bench.syn_ack(0, 5000)), passed());
        assert_eq!(bench.state(), "open");
        bench.shake_hands(fh_iss, 900_000);
        assert_eq!((bench.state(), bench.cached()), ("adopting", 0));
    }
}

fn timeless(mut segment: Segment) -> Segment {
    segment.options.timestamps = None;
    segment
}

/// A flow without timestamps, three segments of it in the cache.
fn timeless_download() -> Bench {
    let mut bench = not_adopted(settings(Scheme::Hold));
    for seq in [1, 1001, 2001, 3001] {
        let data = timeless(bench.fh_segment(seq, LEN));
        bench.put(data);
        if seq == 1 {
            let ack = timeless(bench.mh_segment(1001));
            bench.put(ack);
        }
    }
    bench
}

#[test]
fn two_blind_acks_in_an_outage_move_no_flow_without_timestamps() {
    let mut bench = timeless_download();
    assert_eq!((bench.state(), bench.cached()), ("open", 3000));
    bench.link_down();
    bench.wait(2_000);
    for _ in 0..2 {
        let mut forged = timeless(bench.mh_segment(800_000_000));
        forged.seq = SeqNum::new(5001 + 20_000);
        bench.put(forged);
        bench.wait(1_500);
    }
    assert_eq!(bench.cached(), 3000);
}

#[test]
fn a_lone_syn_does_not_end_the_resets_of_a_closed_flow() {
    let mut bench = away(Scheme::MtcpPlus);
    bench.wait(620_000);
    assert_eq!(bench.counter("owed_lost"), 1);
    let mut syn = bench.fh_segment(900, 0);
    (syn.flags, syn.options.timestamps) = (Flags::SYN, None);
    assert_eq!(bench.put(syn), passed());
    let answer = bench.down(6001, LEN);
    assert!(!answer.forwarded, "{answer:?}");
    assert!(answer.lines[0].starts_with("RST to FH"), "{answer:?}");
}

#[test]
fn two_forged_segments_that_agree_do_not_empty_the_cache_in_an_outage() {
    let mut bench = timeless_download();
    bench.link_down();
    for _ in 0..5 {
        let mut forged = timeless(bench.mh_segment(800_000_000));
        forged.seq = SeqNum::new(600_000_000);
        bench.put(forged);
        bench.wait(1_500);
        let mut forged = timeless(bench.fh_segment(800_000_000, 0));
        forged.ack = SeqNum::new(600_000_000);
        bench.put(forged);
    }
    assert_eq!(bench.cached(), 3000);
    let flow = first_flow(&bench.gateway);
    assert_eq!(flow.fh.una, SeqNum::new(1001));
}

#[test]
fn a_flow_with_foreign_clocks_is_followed_again_after_a_minute() {
    let mut bench = not_adopted(settings(Scheme::Hold));
    let foreign = |mut segment: Segment, tsval, tsecr| {
        segment.options.timestamps = Some(Timestamps { tsval, tsecr });
        segment
    };
    let forged = foreign(
        bench.fh_segment(700_000_000, LEN),
        2_000_000_000,
        3_000_000_000,
    );
    bench.put(forged);
    let forged = foreign(bench.mh_segment(700_001_000), 3_000_000_000, 2_000_000_000);
    bench.put(forged);
    assert_eq!(bench.state(), "open");
    for i in 0..140 {
        bench.wait(500);
        let data = bench.fh_segment(1 + i * LEN, LEN);
        bench.put(data);
        bench.wait(20);
        bench.up(1001 + i * LEN);
    }
    let data = bench.fh_segment(140_001, LEN);
    bench.put(data);
    assert_eq!(bench.cached(), 1000);
}

/// A forged ACK of what was never sent was believed: it has a number in the FH's window, and the
/// MH's window is not known.
fn misled() -> Bench {
    let mut bench = timeless_download();
    let mut forged = timeless(bench.mh_segment(900_000));
    forged.seq += 100;
    bench.put(forged);
    assert_eq!(bench_una(&bench), 900_000);
    bench
}

fn bench_una(bench: &Bench) -> u32 {
    first_flow(&bench.gateway).fh.una.get()
}

#[test]
fn a_flow_that_a_forged_ack_misled_is_adopted_anew_after_five_seconds() {
    let mut bench = misled();
    for i in 0..12 {
        let next = 4001 + i * LEN;
        let data = timeless(bench.fh_segment(next, LEN));
        bench.put(data);
        let ack = timeless(bench.mh_segment(next + LEN));
        bench.put(ack);
        let expected = if i < 10 { 900_000 } else { next + LEN };
        assert_eq!(bench_una(&bench), expected, "segment {i}");
        bench.wait(500);
    }
    let data = timeless(bench.fh_segment(4001 + 12 * LEN, LEN));
    bench.put(data);
    assert_eq!((bench.state(), bench.cached()), ("open", u64::from(LEN)));
}

#[test]
fn old_acks_in_an_outage_do_not_empty_the_cache() {
    let mut bench = timeless_download();
    bench.link_down();
    let apart = [0x9000_0000_u32, 0xd000_0000, 0xa000_0000, 0xe000_0000];
    for ack in [[0x9000_0000; 4], apart].concat() {
        let again = timeless(bench.fh_segment(1001, LEN));
        bench.put(again);
        let forged = timeless(bench.mh_segment(ack));
        bench.put(forged);
        bench.wait(2_000);
    }
    assert_eq!(bench.cached(), 3000);
}

#[test]
fn two_low_acks_open_no_flow_anew() {
    let mut bench = misled();
    for next in [4001, 5001] {
        let data = timeless(bench.fh_segment(next, LEN));
        bench.put(data);
        let ack = timeless(bench.mh_segment(next + LEN));
        bench.put(ack);
        bench.wait(6_000);
    }
    assert_eq!(bench_una(&bench), 900_000);
}

#[test]
fn acks_that_were_overtaken_contradict_nothing() {
    let mut bench = timeless_download();
    let newest = timeless(bench.mh_segment(3001));
    bench.put(newest);
    for _ in 0..4 {
        for ack in [1001, 2001, 3001] {
            let again = timeless(bench.fh_segment(2001, LEN));
            bench.put(again);
            let late = timeless(bench.mh_segment(ack));
            bench.put(late);
            bench.wait(1_000);
        }
    }
    assert_eq!((bench_una(&bench), bench.cached()), (3001, 1000));
}
