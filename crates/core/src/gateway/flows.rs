// SPDX-License-Identifier: Apache-2.0
//! The flow table. A row has no more than its flow needs: a flow in use lies in full, an idle
//! one is packed, and of a closed one little more than the key is left.

use core::net::IpAddr;

use holdfast_wire::Instant;

use super::Connection;
use crate::flow::{Flow, IdleFlow, Stage};
use crate::mobile::Mobile;
use crate::schemes::{AnyScheme, IdleScheme};
use crate::settings::Scheme;
use crate::table::{FlowId, Keyed, MobileId, Table};
use crate::{FlowKey, FlowRecord, Payload};

/// A row of the flow table.
pub(crate) enum Row<P: Payload> {
    Live(Box<Connection<P>>),
    Idle(Box<IdleConnection<P>>),
    Closed(ClosedFlow),
}

/// A flow with nothing cached, in flight or waited for.
pub(crate) struct IdleConnection<P: Payload> {
    pub flow: IdleFlow<P>,
    pub scheme: IdleScheme,
}

/// A closed flow, while its ends may still repeat what they have sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedFlow {
    key: FlowKey,
    /// The slot of its mobile, which stays as long as it has flows.
    mobile: u32,
    index_at_mobile: u32,
    pub seen: Instant,
}

impl<P: Payload> Row<P> {
    /// The row of a closed flow.
    const fn closed(flow: &Flow<P>) -> Self {
        Self::Closed(ClosedFlow {
            key: flow.key,
            mobile: flow.mobile.index(),
            index_at_mobile: flow.index_at_mobile,
            seen: flow.seen,
        })
    }

    /// What a successor has to know of the flow.
    pub(super) fn record(&self) -> FlowRecord {
        match self {
            Self::Live(row) => row.flow.record(),
            // The caller unpacks an idle flow first.
            Self::Idle(_) | Self::Closed(_) => FlowRecord {
                key: *self.key(),
                mh_window_scale: None,
                owed: None,
                renumber: None,
                gone: false,
            },
        }
    }

    /// How well the flow is known.
    pub(super) const fn stage(&self) -> Stage {
        match self {
            Self::Live(row) => row.flow.stage,
            Self::Idle(row) => row.flow.stage,
            Self::Closed(_) => Stage::Closed,
        }
    }

    const fn index_at_mobile_mut(&mut self) -> &mut u32 {
        match self {
            Self::Live(row) => &mut row.flow.index_at_mobile,
            Self::Idle(row) => &mut row.flow.index_at_mobile,
            Self::Closed(row) => &mut row.index_at_mobile,
        }
    }

    /// An idle flow is served again.
    #[cold]
    fn unpack(&mut self) {
        let Self::Idle(idle) = self else { return };
        let left = Self::Closed(ClosedFlow {
            key: idle.flow.key,
            mobile: idle.flow.mobile.index(),
            index_at_mobile: idle.flow.index_at_mobile,
            seen: idle.flow.seen,
        });
        if let Self::Idle(idle) = core::mem::replace(self, left) {
            let flow = Flow::unpack(idle.flow);
            let scheme = AnyScheme::unpack(idle.scheme, &flow);
            *self = Self::Live(Box::new(Connection { flow, scheme }));
        }
    }
}

impl<P: Payload> Keyed for Row<P> {
    type Key = FlowKey;

    fn key(&self) -> &FlowKey {
        match self {
            Self::Live(row) => &row.flow.key,
            Self::Idle(row) => &row.flow.key,
            Self::Closed(row) => &row.key,
        }
    }
}

/// The flow table.
pub(crate) struct Flows<P: Payload> {
    rows: Table<FlowId, Row<P>>,
}

impl<P: Payload> Flows<P> {
    pub(super) fn new(flows_max: usize, seed: u64) -> Self {
        Self {
            rows: Table::new(flows_max, seed),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// See [`Table::slots`].
    pub(super) fn slots(&self) -> u32 {
        self.rows.slots()
    }

    /// See [`Table::id_in`].
    pub(super) fn id_in(&self, index: u32) -> Option<FlowId> {
        self.rows.id_in(index)
    }

    pub(super) fn find(&self, key: &FlowKey) -> Option<FlowId> {
        self.rows.find(key)
    }

    pub(super) fn row(&self, flow_id: FlowId) -> Option<&Row<P>> {
        self.rows.at(flow_id)
    }

    /// All flows in use.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection<P>> {
        self.rows().filter_map(|row| match row {
            Row::Live(row) => Some(&**row),
            Row::Idle(_) | Row::Closed(_) => None,
        })
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row<P>> {
        self.rows.iter()
    }

    /// The flow, if it is in use.
    pub(super) fn at(&self, flow_id: FlowId) -> Option<&Connection<P>> {
        match self.rows.at(flow_id)? {
            Row::Live(row) => Some(row),
            Row::Idle(_) | Row::Closed(_) => None,
        }
    }

    /// The flow, if it is in use.
    pub(super) fn at_mut(&mut self, flow_id: FlowId) -> Option<&mut Connection<P>> {
        match self.rows.at_mut(flow_id)? {
            Row::Live(row) => Some(row),
            Row::Idle(_) | Row::Closed(_) => None,
        }
    }

    /// The flow, in use from now on if it was idle. None: it is closed, or there is none.
    pub(super) fn unpack(&mut self, flow_id: FlowId) -> Option<&mut Connection<P>> {
        let row = self.rows.at_mut(flow_id)?;
        row.unpack();
        match row {
            Row::Live(row) => Some(row),
            Row::Idle(_) | Row::Closed(_) => None,
        }
    }

    /// The flow; a closed one may begin anew.
    pub(super) fn revive(
        &mut self,
        flow_id: FlowId,
        mobiles: &Table<MobileId, Mobile>,
        scheme: Scheme,
    ) -> Option<&mut Connection<P>> {
        let row = self.rows.at_mut(flow_id)?;
        if let Row::Closed(closed) = row {
            let mut flow = Flow::new(closed.key, mobiles.id_in(closed.mobile)?, closed.seen);
            flow.stage = Stage::Closed;
            flow.index_at_mobile = closed.index_at_mobile;
            let scheme = AnyScheme::new(scheme);
            *row = Row::Live(Box::new(Connection { flow, scheme }));
        }
        self.unpack(flow_id)
    }

    pub(super) fn insert(&mut self, connection: Connection<P>) -> Option<FlowId> {
        self.rows.insert(Row::Live(Box::new(connection)))
    }

    pub(super) fn remove(&mut self, key: &FlowKey) -> Option<Row<P>> {
        self.rows.remove(key)
    }

    /// All idle flows are packed now.
    #[cfg(test)]
    pub(super) fn shrink_all(&mut self) {
        for index in 0..self.slots() {
            if let Some(flow_id) = self.id_in(index) {
                self.shrink_idle(flow_id);
                self.shrink_closed(flow_id);
            }
        }
    }

    /// The flow's mobile.
    pub(super) fn mobile_of(
        &self,
        flow_id: FlowId,
        mobiles: &Table<MobileId, Mobile>,
    ) -> Option<MobileId> {
        match self.rows.at(flow_id)? {
            Row::Live(row) => Some(row.flow.mobile),
            Row::Idle(row) => Some(row.flow.mobile),
            Row::Closed(row) => mobiles.id_in(row.mobile),
        }
    }

    /// Its index among its mobile's [`flows`](Mobile::flows).
    pub(super) fn index_at_mobile(&self, flow_id: FlowId) -> Option<u32> {
        Some(match self.rows.at(flow_id)? {
            Row::Live(row) => row.flow.index_at_mobile,
            Row::Idle(row) => row.flow.index_at_mobile,
            Row::Closed(row) => row.index_at_mobile,
        })
    }

    /// The flow has moved among those of its mobile.
    pub(super) fn set_index_at_mobile(&mut self, flow_id: FlowId, index: u32) {
        if let Some(row) = self.rows.at_mut(flow_id) {
            *row.index_at_mobile_mut() = index;
        }
    }

    /// Shrinks the row of a closed flow that needs no more state.
    pub(super) fn shrink_closed(&mut self, flow_id: FlowId) {
        if let Some(row) = self.rows.at_mut(flow_id)
            && let Row::Live(live) = row
            && live.flow.stage == Stage::Closed
            && live.flow.is_settled()
        {
            *row = Row::closed(&live.flow);
        }
    }

    /// Packs an idle flow.
    pub(super) fn shrink_idle(&mut self, flow_id: FlowId) {
        if let Some(row) = self.rows.at_mut(flow_id)
            && let Row::Live(live) = row
            && live.flow.is_idle()
            && let Some(scheme) = live.scheme.pack(&live.flow)
        {
            let flow = live.flow.pack();
            *row = Row::Idle(Box::new(IdleConnection { flow, scheme }));
        }
    }
}

impl Keyed for Mobile {
    type Key = IpAddr;

    fn key(&self) -> &IpAddr {
        &self.address
    }
}

impl Keyed for FlowRecord {
    type Key = FlowKey;

    fn key(&self) -> &FlowKey {
        &self.key
    }
}
