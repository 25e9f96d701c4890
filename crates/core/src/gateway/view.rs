// SPDX-License-Identifier: Apache-2.0
//! What can be seen of the engine from outside.

use core::net::IpAddr;

use holdfast_wire::{Instant, LinkAddresses, SeqNum};

use super::flows::Row;
use super::{Connection, Gateway};
use crate::Payload;
use crate::flow::Stage;
use crate::key::FlowKey;
use crate::link_state::{LinkSource, LinkState};
use crate::mobile::{Link, Mobile};
use crate::table::Keyed as _;

/// Totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Flows in the table.
    pub flows: usize,
    /// Mobiles that have these flows.
    pub mobiles: usize,
    /// Open flows whose MH is away or in recovery.
    pub flows_in_outage: usize,
    /// Bytes of payload cached.
    pub cached_bytes: u64,
}

/// One mobile.
#[derive(Clone, Copy, Debug)]
pub struct MobileView {
    /// Its address.
    pub address: IpAddr,
    /// What is believed of its link.
    pub link: LinkState,
    /// What reported it last.
    pub source: LinkSource,
    /// Since when.
    pub since: Instant,
    /// Its flows.
    pub flows: usize,
    /// Bytes cached for it.
    pub cached_bytes: u64,
    /// Outages so far. A silence without a loss is none.
    pub outages: u64,
    /// Payload that it has acknowledged, in bytes.
    pub delivered_bytes: u64,
    /// Payload that it has sent, in bytes.
    pub received_bytes: u64,
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowView {
    /// Its ends.
    pub key: FlowKey,
    /// The state of the flow, in a word.
    pub state: &'static str,
    /// Bytes cached of it.
    pub cached_bytes: u64,
    /// Bytes acknowledged to its FH ahead of its MH.
    pub owed_bytes: u64,
    /// The MH's newest ACK and its SND.NXT, until the flow is closed.
    pub mh_numbers: Option<(SeqNum, SeqNum)>,
}

impl<P: Payload> Gateway<P> {
    /// Totals.
    pub fn stats(&self) -> Stats {
        let away = |mobile: &&Mobile| mobile.link != Link::Up;
        Stats {
            flows: self.flows.len(),
            mobiles: self.mobiles.len(),
            flows_in_outage: self
                .mobiles
                .iter()
                .filter(away)
                .map(|mobile| mobile.open_flows().len())
                .sum(),
            cached_bytes: self.budget.bytes() as u64,
        }
    }

    /// Bytes acknowledged to FHs ahead of their MHs.
    pub fn owed_bytes(&self) -> u64 {
        self.flows().map(|flow| flow.owed_bytes).sum()
    }

    /// All mobiles with flows.
    pub fn mobiles(&self) -> impl Iterator<Item = MobileView> + '_ {
        self.mobiles.iter().map(|mobile| self.view(mobile))
    }

    /// The mobile with this address, if it has flows.
    pub fn mobile(&self, address: IpAddr) -> Option<MobileView> {
        Some(self.view(self.mobiles.get(&address)?))
    }

    /// The link-layer addresses of the newest packet to this mobile. Segments from the cache are sent with
    /// them, because the next hop may have changed since.
    pub fn link_addresses(&self, mobile: IpAddr) -> Option<LinkAddresses> {
        self.mobiles.get(&mobile)?.link_addresses
    }

    fn view(&self, mobile: &Mobile) -> MobileView {
        let flows = mobile
            .flows
            .iter()
            .filter_map(|flow_id| self.flows.at(*flow_id));
        MobileView {
            address: mobile.address,
            link: match mobile.link {
                Link::Silent | Link::Down => LinkState::Down,
                Link::Up | Link::Recovering if mobile.going_down_soon => LinkState::GoingDownSoon,
                Link::Up | Link::Recovering => LinkState::Up,
            },
            source: mobile.source,
            since: mobile.since,
            flows: mobile.flows.len(),
            cached_bytes: flows.map(|row| row.flow.cached_bytes() as u64).sum(),
            outages: mobile.outages,
            delivered_bytes: mobile.delivered_bytes,
            received_bytes: mobile.received_bytes,
        }
    }

    /// All flows.
    pub fn flows(&self) -> impl Iterator<Item = FlowView> + '_ {
        self.flows.rows().map(|row| match row {
            Row::Live(row) => view_of_live(row),
            Row::Idle(_) | Row::Closed(_) => FlowView {
                key: *row.key(),
                state: match row {
                    Row::Idle(idle) if idle.flow.has_own_sender => "split",
                    _ => state_of(row.stage()),
                },
                cached_bytes: 0,
                owed_bytes: 0,
                mh_numbers: match row {
                    Row::Idle(idle) => Some((idle.flow.fh.una, idle.flow.mh.nxt)),
                    _ => None,
                },
            },
        })
    }

    /// All counters, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters.named()
    }

    /// Addresses have left a mobile: a warning for the mobile no longer holds for them. As for any address,
    /// their next segment ends their outage.
    pub fn forget_addresses(&mut self, addresses: &[IpAddr]) {
        self.forget_abilities(addresses);
        for address in addresses {
            if let Some(mobile) = self.mobiles.get_mut(address) {
                mobile.going_down_soon = false;
            }
        }
    }
}

fn view_of_live<P: Payload>(row: &Connection<P>) -> FlowView {
    let Connection { flow, scheme } = row;
    let state = match flow.stage {
        Stage::Open => match scheme.get().state(flow) {
            Some(state) => state,
            None if flow.recover.is_some() => "recovering",
            None => "open",
        },
        stage => state_of(stage),
    };
    let owed = flow.owed.map_or(0, |owed| owed.distance_from(flow.fh.una));
    FlowView {
        key: flow.key,
        state,
        cached_bytes: flow.cached_bytes() as u64,
        owed_bytes: u64::from(owed),
        mh_numbers: (flow.stage != Stage::Closed).then_some((flow.fh.una, flow.mh.nxt)),
    }
}

/// The state of a flow, in a word.
const fn state_of(stage: Stage) -> &'static str {
    match stage {
        Stage::Adopting => "adopting",
        Stage::Open => "open",
        Stage::Opaque => "opaque",
        Stage::Closed => "closed",
    }
}
