// SPDX-License-Identifier: Apache-2.0
//! A mobile's flows to another station and from it (`crate::handoff`).

use core::net::IpAddr;

use holdfast_wire::Instant;

use super::Gateway;
use super::deadlines::SWEEP_INTERVAL;
use crate::flow::Stage;
use crate::handoff::FlowState;
use crate::schemes::mtcp;
use crate::{Action, Actions, Payload, Resend};

impl<P: Payload> Gateway<P> {
    /// What is known of all flows of these addresses, for another station.
    pub fn export(&self, addresses: &[IpAddr]) -> Vec<FlowState> {
        let mobiles = addresses.iter().filter_map(|address| {
            let place = self.mobiles.find(address)?;
            self.mobiles.at(place)
        });
        mobiles
            .flat_map(|mobile| {
                let (srtt, rate) = (mobile.rtt.srtt(), mobile.delivery.bytes_per_s());
                let flows = mobile
                    .flows
                    .iter()
                    .filter_map(|place| self.flows.at(*place));
                flows.filter_map(move |flow| flow.state(srtt, rate))
            })
            .collect()
    }

    /// Takes over a flow as another station knew it. False if this one knows it already, or
    /// has no room; then nothing of its own knowledge changes.
    pub fn adopt(&mut self, state: &FlowState, now: Instant, actions: &mut Actions<P>) -> bool {
        self.sweep_at.get_or_insert(now + SWEEP_INTERVAL);
        let found = self.flows.find(&state.key);
        let Some(place) = found.or_else(|| self.meet(state.key, now)) else {
            self.counters.table_full += 1;
            return false;
        };
        let Some(flow) = self.flows.at_mut(place) else {
            return false;
        };
        if flow.stage != Stage::Meeting {
            return false;
        }
        flow.adopt(state, now);
        if flow.mh.window_scale.is_some() {
            actions.push(Action::Record(flow.record()));
        }
        let mobile = flow.mobile;
        self.predecessor.remove(&state.key);
        if let Some(mobile) = self.mobiles.at_mut(mobile) {
            state
                .srtt
                .into_iter()
                .for_each(|srtt| mobile.rtt.seed(srtt));
            let rate = state.bytes_per_s.into_iter();
            rate.for_each(|rate| mobile.delivery.seed(rate));
        }
        self.counters.flows_met += 1;
        self.count_in_flight(place);
        self.schedule_flow(place, now);
        self.schedule_mobile(mobile);
        true
    }

    /// Lets go of all flows of these addresses: another station has the mobile. What was kept
    /// for it goes to `pieces`; nothing more is sent. Flows with bytes that are owed stay.
    pub fn release(
        &mut self,
        addresses: &[IpAddr],
        pieces: &mut Vec<Resend<P>>,
        actions: &mut Actions<P>,
    ) {
        for address in addresses {
            let place = self.mobiles.find(address);
            let mobile = place.and_then(|place| self.mobiles.at(place));
            let flows = mobile.map_or(Vec::new(), |mobile| mobile.flows.clone());
            for place in flows {
                let Some(flow) = self.flows.at_mut(place) else {
                    continue;
                };
                if flow.ahead.owed.is_some() {
                    continue;
                }
                mtcp::leave(flow, actions);
                flow.kept_pieces(pieces);
                self.forget_flow(place, actions);
            }
        }
    }
}
