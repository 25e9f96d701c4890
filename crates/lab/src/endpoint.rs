// SPDX-License-Identifier: Apache-2.0
//! The lab's own ends of a transfer. Each is a process in its host's namespace with one TCP socket
//! of the host's kernel. It sends or receives seeded bytes with few system calls.
//!
//! The MH's end opens the connection. The end that sends closes when it has sent all; then the
//! other one closes too. No end waits by computing: in virtual time that would never end.
//!
//! ```text
//!   standard input                          standard output
//!   the task, a line of JSON
//!                                           ready
//!   when to begin, a line of JSON
//!                                           the report, a line of JSON
//! ```
//!
//! The report comes when the connection has ended, or soon after the end of the standard input.
//! [`process`] is the process, [`pair`] its parent.

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

/// The port at which the FH's end listens: Wireshark takes it for no protocol.
pub const PORT: u16 = 40_000;
/// The seed of the bytes in the other direction.
const BACK_SEED: u64 = 2;
/// What an end prints when it is ready for its start.
const READY: &str = "ready";

/// What is sent from one end to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Direction of the bytes.
    pub direction: DirectionChoice,
    /// How many bytes.
    pub bytes: u64,
    /// Their seed.
    pub seed: u64,
    /// Bytes that the MH sends before the FH sends; on the downlink.
    pub request_bytes: u64,
    /// Number of requests, each for an equal part of the bytes.
    pub requests: u32,
    /// From an answer to the next request, nanoseconds.
    pub think_ns: u64,
    /// Bytes in the other direction meanwhile.
    pub back_bytes: u64,
    /// Over IPv6.
    pub ipv6: bool,
    /// Distance of the points of a time series of the sender's socket, nanoseconds.
    pub series_interval_ns: Option<u64>,
    /// Number of connections at once, from [`PORT`] on.
    pub flows: u16,
    /// How many of them, the last ones, are a second mobile's.
    pub flows_of_second_mobile: u16,
    /// The largest window of the FH and of the MH, bytes; none: the kernel chooses.
    pub windows_bytes_max: [Option<u32>; 2],
}

impl Exchange {
    /// The largest window of the end that receives `bytes`, and of the other one.
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

    /// Where the FH's end listens.
    fn fh_address(&self) -> SocketAddr {
        SocketAddr::new(self.address(FH), PORT + self.flow)
    }

    /// The address of a second mobile, if this is its connection.
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

/// When to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointStart {
    /// Time zero of the links and of time series, CLOCK_MONOTONIC.
    pub origin_ns: u64,
    /// When the connection is to be opened.
    pub begin_ns: u64,
}

/// What an end reports of its connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct EndpointReport {
    /// What it received; of the end that sends, the bytes in the other direction.
    received: Received,
    /// From each request to its answer's last byte, nanoseconds.
    latencies_ns: Vec<u64>,
    /// The series of its socket, if it was asked for.
    samples: Vec<SocketSample>,
    /// What broke the connection; none: it ended as it should.
    error: Option<String>,
}

/// What is known of a connection when it is over.
#[derive(Clone, Debug, Default)]
pub struct FlowResult {
    /// What arrived at the receiver.
    pub received: Received,
    /// The connection ended, well or not, within the limit.
    pub in_time: bool,
    /// It ended well at the receiver.
    pub is_whole: bool,
    /// From each request to its answer's last byte, nanoseconds; of several requests.
    pub latencies_ns: Vec<u64>,
    /// What arrived in the other direction, if something was to.
    pub back: Option<Back>,
    /// The sender's socket over time, if asked for.
    pub samples: Vec<SocketSample>,
    /// Packets that the sender took for lost; none: its kernel counts retransmissions.
    pub lost_packets: Option<u64>,
}

/// What arrived in the other direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// Bytes.
    pub bytes: u64,
    /// They are those that were sent.
    pub is_intact: bool,
}

/// The bytes of a seed, and their hash.
fn seeded_sum(bytes: u64, seed: u64) -> Sha256Sum {
    holdfast_testbed::seeded_file::SeededContent::of(bytes, seed).sha256
}
