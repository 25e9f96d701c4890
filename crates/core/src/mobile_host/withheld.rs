// SPDX-License-Identifier: Apache-2.0
//! The withheld segment of `wake`: the ACK number and window that each segment of the MH leaves
//! with, so that after an outage there is one segment left to acknowledge.
//!
//! Of all ACKs, only one of something new wakes a Linux sender in its RTO back-off. So while a flow downloads in bulk,
//! what leaves acknowledges one segment of the FH less than the MH has. At link up that segment is acknowledged by a
//! made ACK.
//!
//! ```text
//!            bulk, nothing missing            the FH pauses, something is missing, a FIN,
//!  RELEASED -----------------------> WITHHELD     the daemon is dead, link up
//!      ^                               |
//!      +-------------------------------+
//! ```
//!
//! The kernel's program (`bpf/withheld_ingress.h`, `bpf/withheld_egress.h`) does the same to packets. This one is the
//! reference. Both are tested with `withheld/cases.txt`.

use core::time::Duration;

use holdfast_wire::{Instant, SeqNum};

#[cfg(test)]
mod cases;
mod fh_clock;
mod shortest_rtt;
#[cfg(test)]
mod tests;

pub use fh_clock::FhClock;
use shortest_rtt::ShortestRtt;

/// A segment is withheld if a round trip has at least this many segments. Without a queue the congestion window limits
/// the sender, and withholding costs it 1 segment of this number, less than 1%.
pub const BULK_SEGMENTS: u32 = 128;
/// The same if packets wait in a queue: then withholding does not lower the rate.
pub const QUEUED_SEGMENTS: u32 = 16;
/// Windows that hold fewer segments than this leave as they are.
const WINDOW_SEGMENTS_MIN: u32 = 16;
/// Smaller segments do not belong to a bulk download.
const SEGMENT_BYTES_MIN: u32 = 500;
/// Sequence numbers wrap: the known boundaries begin no further back than this.
const SPAN_MAX: u32 = 1 << 30;
/// A released number is at most this far ahead of what has left. Otherwise the numbers have wrapped since.
const AHEAD_MAX: u32 = 1 << 20;
/// A round trip that is longer than the shortest by one part in this many, a quarter, contains a queue.
const QUEUE_SHARE: u32 = 4;
/// After these quarters of a round trip without data the flow is not bulk. BBR has only four segments in flight while
/// it looks for the shortest round trip, and must get all their ACKs.
const GAP_QUARTERS: u32 = 3;
/// The FH pauses if nothing comes for a round trip and this. Linux probes for a lost tail
/// 200 ms or more after a round trip (`tcp_schedule_loss_probe`); RFC 8985, 7.2 has two round
/// trips and the longest delay of an ACK.
const PAUSE_MARGIN: Duration = Duration::from_millis(50);
/// The FH counts as pausing after this time at the latest.
const PAUSE_AFTER_MAX: Duration = Duration::from_millis(500);
/// No segment is withheld in an answer that began less than this time ago. Longer answers are downloads: a segment and
/// a round trip are a small part of them.
pub const ANSWER: Duration = Duration::from_secs(2);
/// An answer begins no sooner after its request than these quarters of the shortest round trip.
const ANSWER_MIN_QUARTERS: u32 = 3;
/// Segments are counted over a round trip, within these limits.
const EPOCH_MIN: Duration = Duration::from_millis(10);
const EPOCH_MAX: Duration = Duration::from_secs(1);

/// Where segments of the FH end: each from `start` to `end` has `segment_bytes` bytes, except the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentBoundaries {
    /// The first byte.
    pub start: SeqNum,
    /// The one after the last.
    pub end: SeqNum,
    /// Bytes of a segment; 0: nothing is known.
    pub segment_bytes: u32,
}

impl SegmentBoundaries {
    /// Notes data. If they do not continue the known boundaries, these begin anew.
    pub(crate) fn add(&mut self, seq: SeqNum, len: u32, segment_bytes: u32) {
        let segment_bytes = segment_bytes.min(len);
        let follows = seq == self.end && self.segment_bytes != 0;
        // All segments so far are whole, and the new ones are as long. A shorter one may be the last.
        let whole = follows
            && self
                .end
                .distance_from(self.start)
                .is_multiple_of(self.segment_bytes);
        let fits = segment_bytes == self.segment_bytes
            || (len < self.segment_bytes && len == segment_bytes);
        if !(whole && fits) {
            *self = Self {
                start: seq,
                end: seq,
                segment_bytes,
            };
        }
        self.end = seq + len;
        if self.end.distance_from(self.start) > SPAN_MAX {
            let segment_bytes = self.segment_bytes.max(1);
            self.start += SPAN_MAX / 2 / segment_bytes * segment_bytes;
        }
    }

    /// The last end of a segment before `ack`, if it is known.
    fn before(&self, ack: SeqNum) -> Option<SeqNum> {
        let known = self.segment_bytes >= SEGMENT_BYTES_MIN
            && self.start.before(ack)
            && !ack.after(self.end);
        known.then(|| {
            let within = ack.distance_from(self.start) - 1;
            self.start + within / self.segment_bytes * self.segment_bytes
        })
    }
}

impl SegmentBoundaries {
    /// Whether `ack` is the end of a segment that is shorter than those before it, or than any of a
    /// download. With PSH it ends an answer. PSH alone means little: Linux gives it to the last segment of
    /// each burst.
    pub fn ends_short(&self, ack: SeqNum) -> bool {
        let segment_bytes = self.segment_bytes.max(1);
        segment_bytes < SEGMENT_BYTES_MIN
            || !ack.distance_from(self.start).is_multiple_of(segment_bytes)
    }

    /// Whether data with PSH that end at `ack` end an answer. The last segment is short, or it stands alone: a message
    /// in one segment of any size.
    pub fn ends_answer(&self, ack: SeqNum) -> bool {
        self.ends_short(ack) || self.end.distance_from(self.start) <= self.segment_bytes
    }

    /// ACKs at the last `unknown` segment boundaries below the MH's own ACK, ascending: the lowest ones, `most` at
    /// most. With them an FH that has missed the last ACKs receives the ACK of its retransmitted segment first, and
    /// alone.
    ///
    /// Their windows have the right edge of the MH's own, rounded down to its unit. If the window field cannot hold
    /// that, there is no ACK. Nor is there one further below than the window: an FH drops it as an old one
    /// (RFC 5961, 5.2).
    pub fn acks_below(
        &self,
        own: AckAndWindow,
        scale: u8,
        unknown: u32,
        most: u32,
    ) -> Vec<AckAndWindow> {
        let Some(last) = self.before(own.ack) else {
            return Vec::new();
        };
        let known = last.distance_from(self.start) / self.segment_bytes;
        let steps = (0..known.min(unknown)).rev();
        let ends = steps.map(|step| last - step * self.segment_bytes);
        let leaves = |end| {
            let behind = own.ack.distance_from(end);
            let is_near = behind <= u32::from(own.window) << scale;
            let window = u16::try_from(u32::from(own.window) + (behind >> scale)).ok();
            window
                .filter(|_| is_near)
                .map(|window| AckAndWindow { ack: end, window })
        };
        ends.filter_map(leaves).take(most as usize).collect()
    }
}

/// ACK number and window of a segment, as it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckAndWindow {
    /// SEG.ACK.
    pub ack: SeqNum,
    /// The window field, not scaled.
    pub window: u16,
}

/// The segment's own number and window, with the number lowered by one segment, but not below `floor`. Both stay
/// unchanged if the window is small, or if its field cannot hold the same right edge (rounded down to its unit).
pub fn lowered(
    own: AckAndWindow,
    scale: u8,
    floor: SeqNum,
    boundaries: &SegmentBoundaries,
) -> AckAndWindow {
    let Some(boundary) = boundaries.before(own.ack) else {
        return own;
    };
    let ack = if boundary.before(floor) {
        floor
    } else {
        boundary
    };
    if !ack.before(own.ack)
        || u32::from(own.window) << scale < WINDOW_SEGMENTS_MIN * boundaries.segment_bytes
    {
        return own;
    }
    let more = own.ack.distance_from(ack) >> scale;
    match u16::try_from(u32::from(own.window) + more) {
        // Both stay unchanged if the window's unit is more than a segment.
        Ok(window) if more > 0 => AckAndWindow { ack, window },
        _ => own,
    }
}

/// Data of the FH, as they arrive: a super-segment is one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FhData {
    /// The first byte.
    pub seq: SeqNum,
    /// Bytes of payload, more than 0.
    pub len: u32,
    /// Bytes of each segment in it, except the last.
    pub segment_bytes: u32,
    /// It has PSH.
    pub push: bool,
}

/// A segment of the MH at egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MhSegment {
    /// What it acknowledges, and its window.
    pub own: AckAndWindow,
    /// The MH's window scale; `None`: it is unknown, and no segment is withheld.
    pub scale: Option<u8>,
    /// It has payload.
    pub has_payload: bool,
    /// It has SACK blocks: something is missing, or came twice.
    pub has_sack: bool,
    /// The FH or the MH has sent its FIN.
    pub is_ending: bool,
}

/// The FH counts as pausing after this time without a newly withheld segment.
pub fn pause_after(srtt: Option<Duration>) -> Duration {
    (srtt.unwrap_or_default() + PAUSE_MARGIN).min(PAUSE_AFTER_MAX)
}

/// The lowest number that may leave: the highest number that has left, or the released one.
pub fn floor_of(acked_out: Option<SeqNum>, released: Option<SeqNum>) -> Option<SeqNum> {
    match (acked_out, released) {
        (Some(out), Some(released))
            if released.after(out) && released.distance_from(out) < AHEAD_MAX =>
        {
            Some(released)
        }
        (out, _) => out,
    }
}

/// What is known of the data that the FH sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Download {
    /// Segments in the last round trip; 0: not known.
    pub segments: u32,
    /// When the MH last sent data.
    pub upload_at: Option<Instant>,
    /// The end of the newest segment with PSH.
    pub pushed_end: Option<SeqNum>,
    /// Where segments of the FH end.
    pub boundaries: SegmentBoundaries,
}

/// The withheld segment of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithheldSegment {
    boundaries: SegmentBoundaries,
    /// The end of the newest segment with PSH.
    pushed_end: Option<SeqNum>,
    /// The end of the newest data that arrived after a gap.
    beyond_gap: Option<SeqNum>,
    epoch_at: Instant,
    epoch_segments: u32,
    last_segments: u32,
    is_bulk: bool,
    /// When data were last counted; `None` before the first.
    data_at: Option<Instant>,
    /// When the MH last sent data that acknowledge all of an answer.
    requested_at: Instant,
    /// When the FH's answer to that began.
    answer_at: Instant,
    /// The shortest recent round trip.
    shortest: ShortestRtt,
    /// The highest number that has left.
    acked_out: Option<SeqNum>,
    /// The released number: no lower one leaves.
    released: Option<SeqNum>,
    /// While a segment is withheld: the MH's own number, and when an ACK was last lowered.
    withheld_ack: Option<(SeqNum, Instant)>,
}

impl WithheldSegment {
    /// Data of the FH have come. `rtt`: the newest round trip.
    pub fn handle_fh_data(&mut self, data: &FhData, rtt: Option<Duration>, now: Instant) {
        if data.len == 0 {
            return;
        }
        let end = data.seq + data.len;
        let is_first = self.boundaries.segment_bytes == 0;
        if !is_first && data.seq.before(self.boundaries.end) {
            // A retransmission.
            return;
        }
        if !is_first && data.seq.after(self.boundaries.end) {
            self.beyond_gap = Some(end);
        }
        self.boundaries.add(data.seq, data.len, data.segment_bytes);
        if data.push {
            self.pushed_end = Some(end);
        }
        let segment_bytes = data.segment_bytes.clamp(1, data.len);
        self.count(data.len.div_ceil(segment_bytes), rtt, now);
    }

    fn count(&mut self, segments: u32, rtt: Option<Duration>, now: Instant) {
        let Some(rtt) = rtt else {
            return;
        };
        self.shortest.add(rtt, now);
        let epoch = rtt.clamp(EPOCH_MIN, EPOCH_MAX);
        if self.begins_answer(now) {
            self.answer_at = now;
            self.is_bulk = false;
        }
        let before = self.data_at.replace(now).unwrap_or(Instant::ZERO);
        let gap = now.saturating_since(before);
        if gap > epoch / 4 * GAP_QUARTERS {
            if gap > epoch * 2 {
                // The count is of a download long ago.
                self.last_segments = 0;
            }
            self.is_bulk = false;
            (self.epoch_at, self.epoch_segments) = (now, 0);
        }
        self.epoch_segments = self.epoch_segments.saturating_add(segments);
        let since = now.saturating_since(self.epoch_at);
        if since < epoch {
            return;
        }
        let shortest = self.shortest.get();
        let queued = rtt > shortest + shortest / QUEUE_SHARE;
        let least = if queued {
            QUEUED_SEGMENTS
        } else {
            BULK_SEGMENTS
        };
        // An epoch with a pause in it does not count.
        let counts = since < epoch * 2;
        self.last_segments = if counts { self.epoch_segments } else { 0 };
        let is_answer = now.saturating_since(self.answer_at) < ANSWER;
        self.is_bulk = counts && self.epoch_segments >= least && !is_answer;
        self.epoch_at = now;
        self.epoch_segments = 0;
    }

    /// Whether the new data begin an answer. They are the first data of the flow, or the first since the MH's request,
    /// and not too early for an answer to it.
    fn begins_answer(&self, now: Instant) -> bool {
        let Some(data_at) = self.data_at else {
            return true;
        };
        let least = self.shortest.get() / 4 * ANSWER_MIN_QUARTERS;
        self.requested_at >= data_at && now.saturating_since(self.requested_at) >= least
    }

    /// The ACK number and window with which a segment of the MH leaves. `ordered`: the daemon lives, and the flow is
    /// not one that it has just woken.
    pub fn handle_mh_segment(
        &mut self,
        segment: &MhSegment,
        ordered: bool,
        now: Instant,
    ) -> AckAndWindow {
        let own = segment.own;
        let is_answered = self.pushed_end == Some(own.ack);
        if is_answered && segment.has_payload {
            self.requested_at = now;
        }
        let Some(floor) = self.floor() else {
            // The first segment that is seen leaves as it is.
            self.acked_out = Some(own.ack);
            return own;
        };
        if own.ack.before(floor) {
            // Another segment has overtaken it.
            return own;
        }
        let is_missing = segment.has_sack || self.beyond_gap.is_some_and(|end| own.ack.before(end));
        if !is_missing {
            self.beyond_gap = None;
        }
        // The end of an answer: a new request, or a short segment whose sender may wait for its ACK (Nagle).
        let is_short = self.boundaries.ends_short(own.ack);
        let is_request = is_answered && (segment.has_payload || is_short);
        let may = ordered && self.is_bulk && !is_missing && !is_request && !segment.is_ending;
        let leaves = match segment.scale {
            Some(scale) if may => lowered(own, scale, floor, &self.boundaries),
            _ => own,
        };
        self.acked_out = Some(leaves.ack);
        self.withheld_ack = (leaves.ack != own.ack).then_some((own.ack, now));
        leaves
    }

    /// No lower number leaves any more.
    fn floor(&self) -> Option<SeqNum> {
        floor_of(self.acked_out, self.released)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due: the FH pauses then.
    pub fn poll_timeout(&self, srtt: Option<Duration>) -> Option<Instant> {
        let (_, at) = self.withheld_ack?;
        Some(at + pause_after(srtt))
    }

    /// If it is due: releases the withheld segment, before the FH probes for it. Returns the number of the made ACK.
    pub fn handle_timeout(&mut self, srtt: Option<Duration>, now: Instant) -> Option<SeqNum> {
        let (ack, _) = self.withheld_ack?;
        if now < self.poll_timeout(srtt)? {
            return None;
        }
        self.release(ack, now);
        Some(ack)
    }

    /// A made ACK has this number: no lower one leaves any more, and no segment is withheld until the flow is a bulk
    /// download again.
    pub fn release(&mut self, ack: SeqNum, now: Instant) {
        self.released = Some(ack);
        self.is_bulk = false;
        self.epoch_at = now;
        self.epoch_segments = 0;
        self.withheld_ack = None;
    }

    /// Where segments of the FH end.
    pub const fn boundaries(&self) -> SegmentBoundaries {
        self.boundaries
    }

    /// The state of the FH's data. `upload_at`: when the MH last sent data.
    pub const fn download(&self, upload_at: Option<Instant>) -> Download {
        Download {
            segments: self.last_segments,
            upload_at,
            pushed_end: self.pushed_end,
            boundaries: self.boundaries,
        }
    }

    /// Segments in the last round trip; 0: that was no whole one, or is long ago.
    pub const fn segments(&self) -> u32 {
        self.last_segments
    }

    /// When the newest answer of the FH began.
    pub const fn answer_at(&self) -> Instant {
        self.answer_at
    }

    /// Whether the flow downloads in bulk.
    pub const fn is_bulk(&self) -> bool {
        self.is_bulk
    }

    /// Whether a segment is withheld.
    pub const fn is_withholding(&self) -> bool {
        self.withheld_ack.is_some()
    }
}
