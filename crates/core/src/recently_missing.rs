// SPDX-License-Identifier: Apache-2.0
//! What an MH lacks of late, all its flows together.

use core::time::Duration;

use holdfast_wire::Instant;

/// Bytes that reports have shown to be missing, in the present span of time and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentlyMissing {
    since: Option<Instant>,
    bytes: u64,
    before: u64,
}

impl RecentlyMissing {
    /// A report shows that `bytes` are missing. Returns all that was reported within the last `span`. Reports
    /// of the span before count as if they were spread evenly.
    pub(crate) fn add(&mut self, bytes: u32, span: Duration, now: Instant) -> u64 {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let since = *self.since.get_or_insert(now);
        let (span, mut elapsed) = (nanos(span), nanos(now.saturating_since(since)));
        if elapsed >= span {
            elapsed -= span;
            let is_next = elapsed < span;
            self.before = if is_next { self.bytes } else { 0 };
            elapsed = if is_next { elapsed } else { 0 };
            self.since = Some(now - Duration::from_nanos(elapsed));
            self.bytes = 0;
        }
        self.bytes += u64::from(bytes);
        let part_before = 1.0 - elapsed as f64 / span.max(1) as f64;
        self.bytes + (self.before as f64 * part_before) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_counts_for_a_span() {
        let at = |ms: u64| Instant::from_millis(500 + ms);
        let span = Duration::from_millis(100);
        let mut missing = RecentlyMissing::default();
        for (ms, bytes, of_late) in [
            (0, 1_000, 1_000),
            (60, 3_000, 4_000),
            // The span is over: 60 % of the one before are within the last 100 ms.
            (140, 500, 2_900),
            // Two spans are over.
            (340, 0, 0),
            (340, 7_000, 7_000),
        ] {
            assert_eq!(missing.add(bytes, span, at(ms)), of_late, "{ms}");
        }
    }

    #[test]
    fn a_span_without_length_counts_one_report() {
        let now = Instant::from_millis(1);
        let mut missing = RecentlyMissing::default();
        assert_eq!(missing.add(10, Duration::ZERO, now), 10);
        assert_eq!(missing.add(20, Duration::ZERO, now), 20);
    }
}
