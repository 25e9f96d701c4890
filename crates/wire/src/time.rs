// SPDX-License-Identifier: Apache-2.0
//! Time as an argument: integer nanoseconds since an arbitrary start.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};
pub use core::time::Duration;

/// A point in time, in nanoseconds since a start that the caller chose.
///
/// Nothing in the sans-IO crates reads a clock; the caller gives them the
/// time it is.
///
/// An `Option<Instant>`, a timer that may not run, needs no more memory: the number inside is one
/// more than the nanoseconds, and never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// The start of time.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// The point `nanos` nanoseconds after the start; at most 2^64 - 2.
    pub const fn from_nanos(nanos: u64) -> Self {
        match NonZeroU64::new(nanos.wrapping_add(1)) {
            Some(number) => Self(number),
            None => Self(NonZeroU64::MAX),
        }
    }

    /// The point `millis` milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis * 1_000_000)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.as_nanos() as f64 / 1e9
    }

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.as_nanos()).finish()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos(duration)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_may_not_run_takes_no_more_room() {
        assert_eq!(size_of::<Option<Instant>>(), size_of::<u64>());
    }

    #[test]
    fn the_ends_of_time_are_not_passed() {
        let last = Instant::from_nanos(u64::MAX);
        assert_eq!(last.as_nanos(), u64::MAX - 1);
        assert_eq!(last + Duration::from_nanos(1), last);
        assert_eq!(Instant::ZERO - Duration::MAX, Instant::ZERO);
        assert_eq!(
            last.saturating_since(Instant::ZERO).as_nanos(),
            u128::from(u64::MAX - 1)
        );
        assert_eq!(Instant::ZERO.saturating_since(last), Duration::ZERO);
    }

    #[test]
    fn sums_and_differences_are_exact() {
        let at = Instant::from_millis(1500);
        assert_eq!((at + Duration::from_nanos(7)).as_nanos(), 1_500_000_007);
        assert_eq!((at - Duration::from_nanos(7)).as_nanos(), 1_499_999_993);
        assert_eq!(format!("{at:?}"), "Instant(1500000000)");
    }
}
