// SPDX-License-Identifier: Apache-2.0
//! A small TCP end, as strict as a real one where a middle node can go wrong: PAWS,
//! acceptability of SEQ, challenge ACKs, closed windows.
//!
//! Positions in a stream are offsets from its first byte; the FIN lies after the last.

use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::{Endpoint, Flags, Instant, Options, SackBlocks, Segment, SeqNum, Timestamps};

use crate::testing::Packet;

const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(10);

/// What distinguishes one end from another.
#[derive(Clone, Debug)]
pub(super) struct HostProfile {
    pub me: Endpoint,
    pub peer: Endpoint,
    pub iss: u32,
    pub mss: usize,
    /// Segments in a super-segment at most.
    pub gso: usize,
    pub buffer: usize,
    pub window_scale: u8,
    pub timestamps: bool,
    pub clock_start: u32,
    pub sack: bool,
    /// Segments for each ACK, and how long it waits at most.
    pub ack_every: u32,
    pub ack_delay: Duration,
    /// A probe of a closed window has a byte (RFC 9293) or none (Linux).
    pub probe_has_byte: bool,
    /// The FIN waits for the other end's.
    pub closes_last: bool,
}

/// One end of a connection that is established.
pub(super) struct Host {
    pub profile: HostProfile,
    peer_iss: u32,
    peer_scale: u8,
    pub sending: Vec<u8>,
    pub una: i64,
    nxt: i64,
    pub max: i64,
    /// SND.MAX as the end has it: `max`, unless it sets that back to SND.UNA when its window
    /// is shrunk to 0, as BSD of 1997 did.
    snd_max: i64,
    pub sets_back: bool,
    /// Right edge of the window, and SEG.SEQ and SEG.ACK that gave it.
    edge: i64,
    edge_from: (i64, i64),
    cwnd: i64,
    ssthresh: i64,
    dup_acks: u32,
    sacked: Vec<(i64, i64)>,
    /// Holes before this were retransmitted (RFC 6675, `HighRxt`).
    retransmitted_to: i64,
    srtt: Option<Duration>,
    backoff: u32,
    rto_at: Option<Instant>,
    pub received: Vec<u8>,
    /// The first `checked` bytes were compared with what the other end sends.
    checked: usize,
    pub rcv_nxt: i64,
    ahead: BTreeMap<i64, Vec<u8>>,
    peer_fin: Option<i64>,
    pub unread: usize,
    pub advertised: i64,
    ts_recent: u32,
    last_ack_sent: i64,
    unacked_segments: u32,
    ack_at: Option<Instant>,
    pub reset: bool,
    /// It is switched off: it sends nothing and receives nothing.
    pub gone: bool,
    /// Segments with other sequence numbers may arrive. Challenge ACKs then have a limit, as Linux's.
    pub other_numbering: bool,
    /// What an attacker made the gateway send may come: it is refused, and is no fault of ours.
    pub attacked: bool,
    /// An echo from the future may come, and is no measurement, as on Linux: a node estimates this
    /// end's clock by segments that another one has delayed.
    pub clock_is_estimated: bool,
    challenge_at: Instant,
}

impl Host {
    pub(super) fn new(profile: HostProfile, peer: &HostProfile, sending: Vec<u8>) -> Self {
        let window = |buffer: usize, scale: u8| (((buffer >> scale).min(65_535)) << scale) as i64;
        Self {
            peer_iss: peer.iss,
            peer_scale: peer.window_scale,
            sending,
            una: 0,
            nxt: 0,
            max: 0,
            snd_max: 0,
            sets_back: false,
            edge: window(peer.buffer, peer.window_scale),
            edge_from: (-1, 0),
            cwnd: 10 * profile.mss as i64,
            ssthresh: i64::MAX,
            dup_acks: 0,
            sacked: Vec::new(),
            retransmitted_to: 0,
            srtt: None,
            backoff: 0,
            rto_at: None,
            received: Vec::new(),
            checked: 0,
            rcv_nxt: 0,
            ahead: BTreeMap::new(),
            peer_fin: None,
            unread: 0,
            advertised: window(profile.buffer, profile.window_scale),
            ts_recent: peer.clock_start,
            last_ack_sent: 0,
            unacked_segments: 0,
            ack_at: None,
            reset: false,
            gone: false,
            other_numbering: false,
            attacked: false,
            clock_is_estimated: false,
            challenge_at: Instant::ZERO,
            profile,
        }
    }

    fn end(&self) -> i64 {
        self.sending.len() as i64 + 1
    }

    fn has_peer_fin(&self) -> bool {
        self.peer_fin.is_some_and(|fin| self.rcv_nxt > fin)
    }

    /// All is sent and acknowledged, all of the other end's is here.
    pub(super) fn is_done(&self) -> bool {
        self.una == self.end() && self.has_peer_fin()
    }

    /// The number of a byte that this end sends.
    pub(super) fn seq(&self, offset: i64) -> SeqNum {
        SeqNum::new(self.profile.iss.wrapping_add(1).wrapping_add(offset as u32))
    }

    /// Offset in what this end sends.
    pub(super) fn sent_offset(&self, seq: SeqNum) -> i64 {
        i64::from(seq.get().wrapping_sub(self.profile.iss.wrapping_add(1)) as i32)
    }

    /// Offset in what the other end sends.
    pub(super) fn peer_offset(&self, seq: SeqNum) -> i64 {
        i64::from(seq.get().wrapping_sub(self.peer_iss.wrapping_add(1)) as i32)
    }

    fn clock(&self, now: Instant) -> u32 {
        let millis = now.as_nanos() / 1_000_000;
        self.profile.clock_start.wrapping_add(millis as u32)
    }

    fn window(&mut self) -> u16 {
        let scale = self.profile.window_scale;
        let free = self.profile.buffer.saturating_sub(self.unread) as i64;
        let edge = self.rcv_nxt + free;
        // RFC 9293, 3.8.6.2.2: no small steps, and never back.
        if edge - self.advertised >= (self.profile.mss.min(self.profile.buffer / 2)) as i64 {
            self.advertised = edge;
        }
        (((self.advertised - self.rcv_nxt).max(0) >> scale).min(65_535)) as u16
    }

    fn emit(&mut self, from: i64, to: i64, flags: Flags, now: Instant, out: &mut Vec<Packet>) {
        let data_end = to.min(self.sending.len() as i64);
        let bytes = if from >= 0 && from < data_end {
            self.sending[from as usize..data_end as usize].to_vec()
        } else {
            Vec::new()
        };
        let mut flags = flags.with(Flags::ACK);
        if to == self.end() && from < to {
            flags = flags.with(Flags::FIN);
        }
        let mut sack = SackBlocks::default();
        if self.profile.sack {
            let ranges = self.ranges_ahead();
            for (left, right) in ranges.into_iter().take(3) {
                let base = SeqNum::new(self.peer_iss.wrapping_add(1));
                sack.push(base + left as u32, base + right as u32);
            }
        }
        let segment = Segment {
            from: self.profile.me,
            to: self.profile.peer,
            seq: self.seq(from),
            ack: SeqNum::new(self.peer_iss.wrapping_add(1)) + self.rcv_nxt as u32,
            flags,
            window: self.window(),
            options: Options {
                timestamps: self.profile.timestamps.then(|| Timestamps {
                    tsval: self.clock(now),
                    tsecr: self.ts_recent,
                }),
                sack,
                ..Options::default()
            },
            payload_len: bytes.len() as u32,
        };
        self.last_ack_sent = self.rcv_nxt;
        self.unacked_segments = 0;
        self.ack_at = None;
        self.max = self.max.max(to);
        self.snd_max = self.snd_max.max(to);
        out.push(Packet::new(segment, &bytes, self.profile.mss as u32));
    }

    /// What has come is the beginning of what the other end sends.
    pub(super) fn check_received(&mut self, peer: &Self) {
        let received = self.received.len();
        assert!(received <= peer.sending.len(), "more bytes than were sent");
        let new = self.checked..received;
        assert!(
            self.received[new.clone()] == peer.sending[new],
            "{:?} received other bytes",
            self.profile.me
        );
        self.checked = received;
    }

    /// Every byte of the other end's from `from` to `to` has arrived here.
    pub(super) fn has(&self, from: i64, to: i64) -> bool {
        let from = from.max(self.rcv_nxt);
        let ranges = self.ranges_ahead();
        from >= to || ranges.iter().any(|range| range.0 <= from && to <= range.1)
    }

    fn ranges_ahead(&self) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for (from, bytes) in &self.ahead {
            let to = from + bytes.len() as i64;
            match ranges.last_mut() {
                Some(last) if *from <= last.1 => last.1 = last.1.max(to),
                _ => ranges.push((*from, to)),
            }
        }
        ranges
    }

    /// Its SYN, with or without an ACK.
    pub(super) fn syn(&self, flags: Flags, ack: u32) -> Packet {
        let segment = Segment {
            from: self.profile.me,
            to: self.profile.peer,
            seq: SeqNum::new(self.profile.iss),
            ack: SeqNum::new(ack),
            flags,
            window: self.profile.buffer.min(65_535) as u16,
            options: Options {
                window_scale: Some(self.profile.window_scale),
                sack_permitted: self.profile.sack,
                timestamps: self.profile.timestamps.then_some(Timestamps {
                    tsval: self.profile.clock_start,
                    tsecr: if flags.has(Flags::ACK) {
                        self.ts_recent
                    } else {
                        0
                    },
                }),
                ..Options::default()
            },
            payload_len: 0,
        };
        Packet::new(segment, &[], 1)
    }

    /// Handles the other end's SYN. Returns the answer.
    pub(super) fn on_syn(&mut self, syn: &Segment) -> Option<Packet> {
        if !syn.flags.has(Flags::SYN) {
            return None;
        }
        self.peer_iss = syn.seq.get();
        self.peer_scale = syn.options.window_scale.unwrap_or(0);
        self.edge = i64::from(syn.window);
        let next = syn.seq + 1;
        if !syn.flags.has(Flags::ACK) {
            return Some(self.syn(Flags::SYN.with(Flags::ACK), next.get()));
        }
        let mut ack = self.syn(Flags::ACK, next.get()).segment;
        ack.seq += 1;
        ack.window = self.window();
        ack.options = Options::default();
        ack.options.timestamps = self.profile.timestamps.then_some(Timestamps {
            tsval: self.profile.clock_start,
            tsecr: self.ts_recent,
        });
        Some(Packet::new(ack, &[], 1))
    }

    pub(super) fn send_ack(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let at = self.snd_max;
        self.emit(at, at, Flags::default(), now, out);
    }

    /// The application is killed, or closes with data unread (RFC 2525, 2.17): a RST with the
    /// next number (RFC 9293, 3.10.4). From then on a RST is the answer to whatever comes.
    pub(super) fn abort(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.reset || self.gone {
            return;
        }
        self.send_ack(now, out);
        if let Some(last) = out.last_mut() {
            last.segment.flags = Flags::RST.with(Flags::ACK);
            last.segment.options = Options::default();
        }
        self.reset = true;
    }

    /// The FIN once more.
    pub(super) fn repeat_fin(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if !(self.reset || self.gone) && self.max == self.end() {
            self.emit(self.end() - 1, self.end(), Flags::default(), now, out);
        }
    }

    /// RFC 9293, 3.8.4.
    pub(super) fn keep_alive(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if !(self.reset || self.gone) {
            let at = self.una - 1;
            self.emit(at, at, Flags::default(), now, out);
        }
    }

    /// RFC 6069: its oldest segment could not be delivered. One doubling is taken back.
    pub(super) fn on_unreachable(&mut self, seq: SeqNum) {
        if self.sent_offset(seq) == self.una && self.backoff > 0 {
            let before = self.rto();
            self.backoff -= 1;
            let earlier = before.saturating_sub(self.rto());
            self.rto_at = self.rto_at.map(|at| at - earlier);
        }
    }

    /// Whether this end takes anything from the segment: all checks of RFC 9293, 3.10.7.4,
    /// RFC 5961 and RFC 7323, 5.3.
    pub(super) fn takes(&self, segment: &Segment) -> bool {
        let (seq, len) = (self.peer_offset(segment.seq), i64::from(segment.len()));
        if self.reset {
            return false;
        }
        if segment.flags.has(Flags::RST) {
            return seq == self.rcv_nxt;
        }
        if segment.flags.has(Flags::SYN) || !segment.flags.has(Flags::ACK) {
            return false;
        }
        let timestamps = segment.options.timestamps;
        let is_old = match timestamps.filter(|_| self.profile.timestamps) {
            Some(own) => before(own.tsval, self.ts_recent),
            // RFC 7323, 3.2.
            None => self.profile.timestamps,
        };
        let edge = self.advertised.max(self.rcv_nxt) + 1;
        let in_window = seq + len >= self.rcv_nxt && seq <= edge;
        let ack = self.sent_offset(segment.ack);
        // RFC 5961, 5.2.
        let window_max = i64::from(u16::MAX) << self.peer_scale;
        let ack_fits = self.una - window_max <= ack && ack <= self.max;
        !is_old && in_window && ack_fits
    }

    /// The segment is not taken. A challenge ACK may be the answer (RFC 5961, 3.2, 4.2, 5.2,
    /// and the limit of 10).
    pub(super) fn refuse(&mut self, segment: &Segment, now: Instant, out: &mut Vec<Packet>) {
        let seq = self.peer_offset(segment.seq);
        let is_reset = segment.flags.has(Flags::RST);
        let in_window = seq >= self.rcv_nxt && seq < self.advertised;
        let is_silent = (is_reset && !in_window)
            || !(is_reset || segment.flags.has(Flags::SYN) || segment.flags.has(Flags::ACK));
        if self.reset || is_silent || self.challenge_at > now {
            return;
        }
        self.challenge_at = now + Duration::from_millis(500);
        self.send_ack(now, out);
    }

    /// A segment arrived whole.
    pub(super) fn receive(&mut self, packet: &Packet, now: Instant, out: &mut Vec<Packet>) {
        let segment = &packet.segment;
        if self.gone {
            return;
        }
        if self.reset {
            if !segment.flags.has(Flags::RST) {
                let mut answer = *segment;
                (answer.from, answer.to) = (self.profile.me, self.profile.peer);
                (answer.seq, answer.flags, answer.payload_len) = (segment.ack, Flags::RST, 0);
                answer.options = Options::default();
                out.push(Packet::new(answer, &[], 1));
            }
            return;
        }
        let seq = self.peer_offset(segment.seq);
        if segment.flags.has(Flags::RST) {
            // RFC 5961, 3.2.
            if seq == self.rcv_nxt {
                self.reset = true;
            } else if seq > self.rcv_nxt && seq < self.advertised {
                self.send_ack(now, out);
            }
            return;
        }
        if self.attacked && !self.takes(segment) {
            return self.refuse(segment, now, out);
        }
        let length = i64::from(segment.len());
        let timestamps = segment.options.timestamps;
        assert_eq!(timestamps.is_some(), self.profile.timestamps, "{segment:?}");
        let old = timestamps.is_some_and(|ts| before(ts.tsval, self.ts_recent));
        let unacceptable =
            seq + length < self.rcv_nxt || seq > self.advertised.max(self.rcv_nxt) + 1;
        let beyond = self.other_numbering && self.sent_offset(segment.ack) > self.max;
        if old || unacceptable || beyond {
            if !self.other_numbering || self.challenge_at <= now {
                self.challenge_at = now + Duration::from_millis(500);
                self.send_ack(now, out);
            }
            return;
        }
        if let Some(ts) = timestamps
            && seq <= self.last_ack_sent
        {
            self.ts_recent = ts.tsval;
        }
        self.take_ack(segment, now, out);
        if length > 0 {
            self.take_data(packet, seq, now, out);
        }
        self.pump(now, out);
    }

    fn take_ack(&mut self, segment: &Segment, now: Instant, out: &mut Vec<Packet>) {
        let ack = self.sent_offset(segment.ack);
        assert!(
            ack <= self.max,
            "{:?} got an ACK of what it never sent",
            self.profile.me
        );
        if ack > self.snd_max {
            return self.send_ack(now, out);
        }
        let seq = self.peer_offset(segment.seq);
        let edge = ack + (i64::from(segment.window) << self.peer_scale);
        // 4.4BSD takes no smaller window out of a segment with the same numbers: it may be older.
        let older = self.sets_back && (seq, ack) == self.edge_from && edge <= self.edge;
        if ack >= self.una && (seq, ack) >= self.edge_from && !older {
            // By more than the saved byte and the rounding of a scaled window.
            let least = 2 + (1 << self.peer_scale);
            let shrinks = segment.window == 0 && self.edge - edge > least;
            self.edge_from = (seq, ack);
            self.edge = edge;
            if self.sets_back && shrinks {
                (self.nxt, self.snd_max) = (ack, ack);
                self.sacked.clear();
            }
        }
        for (left, right) in segment.options.sack.iter() {
            let (left, right) = (self.sent_offset(left), self.sent_offset(right));
            let possible = left < right && right <= self.max;
            if self.attacked && !possible {
                continue;
            }
            assert!(possible, "SACK of what was never sent");
            // It ignores blocks of bytes that it does not count as sent.
            if left > self.una && right <= self.snd_max {
                self.sacked.push((left, right));
            }
        }
        let reported = self.profile.sack && !segment.options.sack.is_empty();
        if ack > self.una {
            self.cwnd += if self.cwnd < self.ssthresh {
                ack - self.una
            } else {
                self.profile.mss as i64 / 4
            };
            self.una = ack;
            self.nxt = self.nxt.max(ack);
            self.dup_acks = 0;
            self.backoff = 0;
            self.rto_at = None;
            self.sacked.retain(|range| range.1 > ack);
            // 0 is no echo, as Linux and FreeBSD read it.
            if let Some(ts) = segment.options.timestamps.filter(|ts| ts.tsecr != 0) {
                let rtt = self.clock(now).wrapping_sub(ts.tsecr);
                assert!(
                    self.attacked || self.clock_is_estimated || rtt < 1 << 31,
                    "an echo from the future: {rtt}"
                );
                let rtt = Duration::from_millis(u64::from(rtt.min(5_000)));
                self.srtt = Some(self.srtt.map_or(rtt, |srtt| srtt * 7 / 8 + rtt / 8));
            }
        } else if ack == self.una && segment.is_empty() && self.max > self.una {
            self.dup_acks += 1;
            if self.dup_acks == 3 {
                self.ssthresh = (self.cwnd / 2).max(2 * self.profile.mss as i64);
                self.cwnd = self.ssthresh;
                self.send_first_missing(now, out);
            }
        }
        if reported {
            self.retransmit_reported(now, out);
        }
    }

    /// RFC 6675, 4: what lies below three reported segments is lost. Some of it is retransmitted, once
    /// until a timeout.
    fn retransmit_reported(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let mut ranges = self.sacked.clone();
        ranges.sort_unstable();
        let highest = ranges.last().map_or(self.una, |range| range.1);
        let mut at = self.una.max(self.retransmitted_to);
        let mut sent = 0;
        for (left, right) in ranges {
            while at < left && sent < 4 && highest - left >= 3 * self.profile.mss as i64 {
                let to = (at + self.profile.mss as i64).min(left);
                self.emit(at, to, Flags::default(), now, out);
                (at, sent) = (to, sent + 1);
                self.retransmitted_to = to;
            }
            at = at.max(right);
        }
    }

    fn send_first_missing(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let next = self.sacked.iter().map(|range| range.0).min();
        let limit = next.unwrap_or(i64::MAX).min(self.max);
        let to = (self.una + self.profile.mss as i64).min(limit);
        if to > self.una {
            self.emit(self.una, to, Flags::default(), now, out);
        }
    }

    fn take_data(&mut self, packet: &Packet, seq: i64, now: Instant, out: &mut Vec<Packet>) {
        let end = seq + packet.bytes.len() as i64;
        if packet.segment.flags.has(Flags::FIN) {
            assert!(
                self.peer_fin.is_none_or(|fin| fin == end),
                "the FIN has moved"
            );
            self.peer_fin = Some(end);
        }
        let in_order = seq <= self.rcv_nxt && self.ahead.is_empty();
        let new = end > self.rcv_nxt;
        let limit = self.advertised.max(self.rcv_nxt);
        let from = seq.max(self.rcv_nxt);
        if from < end.min(limit) {
            let bytes = &packet.bytes[(from - seq) as usize..(end.min(limit) - seq) as usize];
            let slot = self.ahead.entry(from).or_default();
            if slot.len() < bytes.len() {
                *slot = bytes.to_vec();
            }
        }
        let before = self.rcv_nxt;
        while let Some(entry) = self.ahead.first_entry() {
            let (from, len) = (*entry.key(), entry.get().len() as i64);
            if from > self.rcv_nxt {
                break;
            }
            let bytes = entry.remove();
            if from + len > self.rcv_nxt {
                let fresh = &bytes[(self.rcv_nxt - from) as usize..];
                self.received.extend_from_slice(fresh);
                self.rcv_nxt += fresh.len() as i64;
            }
        }
        self.unread += (self.rcv_nxt - before) as usize;
        if self.peer_fin == Some(self.rcv_nxt) {
            self.rcv_nxt += 1;
        }
        self.unacked_segments += 1;
        let at_once = !in_order
            || !new
            || end > limit
            || self.unacked_segments >= self.profile.ack_every
            || self.peer_fin.is_some();
        if at_once {
            self.send_ack(now, out);
        } else {
            let at = now + self.profile.ack_delay;
            self.ack_at = Some(self.ack_at.map_or(at, |old| old.min(at)));
        }
    }

    /// The application reads.
    pub(super) fn read(&mut self, bytes: usize, now: Instant, out: &mut Vec<Packet>) {
        let before = self.advertised;
        self.unread = self.unread.saturating_sub(bytes);
        let opened = self.window();
        let low = before - self.rcv_nxt < 2 * self.profile.mss as i64;
        let lives = !(self.reset || self.gone);
        if low && opened > 0 && self.advertised > before && lives {
            self.send_ack(now, out);
        }
    }

    /// Sends what windows allow.
    pub(super) fn pump(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.reset || self.gone {
            return;
        }
        let len = self.sending.len() as i64;
        let limit = self.edge.min(self.una + self.cwnd);
        while self.nxt < len {
            if let Some(range) = self
                .sacked
                .iter()
                .find(|range| range.0 <= self.nxt && self.nxt < range.1)
            {
                self.nxt = range.1;
                continue;
            }
            let to = (self.nxt + (self.profile.mss * self.profile.gso) as i64)
                .min(limit)
                .min(len);
            if to <= self.nxt {
                break;
            }
            let with_fin = to == len && !self.profile.closes_last;
            let to_end = if with_fin { to + 1 } else { to };
            self.emit(self.nxt, to_end, Flags::PSH, now, out);
            self.nxt = to_end;
        }
        let may_close = !self.profile.closes_last || self.has_peer_fin();
        if self.nxt == len && may_close && self.edge >= len {
            self.emit(len, len + 1, Flags::default(), now, out);
            self.nxt = len + 1;
        }
        let waits = self.una < self.max || self.nxt < len || (self.nxt == len && may_close);
        if waits {
            self.rto_at.get_or_insert(now + self.rto());
        } else {
            self.rto_at = None;
        }
    }

    fn rto(&self) -> Duration {
        let rto = self
            .srtt
            .map_or(Duration::from_secs(1), |srtt| srtt * 2)
            .max(RTO_MIN);
        (rto * (1 << self.backoff.min(10))).min(RTO_MAX)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.reset || self.gone {
            return None;
        }
        [self.rto_at, self.ack_at].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.ack_at.is_some_and(|at| at <= now) {
            self.send_ack(now, out);
        }
        if self.rto_at.is_some_and(|at| at <= now) {
            self.rto_at = None;
            self.backoff += 1;
            if self.una < self.snd_max {
                self.ssthresh = (self.cwnd / 2).max(2 * self.profile.mss as i64);
                self.cwnd = self.profile.mss as i64;
                self.sacked.clear();
                self.retransmitted_to = 0;
                let to = (self.una + self.profile.mss as i64).min(self.snd_max);
                self.emit(self.una, to, Flags::default(), now, out);
                self.nxt = to;
            } else if self.profile.probe_has_byte && self.una < self.sending.len() as i64 {
                self.emit(self.una, self.una + 1, Flags::default(), now, out);
            } else {
                self.emit(self.una - 1, self.una - 1, Flags::default(), now, out);
            }
            self.pump(now, out);
        }
    }
}

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
