// SPDX-License-Identifier: Apache-2.0
//! One end against a script: the test is the other end, segment by segment.
//!
//! Segments have 1000 bytes. The segments sent are shown as text: `3` is bytes 3000 up to
//! 4000, `3500+20` bytes 3500 up to 3520, `F` a FIN beside them, `=5000` an ACK without
//! data for bytes up to 5000, `=5000w0` with a window of 0, `[6-8]` a SACK block of bytes
//! 6000 up to 8000, `S` a SYN, `S=` a SYN,ACK, `R` a RST.

use core::net::Ipv4Addr;

use holdfast_wire::{
    Duration, Endpoint, Flags, Instant, Options, SackBlocks, Segment, SeqNum, Timestamps,
};

use super::settings::{DelayedAck, LossRecovery, RtoFloor, RtoSettings};
use super::variables::{Application, End, State};
use super::{Connection, TcpSettings};
use crate::content::ContentKind;
use crate::packet::{Body, NodeId, Origin, Packet, TcpPacket};
use crate::tcp::Reading;

mod bbr;
mod closing;
mod mobile;
mod newreno;
mod persist;
mod rack;
mod receiver;
mod reno;
mod sack;
mod timer;

const SMSS: u64 = 1000;
const OWN_ISS: u32 = 0xffff_f000;
const PEER_ISS: u32 = 0xffff_ff00;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Plain settings; each test changes what it tests.
fn plain() -> TcpSettings {
    TcpSettings {
        mss: SMSS as u16,
        timestamps: false,
        window_scale: None,
        sack: false,
        receive_buffer_bytes: 20_000,
        recovery: LossRecovery::Reno,
        limited_transmit: false,
        increase_when_limited_only: false,
        initial_window_segments: 2,
        rto: RtoSettings {
            floor: RtoFloor::Timeout(ms(1000)),
            ..RtoSettings::RFC6298
        },
        delayed_ack: DelayedAck::Off,
        ..TcpSettings::default()
    }
}

/// An end under test, open, and the time.
struct Script {
    end: Connection,
    now: Instant,
    out: Vec<Packet>,
    /// The window that the script offers, bytes.
    window: u16,
    /// The script's clock for timestamps.
    tsval: u32,
    timestamps: bool,
    /// The script's next sequence number, as an offset.
    sent: u64,
}

fn ends() -> (End, End) {
    let end = |node, last, stream, iss| End {
        node: NodeId(node),
        endpoint: Endpoint {
            address: Ipv4Addr::new(10, 0, 0, last).into(),
            port: 1000 + u16::from(last),
        },
        stream,
        iss: SeqNum::new(iss),
    };
    (end(0, 1, 1, OWN_ISS), end(1, 2, 2, PEER_ISS))
}

impl Script {
    /// An end that opens, sends `segments` whole segments and closes; the handshake is
    /// done, with a round trip of 100 ms.
    fn sender(settings: TcpSettings, segments: u64) -> Self {
        let mut script = Self::new(settings, segments * SMSS, true);
        script.end.open(script.now, &mut script.out);
        assert_eq!(script.sent(), "S");
        script.now += ms(100);
        script.window = 65_535;
        script.syn_ack();
        script
    }

    /// An end that listens; the handshake is done, and it has sent nothing but ACKs.
    fn receiver(settings: TcpSettings) -> Self {
        let mut script = Self::new(settings, 0, false);
        script.deliver(script.segment(0, Flags::SYN, 0, script.options(true)), 0);
        assert_eq!(script.sent(), "S=");
        script.deliver(script.segment(1, Flags::ACK, 1, script.options(false)), 0);
        assert_eq!(script.sent(), "");
        assert_eq!(script.end.view().state, State::Established);
        script
    }

    fn new(settings: TcpSettings, sends: u64, opens: bool) -> Self {
        let (me, peer) = ends();
        let app = Application {
            sends,
            after_receiving: 0,
            closes_first: opens,
            reading: Reading::AtOnce,
            relays: false,
        };
        Self {
            end: Connection::new(settings, me, peer, app, !opens),
            now: Instant::from_millis(1_000_000),
            out: Vec::new(),
            window: 65_535,
            tsval: 500,
            timestamps: settings.timestamps,
            sent: 0,
        }
    }

    fn options(&self, syn: bool) -> Options {
        Options {
            mss: syn.then_some(SMSS as u16 + if self.timestamps { 12 } else { 0 }),
            window_scale: None,
            sack_permitted: syn,
            timestamps: self.timestamps.then_some(Timestamps {
                tsval: self.tsval,
                tsecr: 0,
            }),
            ..Options::default()
        }
    }

    /// A segment of the script: sequence number and acknowledgement count from the SYN.
    fn segment(&self, seq: u64, flags: Flags, ack: u64, options: Options) -> Segment {
        let (me, peer) = ends();
        Segment {
            from: peer.endpoint,
            to: me.endpoint,
            seq: SeqNum::new(PEER_ISS) + seq as u32,
            ack: SeqNum::new(OWN_ISS) + ack as u32,
            flags,
            window: self.window,
            options,
            payload_len: 0,
        }
    }

    fn deliver(&mut self, segment: Segment, offset: u64) {
        let (me, peer) = ends();
        let packet = Packet {
            from: peer.node,
            to: me.node,
            body: Body::Tcp(TcpPacket {
                segment,
                origin: Origin { stream: 2, offset },
                repeated: false,
                content: ContentKind::Bulk,
                wire: None,
            }),
            corrupted: false,
        };
        self.end.handle_segment(&packet, self.now, &mut self.out);
    }

    fn syn_ack(&mut self) {
        let flags = Flags::SYN.with(Flags::ACK);
        self.deliver(self.segment(0, flags, 1, self.options(true)), 0);
        // Tests do not look at the handshake's last ACK.
        self.out.remove(0);
    }

    /// An ACK for the bytes up to `bytes`. Returns what the sender sends then.
    fn ack(&mut self, bytes: u64) -> String {
        self.sack(bytes, &[])
    }

    /// This many ACKs for the same bytes.
    fn acks(&mut self, times: u32, bytes: u64) -> String {
        for _ in 0..times {
            self.acknowledge(bytes, &[]);
        }
        self.sent()
    }

    /// An ACK with SACK blocks, in bytes.
    fn sack(&mut self, bytes: u64, blocks: &[(u64, u64)]) -> String {
        self.acknowledge(bytes, blocks);
        self.sent()
    }

    fn acknowledge(&mut self, bytes: u64, blocks: &[(u64, u64)]) {
        let mut options = self.options(false);
        for (left, right) in blocks {
            let at = |offset: u64| SeqNum::new(OWN_ISS) + (1 + offset) as u32;
            options.sack.push(at(*left), at(*right));
        }
        self.deliver(
            self.segment(1 + self.sent, Flags::ACK, 1 + bytes, options),
            0,
        );
    }

    /// An ACK that changes the window.
    fn window(&mut self, bytes: u64, window: u16) -> String {
        self.window = window;
        self.ack(bytes)
    }

    /// Data of the script, in bytes.
    fn data(&mut self, from: u64, to: u64) -> String {
        self.data_with(from, to, Flags::ACK)
    }

    fn data_with(&mut self, from: u64, to: u64, flags: Flags) -> String {
        let mut segment = self.segment(1 + from, flags, 1, self.options(false));
        segment.payload_len = (to - from) as u32;
        self.deliver(segment, from);
        self.sent()
    }

    /// Time passes. Returns what timers send, with the milliseconds since now.
    fn wait(&mut self, length: Duration) -> String {
        let (start, until) = (self.now, self.now + length);
        let mut lines = Vec::new();
        while let Some(at) = self.end.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.end.handle_timeout(self.now, &mut self.out);
            let sent = self.sent();
            if !sent.is_empty() {
                let elapsed = self.now.saturating_since(start).as_millis();
                lines.push(format!("{elapsed}: {sent}"));
            }
        }
        self.now = until;
        lines.join(", ")
    }

    /// What the end has sent since the last call.
    fn sent(&mut self) -> String {
        let out = std::mem::take(&mut self.out);
        let sent: Vec<_> = out
            .iter()
            .filter_map(Packet::segment)
            .map(describe)
            .collect();
        sent.join(" ")
    }

    fn cwnd(&self) -> u64 {
        self.end.view().cwnd
    }

    fn ssthresh(&self) -> u64 {
        self.end.view().ssthresh
    }
}

/// Bytes as a number of segments, where they are one.
fn brief(bytes: u64) -> String {
    if bytes.is_multiple_of(SMSS) {
        (bytes / SMSS).to_string()
    } else {
        bytes.to_string()
    }
}

fn blocks_of(sack: &SackBlocks) -> String {
    let at = |seq: SeqNum| u64::from((seq - PEER_ISS - 1).get());
    let sent = |(left, right)| format!("[{}-{}]", brief(at(left)), brief(at(right)));
    sack.iter().map(sent).collect::<Vec<_>>().concat()
}

fn describe(segment: &Segment) -> String {
    if segment.flags.has(Flags::RST) {
        return "R".to_owned();
    }
    if segment.flags.has(Flags::SYN) {
        let answers = if segment.flags.has(Flags::ACK) {
            "="
        } else {
            ""
        };
        return format!("S{answers}");
    }
    let fin = if segment.flags.has(Flags::FIN) {
        "F"
    } else {
        ""
    };
    if segment.payload_len == 0 && fin.is_empty() {
        let acked = (segment.ack - PEER_ISS - 1).get();
        let window = if segment.window == 0 { "w0" } else { "" };
        return format!("={acked}{window}{}", blocks_of(&segment.options.sack));
    }
    let offset = u64::from((segment.seq - OWN_ISS - 1).get());
    if offset.is_multiple_of(SMSS) && u64::from(segment.payload_len) == SMSS {
        format!("{}{fin}", offset / SMSS)
    } else {
        format!("{offset}+{}{fin}", segment.payload_len)
    }
}
