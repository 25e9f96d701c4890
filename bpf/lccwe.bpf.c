// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control of LC and CWE: Reno at a mobile host that tells losses of
 * handoffs from congestion (Liao, Kao and Chien, 2005; docs/schemes/lc-cwe.md).
 *
 *  1. The daemon writes into the map `handoffs`, by interface, when a handoff begins
 *     and when it is over (CLOCK_MONOTONIC, as the kernel's own times of segments).
 *  2. The kernel finds a loss and asks `ssthresh`. The time at which the first
 *     segment outstanding was sent last is read from the retransmission queue;
 *     equations (1) and (2) make its PARP of it, and P_H and P_C the verdict.
 *     Congestion: half. A handoff: what it was.
 *  3. `set_state` tells a timeout from duplicate ACKs, which `ssthresh` is not told:
 *     the congestion history gets its sample there. The kernel has by then set cwnd
 *     for a timeout; if it was a handoff's, cwnd is put back.
 *  4. `min_tso_segs` is asked whenever the kernel is about to send: in the ambiguous
 *     period, with the usable window empty, table I is done there, once a handoff.
 *  5. At the end of a handoff nothing would be sent before an ACK or a timer, and
 *     neither comes: the iterator `nudge` makes each of our sockets try to send.
 *
 * Windows are otherwise Reno's, by the kernel's own functions. What each judgement
 * rested on goes into the ring `judgements`, for whoever reads it.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "lccwe.h"

/* Each program of BPF_PROG has a context that its body does not see. */
#pragma clang diagnostic ignored "-Wunused-parameter"

#define CA_NAME_BYTES 16
#define TCP_CONG_NON_RESTRICTED 1 /* may be a namespace's default, and anybody's */
#define HANDOFFS_MAX 64
#define RTX_DEPTH_MAX 40 /* a red-black tree of a million segments is not deeper */
#define MIN_TSO_SEGS 2	 /* net.ipv4.tcp_min_tso_segs */
#define GOES_ON (~0ULL)
#define RTO_US_MAX (120 * 1000 * 1000)

#define TCP_CA_CWR 2
#define TCP_CA_RECOVERY 3
#define TCP_CA_LOSS 4

#define TCP_INFINITE_SSTHRESH 0x7fffffff

#define SOL_TCP 6
#define TCP_NODELAY 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rb_node {
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct sk_buff {
	struct rb_node rbnode;
	__u64 skb_mstamp_ns;
};

struct net_device {
	int ifindex;
};

struct dst_entry {
	struct net_device *dev;
};

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	struct rb_root tcp_rtx_queue;
	struct dst_entry *sk_dst_cache;
};

struct inet_connection_sock {
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_backoff;
	__u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 srtt_us;
	__u32 mdev_us;
	__u32 rttvar_us;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
};

struct bpf_iter__tcp {
	struct sock_common *sk_common;
};

#pragma clang attribute pop

/* Only the members used; libbpf finds the kernel's by name. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	__u32 flags;
	char name[CA_NAME_BYTES];
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

/* The name under which it is registered: other ones may be there. */
const volatile char own_name[CA_NAME_BYTES];

struct handoff {
	__u64 start_ns;
	__u64 finish_ns; /* GOES_ON */
};

/* An interface: indices are a namespace's own. */
struct place {
	__u64 net_cookie;
	__u32 ifindex;
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HANDOFFS_MAX);
	__type(key, struct place);
	__type(value, struct handoff);
} handoffs SEC(".maps");

enum event_kind {
	JUDGED_TIMEOUT = 1,
	JUDGED_DUP_ACKS = 2,
	EXTRAPOLATED = 3,
};

/* One judgement or extrapolation, with all that it rested on. */
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
	__u8 congested;	   /* a loss since the handoff's begin was congestion's */
	__u8 extrapolated; /* the handoff has been made up for */
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

/* The interface that it sends by: that of its route, or of the last one it had. */
static __always_inline __u32 interface_of(struct sock *sk, struct memory *its)
{
	int ifindex = BPF_CORE_READ(sk, sk_dst_cache, dev, ifindex);

	if (ifindex > 0)
		its->ifindex = ifindex;
	return its->ifindex;
}

/* The last handoff of its interface; 0: there was none. */
static __always_inline int last_handoff(struct sock *sk, struct memory *its,
					struct handoff *handoff)
{
	struct place place = {
		.net_cookie = BPF_CORE_READ(sk, __sk_common.skc_net.net, net_cookie),
		.ifindex = interface_of(sk, its),
	};
	struct handoff *found = bpf_map_lookup_elem(&handoffs, &place);

	if (!found || found->start_ns == 0)
		return 0;
	*handoff = *found;
	if (handoff->start_ns != its->handoff_start_ns) {
		its->handoff_start_ns = handoff->start_ns;
		its->congested = 0;
		its->extrapolated = 0;
	}
	return 1;
}

static __always_inline __u32 srtt_us(struct sock *sk)
{
	return tcp_sk(sk)->srtt_us >> 3;
}

/* RFC 6298's RTTVAR: the kernel's `rttvar_us` is 4 of them, with the timeout's floor. */
static __always_inline __u32 rttvar_us(struct sock *sk)
{
	return tcp_sk(sk)->mdev_us >> 2;
}

static __always_inline int is_ambiguous(struct sock *sk, const struct handoff *handoff)
{
	__u64 now_ns = bpf_ktime_get_ns();

	return handoff->finish_ns <= now_ns &&
	       now_ns - handoff->finish_ns < (__u64)srtt_us(sk) * 1000;
}

/* When the first segment outstanding was sent last; 0: there is none. */
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

/* Why the first segment outstanding is lost. */
static __always_inline void judge(struct sock *sk, struct memory *its)
{
	struct handoff handoff;

	its->transmit_us = transmit_us(sk);
	its->p_handoff = 0;
	if (last_handoff(sk, its, &handoff))
		its->p_handoff = p_handoff(parp(its->transmit_us, srtt_us(sk), rttvar_us(sk)),
					   handoff.finish_ns / 1000);
	its->p_congestion = p_congestion(its->last_rtt_us, srtt_us(sk), its->alpha);
	its->verdict = BY_HANDOFF;
	if (its->p_congestion > its->p_handoff ||
	    (its->p_congestion == 0 && its->p_handoff == 0))
		its->verdict = BY_CONGESTION;
	if (its->verdict == BY_CONGESTION)
		its->congested = 1;
}

/* The congestion history, and the word of it. */
static __always_inline void note_judgement(struct sock *sk, struct memory *its,
					   enum event_kind kind)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct handoff handoff = {};
	int has_handoff = last_handoff(sk, its, &handoff);
	/* `icsk_rto` is in jiffies, whose length is not known here; it is made of this. */
	__u64 timeout_us = ((__u64)srtt_us(sk) + tp->rttvar_us)
			   << (tp->inet_conn.icsk_backoff & 31);
	__u32 rto_us = timeout_us > RTO_US_MAX ? RTO_US_MAX : timeout_us;
	__u32 value_us = kind == JUDGED_TIMEOUT ? rto_us : its->last_rtt_us;
	struct event *event = bpf_ringbuf_reserve(&judgements, sizeof(*event), 0);
	__u32 before = its->alpha;

	if (!has_handoff || !is_ambiguous(sk, &handoff))
		its->alpha = next_alpha(before, value_us, srtt_us(sk), HISTORY_WEIGHT);
	if (!event)
		return;
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->transmit_us = its->transmit_us;
	event->handoff_start_us = handoff.start_ns / 1000;
	event->handoff_finish_us = handoff.finish_ns / 1000;
	event->ack_interval_ns = its->ack_interval_ns;
	event->srtt_us = srtt_us(sk);
	event->rttvar_us = rttvar_us(sk);
	event->rtt_us = its->last_rtt_us;
	event->rto_us = rto_us;
	event->alpha_before = before;
	event->alpha_after = its->alpha;
	event->p_handoff = its->p_handoff;
	event->p_congestion = its->p_congestion;
	event->by_handoff = its->verdict == BY_HANDOFF;
	event->cwnd_before = its->kept_cwnd;
	event->ssthresh_before = its->kept_ssthresh;
	event->cwnd_after = tp->snd_cwnd;
	event->counted_after = tp->snd_cwnd_cnt;
	event->ssthresh_after = tp->snd_ssthresh;
	bpf_ringbuf_submit(event, 0);
}

SEC("struct_ops")
void BPF_PROG(lccwe_init, struct sock *sk)
{
	struct memory *its = memory_of(sk);

	__builtin_memset(its, 0, sizeof(*its));
	its->alpha = FIRST_HISTORY;
}

SEC("struct_ops")
__u32 BPF_PROG(lccwe_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct memory *its = memory_of(sk);

	judge(sk, its);
	if (its->verdict == BY_CONGESTION) {
		its->kept_cwnd = 0;
		return largest(tp->snd_cwnd >> 1, 2);
	}
	if (its->kept_cwnd == 0)
		its->kept_ssthresh = tp->snd_ssthresh;
	its->kept_cwnd = largest(its->kept_cwnd, tp->snd_cwnd);
	/* The end of a recovery makes cwnd of it. */
	return largest(its->kept_cwnd, 2);
}

SEC("struct_ops")
void BPF_PROG(lccwe_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct memory *its = memory_of(sk);

	if (new_state == TCP_CA_LOSS) {
		if (its->verdict == NOT_JUDGED) {
			/* Not the first timeout of a row: ssthresh was not asked. */
			judge(sk, its);
			if (its->verdict == BY_CONGESTION && its->kept_cwnd) {
				tp->snd_ssthresh = largest(its->kept_cwnd >> 1, 2);
				its->kept_cwnd = 0;
			}
		}
		if (its->verdict == BY_HANDOFF && !its->kept_cwnd &&
		    tp->snd_ssthresh < TCP_INFINITE_SSTHRESH) {
			/* In a recovery from congestion: what it would have ended with. */
			its->kept_cwnd = largest(tp->snd_ssthresh, 2);
			its->kept_ssthresh = tp->snd_ssthresh;
		}
		if (its->verdict == BY_HANDOFF && its->kept_cwnd)
			tp->snd_cwnd = its->kept_cwnd;
		note_judgement(sk, its, JUDGED_TIMEOUT);
	} else if (new_state == TCP_CA_RECOVERY && its->verdict != NOT_JUDGED) {
		note_judgement(sk, its, JUDGED_DUP_ACKS);
	} else if (new_state == TCP_CA_CWR && its->verdict == BY_HANDOFF) {
		/* ECN or the own queue: no loss, and no handoff either. */
		tp->snd_ssthresh = largest(tp->snd_cwnd >> 1, 2);
		its->kept_cwnd = 0;
	}
	its->verdict = NOT_JUDGED;
}

SEC("struct_ops")
void BPF_PROG(lccwe_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct memory *its = memory_of(sk);

	if (its->kept_cwnd && tp->inet_conn.icsk_ca_state < TCP_CA_CWR) {
		/* The recovery is over, and has made cwnd of ssthresh. */
		tp->snd_ssthresh = its->kept_ssthresh;
		its->kept_cwnd = 0;
	}
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(lccwe_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct memory *its = memory_of(sk);
	__u64 now_ns = bpf_ktime_get_ns();

	if (sample->rtt_us > 0)
		its->last_rtt_us = sample->rtt_us;
	if (sample->pkts_acked == 0)
		return;
	if (its->last_ack_ns)
		its->ack_interval_ns = next_ack_interval(
			its->ack_interval_ns, now_ns - its->last_ack_ns, INTERVAL_WEIGHT);
	its->last_ack_ns = now_ns;
}

static __always_inline void extrapolate(struct sock *sk, struct memory *its)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 in_flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
	struct handoff handoff;
	struct window window;
	struct event *event;

	if (in_flight < tp->snd_cwnd)
		return;
	if (!last_handoff(sk, its, &handoff) || !is_ambiguous(sk, &handoff))
		return;
	if (its->congested || its->extrapolated)
		return;
	its->extrapolated = 1;
	window.cwnd = tp->snd_cwnd;
	window.counted = tp->snd_cwnd_cnt;
	window.ssthresh = tp->snd_ssthresh;
	grow(&window, steps((handoff.finish_ns - handoff.start_ns) / 1000, srtt_us(sk),
			    its->ack_interval_ns));
	if (window.cwnd > tp->snd_cwnd_clamp)
		window.cwnd = tp->snd_cwnd_clamp;
	event = bpf_ringbuf_reserve(&judgements, sizeof(*event), 0);
	if (event) {
		__builtin_memset(event, 0, sizeof(*event));
		event->kind = EXTRAPOLATED;
		event->handoff_start_us = handoff.start_ns / 1000;
		event->handoff_finish_us = handoff.finish_ns / 1000;
		event->ack_interval_ns = its->ack_interval_ns;
		event->srtt_us = srtt_us(sk);
		event->alpha_before = event->alpha_after = its->alpha;
		event->cwnd_before = tp->snd_cwnd;
		event->counted_before = tp->snd_cwnd_cnt;
		event->ssthresh_before = tp->snd_ssthresh;
		event->cwnd_after = window.cwnd;
		event->counted_after = window.counted;
		event->ssthresh_after = window.ssthresh;
		bpf_ringbuf_submit(event, 0);
	}
	tp->snd_cwnd = window.cwnd;
	tp->snd_cwnd_cnt = window.counted;
	if (its->kept_cwnd)
		its->kept_cwnd = largest(its->kept_cwnd, window.cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(lccwe_min_tso_segs, struct sock *sk)
{
	struct memory *its = memory_of(sk);

	if (its->ack_interval_ns)
		extrapolate(sk, its);
	return MIN_TSO_SEGS;
}

SEC("struct_ops")
__u32 BPF_PROG(lccwe_undo_cwnd, struct sock *sk)
{
	struct memory *its = memory_of(sk);

	its->kept_cwnd = 0;
	return largest(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops lccwe_linked = {
	.ssthresh = (void *)lccwe_ssthresh,
	.cong_avoid = (void *)lccwe_cong_avoid,
	.set_state = (void *)lccwe_set_state,
	.pkts_acked = (void *)lccwe_pkts_acked,
	.min_tso_segs = (void *)lccwe_min_tso_segs,
	.undo_cwnd = (void *)lccwe_undo_cwnd,
	.init = (void *)lccwe_init,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "holdfast_lccwe",
};

/* For kernels without links of struct_ops (before 6.4). */
SEC(".struct_ops")
struct tcp_congestion_ops lccwe_unlinked = {
	.ssthresh = (void *)lccwe_ssthresh,
	.cong_avoid = (void *)lccwe_cong_avoid,
	.set_state = (void *)lccwe_set_state,
	.pkts_acked = (void *)lccwe_pkts_acked,
	.min_tso_segs = (void *)lccwe_min_tso_segs,
	.undo_cwnd = (void *)lccwe_undo_cwnd,
	.init = (void *)lccwe_init,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "holdfast_lccwe",
};

/*
 * Makes our sockets try to send: setting TCP_NODELAY does, and is taken back where the
 * application had not set it. Read for each end of a handoff, in the namespace of the
 * one who reads it.
 */
SEC("iter/tcp")
int nudge(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	char name[CA_NAME_BYTES] = {};
	struct tcp_sock *tp;
	int on = 1, was = 0;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	BPF_CORE_READ_INTO(&name, tp, inet_conn.icsk_ca_ops, name);
	for (int i = 0; i < CA_NAME_BYTES; i++)
		if (name[i] != own_name[i])
			return 0;
	if (bpf_getsockopt(tp, SOL_TCP, TCP_NODELAY, &was, sizeof(was)))
		return 0;
	bpf_setsockopt(tp, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!was)
		bpf_setsockopt(tp, SOL_TCP, TCP_NODELAY, &was, sizeof(was));
	return 0;
}

enum function {
	P_HANDOFF,
	P_CONGESTION,
	NEXT_ALPHA,
	NEXT_ACK_INTERVAL,
	STEPS,
	GROW,
};

/* One line of vectors.txt. */
struct vector {
	__u64 function;
	__u64 argument[4];
	__u64 result[2];
};

/* Tests run it (BPF_PROG_RUN); it is not loaded otherwise. */
SEC("syscall")
int vector(struct vector *its)
{
	__u64 a = its->argument[0], b = its->argument[1], c = its->argument[2],
	      d = its->argument[3];
	struct window window = { .cwnd = a, .counted = b, .ssthresh = c };

	its->result[1] = 0;
	switch (its->function) {
	case P_HANDOFF:
		its->result[0] = p_handoff(parp(a, b, c), d);
		return 0;
	case P_CONGESTION:
		its->result[0] = p_congestion(a, b, c);
		return 0;
	case NEXT_ALPHA:
		its->result[0] = next_alpha(a, b, c, d);
		return 0;
	case NEXT_ACK_INTERVAL:
		its->result[0] = next_ack_interval(a, b, c);
		return 0;
	case STEPS:
		its->result[0] = steps(a, b, c);
		return 0;
	case GROW:
		grow(&window, d);
		its->result[0] = window.cwnd;
		its->result[1] = window.counted;
		return 0;
	default:
		return 1;
	}
}

char LICENSE[] SEC("license") = "GPL";
