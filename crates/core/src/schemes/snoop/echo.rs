// SPDX-License-Identifier: Apache-2.0
//! Measures a round trip from the gateway to either end: by a timestamp that passes, and its echo
//! (RFC 7323, 3).

use core::time::Duration;

use holdfast_wire::{Instant, Timestamps};

/// An echo that has not arrived after this time is not awaited any more. A later one shows only that
/// the end had nothing to send.
const ECHO_WAIT_MAX: Duration = Duration::from_secs(2);

/// Measures a round trip by the echo of one timestamp at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EchoTimer {
    /// The awaited timestamp, and when it passed.
    awaited: Option<(u32, Instant)>,
    /// The newest timestamp that passed.
    passed: Option<u32>,
}

impl EchoTimer {
    /// A segment with these timestamps passes at `now`. Its echo is awaited, unless another one is,
    /// or an earlier segment had the same timestamp.
    #[inline]
    pub(crate) fn on_passed(&mut self, timestamps: Option<Timestamps>, now: Instant) {
        let Some(Timestamps { tsval, .. }) = timestamps else {
            return;
        };
        let newer = |old: u32| (tsval.wrapping_sub(old) as i32) > 0;
        if !self.passed.is_none_or(newer) {
            return;
        }
        self.passed = Some(tsval);
        let is_awaited = |at: Instant| now.saturating_since(at) < ECHO_WAIT_MAX;
        if !self.awaited.is_some_and(|(_, at)| is_awaited(at)) {
            self.awaited = Some((tsval, now));
        }
    }

    /// Since when an echo is awaited.
    pub(super) fn awaited_since(&self) -> Option<Instant> {
        self.awaited.map(|(_, at)| at)
    }

    /// Stops waiting: the end may have nothing to send.
    pub(super) const fn forget(&mut self) {
        self.awaited = None;
    }

    /// Handles a segment of the other end. Returns the round trip if it has the echo.
    #[inline]
    pub(crate) fn handle_reply(
        &mut self,
        timestamps: Option<Timestamps>,
        now: Instant,
    ) -> Option<Duration> {
        let (tsval, at) = self.awaited?;
        if (timestamps?.tsecr.wrapping_sub(tsval) as i32) < 0 {
            return None;
        }
        self.awaited = None;
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
        let mut echo = EchoTimer::default();
        echo.on_passed(Some(stamps(5, 0)), at(10));
        echo.on_passed(Some(stamps(6, 0)), at(20));
        assert_eq!(echo.handle_reply(Some(stamps(0, 4)), at(25)), None);
        assert_eq!(
            echo.handle_reply(Some(stamps(0, 6)), at(30)),
            Some(Duration::from_millis(20))
        );
        assert_eq!(echo.handle_reply(Some(stamps(0, 6)), at(31)), None);
        // The echo of a timestamp that passed before may arrive too soon.
        echo.on_passed(Some(stamps(6, 0)), at(40));
        assert_eq!(echo.handle_reply(Some(stamps(0, 6)), at(41)), None);
    }

    #[test]
    fn an_answer_after_a_long_time_is_none() {
        let mut echo = EchoTimer::default();
        echo.on_passed(Some(stamps(5, 0)), Instant::from_millis(0));
        assert_eq!(
            echo.handle_reply(Some(stamps(0, 5)), Instant::from_millis(2001)),
            None
        );
        echo.on_passed(Some(stamps(6, 0)), Instant::from_millis(3000));
        echo.on_passed(Some(stamps(7, 0)), Instant::from_millis(5000));
        let rtt = echo.handle_reply(Some(stamps(0, 7)), Instant::from_millis(5010));
        assert_eq!(rtt, Some(Duration::from_millis(10)));
    }

    #[test]
    fn an_echo_is_awaited_for_two_seconds() {
        let at = Instant::from_millis;
        for (elapsed_ms, rtt) in [(2000, Some(Duration::from_secs(2))), (2001, None)] {
            let mut echo = EchoTimer::default();
            echo.on_passed(Some(stamps(5, 0)), at(0));
            assert_eq!(echo.handle_reply(Some(stamps(0, 5)), at(elapsed_ms)), rtt);
            assert_eq!(echo.awaited_since(), None);
        }
        for (elapsed_ms, awaited) in [(1999, 0), (2000, 2000)] {
            let mut echo = EchoTimer::default();
            echo.on_passed(Some(stamps(5, 0)), at(0));
            echo.on_passed(Some(stamps(6, 0)), at(elapsed_ms));
            assert_eq!(echo.awaited_since(), Some(at(awaited)));
        }
    }
}
