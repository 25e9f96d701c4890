// SPDX-License-Identifier: Apache-2.0
//! The entries of settings that are lists, and other values of more than one part.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

use crate::prefix::Prefix;

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellSettings {
    /// Its mobiles; none: all.
    pub mobiles: Option<Prefix>,
    /// Its rate toward the mobiles, bytes of payload a second; none: estimated.
    pub bytes_per_s: Option<u64>,
}

/// The address of a base station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its address on the wired side.
    pub address: IpAddr,
    /// Its UDP port; none: that of `handoff.port`.
    pub port: Option<u16>,
}

impl FromStr for Station {
    type Err = core::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            let port = None;
            return Ok(Self { address, port });
        }
        text.parse::<SocketAddr>().map(|both| Self {
            address: both.ip(),
            port: Some(both.port()),
        })
    }
}

impl fmt::Display for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

/// A gateway and the interface by which it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The interface; its carrier is the link's state.
    pub interface: String,
    /// The gateway's signal address, as given; it may need a resolver. None: the mobile has no
    /// gateway.
    pub gateway: Option<String>,
}

/// Where a page of a daemon is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket with this path.
    Unix(String),
}

impl Listen {
    /// Whether a socket at one address keeps another socket from the other address. `0.0.0.0` takes the
    /// port of each IPv4 address, and `[::]` that of all (unless `net.ipv6.bindv6only` is set).
    pub fn overlaps(&self, other: &Self) -> bool {
        let (Self::Tcp(one), Self::Tcp(two)) = (self, other) else {
            return self == other;
        };
        // An IPv4 address may be written as one of IPv6; the system chooses another port for each 0.
        let (a, b) = (one.ip().to_canonical(), two.ip().to_canonical());
        let covers = |wide: IpAddr, narrow: IpAddr| {
            wide.is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
        };
        let same_port = one.port() == two.port() && one.port() != 0;
        same_port && (a == b || covers(a, b) || covers(b, a))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => f.write_str(path),
        }
    }
}
