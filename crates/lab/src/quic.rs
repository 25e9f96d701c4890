// SPDX-License-Identifier: Apache-2.0
//! Bulk transfers over QUIC, beside those over TCP: the same seeded bytes, hashed and timed at
//! the receiver in the same way.
//!
//! QUIC is no part of the kernel: an end is a thread with a runtime of its own, and with a
//! socket that was made in its host's namespace. As with TCP the MH's end opens the
//! connection. There is one, with one stream, from the end that sends; the receiver closes when
//! it has all, or wants no more. Nothing is tried a second time, and a connection breaks only
//! after [`IDLE_LIMIT`] of silence: what an outage costs shows as a stall.
//!
//! ```text
//!   FH: QuicEnd::listen          MH: QuicEnd::connect
//!         <-------- connection ---------
//!         ========= downlink ==========>
//!         <-------- close --------------
//!      or <========= uplink ============
//!         --------- close ------------->
//! ```

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_core::{Direction, Side};
use holdfast_net::netns::NetNs;
use quinn::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use quinn::{Connection, TransportConfig};
use serde::{Deserialize, Serialize};

use holdfast_testbed::download::{DownloadWatch, Received};
use holdfast_testbed::stop::StopFlag;

mod end;
mod tls;

pub use end::QuicEnd;

/// A connection without a packet from the other end is broken after this time (RFC 9000, 10.1).
pub const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// Bytes on the way and not read, at most: more than the links of the lab need, about what the
/// kernel gives TCP.
const WINDOW_BYTES: u32 = 8 << 20;

/// The sender's congestion control, as quinn has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuicCongestionControl {
    /// Cubic (RFC 9438).
    Cubic,
    /// BBR, the first version.
    Bbr,
    /// New Reno, as RFC 9002 describes it.
    NewReno,
}

impl QuicCongestionControl {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Bbr, Self::NewReno];

    /// Its name, as it is read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::NewReno => "newreno",
        }
    }
}

impl fmt::Display for QuicCongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for QuicCongestionControl {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.name() == name)
            .with_context(|| format!("QUIC: no congestion control {name}: cubic, bbr or newreno"))
    }
}

/// What is sent from one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicExchange {
    /// Which way.
    pub direction: Direction,
    /// How many bytes; none: as many as come until an end is ended.
    pub bytes: Option<u64>,
    /// The seed of these bytes.
    pub seed: u64,
    /// The sender's congestion control.
    pub congestion_control: QuicCongestionControl,
    /// Whether the kernel may get several packets as one, and part them late: on a veth pair
    /// that is at the other end's socket, so that they pass a router as one.
    pub segmentation_offload: bool,
}

impl QuicExchange {
    fn transport(&self) -> anyhow::Result<TransportConfig> {
        let mut transport = TransportConfig::default();
        transport
            .max_idle_timeout(Some(IDLE_LIMIT.try_into()?))
            .stream_receive_window(WINDOW_BYTES.into())
            .send_window(WINDOW_BYTES.into())
            .enable_segmentation_offload(self.segmentation_offload);
        match self.congestion_control {
            QuicCongestionControl::Cubic => {
                transport.congestion_controller_factory(Arc::new(CubicConfig::default()))
            }
            QuicCongestionControl::Bbr => {
                transport.congestion_controller_factory(Arc::new(BbrConfig::default()))
            }
            QuicCongestionControl::NewReno => {
                transport.congestion_controller_factory(Arc::new(NewRenoConfig::default()))
            }
        };
        Ok(transport)
    }
}

/// What an end has counted; of what it has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QuicCounts {
    /// Packets, those with no data too.
    pub packets: u64,
    /// Packets that it took for lost: what was in them it sent again.
    pub lost_packets: u64,
    /// How often its congestion control was given a loss, or a mark (RFC 9002, 7.3).
    pub congestion_events: u64,
    /// How often it took the path for one that loses all large packets (RFC 8899, 4.3): it sends
    /// small ones then.
    pub black_holes: u64,
}

impl QuicCounts {
    fn of(connection: &Connection) -> Self {
        let path = connection.stats().path;
        Self {
            packets: path.sent_packets,
            lost_packets: path.lost_packets,
            congestion_events: path.congestion_events,
            black_holes: path.black_holes_detected,
        }
    }
}

/// What has become of an end.
#[derive(Clone, Debug)]
pub struct QuicReport {
    /// What it received; of one that sends: nothing.
    pub received: Received,
    /// Bytes that it gave to its connection.
    pub sent_bytes: u64,
    /// What it counted.
    pub counts: QuicCounts,
    /// What broke the connection; none: nothing did before it was done, or ended.
    pub error: Option<String>,
}

/// Both ends, ready to begin.
#[derive(Debug)]
pub struct QuicPair {
    fh: QuicEnd,
    mh: NetNs,
    exchange: QuicExchange,
    watch: DownloadWatch,
}

/// How an exchange ended.
#[derive(Clone, Debug)]
pub struct QuicExchanged {
    /// What arrived at the receiver.
    pub received: Received,
    /// The connection came to its end, good or bad, within the limit.
    pub ended: bool,
    /// What broke it at the sender; none: it ended well, or was ended.
    pub sender_error: Option<String>,
    /// The same at the receiver.
    pub receiver_error: Option<String>,
    /// What the sender counted.
    pub sender: QuicCounts,
}

impl QuicPair {
    /// Starts the FH's end in the namespace `fh`, at an address `at` that the MH reaches; the
    /// MH's is to be in `mh`. `watch` shows what arrives, at whichever end.
    pub fn prepare(
        fh: &NetNs,
        mh: &NetNs,
        at: SocketAddr,
        exchange: &QuicExchange,
        watch: &DownloadWatch,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            fh: QuicEnd::listen(fh, at, exchange, watch)?,
            mh: mh.clone(),
            exchange: *exchange,
            watch: watch.clone(),
        })
    }

    /// Begins at `begin_ns`, CLOCK_MONOTONIC, and waits for the end; after `limit` it ends what
    /// has not ended by then, as it is meant where no number of bytes was given.
    ///
    /// # Errors
    /// There is no socket for the MH, or we are to stop. A connection that breaks is a result.
    pub fn run(
        self,
        begin_ns: u64,
        limit: Duration,
        stop: &StopFlag,
    ) -> anyhow::Result<QuicExchanged> {
        let (to, exchange, watch) = (self.fh.address(), &self.exchange, &self.watch);
        let mh = QuicEnd::connect(&self.mh, to, begin_ns, exchange, watch)?;
        let (sender, receiver) = match exchange.direction.sender() {
            Side::Fh => (self.fh, mh),
            Side::Mh => (mh, self.fh),
        };
        let waited = stop.wait_for("the transfer ends", limit, || {
            let one_ended = receiver.is_finished() || sender.is_finished();
            Ok(one_ended.then_some(()))
        });
        stop.check()?;
        // A sender ends first only if its connection broke.
        let receiver = receiver.end()?;
        let sender = sender.end()?;
        Ok(QuicExchanged {
            received: receiver.received,
            ended: waited.is_ok(),
            sender_error: sender.error,
            receiver_error: receiver.error,
            sender: sender.counts,
        })
    }
}

#[cfg(test)]
mod tests;
