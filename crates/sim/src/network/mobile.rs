// SPDX-License-Identifier: Apache-2.0
//! A moving host with the machine of `holdfast_core::mobile_host` at its link: the very object
//! of `holdfast mobile`, between the host's connections and the network.
//!
//! What `bpf/mobile.bpf.c` does for the daemon is done here: each flow's newest ACK header is
//! noted (`noted`), its window closed while that is ordered, ACKs made that look like
//! the host's last one, and with `wake` a segment of each bulk download held back (`wake`). Made
//! ACKs are not noted themselves, as they go past the programs there.

use std::collections::BTreeMap;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::{
    HostAction, HostFlow, HostLinkEvent, MadeAck, MobileHost, MobileHostCounters,
    MobileHostSettings, MobileScheme,
};
use holdfast_link::LinkState;
use holdfast_wire::{Duration, Flags, Instant, SackBlocks, Segment, SeqNum, Timestamps};

use super::{DSCP_DEFAULT, Event, Network};
use crate::observe::{LinkId, Observer};
use crate::packet::{Body, NodeId, Packet};
use noted::Noted;
use wake::Waking;

mod noted;
mod wake;

/// After an outage a warning of the next one comes no sooner than this: the word that the link
/// is back comes first.
const AFTER_RETURN: Duration = Duration::from_nanos(1);

/// Flows that are followed: the daemon's default (`mobile.flows_max`).
const FLOWS_MAX: usize = 8192;

/// What a moving host does for its own flows, and what it hears.
#[derive(Clone, Copy, Debug)]
pub struct MobileRole {
    /// The machine's settings.
    pub settings: MobileHostSettings,
    /// The link toward it.
    pub wireless: LinkId,
    /// From the link's going or coming to the word of it; none: it is not told.
    pub told_after: Option<Duration>,
    /// So long before an outage it hears of it; sooner than that after the last one: as soon
    /// as the link is back. None: never.
    pub warned_before: Option<Duration>,
}

/// A host with the machine.
#[derive(Debug)]
pub(super) struct MobileNode {
    role: MobileRole,
    node: NodeId,
    machine: MobileHost,
    flows: BTreeMap<FlowKey, Noted>,
    /// Those of `flows`, with `wake`.
    waking: BTreeMap<FlowKey, Waking>,
    /// Flows whose window is ordered: closed, or to end here.
    closed: BTreeMap<FlowKey, Option<SeqNum>>,
    scheduled: Option<Instant>,
}

impl Network {
    /// Puts the machine on a node.
    pub fn add_mobile(&mut self, node: NodeId, role: MobileRole) {
        self.nodes[node.0 as usize].mobile = Some(self.mobiles.len() as u32);
        self.mobiles.push(MobileNode {
            machine: MobileHost::new(role.settings),
            role,
            node,
            flows: BTreeMap::new(),
            waking: BTreeMap::new(),
            closed: BTreeMap::new(),
            scheduled: None,
        });
    }

    /// What the machine on a node has done; none: it has none.
    pub fn mobile_counters(&self, node: NodeId) -> Option<MobileHostCounters> {
        let id = self.nodes[node.0 as usize].mobile?;
        Some(*self.mobiles[id as usize].machine.counters())
    }

    pub(super) fn start_mobiles(&mut self) {
        for id in 0..self.mobiles.len() as u32 {
            self.announce_next_outage(id, Instant::ZERO);
        }
    }

    /// On its way out of a host: noted, its window closed if that is ordered.
    pub(super) fn leaves_mobile(&mut self, node: NodeId, packet: &mut Packet) {
        let now = self.now;
        let Some(id) = self.nodes[node.0 as usize].mobile else {
            return;
        };
        self.mobiles[id as usize].note_egress(packet, now);
        self.schedule_mobile(id);
    }

    /// About to reach a host's connections.
    pub(super) fn reaches_mobile(&mut self, node: NodeId, segment: &Segment) {
        let now = self.now;
        let Some(id) = self.nodes[node.0 as usize].mobile else {
            return;
        };
        self.mobiles[id as usize].note_ingress(segment, now);
    }

    /// Links have gone or come: the word of it is on its way.
    pub(super) fn note_change_for_mobiles(&mut self, links: &[LinkId], state: LinkState) {
        for (id, mobile) in self.mobiles.iter().enumerate() {
            if let (true, Some(after)) = (
                links.contains(&mobile.role.wireless),
                mobile.role.told_after,
            ) {
                self.queue
                    .push(self.now + after, Event::MobileLink(id as u32, state));
            }
        }
    }

    /// The word has come.
    pub(super) fn tell_mobile_host(
        &mut self,
        id: u32,
        state: LinkState,
        observer: &mut dyn Observer,
    ) {
        let event = match state {
            LinkState::Up => HostLinkEvent::Up,
            LinkState::Down => HostLinkEvent::Down,
        };
        self.drive_mobile(id, observer, |machine, now, flows, actions| {
            machine.handle_link(event, now, flows, actions);
        });
        if state == LinkState::Down {
            let now = self.now;
            self.mobiles[id as usize].prepare_to_wake(now);
        }
    }

    /// The first outage that begins after `after` is announced, if outages are.
    fn announce_next_outage(&mut self, id: u32, after: Instant) {
        let role = &self.mobiles[id as usize].role;
        let Some(before) = role.warned_before else {
            return;
        };
        let medium = self.links[role.wireless.0 as usize].medium;
        // A copy: the original goes with the time, and this looks ahead of it.
        let mut schedule = self.media[medium as usize].schedule.clone();
        let (mut at, mut back) = (after, Instant::ZERO);
        while let Some(change) = schedule.next_change(at) {
            at = change;
            if schedule.state_at(change) == LinkState::Up {
                back = change + AFTER_RETURN;
                continue;
            }
            let ahead = change.saturating_since(Instant::ZERO).min(before);
            let word_at = (change - ahead).max(back).max(self.now);
            self.queue.push(word_at, Event::MobileWarning(id, change));
            return;
        }
    }

    /// The link will go at `begins`.
    pub(super) fn warn_mobile_host(
        &mut self,
        id: u32,
        begins: Instant,
        observer: &mut dyn Observer,
    ) {
        let lead = begins.saturating_since(self.now);
        let event = HostLinkEvent::GoingDownSoon(Some(lead));
        self.drive_mobile(id, observer, |machine, now, flows, actions| {
            machine.handle_link(event, now, flows, actions);
        });
        self.announce_next_outage(id, begins);
    }

    pub(super) fn handle_mobile_timeout(&mut self, id: u32, observer: &mut dyn Observer) {
        let now = self.now;
        let mobile = &mut self.mobiles[id as usize];
        if mobile.scheduled != Some(now) {
            // Another one took its place.
            return;
        }
        mobile.scheduled = None;
        let pausing = mobile.pausing(now);
        if !pausing.is_empty() {
            self.drive_mobile(id, observer, |machine, _, _, actions| {
                for key in pausing {
                    machine.handle_pause(key, actions);
                }
            });
        }
        let mobile = &self.mobiles[id as usize];
        if mobile.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.drive_mobile(id, observer, MobileHost::handle_timeout);
        } else {
            self.schedule_mobile(id);
        }
    }

    /// Asks the machine, and does what it says.
    fn drive_mobile(
        &mut self,
        id: u32,
        observer: &mut dyn Observer,
        ask: impl FnOnce(
            &mut MobileHost,
            Instant,
            &mut dyn FnMut() -> Vec<HostFlow>,
            &mut Vec<HostAction>,
        ),
    ) {
        let now = self.now;
        let mobile = &mut self.mobiles[id as usize];
        let mut actions = Vec::new();
        let noted = &mobile.flows;
        let mut flows = || noted.values().filter_map(Noted::flow).collect();
        ask(&mut mobile.machine, now, &mut flows, &mut actions);
        let node = mobile.node;
        for action in actions {
            for packet in self.mobiles[id as usize].perform(action, now) {
                self.forward(node, &packet, DSCP_DEFAULT, observer);
            }
        }
        self.schedule_mobile(id);
    }

    fn schedule_mobile(&mut self, id: u32) {
        let mobile = &mut self.mobiles[id as usize];
        let due = [mobile.machine.poll_timeout(), mobile.pause_at()];
        if let Some(at) = due.into_iter().flatten().min()
            && mobile.scheduled.is_none_or(|scheduled| at < scheduled)
        {
            let at = at.max(self.now);
            mobile.scheduled = Some(at);
            self.queue.push(at, Event::MobileTimer(id));
        }
    }
}

impl MobileNode {
    fn note_egress(&mut self, packet: &mut Packet, now: Instant) {
        let Body::Tcp(tcp) = &mut packet.body else {
            return;
        };
        let segment = tcp.segment;
        let key = FlowKey {
            fh: segment.to,
            mh: segment.from,
        };
        if segment.flags.has(Flags::RST) {
            self.forget(&key);
            return;
        }
        if !self.flows.contains_key(&key) && self.flows.len() >= FLOWS_MAX {
            self.forget_one();
        }
        let noted = self
            .flows
            .entry(key)
            .or_insert_with(|| Noted::new(key, packet, now));
        noted.note_egress(&segment, packet, now);
        let closes = !segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        if closes
            && let Some(order) = self.closed.get_mut(&key)
            && let Body::Tcp(tcp) = &mut packet.body
        {
            tcp.segment.window = ordered_window(order, noted.shift(), &tcp.segment);
        }
        if self.role.settings.scheme == MobileScheme::Wake
            && let Body::Tcp(tcp) = &mut packet.body
        {
            let flow = self.flows.get(&key).and_then(Noted::flow);
            let waking = self.waking.entry(key).or_default();
            waking.pass(&mut tcp.segment, flow.as_ref(), now);
        }
    }

    /// The flow that was seen least recently, as the program's maps forget.
    fn forget_one(&mut self) {
        let oldest = self.flows.iter().min_by_key(|(_, noted)| noted.seen_at());
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.forget(&key);
            self.closed.remove(&key);
        }
    }

    fn forget(&mut self, key: &FlowKey) {
        self.flows.remove(key);
        self.waking.remove(key);
    }

    fn note_ingress(&mut self, segment: &Segment, now: Instant) {
        let key = FlowKey {
            fh: segment.from,
            mh: segment.to,
        };
        if segment.flags.has(Flags::RST) {
            self.forget(&key);
        } else if let Some(noted) = self.flows.get_mut(&key) {
            let fits = noted.note_ingress(segment, now);
            if fits && let Some(waking) = self.waking.get_mut(&key) {
                waking.note_ingress(segment, noted.flow().as_ref(), now);
            }
        }
    }

    /// When it is to be looked next whether an FH pauses.
    fn pause_at(&self) -> Option<Instant> {
        let flow = |key| self.flows.get(key).and_then(Noted::flow);
        let due = self
            .waking
            .iter()
            .filter_map(|(key, waking)| waking.poll_timeout(flow(key).as_ref()));
        due.min()
    }

    /// The flows whose FH pauses.
    fn pausing(&mut self, now: Instant) -> Vec<FlowKey> {
        let flows = &self.flows;
        let pausing = self.waking.iter_mut().filter_map(|(key, waking)| {
            let flow = flows.get(key).and_then(Noted::flow);
            waking.pauses(flow.as_ref(), now).then_some(*key)
        });
        pausing.collect()
    }

    /// What the MH itself sends when the link is back, before anybody says so, is to have an echo
    /// of that time too.
    fn prepare_to_wake(&mut self, now: Instant) {
        for (key, waking) in &mut self.waking {
            if let Some(flow) = self.flows.get(key).and_then(Noted::flow) {
                waking.wake(&flow, wake::OUTAGE_MAX, now);
            }
        }
    }

    /// Does what the machine asks for; gives what it wants sent.
    fn perform(&mut self, action: HostAction, now: Instant) -> Vec<Packet> {
        match action {
            HostAction::Close(key) => {
                self.closed.insert(key, None);
            }
            HostAction::Open(key) => {
                self.closed.remove(&key);
            }
            HostAction::Limit { key, edge } => {
                self.closed.insert(key, Some(edge));
            }
            HostAction::Send { key, ack, copies } => {
                let noted = self.flows.get(&key);
                let mut made = noted.and_then(|noted| noted.made(ack));
                let flow = noted.and_then(Noted::flow);
                if let (Some(waking), Some(flow)) = (self.waking.get_mut(&key), flow) {
                    match ack {
                        MadeAck::Wake => {
                            let clocks = waking.wake(&flow, wake::RENEWED_FOR, now);
                            make_wake_up(made.as_mut(), clocks);
                        }
                        MadeAck::Last => waking.let_go(&flow, now),
                        MadeAck::ZeroWindow | MadeAck::Limited(_) | MadeAck::Marked => {}
                    }
                }
                return made.map_or_else(Vec::new, |made| vec![made; copies.into()]);
            }
        }
        Vec::new()
    }
}

/// Gives a made ACK other clocks, if there are some, and no SACK blocks: of those that the FH has
/// not heard of it would sample a round trip as long as the outage.
fn make_wake_up(made: Option<&mut Packet>, clocks: Option<Timestamps>) {
    if let Some(packet) = made
        && let Body::Tcp(tcp) = &mut packet.body
    {
        let options = &mut tcp.segment.options;
        options.timestamps = clocks.or(options.timestamps);
        options.sack = SackBlocks::default();
    }
}

/// The window that is ordered, as `ordered_window` of `bpf/mobile.bpf.c` has it.
fn ordered_window(order: &mut Option<SeqNum>, shift: u8, segment: &Segment) -> u16 {
    let Some(edge) = order else {
        return 0;
    };
    let unit = 1_u32 << shift;
    let units = edge.distance_from(segment.ack).div_ceil(unit);
    if units >= u32::from(segment.window) {
        return segment.window;
    }
    if units > 0 {
        *edge = segment.ack + units * unit;
    }
    units as u16
}

#[cfg(test)]
mod tests;
