// SPDX-License-Identifier: Apache-2.0
//! The two ends of a flow and the two directions of a segment, as the gateway sees them.

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The fixed host.
    Fh,
    /// The mobile host.
    Mh,
}

impl Side {
    /// The direction of segments that this end sends.
    pub const fn sends(self) -> Direction {
        match self {
            Self::Fh => Direction::Downlink,
            Self::Mh => Direction::Uplink,
        }
    }
}

/// The direction of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Toward the MH.
    Downlink,
    /// From the MH.
    Uplink,
}

impl Direction {
    /// The end that a segment of this direction reaches.
    pub const fn toward(self) -> Side {
        match self {
            Self::Downlink => Side::Mh,
            Self::Uplink => Side::Fh,
        }
    }

    /// The end that sends segments of this direction.
    pub const fn sender(self) -> Side {
        self.back().toward()
    }

    /// The direction of answers to a segment of this direction.
    pub const fn back(self) -> Self {
        match self {
            Self::Downlink => Self::Uplink,
            Self::Uplink => Self::Downlink,
        }
    }
}
