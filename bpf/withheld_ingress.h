/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The withheld segment of `wake`, at ingress: the FH's segment boundaries, whether the flow
 * downloads in bulk, and the FH's clock. Egress uses them in withheld_egress.h. The reference is
 * WithheldSegment in crates/core/src/mobile_host/withheld.rs: its cases are run through both.
 */
#ifndef HOLDFAST_WITHHELD_INGRESS_H
#define HOLDFAST_WITHHELD_INGRESS_H

#include "noted.h"

/* The constants of withheld.rs. */
#define BULK_SEGMENTS 128
#define QUEUED_SEGMENTS 16
#define WINDOW_SEGMENTS_MIN 16
#define PIECE_MIN 500
#define SPAN_MAX (1 << 30)
#define AHEAD_MAX (1 << 20)
#define QUEUE_SHARE 4
#define GAP_QUARTERS 3
#define PAUSE_MARGIN_NS 50000000ULL
#define PAUSE_AFTER_NS_MAX 500000000ULL
#define ANSWER_NS 2000000000ULL
#define REQUESTED_QUARTERS 3
#define EPOCH_NS_MIN 10000000ULL
#define EPOCH_NS_MAX 1000000000ULL
/* Of withheld/shortest_rtt.rs. */
#define SHORTEST_NS 10000000000ULL
/* Of withheld/fh_clock.rs. */
#define MEASURED_FROM_NS 300000000000ULL
#define SILENCE_NS_MAX 1000000000000ULL

#define CLOCK_OF_TIMERS 1 /* CLOCK_MONOTONIC */
#define ACK_OFFSET 8

/* Facts of ingress. */
#define IN_PUSHED 0x01 /* pushed_end is valid */
#define IN_GAP 0x02 /* beyond_gap is valid */

/* Facts of egress. */
#define OUT_SEEN 0x01 /* acked_out is valid */

/* Shared with crates/net/src/mobile_path/withheld_segments.rs. */
struct withheld {
	/* Ingress: where segments of the FH end, and how many come. */
	__u32 first_boundary;
	__u32 last_boundary;
	__u32 piece; /* bytes of a segment; 0: not known */
	__u32 in_facts;
	__u32 pushed_end;
	__u32 beyond_gap;
	__u32 epoch_segments;
	__u32 bulk; /* the timer and a wake-up clear it */
	__u64 epoch_at_ns;
	__u64 rtt_min_ns;

	/* Three readings of the FH's clock. Times are CLOCK_BOOTTIME, which runs in a suspend. */
	__u64 clock_first_at_ns;
	__u64 clock_next_at_ns;
	__u64 clock_newest_at_ns;
	__u32 clock_first;
	__u32 clock_next;
	__u32 clock_newest;

	/* Egress. */
	__u32 acked_out;
	__u32 out_facts;
	__u32 withheld_ack; /* the MH's own number */
	__u64 withheld_at_ns; /* 0, or the same as done_at_ns: nothing is withheld */

	/* Timer: the segment withheld at done_at_ns is released; no ACK below `released` leaves. */
	__u64 done_at_ns;
	__u32 released;
	__u32 has_released;
	__u32 armed;
	__u32 turns; /* for order_all() alone */

	/* Ingress: since when rtt_min_ns is measured, and the shortest before that time. */
	__u64 rtt_min_at_ns;
	__u64 rtt_before_ns;

	/* When the MH last sent data (egress). */
	__u64 upload_at_ns;

	/* Ingress: when data came last, and segments in the last round trip. */
	__u64 data_at_ns;
	__u32 last_segments;
	__u32 unused;

	/* Egress: when the MH last sent a request, data that acknowledge all of an answer. Ingress:
	 * when the newest answer began. */
	__u64 requested_at_ns;
	__u64 answer_at_ns;
	struct bpf_timer timer;
};

_Static_assert(__builtin_offsetof(struct withheld, epoch_at_ns) == 32 &&
		       __builtin_offsetof(struct withheld, clock_first) == 72 &&
		       __builtin_offsetof(struct withheld, withheld_at_ns) == 96 &&
		       __builtin_offsetof(struct withheld, upload_at_ns) == 144 &&
		       __builtin_offsetof(struct withheld, requested_at_ns) == 168 &&
		       __builtin_offsetof(struct withheld, timer) == 184 && sizeof(struct withheld) == 200,
	       "as in withheld_segments.rs");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* replaced before loading */
	__type(key, struct flow);
	__type(value, struct withheld);
} withheld_segments SEC(".maps");

/* An empty record; too large for the stack. */
const volatile struct withheld no_withheld SEC(".rodata.none") = {};

/*
 * Flows that the daemon has woken; the daemon alone writes the map. No ACK below `released`
 * leaves, and timestamp echoes from before the outage are replaced.
 */
struct woken {
	__u32 released;
	__u32 stale; /* the newest TSecr from before the outage */
	__u32 echo; /* the TSecr to send at `echo_at_ns` */
	__u32 renews; /* 1: echoes up to `stale` are replaced */
	__u64 echo_at_ns; /* CLOCK_BOOTTIME */
	__u64 ticks_per_s;
	__u64 until_ns; /* the entry holds until then; CLOCK_MONOTONIC */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* replaced before loading */
	__type(key, struct flow);
	__type(value, struct woken);
} woken SEC(".maps");

/* A report to the daemon: the FH pauses, so the flow's withheld segment was released. */
struct pause {
	struct flow flow;
	__u32 ack;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} pauses SEC(".maps");

/* The connection ends, or another one begins: its records are deleted. */
static __always_inline void forget_withheld(const struct flow *key)
{
	if (!settings.withholds)
		return;
	bpf_map_delete_elem(&withheld_segments, key);
	bpf_map_delete_elem(&woken, key);
}

static __always_inline void note_clock(struct withheld *withheld, __u32 tsval)
{
	__u64 now = bpf_ktime_get_boot_ns();

	/* A reading older than 1000 s does not count: a fast clock may have wrapped. */
	if (!withheld->clock_newest_at_ns || now - withheld->clock_newest_at_ns > SILENCE_NS_MAX) {
		withheld->clock_first = withheld->clock_next = withheld->clock_newest = tsval;
		withheld->clock_first_at_ns = withheld->clock_next_at_ns = withheld->clock_newest_at_ns = now;
		return;
	}
	if (at_or_after(withheld->clock_newest, tsval))
		return;
	withheld->clock_newest = tsval;
	withheld->clock_newest_at_ns = now;
	if (now - withheld->clock_next_at_ns > MEASURED_FROM_NS) {
		withheld->clock_first = withheld->clock_next;
		withheld->clock_first_at_ns = withheld->clock_next_at_ns;
		withheld->clock_next = tsval;
		withheld->clock_next_at_ns = now;
	}
}

static __always_inline void note_boundaries(struct withheld *withheld, __u32 seq, __u32 length, __u32 piece)
{
	__u32 known_piece = withheld->piece;
	int whole =
		known_piece && seq == withheld->last_boundary && (seq - withheld->first_boundary) % known_piece == 0;

	if (!whole || (piece != known_piece && (length >= known_piece || length != piece))) {
		withheld->first_boundary = seq;
		withheld->piece = piece;
	}
	withheld->last_boundary = seq + length;
	/* Sequence numbers wrap: the first boundary follows at a distance. */
	if (withheld->last_boundary - withheld->first_boundary > SPAN_MAX)
		withheld->first_boundary += SPAN_MAX / 2 / (withheld->piece ?: 1) * withheld->piece;
}

static __always_inline __u64 shortest_ns(const struct withheld *withheld)
{
	__u64 before = withheld->rtt_before_ns;

	return before && before < withheld->rtt_min_ns ? before : withheld->rtt_min_ns;
}

/*
 * Whether this data begins an answer. It is the flow's first data, or the first since the MH's
 * request, and 3/4 of the shortest round trip have passed since the request.
 */
static __always_inline int begins_answer(const struct withheld *withheld, __u64 now)
{
	__u64 requested_at = *(const volatile __u64 *)&withheld->requested_at_ns;

	return !withheld->data_at_ns || (requested_at >= withheld->data_at_ns &&
					 now >= requested_at + shortest_ns(withheld) / 4 * REQUESTED_QUARTERS);
}

/* Counts the segments in a round trip, and sets whether the flow downloads in bulk. */
static __always_inline void count_bulk(struct withheld *withheld, __u32 segments, __u64 rtt, __u64 now)
{
	__u64 epoch = rtt;
	__u64 shortest;
	__u64 since;
	__u32 least;

	if (!rtt)
		return;
	if (now - withheld->rtt_min_at_ns > SHORTEST_NS) {
		withheld->rtt_before_ns = withheld->rtt_min_ns;
		withheld->rtt_min_ns = rtt;
		withheld->rtt_min_at_ns = now;
	}
	if (!withheld->rtt_min_ns || rtt < withheld->rtt_min_ns)
		withheld->rtt_min_ns = rtt;
	if (epoch < EPOCH_NS_MIN)
		epoch = EPOCH_NS_MIN;
	if (epoch > EPOCH_NS_MAX)
		epoch = EPOCH_NS_MAX;
	if (begins_answer(withheld, now)) {
		withheld->answer_at_ns = now;
		withheld->bulk = 0;
	}
	if (now - withheld->data_at_ns > epoch / 4 * GAP_QUARTERS) {
		/* The count is of a download long ago. */
		if (now - withheld->data_at_ns > 2 * epoch)
			withheld->last_segments = 0;
		withheld->bulk = 0;
		withheld->epoch_segments = 0;
		withheld->epoch_at_ns = now;
	}
	withheld->data_at_ns = now;
	withheld->epoch_segments += segments;
	since = now - withheld->epoch_at_ns;
	if (since < epoch)
		return;
	shortest = shortest_ns(withheld);
	least = rtt > shortest + shortest / QUEUE_SHARE ? QUEUED_SEGMENTS : BULK_SEGMENTS;
	/* After a pause the epoch is too long: its count is not used. */
	withheld->last_segments = since < 2 * epoch ? withheld->epoch_segments : 0;
	withheld->bulk =
		since < 2 * epoch && withheld->epoch_segments >= least && now >= withheld->answer_at_ns + ANSWER_NS;
	withheld->epoch_at_ns = now;
	withheld->epoch_segments = 0;
}

/* Handles a segment of the FH that note_ingress() has noted. */
static __always_inline void withheld_ingress(struct __sk_buff *skb, const struct flow *key, const struct state *state,
					     const struct segment *segment)
{
	struct withheld *withheld = bpf_map_lookup_elem(&withheld_segments, key);
	__u64 now = state->ingress_at_ns;
	__u32 length = segment->payload;
	__u32 piece = skb->gso_size;

	if (segment->flags & SYN)
		return;
	if (!withheld) {
		if (!length || bpf_map_update_elem(&withheld_segments, key, (const void *)&no_withheld, BPF_NOEXIST))
			return;
		withheld = bpf_map_lookup_elem(&withheld_segments, key);
		if (!withheld)
			return;
	}
	if (state->facts & FACT_TIMESTAMPS)
		note_clock(withheld, state->fh_tsval);
	if (!length)
		return;
	if (!piece || piece > length)
		piece = length;
	if (withheld->in_facts & IN_GAP && at_or_after(state->rcv_nxt, withheld->beyond_gap))
		withheld->in_facts &= ~IN_GAP;
	if (withheld->piece && !at_or_after(segment->seq, withheld->last_boundary))
		return; /* a retransmission */
	if (withheld->piece && segment->seq != withheld->last_boundary) {
		withheld->beyond_gap = segment->seq + length;
		withheld->in_facts |= IN_GAP;
	}
	note_boundaries(withheld, segment->seq, length, piece);
	if (segment->flags & PSH) {
		withheld->pushed_end = segment->seq + length;
		withheld->in_facts |= IN_PUSHED;
	}
	count_bulk(withheld, (length + piece - 1) / piece, state->rtt_ns, now);
}

#endif
