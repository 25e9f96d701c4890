// SPDX-License-Identifier: Apache-2.0
//! Opening a connection (RFC 9293, 3.5), and the options of a SYN.

use core::net::IpAddr;

use holdfast_wire::{Flags, Instant, Options, Segment, SeqNum, Timestamps};

use super::connection::Connection;
use super::variables::{Ending, State, Timed};
use crate::content::ContentKind;
use crate::packet::{Body, Origin, Packet, TcpPacket};

/// Bytes that the timestamps option takes of a segment (RFC 7323, appendix A).
const TIMESTAMPS_LEN: u64 = 12;

/// RFC 9293, 3.7.1: the MSS of an end whose SYN has no MSS option, bytes.
const fn mss_default(address: IpAddr) -> u16 {
    if address.is_ipv6() { 1220 } else { 536 }
}

impl Connection {
    /// Sends the SYN.
    pub fn open(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.state == State::Closed && self.ending == Ending::Open {
            self.state = State::SynSent;
            self.start_reading();
            self.send_syn(now, out);
        }
    }

    /// Sends or retransmits the SYN, or in SYN-RECEIVED the SYN,ACK.
    pub(super) fn send_syn(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let answers = self.state == State::SynReceived;
        let repeated = self.snd.max > 0;
        (self.snd.nxt, self.snd.max) = (1, 1);
        // RFC 6298, 3: Karn's algorithm.
        self.timed = (!repeated).then_some(Timed { end: 1, sent: now });
        // A SYN,ACK has only options that the SYN offered, beside the MSS.
        let offered = self.offered;
        let options = Options {
            mss: Some(self.settings.mss),
            window_scale: self
                .settings
                .window_scale
                .filter(|_| !answers || offered.window_scale.is_some()),
            sack_permitted: self.settings.sack && (!answers || offered.sack_permitted),
            timestamps: (self.settings.timestamps && (!answers || offered.timestamps.is_some()))
                .then(|| Timestamps {
                    tsval: self.clock(now),
                    tsecr: self.rcv.ts_recent,
                }),
            ..Options::default()
        };
        let (flags, ack) = if answers {
            (Flags::SYN.with(Flags::ACK), self.rcv.irs + 1)
        } else {
            (Flags::SYN, SeqNum::default())
        };
        let segment = Segment {
            from: self.me.endpoint,
            to: self.peer.endpoint,
            seq: self.me.iss,
            ack,
            flags,
            // RFC 7323, 2.2: the window of a SYN is not scaled.
            window: self.settings.receive_buffer_bytes.min(65_535) as u16,
            options,
            payload_len: 0,
        };
        self.counters.segments += 1;
        self.sent_at = now;
        self.rcv.last_ack_sent = self.rcv.nxt;
        out.push(self.packet(segment, Origin::default(), repeated));
        self.start_retransmission_timer(now);
    }

    /// LISTEN: RFC 9293, 3.10.7.2.
    pub(super) fn handle_syn(&mut self, tcp: &TcpPacket, now: Instant, out: &mut Vec<Packet>) {
        let segment = &tcp.segment;
        if segment.flags.has(Flags::RST) {
            return;
        }
        if segment.flags.has(Flags::ACK) || !segment.flags.has(Flags::SYN) {
            return self.refuse(tcp, out);
        }
        self.take_options(segment);
        self.state = State::SynReceived;
        self.start_reading();
        self.send_syn(now, out);
    }

    /// SYN-SENT: RFC 9293, 3.10.7.3.
    pub(super) fn handle_syn_ack(&mut self, tcp: &TcpPacket, now: Instant, out: &mut Vec<Packet>) {
        let segment = &tcp.segment;
        let acks_syn = segment.flags.has(Flags::ACK) && self.own_seq(segment.ack) == 1;
        if segment.flags.has(Flags::RST) {
            if acks_syn {
                self.close(Ending::Reset);
            }
            return;
        }
        if !acks_syn || !segment.flags.has(Flags::SYN) {
            if segment.flags.has(Flags::ACK) && !acks_syn {
                self.refuse(tcp, out);
            }
            return;
        }
        self.take_options(segment);
        self.received_at = now;
        self.begin_established(segment, now);
        self.send_ack(now, out);
        self.output(now, out);
        self.advance_closing(now);
    }

    /// SYN-RECEIVED: whether the segment acknowledges the SYN,ACK.
    pub(super) fn finish_handshake(&mut self, segment: &Segment, now: Instant) -> bool {
        let ack = self.own_seq(segment.ack);
        if !(1..=self.snd.max as i64).contains(&ack) {
            return false;
        }
        self.begin_established(segment, now);
        true
    }

    /// The options of the other end's SYN.
    fn take_options(&mut self, segment: &Segment) {
        self.offered = segment.options;
        self.rcv.irs = segment.seq;
        self.rcv.nxt = 1;
        self.rcv.edge = 1 + u64::from(self.settings.receive_buffer_bytes.min(65_535));
        self.snd.wl1 = 0;
        if let Some(timestamps) = segment.options.timestamps {
            self.rcv.ts_recent = timestamps.tsval;
        }
        self.has_timestamps = self.settings.timestamps && segment.options.timestamps.is_some();
        self.has_sack = self.settings.sack && segment.options.sack_permitted;
        // RFC 7323, 1.3: only if both ends send the option.
        if let (Some(own), Some(settings)) =
            (self.settings.window_scale, segment.options.window_scale)
        {
            (self.rcv.scale, self.snd.scale) = (own.min(14), settings.min(14));
        }
        let default_mss = mss_default(self.peer.endpoint.address);
        let mss = segment
            .options
            .mss
            .unwrap_or(default_mss)
            .min(self.settings.mss);
        let options = if self.has_timestamps {
            TIMESTAMPS_LEN
        } else {
            0
        };
        // RFC 6691, 2: options are deducted from what is sent.
        self.smss = u64::from(mss).saturating_sub(options).max(1);
    }

    fn begin_established(&mut self, segment: &Segment, now: Instant) {
        self.state = State::Established;
        self.snd.una = 1;
        self.snd.nxt = self.snd.nxt.max(1);
        self.timers.retransmit = None;
        let timed = self.timed.take();
        if let Some(timed) = timed {
            self.counters.rtt_samples += 1;
            self.rto.on_timed(timed.sent, now);
            let rtt = now.saturating_since(timed.sent);
            self.tlp.rack.on_round_trip(rtt);
        } else {
            self.rto.begin_after_lost_syn();
        }
        self.retries = 0;
        self.congestion.begin(self.smss, timed.is_none());
        let rtt = timed.map(|timed| now.saturating_since(timed.sent));
        self.begin_bbr(rtt, now);
        // The window of a SYN is not scaled.
        let scale = if segment.flags.has(Flags::SYN) {
            0
        } else {
            self.snd.scale
        };
        self.set_window(u64::from(segment.window) << scale);
        self.snd.wl1 = self.peer_seq(segment.seq);
        self.snd.wl2 = 1;
    }

    /// Answers a segment that belongs to no connection (RFC 9293, 3.10.7.1).
    pub(super) fn refuse(&mut self, tcp: &TcpPacket, out: &mut Vec<Packet>) {
        let settings = &tcp.segment;
        if settings.flags.has(Flags::RST)
            || self.ending == Ending::Open && self.state == State::Closed
        {
            return;
        }
        let (seq, ack, flags) = if settings.flags.has(Flags::ACK) {
            (settings.ack, SeqNum::default(), Flags::RST)
        } else {
            (
                SeqNum::default(),
                settings.end(),
                Flags::RST.with(Flags::ACK),
            )
        };
        let segment = Segment {
            from: self.me.endpoint,
            to: self.peer.endpoint,
            seq,
            ack,
            flags,
            window: 0,
            options: Options::default(),
            payload_len: 0,
        };
        self.counters.segments += 1;
        out.push(self.packet(segment, Origin::default(), false));
    }

    /// A packet of this end.
    pub(super) fn packet(&self, segment: Segment, origin: Origin, repeated: bool) -> Packet {
        Packet {
            from: self.me.node,
            to: self.peer.node,
            body: Body::Tcp(TcpPacket {
                segment,
                origin,
                repeated,
                content: ContentKind::Bulk,
                wire: None,
            }),
            corrupted: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// RFC 9293, 3.7.1, MUST-15: "a default send MSS of 536 (576 - 40) for IPv4 or 1220
    /// (1280 - 60) for IPv6".
    #[test]
    fn an_end_without_an_option_takes_what_every_path_carries() {
        assert_eq!(mss_default(Ipv4Addr::LOCALHOST.into()), 536);
        assert_eq!(mss_default(Ipv6Addr::LOCALHOST.into()), 1220);
    }
}
