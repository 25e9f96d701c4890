// SPDX-License-Identifier: Apache-2.0
//! BBR's window: a multiple of what fits into the path, and how losses reduce it
//! (draft-cardwell-iccrg-bbr-congestion-control-00, 4.2.3).

use holdfast_wire::Duration;

use super::aggregation::whole_segments;
use super::{Bbr, Mode, Report, SEGMENTS_MIN, SEGMENTS_UNMEASURED, UNIT};
use crate::tcp::rack_state::Phase;

impl Bbr {
    /// The window after an ACK, bytes (4.2.3).
    pub(super) fn next_cwnd(&mut self, report: &Report, cwnd: u64) -> u64 {
        let mut next = cwnd;
        if report.acked > 0 && !self.conserve_or_restore(report, &mut next) {
            let bandwidth = self.bandwidth();
            let mut target = self.bdp(bandwidth, self.cwnd_gain);
            if self.is_full {
                target += self.aggregation.extra(bandwidth, self.smss);
            }
            let target = self.with_bursts(target);
            if self.is_full {
                next = (next + report.acked).min(target);
            } else if next < target || report.totals.delivered < SEGMENTS_UNMEASURED * self.smss {
                next += report.acked;
            }
            next = next.max(SEGMENTS_MIN * self.smss);
        }
        if self.mode == Mode::ProbeRtt {
            next = next.min(SEGMENTS_MIN * self.smss);
        }
        next
    }

    /// 4.2.3.4: in the first round trip of a recovery, the sender sends as much as arrives; later up to twice as much.
    /// True: the window is decided.
    fn conserve_or_restore(&mut self, report: &Report, cwnd: &mut u64) -> bool {
        let conserved = report.in_flight + report.acked;
        if report.lost > 0 {
            *cwnd = cwnd.saturating_sub(report.lost).max(self.smss);
        }
        if report.phase == Phase::Recovery && self.prior_phase != Phase::Recovery {
            self.conserves = true;
            self.round_ends_at = report.totals.delivered;
            *cwnd = conserved;
        } else if self.prior_phase >= Phase::Recovery && report.phase < Phase::Recovery {
            *cwnd = self.prior_cwnd.max(*cwnd);
            self.conserves = false;
        }
        self.prior_phase = report.phase;
        if self.conserves {
            *cwnd = conserved.max(*cwnd);
        }
        self.conserves
    }

    /// 4.2.3.1: bandwidth times least round trip times gain, bytes in whole segments.
    fn bdp(&self, bandwidth: u64, gain: u64) -> u64 {
        let Some(min_rtt) = self.min_rtt else {
            return SEGMENTS_UNMEASURED * self.smss;
        };
        let bytes = u128::from(bandwidth) * min_rtt.as_nanos() * u128::from(gain)
            / (u128::from(UNIT) * 1_000_000_000);
        u64::try_from(bytes)
            .unwrap_or(u64::MAX / 4)
            .next_multiple_of(self.smss)
    }

    /// 4.2.3.1: adds three bursts, to an even number of segments. In ProbeBW's phase of the highest gain two more.
    fn with_bursts(&self, bytes: u64) -> u64 {
        let segments = (bytes / self.smss + 3 * self.burst_segments()).next_multiple_of(2);
        let probes = self.mode == Mode::ProbeBw && self.cycle == 0;
        (segments + if probes { 2 } else { 0 }) * self.smss
    }

    pub(super) fn inflight(&self, bandwidth: u64, gain: u64) -> u64 {
        self.with_bursts(self.bdp(bandwidth, gain))
    }

    /// The bytes that will be in the network when the next burst departs.
    pub(super) fn in_network(&self, in_flight: u64, wait: Duration) -> u64 {
        let delivered = whole_segments(self.bandwidth(), wait, self.smss);
        let burst = if self.pacing_gain > UNIT {
            self.burst_segments() * self.smss
        } else {
            0
        };
        (in_flight + burst).saturating_sub(delivered)
    }
}
