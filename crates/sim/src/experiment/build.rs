// SPDX-License-Identifier: Apache-2.0
//! From an [`Experiment`] to a [`Network`], and from its end to an [`Outcome`].
//!
//! The chain's first node is all FHs, its last all MHs; an MH is an address there.

use core::net::{IpAddr, Ipv4Addr};
use core::ops::ControlFlow;

use holdfast_core::Direction;
use holdfast_link::seed_for;
use holdfast_wire::{Endpoint, Instant, SeqNum};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::hops::{add_hop, link_of};
use super::roaming::{Station, add_cells, connect_stations};
use super::{BaseStation, Experiment, Reading, RunUntil, Transfer};
use crate::network::{
    BadLinkRole, ConnectionId, GatewayRole, HostEngineRole, MobileRole, Network, SourceSettings,
    SplitRole,
};
use crate::observe::{LinkId, Observer};
use crate::outcome::{HandoffOutcome, Outcome, TransferOutcome};
use crate::packet::NodeId;
use crate::tcp::{Application, Connection, End};

/// Parts of the seed. The numbers affect results, and none is used twice. The last hop has the
/// parts 0 to 2, like the link emulator with the same seed.
const PART_HOPS: u64 = 1000;
const PART_SOURCES: u64 = 2_000_000;
const PART_SEQUENCE_NUMBERS: u64 = 3_000_000;
/// An FH's first port; each transfer has the next one. Not one that a packet analyser takes
/// for another protocol's.
const FH_PORT: u16 = 5100;
/// An MH's first port.
const MH_PORT: u16 = 30_000;
/// Most transfers of an experiment: each has ports of its own.
const TRANSFERS_MAX: usize = 20_000;

/// Events between two checks whether the run is interrupted: some milliseconds. A power of two.
const INTERRUPTION_EVENTS: u64 = 1 << 13;

/// The two ends of a transfer.
struct Pair {
    sender: ConnectionId,
    receiver: ConnectionId,
}

/// Runs an experiment until it is done, until `limit`, or until `interrupted` (returns a break).
pub(super) fn run(
    experiment: &Experiment,
    limit: Instant,
    observer: &mut dyn Observer,
    interrupted: &dyn Fn() -> bool,
) -> (Outcome, ControlFlow<()>) {
    let mut network = Network::new();
    let (nodes, gateways) = chain(experiment, &mut network);
    if experiment.encrypted {
        network.encrypt();
    }
    let mobiles = nodes[experiment.hops.len()];
    let pairs = transfers(experiment, &mut network, &nodes);
    cross_traffic(experiment, &mut network, &nodes);
    if let Some(interval) = experiment.series_interval {
        network.set_series_interval(interval);
    }
    if experiment.notes_arrivals {
        for pair in &pairs {
            network.note_arrivals(pair.receiver);
        }
    }
    let run_until = experiment.run_until;
    let mut ended = ControlFlow::Continue(());
    network.run(limit, observer, |network| {
        if network.events().is_multiple_of(INTERRUPTION_EVENTS) && interrupted() {
            ended = ControlFlow::Break(());
        }
        let done = match run_until {
            RunUntil::Delivered => network.is_delivered(),
            RunUntil::Closed => network.is_delivered() && network.is_closed(),
            RunUntil::Limit => false,
        };
        done || ended.is_break()
    });
    let mut outcome = outcome(experiment, &network, &gateways, &pairs);
    outcome.mobile = network.mobile_counters(mobiles);
    outcome.mobile_engine = network.host_engine_counters(mobiles);
    (outcome, ended)
}

/// Adds the chain. Returns its nodes, and those that are gateways.
fn chain(experiment: &Experiment, network: &mut Network) -> (Vec<NodeId>, Vec<NodeId>) {
    let hops = &experiment.hops;
    let (wireless, wired) = hops
        .split_last()
        .expect("an experiment has at least one hop");
    let nodes: Vec<NodeId> = (0..=hops.len()).map(|_| network.add_node()).collect();
    for (index, hop) in wired.iter().enumerate() {
        let seed = seed_for(experiment.seed, PART_HOPS + index as u64);
        add_hop(network, hop, nodes[index], nodes[index + 1], seed);
    }
    let ends = [nodes[wired.len()], nodes[hops.len()]];
    let stations = add_cells(experiment, network, ends, wireless);
    let mut gateways = Vec::new();
    if let Some(plan) = &experiment.gateway {
        assert!(
            plan.before_hop > 0 && plan.before_hop < hops.len(),
            "a gateway stands between two hops: before hop 1 to {}",
            hops.len() - 1
        );
        let hop = plan.before_hop;
        // The last hop may be one of several cells, each with its own base station.
        let nodes_of_hop = if hop == wired.len() {
            stations.clone()
        } else {
            let links = [Direction::Downlink, Direction::Uplink].map(|way| link_of(hop, way));
            vec![Station {
                node: nodes[hop],
                links,
            }]
        };
        for station in nodes_of_hop {
            let role = GatewayRole {
                settings: plan.settings.clone(),
                wireless: station.links[0],
                signal: plan.signal,
                restarts: plan.restarts.iter().map(|at| Instant::ZERO + *at).collect(),
                resend_dscp: plan.resend_dscp,
                compression_time: plan.compression_time,
            };
            network.add_gateway(station.node, role);
            gateways.push(station.node);
        }
        connect_stations(experiment, network, &stations);
    }
    if let Some(station) = &experiment.base_station {
        add_base_station(experiment, network, station, nodes[wired.len()]);
    }
    let (mobiles, wireless) = (nodes[hops.len()], link_of(wired.len(), Direction::Downlink));
    if let Some(plan) = experiment.mobile {
        network.add_mobile(mobiles, MobileRole { plan, wireless });
    }
    if let Some(plan) = &experiment.mobile_engine {
        let plan = plan.clone();
        network.add_host_engine(mobiles, HostEngineRole { plan, wireless });
    }
    (nodes, gateways)
}

fn add_base_station(
    experiment: &Experiment,
    network: &mut Network,
    station: &BaseStation,
    node: NodeId,
) {
    assert!(
        experiment.gateway.is_none() && experiment.roaming.is_none() && experiment.hops.len() > 1,
        "a base station stands alone, between two hops"
    );
    let wireless = link_of(experiment.hops.len() - 1, Direction::Downlink);
    match station {
        BaseStation::Splits(plan) => {
            let plan = (**plan).clone();
            network.add_split(node, SplitRole { plan, wireless });
        }
        BaseStation::ReportsBadLink { every } => {
            let every = *every;
            network.add_bad_link_messages(node, BadLinkRole { wireless, every });
        }
    }
}

fn transfers(experiment: &Experiment, network: &mut Network, nodes: &[NodeId]) -> Vec<Pair> {
    assert!(
        experiment.transfers.len() <= TRANSFERS_MAX,
        "at most {TRANSFERS_MAX} transfers"
    );
    let mut numbers = ChaCha8Rng::seed_from_u64(seed_for(experiment.seed, PART_SEQUENCE_NUMBERS));
    let last_hop = experiment.hops.len() - 1;
    let wireless = experiment
        .gateway
        .as_ref()
        .map_or(last_hop, |gateway| gateway.before_hop);
    let (fixed, mobile) = (nodes[0], nodes[nodes.len() - 1]);
    let mut pairs = Vec::new();
    for (index, transfer) in experiment.transfers.iter().enumerate() {
        let index = index as u32;
        let mut end = |node: NodeId, address: Ipv4Addr, port: u16, stream: u32| End {
            node,
            endpoint: Endpoint {
                address: IpAddr::V4(address),
                port: port + index as u16,
            },
            stream,
            iss: SeqNum::new(numbers.next_u32()),
        };
        let fh = end(fixed, Ipv4Addr::new(10, 1, 0, 2), FH_PORT, 2 * index);
        let mh = end(
            mobile,
            mobile_address(transfer.mobile),
            MH_PORT,
            2 * index + 1,
        );
        let watches = link_of(wireless, transfer.direction);
        pairs.push(connect(network, transfer, fh, mh, watches));
    }
    pairs
}

fn mobile_address(number: u32) -> Ipv4Addr {
    let [_, b, c, d] = (number + 2).to_be_bytes();
    Ipv4Addr::new(10, 128 | b, c, d)
}

fn connect(network: &mut Network, transfer: &Transfer, fh: End, mh: End, watches: LinkId) -> Pair {
    let (fh_app, mh_app) = applications(transfer);
    let downlink = transfer.direction == Direction::Downlink;
    let ports = (fh.endpoint.port, mh.endpoint.port);
    let mut add =
        |own: End, other: End, tcp, app, ports, opens_at: Option<Instant>, receives: bool| {
            let connection = Connection::new(tcp, own, other, app, opens_at.is_none());
            let expects = if receives { transfer.bytes } else { 0 };
            let watches = receives.then_some(watches);
            network.add_connection(own.node, connection, ports, opens_at, expects, watches)
        };
    let fh_id = add(fh, mh, transfer.fh, fh_app, ports, None, !downlink);
    let opens_at = Some(Instant::ZERO + transfer.start);
    let mh_ports = (ports.1, ports.0);
    let mh_id = add(mh, fh, transfer.mh, mh_app, mh_ports, opens_at, downlink);
    let pair = if downlink {
        Pair {
            sender: fh_id,
            receiver: mh_id,
        }
    } else {
        Pair {
            sender: mh_id,
            receiver: fh_id,
        }
    };
    network.pair(pair.receiver, pair.sender);
    network.set_content(pair.sender, transfer.content);
    pair
}

/// The applications of FH and MH.
fn applications(transfer: &Transfer) -> (Application, Application) {
    let idle = Application {
        sends: 0,
        after_receiving: 0,
        closes_first: false,
        reading: Reading::AtOnce,
        relays: false,
    };
    match transfer.direction {
        Direction::Downlink => (
            Application {
                sends: transfer.bytes,
                after_receiving: u64::from(transfer.request_bytes),
                closes_first: transfer.closes,
                ..idle
            },
            Application {
                sends: u64::from(transfer.request_bytes),
                reading: transfer.reading,
                ..idle
            },
        ),
        Direction::Uplink => (
            Application {
                reading: transfer.reading,
                ..idle
            },
            Application {
                sends: transfer.bytes,
                closes_first: transfer.closes,
                ..idle
            },
        ),
    }
}

fn cross_traffic(experiment: &Experiment, network: &mut Network, nodes: &[NodeId]) {
    for (index, transfer) in experiment.cross_traffic.iter().enumerate() {
        assert!(
            transfer.from_hop <= transfer.to_hop && transfer.to_hop < experiment.hops.len(),
            "cross traffic {index} crosses hops {} to {}, of {}",
            transfer.from_hop,
            transfer.to_hop,
            experiment.hops.len()
        );
        let (fixed, mobile) = (nodes[transfer.from_hop], nodes[transfer.to_hop + 1]);
        let (from, to) = match transfer.direction {
            Direction::Downlink => (fixed, mobile),
            Direction::Uplink => (mobile, fixed),
        };
        network.add_source(SourceSettings {
            from,
            to,
            rate_bit_per_s: transfer.rate_bit_per_s,
            packet_bytes: transfer.packet_bytes,
            start: Instant::ZERO + transfer.start,
            stop: Instant::ZERO + transfer.stop,
            poisson: transfer.poisson,
            seed: seed_for(experiment.seed, PART_SOURCES + index as u64),
        });
    }
}

fn outcome(
    experiment: &Experiment,
    network: &Network,
    gateways: &[NodeId],
    pairs: &[Pair],
) -> Outcome {
    let counters = |hop: usize, direction| network.link_counters(link_of(hop, direction));
    let hops = experiment.hops.iter().enumerate().map(|(index, hop)| {
        let downlink = counters(index, Direction::Downlink);
        let uplink = if hop.half_duplex {
            holdfast_link::Counters::default()
        } else {
            counters(index, Direction::Uplink)
        };
        [downlink, uplink]
    });
    let mut gateway: Vec<(&'static str, u64)> = Vec::new();
    for (name, count) in gateways
        .iter()
        .flat_map(|node| network.gateway_counters(*node))
    {
        match gateway.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += count,
            None => gateway.push((name, count)),
        }
    }
    Outcome {
        transfers: experiment
            .transfers
            .iter()
            .zip(pairs)
            .map(|(transfer, pair)| transfer_outcome(network, transfer, pair))
            .collect(),
        hops: hops.collect(),
        cross_traffic: network.cross_traffic(),
        gateway,
        handoff: handoff_outcome(experiment, network),
        mobile: None,
        mobile_engine: None,
        ended_at: network.now(),
        events: network.events(),
        digest: network.digest(),
    }
}

fn handoff_outcome(experiment: &Experiment, network: &Network) -> Option<HandoffOutcome> {
    experiment.roaming.as_ref()?.handoff.as_ref()?;
    let [taken_over, kept, delivered, overflowed] = network.handoff_counters();
    Some(HandoffOutcome {
        buffered_bytes_max: network.buffered_bytes_max() as u64,
        state_bytes_max: network.handoff_state_bytes_max() as u64,
        taken_over,
        kept,
        delivered,
        overflowed,
    })
}

fn transfer_outcome(network: &Network, transfer: &Transfer, pair: &Pair) -> TransferOutcome {
    let (sender, receiver) = (
        network.connection(pair.sender),
        network.connection(pair.receiver),
    );
    let start = Instant::ZERO + transfer.start;
    let delivered = receiver.delivered();
    let done_at = network.delivered_at(pair.receiver);
    let until = done_at.unwrap_or(network.progressed_at(pair.receiver));
    let elapsed = (Instant::ZERO + until.saturating_since(start)).as_secs_f64();
    TransferOutcome {
        finished: transfer.bytes == 0 || done_at.is_some(),
        intact: [sender, receiver].iter().all(|end| end.view().intact)
            && network.split_is_intact(pair.sender),
        endings: [sender.ending(), receiver.ending()],
        transfer_time: done_at.map(|at| at.saturating_since(start)),
        delivered_bytes: delivered,
        goodput_bit_per_s: if elapsed > 0.0 {
            delivered as f64 * 8.0 / elapsed
        } else {
            0.0
        },
        acknowledged_ahead_bytes_max: network.acknowledged_ahead_max(pair.sender),
        stalls: network.stalls(pair.receiver),
        sender: *sender.counters(),
        receiver: *receiver.counters(),
        judgements: sender.judgements().to_vec(),
        series: network.series(pair.receiver).to_vec(),
        arrivals: network.arrivals(pair.receiver).to_vec(),
    }
}
