// SPDX-License-Identifier: Apache-2.0
//! The packet that is being sent, and packets in flight.

use holdfast_wire::Instant;

use super::queue::Waiting;
use super::{DropReason, LinkModel};
use crate::capacity::NanoBits;
use crate::outage::{MediumState, OutageEffect};

/// How far sending has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Progress {
    /// The packet is sent when C reaches `target`: at `finish`, unless an outage comes first.
    Running { target: NanoBits, finish: Instant },
    /// Stopped by an outage, with this much left to send.
    Stopped { remaining: NanoBits },
}

/// The packet that is being sent.
#[derive(Debug)]
pub(super) struct Sending<P> {
    pub waiting: Waiting<P>,
    pub progress: Progress,
}

/// A packet that was sent and has not arrived.
#[derive(Debug)]
pub(super) struct InFlight<P> {
    pub waiting: Waiting<P>,
    pub arrive_at: Instant,
    pub flipped_bits: Vec<u32>,
}

impl<P> LinkModel<P> {
    /// Whether the link sends: it is up, or its outages lose packets only at the other end.
    pub(super) fn is_up(&self) -> bool {
        self.state == MediumState::Up || self.plan.outage_effect == OutageEffect::LoseArriving
    }

    /// Whether a packet that arrives at the other end at `at` is lost there.
    pub(super) fn is_lost_arriving(&mut self, at: Instant) -> bool {
        let at = self.model_time(at);
        self.started
            && self.plan.outage_effect == OutageEffect::LoseArriving
            && self.schedule.state_at(at) == MediumState::Down
    }

    /// An outage begins: sending stops.
    pub(super) fn stop_sending(&mut self, at: Instant) {
        let carried = self.units_by(at);
        if let Some(Sending { progress, .. }) = &mut self.sending
            && let Progress::Running { target, .. } = *progress
        {
            *progress = Progress::Stopped {
                remaining: target.saturating_sub(carried),
            };
        }
    }

    /// The link is up again: sending goes on.
    pub(super) fn resume_sending(&mut self, at: Instant) {
        let carried = self.units_by(at);
        match self.sending.take() {
            Some(Sending {
                waiting,
                progress: Progress::Stopped { remaining },
            }) => {
                let progress = self.run_to(carried + remaining, at);
                self.sending = Some(Sending { waiting, progress });
            }
            Some(running) => self.sending = Some(running),
            None => self.send_next(at),
        }
    }

    /// What an outage that begins at `at` does to the packets inside.
    pub(super) fn begin_outage(&mut self, at: Instant) {
        let arrived = self
            .in_flight
            .partition_point(|packet| packet.arrive_at <= at);
        match self.plan.outage_effect {
            OutageEffect::LoseArriving => {}
            OutageEffect::Lose => {
                let lost_on_the_way = self.in_flight.len() - arrived;
                self.in_flight.truncate(arrived);
                let due = match &mut self.arq {
                    Some(arq) => arq.lose_due(),
                    None => 0,
                };
                let waiting = self.queues.len() + usize::from(self.sending.is_some()) + due;
                self.queues.clear();
                self.sending = None;
                self.arrive_after = at;
                self.counters
                    .count_drop(DropReason::OutageInFlight, lost_on_the_way as u64);
                self.counters
                    .count_drop(DropReason::OutageQueued, waiting as u64);
            }
            OutageEffect::Keep => {
                let end = self.change_at.unwrap_or(Instant::from_nanos(u64::MAX));
                let outage = end.saturating_since(at);
                for packet in self.in_flight.range_mut(arrived..) {
                    packet.arrive_at += outage;
                }
                if self.arrive_after > at {
                    self.arrive_after += outage;
                }
            }
        }
    }
}
