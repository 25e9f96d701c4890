// SPDX-License-Identifier: Apache-2.0
//! Messages between base stations: as bytes, in sealed datagrams, and in the machine.

use core::net::{IpAddr, SocketAddr};

use holdfast_core::handoff::{
    Body, Channel, Claim, Disposition, FlowRange, FlowState, Handoff, HandoffAction,
    HandoffSettings, Incoming, Message, Outcome, PeerId, Peers, Refused, Role, StatePart,
    StationId, Status,
};
use holdfast_core::signal::{KeyId, LinkNotice};
use holdfast_core::{FLOW_RECORD_LEN, FlowKey, FlowRecord, LinkEvent};
use holdfast_wire::{Duration, Endpoint, Instant, SeqNum, parse};

use crate::dice::Dice;
use crate::packet::Packet;
use crate::sealed::{self, Nonces};
use crate::state_file::correct_check;
use crate::{Subject, Tally};

const MAGIC: [u8; 2] = *b"HO";
/// Paths: to one station, and to a group.
const PATHS: [u8; 2] = [0, 1];
const WEST: PeerId = PeerId(0);
/// A neighbour that sends only invented messages.
const NORTH: PeerId = PeerId(1);
const MOBILES: u64 = 3;
const BUFFER_BYTES_MAX: usize = 16 << 10;

/// A station in the east, and its neighbours.
pub struct Stations {
    now: Instant,
    west: Channel,
    east: Channel,
    nonces: Nonces,
    machine: Handoff<Packet>,
    actions: Vec<HandoffAction<Packet>>,
    /// States of flows that the engine may have.
    states: Vec<FlowState>,
    tally: Tally,
}

fn station(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4849))
}

impl Default for Stations {
    fn default() -> Self {
        let channel = |run, neighbours: &[u8]| {
            let neighbours = neighbours.iter().map(|last| station(*last));
            Channel::new(sealed::key(), run, Peers::new(neighbours))
        };
        let settings = HandoffSettings {
            station: StationId(1),
            mobiles_max: MOBILES as usize - 1,
            mobile_buffer_bytes_max: BUFFER_BYTES_MAX / 2,
            buffer_bytes_max: BUFFER_BYTES_MAX,
            ..HandoffSettings::default()
        };
        Self {
            now: Instant::from_millis(1000),
            west: channel(100, &[2]),
            east: channel(200, &[1, 3]),
            nonces: Nonces::default(),
            machine: Handoff::new(settings, [WEST, NORTH]),
            actions: Vec::new(),
            states: Vec::new(),
            tally: Tally::default(),
        }
    }
}

impl Subject for Stations {
    fn step(&mut self, dice: &mut Dice) {
        self.tally.inputs += 1;
        let longest = if dice.once_in(50) { 4_000_000 } else { 5_000 };
        self.now += Duration::from_micros(dice.below(longest));
        match dice.below(8) {
            0 => self.give_bytes(dice),
            1 => self.read_state(dice),
            2 => self.notice(dice),
            3 => self.arrive(dice),
            4 => {
                let message = message(dice);
                self.give(NORTH, message);
            }
            _ => self.pass_sealed(dice),
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= self.now) {
            self.machine.handle_timeout(self.now, &mut self.actions);
            let next = self.machine.poll_timeout();
            assert!(next.is_none_or(|at| at > self.now), "a timer runs hot");
        }
        self.take_actions();
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Stations {
    /// Checks that a message is read as it was written, and a damaged one as one message at most.
    fn give_bytes(&mut self, dice: &mut Dice) {
        let message = message(dice);
        let mut bytes = message.to_bytes();
        let read = Message::from_bytes(&bytes);
        assert_eq!(read.as_ref(), Ok(&message), "read as another message");
        dice.damage(&mut bytes);
        self.tally.last.clone_from(&bytes);
        if let Ok(damaged) = Message::from_bytes(&bytes) {
            let again = Message::from_bytes(&damaged.to_bytes());
            assert_eq!(again.as_ref(), Ok(&damaged), "read as another message");
            self.give(WEST, damaged);
        }
    }

    fn give(&mut self, from: PeerId, message: Message) {
        self.tally.parsed += 1;
        self.machine
            .handle_message(from, message, self.now, &mut self.actions);
    }

    /// A datagram of the neighbour, or an invented one with its key.
    fn pass_sealed(&mut self, dice: &mut Dice) {
        let nonce = self.nonces.next();
        let datagram = match dice.below(4) {
            0 => {
                let len = dice.below(300);
                let bytes = dice.bytes(len);
                if dice.once_in(4) {
                    bytes
                } else {
                    sealed::seal(MAGIC, dice.pick(&PATHS), nonce, &bytes)
                }
            }
            1 => {
                let (mobile, packet) = (key_of(dice), packet(dice));
                let datagram = if dice.once_in(2) {
                    self.west.seal_copy(mobile, &packet, &nonce)
                } else {
                    self.west.seal_wanted(WEST, mobile, &packet, &nonce)
                };
                sealed::disturb(datagram, dice)
            }
            _ => {
                let message = message(dice);
                sealed::disturb(self.west.seal(WEST, &message, &nonce), dice)
            }
        };
        self.tally.last.clone_from(&datagram);
        match self.east.open(&datagram, station(1)) {
            Ok(Incoming::Message(from, message)) => self.give(from, message),
            Ok(Incoming::Copy { mobile, packet, .. }) => {
                if let Some(copy) = copy_of(packet) {
                    self.machine
                        .handle_copy(mobile, copy, self.now, &mut self.actions);
                }
            }
            Ok(Incoming::Greeting(Some(peer))) => {
                self.machine.handle_restart(peer, &mut self.actions);
            }
            Err(Refused::UnknownRun(peer)) => {
                let greeting = self.east.greeting(peer, &self.nonces.next());
                let _ = self.west.open(&greeting, station(2));
            }
            Ok(Incoming::Greeting(None)) | Err(_) => {}
        }
    }

    /// Reads a flow's state, as a neighbour or a predecessor may have written it.
    fn read_state(&mut self, dice: &mut Dice) {
        let len = dice.below(300);
        let mut bytes = vec![2];
        bytes.extend(dice.bytes(len));
        if dice.once_in(2)
            && let Some(state) = self.states.first()
        {
            bytes = state.to_bytes();
            dice.damage(&mut bytes);
        }
        self.tally.last.clone_from(&bytes);
        if let Some(state) = FlowState::from_bytes(&bytes) {
            self.tally.parsed += 1;
            let again = FlowState::from_bytes(&state.to_bytes());
            assert_eq!(again.as_ref(), Some(&state), "read as another state");
            self.states.truncate(2);
            self.states.insert(0, state);
        }
        bytes.resize(FLOW_RECORD_LEN, 0);
        let mut record = *bytes.first_chunk().expect("as long");
        correct_check(&mut record);
        if let Some(record) = FlowRecord::from_bytes(&record) {
            let again = FlowRecord::from_bytes(&record.to_bytes());
            assert_eq!(again, Some(record), "read as another record");
        }
    }

    /// A mobile reports to this station.
    fn notice(&mut self, dice: &mut Dice) {
        let notice = LinkNotice {
            key: key_of(dice),
            event: dice.pick(&[
                LinkEvent::Up,
                LinkEvent::Up,
                LinkEvent::Down,
                LinkEvent::GoingDownSoon(None),
            ]),
            addresses: addresses(dice),
            removed: addresses(dice),
            epoch: dice.below(10),
        };
        self.machine
            .handle_notice(&notice, self.now, &mut self.actions);
        if dice.once_in(4) {
            let address = address(dice);
            self.machine.prepare(address, self.now, &mut self.actions);
        }
    }

    /// A packet comes from the wired route or from the mobile.
    fn arrive(&mut self, dice: &mut Dice) {
        let bytes = packet(dice);
        self.tally.last.clone_from(&bytes);
        let Some(copy) = copy_of(bytes) else {
            return;
        };
        let segment = copy.segment;
        let arrival = self.machine.arrival(segment.to.address, self.now);
        if let Disposition::Keep(mobile) = arrival.disposition
            && self.machine.has_room(mobile, core::slice::from_ref(&copy))
        {
            self.machine.keep(mobile, copy, self.now);
        }
        if self.machine.wants_uplink(segment.to.address) {
            let flow = flow(dice);
            let ack = segment.seq + dice.below(3000) as u32;
            self.machine.handle_uplink(&flow, ack, &mut self.actions);
        }
        let buffered = self.machine.views(self.now).map(|view| view.buffered_bytes);
        let buffered: usize = buffered.sum();
        assert!(buffered <= BUFFER_BYTES_MAX, "too much is buffered");
    }

    fn take_actions(&mut self) {
        let actions = core::mem::take(&mut self.actions);
        let mut answers = Vec::new();
        for action in actions {
            match action {
                HandoffAction::Send { message, .. } => {
                    let read = Message::from_bytes(&message.to_bytes());
                    assert_eq!(read.as_ref(), Ok(&message), "read as another message");
                }
                HandoffAction::Export { mobile, to, .. } => {
                    let states = &self.states;
                    self.machine
                        .send_state(mobile, to, states, self.now, &mut answers);
                }
                _ => {}
            }
        }
        for action in answers {
            if let HandoffAction::Send { message, .. } = action {
                let read = Message::from_bytes(&message.to_bytes());
                assert_eq!(read.as_ref(), Ok(&message), "read as another message");
            }
        }
    }
}

fn key_of(dice: &mut Dice) -> KeyId {
    KeyId(dice.below(MOBILES) as u32)
}

fn address(dice: &mut Dice) -> IpAddr {
    IpAddr::from([10, 2, 0, dice.below(4) as u8])
}

fn addresses(dice: &mut Dice) -> Vec<IpAddr> {
    (0..dice.below(4)).map(|_| address(dice)).collect()
}

fn flow(dice: &mut Dice) -> FlowKey {
    FlowKey {
        fh: end([10, 1, 0, 2], 80),
        mh: Endpoint {
            address: address(dice),
            port: 4000,
        },
    }
}

/// A packet of [`flow`] to its MH.
fn packet(dice: &mut Dice) -> Vec<u8> {
    let (len, last) = (dice.below(1400) as usize, dice.below(4) as u8);
    let total = (40 + len) as u16;
    let mut bytes = vec![
        0x45,
        0,
        (total >> 8) as u8,
        total as u8,
        0,
        0,
        0x40,
        0,
        64,
        6,
        0,
        0,
    ];
    bytes.extend([10, 1, 0, 2, 10, 2, 0, last, 0, 80, 0x0f, 0xa0]);
    let seq = if dice.once_in(8) {
        dice.word()
    } else {
        dice.below(1 << 16) as u32
    };
    bytes.extend(seq.to_be_bytes());
    bytes.extend([
        0,
        0,
        0,
        1,
        0x50,
        0x10 | dice.below(4) as u8,
        1,
        0,
        0,
        0,
        0,
        0,
    ]);
    bytes.resize(40 + len, 1);
    bytes
}

fn copy_of(bytes: Vec<u8>) -> Option<Packet> {
    let (segment, layout) = parse(&bytes, 0).ok()?;
    let len = segment.payload_len;
    Some(Packet::new(bytes, layout, segment, len))
}

fn message(dice: &mut Dice) -> Message {
    let mobile = key_of(dice);
    let epoch = dice.below(10);
    let station = StationId(dice.below(3) as u32);
    let claim = |dice: &mut Dice| Claim {
        epoch,
        station,
        addresses: addresses(dice),
    };
    let body = match dice.below(6) {
        0 => Body::Status(Status {
            claim: claim(dice),
            role: dice.pick(&[
                Role::Idle,
                Role::Buffering,
                Role::Synchronising,
                Role::Forwarding,
            ]),
            prepare_ms: dice.below(5000) as u32,
        }),
        1 => Body::TakeOver(claim(dice)),
        2 => Body::Yours(claim(dice)),
        3 => {
            let datagrams = dice.below(4) as u16;
            let outcome = dice.pick(&[
                Outcome::NotHere,
                Outcome::StateFollows { datagrams },
                Outcome::Stale { epoch, station },
            ]);
            Body::Answer { epoch, outcome }
        }
        _ => body_with_flows(epoch, dice),
    };
    Message { mobile, body }
}

/// The body of a message about flows and their bytes.
fn body_with_flows(epoch: u64, dice: &mut Dice) -> Body {
    let number = dice.below(4) as u16;
    let flow = flow(dice);
    let from = SeqNum::new(dice.below(1 << 16) as u32);
    let to = from + dice.below(1 << 16) as u32;
    let range = FlowRange { flow, from, to };
    match dice.below(4) {
        0 => {
            let (count, len) = (dice.below(5) as u16, dice.below(200));
            let mut records = vec![0, len as u8 + 1, 2];
            records.extend(dice.bytes(len));
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

pub(crate) fn end(address: [u8; 4], port: u16) -> Endpoint {
    Endpoint {
        address: IpAddr::from(address),
        port,
    }
}
