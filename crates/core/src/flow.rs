// SPDX-License-Identifier: Apache-2.0
//! One connection as the gateway knows it: where both ends are, what is kept for the
//! MH, what has been sent of it.

use std::collections::VecDeque;

use holdfast_wire::{Flags, Instant, SackBlocks, Segment, SeqNum, Timestamps};

use crate::cache::{Insertion, SegmentCache};
use crate::renumber::Renumber;
use crate::sack::Scoreboard;
use crate::settings::Settings;
use crate::table::{FlowId, MobileId};
use crate::timers::Scheduled;
use crate::{Action, Direction, FlowKey, FlowRecord, Made, Payload};

mod adoption;
mod credible;
mod handoff;
mod handshake;
mod idle;
mod mute;
mod resets;
mod sending;
mod tracking;
mod transmissions;
mod uploads;
pub(crate) use credible::WINDOW_MAX;
pub(crate) use idle::IdleFlow;
pub(crate) use mute::Mute;
use sending::{BeforeOutage, Probed, Resending};
pub(crate) use tracking::{AckOutcome, DataOutcome};
pub(crate) use transmissions::{Arrivals, Sender, Transmission, Transmissions};
pub(crate) use uploads::Uploads;

/// How well a flow is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not enough seen in both directions to cache anything.
    Adopting,
    /// Both directions agree.
    Open,
    /// It carries what a middle node must not copy (MPTCP, MD5, AO): passed on
    /// unchanged for ever.
    Opaque,
    /// Both ends are done, or one has reset it.
    Closed,
}

/// What the gateway knows of the FH as a sender of data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FhState {
    /// Highest SND.NXT seen.
    pub max: SeqNum,
    /// SND.UNA as the MH's ACKs give it, not ours.
    pub una: SeqNum,
    /// Newest SEG.ACK, its window and its timestamp echo.
    pub ack: SeqNum,
    pub window: u16,
    pub tsecr: u32,
    /// The shift of its windows; known if both SYNs were seen.
    window_scale: Option<u8>,
    window_largest: u16,
    /// Sequence number after its FIN.
    pub fin: Option<SeqNum>,
    /// The end of its last segment: an FH that has set SND.NXT back resets with that number.
    last_end: SeqNum,
    /// The end of a segment that goes beyond the MH's window.
    beyond: Option<SeqNum>,
    /// The header for segments in its name is of a segment that fits.
    has_header: bool,
    /// Its ACKs may have SACK blocks: both SYNs have permitted them, or it has sent some.
    pub sack: bool,
    /// The MH has acknowledged this, which has passed by unseen if it was ever sent.
    doubted: Option<SeqNum>,
}

impl FhState {
    /// The MH's ACKs run ahead of all that was seen: those that seem old may be the true
    /// ones.
    pub(crate) const fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }
}

/// What the gateway knows of the MH.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MhState {
    /// Highest SND.NXT seen.
    pub nxt: SeqNum,
    /// The shift of its windows; known if both SYNs were seen or a predecessor
    /// left it.
    pub window_scale: Option<u8>,
    /// The farthest right edge of its window, with `window_scale`.
    pub right_edge: Option<SeqNum>,
    /// Newest timestamps that it sent and that were forwarded.
    pub timestamps: Option<Timestamps>,
    pub fin: Option<SeqNum>,
    window_largest: u16,
    /// When the last segment that fits arrived.
    received_at: Instant,
}

/// What a scheme keeps of a flow besides the cache of what goes to the MH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptElsewhere {
    pub bytes: usize,
    pub entries: usize,
}

/// A connection, as all schemes know it.
pub(crate) struct Flow<P: Payload> {
    pub key: FlowKey,
    pub stage: Stage,
    pub mobile: MobileId,
    pub scheduled: Scheduled,
    pub fh: FhState,
    pub mh: MhState,
    handshake: handshake::Handshake,
    /// Until both directions agree: the numbers to compare the MH's segments with.
    adoption: Option<Box<adoption::Adoption>>,
    /// The MH's last segment that does not fit.
    unseen: Option<Box<credible::Unseen>>,
    pub cache: SegmentCache<P>,
    pub sacked: Scoreboard,
    /// What comes next to the MH: kept bytes from here on are a backlog.
    pub sent_nxt: SeqNum,
    /// Until the MH has acknowledged this, the gateway retransmits what is cached.
    pub recover: Option<SeqNum>,
    /// What had been sent at link down, and the MH's ACKs since: shows a link that has queued what was
    /// on it.
    before_outage: Option<Box<BeforeOutage>>,
    resending: Resending,
    /// When to repeat if nothing new is acknowledged; how often it was in vain.
    pub repair_at: Option<Instant>,
    pub repairs: u32,
    /// Recoveries in a row in which the MH has acknowledged nothing new.
    pub vain_recoveries: u32,
    dup_acks: u32,
    /// The newest timestamp that was sent to the MH.
    tsval_sent: Option<u32>,
    /// The first probe of the silence that lasts.
    pub probed: Option<Probed>,
    /// When a segment of the FH with that timestamp passed.
    tsval_noted: Instant,
    /// A segment that was sent once; its ACK gives the round trip.
    timed: Option<(SeqNum, Instant)>,
    /// What was counted for this flow when it was counted last.
    counted_in_flight: u32,
    counted_kept_bytes: usize,
    counted_confirmed: bool,
    /// It stands among its MH's [`waiting`](crate::mobile::Mobile::waiting).
    pub waits: bool,
    /// Its index among its MH's [`flows`](crate::mobile::Mobile::flows).
    pub index_at_mobile: u32,
    /// Whether its silence counts as the MH's.
    pub mute: Mute,
    /// What comes is kept and not sent before more has come (`crate::handoff`).
    pub waits_for_handoff: bool,
    /// Bytes up to here are acknowledged to the FH, and the MH has not acknowledged them.
    pub owed: Option<SeqNum>,
    /// Since when bytes are owed and the MH acknowledges nothing, as the sweep found it.
    pub owed_since: Option<Instant>,
    /// The FH is held in persist state: it sends probes only.
    pub in_persist: bool,
    /// The scheme sends what is cached, at its own pace, and retransmits what is lost; the
    /// mobile's recovery leaves the flow alone.
    pub has_own_sender: bool,
    /// What is kept of the flow besides the cache.
    pub kept_elsewhere: KeptElsewhere,
    /// The newest ACK for the MH, while newer ones of the FH are withheld from it.
    pub ack_shown: Option<SeqNum>,
    /// When what is on its way to the MH was sent, for schemes that look for losses by it.
    pub transmissions: Transmissions,
    /// The newest ACK without data for the MH that an outage may have swallowed.
    pub held_ack: Option<P>,
    /// What the MH sends.
    pub uploads: Option<Box<Uploads>>,
    pub uplink_header: Option<P::Header>,
    pub downlink_header: Option<P::Header>,
    pub path_mtu: Option<u32>,
    /// Both ends are to get a RST for whatever they send.
    answers_with_rst: bool,
    /// How the numbers of its halves differ, if the gateway has set it up.
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
            cache: SegmentCache::default(),
            sacked: Scoreboard::default(),
            sent_nxt: SeqNum::default(),
            recover: None,
            before_outage: None,
            resending: Resending::default(),
            repair_at: None,
            repairs: 0,
            vain_recoveries: 0,
            dup_acks: 0,
            tsval_sent: None,
            probed: None,
            tsval_noted: now,
            timed: None,
            counted_in_flight: 0,
            counted_kept_bytes: 0,
            counted_confirmed: false,
            waits: false,
            index_at_mobile: 0,
            mute: Mute::No,
            waits_for_handoff: false,
            owed: None,
            owed_since: None,
            in_persist: false,
            has_own_sender: false,
            kept_elsewhere: KeptElsewhere::default(),
            ack_shown: None,
            transmissions: Transmissions::default(),
            held_ack: None,
            uploads: None,
            uplink_header: None,
            downlink_header: None,
            path_mtu: None,
            answers_with_rst: false,
            renumber: None,
            seen: now,
        }
    }

    /// What a successor has to know.
    pub(crate) fn record(&self) -> FlowRecord {
        FlowRecord {
            key: self.key,
            mh_window_scale: self.mh.window_scale,
            owed: self.owed,
            renumber: self.renumber,
            gone: false,
        }
    }

    /// Bytes sent to the MH and neither acknowledged nor reported by it.
    pub(crate) fn in_flight(&self) -> u32 {
        if self.stage == Stage::Open {
            let sent = self.sent_nxt.distance_from(self.fh.una);
            sent.saturating_sub(self.sacked.bytes_before(self.sent_nxt))
        } else {
            0
        }
    }

    /// The same, of a flow that the MH's own recovery sends for: 0 of one that has its own sender, or is mute.
    pub(crate) fn in_flight_at_mobile(&self) -> u32 {
        if self.has_own_sender || self.mute != Mute::No {
            0
        } else {
            self.in_flight()
        }
    }

    /// Both ends were seen.
    pub(crate) const fn is_confirmed(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Opaque)
    }

    /// Whether it was counted as confirmed until now.
    pub(crate) fn count_confirmed(&mut self) -> bool {
        let is_confirmed = self.is_confirmed();
        core::mem::replace(&mut self.counted_confirmed, is_confirmed)
    }

    /// The bytes in flight that the last call counted, and those of now.
    pub(crate) fn count_in_flight(&mut self) -> (u32, u32) {
        let now = self.in_flight_at_mobile();
        (core::mem::replace(&mut self.counted_in_flight, now), now)
    }

    /// The cached bytes that the last call counted, and those of now.
    pub(crate) fn count_kept_bytes(&mut self) -> (usize, usize) {
        let kept = self.kept_bytes();
        (core::mem::replace(&mut self.counted_kept_bytes, kept), kept)
    }

    /// Joins those that wait to be sent from the cache, if there is something to send.
    pub(crate) fn join(&mut self, flow_id: FlowId, waiting: &mut VecDeque<FlowId>) {
        let may_send = self.mute != Mute::Probed && !self.has_own_sender;
        if may_send && !self.waits && self.has_backlog() {
            self.waits = true;
            waiting.push_back(flow_id);
        }
    }

    /// There is something to be sent from the cache.
    pub(crate) fn has_backlog(&self) -> bool {
        self.cache.end().is_some_and(|end| end.after(self.sent_nxt))
    }

    /// True while the gateway retransmits cached bytes that are lost.
    pub(crate) const fn repairs_itself(&self) -> bool {
        !self.has_own_sender && (self.recover.is_some() || self.owed.is_some())
    }

    /// Keeps what is new in a data segment: at most `room` bytes of it, and no more than the
    /// settings allow this flow.
    pub(crate) fn keep(
        &mut self,
        segment: &Segment,
        payload: &P,
        room: usize,
        settings: &Settings,
    ) -> Insertion {
        if !Self::may_keep(segment, payload) {
            return Insertion::Full;
        }
        let bytes_free = room.min(self.bytes_free_of_flow(settings));
        let entries_max = settings
            .flow_cache_entries_max
            .saturating_sub(self.kept_elsewhere.entries);
        self.cache
            .insert(segment, payload, self.fh.una, bytes_free, entries_max)
    }

    /// A copy of the segment can stand in for it.
    pub(crate) fn may_keep(segment: &Segment, payload: &P) -> bool {
        payload.is_cacheable() && !segment.options.others && !segment.flags.has(Flags::URG)
    }

    /// What the settings leave to this flow alone.
    pub(crate) fn bytes_free_of_flow(&self, settings: &Settings) -> usize {
        settings
            .flow_cache_bytes_max
            .saturating_sub(self.kept_bytes())
    }

    /// Bytes of payload kept, both ways.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.cache.bytes() + self.kept_elsewhere.bytes
    }

    /// A segment of the FH goes to the MH as it came.
    pub(crate) fn on_forwarded(&mut self, segment: &Segment, now: Instant) {
        let end = segment.end();
        if end.after(self.sent_nxt) {
            self.sent_nxt = end;
            self.timed.get_or_insert((end, now));
        } else {
            // Karn: what is sent twice is not timed.
            self.timed = None;
        }
    }

    /// A keep-alive (RFC 9293, 3.8.4) in the FH's name: with nothing kept, all that
    /// makes the MH answer.
    ///
    /// With the newest timestamp that was sent to the MH: a segment with an older one may get no
    /// answer (Linux, `PAWSOldAck`). To an engine at an MH that uploads its echo shows no more than
    /// that the link is up.
    pub(crate) fn made_probe(&mut self, now: Instant) -> Option<Action<P>> {
        let template = self.downlink_header.clone()?;
        let uploads = self.uploads.as_ref();
        let tsecr = uploads.map_or(self.fh.tsecr, |uploads| uploads.echo(now));
        let timestamps = self.mh.timestamps.map(|mh| Timestamps {
            tsval: self.note_tsval(mh.tsecr),
            tsecr,
        });
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template,
            seq: self.fh.una - 1,
            ack: self.fh.ack,
            window: self.fh.window,
            flags: Flags::ACK,
            timestamps,
            sack: SackBlocks::default(),
        }))
    }

    /// A segment with an old SEG.SEQ makes the MH answer with its state (RFC 9293, 3.10.7.4). A segment
    /// beyond the bytes that it was sent would not.
    pub(crate) fn made_question(&self, segment: &Segment, owed: SeqNum) -> Option<Action<P>> {
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template: self.downlink_header.clone()?,
            seq: owed - WINDOW_MAX,
            ack: segment.ack,
            window: segment.window,
            flags: Flags::ACK,
            timestamps: segment.options.timestamps,
            sack: SackBlocks::default(),
        }))
    }

    /// An ACK to the FH in the MH's name.
    pub(crate) fn made_ack(&self, ack: SeqNum, window: u16, tsecr: u32) -> Option<Action<P>> {
        let (seq, ack, window) = self.for_fh(self.mh.nxt, ack, window);
        Some(Action::Send(Made {
            direction: Direction::Uplink,
            template: self.uplink_header.clone()?,
            seq,
            ack,
            window,
            flags: Flags::ACK,
            timestamps: self.mh.timestamps.map(|mh| Timestamps {
                tsval: mh.tsval,
                tsecr,
            }),
            sack: SackBlocks::default(),
        }))
    }

    /// The numbers of the FH's half of what is made in the MH's name; `segment` has those of
    /// the MH's.
    pub(crate) fn for_fh(&self, seq: SeqNum, ack: SeqNum, window: u16) -> (SeqNum, SeqNum, u16) {
        match self.renumber {
            None => (seq, ack, window),
            Some(numbers) => (
                seq + numbers.uplink,
                ack + numbers.downlink.wrapping_neg(),
                numbers.uplink_window.apply(window),
            ),
        }
    }

    /// An ACK to the MH in the FH's name, of no more than the FH has acknowledged, with
    /// these blocks. The window reaches as far as the FH's own does.
    pub(crate) fn made_report(&mut self, ack: SeqNum, sack: SackBlocks) -> Option<Action<P>> {
        let template = self.downlink_header.clone()?;
        let behind = self.fh.ack.distance_from(ack);
        let behind = self.fh.window_scale.map_or(0, |shift| behind >> shift);
        let window = u32::from(self.fh.window).saturating_add(behind);
        let timestamps = self.mh.timestamps.map(|mh| Timestamps {
            tsval: self.note_tsval(mh.tsecr),
            tsecr: self.fh.tsecr,
        });
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template,
            seq: self.fh.max,
            ack,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            flags: Flags::ACK,
            timestamps,
            sack,
        }))
    }

    /// A bare ACK of the FH with another timestamp echoed.
    pub(crate) fn made_echo(&self, ack: &Segment, tsecr: u32) -> Option<Action<P>> {
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template: self.downlink_header.clone()?,
            seq: ack.seq,
            ack: ack.ack,
            window: ack.window,
            flags: Flags::ACK,
            timestamps: ack
                .options
                .timestamps
                .map(|own| Timestamps { tsecr, ..own }),
            sack: ack.options.sack,
        }))
    }

    /// Nothing more is done for the flow.
    pub(crate) fn close(&mut self) {
        self.stage = Stage::Closed;
        self.handshake.forget_syns();
        self.forget_kept();
    }

    /// Whoever sends something is left alone, and a new connection may begin: of a closed flow no
    /// more has to be known.
    pub(crate) fn is_settled(&self) -> bool {
        let is_counted =
            !self.counted_confirmed && (self.counted_in_flight, self.counted_kept_bytes) == (0, 0);
        self.stage == Stage::Closed
            && is_counted
            && !(self.waits || self.answers_with_rst)
            && self.renumber.is_none()
            && !self.handshake.has_syns()
    }

    /// Nothing is kept, owed or repeated any more.
    pub(crate) fn forget_kept(&mut self) {
        (self.owed, self.owed_since, self.in_persist) = (None, None, false);
        self.has_own_sender = false;
        self.kept_elsewhere = KeptElsewhere::default();
        self.ack_shown = None;
        self.forget_sending();
        self.held_ack = None;
        self.uploads = None;
        self.sacked.clear();
        self.transmissions.clear();
        self.sent_nxt = self.fh.max;
        self.cache.clear();
    }
}
