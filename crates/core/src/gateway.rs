// SPDX-License-Identifier: Apache-2.0
//! The gateway's engine: all flows, all mobiles, their deadlines.

use core::net::IpAddr;
use std::collections::VecDeque;

use holdfast_wire::{Flags, Instant, Segment};

use crate::budget::CacheBudget;
use crate::counters::Counters;
use crate::flow::Stage;
use crate::link_state::LinkSource;
use crate::mobile::{Link, Mobile};
use crate::outage::{EndedOutages, Outage};
use crate::schemes::{self, Shared};
use crate::settings::Settings;
use crate::table::{FlowId, MobileId, Slot, Table};
use crate::timers::Timers;
use crate::{Actions, Direction, FlowKey, FlowRecord, Payload, Verdict};

mod abilities;
mod admission;
mod adoption;
mod cells;
mod connection;
mod deadlines;
mod downlink;
mod flows;
mod halves;
mod handoff;
mod link_events;
mod path_mtu;
mod recovery;
mod turn;
mod uplink;
mod uploads;
mod view;

use cells::{Cells, Tables};
pub(crate) use connection::Connection;
use deadlines::SWEEP_INTERVAL;
use flows::Flows;
use recovery::Answered;
pub use view::{FlowView, MobileView, Stats};

/// The mechanisms for all flows that pass a gateway.
pub struct Gateway<P: Payload> {
    settings: Settings,
    flows: Flows<P>,
    mobiles: Table<MobileId, Mobile>,
    /// The records that a predecessor left, until their flows are adopted.
    predecessor: Table<Slot, FlowRecord>,
    /// When flows of the predecessor that were not adopted are taken for closed.
    predecessor_until: Option<Instant>,
    timers: Timers,
    counters: Counters,
    budget: CacheBudget,
    /// The gateway's interface has no carrier: nothing shows link up but the carrier itself.
    carrier_down: bool,
    /// Peers whose segments are taken from now on (true), or no longer (false).
    peers_to_take: VecDeque<(IpAddr, bool)>,
    ended_outages: EndedOutages<IpAddr>,
    /// The gateway is about to leave: it acknowledges nothing more ahead of an MH.
    draining: bool,
    /// Some connections may have different numbers on each half, or be set up by the gateway.
    has_halves: bool,
    /// The slot that the sweep looked at last.
    swept: u32,
    /// The slot from which the search for a flow to evict goes on.
    clock_hand: u32,
    /// The number of confirmed flows.
    confirmed: usize,
    /// The newest flow: in a full table a candidate for eviction.
    newest: Option<FlowId>,
    /// When the next step of the sweep is due. None: there is nothing to forget.
    sweep_at: Option<Instant>,
    /// The cells whose capacity is divided among their mobiles.
    cells: Cells,
    /// What schemes hold for all flows together.
    shared: Shared,
}

impl<P: Payload> Gateway<P> {
    /// An engine without flows.
    pub fn new(settings: Settings) -> Self {
        Self {
            flows: Flows::new(settings.flows_max, settings.hash_seed),
            mobiles: Table::new(settings.flows_max, settings.hash_seed),
            predecessor: Table::new(settings.flows_max, settings.hash_seed),
            predecessor_until: None,
            timers: Timers::default(),
            counters: Counters::default(),
            budget: CacheBudget::new(settings.cache_bytes_max),
            carrier_down: false,
            peers_to_take: VecDeque::new(),
            // Each mobile has a flow.
            ended_outages: EndedOutages::new(settings.flows_max),
            draining: false,
            has_halves: schemes::sets_up_connections(&settings),
            swept: 0,
            clock_hand: 0,
            confirmed: 0,
            newest: None,
            sweep_at: None,
            cells: Cells::new(&settings),
            shared: Shared::new(&settings),
            settings,
        }
    }

    /// Takes over the limits and times of other settings. Deadlines that are set already stay.
    pub fn set_limits(&mut self, settings: &Settings) {
        self.settings = self.settings.with_limits_of(settings);
        self.budget.set_bytes_max(settings.cache_bytes_max);
    }

    /// Imports a predecessor's record of a flow; used when the flow is adopted.
    pub fn import(&mut self, record: &FlowRecord, now: Instant) {
        self.predecessor.insert(*record);
        self.has_halves |= record.renumber.is_some();
        self.predecessor_until = Some(now + self.settings.flow_idle_max);
        self.sweep_at.get_or_insert(now + SWEEP_INTERVAL);
    }

    /// With `takes_in_outages`: the next peer whose segments the data path takes from now on (true),
    /// or passes with a copy for the engine (false). The caller polls after each input.
    pub fn poll_peer(&mut self) -> Option<(IpAddr, bool)> {
        self.peers_to_take.pop_front()
    }

    /// Whether [`Self::poll_outage`] has one.
    pub fn has_outages(&self) -> bool {
        !self.ended_outages.is_empty()
    }

    /// The next outage that has ended.
    pub fn poll_outage(&mut self) -> Option<Outage<IpAddr>> {
        self.ended_outages.pop()
    }

    /// Handles a segment; returns what happens to it.
    pub fn handle_segment(
        &mut self,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        if self.has_halves {
            self.handle_by_halves(direction, segment, payload, now, actions)
        } else {
            self.decide(direction, segment, payload, now, actions)
        }
    }

    /// Handles a segment with the numbers of the MH's half.
    fn decide(
        &mut self,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        self.counters.segments += 1;
        self.sweep_at.get_or_insert(now + SWEEP_INTERVAL);
        let key = FlowKey::of(segment, direction);
        let Some(flow_id) = self.find_or_adopt(key, now, actions) else {
            self.counters.table_full += 1;
            return Verdict::Forward;
        };
        self.decide_for_flow(flow_id, direction, segment, payload, now, actions)
    }

    fn decide_for_flow(
        &mut self,
        flow_id: FlowId,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let Some(connection) = self.flows.at_mut(flow_id) else {
            if !self.make_live(flow_id, segment) {
                // Segments do not refresh the idle timer of a closed flow.
                return Verdict::Forward;
            }
            return self.decide_for_flow(flow_id, direction, segment, payload, now, actions);
        };
        let flow = &mut connection.flow;
        let seen = core::mem::replace(&mut flow.seen, now);
        let implausible = self.counters.implausible;
        if flow.stage == Stage::Closed && !segment.flags.has(Flags::SYN) {
            if !flow.answers_with_rst() {
                // Segments do not refresh the idle timer of a closed flow.
                flow.seen = seen;
            }
            return flow.on_closed_segment(direction, segment, actions);
        }
        if flow.stage == Stage::Opaque {
            flow.note_end(direction, segment);
        }
        let mobile = flow.mobile;
        let verdict = if segment.flags.has(Flags::SYN) {
            connection.on_syn(direction, segment, payload, seen, now);
            Verdict::Forward
        } else if segment.flags.has(Flags::RST) {
            self.handle_rst(flow_id, direction, segment, now, actions)
        } else if segment.options.others && flow.stage == Stage::Adopting {
            if flow.follows_syns(direction, segment) {
                connection.forget_cached();
                connection.flow.stage = Stage::Opaque;
            }
            Verdict::Forward
        } else if direction == Direction::Downlink {
            self.handle_downlink(flow_id, segment, payload, now, actions)
        } else {
            self.handle_uplink(flow_id, segment, payload, now, actions)
        };
        if self.counters.implausible > implausible {
            self.restore_seen(flow_id, seen);
        }
        self.count_in_flight(flow_id);
        self.after_input(flow_id, mobile, now, actions);
        verdict
    }

    /// Restores the full state of an idle flow, or of a closed one if a SYN may reopen it. False:
    /// it stays closed.
    #[cold]
    fn make_live(&mut self, flow_id: FlowId, segment: &Segment) -> bool {
        if segment.flags.has(Flags::SYN) {
            let scheme = self.settings.scheme;
            self.flows.revive(flow_id, &self.mobiles, scheme);
        }
        self.unpack(flow_id).is_some()
    }

    /// The full state of a flow. An idle flow gets what its MH has reported meanwhile.
    fn unpack(&mut self, flow_id: FlowId) -> Option<&mut Connection<P>> {
        if self.flows.at(flow_id).is_none() {
            self.flows.unpack(flow_id)?;
            self.follow_abilities(flow_id);
        }
        self.flows.at_mut(flow_id)
    }

    /// An implausible segment does not refresh the idle timer of an open flow.
    fn restore_seen(&mut self, flow_id: FlowId, seen: Instant) {
        let row = self.flows.at_mut(flow_id);
        if let Some(row) = row.filter(|row| row.flow.stage == Stage::Open) {
            row.flow.seen = seen;
        }
    }

    fn handle_rst(
        &mut self,
        flow_id: FlowId,
        direction: Direction,
        segment: &Segment,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let Some(Connection { flow, scheme }) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        let from_mh = direction == Direction::Uplink;
        if !flow.accepts_rst(from_mh, segment, scheme.get().acked_to_fh(flow)) {
            self.counters.implausible += 1;
            return Verdict::Forward;
        }
        let has_queued_data = flow.has_backlog() && flow.owed.is_none() && !flow.has_own_sender;
        let is_reached = |mobile: &Mobile| !mobile.is_away();
        if !from_mh && has_queued_data && self.mobiles.at(flow.mobile).is_some_and(is_reached) {
            // The RST must not overtake the FH's data. The FH answers the MH's next segment with another RST.
            return Verdict::Suppress;
        }
        let (mobile_id, waited) = (flow.mobile, flow.waits_for_ack());
        self.end_flow(flow_id, actions);
        let mobile = self.mobiles.at_mut(mobile_id);
        let returned = from_mh && mobile.is_some_and(|mobile| mobile.on_segment(now));
        if returned && !self.carrier_down {
            let flow = flow_id;
            let answered = Some(Answered { flow, waited });
            self.begin_recovery(mobile_id, LinkSource::Silence, answered, now, actions);
        }
        Verdict::Forward
    }

    /// Ends the flow if both FINs are acknowledged.
    fn close_if_done(&mut self, flow_id: FlowId, actions: &mut Actions<P>) {
        let done = |row: &Connection<P>| row.flow.stage == Stage::Open && row.is_done();
        if self.flows.at(flow_id).is_some_and(done) {
            self.end_flow(flow_id, actions);
        }
    }

    /// Updates the counts of bytes in flight and the queue of flows with a backlog.
    fn count_in_flight(&mut self, flow_id: FlowId) {
        let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id) else {
            return;
        };
        let mut moves = false;
        if let Some(mobile) = self.mobiles.at_mut(flow.mobile) {
            mobile.count_flow(flow, &mut self.budget);
            flow.join_send_queue(flow_id, &mut mobile.send_queue);
            let is_among_open = (flow.index_at_mobile as usize) < mobile.open;
            moves = is_among_open != (flow.stage == Stage::Open);
        }
        let was_confirmed = flow.count_confirmed();
        self.confirmed =
            self.confirmed + usize::from(flow.is_confirmed()) - usize::from(was_confirmed);
        if moves {
            self.sort_among_flows_of_mobile(flow_id);
        }
    }

    /// Updates the counts of cached bytes.
    fn count_cached_bytes(&mut self, flow_id: FlowId) {
        if let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id)
            && let Some(mobile) = self.mobiles.at_mut(flow.mobile)
        {
            mobile.count_cached_bytes(flow, &mut self.budget);
        }
    }

    /// Counts the mobile of the flow as active in its cell.
    fn note_in_cell(&mut self, flow_id: FlowId, now: Instant) {
        let (flows, mobiles) = (&mut self.flows, &mut self.mobiles);
        self.cells
            .on_segment(flow_id, Tables { flows, mobiles }, now);
    }

    fn after_input(
        &mut self,
        flow_id: FlowId,
        mobile: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        if self
            .mobiles
            .at(mobile)
            .is_some_and(|mobile| mobile.link == Link::Recovering)
        {
            self.send_on(mobile, now, actions);
        }
        self.close_if_done(flow_id, actions);
        self.note_in_cell(flow_id, now);
        self.schedule_flow(flow_id, now);
        self.schedule_mobile(mobile);
    }
}

#[cfg(test)]
pub(crate) mod tests;
