// SPDX-License-Identifier: Apache-2.0
//! The gateway's engine with one scheme. It gets frames, and its actions become frames as in the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_core::compression::{
    CompressionSettings, Decompressor, DecompressorLimits, Method, Restored, marked,
};
use holdfast_core::handoff::FlowState;
use holdfast_core::signal::Abilities;
use holdfast_core::{
    Action, BandwidthSettings, Direction, FlowKey, FlowRecord, Gateway, LinkEvent, LinkSource,
    MtcpSetUp, Payload, Scheme, Settings, SnoopSettings, Verdict,
};
use holdfast_wire::{Duration, Flags, Header, Instant, Segment, parse, parse_packet_too_big};

use crate::checks;
use crate::dice::Dice;
use crate::packet::Packet;
use crate::state_file::correct_check;
use crate::traffic::{MOBILES, PayloadLen, Traffic, is_honest, mobile_address};
use crate::{Subject, Tally};

/// All schemes of the engine but `observe`, and variants of them. `auto-mobile` is the engine of the mobile's own
/// daemon: segments pass by themselves, unless it has taken their peer. The first byte of an input in the corpus is an
/// index of these.
pub const SCHEMES: [&str; 10] = [
    "hold",
    "mtcp-plus",
    "mtcp",
    "mtcp-early",
    "mtcp-zip",
    "mtcp2007",
    "snoop",
    "snoop95",
    "auto",
    "auto-mobile",
];

/// The sizes of traffic, tables and caches.
pub struct Size {
    /// Flows of the traffic.
    flows: usize,
    payload: PayloadLen,
    /// Flows in the gateway's table: about as many as the traffic has.
    table: usize,
    cache_bytes: usize,
    /// Damaged frames open flows without further segments. They must leave the table soon.
    flow_idle_max: Duration,
    /// The longest pauses between two frames.
    pauses: &'static [Duration],
}

impl Size {
    /// For millions of frames.
    pub const LONG: Self = Self {
        flows: 60,
        payload: PayloadLen {
            usual: 1400,
            longest: 40_000,
        },
        table: 96,
        cache_bytes: 4 << 20,
        flow_idle_max: Duration::from_secs(20),
        pauses: &[Duration::from_millis(800)],
    };
    /// For a fuzzer: its limits are reached with some dozens of frames. In a long pause idle flows are
    /// packed.
    pub const SHORT: Self = Self {
        flows: 4,
        payload: PayloadLen {
            usual: 50,
            longest: 1400,
        },
        table: 3,
        cache_bytes: 4 << 10,
        flow_idle_max: Duration::from_secs(300),
        pauses: &[Duration::from_millis(800), Duration::from_secs(100)],
    };
}

/// The longest time between two frames, except for one time in 50, which has one of `pauses`.
const INTERVAL_MAX: Duration = Duration::from_millis(3);
/// Payload of a segment on the MH's link, bytes.
const MSS: u32 = 1448;
/// Limit of timeouts that are handled at one moment.
const TIMEOUTS_MAX: u32 = 1000;
/// Inputs between two checks of the gateway's counts.
const LIMITS_EVERY: u64 = 64;

/// A gateway, its traffic, and its records.
pub struct Engine {
    size: &'static Size,
    settings: Settings,
    is_early: bool,
    gateway: Gateway<Packet>,
    traffic: Traffic,
    now: Instant,
    records: BTreeMap<FlowKey, FlowRecord>,
    actions: Vec<Action<Packet>>,
    decompressor: Decompressor,
    /// Peers whose segments `auto-mobile` takes.
    taken: BTreeSet<IpAddr>,
    tally: Tally,
}

fn settings(scheme: &str, size: &Size, dice: &mut Dice) -> Settings {
    let mut settings = Settings {
        scheme: match scheme {
            "hold" => Scheme::Hold,
            "auto" | "auto-mobile" => Scheme::Auto,
            "mtcp-plus" => Scheme::MtcpPlus,
            "mtcp2007" => Scheme::Mtcp2007,
            "snoop" | "snoop95" => Scheme::Snoop,
            _ => Scheme::Mtcp,
        },
        flows_max: size.table,
        flow_idle_max: size.flow_idle_max,
        cache_bytes_max: size.cache_bytes,
        flow_cache_bytes_max: size.cache_bytes / 4,
        flow_cache_entries_max: 500,
        hash_seed: 7,
        bandwidth: match dice.below(3) {
            0 => BandwidthSettings::one_cell(Some(1_000_000)),
            _ => BandwidthSettings::default(),
        },
        ..Settings::default()
    };
    match scheme {
        "auto-mobile" => settings.takes_in_outages = true,
        "snoop95" => settings.snoop = SnoopSettings::paper_1995(),
        "mtcp-early" => settings.mtcp.set_up = MtcpSetUp::Early,
        "mtcp-zip" => {
            let (method, level) = (Method::Zstd, 3);
            settings.compression = Some(CompressionSettings { method, level });
        }
        _ => {}
    }
    settings
}

impl Subject for Engine {
    fn step(&mut self, dice: &mut Dice) {
        let input = self.traffic.next(dice);
        self.tally.last.clone_from(&input.frame);
        let longest = if dice.once_in(50) {
            dice.pick(self.size.pauses)
        } else {
            INTERVAL_MAX
        };
        self.now += Duration::from_nanos(dice.below(longest.as_nanos() as u64));
        self.take_frame(input.direction, input.frame, dice);
        self.run_timers();
        self.take_actions(dice);
        if dice.once_in(250) {
            self.disturb(dice);
            self.take_actions(dice);
        }
        self.take_peers();
        self.check_limits();
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Engine {
    /// With one of [`SCHEMES`].
    pub fn new(scheme: &str, size: &'static Size, dice: &mut Dice) -> Self {
        let settings = settings(scheme, size, dice);
        Self {
            is_early: settings.mtcp.set_up == MtcpSetUp::Early,
            gateway: Gateway::new(settings.clone()),
            settings,
            traffic: Traffic::new(size.flows, size.payload),
            now: Instant::from_millis(1000),
            records: BTreeMap::new(),
            actions: Vec::new(),
            decompressor: Decompressor::new(DecompressorLimits::default()),
            taken: BTreeSet::new(),
            tally: Tally::default(),
            size,
        }
    }

    fn take_frame(&mut self, direction: Direction, frame: Vec<u8>, dice: &mut Dice) {
        if let Some(too_big) = parse_packet_too_big(&frame, 0) {
            self.gateway
                .handle_packet_too_big(&too_big, self.now, &mut self.actions);
        }
        if let Ok((segment, layout)) = parse(&frame, 0) {
            self.tally.parsed += 1;
            let segment_len = 1 + dice.below(self.size.payload.usual) as u32;
            let segment_len = segment_len.min(segment.payload_len);
            let packet = Packet::new(frame, layout, segment, segment_len);
            self.put(direction, &packet);
        }
    }

    /// Peers are taken and released by turns, and by `auto-mobile` alone.
    fn take_peers(&mut self) {
        while let Some((peer, is_taken)) = self.gateway.poll_peer() {
            assert!(
                self.settings.takes_in_outages,
                "another engine takes a peer"
            );
            let was_other = if is_taken {
                self.taken.insert(peer)
            } else {
                self.taken.remove(&peer)
            };
            assert!(was_other, "a peer is taken or released twice");
            self.tally.taken += u64::from(is_taken);
        }
    }

    /// An event other than a frame.
    fn disturb(&mut self, dice: &mut Dice) {
        match dice.below(128) {
            0..64 => self.signal_link(dice),
            64..96 => self.report_too_big(dice),
            96..126 => self.hand_over(dice),
            _ => self.restart(dice),
        }
    }

    fn put(&mut self, direction: Direction, packet: &Packet) {
        let segment = packet.segment;
        let gateway = &mut self.gateway;
        let actions = &mut self.actions;
        let verdict = gateway.handle_segment(direction, &segment, packet, self.now, actions);
        let peer = match direction {
            Direction::Downlink => segment.to.address,
            Direction::Uplink => segment.from.address,
        };
        if self.settings.takes_in_outages && !self.taken.contains(&peer) {
            return;
        }
        match verdict {
            Verdict::Forward => self.give_to_mobile(direction, packet),
            Verdict::ForwardWithSack(sack) => {
                assert!(sack.len() <= segment.options.sack.len(), "more blocks");
                if let Some(mut header) = packet.header() {
                    let _ = header.keep_sack_blocks(&sack);
                }
            }
            Verdict::ForwardWithAck { ack, window } => {
                assert_eq!(direction, Direction::Uplink, "an ACK of the FH was changed");
                let scheme = self.settings.scheme;
                if !self.is_early {
                    let (fh, mh) = (segment.to, segment.from);
                    let exact = checks::check_acked(scheme, fh, mh, ack, &self.traffic);
                    self.tally.exact += u64::from(exact);
                }
                if let Some(mut header) = packet.header() {
                    header.set_ack(ack);
                    header.set_window(window);
                }
            }
            Verdict::Suppress => {}
        }
    }

    /// The mobile's daemon gets segments that are not compressed, too.
    fn give_to_mobile(&mut self, direction: Direction, packet: &Packet) {
        if self.settings.compression.is_some() && direction == Direction::Downlink {
            let payload = packet.payload();
            let payload = &payload[..payload.len().min(packet.segment.payload_len as usize)];
            let _ = self.decompressor.handle(&packet.segment, payload, self.now);
        }
    }

    fn signal_link(&mut self, dice: &mut Dice) {
        let source = dice.pick(&[LinkSource::Signal, LinkSource::Carrier, LinkSource::Command]);
        let event = dice.pick(&[
            LinkEvent::Up,
            LinkEvent::Down,
            LinkEvent::GoingDownSoon(None),
        ]);
        let (now, actions) = (self.now, &mut self.actions);
        if source == LinkSource::Carrier {
            self.gateway.handle_all_links(event, source, now, actions);
            if event == LinkEvent::Down && !dice.once_in(4) {
                self.now += Duration::from_millis(1);
                let (now, actions) = (self.now, &mut self.actions);
                let up = LinkEvent::Up;
                self.gateway.handle_all_links(up, source, now, actions);
            }
            return;
        }
        let address = [mobile_address(dice.below(MOBILES) as u8)];
        self.gateway
            .handle_link(&address, event, source, now, actions);
        if !dice.once_in(4) {
            let can = Abilities::ZSTD.with(Abilities::DEFLATE);
            let session = dice.below(3);
            let until = now + Duration::from_secs(90);
            self.gateway.handle_abilities(&address, can, session, until);
        } else if dice.once_in(4) {
            self.gateway.forget_addresses(&address);
        }
    }

    /// A router reports a packet that was too big. The packet is in flight, or the report is forged.
    fn report_too_big(&mut self, dice: &mut Dice) {
        let Ok((segment, _)) = parse(&self.tally.last, 0) else {
            return;
        };
        let message = holdfast_wire::PacketTooBig {
            from: segment.from,
            to: segment.to,
            seq: segment.seq - dice.below(10_000) as u32,
            mtu: dice.below(2000) as u32,
        };
        self.gateway
            .handle_packet_too_big(&message, self.now, &mut self.actions);
    }

    fn run_timers(&mut self) {
        let mut times = 0;
        while self.gateway.poll_timeout().is_some_and(|at| at <= self.now) {
            self.gateway.handle_timeout(self.now, &mut self.actions);
            times += 1;
            assert!(times < TIMEOUTS_MAX, "a timer runs hot");
        }
    }

    fn take_actions(&mut self, dice: &mut Dice) {
        let mut actions = core::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Resend(piece) => {
                    let exact = checks::check_resend(&piece, self.is_early);
                    self.tally.exact += u64::from(exact);
                    if dice.once_in(16) {
                        checks::check_frame(&piece);
                    }
                    if piece.compress.is_some() {
                        self.compress(&piece, dice);
                    }
                }
                Action::Send(made) => {
                    let truth = (!self.is_early).then_some(&self.traffic);
                    let exact = checks::check_made(&made, self.settings.scheme, truth);
                    self.tally.exact += u64::from(exact);
                }
                Action::Notify(report) => {
                    let truth = (!self.is_early).then_some(&self.traffic);
                    let exact = checks::check_notice(&report, truth);
                    self.tally.exact += u64::from(exact);
                }
                Action::Repeat(packet) => {
                    assert!(packet.header().is_some(), "repeated without headers");
                    let flags = packet.segment.flags;
                    if self.is_early && flags.has(Flags::SYN) && flags.has(Flags::ACK) {
                        self.traffic.take_syn_ack(&packet.segment);
                    }
                }
                Action::Record(record) => self.write_down(record),
            }
        }
        self.actions = actions;
    }

    fn write_down(&mut self, record: FlowRecord) {
        if record.gone {
            self.records.remove(&record.key);
            return;
        }
        let read = FlowRecord::from_bytes(&record.to_bytes());
        assert_eq!(read, Some(record), "a record is not read as it was written");
        self.records.insert(record.key, record);
    }

    /// The piece goes out segment by segment, each compressed if it pays; the mobile restores it.
    fn compress(&mut self, piece: &holdfast_core::Resend<Packet>, dice: &mut Dice) {
        let mut sent = 0;
        while sent < piece.len {
            let len = (piece.len - sent).min(MSS);
            let compressed = self
                .gateway
                .compress(piece, sent, len, piece.flags, self.now);
            let Some(mut payload) = compressed.map(<[u8]>::to_vec) else {
                sent += len;
                continue;
            };
            let plain = piece.payload.octets(piece.offset + sent, len);
            let plain = plain.expect("it was compressed");
            assert!(payload.len() < plain.len(), "larger than plain");
            let is_damaged = dice.once_in(4);
            if is_damaged {
                dice.damage(&mut payload);
            }
            let segment = Segment {
                seq: piece.seq + sent,
                flags: marked(piece.flags),
                payload_len: payload.len() as u32,
                ..piece.payload.segment
            };
            let restored = self.decompressor.handle(&segment, &payload, self.now);
            if let Restored::Segment { payload, .. } = restored {
                assert!(is_damaged || payload == plain, "restored to other bytes");
                self.tally.restored += 1;
            }
            sent += len;
        }
        let _ = self.decompressor.take_forgotten().count();
    }

    /// A mobile leaves for another station and returns. The state that comes from that station is
    /// believed. For flows that are not honest it may be damaged.
    fn hand_over(&mut self, dice: &mut Dice) {
        let mobile = [mobile_address(dice.below(MOBILES) as u8)];
        let states = self.gateway.export(&mobile, self.now, &mut self.actions);
        if !dice.once_in(4) {
            let mut pieces = Vec::new();
            self.gateway
                .release(&mobile, &mut pieces, &mut self.actions);
            pieces.iter().for_each(checks::check_frame);
        }
        self.take_actions(dice);
        let mut taken_over = Vec::new();
        for state in states {
            let mut bytes = state.to_bytes();
            let is_damaged = !is_honest(state.key.fh.port) && dice.once_in(2);
            if is_damaged {
                dice.damage(&mut bytes);
            }
            let Some(read) = FlowState::from_bytes(&bytes) else {
                assert!(is_damaged, "a state is not read as it was written");
                continue;
            };
            let key = read.key;
            if is_damaged && is_honest(key.fh.port) {
                continue;
            }
            let uplink = Header::made(&[], key.mh, key.fh);
            self.gateway
                .adopt(&read, uplink, self.now, &mut self.actions);
            taken_over.push(key);
        }
        if dice.once_in(2) {
            self.gateway.queue_segments(&taken_over);
        }
        self.gateway
            .resume_sending(&taken_over, self.now, &mut self.actions);
    }

    /// The gateway is killed or stops, and another one takes over its records. A record may be
    /// damaged.
    fn restart(&mut self, dice: &mut Dice) {
        if dice.once_in(2) {
            self.gateway.stop_acknowledging();
            self.gateway.abandon_owed(&mut self.actions);
            self.take_actions(dice);
        }
        self.gateway = Gateway::new(self.settings.clone());
        self.taken.clear();
        for record in self.records.values() {
            let mut bytes = record.to_bytes();
            let is_damaged = !is_honest(record.key.fh.port) && dice.once_in(2);
            if is_damaged {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = dice.below(256) as u8;
                correct_check(&mut bytes);
            }
            let read = FlowRecord::from_bytes(&bytes);
            if let Some(record) = read.filter(|read| !is_damaged || !is_honest(read.key.fh.port)) {
                self.gateway.import(&record, self.now);
            }
        }
    }

    fn check_limits(&mut self) {
        self.tally.inputs += 1;
        if self.tally.inputs.is_multiple_of(LIMITS_EVERY) {
            let stats = self.gateway.stats();
            assert!(stats.flows <= self.size.table, "too many flows");
            let known =
                |peer: &IpAddr| self.gateway.mobiles().any(|mobile| mobile.address == *peer);
            assert!(self.taken.iter().all(known), "a forgotten peer is taken");
            assert!(
                stats.cached_bytes <= self.size.cache_bytes as u64,
                "cache too large"
            );
        }
    }
}
