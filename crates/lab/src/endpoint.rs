// SPDX-License-Identifier: Apache-2.0
//! The lab's own ends of a transfer. Each end is a process in its host's namespace, with one TCP
//! socket of the host's kernel. It sends or receives seeded bytes with few system calls.
//!
//! The MH's end opens the connection. The sender closes when it has sent all bytes; then the other
//! end closes too. An end that waits is blocked in a system call: virtual time would never pass
//! beside a busy loop.
//!
//! ```text
//!   standard input                          standard output
//!   the task, a line of JSON
//!                                           ready
//!   when to begin, a line of JSON
//!                                           the report, a line of JSON
//! ```
//!
//! The report comes when the connection has ended, or soon after the standard input is closed.
//! [`process`] is the process of an end, [`pair`] starts both processes.

mod conversation;
pub mod pair;
pub mod process;
mod series;

use std::net::{IpAddr, SocketAddr};

use holdfast_testbed::download::Received;
use holdfast_testbed::seeded_file::Sha256Sum;
use holdfast_testbed::topology::{Addresses, FH, SECOND_MH};
use serde::{Deserialize, Serialize};

use crate::scenario::DirectionChoice;
pub use series::SocketSample;

/// The port at which the FH's end listens: Wireshark assigns no protocol to it.
pub const PORT: u16 = 40_000;
/// The seed of the bytes in the other direction.
const BACK_SEED: u64 = 2;
/// What an end prints when it is ready for its start.
const READY: &str = "ready";

/// The bytes that the two ends send each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Direction of the bytes.
    pub direction: DirectionChoice,
    /// Number of bytes.
    pub bytes: u64,
    /// The seed of the bytes.
    pub seed: u64,
    /// Bytes of the MH's request before the FH sends; on the downlink.
    pub request_bytes: u64,
    /// Number of requests, each for an equal part of the bytes.
    pub requests: u32,
    /// From an answer's last byte to the next request, nanoseconds.
    pub think_ns: u64,
    /// Bytes in the other direction at the same time.
    pub back_bytes: u64,
    /// Whether the connection is over IPv6.
    pub ipv6: bool,
    /// Interval of the time series of the sender's socket, nanoseconds; none: no series.
    pub series_interval_ns: Option<u64>,
    /// Number of parallel connections, at the ports from [`PORT`] on.
    pub flows: u16,
    /// Number of connections, the last ones, that belong to a second mobile.
    pub flows_of_second_mobile: u16,
    /// The largest windows of the FH and of the MH, bytes; none: the kernel chooses.
    pub windows_bytes_max: [Option<u32>; 2],
}

impl Exchange {
    /// The largest window of the receiver of `bytes`, and of the sender.
    fn receiver_and_sender_window(&self) -> [Option<u32>; 2] {
        let [fh, mh] = self.windows_bytes_max;
        match self.direction {
            DirectionChoice::Downlink => [mh, fh],
            DirectionChoice::Uplink => [fh, mh],
        }
    }
}

/// One end of one connection of an exchange.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Task {
    exchange: Exchange,
    is_fh: bool,
    /// The number of the connection, from 0.
    flow: u16,
}

impl Task {
    fn sends(&self) -> bool {
        self.is_fh == (self.exchange.direction == DirectionChoice::Downlink)
    }

    /// The address and port at which the FH's end listens.
    fn fh_address(&self) -> SocketAddr {
        SocketAddr::new(self.address(FH), PORT + self.flow)
    }

    /// The address of the second mobile, if this connection belongs to it.
    fn second_mobile(&self) -> Option<IpAddr> {
        let first = self.exchange.flows - self.exchange.flows_of_second_mobile;
        (self.flow >= first).then(|| self.address(SECOND_MH))
    }

    fn address(&self, host: Addresses) -> IpAddr {
        if self.exchange.ipv6 {
            host.v6.into()
        } else {
            host.v4.into()
        }
    }
}

/// When an end has to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointStart {
    /// Time zero of the links and of time series, CLOCK_MONOTONIC.
    pub origin_ns: u64,
    /// When the connection has to be opened.
    pub begin_ns: u64,
}

/// An end's report of its connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct EndpointReport {
    /// What the end received; at the sender these are the bytes in the other direction.
    received: Received,
    /// From each request to its answer's last byte, nanoseconds.
    latencies_ns: Vec<u64>,
    /// The time series of its socket, if requested.
    samples: Vec<SocketSample>,
    /// Why the connection broke; none: it ended normally.
    error: Option<String>,
}

/// The result of a connection.
#[derive(Clone, Debug, Default)]
pub struct FlowResult {
    /// What arrived at the receiver.
    pub received: Received,
    /// Whether the connection ended within the limit, normally or not.
    pub in_time: bool,
    /// Whether it ended normally at the receiver.
    pub is_whole: bool,
    /// From each request to its answer's last byte, nanoseconds; if there are several requests.
    pub latencies_ns: Vec<u64>,
    /// The bytes that arrived in the other direction, if some were to be sent.
    pub back: Option<Back>,
    /// The time series of the sender's socket, if requested.
    pub samples: Vec<SocketSample>,
    /// Packets that the sender declared lost; none: the sender's kernel counts retransmissions
    /// instead.
    pub lost_packets: Option<u64>,
}

/// The bytes that arrived in the other direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// Bytes.
    pub bytes: u64,
    /// Whether they are the bytes that were sent.
    pub is_intact: bool,
}

/// The bytes of a seed, and their hash.
fn seeded_sum(bytes: u64, seed: u64) -> Sha256Sum {
    holdfast_testbed::seeded_file::SeededContent::of(bytes, seed).sha256
}
