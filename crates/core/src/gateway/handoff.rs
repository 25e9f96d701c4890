// SPDX-License-Identifier: Apache-2.0
//! Hands a mobile's flows over to another station, or takes them over (`crate::handoff`).

use core::net::IpAddr;

use holdfast_wire::Instant;

use super::deadlines::SWEEP_INTERVAL;
use super::{Connection, Gateway};
use crate::flow::Stage;
use crate::handoff::FlowState;
use crate::link_state::LinkSource;
use crate::mobile::{Link, Mobile};
use crate::schemes;
use crate::{Action, Actions, FlowKey, Payload, Resend};

impl<P: Payload> Gateway<P> {
    /// The state of all flows of these addresses, for another station that has the mobile now. `actions`
    /// gets what FHs are sent because of that.
    pub fn export(
        &mut self,
        addresses: &[IpAddr],
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Vec<FlowState> {
        let mut states = Vec::new();
        for address in addresses {
            let Some(mobile_id) = self.mobiles.find(address) else {
                continue;
            };
            let mobile = self.mobiles.at(mobile_id);
            let rate = mobile.and_then(|mobile| mobile.delivery.bytes_per_s());
            for flow_id in mobile.map_or(&[][..], Mobile::open_flows) {
                self.flows.unpack(*flow_id);
            }
            self.with_flows_of(mobile_id, now, actions, |scheme, flow, cx| {
                scheme.on_hand_over(flow, cx);
                let state = flow.state(cx.rtt().srtt(), rate);
                let split = scheme.split_state(flow);
                states.extend(state.map(|state| FlowState { split, ..state }));
            });
        }
        states
    }

    /// Takes over a flow as another station knew it. `uplink` is a header for segments of the MH, if
    /// none has passed here yet. False if this station has no room, or knows the flow already. In the
    /// latter case only unknown values change, unless the stations renumber the flow differently.
    pub fn adopt(
        &mut self,
        state: &FlowState,
        uplink: Option<P::Header>,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> bool {
        self.sweep_at.get_or_insert(now + SWEEP_INTERVAL);
        let Some(flow_id) = self.find_or_adopt(state.key, now, actions) else {
            self.counters.table_full += 1;
            return false;
        };
        let Some(connection) = self.flows.unpack(flow_id) else {
            return false;
        };
        let Connection { flow, scheme } = connection;
        if scheme.get_mut().forget_set_up(flow) {
            flow.stage = Stage::Adopting;
        }
        let stage = connection.flow.stage;
        if !take_state(connection, state, now) {
            return false;
        }
        let flow = &mut connection.flow;
        flow.uplink_header = flow.uplink_header.take().or(uplink);
        // An open flow has numbers that fit.
        flow.renumber = state.renumber.or(flow.renumber);
        self.has_halves |= state.renumber.is_some();
        let mobile_id = flow.mobile;
        if flow.mh.window_scale.is_some() {
            actions.push(Action::Record(flow.record()));
        }
        self.predecessor.remove(&state.key);
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return false;
        };
        let srtt = state.srtt.into_iter();
        srtt.for_each(|srtt| mobile.rtt.seed(srtt));
        let rate = state.bytes_per_s.into_iter();
        rate.for_each(|rate| mobile.delivery.seed(rate));
        if let Some(split) = state.split {
            let has_passed = stage == Stage::Open && state.renumber.is_none();
            self.with_context(flow_id, now, actions, |scheme, flow, cx| {
                scheme.on_take_over(flow, &split, has_passed, cx);
            });
        }
        self.follow_abilities(flow_id);
        self.counters.flows_adopted += u64::from(stage == Stage::Adopting);
        self.count_in_flight(flow_id);
        self.note_in_cell(flow_id, now);
        self.schedule_flow(flow_id, now);
        self.schedule_mobile(mobile_id);
        stage == Stage::Adopting
    }

    /// Queues segments for these flows until [`Self::resume_sending`], which sends them at the link's pace.
    /// Has no effect with a scheme that knows no outages, or on a flow with its own sender.
    pub fn queue_segments(&mut self, flows: &[FlowKey]) {
        if !schemes::survives_outages(&self.settings) {
            return;
        }
        for key in flows {
            let flow_id = self.flows.find(key);
            let row = flow_id.and_then(|flow_id| self.unpack(flow_id));
            if let Some(Connection { flow, .. }) = row {
                flow.waits_for_handoff = true;
            }
        }
    }

    /// Sends what was queued for these flows: their MH is here.
    pub fn resume_sending(&mut self, flows: &[FlowKey], now: Instant, actions: &mut Actions<P>) {
        for key in flows {
            let Some(flow_id) = self.flows.find(key) else {
                continue;
            };
            let Some(connection) = self.unpack(flow_id) else {
                continue;
            };
            let flow = &mut connection.flow;
            let waited = core::mem::replace(&mut flow.waits_for_handoff, false);
            let mobile_id = flow.mobile;
            if flow.has_own_sender {
                self.with_context(flow_id, now, actions, |scheme, flow, cx| {
                    scheme.on_reconnected(flow, cx);
                });
            } else if waited {
                connection.rewind_after_outage();
            }
            let mobile = self.mobiles.at(mobile_id);
            let is_silent = mobile.is_some_and(|mobile| mobile.link == Link::Silent);
            self.count_in_flight(flow_id);
            if is_silent {
                self.begin_recovery(mobile_id, LinkSource::Command, None, now, actions);
                self.schedule_mobile(mobile_id);
            } else if waited {
                self.resume_recovery(mobile_id, now, actions);
            }
            self.schedule_flow(flow_id, now);
        }
    }

    /// Forgets all flows of these addresses: another station has the mobile. What was
    /// cached for it goes to `pieces`; nothing more is sent. Flows with bytes that are owed stay.
    pub fn release(
        &mut self,
        addresses: &[IpAddr],
        pieces: &mut Vec<Resend<P>>,
        actions: &mut Actions<P>,
    ) {
        for address in addresses {
            let mobile = self.mobiles.get(address);
            let flows = mobile.map_or(Vec::new(), |mobile| mobile.flows.clone());
            for flow_id in flows {
                let Some(Connection { flow, scheme }) = self.flows.unpack(flow_id) else {
                    self.forget_flow(flow_id, actions);
                    continue;
                };
                if flow.owed.is_some() {
                    continue;
                }
                let (settings, counters) = (&self.settings, &mut self.counters);
                if scheme
                    .get_mut()
                    .on_release(flow, settings, counters, actions)
                {
                    flow.cached_pieces(pieces);
                }
                self.forget_flow(flow_id, actions);
            }
        }
    }
}

/// Takes over another station's state. False: the flow is opaque or closed here.
fn take_state<P: Payload>(connection: &mut Connection<P>, state: &FlowState, now: Instant) -> bool {
    let flow = &connection.flow;
    let stage = flow.stage;
    // This station has tracked it without the difference between the numbers of its halves.
    let misread =
        stage == Stage::Open && state.renumber.is_some() && flow.renumber != state.renumber;
    if misread {
        connection.forget_cached();
    }
    let flow = &mut connection.flow;
    match stage {
        Stage::Adopting => flow.adopt(state, now),
        Stage::Open if misread => flow.adopt(state, now),
        Stage::Open => flow.complete(state),
        Stage::Opaque | Stage::Closed => return false,
    }
    true
}
