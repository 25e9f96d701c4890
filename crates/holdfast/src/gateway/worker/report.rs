// SPDX-License-Identifier: Apache-2.0
//! What the control thread tells the worker, and what `holdfast status` hears from it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use holdfast_core::{FlowView, LinkEvent, LinkSource as Source, LinkState, MobileView};
use holdfast_wire::{Endpoint, Instant};

use super::{Worker, WorkerCounters, clock};
use crate::gateway::command::Command;
use crate::status::{
    CacheStatus, FlowStatus, FlowTableStatus, LinkSource, LinkView, MobileStatus, StatusReply,
};

/// Most flows that one status describes, whatever is asked for.
const FLOWS_SHOWN_MAX: usize = 10_000;

impl Worker {
    /// Does what the control thread asks.
    pub(super) fn obey(&mut self, command: Command) {
        let now = clock();
        match command {
            Command::Link {
                addresses,
                state,
                source,
            } => {
                let (Some(event), Some(source)) = (event_of(state), source_of(source)) else {
                    return;
                };
                self.engine
                    .handle_link(&addresses, event, source, now, &mut self.actions);
                self.perform();
            }
            Command::AllLinks { carrier } => {
                let event = if carrier {
                    LinkEvent::Up
                } else {
                    LinkEvent::Down
                };
                self.engine
                    .handle_all_links(event, Source::Carrier, now, &mut self.actions);
                self.perform();
            }
            Command::Forget(addresses) => self.engine.forget_addresses(&addresses),
            Command::Mtu(mtu) => self.mtu = mtu,
            Command::Status { flows_max, reply } => {
                // A caller that has gone needs no answer.
                let _ = reply.send(self.status(flows_max, now));
            }
            Command::Leave => {
                self.engine.stop_acknowledging();
                self.leave_by.get_or_insert(now + self.drain);
            }
        }
    }

    fn status(&self, flows_max: usize, now: Instant) -> StatusReply {
        let seen = self.engine.stats();
        let mut counters: BTreeMap<String, u64> = self
            .counters
            .named()
            .map(|(name, count)| (format!("worker.{name}"), count))
            .into();
        counters.insert(
            "worker.buffer_bytes".into(),
            self.pool.in_use_bytes() as u64,
        );
        counters.extend(
            self.engine
                .counters()
                .map(|(name, count)| (name.to_owned(), count)),
        );
        StatusReply {
            attached: self.leave_by.is_none(),
            flows: FlowTableStatus {
                tracked: seen.flows as u64,
                flows_max: self.settings.flows_max as u64,
                in_outage: seen.flows_in_outage as u64,
            },
            cache: CacheStatus {
                bytes: seen.cached_bytes,
                bytes_max: self.settings.cache_bytes_max as u64,
                owed_bytes: self.engine.owed_bytes(),
            },
            mobiles: self
                .engine
                .mobiles()
                .map(|mobile| mobile_status(&mobile, now))
                .collect(),
            counters,
            flow_list: self.flow_list(flows_max),
            ..StatusReply::default()
        }
    }

    /// The flows with most cached bytes.
    fn flow_list(&self, flows_max: usize) -> Vec<FlowStatus> {
        if flows_max == 0 {
            return Vec::new();
        }
        let mut flows: Vec<_> = self.engine.flows().map(|flow| flow_status(&flow)).collect();
        flows.sort_by_key(|flow| (std::cmp::Reverse(flow.cached_bytes), flow.mh));
        flows.truncate(flows_max.min(FLOWS_SHOWN_MAX));
        flows
    }
}

impl WorkerCounters {
    fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("forwarded", self.forwarded),
            ("suppressed", self.suppressed),
            ("resent", self.resent),
            ("made", self.made),
            ("wrong_checksum", self.wrong_checksum),
            ("not_understood", self.not_understood),
            ("too_big", self.too_big),
            ("no_buffer", self.no_buffer),
            ("write_errors", self.write_errors),
        ]
    }
}

const fn event_of(state: LinkView) -> Option<LinkEvent> {
    match state {
        LinkView::Unknown => None,
        LinkView::Up => Some(LinkEvent::Up),
        LinkView::GoingDownSoon => Some(LinkEvent::GoingDownSoon),
        LinkView::Down => Some(LinkEvent::Down),
    }
}

const fn source_of(source: LinkSource) -> Option<Source> {
    match source {
        LinkSource::Signal => Some(Source::Signal),
        LinkSource::Carrier => Some(Source::Carrier),
        LinkSource::Command => Some(Source::Command),
        LinkSource::Nobody | LinkSource::Silence => None,
    }
}

fn mobile_status(mobile: &MobileView, now: Instant) -> MobileStatus {
    MobileStatus {
        addresses: mobile.addresses.clone(),
        link: match mobile.link {
            LinkState::Unknown => LinkView::Unknown,
            LinkState::Up => LinkView::Up,
            LinkState::GoingDownSoon => LinkView::GoingDownSoon,
            LinkState::Down => LinkView::Down,
        },
        source: match mobile.source {
            None => LinkSource::Nobody,
            Some(Source::Signal) => LinkSource::Signal,
            Some(Source::Carrier) => LinkSource::Carrier,
            Some(Source::Command) => LinkSource::Command,
            Some(Source::Silence) => LinkSource::Silence,
        },
        since_s: now.saturating_since(mobile.since).as_secs_f64(),
        flows: mobile.flows as u64,
        cached_bytes: mobile.cached_bytes,
        outages: mobile.outages,
        ..MobileStatus::default()
    }
}

fn flow_status(flow: &FlowView) -> FlowStatus {
    let socket = |end: Endpoint| SocketAddr::new(end.address, end.port);
    FlowStatus {
        fh: socket(flow.key.fh),
        mh: socket(flow.key.mh),
        state: flow.state.to_owned(),
        cached_bytes: flow.cached_bytes,
        owed_bytes: flow.owed_bytes,
    }
}
