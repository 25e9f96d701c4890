// SPDX-License-Identifier: Apache-2.0
//! A link's end foretold by its signal's trend.
//!
//! A straight line is laid through the newest samples (least squares). If it falls, and reaches
//! the level at which the link is taken to carry nothing within the horizon, a warning says when.
//! After a warning there is no other before the signal has recovered by some decibels, or the
//! link has gone and come back.
//!
//! Whoever gives samples says what they are: dBm of whatever the radio measures (RSSI, RSRP).
//! How good such warnings are on recorded drives is in docs/link-signals.md, and is shown by
//! `cargo run -p holdfast-core --example signal_prediction`.

use core::time::Duration;
use std::collections::VecDeque;

use holdfast_wire::Instant;

/// Samples kept at most; the oldest go first.
pub const SAMPLES_MAX: usize = 256;
/// A trend takes so many at least.
const SAMPLES_MIN: usize = 3;

/// When a warning is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionSettings {
    /// The level at which the link is taken to carry nothing, dBm.
    pub gone_dbm: f64,
    /// So far above it the signal has recovered, dB.
    pub rearm_db: f64,
    /// How far back the trend looks.
    pub window: Duration,
    /// A warning is given at most so long ahead.
    pub horizon: Duration,
}

/// The trend of one link's signal.
#[derive(Clone, Debug)]
pub struct LinkPredictor {
    settings: PredictionSettings,
    samples: VecDeque<(Instant, f64)>,
    /// The link carries.
    is_up: bool,
    /// A warning may be given.
    is_armed: bool,
    warnings: u64,
}

/// The line through the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trend {
    /// On the line, now, dBm.
    level: f64,
    /// dB a second.
    slope: f64,
}

impl LinkPredictor {
    /// Without samples.
    pub const fn new(settings: PredictionSettings) -> Self {
        Self {
            settings,
            samples: VecDeque::new(),
            is_up: true,
            is_armed: true,
            warnings: 0,
        }
    }

    /// A sample, dBm. A warning if the link is about to go: in how long; zero: at any moment.
    ///
    /// What is no number, and a sample that is not newer than the last one, is ignored.
    pub fn handle_sample(&mut self, dbm: f64, now: Instant) -> Option<Duration> {
        let is_newer = self.samples.back().is_none_or(|(last, _)| *last < now);
        if !dbm.is_finite() || !is_newer {
            return None;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, dbm));
        let oldest = |samples: &VecDeque<(Instant, f64)>| samples.front().map(|(at, _)| *at);
        while oldest(&self.samples)
            .is_some_and(|at| now.saturating_since(at) > self.settings.window)
        {
            self.samples.pop_front();
        }
        let trend = self.trend(now)?;
        let ahead = self.reaches_end_in(trend);
        let recovered = self.settings.gone_dbm + self.settings.rearm_db;
        if ahead.is_none() && trend.level >= recovered {
            self.is_armed = true;
        }
        let warning = ahead.filter(|_| self.is_armed && self.is_up)?;
        self.is_armed = false;
        self.warnings += 1;
        Some(warning)
    }

    /// The link carries, or does not. What it was like before tells nothing any more.
    pub fn handle_link(&mut self, carries: bool) {
        self.samples.clear();
        self.is_up = carries;
        self.is_armed = true;
    }

    /// What follows is another radio's signal: the trend begins anew.
    pub fn forget(&mut self) {
        self.samples.clear();
    }

    /// Warnings given.
    pub const fn warnings(&self) -> u64 {
        self.warnings
    }

    fn reaches_end_in(&self, trend: Trend) -> Option<Duration> {
        let left = trend.level - self.settings.gone_dbm;
        if left <= 0.0 {
            return Some(Duration::ZERO);
        }
        if trend.slope >= 0.0 {
            return None;
        }
        let seconds = left / -trend.slope;
        (seconds <= self.settings.horizon.as_secs_f64()).then(|| Duration::from_secs_f64(seconds))
    }

    /// Least squares, with the present as the origin of time.
    fn trend(&self, now: Instant) -> Option<Trend> {
        if self.samples.len() < SAMPLES_MIN {
            return None;
        }
        let count = self.samples.len() as f64;
        let ago = |at: &Instant| -now.saturating_since(*at).as_secs_f64();
        let (mut sum_time, mut sum_level) = (0.0, 0.0);
        for (at, level) in &self.samples {
            sum_time += ago(at);
            sum_level += level;
        }
        let (mean_time, mean_level) = (sum_time / count, sum_level / count);
        let (mut across, mut along) = (0.0, 0.0);
        for (at, level) in &self.samples {
            let off = ago(at) - mean_time;
            across += off * (level - mean_level);
            along += off * off;
        }
        let slope = if along > 0.0 { across / along } else { 0.0 };
        Some(Trend {
            level: mean_level - slope * mean_time,
            slope,
        })
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore as _, SeedableRng as _};

    use super::*;

    const SETTINGS: PredictionSettings = PredictionSettings {
        gone_dbm: -110.0,
        rearm_db: 6.0,
        window: Duration::from_secs(3),
        horizon: Duration::from_secs(2),
    };

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Feeds a sample each 250 ms; the warnings with their times, ms.
    fn feed(
        predictor: &mut LinkPredictor,
        from_ms: u64,
        levels: impl IntoIterator<Item = f64>,
    ) -> Vec<(u64, Duration)> {
        let times = (0..).map(|number| from_ms + 250 * number);
        times
            .zip(levels)
            .filter_map(|(ms, level)| Some((ms, predictor.handle_sample(level, at(ms))?)))
            .collect()
    }

    #[test]
    fn a_steady_fall_is_foretold_to_the_moment_once() {
        let mut predictor = LinkPredictor::new(SETTINGS);
        // 4 dB a second from -90: at -110 after 5 s.
        let warnings = feed(
            &mut predictor,
            0,
            (0..30).map(|step| -90.0 - f64::from(step)),
        );
        let [(at_ms, ahead)] = warnings[..] else {
            panic!("{warnings:?}");
        };
        assert_eq!(at_ms, 3_000, "as soon as the horizon allows");
        let off = (at_ms as f64 / 1e3 + ahead.as_secs_f64()) - 5.0;
        assert!(off.abs() < 1e-6, "{off}");
        assert_eq!(predictor.warnings(), 1);
    }

    #[test]
    fn a_weak_signal_that_does_not_fall_and_one_that_falls_far_above_warn_of_nothing() {
        let mut predictor = LinkPredictor::new(SETTINGS);
        assert!(feed(&mut predictor, 0, vec![-109.0; 40]).is_empty());
        let mut predictor = LinkPredictor::new(SETTINGS);
        let falls = (0..40).map(|step| -60.0 - 0.25 * f64::from(step));
        assert!(feed(&mut predictor, 0, falls).is_empty());
    }

    #[test]
    fn another_warning_takes_a_recovery_or_another_link() {
        let mut predictor = LinkPredictor::new(SETTINGS);
        assert_eq!(feed(&mut predictor, 0, vec![-112.0; 40]).len(), 1);
        assert!(feed(&mut predictor, 20_000, vec![-106.0; 40]).is_empty());
        assert!(
            feed(&mut predictor, 40_000, vec![-112.0; 40]).is_empty(),
            "6 dB are asked for"
        );
        assert!(feed(&mut predictor, 60_000, vec![-104.0; 40]).is_empty());
        assert_eq!(feed(&mut predictor, 80_000, vec![-112.0; 40]).len(), 1);
        predictor.handle_link(false);
        let up_and_down = [vec![-80.0; 40], vec![-112.0; 40]].concat();
        assert!(feed(&mut predictor, 100_000, up_and_down).is_empty());
        predictor.handle_link(true);
        assert_eq!(feed(&mut predictor, 120_000, vec![-112.0; 40]).len(), 1);
    }

    #[test]
    fn what_is_no_sample_is_ignored_and_what_is_kept_has_a_limit() {
        let mut predictor = LinkPredictor::new(PredictionSettings {
            window: Duration::from_secs(3_600),
            ..SETTINGS
        });
        for level in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(predictor.handle_sample(level, at(0)), None);
        }
        for _ in 0..5 {
            assert_eq!(predictor.handle_sample(-200.0, at(10)), None, "one sample");
        }
        feed(&mut predictor, 1_000, vec![-80.0; 2 * SAMPLES_MAX]);
        assert_eq!(predictor.samples.len(), SAMPLES_MAX);
    }

    #[test]
    fn whatever_comes_warnings_lie_within_the_horizon_and_a_recovery_apart() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut predictor = LinkPredictor::new(SETTINGS);
            let (mut level, mut ms, mut recovered) = (-100.0, 0, true);
            for _ in 0..2_000 {
                ms += u64::from(rng.next_u32() % 400);
                level += f64::from(rng.next_u32() % 9) - 4.0;
                level = f64::clamp(level, -130.0, -50.0);
                let warning = predictor.handle_sample(level, at(ms));
                if let Some(ahead) = warning {
                    assert!(ahead <= SETTINGS.horizon, "seed {seed}: {ahead:?}");
                    assert!(recovered, "seed {seed}: no recovery in between");
                    recovered = false;
                }
                recovered |= predictor.trend(at(ms)).is_some_and(|trend| {
                    trend.level >= SETTINGS.gone_dbm + SETTINGS.rearm_db
                        && predictor.reaches_end_in(trend).is_none()
                });
            }
            assert!(predictor.warnings() > 0, "seed {seed}");
        }
    }
}
