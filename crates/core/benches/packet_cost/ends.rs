// SPDX-License-Identifier: Apache-2.0
//! The ends of the transfer: as little of TCP as a gateway's work depends on.

use crate::{SEGMENT_LEN, TIMEOUT_STEPS};

/// The sender of the data: keeps a window under way, and repeats the first segment that is
/// missing three segments below what was reported, or after a long time.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) una: u32,
    pub(crate) nxt: u32,
    pub(crate) repeated: Option<u32>,
    pub(crate) heard_at: u64,
}

impl Source {
    /// Takes in an ACK; what it has sent again.
    pub(crate) fn hear(&mut self, ack: u32, sack: &[(u32, u32)], step: u64) -> Option<u32> {
        if ack > self.una {
            self.una = ack;
            self.heard_at = step;
        }
        let highest = sack.iter().map(|block| block.1).max().unwrap_or(0);
        let lost = highest.saturating_sub(self.una) > 3 * SEGMENT_LEN;
        if !lost || self.repeated == Some(self.una) {
            return None;
        }
        self.repeated = Some(self.una);
        self.heard_at = step;
        Some(self.una)
    }

    pub(crate) fn is_overdue(&self, step: u64) -> bool {
        self.nxt > self.una && step - self.heard_at > TIMEOUT_STEPS
    }
}

/// The receiver of the data: an ACK for each second segment, for each while there is a
/// hole.
#[derive(Default)]
pub(crate) struct Sink {
    pub(crate) nxt: u32,
    pub(crate) ranges: Vec<(u32, u32)>,
    pub(crate) unanswered: bool,
}

impl Sink {
    /// Takes in a data segment. True if it is to be answered.
    pub(crate) fn hear(&mut self, seq: u32, end: u32) -> bool {
        if end <= self.nxt {
            return true;
        }
        self.ranges.retain(|range| *range != (seq, end));
        self.ranges.insert(0, (seq, end));
        // Merged, the newest first (RFC 2018, 4).
        let mut first = self.ranges.remove(0);
        while let Some(index) = self
            .ranges
            .iter()
            .position(|range| range.0 <= first.1 && first.0 <= range.1)
        {
            let other = self.ranges.remove(index);
            first = (first.0.min(other.0), first.1.max(other.1));
        }
        self.ranges.insert(0, first);
        let holes_before = self.ranges.len() > 1;
        if let Some(index) = self.ranges.iter().position(|range| range.0 <= self.nxt) {
            self.nxt = self.ranges.remove(index).1;
        }
        let answers = holes_before || !self.ranges.is_empty() || self.unanswered;
        self.unanswered = !answers;
        answers
    }
}
