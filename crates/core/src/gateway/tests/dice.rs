// SPDX-License-Identifier: Apache-2.0
//! What the seeds of the tests' worlds decide: numbers, times, bytes, the ends.

use core::time::Duration;

use holdfast_wire::Endpoint;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::host::HostProfile;

pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn of_seed(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// From `low` up to and not including `high`.
    pub(super) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.next_u64() % (high - low)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.range(0, 100) < percent
    }

    pub(super) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.range(low * 1000, high * 1000))
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.range(0, choices.len() as u64) as usize]
    }

    pub(super) fn word(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A number near the wrap, or anywhere.
    pub(super) fn number(&mut self) -> u32 {
        if self.chance(50) {
            u32::MAX - self.range(0, 60_000) as u32
        } else {
            self.word()
        }
    }

    pub(super) fn bytes(&mut self, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// An end with large windows, of a connection with these options.
    pub(super) fn large_end(
        &mut self,
        (me, peer): (Endpoint, Endpoint),
        (timestamps, sack): (bool, bool),
    ) -> HostProfile {
        HostProfile {
            me,
            peer,
            iss: self.number(),
            mss: self.range(500, 1460) as usize,
            gso: self.range(1, 4) as usize,
            buffer: (self.range(16_000, 200_000) as usize >> 3) << 3,
            window_scale: 3,
            timestamps,
            clock_start: self.word(),
            sack,
            ack_every: self.range(1, 3) as u32,
            ack_delay: self.millis(20, 100),
            probe_has_byte: false,
            closes_last: false,
        }
    }
}
