// SPDX-License-Identifier: Apache-2.0
//! What came of a run.

use holdfast_core::mobile_host::MobileHostCounters;
use holdfast_link::Counters as LinkCounters;
use holdfast_wire::{Duration, Instant};

use crate::tcp::Judged;
pub use crate::tcp::{Counters as TcpCounters, Ending};

/// The outcome of an [`Experiment`](crate::Experiment).
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In the order of the experiment's transfers.
    pub transfers: Vec<TransferOutcome>,
    /// In the order of its hops: downlink and uplink. A half-duplex hop counts
    /// everything as downlink.
    pub hops: Vec<[LinkCounters; 2]>,
    /// In the order of its cross traffic.
    pub cross_traffic: Vec<CrossOutcome>,
    /// The gateway's own counters, by name, of several the sums; empty without one.
    pub gateway: Vec<(&'static str, u64)>,
    /// What the base stations did, if they hand MHs over.
    pub handoff: Option<HandoffOutcome>,
    /// What the MHs did for their own flows, if they do.
    pub mobile: Option<MobileHostCounters>,
    /// The counters of the engine at the MHs' interface, by name, if there is one.
    pub mobile_engine: Option<Vec<(&'static str, u64)>>,
    /// When the run ended.
    pub ended_at: Instant,
    /// Events worked off.
    pub events: u64,
    /// A hash over every packet at every link with its time: equal for equal runs. Of a
    /// segment it has numbers, length, window and flags, not options, addresses or ports.
    pub digest: u64,
}

/// What base stations did for MHs that went from one to another; all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoffOutcome {
    /// What they kept took at most at a time, bytes of IP packets.
    pub buffered_bytes_max: u64,
    /// The longest record of a connection that one has given another, bytes.
    pub state_bytes_max: u64,
    /// Moves that they noticed.
    pub taken_over: u64,
    /// Packets kept.
    pub kept: u64,
    /// Packets delivered that came as copies or were kept.
    pub delivered: u64,
    /// Packets not kept for want of room.
    pub overflowed: u64,
}

/// One transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferOutcome {
    /// All bytes have reached the receiving application.
    pub finished: bool,
    /// No byte stood where another one belongs, at either end.
    pub intact: bool,
    /// How the sender of the bytes and their receiver ended, in this order.
    pub endings: [Ending; 2],
    /// From [`Transfer::start`](crate::Transfer::start), when the first SYN goes out,
    /// until the last byte reached the receiver's TCP in order; none if unfinished.
    pub transfer_time: Option<Duration>,
    /// Bytes that have reached the receiver's TCP in order.
    pub delivered_bytes: u64,
    /// `delivered_bytes` over the time until the last of them, in bit/s; 0 if there is
    /// none.
    pub goodput_bit_per_s: f64,
    /// Bytes that were acknowledged to the sender before the receiver's TCP had them in order,
    /// at most at a time: 0 with end-to-end ACKs.
    pub acknowledged_ahead_bytes_max: u64,
    /// The times from the ends of outages of the wireless hop to the first new byte in order at
    /// the receiver, for outages within the transfer.
    pub stalls: Vec<Stall>,
    /// What the sender's TCP did.
    pub sender: TcpCounters,
    /// What the receiver's TCP did.
    pub receiver: TcpCounters,
    /// What the sender's loss classifier has judged, if it has one.
    pub judgements: Vec<Judged>,
    /// Points in time, if asked for.
    pub series: Vec<Sample>,
    /// When bytes reached the receiver in order, and all of them until then; if asked for, the
    /// first million times.
    pub arrivals: Vec<(Instant, u64)>,
}

/// What followed one outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Link up.
    pub link_up_at: Instant,
    /// Until the first new byte in order at the receiver; until the next outage or the end of
    /// the run if none came.
    pub length: Duration,
    /// A new byte came.
    pub ended: bool,
}

/// A connection at one point in time, seen from the sender of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes; `u64::MAX` for none yet.
    pub ssthresh: u64,
    /// The receiver's window as the sender knows it, bytes.
    pub rwnd: u64,
    /// Bytes acknowledged: `snd.una` as an offset in the stream.
    pub snd_una: u64,
    /// The next byte to send.
    pub snd_nxt: u64,
    /// Bytes in order at the receiver: `rcv.nxt`.
    pub rcv_nxt: u64,
    /// The retransmission timeout, back-off included.
    pub rto: Duration,
    /// Packets that wait in the queue of the wireless hop, in the bytes' direction.
    pub queue_packets: u32,
    /// That hop carries.
    pub link_up: bool,
}

/// What came of cross traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrossOutcome {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub arrived: u64,
}

impl TransferOutcome {
    /// Sum of the stalls.
    pub fn stalls_total(&self) -> Duration {
        self.stalls.iter().map(|stall| stall.length).sum()
    }

    /// Bytes that came to the receiver again, for each byte delivered.
    pub fn duplicates_per_byte(&self) -> f64 {
        if self.delivered_bytes == 0 {
            return 0.0;
        }
        self.receiver.duplicate_bytes_received as f64 / self.delivered_bytes as f64
    }
}
