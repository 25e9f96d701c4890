// SPDX-License-Identifier: Apache-2.0
//! Which flow leaves a full table for a new one.
//!
//! An attacker can send packets that look like a new flow. So a flow that was seen from one end only
//! is worth little: it makes room first, and so does a closed one. A flow that both ends have
//! confirmed makes room only if its mobile has at least two flows more than the newcomer's.
//!
//! A part of the table is for newcomers, at the cost of the largest mobile. Otherwise an attacker who
//! has filled the table could keep each newcomer out with one packet.
//!
//! The table is walked like a clock: each newcomer looks at the next few slots. The cost does
//! not grow with the table, and what came first leaves first.

use super::Gateway;
use super::flows::Row;
use crate::flow::Stage;
use crate::schemes::SetUpStage;
use crate::table::FlowId;
use crate::{Actions, Payload};

/// Slots that one newcomer looks at.
const SLOTS: u32 = 64;
/// One in this number of slots is for flows that are not confirmed yet. Otherwise newcomers would
/// evict each other before they are answered.
const UNCONFIRMED_PART: usize = 16;

/// What it costs to lose the gateway's knowledge of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// Seen from one end only, or closed.
    Nothing,
    /// Confirmed by both ends. Without the gateway they go on as after a restart.
    Little,
    /// Its ends depend on the gateway: it owes bytes, or translates sequence numbers.
    Much,
}

fn worth<P: Payload>(row: &Row<P>) -> Worth {
    let connection = match row {
        Row::Live(connection) => connection,
        Row::Idle(idle) if idle.flow.renumber.is_some() => return Worth::Much,
        Row::Idle(_) => return Worth::Little,
        Row::Closed(_) => return Worth::Nothing,
    };
    let flow = &connection.flow;
    match connection.scheme.get().set_up_stage() {
        Some(SetUpStage::Begun) => return Worth::Nothing,
        Some(SetUpStage::Confirmed) => return Worth::Much,
        None if flow.renumber.is_some() || flow.owed.is_some() => return Worth::Much,
        None if flow.answers_with_rst() => return Worth::Little,
        None => {}
    }
    match flow.stage {
        Stage::Adopting | Stage::Closed => Worth::Nothing,
        Stage::Open | Stage::Opaque => Worth::Little,
    }
}

impl<P: Payload> Gateway<P> {
    /// Makes room for a flow of a mobile with `flows` flows. False: every flow that was looked at
    /// is worth more than a new one.
    pub(super) fn make_room(&mut self, flows: usize, actions: &mut Actions<P>) -> bool {
        let Some(flow_id) = self.least_worthy(flows) else {
            return false;
        };
        self.counters.evicted += 1;
        self.forget_flow(flow_id, actions);
        true
    }

    fn least_worthy(&mut self, flows: usize) -> Option<FlowId> {
        let unconfirmed = self.flows.len().saturating_sub(self.confirmed);
        let has_few_unconfirmed = unconfirmed < self.settings.flows_max / UNCONFIRMED_PART;
        let slots = self.flows.slots();
        let mut worthless = None;
        let mut largest: Option<(usize, FlowId)> = None;
        for _ in 0..slots.min(SLOTS) {
            self.clock_hand = (self.clock_hand + 1) % slots;
            let Some(flow_id) = self.flows.id_in(self.clock_hand) else {
                continue;
            };
            let Some(row) = self.flows.row(flow_id) else {
                continue;
            };
            let is_closed = row.stage() == Stage::Closed;
            match worth(row) {
                Worth::Nothing if is_closed || !has_few_unconfirmed => return Some(flow_id),
                Worth::Nothing => worthless = worthless.or(Some(flow_id)),
                Worth::Little => {
                    let mobile = self.flows.mobile_of(flow_id, &self.mobiles);
                    let mobile = mobile.and_then(|mobile| self.mobiles.at(mobile));
                    let count = mobile.map_or(0, |mobile| mobile.flows.len());
                    if largest.is_none_or(|(most, _)| count > most) {
                        largest = Some((count, flow_id));
                    }
                }
                Worth::Much => {}
            }
        }
        let newest = self.newest.filter(|flow_id| {
            let row = self.flows.row(*flow_id);
            row.is_some_and(|row| worth(row) == Worth::Nothing)
        });
        let unconfirmed = worthless.or(newest);
        // Beyond that part of the table, newcomers of a flood must not evict confirmed flows.
        let largest = largest.filter(|(most, _)| *most > flows + 1);
        let largest = largest.filter(|_| has_few_unconfirmed || unconfirmed.is_none());
        largest.map(|(_, flow_id)| flow_id).or(unconfirmed)
    }
}
