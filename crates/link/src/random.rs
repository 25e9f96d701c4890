// SPDX-License-Identifier: Apache-2.0
//! Random numbers: one ChaCha8 stream for each part of a link.
//!
//! The logarithm and the cosine come from `libm`, because those of the platform
//! differ in their last bits and every machine must draw the same numbers.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// The part of a link that draws from a stream. The numbers are part of the
/// results: a new part takes a new number, none is ever reused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    RandomLoss = 1,
    BitErrors = 2,
    GilbertElliott = 3,
    Jitter = 4,
    Outages = 5,
    SharedFading = 6,
    OwnFading = 7,
}

/// The random numbers of one part of one link.
#[derive(Clone, Debug)]
pub(crate) struct Stream(ChaCha8Rng);

impl Stream {
    pub(crate) fn new(seed: u64, part: Part) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..21].copy_from_slice(b"holdfast-link");
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(part as u64);
        Self(rng)
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with the given probability; draws one number whatever it is.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with the given mean, below 37 times the mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Normal (Box and Muller); always draws two numbers.
    pub(crate) fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.unit())).sqrt();
        let angle = core::f64::consts::TAU * self.unit();
        mean + deviation * radius * libm::cos(angle)
    }
}

/// A seed for part number `part` of an experiment that has the one seed `seed`:
/// links that must not lose the same packets get seeds of different numbers.
pub const fn seed_for(seed: u64, part: u64) -> u64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
    let mut z = seed.wrapping_add((part.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_deviation(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let values: Vec<f64> = (0..100_000).map(|_| draw()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance =
            values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn streams_of_one_seed_differ_and_the_same_stream_repeats() {
        let mut loss = Stream::new(7, Part::RandomLoss);
        let mut again = Stream::new(7, Part::RandomLoss);
        let mut jitter = Stream::new(7, Part::Jitter);
        let (a, b, c) = (loss.unit(), again.unit(), jitter.unit());
        assert!(a.to_bits() == b.to_bits());
        assert!(a.to_bits() != c.to_bits());
        assert_ne!(seed_for(7, 0), seed_for(7, 1));
        assert_ne!(seed_for(7, 0), seed_for(8, 0));
    }

    #[test]
    fn exponential_and_normal_have_their_mean_and_deviation() {
        let mut stream = Stream::new(1, Part::Outages);
        let (mean, deviation) = mean_and_deviation(|| stream.exponential(5.0));
        assert!(
            (mean - 5.0).abs() < 0.08 && (deviation - 5.0).abs() < 0.12,
            "{mean} {deviation}"
        );
        let (mean, deviation) = mean_and_deviation(|| stream.normal(10.0, 2.0));
        assert!(
            (mean - 10.0).abs() < 0.03 && (deviation - 2.0).abs() < 0.03,
            "{mean} {deviation}"
        );
    }

    #[test]
    fn the_first_numbers_of_seed_1_are_the_same_on_every_machine() {
        let mut stream = Stream::new(1, Part::RandomLoss);
        let drawn: Vec<u64> = (0..3).map(|_| stream.unit().to_bits()).collect();
        let normal = Stream::new(1, Part::Jitter).normal(0.0, 1.0).to_bits();
        let exponential = Stream::new(1, Part::Outages).exponential(1.0).to_bits();
        assert_eq!(
            (drawn, normal, exponential),
            (
                vec![
                    4_606_575_332_183_933_076,
                    4_600_436_076_337_569_680,
                    4_606_235_799_584_088_559
                ],
                13_835_133_775_195_542_092,
                4_611_228_753_638_909_276
            )
        );
    }
}
