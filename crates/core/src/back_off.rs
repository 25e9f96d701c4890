// SPDX-License-Identifier: Apache-2.0
//! The back-off of a TCP sender whose retransmissions are not answered.

use core::time::Duration;

/// A Linux sender's first RTO is no shorter (`TCP_RTO_MIN`).
const RTO_MIN: Duration = Duration::from_millis(200);
/// More doublings than a sender has in ten minutes.
const DOUBLINGS_MAX: u8 = 12;

/// How often a sender may have doubled its RTO in this time of silence, and once more: this number of
/// ICMP unreachables undoes its whole back-off (RFC 6069). 0: not even
/// its first RTO can have passed.
pub(crate) fn doublings(silent: Duration) -> u8 {
    let mut doublings = 0;
    let mut all = RTO_MIN;
    while silent >= all && doublings < DOUBLINGS_MAX {
        doublings += 1;
        all = all * 2 + RTO_MIN;
    }
    if doublings == 0 { 0 } else { doublings + 1 }
}
