// SPDX-License-Identifier: Apache-2.0
//! Snoop with data of the MH: which losses on the wireless half are reported to the MH and when,
//! and which losses on the wired half the gateway repairs.

use holdfast_wire::{Segment, SeqNum};

use super::bench::{Answer, Bench, LEN, not_adopted, passed, settings};
use crate::{Scheme, Settings, SnoopSettings};

mod reports;
mod undo;
mod wired_loss;
mod withheld_acks;

fn snoop() -> Settings {
    Settings {
        snoop: SnoopSettings::paper_1995(),
        ..settings(Scheme::Snoop)
    }
}

/// After a handshake with SACK; the FH speaks so much later than the MH.
fn bench_with_sack(settings: Settings) -> Bench {
    let mut bench = not_adopted(settings);
    bench.sack_permitted = true;
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    assert_eq!(fh_acks(&mut bench, 0, &[]), passed());
    bench
}

/// The beginning of the nth packet of the MH.
const fn nth(n: u32) -> u32 {
    5001 + n * LEN
}

/// A data packet of the MH.
fn packet(bench: &Bench, n: u32) -> Segment {
    let mut segment = bench.mh_segment(1);
    (segment.seq, segment.payload_len) = (SeqNum::new(nth(n)), LEN);
    segment
}

fn sends(bench: &mut Bench, n: u32) -> Vec<String> {
    let answer = bench.put(packet(bench, n));
    assert!(answer.forwarded, "data always goes on");
    answer.lines
}

/// Sends these packets, a millisecond apart. Returns everything that the gateway sends meanwhile.
fn send_all(bench: &mut Bench, packets: impl IntoIterator<Item = u32>) -> Vec<String> {
    let mut lines = Vec::new();
    for n in packets {
        lines.extend(sends(bench, n));
        lines.extend(bench.wait(1));
    }
    lines
}

/// The FH acknowledges everything before the nth packet, and these blocks.
fn fh_acks(bench: &mut Bench, n: u32, blocks: &[(u32, u32)]) -> Answer {
    let mut segment = bench.fh_segment(1, 0);
    segment.ack = SeqNum::new(nth(n));
    for (left, right) in blocks {
        let pushed = segment
            .options
            .sack
            .push(SeqNum::new(nth(*left)), SeqNum::new(nth(*right)));
        assert!(pushed);
    }
    bench.put(segment)
}

/// A report as the bench writes it, of ranges from one byte up to and not including another.
fn report(bench: &Bench, ack: u32, blocks: &[(u32, u32)]) -> String {
    let blocks: Vec<_> = blocks
        .iter()
        .map(|(left, right)| format!("{left}..{right}"))
        .collect();
    format!(
        "MADE to MH seq 1 ack {ack} ts {} sack {}",
        bench.fh_clock_seen,
        blocks.join(" ")
    )
}

fn data(bench: &Bench, n: u32) -> String {
    let tsval = bench.mh_clock_newest;
    format!("DATA {}..{} ts {tsval}", nth(n), nth(n + 1))
}

const NONE: [String; 0] = [];
