// SPDX-License-Identifier: Apache-2.0
//! Three base stations, an FH and an MH on a virtual clock, what goes between them, and what
//! must hold at every moment.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use holdfast_wire::{Flags, Instant, Options, Segment, SeqNum};
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use super::super::agenda::Agenda;
use super::super::host::Host;
use crate::handoff::{
    Arrival, Copied, Disposition, FlowState, Handoff, HandoffAction, HandoffSettings, Message,
    PeerId, Role, StationId,
};
use crate::signal::{KeyId, LinkNotice};
use crate::testing::{FH, MH, Packet, direction_of};
use crate::{
    Action, Direction, FlowKey, FlowRecord, Gateway, LinkEvent, LinkSource, Settings, Side, Stage,
    Verdict,
};

pub(super) const STATIONS: usize = 3;
pub(super) const MOBILE: KeyId = KeyId(77);
/// The MH registers again after this time.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(5);
/// After the last trouble everything has to be done within this time.
pub(super) const LIVENESS: Duration = Duration::from_secs(240);
/// After the last move and with messages that arrive, roles are settled after this time.
pub(super) const SETTLED: Duration = Duration::from_secs(12);
/// Inputs of one case at most.
pub(super) const INPUTS_MAX: u64 = 600_000;

impl Copied for Packet {
    fn segment(&self) -> &holdfast_wire::Segment {
        &self.segment
    }

    fn bytes(&self) -> usize {
        self.bytes.len() + 52
    }
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// By the wired route, or from the MH.
    Arrive(usize, Direction, Packet),
    ToHost(Side, Packet),
    Message(usize, usize, Message),
    Copy(usize, Packet),
    /// The MH moves to this cell, and registers there after a while.
    Move(usize, Duration),
    Register(usize, u64),
    /// The MH signals link up once more in this cell, with an epoch one higher.
    Raise(usize),
    Warn,
    Route(usize),
    Crash(usize),
    Restart(usize),
    Keepalive,
    Read,
    Heal,
}

pub(super) struct Station {
    pub gateway: Gateway<Packet>,
    pub handoff: Handoff<Packet>,
    pub joined: BTreeSet<u16>,
    pub alive: bool,
    /// Its state file.
    pub record: Option<FlowRecord>,
}

pub(super) struct World {
    pub now: Instant,
    pub fh: Host,
    pub mh: Host,
    pub stations: Vec<Station>,
    pub settings: Settings,
    pub handoff_settings: HandoffSettings,
    pub route: usize,
    pub cell: usize,
    pub epoch: u64,
    /// Chances in 1/1000 and times of what goes between stations, and over the air.
    pub message_loss: u64,
    pub duplication: u64,
    pub message_jitter: Duration,
    pub air_loss: u64,
    pub air_delay: Duration,
    pub wired_delay: Duration,
    pub rng: ChaCha8Rng,
    pub agenda: Agenda<Event>,
    pub trace: bool,
    pub adopted: u64,
    /// Of these, with the FH's window closed.
    pub shrunk: u64,
    pub by_copy: u64,
    /// Packets for an MH that is here which the buffer had no room for.
    pub no_room: u64,
    pub largest_state: usize,
}

impl World {
    fn chance(&mut self, thousandths: u64) -> bool {
        thousandths > 0 && u64::from(self.rng.next_u32()) % 1000 < thousandths
    }

    pub(super) fn at(&mut self, at: Instant, event: Event) {
        self.agenda.at(at, event);
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    pub(super) fn new_station(&self, number: usize) -> Station {
        let settings = HandoffSettings {
            station: StationId(number as u32),
            ..self.handoff_settings.clone()
        };
        let peers = (0..STATIONS - 1).map(|peer| PeerId(peer as u16));
        Station {
            gateway: Gateway::new(self.settings.clone()),
            handoff: Handoff::new(settings, peers),
            joined: BTreeSet::new(),
            alive: true,
            record: None,
        }
    }

    fn is_done(&self) -> bool {
        self.fh.is_done() && self.mh.is_done()
    }

    pub(super) fn run_until(&mut self, deadline: Instant, stop_when_done: bool) {
        while !(stop_when_done && self.is_done()) {
            let of_stations = self.stations.iter().filter(|one| one.alive);
            let of_stations = of_stations
                .flat_map(|one| [one.gateway.poll_timeout(), one.handoff.poll_timeout()]);
            let event_at = self.agenda.next_at();
            let timers = [self.fh.deadline(), self.mh.deadline(), event_at];
            let next = timers.into_iter().chain(of_stations).flatten().min();
            let Some(next) = next.filter(|next| *next <= deadline) else {
                self.now = self.now.max(deadline);
                return;
            };
            self.now = self.now.max(next);
            match self.agenda.take(next) {
                Some(event) => self.handle(event),
                None => self.handle_timeouts(),
            }
            self.check();
        }
    }

    fn handle_timeouts(&mut self) {
        let now = self.now;
        for side in [Side::Fh, Side::Mh] {
            let mut out = Vec::new();
            let host = self.host(side);
            if host.deadline().is_some_and(|at| at <= now) {
                host.handle_timeout(now, &mut out);
                self.transmit(side, out);
            }
        }
        for number in 0..STATIONS {
            let station = &mut self.stations[number];
            if !station.alive {
                continue;
            }
            let (mut actions, mut handoffs) = (Vec::new(), Vec::new());
            if station.gateway.poll_timeout().is_some_and(|at| at <= now) {
                station.gateway.handle_timeout(now, &mut actions);
            }
            if station.handoff.poll_timeout().is_some_and(|at| at <= now) {
                station.handoff.handle_timeout(now, &mut handoffs);
                let next = station.handoff.poll_timeout();
                assert!(next.is_none_or(|at| at > now), "a timer runs hot");
            }
            self.act(number, actions);
            self.act_on_handoff(number, handoffs);
        }
    }

    pub(super) fn host(&mut self, side: Side) -> &mut Host {
        match side {
            Side::Fh => &mut self.fh,
            Side::Mh => &mut self.mh,
        }
    }

    fn restart(&mut self, station: usize) {
        let record = self.stations[station].record;
        self.stations[station] = self.new_station(station);
        if let Some(record) = record {
            self.stations[station].gateway.import(&record, self.now);
            self.stations[station].record = Some(record);
        }
        for other in (0..STATIONS).filter(|other| *other != station) {
            let number = if station < other {
                station
            } else {
                station - 1
            };
            let peer = PeerId(number as u16);
            self.with(other, |handoff, actions| {
                handoff.handle_restart(peer, actions);
            });
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        if self.trace {
            self.print_event(&event);
        }
        match event {
            Event::Arrive(station, direction, packet) => self.arrive(station, direction, &packet),
            Event::ToHost(side, packet) => {
                let mut out = Vec::new();
                self.host(side).receive(&packet, now, &mut out);
                assert!(!self.host(side).reset, "{side:?} was reset");
                self.fh.check_received(&self.mh);
                self.mh.check_received(&self.fh);
                self.transmit(side, out);
            }
            Event::Message(from, to, message) => {
                let peer = PeerId((if from < to { from } else { from - 1 }) as u16);
                self.with(to, |handoff, actions| {
                    handoff.handle_message(peer, message, now, actions);
                });
            }
            Event::Copy(to, packet) => self.with(to, |handoff, actions| {
                handoff.handle_copy(MOBILE, packet, now, actions);
            }),
            Event::Move(cell, silence) => {
                // Some MHs signal link down before they move, and some do not.
                if self.chance(500) {
                    self.signal(self.cell, LinkEvent::Down);
                }
                self.cell = cell;
                self.epoch += 1;
                self.after(silence, Event::Register(cell, self.epoch));
            }
            Event::Register(cell, epoch) => self.register(cell, epoch),
            Event::Raise(cell) => {
                if cell == self.cell {
                    self.epoch += 1;
                    self.register(cell, self.epoch);
                }
            }
            Event::Warn => {
                let cell = self.cell;
                self.notice(cell, LinkEvent::GoingDownSoon(None));
            }
            Event::Route(station) => self.route = station,
            Event::Crash(station) => {
                self.stations[station].alive = false;
                self.stations[station].joined.clear();
            }
            Event::Restart(station) => self.restart(station),
            Event::Keepalive => {
                self.register(self.cell, self.epoch);
                self.after(KEEPALIVE, Event::Keepalive);
            }
            Event::Read => {
                for side in [Side::Fh, Side::Mh] {
                    let mut out = Vec::new();
                    self.host(side).read(usize::MAX, now, &mut out);
                    self.transmit(side, out);
                }
                self.after(Duration::from_millis(100), Event::Read);
            }
            Event::Heal => {
                (self.message_loss, self.duplication, self.air_loss) = (0, 0, 0);
                for station in 0..STATIONS {
                    if !self.stations[station].alive {
                        self.stations[station] = self.new_station(station);
                    }
                }
            }
        }
    }

    /// The signals repeat it until the station answers.
    pub(super) fn register(&mut self, cell: usize, epoch: u64) {
        if cell != self.cell || epoch != self.epoch {
            return;
        }
        if self.stations[cell].alive {
            self.notice(cell, LinkEvent::Up);
            self.signal(cell, LinkEvent::Up);
        } else {
            self.after(Duration::from_millis(200), Event::Register(cell, epoch));
        }
    }

    /// The control thread passes the same signal to the engine.
    fn signal(&mut self, station: usize, event: LinkEvent) {
        let (now, mut actions) = (self.now, Vec::new());
        let station_here = &mut self.stations[station];
        if station_here.alive {
            let (gateway, source) = (&mut station_here.gateway, LinkSource::Signal);
            gateway.handle_link(&[MH.address], event, source, now, &mut actions);
            self.act(station, actions);
        }
    }

    fn notice(&mut self, station: usize, event: LinkEvent) {
        let notice = LinkNotice {
            key: MOBILE,
            event,
            addresses: vec![MH.address],
            removed: Vec::new(),
            epoch: self.epoch,
        };
        let now = self.now;
        self.with(station, |handoff, actions| {
            handoff.handle_notice(&notice, now, actions);
        });
    }

    fn with(
        &mut self,
        station: usize,
        input: impl FnOnce(&mut Handoff<Packet>, &mut Vec<HandoffAction<Packet>>),
    ) {
        if self.stations[station].alive {
            let mut actions = Vec::new();
            input(&mut self.stations[station].handoff, &mut actions);
            self.act_on_handoff(station, actions);
        }
    }

    /// What a host sends.
    pub(super) fn transmit(&mut self, side: Side, packets: Vec<Packet>) {
        for packet in packets {
            match side {
                Side::Fh => {
                    let delay = self.wired_delay;
                    let route = self.route;
                    self.after(delay, Event::Arrive(route, Direction::Downlink, packet));
                }
                Side::Mh => {
                    let cell = self.cell;
                    for packet in packet.split() {
                        if !self.chance(self.air_loss) {
                            let delay = self.air_delay;
                            self.after(delay, Event::Arrive(cell, Direction::Uplink, packet));
                        }
                    }
                }
            }
        }
    }

    fn send_out(&mut self, station: usize, direction: Direction, packet: Packet) {
        if self.trace {
            let segment = &packet.segment;
            let timestamps = segment.options.timestamps.map(|ts| (ts.tsval, ts.tsecr));
            eprintln!(
                "           {station} sends {direction:?} {:?} +{} ack {:?} win {} {timestamps:?}",
                segment.seq, segment.payload_len, segment.ack, segment.window
            );
        }
        match direction {
            Direction::Uplink => {
                self.after(self.wired_delay, Event::ToHost(Side::Fh, packet));
            }
            Direction::Downlink if station != self.cell => {}
            Direction::Downlink => {
                for packet in packet.split() {
                    if !self.chance(self.air_loss) {
                        self.after(self.air_delay, Event::ToHost(Side::Mh, packet));
                    }
                }
            }
        }
    }

    fn arrive(&mut self, number: usize, direction: Direction, packet: &Packet) {
        if !self.stations[number].alive {
            self.send_out(number, direction, packet.clone());
            return;
        }
        let now = self.now;
        if direction == Direction::Downlink {
            let Arrival { copy, disposition } =
                self.stations[number].handoff.arrival(MH.address, now);
            if let Some((mobile, group)) = copy {
                assert_eq!(mobile, MOBILE);
                self.multicast(number, group, packet);
            }
            match disposition {
                Disposition::Deliver => {}
                Disposition::Elsewhere => return,
                Disposition::Keep(mobile) => {
                    let pieces = packet.split();
                    let handoff = &mut self.stations[number].handoff;
                    if handoff.has_room(mobile, &pieces) {
                        for piece in pieces {
                            handoff.keep(mobile, piece, now);
                        }
                        return;
                    }
                    self.no_room += 1;
                }
            }
        }
        self.judge(number, direction, packet);
        let flags = packet.segment.flags;
        let is_plain_ack =
            flags.has(Flags::ACK) && !flags.has(Flags::SYN) && !flags.has(Flags::RST);
        if direction == Direction::Uplink && is_plain_ack {
            let ack = packet.segment.ack;
            let key = FlowKey { fh: FH, mh: MH };
            if self.stations[number].handoff.wants_uplink(MH.address) {
                self.with(number, |handoff, actions| {
                    handoff.handle_uplink(&key, ack, actions);
                });
            }
        }
    }

    /// To the engine.
    fn judge(&mut self, number: usize, direction: Direction, packet: &Packet) {
        let mut actions = Vec::new();
        let gateway = &mut self.stations[number].gateway;
        let verdict =
            gateway.handle_segment(direction, &packet.segment, packet, self.now, &mut actions);
        if let Some(packet) = packet.judged(verdict) {
            self.send_out(number, direction, packet);
        }
        self.act(number, actions);
    }

    fn multicast(&mut self, from: usize, group: u16, packet: &Packet) {
        for to in (0..STATIONS).filter(|to| *to != from) {
            for packet in packet.split() {
                if self.stations[to].joined.contains(&group) {
                    self.between(Event::Copy(to, packet));
                }
            }
        }
    }

    /// From a station to another.
    fn between(&mut self, event: Event) {
        if self.chance(self.message_loss) {
            return;
        }
        for _ in 0..=u32::from(self.chance(self.duplication)) {
            let jitter = self.message_jitter.as_micros() as u64;
            let micros = 200 + self.rng.next_u64() % (jitter + 1);
            self.after(Duration::from_micros(micros), event.clone());
        }
    }

    fn act(&mut self, number: usize, actions: Vec<Action<Packet>>) {
        for action in actions {
            match action {
                Action::Resend(piece) => {
                    let packet = Packet::of_resend(&piece);
                    self.send_out(number, piece.direction, packet);
                }
                Action::Send(made) => {
                    let packet = Packet::of_made(&made);
                    self.send_out(number, made.direction, packet);
                }
                Action::Repeat(packet) => {
                    self.send_out(number, direction_of(&packet.segment), packet);
                }
                Action::Notify(_) => {}
                Action::Record(record) => {
                    self.stations[number].record = Some(record).filter(|record| !record.gone);
                }
            }
        }
    }

    fn act_on_handoff(&mut self, number: usize, actions: Vec<HandoffAction<Packet>>) {
        let now = self.now;
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            if self.trace {
                eprintln!("           station {number}: {action:?}");
            }
            let (mut of_engine, mut more) = (Vec::new(), Vec::new());
            let station = &mut self.stations[number];
            match action {
                HandoffAction::Send { to, message } => {
                    self.between(Event::Message(number, peer(number, to), message));
                }
                HandoffAction::SendCopy { to, copy, .. } => {
                    self.between(Event::Copy(peer(number, to), copy));
                }
                HandoffAction::Join(group) => assert!(station.joined.insert(group)),
                HandoffAction::Leave(group) => assert!(station.joined.remove(&group)),
                HandoffAction::Export {
                    mobile,
                    addresses,
                    to,
                } => {
                    let states = station.gateway.export(&addresses, now, &mut of_engine);
                    let longest = states.iter().map(|state| state.to_bytes().len()).max();
                    self.largest_state = self.largest_state.max(longest.unwrap_or(0));
                    station
                        .handoff
                        .send_state(mobile, to, &states, now, &mut more);
                }
                HandoffAction::Stop { mobile, addresses } => {
                    let mut pieces = Vec::new();
                    station
                        .gateway
                        .release(&addresses, &mut pieces, &mut of_engine);
                    for piece in pieces {
                        let packet = Packet::of_resend(&piece);
                        station.handoff.keep(mobile, packet, now);
                    }
                }
                HandoffAction::Adopt(state) => {
                    self.adopted += 1;
                    let split = state.split.as_ref();
                    self.shrunk += u64::from(split.is_some_and(|split| split.is_shrunk));
                    check_state(&state);
                    let uplink = uplink_header();
                    station
                        .gateway
                        .adopt(&state, Some(uplink), now, &mut of_engine);
                }
                HandoffAction::QueueSegments(flows) => station.gateway.queue_segments(&flows),
                HandoffAction::ResumeSending(flows) => {
                    station.gateway.resume_sending(&flows, now, &mut of_engine);
                }
                HandoffAction::Deliver(packet) => {
                    self.by_copy += 1;
                    self.judge(number, Direction::Downlink, &packet);
                }
                HandoffAction::TookOver { .. } | HandoffAction::EpochElsewhere { .. } => {}
            }
            self.act(number, of_engine);
            queue.extend(more);
        }
    }

    /// Bounded, at every moment.
    fn check(&self) {
        for station in self.stations.iter().filter(|one| one.alive) {
            let limit = self.handoff_settings.mobile_buffer_bytes_max;
            assert!(station.handoff.buffered_bytes() <= limit);
            let views: Vec<_> = station.handoff.views(self.now).collect();
            assert!(views.len() <= 1);
            let sum: usize = views.iter().map(|view| view.buffered_bytes).sum();
            assert_eq!(sum, station.handoff.buffered_bytes());
            assert!(station.joined.len() <= 1);
            assert!(station.gateway.budget.bytes() <= self.settings.cache_bytes_max);
        }
    }

    /// The SYNs have passed the first station; each end knows the other by what came of that.
    pub(super) fn shake_hands(&mut self, opener: Side) {
        let mut queue = VecDeque::from([match opener {
            Side::Fh => self.fh.syn(Flags::SYN, 0),
            Side::Mh => self.mh.syn(Flags::SYN, 0),
        }]);
        while let Some(packet) = queue.pop_front() {
            let direction = direction_of(&packet.segment);
            let (gateway, mut actions) = (&mut self.stations[0].gateway, Vec::new());
            let segment = &packet.segment;
            let verdict =
                gateway.handle_segment(direction, segment, &packet, self.now, &mut actions);
            let mut out = Vec::new();
            out.extend((verdict == Verdict::Forward).then_some(packet));
            out.extend(actions.into_iter().filter_map(|action| match action {
                Action::Repeat(packet) => Some(packet),
                _ => None,
            }));
            for packet in out {
                let side = direction_of(&packet.segment).toward();
                queue.extend(self.host(side).on_syn(&packet.segment));
            }
        }
    }

    /// When all is quiet, one station at most has the mobile, and it alone resends.
    pub(super) fn check_settled(&self) {
        let has = |station: &&Station| {
            let mut views = station.handoff.views(self.now);
            views.any(|view| matches!(view.role, Role::Forwarding | Role::Synchronising))
        };
        let owners = self.stations.iter().filter(has).count();
        assert!(owners <= 1, "{owners} stations have the mobile");
        let resends = |station: &&Station| {
            let mut flows = station.gateway.flows.iter().map(|row| &row.flow);
            flows.any(|flow| flow.stage == Stage::Open && flow.in_flight() > 0)
        };
        let resending = self.stations.iter().filter(resends).count();
        assert!(resending <= 1, "{resending} stations may resend");
        let here = &self.stations[self.cell];
        assert!(has(&here), "the station of the cell does not have it");
    }

    fn print_event(&self, event: &Event) {
        let at = self.now.as_nanos() / 1000;
        match event {
            Event::Arrive(station, direction, packet) => {
                let segment = &packet.segment;
                let (seq, ack) = (segment.seq, segment.ack);
                let len = segment.payload_len;
                eprintln!("{at:>9} {direction:?} at {station}: {seq:?} +{len} ack {ack:?}");
            }
            Event::ToHost(side, packet) => {
                let (seq, ack) = (packet.segment.seq, packet.segment.ack);
                eprintln!("{at:>9} to {side:?}: {seq:?} ack {ack:?}");
            }
            Event::Read | Event::Keepalive => {}
            other => eprintln!("{at:>9} {other:?}"),
        }
    }
}

/// For what is made in the MH's name before anything of it has come.
fn uplink_header() -> Segment {
    Segment {
        from: MH,
        to: FH,
        seq: SeqNum::default(),
        ack: SeqNum::default(),
        flags: Flags::ACK,
        window: 0,
        options: Options::default(),
        payload_len: 0,
    }
}

/// The number of a station's neighbour.
fn peer(number: usize, peer: PeerId) -> usize {
    let peer = usize::from(peer.0);
    if peer < number { peer } else { peer + 1 }
}

fn check_state(state: &FlowState) {
    let bytes = state.to_bytes();
    assert!(bytes.len() <= crate::handoff::FLOW_STATE_BYTES_MAX);
    assert_eq!(FlowState::from_bytes(&bytes).as_ref(), Some(state));
}
