// SPDX-License-Identifier: Apache-2.0
//! Base stations that hand MHs over. Each has the daemon's own [`Handoff`] beside its engine. Here
//! are the messages between stations, and the copies that they send to a group.
//!
//! Messages and copies do not use the links: all take the same time, and none is lost. The MH is
//! all connections' ends beyond the stations' links. Its registration at a station arrives at a
//! given time ([`Network::register`]).

use core::net::IpAddr;
use std::collections::{BTreeSet, VecDeque};

use holdfast_core::handoff::{
    Copied, Disposition, Handoff, HandoffAction, HandoffSettings, Message, PeerId, StationId,
};
use holdfast_core::signal::{KeyId, LinkNotice};
use holdfast_core::{Direction, FlowKey, LinkEvent, LinkSource};
use holdfast_wire::{Duration, Instant, Segment};

use super::{Event, Network};
use crate::packet::{NodeId, Packet};

/// The one mobile: all MHs move together.
const MOBILE: KeyId = KeyId(1);

/// A TCP packet as stations keep it.
#[derive(Clone, Debug, PartialEq)]
struct Copy {
    packet: Packet,
    segment: Segment,
}

impl Copied for Copy {
    fn segment(&self) -> &Segment {
        &self.segment
    }

    fn bytes(&self) -> usize {
        self.packet.len_bytes() as usize
    }
}

/// The mobile's report about its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MobileMessage {
    /// The mobile is in this station's cell.
    Here,
    /// The mobile will leave soon.
    Leaving,
}

/// In flight from one station to another, by the engines' numbers.
#[derive(Debug)]
enum Mail {
    Message {
        from: u32,
        to: u32,
        message: Message,
    },
    Copied {
        to: u32,
        mobile: KeyId,
        copy: Box<Copy>,
    },
}

/// The station beside an engine.
#[derive(Debug)]
struct Station {
    handoff: Handoff<Copy>,
    /// The engines of its neighbours, in the order of their [`PeerId`]s.
    neighbours: Vec<u32>,
    groups: BTreeSet<u16>,
    scheduled: Option<Instant>,
}

impl Station {
    fn peer(&self, engine: u32) -> Option<PeerId> {
        let index = self.neighbours.iter().position(|own| *own == engine)?;
        Some(PeerId(index as u16))
    }
}

/// All stations of a network; empty: there are no handoffs.
#[derive(Debug, Default)]
pub(super) struct Stations {
    /// In the order of the engines.
    all: Vec<Station>,
    mail: VecDeque<Mail>,
    mail_time: Duration,
    /// The mobile's link epoch.
    epoch: u64,
    /// Most bytes in the buffers of all stations at one time.
    bytes_max: usize,
    /// The longest record of a connection that one station has sent to another, bytes.
    state_bytes_max: usize,
}

impl Network {
    /// Makes all gateways base stations that are neighbours of each other. A message or a copy between
    /// them takes `mail_time`.
    pub fn connect_stations(&mut self, settings: &HandoffSettings, mail_time: Duration) {
        let count = self.engines.len() as u32;
        self.stations.mail_time = mail_time;
        self.stations.all = (0..count)
            .map(|own| {
                let neighbours: Vec<u32> = (0..count).filter(|other| *other != own).collect();
                let peers = (0..neighbours.len()).map(|index| PeerId(index as u16));
                let settings = HandoffSettings {
                    station: StationId(own),
                    ..settings.clone()
                };
                Station {
                    handoff: Handoff::new(settings, peers),
                    neighbours,
                    groups: BTreeSet::new(),
                    scheduled: None,
                }
            })
            .collect();
    }

    /// At `at` the gateway on `node` receives the MHs' registrations; with `leaving`, their report that
    /// they will leave soon.
    pub fn register(&mut self, at: Instant, node: NodeId, leaving: bool) {
        let message = if leaving {
            MobileMessage::Leaving
        } else {
            MobileMessage::Here
        };
        if let Some(engine) = self.nodes[node.0 as usize].engine {
            self.queue.push(at, Event::MobileMessage(engine, message));
        }
    }

    /// Most bytes of IP packets in the stations' buffers at one time.
    pub fn buffered_bytes_max(&self) -> usize {
        self.stations.bytes_max
    }

    /// The stations' counters: mobiles taken over, packets buffered, delivered from buffers or
    /// copies, and not buffered because there was no room.
    pub fn handoff_counters(&self) -> [u64; 4] {
        let mut sums = [0; 4];
        for station in &self.stations.all {
            let own = station.handoff.counters();
            let counts = [own.taken_over, own.kept, own.delivered, own.overflowed];
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        sums
    }

    /// The longest record of a connection that one station has sent to another, bytes.
    pub fn handoff_state_bytes_max(&self) -> usize {
        self.stations.state_bytes_max
    }

    /// The mobile has sent a message to an engine.
    pub(super) fn handle_mobile_message(&mut self, id: u32, message: MobileMessage) {
        let now = self.now;
        let wireless = self.engines[id as usize].wireless();
        let mobiles = self.links[wireless.0 as usize].to;
        let addresses = self.mobile_addresses(mobiles);
        let event = match message {
            MobileMessage::Here => {
                self.stations.epoch += 1;
                LinkEvent::Up
            }
            MobileMessage::Leaving => LinkEvent::GoingDownSoon(None),
        };
        let notice = LinkNotice {
            key: MOBILE,
            event,
            addresses: addresses.clone(),
            removed: Vec::new(),
            epoch: self.stations.epoch,
        };
        self.with_station(id, |station, actions| {
            station.handle_notice(&notice, now, actions);
        });
        self.notify_link(id, &addresses, event, LinkSource::Signal);
    }

    /// Decides on a packet for an MH that came by the wired route. True: the engine gets it.
    pub(super) fn arrives_at_station(&mut self, id: u32, packet: &Packet) -> bool {
        let (now, Some(segment)) = (self.now, packet.segment().copied()) else {
            return true;
        };
        let Some(station) = self.stations.all.get(id as usize) else {
            return true;
        };
        let arrival = station.handoff.arrival(segment.to.address, now);
        let copy = Copy {
            packet: *packet,
            segment,
        };
        if let Some((mobile, group)) = arrival.copy {
            for to in 0..self.stations.all.len() as u32 {
                let is_member = self.stations.all[to as usize].groups.contains(&group);
                if to != id && is_member {
                    let copy = Box::new(copy.clone());
                    self.post(Mail::Copied { to, mobile, copy });
                }
            }
        }
        match arrival.disposition {
            Disposition::Deliver => true,
            Disposition::Elsewhere => false,
            Disposition::Keep(mobile)
                if !self.stations.all[id as usize]
                    .handoff
                    .has_room(mobile, core::slice::from_ref(&copy)) =>
            {
                true
            }
            Disposition::Keep(mobile) => {
                self.with_station(id, |station, _| station.keep(mobile, copy, now));
                false
            }
        }
    }

    /// An MH's segment has passed the engine.
    pub(super) fn leaves_by_station(&mut self, id: u32, segment: &Segment) {
        let address = segment.from.address;
        let station = self.stations.all.get(id as usize);
        if station.is_some_and(|station| station.handoff.wants_uplink(address)) {
            let flow = FlowKey::of(segment, Direction::Uplink);
            self.with_station(id, |station, actions| {
                station.handle_uplink(&flow, segment.ack, actions);
            });
        }
    }

    pub(super) fn handle_mail(&mut self) {
        let now = self.now;
        match self.stations.mail.pop_front() {
            None => {}
            Some(Mail::Message { from, to, message }) => {
                let station = &self.stations.all[to as usize];
                if let Some(peer) = station.peer(from) {
                    self.with_station(to, |station, actions| {
                        station.handle_message(peer, message, now, actions);
                    });
                }
            }
            Some(Mail::Copied { to, mobile, copy }) => {
                self.with_station(to, |station, actions| {
                    station.handle_copy(mobile, *copy, now, actions);
                });
            }
        }
    }

    pub(super) fn handle_station_timeout(&mut self, id: u32) {
        let now = self.now;
        let station = &mut self.stations.all[id as usize];
        if station.scheduled != Some(now) {
            return;
        }
        station.scheduled = None;
        self.with_station(id, |station, actions| {
            if station.poll_timeout().is_some_and(|at| at <= now) {
                station.handle_timeout(now, actions);
            }
        });
    }

    /// All mail takes the same time, so it arrives in the order of posting.
    fn post(&mut self, mail: Mail) {
        self.stations.mail.push_back(mail);
        self.queue
            .push(self.now + self.stations.mail_time, Event::Mail);
    }

    /// Calls a station, if there is one beside the engine, then performs its actions.
    fn with_station(
        &mut self,
        id: u32,
        act: impl FnOnce(&mut Handoff<Copy>, &mut Vec<HandoffAction<Copy>>),
    ) {
        let Some(station) = self.stations.all.get_mut(id as usize) else {
            return;
        };
        let mut actions = Vec::new();
        act(&mut station.handoff, &mut actions);
        for action in actions {
            self.perform_handoff(id, action);
        }
        let stations = &mut self.stations.all;
        let bytes = stations
            .iter()
            .map(|one| one.handoff.buffered_bytes())
            .sum();
        self.stations.bytes_max = self.stations.bytes_max.max(bytes);
        let station = &mut self.stations.all[id as usize];
        if let Some(at) = station.handoff.poll_timeout()
            && station.scheduled.is_none_or(|scheduled| at < scheduled)
        {
            let at = at.max(self.now);
            station.scheduled = Some(at);
            self.queue.push(at, Event::Station(id));
        }
    }

    fn perform_handoff(&mut self, id: u32, action: HandoffAction<Copy>) {
        let station = &mut self.stations.all[id as usize];
        let neighbour = |to: PeerId| station.neighbours[usize::from(to.0)];
        match action {
            HandoffAction::Send { to, message } => {
                let to = neighbour(to);
                self.post(Mail::Message {
                    from: id,
                    to,
                    message,
                });
            }
            HandoffAction::SendCopy { to, mobile, copy } => {
                let to = neighbour(to);
                let copy = Box::new(copy);
                self.post(Mail::Copied { to, mobile, copy });
            }
            HandoffAction::Join(group) => {
                station.groups.insert(group);
            }
            HandoffAction::Leave(group) => {
                station.groups.remove(&group);
            }
            HandoffAction::Export {
                mobile,
                addresses,
                to,
            } => {
                self.export_to(id, (mobile, to), &addresses);
            }
            HandoffAction::Stop { mobile, addresses } => {
                self.keep_released(id, mobile, &addresses);
            }
            HandoffAction::Adopt(state) => self.adopt(id, &state),
            HandoffAction::QueueSegments(flows) => self.engines[id as usize].queue_segments(&flows),
            HandoffAction::ResumeSending(flows) => self.resume_sending(id, &flows),
            HandoffAction::Deliver(copy) => {
                self.judge(id, Direction::Downlink, &copy.packet, super::DSCP_DEFAULT);
            }
            // Routes change when the experiment changes them, and the mobile counts for all.
            HandoffAction::TookOver { .. } | HandoffAction::EpochElsewhere { .. } => {}
        }
    }

    /// Sends the engine's state of a mobile's flows to a neighbour.
    fn export_to(&mut self, id: u32, (mobile, to): (KeyId, PeerId), addresses: &[IpAddr]) {
        let now = self.now;
        let states = self.export(id, addresses);
        let lens = states.iter().map(|state| state.to_bytes().len());
        let longest = lens.max().unwrap_or_default();
        self.stations.state_bytes_max = self.stations.state_bytes_max.max(longest);
        self.with_station(id, |station, actions| {
            station.send_state(mobile, to, &states, now, actions);
        });
    }

    /// The station buffers what the engine had cached for a mobile that has moved.
    fn keep_released(&mut self, id: u32, mobile: KeyId, addresses: &[IpAddr]) {
        let now = self.now;
        let pieces = self.release(id, addresses);
        self.with_station(id, |station, _| {
            for packet in pieces {
                if let Some(segment) = packet.segment().copied() {
                    station.keep(mobile, Copy { packet, segment }, now);
                }
            }
        });
    }
}
