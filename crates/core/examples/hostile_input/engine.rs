// SPDX-License-Identifier: Apache-2.0
//! The gateway's engine with one scheme: frames in, actions out as frames, as the daemon does it.

use std::collections::BTreeMap;

use holdfast_core::compression::{
    CompressionSettings, Decompressor, DecompressorLimits, Method, Restored, marked,
};
use holdfast_core::signal::Abilities;
use holdfast_core::{
    Action, BandwidthSettings, Direction, FlowKey, FlowRecord, Gateway, LinkEvent, LinkSource,
    MtcpSetUp, Payload, Scheme, Settings, SnoopSettings, Verdict,
};
use holdfast_wire::{
    Duration, Flags, Instant, Segment, checksum_is_right, dscp, ip_checksum_is_right, is_icmp,
    parse, parse_packet_too_big,
};

use crate::Totals;
use crate::checks;
use crate::dice::Dice;
use crate::packet::Packet;
use crate::traffic::{MOBILES, Traffic, mobile_address};

const FLOWS_MAX: usize = 96;
/// Damaged frames open flows without further segments. They must leave the table soon.
const FLOW_IDLE_MAX: Duration = Duration::from_secs(20);
const CACHE_BYTES_MAX: usize = 4 << 20;
/// A segment of the MH's link, in payload.
const MSS: u32 = 1448;
/// Timers that are due again and again at one moment.
const TIMEOUTS_MAX: u32 = 1000;

/// A gateway, what comes to it, and what it has written down.
pub(crate) struct Engine {
    settings: Settings,
    is_early: bool,
    gateway: Gateway<Packet>,
    dice: Dice,
    traffic: Traffic,
    now: Instant,
    records: BTreeMap<FlowKey, FlowRecord>,
    actions: Vec<Action<Packet>>,
    decompressor: Decompressor,
    pub(crate) totals: Totals,
    /// The last frame, for the report of a panic.
    pub(crate) last: Vec<u8>,
}

fn settings(scheme: &str, seed: u64) -> Settings {
    let mut settings = Settings {
        scheme: match scheme {
            "hold" => Scheme::Hold,
            "mtcp-plus" => Scheme::MtcpPlus,
            "mtcp2007" => Scheme::Mtcp2007,
            "snoop" | "snoop95" => Scheme::Snoop,
            _ => Scheme::Mtcp,
        },
        flows_max: FLOWS_MAX,
        flow_idle_max: FLOW_IDLE_MAX,
        cache_bytes_max: CACHE_BYTES_MAX,
        flow_cache_bytes_max: 1 << 20,
        flow_cache_entries_max: 500,
        hash_seed: 7,
        bandwidth: match seed % 3 {
            0 => BandwidthSettings::one_cell(Some(1_000_000)),
            _ => BandwidthSettings::default(),
        },
        ..Settings::default()
    };
    match scheme {
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

impl Engine {
    pub(crate) fn new(scheme: &str, seed: u64) -> Self {
        let settings = settings(scheme, seed);
        Self {
            is_early: settings.mtcp.set_up == MtcpSetUp::Early,
            gateway: Gateway::new(settings.clone()),
            settings,
            dice: Dice::of_seed(seed),
            traffic: Traffic::new(),
            now: Instant::from_millis(1000),
            records: BTreeMap::new(),
            actions: Vec::new(),
            decompressor: Decompressor::new(DecompressorLimits::default()),
            totals: Totals::default(),
            last: Vec::new(),
        }
    }

    /// One input, and what follows from it.
    pub(crate) fn step(&mut self) {
        let input = self.traffic.next(&mut self.dice);
        self.last.clone_from(&input.frame);
        let frame = input.frame;
        let longest = if self.dice.once_in(50) {
            800_000_000
        } else {
            3_000_000
        };
        self.now += Duration::from_nanos(self.dice.below(longest));
        // The daemon calls these before it parses a frame.
        let _ = (is_icmp(&frame, 0), dscp(&frame));
        let _ = ip_checksum_is_right(&frame, 0);
        if let Some(too_big) = parse_packet_too_big(&frame, 0) {
            self.gateway
                .handle_packet_too_big(&too_big, self.now, &mut self.actions);
        }
        if let Ok((segment, layout)) = parse(&frame, 0) {
            self.totals.parsed += 1;
            let _ = checksum_is_right(&frame, &segment, &layout);
            let segment_len = segment.payload_len.min(1 + self.dice.below(1448) as u32);
            let packet = Packet::new(frame, layout, segment, segment_len);
            self.put(input.direction, &packet);
        }
        if self.dice.once_in(500) {
            self.signal_link();
        }
        if self.dice.once_in(1000) {
            self.report_too_big();
        }
        self.run_timers();
        self.take_actions();
        if self.dice.once_in(50_000) {
            self.restart();
        }
        self.check_limits();
    }

    fn put(&mut self, direction: Direction, packet: &Packet) {
        let segment = packet.segment;
        let gateway = &mut self.gateway;
        let actions = &mut self.actions;
        let verdict = gateway.handle_segment(direction, &segment, packet, self.now, actions);
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
                    self.totals.exact += u64::from(exact);
                }
                if let Some(mut header) = packet.header() {
                    header.set_ack(ack);
                    header.set_window(window);
                }
            }
            Verdict::Suppress => {}
        }
    }

    /// The mobile's daemon follows what is not compressed, too.
    fn give_to_mobile(&mut self, direction: Direction, packet: &Packet) {
        if self.settings.compression.is_some() && direction == Direction::Downlink {
            let payload = packet.payload();
            let payload = &payload[..payload.len().min(packet.segment.payload_len as usize)];
            let _ = self.decompressor.handle(&packet.segment, payload, self.now);
        }
    }

    fn signal_link(&mut self) {
        let source =
            self.dice
                .pick(&[LinkSource::Signal, LinkSource::Carrier, LinkSource::Command]);
        let event = self.dice.pick(&[
            LinkEvent::Up,
            LinkEvent::Down,
            LinkEvent::GoingDownSoon(None),
        ]);
        let (now, actions) = (self.now, &mut self.actions);
        if source == LinkSource::Carrier {
            self.gateway.handle_all_links(event, source, now, actions);
            if event == LinkEvent::Down && !self.dice.once_in(4) {
                self.now += Duration::from_millis(1);
                let (now, actions) = (self.now, &mut self.actions);
                let up = LinkEvent::Up;
                self.gateway.handle_all_links(up, source, now, actions);
            }
            return;
        }
        let address = [mobile_address(self.dice.below(MOBILES) as u8)];
        self.gateway
            .handle_link(&address, event, source, now, actions);
        if !self.dice.once_in(4) {
            let can = Abilities::ZSTD.with(Abilities::DEFLATE);
            let session = self.dice.below(3);
            let until = now + Duration::from_secs(90);
            self.gateway.handle_abilities(&address, can, session, until);
        } else if self.dice.once_in(4) {
            self.gateway.forget_addresses(&address);
        }
    }

    /// A router reports a packet that was too big. The packet is in flight, or the report is forged.
    fn report_too_big(&mut self) {
        let Ok((segment, _)) = parse(&self.last, 0) else {
            return;
        };
        let message = holdfast_wire::PacketTooBig {
            from: segment.from,
            to: segment.to,
            seq: segment.seq - self.dice.below(10_000) as u32,
            mtu: self.dice.below(2000) as u32,
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

    fn take_actions(&mut self) {
        let mut actions = core::mem::take(&mut self.actions);
        self.totals.actions += actions.len() as u64;
        self.totals.actions_most = self.totals.actions_most.max(actions.len() as u64);
        for action in actions.drain(..) {
            match action {
                Action::Resend(piece) => {
                    let exact = checks::check_resend(&piece, self.is_early);
                    self.totals.exact += u64::from(exact);
                    if self.dice.once_in(16) {
                        checks::check_frame(&piece);
                    }
                    if piece.compress.is_some() {
                        self.compress(&piece);
                    }
                }
                Action::Send(made) => {
                    let truth = (!self.is_early).then_some(&self.traffic);
                    let exact = checks::check_made(&made, self.settings.scheme, truth);
                    self.totals.exact += u64::from(exact);
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
    fn compress(&mut self, piece: &holdfast_core::Resend<Packet>) {
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
            let is_damaged = self.dice.once_in(4);
            if is_damaged {
                self.dice.damage(&mut payload);
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
                self.totals.restored += 1;
            }
            sent += len;
        }
        let _ = self.decompressor.take_forgotten().count();
    }

    /// The gateway is killed, and another one takes over what it has written down.
    fn restart(&mut self) {
        self.gateway = Gateway::new(self.settings.clone());
        for record in self.records.values() {
            self.gateway.import(record, self.now);
        }
    }

    fn check_limits(&mut self) {
        self.totals.inputs += 1;
        if self.totals.inputs.is_multiple_of(1024) {
            let stats = self.gateway.stats();
            assert!(stats.flows <= FLOWS_MAX, "too many flows");
            assert!(
                stats.cached_bytes <= CACHE_BYTES_MAX as u64,
                "cache too large"
            );
            self.totals.flows = stats.flows as u64;
        }
    }
}
