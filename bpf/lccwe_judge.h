/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What lccwe.bpf.c knows of handoffs, what a socket remembers, and its verdict on a
 * loss.
 */
#ifndef HOLDFAST_LCCWE_JUDGE_H
#define HOLDFAST_LCCWE_JUDGE_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "lccwe.h"
#include "lccwe_kernel.h"

#define HANDOFFS_MAX 1024
#define RTX_DEPTH_MAX 40 /* a red-black tree of a million segments is not deeper */
#define GOES_ON (~0ULL)
/* A handoff is over after this time: its owner may have died without reporting the end. */
#define HANDOFF_NS_MAX (60ULL * 1000 * 1000 * 1000)
#define RTO_US_MAX (120 * 1000 * 1000)

struct handoff {
	__u64 start_ns;
	__u64 finish_ns; /* GOES_ON: not over yet */
};

/* An interface: each namespace has its own indices. */
struct interface_key {
	__u64 net_cookie;
	__u32 ifindex;
	__u32 zero;
};

/*
 * Handoffs belong to interfaces, not to owners. The loader reuses an existing map, so that sockets
 * of a former owner see the handoffs of its successor. crates/net/src/lccwe.rs finds the map by
 * its name. An evicted handoff counts as none.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HANDOFFS_MAX);
	__type(key, struct interface_key);
	__type(value, struct handoff);
} lccwe_handoffs SEC(".maps");

enum event_kind {
	JUDGED_TIMEOUT = 1,
	JUDGED_DUP_ACKS = 2,
	EXTRAPOLATED = 3,
};

/* One judgement or extrapolation, with its data. */
struct event {
	__u64 transmit_us;
	__u64 handoff_start_us;
	__u64 handoff_finish_us;
	__u64 ack_interval_ns;
	__u32 kind;
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 rtt_us;
	__u32 rto_us;
	__u32 alpha_before;
	__u32 alpha_after;
	__u32 p_handoff;
	__u32 p_congestion;
	__u32 by_handoff;
	__u32 cwnd_before;
	__u32 counted_before;
	__u32 ssthresh_before;
	__u32 cwnd_after;
	__u32 counted_after;
	__u32 ssthresh_after;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} judgements SEC(".maps");

enum verdict {
	NOT_JUDGED,
	BY_CONGESTION,
	BY_HANDOFF,
};

/* What a socket remembers: in icsk_ca_priv, 104 bytes. */
struct memory {
	__u64 last_ack_ns;
	__u64 ack_interval_ns;
	__u64 handoff_start_ns; /* of the handoff that the flags are about */
	__u64 transmit_us;
	__u32 alpha;
	__u32 last_rtt_us;
	__u32 p_handoff;
	__u32 p_congestion;
	__u32 kept_cwnd; /* 0: nothing kept */
	__u32 kept_ssthresh;
	__u32 ifindex;
	__u8 verdict;
	__u8 congested; /* a loss since the handoff's begin was congestion's */
	__u8 extrapolated; /* table I was applied for the handoff */
};

_Static_assert(sizeof(struct memory) <= 104, "icsk_ca_priv");

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct memory *memory_of(struct sock *sk)
{
	return (struct memory *)tcp_sk(sk)->inet_conn.icsk_ca_priv;
}

static __always_inline __u32 largest(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

/* The interface of the socket's route, or of its last route if it has none now. */
static __always_inline __u32 interface_of(struct sock *sk, struct memory *memory)
{
	int ifindex = BPF_CORE_READ(sk, sk_dst_cache, dev, ifindex);

	if (ifindex > 0)
		memory->ifindex = ifindex;
	return memory->ifindex;
}

/* The last handoff of the socket's interface; 0: there was none. */
static __always_inline int last_handoff(struct sock *sk, struct memory *memory, struct handoff *handoff)
{
	struct interface_key key = {
		.net_cookie = BPF_CORE_READ(sk, __sk_common.skc_net.net, net_cookie),
		.ifindex = interface_of(sk, memory),
	};
	struct handoff *found = bpf_map_lookup_elem(&lccwe_handoffs, &key);

	if (!found || found->start_ns == 0)
		return 0;
	*handoff = *found;
	if (handoff->finish_ns == GOES_ON && bpf_ktime_get_ns() - handoff->start_ns > HANDOFF_NS_MAX)
		handoff->finish_ns = handoff->start_ns + HANDOFF_NS_MAX;
	if (handoff->start_ns != memory->handoff_start_ns) {
		memory->handoff_start_ns = handoff->start_ns;
		memory->congested = 0;
		memory->extrapolated = 0;
	}
	return 1;
}

static __always_inline __u32 srtt_us(struct sock *sk)
{
	return tcp_sk(sk)->srtt_us >> 3;
}

/* RFC 6298's RTTVAR. The kernel's `rttvar_us` is 4 times that, not below the timeout's floor. */
static __always_inline __u32 rttvar_us(struct sock *sk)
{
	return tcp_sk(sk)->mdev_us >> 2;
}

static __always_inline int is_ambiguous(struct sock *sk, const struct handoff *handoff)
{
	__u64 now_ns = bpf_ktime_get_ns();

	return handoff->finish_ns <= now_ns && now_ns - handoff->finish_ns < (__u64)srtt_us(sk) * 1000;
}

/* When the first segment in flight was last sent; 0: none is in flight. */
static __always_inline __u64 transmit_us(struct sock *sk)
{
	struct rb_node *node = BPF_CORE_READ(sk, tcp_rtx_queue.rb_node);
	struct sk_buff *skb;

	if (!node)
		return 0;
	for (int depth = 0; depth < RTX_DEPTH_MAX; depth++) {
		struct rb_node *left = BPF_CORE_READ(node, rb_left);

		if (!left)
			break;
		node = left;
	}
	skb = (void *)node - bpf_core_field_offset(struct sk_buff, rbnode);
	return BPF_CORE_READ(skb, skb_mstamp_ns) / 1000;
}

/* Judges why the first segment in flight was lost. */
static __always_inline void judge(struct sock *sk, struct memory *memory)
{
	struct handoff handoff;

	memory->transmit_us = transmit_us(sk);
	memory->p_handoff = 0;
	if (last_handoff(sk, memory, &handoff))
		memory->p_handoff =
			p_handoff(parp(memory->transmit_us, srtt_us(sk), rttvar_us(sk)), handoff.finish_ns / 1000);
	memory->p_congestion = p_congestion(memory->last_rtt_us, srtt_us(sk), memory->alpha);
	memory->verdict = BY_HANDOFF;
	if (memory->p_congestion > memory->p_handoff || (memory->p_congestion == 0 && memory->p_handoff == 0))
		memory->verdict = BY_CONGESTION;
	if (memory->verdict == BY_CONGESTION)
		memory->congested = 1;
}

/* Updates the congestion history, and reports the judgement. */
static __always_inline void note_judgement(struct sock *sk, struct memory *memory, enum event_kind kind)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct handoff handoff = {};
	int has_handoff = last_handoff(sk, memory, &handoff);
	/* `icsk_rto` is in jiffies of unknown length. The kernel computes it from this sum. */
	__u64 timeout_us = ((__u64)srtt_us(sk) + tp->rttvar_us) << (tp->inet_conn.icsk_backoff & 31);
	__u32 rto_us = timeout_us > RTO_US_MAX ? RTO_US_MAX : timeout_us;
	__u32 value_us = kind == JUDGED_TIMEOUT ? rto_us : memory->last_rtt_us;
	struct event *event = bpf_ringbuf_reserve(&judgements, sizeof(*event), 0);
	__u32 before = memory->alpha;

	if (!has_handoff || !is_ambiguous(sk, &handoff))
		memory->alpha = next_alpha(before, value_us, srtt_us(sk), HISTORY_WEIGHT);
	if (!event)
		return;
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->transmit_us = memory->transmit_us;
	event->handoff_start_us = handoff.start_ns / 1000;
	event->handoff_finish_us = handoff.finish_ns / 1000;
	event->ack_interval_ns = memory->ack_interval_ns;
	event->srtt_us = srtt_us(sk);
	event->rttvar_us = rttvar_us(sk);
	event->rtt_us = memory->last_rtt_us;
	event->rto_us = rto_us;
	event->alpha_before = before;
	event->alpha_after = memory->alpha;
	event->p_handoff = memory->p_handoff;
	event->p_congestion = memory->p_congestion;
	event->by_handoff = memory->verdict == BY_HANDOFF;
	event->cwnd_before = memory->kept_cwnd;
	event->ssthresh_before = memory->kept_ssthresh;
	event->cwnd_after = tp->snd_cwnd;
	event->counted_after = tp->snd_cwnd_cnt;
	event->ssthresh_after = tp->snd_ssthresh;
	bpf_ringbuf_submit(event, 0);
}

#endif
