// SPDX-License-Identifier: Apache-2.0
//! Other input from the network: link signals of mobiles, messages between base stations, and
//! compressed payload.

use core::net::{IpAddr, SocketAddr};

use holdfast_core::compression::{
    CompressionSettings, Decompressor, DecompressorLimits, Method, PlainCodec,
};
use holdfast_core::handoff::{
    Body, Channel, Claim, FlowRange, FlowState, Handoff, HandoffAction, HandoffSettings, Message,
    Outcome, PeerId, Peers, Role, StatePart, StationId, Status,
};
use holdfast_core::signal::{
    Abilities, Entropy, GatewayPeers, KeyId, MobileKey, MobileSession, MobileTimers, PeerConfig,
    Prefix,
};
use holdfast_core::{Direction, FlowKey, FlowRecord};
use holdfast_wire::{Duration, Endpoint, Flags, Instant, Options, Segment, SeqNum};

use crate::Totals;
use crate::dice::Dice;
use crate::packet::Packet;

/// Link signals: a mobile's datagrams, damaged or not, to the gateway, and its answers back.
pub(crate) struct Signals {
    dice: Dice,
    now: Instant,
    session: MobileSession,
    gateway: GatewayPeers,
    pub(crate) totals: Totals,
    pub(crate) last: Vec<u8>,
}

fn key() -> MobileKey {
    MobileKey::from_random([7; 36])
}

impl Signals {
    pub(crate) fn new(seed: u64) -> Self {
        let now = Instant::from_millis(1000);
        let any = Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("a prefix");
        let config = PeerConfig {
            name: "mobile".to_owned(),
            key: key(),
            allowed: vec![any],
        };
        let gateway = GatewayPeers::new([config], Duration::from_secs(90));
        Self {
            dice: Dice::of_seed(seed),
            now,
            session: MobileSession::new(key(), [1; 8], &[], MobileTimers::default(), now),
            gateway: gateway.expect("one key"),
            totals: Totals::default(),
            last: Vec::new(),
        }
    }

    fn nonce(&mut self) -> [u8; 24] {
        core::array::from_fn(|_| self.dice.word() as u8)
    }

    pub(crate) fn step(&mut self) {
        self.totals.inputs += 1;
        self.now += Duration::from_micros(self.dice.below(20_000));
        self.act();
        let nonce = self.nonce();
        let datagram = self.session.poll_transmit(self.now, &nonce);
        let mut datagram = datagram.unwrap_or_else(|| {
            let len = self.dice.below(400);
            self.dice.bytes(len)
        });
        let is_damaged = self.dice.once_in(2);
        if is_damaged {
            self.dice.damage(&mut datagram);
        }
        self.last.clone_from(&datagram);
        let from = SocketAddr::from(([10, 0, 0, 1], 4848));
        let entropy = Entropy {
            nonce: self.nonce(),
            challenge: core::array::from_fn(|_| self.dice.word() as u8),
        };
        let handled = self
            .gateway
            .handle_datagram(&datagram, from, self.now, &entropy);
        self.totals.parsed += u64::from(handled.reply.is_some());
        self.totals.actions += u64::from(handled.notice.is_some());
        if let Some(mut reply) = handled.reply {
            assert!(reply.len() <= datagram.len(), "a reply that is longer");
            if self.dice.once_in(3) {
                self.dice.damage(&mut reply);
            }
            let _ = self.session.handle_datagram(&reply, self.now);
        }
    }

    /// Something happens at the mobile.
    fn act(&mut self) {
        let now = self.now;
        match self.dice.below(6) {
            0 => self.session.link_up(now),
            1 => self.session.link_down(now),
            2 => {
                let lead = self.dice.word() as u16;
                self.session.going_down_soon(lead, now);
            }
            3 => {
                let count = self.dice.below(17);
                let address = |_| IpAddr::from([10, 0, 0, self.dice.word() as u8]);
                let addresses: Vec<_> = (0..count).map(address).collect();
                self.session.set_addresses(&addresses, now);
            }
            4 => self
                .session
                .set_abilities(Abilities::ZSTD.with(Abilities::DEFLATE), now),
            _ => self.session.register(now),
        }
    }
}

/// Messages between base stations: as bytes, in sealed datagrams, and in the machine.
pub(crate) struct Stations {
    dice: Dice,
    now: Instant,
    west: Channel,
    east: Channel,
    machine: Handoff<Packet>,
    actions: Vec<HandoffAction<Packet>>,
    pub(crate) totals: Totals,
    pub(crate) last: Vec<u8>,
}

const WEST: PeerId = PeerId(0);

fn station(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4849))
}

impl Stations {
    pub(crate) fn new(seed: u64) -> Self {
        let channel = |run, neighbour| Channel::new(key(), run, Peers::new([station(neighbour)]));
        Self {
            dice: Dice::of_seed(seed),
            now: Instant::from_millis(1000),
            west: channel(100, 2),
            east: channel(200, 1),
            machine: Handoff::new(HandoffSettings::default(), [WEST]),
            actions: Vec::new(),
            totals: Totals::default(),
            last: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self) {
        self.totals.inputs += 1;
        self.now += Duration::from_micros(self.dice.below(5_000));
        let message = self.message();
        let mut bytes = message.to_bytes();
        let read = Message::from_bytes(&bytes);
        assert_eq!(read.as_ref(), Ok(&message), "read as another message");
        self.dice.damage(&mut bytes);
        self.last.clone_from(&bytes);
        if let Ok(damaged) = Message::from_bytes(&bytes) {
            self.totals.parsed += 1;
            let again = Message::from_bytes(&damaged.to_bytes());
            assert_eq!(again.as_ref(), Ok(&damaged), "read as another message");
            self.give(damaged);
        }
        if self.dice.once_in(4) {
            self.give(message);
        } else {
            self.pass_sealed(&message);
        }
        self.read_state(bytes);
        if self.machine.poll_timeout().is_some_and(|at| at <= self.now) {
            self.machine.handle_timeout(self.now, &mut self.actions);
        }
        let count = self.actions.len() as u64;
        self.totals.actions += count;
        self.totals.actions_most = self.totals.actions_most.max(count);
        self.actions.clear();
    }

    fn give(&mut self, message: Message) {
        self.machine
            .handle_message(WEST, message, self.now, &mut self.actions);
    }

    /// By a sealed datagram, that may be damaged on its way.
    fn pass_sealed(&mut self, message: &Message) {
        let nonce = core::array::from_fn(|_| self.dice.word() as u8);
        let mut datagram = self.west.seal(WEST, message, &nonce);
        if self.dice.once_in(2) {
            self.dice.damage(&mut datagram);
        }
        if let Err(holdfast_core::handoff::Refused::Unacquainted(peer)) =
            self.east.open(&datagram, station(1))
        {
            let greeting = self.east.greeting(peer, &nonce);
            let _ = self.west.open(&greeting, station(2));
        }
    }

    /// What a neighbour or a predecessor wrote down of a flow.
    fn read_state(&mut self, mut bytes: Vec<u8>) {
        if self.dice.once_in(2) {
            let len = self.dice.below(300);
            bytes = self.dice.bytes(len);
            if let Some(version) = bytes.first_mut() {
                *version = 2;
            }
        }
        if let Some(state) = FlowState::from_bytes(&bytes) {
            let again = FlowState::from_bytes(&state.to_bytes());
            assert_eq!(again, Some(state), "read as another state");
        }
        bytes.resize(holdfast_core::FLOW_RECORD_LEN, 0);
        if let Ok(record) = <&[u8; holdfast_core::FLOW_RECORD_LEN]>::try_from(&bytes[..]) {
            let _ = FlowRecord::from_bytes(record);
        }
    }

    fn message(&mut self) -> Message {
        let dice = &mut self.dice;
        let mobile = KeyId(dice.below(3) as u32);
        let epoch = dice.below(10);
        let station = StationId(dice.below(3) as u32);
        let address = |last: u64| IpAddr::from([10, 2, 0, last as u8]);
        let claim = Claim {
            epoch,
            station,
            addresses: (0..dice.below(4)).map(address).collect(),
        };
        let body = match dice.below(6) {
            0 => Body::Status(Status {
                claim,
                role: dice.pick(&[
                    Role::Idle,
                    Role::Buffering,
                    Role::Synchronising,
                    Role::Forwarding,
                ]),
                prepare_ms: dice.below(5000) as u32,
            }),
            1 => Body::TakeOver(claim),
            2 => Body::Yours(claim),
            3 => {
                let datagrams = dice.below(4) as u16;
                let outcome = dice.pick(&[
                    Outcome::NotHere,
                    Outcome::Yielded { datagrams },
                    Outcome::Stale { epoch, station },
                ]);
                Body::Answer { epoch, outcome }
            }
            _ => self.body_with_flows(epoch),
        };
        Message { mobile, body }
    }

    /// The body of a message about flows and their bytes.
    fn body_with_flows(&mut self, epoch: u64) -> Body {
        let dice = &mut self.dice;
        let number = dice.below(4) as u16;
        let flow = FlowKey {
            fh: end([10, 1, 0, 2], 80),
            mh: end([10, 2, 0, dice.below(4) as u8], 4000),
        };
        let (from, to) = (SeqNum::new(dice.word()), SeqNum::new(dice.word()));
        let range = FlowRange { flow, from, to };
        match dice.below(4) {
            0 => {
                let (count, len) = (dice.below(5) as u16, dice.below(200));
                let records = dice.bytes(len);
                Body::State(StatePart {
                    epoch,
                    number,
                    count,
                    records,
                })
            }
            1 => Body::StateReceived { epoch, number },
            2 => Body::Want(range),
            _ => Body::Given(range),
        }
    }
}

fn end(address: [u8; 4], port: u16) -> Endpoint {
    Endpoint {
        address: IpAddr::from(address),
        port,
    }
}

/// Compressed payload that comes to a mobile: rightly made and then damaged, or any bytes.
pub(crate) struct Payloads {
    dice: Dice,
    now: Instant,
    decompressor: Decompressor,
    codecs: [PlainCodec; 2],
    pub(crate) totals: Totals,
    pub(crate) last: Vec<u8>,
}

impl Payloads {
    pub(crate) fn new(seed: u64) -> Self {
        let limits = DecompressorLimits {
            flows_max: 8,
            ..DecompressorLimits::default()
        };
        let codec = |method| PlainCodec::new(CompressionSettings { method, level: 3 });
        Self {
            dice: Dice::of_seed(seed),
            now: Instant::from_millis(1000),
            decompressor: Decompressor::new(limits),
            codecs: [codec(Method::Deflate), codec(Method::Zstd)],
            totals: Totals::default(),
            last: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self) {
        use holdfast_core::compression::{Restored, marked};
        self.totals.inputs += 1;
        self.now += Duration::from_micros(self.dice.below(100_000));
        let payload = self.payload();
        self.last.clone_from(&payload);
        let flags = Flags(self.dice.word() as u8);
        let segment = Segment {
            from: end([10, 1, 0, 2], 80),
            to: end([10, 2, 0, 2], 4000 + self.dice.below(12) as u16),
            seq: SeqNum::new(self.dice.below(100_000) as u32),
            ack: SeqNum::new(1),
            flags: if self.dice.once_in(4) {
                flags
            } else {
                marked(flags)
            },
            window: 1000,
            options: Options::default(),
            payload_len: payload.len() as u32,
        };
        let restored = self.decompressor.handle(&segment, &payload, self.now);
        if let Restored::Segment { payload, .. } = restored {
            self.totals.parsed += 1;
            assert!(payload.len() <= 65_475, "longer than an IP packet");
        }
        self.totals.actions += self.decompressor.take_forgotten().count() as u64;
        assert!(self.decompressor.followed() <= 8, "too many flows");
        if self.dice.once_in(1000) {
            let key = FlowKey::of(&segment, Direction::Downlink);
            self.decompressor.forget(&key);
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        let len = self.dice.below(1400) + 1;
        let mut plain = self.dice.bytes(len);
        for byte in &mut plain {
            *byte &= 3;
        }
        if self.dice.once_in(4) {
            // The first byte of the header is right, or nearly so.
            plain[0] = 0x50 | self.dice.below(16) as u8;
            return plain;
        }
        let codec = &mut self.codecs[self.dice.below(2) as usize];
        let mut payload = codec.compress(&plain, &[]).unwrap_or(&plain).to_vec();
        if self.dice.once_in(2) {
            self.dice.damage(&mut payload);
        }
        payload
    }
}
