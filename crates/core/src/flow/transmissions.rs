// SPDX-License-Identifier: Apache-2.0
//! The ranges that were sent over the wireless half and are not acknowledged, each with the time when
//! it was sent last. With the MH's reports they show what is lost (the idea of RFC 8985, on one hop).

use core::time::Duration;
use std::collections::VecDeque;

use holdfast_wire::{Instant, SeqNum};

/// The most ranges that are remembered of a flow. A loss in other ranges is detected by the timers.
const RANGES_MAX: usize = 8_192;
/// An ACK mostly acknowledges fewer ranges than this.
const NEAR: usize = 4;
/// With nothing in flight, the memory of more ranges than this is freed after an ACK.
const CAPACITY_KEPT: usize = 256;

/// A range that was sent in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    pub seq: SeqNum,
    pub end: SeqNum,
    /// When it went out last.
    pub at: Instant,
    /// How many times the gateway has retransmitted it.
    pub retransmissions: u8,
    /// The FH has sent it more than once.
    pub by_fh: bool,
    /// It went ahead of ordinary traffic the last time.
    pub ahead: bool,
}

/// Who sends a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The FH.
    Fh,
    /// The gateway, from its cache, behind the packets that wait for the link.
    Gateway,
    /// The gateway, from its cache, ahead of ordinary traffic.
    GatewayAhead,
}

/// The newest transmissions that are known to have arrived, each with the end of its
/// range: segments sent at once arrive in the order of their numbers.
///
/// A retransmission of the gateway may overtake ordinary traffic in the link's queue. So an arrival
/// shows something only about segments of its own kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals {
    pub ordinary: Option<(Instant, SeqNum)>,
    pub ahead: Option<(Instant, SeqNum)>,
}

impl Arrivals {
    fn note(slot: &mut Option<(Instant, SeqNum)>, new: (Instant, SeqNum)) {
        let newer = slot.is_none_or(|old| old.0 < new.0 || (old.0 == new.0 && new.1.after(old.1)));
        if newer {
            *slot = Some(new);
        }
    }

    /// What was `sent` has arrived at `now`, up to `end`; `least` as in [`Transmissions::arrived`].
    #[inline]
    fn add(&mut self, sent: &Transmission, end: SeqNum, least: Duration, now: Instant) {
        let twice = sent.retransmissions > 0 || sent.by_fh;
        if twice && now.saturating_since(sent.at) < least {
            return;
        }
        let slot = if sent.ahead {
            &mut self.ahead
        } else {
            &mut self.ordinary
        };
        Self::note(slot, (sent.at, sent.end.min(end)));
    }

    /// When the newest of the arrived segments was sent.
    pub(crate) fn newest_sent(&self) -> Option<Instant> {
        let sent_at = |slot: Option<(Instant, SeqNum)>| slot.map(|(at, _)| at);
        sent_at(self.ordinary).max(sent_at(self.ahead))
    }

    /// Adds the arrivals of another ACK.
    pub(crate) fn merge(&mut self, other: Self) {
        if let Some(new) = other.ordinary {
            Self::note(&mut self.ordinary, new);
        }
        if let Some(new) = other.ahead {
            Self::note(&mut self.ahead, new);
        }
    }

    /// True if something that was sent after `sent` with the same or a lower priority has arrived. At the
    /// same moment only the same kind counts, because the order on the link is unknown.
    pub(crate) fn overtook(&self, sent: &Transmission) -> bool {
        let later = |newest: &Option<(Instant, SeqNum)>, same_kind: bool| {
            newest.is_some_and(|(at, end)| {
                sent.at < at || (same_kind && sent.at == at && end.after(sent.end))
            })
        };
        let first = sent.retransmissions == 0 && !sent.by_fh;
        later(&self.ordinary, first) || (sent.ahead && later(&self.ahead, true))
    }
}

/// The ranges of one flow, in order and apart from one another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transmissions {
    ranges: VecDeque<Transmission>,
    /// When something was last sent that did not go ahead of ordinary traffic.
    newest: Option<Instant>,
}

impl Transmissions {
    /// Nothing is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Ranges that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// When something was last sent that did not go ahead of ordinary traffic.
    pub(crate) const fn newest(&self) -> Option<Instant> {
        self.newest
    }

    /// Forgets all: the times are no longer valid.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Index of the first range that ends after `seq`: mostly the first one of all.
    fn first_ending_after(&self, seq: SeqNum) -> usize {
        if self.ranges.front().is_none_or(|range| range.end.after(seq)) {
            return 0;
        }
        self.ranges
            .partition_point(|range| range.end.at_or_before(seq))
    }

    /// Index of the first range that begins at `end` or later. Mostly it is near `from`.
    fn first_beginning_at(&self, end: SeqNum, from: usize) -> usize {
        for index in from..from + NEAR {
            if self
                .ranges
                .get(index)
                .is_none_or(|range| end.at_or_before(range.seq))
            {
                return index;
            }
        }
        self.ranges.partition_point(|range| range.seq.before(end))
    }

    /// More than one range lies, at least in part, between `seq` and `end`.
    pub(crate) fn has_several_within(&self, seq: SeqNum, end: SeqNum) -> bool {
        let second = self.ranges.get(self.first_ending_after(seq) + 1);
        second.is_some_and(|range| range.seq.before(end))
    }

    /// `seq..end` goes out at `now`.
    #[inline]
    pub(crate) fn record(&mut self, seq: SeqNum, end: SeqNum, sender: Sender, now: Instant) {
        if sender != Sender::GatewayAhead {
            self.newest = Some(now);
        }
        let last = self.ranges.back();
        if sender == Sender::Fh && last.is_none_or(|last| last.end.at_or_before(seq)) {
            self.append(seq, end, now);
        } else {
            self.record_out_of_order(seq, end, sender, now);
        }
    }

    /// A copy, or a segment that comes late. Both are rare: new data of the FH is appended.
    #[cold]
    fn record_out_of_order(&mut self, seq: SeqNum, end: SeqNum, sender: Sender, now: Instant) {
        self.split(seq);
        self.split(end);
        let mut at = seq;
        let mut index = self.first_ending_after(seq);
        while at.before(end) {
            let next = self
                .ranges
                .get(index)
                .map_or(end, |range| range.seq.min(end));
            // A gap: the segment comes late, or its first copy was lost before it reached the gateway.
            if at.before(next) && sender == Sender::Fh && self.ranges.len() < RANGES_MAX {
                let new = Transmission {
                    seq: at,
                    end: next,
                    at: now,
                    retransmissions: 0,
                    by_fh: false,
                    ahead: false,
                };
                self.ranges.insert(index, new);
                index += 1;
            }
            let Some(range) = self
                .ranges
                .get_mut(index)
                .filter(|range| range.seq.before(end))
            else {
                return;
            };
            range.at = now;
            range.ahead = sender == Sender::GatewayAhead;
            if sender == Sender::Fh {
                range.by_fh = true;
            } else {
                range.retransmissions = range.retransmissions.saturating_add(1);
            }
            at = range.end;
            index += 1;
        }
    }

    /// The FH sends new data behind all ranges.
    #[inline]
    fn append(&mut self, seq: SeqNum, end: SeqNum, now: Instant) {
        if self.ranges.len() < RANGES_MAX && seq.before(end) {
            self.ranges.push_back(Transmission {
                seq,
                end,
                at: now,
                retransmissions: 0,
                by_fh: false,
                ahead: false,
            });
        }
    }

    /// The range with `at` in the middle of it becomes two.
    fn split(&mut self, at: SeqNum) {
        let index = self.first_ending_after(at);
        let Some(range) = self.ranges.get_mut(index) else {
            return;
        };
        if range.seq.before(at) && self.ranges.len() < RANGES_MAX {
            let rest = Transmission {
                seq: at,
                ..self.ranges[index]
            };
            self.ranges[index].end = at;
            self.ranges.insert(index + 1, rest);
        }
    }

    /// The MH acknowledged everything before `una`.
    pub(crate) fn purge(&mut self, una: SeqNum) {
        while let Some(first) = self.ranges.front_mut() {
            if first.end.after(una) {
                first.seq = first.seq.max(una);
                break;
            }
            self.ranges.pop_front();
        }
        self.give_back_room(CAPACITY_KEPT);
    }

    /// Everything before `una` has arrived: adds what that shows, as [`Self::arrived`] does, and forgets those ranges.
    #[inline]
    pub(crate) fn take_arrived(
        &mut self,
        una: SeqNum,
        least: Duration,
        now: Instant,
        arrivals: &mut Arrivals,
    ) {
        while let Some(first) = self
            .ranges
            .front_mut()
            .filter(|first| first.seq.before(una))
        {
            arrivals.add(first, una, least, now);
            if first.end.after(una) {
                first.seq = una;
                return;
            }
            self.ranges.pop_front();
        }
    }

    /// With nothing in flight, the memory of more than `kept` ranges is freed.
    #[inline]
    pub(crate) fn give_back_room(&mut self, kept: usize) {
        if self.ranges.is_empty() && self.ranges.capacity() > kept {
            self.ranges = VecDeque::new();
        }
    }

    /// The ranges, or parts of them, from `seq` up to `end`.
    pub(crate) fn within(
        &self,
        seq: SeqNum,
        end: SeqNum,
    ) -> impl DoubleEndedIterator<Item = Transmission> + '_ {
        let from = self.first_ending_after(seq);
        let to = self.first_beginning_at(end, from);
        self.ranges
            .range(from..to.max(from))
            .map(move |range| Transmission {
                seq: range.seq.max(seq),
                end: range.end.min(end),
                ..*range
            })
    }

    /// Bytes between `seq` and `end` that are remembered.
    pub(crate) fn bytes_within(&self, seq: SeqNum, end: SeqNum) -> u32 {
        let ranges = self.within(seq, end);
        ranges.map(|sent| sent.end.distance_from(sent.seq)).sum()
    }

    /// Adds what the arrival of `seq..end` shows at `now`. If an answer to a retransmission comes
    /// sooner than any did before (`least`), it answers an earlier transmission, whose time is no
    /// longer known.
    pub(crate) fn arrived(
        &self,
        seq: SeqNum,
        end: SeqNum,
        least: Duration,
        now: Instant,
        arrivals: &mut Arrivals,
    ) {
        let from = self.first_ending_after(seq);
        for sent in self.ranges.range(from..) {
            if !sent.seq.before(end) {
                break;
            }
            arrivals.add(sent, end, least, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    fn seq(number: u32) -> SeqNum {
        SeqNum::new(number)
    }

    fn ranges(sent: &Transmissions) -> Vec<(u32, u32, u64, u8)> {
        let all = sent.within(seq(0), seq(1 << 30));
        all.map(|range| {
            let at = range.at.as_nanos() / 1_000_000;
            (range.seq.get(), range.end.get(), at, range.retransmissions)
        })
        .collect()
    }

    #[test]
    fn a_retransmitted_piece_is_cut_out_of_the_range_that_it_was_sent_with() {
        let mut sent = Transmissions::default();
        sent.record(seq(0), seq(300), Sender::Fh, Instant::from_millis(1));
        sent.record(
            seq(100),
            seq(200),
            Sender::GatewayAhead,
            Instant::from_millis(2),
        );
        assert_eq!(
            ranges(&sent),
            [(0, 100, 1, 0), (100, 200, 2, 1), (200, 300, 1, 0)]
        );
        sent.purge(seq(150));
        assert_eq!(ranges(&sent), [(150, 200, 2, 1), (200, 300, 1, 0)]);
    }

    #[test]
    fn what_the_gateway_sends_beyond_what_is_known_is_not_remembered() {
        let mut sent = Transmissions::default();
        sent.record(
            seq(0),
            seq(100),
            Sender::GatewayAhead,
            Instant::from_millis(1),
        );
        assert!(sent.is_empty());
    }

    #[test]
    fn after_an_outage_nothing_is_known_of_what_was_sent_before() {
        let mut sent = Transmissions::default();
        let (before, after) = (Instant::from_millis(1), Instant::from_millis(9));
        sent.record(seq(0), seq(200), Sender::Fh, before);
        sent.clear();
        assert!(sent.is_empty());
        sent.record(seq(0), seq(100), Sender::Fh, after);
        assert_eq!(ranges(&sent), [(0, 100, 9, 0)]);
    }

    #[test]
    fn what_comes_late_fills_the_gap() {
        let mut sent = Transmissions::default();
        let at = Instant::from_millis;
        sent.record(seq(0), seq(100), Sender::Fh, at(1));
        sent.record(seq(200), seq(300), Sender::Fh, at(2));
        sent.record(seq(50), seq(250), Sender::Fh, at(3));
        assert_eq!(
            ranges(&sent),
            [
                (0, 50, 1, 0),
                (50, 100, 3, 0),
                (100, 200, 3, 0),
                (200, 250, 3, 0),
                (250, 300, 2, 0)
            ]
        );
        // After a retransmission of the gateway the gap is unknown.
        sent.purge(seq(300));
        sent.record(seq(400), seq(500), Sender::Fh, at(4));
        sent.record(seq(300), seq(450), Sender::GatewayAhead, at(5));
        assert_eq!(ranges(&sent), [(400, 450, 5, 1), (450, 500, 4, 0)]);
    }

    #[test]
    fn an_arrival_overtook_what_was_sent_before_it_on_the_same_way() {
        let at = Instant::from_millis;
        let mut sent = Transmissions::default();
        sent.record(seq(0), seq(100), Sender::Fh, at(1));
        sent.record(seq(100), seq(200), Sender::Fh, at(2));
        sent.record(seq(200), seq(300), Sender::Fh, at(3));
        let least = core::time::Duration::from_millis(10);
        let arrived = |sent: &Transmissions, from, to, now| {
            let mut arrivals = Arrivals::default();
            sent.arrived(seq(from), seq(to), least, at(now), &mut arrivals);
            arrivals
        };
        let arrivals = arrived(&sent, 100, 200, 20);
        let overtaken = |arrivals: Arrivals, sent: &Transmissions| -> Vec<u32> {
            let lost = sent.within(seq(0), seq(300));
            lost.filter(|one| arrivals.overtook(one))
                .map(|one| one.seq.get())
                .collect()
        };
        assert_eq!(overtaken(arrivals, &sent), [0]);
        // A retransmission overtakes what waits: its arrival shows nothing about that.
        sent.record(seq(0), seq(100), Sender::GatewayAhead, at(21));
        let ahead = arrived(&sent, 0, 100, 40);
        assert_eq!(overtaken(ahead, &sent), [] as [u32; 0]);
        // Nor that of what was sent at the same moment of the retransmission.
        sent.record(seq(300), seq(400), Sender::Fh, at(21));
        let ordinary = arrived(&sent, 300, 400, 40);
        assert_eq!(overtaken(ordinary, &sent), [100, 200]);
        // Too soon to be an answer to it.
        assert_eq!(arrived(&sent, 0, 100, 25), Arrivals::default());
    }

    #[test]
    fn an_ack_shows_what_has_arrived_before_it_and_leaves_the_rest() {
        let at = Instant::from_millis;
        let mut sent = Transmissions::default();
        for n in 0..4 {
            let left = seq(100 * n);
            sent.record(left, left + 100, Sender::Fh, at(u64::from(n)));
        }
        sent.record(seq(100), seq(200), Sender::GatewayAhead, at(9));
        let least = Duration::from_millis(10);
        for (now, una) in [
            (12, 0),
            (12, 1),
            (12, 100),
            (12, 150),
            (19, 150),
            (19, 200),
            (19, 333),
            (19, 400),
        ] {
            let (mut shown, mut expected) = (Arrivals::default(), Arrivals::default());
            let (mut rest, mut after) = (sent.clone(), sent.clone());
            rest.take_arrived(seq(una), least, at(now), &mut shown);
            after.arrived(seq(0), seq(una), least, at(now), &mut expected);
            after.purge(seq(una));
            assert_eq!(shown, expected, "{una} at {now}");
            assert_eq!(ranges(&rest), ranges(&after), "{una} at {now}");
        }
    }

    /// What random notes leave is, byte by byte, what a table of single bytes has.
    #[test]
    fn ranges_are_as_a_table_of_bytes() {
        const BYTES: u32 = 400;
        for seed in 0..500 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut below = |limit: u32| rng.next_u32() % limit.max(1);
            let mut sent = Transmissions::default();
            // When each byte was sent last, and by whom; those before `una` are acknowledged.
            let mut table: Vec<Option<(u64, bool)>> = vec![None; BYTES as usize];
            let mut una = 0;
            let mut nxt = 0;
            for step in 1..200 {
                if una == BYTES {
                    break;
                }
                let from = una + below(BYTES - una);
                let to = from + 1 + below(BYTES - from);
                match below(8) {
                    0 => {
                        una += below(nxt - una + 1);
                        sent.purge(seq(una));
                        table[..una as usize].fill(None);
                    }
                    kind => {
                        // Mostly new data behind all others.
                        let (from, to) = match kind {
                            1..=5 if nxt < BYTES => (nxt, BYTES.min(nxt + 1 + below(9))),
                            _ => (from, to),
                        };
                        let is_fh = kind < 7;
                        let sender = if is_fh { Sender::Fh } else { Sender::Gateway };
                        sent.record(seq(from), seq(to), sender, Instant::from_millis(step));
                        for byte in &mut table[from as usize..to as usize] {
                            if is_fh || byte.is_some() {
                                *byte = Some((step, !is_fh));
                            }
                        }
                        nxt = if is_fh { nxt.max(to) } else { nxt };
                    }
                }
                let found = |from: u32, to: u32| {
                    let mut found = vec![None; BYTES as usize];
                    for range in sent.within(seq(from), seq(to)) {
                        let at = range.at.as_nanos() / 1_000_000;
                        let bytes = range.seq.get() as usize..range.end.get() as usize;
                        assert!(found[bytes.clone()].iter().all(Option::is_none));
                        found[bytes].fill(Some(at));
                    }
                    found
                };
                let mut expected: Vec<_> = table.iter().map(|byte| byte.map(|one| one.0)).collect();
                assert_eq!(found(0, BYTES), expected, "seed {seed}, step {step}");
                expected[..from as usize].fill(None);
                expected[to as usize..].fill(None);
                assert_eq!(found(from, to), expected, "seed {seed}, step {step}");
                let several = sent.within(seq(from), seq(to)).count() > 1;
                assert_eq!(sent.has_several_within(seq(from), seq(to)), several);
            }
        }
    }
}
