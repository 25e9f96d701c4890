// SPDX-License-Identifier: Apache-2.0
//! The stall after an outage, by one rule on every substrate: the time from link up to the first new
//! byte at the receiver. It is measured for the outages that overlap a transfer.

use holdfast_link::OutageAt;

/// The stall in seconds after each outage that overlaps the transfer. The transfer lasted from
/// `begin_s` to `end_s`: its last byte, or the run's end if it did not finish. None: no new byte
/// came before the next outage, or at all. `first_byte_s(from, until)` is the time of the first new byte in
/// that half-open interval. All times are since the start of the links' clocks, in seconds.
pub(crate) fn stalls_s(
    outages: &[OutageAt],
    [begin_s, end_s]: [f64; 2],
    first_byte_s: impl Fn(f64, f64) -> Option<f64>,
) -> Vec<Option<f64>> {
    overlapping(outages, [begin_s, end_s])
        .map(|[up_s, next_s]| Some(first_byte_s(up_s, next_s)? - up_s))
        .collect()
}

/// The outages that overlap a transfer from `begin_s` to `end_s`: the time of link up, and the begin
/// of the next outage.
pub(crate) fn overlapping(
    outages: &[OutageAt],
    [begin_s, end_s]: [f64; 2],
) -> impl Iterator<Item = [f64; 2]> {
    let nexts = outages.iter().skip(1).map(|next| next.at_s);
    let nexts = nexts.chain(std::iter::once(f64::INFINITY));
    outages
        .iter()
        .zip(nexts)
        .map(|(outage, next_s)| (outage.at_s, outage.at_s + outage.for_s, next_s))
        .filter(move |(down_s, up_s, _)| *up_s > begin_s && *down_s < end_s)
        .map(|(_, up_s, next_s)| [up_s, next_s])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outages(list: &[(f64, f64)]) -> Vec<OutageAt> {
        let outage = |&(at_s, for_s): &(f64, f64)| OutageAt { at_s, for_s };
        list.iter().map(outage).collect()
    }

    /// The stalls of a transfer whose bytes arrive at these times.
    fn stalls(list: &[(f64, f64)], begin_s: f64, end_s: f64, bytes: &[f64]) -> Vec<Option<f64>> {
        stalls_s(&outages(list), [begin_s, end_s], |from_s, until_s| {
            bytes
                .iter()
                .copied()
                .find(|at| (from_s..until_s).contains(at))
        })
    }

    #[test]
    fn a_stall_is_the_time_from_the_links_return_to_the_next_byte() {
        assert_eq!(
            stalls(&[(2.0, 3.0)], 0.0, 8.0, &[1.0, 7.0, 8.0]),
            [Some(2.0)]
        );
    }

    #[test]
    fn a_stall_that_the_next_outage_cuts_short_never_ended() {
        // The first byte comes after the second outage, so the first outage has no stall.
        let list = [(1.0, 2.0), (3.5, 2.0)];
        assert_eq!(stalls(&list, 0.0, 7.0, &[0.5, 6.0, 7.0]), [None, Some(0.5)]);
    }

    #[test]
    fn only_outages_within_the_transfer_count() {
        let list = [(1.0, 1.0), (3.0, 2.0), (9.0, 1.0), (20.0, 1.0)];
        // The second outage has begun before the transfer, the last one comes after its end.
        let bytes = [5.5, 8.0, 10.25, 11.0];
        assert_eq!(stalls(&list, 4.0, 11.0, &bytes), [Some(0.5), Some(0.25)]);
        // The run ended before the transfer did.
        assert_eq!(
            stalls(&list, 4.0, 20.5, &bytes),
            [Some(0.5), Some(0.25), None]
        );
    }
}
