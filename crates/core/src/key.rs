// SPDX-License-Identifier: Apache-2.0
//! Which connection a segment belongs to.

use holdfast_wire::{Endpoint, Segment};

use crate::Direction;

/// A connection's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// The end on the wired side.
    pub fh: Endpoint,
    /// The end on the wireless side.
    pub mh: Endpoint,
}

impl FlowKey {
    /// The flow of a segment that goes in `direction`.
    pub const fn of(segment: &Segment, direction: Direction) -> Self {
        match direction {
            Direction::Downlink => Self {
                fh: segment.from,
                mh: segment.to,
            },
            Direction::Uplink => Self {
                fh: segment.to,
                mh: segment.from,
            },
        }
    }
}
