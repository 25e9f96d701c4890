// SPDX-License-Identifier: Apache-2.0
//! One end of a connection: it takes segments and timeouts, and passes them to its parts.

use core::net::IpAddr;

use holdfast_wire::{Flags, Instant, Options, SeqNum, Timestamps};

use super::bbr::Bbr;
use super::congestion::Congestion;
use super::handoffs::Handoffs;
use super::pacer::Pacer;
use super::rack_state::RackTlp;
use super::rto::RtoEstimator;
use super::scoreboard::Scoreboard;
use super::settings::TcpSettings;
use super::variables::{Application, Counters, End, Ending, Rcv, Snd, State, Timed, Timers, View};
use crate::packet::{Body, Packet, TcpPacket};

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(super) settings: TcpSettings,
    pub(super) me: End,
    pub(super) peer: End,
    pub(super) app: Application,
    pub(super) state: State,
    pub(super) ending: Ending,
    pub(super) snd: Snd,
    pub(super) rcv: Rcv,
    pub(super) congestion: Congestion,
    pub(super) board: Scoreboard,
    /// The state of RACK-TLP.
    pub(super) tlp: RackTlp,
    /// BBR, if the sender uses it.
    pub(super) bbr: Option<Bbr>,
    pub(super) pacer: Pacer,
    pub(super) rto: RtoEstimator,
    pub(super) timers: Timers,
    pub(super) timed: Option<Timed>,
    /// The effective MSS, bytes: options are deducted.
    pub(super) smss: u64,
    pub(super) has_timestamps: bool,
    pub(super) has_sack: bool,
    /// What the other end's SYN offered.
    pub(super) offered: Options,
    /// Timeouts in a row without an ACK of something new.
    pub(super) retries: u32,
    /// Probes in a row, for their back-off; and those in a row without an answer.
    pub(super) probes: u32,
    pub(super) probes_unanswered: u32,
    /// The window is closed and the sender in persist state.
    pub(super) persisting: bool,
    pub(super) sent_at: Instant,
    pub(super) received_at: Instant,
    pub(super) intact: bool,
    /// What this end knows of its host's handoffs.
    pub(super) handoffs: Handoffs,
    /// M-TCP: the timers are stopped since this time.
    pub(super) frozen_since: Option<Instant>,
    pub(super) counters: Counters,
}

impl Connection {
    /// An end that will open the connection ([`Self::open`]) or, if `listens`, waits.
    pub fn new(settings: TcpSettings, me: End, peer: End, app: Application, listens: bool) -> Self {
        let buffer = u64::from(settings.receive_buffer_bytes);
        Self {
            settings,
            me,
            peer,
            app,
            state: if listens {
                State::Listen
            } else {
                State::Closed
            },
            ending: Ending::Open,
            snd: Snd::default(),
            rcv: Rcv {
                edge: 1 + buffer.min(65_535),
                ..Rcv::default()
            },
            congestion: Congestion::new(&settings),
            board: Scoreboard::default(),
            tlp: RackTlp::default(),
            bbr: None,
            pacer: Pacer::default(),
            rto: RtoEstimator::new(settings.rto),
            timers: Timers::default(),
            timed: None,
            smss: u64::from(settings.mss),
            has_timestamps: false,
            has_sack: false,
            offered: Options::default(),
            retries: 0,
            probes: 0,
            probes_unanswered: 0,
            persisting: false,
            sent_at: Instant::ZERO,
            received_at: Instant::ZERO,
            intact: true,
            handoffs: Handoffs::new(settings.on_handoff),
            frozen_since: None,
            counters: Counters::default(),
        }
    }

    /// Takes a segment that has arrived. Adds the answers to `out`.
    pub fn handle_segment(&mut self, packet: &Packet, now: Instant, out: &mut Vec<Packet>) {
        let Body::Tcp(tcp) = &packet.body else {
            return;
        };
        if packet.corrupted {
            self.counters.corrupted_received += 1;
            return;
        }
        match self.state {
            State::Closed => self.refuse(tcp, out),
            State::Listen => self.handle_syn(tcp, now, out),
            State::SynSent => self.handle_syn_ack(tcp, now, out),
            _ => self.handle_synchronised(tcp, now, out),
        }
    }

    /// RFC 9293, 3.10.7.4: SYN-RECEIVED and all later states.
    fn handle_synchronised(&mut self, tcp: &TcpPacket, now: Instant, out: &mut Vec<Packet>) {
        let segment = &tcp.segment;
        if segment.flags.has(Flags::SYN) {
            // In SYN-RECEIVED the SYN,ACK was lost. Otherwise RFC 5961, 4.2: a challenge ACK.
            if self.state == State::SynReceived {
                self.send_syn(now, out);
            } else {
                self.send_ack(now, out);
            }
            return;
        }
        let Some(seq) = self.acceptable(segment, now, out) else {
            return;
        };
        self.received_at = now;
        if segment.flags.has(Flags::RST) {
            self.close(Ending::Reset);
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        self.note_timestamp(segment, seq);
        if self.state == State::SynReceived && !self.finish_handshake(segment, now) {
            return self.refuse(tcp, out);
        }
        if !self.handle_ack(segment, seq, now, out) {
            return;
        }
        if !segment.is_empty() {
            self.handle_data(tcp, seq, now, out);
        }
        // A received FIN changes the state before a FIN that is sent now.
        self.advance_closing(now);
        self.output(now, out);
        self.advance_closing(now);
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.frozen_since.is_some() {
            return self.handle_timeout_frozen(now, out);
        }
        let due = |timer: Option<Instant>| timer.is_some_and(|at| at <= now);
        if due(self.timers.delayed_ack) {
            self.send_ack(now, out);
        }
        if due(self.timers.dup_acks) {
            self.release_dup_acks(now, out);
        }
        if due(self.timers.read) {
            self.timers.read = None;
            self.read(now, out);
        }
        if due(self.timers.retransmit) {
            self.timers.retransmit = None;
            self.on_retransmission_timeout(now, out);
        }
        if due(self.timers.persist) {
            self.timers.persist = None;
            self.on_persist_timeout(now, out);
        }
        if due(self.timers.pace) {
            self.timers.pace = None;
            self.on_pace_timeout(now, out);
        }
        if due(self.timers.time_wait) {
            self.close(Ending::Closed);
        }
    }

    /// When to call [`Self::handle_timeout`], unless a segment comes first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers = &self.timers;
        if self.frozen_since.is_some() {
            // Only the application's timer runs on.
            return timers.read;
        }
        [
            timers.retransmit,
            timers.persist,
            timers.delayed_ack,
            timers.dup_acks,
            timers.read,
            timers.pace,
            timers.time_wait,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The state of this end, for an observer.
    pub fn view(&self) -> View {
        let bytes = |seq: u64| seq.saturating_sub(1).min(self.app.sends);
        View {
            state: self.state,
            ending: self.ending,
            cwnd: self.congestion.cwnd,
            ssthresh: self.congestion.ssthresh,
            rwnd: self.snd.wnd,
            snd_una: self.acknowledged(),
            snd_nxt: bytes(self.snd.nxt),
            snd_max: bytes(self.snd.max),
            delivered: self.delivered(),
            rto: self.rto.rto(),
            persisting: self.persisting,
            recovering: self.congestion.recovering,
            intact: self.intact,
        }
    }

    /// Bytes received in order.
    pub fn delivered(&self) -> u64 {
        let fin = u64::from(self.rcv.fin.is_some_and(|fin| fin < self.rcv.nxt));
        self.rcv.nxt.saturating_sub(1 + fin)
    }

    /// Bytes that the other end has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.snd.una.saturating_sub(1).min(self.app.sends)
    }

    /// What this end has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// This end's address.
    pub fn address(&self) -> IpAddr {
        self.me.endpoint.address
    }

    /// How the connection ended.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// This end and the other end.
    pub(crate) fn ends(&self) -> (End, End) {
        (self.me, self.peer)
    }

    /// The estimator of the round trip and the timeout.
    pub fn rto_estimator(&self) -> &RtoEstimator {
        &self.rto
    }

    /// Ends the connection.
    pub(super) fn close(&mut self, ending: Ending) {
        self.state = State::Closed;
        self.ending = ending;
        self.timers = Timers::default();
    }

    /// Derives the state after ESTABLISHED from the FINs sent, acknowledged and received.
    pub(super) fn advance_closing(&mut self, now: Instant) {
        if matches!(self.state, State::Closed | State::TimeWait) {
            return;
        }
        let fin_sent = self.snd.max > self.fin_seq();
        let fin_acked = self.snd.una > self.fin_seq();
        let fin_received = self.rcv.fin.is_some_and(|fin| fin < self.rcv.nxt);
        let state = match (fin_sent, fin_acked, fin_received) {
            (false, _, false) => return,
            (false, _, true) => State::CloseWait,
            (true, false, false) => State::FinWait1,
            (true, true, false) => State::FinWait2,
            (true, false, true) if matches!(self.state, State::CloseWait | State::LastAck) => {
                State::LastAck
            }
            (true, false, true) => State::Closing,
            (true, true, true) if matches!(self.state, State::CloseWait | State::LastAck) => {
                return self.close(Ending::Closed);
            }
            (true, true, true) => State::TimeWait,
        };
        if state == State::TimeWait {
            self.ending = Ending::Closed;
            self.timers = Timers {
                time_wait: Some(now + self.settings.time_wait),
                read: self.timers.read,
                ..Timers::default()
            };
        }
        self.state = state;
    }

    /// The sequence number of this end's FIN.
    pub(super) fn fin_seq(&self) -> u64 {
        1 + self.app.sends
    }

    /// The 32-bit number in a header.
    pub(super) fn wire_seq(&self, seq: u64) -> SeqNum {
        self.me.iss + seq as u32
    }

    /// This end's 64-bit number for a 32-bit number near `snd.una`.
    pub(super) fn own_seq(&self, number: SeqNum) -> i64 {
        unwrap(number, self.wire_seq(self.snd.una), self.snd.una)
    }

    /// The other end's 64-bit number for a 32-bit number near `rcv.nxt`.
    pub(super) fn peer_seq(&self, number: SeqNum) -> i64 {
        unwrap(number, self.rcv.irs + self.rcv.nxt as u32, self.rcv.nxt)
    }

    /// The clock of this end's timestamps.
    pub(super) fn clock(&self, now: Instant) -> u32 {
        let unit = self.settings.timestamp_clock.as_nanos().max(1) as u64;
        // Not 0: some hosts take 0 for no timestamp.
        (now.as_nanos() / unit + 1) as u32
    }

    /// The timestamps of a segment, if both ends have agreed on them.
    pub(super) fn timestamps(&self, now: Instant) -> Option<Timestamps> {
        self.has_timestamps.then(|| Timestamps {
            tsval: self.clock(now),
            tsecr: self.rcv.ts_recent,
        })
    }
}

fn unwrap(number: SeqNum, near: SeqNum, near_seq: u64) -> i64 {
    let distance = number.get().wrapping_sub(near.get()) as i32;
    near_seq as i64 + i64::from(distance)
}
