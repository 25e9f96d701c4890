/* SPDX-License-Identifier: GPL-2.0 */
/*
 * LC and CWE: equations (1) and (2), P_H, P_C, the congestion history and table I
 * of "Improving TCP Performance in Mobile Networks" (Liao, Kao and Chien, 2005).
 *
 * The same functions, under the same names, as crates/core/src/lccwe/arithmetic.rs; both are tested
 * with crates/core/src/lccwe/vectors.txt. Times are microseconds, but the acknowledgement interval
 * is nanoseconds. In probabilities, weights and the history ONE stands for 1. All results are
 * rounded down.
 */
#ifndef HOLDFAST_LCCWE_H
#define HOLDFAST_LCCWE_H

#include <linux/types.h>

#define ONE (1U << 16)
#define ALPHA_MAX (1U << 26)
#define STEPS_MAX (1U << 16)
#define AVOIDANCE_GROWTH_MAX 362 /* of a window of 1, in STEPS_MAX steps */
#define ACK_INTERVAL_NS_MAX (1ULL << 40)

#define HISTORY_WEIGHT (ONE / 5) /* w_c, as in the paper */
#define INTERVAL_WEIGHT (ONE / 8 * 7) /* w_a, not in the paper */
#define FIRST_HISTORY ONE /* not in the paper */

struct parp {
	__u64 begin_us;
	__u64 end_us;
};

static __always_inline struct parp parp(__u64 transmit_us, __u32 srtt_us, __u32 rttvar_us)
{
	__u64 middle_us = transmit_us + srtt_us;
	struct parp range = {
		.begin_us = middle_us > rttvar_us ? middle_us - rttvar_us : 0,
		.end_us = middle_us + rttvar_us,
	};

	return range;
}

static __always_inline __u32 p_handoff(struct parp range, __u64 finish_us)
{
	if (range.end_us <= finish_us)
		return ONE;
	if (range.begin_us >= finish_us)
		return 0;
	return ((finish_us - range.begin_us) << 16) / (range.end_us - range.begin_us);
}

static __always_inline __u32 p_congestion(__u32 rtt_us, __u32 srtt_us, __u32 alpha)
{
	__u64 limit = (__u64)alpha * srtt_us;

	if (rtt_us < srtt_us)
		return 0;
	if ((__u64)rtt_us << 16 >= limit)
		return ONE;
	return ((__u64)rtt_us << 32) / limit;
}

static __always_inline __u32 next_alpha(__u32 alpha, __u32 rtt_value_us, __u32 srtt_us, __u32 weight)
{
	__u64 sample;

	if (srtt_us == 0)
		return alpha;
	sample = ((__u64)rtt_value_us << 16) / srtt_us;
	if (sample > ALPHA_MAX)
		sample = ALPHA_MAX;
	return ((__u64)weight * alpha + (ONE - weight) * sample) >> 16;
}

static __always_inline __u64 next_ack_interval(__u64 interval_ns, __u64 sample_ns, __u32 weight)
{
	if (sample_ns > ACK_INTERVAL_NS_MAX)
		sample_ns = ACK_INTERVAL_NS_MAX;
	if (interval_ns == 0)
		return sample_ns;
	return (weight * interval_ns + (ONE - weight) * sample_ns) >> 16;
}

static __always_inline __u32 steps(__u64 handoff_us, __u32 srtt_us, __u64 interval_ns)
{
	__u64 increase_us = handoff_us > srtt_us ? srtt_us : handoff_us;
	__u64 steps;

	if (interval_ns == 0)
		return 0;
	steps = increase_us * 1000 / interval_ns;
	return steps > STEPS_MAX ? STEPS_MAX : steps;
}

struct window {
	__u32 cwnd;
	__u32 counted;
	__u32 ssthresh;
};

static __always_inline void grow(struct window *window, __u32 steps)
{
	if (window->cwnd < window->ssthresh) {
		__u32 room = window->ssthresh - window->cwnd;
		__u32 doubled = steps < room ? steps : room;

		window->cwnd += doubled;
		steps -= doubled;
	}
	for (int grown = 0; grown < AVOIDANCE_GROWTH_MAX && steps > 0; grown++) {
		__u32 missing = window->cwnd > window->counted ? window->cwnd - window->counted : 0;

		if (steps < missing) {
			window->counted += steps;
			break;
		}
		steps -= missing;
		window->cwnd++;
		window->counted = 0;
	}
}

#endif
