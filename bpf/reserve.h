/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The reserve of `wake`, what is known of it and its way in: where the FH's segments end,
 * whether the flow downloads in bulk, what its clock says. What the way out does with it:
 * held.h. The same as Reserve in crates/core/src/mobile_host/wake.rs, which is the
 * reference: of number and window the vectors beside it are run through both.
 */
#ifndef HOLDFAST_RESERVE_H
#define HOLDFAST_RESERVE_H

#include "noted.h"

/* The constants of wake.rs. */
#define BULK_SEGMENTS 128
#define QUEUED_SEGMENTS 16
#define WINDOW_SEGMENTS_MIN 16
#define PIECE_MIN 500
#define SPAN_MAX (1 << 30)
#define AHEAD_MAX (1 << 20)
#define QUEUE_SHARE 4
#define GAP_QUARTERS 3
#define QUIET_NS 50000000ULL
#define QUIET_NS_MAX 500000000ULL
#define ANSWER_NS 2000000000ULL
#define ASKED_QUARTERS 3
#define EPOCH_NS_MIN 10000000ULL
#define EPOCH_NS_MAX 1000000000ULL
/* Of wake/shortest.rs. */
#define SHORTEST_NS 10000000000ULL
/* Of wake/clock.rs. */
#define MEASURED_FROM_NS 300000000000ULL
#define UNHEARD_NS_MAX 1000000000000ULL

#define CLOCK_OF_TIMERS 1 /* CLOCK_MONOTONIC */
#define ACK_OFFSET 8

/* Facts of the way in. */
#define IN_PUSHED 0x01 /* pushed_end is one */
#define IN_GAP 0x02    /* beyond_gap is one */

/* Facts of the way out. */
#define OUT_SEEN 0x01 /* acked_out is one */

/* The same of crates/net/src/mobile_path/reserve.rs. */
struct reserve {
	/* The way in: where segments of the FH end, and how many come. */
	__u32 grid_start;
	__u32 grid_end;
	__u32 piece; /* 0: nothing is known */
	__u32 in_facts;
	__u32 pushed_end;
	__u32 beyond_gap;
	__u32 epoch_segments;
	__u32 bulk; /* the timer and who wakes the FH clear it */
	__u64 epoch_at_ns;
	__u64 rtt_min_ns;

	/* The FH's clock, three readings of it; by CLOCK_BOOTTIME, which goes on in a suspend. */
	__u64 clock_first_at_ns;
	__u64 clock_next_at_ns;
	__u64 clock_newest_at_ns;
	__u32 clock_first;
	__u32 clock_next;
	__u32 clock_newest;

	/* The way out. */
	__u32 acked_out;
	__u32 out_facts;
	__u32 held_ack; /* the MH's own number */
	__u64 held_at_ns; /* 0, or the same as done_at_ns: nothing is held */

	/* The timer's: what was held at that time is let go; nothing below leaves. */
	__u64 done_at_ns;
	__u32 let_go;
	__u32 has_let_go;
	__u32 armed;
	__u32 turns; /* nothing but a place for order_all() */

	/* The way in: since when rtt_min_ns is the shortest, and that of the time before. */
	__u64 rtt_min_at_ns;
	__u64 rtt_before_ns;

	/* When the MH last sent data (the way out). */
	__u64 upload_at_ns;

	/* The way in: when data came last, and segments in the last round trip. */
	__u64 data_at_ns;
	__u32 last_segments;
	__u32 unused;

	/* When the MH last sent data that acknowledge all of an answer (the way out), and when the answer to
	 * that began (the way in). */
	__u64 asked_at_ns;
	__u64 answer_at_ns;
	struct bpf_timer timer;
};

_Static_assert(__builtin_offsetof(struct reserve, epoch_at_ns) == 32 &&
		       __builtin_offsetof(struct reserve, clock_first) == 72 &&
		       __builtin_offsetof(struct reserve, held_at_ns) == 96 &&
		       __builtin_offsetof(struct reserve, upload_at_ns) == 144 &&
		       __builtin_offsetof(struct reserve, asked_at_ns) == 168 &&
		       __builtin_offsetof(struct reserve, timer) == 184 && sizeof(struct reserve) == 200,
	       "as in reserve.rs");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* replaced before loading */
	__type(key, struct flow);
	__type(value, struct reserve);
} reserves SEC(".maps");

/* One with nothing in it; too large for the stack. */
const volatile struct reserve no_reserve SEC(".rodata.none") = {};

/*
 * Flows that the daemon has woken, by the daemon alone: nothing below `let_go` leaves, and
 * echoes from before the outage are renewed.
 */
struct woken {
	__u32 let_go;
	__u32 stale; /* the newest TSecr from before the outage */
	__u32 echo;  /* the FH's clock at `echo_at_ns`, less the way */
	__u32 renews; /* echoes up to `stale` are renewed */
	__u64 echo_at_ns; /* CLOCK_BOOTTIME */
	__u64 ticks_per_s;
	__u64 until_ns; /* and then no longer */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* replaced before loading */
	__type(key, struct flow);
	__type(value, struct woken);
} woken SEC(".maps");

/* What the daemon is told: the flow's reserve was let go, the FH pauses. */
struct pause {
	struct flow flow;
	__u32 ack;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} pauses SEC(".maps");

/* Another connection, or none any more: what was known says nothing of it. */
static __always_inline void forget_reserve(const struct flow *key)
{
	if (!settings.keeps_reserves)
		return;
	bpf_map_delete_elem(&reserves, key);
	bpf_map_delete_elem(&woken, key);
}

static __always_inline void note_clock(struct reserve *reserve, __u32 tsval)
{
	__u64 now = bpf_ktime_get_boot_ns();

	/* What is 1000 s old is no measure any more: a fast clock may have turned over. */
	if (!reserve->clock_newest_at_ns || now - reserve->clock_newest_at_ns > UNHEARD_NS_MAX) {
		reserve->clock_first = reserve->clock_next = reserve->clock_newest = tsval;
		reserve->clock_first_at_ns = reserve->clock_next_at_ns = reserve->clock_newest_at_ns = now;
		return;
	}
	if (at_or_after(reserve->clock_newest, tsval))
		return;
	reserve->clock_newest = tsval;
	reserve->clock_newest_at_ns = now;
	if (now - reserve->clock_next_at_ns > MEASURED_FROM_NS) {
		reserve->clock_first = reserve->clock_next;
		reserve->clock_first_at_ns = reserve->clock_next_at_ns;
		reserve->clock_next = tsval;
		reserve->clock_next_at_ns = now;
	}
}

static __always_inline void note_grid(struct reserve *reserve, __u32 seq, __u32 length, __u32 piece)
{
	__u32 known_piece = reserve->piece;
	int whole = known_piece && seq == reserve->grid_end && (seq - reserve->grid_start) % known_piece == 0;

	if (!whole || (piece != known_piece && (length >= known_piece || length != piece))) {
		reserve->grid_start = seq;
		reserve->piece = piece;
	}
	reserve->grid_end = seq + length;
	/* Numbers turn over: the start follows at a distance. */
	if (reserve->grid_end - reserve->grid_start > SPAN_MAX)
		reserve->grid_start += SPAN_MAX / 2 / (reserve->piece ?: 1) * reserve->piece;
}

static __always_inline __u64 shortest_ns(const struct reserve *reserve)
{
	__u64 before = reserve->rtt_before_ns;

	return before && before < reserve->rtt_min_ns ? before : reserve->rtt_min_ns;
}

/*
 * Whether the data that have come are the first of an answer: nothing came since the MH asked, for
 * as long as it takes; or nothing came before.
 */
static __always_inline int begins_answer(const struct reserve *reserve, __u64 now)
{
	__u64 asked_at = *(const volatile __u64 *)&reserve->asked_at_ns;

	return !reserve->data_at_ns || (asked_at >= reserve->data_at_ns &&
					now >= asked_at + shortest_ns(reserve) / 4 * ASKED_QUARTERS);
}

/* Whether the flow downloads in bulk: by segments in a round trip. */
static __always_inline void count_bulk(struct reserve *reserve, __u32 segments, __u64 rtt, __u64 now)
{
	__u64 epoch = rtt;
	__u64 shortest;
	__u64 since;
	__u32 least;

	if (!rtt)
		return;
	if (now - reserve->rtt_min_at_ns > SHORTEST_NS) {
		reserve->rtt_before_ns = reserve->rtt_min_ns;
		reserve->rtt_min_ns = rtt;
		reserve->rtt_min_at_ns = now;
	}
	if (!reserve->rtt_min_ns || rtt < reserve->rtt_min_ns)
		reserve->rtt_min_ns = rtt;
	if (epoch < EPOCH_NS_MIN)
		epoch = EPOCH_NS_MIN;
	if (epoch > EPOCH_NS_MAX)
		epoch = EPOCH_NS_MAX;
	if (begins_answer(reserve, now)) {
		reserve->answer_at_ns = now;
		reserve->bulk = 0;
	}
	if (now - reserve->data_at_ns > epoch / 4 * GAP_QUARTERS) {
		/* Of a download long ago. */
		if (now - reserve->data_at_ns > 2 * epoch)
			reserve->last_segments = 0;
		reserve->bulk = 0;
		reserve->epoch_segments = 0;
		reserve->epoch_at_ns = now;
	}
	reserve->data_at_ns = now;
	reserve->epoch_segments += segments;
	since = now - reserve->epoch_at_ns;
	if (since < epoch)
		return;
	shortest = shortest_ns(reserve);
	least = rtt > shortest + shortest / QUEUE_SHARE ? QUEUED_SEGMENTS : BULK_SEGMENTS;
	/* After a pause the time is longer than what was counted: it begins anew. */
	reserve->last_segments = since < 2 * epoch ? reserve->epoch_segments : 0;
	reserve->bulk = since < 2 * epoch && reserve->epoch_segments >= least &&
			now >= reserve->answer_at_ns + ANSWER_NS;
	reserve->epoch_at_ns = now;
	reserve->epoch_segments = 0;
}

/* A segment of the FH that fits; `note_ingress` has noted it. */
static __always_inline void reserve_ingress(struct __sk_buff *skb, const struct flow *key, const struct state *state,
					    const struct segment *segment)
{
	struct reserve *reserve = bpf_map_lookup_elem(&reserves, key);
	__u64 now = state->ingress_at_ns;
	__u32 length = segment->payload;
	__u32 piece = skb->gso_size;

	if (segment->flags & SYN)
		return;
	if (!reserve) {
		if (!length || bpf_map_update_elem(&reserves, key, (const void *)&no_reserve, BPF_NOEXIST))
			return;
		reserve = bpf_map_lookup_elem(&reserves, key);
		if (!reserve)
			return;
	}
	if (state->facts & FACT_TIMESTAMPS)
		note_clock(reserve, state->fh_tsval);
	if (!length)
		return;
	if (!piece || piece > length)
		piece = length;
	if (reserve->in_facts & IN_GAP && at_or_after(state->rcv_nxt, reserve->beyond_gap))
		reserve->in_facts &= ~IN_GAP;
	if (reserve->piece && !at_or_after(segment->seq, reserve->grid_end))
		return; /* sent again */
	if (reserve->piece && segment->seq != reserve->grid_end) {
		reserve->beyond_gap = segment->seq + length;
		reserve->in_facts |= IN_GAP;
	}
	note_grid(reserve, segment->seq, length, piece);
	if (segment->flags & PSH) {
		reserve->pushed_end = segment->seq + length;
		reserve->in_facts |= IN_PUSHED;
	}
	count_bulk(reserve, (length + piece - 1) / piece, state->rtt_ns, now);
}

#endif
