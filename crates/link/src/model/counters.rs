// SPDX-License-Identifier: Apache-2.0
//! What came into a link, what left it, and what was lost for which reason.

use serde::{Deserialize, Serialize};

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The queue held as many packets as it may.
    QueuePackets,
    /// The queue held too many bytes for this one.
    QueueBytes,
    /// It came during an outage that loses packets.
    OutageArrival,
    /// It was in the queue or being sent when such an outage began.
    OutageQueued,
    /// It was on the way when such an outage began.
    OutageInFlight,
    /// Random loss.
    RandomLoss,
    /// A bit error that loses its packet.
    BitError,
    /// The two-state loss model.
    GilbertElliott,
    /// More than a million packets were on the way.
    InFlightLimit,
    /// It arrived after the reassembly timer of ARQ had skipped it.
    Reassembly,
}

/// What came and went since the start. Offered packets are delivered, dropped
/// for one reason, or still inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Packets given to the link.
    pub offered_packets: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Of the offered packets, those that go ahead of ordinary ones.
    pub ahead_packets: u64,
    /// Packets taken out at the other end.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Of the delivered ones, those with a wrong bit.
    pub corrupted_packets: u64,
    /// Dropped: [`DropReason::QueuePackets`].
    pub dropped_queue_packets: u64,
    /// Dropped: [`DropReason::QueueBytes`].
    pub dropped_queue_bytes: u64,
    /// Dropped: [`DropReason::OutageArrival`].
    pub dropped_outage_arrival: u64,
    /// Dropped: [`DropReason::OutageQueued`].
    pub dropped_outage_queued: u64,
    /// Dropped: [`DropReason::OutageInFlight`].
    pub dropped_outage_in_flight: u64,
    /// Dropped: [`DropReason::RandomLoss`].
    pub dropped_random_loss: u64,
    /// Dropped: [`DropReason::BitError`].
    pub dropped_bit_error: u64,
    /// Dropped: [`DropReason::GilbertElliott`].
    pub dropped_gilbert_elliott: u64,
    /// Dropped: [`DropReason::InFlightLimit`].
    pub dropped_in_flight_limit: u64,
    /// Dropped: [`DropReason::Reassembly`].
    pub dropped_reassembly: u64,
    /// How long packets were in the queue and in sending, in us: the median.
    pub wait_median_us: u64,
    /// The 95th percentile of the same.
    pub wait_p95_us: u64,
    /// When the first packet arrived after an outage, for each outage with such a packet, in us since
    /// outages and rate trace began.
    pub first_after_outage_us: Vec<u64>,
}

impl Counters {
    /// Packets dropped for any reason.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped_queue_packets
            + self.dropped_queue_bytes
            + self.dropped_outage_arrival
            + self.dropped_outage_queued
            + self.dropped_outage_in_flight
            + self.dropped_random_loss
            + self.dropped_bit_error
            + self.dropped_gilbert_elliott
            + self.dropped_in_flight_limit
            + self.dropped_reassembly
    }

    /// Packets that a full queue did not take.
    pub fn dropped_by_queue(&self) -> u64 {
        self.dropped_queue_packets + self.dropped_queue_bytes
    }

    pub(super) fn count_drop(&mut self, reason: DropReason, packets: u64) {
        *match reason {
            DropReason::QueuePackets => &mut self.dropped_queue_packets,
            DropReason::QueueBytes => &mut self.dropped_queue_bytes,
            DropReason::OutageArrival => &mut self.dropped_outage_arrival,
            DropReason::OutageQueued => &mut self.dropped_outage_queued,
            DropReason::OutageInFlight => &mut self.dropped_outage_in_flight,
            DropReason::RandomLoss => &mut self.dropped_random_loss,
            DropReason::BitError => &mut self.dropped_bit_error,
            DropReason::GilbertElliott => &mut self.dropped_gilbert_elliott,
            DropReason::InFlightLimit => &mut self.dropped_in_flight_limit,
            DropReason::Reassembly => &mut self.dropped_reassembly,
        } += packets;
    }
}
