// SPDX-License-Identifier: Apache-2.0
//! Flows with what their scheme may look at: its hooks are called from here.

use holdfast_wire::Instant;

use super::Gateway;
use crate::flow::Flow;
use crate::mobile::Mobile;
use crate::schemes::Context;
use crate::table::{FlowId, MobileId};
use crate::{Actions, Payload};

impl<P: Payload> Gateway<P> {
    /// Calls `hook` for a flow. None: there is no such flow.
    pub(super) fn with_context<R>(
        &mut self,
        flow_id: FlowId,
        now: Instant,
        actions: &mut Actions<P>,
        hook: impl FnOnce(&mut Flow<P>, &Mobile, &mut Context<'_, P>) -> R,
    ) -> Option<R> {
        let flow = self.flows.at_mut(flow_id)?;
        let mobile = self.mobiles.at(flow.mobile)?;
        let counters = &mut self.counters;
        let mut cx = Context::new(&self.settings, mobile, now, counters, actions);
        Some(hook(flow, mobile, &mut cx))
    }

    /// Calls `hook` for each open flow of a mobile.
    pub(super) fn with_flows_of(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
        mut hook: impl FnMut(&mut Flow<P>, &Mobile, &mut Context<'_, P>),
    ) {
        let Some(mobile) = self.mobiles.at(mobile_id) else {
            return;
        };
        let counters = &mut self.counters;
        let mut cx = Context::new(&self.settings, mobile, now, counters, actions);
        for flow in mobile.open_flows() {
            if let Some(flow) = self.flows.at_mut(*flow) {
                hook(flow, mobile, &mut cx);
            }
        }
    }
}
