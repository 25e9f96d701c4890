// SPDX-License-Identifier: Apache-2.0
//! Detects without a report that the link is down while an MH sends data.
//!
//! An upload has data each few milliseconds. If none comes for much longer than of late, the
//! application pauses or the link is down. A keep-alive in the FH's name decides: an MH that receives
//! it answers at once (RFC 9293, 3.10.7.4), and its state does not change.

use core::time::Duration;

use holdfast_wire::Instant;

use crate::changing_link::nanos;
use crate::recent_max::RecentGaps;
use crate::rtt::RttEstimator;
use crate::table::FlowId;
use crate::upload_losses::UploadLosses;

/// A longer gap separates two bursts, and shows nothing of the next gap.
pub(crate) const GAP_MAX: Duration = Duration::from_secs(1);
/// This number of data segments without such a gap is an upload: an initial window (RFC 6928).
const UPLOAD_SEGMENTS: u32 = 10;
/// The MH is probed after twice the longest gap of late and this additional time.
const GAP_SLACK: Duration = Duration::from_millis(50);
/// The shortest time from one first probe to the next. Linux answers one keep-alive of a connection in 500 ms
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
    /// The round trip from an ACK to data that the MH has sent after it.
    pub rtt: RttEstimator,
    /// Whether losses are the MH's own; only with `auto`.
    pub losses: Option<Box<UploadLosses>>,
    /// Since when a probe is not answered.
    pub probed_at: Option<Instant>,
    /// The earliest time of the next first probe.
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
            losses: None,
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

    /// A round trip of the wireless half. `shows_queue`: the MH had data in flight all the time.
    pub(crate) fn on_round_trip(&mut self, rtt: Duration, shows_queue: bool, now: Instant) {
        self.rtt.sample(rtt);
        if let (Some(losses), true) = (&mut self.losses, shows_queue) {
            losses.on_round_trip(rtt, now);
        }
    }

    /// The segment has data.
    pub(crate) fn on_data(&mut self, flow: FlowId, bytes: u32, now: Instant) {
        let gap = now.saturating_since(core::mem::replace(&mut self.data_at, now));
        let gap = nanos(gap);
        self.flow = flow;
        let interrupted_after = self.interrupted_after_nanos();
        if let Some(losses) = &mut self.losses {
            if gap > interrupted_after {
                losses.interrupt(now);
            }
            losses.on_data(bytes, gap, now);
        }
        if gap <= const { GAP_MAX.as_nanos() as u64 } {
            self.gaps.add(gap, now);
            self.segments = self.segments.saturating_add(1);
        } else {
            self.segments = 1;
        }
    }

    /// A longer gap is a pause or an outage. In nanoseconds: the packet path compares it.
    fn interrupted_after_nanos(&self) -> u64 {
        self.gaps.largest() * 2 + const { GAP_SLACK.as_nanos() as u64 }
    }

    /// When the MH is probed, unless it sends something before.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        let sends = self.segments >= UPLOAD_SEGMENTS && self.probed_at.is_none();
        let at = self.received_at + Duration::from_nanos(self.interrupted_after_nanos());
        sends.then(|| at.max(self.probe_from))
    }

    /// The flow to probe, if that is due.
    pub(crate) fn take_probe(&mut self, now: Instant) -> Option<FlowId> {
        self.probe_at().filter(|at| *at <= now)?;
        self.probed_at = Some(now);
        Some(self.flow)
    }

    /// The MH has answered, or no probe could be sent. Its next data are a new upload.
    pub(crate) fn pause(&mut self, now: Instant) {
        (self.segments, self.probed_at) = (0, None);
        self.probe_from = now + PROBES_APART;
    }

    /// An outage or a handoff is over.
    pub(crate) fn on_link_up(&mut self, now: Instant) {
        self.pause(now);
        if let Some(losses) = &mut self.losses {
            losses.interrupt(now);
        }
    }

    /// When the MH counts as silent.
    pub(crate) fn silent_at(&self, variation_min: Duration) -> Option<Instant> {
        Some(self.probed_at? + self.rtt.rto(variation_min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Id as _, Slot};

    fn at(ms: u64) -> Instant {
        Instant::from_millis(10_000 + ms)
    }

    fn flow() -> FlowId {
        FlowId::new(Slot::default())
    }

    /// An MH that has sent this number of segments, one each 20 ms from 0 ms on.
    fn uploading(segments: u64) -> UploadWatch {
        let mut watch = UploadWatch::new(flow(), at(0));
        for n in 0..segments {
            watch.on_segment(at(20 * n));
            watch.on_data(flow(), 1_460, at(20 * n));
        }
        watch
    }

    #[test]
    fn ten_segments_without_a_long_gap_are_an_upload() {
        assert_eq!(uploading(9).probe_at(), None);
        // Twice the longest gap, and 50 ms.
        assert_eq!(uploading(10).probe_at(), Some(at(180 + 90)));
        for (gap_ms, is_upload) in [(1_000, true), (1_001, false)] {
            let mut watch = uploading(9);
            watch.on_data(flow(), 1_460, at(160 + gap_ms));
            assert_eq!(watch.probe_at().is_some(), is_upload, "{gap_ms}");
        }
    }

    #[test]
    fn an_mh_is_probed_once_until_it_answers_and_then_waited_for() {
        let mut watch = uploading(10);
        assert_eq!(watch.take_probe(at(269)), None);
        assert_eq!(watch.silent_at(Duration::from_millis(200)), None);
        assert_eq!(watch.take_probe(at(270)), Some(flow()));
        assert_eq!(watch.take_probe(at(400)), None);
        // The first RTO, as long as no round trip was measured.
        let variation_min = Duration::from_millis(200);
        assert_eq!(watch.silent_at(variation_min), Some(at(1_270)));
        watch.rtt.sample(Duration::from_millis(30));
        assert_eq!(watch.silent_at(variation_min), Some(at(500)));
        watch.on_segment(at(300));
        assert_eq!(watch.silent_at(variation_min), None);
        // Its next data are another upload, and the next probe is 600 ms later.
        for n in 0..10 {
            assert_eq!(watch.probe_at(), None, "{n}");
            watch.on_segment(at(310 + n));
            watch.on_data(flow(), 1_460, at(310 + n));
        }
        assert_eq!(watch.probe_at(), Some(at(900)));
    }
}
