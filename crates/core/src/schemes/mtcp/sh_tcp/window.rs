// SPDX-License-Identifier: Apache-2.0
//! The window that the FH sees: the MH's, within SH-TCP's own.

use core::time::Duration;

use holdfast_wire::SeqNum;

use super::{Context, Mtcp};
use crate::Payload;
use crate::flow::Flow;

/// With a share of a cell, the FH may have this many round trips of its share in flight, and `OWN_MIN`
/// bytes at least. More would only wait in the cache.
const SHARE_ROUND_TRIPS: u64 = 2;
const OWN_MIN: u64 = 64 << 10;
/// The round trip of a half before one is measured.
const SRTT_INITIAL: Duration = Duration::from_millis(100);

/// The MH's window, seen from `ack`.
pub(super) fn window_of_mh<P: Payload>(flow: &Flow<P>, ack: SeqNum) -> u16 {
    let (Some(edge), Some(shift)) = (flow.mh.right_edge, flow.mh.window_scale) else {
        return 0;
    };
    u16::try_from(edge.distance_from(ack) >> shift).unwrap_or(u16::MAX)
}

/// The window that the FH is to see with `ack`: the MH's, within SH-TCP's own.
pub(super) fn window_at<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    ack: SeqNum,
    cx: &Context<'_, P>,
) -> u16 {
    let window = window_of_mh(flow, ack);
    within_own(mtcp, flow, ack, window, cx)
}

/// A window of the MH within SH-TCP's own, whose right edge never goes back.
pub(super) fn within_own<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    ack: SeqNum,
    window: u16,
    cx: &Context<'_, P>,
) -> u16 {
    let own = own_bytes(mtcp, cx);
    let Some(shift) = flow.mh.window_scale else {
        return window;
    };
    let in_cell = mtcp.m.share.in_cell;
    let acked = &mut mtcp.sh.acked_edge;
    // A number that is too far behind would compare as ahead.
    *acked = acked.map(|old| old.max(ack));
    let Some(own) = own else {
        let edge = ack + (u32::from(window) << shift);
        if in_cell {
            *acked = Some(acked.map_or(edge, |old| old.max(edge)));
        }
        return window;
    };
    let edge = (ack + own).max(acked.unwrap_or(ack));
    let own = u16::try_from(edge.distance_from(ack) >> shift).unwrap_or(u16::MAX);
    let window = window.min(own.max(1));
    let edge = ack + (u32::from(window) << shift);
    *acked = Some(acked.map_or(edge, |old| old.max(edge)));
    window
}

/// SH-TCP's own window; `None`: only the MH's window counts.
fn own_bytes<P: Payload>(mtcp: &Mtcp<P>, cx: &Context<'_, P>) -> Option<u32> {
    let set = cx.settings.mtcp.window_bytes;
    if set > 0 {
        return u32::try_from(set).ok();
    }
    let share = u128::from(mtcp.m.share.assigned?);
    let halves = [mtcp.sh.wired_rtt.srtt(), cx.rtt().srtt()];
    let round_trip: Duration = halves.iter().map(|srtt| srtt.unwrap_or(SRTT_INITIAL)).sum();
    let taken = share * round_trip.as_nanos() / 1_000_000_000;
    let bytes = u64::try_from(taken).unwrap_or(u64::MAX);
    let bytes = bytes.saturating_mul(SHARE_ROUND_TRIPS).max(OWN_MIN);
    Some(u32::try_from(bytes).unwrap_or(u32::MAX).min(1 << 30))
}
