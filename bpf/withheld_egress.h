/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The withheld segment of `wake`, at egress. While a flow downloads in bulk, the ACKs that leave
 * acknowledge one segment of the FH less than the MH has.
 *
 *          bulk, nothing missing                the FH pauses (timer), something is missing,
 *  RELEASED ------------------------> WITHHELD  a FIN, no order of the daemon, link up
 *     ^                                 |
 *     +---------------------------------+
 *
 * No lock is needed. Ingress and egress each write their own part. The timer and a wake-up set
 * `released`, and no ACK below it leaves. All of them write `bulk` and the epoch: a race there
 * costs one round trip.
 *
 * The program that includes it has `settings.has_timers` and `settings.reorders_stores`, and
 * WITHHELD, NOT_WITHHELD, RELEASED and ECHO_RENEWED among its counters.
 */
#ifndef HOLDFAST_WITHHELD_EGRESS_H
#define HOLDFAST_WITHHELD_EGRESS_H

#include "withheld_ingress.h"

struct leaves {
	__u32 ack;
	__u32 window; /* not scaled */
};

/* Lowers the ACK number by one segment, if the window field can keep the right edge. */
static __always_inline struct leaves lowered(struct leaves own, __u32 scale, __u32 floor,
					     const struct withheld *withheld)
{
	struct leaves left = own;
	__u32 piece = withheld->piece;
	__u32 start = withheld->first_boundary;
	__u32 window;

	if (piece < PIECE_MIN || at_or_after(start, own.ack) || !at_or_after(withheld->last_boundary, own.ack))
		return own;
	left.ack = start + (own.ack - start - 1) / piece * piece;
	if (!at_or_after(left.ack, floor))
		left.ack = floor;
	scale &= 15;
	if (at_or_after(left.ack, own.ack) || own.window << scale < WINDOW_SEGMENTS_MIN * piece)
		return own;
	window = own.window + ((own.ack - left.ack) >> scale);
	/* Not if the field cannot hold it, or if its unit is more than a segment. */
	if (window > 0xffff || window == own.window)
		return own;
	left.window = window;
	return left;
}

/*
 * A full barrier: stores before it are seen before loads after it. The instruction is that of
 * order_stores(). On x86 any locked addition is such a barrier.
 */
static __always_inline void order_all(struct withheld *withheld)
{
	if (settings.reorders_stores)
		asm volatile("r1 = %0\n"
			     "r2 = 1\n"
			     ".8byte 0x00000001000021c3\n"
			     :
			     : "r"(&withheld->turns)
			     : "r1", "r2", "memory");
	else
		__sync_fetch_and_add(&withheld->turns, 1);
}

static __always_inline __u64 pause_after_ns(__u64 srtt)
{
	__u64 pause_after = srtt + PAUSE_MARGIN_NS;

	return pause_after < PAUSE_AFTER_NS_MAX ? pause_after : PAUSE_AFTER_NS_MAX;
}

/*
 * The timer. If no ACK was lowered for pause_after_ns(), the FH pauses: the segment is released.
 * Otherwise the timer starts itself anew, so that no packet has to start it.
 */
static int check_pause(void *map, struct flow *key, struct withheld *withheld)
{
	struct state *state = bpf_map_lookup_elem(&flows, key);
	__u64 pause_after = pause_after_ns(state ? state->srtt_ns : 0);
	__u64 now = bpf_ktime_get_ns();
	struct pause *pause;
	__u64 withheld_at;
	__u64 since;

	(void)map;
	withheld->armed = 0;
	/* A segment that is withheld from here on starts the timer. */
	order_all(withheld);
	withheld_at = *(volatile __u64 *)&withheld->withheld_at_ns;
	if (!withheld_at || withheld_at == withheld->done_at_ns)
		return 0;
	since = now > withheld_at ? now - withheld_at : 0;
	if (since < pause_after) {
		withheld->armed = 1;
		bpf_timer_start(&withheld->timer, pause_after - since, 0);
		return 0;
	}
	withheld->released = withheld->withheld_ack;
	barrier();
	withheld->has_released = 1;
	withheld->bulk = 0;
	withheld->epoch_segments = 0;
	withheld->epoch_at_ns = now;
	/* Egress may have withheld a newer one meanwhile: its withheld_at_ns differs. */
	withheld->done_at_ns = withheld_at;
	count(RELEASED);
	pause = bpf_ringbuf_reserve(&pauses, sizeof(*pause), 0);
	if (!pause)
		return 0;
	__builtin_memcpy(&pause->flow, key, sizeof(*key));
	pause->ack = withheld->released;
	bpf_ringbuf_submit(pause, 0);
	return 0;
}

/* Notes the withheld ACK, and starts the timer that releases it. 0: it cannot be withheld. */
static __always_inline int withhold(struct withheld *withheld, __u32 ack, __u64 srtt, __u64 now)
{
	withheld->withheld_ack = ack;
	withheld->withheld_at_ns = now;
	/* Without a compiler (JIT) there are no callbacks: the daemon checks for pauses. */
	if (!settings.has_timers)
		return 1;
	/* Either the timer sees withheld_at_ns, or this function sees that it is not armed. */
	order_all(withheld);
	if (*(volatile __u32 *)&withheld->armed)
		return 1;
	withheld->armed = 1;
	/* It fails if the timer is initialised already. */
	bpf_timer_init(&withheld->timer, &withheld_segments, CLOCK_OF_TIMERS);
	bpf_timer_set_callback(&withheld->timer, check_pause);
	if (!bpf_timer_start(&withheld->timer, pause_after_ns(srtt), 0))
		return 1;
	/* The kernel has no memory for the timer at this moment. */
	withheld->armed = 0;
	withheld->withheld_at_ns = 0;
	return 0;
}

/* The fields of a segment that egress may change, in network order. */
struct fields {
	__u32 ack;
	__u32 window; /* in its first two bytes */
	__u32 echo;
};

/* A field at an odd offset enters the checksum with its bytes swapped. */
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

/* The TSecr to send now: `woken->echo`, moved on by the FH's clock. */
static __always_inline __u32 fresh_echo(const struct woken *woken, __u64 now)
{
	__u64 since = now > woken->echo_at_ns ? now - woken->echo_at_ns : 0;

	return woken->echo + (__u32)(since * woken->ticks_per_s / 1000000000ULL);
}

/* No ACK below this leaves. A released number far ahead is old: the numbers have wrapped. */
static __always_inline __u32 floor_of(const struct withheld *withheld)
{
	__u32 floor = withheld->acked_out;

	if (*(volatile __u32 *)&withheld->has_released && withheld->released - floor < AHEAD_MAX)
		floor = withheld->released;
	return floor;
}

static __always_inline struct leaves decide(struct withheld *withheld, const struct state *state,
					    const struct segment *segment, const struct options *options, int ordered)
{
	struct leaves own = { .ack = segment->ack, .window = segment->window };
	struct leaves left = own;
	__u64 now = state->egress_at_ns;
	int missing = options->sack_blocks != 0;
	int answered = withheld->in_facts & IN_PUSHED && withheld->pushed_end == own.ack;
	__u32 floor;

	if (answered && segment->payload)
		withheld->requested_at_ns = now;
	if (!(withheld->out_facts & OUT_SEEN)) {
		withheld->acked_out = own.ack;
		withheld->out_facts |= OUT_SEEN;
		return own;
	}
	floor = floor_of(withheld);
	if (!at_or_after(own.ack, floor))
		return own; /* a newer ACK has left before it */
	if (withheld->in_facts & IN_GAP && !at_or_after(own.ack, withheld->beyond_gap))
		missing = 1;
	/* Not at an answer's end: this is a new request, or Nagle's rule may wait for this ACK. */
	if (answered && (segment->payload || (own.ack - withheld->first_boundary) % (withheld->piece ?: 1)))
		ordered = 0;
	if (segment->flags & FIN || state->fh_has_finished || state->facts & FACT_OPAQUE || state->mh_scale > SCALE_MAX)
		ordered = 0;
	/* Without SACK the recovery after a wake-up is very slow: docs/schemes/wake.md. */
	if (!(state->facts & FACT_SACK))
		ordered = 0;
	if (ordered && withheld->bulk && !missing)
		left = lowered(own, state->mh_scale, floor, withheld);
	if (left.ack == own.ack)
		withheld->withheld_at_ns = 0;
	else if (!withhold(withheld, own.ack, state->srtt_ns, now))
		left = own;
	withheld->acked_out = left.ack;
	return left;
}

/* Handles a segment of the MH that note_egress() has noted. */
static __always_inline void withheld_egress(struct __sk_buff *skb, const struct packet *packet, const struct flow *key,
					    const struct segment *segment, const struct options *options,
					    const struct state *state, __u64 orders, __u64 woken_until)
{
	struct withheld *withheld = bpf_map_lookup_elem(&withheld_segments, key);
	__u64 now = state->egress_at_ns;
	const struct woken *woken;
	struct leaves left;
	struct fields from = {};
	struct fields to;

	if (!withheld || segment->flags & (SYN | RST) || !(segment->flags & ACK))
		return;
	if (segment->payload)
		withheld->upload_at_ns = now;
	woken = woken_now(key, woken_until, now);
	/* Not if withheld->released is as new. One far ahead is old: the numbers have wrapped. */
	if (woken && (!withheld->has_released || woken->released - withheld->released - 1 < AHEAD_MAX ||
		      withheld->released - woken->released > AHEAD_MAX)) {
		withheld->released = woken->released;
		withheld->has_released = 1;
		withheld->withheld_at_ns = 0;
		withheld->bulk = 0;
		withheld->epoch_segments = 0;
		withheld->epoch_at_ns = now;
	}
	left = decide(withheld, state, segment, options, now < orders);
	from.ack = bpf_htonl(segment->ack);
	from.window = bpf_htons(segment->window);
	from.echo = bpf_htonl(options->tsecr);
	to.ack = bpf_htonl(left.ack);
	to.window = bpf_htons(left.window);
	to.echo = from.echo;
	/* An opaque segment may be signed: it leaves unchanged. */
	if (woken && woken->renews && !(state->facts & FACT_OPAQUE) && options->timestamps &&
	    at_or_after(woken->stale, options->tsecr)) {
		to.echo = bpf_htonl(fresh_echo(woken, bpf_ktime_get_boot_ns()));
		count(ECHO_RENEWED);
	}
	if (from.ack == to.ack && from.echo == to.echo)
		return;
	if (from.ack != to.ack)
		count(WITHHELD);
	if (store_fields(skb, packet->upper_offset, options->echo_offset, &from, &to)) {
		/* Undo: what could be written once can be written a second time. */
		store_fields(skb, packet->upper_offset, options->echo_offset, &to, &from);
		withheld->acked_out = segment->ack;
		withheld->withheld_at_ns = 0;
		count(NOT_WITHHELD);
	}
}

#endif
