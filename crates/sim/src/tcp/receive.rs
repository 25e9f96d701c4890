// SPDX-License-Identifier: Apache-2.0
//! Data in, ACKs out: acceptance, reassembly, the window offered, delayed ACKs
//! (RFC 9293, 3.10.7.4 and 3.8.6.2.2; RFC 5681, 4.2; RFC 7323, 4 and 5).

use holdfast_wire::{Flags, Instant, Segment};

use super::connection::Connection;
use super::settings::DelayedAck;
use super::variables::{Reading, State};
use crate::packet::{Packet, TcpPacket};

impl Connection {
    /// The sequence number of a segment of a synchronised connection, if it is acceptable. Other
    /// segments get the answer that the RFCs require.
    pub(super) fn acceptable(
        &mut self,
        segment: &Segment,
        now: Instant,
        out: &mut Vec<Packet>,
    ) -> Option<i64> {
        let seq = self.peer_seq(segment.seq);
        let (nxt, edge) = (self.rcv.nxt as i64, self.rcv.edge as i64);
        let end = seq + i64::from(segment.len());
        if segment.flags.has(Flags::RST) {
            // RFC 5961, 3.2: only RCV.NXT resets. Others in the window get a challenge ACK.
            if seq == nxt {
                return Some(seq);
            }
            if seq > nxt && seq < edge {
                self.send_ack(now, out);
            }
            return None;
        }
        let timestamps = segment.options.timestamps;
        if self.has_timestamps && timestamps.is_none() {
            // RFC 7323, 3.2: "a TCP SHOULD silently drop the segment".
            return None;
        }
        // RFC 7323, 5.3, R1: PAWS.
        let old = self.has_timestamps
            && timestamps.is_some_and(|ts| (ts.tsval.wrapping_sub(self.rcv.ts_recent) as i32) < 0);
        // RFC 9293, 3.10.7.4. A closed window still takes ACKs at RCV.NXT.
        let in_window = if segment.is_empty() {
            seq == nxt || (nxt <= seq && seq < edge)
        } else {
            seq < edge.max(nxt + 1) && end > nxt
        };
        if old || !in_window {
            let duplicate = segment.payload_len > 0 && end <= nxt;
            if duplicate {
                let left = seq.max(1) as u64;
                self.note_duplicate(left, left + u64::from(segment.payload_len));
                self.counters.duplicate_bytes_received += u64::from(segment.payload_len);
                self.counters.data_segments_received += 1;
            }
            if self.state == State::TimeWait {
                self.timers.time_wait = Some(now + self.settings.time_wait);
            }
            self.send_ack(now, out);
            return None;
        }
        Some(seq)
    }

    /// RFC 7323, 4.3, (2).
    pub(super) fn note_timestamp(&mut self, segment: &Segment, seq: i64) {
        if let Some(timestamps) = segment.options.timestamps
            && self.has_timestamps
            && seq <= self.rcv.last_ack_sent as i64
        {
            self.rcv.ts_recent = timestamps.tsval;
        }
    }

    /// The data and the FIN of an acceptable segment.
    pub(super) fn handle_data(
        &mut self,
        tcp: &TcpPacket,
        seq: i64,
        now: Instant,
        out: &mut Vec<Packet>,
    ) {
        let segment = &tcp.segment;
        self.check_bytes(tcp, seq);
        let data_end = (seq + i64::from(segment.payload_len)) as u64;
        if segment.flags.has(Flags::FIN) && data_end <= self.rcv.edge {
            self.rcv.fin = Some(data_end);
        }
        let had_holes = !self.rcv.ahead.is_empty();
        let before = self.rcv.nxt;
        // RFC 9293, 3.10.7.4: bytes beyond the window are trimmed.
        let start = (seq.max(before as i64) as u64).max(1);
        let end = data_end.min(self.rcv.edge);
        let new = if start == before && !had_holes {
            self.rcv.nxt = end.max(before);
            self.rcv.nxt - before
        } else {
            let new = self.rcv.ahead.insert(start, end);
            self.rcv.nxt = self.rcv.ahead.take_from(before);
            new
        };
        if segment.payload_len > 0 {
            self.counters.data_segments_received += 1;
            let within = u64::from(segment.payload_len) - (data_end - end);
            self.counters.duplicate_bytes_received += within.saturating_sub(new);
        }
        if new == 0 && end > start {
            self.note_duplicate(start, end);
        }
        let in_order = self.rcv.nxt - before;
        if in_order > 0 {
            self.forget_dup_acks();
            self.give_to_application(in_order, now);
        }
        let mut fin_now = false;
        if self.rcv.fin == Some(self.rcv.nxt) {
            self.rcv.nxt += 1;
            fin_now = true;
        }
        let trimmed = data_end > end;
        if in_order == 0 && !fin_now && self.delays_dup_ack(now) {
            return;
        }
        // RFC 5681, 4.2: an ACK at once for data out of order, and for data that fills a hole.
        let at_once = had_holes || new == 0 || in_order == 0 || fin_now || trimmed;
        self.acknowledge(at_once, now, out);
    }

    /// RFC 2883: the next ACK reports these bytes, which had arrived before.
    fn note_duplicate(&mut self, left: u64, right: u64) {
        if self.settings.dsack && self.has_sack {
            self.rcv.duplicate = Some((left, right));
        }
    }

    /// The bytes must be those of the peer's stream at this offset.
    fn check_bytes(&mut self, tcp: &TcpPacket, seq: i64) {
        if tcp.segment.payload_len == 0 {
            return;
        }
        let belongs = tcp.origin.stream == self.peer.stream
            && i64::try_from(tcp.origin.offset).is_ok_and(|offset| offset == seq - 1);
        self.intact &= belongs;
    }

    fn acknowledge(&mut self, at_once: bool, now: Instant, out: &mut Vec<Packet>) {
        self.rcv.unacked_segments += 1;
        let is_quick = self.counters.data_segments_received <= u64::from(self.settings.quick_acks);
        match self.settings.delayed_ack {
            DelayedAck::On {
                every,
                delay,
                heartbeat,
            } if !at_once && !is_quick && self.rcv.unacked_segments < every => {
                let beat = delay.as_nanos().max(1) as u64;
                let at = if heartbeat {
                    Instant::from_nanos((now.as_nanos() / beat + 1) * beat)
                } else {
                    now + delay
                };
                self.timers.delayed_ack.get_or_insert(at);
            }
            DelayedAck::On { .. } | DelayedAck::Off => self.send_ack(now, out),
        }
    }

    /// Free room in the receive buffer.
    fn free(&self) -> u64 {
        u64::from(self.settings.receive_buffer_bytes).saturating_sub(self.rcv.unread)
    }

    /// SEG.WND, scaled. RFC 9293, 3.8.6.2.2: the right edge moves only forward, in steps of a
    /// segment or half the buffer. If all is read, it moves by any step.
    pub(super) fn window_to_offer(&mut self) -> u16 {
        let buffer = u64::from(self.settings.receive_buffer_bytes);
        let free = self.free().min(65_535 << self.rcv.scale);
        // What a scaled field cannot express is not offered.
        let free = free >> self.rcv.scale << self.rcv.scale;
        let edge = self.rcv.nxt + free;
        let step = (buffer / 2).min(self.smss);
        if edge >= self.rcv.edge + step || (edge > self.rcv.edge && self.rcv.unread == 0) {
            self.rcv.edge = edge;
        }
        if self.rcv.frozen {
            return 0;
        }
        let window = self.rcv.edge.saturating_sub(self.rcv.nxt) >> self.rcv.scale;
        window.min(65_535) as u16
    }

    fn give_to_application(&mut self, bytes: u64, now: Instant) {
        match self.app.reading {
            _ if self.app.relays => self.rcv.unread += bytes,
            Reading::AtOnce => {}
            Reading::NotBefore { until } if now >= Instant::ZERO + until => {}
            Reading::NotBefore { until } => {
                self.rcv.unread += bytes;
                self.timers.read.get_or_insert(Instant::ZERO + until);
            }
            Reading::Chunks { every, .. } => {
                self.rcv.unread += bytes;
                self.timers.read.get_or_insert(now + every);
            }
        }
    }

    pub(super) fn start_reading(&mut self) {
        if let Reading::NotBefore { until } = self.app.reading {
            self.timers.read = Some(Instant::ZERO + until);
        }
    }

    /// The application reads; the window may open.
    pub(super) fn read(&mut self, now: Instant, out: &mut Vec<Packet>) {
        match self.app.reading {
            Reading::Chunks { bytes, every } => {
                self.rcv.unread = self.rcv.unread.saturating_sub(u64::from(bytes.max(1)));
                if self.rcv.unread > 0 {
                    self.timers.read = Some(now + every);
                }
            }
            Reading::NotBefore { .. } | Reading::AtOnce => self.rcv.unread = 0,
        }
        self.offer_room(now, out);
    }

    /// The application has read: sends a window update if the window opens enough.
    pub(super) fn offer_room(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let offered = self.rcv.edge.saturating_sub(self.rcv.nxt);
        // A window update if it opens by two segments or half the buffer (4.3BSD's
        // tcp_output; RFC 9293, 3.8.6.2.2 asks for one segment at least).
        let buffer = u64::from(self.settings.receive_buffer_bytes);
        let opens = self.free().saturating_sub(offered);
        if opens >= (2 * self.smss).min(buffer / 2) && self.rcv.nxt > 0 {
            self.send_ack(now, out);
        }
    }

    /// Advertises a window of 0 from now on (`frozen`) or the true window again, with this many
    /// ACKs (Freeze-TCP's receiver: Goff and others, 2000).
    pub fn freeze(&mut self, frozen: bool, acks: u32, now: Instant, out: &mut Vec<Packet>) {
        self.rcv.frozen = frozen;
        if matches!(self.state, State::Closed | State::Listen | State::SynSent) {
            return;
        }
        for _ in 0..acks {
            self.send_ack(now, out);
        }
    }
}
