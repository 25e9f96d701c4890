// SPDX-License-Identifier: Apache-2.0
//! One input for one connection, with all of the engine that it may change.

use holdfast_wire::Instant;

use super::{Connection, Gateway};
use crate::budget::CacheBudget;
use crate::counters::Counters;
use crate::flow::Flow;
use crate::mobile::Mobile;
use crate::schemes::{self, Context, FlowScheme, Shared};
use crate::settings::Settings;
use crate::table::{FlowId, MobileId, Slot, Table};
use crate::{Actions, FlowRecord, Payload};

/// A connection and its mobile, while they are served.
pub(super) struct Turn<'a, P: Payload> {
    pub flow: &'a mut Flow<P>,
    pub scheme: &'a mut dyn FlowScheme<P>,
    pub mobile: &'a mut Mobile,
    pub settings: &'a Settings,
    pub budget: &'a mut CacheBudget,
    pub counters: &'a mut Counters,
    pub shared: &'a mut Shared,
    /// What a predecessor left.
    pub records: &'a Table<Slot, FlowRecord>,
    pub actions: &'a mut Actions<P>,
    pub draining: bool,
    pub now: Instant,
}

impl<P: Payload> Turn<'_, P> {
    /// Calls a hook of the scheme.
    pub(super) fn hook<R>(
        &mut self,
        hook: impl FnOnce(&mut dyn FlowScheme<P>, &mut Flow<P>, &mut Context<'_, P>) -> R,
    ) -> R {
        let mut cx = Context::new(
            self.settings,
            self.mobile,
            self.draining,
            self.now,
            self.counters,
            self.actions,
        );
        hook(self.scheme, self.flow, &mut cx)
    }

    /// Bytes that the cache takes for the mobile.
    pub(super) fn cache_room(&mut self) -> usize {
        self.mobile.count_cached_bytes(self.flow, self.budget);
        self.mobile.cache_room(self.budget)
    }
}

impl<P: Payload> Gateway<P> {
    /// Begins to serve a flow. None: there is no such flow.
    pub(super) fn turn<'a>(
        &'a mut self,
        flow_id: FlowId,
        now: Instant,
        actions: &'a mut Actions<P>,
    ) -> Option<Turn<'a, P>> {
        let Connection { flow, scheme } = self.flows.at_mut(flow_id)?;
        let mobile = self.mobiles.at_mut(flow.mobile)?;
        Some(Turn {
            flow,
            scheme: scheme.get_mut(),
            mobile,
            settings: &self.settings,
            budget: &mut self.budget,
            counters: &mut self.counters,
            shared: &mut self.shared,
            records: &self.predecessor,
            actions,
            draining: self.draining,
            now,
        })
    }

    /// Calls `hook` for a flow. None: there is no such flow.
    pub(super) fn with_context<R>(
        &mut self,
        flow_id: FlowId,
        now: Instant,
        actions: &mut Actions<P>,
        hook: impl FnOnce(&mut dyn FlowScheme<P>, &mut Flow<P>, &mut Context<'_, P>) -> R,
    ) -> Option<R> {
        let mut turn = self.turn(flow_id, now, actions)?;
        Some(turn.hook(hook))
    }

    /// Calls `hook` for each open flow of a mobile; for an idle one if that changes anything.
    pub(super) fn with_flows_of(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
        mut hook: impl FnMut(&mut dyn FlowScheme<P>, &mut Flow<P>, &mut Context<'_, P>),
    ) {
        let Some(mobile) = self.mobiles.at(mobile_id) else {
            return;
        };
        let (settings, counters) = (&self.settings, &mut self.counters);
        let mut cx = Context::new(settings, mobile, self.draining, now, counters, actions);
        let wakes = schemes::acts_on_idle_flows(settings);
        for flow_id in mobile.open_flows() {
            let row = if wakes {
                self.flows.unpack(*flow_id)
            } else {
                self.flows.at_mut(*flow_id)
            };
            if let Some(Connection { flow, scheme }) = row {
                if wakes {
                    scheme.get_mut().on_abilities(flow, &self.shared);
                }
                hook(scheme.get_mut(), flow, &mut cx);
            }
        }
    }
}
