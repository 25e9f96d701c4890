// SPDX-License-Identifier: Apache-2.0
//! One flow on a bench: segments in, lines of text out.
//!
//! The FH's bytes begin at 1, the MH's at 5001; the MH's windows have a shift of 7.
//! Timestamps are the milliseconds of the clock, the FH's as they are and the MH's
//! plus 70,000.

use core::time::Duration;

use holdfast_wire::{Endpoint, Flags, Instant, Options, SackBlocks, Segment, SeqNum, Timestamps};

use crate::link_state::{LinkEvent, LinkSource};
use crate::testing::{FH, MH, Packet, direction_of};
use crate::{Action, Direction, Gateway, Scheme, Settings, Verdict};

pub(crate) const WINDOW: u16 = 1000;
pub(crate) const SHIFT: u8 = 7;
/// The default length of a segment.
pub(crate) const LEN: u32 = 1000;

pub(crate) struct Bench {
    pub gateway: Gateway<Packet>,
    pub now: Instant,
    pub mh_port: u16,
    /// What the FH echoes and the MH echoes.
    mh_clock_seen: u32,
    pub fh_clock_seen: u32,
    /// The newest timestamp of the MH.
    pub mh_clock_newest: u32,
    /// Both SYNs permit SACK.
    pub sack_permitted: bool,
    /// Both ends send timestamps.
    pub timestamps: bool,
}

/// The answer to one input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub forwarded: bool,
    pub lines: Vec<String>,
}

pub(crate) fn settings(scheme: Scheme) -> Settings {
    Settings {
        scheme,
        ..Settings::default()
    }
}

/// After the handshake, both directions known.
pub(crate) fn bench(scheme: Scheme) -> Bench {
    bench_with(settings(scheme))
}

pub(crate) fn bench_with(settings: Settings) -> Bench {
    let mut bench = not_adopted(settings);
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    bench
}

/// A bench whose flow the gateway has seen nothing of.
pub(crate) fn not_adopted(settings: Settings) -> Bench {
    Bench {
        gateway: Gateway::new(settings),
        now: Instant::from_millis(1000),
        mh_port: MH.port,
        mh_clock_seen: 71_000,
        fh_clock_seen: 1000,
        mh_clock_newest: 71_000,
        sack_permitted: false,
        timestamps: true,
    }
}

/// What is forwarded and answered by nothing.
pub(crate) fn passed() -> Answer {
    Answer {
        forwarded: true,
        lines: Vec::new(),
    }
}

/// What goes no further, and is answered so.
pub(crate) fn suppressed(lines: &[&str]) -> Answer {
    Answer {
        forwarded: false,
        lines: lines.iter().map(ToString::to_string).collect(),
    }
}

/// The bytes of the FH's stream; each shows its sequence number.
pub(crate) fn stream(seq: u32, len: u32) -> Vec<u8> {
    (0..len)
        .map(|i| (seq.wrapping_add(i) % 251) as u8)
        .collect()
}

impl Bench {
    fn mh(&self) -> Endpoint {
        Endpoint {
            port: self.mh_port,
            ..MH
        }
    }

    pub(crate) fn clock(&self) -> u32 {
        (self.now.as_nanos() / 1_000_000) as u32
    }

    /// A segment of the FH as it would be sent now.
    pub(crate) fn fh_segment(&self, seq: u32, len: u32) -> Segment {
        Segment {
            from: FH,
            to: self.mh(),
            seq: SeqNum::new(seq),
            ack: SeqNum::new(5001),
            flags: Flags::ACK,
            window: 500,
            options: Options {
                timestamps: self.timestamps.then(|| Timestamps {
                    tsval: self.clock(),
                    tsecr: self.mh_clock_seen,
                }),
                ..Options::default()
            },
            payload_len: len,
        }
    }

    /// An ACK of the MH as it would be sent now.
    pub(crate) fn mh_segment(&self, ack: u32) -> Segment {
        Segment {
            from: self.mh(),
            to: FH,
            seq: SeqNum::new(5001),
            ack: SeqNum::new(ack),
            flags: Flags::ACK,
            window: WINDOW,
            options: Options {
                timestamps: self.timestamps.then(|| Timestamps {
                    tsval: self.clock() + 70_000,
                    tsecr: self.fh_clock_seen,
                }),
                ..Options::default()
            },
            payload_len: 0,
        }
    }

    fn of_syn(&self) -> Options {
        Options {
            window_scale: Some(SHIFT),
            sack_permitted: self.sack_permitted,
            ..Options::default()
        }
    }

    pub(crate) fn shake_hands(&mut self, fh_iss: u32, mh_iss: u32) {
        let mut syn = self.mh_segment(0);
        (syn.seq, syn.flags, syn.options) = (SeqNum::new(mh_iss), Flags::SYN, self.of_syn());
        assert_eq!(self.put(syn), passed());
        assert_eq!(self.put(self.syn_ack(fh_iss, mh_iss)), passed());
    }

    /// The FH's SYN, and the MH's answer.
    pub(crate) fn syns_by_fh(&self, fh_iss: u32, mh_iss: u32) -> (Segment, Segment) {
        let mut syn = self.fh_segment(fh_iss, 0);
        (syn.ack, syn.flags) = (SeqNum::default(), Flags::SYN);
        let mut answer = self.mh_segment(fh_iss + 1);
        (answer.seq, answer.flags) = (SeqNum::new(mh_iss), Flags::SYN.with(Flags::ACK));
        // In no scale.
        answer.window = u16::MAX;
        for segment in [&mut syn, &mut answer] {
            segment.options.window_scale = Some(SHIFT);
        }
        (syn, answer)
    }

    /// The FH opens the connection; its next segment may carry data.
    pub(crate) fn shake_hands_by_fh(&mut self, fh_iss: u32, mh_iss: u32) {
        let (syn, answer) = self.syns_by_fh(fh_iss, mh_iss);
        assert_eq!(self.put(syn), passed());
        assert_eq!(self.put(answer), passed());
    }

    pub(crate) fn syn_ack(&self, fh_iss: u32, mh_iss: u32) -> Segment {
        let mut answer = self.fh_segment(fh_iss, 0);
        answer.flags = Flags::SYN.with(Flags::ACK);
        (answer.ack, answer.options) = (SeqNum::new(mh_iss + 1), self.of_syn());
        answer
    }

    /// A segment reaches the gateway.
    pub(crate) fn put(&mut self, segment: Segment) -> Answer {
        let (verdict, lines) = self.judge(segment);
        Answer {
            forwarded: verdict == Verdict::Forward,
            lines,
        }
    }

    /// The same, with the whole verdict.
    pub(crate) fn judge(&mut self, segment: Segment) -> (Verdict, Vec<String>) {
        let packet = Packet::new(
            segment,
            &stream(segment.seq.get(), segment.payload_len),
            LEN,
        );
        let direction = direction_of(&segment);
        let mut actions = Vec::new();
        let verdict =
            self.gateway
                .handle_segment(direction, &segment, &packet, self.now, &mut actions);
        if let (Verdict::Forward, Some(ts)) = (verdict, segment.options.timestamps) {
            match direction {
                Direction::Downlink => self.fh_clock_seen = ts.tsval,
                Direction::Uplink => {
                    self.mh_clock_seen = ts.tsval;
                    self.mh_clock_newest = ts.tsval;
                }
            }
        }
        (verdict, lines(actions))
    }

    pub(crate) fn down(&mut self, seq: u32, len: u32) -> Answer {
        self.put(self.fh_segment(seq, len))
    }

    /// `count` segments of the usual length, all forwarded.
    pub(crate) fn forward(&mut self, seq: u32, count: u32) {
        for i in 0..count {
            assert_eq!(self.down(seq + i * LEN, LEN), passed());
        }
    }

    pub(crate) fn up(&mut self, ack: u32) -> Answer {
        self.put(self.mh_segment(ack))
    }

    pub(crate) fn up_with_sack(&mut self, ack: u32, left: u32, right: u32) -> Answer {
        let mut segment = self.mh_segment(ack);
        let mut sack = SackBlocks::default();
        sack.push(SeqNum::new(left), SeqNum::new(right));
        segment.options.sack = sack;
        self.put(segment)
    }

    pub(crate) fn report(&mut self, event: LinkEvent, source: LinkSource) -> Vec<String> {
        let (addresses, mut actions) = ([MH.address], Vec::new());
        self.gateway
            .handle_link(&addresses, event, source, self.now, &mut actions);
        lines(actions)
    }

    pub(crate) fn signal(&mut self, event: LinkEvent) -> Vec<String> {
        self.report(event, LinkSource::Signal)
    }

    pub(crate) fn link_down(&mut self) -> Vec<String> {
        self.signal(LinkEvent::Down)
    }

    /// The link is going down soon.
    pub(crate) fn link_warning(&mut self) -> Vec<String> {
        self.signal(LinkEvent::GoingDownSoon(None))
    }

    pub(crate) fn link_up(&mut self) -> Vec<String> {
        self.signal(LinkEvent::Up)
    }

    /// The link is up again, and time passes for some pieces at the link's rate.
    pub(crate) fn recovers(&mut self) -> Vec<String> {
        let mut out = self.link_up();
        out.extend(self.wait(40));
        out
    }

    /// Time passes; what is due is done when it is due.
    pub(crate) fn wait(&mut self, millis: u64) -> Vec<String> {
        let until = self.now + Duration::from_millis(millis);
        let mut out = Vec::new();
        while let Some(at) = self.gateway.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let mut actions = Vec::new();
            self.gateway.handle_timeout(self.now, &mut actions);
            out.extend(lines(actions));
        }
        self.now = until;
        out
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let mut counters = self.gateway.counters();
        counters.find(|counter| counter.0 == name).expect(name).1
    }

    pub(crate) fn state(&self) -> &'static str {
        self.gateway.flows().next().expect("a flow").state
    }

    pub(crate) fn cached(&self) -> u64 {
        self.gateway.stats().cached_bytes
    }
}

/// Actions as text; records are left out.
pub(crate) fn lines(actions: Vec<Action<Packet>>) -> Vec<String> {
    actions.iter().filter_map(line).collect()
}

fn line(action: &Action<Packet>) -> Option<String> {
    let (kind, packet) = match action {
        Action::Resend(resend) => {
            let packet = Packet::of_resend(resend);
            let (seq, len) = (packet.segment.seq.get(), packet.segment.payload_len);
            assert_eq!(packet.bytes[..], stream(seq, len)[..], "other bytes");
            ("DATA", packet)
        }
        Action::Send(made) => ("MADE", Packet::of_made(made)),
        Action::Repeat(packet) => ("AGAIN", packet.clone()),
        Action::Notify(report) => {
            let seq = report.seq.get();
            return Some(format!("UNREACHABLE seq {seq} x{}", report.copies));
        }
        Action::Record(_) => return None,
    };
    let segment = &packet.segment;
    let tsval = segment.options.timestamps.map_or(0, |ts| ts.tsval);
    let tsecr = segment.options.timestamps.map_or(0, |ts| ts.tsecr);
    let (seq, end) = (segment.seq.get(), segment.end().get());
    let fin = if segment.flags.has(Flags::FIN) {
        " FIN"
    } else {
        ""
    };
    let ece = if segment.flags.has(Flags::ECE) {
        " ECE"
    } else {
        ""
    };
    Some(if segment.flags.has(Flags::RST) {
        format!(
            "RST to {} seq {seq}",
            if segment.to == FH { "FH" } else { "MH" }
        )
    } else if kind == "DATA" {
        format!("DATA {seq}..{end}{fin}{ece} ts {tsval}")
    } else if segment.to == FH {
        let (ack, window) = (segment.ack.get(), segment.window);
        format!("ACK {ack} wnd {window} seq {seq} ts {tsval},{tsecr}")
    } else {
        let blocks = segment.options.sack.iter();
        let blocks: Vec<_> = blocks
            .map(|(left, right)| format!("{left:?}..{right:?}"))
            .collect();
        let sack = if blocks.is_empty() { "" } else { " sack " };
        format!(
            "{kind} to MH seq {seq} ack {} ts {tsval}{sack}{}",
            segment.ack.get(),
            blocks.join(" ")
        )
    })
}
