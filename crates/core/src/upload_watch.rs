// SPDX-License-Identifier: Apache-2.0
//! Detects without a report that the link is down while an MH sends data.
//!
//! An upload has data each few milliseconds. If none comes for much longer than of late, the
//! application pauses or the link is down. A keep-alive in the FH's name decides: an MH that receives
//! it answers at once (RFC 9293, 3.10.7.4), and takes nothing from it.

use core::time::Duration;

use holdfast_wire::Instant;

use crate::recent_max::RecentGaps;
use crate::rtt::RttEstimator;
use crate::table::FlowId;

/// A longer gap separates two bursts, and shows nothing of the next gap.
pub(crate) const GAP_MAX: Duration = Duration::from_secs(1);
/// Data segments without such a gap that are an upload: an initial window (RFC 6928).
const UPLOAD_SEGMENTS: u32 = 10;
/// What may come on top of twice the longest gap before the MH is probed.
const GAP_SLACK: Duration = Duration::from_millis(50);
/// From one first probe to the next. Linux answers one keep-alive of a connection in 500 ms
/// (`tcp_invalid_ratelimit`).
const PROBES_APART: Duration = Duration::from_millis(600);

/// The uploads of an MH, all flows together.
#[derive(Clone, Debug)]
pub(crate) struct UploadWatch {
    /// The flow that has sent data last, and when.
    flow: FlowId,
    data_at: Instant,
    /// When any segment of the MH came last.
    pub received_at: Instant,
    /// Segments in a row; 0: the MH pauses.
    segments: u32,
    gaps: RecentGaps,
    /// From an ACK to data that the MH has sent after it.
    pub rtt: RttEstimator,
    /// Since when the MH owes an answer.
    pub probed_at: Option<Instant>,
    /// The next first probe.
    probe_from: Instant,
}

impl UploadWatch {
    /// The MH sends its first data.
    pub(crate) fn new(flow: FlowId, now: Instant) -> Self {
        Self {
            flow,
            data_at: now,
            received_at: now,
            segments: 0,
            gaps: RecentGaps::default(),
            rtt: RttEstimator::default(),
            probed_at: None,
            probe_from: now,
        }
    }

    /// A segment of the MH.
    pub(crate) fn on_segment(&mut self, now: Instant) {
        self.received_at = now;
        if self.probed_at.is_some() {
            self.pause(now);
        }
    }

    /// It has data.
    pub(crate) fn on_data(&mut self, flow: FlowId, now: Instant) {
        let gap = now.saturating_since(core::mem::replace(&mut self.data_at, now));
        self.flow = flow;
        if gap <= GAP_MAX {
            self.gaps.note(gap.as_nanos() as u64, now);
            self.segments = self.segments.saturating_add(1);
        } else {
            self.segments = 1;
        }
    }

    /// When the MH is probed, unless it sends something before.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        let sends = self.segments >= UPLOAD_SEGMENTS && self.probed_at.is_none();
        let at = self.received_at + Duration::from_nanos(self.gaps.largest() * 2) + GAP_SLACK;
        sends.then(|| at.max(self.probe_from))
    }

    /// The flow to probe, if that is due.
    pub(crate) fn take_probe(&mut self, now: Instant) -> Option<FlowId> {
        self.probe_at().filter(|at| *at <= now)?;
        self.probed_at = Some(now);
        Some(self.flow)
    }

    /// The MH has answered, or has nothing to answer. Its next data are a new upload.
    pub(crate) fn pause(&mut self, now: Instant) {
        (self.segments, self.probed_at) = (0, None);
        self.probe_from = now + PROBES_APART;
    }

    /// When the MH counts as silent.
    pub(crate) fn silent_at(&self, variation_min: Duration) -> Option<Instant> {
        Some(self.probed_at? + self.rtt.rto(variation_min))
    }
}
