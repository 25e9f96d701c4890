/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The record of each flow. Egress notes the MH's segments in it, ingress the FH's.
 *
 * The program that includes it has `settings.link_header_bytes` and `settings.reorders_stores`,
 * and NOTED_EGRESS, NOTED_INGRESS and NOT_CREDIBLE among its counters.
 */
#ifndef HOLDFAST_NOTED_H
#define HOLDFAST_NOTED_H

#include "quick.h"

#define LINK_HEADER_BYTES_MAX 14
/* An ACK number further below SND.NXT is not of this connection. */
#define SEQUENCE_REACH (1 << 30)

/* The FH may send this many bytes in order until fits() checks a segment again. */
#define UNCHECKED_MAX (1 << 18)

/* A measurement without an answer within this time gives no sample, and begins anew. */
#define TIMED_NS_MAX 10000000000ULL

/* Facts of a flow; shared with crates/net/src/mobile_path/record.rs. */
#define FACT_V6 0x01
#define FACT_OPAQUE 0x02 /* it has options that a made ACK would lack */
#define FACT_SACK 0x04 /* both ends permit it (RFC 2018), or it was seen */
#define FACT_OPEN 0x40 /* the MH has sent an ACK that is not a SYN */
#define FACT_TIMESTAMPS 0x80

/*
 * The record of a flow; shared with crates/net/src/mobile_path/record.rs.
 *
 * Its parts are cache lines, since the two directions of a flow often run on two processors. In
 * the map 88 bytes precede it, the kernel's and the key, which every lookup reads.
 *
 * For each ACK egress writes `ended`, then the fields, then `begun`. SACK blocks have their own
 * pair. If a reader reads front to back and finds both equal, the fields are of one ACK. That
 * holds if the processor keeps the order of stores. For other processors see order_stores().
 */
struct state {
	/* Both directions; seldom written. */
	__u32 facts;
	__u32 mh_scale; /* final before the first ACK */
	__u32 fh_has_finished;
	__u32 timed_tsval;
	__u32 timed_seq;
	__u32 unused;
	__u64 tsval_timed_at_ns;
	__u64 seq_timed_at_ns;

	/* Egress, with each ACK. */
	__u32 begun;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 tsval;
	__u32 tsecr;
	__u16 window; /* as it stands in the header */
	__u8 sack_blocks;
	__u8 traffic_class;
	__u64 egress_at_ns;
	__u64 link[2]; /* the link layer's header */
	__u32 unused_out[2];
	__u32 orders; /* for order_stores() alone */
	__u32 ended;

	/* Ingress. */
	__u64 ingress_at_ns; /* time of the FH's newest segment */
	__u64 data_at_ns; /* time of the FH's newest payload */
	__u64 rtt_at_ns;
	__u64 rtt_ns;
	__u64 srtt_ns; /* RFC 6298 */
	__u32 fh_tsval;
	__u32 fh_nxt;
	__u32 fh_ack; /* SEG.ACK of its newest segment */
	__u32 fh_checked; /* the end of the newest segment that was checked */
	__u32 unused_in[2];

	/* Egress, with each ACK that has blocks: `sack_begun` is then the ACK's `begun`. */
	__u32 sack_begun;
	__u32 sack[2 * SACK_BLOCKS_MAX];
	__u32 sack_ended;
	__u64 unused_sack[3];
};

_Static_assert(sizeof(struct flow) == 36 && sizeof(struct state) == 232, "as in record.rs");
_Static_assert(__builtin_offsetof(struct state, begun) == 40 && __builtin_offsetof(struct state, link) == 72 &&
		       __builtin_offsetof(struct state, ingress_at_ns) == 104 &&
		       __builtin_offsetof(struct state, fh_ack) == 152 &&
		       __builtin_offsetof(struct state, sack_begun) == 168,
	       "as in record.rs");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* replaced before loading */
	__type(key, struct flow);
	__type(value, struct state);
} flows SEC(".maps");

/* An empty record; too large for the stack. */
const volatile struct state fresh SEC(".rodata.fresh") = { .mh_scale = SCALE_UNKNOWN };

/* Reads the fields of a packet at egress that quick_read() reads too. */
static __always_inline void read_outer(struct __sk_buff *skb, struct outer *outer)
{
	__u8 start[2] = {};

	bpf_skb_load_bytes(skb, settings.link_header_bytes, start, sizeof(start));
	/* In IPv6 it lies across the first two bytes. */
	outer->traffic_class = start[0] >> 4 == 4 ? start[1] : (start[0] << 4 | start[1] >> 4) & 0xff;
	outer->link[0] = outer->link[1] = 0;
	if (settings.link_header_bytes == LINK_HEADER_BYTES_MAX)
		bpf_skb_load_bytes(skb, 0, outer->link, LINK_HEADER_BYTES_MAX);
}

/*
 * A barrier: stores before it are seen before stores after it. If the processor needs one, it is
 * w2 = atomic_fetch_add((u32 *)(r1 + 0), w2), which the kernel makes a full barrier. It is
 * written in bytes: compiled for the instruction set that has it (v3), the whole program would
 * take the verifier ten times as long.
 */
static __always_inline void order_stores(struct state *state)
{
	barrier();
	if (settings.reorders_stores)
		asm volatile("r1 = %0\n"
			     "r2 = 1\n"
			     ".8byte 0x00000001000021c3\n"
			     :
			     : "r"(&state->orders)
			     : "r1", "r2", "memory");
}

static __always_inline void sample(struct state *state, __u64 rtt_ns, __u64 now)
{
	if (!state->srtt_ns)
		state->srtt_ns = rtt_ns;
	else
		state->srtt_ns += rtt_ns / 8 - state->srtt_ns / 8;
	state->rtt_ns = rtt_ns;
	state->rtt_at_ns = now;
}

/* The flow's entry, made if it is missing. A SYN of a new connection replaces it. */
static __always_inline struct state *enter(const struct flow *key, const struct packet *packet,
					   const struct segment *segment)
{
	struct state *state = bpf_map_lookup_elem(&flows, key);
	int again = state && segment->flags & SYN && state->snd_nxt == segment->seq + 1;

	if (state && (!(segment->flags & SYN) || again))
		return state;
	if (bpf_map_update_elem(&flows, key, (const void *)&fresh, BPF_ANY))
		return 0;
	state = bpf_map_lookup_elem(&flows, key);
	if (!state)
		return 0;
	state->facts = packet->version == 6 ? FACT_V6 : 0;
	state->snd_nxt = segment->seq;
	state->rcv_nxt = segment->ack;
	return state;
}

static __always_inline void add_facts(struct state *state, __u32 facts)
{
	if ((state->facts & facts) != facts)
		state->facts |= facts;
}

/* Starts measurements of a round trip: by timestamp, and by sequence number. */
static __always_inline void time_egress(struct state *state, const struct segment *segment,
					const struct options *options, __u32 length, __u64 now)
{
	if (options->timestamps) {
		/* Only the first segment with this TSval: the FH may answer the first one. */
		int first = options->tsval != state->tsval || !(state->facts & FACT_TIMESTAMPS);
		int idle = !state->tsval_timed_at_ns || now - state->tsval_timed_at_ns > TIMED_NS_MAX;

		if (first && idle) {
			state->timed_tsval = options->tsval;
			state->tsval_timed_at_ns = now;
		}
		add_facts(state, FACT_TIMESTAMPS);
	}
	if (!length)
		return;
	if (segment->seq != state->snd_nxt) {
		/* Retransmitted: its ACK gives no round trip (Karn). */
		if (state->seq_timed_at_ns)
			state->seq_timed_at_ns = 0;
	} else if (!state->seq_timed_at_ns || now - state->seq_timed_at_ns > TIMED_NS_MAX) {
		state->timed_seq = segment->seq + length;
		state->seq_timed_at_ns = now;
	}
}

static __always_inline void note_sack(struct state *state, const struct options *options, __u32 turn)
{
	state->sack_ended = turn;
	order_stores(state);
#pragma unroll
	for (int i = 0; i < 2 * SACK_BLOCKS_MAX; i++)
		state->sack[i] = options->sack[i];
	order_stores(state);
	state->sack_begun = turn;
}

static __always_inline void note_ack(struct state *state, const struct segment *segment, const struct options *options,
				     const struct outer *outer, __u32 end)
{
	__u32 turn = state->ended + 1;

	state->ended = turn;
	order_stores(state);
	if (at_or_after(end, state->snd_nxt))
		state->snd_nxt = end;
	state->rcv_nxt = segment->ack;
	state->window = segment->window;
	if (options->timestamps) {
		state->tsval = options->tsval;
		state->tsecr = options->tsecr;
	}
	state->sack_blocks = options->sack_blocks;
	state->traffic_class = outer->traffic_class;
	if (options->sack_blocks)
		note_sack(state, options, turn);
	state->link[0] = outer->link[0];
	state->link[1] = outer->link[1];
	order_stores(state);
	state->begun = turn;
}

static __always_inline void note_egress(struct state *state, const struct segment *segment,
					const struct options *options, const struct outer *outer)
{
	__u32 length = segment->payload + !!(segment->flags & SYN) + !!(segment->flags & FIN);
	__u64 now = bpf_ktime_get_ns();

	time_egress(state, segment, options, length, now);
	if (segment->flags & SYN) {
		state->mh_scale = options->scale == SCALE_UNKNOWN ? 0 : options->scale;
		state->snd_nxt = segment->seq + length;
		state->tsval = options->tsval;
		if (options->permits_sack)
			add_facts(state, FACT_SACK);
	} else {
		if (options->others)
			add_facts(state, FACT_OPAQUE);
		if (options->sack_blocks)
			add_facts(state, FACT_SACK);
		if (segment->flags & ACK) {
			/* A newer ACK may have been noted on another processor. */
			if (!(state->facts & FACT_OPEN) || at_or_after(segment->ack, state->rcv_nxt))
				note_ack(state, segment, options, outer, segment->seq + length);
			add_facts(state, FACT_OPEN);
		}
	}
	state->egress_at_ns = now;
	count(NOTED_EGRESS);
}

/*
 * Whether the numbers fit an established connection. An off-path sender would have to guess them
 * (RFC 9293, 3.10.7.4; RFC 5961). The ACK bit is not needed: compressed segments lack it.
 */
static __always_inline int fits(const struct state *state, const struct segment *segment, __u32 end)
{
	__u32 shift = state->mh_scale == SCALE_UNKNOWN ? SCALE_MAX : state->mh_scale;
	__s32 window = state->window << (shift & 15);

	if (!(state->facts & FACT_OPEN) || segment->flags & SYN)
		return 0;
	if (at_or_after(segment->ack, state->snd_nxt + 1) ||
	    !at_or_after(segment->ack, state->snd_nxt - SEQUENCE_REACH))
		return 0;
	/* The FH's retransmissions lie below RCV.NXT, by a window at most. */
	return (__s32)(segment->seq - state->rcv_nxt) <= window + (1 << 16) &&
	       (__s32)(end - state->rcv_nxt) >= -(window + (1 << 16));
}

/*
 * Whether it follows a believed segment in order, with the same ACK: its sender knows both numbers.
 * So the fields that egress writes need not be read for each segment.
 */
static __always_inline int continues(const struct state *state, const struct segment *segment, __u32 end)
{
	return (segment->flags & (SYN | ACK)) == ACK && segment->seq == state->fh_nxt &&
	       segment->ack == state->fh_ack && end - state->fh_checked <= UNCHECKED_MAX && state->ingress_at_ns &&
	       state->facts & FACT_OPEN;
}

/* Whether the numbers of the segment are believed. */
static __always_inline int credible(struct state *state, const struct segment *segment, __u32 end)
{
	if (continues(state, segment, end))
		return 1;
	if (!(segment->flags & ACK))
		return 0;
	if (segment->flags & SYN) {
		if (state->facts & FACT_OPEN || segment->ack != state->snd_nxt)
			return 0;
	} else if (!fits(state, segment, end)) {
		return 0;
	}
	state->fh_checked = end;
	return 1;
}

static __always_inline void time_ingress(struct state *state, const struct segment *segment,
					 const struct options *options, __u64 now)
{
	__u64 gap = now - state->ingress_at_ns;
	__u64 rtt = 0;

	if (state->seq_timed_at_ns && at_or_after(segment->ack, state->timed_seq)) {
		rtt = now - state->seq_timed_at_ns;
		state->seq_timed_at_ns = 0;
	}
	if (state->tsval_timed_at_ns && options->timestamps && at_or_after(options->tsecr, state->timed_tsval) &&
	    at_or_after(state->tsval, options->tsecr)) {
		__u64 since = now - state->tsval_timed_at_ns;

		/* No sample if half of that time was a gap: the FH may have had nothing to send. */
		if (!rtt && (gap < since / 2 || since < state->srtt_ns))
			rtt = since;
		state->tsval_timed_at_ns = 0;
	}
	/* An outage is no round trip. */
	if (rtt > TIMED_NS_MAX)
		rtt = 0;
	if (rtt)
		sample(state, rtt, now);
}

/* Notes the segment if it is credible; whether it was. */
static __always_inline int note_ingress(struct state *state, const struct segment *segment,
					const struct options *options)
{
	__u32 end = segment->seq + segment->payload + !!(segment->flags & SYN) + !!(segment->flags & FIN);
	__u64 now;

	if (!credible(state, segment, end)) {
		count(NOT_CREDIBLE);
		return 0;
	}
	now = bpf_ktime_get_ns();
	time_ingress(state, segment, options, now);
	if (segment->flags & SYN) {
		/* Both ends scale, or neither does (RFC 7323, 2.2). */
		if (options->scale == SCALE_UNKNOWN)
			state->mh_scale = 0;
		/* The same for timestamps (3.2). */
		if (!options->timestamps)
			state->facts &= ~FACT_TIMESTAMPS;
		if (!options->permits_sack)
			state->facts &= ~FACT_SACK;
		state->fh_nxt = end;
	} else if (at_or_after(end, state->fh_nxt) || !state->ingress_at_ns) {
		state->fh_nxt = end;
	}
	if (options->timestamps)
		state->fh_tsval = options->tsval;
	state->fh_ack = segment->ack;
	if (segment->flags & FIN)
		state->fh_has_finished = 1;
	state->ingress_at_ns = now;
	if (segment->payload)
		state->data_at_ns = now;
	count(NOTED_INGRESS);
	return 1;
}

#endif
