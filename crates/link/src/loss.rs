// SPDX-License-Identifier: Apache-2.0
//! Packets and bits lost in flight: random, Gilbert-Elliott, bit errors.

use crate::random::{Part, Stream};
use crate::settings::{BitErrorEffect, GilbertElliott};

/// Bit errors with an equal chance for each bit.
///
/// Draws the distance to the next error (geometric) instead of a number for
/// each bit, and keeps what is left of it from packet to packet.
#[derive(Clone, Debug)]
pub(crate) struct BitErrors {
    stream: Stream,
    rate: f64,
    effect: BitErrorEffect,
    /// Sound bits before the next error.
    sound_bits: u64,
}

/// What the bit errors did to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BitFate {
    Lost,
    /// Numbers of the bits that arrive inverted; mostly none.
    Arrives(Vec<u32>),
}

impl BitErrors {
    pub(crate) fn new(rate: f64, effect: BitErrorEffect, seed: u64) -> Self {
        let stream = Stream::new(seed, Part::BitErrors);
        let mut errors = Self {
            stream,
            rate,
            effect,
            sound_bits: 0,
        };
        errors.sound_bits = errors.distance();
        errors
    }

    fn distance(&mut self) -> u64 {
        if self.rate <= 0.0 {
            return u64::MAX;
        }
        (libm::log(1.0 - self.stream.unit()) / libm::log1p(-self.rate)) as u64
    }

    /// Passes the bits of one packet.
    pub(crate) fn pass(&mut self, bits: u64) -> BitFate {
        let mut flipped = Vec::new();
        let mut at = self.sound_bits;
        while at < bits {
            flipped.push(at as u32);
            at = at.saturating_add(1).saturating_add(self.distance());
        }
        if self.rate > 0.0 {
            self.sound_bits = at - bits;
        }
        match self.effect {
            BitErrorEffect::Lose if !flipped.is_empty() => BitFate::Lost,
            _ => BitFate::Arrives(flipped),
        }
    }
}

/// The two-state loss model of Gilbert (1960) and Elliott (1963), a step for
/// each packet.
#[derive(Clone, Debug)]
pub(crate) struct GilbertElliottLoss {
    stream: Stream,
    settings: GilbertElliott,
    bad: bool,
}

impl GilbertElliottLoss {
    pub(crate) fn new(settings: GilbertElliott, seed: u64) -> Self {
        Self {
            stream: Stream::new(seed, Part::GilbertElliott),
            settings,
            bad: false,
        }
    }

    /// Whether this packet is lost. Always draws two numbers.
    pub(crate) fn loses(&mut self) -> bool {
        let (loss, leave) = if self.bad {
            (self.settings.loss_bad, self.settings.bad_to_good)
        } else {
            (self.settings.loss_good, self.settings.good_to_bad)
        };
        let lost = self.stream.chance(loss);
        self.bad ^= self.stream.chance(leave);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_errors_come_at_their_rate_whatever_the_packets_lengths() {
        for bits in [8u64, 320, 12_000] {
            let mut errors = BitErrors::new(1e-3, BitErrorEffect::Corrupt, 1);
            let packets = 20_000_000 / bits;
            let mut flipped = 0;
            for _ in 0..packets {
                let BitFate::Arrives(bit_numbers) = errors.pass(bits) else {
                    panic!("lost")
                };
                assert!(bit_numbers.is_sorted_by(|a, b| a < b));
                assert!(bit_numbers.iter().all(|&bit| u64::from(bit) < bits));
                flipped += bit_numbers.len();
            }
            let rate = flipped as f64 / (packets * bits) as f64;
            assert!((rate / 1e-3 - 1.0).abs() < 0.03, "{bits}: {rate}");
        }
    }

    #[test]
    fn a_packet_is_lost_with_the_chance_that_one_of_its_bits_is() {
        let mut errors = BitErrors::new(1e-5, BitErrorEffect::Lose, 2);
        let lost = (0..200_000)
            .filter(|_| errors.pass(12_000) == BitFate::Lost)
            .count();
        let expected = 1.0 - libm::pow(1.0 - 1e-5, 12_000.0);
        assert!(
            (lost as f64 / 200_000.0 / expected - 1.0).abs() < 0.03,
            "{lost}"
        );
    }

    #[test]
    fn without_bit_errors_no_bit_ever_flips() {
        let mut errors = BitErrors::new(0.0, BitErrorEffect::Lose, 1);
        assert!((0..1000).all(|_| errors.pass(u64::MAX / 4) == BitFate::Arrives(Vec::new())));
    }

    #[test]
    fn gilbert_elliott_has_its_stationary_loss_and_its_burst_length() {
        let settings = GilbertElliott {
            good_to_bad: 0.02,
            bad_to_good: 0.25,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        let mut model = GilbertElliottLoss::new(settings, 5);
        let lost: Vec<bool> = (0..400_000).map(|_| model.loses()).collect();
        let total = lost.iter().filter(|&&l| l).count() as f64;
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        // Stationary: 0.02 / 0.27; a burst lasts 1 / 0.25 packets.
        assert!(
            (total / 400_000.0 / (0.02 / 0.27) - 1.0).abs() < 0.04,
            "{total}"
        );
        assert!(
            (total / bursts / 4.0 - 1.0).abs() < 0.04,
            "{total} {bursts}"
        );
    }

    #[test]
    fn elliotts_good_state_may_lose_too() {
        let settings = GilbertElliott {
            good_to_bad: 0.0,
            bad_to_good: 1.0,
            loss_good: 0.1,
            loss_bad: 1.0,
        };
        let mut model = GilbertElliottLoss::new(settings, 5);
        let lost = (0..100_000).filter(|_| model.loses()).count();
        assert!((9_600..10_400).contains(&lost), "{lost}");
    }
}
