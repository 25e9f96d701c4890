// SPDX-License-Identifier: Apache-2.0
//! Samples of the link's queues and state at equal intervals, for the log.

use std::time::Duration;

use holdfast_link::MediumState;
use holdfast_wire::Instant;

use super::super::event_log::LinkLogEvent;
use super::{Emulator, Side};

/// When the next sample is due.
#[derive(Debug)]
pub(super) struct Sampler {
    interval: Duration,
    /// The number of the next sample, from the start.
    next: u64,
}

impl Sampler {
    /// One sample each `interval`, the first one at the start.
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, next: 0 }
    }

    fn due(&self, origin: Instant) -> Instant {
        let since_ns = self.next.saturating_mul(self.interval.as_nanos() as u64);
        Instant::from_nanos(origin.as_nanos().saturating_add(since_ns))
    }
}

impl Emulator {
    /// When the next sample is due; none before the start.
    pub(super) fn next_sample(&self) -> Option<Instant> {
        match (&self.sampler, self.start) {
            (Some(sampler), None) => Some(sampler.due(self.origin)),
            _ => None,
        }
    }

    /// Logs the samples that are due by `now`, each with the models' state at its time.
    pub(super) fn sample_until(&mut self, now: Instant) -> anyhow::Result<()> {
        while let Some(due) = self.next_sample().filter(|&due| due <= now) {
            self.deliver(due)?;
            let sides = [Side::Fh, Side::Mh];
            let queue_packets = sides.map(|side| {
                let (medium, station) = self.medium(side);
                self.lane(medium).model.queue_len_of(station) as u64
            });
            let up = sides.map(|side| {
                let (medium, _) = self.medium(side);
                self.lane(medium).model.state() == MediumState::Up
            });
            self.log.write(&LinkLogEvent::Sample {
                t_ns: due.as_nanos(),
                queue_packets,
                up,
            })?;
            if let Some(sampler) = &mut self.sampler {
                sampler.next += 1;
            }
        }
        Ok(())
    }
}
