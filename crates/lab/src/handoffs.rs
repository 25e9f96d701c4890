// SPDX-License-Identifier: Apache-2.0
//! The cost of moves from cell to cell, by one rule on every substrate. It is computed from the
//! packets of the connection at the ends of the links.
//!
//! A [`Journal`] is filled with packets: from the simulator's observer, or from the links' packet
//! files. [`Journal::handoffs`] computes the cost of each move of a run.

use std::collections::BTreeMap;

use holdfast_link::OutageAt;
use serde::{Deserialize, Serialize};

use crate::scenario::{DirectionChoice, Move};
use crate::stall;
use crate::statistics::median;

/// One move of the MH from cell to cell during a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// When it left the old cell, in seconds since the start of the links' clocks.
    pub left_s: f64,
    /// The cell that it left, from 1.
    pub from: usize,
    /// The cell that it entered, from 1.
    pub to: usize,
    /// From leaving to entering, in milliseconds.
    pub gap_ms: f64,
    /// From its announcement to leaving, in milliseconds; none: it was not announced.
    pub announced_ms: Option<f64>,
    /// From leaving to the first packet of the connection at the MH through the new cell, in
    /// milliseconds; none: no such packet came until it left again.
    pub first_packet_ms: Option<f64>,
    /// From leaving to the first new byte in sequence at the receiver after the MH entered the new
    /// cell, in milliseconds; none: no such byte came until it left again.
    pub new_byte_ms: Option<f64>,
    /// Packets with data that were sent around the move and never arrived.
    pub lost_packets: u64,
    /// Packets around the move whose data the receiver had already.
    pub duplicate_packets: u64,
    /// Packets around the move that the sender retransmitted.
    pub sent_again_packets: u64,
}

/// All handoffs of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandoffSummary {
    /// How many.
    pub count: usize,
    /// Median of [`Handoff::first_packet_ms`] where there is one.
    pub first_packet_ms_median: Option<f64>,
    /// The longest of these times; none if one handoff has none.
    pub first_packet_ms_max: Option<f64>,
    /// Median of [`Handoff::new_byte_ms`] where there is one.
    pub new_byte_ms_median: Option<f64>,
    /// Median of [`Handoff::lost_packets`].
    pub lost_packets_median: f64,
    /// Median of [`Handoff::duplicate_packets`].
    pub duplicate_packets_median: f64,
    /// Median of [`Handoff::sent_again_packets`].
    pub sent_again_packets_median: f64,
    /// The most bytes at a time that the other cells' base stations buffered for the MH; none: not
    /// queried.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub buffered_bytes_max: Option<u64>,
    /// The longest record of a connection that a base station gave to another one, bytes; on the
    /// model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state_bytes_max: Option<u64>,
}

impl HandoffSummary {
    /// The summary of these handoffs; none if there are none.
    pub fn of(handoffs: &[Handoff], buffered_bytes_max: Option<u64>) -> Option<Self> {
        let count = |get: fn(&Handoff) -> u64| {
            median(handoffs.iter().map(|handoff| get(handoff) as f64).collect())
        };
        let times = |get: fn(&Handoff) -> Option<f64>| -> Vec<f64> {
            handoffs.iter().filter_map(get).collect()
        };
        let first = times(|handoff| handoff.first_packet_ms);
        let max = first.iter().copied().max_by(f64::total_cmp);
        Some(Self {
            count: handoffs.len(),
            first_packet_ms_max: max.filter(|_| first.len() == handoffs.len()),
            first_packet_ms_median: median(first),
            new_byte_ms_median: median(times(|handoff| handoff.new_byte_ms)),
            lost_packets_median: count(|handoff| handoff.lost_packets)?,
            duplicate_packets_median: count(|handoff| handoff.duplicate_packets)?,
            sent_again_packets_median: count(|handoff| handoff.sent_again_packets)?,
            buffered_bytes_max,
            state_bytes_max: None,
        })
    }
}

/// A segment with data, and its time. `begin` and `end` are positions in the stream, as of
/// [`Numbers`].
#[derive(Clone, Copy, Debug, PartialEq)]
struct Data {
    at_s: f64,
    begin: u64,
    end: u64,
}

/// The packets of a connection, in any order; times in seconds since the start of the links'
/// clocks.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    direction: DirectionChoice,
    sent: Vec<Data>,
    received: Vec<Data>,
    /// When a packet reached the MH, and through which cell, from 0.
    at_mh: Vec<(f64, usize)>,
    numbers: Option<Numbers>,
}

/// Unwraps sequence numbers to positions in the stream.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    near: u64,
    seq: u32,
}

impl Numbers {
    /// The position of the first number seen: high enough for bytes before it.
    const BEGIN: u64 = 1 << 32;

    fn offset(&mut self, seq: u32) -> u64 {
        let ahead = seq.wrapping_sub(self.seq).cast_signed();
        let offset = self.near.wrapping_add_signed(i64::from(ahead));
        if ahead > 0 {
            (self.near, self.seq) = (offset, seq);
        }
        offset
    }
}

impl Journal {
    /// An empty journal of a connection with bytes in this direction.
    pub fn new(direction: DirectionChoice) -> Self {
        Self {
            direction,
            ..Self::default()
        }
    }

    fn data(&mut self, at_s: f64, seq: u32, len: u32) -> Data {
        let numbers = self.numbers.get_or_insert(Numbers {
            near: Numbers::BEGIN,
            seq,
        });
        let begin = numbers.offset(seq);
        Data {
            at_s,
            begin,
            end: begin + u64::from(len),
        }
    }

    /// The sender of the bytes sent a segment of `len` bytes. Segments without data do not count.
    fn note_sent(&mut self, at_s: f64, seq: u32, len: u32) {
        if len > 0 {
            let data = self.data(at_s, seq, len);
            self.sent.push(data);
        }
    }

    /// The receiver got such a segment.
    fn note_received(&mut self, at_s: f64, seq: u32, len: u32) {
        if len > 0 {
            let data = self.data(at_s, seq, len);
            self.received.push(data);
        }
    }

    /// Notes a packet that an end of the path sent or received: the FH (`None`), or the MH in this
    /// cell, from 0.
    pub fn record(&mut self, cell: Option<usize>, is_sent: bool, at_s: f64, [seq, len]: [u32; 2]) {
        match (cell, is_sent, self.direction) {
            (None, true, DirectionChoice::Downlink) | (Some(_), true, DirectionChoice::Uplink) => {
                self.note_sent(at_s, seq, len);
            }
            (None, false, DirectionChoice::Uplink) => self.note_received(at_s, seq, len),
            (Some(cell), false, direction) => {
                self.at_mh.push((at_s, cell));
                if direction == DirectionChoice::Downlink {
                    self.note_received(at_s, seq, len);
                }
            }
            _ => {}
        }
    }

    /// The cost of each of `moves` between the transfer's begin and end.
    pub fn handoffs(mut self, moves: &[Move], [begin_s, end_s]: [f64; 2]) -> Vec<Handoff> {
        for list in [&mut self.sent, &mut self.received] {
            list.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        }
        self.at_mh.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (lost_s, again_s) = (self.lost(), self.sent_again());
        let (progress_s, duplicate_s) = self.progress();
        // Rounded to microseconds: smaller digits are rounding errors of sums.
        let ms = |s: f64| (s * 1e6).round() / 1e3;
        let mut handoffs = Vec::new();
        for (index, a_move) in moves.iter().enumerate() {
            if a_move.leave_s < begin_s || a_move.leave_s >= end_s {
                continue;
            }
            let next = moves.get(index + 1);
            let next_s = next.map_or(f64::INFINITY, |next| next.leave_s);
            let before = index.checked_sub(1).map(|before| moves[before].enter_s);
            // Around the move: from the middle of the stay before it to the middle of the stay
            // after it.
            let from_s = before.map_or(0.0, |entered_s| f64::midpoint(entered_s, a_move.leave_s));
            let to_s = f64::midpoint(a_move.enter_s, next_s);
            let around = |times: &[f64]| {
                let within = times.iter().filter(|at_s| (from_s..to_s).contains(*at_s));
                within.count() as u64
            };
            let first = self
                .at_mh
                .iter()
                .find(|(at_s, cell)| *cell == a_move.to && (a_move.enter_s..next_s).contains(at_s));
            // Bytes of an upload that were on the wired hop at the move arrive before this.
            let new = progress_s
                .iter()
                .find(|at_s| (a_move.enter_s..next_s).contains(*at_s));
            handoffs.push(Handoff {
                left_s: a_move.leave_s,
                from: a_move.from + 1,
                to: a_move.to + 1,
                gap_ms: ms(a_move.enter_s - a_move.leave_s),
                announced_ms: a_move.warning_s.map(|at_s| ms(a_move.leave_s - at_s)),
                first_packet_ms: first.map(|(at_s, _)| ms(at_s - a_move.leave_s)),
                new_byte_ms: new.map(|at_s| ms(at_s - a_move.leave_s)),
                lost_packets: around(&lost_s),
                duplicate_packets: around(&duplicate_s),
                sent_again_packets: around(&again_s),
            });
        }
        handoffs
    }

    /// The send times of segments that never arrived. Each arrival is assigned to the latest
    /// earlier sending of the same first byte without an arrival. A gateway may deliver a segment
    /// twice.
    fn lost(&self) -> Vec<f64> {
        let mut arrived: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for data in &self.received {
            arrived.entry(data.begin).or_default().push(data.at_s);
        }
        let longest = self.received.iter().map(|data| data.end - data.begin).max();
        let mut lost = Vec::new();
        for data in self.sent.iter().rev() {
            if let Some(times) = arrived.get_mut(&data.begin) {
                match times.last() {
                    Some(at_s) if *at_s >= data.at_s => {
                        times.pop();
                    }
                    _ => lost.push(data.at_s),
                }
                continue;
            }
            // The link or a retransmission has cut the bytes into other segments.
            let near = data.begin.saturating_sub(longest.unwrap_or(0));
            let covers = |other: &Data| {
                other.begin >= near && other.begin <= data.begin && other.end > data.begin
            };
            let came = |other: &Data| other.at_s >= data.at_s && covers(other);
            if !self.received.iter().any(came) {
                lost.push(data.at_s);
            }
        }
        lost
    }

    /// The send times of segments without new bytes.
    fn sent_again(&self) -> Vec<f64> {
        let mut highest = 0;
        let mut again = Vec::new();
        for data in &self.sent {
            if data.end <= highest {
                again.push(data.at_s);
            }
            highest = highest.max(data.end);
        }
        again
    }

    /// The times of arrivals with the next bytes in sequence, and of arrivals without any new byte.
    fn progress(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut progress, mut duplicates) = (Vec::new(), Vec::new());
        let first = self.sent.iter().chain(&self.received);
        let mut next = first.map(|data| data.begin).min().unwrap_or(0);
        // Bytes beyond a gap: begin and end of each disjoint range.
        let mut ahead: BTreeMap<u64, u64> = BTreeMap::new();
        for data in &self.received {
            let before = ahead.range(..=data.begin).next_back();
            let known = data.end <= next || before.is_some_and(|(_, end)| *end >= data.end);
            if known {
                duplicates.push(data.at_s);
                continue;
            }
            if data.begin > next {
                let end = ahead.entry(data.begin).or_insert(data.end);
                *end = (*end).max(data.end);
                continue;
            }
            next = data.end;
            while let Some((begin, end)) = ahead.first_key_value().map(|(b, e)| (*b, *e)) {
                if begin > next {
                    break;
                }
                next = next.max(end);
                ahead.remove(&begin);
            }
            progress.push(data.at_s);
        }
        (progress, duplicates)
    }

    /// When the receiver got the next bytes in sequence.
    fn progress_s(&self) -> Vec<f64> {
        let mut sorted = self.clone();
        sorted.received.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        sorted.progress().0
    }

    /// The stalls after the times without any cell, by the rule of all substrates.
    pub fn stalls_s(&self, outages: &[OutageAt], between_s: [f64; 2]) -> Vec<Option<f64>> {
        let progress_s = self.progress_s();
        stall::stalls_s(outages, between_s, |from_s, until_s| {
            let after = progress_s.partition_point(|at_s| *at_s < from_s);
            let first = progress_s.get(after).copied();
            first.filter(|at_s| *at_s < until_s)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVES: [Move; 2] = [
        Move {
            from: 0,
            to: 1,
            warning_s: Some(0.9),
            leave_s: 1.0,
            enter_s: 1.02,
            route_s: Some(1.05),
        },
        Move {
            from: 1,
            to: 0,
            warning_s: None,
            leave_s: 2.0,
            enter_s: 2.02,
            route_s: Some(2.05),
        },
    ];

    /// A connection that begins shortly before its sequence numbers wrap around.
    const FIRST: u32 = u32::MAX - 1500;

    fn seq(packet: u32) -> u32 {
        FIRST.wrapping_add(packet * 1000)
    }

    fn journal(sent: &[(f64, u32)], received: &[(f64, u32, usize)]) -> Journal {
        let mut journal = Journal::default();
        for (at_s, packet) in sent {
            journal.note_sent(*at_s, seq(*packet), 1000);
        }
        for (at_s, packet, cell) in received {
            journal.note_received(*at_s, seq(*packet), 1000);
            journal.at_mh.push((*at_s, *cell));
        }
        journal
    }

    #[test]
    fn a_packet_that_came_late_is_not_lost_and_one_that_never_came_is() {
        let sent = [(0.8, 0), (0.99, 1), (1.01, 2), (1.2, 1), (1.3, 3), (1.9, 4)];
        let received = [
            (0.85, 0, 0),
            // The link kept the segment; it arrived through the new cell.
            (1.03, 2, 1),
            (1.25, 1, 1),
            (1.35, 3, 1),
            (1.95, 4, 1),
        ];
        let handoffs = journal(&sent, &received).handoffs(&MOVES, [0.0, 3.0]);
        let first = &handoffs[0];
        assert_eq!((first.from, first.to), (1, 2));
        assert_eq!(
            (first.lost_packets, first.duplicate_packets),
            (1, 0),
            "{first:?}"
        );
        assert_eq!(first.sent_again_packets, 1);
        let near = |ms: Option<f64>, s: f64| (ms.unwrap() - s).abs() < 1e-6;
        assert!(near(first.first_packet_ms, 30.0) && near(first.new_byte_ms, 250.0));
        assert!(near(first.announced_ms, 100.0) && near(Some(first.gap_ms), 20.0));
        // No packet came through the first cell any more.
        assert_eq!(handoffs[1].first_packet_ms, None);
        let summary = HandoffSummary::of(&handoffs, None).unwrap();
        assert_eq!((summary.count, summary.first_packet_ms_max), (2, None));
        assert!(near(summary.first_packet_ms_median, 30.0));
    }

    #[test]
    fn what_is_delivered_twice_is_a_duplicate_and_no_loss_of_another() {
        let sent = [(0.99, 0), (1.0, 1), (1.1, 0)];
        let received = [(1.03, 0, 1), (1.04, 0, 1), (1.05, 1, 1), (1.15, 0, 1)];
        let handoffs = journal(&sent, &received).handoffs(&MOVES, [0.0, 3.0]);
        let counts = |h: &Handoff| (h.lost_packets, h.duplicate_packets, h.sent_again_packets);
        assert_eq!(counts(&handoffs[0]), (0, 2, 1), "{handoffs:?}");
        // Neither copy arrived: both are lost.
        let handoffs = journal(&sent, &[(1.05, 1, 1)]).handoffs(&MOVES, [0.0, 3.0]);
        assert_eq!(counts(&handoffs[0]), (2, 0, 1), "{handoffs:?}");
    }

    #[test]
    fn a_segment_that_was_cut_in_two_has_arrived() {
        let mut journal = Journal::default();
        journal.note_sent(0.99, FIRST, 1000);
        journal.note_sent(0.99, FIRST.wrapping_add(1000), 1000);
        journal.note_received(1.1, FIRST, 600);
        journal.note_received(1.1, FIRST.wrapping_add(600), 1400);
        assert_eq!(journal.progress_s(), [1.1, 1.1]);
        assert_eq!(journal.handoffs(&MOVES, [0.0, 3.0])[0].lost_packets, 0);
    }

    #[test]
    fn moves_outside_of_the_transfer_do_not_count() {
        assert!(journal(&[], &[]).handoffs(&MOVES, [2.5, 9.0]).is_empty());
        assert_eq!(journal(&[], &[]).handoffs(&MOVES, [0.0, 1.5]).len(), 1);
        assert_eq!(HandoffSummary::of(&[], None), None);
    }
}
