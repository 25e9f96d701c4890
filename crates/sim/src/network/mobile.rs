// SPDX-License-Identifier: Apache-2.0
//! A moving host with the machine of `holdfast_core::mobile_host` at its link: the same object
//! as in `holdfast mobile`, between the host's connections and the network.
//!
//! This file does what `bpf/mobile.bpf.c` does for the daemon. It notes each flow's newest ACK
//! header (`noted`), closes its window while the machine orders that, and makes ACKs that look
//! like the host's last one. With `wake` it withholds a segment of each bulk download
//! (`withheld`). Made ACKs are not noted: in the daemon they bypass the programs. ICMP is not
//! simulated: a wake-up is only an ACK with the host's own number.

use std::collections::BTreeMap;

use holdfast_core::mobile_host::{
    FlowsNeeded, HostAction, HostFlow, MadeAck, MobileHost, MobileHostCounters, MobileHostSettings,
    MobileScheme,
};
use holdfast_core::{FlowKey, LinkEvent};
use holdfast_link::MediumState;
use holdfast_wire::{Duration, Flags, Instant, SackBlocks, Segment, SeqNum};

use super::{DSCP_DEFAULT, Event, Network};
use crate::observe::LinkId;
use crate::packet::{Body, NodeId, Packet};
use noted::Noted;
use withheld::Withheld;

mod noted;
mod withheld;

/// Least time between the end of an outage and the warning of the next one: the report of link up
/// comes first.
const AFTER_RETURN: Duration = Duration::from_nanos(1);

/// Most flows that are followed: the daemon's default (`mobile.flows_max`).
const FLOWS_MAX: usize = 8192;

/// What the MHs do for their own flows (`holdfast_core::mobile_host`, the same as in `holdfast
/// mobile`), and the reports about their link, the last hop.
#[derive(Clone, Copy, Debug)]
pub struct MobilePlan {
    /// The machine's settings, the scheme among them.
    pub settings: MobileHostSettings,
    /// Time from the start or end of an outage to its report; none: no report.
    pub reported_after: Option<Duration>,
    /// A warning comes this long before an outage, but not before the last outage has ended. None: no
    /// warning.
    pub warned_before: Option<Duration>,
    /// At this time link down and link up are reported, although the link does not change; none:
    /// never.
    pub false_alarm_at: Option<Duration>,
    /// With `wake`: detects outages without a report, as in `holdfast mobile`.
    pub detects_silence: bool,
}

/// What a moving host does for its own flows, and the reports about its link.
#[derive(Clone, Copy, Debug)]
pub struct MobileRole {
    /// Settings and reports.
    pub plan: MobilePlan,
    /// The link toward it.
    pub wireless: LinkId,
}

/// A host with the machine.
#[derive(Debug)]
pub(super) struct MobileNode {
    role: MobileRole,
    node: NodeId,
    machine: MobileHost,
    flows: BTreeMap<FlowKey, Followed>,
    /// Segments received.
    segments: u64,
    scheduled: Option<Instant>,
}

/// A flow that is followed.
#[derive(Debug)]
struct Followed {
    noted: Noted,
    /// The state of `wake`; none: another scheme.
    withheld: Option<Withheld>,
    /// The machine's order for its window.
    order: Option<WindowOrder>,
}

/// An order for a window.
#[derive(Clone, Copy, Debug)]
enum WindowOrder {
    /// The window is 0.
    Closed,
    /// The window ends at this number at the latest.
    Until(SeqNum),
}

impl Followed {
    /// The state from which the machine decides; none: the host has sent no ACK yet.
    fn observed(&self) -> Option<HostFlow> {
        let flow = self.noted.flow()?;
        let download = self.withheld.as_ref().map(Withheld::download);
        Some(HostFlow { download, ..flow })
    }
}

impl Network {
    /// Puts the machine on a node.
    pub fn add_mobile(&mut self, node: NodeId, role: MobileRole) {
        self.nodes[node.0 as usize].mobile = Some(self.mobiles.len() as u32);
        let machine = MobileHost::new(role.plan.settings);
        self.mobiles.push(MobileNode {
            machine: if role.plan.detects_silence {
                machine
            } else {
                machine.without_silence()
            },
            role,
            node,
            flows: BTreeMap::new(),
            segments: 0,
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
            let false_alarm_at = self.mobiles[id as usize].role.plan.false_alarm_at;
            if let Some(at) = false_alarm_at.map(|at| Instant::ZERO + at) {
                self.queue.push(at, Event::MobileLink(id, LinkEvent::Down));
                self.queue.push(at, Event::MobileLink(id, LinkEvent::Up));
            }
        }
    }

    /// Egress of a host: notes a packet, and closes its window if ordered.
    pub(super) fn leaves_mobile(&mut self, node: NodeId, packet: &mut Packet) {
        let now = self.now;
        let Some(id) = self.mobile_that_reads(node) else {
            return;
        };
        self.mobiles[id as usize].note_egress(packet, now);
        self.schedule_mobile(id);
    }

    /// Ingress of a host, before its connections: notes a segment.
    pub(super) fn reaches_mobile(&mut self, node: NodeId, segment: &Segment) {
        let now = self.now;
        let Some(id) = self.mobile_that_reads(node) else {
            return;
        };
        self.mobiles[id as usize].note_ingress(segment, now);
    }

    /// The machine at a node's interface, if it can read segments.
    fn mobile_that_reads(&self, node: NodeId) -> Option<u32> {
        let mobile = self.nodes[node.0 as usize].mobile;
        mobile.filter(|_| !self.is_encrypted)
    }

    /// Links go down or up: schedules the reports.
    pub(super) fn note_change_for_mobiles(&mut self, links: &[LinkId], event: LinkEvent) {
        for (id, mobile) in self.mobiles.iter().enumerate() {
            if let (true, Some(after)) = (
                links.contains(&mobile.role.wireless),
                mobile.role.plan.reported_after,
            ) {
                self.queue
                    .push(self.now + after, Event::MobileLink(id as u32, event));
            }
        }
    }

    /// A report about the link arrives.
    pub(super) fn report_to_mobile_host(&mut self, id: u32, event: LinkEvent) {
        let mobile = &mut self.mobiles[id as usize];
        let mut actions = Vec::new();
        let flows = mobile.observed(&mobile.machine.flows_needed_for(event, self.now));
        mobile
            .machine
            .handle_link(event, &flows, self.now, &mut actions);
        self.perform_of_mobile(id, actions);
    }

    /// Schedules the warning of the first outage that begins after `after`, if there are warnings.
    fn announce_next_outage(&mut self, id: u32, after: Instant) {
        let role = &self.mobiles[id as usize].role;
        let Some(before) = role.plan.warned_before else {
            return;
        };
        let medium = self.links[role.wireless.0 as usize].medium;
        // A copy: the original must not run ahead of the time.
        let mut schedule = self.media[medium as usize].schedule.clone();
        let (mut at, mut back) = (after, Instant::ZERO);
        while let Some(change) = schedule.next_change(at) {
            at = change;
            if schedule.state_at(change) == MediumState::Up {
                back = change + AFTER_RETURN;
                continue;
            }
            let ahead = change.saturating_since(Instant::ZERO).min(before);
            let warning_at = (change - ahead).max(back).max(self.now);
            self.queue
                .push(warning_at, Event::MobileWarning(id, change));
            return;
        }
    }

    /// A warning arrives: the link will go down at `begins`.
    pub(super) fn warn_mobile_host(&mut self, id: u32, begins: Instant) {
        let lead = begins.saturating_since(self.now);
        let event = LinkEvent::GoingDownSoon(Some(lead));
        self.report_to_mobile_host(id, event);
        self.announce_next_outage(id, begins);
    }

    pub(super) fn handle_mobile_timeout(&mut self, id: u32) {
        let now = self.now;
        let mobile = &mut self.mobiles[id as usize];
        if mobile.scheduled != Some(now) {
            // A timer for another time has replaced this one.
            return;
        }
        mobile.scheduled = None;
        let mut actions = Vec::new();
        let pausing = mobile.pausing(now);
        if !pausing.is_empty() {
            mobile.machine.handle_pauses(&pausing, now, &mut actions);
            self.perform_of_mobile(id, core::mem::take(&mut actions));
        }
        let mobile = &mut self.mobiles[id as usize];
        if mobile.machine.needs_segment_count(now) {
            let segments = Some(mobile.segments);
            mobile.machine.handle_segment_count(segments, now);
        }
        if mobile.machine.poll_timeout().is_some_and(|at| at <= now) {
            let flows = mobile.observed(&mobile.machine.flows_needed(now));
            mobile.machine.handle_timeout(&flows, now, &mut actions);
        }
        self.perform_of_mobile(id, actions);
    }

    /// Performs the machine's actions.
    fn perform_of_mobile(&mut self, id: u32, actions: Vec<HostAction>) {
        let now = self.now;
        let node = self.mobiles[id as usize].node;
        for action in actions {
            let (made, copies) = self.mobiles[id as usize].perform(action, now);
            for packet in made.iter().cycle().take(copies.into()) {
                self.forward(node, packet, DSCP_DEFAULT);
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
    /// The state of these flows from which the machine decides.
    fn observed(&self, needed: &FlowsNeeded) -> Vec<HostFlow> {
        let observed = |key| self.flows.get(key).and_then(Followed::observed);
        match needed {
            FlowsNeeded::All => self.flows.values().filter_map(Followed::observed).collect(),
            FlowsNeeded::Some(keys) => keys.iter().filter_map(observed).collect(),
        }
    }

    fn note_egress(&mut self, packet: &mut Packet, now: Instant) {
        let Body::Tcp(tcp) = &packet.body else {
            return;
        };
        let segment = tcp.segment;
        let key = FlowKey {
            fh: segment.to,
            mh: segment.from,
        };
        if segment.flags.has(Flags::RST) {
            self.flows.remove(&key);
            return;
        }
        if !self.flows.contains_key(&key) && self.flows.len() >= FLOWS_MAX {
            self.forget_one();
        }
        let is_wake = self.role.plan.settings.scheme == MobileScheme::Wake;
        let followed = self.flows.entry(key).or_insert_with(|| Followed {
            noted: Noted::new(key, packet, now),
            withheld: is_wake.then(Withheld::default),
            order: None,
        });
        followed.noted.note_egress(&segment, packet, now);
        let Body::Tcp(tcp) = &mut packet.body else {
            return;
        };
        let closes = !segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        if closes && let Some(order) = &mut followed.order {
            tcp.segment.window = ordered_window(order, followed.noted.shift(), &tcp.segment);
        }
        if let Some(withheld) = &mut followed.withheld {
            let flow = followed.noted.flow();
            withheld.pass(&mut tcp.segment, flow.as_ref(), now);
        }
    }

    /// Forgets the flow that was seen least recently, as the programs' maps do.
    fn forget_one(&mut self) {
        let oldest = self
            .flows
            .iter()
            .min_by_key(|(_, flow)| flow.noted.seen_at());
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.flows.remove(&key);
        }
    }

    fn note_ingress(&mut self, segment: &Segment, now: Instant) {
        self.segments += 1;
        let key = FlowKey {
            fh: segment.from,
            mh: segment.to,
        };
        if segment.flags.has(Flags::RST) {
            self.flows.remove(&key);
        } else if let Some(followed) = self.flows.get_mut(&key) {
            let fits = followed.noted.note_ingress(segment, now);
            if fits && let Some(withheld) = &mut followed.withheld {
                withheld.note_ingress(segment, followed.noted.flow().as_ref(), now);
            }
        }
    }

    /// When to check next whether an FH pauses.
    fn pause_at(&self) -> Option<Instant> {
        let due = self.flows.values().filter_map(|flow| {
            let withheld = flow.withheld.as_ref()?;
            withheld.poll_timeout(flow.noted.flow().as_ref())
        });
        due.min()
    }

    /// The flows whose FH pauses.
    fn pausing(&mut self, now: Instant) -> Vec<HostFlow> {
        let pausing = self.flows.values_mut().filter_map(|followed| {
            let flow = followed.noted.flow();
            let withheld = followed.withheld.as_mut()?;
            let pauses = withheld.pauses(flow.as_ref(), now);
            pauses.then(|| followed.observed()).flatten()
        });
        pausing.collect()
    }

    /// Performs an action of the machine. Returns a packet to send, and how many times.
    fn perform(&mut self, action: HostAction, now: Instant) -> (Option<Packet>, u8) {
        let key = match action {
            HostAction::Close(key)
            | HostAction::Open(key)
            | HostAction::Limit { key, .. }
            | HostAction::Send { key, .. }
            | HostAction::RenewEcho { key, .. }
            | HostAction::Probe(key) => key,
            HostAction::WakeUp(wake_up) => wake_up.key,
        };
        let Some(Followed {
            noted,
            withheld,
            order,
        }) = self.flows.get_mut(&key)
        else {
            return (None, 0);
        };
        match action {
            HostAction::Close(_) => *order = Some(WindowOrder::Closed),
            HostAction::Open(_) => *order = None,
            HostAction::Limit { edge, .. } => *order = Some(WindowOrder::Until(edge)),
            HostAction::Send { ack, copies, .. } => {
                if let (Some(withheld), Some(flow)) = (withheld, noted.flow())
                    && ack == MadeAck::Last
                {
                    withheld.release(&flow, now);
                }
                return (noted.made(ack), copies);
            }
            HostAction::RenewEcho { lasts, .. } => {
                if let (Some(withheld), Some(flow)) = (withheld, noted.flow()) {
                    withheld.renew_echo(&flow, lasts, now);
                }
            }
            HostAction::WakeUp(wake_up) => {
                let (Some(withheld), Some(flow), true) =
                    (withheld, noted.flow(), wake_up.sends_ack)
                else {
                    return (None, 0);
                };
                let clocks = withheld.renew_echo(&flow, wake_up.renews_echo_for, now);
                let made = noted.made_with(MadeAck::Last, |segment| {
                    let options = &mut segment.options;
                    options.timestamps = clocks.or(options.timestamps);
                    // With blocks that are new to the FH, it would sample a round trip as long as the
                    // outage.
                    options.sack = SackBlocks::default();
                });
                return (made, 1);
            }
            HostAction::Probe(key) => {
                let seq = noted.fh_ack() - 1;
                let made = noted.made_with(MadeAck::Last, |segment| segment.seq = seq);
                self.machine.handle_probe_sent(&key, now);
                return (made, 1);
            }
        }
        (None, 0)
    }
}

/// The window by the machine's order, as computed by `ordered_window` of `bpf/mobile.bpf.c`.
fn ordered_window(order: &mut WindowOrder, shift: u8, segment: &Segment) -> u16 {
    let WindowOrder::Until(edge) = order else {
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
