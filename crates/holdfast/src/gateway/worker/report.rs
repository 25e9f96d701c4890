// SPDX-License-Identifier: Apache-2.0
//! The control thread's commands to the worker, and the worker's part of `holdfast status`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use holdfast_core::{FlowView, LinkEvent, LinkSource, LinkState, MobileView};
use holdfast_net::datapath::now;
use holdfast_wire::{Endpoint, Instant};

use super::{Worker, WorkerGauges};
use crate::command::Command;
use crate::control::{CacheStatus, FlowStatus, FlowTableStatus, MobileStatus, StatusReply};

/// The limit of flows in one status, whatever the caller requests.
const FLOWS_SHOWN_MAX: usize = 10_000;

/// The limit of mobiles in one status, besides those that the caller names by address.
const MOBILES_SHOWN_MAX: usize = 1_000;

impl Worker {
    /// Executes a command of the control thread.
    pub(super) fn obey_in_engine(&mut self, command: Command) {
        let now = now();
        match command {
            Command::Link {
                addresses,
                event,
                source,
            } => {
                let is_announced =
                    source == LinkSource::Command && matches!(event, LinkEvent::GoingDownSoon(_));
                if let Some(station) = self.station.as_mut().filter(|_| is_announced) {
                    for address in &addresses {
                        station.prepare(*address, now);
                    }
                }
                self.engine
                    .handle_link(&addresses, event, source, now, &mut self.actions);
                self.perform();
            }
            Command::AllLinks { event, source } => {
                if source == LinkSource::Carrier {
                    self.has_carrier = event == LinkEvent::Up;
                }
                self.engine
                    .handle_all_links(event, source, now, &mut self.actions);
                self.perform();
            }
            Command::Notice(notice) => {
                if let Some(station) = &mut self.station {
                    station.handle_notice(&notice, now);
                }
            }
            Command::Abilities(report) => self.engine.handle_abilities(
                &report.addresses,
                report.abilities,
                report.session,
                report.until,
            ),
            Command::Forget(addresses) => self.engine.forget_addresses(&addresses),
            Command::Mtu(mtu) => self.bounds.wireless_mtu = mtu,
            Command::BridgePort(is_port) => self.path.set_bridge_port(is_port),
            Command::Detach => self.detach(),
            Command::Take => self.path.start_taking(),
            Command::Attach(reply) => {
                // The control thread may no longer wait.
                let _ = reply.try_send(self.attach_again());
            }
            Command::Limits(limits) => self.set_limits(&limits),
            Command::Status {
                flows_max,
                named,
                reply,
            } => {
                // A caller that is no longer connected needs no answer.
                let _ = reply.try_send(self.status(flows_max, &named, now));
            }
            Command::Leave => {
                self.engine.stop_acknowledging();
                self.leave_by.get_or_insert(now + self.drain);
            }
        }
    }

    /// Reports outages that have ended. If the queue is full, the next turn reports the rest.
    pub(super) fn report_outages(&mut self) {
        while self.engine.has_outages()
            && let Ok(room) = self.outages.try_reserve()
            && let Some(outage) = self.engine.poll_outage()
        {
            room.send(outage.of(Some(outage.mobile)));
        }
    }

    fn status(&self, flows_max: usize, named: &[IpAddr], now: Instant) -> StatusReply {
        let seen = self.engine.stats();
        let gauges = WorkerGauges {
            buffer_bytes: self.pool.in_use_bytes() as u64,
            quarantined: self.quarantine.len() as u64,
            dictionaries: self.engine.dictionaries() as u64,
        };
        let own = self.counters.named().chain(gauges.named());
        let mut counters: BTreeMap<String, u64> = own
            .map(|(name, count)| (format!("worker.{name}"), count))
            .collect();
        let engine = self.engine.counters();
        counters.extend(engine.map(|(name, count)| (name.to_owned(), count)));
        if let Some(station) = &self.station {
            counters.extend(station.counters());
        }
        StatusReply {
            handoff: self.station.as_ref().map(|station| station.status(now)),
            attached: self.leave_by.is_none() && self.rests_until.is_none(),
            flows: FlowTableStatus {
                tracked: seen.flows as u64,
                flows_max: self.settings.flows_max as u64,
                in_outage: seen.flows_in_outage as u64,
            },
            keeps_records: self.records.outlive_the_process(),
            cache: CacheStatus {
                bytes: seen.cached_bytes,
                bytes_max: self.settings.cache_bytes_max as u64,
                owed_bytes: self.engine.owed_bytes(),
            },
            mobiles: self.mobile_list(named, now),
            mobiles_total: seen.mobiles as u64,
            counters,
            flow_list: self.flow_list(flows_max),
            ..StatusReply::default()
        }
    }

    /// The mobiles with these addresses, then the others: first those that are away, then by cached
    /// bytes, most first.
    fn mobile_list(&self, named: &[IpAddr], now: Instant) -> Vec<MobileStatus> {
        let others = self
            .engine
            .mobiles()
            .filter(|mobile| !named.contains(&mobile.address));
        let others = largest(others, MOBILES_SHOWN_MAX, |mobile| {
            let away = mobile.link == LinkState::Down;
            (away, mobile.cached_bytes, mobile.flows, mobile.address)
        });
        named
            .iter()
            .filter_map(|address| self.engine.mobile(*address))
            .chain(others)
            .map(|mobile| mobile_status(&mobile, now))
            .collect()
    }

    /// The flows with most cached bytes.
    fn flow_list(&self, flows_max: usize) -> Vec<FlowStatus> {
        let shown = flows_max.min(FLOWS_SHOWN_MAX);
        let flows = largest(self.engine.flows(), shown, |flow| {
            let ends = [flow.key.mh, flow.key.fh].map(|end| (end.address, end.port));
            (flow.cached_bytes, ends)
        });
        flows.iter().map(flow_status).collect()
    }
}

/// The `count` items with the largest keys, largest first. Never stores more than `2 * count`
/// items.
fn largest<T, K: Ord>(
    items: impl Iterator<Item = T>,
    count: usize,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    if count == 0 {
        return Vec::new();
    }
    let descending = |a: &(K, T), b: &(K, T)| b.0.cmp(&a.0);
    let mut kept = Vec::new();
    for item in items {
        kept.push((key(&item), item));
        if kept.len() == 2 * count {
            kept.select_nth_unstable_by(count - 1, descending);
            kept.truncate(count);
        }
    }
    kept.sort_by(descending);
    kept.truncate(count);
    kept.into_iter().map(|(_, item)| item).collect()
}

fn mobile_status(mobile: &MobileView, now: Instant) -> MobileStatus {
    MobileStatus {
        addresses: vec![mobile.address],
        link: mobile.link,
        source: mobile.source,
        since_s: now.saturating_since(mobile.since).as_secs_f64(),
        flows: mobile.flows as u64,
        cached_bytes: mobile.cached_bytes,
        outages: mobile.outages,
        delivered_bytes: Some(mobile.delivered_bytes),
        received_bytes: Some(mobile.received_bytes),
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
        mh_ack: flow.mh_numbers.map(|(ack, _)| ack.get()),
        mh_nxt: flow.mh_numbers.map(|(_, nxt)| nxt.get()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// An item, and how many of them there are.
    struct Counted<'a>(u64, &'a Cell<u64>);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.1.set(self.1.get() - 1);
        }
    }

    #[test]
    fn of_many_the_largest_are_shown_in_order() {
        let numbers = || (0..100_000u64).map(|i| i * 7_919 % 100_003);
        let mut expected: Vec<u64> = numbers().collect();
        expected.sort_by_key(|number| std::cmp::Reverse(*number));
        for count in [0, 1, 2, 999, 200_000] {
            let shown = largest(numbers(), count, |number| *number);
            assert_eq!(shown, expected[..count.min(expected.len())], "{count}");
        }
    }

    #[test]
    fn however_many_there_are_no_more_than_twice_what_is_shown_is_held() {
        let (live, most) = (Cell::new(0), Cell::new(0));
        let items = (0..50_000).map(|number| {
            live.set(live.get() + 1);
            most.set(most.get().max(live.get()));
            Counted(number, &live)
        });
        let shown = largest(items, 100, |item| item.0);
        assert_eq!(shown.first().map(|item| item.0), Some(49_999));
        assert!(most.get() <= 200, "{} at a time", most.get());
    }
}
