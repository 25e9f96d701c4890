// SPDX-License-Identifier: Apache-2.0
//! The links of a hop, and the seeds of the cells' links.

use holdfast_core::Direction;
use holdfast_link::{LinkPlan, seed_for};

use super::Hop;
use crate::network::{MediumPlan, Network};
use crate::observe::LinkId;
use crate::packet::NodeId;

/// Seed parts of all cells but the first. The first has the run's own seed, as the lab's links.
const PART_CELLS: u64 = 5_000_000;
const PART_LANS: u64 = 6_000_000;

/// The seed of a cell's link: the run's own for the first.
pub(super) fn cell_seed(seed: u64, cell: usize) -> u64 {
    match cell {
        0 => seed,
        other => seed_for(seed, PART_CELLS + other as u64),
    }
}

pub(super) fn lan_seed(seed: u64, station: usize) -> u64 {
    seed_for(seed, PART_LANS + station as u64)
}

pub(super) fn add_hop(
    network: &mut Network,
    hop: &Hop,
    fixed: NodeId,
    mobile: NodeId,
    seed: u64,
) -> [LinkId; 2] {
    // As the emulator numbers them: 0 shared, 1 downlink, 2 uplink.
    let medium = |plan: &LinkPlan, direction: u64| MediumPlan {
        plan: plan.clone(),
        seed: seed_for(seed, direction),
        outage_seed: seed_for(seed, if hop.outages_shared { 0 } else { direction }),
        overhead_bytes: hop.frame_overhead_bytes,
        header_compression: hop.header_compression,
    };
    if hop.half_duplex {
        return network.add_half_duplex(fixed, mobile, medium(&hop.downlink, 1));
    }
    let mut uplink = hop.uplink.clone();
    if hop.outages_shared {
        uplink.outages = hop.downlink.outages.clone();
    }
    network.add_link(fixed, mobile, medium(&hop.downlink, 1), medium(&uplink, 2))
}

pub(super) fn link_of(hop: usize, direction: Direction) -> LinkId {
    let way = match direction {
        Direction::Downlink => 0,
        Direction::Uplink => 1,
    };
    LinkId(2 * hop as u32 + way)
}
