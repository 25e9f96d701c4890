// SPDX-License-Identifier: Apache-2.0
//! The daemons' answers to `holdfast status`: the contract between the daemons, which fill them, and
//! the command, which prints them. `--json` prints them as they are.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use holdfast_core::{LinkSource, LinkState};
use serde::{Deserialize, Serialize};

/// What a gateway sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusReply {
    /// The daemon's version.
    pub(crate) version: String,
    /// The daemon's process.
    pub(crate) pid: u32,
    /// Time since its start, in seconds.
    pub(crate) uptime_s: f64,
    /// The scheme, as `--scheme` takes it.
    pub(crate) scheme: String,
    /// The wireless interface.
    pub(crate) wireless: String,
    /// The wired interface, where one was named.
    pub(crate) wired: Option<String>,
    /// How packets reach the daemon: `tc-tap`, `tc-tun`.
    pub(crate) data_path: String,
    /// Whether packets reach the daemon now.
    pub(crate) attached: bool,
    /// If an interface is not attached: what the daemon does at each, as the service manager shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) serving: Vec<String>,
    /// Whether a successor will find what this gateway knows of the flows.
    #[serde(default = "yes")]
    pub(crate) keeps_records: bool,
    /// The flow table.
    pub(crate) flows: FlowTableStatus,
    /// The segment cache.
    pub(crate) cache: CacheStatus,
    /// What the wireless interface has carried, if the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) link_bytes: Option<LinkBytes>,
    /// Mobiles with a key or with flows, by address.
    pub(crate) mobiles: Vec<MobileStatus>,
    /// Mobiles with flows, including those that are not described.
    #[serde(default)]
    pub(crate) mobiles_total: u64,
    /// The outages that were noticed.
    #[serde(default)]
    pub(crate) outages: OutagesStatus,
    /// The gateway as a base station, where it has neighbours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) handoff: Option<HandoffStatus>,
    /// Everything that is counted, by name.
    pub(crate) counters: BTreeMap<String, u64>,
    /// The requested flows, most cached bytes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) flow_list: Vec<FlowStatus>,
}

impl StatusReply {
    /// Adds what another worker of the same gateway sees. The workers of one interface see the same
    /// mobiles, and share one limit of flows.
    pub(crate) fn add(&mut self, other: Self, is_same_interface: bool) {
        self.attached &= other.attached;
        self.keeps_records &= other.keeps_records;
        self.flows.tracked += other.flows.tracked;
        self.flows.in_outage += other.flows.in_outage;
        self.cache.bytes += other.cache.bytes;
        self.cache.bytes_max += other.cache.bytes_max;
        self.cache.owed_bytes += other.cache.owed_bytes;
        self.flow_list.extend(other.flow_list);
        if is_same_interface {
            self.mobiles_total = self.mobiles_total.max(other.mobiles_total);
        } else {
            self.mobiles_total += other.mobiles_total;
            self.flows.flows_max += other.flows.flows_max;
        }
        for mobile in other.mobiles {
            let is_same = |known: &&mut MobileStatus| {
                let mut addresses = known.addresses.iter();
                addresses.any(|one| mobile.addresses.contains(one))
            };
            match self.mobiles.iter_mut().find(is_same) {
                Some(known) if is_same_interface => {
                    known.flows += mobile.flows;
                    known.cached_bytes += mobile.cached_bytes;
                }
                // A link report reaches the workers of all interfaces: the mobile is where it has flows.
                Some(known) if known.flows >= mobile.flows => {}
                Some(known) => *known = mobile,
                None => self.mobiles.push(mobile),
            }
        }
        for (name, count) in other.counters {
            *self.counters.entry(name).or_default() += count;
        }
    }
}

/// The default: a gateway of an earlier version had a state file, or did not run.
const fn yes() -> bool {
    true
}

/// How full the flow table is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowTableStatus {
    /// Flows in the table.
    pub(crate) tracked: u64,
    /// The largest number of them.
    pub(crate) flows_max: u64,
    /// Open flows of mobiles whose link is down.
    pub(crate) in_outage: u64,
}

/// How full the segment cache is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CacheStatus {
    /// Bytes of payload cached.
    pub(crate) bytes: u64,
    /// The largest number of them.
    pub(crate) bytes_max: u64,
    /// Of them acknowledged to the FH but not yet by the MH.
    pub(crate) owed_bytes: u64,
}

/// What an interface has carried, in bytes with all headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkBytes {
    /// Toward the MH.
    pub(crate) downlink: u64,
    /// From the MH.
    pub(crate) uplink: u64,
}

/// One mobile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MobileStatus {
    /// Its name in the settings, if it has a key there.
    pub(crate) name: Option<String>,
    /// Its addresses, as registered or as seen.
    pub(crate) addresses: Vec<IpAddr>,
    /// The wireless interface, where the gateway has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interface: Option<String>,
    /// The state of its link.
    pub(crate) link: LinkState,
    /// What reported it.
    pub(crate) source: LinkSource,
    /// Time since that, in seconds.
    pub(crate) since_s: f64,
    /// The link epoch of its newest signal, 0 without one.
    pub(crate) epoch: u64,
    /// Time since its newest signal, in seconds.
    pub(crate) signal_age_s: Option<f64>,
    /// Its flows in the table.
    pub(crate) flows: u64,
    /// Bytes cached for it.
    pub(crate) cached_bytes: u64,
    /// Outages seen.
    pub(crate) outages: u64,
    /// Payload of TCP that it has acknowledged, in bytes; none with `keep`, which counts no bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivered_bytes: Option<u64>,
    /// Payload of TCP that it has sent, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) received_bytes: Option<u64>,
}

/// The outages since the daemon's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutagesStatus {
    /// The scheme only observes: the stalls could have been saved, and were not.
    pub(crate) only_observed: bool,
    /// Outages that have ended.
    pub(crate) count: u64,
    /// The sum of their lengths, in seconds.
    pub(crate) down_s: f64,
    /// The stalls saved, by the estimate of docs/metrics.md, in seconds.
    pub(crate) stall_saved_s: f64,
    /// Outages by their length, for each bound.
    pub(crate) lengths: Vec<BucketStatus>,
    /// Outages by the stall saved, for each bound.
    pub(crate) stalls: Vec<BucketStatus>,
    /// The requested outages, the newest first.
    pub(crate) newest: Vec<OutageStatus>,
}

/// A bound of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BucketStatus {
    /// The bound, in seconds.
    pub(crate) up_to_s: f64,
    /// Outages of at most this length.
    pub(crate) outages: u64,
}

/// One outage that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutageStatus {
    /// Its number since the daemon's start; the first has 1.
    pub(crate) number: u64,
    /// The mobile's name in the settings, if it has a key there.
    pub(crate) name: Option<String>,
    /// The mobile's address; none at a mobile's daemon, whose own link it was.
    pub(crate) mobile: Option<IpAddr>,
    /// Its begin, in seconds since 1970.
    pub(crate) begin_unix_s: f64,
    /// Its length, in seconds.
    pub(crate) length_s: f64,
    /// What noticed its begin.
    pub(crate) source: LinkSource,
    /// Flows with data that waited for its end.
    pub(crate) flows: u64,
    /// Bytes cached or queued at its end.
    pub(crate) cached_bytes: u64,
    /// How much longer its flows would have stalled, by the estimate of docs/metrics.md, in seconds.
    pub(crate) stall_saved_s: f64,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowStatus {
    /// The fixed host's end.
    pub(crate) fh: SocketAddr,
    /// The mobile host's end.
    pub(crate) mh: SocketAddr,
    /// The flow's state, by the scheme's names.
    pub(crate) state: String,
    /// Bytes cached for it.
    pub(crate) cached_bytes: u64,
    /// Of them acknowledged to the FH but not yet by the MH.
    pub(crate) owed_bytes: u64,
    /// The MH's newest ACK. Its difference between two replies, modulo 2^32, is what was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mh_ack: Option<u32>,
    /// The MH's SND.NXT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mh_nxt: Option<u32>,
}

/// What a mobile's daemon sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MobileSessionStatus {
    /// The daemon's version.
    pub(crate) version: String,
    /// The daemon's process.
    pub(crate) pid: u32,
    /// Time since its start, in seconds.
    #[serde(default)]
    pub(crate) uptime_s: f64,
    /// The watched interface.
    pub(crate) interface: String,
    /// The scheme, as `--scheme` takes it.
    #[serde(default)]
    pub(crate) scheme: String,
    /// The gateway's signal address.
    pub(crate) gateway: Option<SocketAddr>,
    /// The link as last reported.
    pub(crate) link: LinkState,
    /// The link epoch.
    pub(crate) epoch: u64,
    /// Whether the gateway has acknowledged this state.
    pub(crate) acknowledged: bool,
    /// Why the gateway refused it, if it did.
    pub(crate) refused: Option<String>,
    /// The addresses reported to the gateway.
    pub(crate) addresses: Vec<IpAddr>,
    /// What the watched interface has carried, if the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) link_bytes: Option<LinkBytes>,
    /// The sources that report the link.
    #[serde(default)]
    pub(crate) sources: Vec<SourceStatus>,
    /// The outages that were noticed.
    #[serde(default)]
    pub(crate) outages: OutagesStatus,
    /// Everything that is counted, by name.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// A base station's part in handoffs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoffStatus {
    /// The station's name.
    pub(crate) name: String,
    /// Its neighbours.
    pub(crate) neighbours: u64,
    /// Memory that buffered packets take.
    pub(crate) buffered_bytes: u64,
    /// The largest value of that.
    pub(crate) buffered_bytes_max: u64,
    /// The mobiles that it knows of.
    pub(crate) mobiles: Vec<HandoffMobileStatus>,
}

/// What a base station is to one mobile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoffMobileStatus {
    /// The id of its key.
    pub(crate) key: String,
    /// Its addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// `idle`, `buffering`, `synchronising` or `forwarding`.
    pub(crate) role: String,
    /// The highest link epoch known.
    pub(crate) epoch: u64,
    /// The neighbour that has it.
    pub(crate) elsewhere: Option<SocketAddr>,
    /// Neighbours in its group.
    pub(crate) members: u64,
    /// The group, if this station is in it.
    pub(crate) group: Option<IpAddr>,
    /// Packets buffered.
    pub(crate) buffered_packets: u64,
    /// Memory that they take, bytes.
    pub(crate) buffered_bytes: u64,
    /// Times that it came here from another station.
    pub(crate) handoffs: u64,
    /// From its registration to the end of the last synchronisation, in ms.
    pub(crate) last_sync_ms: Option<f64>,
}

/// A link source of a mobile's daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SourceStatus {
    /// Its name.
    pub(crate) name: String,
    /// Whether it runs; otherwise it is tried again.
    pub(crate) runs: bool,
    /// Whether it reports link down.
    pub(crate) reports_down: bool,
    /// Why it failed last, if it has not run since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// Its newest report that is no event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// Events of the link that it reported.
    pub(crate) events: u64,
    /// How often it failed.
    pub(crate) failures: u64,
    /// Its newest signal, dBm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal_dbm: Option<f64>,
    /// Signals that it reported.
    pub(crate) samples: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a worker sees: one mobile, with this number of flows.
    fn seen(flows: u64, interface: &str) -> StatusReply {
        StatusReply {
            mobiles: vec![MobileStatus {
                addresses: vec!["10.2.0.2".parse().expect("an address")],
                interface: Some(interface.to_owned()),
                flows,
                ..MobileStatus::default()
            }],
            flow_list: vec![FlowStatus {
                fh: "10.1.0.2:80".parse().expect("an address"),
                mh: "10.2.0.2:4000".parse().expect("an address"),
                state: String::new(),
                cached_bytes: 0,
                owed_bytes: 0,
                mh_ack: None,
                mh_nxt: None,
            }],
            ..StatusReply::default()
        }
    }

    #[test]
    fn a_mobile_is_at_the_interface_where_it_has_flows() {
        for order in [[(0, "wlan0"), (3, "wlan1")], [(3, "wlan1"), (0, "wlan0")]] {
            let [mut status, other] = order.map(|(flows, interface)| seen(flows, interface));
            status.cache.owed_bytes = 5;
            status.add(
                StatusReply {
                    cache: status.cache.clone(),
                    ..other
                },
                false,
            );
            assert_eq!(status.mobiles.len(), 1);
            assert_eq!(status.mobiles[0].interface.as_deref(), Some("wlan1"));
            assert_eq!(status.mobiles[0].flows, 3);
            assert_eq!((status.flow_list.len(), status.cache.owed_bytes), (2, 10));
        }
    }

    #[test]
    fn the_workers_of_one_interface_share_their_mobiles() {
        let mut status = seen(2, "wlan0");
        status.add(seen(3, "wlan0"), true);
        assert_eq!((status.mobiles.len(), status.mobiles[0].flows), (1, 5));
    }
}
