// SPDX-License-Identifier: Apache-2.0
//! Which ACKs of the FH an uploading MH has surely received, and which ones it may have received.

use core::time::Duration;

use holdfast_wire::{Instant, SeqNum};

/// The number of ACKs that are remembered until the MH echoes a newer timestamp.
const MARKS: usize = 4;

/// An ACK that has passed.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    tsval: u32,
    ack: SeqNum,
}

/// The MH echoes the newest timestamp that it has received. If several ACKs have the same timestamp, it may
/// have received only the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceivedAcks {
    /// The oldest first.
    marks: [Option<Mark>; MARKS],
    received: Option<SeqNum>,
    /// The newest ACK that had passed when the last data of the MH came.
    passed: SeqNum,
}

impl ReceivedAcks {
    /// The newest ACK that the MH has surely received, and the newest that it may have received if its last data
    /// came at link down.
    pub(super) fn range(&self) -> Option<(SeqNum, SeqNum)> {
        let received = self.received?;
        Some((received, self.passed.max(received)))
    }

    /// An ACK passes. One ACK in each quarter of the wireless half's round trip is remembered.
    pub(super) fn on_ack(&mut self, ack: SeqNum, tsval: u32, round_trip: Duration, now: Instant) {
        let Some(free) = self.marks.iter().position(Option::is_none) else {
            return;
        };
        let last = free.checked_sub(1).and_then(|last| self.marks[last]);
        let apart = round_trip / MARKS as u32;
        if last.is_none_or(|last| now.saturating_since(last.at) >= apart) {
            self.marks[free] = Some(Mark {
                at: now,
                tsval,
                ack,
            });
        }
    }

    /// Data of the MH come, while the link is up. `passed`: the newest ACK of the FH.
    pub(super) fn on_data(&mut self, passed: SeqNum, tsecr: u32) {
        self.passed = passed;
        while let Some(mark) = self.marks[0]
            && tsecr.wrapping_sub(mark.tsval) as i32 > 0
        {
            self.received = Some(mark.ack);
            self.marks.rotate_left(1);
            self.marks[MARKS - 1] = None;
        }
    }

    /// The link was down: the MH may not have received the ACKs that are remembered.
    pub(super) const fn forget_marks(&mut self) {
        self.marks = [None; MARKS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000 + ms)
    }

    /// An ACK each ms, whose timestamp is the time, too. Data come up to `data_until`, and echo what passed a
    /// round trip before.
    fn acks(data_until: u64) -> ReceivedAcks {
        let mut acks = ReceivedAcks::default();
        for ms in 0..=200 {
            let ack = SeqNum::new(ms as u32);
            acks.on_ack(ack, ms as u32, ROUND_TRIP, at(ms));
            if let (true, Some(echo)) = (ms <= data_until, ms.checked_sub(40)) {
                acks.on_data(ack, echo as u32);
            }
        }
        acks
    }

    #[test]
    fn an_ack_is_received_when_data_echo_a_newer_timestamp() {
        for data_until in 0..=200 {
            let Some((received, passed)) = acks(data_until).range() else {
                assert!(data_until <= 40, "{data_until}");
                continue;
            };
            // One in a quarter of a round trip is remembered.
            let age = data_until - u64::from(received.get());
            assert!((41..=60).contains(&age), "{data_until}: {age}");
            assert_eq!(u64::from(passed.get()), data_until);
        }
    }

    #[test]
    fn an_echo_of_the_same_timestamp_shows_nothing() {
        let mut acks = ReceivedAcks::default();
        acks.on_ack(SeqNum::new(7), 100, ROUND_TRIP, at(0));
        acks.on_data(SeqNum::new(9), 100);
        assert_eq!(acks.range(), None);
        acks.on_data(SeqNum::new(9), 101);
        assert_eq!(acks.range(), Some((SeqNum::new(7), SeqNum::new(9))));
    }

    #[test]
    fn acks_of_an_outage_do_not_count() {
        let mut acks = acks(100);
        let before = acks.range();
        acks.forget_marks();
        acks.on_data(SeqNum::new(100), 10_000);
        assert_eq!(acks.range(), before);
    }
}
