// SPDX-License-Identifier: Apache-2.0
//! Sequence numbers: arithmetic modulo 2^32.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number (RFC 9293, 3.4).
///
/// A circle has no order, so this type has none. Compare two numbers with
/// [`Self::before`], and count bytes with [`Self::distance_from`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SeqNum(u32);

impl SeqNum {
    /// From the number in a header.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number in a header.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether `self` comes before `other` on the shorter way round.
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether `self` comes after `other` on the shorter way round.
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// `self` is `other` or before it.
    pub const fn at_or_before(self, other: Self) -> bool {
        !other.before(self)
    }

    /// Bytes from `earlier` up to `self`; 0 if `self` is before `earlier`.
    pub const fn distance_from(self, earlier: Self) -> u32 {
        if self.before(earlier) {
            0
        } else {
            self.0.wrapping_sub(earlier.0)
        }
    }

    /// The later of two numbers.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of two numbers.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Add<u32> for SeqNum {
    type Output = Self;
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNum {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for SeqNum {
    type Output = Self;
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_across_the_wrap() {
        let high = SeqNum::new(u32::MAX - 1);
        let low = high + 10;
        assert!(high.before(low) && low.after(high));
        assert_eq!(low.distance_from(high), 10);
        assert_eq!(high.distance_from(low), 0);
        assert_eq!(high.max(low), low);
        assert_eq!(high.min(low), high);
        assert!(low.at_or_before(low));
        assert_eq!(low - 10, high);
    }
}
