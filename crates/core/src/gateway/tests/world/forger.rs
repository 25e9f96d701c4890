// SPDX-License-Identifier: Apache-2.0
//! An attacker in the test's world. It makes segments that a strict TCP end does not take, and
//! sends them beside the true ones. The gateway sees them first, then the end that they name.
//!
//! "Off-path" means: the attacker sees no segment of the flow. "On-path" means: it sees all of
//! them and can add its own, but it cannot stop or change a segment.

use core::ops::Range;

use holdfast_wire::{Flags, PacketTooBig, SackBlocks, Segment, SeqNum, Timestamps};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::{Event, World};
use crate::gateway::flows::Row;
use crate::gateway::tests::host::Host;
use crate::testing::Packet;
use crate::{Direction, Side, Stage};

/// Bytes of a forged data segment. The true streams are random: these bytes do not fit.
const JUNK: [u8; 100] = [0xaa; 100];

/// What distance is surely outside of the ends' windows: they reach 64,000 bytes.
const FAR: Range<u32> = 20_000_000..500_000_000;

/// How much older than the newest timestamp a forged one is, in ticks.
const OLD: Range<u32> = 10_000_000..2_000_000_000;

/// What the attacker sends. A blind kind has random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway::tests) enum Forgery {
    /// Off-path: data with random numbers. RFC 9293, 3.10.7.4 (SEG.SEQ outside of the window);
    /// RFC 5961, 5.2 (SEG.ACK).
    BlindData,
    /// Off-path: a SYN with a random number. RFC 5961, 4.2: a challenge ACK is the answer.
    BlindSyn,
    /// Off-path: a SYN/ACK with random numbers. RFC 5961, 4.2.
    BlindSynAck,
    /// Off-path: a RST with a random number. RFC 5961, 3.2 (outside of the window).
    BlindReset,
    /// Off-path: a FIN with random numbers. RFC 9293, 3.10.7.4.
    BlindFin,
    /// Off-path: data with random numbers and an unknown option. RFC 9293, 3.10.7.4.
    BlindUnknownOption,
    /// Off-path: urgent data with random numbers. RFC 9293, 3.10.7.4.
    BlindUrgent,
    /// Off-path: twenty segments at a time with random numbers, flags, windows, timestamps and
    /// SACK blocks. RFC 9293, 3.10.7.4.
    BlindBurst,
    /// Off-path: a SYN with a random number one way, and the SYN/ACK that answers it the other
    /// way. RFC 5961, 4.2: each end refuses its one of them.
    BlindSynPair,
    /// On-path: the same, with numbers just after the true ones, as a new connection of the same
    /// ports would have them (RFC 6191). The old one still lives: RFC 5961, 4.2.
    SynPairAhead,
    /// On-path: a RST in the window, but not with the number that comes next. RFC 5961, 3.2.
    ResetInWindow,
    /// On-path: data far outside of the window, with the true ACK. RFC 9293, 3.10.7.4.
    DataFarOutside,
    /// On-path: a SEG.SEQ in the window, an ACK of bytes that were never sent. RFC 5961, 5.2.
    AckOfUnsent,
    /// The same with data, and with random timestamps. RFC 5961, 5.2.
    DataWithAckOfUnsent,
    /// On-path: a FIN with the number that comes next, and an ACK of bytes that were never
    /// sent. RFC 5961, 5.2.
    FinWithAckOfUnsent,
    /// On-path: data in the window, an ACK that is too old. RFC 5961, 5.2 (SEG.ACK before
    /// SND.UNA - MAX.SND.WND).
    DataWithOldAck,
    /// On-path: data in the window, the true ACK, an old timestamp. RFC 7323, 5.3, R1 (PAWS).
    DataWithOldTimestamp,
    /// On-path: an ACK of all that is on its way, a random window, an old timestamp. RFC 7323,
    /// 5.3, R1.
    AckWithOldTimestamp,
    /// On-path: a FIN with the number that comes next, and an old timestamp. RFC 7323, 5.3, R1.
    FinWithOldTimestamp,
    /// On-path: urgent data with the number that comes next, and an old timestamp. RFC 7323,
    /// 5.3, R1.
    UrgentWithOldTimestamp,
    /// One of the ends itself: its true segment once more, with one SACK block that is possible
    /// and one that lies half of the number space further. RFC 2018, 4: a block reports bytes
    /// that were received. An end skips one that reports bytes it has not sent.
    SackFarOutside,
    /// One of the ends itself: the same, with blocks that end before they begin, or that lie
    /// anywhere. RFC 2018, 4.
    SackInverted,
    /// Off-path: an ICMP "packet too big" about bytes that are not on their way, or with an MTU
    /// that no path has. RFC 5927, 4.1 and 7.2.
    PacketTooBig,
    /// On-path: one about bytes that are on their way. It is believed, and must do no more than
    /// make the pieces smaller.
    PacketTooBigInFlight,
}

/// One thing that the attacker sends.
enum Forged {
    Segment(Direction, Segment),
    PacketTooBig(PacketTooBig),
}

impl Forgery {
    pub(in crate::gateway::tests) const ALL: [Self; 24] = [
        Self::BlindData,
        Self::BlindSyn,
        Self::BlindSynAck,
        Self::BlindReset,
        Self::BlindFin,
        Self::BlindUnknownOption,
        Self::BlindUrgent,
        Self::BlindBurst,
        Self::BlindSynPair,
        Self::SynPairAhead,
        Self::ResetInWindow,
        Self::DataFarOutside,
        Self::AckOfUnsent,
        Self::DataWithAckOfUnsent,
        Self::FinWithAckOfUnsent,
        Self::DataWithOldAck,
        Self::DataWithOldTimestamp,
        Self::AckWithOldTimestamp,
        Self::FinWithOldTimestamp,
        Self::UrgentWithOldTimestamp,
        Self::SackFarOutside,
        Self::SackInverted,
        Self::PacketTooBig,
        Self::PacketTooBigInFlight,
    ];

    /// The attacker knows the flow's numbers, and a gateway that was away for a while cannot
    /// distinguish the segment from a true one. What the gateway then sends may be wrong, but no end
    /// may take harm.
    pub(in crate::gateway::tests) fn may_mislead(self) -> bool {
        let acks_unsent = matches!(
            self,
            Self::AckOfUnsent | Self::DataWithAckOfUnsent | Self::FinWithAckOfUnsent
        );
        acks_unsent || self.is_an_ends_own()
    }

    /// It needs no sight of the flow.
    pub(in crate::gateway::tests) fn is_blind(self) -> bool {
        matches!(
            self,
            Self::BlindData
                | Self::BlindSyn
                | Self::BlindSynAck
                | Self::BlindReset
                | Self::BlindFin
                | Self::BlindUnknownOption
                | Self::BlindUrgent
                | Self::BlindBurst
                | Self::BlindSynPair
                | Self::PacketTooBig
        )
    }

    /// It is an end of the flow that sends it, in a segment that the other end does take.
    fn is_an_ends_own(self) -> bool {
        matches!(self, Self::SackFarOutside | Self::SackInverted)
    }
}

/// The attacker.
pub(in crate::gateway::tests) struct Forger {
    kind: Forgery,
    /// Forgeries for a thousand true segments.
    chance: u32,
    rng: ChaCha8Rng,
    pub sent: u64,
}

/// How the flow was followed each time that the link went down.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::gateway::tests) struct Watch {
    /// This engine has seen both SYNs; the first one was from this end.
    pub opener: Option<Side>,
    /// The flow was open once, or should have been.
    pub(super) followed: bool,
    /// A true segment has ended it.
    pub(super) closed: bool,
    pub outages: u64,
    /// The flow was not open then; and of these, it had been before.
    pub unprotected: u64,
    pub lost: u64,
}

/// What an on-path attacker knows when a segment comes by.
struct View<'a> {
    direction: Direction,
    genuine: Segment,
    receiver: &'a Host,
    sender: &'a Host,
}

impl View<'_> {
    /// The number of a byte that the receiver is to get, counted from the next one.
    fn seq(&self, from_next: i64) -> SeqNum {
        self.sender.seq(self.receiver.rcv_nxt + from_next)
    }

    /// The receiver's window, in bytes.
    fn window(&self) -> u32 {
        (self.receiver.advertised - self.receiver.rcv_nxt).max(1) as u32
    }

    /// The true segment without data, flags and SACK blocks.
    fn bare(&self) -> Segment {
        let mut bare = self.genuine;
        (bare.flags, bare.payload_len) = (Flags::ACK, 0);
        bare.options.sack = SackBlocks::default();
        bare
    }
}

impl Forger {
    pub(in crate::gateway::tests) fn new(kind: Forgery, chance: u32, seed: u64) -> Self {
        Self {
            kind,
            chance,
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0xf0_49e4),
            sent: 0,
        }
    }

    fn word(&mut self) -> u32 {
        self.rng.next_u32()
    }

    fn seq(&mut self) -> SeqNum {
        SeqNum::new(self.word())
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.word() % limit.max(1)
    }

    fn within(&mut self, range: Range<u32>) -> u32 {
        range.start + self.below(range.end - range.start)
    }

    fn forge(&mut self, view: &View) -> Vec<Forged> {
        match self.kind {
            Forgery::BlindBurst => self.burst(view),
            Forgery::BlindSynPair => {
                let (first, second) = (self.seq(), self.seq());
                self.syn_pair(view, first, second)
            }
            Forgery::SynPairAhead => {
                let window = view.window();
                let first = view.sender.seq(view.sender.max) + self.within(1..window + 200_000);
                let second = view.receiver.seq(view.receiver.max) + self.within(1..200_000);
                self.syn_pair(view, first, second)
            }
            Forgery::PacketTooBig | Forgery::PacketTooBigInFlight => self.too_big(view),
            Forgery::SackFarOutside | Forgery::SackInverted => self.sack(view),
            kind => {
                let direction = view.direction;
                let forged = self.blind(kind, view);
                let forged = forged.or_else(|| self.seen(kind, view));
                let forged = forged.or_else(|| self.old(kind, view));
                forged
                    .map(|segment| Forged::Segment(direction, segment))
                    .into_iter()
                    .collect()
            }
        }
    }

    /// One segment with random numbers.
    fn blind(&mut self, kind: Forgery, view: &View) -> Option<Segment> {
        let mut segment = view.bare();
        (segment.seq, segment.ack) = (self.seq(), self.seq());
        match kind {
            Forgery::BlindData => {}
            Forgery::BlindSyn | Forgery::BlindSynAck => {
                let has_ack = kind == Forgery::BlindSynAck;
                segment.flags = Flags::SYN.with(if has_ack { Flags::ACK } else { Flags::SYN });
                segment.options.window_scale = Some(self.below(15) as u8);
                segment.options.sack_permitted = true;
                return Some(segment);
            }
            Forgery::BlindReset => {
                segment.flags = Flags::RST;
                return Some(segment);
            }
            Forgery::BlindFin => segment.flags = Flags::FIN.with(Flags::ACK),
            Forgery::BlindUnknownOption => segment.options.others = true,
            Forgery::BlindUrgent => segment.flags = Flags::URG.with(Flags::ACK),
            _ => return None,
        }
        segment.payload_len = JUNK.len() as u32;
        Some(segment)
    }

    /// One segment with numbers that the attacker took from the flow.
    fn seen(&mut self, kind: Forgery, view: &View) -> Option<Segment> {
        let mut segment = view.bare();
        segment.seq = view.seq(i64::from(self.below(view.window())));
        let unsent = view.receiver.seq(view.receiver.max) + self.within(100_000..100_000_000);
        match kind {
            Forgery::ResetInWindow => {
                segment.flags = Flags::RST.with(Flags::ACK);
                return Some(segment);
            }
            Forgery::DataFarOutside => {
                let far = i64::from(self.within(FAR));
                let back = self.below(2) == 0;
                segment.seq = view.seq(if back { -far } else { far });
            }
            Forgery::AckOfUnsent => {
                segment.ack = unsent;
                return Some(segment);
            }
            Forgery::DataWithAckOfUnsent => {
                segment.ack = unsent;
                let (tsval, tsecr) = (self.word(), self.word());
                let random = Timestamps { tsval, tsecr };
                segment.options.timestamps = segment.options.timestamps.map(|_| random);
            }
            Forgery::FinWithAckOfUnsent => {
                (segment.seq, segment.ack) = (view.seq(0), unsent);
                segment.flags = Flags::FIN.with(Flags::ACK);
                return Some(segment);
            }
            Forgery::DataWithOldAck => {
                segment.ack = view.receiver.seq(view.receiver.una) - self.within(FAR);
            }
            _ => return None,
        }
        segment.payload_len = JUNK.len() as u32;
        Some(segment)
    }

    /// One segment that is right in all, but has an old timestamp.
    fn old(&mut self, kind: Forgery, view: &View) -> Option<Segment> {
        let mut segment = view.bare();
        let newest = segment.options.timestamps?;
        let tsval = newest.tsval.wrapping_sub(self.within(OLD));
        segment.options.timestamps = Some(Timestamps { tsval, ..newest });
        segment.seq = view.seq(0);
        match kind {
            Forgery::DataWithOldTimestamp => {
                segment.seq = view.seq(i64::from(self.below(view.window())));
            }
            Forgery::AckWithOldTimestamp => {
                segment.ack = view.receiver.seq(view.receiver.max);
                segment.window = self.word() as u16;
                return Some(segment);
            }
            Forgery::FinWithOldTimestamp => {
                segment.flags = Flags::FIN.with(Flags::ACK);
                return Some(segment);
            }
            Forgery::UrgentWithOldTimestamp => segment.flags = Flags::URG.with(Flags::ACK),
            _ => return None,
        }
        segment.payload_len = JUNK.len() as u32;
        Some(segment)
    }

    fn burst(&mut self, view: &View) -> Vec<Forged> {
        let mut forged = Vec::new();
        for _ in 0..20 {
            let mut segment = view.bare();
            (segment.seq, segment.ack) = (self.seq(), self.seq());
            segment.window = self.word() as u16;
            segment.flags = Flags(self.word() as u8)
                .without(Flags::RST)
                .without(Flags::SYN);
            let (tsval, tsecr) = (self.word(), self.word());
            segment.options.timestamps =
                (self.below(2) == 0).then_some(Timestamps { tsval, tsecr });
            for _ in 0..self.below(4) {
                let left = self.seq();
                segment
                    .options
                    .sack
                    .push(left, left + self.within(1..100_000));
            }
            segment.payload_len = [0, 1, 100][self.below(3) as usize];
            forged.push(Forged::Segment(view.direction, segment));
        }
        forged
    }

    fn syn_pair(&mut self, view: &View, first: SeqNum, second: SeqNum) -> Vec<Forged> {
        let mut syn = view.bare();
        (syn.seq, syn.ack, syn.flags) = (first, SeqNum::new(0), Flags::SYN);
        syn.options.window_scale = Some(self.below(15) as u8);
        let mut answer = syn;
        (answer.from, answer.to) = (syn.to, syn.from);
        (answer.seq, answer.ack) = (second, first + 1);
        answer.flags = Flags::SYN.with(Flags::ACK);
        vec![
            Forged::Segment(view.direction, syn),
            Forged::Segment(view.direction.back(), answer),
        ]
    }

    fn sack(&mut self, view: &View) -> Vec<Forged> {
        if !(view.sender.profile.sack && view.receiver.profile.sack) {
            return Vec::new();
        }
        let mut segment = view.bare();
        let ack = segment.ack;
        let blocks = &mut segment.options.sack;
        if self.kind == Forgery::SackFarOutside {
            blocks.push(ack + 4055, ack + 7224);
            let left = ack + 1_050_164_062 + self.below(1000);
            blocks.push(left, ack + 2_030_043_154);
        } else {
            for _ in 0..=self.below(3) {
                let (left, len) = (ack + self.below(60_000), self.below(30_000));
                let (left, right) = match self.below(3) {
                    0 => (left + len, left),
                    1 => (left, left + self.word()),
                    _ => (self.seq(), self.seq()),
                };
                blocks.push(left, right);
            }
        }
        vec![Forged::Segment(view.direction, segment)]
    }

    fn too_big(&mut self, view: &View) -> Vec<Forged> {
        let mh = match view.direction {
            Direction::Downlink => view.receiver,
            Direction::Uplink => view.sender,
        };
        let fh = match view.direction {
            Direction::Downlink => view.sender,
            Direction::Uplink => view.receiver,
        };
        let in_flight = fh.seq(fh.una + i64::from(self.below((fh.max - fh.una) as u32)));
        let (seq, mtu) = match (self.kind, self.below(2)) {
            (Forgery::PacketTooBigInFlight, _) => (in_flight, self.within(552..1400)),
            (_, 0) => (fh.seq(fh.max) + self.within(FAR), self.within(552..1400)),
            _ => (in_flight, self.within(0..552)),
        };
        let (from, to) = (fh.profile.me, mh.profile.me);
        vec![Forged::PacketTooBig(PacketTooBig { from, to, seq, mtu })]
    }
}

impl World {
    /// An attacker of this kind comes. A gateway that meets the flow on its way cannot know all
    /// that the ends know: then only what they get counts.
    pub(in crate::gateway::tests) fn is_attacked_by(&mut self, forger: Forger) {
        self.lenient = forger.kind.may_mislead() || self.interrupted || self.watch.opener.is_none();
        (self.fh.attacked, self.mh.attacked) = (true, true);
        self.forger = Some(forger);
    }

    /// The attacker acts when a true segment comes by.
    pub(super) fn forge(&mut self, direction: Direction, genuine: &Packet) {
        let Some(mut forger) = self.forger.take() else {
            return;
        };
        if forger.below(1000) < forger.chance {
            let (receiver, sender) = match direction {
                Direction::Downlink => (&self.mh, &self.fh),
                Direction::Uplink => (&self.fh, &self.mh),
            };
            let genuine = genuine.segment;
            let view = View {
                direction,
                genuine,
                receiver,
                sender,
            };
            for forged in forger.forge(&view) {
                forger.sent += 1;
                self.put_forged(forger.kind, forged);
            }
        }
        self.forger = Some(forger);
    }

    fn put_forged(&mut self, kind: Forgery, forged: Forged) {
        let (now, mut actions) = (self.now, Vec::new());
        match forged {
            Forged::PacketTooBig(message) => {
                self.gateway
                    .handle_packet_too_big(&message, now, &mut actions);
            }
            Forged::Segment(direction, segment) => {
                // By chance it cannot be distinguished from a true one.
                if !kind.is_an_ends_own() && self.may_be_taken(direction, &segment) {
                    return;
                }
                let bytes = &JUNK[..segment.payload_len as usize];
                let packet = Packet::new(segment, bytes, 1000);
                if self.trace {
                    eprintln!("           forged {direction:?} {}", self.brief(&packet));
                }
                self.judged = Some(segment);
                let gateway = &mut self.gateway;
                let verdict =
                    gateway.handle_segment(direction, &segment, &packet, now, &mut actions);
                let passed = packet.judged(verdict).filter(|_| !kind.is_an_ends_own());
                if let Some(packet) = passed {
                    self.pass_forged(direction, packet);
                }
            }
        }
        self.act(actions);
    }

    fn may_be_taken(&self, direction: Direction, segment: &Segment) -> bool {
        let (receiver, sender) = match direction {
            Direction::Downlink => (&self.mh, &self.fh),
            Direction::Uplink => (&self.fh, &self.mh),
        };
        // What is on its way will move the receiver there: a RST that fits then is one too.
        let exact = segment.flags.has(Flags::RST)
            && self.gateway.flows.iter().map(|row| &row.flow).any(|flow| {
                [flow.fh.max, flow.fh.una, flow.mh.nxt, flow.fh.ack].contains(&segment.seq)
            });
        let next = [receiver.rcv_nxt, sender.una, sender.max].map(|offset| sender.seq(offset));
        exact
            || receiver.takes(segment)
            || (segment.flags.has(Flags::RST) && next.contains(&segment.seq))
    }

    fn pass_forged(&mut self, direction: Direction, packet: Packet) {
        match direction {
            Direction::Downlink if !self.link_is_up => {}
            Direction::Downlink => {
                self.travel(self.wireless, Event::ForgedToHost(Side::Mh, packet));
            }
            Direction::Uplink => self.travel(self.wired, Event::ForgedToHost(Side::Fh, packet)),
        }
    }

    /// A forged segment is at the end that it names. The end refuses it, as RFC 5961 has it.
    pub(super) fn refuse_forged(&mut self, side: Side, packet: Packet) {
        let Some(packet) = self.forged_past_own_engine(side, packet) else {
            return;
        };
        let (now, mut out) = (self.now, Vec::new());
        let host = self.host(side);
        if !host.takes(&packet.segment) {
            host.refuse(&packet.segment, now, &mut out);
        }
        self.transmit(side, out);
    }

    /// A true segment came by: an open flow has to stay open from here on. One that was seen
    /// from its SYNs on is open by the MH's first segment after them, or by the FH's if the MH has
    /// answered its SYN.
    pub(super) fn note_followed(&mut self, direction: Direction) {
        let stage = self.gateway.flows.rows().next().map(Row::stage);
        let opens = direction == Direction::Uplink || self.watch.opener == Some(Side::Fh);
        let whole = self.watch.opener.is_some() && !self.interrupted && opens;
        self.watch.followed |= whole || stage == Some(Stage::Open);
        // With wrong numbers the flow is not followed in truth, and may be adopted anew.
        self.watch.followed &= !self.is_misled();
        self.watch.closed |= stage == Some(Stage::Closed);
    }

    /// The gateway has believed a forged segment: to it, the MH has acknowledged more than the FH has
    /// sent.
    fn is_misled(&self) -> bool {
        let row = self.gateway.flows.rows().next();
        let una = match row {
            Some(Row::Live(connection)) => Some(connection.flow.fh.una),
            Some(Row::Idle(idle)) => Some(idle.flow.fh.una),
            Some(Row::Closed(_)) | None => None,
        };
        let forger = self.forger.as_ref();
        forger.is_some_and(|forger| forger.kind.may_mislead())
            && una.is_some_and(|una| self.fh.sent_offset(una) > self.fh.max)
    }

    /// The link goes down.
    pub(super) fn note_whether_tracked(&mut self) {
        if self.is_settled() || self.watch.closed {
            return;
        }
        let is_followed = |stage| matches!(stage, Stage::Open | Stage::Closed);
        let followed = self.gateway.flows.rows().map(Row::stage).any(is_followed);
        self.watch.outages += 1;
        self.watch.unprotected += u64::from(!followed);
        self.watch.lost += u64::from(!followed && self.watch.followed);
    }
}
