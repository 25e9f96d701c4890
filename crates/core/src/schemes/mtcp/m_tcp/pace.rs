// SPDX-License-Identifier: Apache-2.0
//! How fast M-TCP sends from the cache.

use core::time::Duration;

use super::{Context, Mtcp};
use crate::Payload;
use crate::flow::Flow;

/// Bytes sent at once on a link without measurements: ten segments (RFC 6928).
const BURST_UNKNOWN: u64 = 10 * 1460;
/// The round trip before one is measured.
const SRTT_INITIAL: Duration = Duration::from_millis(100);
/// A piece of the cache may take the link for this time.
const QUANTUM: Duration = Duration::from_millis(2);
/// Without an assigned rate, in 1/16 of the measured delivery rate: the pace of what an outage has
/// delayed, and of what waits behind it. Without a measurement: congestion windows a round trip
/// (RFC 9002, 7.7).
const PACE_GAIN_16: u64 = 17;
const PACE_GAIN_BEHIND_16: u64 = 32;
const PACE_GAIN_WINDOW: u64 = 2;

/// The pace, in bytes a second: the assigned rate. Without one, data that an outage has delayed go at
/// the rate of the MH's ACKs. Data that only the congestion window delays have no pace: the ACKs
/// clock them, and so find the link's rate.
pub(super) fn pace<P: Payload>(mtcp: &Mtcp<P>, flow: &Flow<P>, cx: &Context<'_, P>) -> u64 {
    let m = &mtcp.m;
    if let Some(assigned) = m.share.assigned {
        return assigned;
    }
    let srtt = cx.rtt().srtt().unwrap_or(SRTT_INITIAL).as_micros().max(1);
    let window = m.cwnd.map_or(BURST_UNKNOWN, u64::from).max(BURST_UNKNOWN);
    let by_window = PACE_GAIN_WINDOW * window * 1_000_000 / srtt as u64;
    let delivered = |gain: u64| {
        let rate = m.delivery.bytes_per_s();
        rate.map(|rate| (rate / 16 * gain).max(BURST_UNKNOWN))
    };
    match m.delayed_end {
        Some(end) if flow.sent_nxt.before(end) => delivered(PACE_GAIN_16).unwrap_or(by_window),
        Some(_) => delivered(PACE_GAIN_BEHIND_16).unwrap_or(by_window),
        None => u64::MAX,
    }
}

/// Bytes that take the link for [`QUANTUM`].
pub(super) fn quantum(bytes_per_s: u64) -> u32 {
    u32::try_from(bytes_per_s / (1_000 / QUANTUM.as_millis() as u64)).unwrap_or(u32::MAX)
}
