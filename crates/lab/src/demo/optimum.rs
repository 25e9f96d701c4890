// SPDX-License-Identifier: Apache-2.0
//! What a link can carry, and the share of it that a transfer used.

use anyhow::{Context as _, ensure};
use holdfast_link::{OutageSchedule, optimal_transfer};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_wire::Instant;

use crate::framing::capacity_bytes;

/// Payload of a full segment over a link of 1500 octets, with timestamps.
const MSS_BYTES: u64 = 1448;
/// IPv4 header, TCP header, timestamps option.
const HEADER_BYTES: u64 = 20 + 32;

/// `bytes` of payload with their headers.
fn wire_bytes(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(MSS_BYTES) * HEADER_BYTES
}

/// `bytes` with their headers, as a share of what the link could carry until `until_s`.
pub(super) fn link_share(link: &EmulatedLink, bytes: u64, until_s: f64) -> anyhow::Result<f64> {
    let plan = link.plan()?;
    let mut schedule = OutageSchedule::new(&plan.outages, link.seed);
    let until = Instant::from_nanos((until_s * 1e9) as u64);
    let capacity = capacity_bytes(&plan.capacity, &mut schedule, [Instant::ZERO, until]);
    let capacity = capacity.unwrap_or(0).max(1);
    Ok(wire_bytes(bytes) as f64 / capacity as f64)
}

/// The lower bound of the time for `bytes` over this link: the link is busy whenever it is up, and
/// every segment is full.
pub(super) fn optimal_s(link: &EmulatedLink, bytes: u64) -> anyhow::Result<f64> {
    let plan = link.plan()?;
    let mut schedule = OutageSchedule::new(&plan.outages, link.seed);
    let end = optimal_transfer(&plan, &mut schedule, Instant::ZERO, wire_bytes(bytes));
    let end = end.context("the link is too slow for the file")?;
    ensure!(end > Instant::ZERO, "nothing to transfer");
    Ok(end.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_what_the_link_carries_while_it_is_up() {
        // The link is up for 2 s of 4 s at 20 Mb/s: 5 MB, with headers.
        let link = EmulatedLink::with_outage(1.0, 2.0);
        let bytes = 2_500_000 / 1500 * 1448;
        let share = link_share(&link, bytes, 4.0).unwrap();
        assert!((share - 0.5).abs() < 0.001, "{share}");
    }
}
