// SPDX-License-Identifier: Apache-2.0
//! Adopts flows that are not in the table, with the records of a predecessor.

use holdfast_wire::Instant;

use super::{Connection, Gateway};
use crate::bandwidth::CellMember;
use crate::flow::Flow;
use crate::link_state::LinkSource;
use crate::mobile::Mobile;
use crate::schemes::{self, AnyScheme};
use crate::table::FlowId;
use crate::{Action, Actions, FlowKey, Payload};

impl<P: Payload> Gateway<P> {
    /// The ID of a flow; a new flow is adopted. `None`: the table is full.
    pub(super) fn find_or_adopt(
        &mut self,
        key: FlowKey,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Option<FlowId> {
        let flow_id = self.flows.find(&key);
        flow_id.or_else(|| self.add_flow(key, now, actions))
    }

    /// Adds a flow to the table. `None`: the table is full, and no flow may be evicted.
    pub(super) fn add_flow(
        &mut self,
        key: FlowKey,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Option<FlowId> {
        if self.flows.len() >= self.settings.flows_max {
            let mobile = self.mobiles.get(&key.mh.address);
            let flows = mobile.map_or(0, |mobile| mobile.flows.len());
            if !self.make_room(flows, actions) {
                return None;
            }
        }
        let carrier_down = self.carrier_down;
        let survives = schemes::survives_outages(&self.settings);
        let settings = &self.settings;
        let address = key.mh.address;
        let mobile = self.mobiles.find(&address).or_else(|| {
            let mut mobile = Mobile::new(address, now);
            mobile.changing = schemes::expects_changing_rates(&self.settings).then(Box::default);
            mobile.cell = CellMember::new(&settings.bandwidth, address);
            mobile.detects_outages = survives;
            if carrier_down && survives {
                mobile.go_down(LinkSource::Carrier, settings, now);
            }
            self.mobiles.insert(mobile)
        })?;
        let connection = Connection {
            flow: Flow::new(key, mobile, now),
            scheme: AnyScheme::new(settings.scheme),
        };
        let flow_id = self.flows.insert(connection);
        match flow_id {
            Some(flow_id) => {
                let flows = &mut self.mobiles.at_mut(mobile)?.flows;
                self.flows.at_mut(flow_id)?.flow.index_at_mobile = flows.len() as u32;
                flows.push(flow_id);
            }
            None => self.forget_mobile_without_flows(mobile),
        }
        self.newest = flow_id;
        if let (Some(flow_id), Some(record)) = (flow_id, self.predecessor.get(&key)) {
            let flow = &mut self.flows.at_mut(flow_id)?.flow;
            flow.mh.window_scale = record.mh_window_scale;
            flow.renumber = record.renumber;
        }
        flow_id
    }

    /// Both directions of a flow are known now. True if it is reset: the segment goes no further.
    pub(super) fn begin(
        &mut self,
        flow_id: FlowId,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> bool {
        let Some(row) = self.flows.at(flow_id) else {
            return false;
        };
        let key = row.flow.key;
        if row.flow.began_with_syns() {
            // What a predecessor owed was another connection's.
            self.predecessor.remove(&key);
        }
        self.counters.flows_adopted += 1;
        if self.settle_with_predecessor(flow_id, &key, actions) {
            return true;
        }
        self.with_context(flow_id, now, actions, |scheme, flow, cx| {
            scheme.on_adopted(flow, cx);
        });
        self.follow_abilities(flow_id);
        false
    }

    /// Applies a predecessor's record to a flow. Bytes that the predecessor owed are lost: both ends
    /// get a RST, never a silent gap. Returns true in that case.
    fn settle_with_predecessor(
        &mut self,
        flow_id: FlowId,
        key: &FlowKey,
        actions: &mut Actions<P>,
    ) -> bool {
        let Some(Connection { flow, scheme }) = self.flows.at_mut(flow_id) else {
            return false;
        };
        let owed = self.predecessor.remove(key).and_then(|record| record.owed);
        flow.owed = owed.filter(|owed| flow.fh.una.before(*owed));
        if flow.mh.window_scale.is_some() {
            actions.push(Action::Record(flow.record()));
        }
        if flow.owed.is_none() {
            return false;
        }
        // The record stays until the flow is removed: both RSTs may be lost, and a successor must
        // send them then.
        flow.reset_both_ends(actions);
        scheme.get_mut().reset();
        self.counters.owed_lost += 1;
        true
    }
}
