// SPDX-License-Identifier: Apache-2.0
//! A rate that varies as on a recorded link, from statistics and a seed.
//!
//! The model has what recordings show: the distribution of the rate, its memory, fades before
//! outages, another rate after them, the distributions of outages and of the times between,
//! trains of outages with single packets between. Two directions share outages and a part of
//! their fading.
//!
//! The rate is a Gaussian process of first order, mapped to the distribution by its
//! quantiles (a Gaussian copula). The result is a [`Trace`] of steps, so that capacity,
//! gaps and the optimum are computed as those of a recording.

use serde::{Deserialize, Serialize};

use crate::limits::{SettingsError, in_range, probability};
use crate::random::{Part, Stream, seed_for};
use crate::trace::{MBIT_PER_S_MAX, Trace};

/// The length of the drawn trace, in seconds; the link then repeats it.
const DRAWN_S: f64 = 600.0;
/// The rate is constant for this time, in seconds.
const STEP_S: f64 = 0.1;
/// Quantiles of a distribution: least, nine deciles, most.
const QUANTILES: usize = 11;
/// The least rate in Mb/s.
const MBIT_PER_S_MIN: f64 = 0.001;
/// The shortest and the longest time of a distribution, in seconds.
const TIMES_S: (f64, f64) = (0.01, 86_400.0);
/// In a train of outages one packet passes in this time, in seconds.
const TRAIN_EVERY_S: f64 = 1.0;
/// A packet of 1500 bytes takes this time in a train, in seconds, at 12 Mb/s.
const TRAIN_PACKET_S: f64 = 0.001;
const TRAIN_MBIT_PER_S: f64 = 12.0;

/// The statistics of a link with a varying rate, as the user writes them.
///
/// A distribution is given by 11 rising quantiles: the least value, the nine deciles, the
/// most. Between two of them the logarithm of the value is uniform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateModel {
    /// Quantiles of the rate in Mb/s while the link is up; from 0.001.
    pub rate_mbit_per_s: Vec<f64>,
    /// In this time the correlation of the rate with itself falls to 1/e, in seconds; 5 unless
    /// set.
    pub memory_s: f64,
    /// Quantiles of the time between two outages, in seconds; none: no outages.
    pub up_s: Vec<f64>,
    /// Quantiles of the length of an outage, in seconds.
    pub down_s: Vec<f64>,
    /// For this time before an outage the rate falls, in seconds.
    pub fade_s: f64,
    /// To this share of itself, from 0.001 to 1; 1 unless set.
    pub fade_to: f64,
    /// The share of outages longer than a second in which one packet passes each second.
    pub trains: f64,
    /// The correlation of this direction's rate with the part that both directions share, 0
    /// to 1; 1 unless set.
    pub correlation: f64,
    /// Seed of what both directions share.
    pub seed: Option<u64>,
    /// Seed of what is this direction's own.
    pub own_seed: Option<u64>,
}

impl Default for RateModel {
    fn default() -> Self {
        Self {
            rate_mbit_per_s: Vec::new(),
            memory_s: 5.0,
            up_s: Vec::new(),
            down_s: Vec::new(),
            fade_s: 0.0,
            fade_to: 1.0,
            trains: 0.0,
            correlation: 1.0,
            seed: None,
            own_seed: None,
        }
    }
}

impl RateModel {
    /// Takes the seeds of an experiment where the settings give none. `direction` is that of
    /// [`seed_for`]: 1 for the downlink, 2 for the uplink.
    pub fn seed_from(&mut self, seed: u64, direction: u64) {
        // A TOML integer has 63 bits.
        self.seed.get_or_insert(seed_for(seed, 0) >> 1);
        self.own_seed.get_or_insert(seed_for(seed, direction) >> 1);
    }

    /// Draws the link.
    ///
    /// # Errors
    /// Names the key, what it got and what it takes.
    pub fn trace(&self) -> Result<Trace, SettingsError> {
        let drawn = Drawing {
            rate: quantiles(
                "rate_mbit_per_s",
                &self.rate_mbit_per_s,
                MBIT_PER_S_MIN,
                MBIT_PER_S_MAX,
            )?,
            outages: self.outages()?,
            keeps: libm::exp(
                -STEP_S / in_range("memory_s", self.memory_s, STEP_S, TIMES_S.1, "s")?,
            ),
            fade_s: in_range("fade_s", self.fade_s, 0.0, TIMES_S.1, "s")?,
            fade_to: in_range("fade_to", self.fade_to, 0.001, 1.0, "times the rate")?,
            correlation: in_range("correlation", self.correlation, 0.0, 1.0, "")?,
            shared: Stream::new(self.seed.unwrap_or(0), Part::SharedFading),
            own: Stream::new(self.own_seed.unwrap_or(0), Part::OwnFading),
            states: [0.0; 2],
            steps: Vec::new(),
            at_s: 0.0,
        };
        let outages = Stream::new(self.seed.unwrap_or(0), Part::Outages);
        Ok(Trace::of_steps(&drawn.steps(outages)))
    }

    fn outages(&self) -> Result<Option<Outages>, SettingsError> {
        let trains = probability("trains", self.trains)?;
        if self.up_s.is_empty() && self.down_s.is_empty() {
            return Ok(None);
        }
        Ok(Some(Outages {
            up_s: quantiles("up_s", &self.up_s, TIMES_S.0, TIMES_S.1)?,
            down_s: quantiles("down_s", &self.down_s, TIMES_S.0, TIMES_S.1)?,
            trains,
        }))
    }
}

/// A distribution: the logarithms of its quantiles.
#[derive(Debug)]
struct Quantiles([f64; QUANTILES]);

fn quantiles(key: &str, values: &[f64], min: f64, max: f64) -> Result<Quantiles, SettingsError> {
    let takes = || format!("{QUANTILES} rising values: the least, nine deciles, the most");
    let values: [f64; QUANTILES] = values
        .try_into()
        .map_err(|_| SettingsError::new(key, format!("{} values", values.len()), takes()))?;
    for (i, &value) in values.iter().enumerate() {
        in_range(&format!("{key}[{i}]"), value, min, max, "")?;
        if i > 0 && value < values[i - 1] {
            return Err(SettingsError::new(&format!("{key}[{i}]"), value, takes()));
        }
    }
    Ok(Quantiles(values.map(libm::log)))
}

impl Quantiles {
    /// The value below which a share of `p` lies; `p` from 0 to 1.
    fn at(&self, p: f64) -> f64 {
        let index = p.clamp(0.0, 1.0) * (QUANTILES - 1) as f64;
        let below = (index as usize).min(QUANTILES - 2);
        let (low, high) = (self.0[below], self.0[below + 1]);
        libm::exp(low + (high - low) * (index - below as f64))
    }
}

#[derive(Debug)]
struct Outages {
    up_s: Quantiles,
    down_s: Quantiles,
    trains: f64,
}

/// A link that is being drawn.
struct Drawing {
    rate: Quantiles,
    outages: Option<Outages>,
    /// The share of its state that the process keeps in a step.
    keeps: f64,
    fade_s: f64,
    fade_to: f64,
    correlation: f64,
    shared: Stream,
    own: Stream,
    /// The shared and the own process, standard normal.
    states: [f64; 2],
    /// End in seconds, rate in Mb/s.
    steps: Vec<(f64, f64)>,
    at_s: f64,
}

impl Drawing {
    fn steps(mut self, mut outages: Stream) -> Vec<(f64, f64)> {
        while self.at_s < DRAWN_S {
            let drawn = self.outages.as_ref().map(|lengths| {
                let up_s = lengths.up_s.at(outages.unit());
                let down_s = lengths.down_s.at(outages.unit());
                (up_s, down_s, outages.chance(lengths.trains))
            });
            let (up_s, down_s, train) = drawn.unwrap_or((DRAWN_S, 0.0, false));
            // The last time up has no outage: the link that starts again follows it.
            let fades = self.at_s + up_s < DRAWN_S;
            self.up((self.at_s + up_s).min(DRAWN_S), fades);
            if fades {
                self.down((self.at_s + down_s).min(DRAWN_S), train);
            }
        }
        self.steps
    }

    fn up(&mut self, until_s: f64, fades: bool) {
        // After an outage the link has another rate than before.
        self.states = [self.shared.normal(0.0, 1.0), self.own.normal(0.0, 1.0)];
        while self.at_s < until_s {
            let left_s = until_s - self.at_s;
            let mut mbit_per_s = self.rate.at(share_below(self.state()));
            if fades && left_s < self.fade_s {
                mbit_per_s *= libm::pow(self.fade_to, 1.0 - left_s / self.fade_s);
            }
            self.step(left_s.min(STEP_S), mbit_per_s.max(MBIT_PER_S_MIN));
            let fresh = (1.0 - self.keeps * self.keeps).sqrt();
            for (state, stream) in self
                .states
                .iter_mut()
                .zip([&mut self.shared, &mut self.own])
            {
                *state = self.keeps * *state + fresh * stream.normal(0.0, 1.0);
            }
        }
    }

    fn down(&mut self, until_s: f64, train: bool) {
        while train && until_s - self.at_s > TRAIN_EVERY_S {
            self.step(TRAIN_EVERY_S - TRAIN_PACKET_S, 0.0);
            self.step(TRAIN_PACKET_S, TRAIN_MBIT_PER_S);
        }
        self.step(until_s - self.at_s, 0.0);
    }

    fn step(&mut self, for_s: f64, mbit_per_s: f64) {
        self.at_s += for_s;
        // A difference of less than a microsecond comes from rounding.
        if self
            .steps
            .last()
            .is_none_or(|&(end_s, _)| self.at_s - end_s > 1e-6)
        {
            self.steps.push((self.at_s, mbit_per_s));
        }
    }

    fn state(&self) -> f64 {
        let own = (1.0 - self.correlation * self.correlation).sqrt();
        self.correlation * self.states[0] + own * self.states[1]
    }
}

/// The share of a standard normal distribution that lies below `x`.
fn share_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x / core::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceFormat;
    use holdfast_wire::Instant;
    use proptest::prelude::*;

    const NS: u64 = 1_000_000_000;

    fn model() -> RateModel {
        RateModel {
            rate_mbit_per_s: vec![0.1, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 15.0],
            up_s: vec![0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0, 20.0, 30.0, 60.0],
            down_s: vec![0.3, 0.5, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 20.0],
            ..RateModel::default()
        }
    }

    /// The rate at each tenth of a second.
    fn sampled(model: &RateModel) -> Vec<f64> {
        let capacity = model.trace().unwrap().capacity();
        let by = |tenth: u64| capacity.units_by(Instant::from_nanos(tenth * NS / 10)) as f64;
        (0..6000)
            .map(|tenth| (by(tenth + 1) - by(tenth)) / (NS / 10) as f64 / 1e6)
            .collect()
    }

    fn correlation(a: &[f64], b: &[f64]) -> f64 {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (mean_a, mean_b) = (mean(a), mean(b));
        let with = |x: &[f64], mean_x: f64, y: &[f64], mean_y: f64| -> f64 {
            x.iter()
                .zip(y)
                .map(|(x, y)| (x - mean_x) * (y - mean_y))
                .sum()
        };
        with(a, mean_a, b, mean_b)
            / (with(a, mean_a, a, mean_a) * with(b, mean_b, b, mean_b)).sqrt()
    }

    #[test]
    fn the_rate_has_the_quantiles_and_the_memory_of_its_settings() {
        let steady = RateModel {
            up_s: Vec::new(),
            down_s: Vec::new(),
            memory_s: 2.0,
            ..model()
        };
        let (mut all, mut late): (Vec<f64>, f64) = (Vec::new(), 0.0);
        for seed in 0..40 {
            let rates = sampled(&RateModel {
                seed: Some(seed),
                ..steady.clone()
            });
            late += correlation(&rates[..5980], &rates[20..]) / 40.0;
            all.extend(rates);
        }
        all.sort_by(f64::total_cmp);
        for (i, expected) in steady.rate_mbit_per_s.iter().enumerate().take(10).skip(1) {
            let drawn = all[all.len() * i / 10];
            assert!(
                (drawn / expected - 1.0).abs() < 0.1,
                "decile {i}: {drawn} for {expected}"
            );
        }
        // After one memory 1/e; the mapping to quantiles makes it a little less.
        assert!((0.25..0.45).contains(&late), "{late}");
    }

    #[test]
    fn both_directions_have_the_same_outages_and_correlated_rates() {
        let mut down = RateModel {
            memory_s: 0.1,
            ..model()
        };
        let mut up = RateModel {
            correlation: 0.6,
            ..down.clone()
        };
        let mut correlations = 0.0;
        for seed in 0..10 {
            (down.seed, down.own_seed, up.seed, up.own_seed) = (None, None, None, None);
            down.seed_from(seed, 1);
            up.seed_from(seed, 2);
            let gaps = |model: &RateModel| model.trace().unwrap().gaps_ns(NS / 10);
            assert_eq!(gaps(&down), gaps(&up));
            let pairs = sampled(&down).into_iter().zip(sampled(&up));
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.filter(|(a, b)| *a > 0.0 && *b > 0.0).unzip();
            correlations += correlation(&a, &b) / 10.0;
        }
        assert!((0.5..0.65).contains(&correlations), "{correlations}");
    }

    #[test]
    fn the_rate_falls_before_an_outage_and_a_train_lets_one_packet_through_each_second() {
        let model = RateModel {
            rate_mbit_per_s: vec![10.0; 11],
            up_s: vec![20.0; 11],
            down_s: vec![3.5; 11],
            fade_s: 4.0,
            fade_to: 0.01,
            trains: 1.0,
            ..model()
        };
        let rates = sampled(&model);
        assert!((rates[159] - 10.0).abs() < 0.01, "{}", rates[159]);
        assert!((rates[180] - 1.0).abs() < 0.1, "{}", rates[180]);
        assert!(rates[199] < 0.12, "{}", rates[199]);
        let (gaps, _) = model.trace().unwrap().gaps_ns(3 * NS / 10);
        let lengths: Vec<u64> = gaps
            .iter()
            .take(4)
            .map(|(begin, end)| (end - begin) / (NS / 1000))
            .collect();
        assert_eq!(lengths, [999, 999, 999, 500]);
    }

    #[test]
    fn the_same_seed_draws_the_same_link_and_another_one_another() {
        let drawn = |seed| {
            RateModel {
                seed: Some(seed),
                ..model()
            }
            .trace()
            .unwrap()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let read = Trace::parse(&drawn(1).steps_text(), TraceFormat::Steps);
        assert_eq!(read, Ok(drawn(1)));
        let carried = drawn(1).capacity().units_by(Instant::from_nanos(600 * NS));
        assert_eq!(
            carried, 2_115_563_623_699_396_528,
            "the same on every machine"
        );
    }

    #[test]
    fn an_impossible_value_names_its_key() {
        let error = |change: fn(&mut RateModel)| {
            let mut model = model();
            change(&mut model);
            model.trace().unwrap_err().to_string()
        };
        let takes = "takes 11 rising values: the least, nine deciles, the most";
        assert_eq!(
            error(|m| m.up_s.truncate(3)),
            format!("up_s: got 3 values, {takes}")
        );
        assert_eq!(
            error(|m| m.down_s[4] = 0.1),
            format!("down_s[4]: got 0.1, {takes}")
        );
        assert!(
            error(|m| m.rate_mbit_per_s[0] = f64::NAN).starts_with("rate_mbit_per_s[0]: got NaN")
        );
        assert!(error(|m| m.memory_s = 0.0).starts_with("memory_s: got 0"));
        assert!(error(|m| m.fade_to = 0.0).starts_with("fade_to: got 0"));
        assert!(error(|m| m.trains = 2.0).starts_with("trains: got 2"));
    }

    proptest! {
        #[test]
        fn every_model_that_is_taken_draws_a_link(
            mut rates in prop::collection::vec(0.001f64..1_000_000.0, 11),
            mut up in prop::collection::vec(0.01f64..86_400.0, 11),
            mut down in prop::collection::vec(0.01f64..86_400.0, 11),
            (memory_s, fade_s, fade_to, trains, correlation) in
                (0.1f64..100.0, 0.0f64..100.0, 0.001f64..1.0, 0.0f64..1.0, 0.0f64..1.0),
            seed: u64,
        ) {
            for values in [&mut rates, &mut up, &mut down] {
                values.sort_by(f64::total_cmp);
            }
            let model = RateModel {
                rate_mbit_per_s: rates, up_s: up, down_s: down,
                memory_s, fade_s, fade_to, trains, correlation,
                seed: Some(seed), own_seed: None,
            };
            let capacity = model.trace().unwrap().capacity();
            prop_assert!(capacity.units_by(Instant::from_nanos(600 * NS)) > 0);
        }
    }
}
