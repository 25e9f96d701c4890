// SPDX-License-Identifier: Apache-2.0
//! Several base stations, and MHs that move between them.
//!
//! ```text
//!   FHs --- hops --- router --+-- base station 0 --- the last hop --+-- MHs
//!                             +-- base station 1 --- others[0] -----+
//!                             +-- base station 2 --- others[1] -----+
//! ```
//!
//! The chain's last hop is the first cell. A cell without the MHs is a link in an outage, which
//! its plan must contain. A move changes only routes.

use holdfast_core::handoff::HandoffSettings;
use holdfast_link::LinkPlan;
use holdfast_wire::{Duration, Instant};

use super::{Experiment, Hop, hops};
use crate::network::Network;
use crate::observe::LinkId;
use crate::packet::NodeId;

/// Cells besides the last hop of the chain.
#[derive(Clone, Debug)]
pub struct Roaming {
    /// The link between router and MHs of each other cell.
    pub others: Vec<Hop>,
    /// The link between the router and each base station, of the first cell too.
    pub lan: LinkPlan,
    /// The moves of the MHs, in order.
    pub moves: Vec<Move>,
    /// The base stations hand MHs over; none: each is a gateway that does not know the others. The
    /// MHs register, and announce that they are about to leave. These messages take the cell's
    /// propagation delay and are not lost. No effect without [`Experiment::gateway`].
    pub handoff: Option<HandoffSettings>,
}

/// All MHs go from the cell that they are in to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The cell that they are in: 0 is the last hop of the chain.
    pub from: usize,
    /// The cell that they go to.
    pub to: usize,
    /// When they send a warning that they will leave; none: never.
    pub warning: Option<Duration>,
    /// From this time on they send by the new cell's link.
    pub enter: Duration,
    /// From this time on the router's route to them is by the new base station; none: no change.
    pub route: Option<Duration>,
}

/// A base station in the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    pub(super) node: NodeId,
    /// The directions of its cell's link: toward the MH, and from it.
    pub(super) links: [LinkId; 2],
}

/// Adds base stations and cells between `router` and `mobile`; `wireless` is the hop of the first
/// cell. Without [`Experiment::roaming`], the router is the base station.
pub(super) fn add_cells(
    experiment: &Experiment,
    network: &mut Network,
    [router, mobile]: [NodeId; 2],
    wireless: &Hop,
) -> Vec<Station> {
    let Some(roaming) = &experiment.roaming else {
        let links = hops::add_hop(network, wireless, router, mobile, experiment.seed);
        return vec![Station {
            node: router,
            links,
        }];
    };
    let cells = std::iter::once(wireless).chain(&roaming.others).enumerate();
    let stations: Vec<Station> = cells
        .map(|(number, cell)| {
            let node = network.add_node();
            let seed = hops::cell_seed(experiment.seed, number);
            let links = hops::add_hop(network, cell, node, mobile, seed);
            Station { node, links }
        })
        .collect();
    let lans: Vec<[LinkId; 2]> = stations
        .iter()
        .enumerate()
        .map(|(number, station)| {
            let lan = Hop::of_plans(roaming.lan.clone(), roaming.lan.clone());
            let seed = hops::lan_seed(experiment.seed, number);
            hops::add_hop(network, &lan, router, station.node, seed)
        })
        .collect();
    for moved in &roaming.moves {
        assert!(
            moved.to < stations.len(),
            "a move to a cell that there is not"
        );
        network.change_cell(
            Instant::ZERO + moved.enter,
            mobile,
            stations[moved.to].links,
        );
        if let Some(route) = moved.route {
            let [there, _] = lans[moved.to];
            network.change_route(Instant::ZERO + route, router, mobile, there);
        }
    }
    stations
}

/// Lets the base stations hand MHs over, if that is configured. The MHs begin in the first cell.
pub(super) fn connect_stations(
    experiment: &Experiment,
    network: &mut Network,
    stations: &[Station],
) {
    let Some(roaming) = &experiment.roaming else {
        return;
    };
    let Some(settings) = &roaming.handoff else {
        return;
    };
    network.connect_stations(settings, roaming.lan.delay * 2);
    let delay = |cell: usize| {
        let link = match cell.checked_sub(1) {
            None => experiment.hops.last(),
            Some(other) => roaming.others.get(other),
        };
        link.map_or(Duration::ZERO, Hop::uplink_delay)
    };
    let mut register = |after: Duration, cell: usize, leaving: bool| {
        let at = Instant::ZERO + after + delay(cell);
        network.register(at, stations[cell].node, leaving);
    };
    register(Duration::ZERO, 0, false);
    for moved in &roaming.moves {
        if let Some(warning) = moved.warning {
            register(warning, moved.from, true);
        }
        register(moved.enter, moved.to, false);
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{LinkSource, Scheme, Settings};
    use holdfast_link::{LinkSettings, OutageAt, OutageSettings};

    use super::*;
    use crate::experiment::{GatewayPlan, Transfer};
    use crate::network::LinkSignal;
    use crate::observe::{Observer, PacketEvent};
    use crate::outcome::Outcome;
    use crate::packet::Packet;
    use crate::tcp::Preset;

    const CELLS: usize = 3;
    const BYTES: u64 = 2_000_000;
    /// The time from leaving a cell to entering the next one.
    const GAP_MS: u64 = 10;

    fn millis(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Through all cells in turn, a move every two seconds; the route follows after a second.
    fn moves(warning_ms: u64) -> Vec<Move> {
        let one = |number: u64| {
            let leave = 2000 + 2000 * number;
            Move {
                from: number as usize % CELLS,
                to: (number as usize + 1) % CELLS,
                warning: (warning_ms > 0).then(|| millis(leave - warning_ms)),
                enter: millis(leave + GAP_MS),
                route: Some(millis(leave + GAP_MS + 1000)),
            }
        };
        (0..4).map(one).collect()
    }

    /// A radio that is in an outage while the MH is elsewhere.
    fn cell(number: usize, moves: &[Move]) -> Hop {
        let s = |time: Duration| time.as_secs_f64();
        let mut list = Vec::new();
        let mut left = (number > 0).then_some(0.0);
        for moved in moves {
            if moved.from == number {
                left = Some(s(moved.enter) - GAP_MS as f64 / 1e3);
            }
            if let (true, Some(at_s)) = (moved.to == number, left) {
                left = None;
                list.push(OutageAt {
                    at_s,
                    for_s: s(moved.enter) - at_s,
                });
            }
        }
        if let Some(at_s) = left {
            list.push(OutageAt { at_s, for_s: 1e4 });
        }
        let radio = LinkSettings {
            rate_mbit_per_s: Some(2.0),
            delay_ms: 1.0,
            queue_packets_max: Some(50),
            outages: OutageSettings::List { list },
            ..LinkSettings::default()
        };
        Hop::both_ways(&radio).unwrap()
    }

    fn experiment(warning_ms: u64, handoff: Option<HandoffSettings>) -> Experiment {
        let moves = moves(warning_ms);
        let wired = LinkSettings {
            rate_mbit_per_s: Some(10.0),
            delay_ms: 1.0,
            ..LinkSettings::default()
        };
        let mut experiment = Experiment::new(3, Duration::from_secs(60));
        experiment.hops = vec![Hop::both_ways(&wired).unwrap(), cell(0, &moves)];
        experiment.roaming = Some(Roaming {
            others: (1..CELLS).map(|number| cell(number, &moves)).collect(),
            lan: LinkSettings::default().plan().unwrap(),
            moves,
            handoff,
        });
        let transfer = Transfer::download(BYTES, Preset::Reno43bsd.settings());
        experiment.transfers = vec![transfer];
        experiment
    }

    fn with_snoop(mut experiment: Experiment) -> Experiment {
        let settings = Settings {
            scheme: Scheme::Snoop,
            ..Settings::default()
        };
        let plan = GatewayPlan::before_last(settings, &experiment.hops);
        experiment.gateway = Some(GatewayPlan {
            signal: Some(LinkSignal::at_once(LinkSource::Carrier)),
            ..plan
        });
        experiment
    }

    /// The times at which the MH received something, by cell.
    #[derive(Default)]
    struct Received([Vec<u64>; CELLS]);

    impl Observer for Received {
        fn on_packet(&mut self, link: LinkId, event: PacketEvent, _: &Packet, now: Instant) {
            let hop = (link.0 / 2) as usize;
            if event == PacketEvent::Arrived
                && link.0.is_multiple_of(2)
                && (1..=CELLS).contains(&hop)
            {
                self.0[hop - 1].push(now.as_nanos() / 1_000_000);
            }
        }
    }

    fn run(experiment: &Experiment) -> (Outcome, Received) {
        let mut received = Received::default();
        let outcome = experiment.run_observed(&mut received);
        let transfer = &outcome.transfers[0];
        assert!(transfer.finished && transfer.intact, "{transfer:?}");
        (outcome, received)
    }

    /// The time from each leaving to the first packet through the new cell, in milliseconds.
    fn first_packets_ms(experiment: &Experiment, received: &Received) -> Vec<u64> {
        let moves = &experiment.roaming.as_ref().unwrap().moves;
        let first = |moved: &Move| {
            let entered = moved.enter.as_millis() as u64;
            let through = received.0[moved.to].iter();
            through
                .copied()
                .find(|at| *at >= entered)
                .map(|at| at + GAP_MS - entered)
        };
        moves.iter().filter_map(first).collect()
    }

    #[test]
    fn without_handoff_nothing_comes_through_the_new_cell_before_the_route_does() {
        for (moved, gateways) in [
            (experiment(0, None), false),
            (with_snoop(experiment(0, None)), true),
        ] {
            let (outcome, received) = run(&moved);
            let mut first = first_packets_ms(&moved, &received);
            // A gateway to which the MH returns sends what it had cached before.
            first.truncate(if gateways { 1 } else { 4 });
            // The MH may leave a cell before the sender tries again.
            assert!(!first.is_empty(), "{first:?}");
            assert!(first.iter().all(|ms| *ms >= 1000), "{first:?}");
            assert!(
                received
                    .0
                    .iter()
                    .filter(|through| !through.is_empty())
                    .count()
                    > 1
            );
            assert_eq!(outcome.handoff, None);
            assert!(outcome.transfers[0].sender.timeouts > 0);
        }
    }

    #[test]
    fn stations_that_hand_over_deliver_what_they_kept_at_once() {
        for warning_ms in [0, 200] {
            let moved = with_snoop(experiment(warning_ms, Some(HandoffSettings::default())));
            let (outcome, received) = run(&moved);
            let first = first_packets_ms(&moved, &received);
            assert_eq!(first.len(), 4, "{first:?}");
            assert!(first.iter().all(|ms| *ms < 100), "{first:?}");
            let did = outcome.handoff.unwrap();
            assert_eq!(did.taken_over, 4, "{did:?}");
            assert!(did.buffered_bytes_max > 0 && did.delivered > 0, "{did:?}");
            assert_eq!(outcome.transfers[0].sender.timeouts, 0, "{did:?}");
        }
    }

    #[test]
    fn on_a_half_duplex_medium_a_registration_takes_the_delay_of_the_medium() {
        let moved = |uplink_ms: f64| {
            let mut moved = with_snoop(experiment(0, Some(HandoffSettings::default())));
            let slow = LinkSettings {
                delay_ms: uplink_ms,
                ..LinkSettings::default()
            };
            let roaming = moved.roaming.as_mut().unwrap();
            for cell in roaming.others.iter_mut().chain(moved.hops.last_mut()) {
                cell.half_duplex = true;
                cell.uplink = slow.plan().unwrap();
            }
            moved
        };
        assert_eq!(run(&moved(1.0)).0, run(&moved(300.0)).0);
    }

    #[test]
    fn a_run_with_moves_is_the_same_twice() {
        let moved = with_snoop(experiment(200, Some(HandoffSettings::default())));
        assert_eq!(run(&moved).0, run(&moved).0);
    }
}
