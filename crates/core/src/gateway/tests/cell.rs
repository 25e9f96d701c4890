// SPDX-License-Identifier: Apache-2.0
//! Several mobiles behind one link, in one cell or two: who gets how much, and how long the
//! link's queue is.
//!
//! FHs that send all that the window lets them, a link of a rate with a queue, MHs that
//! acknowledge each segment. Nothing is lost.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::{Endpoint, Flags, Instant, Options, Segment, SeqNum, Timestamps};

use super::agenda::Agenda;
use super::bench::settings;
use crate::bandwidth::CellSettings;
use crate::testing::{FH, Packet, direction_of};
use crate::{
    Action, BandwidthSettings, Direction, Gateway, LinkEvent, LinkSource, Scheme, Settings, Verdict,
};

const LEN: u32 = 1000;
const RATE: u64 = 2_500_000;
const DELAY: Duration = Duration::from_millis(25);
const WIRED_DELAY: Duration = Duration::from_millis(5);
const SHIFT: u8 = 7;
/// What an FH begins with and has on its way at most, bytes.
const FH_INITIAL: u32 = 10 * LEN;
const FH_MAX: u32 = 300_000;

/// What reaches one of them.
#[derive(Debug)]
enum Event {
    Gateway(Direction, Packet),
    Fh(Segment),
    Mh(Segment),
    /// A delayed ACK of that connection is due.
    Ack(usize),
}

/// A connection, both ends.
struct Connection {
    mh: Endpoint,
    /// The FH: what it has sent up to, what it has an ACK for, how far its window goes.
    nxt: SeqNum,
    una: SeqNum,
    edge: SeqNum,
    cwnd: u32,
    /// The MH: what it has received, and the timestamp that it echoes.
    received: SeqNum,
    echo: u32,
    /// Segments that it has not acknowledged yet.
    unacked: u32,
    /// It has something to send.
    sends: bool,
}

struct Cell {
    gateway: Gateway<Packet>,
    now: Instant,
    agenda: Agenda<Event>,
    connections: Vec<Connection>,
    /// When the link is free; the longest wait for it.
    free_at: Instant,
    longest_wait: Duration,
    link_is_down: bool,
    /// The link's rate, bytes a second.
    rate: u64,
    /// The MHs acknowledge each second segment, and what waits at the ticks of such a clock (as
    /// BSD does).
    delayed_ack: Option<Duration>,
}

impl Cell {
    /// `flows` connections of each mobile, from 10.2.0.10 on.
    fn new(settings: Settings, flows: &[u16]) -> Self {
        let mut cell = Self {
            gateway: Gateway::new(settings),
            now: Instant::from_millis(1000),
            agenda: Agenda::of_inputs(u64::MAX),
            connections: Vec::new(),
            free_at: Instant::from_millis(1000),
            longest_wait: Duration::ZERO,
            link_is_down: false,
            rate: RATE,
            delayed_ack: None,
        };
        for (mobile, flows) in flows.iter().enumerate() {
            for flow in 0..*flows {
                cell.connect(mobile as u8, 40_000 + flow);
            }
        }
        cell
    }

    fn connect(&mut self, mobile: u8, port: u16) {
        let address = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 10 + mobile));
        let number = self.connections.len();
        self.connections.push(Connection {
            mh: Endpoint { address, port },
            nxt: SeqNum::new(1),
            una: SeqNum::new(1),
            edge: SeqNum::new(1),
            cwnd: FH_INITIAL,
            received: SeqNum::new(1),
            echo: 0,
            unacked: 0,
            sends: true,
        });
        let mut syn = self.ack_of(number);
        (syn.seq, syn.flags) = (SeqNum::new(5000), Flags::SYN);
        let mut answer = self.data_of(number, 0);
        (answer.seq, answer.flags) = (SeqNum::new(0), Flags::SYN.with(Flags::ACK));
        for segment in [&mut syn, &mut answer] {
            segment.options.window_scale = Some(SHIFT);
        }
        self.at_gateway(Direction::Uplink, Packet::new(syn, &[], 1));
        self.at_gateway(Direction::Downlink, Packet::new(answer, &[], 1));
        let ack = self.ack_of(number);
        self.at_gateway(Direction::Uplink, Packet::new(ack, &[], 1));
    }

    fn clock(&self) -> u32 {
        (self.now.as_nanos() / 1_000_000) as u32
    }

    fn data_of(&self, number: usize, len: u32) -> Segment {
        let connection = &self.connections[number];
        let tsval = self.clock();
        Segment {
            from: FH,
            to: connection.mh,
            seq: connection.nxt,
            ack: SeqNum::new(5001),
            flags: Flags::ACK,
            window: 500,
            options: Options {
                timestamps: Some(Timestamps {
                    tsval,
                    tsecr: tsval,
                }),
                ..Options::default()
            },
            payload_len: len,
        }
    }

    fn ack_of(&self, number: usize) -> Segment {
        let connection = &self.connections[number];
        Segment {
            from: connection.mh,
            to: FH,
            seq: SeqNum::new(5001),
            ack: connection.received,
            window: 8000,
            options: Options {
                timestamps: Some(Timestamps {
                    tsval: self.clock(),
                    tsecr: connection.echo,
                }),
                ..Options::default()
            },
            ..self.data_of(number, 0)
        }
    }

    fn number_of(&self, mh: Endpoint) -> usize {
        let mut all = self.connections.iter();
        all.position(|connection| connection.mh == mh)
            .expect("a connection")
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.agenda.at(at, event);
    }

    fn run(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        for number in 0..self.connections.len() {
            self.send(number);
        }
        loop {
            let due = self.gateway.poll_timeout().filter(|at| *at <= until);
            let next = self.agenda.next_at().filter(|at| *at <= until);
            if let Some(at) = due.filter(|at| next.is_none_or(|next| *at < next)) {
                self.now = self.now.max(at);
                let mut actions = Vec::new();
                self.gateway.handle_timeout(self.now, &mut actions);
                self.act(actions);
                continue;
            }
            let Some(at) = next else { break };
            self.now = at;
            match self.agenda.take(at).expect("one") {
                Event::Gateway(direction, packet) => self.at_gateway(direction, packet),
                Event::Fh(ack) => self.at_fh(&ack),
                Event::Mh(data) => self.at_mh(&data),
                Event::Ack(number) => self.acknowledge(number),
            }
        }
        self.now = until;
    }

    /// The FH sends all that it may.
    fn send(&mut self, number: usize) {
        loop {
            let connection = &self.connections[number];
            let limit = connection.edge.min(connection.una + connection.cwnd);
            if !connection.sends || (connection.nxt + LEN).after(limit) {
                return;
            }
            let data = self.data_of(number, LEN);
            self.connections[number].nxt += LEN;
            let packet = Packet::new(data, &[0; LEN as usize], LEN);
            self.at(
                self.now + WIRED_DELAY,
                Event::Gateway(Direction::Downlink, packet),
            );
        }
    }

    fn at_fh(&mut self, ack: &Segment) {
        let number = self.number_of(ack.from);
        let connection = &mut self.connections[number];
        let acked = ack.ack.max(connection.una).distance_from(connection.una);
        connection.cwnd = (connection.cwnd + acked).min(FH_MAX);
        connection.una = connection.una.max(ack.ack);
        connection.edge = connection
            .edge
            .max(ack.ack + (u32::from(ack.window) << SHIFT));
        self.send(number);
    }

    fn at_mh(&mut self, data: &Segment) {
        let number = self.number_of(data.to);
        let connection = &mut self.connections[number];
        if data.seq.at_or_before(connection.received) {
            connection.received = connection.received.max(data.end());
            if connection.unacked == 0 {
                connection.echo = data
                    .options
                    .timestamps
                    .map_or(connection.echo, |own| own.tsval);
            }
        }
        connection.unacked += 1;
        match self.delayed_ack {
            Some(tick) if connection.unacked < 2 => {
                let ticks = self.now.as_nanos() / tick.as_nanos() as u64 + 1;
                let at = Instant::ZERO + tick * ticks as u32;
                self.at(at, Event::Ack(number));
            }
            _ => self.acknowledge(number),
        }
    }

    fn acknowledge(&mut self, number: usize) {
        if core::mem::take(&mut self.connections[number].unacked) == 0 {
            return;
        }
        let ack = Packet::new(self.ack_of(number), &[], 1);
        self.at(self.now + DELAY, Event::Gateway(Direction::Uplink, ack));
    }

    fn at_gateway(&mut self, direction: Direction, packet: Packet) {
        if self.link_is_down && direction == Direction::Uplink {
            return;
        }
        let mut actions = Vec::new();
        let verdict = self.gateway.handle_segment(
            direction,
            &packet.segment,
            &packet,
            self.now,
            &mut actions,
        );
        match verdict {
            Verdict::Forward => self.out(direction, packet.segment),
            Verdict::ForwardWithAck { ack, window } => {
                self.out(direction, packet.with_ack(ack, window).segment);
            }
            Verdict::Suppress => {}
            other @ Verdict::ForwardWithSack(_) => panic!("{other:?}"),
        }
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action<Packet>>) {
        for action in actions {
            let packet = match &action {
                Action::Resend(resend) => Packet::of_resend(resend),
                Action::Send(made) => Packet::of_made(made),
                _ => continue,
            };
            let direction = direction_of(&packet.segment);
            self.out(direction, packet.segment);
        }
    }

    fn out(&mut self, direction: Direction, segment: Segment) {
        if segment.flags.has(Flags::SYN) {
            return;
        }
        if direction == Direction::Uplink {
            return self.at(self.now + WIRED_DELAY, Event::Fh(segment));
        }
        if self.link_is_down {
            return;
        }
        let wait = self.free_at.saturating_since(self.now);
        self.longest_wait = self.longest_wait.max(wait);
        let nanos = u64::from(segment.payload_len) * 1_000_000_000 / self.rate;
        self.free_at = self.free_at.max(self.now) + Duration::from_nanos(nanos);
        self.at(self.free_at + DELAY, Event::Mh(segment));
    }

    /// The bytes that each mobile receives in this time, in thousandths of the link's capacity.
    fn received(&mut self, millis: u64) -> Vec<u64> {
        let before: Vec<SeqNum> = self
            .connections
            .iter()
            .map(|connection| connection.received)
            .collect();
        self.longest_wait = Duration::ZERO;
        self.run(millis);
        let mut by_mobile = BTreeMap::new();
        for (connection, before) in self.connections.iter().zip(before) {
            let bytes = u64::from(connection.received.distance_from(before));
            *by_mobile.entry(connection.mh.address).or_insert(0) += bytes;
        }
        let capacity = self.rate * millis / 1000;
        by_mobile
            .values()
            .map(|bytes| bytes * 1000 / capacity)
            .collect()
    }
}

fn with(bandwidth: BandwidthSettings) -> Settings {
    Settings {
        bandwidth,
        ..settings(Scheme::Mtcp)
    }
}

/// Slightly less than the link's rate, so that its queue stays empty.
const CAPACITY: u64 = RATE - RATE / 20;

#[test]
fn a_mobile_with_ten_connections_gets_no_more_than_one_with_one() {
    let mut cell = Cell::new(with(BandwidthSettings::one_cell(Some(CAPACITY))), &[1, 10]);
    cell.run(2000);
    let shares = cell.received(3000);
    assert!(
        shares.iter().all(|share| (440..=490).contains(share)),
        "{shares:?}"
    );
    assert!(
        cell.longest_wait < Duration::from_millis(60),
        "{:?}",
        cell.longest_wait
    );
    // Without, by connections, and the queue is the FHs'.
    let mut cell = Cell::new(with(BandwidthSettings::default()), &[1, 10]);
    cell.run(2000);
    let shares = cell.received(3000);
    assert!(
        shares[0] < 150 && cell.longest_wait > Duration::from_millis(300),
        "{shares:?}"
    );
}

#[test]
fn weights_count() {
    let mut bandwidth = BandwidthSettings::one_cell(Some(CAPACITY));
    bandwidth.weights = vec![("10.2.0.10".parse().unwrap(), 3)];
    let mut cell = Cell::new(with(bandwidth), &[1, 10]);
    cell.run(2000);
    let shares = cell.received(3000);
    assert!((660..=750).contains(&shares[0]), "{shares:?}");
    assert!((220..=260).contains(&shares[1]), "{shares:?}");
}

#[test]
fn what_one_mobile_does_not_need_is_the_others() {
    let mut cell = Cell::new(with(BandwidthSettings::one_cell(Some(CAPACITY))), &[1, 3]);
    cell.run(1000);
    cell.connections[0].sends = false;
    cell.run(1000);
    let shares = cell.received(2000);
    assert!(shares[0] == 0 && shares[1] > 900, "{shares:?}");
    // The mobile sends, and has its share within a period.
    cell.connections[0].sends = true;
    cell.run(300);
    let shares = cell.received(2000);
    assert!(
        shares.iter().all(|share| (430..=530).contains(share)),
        "{shares:?}"
    );
}

#[test]
fn a_capacity_that_is_not_known_is_found_and_the_queue_stays_short() {
    let mut cell = Cell::new(with(BandwidthSettings::one_cell(None)), &[1, 10]);
    cell.run(10_000);
    let shares = cell.received(5000);
    assert!(shares.iter().sum::<u64>() > 880, "{shares:?}");
    assert!(
        shares.iter().all(|share| (400..=560).contains(share)),
        "{shares:?}"
    );
    assert!(
        cell.longest_wait < Duration::from_millis(150),
        "{:?}",
        cell.longest_wait
    );
}

#[test]
fn each_cell_is_shared_by_itself() {
    let cell_of = |mobiles: &str, bytes_per_s| CellSettings {
        mobiles: Some(mobiles.parse().unwrap()),
        bytes_per_s: Some(bytes_per_s),
    };
    let bandwidth = BandwidthSettings {
        cells: vec![
            cell_of("10.2.0.10", 500_000),
            cell_of("10.2.0.0/24", 1_500_000),
        ],
        weights: Vec::new(),
    };
    let mut cell = Cell::new(with(bandwidth), &[2, 1, 1]);
    cell.run(2000);
    let shares = cell.received(2000);
    assert!((185..=205).contains(&shares[0]), "{shares:?}");
    assert!(
        shares[1..].iter().all(|share| (285..=305).contains(share)),
        "{shares:?}"
    );
}

#[test]
fn hold_sends_on_what_it_kept_at_the_mobiles_share() {
    let held = |bandwidth| {
        let settings = Settings {
            bandwidth,
            ..settings(Scheme::Hold)
        };
        let mut cell = Cell::new(settings, &[2, 1]);
        cell.run(2000);
        let addresses: Vec<IpAddr> = cell
            .connections
            .iter()
            .map(|connection| connection.mh.address)
            .collect();
        let signal = |cell: &mut Cell, event| {
            let mut actions = Vec::new();
            let source = LinkSource::Signal;
            cell.gateway
                .handle_link(&addresses, event, source, cell.now, &mut actions);
            cell.act(actions);
        };
        cell.link_is_down = true;
        cell.agenda.forget(|event| matches!(event, Event::Mh(_)));
        signal(&mut cell, LinkEvent::Down);
        cell.run(3000);
        cell.link_is_down = false;
        signal(&mut cell, LinkEvent::Up);
        // The queued bytes: 600 kB for the first mobile.
        cell.run(25);
        cell.received(200)
    };
    let with = held(BandwidthSettings::one_cell(Some(400_000)));
    let without = held(BandwidthSettings::default());
    // A fifth of a second of 200 kB/s, and a quantum.
    assert!(
        (60..=100).contains(&with[0]) && without[0] > 300,
        "{with:?} {without:?}"
    );
}

#[test]
fn a_slow_link_is_not_slowed_for_the_time_that_a_segment_and_a_delayed_ack_take() {
    // 32 kbit/s: a segment takes a quarter of a second.
    let rate = 4000;
    let bandwidth = BandwidthSettings::one_cell(Some(rate - rate / 32));
    let mut cell = Cell::new(with(bandwidth), &[1]);
    (cell.rate, cell.delayed_ack) = (rate, Some(Duration::from_millis(200)));
    cell.run(20_000);
    let shares = cell.received(60_000);
    assert!(shares[0] >= 950, "{shares:?}");
}

#[test]
fn what_finds_no_room_in_the_cache_counts_too() {
    let settings = Settings {
        cache_bytes_max: 0,
        bandwidth: BandwidthSettings::one_cell(Some(CAPACITY)),
        ..settings(Scheme::Hold)
    };
    let mut cell = Cell::new(settings, &[1, 3]);
    // Half a period after shares were given.
    cell.run(2130);
    let mobiles = cell.gateway.mobiles.iter();
    let forwarded: Vec<u64> = mobiles.map(|mobile| mobile.cell.forwarded_bytes).collect();
    assert!(forwarded.iter().all(|bytes| *bytes > 0), "{forwarded:?}");
}
