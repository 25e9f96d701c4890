// SPDX-License-Identifier: Apache-2.0
//! Equations (1) and (2), P_H, P_C, the congestion history and table I, in integers.
//!
//! `bpf/lccwe.h` has the same functions under the same names; both are held against
//! `vectors.txt`. Times are microseconds, as the kernel's `srtt_us`, but for the
//! acknowledgement interval, which is nanoseconds; probabilities, weights and the
//! history are fixed-point numbers with [`ONE`] for 1. All results are rounded down.

/// 1 of probabilities, weights and the congestion history.
pub const ONE: u32 = 1 << 16;

/// The largest congestion history: a round trip of 1024 times the smoothed one.
pub const ALPHA_MAX: u32 = 1 << 26;

/// Acknowledgement intervals that one handoff makes up for at most: more than the
/// segments of any window in use, and a bound for what a wrong interval can do.
pub const STEPS_MAX: u32 = 1 << 16;

/// Segments by which one handoff lets the window grow in congestion avoidance at most: what
/// [`STEPS_MAX`] passes make from a window of one. The kernel's verifier wants a bound.
pub const AVOIDANCE_GROWTH_MAX: u32 = 362;

/// The possible acknowledgement returning period of one segment, microseconds since any
/// epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parp {
    /// T_Pb.
    pub begin_us: u64,
    /// T_Pe.
    pub end_us: u64,
}

/// Equations (1) and (2), from the time of the segment's last transmission.
pub const fn parp(transmit_us: u64, srtt_us: u32, rttvar_us: u32) -> Parp {
    let middle_us = transmit_us + srtt_us as u64;
    Parp {
        begin_us: middle_us.saturating_sub(rttvar_us as u64),
        end_us: middle_us + rttvar_us as u64,
    }
}

/// P_H of a segment, with the end of the handoff.
pub const fn p_handoff(parp: Parp, finish_us: u64) -> u32 {
    if parp.end_us <= finish_us {
        return ONE;
    }
    if parp.begin_us >= finish_us {
        return 0;
    }
    let (before, length) = (
        finish_us - parp.begin_us,
        // Above `before`, and so above 0.
        parp.end_us - parp.begin_us,
    );
    ((before << 16) / length) as u32
}

/// P_C, with the congestion history `alpha`.
pub const fn p_congestion(rtt_us: u32, srtt_us: u32, alpha: u32) -> u32 {
    if rtt_us < srtt_us {
        return 0;
    }
    // Scaled by 2^16.
    let limit = alpha as u64 * srtt_us as u64;
    if (rtt_us as u64) << 16 >= limit {
        return ONE;
    }
    (((rtt_us as u64) << 32) / limit) as u32
}

/// The next congestion history; `weight` is w_c, the weight of the old one.
pub const fn next_alpha(alpha: u32, rtt_value_us: u32, srtt_us: u32, weight: u32) -> u32 {
    if srtt_us == 0 {
        return alpha;
    }
    let sample = ((rtt_value_us as u64) << 16) / srtt_us as u64;
    let sample = if sample > ALPHA_MAX as u64 {
        ALPHA_MAX as u64
    } else {
        sample
    };
    ((weight as u64 * alpha as u64 + (ONE - weight) as u64 * sample) >> 16) as u32
}

/// The next acknowledgement interval T_ack in nanoseconds, at most 2^40 (18 minutes);
/// `weight` is w_a, the weight of the old one. 0: none is known yet.
pub const fn next_ack_interval(interval_ns: u64, sample_ns: u64, weight: u32) -> u64 {
    let most = 1 << 40;
    let sample_ns = if sample_ns > most { most } else { sample_ns };
    if interval_ns == 0 {
        return sample_ns;
    }
    (weight as u64 * interval_ns + (ONE - weight) as u64 * sample_ns) >> 16
}

/// Table I's number of passes: the acknowledgements that the handoff has kept away. The
/// handoff's length and the smoothed round trip in microseconds.
pub const fn steps(handoff_us: u64, srtt_us: u32, interval_ns: u64) -> u32 {
    if interval_ns == 0 {
        return 0;
    }
    let increase_us = if handoff_us > srtt_us as u64 {
        srtt_us as u64
    } else {
        handoff_us
    };
    let steps = increase_us * 1000 / interval_ns;
    if steps > STEPS_MAX as u64 {
        STEPS_MAX
    } else {
        steps as u32
    }
}

/// A congestion window in segments, with its fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Whole segments, at least 1.
    pub cwnd: u32,
    /// How many times 1/`cwnd` has come on top: below `cwnd` (Linux: `snd_cwnd_cnt`).
    pub counted: u32,
    /// The slow start threshold, segments.
    pub ssthresh: u32,
}

/// Table I's loop.
pub const fn grow(window: Window, steps: u32) -> Window {
    let Window {
        mut cwnd,
        mut counted,
        ssthresh,
    } = window;
    let mut left = steps;
    if cwnd < ssthresh {
        let room = ssthresh - cwnd;
        let doubled = if left < room { left } else { room };
        cwnd += doubled;
        left -= doubled;
    }
    let mut grown = 0;
    while left > 0 && grown < AVOIDANCE_GROWTH_MAX {
        let missing = cwnd.saturating_sub(counted);
        if left < missing {
            counted += left;
            break;
        }
        left -= missing;
        cwnd += 1;
        counted = 0;
        grown += 1;
    }
    Window {
        cwnd,
        counted,
        ssthresh,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parp_lies_around_the_smoothed_round_trip() {
        let parp_ms = parp(1_000_000, 600_000, 50_000);
        assert_eq!((parp_ms.begin_us, parp_ms.end_us), (1_550_000, 1_650_000));
        // A variation above the round trip and the time since the epoch: no wrap.
        assert_eq!(parp(10, 20, 40).begin_us, 0);
    }

    #[test]
    fn handoff_is_certain_before_its_end_and_impossible_after_it() {
        let parp_ms = parp(1_000_000, 600_000, 50_000);
        assert_eq!(p_handoff(parp_ms, 1_650_000), ONE);
        assert_eq!(p_handoff(parp_ms, 9_000_000), ONE);
        assert_eq!(p_handoff(parp_ms, 1_550_000), 0);
        assert_eq!(p_handoff(parp_ms, 0), 0);
        assert_eq!(p_handoff(parp_ms, 1_575_000), ONE / 4);
    }

    #[test]
    fn a_period_of_no_length_is_before_or_after() {
        let parp_ms = parp(1_000_000, 600_000, 0);
        assert_eq!(p_handoff(parp_ms, 1_600_000), ONE);
        assert_eq!(p_handoff(parp_ms, 1_599_999), 0);
    }

    #[test]
    fn congestion_is_impossible_below_srtt_and_certain_above_alpha_times_it() {
        let alpha = 2 * ONE;
        assert_eq!(p_congestion(599_999, 600_000, alpha), 0);
        assert_eq!(p_congestion(600_000, 600_000, alpha), ONE / 2);
        assert_eq!(p_congestion(900_000, 600_000, alpha), ONE / 4 * 3);
        assert_eq!(p_congestion(1_200_001, 600_000, alpha), ONE);
        // A history below 1 leaves nothing in between.
        assert_eq!(p_congestion(600_000, 600_000, ONE / 2), ONE);
    }

    #[test]
    fn the_history_keeps_a_fifth_of_the_old_one() {
        let weight = ONE / 5;
        let next = next_alpha(ONE, 1_200_000, 600_000, weight);
        // 0.2 * 1 + 0.8 * 2.
        assert!(next.abs_diff(ONE * 9 / 5) <= 2, "{next}");
        assert_eq!(next_alpha(ONE, 1, 0, weight), ONE);
        assert!(next_alpha(ONE, u32::MAX, 1, weight) <= ALPHA_MAX);
    }

    #[test]
    fn the_first_interval_is_taken_whole() {
        assert_eq!(next_ack_interval(0, 800_000, ONE / 8 * 7), 800_000);
        assert_eq!(next_ack_interval(800_000, 1_600_000, ONE / 8 * 7), 900_000);
    }

    #[test]
    fn no_more_than_a_round_trip_is_made_up_for() {
        assert_eq!(steps(300_000, 600_000, 800_000), 375);
        assert_eq!(steps(3_000_000, 600_000, 800_000), 750);
        assert_eq!(steps(3_000_000, 600_000, 0), 0);
        assert_eq!(steps(u64::MAX / 2000, u32::MAX, 1), STEPS_MAX);
    }

    #[test]
    fn slow_start_adds_a_segment_a_step_and_avoidance_one_a_window() {
        let window = Window {
            cwnd: 10,
            counted: 0,
            ssthresh: 14,
        };
        assert_eq!(grow(window, 3).cwnd, 13);
        // Four of slow start; then 14 make one; one of 15 is left.
        let grown = grow(window, 4 + 14 + 1);
        assert_eq!((grown.cwnd, grown.counted), (15, 1));
        let counted = Window {
            cwnd: 20,
            counted: 19,
            ssthresh: 2,
        };
        assert_eq!(
            grow(counted, 1),
            Window {
                cwnd: 21,
                counted: 0,
                ssthresh: 2
            }
        );
        assert_eq!(grow(counted, 0), counted);
    }

    #[test]
    fn avoidance_adds_no_more_than_its_limit_however_long_the_handoff_was() {
        let window = Window {
            cwnd: 1,
            counted: 0,
            ssthresh: 1,
        };
        assert_eq!(grow(window, u32::MAX).cwnd, 1 + AVOIDANCE_GROWTH_MAX);
    }
}
