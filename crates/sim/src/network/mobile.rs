// SPDX-License-Identifier: Apache-2.0
//! A moving host with the machine of `holdfast_core::mobile_host` at its link: the very object
//! of `holdfast mobile`, between the host's connections and the network.
//!
//! What `bpf/mobile.bpf.c` does for the daemon is done here: each flow's newest ACK header is
//! noted (`noted`), its window closed while that is ordered, ACKs made that look like
//! the host's last one, and with `wake` a segment of each bulk download withheld (`withheld`). Made
//! ACKs are not noted themselves, as they go past the programs there. ICMP is not simulated: of a
//! wake-up there are the ACKs of the host's own number alone.

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

/// After an outage a warning of the next one comes no sooner than this: the report of link up
/// comes first.
const AFTER_RETURN: Duration = Duration::from_nanos(1);

/// Flows that are followed: the daemon's default (`mobile.flows_max`).
const FLOWS_MAX: usize = 8192;

/// What the MHs do for their own flows (`holdfast_core::mobile_host`, the very same as in
/// `holdfast mobile`), and the reports about their link, the last hop.
#[derive(Clone, Copy, Debug)]
pub struct MobilePlan {
    /// The machine's settings, the scheme among them.
    pub settings: MobileHostSettings,
    /// From the begin or end of an outage to its report; none: it is not reported.
    pub reported_after: Option<Duration>,
    /// A warning with its time comes this long before an outage; sooner than that after the last
    /// one: as soon as the link is up. None: never.
    pub warned_before: Option<Duration>,
    /// At this time link down and link up are reported although the link stays as it is; none:
    /// never.
    pub false_alarm_at: Option<Duration>,
    /// With `wake`: outages without a report are looked for, as in `holdfast mobile`.
    pub detects_silence: bool,
}

/// What a moving host does for its own flows, and what is reported to it of its link.
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
    /// Segments that have come.
    segments: u64,
    scheduled: Option<Instant>,
}

/// A flow that is followed.
#[derive(Debug)]
struct Followed {
    noted: Noted,
    /// With `wake`.
    withheld: Option<Withheld>,
    /// What is ordered for its window.
    order: Option<WindowOrder>,
}

/// What is ordered for a window.
#[derive(Clone, Copy, Debug)]
enum WindowOrder {
    /// It is 0.
    Closed,
    /// It ends here at the latest.
    Until(SeqNum),
}

impl Followed {
    /// What the machine decides from; none: the host has sent no ACK yet.
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

    /// At egress of a host: noted, its window closed if that is ordered.
    pub(super) fn leaves_mobile(&mut self, node: NodeId, packet: &mut Packet) {
        let now = self.now;
        let Some(id) = self.mobile_that_reads(node) else {
            return;
        };
        self.mobiles[id as usize].note_egress(packet, now);
        self.schedule_mobile(id);
    }

    /// About to reach a host's connections.
    pub(super) fn reaches_mobile(&mut self, node: NodeId, segment: &Segment) {
        let now = self.now;
        let Some(id) = self.mobile_that_reads(node) else {
            return;
        };
        self.mobiles[id as usize].note_ingress(segment, now);
    }

    /// The machine at a node's interface, if there are segments to be read.
    fn mobile_that_reads(&self, node: NodeId) -> Option<u32> {
        let mobile = self.nodes[node.0 as usize].mobile;
        mobile.filter(|_| !self.is_encrypted)
    }

    /// Links go down or up: the report will come.
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

    /// The first outage that begins after `after` is announced, if outages are.
    fn announce_next_outage(&mut self, id: u32, after: Instant) {
        let role = &self.mobiles[id as usize].role;
        let Some(before) = role.plan.warned_before else {
            return;
        };
        let medium = self.links[role.wireless.0 as usize].medium;
        // A copy: the original goes with the time, and this looks ahead of it.
        let mut schedule = self.media[medium as usize].schedule.clone();
        let (mut at, mut back) = (after, Instant::ZERO);
        while let Some(change) = schedule.next_change(at) {
            at = change;
            if schedule.state_at(change) == MediumState::Up {
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
            // An earlier one was scheduled.
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

    /// Does what the machine wants done.
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
    /// What the machine decides from, of these flows.
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

    /// Forgets the flow that was seen least recently, as the program's maps do.
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

    /// When it is to be looked next whether an FH pauses.
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

    /// Does what the machine wants done; gives the packet that it wants sent, and how often.
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
                    // Of blocks that the FH has not received yet it would sample a round trip as
                    // long as the outage.
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

/// The window that is ordered, as `ordered_window` of `bpf/mobile.bpf.c` has it.
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
