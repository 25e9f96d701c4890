// SPDX-License-Identifier: Apache-2.0
//! The two hosts: the little of TCP that affects the gateway's work.

use crate::{SEGMENT_LEN, TIMEOUT_STEPS};

/// The sender of the data. It keeps a window in flight. It retransmits the first missing segment when SACK reports
/// three segments above it, or after a timeout.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) una: u32,
    pub(crate) nxt: u32,
    pub(crate) retransmitted: Option<u32>,
    pub(crate) progress_at: u64,
}

impl Source {
    /// Handles an ACK. Returns the sequence number to retransmit, if there is one.
    pub(crate) fn on_ack(&mut self, ack: u32, sack: &[(u32, u32)], step: u64) -> Option<u32> {
        if ack > self.una {
            self.una = ack;
            self.progress_at = step;
        }
        let highest = sack.iter().map(|block| block.1).max().unwrap_or(0);
        let lost = highest.saturating_sub(self.una) > 3 * SEGMENT_LEN;
        if !lost || self.retransmitted == Some(self.una) {
            return None;
        }
        self.retransmitted = Some(self.una);
        self.progress_at = step;
        Some(self.una)
    }

    pub(crate) fn is_overdue(&self, step: u64) -> bool {
        self.nxt > self.una && step - self.progress_at > TIMEOUT_STEPS
    }
}

/// The receiver of the data. It acknowledges each second segment, and each segment while there is a hole.
#[derive(Default)]
pub(crate) struct Sink {
    pub(crate) nxt: u32,
    pub(crate) ranges: Vec<(u32, u32)>,
    pub(crate) unanswered: bool,
}

impl Sink {
    /// Handles a data segment. True if it must be acknowledged now.
    pub(crate) fn on_data(&mut self, seq: u32, end: u32) -> bool {
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
