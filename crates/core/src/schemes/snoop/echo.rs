// SPDX-License-Identifier: Apache-2.0
//! A round trip beyond the gateway, either way: a timestamp that was let through, and its
//! echo (RFC 7323, 3).

use core::time::Duration;

use holdfast_wire::{Instant, Timestamps};

/// A timestamp whose echo has not come for so long is not waited for any more; if it comes
/// all the same, it tells of an end that had nothing to send.
const ECHO_WAIT_MAX: Duration = Duration::from_secs(2);

/// One timestamp at a time is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Echo {
    /// It, and when it was let through.
    asked: Option<(u32, Instant)>,
    /// The newest that was let through.
    passed: Option<u32>,
}

impl Echo {
    /// A segment with these timestamps passes at `now`: its echo is waited for, if no other
    /// is and nothing before had the same one.
    pub(crate) fn ask(&mut self, timestamps: Option<Timestamps>, now: Instant) {
        let Some(Timestamps { tsval, .. }) = timestamps else {
            return;
        };
        let newer = |old: u32| (tsval.wrapping_sub(old) as i32) > 0;
        if !self.passed.is_none_or(newer) {
            return;
        }
        self.passed = Some(tsval);
        let waits = |at: Instant| now.saturating_since(at) < ECHO_WAIT_MAX;
        if !self.asked.is_some_and(|(_, at)| waits(at)) {
            self.asked = Some((tsval, now));
        }
    }

    /// Since when an echo is waited for.
    pub(super) fn asked_at(&self) -> Option<Instant> {
        self.asked.map(|(_, at)| at)
    }

    /// The echo would tell of an end that had nothing to send.
    pub(super) const fn forget(&mut self) {
        self.asked = None;
    }

    /// A segment of the other end: the round trip, if it has the echo.
    pub(crate) fn take(
        &mut self,
        timestamps: Option<Timestamps>,
        now: Instant,
    ) -> Option<Duration> {
        let (tsval, at) = self.asked?;
        if (timestamps?.tsecr.wrapping_sub(tsval) as i32) < 0 {
            return None;
        }
        self.asked = None;
        let elapsed = now.saturating_since(at);
        (elapsed <= ECHO_WAIT_MAX).then_some(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stamps(tsval: u32, tsecr: u32) -> Timestamps {
        Timestamps { tsval, tsecr }
    }

    #[test]
    fn the_first_of_several_is_timed_and_only_its_echo_or_a_later_one_counts() {
        let at = Instant::from_millis;
        let mut echo = Echo::default();
        echo.ask(Some(stamps(5, 0)), at(10));
        echo.ask(Some(stamps(6, 0)), at(20));
        assert_eq!(echo.take(Some(stamps(0, 4)), at(25)), None);
        assert_eq!(
            echo.take(Some(stamps(0, 6)), at(30)),
            Some(Duration::from_millis(20))
        );
        assert_eq!(echo.take(Some(stamps(0, 6)), at(31)), None);
        // One that was on its way before may be answered too soon.
        echo.ask(Some(stamps(6, 0)), at(40));
        assert_eq!(echo.take(Some(stamps(0, 6)), at(41)), None);
    }

    #[test]
    fn an_answer_after_a_long_time_is_none() {
        let mut echo = Echo::default();
        echo.ask(Some(stamps(5, 0)), Instant::from_millis(0));
        assert_eq!(
            echo.take(Some(stamps(0, 5)), Instant::from_millis(2001)),
            None
        );
        echo.ask(Some(stamps(6, 0)), Instant::from_millis(3000));
        echo.ask(Some(stamps(7, 0)), Instant::from_millis(5000));
        let rtt = echo.take(Some(stamps(0, 7)), Instant::from_millis(5010));
        assert_eq!(rtt, Some(Duration::from_millis(10)));
    }
}
