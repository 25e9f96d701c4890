// SPDX-License-Identifier: Apache-2.0
//! The gateway's engine: all flows, all mobiles, their deadlines.

use core::net::IpAddr;

use holdfast_wire::{Flags, Instant, Segment};

use crate::budget::CacheBudget;
use crate::cache::Insertion;
use crate::flow::{AckOutcome, DataOutcome, Flow, FlowKey, Mute, Stage};
use crate::mobile::{Link, LinkSource, Mobile};
use crate::schemes::Context;
use crate::settings::{Scheme, Settings};
use crate::table::{FlowId, MobileId, Slot, Table};
use crate::timers::Timers;
use crate::{Actions, Direction, FlowRecord, Payload, Verdict};

mod admission;
mod cell;
mod compression;
mod deadlines;
mod early;
mod handoff;
mod hooks;
mod link_events;
mod meeting;
mod path_mtu;
mod recovery;
mod split;
mod view;

use compression::Compression;
use deadlines::SWEEP_INTERVAL;
pub(crate) use early::Early;
pub use view::{Counters, FlowView, MobileView, Stats};

/// The mechanisms for all flows that pass a gateway.
pub struct Gateway<P: Payload> {
    settings: Settings,
    flows: Table<FlowKey, FlowId, Flow<P>>,
    mobiles: Table<IpAddr, MobileId, Mobile>,
    predecessor: Table<FlowKey, Slot, FlowRecord>,
    /// When flows of the predecessor that were not met are taken for gone.
    predecessor_until: Option<Instant>,
    timers: Timers,
    counters: Counters,
    budget: CacheBudget,
    carrier_down: bool,
    draining: bool,
    /// Some flows may have been set up early.
    has_early: bool,
    swept: u32,
    /// Where the walk for a flow that makes room stands; confirmed flows, and the newest flow.
    clock_hand: u32,
    confirmed: usize,
    newest: Option<FlowId>,
    sweep_at: Option<Instant>,
    /// The cells, and when they are to be shared anew.
    cells: Vec<cell::Cell>,
    cell_at: Option<Instant>,
    compression: Option<Compression>,
}

impl<P: Payload> Gateway<P> {
    /// An engine without flows.
    pub fn new(settings: Settings) -> Self {
        Self {
            flows: Table::new(settings.flows_max, settings.hash_seed),
            mobiles: Table::new(settings.flows_max, settings.hash_seed),
            predecessor: Table::new(settings.flows_max, settings.hash_seed),
            predecessor_until: None,
            timers: Timers::default(),
            counters: Counters::default(),
            budget: CacheBudget::new(settings.cache_bytes_max),
            carrier_down: false,
            draining: false,
            has_early: Self::expects_early(&settings),
            swept: 0,
            clock_hand: 0,
            confirmed: 0,
            newest: None,
            sweep_at: None,
            cells: cell::Cell::all(&settings),
            cell_at: None,
            compression: settings.compression.map(Compression::new),
            settings,
        }
    }

    /// Takes over what a predecessor left of a flow; used when the flow is met.
    pub fn import(&mut self, record: &FlowRecord, now: Instant) {
        self.predecessor.insert(record.key, *record);
        self.has_early |= record.renumber.is_some();
        self.predecessor_until = Some(now + self.settings.flow_idle_max);
        self.sweep_at.get_or_insert(now + SWEEP_INTERVAL);
    }

    /// A segment on its way, by the numbers of the MH's half.
    fn judge(
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
        let Some(flow_id) = self.find_or_meet(key, now, actions) else {
            self.counters.table_full += 1;
            return Verdict::Forward;
        };
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        let seen = core::mem::replace(&mut flow.seen, now);
        let implausible = self.counters.implausible;
        if flow.stage == Stage::Closed && !segment.flags.has(Flags::SYN) {
            if !flow.is_refused() {
                // Whoever goes on sending does not keep a closed flow in the table.
                flow.seen = seen;
            }
            return flow.on_closed_segment(direction, segment, actions);
        }
        if flow.stage == Stage::Opaque {
            flow.note_end(direction, segment);
        }
        let mobile = flow.mobile;
        let verdict = if segment.flags.has(Flags::SYN) {
            let quiet = now.saturating_since(seen);
            let from_mh = direction == Direction::Uplink;
            flow.on_syn(from_mh, segment, quiet, now);
            if flow.stage != Stage::Meeting {
                flow.seen = seen;
            }
            Verdict::Forward
        } else if segment.flags.has(Flags::RST) {
            self.handle_rst(flow_id, direction, segment, now, actions);
            Verdict::Forward
        } else if segment.options.others && flow.stage == Stage::Meeting {
            if flow.follows_syns(direction, segment) {
                flow.forget_kept();
                flow.stage = Stage::Opaque;
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

    /// An implausible segment does not refresh the idle timer of an open flow.
    fn restore_seen(&mut self, flow_id: FlowId, seen: Instant) {
        let flow = self.flows.at_mut(flow_id);
        if let Some(flow) = flow.filter(|flow| flow.stage == Stage::Open) {
            flow.seen = seen;
        }
    }

    fn handle_rst(
        &mut self,
        flow_id: FlowId,
        direction: Direction,
        segment: &Segment,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return;
        };
        let from_mh = direction == Direction::Uplink;
        if !flow.accepts_rst(from_mh, segment) {
            self.counters.implausible += 1;
            return;
        }
        let mobile_id = flow.mobile;
        self.end_flow(flow_id, actions);
        self.count_in_flight(flow_id);
        let mobile = self.mobiles.at_mut(mobile_id);
        let returned = from_mh && mobile.is_some_and(|mobile| mobile.hear(now));
        if returned && !self.carrier_down {
            let answered = Some(flow_id);
            self.begin_recovery(mobile_id, LinkSource::Silence, answered, now, actions);
        }
    }

    /// Both FINs are acknowledged: nothing more is done.
    fn close_if_done(&mut self, flow_id: FlowId, actions: &mut Actions<P>) {
        let done = |flow: &Flow<P>| flow.stage == Stage::Open && flow.is_done();
        if self.flows.at(flow_id).is_some_and(done) {
            self.end_flow(flow_id, actions);
            self.count_in_flight(flow_id);
        }
    }

    fn handle_downlink(
        &mut self,
        flow_id: FlowId,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        let outcome = flow.on_fh_segment(segment, payload, now);
        if outcome == DataOutcome::Unknown {
            self.counters.implausible += u64::from(flow.stage == Stage::Open);
            let record = self.predecessor.get(&flow.key);
            if let (Stage::Meeting, Some(owed)) = (flow.stage, record.and_then(|old| old.owed)) {
                // In persist state the FH may say nothing that the MH would answer.
                actions.extend(flow.made_question(segment, owed));
            }
            return Verdict::Forward;
        }
        let away = self.mobiles.at(flow.mobile).is_some_and(Mobile::is_away);
        let away = away || flow.mtcp.is_frozen();
        let held_back = self.hears_of_uplink(flow_id, segment, now, actions);
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        let bare = segment.is_empty() && segment.seq == flow.fh.max && payload.is_cacheable();
        // One that was said in another goes on as it came.
        if away && bare && flow.snoop_uplink.ack_for_mh(segment.ack) == segment.ack {
            flow.held_ack = Some(payload.clone());
        }
        if held_back {
            return Verdict::Suppress;
        }
        let verdict = if segment.is_empty() || outcome == DataOutcome::Old {
            let judged = self.with_context(flow_id, now, actions, |flow, _, cx| {
                cx.settings.scheme.on_nothing_new(flow, segment, cx)
            });
            let Some(verdict) = judged else {
                return Verdict::Forward;
            };
            verdict
        } else if flow.is_split() {
            self.keep_split(flow_id, segment, payload, now, actions)
        } else {
            self.keep_and_judge(flow_id, segment, payload, now, actions)
        };
        if let (Verdict::Forward, Some(flow)) = (verdict, self.flows.at_mut(flow_id)) {
            flow.note_passed(segment, now);
        }
        verdict
    }

    /// What the FH says of the MH's data. True if that goes no further.
    fn hears_of_uplink(
        &mut self,
        flow_id: FlowId,
        segment: &Segment,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> bool {
        let withheld = self.with_context(flow_id, now, actions, |flow, mobile, cx| {
            let scheme = cx.settings.scheme;
            scheme.on_fh_ack(flow, segment, mobile.is_away(), cx)
        });
        withheld.unwrap_or(false)
    }

    /// Data that the MH lacks: kept, and forwarded if it is its turn.
    fn keep_and_judge(
        &mut self,
        flow_id: FlowId,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let settings = &self.settings;
        let scheme = settings.scheme;
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        let Some(mobile) = self.mobiles.at_mut(flow.mobile) else {
            return Verdict::Forward;
        };
        let backlog = flow.has_backlog();
        if flow.cache.contradicts(segment, payload) {
            self.counters.implausible += 1;
        }
        mobile.count_kept_bytes(flow, &mut self.budget);
        let room = scheme.cache_room(flow, segment, settings);
        let room = room.min(mobile.cache_room(&self.budget));
        let kept = flow.keep(segment, payload, room, settings);
        let counters = &mut self.counters;
        let Insertion::Kept { new_bytes } = kept else {
            counters.cache_full += 1;
            let mut cx = Context::new(settings, mobile, now, counters, actions);
            scheme.on_data(flow, segment, kept, &mut cx);
            // What is still waiting in the cache is not skipped.
            if !backlog {
                flow.on_forwarded(segment, now);
            }
            mobile.on_sent(now);
            return Verdict::Forward;
        };
        let repeated = new_bytes == 0 && !segment.flags.has(Flags::FIN);
        let ours = flow.repairs_itself() && flow.repairs < recovery::REPAIRS_ALONE;
        // The silence may be another flow's: a flow with nothing in flight asks for itself.
        let asks =
            mobile.link == Link::Silent && !flow.ahead.frozen && !backlog && flow.in_flight() == 0;
        // Kept back only if it is certain to be sent from the cache.
        let takes_segments = asks || mobile.takes_segments();
        let waits_its_turn = (backlog || !takes_segments) && segment.end().after(flow.sent_nxt);
        // A mute flow sends no more than probes: after some of them the FH's own copies do better.
        let waits_its_turn = waits_its_turn && (flow.mute == Mute::No || !repeated || ours);
        let away = mobile.is_away() && !asks;
        let mut cx = Context::new(settings, mobile, now, counters, actions);
        if !(away || flow.held || waits_its_turn || (repeated && ours)) {
            scheme.on_data(flow, segment, kept, &mut cx);
            flow.on_forwarded(segment, now);
            mobile.on_sent(now);
            mobile.passed += u64::from(segment.payload_len);
            if !repeated {
                flow.ahead.reopen_at = None;
            }
            return Verdict::Forward;
        }
        cx.counters.kept_back += 1;
        if repeated && !flow.ahead.frozen {
            // A copy is kept: whatever the scheme answers, this one goes no further.
            let _ = scheme.on_nothing_new(flow, segment, &mut cx);
            return Verdict::Suppress;
        }
        scheme.on_kept(flow, segment, &mut cx);
        Verdict::Suppress
    }

    fn handle_uplink(
        &mut self,
        flow_id: FlowId,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        let met = flow.stage == Stage::Meeting;
        let least_rtt = self
            .mobiles
            .at(flow.mobile)
            .and_then(|mobile| mobile.rtt.least());
        let outcome = flow.on_mh_segment(segment, payload, least_rtt, now);
        if !outcome.credible {
            self.counters.implausible += u64::from(flow.stage == Stage::Open);
            return Verdict::Forward;
        }
        let mobile_id = flow.mobile;
        let scheme = self.settings.scheme;
        if met && flow.began_with_syns() {
            // What a predecessor owed was another connection's.
            let key = flow.key;
            self.predecessor.remove(&key);
        }
        if met && self.begins(flow_id, now, actions) {
            return Verdict::Suppress;
        }
        if outcome.proves_compression {
            self.prove_compression(flow_id);
        }
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return Verdict::Forward;
        };
        let was_mute = core::mem::replace(&mut flow.mute, Mute::No) != Mute::No;
        let (budget, counters) = (&mut self.budget, &mut self.counters);
        let returned = take_in(mobile, flow, segment, &outcome, budget, counters, now);
        let counters = &mut self.counters;
        let mut cx = Context::new(&self.settings, mobile, now, counters, actions);
        let verdict = scheme.on_mh_segment(flow, segment, &outcome, &mut cx);
        let room = mobile.cache_room(&self.budget);
        let away = mobile.is_away();
        scheme.on_mh_data(flow, segment, payload, room, away, &mut cx);
        if flow.repairs_itself() {
            recovery::repair(flow, outcome.loss, &mut self.counters, actions);
        }
        self.repair_split(flow_id, outcome.loss, now, actions);
        self.close_if_done(flow_id, actions);
        if was_mute {
            self.count_in_flight(flow_id);
            self.resume_recovery(mobile_id, now, actions);
        }
        if returned && !self.carrier_down {
            let answered = Some(flow_id);
            self.begin_recovery(mobile_id, LinkSource::Silence, answered, now, actions);
            return match scheme {
                Scheme::Mtcp => verdict,
                _ => Scheme::verdict_on_return(&self.settings, segment),
            };
        }
        verdict
    }

    /// Both halves of a flow are known now. True if its MH's segment goes no further.
    fn begins(&mut self, flow_id: FlowId, now: Instant, actions: &mut Actions<P>) -> bool {
        self.counters.flows_met += 1;
        let Some(key) = self.flows.at(flow_id).map(|flow| flow.key) else {
            return false;
        };
        if self.settle_with_predecessor(flow_id, &key, actions) {
            return true;
        }
        self.with_context(flow_id, now, actions, |flow, _, cx| {
            cx.settings.scheme.on_met(flow, cx);
        });
        self.equip(flow_id);
        false
    }

    /// The bytes in flight and the backlog of the flow may have changed.
    fn count_in_flight(&mut self, flow_id: FlowId) {
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return;
        };
        if let Some(mobile) = self.mobiles.at_mut(flow.mobile) {
            mobile.count(flow, &mut self.budget);
            flow.join(flow_id, &mut mobile.waiting);
        }
        let was_confirmed = flow.count_confirmed();
        self.confirmed =
            self.confirmed + usize::from(flow.is_confirmed()) - usize::from(was_confirmed);
        self.sort_among_flows_of_mobile(flow_id);
    }

    /// The bytes kept of the flow may have changed.
    fn count_kept_bytes(&mut self, flow_id: FlowId) {
        if let Some(flow) = self.flows.at_mut(flow_id)
            && let Some(mobile) = self.mobiles.at_mut(flow.mobile)
        {
            mobile.count_kept_bytes(flow, &mut self.budget);
        }
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
        self.watch_cell(flow_id, now);
        self.schedule_flow(flow_id, now);
        self.schedule_mobile(mobile);
    }
}

/// What the MH's segment tells of its link. True if it tells that the MH is back.
fn take_in<P: Payload>(
    mobile: &mut Mobile,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    budget: &mut CacheBudget,
    counters: &mut Counters,
    now: Instant,
) -> bool {
    if let Some(rtt) = outcome.rtt.filter(|_| !mobile.is_away()) {
        mobile.rtt.sample(rtt);
    }
    if outcome.acked > 0 {
        mobile.acked += u64::from(outcome.delivered);
        mobile
            .delivery
            .on_acked(outcome.delivered, mobile.rtt.srtt(), now);
        mobile.grow_window(if mobile.link == Link::Recovering {
            outcome.delivered
        } else {
            0
        });
        flow.repair_at = None;
    }
    mobile.radio_lost_at = mobile.radio_lost_at.max(flow.snoop.radio_lost_at());
    if flow.finds_link_kept_all(segment) {
        counters.links_that_kept += 1;
    }
    mobile.count(flow, budget);
    mobile.hear(now)
}

#[cfg(test)]
mod tests;
