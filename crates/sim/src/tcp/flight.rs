// SPDX-License-Identifier: Apache-2.0
//! The segments in flight, each with RACK's per-segment state (RFC 8985, 5.2).

use std::collections::VecDeque;

use holdfast_wire::Instant;

use super::rate::Snapshot;

/// A segment that is sent and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its sequence numbers, up to and not including `to`.
    pub from: u64,
    pub to: u64,
    /// Segment.xmit_ts: when it was sent last.
    pub at: Instant,
    /// It was sent more than once.
    pub repeated: bool,
    /// A retransmission after a loss is in flight.
    pub retransmission_in_flight: bool,
    /// Segment.lost. Without `retransmission_in_flight`, it was not retransmitted since.
    pub lost: bool,
    /// Reported by SACK.
    pub sacked: bool,
    /// The state of delivery when it was sent.
    pub snapshot: Snapshot,
}

impl Sent {
    fn len(&self) -> u64 {
        self.to - self.from
    }

    /// To be retransmitted.
    pub(super) fn needs_retransmission(&self) -> bool {
        self.lost && !self.retransmission_in_flight && !self.sacked
    }
}

/// All segments in flight, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    segments: VecDeque<Sent>,
    /// Bytes in flight; and those reported, lost, and retransmitted after a loss.
    total: u64,
    sacked: u64,
    lost: u64,
    retransmitted: u64,
    sacked_segments: u32,
    lost_in_all: u64,
}

impl Flight {
    /// Nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The oldest segment.
    pub(super) fn first(&self) -> Option<&Sent> {
        self.segments.front()
    }

    /// The newest segment.
    pub(super) fn last(&self) -> Option<&Sent> {
        self.segments.back()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.segments.iter()
    }

    /// Segments.
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// The estimate of bytes in the network (RFC 6675's pipe, with RACK's losses).
    pub(super) fn in_flight(&self) -> u64 {
        (self.total + self.retransmitted).saturating_sub(self.sacked + self.lost)
    }

    pub(super) fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// Bytes reported by SACK or lost.
    pub(super) fn sacked_or_lost(&self) -> u64 {
        self.sacked + self.lost
    }

    /// Bytes lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes lost so far, with those of retransmissions.
    pub(super) fn lost_in_all(&self) -> u64 {
        self.lost_in_all
    }

    /// Bytes whose retransmission is in flight.
    pub(super) fn retransmitted_in_flight(&self) -> u64 {
        self.retransmitted
    }

    /// The index of the segment with this byte, or of the next segment.
    fn index(&self, seq: u64) -> usize {
        self.segments.partition_point(|sent| sent.to <= seq)
    }

    /// Splits the segment that contains `seq`, so that a segment begins at `seq`.
    fn split(&mut self, seq: u64) {
        let index = self.index(seq);
        if let Some(sent) = self.segments.get_mut(index)
            && sent.from < seq
        {
            let (low, high) = (Sent { to: seq, ..*sent }, Sent { from: seq, ..*sent });
            *sent = low;
            self.segments.insert(index + 1, high);
            self.sacked_segments += u32::from(low.sacked);
        }
    }

    /// Bytes from `from` up to `to` are sent at `now`. `after_loss`: bytes that were sent before
    /// were lost, and this is their retransmission.
    pub(super) fn on_sent(
        &mut self,
        from: u64,
        to: u64,
        after_loss: bool,
        snapshot: Snapshot,
        now: Instant,
    ) {
        self.split(from);
        self.split(to);
        let mut index = self.index(from);
        while let Some(sent) = self.segments.get_mut(index)
            && sent.to <= to
        {
            (sent.at, sent.snapshot, sent.repeated) = (now, snapshot, true);
            if after_loss && !sent.retransmission_in_flight {
                sent.retransmission_in_flight = true;
                self.retransmitted += sent.to - sent.from;
            }
            index += 1;
        }
        let new = self.segments.back().map_or(from, |last| last.to.max(from));
        if new < to {
            self.total += to - new;
            self.segments.push_back(Sent {
                from: new,
                to,
                at: now,
                repeated: false,
                retransmission_in_flight: false,
                lost: false,
                sacked: false,
                snapshot,
            });
        }
    }

    /// Removes everything below `una`. Calls `each` with each removed segment.
    pub(super) fn take_acked(&mut self, una: u64, mut each: impl FnMut(&Sent)) {
        self.split(una);
        while let Some(sent) = self.segments.front().copied()
            && sent.to <= una
        {
            self.segments.pop_front();
            let len = sent.len();
            self.total -= len;
            self.retransmitted -= if sent.retransmission_in_flight {
                len
            } else {
                0
            };
            self.lost -= if sent.lost { len } else { 0 };
            self.sacked -= if sent.sacked { len } else { 0 };
            self.sacked_segments -= u32::from(sent.sacked);
            each(&sent);
        }
    }

    /// A SACK block: calls `each` with each segment not reported before, then marks it.
    pub(super) fn take_sacked(&mut self, left: u64, right: u64, mut each: impl FnMut(&Sent)) {
        self.split(left);
        self.split(right);
        let first = self.index(left);
        for sent in self.segments.range_mut(first..) {
            if sent.to > right {
                break;
            }
            if sent.sacked {
                continue;
            }
            each(sent);
            let len = sent.len();
            if sent.lost {
                self.lost -= len;
                if sent.retransmission_in_flight {
                    self.retransmitted -= len;
                }
                (sent.lost, sent.retransmission_in_flight) = (false, false);
            }
            // With `retransmission_in_flight` alone the loss was undone: the retransmission counts as in flight.
            sent.sacked = true;
            self.sacked += len;
            self.sacked_segments += 1;
        }
    }

    /// Marks the segments for which `is_lost` holds, and returns their bytes. A lost
    /// retransmission is to be retransmitted once more.
    pub(super) fn mark_lost(&mut self, mut is_lost: impl FnMut(&Sent) -> bool) -> u64 {
        let mut bytes = 0;
        for sent in &mut self.segments {
            let is_pending = sent.lost && !sent.retransmission_in_flight;
            if sent.sacked || is_pending || !is_lost(sent) {
                continue;
            }
            let len = sent.len();
            if sent.retransmission_in_flight {
                sent.retransmission_in_flight = false;
                self.retransmitted -= len;
            }
            if !sent.lost {
                sent.lost = true;
                self.lost += len;
            }
            bytes += len;
        }
        self.lost_in_all += bytes;
        bytes
    }

    /// The losses were spurious: no segment is lost.
    pub(super) fn forget_losses(&mut self) {
        for sent in &mut self.segments {
            sent.lost = false;
        }
        self.lost = 0;
    }

    /// RFC 2018, 8: the receiver has dropped what it reported.
    pub(super) fn forget_reports(&mut self) {
        for sent in &mut self.segments {
            sent.sacked = false;
        }
        (self.sacked, self.sacked_segments) = (0, 0);
    }

    /// D-SACK: the retransmission of these bytes has arrived beside the original.
    pub(super) fn end_repeats(&mut self, left: u64, right: u64) {
        let first = self.index(left);
        for sent in self.segments.range_mut(first..) {
            if sent.to > right {
                break;
            }
            if sent.retransmission_in_flight && !sent.lost {
                sent.retransmission_in_flight = false;
                self.retransmitted -= sent.to - sent.from;
            }
        }
    }

    /// The first segment to be retransmitted from `from` on.
    pub(super) fn next_lost(&self, from: u64) -> Option<Sent> {
        if self.lost <= self.retransmitted {
            return None;
        }
        let first = self.index(from);
        let mut rest = self.segments.range(first..);
        rest.find(|sent| sent.needs_retransmission()).copied()
    }

    /// The start of the highest segment that was reported.
    pub(super) fn highest_sacked(&self) -> Option<u64> {
        if self.sacked == 0 {
            return None;
        }
        let mut newest_first = self.segments.iter().rev();
        newest_first.find(|sent| sent.sacked).map(|sent| sent.from)
    }
}
