// SPDX-License-Identifier: Apache-2.0
//! What can be seen of the engine from outside.

use core::net::IpAddr;

use holdfast_wire::Instant;

use super::Gateway;
use crate::Payload;
use crate::flow::{FlowKey, Stage};
use crate::mobile::{Link, LinkSource, LinkState, Mobile};

/// What the engine counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub(crate) segments: u64,
    pub(crate) flows_met: u64,
    pub(crate) table_full: u64,
    pub(crate) evicted: u64,
    pub(crate) cache_full: u64,
    pub(crate) implausible: u64,
    pub(crate) kept_back: u64,
    pub(crate) sent_on: u64,
    pub(crate) repaired: u64,
    pub(crate) silences: u64,
    pub(crate) probes: u64,
    pub(crate) recoveries: u64,
    pub(crate) owed_lost: u64,
    pub(crate) links_that_kept: u64,
    pub(crate) congested: u64,
    pub(crate) shown_late: u64,
    pub(crate) reports: u64,
    pub(crate) repaired_uplink: u64,
    pub(crate) congested_uplink: u64,
    pub(crate) undone_uplink: u64,
    pub(crate) freezes: u64,
    pub(crate) shrinks: u64,
    pub(crate) early_joined: u64,
    pub(crate) early_refused: u64,
    pub(crate) early_lost: u64,
    pub(crate) unserved: u64,
    pub(crate) compressed: u64,
    pub(crate) compressed_in_vain: u64,
    pub(crate) compressed_from_bytes: u64,
    pub(crate) compressed_to_bytes: u64,
    pub(crate) compression_proofs: u64,
}

/// Totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Flows in the table.
    pub flows: usize,
    /// Mobiles that these are of.
    pub mobiles: usize,
    /// Flows whose MH is away or being caught up with.
    pub flows_in_outage: usize,
    /// Bytes of payload kept.
    pub cached_bytes: u64,
}

/// One mobile.
#[derive(Clone, Copy, Debug)]
pub struct MobileView {
    /// Its address.
    pub address: IpAddr,
    /// What is believed of its link.
    pub link: LinkState,
    /// Who said so last.
    pub source: Option<LinkSource>,
    /// Since when.
    pub since: Instant,
    /// Its flows.
    pub flows: usize,
    /// Bytes kept for it.
    pub cached_bytes: u64,
    /// Times that its link went.
    pub outages: u64,
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowView {
    /// Its ends.
    pub key: FlowKey,
    /// Where it stands, in a word.
    pub state: &'static str,
    /// Bytes kept of it.
    pub cached_bytes: u64,
    /// Bytes acknowledged to its FH ahead of its MH.
    pub owed_bytes: u64,
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
                .map(|mobile| mobile.flows.len())
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

    fn view(&self, mobile: &Mobile) -> MobileView {
        let flows = mobile.flows.iter().filter_map(|flow| self.flows.at(*flow));
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
            cached_bytes: flows.map(|flow| flow.kept_bytes() as u64).sum(),
            outages: mobile.outages,
        }
    }

    /// All flows.
    pub fn flows(&self) -> impl Iterator<Item = FlowView> + '_ {
        self.flows.iter().map(|flow| FlowView {
            key: flow.key,
            state: match flow.stage {
                Stage::Meeting => "meeting",
                Stage::Open if flow.is_split() => flow.mtcp.state().unwrap_or("open"),
                Stage::Open if flow.ahead.frozen => "frozen",
                Stage::Open if flow.ahead.owed.is_some() => "owing",
                Stage::Open if flow.recover.is_some() => "recovering",
                Stage::Open => "open",
                Stage::Opaque => "opaque",
                Stage::Closed => "closed",
            },
            cached_bytes: flow.kept_bytes() as u64,
            owed_bytes: flow
                .ahead
                .owed
                .map_or(0, |owed| u64::from(owed.distance_from(flow.fh.una))),
        })
    }

    /// All counters, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let c = self.counters;
        [
            ("segments", c.segments),
            ("flows_met", c.flows_met),
            ("passed.table_full", c.table_full),
            ("evicted", c.evicted),
            ("passed.cache_full", c.cache_full),
            ("passed.implausible", c.implausible),
            ("kept_back", c.kept_back),
            ("sent_on", c.sent_on),
            ("repaired", c.repaired),
            ("silences", c.silences),
            ("probes", c.probes),
            ("recoveries", c.recoveries),
            ("owed_lost", c.owed_lost),
            ("links_that_kept", c.links_that_kept),
            ("congested", c.congested),
            ("shown_late", c.shown_late),
            ("reports", c.reports),
            ("repaired_uplink", c.repaired_uplink),
            ("congested_uplink", c.congested_uplink),
            ("undone_uplink", c.undone_uplink),
            ("freezes", c.freezes),
            ("shrinks", c.shrinks),
            ("early_joined", c.early_joined),
            ("early_refused", c.early_refused),
            ("early_lost", c.early_lost),
            ("unserved", c.unserved),
            ("compressed", c.compressed),
            ("compressed_in_vain", c.compressed_in_vain),
            ("compressed_from_bytes", c.compressed_from_bytes),
            ("compressed_to_bytes", c.compressed_to_bytes),
            ("compression_proofs", c.compression_proofs),
        ]
        .into_iter()
    }

    /// Addresses have left a mobile: that its link would go soon no longer holds for
    /// them. An outage ends for them as for any, by a segment of theirs.
    pub fn forget_addresses(&mut self, addresses: &[IpAddr]) {
        self.forget_abilities(addresses);
        for address in addresses {
            if let Some(mobile) = self.mobiles.get_mut(address) {
                mobile.going_down_soon = false;
            }
        }
    }
}
