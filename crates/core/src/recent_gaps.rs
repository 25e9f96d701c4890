// SPDX-License-Identifier: Apache-2.0
//! The longest gap between two events of late.

use core::time::Duration;

use holdfast_wire::Instant;

/// Gaps count for this time, and for as long again.
const EPOCH: Duration = Duration::from_secs(4);

/// The longest gaps, of this epoch and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentGaps {
    gaps: [Duration; 2],
    epoch_since: Option<Instant>,
}

impl RecentGaps {
    /// An event came `gap` after the one before.
    pub(crate) fn note(&mut self, gap: Duration, now: Instant) {
        let since = *self.epoch_since.get_or_insert(now);
        if now.saturating_since(since) >= EPOCH {
            self.gaps = [Duration::ZERO, self.gaps[0]];
            self.epoch_since = Some(now);
        }
        self.gaps[0] = self.gaps[0].max(gap);
    }

    /// The longest one; zero: none was noted.
    pub(crate) fn longest(&self) -> Duration {
        self.gaps[0].max(self.gaps[1])
    }
}
