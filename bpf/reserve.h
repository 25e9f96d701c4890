/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The reserve of `wake`: while a flow downloads in bulk, what leaves acknowledges one
 * segment of the FH less than the MH has said. The same as Reserve in
 * crates/core/src/mobile_host/wake.rs, which is the reference: of number and window
 * the vectors beside it are run through both.
 *
 *        bulk, nothing missing            the FH pauses (timer), something is missing,
 *  LET GO ------------------------> HELD  a FIN, no order of the daemon, the link is back
 *     ^                               |
 *     +-------------------------------+
 *
 * Who writes what: the way in its part, the way out its own, the timer `let_go`. So no lock
 * is needed: nothing below `let_go` leaves. `bulk` is cleared by all three: what is lost then
 * is a round trip.
 *
 * The program that includes it has `orders_until`, and HELD_BACK, HELD_NOT, LET_GO and
 * ECHO_RENEWED among its counters.
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
#define QUIET_NS 50000000ULL
#define QUIET_NS_MAX 500000000ULL
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
	struct bpf_timer timer;
};

_Static_assert(__builtin_offsetof(struct reserve, epoch_at_ns) == 32 &&
		       __builtin_offsetof(struct reserve, clock_first) == 72 &&
		       __builtin_offsetof(struct reserve, held_at_ns) == 96 &&
		       __builtin_offsetof(struct reserve, timer) == 144 && sizeof(struct reserve) == 160,
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

struct leaves {
	__u32 ack;
	__u32 window; /* not scaled */
};

/* Number and window, lowered by one segment where that can be. */
static __always_inline struct leaves lowered(struct leaves own, __u32 scale, __u32 floor, const struct reserve *reserve)
{
	struct leaves left = own;
	__u32 piece = reserve->piece;
	__u32 start = reserve->grid_start;
	__u32 window;

	if (piece < PIECE_MIN || at_or_after(start, own.ack) || !at_or_after(reserve->grid_end, own.ack))
		return own;
	left.ack = start + (own.ack - start - 1) / piece * piece;
	if (!at_or_after(left.ack, floor))
		left.ack = floor;
	scale &= 15;
	if (at_or_after(left.ack, own.ack) || own.window << scale < WINDOW_SEGMENTS_MIN * piece)
		return own;
	window = own.window + ((own.ack - left.ack) >> scale);
	/* Neither beyond what the field can say, nor a unit that is more than a segment. */
	if (window > 0xffff || window == own.window)
		return own;
	left.window = window;
	return left;
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
	reserve->epoch_segments += segments;
	since = now - reserve->epoch_at_ns;
	if (epoch < EPOCH_NS_MIN)
		epoch = EPOCH_NS_MIN;
	if (epoch > EPOCH_NS_MAX)
		epoch = EPOCH_NS_MAX;
	if (since < epoch)
		return;
	shortest = reserve->rtt_min_ns;
	if (reserve->rtt_before_ns && reserve->rtt_before_ns < shortest)
		shortest = reserve->rtt_before_ns;
	least = rtt > shortest + shortest / QUEUE_SHARE ? QUEUED_SEGMENTS : BULK_SEGMENTS;
	reserve->bulk = since < 2 * epoch && reserve->epoch_segments >= least;
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

/*
 * What was stored before is seen by others before what is read after. As order_stores(), and where
 * the processor locks the addition, any will do.
 */
static __always_inline void order_all(struct reserve *reserve)
{
	if (settings.reorders_stores)
		asm volatile("r1 = %0\n"
			     "r2 = 1\n"
			     ".8byte 0x00000001000021c3\n"
			     :
			     : "r"(&reserve->turns)
			     : "r1", "r2", "memory");
	else
		__sync_fetch_and_add(&reserve->turns, 1);
}

static __always_inline __u64 quiet_ns(__u64 srtt)
{
	__u64 quiet = srtt + QUIET_NS;

	return quiet < QUIET_NS_MAX ? quiet : QUIET_NS_MAX;
}

/*
 * The timer: nothing was held back for a while, or the FH pauses. It runs again and again
 * while something is held, so that no packet has to set it anew.
 */
static int look_whether_it_pauses(void *map, struct flow *key, struct reserve *reserve)
{
	struct state *state = bpf_map_lookup_elem(&flows, key);
	__u64 quiet = quiet_ns(state ? state->srtt_ns : 0);
	__u64 now = bpf_ktime_get_ns();
	struct pause *pause;
	__u64 held_at;
	__u64 since;

	(void)map;
	reserve->armed = 0;
	/* What is held from here on sets the timer itself. */
	order_all(reserve);
	held_at = *(volatile __u64 *)&reserve->held_at_ns;
	if (!held_at || held_at == reserve->done_at_ns)
		return 0;
	since = now > held_at ? now - held_at : 0;
	if (since < quiet) {
		reserve->armed = 1;
		bpf_timer_start(&reserve->timer, quiet - since, 0);
		return 0;
	}
	reserve->let_go = reserve->held_ack;
	barrier();
	reserve->has_let_go = 1;
	reserve->bulk = 0;
	reserve->epoch_segments = 0;
	reserve->epoch_at_ns = now;
	/* What is held by then is not what was let go. */
	reserve->done_at_ns = held_at;
	count(LET_GO);
	pause = bpf_ringbuf_reserve(&pauses, sizeof(*pause), 0);
	if (!pause)
		return 0;
	__builtin_memcpy(&pause->flow, key, sizeof(*key));
	pause->ack = reserve->let_go;
	bpf_ringbuf_submit(pause, 0);
	return 0;
}

/* Whether it can be held: somebody has to let it go. */
static __always_inline int hold(struct reserve *reserve, __u32 ack, __u64 srtt, __u64 now)
{
	reserve->held_ack = ack;
	reserve->held_at_ns = now;
	/* The interpreter, where there is no compiler, has no callbacks. */
	if (!settings.has_timers)
		return 1;
	/* Either the timer sees what is held, or we that it is not set. */
	order_all(reserve);
	if (*(volatile __u32 *)&reserve->armed)
		return 1;
	reserve->armed = 1;
	/* It fails if there is one already. */
	bpf_timer_init(&reserve->timer, &reserves, CLOCK_OF_TIMERS);
	bpf_timer_set_callback(&reserve->timer, look_whether_it_pauses);
	if (!bpf_timer_start(&reserve->timer, quiet_ns(srtt), 0))
		return 1;
	/* The kernel has no room for it, for the moment. */
	reserve->armed = 0;
	reserve->held_at_ns = 0;
	return 0;
}

/* The fields of a segment that may leave changed, as they lie in the packet. */
struct fields {
	__u32 ack;
	__u32 window; /* in its first half */
	__u32 echo;
};

/* A number that begins at an odd place counts in the checksum with its bytes turned. */
static __always_inline __u32 turned(__u32 number, __u32 offset)
{
	return offset & 1 ? number << 8 | number >> 24 : number;
}

static __always_inline int store_fields(struct __sk_buff *skb, __u32 tcp, __u32 echo_at, const struct fields *from,
					const struct fields *to)
{
	struct fields is = *from;
	struct fields is_to = *to;
	__s64 difference;

	is.echo = turned(is.echo, echo_at);
	is_to.echo = turned(is_to.echo, echo_at);
	difference = bpf_csum_diff((__be32 *)&is, sizeof(is), (__be32 *)&is_to, sizeof(is_to), 0);
	/* None of them is part of the pseudo-header: see close_window(). */
	if (difference < 0 || bpf_l4_csum_replace(skb, tcp + CHECKSUM_OFFSET, 0, difference, 0))
		return 1;
	if (from->ack != to->ack && bpf_skb_store_bytes(skb, tcp + ACK_OFFSET, &to->ack, 4, 0))
		return 1;
	if (from->window != to->window && bpf_skb_store_bytes(skb, tcp + WINDOW_OFFSET, &to->window, 2, 0))
		return 1;
	if (from->echo != to->echo && bpf_skb_store_bytes(skb, tcp + TCP_HEADER_BYTES + echo_at, &to->echo, 4, 0))
		return 1;
	return 0;
}

static __always_inline const struct woken *woken_now(const struct flow *key, __u64 until, __u64 now)
{
	const struct woken *of;

	if (now >= until)
		return 0;
	of = bpf_map_lookup_elem(&woken, key);
	return of && now < of->until_ns ? of : 0;
}

/* The FH's clock now, less the way. */
static __always_inline __u32 fresh_echo(const struct woken *of, __u64 now)
{
	__u64 since = now > of->echo_at_ns ? now - of->echo_at_ns : 0;

	return of->echo + (__u32)(since * of->ticks_per_s / 1000000000ULL);
}

/* What nothing that leaves goes below. An old number that has turned over is no floor. */
static __always_inline __u32 floor_of(const struct reserve *reserve)
{
	__u32 floor = reserve->acked_out;

	if (*(volatile __u32 *)&reserve->has_let_go && reserve->let_go - floor < AHEAD_MAX)
		floor = reserve->let_go;
	return floor;
}

static __always_inline struct leaves decide(struct reserve *reserve, const struct state *state,
					    const struct segment *segment, const struct options *options, int ordered)
{
	struct leaves own = { .ack = segment->ack, .window = segment->window };
	struct leaves left = own;
	__u64 now = state->egress_at_ns;
	int missing = options->sack_blocks != 0;
	__u32 floor;

	if (!(reserve->out_facts & OUT_SEEN)) {
		reserve->acked_out = own.ack;
		reserve->out_facts |= OUT_SEEN;
		return own;
	}
	floor = floor_of(reserve);
	if (!at_or_after(own.ack, floor))
		return own; /* another one has overtaken it */
	if (reserve->in_facts & IN_GAP && !at_or_after(own.ack, reserve->beyond_gap))
		missing = 1;
	/* An answer's end: a new request, or a short segment, on which Nagle's rule may wait. */
	if (reserve->in_facts & IN_PUSHED && reserve->pushed_end == own.ack &&
	    (segment->payload || (own.ack - reserve->grid_start) % (reserve->piece ?: 1)))
		ordered = 0;
	if (segment->flags & FIN || state->fh_has_finished || state->facts & FACT_OPAQUE || state->mh_scale > SCALE_MAX)
		ordered = 0;
	if (ordered && reserve->bulk && !missing)
		left = lowered(own, state->mh_scale, floor, reserve);
	if (left.ack == own.ack)
		reserve->held_at_ns = 0;
	else if (!hold(reserve, own.ack, state->srtt_ns, now))
		left = own;
	reserve->acked_out = left.ack;
	return left;
}

/* A segment of the MH; `note_egress` has noted it, and its options are read. */
static __always_inline void reserve_egress(struct __sk_buff *skb, const struct packet *packet, const struct flow *key,
					   const struct segment *segment, const struct options *options,
					   const struct state *state, __u64 orders, __u64 woken_until)
{
	struct reserve *reserve = bpf_map_lookup_elem(&reserves, key);
	__u64 now = state->egress_at_ns;
	const struct woken *of;
	struct leaves left;
	struct fields from = {};
	struct fields to;

	if (!reserve || segment->flags & (SYN | RST) || !(segment->flags & ACK))
		return;
	of = woken_now(key, woken_until, now);
	/* An old number that has turned over is none. */
	if (of && (!reserve->has_let_go || of->let_go - reserve->let_go - 1 < AHEAD_MAX ||
		   reserve->let_go - of->let_go > AHEAD_MAX)) {
		reserve->let_go = of->let_go;
		reserve->has_let_go = 1;
		reserve->bulk = 0;
		reserve->epoch_segments = 0;
		reserve->epoch_at_ns = now;
	}
	left = decide(reserve, state, segment, options, now < orders);
	from.ack = bpf_htonl(segment->ack);
	from.window = bpf_htons(segment->window);
	from.echo = bpf_htonl(options->tsecr);
	to.ack = bpf_htonl(left.ack);
	to.window = bpf_htons(left.window);
	to.echo = from.echo;
	/* Opaque: signed, perhaps. */
	if (of && of->renews && !(state->facts & FACT_OPAQUE) && options->timestamps && at_or_after(of->stale, options->tsecr)) {
		to.echo = bpf_htonl(fresh_echo(of, bpf_ktime_get_boot_ns()));
		count(ECHO_RENEWED);
	}
	if (from.ack == to.ack && from.echo == to.echo)
		return;
	if (from.ack != to.ack)
		count(HELD_BACK);
	if (store_fields(skb, packet->upper_offset, options->echo_offset, &from, &to)) {
		/* As it was: what can be written once can be written again. */
		store_fields(skb, packet->upper_offset, options->echo_offset, &to, &from);
		reserve->acked_out = segment->ack;
		reserve->held_at_ns = 0;
		count(HELD_NOT);
	}
}

#endif
