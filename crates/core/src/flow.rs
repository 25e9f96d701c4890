// SPDX-License-Identifier: Apache-2.0
//! The state of one connection at the gateway: both ends, the cache for the MH, what was sent from it.

use std::collections::VecDeque;

use holdfast_wire::{Flags, Instant, Segment, SeqNum, Timestamps};

use crate::cache::{Insertion, SegmentCache};
use crate::renumber::Renumber;
use crate::sack::Scoreboard;
use crate::settings::Settings;
use crate::table::{FlowId, MobileId};
use crate::timers::Scheduled;
use crate::{FlowKey, FlowRecord, Payload};

mod adoption;
mod arrivals;
mod credible;
mod handoff;
mod handshake;
mod idle;
mod made;
mod mute;
mod received_acks;
mod resets;
mod sending;
mod tracking;
mod transmissions;
mod uploads;
pub(crate) use credible::WINDOW_MAX;
pub(crate) use idle::IdleFlow;
pub(crate) use mute::Mute;
use sending::{BeforeOutage, FirstProbe, Resending};
pub(crate) use tracking::{AckOutcome, DataOutcome};
pub(crate) use transmissions::{Arrivals, Sender, Transmission, Transmissions};
pub(crate) use uploads::{LinkUp, Uploads};

/// After this number of vain retransmissions or recoveries, the FH's own copies are forwarded again.
const RETRANSMISSIONS_ALONE: u32 = 3;

/// How much the gateway knows about a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Too little was seen in both directions to cache anything.
    Adopting,
    /// Both directions were seen and agree.
    Open,
    /// Its TCP options (MPTCP, MD5, AO) forbid copies by the gateway: everything passes unchanged.
    Opaque,
    /// Both ends have closed it, or one has reset it.
    Closed,
}

/// What the gateway knows of the FH as a sender of data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FhState {
    /// Highest SND.NXT seen.
    pub max: SeqNum,
    /// SND.UNA by the MH's ACKs, not by made ACKs.
    pub una: SeqNum,
    /// The newest SEG.ACK, with its window and its timestamp echo.
    pub ack: SeqNum,
    pub window: u16,
    pub tsecr: u32,
    /// ECE, if that segment reports congestion to the MH (RFC 3168).
    ece: Flags,
    /// The shift of the FH's windows; known if both SYNs were seen.
    window_scale: Option<u8>,
    window_largest: u16,
    /// The sequence number after the FH's FIN.
    pub fin: Option<SeqNum>,
    /// The end of the FH's last segment. An FH that has set SND.NXT back sends its RST with this number.
    last_end: SeqNum,
    /// The end of a segment that goes beyond the MH's window.
    end_beyond_window: Option<SeqNum>,
    /// The header for segments in the FH's name was copied from a plausible segment.
    has_header: bool,
    /// The FH may send SACK blocks: both SYNs have permitted them, or it has sent some.
    pub sack: bool,
    /// An ACK of the MH beyond everything seen. If those bytes were ever sent, the gateway missed them.
    doubted_ack: Option<SeqNum>,
}

impl FhState {
    /// The MH's ACKs are beyond everything seen: ACKs that seem old may be the true ones.
    pub(crate) const fn is_doubted(&self) -> bool {
        self.doubted_ack.is_some()
    }
}

/// What the gateway knows of the MH.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MhState {
    /// Highest SND.NXT seen.
    pub nxt: SeqNum,
    /// The shift of the MH's windows; known from both SYNs or from a predecessor.
    pub window_scale: Option<u8>,
    /// The farthest right edge of the MH's window, with `window_scale`.
    pub right_edge: Option<SeqNum>,
    /// The MH's newest timestamps that were forwarded.
    pub timestamps: Option<Timestamps>,
    /// The timestamps are from the MH's SYN, or too old to compare: the clock may be another one now.
    clock_may_differ: bool,
    /// The MH has answered everything with a zero window: the bytes above its ACK were window probes.
    pub refuses_all: bool,
    pub fin: Option<SeqNum>,
    window_largest: u16,
    /// When the last plausible segment arrived.
    received_at: Instant,
}

/// What a scheme caches of a flow besides the data for the MH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CachedElsewhere {
    pub bytes: usize,
    pub entries: usize,
}

/// A connection: the state that all schemes share.
pub(crate) struct Flow<P: Payload> {
    pub key: FlowKey,
    pub stage: Stage,
    pub mobile: MobileId,
    pub scheduled: Scheduled,
    pub fh: FhState,
    pub mh: MhState,
    handshake: handshake::Handshake,
    /// The FH's segments to compare the MH's with, to adopt the flow or to open it anew.
    adoption: Option<Box<adoption::Adoption>>,
    /// The MH's last implausible segment.
    unseen: Option<Box<credible::Unseen>>,
    /// The MH's segments that acknowledge less than SND.UNA.
    contradiction: Option<Box<credible::Contradiction>>,
    pub cache: SegmentCache<P>,
    pub sacked: Scoreboard,
    /// SND.NXT toward the MH: cached bytes from here on are a backlog.
    pub sent_nxt: SeqNum,
    /// Until the MH has acknowledged this, the gateway retransmits what is cached.
    pub recover: Option<SeqNum>,
    /// What was sent before the outage, and the MH's ACKs since: shows whether the link has kept the
    /// segments in flight.
    before_outage: Option<Box<BeforeOutage>>,
    resending: Resending,
    /// When to retransmit if nothing new is acknowledged; how many times that was in vain.
    pub retransmit_at: Option<Instant>,
    pub vain_retransmissions: u32,
    /// Recoveries in a row in which the MH has acknowledged nothing new.
    pub vain_recoveries: u32,
    dup_acks: u32,
    /// The newest timestamp that was sent to the MH.
    tsval_sent: Option<u32>,
    /// The first probe of the present silence.
    pub first_probe: Option<FirstProbe>,
    /// When a segment of the FH with the timestamp `tsval_sent` passed.
    tsval_noted: Instant,
    /// The end of a segment that was sent once, and when; its ACK gives the round trip.
    timed_segment: Option<(SeqNum, Instant)>,
    /// This flow's part of the sums at its MH and in the budget.
    counted_in_flight: u32,
    counted_cached_bytes: usize,
    counted_confirmed: bool,
    /// The flow is in its MH's [`send_queue`](crate::mobile::Mobile::send_queue).
    pub is_in_send_queue: bool,
    /// The index in its MH's [`flows`](crate::mobile::Mobile::flows).
    pub index_at_mobile: u32,
    /// Whether the flow's silence counts as the MH's.
    pub mute: Mute,
    /// New data is cached and not sent before the state of the handoff has come (`crate::handoff`).
    pub waits_for_handoff: bool,
    /// Bytes up to here are acknowledged to the FH, and the MH has not acknowledged them.
    pub owed: Option<SeqNum>,
    /// When the sweep first found that bytes are owed and the MH acknowledges nothing.
    pub owed_since: Option<Instant>,
    /// The FH is in persist state: it sends window probes only.
    pub in_persist: bool,
    /// The scheme sends what is cached, at its own pace, and retransmits what is lost; the
    /// mobile's recovery leaves the flow alone.
    pub has_own_sender: bool,
    pub cached_elsewhere: CachedElsewhere,
    /// The newest ACK for the MH, while newer ones of the FH are withheld from it.
    pub ack_shown: Option<SeqNum>,
    /// When the segments in flight to the MH were sent, for schemes that detect losses by time.
    pub transmissions: Transmissions,
    /// The newest ACK without data for the MH; it may have been lost in an outage.
    pub ack_in_outage: Option<P>,
    /// What the MH sends.
    pub uploads: Option<Box<Uploads>>,
    pub uplink_header: Option<P::Header>,
    pub downlink_header: Option<P::Header>,
    pub path_mtu: Option<u32>,
    /// Both ends get a RST for any segment that they send.
    answers_with_rst: bool,
    /// The difference between the numbers of the two halves, if the gateway has set up the connection.
    pub renumber: Option<Renumber>,
    pub seen: Instant,
}

impl<P: Payload> Flow<P> {
    pub(crate) fn new(key: FlowKey, mobile: MobileId, now: Instant) -> Self {
        Self {
            key,
            stage: Stage::Adopting,
            mobile,
            scheduled: Scheduled::default(),
            fh: FhState::default(),
            mh: MhState::default(),
            handshake: handshake::Handshake::default(),
            adoption: None,
            unseen: None,
            contradiction: None,
            cache: SegmentCache::default(),
            sacked: Scoreboard::default(),
            sent_nxt: SeqNum::default(),
            recover: None,
            before_outage: None,
            resending: Resending::default(),
            retransmit_at: None,
            vain_retransmissions: 0,
            vain_recoveries: 0,
            dup_acks: 0,
            tsval_sent: None,
            first_probe: None,
            tsval_noted: now,
            timed_segment: None,
            counted_in_flight: 0,
            counted_cached_bytes: 0,
            counted_confirmed: false,
            is_in_send_queue: false,
            index_at_mobile: 0,
            mute: Mute::No,
            waits_for_handoff: false,
            owed: None,
            owed_since: None,
            in_persist: false,
            has_own_sender: false,
            cached_elsewhere: CachedElsewhere::default(),
            ack_shown: None,
            transmissions: Transmissions::default(),
            ack_in_outage: None,
            uploads: None,
            uplink_header: None,
            downlink_header: None,
            path_mtu: None,
            answers_with_rst: false,
            renumber: None,
            seen: now,
        }
    }

    /// The record for a successor.
    pub(crate) fn record(&self) -> FlowRecord {
        FlowRecord {
            key: self.key,
            mh_window_scale: self.mh.window_scale,
            owed: self.owed,
            renumber: self.renumber,
            gone: false,
        }
    }

    /// Bytes sent to the MH and neither acknowledged, reported nor refused by it.
    pub(crate) fn in_flight(&self) -> u32 {
        if self.stage == Stage::Open && !self.mh.refuses_all {
            let sent = self.sent_nxt.distance_from(self.fh.una);
            sent.saturating_sub(self.sacked.bytes_before(self.sent_nxt))
        } else {
            0
        }
    }

    /// As [`in_flight`](Self::in_flight), but 0 if the flow has its own sender or is mute.
    pub(crate) fn in_flight_at_mobile(&self) -> u32 {
        if self.has_own_sender || self.mute != Mute::No {
            0
        } else {
            self.in_flight()
        }
    }

    /// Segments of both ends were seen.
    pub(crate) const fn is_confirmed(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Opaque)
    }

    /// Counts the flow anew. Returns whether the last call counted it as confirmed.
    pub(crate) fn count_confirmed(&mut self) -> bool {
        let is_confirmed = self.is_confirmed();
        core::mem::replace(&mut self.counted_confirmed, is_confirmed)
    }

    /// The bytes in flight that the last call counted, and those in flight now.
    pub(crate) fn count_in_flight(&mut self) -> (u32, u32) {
        let now = self.in_flight_at_mobile();
        (core::mem::replace(&mut self.counted_in_flight, now), now)
    }

    /// The cached bytes that the last call counted, and those cached now.
    pub(crate) fn count_cached_bytes(&mut self) -> (usize, usize) {
        let kept = self.cached_bytes();
        (
            core::mem::replace(&mut self.counted_cached_bytes, kept),
            kept,
        )
    }

    /// Puts the flow into the queue of flows that wait to send, if it has a backlog.
    pub(crate) fn join_send_queue(&mut self, flow_id: FlowId, send_queue: &mut VecDeque<FlowId>) {
        let may_send = self.may_send_on() && !self.has_own_sender;
        if may_send && !self.is_in_send_queue && self.has_backlog() {
            self.is_in_send_queue = true;
            send_queue.push_back(flow_id);
        }
    }

    /// The flow waits neither for an answer of the MH nor for its handoff.
    pub(crate) fn may_send_on(&self) -> bool {
        self.mute != Mute::Probed && !self.waits_for_handoff
    }

    /// The cache has bytes to send.
    pub(crate) fn has_backlog(&self) -> bool {
        self.cache.end().is_some_and(|end| end.after(self.sent_nxt))
    }

    /// The FH has sent bytes that the MH has not acknowledged.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.fh.max.after(self.fh.una)
    }

    /// An end has sent bytes that the other one has not acknowledged.
    pub(crate) fn waits_for_ack(&self) -> bool {
        self.has_unacknowledged() || self.mh.nxt.after(self.fh.ack)
    }

    /// True while the gateway, not the FH, retransmits lost bytes.
    pub(crate) const fn retransmits_itself(&self) -> bool {
        !self.has_own_sender && (self.recover.is_some() || self.owed.is_some())
    }

    /// True while, in addition, the FH's copies of cached segments are suppressed.
    pub(crate) const fn retransmits_alone(&self) -> bool {
        let in_vain = if self.vain_retransmissions > self.vain_recoveries {
            self.vain_retransmissions
        } else {
            self.vain_recoveries
        };
        self.retransmits_itself() && in_vain < RETRANSMISSIONS_ALONE
    }

    /// Caches the new bytes of a data segment: at most `room`, and no more than the settings allow
    /// this flow.
    pub(crate) fn cache_segment(
        &mut self,
        segment: &Segment,
        payload: &P,
        room: usize,
        settings: &Settings,
    ) -> Insertion {
        if !Self::may_cache(segment, payload) {
            return Insertion::Full;
        }
        let bytes_free = room.min(self.bytes_free_of_flow(settings));
        let entries_max = settings
            .flow_cache_entries_max
            .saturating_sub(self.cached_elsewhere.entries);
        self.cache
            .insert(segment, payload, self.fh.una, bytes_free, entries_max)
    }

    /// A copy of the segment can replace it.
    pub(crate) fn may_cache(segment: &Segment, payload: &P) -> bool {
        payload.is_cacheable() && !segment.options.others && !segment.flags.has(Flags::URG)
    }

    /// The bytes that the settings leave to this flow.
    pub(crate) fn bytes_free_of_flow(&self, settings: &Settings) -> usize {
        settings
            .flow_cache_bytes_max
            .saturating_sub(self.cached_bytes())
    }

    /// Bytes of payload cached, both directions.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.cache.bytes() + self.cached_elsewhere.bytes
    }

    /// A segment of the FH is forwarded unchanged.
    pub(crate) fn on_forwarded(&mut self, segment: &Segment, now: Instant) {
        self.mh.refuses_all = false;
        let end = segment.end();
        if end.after(self.sent_nxt) {
            self.sent_nxt = end;
            self.timed_segment.get_or_insert((end, now));
        } else {
            // Karn: no round trip is measured with a retransmission.
            self.timed_segment = None;
        }
    }

    pub(crate) fn close(&mut self) {
        self.stage = Stage::Closed;
        self.handshake.forget_syns();
        self.forget_cached();
    }

    /// True if a closed flow needs no more state: its segments pass, and a SYN may begin a new
    /// connection.
    pub(crate) fn is_settled(&self) -> bool {
        let is_counted = !self.counted_confirmed
            && (self.counted_in_flight, self.counted_cached_bytes) == (0, 0);
        self.stage == Stage::Closed
            && is_counted
            && !(self.is_in_send_queue || self.answers_with_rst)
            && self.renumber.is_none()
            && !self.handshake.has_syns()
    }

    /// Clears what is cached, owed and retransmitted.
    pub(crate) fn forget_cached(&mut self) {
        (self.owed, self.owed_since, self.in_persist) = (None, None, false);
        self.has_own_sender = false;
        self.cached_elsewhere = CachedElsewhere::default();
        self.ack_shown = None;
        self.forget_sending();
        self.ack_in_outage = None;
        self.uploads = None;
        self.sacked.clear();
        self.transmissions.clear();
        self.sent_nxt = self.fh.max;
        self.cache.clear();
    }
}
