// SPDX-License-Identifier: Apache-2.0
//! The results of a run.

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
    /// The gateway's counters, by name; sums if there are several; empty without a gateway.
    pub gateway: Vec<(&'static str, u64)>,
    /// What the base stations did, if they hand MHs over.
    pub handoff: Option<HandoffOutcome>,
    /// What the MHs did for their own flows, if they do.
    pub mobile: Option<MobileHostCounters>,
    /// The counters of the engine at the MHs' interface, by name, if there is one.
    pub mobile_engine: Option<Vec<(&'static str, u64)>>,
    /// When the run ended.
    pub ended_at: Instant,
    /// Events handled.
    pub events: u64,
    /// A hash over every packet at every link with its time: equal for equal runs. It includes a
    /// segment's numbers, length, window and flags, but not its options, addresses or ports.
    pub digest: u64,
}

/// What the base stations did for MHs that moved between them; all stations together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoffOutcome {
    /// Most bytes of IP packets in the stations' buffers at one time.
    pub buffered_bytes_max: u64,
    /// The longest record of a connection that one station has sent to another, bytes.
    pub state_bytes_max: u64,
    /// Handoffs in which a station took MHs over.
    pub taken_over: u64,
    /// Packets buffered.
    pub kept: u64,
    /// Packets delivered from buffers or copies.
    pub delivered: u64,
    /// Packets not buffered, because there was no room.
    pub overflowed: u64,
}

/// One transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferOutcome {
    /// All bytes have reached the receiving application.
    pub finished: bool,
    /// Every byte has arrived at its own offset, at both ends.
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
    /// Most bytes at one time that were acknowledged to the sender before the receiver's TCP had
    /// them in order: 0 with end-to-end ACKs.
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
    /// The time series, if requested.
    pub series: Vec<Sample>,
    /// When bytes reached the receiver in order, with the total at each time; if requested. Only the
    /// first million times.
    pub arrivals: Vec<(Instant, u64)>,
}

/// What followed one outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Link up.
    pub link_up_at: Instant,
    /// Time until the first new byte in order at the receiver. If none came: until the next outage or
    /// the end of the run.
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
    /// That hop is up.
    pub link_up: bool,
}

/// The results of cross traffic.
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

    /// Bytes that the receiver received again, for each byte delivered.
    pub fn duplicates_per_byte(&self) -> f64 {
        if self.delivered_bytes == 0 {
            return 0.0;
        }
        self.receiver.duplicate_bytes_received as f64 / self.delivered_bytes as f64
    }
}
