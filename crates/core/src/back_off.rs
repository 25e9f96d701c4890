// SPDX-License-Identifier: Apache-2.0
//! The back-off of a TCP sender whose retransmissions are not answered: each expiry doubles the RTO
//! (RFC 6298, 5.5).

use core::time::Duration;

use holdfast_wire::Instant;

/// The shortest first RTO of a Linux sender (`TCP_RTO_MIN`): it adds this to its smoothed round trip.
pub(crate) const RTO_VARIATION_MIN: Duration = Duration::from_millis(200);
/// More doublings than a sender has in ten minutes.
const DOUBLINGS_MAX: usize = 12;

/// The expiries of a sender's timer that began to run at `timer_at`. `rto` is its first RTO, `rto_max`
/// the longest one.
pub(crate) fn expiries(
    timer_at: Instant,
    rto: Duration,
    rto_max: Duration,
) -> impl Iterator<Item = Instant> {
    let rto = rto.clamp(RTO_VARIATION_MIN, rto_max);
    let first = (timer_at + rto, rto);
    let all = core::iter::successors(Some(first), move |(expiry, rto)| {
        let rto = rto.saturating_mul(2).min(rto_max);
        Some((*expiry + rto, rto))
    });
    all.map(|(expiry, _)| expiry)
}

/// The number of ICMP unreachables that undo a sender's whole back-off after this time of silence
/// (RFC 6069). It is the number of times that the sender may have doubled its RTO, and one more. 0: not
/// even its first RTO can have passed.
pub(crate) fn doublings(silent: Duration) -> u8 {
    let all = expiries(Instant::ZERO, RTO_VARIATION_MIN, Duration::MAX).take(DOUBLINGS_MAX);
    let doublings = all
        .take_while(|expiry| expiry.saturating_since(Instant::ZERO) <= silent)
        .count() as u8;
    if doublings == 0 { 0 } else { doublings + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_senders_timer_expires_at_doubled_intervals_up_to_the_longest() {
        let expiries_ms = |rto_ms: u64, rto_max_ms: u64| -> Vec<u64> {
            let [rto, rto_max] = [rto_ms, rto_max_ms].map(Duration::from_millis);
            let all = expiries(Instant::from_millis(1000), rto, rto_max).take(4);
            all.map(|at| at.as_nanos() / 1_000_000).collect()
        };
        assert_eq!(expiries_ms(300, 10_000), [1300, 1900, 3100, 5500]);
        assert_eq!(expiries_ms(300, 1_000), [1300, 1900, 2900, 3900]);
        assert_eq!(expiries_ms(50, 10_000), [1200, 1600, 2400, 4000]);
        assert_eq!(expiries_ms(5_000, 1_000), [2000, 3000, 4000, 5000]);
    }

    #[test]
    fn doublings_are_counted_from_the_first_timeout_on() {
        // The timer expires after 200, 600 and 1400 ms.
        for (silent_ms, expected) in [
            (199, 0),
            (200, 2),
            (599, 2),
            (600, 3),
            (1_400, 4),
            (u64::from(u32::MAX), 13),
        ] {
            let silent = Duration::from_millis(silent_ms);
            assert_eq!(doublings(silent), expected, "{silent_ms}");
        }
    }
}
