// SPDX-License-Identifier: Apache-2.0
//! CUBIC (RFC 9438) with Linux's arithmetic: whole segments, and time in 1/1024 s.
//!
//! Where Linux and the RFC differ, this file follows Linux. The window grows by at most half a
//! segment for a segment acknowledged, and by at least 1/20 before the first loss. A timeout
//! forgets `W_max`. A jiffy is 1 ms.

use holdfast_wire::{Duration, Instant};

use super::hystart::{HyStart, Sample};

/// The denominator of `BETA`, and the units of time in a second.
const SCALE: u64 = 1024;
/// `beta_cubic`: 0.7 (RFC 9438, 4.6).
const BETA: u64 = 717;
/// `C`: 0.4 (RFC 9438, 5), in 1/1024 of a segment and a second cubed.
const C: u64 = 410;
/// Segments acknowledged for one segment of growth in the Reno-friendly region, in eighths of a
/// window. With `alpha_cubic` = 3 * (1 - 0.7) / (1 + 0.7) = 9/17 it is 17/9 (RFC 9438, 4.3).
const FRIENDLY_EIGHTHS: u64 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);
/// For this time after an epoch has begun, no round trips are sampled.
const NO_SAMPLES: Duration = Duration::from_secs(1);
/// The curve is computed anew if the window has changed, or after this time.
const CURVE_EACH: Duration = Duration::from_micros(31_250);
/// The shortest time between two computations: a jiffy.
const JIFFY: Duration = Duration::from_millis(1);
/// The smallest window after a reduction, segments.
const WINDOW_MIN: u64 = 2;

/// A time of congestion avoidance between two reductions.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    /// `K`, in 1/1024 s (RFC 9438, 4.2).
    k: u64,
    /// The plateau of the curve, segments.
    origin: u64,
    /// `W_est`, segments (RFC 9438, 4.3).
    friendly: u64,
    /// Segments acknowledged since `friendly` last grew.
    friendly_acked: u64,
    /// When the curve was last computed, and for which window.
    computed: Instant,
    computed_for: u64,
    /// Segments that must be acknowledged for one segment of growth.
    acks_each: u64,
}

/// The state of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// `W_max`, segments; 0: not known.
    w_max: u64,
    epoch: Option<Epoch>,
    delay_min: Option<Duration>,
    hystart: HyStart,
    /// Segments acknowledged since the window last grew, and acknowledged bytes of the next one.
    counted: u64,
    counted_bytes: u64,
}

impl Cubic {
    /// A round trip is measured. True: slow start ends, with this window of `cwnd` bytes.
    pub(super) fn on_round_trip(
        &mut self,
        sample: Sample,
        in_slow_start: bool,
        cwnd: u64,
        smss: u64,
        now: Instant,
    ) -> bool {
        if let Some(epoch) = self.epoch
            && now.saturating_since(epoch.began) < NO_SAMPLES
        {
            return false;
        }
        let delay_min = self.delay_min.map_or(sample.rtt, |d| d.min(sample.rtt));
        self.delay_min = Some(delay_min);
        in_slow_start && self.hystart.on_ack(sample, delay_min, cwnd, smss, now)
    }

    /// `acked` bytes are acknowledged in congestion avoidance. Returns the segments by which the
    /// window grows.
    pub(super) fn on_new_bytes(&mut self, acked: u64, cwnd: u64, smss: u64, now: Instant) -> u64 {
        self.counted_bytes += acked;
        let acked = self.counted_bytes / smss;
        self.counted_bytes %= smss;
        let cwnd = (cwnd / smss).max(1);
        let each = self.acks_each(cwnd, acked, now);
        // Linux, `tcp_cong_avoid_ai`: a count toward a larger window gives one segment of growth.
        let mut grown = 0;
        if self.counted >= each {
            self.counted = 0;
            grown = 1;
        }
        self.counted += acked;
        grown += self.counted / each;
        self.counted %= each;
        grown
    }

    /// Segments that must be acknowledged for one segment of growth.
    fn acks_each(&mut self, cwnd: u64, acked: u64, now: Instant) -> u64 {
        let (w_max, delay_min) = (self.w_max, self.delay_min.unwrap_or_default());
        let epoch = match &mut self.epoch {
            Some(epoch) => {
                epoch.friendly_acked += acked;
                epoch
            }
            none => none.insert(Epoch::begin(cwnd, w_max, acked, now)),
        };
        let since = now.saturating_since(epoch.computed);
        if epoch.acks_each > 0 && epoch.computed_for == cwnd && since <= CURVE_EACH {
            return epoch.acks_each;
        }
        if epoch.acks_each == 0 || since >= JIFFY {
            (epoch.computed, epoch.computed_for) = (now, cwnd);
            epoch.acks_each = epoch.by_curve(cwnd, delay_min, now);
            if w_max == 0 {
                epoch.acks_each = epoch.acks_each.min(20);
            }
        }
        let by_reno = epoch.by_reno(cwnd);
        // Half as fast as slow start at most.
        epoch.acks_each = epoch.acks_each.min(by_reno).max(2);
        epoch.acks_each
    }

    /// A loss, with a window of `cwnd` segments. Returns the new `ssthresh`, segments (RFC 9438,
    /// 4.6, and fast convergence, 4.7).
    pub(super) fn on_reduction(&mut self, cwnd: u64) -> u64 {
        self.epoch = None;
        self.w_max = if cwnd < self.w_max {
            cwnd * (SCALE + BETA) / (2 * SCALE)
        } else {
            cwnd
        };
        (cwnd * BETA / SCALE).max(WINDOW_MIN)
    }

    /// Drops what was counted toward a larger window.
    pub(super) fn forget_counted(&mut self) {
        (self.counted, self.counted_bytes) = (0, 0);
    }

    /// The retransmission timer has expired: forgets everything (RFC 9438, 4.8 keeps `W_max`).
    pub(super) fn on_timeout(&mut self, nxt: u64, now: Instant) {
        *self = Self {
            hystart: self.hystart,
            ..Self::default()
        };
        self.hystart.restart(nxt, now);
    }

    /// Nothing was sent for `idle`, and nothing was in flight: that time does not count (RFC
    /// 9438, 5.8).
    pub(super) fn on_idle(&mut self, idle: Duration, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.began = (epoch.began + idle).min(now);
        }
    }
}

impl Epoch {
    fn begin(cwnd: u64, w_max: u64, acked: u64, now: Instant) -> Self {
        // RFC 9438, 4.2: K = cbrt ((W_max - cwnd_epoch) / C).
        let k = if w_max <= cwnd {
            0
        } else {
            cube_root((1 << 40) / C * (w_max - cwnd))
        };
        Self {
            began: now,
            k,
            origin: w_max.max(cwnd),
            friendly: cwnd,
            friendly_acked: acked,
            computed: now,
            computed_for: cwnd,
            acks_each: 0,
        }
    }

    /// RFC 9438, 4.2, 4.4 and 4.5: from W (t + RTT), with W (t) = C * (t - K)^3 + W_max.
    fn by_curve(&self, cwnd: u64, delay_min: Duration, now: Instant) -> u64 {
        let t = now.saturating_since(self.began) + delay_min;
        let t = u64::try_from(t.as_nanos() * u128::from(SCALE) / 1_000_000_000).unwrap_or(u64::MAX);
        let distance = u128::from(t.abs_diff(self.k).min(1 << 30));
        let rise = u64::try_from((u128::from(C) * distance.pow(3)) >> 40).unwrap_or(u64::MAX);
        let target = if t < self.k {
            self.origin.saturating_sub(rise)
        } else {
            self.origin.saturating_add(rise)
        };
        match target.checked_sub(cwnd) {
            Some(missing) if missing > 0 => cwnd / missing,
            _ => 100 * cwnd,
        }
    }

    /// RFC 9438, 4.3: estimates Reno's window, and returns its growth if it is larger.
    fn by_reno(&mut self, cwnd: u64) -> u64 {
        let each = (cwnd * FRIENDLY_EIGHTHS / 8).max(1);
        // Linux counts an interval only when it is exceeded.
        let intervals = self.friendly_acked.saturating_sub(1) / each;
        self.friendly += intervals;
        self.friendly_acked -= intervals * each;
        match self.friendly.checked_sub(cwnd) {
            Some(missing) if missing > 0 => cwnd / missing,
            _ => u64::MAX,
        }
    }
}

/// The whole part of the cube root.
fn cube_root(number: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..=21).rev() {
        let larger = root | (1 << bit);
        if u128::from(larger).pow(3) <= u128::from(number) {
            root = larger;
        }
    }
    root
}

#[cfg(test)]
mod tests;
