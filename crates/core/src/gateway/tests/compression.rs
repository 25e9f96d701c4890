// SPDX-License-Identifier: Apache-2.0
//! Compressed M-TCP: the MH's daemon of the property test, and what the SH compresses when.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment};
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use super::bench::{Bench, LEN, bench_with, passed, settings};
use crate::compression::{
    CompressionSettings, DecompressionCounters, Decompressor, DecompressorLimits, Method, Restored,
    is_marked, marked,
};
use crate::link_state::{LinkEvent, LinkSource};
use crate::signal::Abilities;
use crate::testing::{MH, Packet};
use crate::{
    Action, BandwidthSettings, Direction, MtcpSettings, RECONNECTION_FLAGS, Scheme, Settings,
    Verdict,
};

/// What runs at the MH beside its TCP.
#[derive(Default)]
pub(super) struct Daemon {
    decompressor: Option<Decompressor>,
    can: Abilities,
    session: u64,
    alive: bool,
    /// Compressed segments that arrive with other bytes, in 1/1000.
    damage: u64,
    before: DecompressionCounters,
}

impl Daemon {
    pub(super) fn new(method: Method, damage: u64) -> Self {
        let mut daemon = Self {
            can: match method {
                Method::Deflate => Abilities::DEFLATE,
                Method::Zstd => Abilities::ZSTD,
            },
            damage,
            ..Self::default()
        };
        daemon.set_alive(true);
        daemon
    }

    /// It starts, and knows nothing; or it dies.
    pub(super) fn set_alive(&mut self, alive: bool) {
        self.before = self.counters();
        self.alive = alive;
        self.session += u64::from(alive);
        self.decompressor = alive.then(|| Decompressor::new(DecompressorLimits::default()));
    }

    /// The abilities that the daemon registers, and the session.
    pub(super) fn abilities(&self) -> Option<(Abilities, u64)> {
        self.alive.then_some((self.can, self.session))
    }

    /// What goes up the stack of a packet that has come.
    pub(super) fn restore(&mut self, packet: Packet, now: Instant) -> Option<Packet> {
        let Some(decompressor) = &mut self.decompressor else {
            // RFC 9293, 3.10.7.4: "if the ACK bit is off, drop the segment".
            return Some(packet).filter(|packet| !is_marked(packet.segment.flags));
        };
        match decompressor.handle(&packet.segment, &packet.bytes, now) {
            Restored::NotCompressed => Some(packet),
            Restored::Segment { flags, payload, .. } => {
                let mut segment = packet.segment;
                (segment.flags, segment.payload_len) = (flags, payload.len() as u32);
                Some(Packet::new(segment, payload, packet.segment_len))
            }
            Restored::Dropped(_) => None,
        }
    }

    /// Bits are turned that no checksum has noticed, or the end is missing.
    pub(super) fn damage(&self, packet: &mut Packet, rng: &mut ChaCha8Rng) {
        if self.damage == 0 || u64::from(rng.next_u32()) % 1000 >= self.damage {
            return;
        }
        let mut bytes = packet.bytes.to_vec();
        if rng.next_u32().is_multiple_of(3) {
            bytes.truncate(rng.next_u32() as usize % bytes.len());
        } else {
            for _ in 0..=rng.next_u32() % 4 {
                let at = rng.next_u32() as usize % bytes.len();
                bytes[at] ^= 1 << (rng.next_u32() % 8);
            }
        }
        let mut segment = packet.segment;
        segment.payload_len = bytes.len() as u32;
        *packet = Packet::new(segment, &bytes, packet.segment_len);
    }

    /// Of all runs.
    pub(super) fn counters(&self) -> DecompressionCounters {
        let mut sum = self.before;
        if let Some(decompressor) = &self.decompressor {
            let own = decompressor.counters();
            sum.restored += own.restored;
            sum.wire_bytes += own.wire_bytes;
            sum.plain_bytes += own.plain_bytes;
            sum.bad_header += own.bad_header;
            sum.unknown_dictionary += own.unknown_dictionary;
            sum.bad_bytes += own.bad_bytes;
            sum.no_room += own.no_room;
        }
        sum
    }
}

/// A flow whose segments are offered for compression, and what goes to the MH of it.
struct Line {
    bench: Bench,
    daemon: Daemon,
}

/// What a segment goes out as: its first byte, and whether compressed.
type Sent = (u32, bool);

impl Line {
    fn new(method: Method) -> Self {
        Self::with_bandwidth(method, BandwidthSettings::default())
    }

    fn with_bandwidth(method: Method, bandwidth: BandwidthSettings) -> Self {
        let settings = Settings {
            bandwidth,
            compression: Some(CompressionSettings { method, level: 3 }),
            mtcp: MtcpSettings {
                slow_start: false,
                ..MtcpSettings::default()
            },
            ..settings(Scheme::Mtcp)
        };
        Self {
            bench: bench_with(settings),
            daemon: Daemon::new(method, 0),
        }
    }

    fn registered(method: Method) -> Self {
        let mut line = Self::new(method);
        line.register(90);
        line
    }

    /// Registers the daemon for `seconds`.
    fn register(&mut self, seconds: u64) {
        let (abilities, session) = self.daemon.abilities().expect("alive");
        let until = self.bench.now + Duration::from_secs(seconds);
        let gateway = &mut self.bench.gateway;
        gateway.handle_abilities(&[MH.address], abilities, session, until);
    }

    /// A segment of the FH with these bytes.
    fn down_with(&mut self, seq: u32, bytes: &[u8]) -> Vec<Sent> {
        let segment = self.bench.fh_segment(seq, bytes.len() as u32);
        let packet = Packet::new(segment, bytes, LEN);
        self.input(Direction::Downlink, packet)
    }

    /// One that shrinks well.
    fn down(&mut self, seq: u32) -> Vec<Sent> {
        self.down_with(seq, &text(seq, LEN))
    }

    /// An ACK of the MH.
    fn up(&mut self, ack: u32) -> Vec<Sent> {
        let segment = self.bench.mh_segment(ack);
        self.up_as(segment)
    }

    fn up_as(&mut self, segment: Segment) -> Vec<Sent> {
        self.input(Direction::Uplink, Packet::new(segment, &[], 1))
    }

    fn input(&mut self, direction: Direction, packet: Packet) -> Vec<Sent> {
        let (now, mut actions) = (self.bench.now, Vec::new());
        let gateway = &mut self.bench.gateway;
        let verdict =
            gateway.handle_segment(direction, &packet.segment, &packet, now, &mut actions);
        let mut sent = self.emit(actions);
        if direction == Direction::Downlink && verdict == Verdict::Forward {
            let plain: Vec<Packet> = packet.split();
            self.arrive(&plain);
            sent.extend(plain.iter().map(|one| (one.segment.seq.get(), false)));
        }
        sent
    }

    /// What the engine wants sent to the MH, by the edge's rules.
    fn emit(&mut self, actions: Vec<Action<Packet>>) -> Vec<Sent> {
        let mut sent = Vec::new();
        for action in actions {
            let Action::Resend(piece) = action else {
                continue;
            };
            let (mut at, now) = (0, self.bench.now);
            for mut plain in Packet::of_resend(&piece).split() {
                let (len, flags) = (plain.segment.payload_len, plain.segment.flags);
                let payload = self.bench.gateway.compress(&piece, at, len, flags, now);
                sent.push((plain.segment.seq.get(), payload.is_some()));
                if let Some(payload) = payload {
                    let segment = Segment {
                        flags: marked(flags),
                        payload_len: payload.len() as u32,
                        ..plain.segment
                    };
                    plain = Packet::new(segment, payload, LEN);
                }
                self.arrive(&[plain]);
                at += len;
            }
        }
        sent
    }

    /// The MH's daemon restores whatever comes, to what the FH sent.
    fn arrive(&mut self, packets: &[Packet]) {
        for packet in packets {
            let was_marked = is_marked(packet.segment.flags);
            let restored = self.daemon.restore(packet.clone(), self.bench.now);
            if let (true, Some(restored)) = (was_marked, restored) {
                let seq = restored.segment.seq.get();
                let shrinks = restored.bytes[..] == text(seq, restored.bytes.len() as u32)[..];
                assert!(shrinks, "other bytes at {seq}");
                assert!(restored.segment.flags.has(Flags::ACK));
            }
        }
    }

    /// Time passes.
    fn wait(&mut self, millis: u64) -> Vec<Sent> {
        let until = self.bench.now + Duration::from_millis(millis);
        let mut sent = Vec::new();
        while let Some(at) = self.bench.gateway.poll_timeout().filter(|at| *at <= until) {
            self.bench.now = self.bench.now.max(at);
            let (now, mut actions) = (self.bench.now, Vec::new());
            self.bench.gateway.handle_timeout(now, &mut actions);
            sent.extend(self.emit(actions));
        }
        self.bench.now = until;
        sent
    }

    fn signal(&mut self, event: LinkEvent) -> Vec<Sent> {
        let (now, mut actions) = (self.bench.now, Vec::new());
        let (gateway, source) = (&mut self.bench.gateway, LinkSource::Signal);
        gateway.handle_link(&[MH.address], event, source, now, &mut actions);
        self.emit(actions)
    }

    /// The first segment is known to have been read; the MH has all up to 3001.
    fn proven(method: Method) -> Self {
        let mut line = Self::registered(method);
        assert_eq!(line.down(1), [(1, true)]);
        assert_eq!(line.down(1001), [(1001, false)]);
        line.bench.now += Duration::from_millis(20);
        assert_eq!(line.up(2001), []);
        assert_eq!(line.down(2001), [(2001, true)]);
        line.bench.now += Duration::from_millis(20);
        assert_eq!(line.up(3001), []);
        line
    }
}

/// Bytes that shrink; each shows its sequence number.
fn text(seq: u32, len: u32) -> Vec<u8> {
    let byte = |at: u32| {
        let word = (at / 8).wrapping_mul(2_654_435_761) >> 28;
        b"mobile hostwindow of freezes 0.17s ACK of x"[(word * 2 + at % 8) as usize]
    };
    (seq..seq + len).map(byte).collect()
}

#[test]
fn nothing_is_compressed_for_a_mobile_that_has_not_registered() {
    for method in [Method::Deflate, Method::Zstd] {
        let mut line = Line::new(method);
        assert_eq!(line.down(1), [(1, false)]);
        let other = match method {
            Method::Deflate => Abilities::ZSTD,
            Method::Zstd => Abilities::DEFLATE,
        };
        let until = line.bench.now + Duration::from_secs(90);
        let gateway = &mut line.bench.gateway;
        gateway.handle_abilities(&[MH.address], other, 1, until);
        assert_eq!(line.down(1001), [(1001, false)]);
        // Nor is anything done for it: the segment goes as it came.
        assert_eq!(line.bench.down(2001, LEN), passed());
    }
}

#[test]
fn the_first_segment_goes_alone_until_the_mh_has_acknowledged_it() {
    for method in [Method::Deflate, Method::Zstd] {
        let mut line = Line::proven(method);
        assert_eq!(line.down(3001), [(3001, true)]);
        assert_eq!(line.down(4001), [(4001, true)]);
        assert_eq!(line.bench.counter("compression_proofs"), 1);
        let restored = line.daemon.counters();
        assert_eq!(
            (restored.restored, line.bench.counter("compressed")),
            (4, 4)
        );
        let bytes = ["compressed_from_bytes", "compressed_to_bytes"];
        let bytes = bytes.map(|name| line.bench.counter(name));
        assert_eq!(bytes, [restored.plain_bytes, restored.wire_bytes]);
        let dictionaries = usize::from(method == Method::Zstd);
        assert_eq!(line.bench.gateway.dictionaries(), dictionaries);
    }
}

#[test]
fn a_retransmitted_first_segment_proves_nothing() {
    let mut line = Line::registered(Method::Deflate);
    assert_eq!(line.down(1), [(1, true)]);
    // The FH's own copy: without a share of a cell it passes.
    assert_eq!(line.down(1), [(1, false)]);
    line.bench.now += Duration::from_millis(20);
    assert_eq!(line.up(1001), []);
    let mut seq = 1001;
    while line.down(seq) == [(seq, false)] {
        line.up(seq + LEN);
        seq += LEN;
        assert!(seq < 200_000, "never tried again");
    }
    assert!(seq > 60_000, "tried again after {seq} bytes");
    assert_eq!(line.bench.counter("compression_proofs"), 0);
}

/// With a share of a cell the gateway retransmits what the radio loses.
#[test]
fn a_first_segment_that_the_gateway_retransmits_proves_nothing_either() {
    let cell = BandwidthSettings::one_cell(Some(10_000_000));
    let mut line = Line::with_bandwidth(Method::Deflate, cell);
    line.register(90);
    assert_eq!(line.down(1), [(1, true)]);
    for seq in [1001, 2001, 3001, 4001] {
        line.wait(5);
        assert_eq!(line.down(seq), [(seq, false)]);
    }
    let again: Vec<_> = (0..3).flat_map(|_| line.up(1)).collect();
    assert_eq!(again, [(1, false)]);
    line.wait(5);
    assert_eq!(line.up(5001), []);
    assert_eq!(line.bench.counter("compression_proofs"), 0);
    assert_eq!(line.down(5001), [(5001, false)]);
}

#[test]
fn a_super_segment_is_compressed_segment_by_segment() {
    let mut line = Line::proven(Method::Deflate);
    let sent = line.down_with(3001, &text(3001, 3 * LEN));
    assert_eq!(sent, [(3001, true), (4001, true), (5001, true)]);
}

#[test]
fn segments_with_a_fin_and_short_ones_go_plain() {
    let mut line = Line::proven(Method::Deflate);
    assert_eq!(line.down_with(3001, &text(3001, 40)), [(3001, false)]);
    let mut fin = line.bench.fh_segment(3041, LEN);
    fin.flags = Flags::ACK.with(Flags::FIN);
    let packet = Packet::new(fin, &text(3041, LEN), LEN);
    assert_eq!(line.input(Direction::Downlink, packet), [(3041, false)]);
}

#[test]
fn what_an_mh_that_does_not_answer_gets_again_is_plain() {
    let mut line = Line::proven(Method::Zstd);
    for seq in [3001, 4001, 5001] {
        assert_eq!(line.down(seq), [(seq, true)]);
    }
    let sent = line.wait(3000);
    assert!(!sent.is_empty(), "it is probed");
    assert!(sent.iter().all(|one| !one.1), "{sent:?}");
    // It answers with plain ACKs only: its daemon may be dead. Then one segment is tried first.
    let mut sent = line.up(4001);
    sent.extend(line.wait(30));
    assert!(sent.iter().all(|one| !one.1), "{sent:?}");
    assert_eq!(line.bench.gateway.dictionaries(), 0);
    assert_eq!(line.up(6001), []);
    // The pace of the recovery is over then.
    assert_eq!(line.wait(2000), []);
    assert_eq!(line.down(6001), [(6001, true)]);
    assert_eq!(line.down(7001), [(7001, false)]);
    line.bench.now += Duration::from_millis(20);
    assert_eq!(line.up(8001), []);
    assert_eq!(line.down(8001), [(8001, true)]);
}

#[test]
fn segments_lost_in_an_outage_are_compressed_again_if_the_mh_s_m_tcp_reports_link_up() {
    for by_mark in [false, true] {
        let mut line = Line::proven(Method::Zstd);
        for seq in [3001, 4001, 5001] {
            assert_eq!(line.down(seq), [(seq, true)]);
        }
        line.signal(LinkEvent::Down);
        line.bench.now += Duration::from_millis(500);
        let mut sent = if by_mark {
            let mut marked = line.bench.mh_segment(3001);
            marked.flags = RECONNECTION_FLAGS;
            line.up_as(marked)
        } else {
            line.signal(LinkEvent::Up)
        };
        sent.extend(line.wait(50));
        assert_eq!(
            sent,
            [(3001, true), (4001, true), (5001, true)],
            "{by_mark}"
        );
        assert_eq!(line.daemon.counters().unknown_dictionary, 0);
    }
}

#[test]
fn a_registration_that_is_not_repeated_lapses() {
    let mut line = Line::proven(Method::Deflate);
    line.bench.now += Duration::from_secs(89);
    assert_eq!(line.down(3001), [(3001, true)]);
    assert_eq!(line.up(4001), []);
    line.bench.now += Duration::from_secs(2);
    assert_eq!(line.down(4001), [(4001, false)]);
    assert_eq!(line.up(5001), []);
    assert_eq!(line.bench.down(5001, LEN), passed(), "as it came");
}

#[test]
fn a_new_run_of_the_daemon_knows_no_dictionary_and_is_sent_none() {
    let mut line = Line::proven(Method::Zstd);
    line.daemon.set_alive(false);
    line.daemon.set_alive(true);
    line.register(90);
    assert_eq!(line.bench.gateway.dictionaries(), 0);
    assert_eq!(line.down(3001), [(3001, true)]);
    assert_eq!(line.down(4001), [(4001, false)]);
    line.bench.now += Duration::from_millis(20);
    assert_eq!(line.up(5001), []);
    for seq in [5001, 6001, 7001] {
        assert_eq!(line.down(seq), [(seq, true)]);
        line.bench.now += Duration::from_millis(20);
        assert_eq!(line.up(seq + LEN), []);
    }
    let counters = line.daemon.counters();
    assert_eq!((counters.unknown_dictionary, counters.bad_bytes), (0, 0));
}

#[test]
fn addresses_that_leave_a_mobile_take_its_abilities_along() {
    let mut line = Line::proven(Method::Deflate);
    line.bench.gateway.forget_addresses(&[MH.address]);
    assert_eq!(line.down(3001), [(3001, false)]);
}

#[test]
fn payload_that_does_not_shrink_is_forwarded_as_it_came_but_for_one_look_in_a_thousand() {
    let mut line = Line::proven(Method::Deflate);
    let mut state = 7_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as u8
    };
    for segment in 0..20_000 {
        let seq = 3001 + segment * LEN;
        let bytes: Vec<u8> = (0..LEN).map(|_| random()).collect();
        assert_eq!(line.down_with(seq, &bytes), [(seq, false)]);
        line.up(seq + LEN);
    }
    let looks = line.bench.counter("compressed_in_vain");
    assert!((10..=30).contains(&looks), "{looks}");
    // And what shrinks is found again.
    let mut seq = 3001 + 20_000 * LEN;
    let begun = seq;
    while line.down(seq) == [(seq, false)] {
        line.up(seq + LEN);
        seq += LEN;
    }
    assert!((seq - begun) / LEN <= 1025);
}

/// Random bytes made text (0), text in parts (1), text that repeats (2), or left (3).
pub(super) fn make_compressible(bytes: &mut [u8], kind: u64) {
    const VOCABULARY: [&str; 8] = [
        "mobile ",
        "the ",
        "window ",
        "of ",
        "and ",
        "host ",
        "shrinks\n",
        "0.17 ",
    ];
    if kind == 3 {
        return;
    }
    let (mut at, mut state) = (0, 1_u64);
    while at < bytes.len() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let random = u64::from(bytes[at]);
        let number = if kind == 2 {
            at as u64 / 3000
        } else {
            state >> 40
        };
        let word = VOCABULARY[((number + random * u64::from(kind == 0)) % 8) as usize].as_bytes();
        let skip = kind == 1 && (at / 7000).is_multiple_of(2);
        for byte in word.iter().filter(|_| !skip) {
            if at < bytes.len() {
                bytes[at] = *byte;
                at += 1;
            }
        }
        at += if skip { word.len() } else { 0 };
    }
}

#[test]
fn after_some_flows_whose_first_segment_was_lost_further_ones_begin_plain() {
    let mut line = Line::registered(Method::Deflate);
    let mut tried = 0;
    for port in 0..12 {
        line.bench.mh_port = 41_000 + port;
        line.bench.shake_hands(0, 5000);
        assert!(line.bench.up(1).forwarded);
        // Compressed segments are lost, and the FH retransmits them.
        let compressed = line.down(1) == [(1, true)];
        tried += u32::from(compressed);
        assert_eq!(line.down(1), [(1, false)]);
        line.up(1001);
    }
    assert_eq!(tried, 4);
    // A new run of the daemon may be somewhere else.
    line.daemon.set_alive(false);
    line.daemon.set_alive(true);
    line.register(90);
    line.bench.mh_port = 42_000;
    line.bench.shake_hands(0, 5000);
    assert!(line.bench.up(1).forwarded);
    assert_eq!(line.down(1), [(1, true)]);
}
