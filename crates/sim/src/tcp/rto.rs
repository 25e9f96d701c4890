// SPDX-License-Identifier: Apache-2.0
//! The retransmission timeout: RFC 6298, and 4.3BSD-Reno's ticks.

use holdfast_wire::{Duration, Instant};

use super::settings::{RtoFloor, RtoSettings, RttClock};

/// RFC 6298, 5.7: the least initial timeout after a lost SYN.
const AFTER_LOST_SYN_MIN: Duration = Duration::from_secs(3);

/// Bounds the samples a round trip, above any real window.
const EXPECTED_SAMPLES_MAX: u32 = 1 << 24;

/// 4.3BSD-Reno: `srtt` in eighths of a tick, `rttvar` in quarters.
#[derive(Clone, Copy, Debug, Default)]
struct BsdTicks {
    srtt8: i64,
    rttvar4: i64,
}

/// The estimator of one connection.
#[derive(Clone, Debug)]
pub struct RtoEstimator {
    settings: RtoSettings,
    srtt: Option<Duration>,
    rttvar: Duration,
    ticks: BsdTicks,
    doublings: u32,
}

impl RtoEstimator {
    /// An estimator without a measurement.
    pub fn new(settings: RtoSettings) -> Self {
        Self {
            settings,
            srtt: None,
            rttvar: Duration::ZERO,
            ticks: BsdTicks::default(),
            doublings: 0,
        }
    }

    /// The smoothed round trip, once one is measured.
    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// The variation, by RFC 6298.
    pub fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// How often the timeout has been doubled since the last measurement.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// A segment that was sent once, at `sent`, is acknowledged at `now`.
    pub fn on_timed(&mut self, sent: Instant, now: Instant) {
        match self.settings.clock {
            RttClock::Rfc6298 { granularity } => {
                let rtt = now.saturating_since(sent);
                self.on_rtt(round_up(rtt, granularity));
            }
            RttClock::Bsd { tick } => {
                // t_rtt counts the slow timer's ticks in between.
                let count = |at: Instant| ticks_by(at, tick, self.settings.tick_phase);
                self.on_ticks((count(now) - count(sent)) as i64, tick);
            }
        }
    }

    /// A round trip.
    pub fn on_rtt(&mut self, rtt: Duration) {
        self.on_timestamp_sample(rtt, 1);
    }

    /// A round trip measured by timestamps. `expected` such samples come in one round trip
    /// (RFC 7323, 4.2 and appendix G).
    pub fn on_timestamp_sample(&mut self, rtt: Duration, expected: u32) {
        if let RttClock::Bsd { tick } = self.settings.clock {
            let ticks = rtt.as_nanos().div_ceil(tick.as_nanos().max(1)) as i64;
            return self.on_ticks(ticks, tick);
        }
        match self.srtt {
            // RFC 6298, 2.2: SRTT <- R, RTTVAR <- R/2.
            None => {
                self.srtt = Some(rtt);
                self.rttvar = rtt / 2;
            }
            // RFC 6298, 2.3: beta is 1/4, alpha is 1/8, RTTVAR first.
            Some(srtt) => {
                let share = if self.settings.samples_share_weight {
                    expected.clamp(1, EXPECTED_SAMPLES_MAX)
                } else {
                    1
                };
                let (beta, alpha) = (4 * share, 8 * share);
                let deviation = srtt.abs_diff(rtt);
                self.rttvar = (self.rttvar * (beta - 1) + deviation) / beta;
                self.srtt = Some((srtt * (alpha - 1) + rtt) / alpha);
            }
        }
        self.doublings = 0;
    }

    /// `tcp_xmit_timer` of 4.3BSD-Reno. `rtt` is that function's argument less one.
    fn on_ticks(&mut self, rtt: i64, tick: Duration) {
        let t = &mut self.ticks;
        if t.srtt8 == 0 {
            // The argument is at least 1: `srtt8` is 0 only without a measurement.
            t.srtt8 = (rtt + 1) << 3;
            t.rttvar4 = (rtt + 1) << 1;
        } else {
            let delta = rtt - (t.srtt8 >> 3);
            t.srtt8 = (t.srtt8 + delta).max(1);
            t.rttvar4 = (t.rttvar4 + delta.abs() - (t.rttvar4 >> 2)).max(1);
        }
        self.srtt = Some(tick * t.srtt8 as u32 / 8);
        self.rttvar = tick * t.rttvar4 as u32 / 4;
        self.doublings = 0;
    }

    /// Data transmission begins after a SYN was retransmitted: RFC 6298, 5.7.
    pub fn begin_after_lost_syn(&mut self) {
        self.doublings = 0;
        self.settings.initial = self.settings.initial.max(AFTER_LOST_SYN_MIN);
    }

    /// The timer has expired: RFC 6298, 5.5.
    pub fn back_off(&mut self) {
        self.doublings = (self.doublings + 1).min(self.settings.doublings_max);
    }

    /// The timeout without back-off.
    pub fn base(&self) -> Duration {
        let Some(srtt) = self.srtt else {
            return self.settings.initial;
        };
        match self.settings.clock {
            // RFC 6298, 2.3: RTO <- SRTT + max (G, K*RTTVAR), K = 4.
            RttClock::Rfc6298 { granularity } => {
                let term = (self.rttvar * 4).max(granularity);
                match self.settings.floor {
                    RtoFloor::Timeout(least) => (srtt + term).max(least),
                    RtoFloor::Variance(least) => srtt + term.max(least),
                }
            }
            // TCP_REXMTVAL: in whole ticks; rttvar is scaled by four already.
            RttClock::Bsd { tick } => {
                let value = (self.ticks.srtt8 >> 3) + self.ticks.rttvar4;
                let timeout = tick * value.max(0) as u32;
                match self.settings.floor {
                    RtoFloor::Timeout(least) | RtoFloor::Variance(least) => timeout.max(least),
                }
            }
        }
    }

    /// The timeout, back-off included.
    pub fn rto(&self) -> Duration {
        let backed_off = self.base().saturating_mul(1 << self.doublings.min(31));
        let slop = self.srtt.map_or(Duration::ZERO, |_| self.settings.slop);
        backed_off.saturating_add(slop).min(self.settings.max)
    }

    /// When a timer of `length` set at `now` expires: exactly after `length`, or at a tick of the
    /// slow timer.
    pub fn expiry(&self, now: Instant, length: Duration) -> Instant {
        let Some(tick) = self.settings.timer_tick else {
            return now + length;
        };
        let tick_ns = nanos(tick).max(1);
        let phase = nanos(self.settings.tick_phase);
        match self.settings.clock {
            // 4.3BSD counts ticks. The first one comes within one interval.
            RttClock::Bsd { .. } => {
                let count = nanos(length).div_ceil(tick_ns);
                let ticks = ticks_by(now, tick, self.settings.tick_phase) + count;
                Instant::from_nanos(ticks.saturating_mul(tick_ns).saturating_add(phase))
            }
            RttClock::Rfc6298 { .. } => {
                let exact = (now + length).as_nanos().saturating_sub(phase);
                let ticks = exact.div_ceil(tick_ns);
                Instant::from_nanos(ticks.saturating_mul(tick_ns).saturating_add(phase))
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Ticks up to `at`, of a clock whose first tick is at `phase`.
fn ticks_by(at: Instant, tick: Duration, phase: Duration) -> u64 {
    at.as_nanos().saturating_sub(nanos(phase)) / nanos(tick).max(1)
}

fn round_up(duration: Duration, unit: Duration) -> Duration {
    if unit.is_zero() {
        return duration;
    }
    Duration::from_nanos(nanos(duration).div_ceil(nanos(unit)) * nanos(unit))
}

#[cfg(test)]
mod tests;
