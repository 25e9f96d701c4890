// SPDX-License-Identifier: Apache-2.0
//! The noted state of each flow, by the rules of `bpf/noted.h`: the newest ACK header of the MH,
//! and the round trip as the MH can see it.

use holdfast_core::mobile_host::{HostFlow, MadeAck};
use holdfast_core::{FlowKey, RECONNECTION_FLAGS};
use holdfast_wire::{Duration, Flags, Instant, Options, SackBlocks, Segment, SeqNum};

use crate::packet::{Body, Origin, Packet};

/// A measurement of a round trip that has no answer by then starts again, without a sample.
const TIMED_MAX: Duration = Duration::from_secs(10);
/// An ACK that is further behind the MH's numbers than this does not fit.
const SEQUENCE_REACH: u32 = 1 << 30;
/// This many bytes may follow a segment of the FH that fitted the MH's numbers, without a check.
const UNCHECKED_MAX: u32 = 1 << 18;
/// The largest shift of a window (RFC 7323, 2.3).
const SHIFT_MAX: u8 = 14;

/// One flow.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    flow: HostFlow,
    /// The MH's packet with the newest ACK: ACKs are made from it.
    template: Packet,
    /// The MH has sent an ACK that is not a SYN.
    is_open: bool,
    has_timestamps: bool,
    /// The MH's newest TSval, its SYN's included.
    tsval: u32,
    /// The shift of the MH's windows, bits; none: its SYN was not seen.
    mh_shift: Option<u8>,
    fh_has_finished: bool,
    /// The number after the FH's highest one.
    fh_nxt: SeqNum,
    /// The ACK number of the FH's newest segment.
    fh_ack: SeqNum,
    /// The end of the newest segment that was checked against the MH's numbers.
    fh_checked: SeqNum,
    timed_tsval: u32,
    tsval_timed_at: Option<Instant>,
    timed_seq: SeqNum,
    seq_timed_at: Option<Instant>,
}

impl Noted {
    /// A flow, at egress of its first packet.
    pub(super) fn new(key: FlowKey, packet: &Packet, now: Instant) -> Self {
        let (seq, ack) = packet
            .segment()
            .map_or_else(Default::default, |newest| (newest.seq, newest.ack));
        Self {
            flow: HostFlow {
                key,
                snd_nxt: seq,
                rcv_nxt: ack,
                window: 0,
                window_shift: None,
                timestamps: None,
                sack: SackBlocks::default(),
                srtt: None,
                rtt: None,
                sent_at: now,
                received_at: None,
                is_opaque: false,
                is_finished: false,
                data_at: None,
                // Senders here have F-RTO only with SACK: those without SACK are woken by ACKs too.
                permits_sack: true,
                download: None,
            },
            template: *packet,
            is_open: false,
            has_timestamps: false,
            tsval: 0,
            mh_shift: None,
            fh_has_finished: false,
            fh_nxt: ack,
            fh_ack: seq,
            fh_checked: ack,
            timed_tsval: 0,
            tsval_timed_at: None,
            timed_seq: seq,
            seq_timed_at: None,
        }
    }

    /// The flow; none before its first ACK.
    pub(super) fn flow(&self) -> Option<HostFlow> {
        // Nothing is missing before the FIN.
        let is_finished = self.fh_has_finished && !self.fh_nxt.after(self.flow.rcv_nxt);
        self.is_open.then_some(HostFlow {
            is_finished,
            ..self.flow
        })
    }

    /// The shift of the MH's windows, bits.
    pub(super) const fn shift(&self) -> u8 {
        match self.flow.window_shift {
            Some(shift) => shift,
            None => 0,
        }
    }

    /// When one of its ends was last seen.
    pub(super) fn seen_at(&self) -> Instant {
        let sent = self.flow.sent_at;
        self.flow
            .received_at
            .map_or(sent, |received| received.max(sent))
    }

    /// The MH sends a segment.
    pub(super) fn note_egress(&mut self, segment: &Segment, packet: &Packet, now: Instant) {
        self.time_egress(segment, now);
        let end = segment.seq + segment.len();
        if segment.flags.has(Flags::SYN) {
            self.flow.snd_nxt = end;
            self.mh_shift = Some(segment.options.window_scale.unwrap_or(0).min(SHIFT_MAX));
            if let Some(timestamps) = segment.options.timestamps {
                self.tsval = timestamps.tsval;
            }
            self.flow.window_shift = self.mh_shift;
        } else if segment.flags.has(Flags::ACK) {
            if !self.is_open || !segment.ack.before(self.flow.rcv_nxt) {
                self.note_ack(segment, packet, end);
            }
            self.is_open = true;
        }
        self.flow.sent_at = now;
    }

    fn note_ack(&mut self, segment: &Segment, packet: &Packet, end: SeqNum) {
        let flow = &mut self.flow;
        if !end.before(flow.snd_nxt) {
            flow.snd_nxt = end;
        }
        flow.rcv_nxt = segment.ack;
        flow.window = segment.window;
        if let Some(timestamps) = segment.options.timestamps {
            flow.timestamps = Some(timestamps);
            self.tsval = timestamps.tsval;
        }
        flow.sack = without_duplicates(segment);
        self.template = *packet;
    }

    /// Starts the measurements of the round trip that the FH's answer ends.
    fn time_egress(&mut self, segment: &Segment, now: Instant) {
        let is_over =
            |since: Option<Instant>| since.is_none_or(|at| now.saturating_since(at) > TIMED_MAX);
        if let Some(timestamps) = segment.options.timestamps {
            // The first segment with this value: the FH might answer an earlier one.
            let is_first = !self.has_timestamps || self.tsval != timestamps.tsval;
            if is_first && is_over(self.tsval_timed_at) {
                self.timed_tsval = timestamps.tsval;
                self.tsval_timed_at = Some(now);
            }
            self.has_timestamps = true;
        }
        if segment.is_empty() {
            return;
        }
        if segment.seq != self.flow.snd_nxt {
            // Retransmitted: its ACK gives no round trip (Karn).
            self.seq_timed_at = None;
        } else if is_over(self.seq_timed_at) {
            self.timed_seq = segment.seq + segment.len();
            self.seq_timed_at = Some(now);
        }
    }

    /// Whether the numbers fit. An off-path sender would have to guess them (RFC 9293, 3.10.7.4;
    /// RFC 5961).
    fn fits(&self, segment: &Segment) -> bool {
        let flow = &self.flow;
        if !self.is_open || segment.flags.has(Flags::SYN) {
            return false;
        }
        let behind = flow.snd_nxt.distance_from(segment.ack);
        if segment.ack.after(flow.snd_nxt) || behind > SEQUENCE_REACH {
            return false;
        }
        let window = i32::from(flow.window) << self.mh_shift.unwrap_or(SHIFT_MAX);
        let off = |number: SeqNum| number.get().wrapping_sub(flow.rcv_nxt.get()) as i32;
        // Retransmissions of the FH are below `rcv_nxt`, by a window at most.
        off(segment.seq) <= window + (1 << 16) && off(segment.end()) >= -(window + (1 << 16))
    }

    /// Whether the segment directly follows a credible one, with the same ACK.
    fn continues(&self, segment: &Segment) -> bool {
        let unchecked = segment.end().get().wrapping_sub(self.fh_checked.get());
        let is_next = segment.seq == self.fh_nxt && segment.ack == self.fh_ack;
        is_next && unchecked <= UNCHECKED_MAX && self.is_open && self.flow.received_at.is_some()
    }

    fn is_credible(&mut self, segment: &Segment) -> bool {
        if !segment.flags.has(Flags::ACK) {
            return false;
        }
        let is_syn = segment.flags.has(Flags::SYN);
        if !is_syn && self.continues(segment) {
            return true;
        }
        let fits = if is_syn {
            !self.is_open && segment.ack == self.flow.snd_nxt
        } else {
            self.fits(segment)
        };
        if fits {
            self.fh_checked = segment.end();
        }
        fits
    }

    /// Notes a segment of the FH. False: it does not fit, and is not noted.
    pub(super) fn note_ingress(&mut self, segment: &Segment, now: Instant) -> bool {
        if !self.is_credible(segment) {
            return false;
        }
        self.time_ingress(segment, now);
        if segment.flags.has(Flags::SYN) {
            // RFC 7323, 2.2 and 3.2: an option has an effect only if both SYNs have it.
            if segment.options.window_scale.is_none() {
                self.flow.window_shift = Some(0);
                self.mh_shift = Some(0);
            }
            self.has_timestamps &= segment.options.timestamps.is_some();
        }
        let is_newest = !segment.end().before(self.fh_nxt) || self.flow.received_at.is_none();
        if segment.flags.has(Flags::SYN) || is_newest {
            self.fh_nxt = segment.end();
        }
        self.fh_ack = segment.ack;
        self.fh_has_finished |= segment.flags.has(Flags::FIN);
        self.flow.received_at = Some(now);
        if segment.payload_len > 0 {
            self.flow.data_at = Some(now);
        }
        true
    }

    /// The ACK number of the FH's newest segment.
    pub(super) const fn fh_ack(&self) -> SeqNum {
        self.fh_ack
    }

    fn time_ingress(&mut self, segment: &Segment, now: Instant) {
        let mut rtt = None;
        if let Some(at) = self.seq_timed_at
            && !segment.ack.before(self.timed_seq)
        {
            rtt = Some(now.saturating_since(at));
            self.seq_timed_at = None;
        }
        if let (Some(at), Some(timestamps)) = (self.tsval_timed_at, segment.options.timestamps)
            && (timestamps.tsecr.wrapping_sub(self.timed_tsval) as i32) >= 0
            && (self.tsval.wrapping_sub(timestamps.tsecr) as i32) >= 0
        {
            let since = now.saturating_since(at);
            let gap = self
                .flow
                .received_at
                .map(|received| now.saturating_since(received));
            // The FH may have had nothing to send: a long pause before the answer gives no sample.
            let is_sample = gap.is_some_and(|gap| gap < since / 2)
                || self.flow.srtt.is_some_and(|srtt| since < srtt);
            rtt = rtt.or(is_sample.then_some(since));
            self.tsval_timed_at = None;
        }
        // An outage is no round trip.
        if let Some(rtt) = rtt.filter(|rtt| *rtt <= TIMED_MAX) {
            let srtt = self.flow.srtt.map_or(rtt, |srtt| srtt * 7 / 8 + rtt / 8);
            (self.flow.srtt, self.flow.rtt) = (Some(srtt), Some(rtt));
        }
    }

    /// An ACK that looks like the MH's last one; none: the MH has sent none.
    pub(super) fn made(&self, ack: MadeAck) -> Option<Packet> {
        self.made_with(ack, |_| {})
    }

    /// As [`Self::made`], with `change` applied.
    pub(super) fn made_with(
        &self,
        ack: MadeAck,
        change: impl FnOnce(&mut Segment),
    ) -> Option<Packet> {
        let (flow, mut packet) = (self.flow()?, self.template);
        let Body::Tcp(tcp) = &mut packet.body else {
            return None;
        };
        tcp.segment = Segment {
            seq: flow.snd_nxt,
            ack: flow.rcv_nxt,
            flags: match ack {
                MadeAck::Marked => RECONNECTION_FLAGS,
                MadeAck::ZeroWindow | MadeAck::Last | MadeAck::Limited(_) => Flags::ACK,
            },
            window: match ack {
                MadeAck::ZeroWindow => 0,
                MadeAck::Last | MadeAck::Marked => flow.window,
                MadeAck::Limited(edge) => flow.window_until(edge),
            },
            options: Options {
                timestamps: flow.timestamps,
                sack: flow.sack,
                ..Options::default()
            },
            payload_len: 0,
            ..tcp.segment
        };
        (tcp.origin, tcp.repeated) = (Origin::default(), false);
        change(&mut tcp.segment);
        Some(packet)
    }
}

/// The segment's SACK blocks, without a first block that reports a duplicate (RFC 2883).
fn without_duplicates(segment: &Segment) -> SackBlocks {
    let mut kept = SackBlocks::default();
    let sack = &segment.options.sack;
    for (index, (left, right)) in sack.iter().enumerate() {
        let within =
            |block: (SeqNum, SeqNum)| block.0.at_or_before(left) && right.at_or_before(block.1);
        let is_duplicate =
            right.at_or_before(segment.ack) || sack.iter().nth(1).is_some_and(within);
        if index > 0 || !is_duplicate {
            kept.push(left, right);
        }
    }
    kept
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;
