// SPDX-License-Identifier: Apache-2.0
//! Moves an MH from cell to cell while a transfer runs. At the times of the run's moves it changes
//! the MH's default route and the router's route to the MH. The MH announces that it leaves. The
//! links of the cells drop the packets that are on them, or keep them.

use std::path::Path;

use anyhow::Context as _;
use holdfast_testbed::appointed::{Appointed, sleep_until};
use holdfast_testbed::daemons::{announce_leaving, signal_cell};
use holdfast_testbed::topology::base_stations::{mh_routes, router_routes, station};
use holdfast_testbed::topology::routes::RouteChanger;
use holdfast_testbed::topology::{HostTuning, Topology};

use crate::scenario::Move;

/// One step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The MH announces that it leaves in this many milliseconds.
    Announce(u16),
    /// The MH sends through this cell, from 0.
    Enter(usize),
    /// The router sends what is for the MH to this cell's base station, from 0.
    Route(usize),
}

/// The steps of `moves`, in order; times in seconds since the start of the links' clocks.
fn steps(moves: &[Move]) -> Vec<(f64, Step)> {
    let mut steps: Vec<(f64, Step)> = moves
        .iter()
        .flat_map(|item| {
            let lead_ms = |at_s: f64| ((item.leave_s - at_s) * 1e3).round() as u16;
            let announce = item
                .warning_s
                .map(|at_s| (at_s, Step::Announce(lead_ms(at_s))));
            let enter = Some((item.enter_s, Step::Enter(item.to)));
            let route = item.route_s.map(|at_s| (at_s, Step::Route(item.to)));
            [announce, enter, route].into_iter().flatten()
        })
        .collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    steps
}

/// Starts the MH's moves; it stays in its cell when this is dropped. `origin_ns` is the links' start on
/// CLOCK_MONOTONIC. The MH's routes use `congestion_control` and `tuning`. `mobile` is the socket of its
/// daemon, if that has to announce moves.
pub(crate) fn set_out(
    topology: &Topology,
    moves: &[Move],
    (congestion_control, tuning): (&str, &HostTuning),
    mobile: Option<&Path>,
    origin_ns: u64,
) -> anyhow::Result<Appointed<()>> {
    let router = topology.router.as_ref();
    let router = router.context("a moving MH needs several cells")?;
    let mut mh = RouteChanger::start(&topology.mh)?;
    let mut router = RouteChanger::start(router)?;
    let of_mh: Vec<[String; 2]> = (0..topology.cells.len())
        .map(|cell| mh_routes(cell, congestion_control, tuning))
        .collect();
    let steps = steps(moves);
    let mobile = mobile.map(Path::to_owned);
    Ok(Appointed::start(move |over| {
        for (at_s, step) in steps {
            if !sleep_until(origin_ns + (at_s * 1e9) as u64, over) {
                break;
            }
            match step {
                Step::Announce(lead_ms) => {
                    if let Some(socket) = &mobile {
                        announce_leaving(socket, lead_ms)?;
                    }
                }
                Step::Enter(cell) => {
                    mh.replace(&of_mh[cell])?;
                    if let Some(socket) = &mobile {
                        signal_cell(socket, station(cell).v4.into())?;
                    }
                }
                Step::Route(cell) => router.replace(&router_routes(cell))?,
            }
        }
        mh.finish()?;
        router.finish()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_change_in_the_order_of_their_times() {
        let one = |from: usize, to: usize, enter_s: f64, route_s: Option<f64>| Move {
            from,
            to,
            warning_s: None,
            leave_s: enter_s - 0.01,
            enter_s,
            route_s,
        };
        let moves = [
            one(0, 1, 1.0, Some(1.5)),
            one(1, 2, 1.2, None),
            Move {
                warning_s: Some(1.04),
                ..one(2, 0, 1.3, Some(1.6))
            },
        ];
        let order: Vec<Step> = steps(&moves).into_iter().map(|(_, step)| step).collect();
        assert_eq!(
            order,
            [
                Step::Enter(1),
                Step::Announce(250),
                Step::Enter(2),
                Step::Enter(0),
                Step::Route(1),
                Step::Route(0)
            ]
        );
    }
}
