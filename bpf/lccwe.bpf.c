// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control of LC and CWE: Reno at a mobile host that separates losses of
 * handoffs from congestion (Liao, Kao and Chien, 2005; docs/schemes/lc-cwe.md).
 *
 *  1. The daemon writes into the map `lccwe_handoffs`, by interface, when a handoff begins
 *     and when it is over (CLOCK_MONOTONIC, as the kernel's own times of segments).
 *  2. The kernel finds a loss and calls `ssthresh`. The retransmission queue has the time at which
 *     the first segment in flight was last sent. Equations (1) and (2) compute the PARP from it,
 *     and P_H and P_C give the verdict. Congestion: half the window. A handoff: the same window.
 *  3. `set_state`, unlike `ssthresh`, sees whether there was a timeout or duplicate ACKs. So it
 *     adds the sample to the congestion history. At a timeout the kernel has reduced cwnd by then.
 *     If a handoff caused the timeout, cwnd is restored.
 *  4. `min_tso_segs` is called whenever the kernel is about to send. In the ambiguous period, with
 *     the usable window empty, it applies table I, once for each handoff.
 *  5. At the end of a handoff the kernel would send nothing before an ACK or a timer, and neither
 *     comes. So the iterator `nudge` makes each of our sockets try to send.
 *
 * Otherwise windows are Reno's, by the kernel's own functions. The ring `judgements` gets the data
 * of each judgement.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "lccwe_judge.h"

/* Each program of BPF_PROG has a context that its body does not see. */
#pragma clang diagnostic ignored "-Wunused-parameter"

#define MIN_TSO_SEGS 2 /* net.ipv4.tcp_min_tso_segs */

/* The name under which it is registered. Others may be registered under other names. */
const volatile char own_name[CA_NAME_BYTES];

static __always_inline __u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

SEC("struct_ops")
void BPF_PROG(lccwe_init, struct sock *sk)
{
	struct memory *memory = memory_of(sk);

	__builtin_memset(memory, 0, sizeof(*memory));
	memory->alpha = FIRST_HISTORY;
}

SEC("struct_ops")
__u32 BPF_PROG(lccwe_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct memory *memory = memory_of(sk);

	judge(sk, memory);
	if (memory->verdict == BY_CONGESTION) {
		memory->kept_cwnd = 0;
		return largest(tp->snd_cwnd >> 1, 2);
	}
	if (memory->kept_cwnd == 0)
		memory->kept_ssthresh = tp->snd_ssthresh;
	memory->kept_cwnd = largest(memory->kept_cwnd, tp->snd_cwnd);
	/* At the end of a recovery the kernel sets cwnd to this. */
	return largest(memory->kept_cwnd, 2);
}

SEC("struct_ops")
void BPF_PROG(lccwe_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct memory *memory = memory_of(sk);

	if (new_state == TCP_CA_LOSS) {
		/*
		 * A timeout after CWR: undo_marker is 0, and cwnd is one more than is in flight. A
		 * smaller path MTU (tcp_simple_retransmit) clears undo_marker too, but it is no loss
		 * and leaves cwnd.
		 */
		if (memory->verdict == NOT_JUDGED && !tp->undo_marker && tp->snd_cwnd != packets_in_flight(tp) + 1)
			return;
		if (memory->verdict == NOT_JUDGED) {
			/* A further timeout in a row: the kernel has not called ssthresh. */
			judge(sk, memory);
			if (memory->verdict == BY_CONGESTION && memory->kept_cwnd) {
				tp->snd_ssthresh = largest(memory->kept_cwnd >> 1, 2);
				memory->kept_cwnd = 0;
			}
		}
		if (memory->verdict == BY_HANDOFF && !memory->kept_cwnd &&
		    (tp->inet_conn.icsk_ca_state == TCP_CA_RECOVERY || tp->inet_conn.icsk_ca_state == TCP_CA_CWR) &&
		    tp->snd_ssthresh < TCP_INFINITE_SSTHRESH) {
			/* In a reduction by congestion: keep the window that it would end with. */
			memory->kept_cwnd = largest(tp->snd_ssthresh, 2);
			memory->kept_ssthresh = tp->snd_ssthresh;
		}
		if (memory->verdict == BY_HANDOFF && memory->kept_cwnd)
			tp->snd_cwnd = memory->kept_cwnd;
		note_judgement(sk, memory, JUDGED_TIMEOUT);
	} else if (new_state == TCP_CA_RECOVERY && memory->verdict != NOT_JUDGED) {
		note_judgement(sk, memory, JUDGED_DUP_ACKS);
	} else if (new_state == TCP_CA_CWR && memory->verdict == BY_HANDOFF) {
		/* ECN or the local queue: no loss, so no handoff caused it. */
		tp->snd_ssthresh = largest(tp->snd_cwnd >> 1, 2);
		memory->kept_cwnd = 0;
		memory->congested = 1;
	}
	memory->verdict = NOT_JUDGED;
}

SEC("struct_ops")
void BPF_PROG(lccwe_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct memory *memory = memory_of(sk);

	if (memory->kept_cwnd && tp->inet_conn.icsk_ca_state < TCP_CA_CWR) {
		/* The recovery is over, and the kernel has set cwnd to ssthresh. */
		tp->snd_ssthresh = memory->kept_ssthresh;
		memory->kept_cwnd = 0;
	}
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(lccwe_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct memory *memory = memory_of(sk);
	__u64 now_ns = bpf_ktime_get_ns();
	struct handoff handoff;

	if (sample->rtt_us > 0)
		memory->last_rtt_us = sample->rtt_us;
	if (sample->pkts_acked == 0)
		return;
	/* The time between two ACKs around a handoff is no acknowledgement interval. */
	if (last_handoff(sk, memory, &handoff) &&
	    memory->last_ack_ns < (handoff.finish_ns == GOES_ON ? handoff.start_ns : handoff.finish_ns))
		memory->last_ack_ns = 0;
	if (memory->last_ack_ns)
		memory->ack_interval_ns =
			next_ack_interval(memory->ack_interval_ns, now_ns - memory->last_ack_ns, INTERVAL_WEIGHT);
	memory->last_ack_ns = now_ns;
}

static __always_inline void extrapolate(struct sock *sk, struct memory *memory)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct handoff handoff;
	struct window window;
	struct event *event;

	/* In a recovery the kernel sets cwnd anew at each ACK. */
	if (tp->inet_conn.icsk_ca_state >= TCP_CA_CWR || packets_in_flight(tp) < tp->snd_cwnd)
		return;
	if (!last_handoff(sk, memory, &handoff) || !is_ambiguous(sk, &handoff))
		return;
	if (memory->congested || memory->extrapolated)
		return;
	memory->extrapolated = 1;
	window.cwnd = tp->snd_cwnd;
	window.counted = tp->snd_cwnd_cnt;
	window.ssthresh = tp->snd_ssthresh;
	grow(&window, steps((handoff.finish_ns - handoff.start_ns) / 1000, srtt_us(sk), memory->ack_interval_ns));
	if (window.cwnd > tp->snd_cwnd_clamp)
		window.cwnd = tp->snd_cwnd_clamp;
	event = bpf_ringbuf_reserve(&judgements, sizeof(*event), 0);
	if (event) {
		__builtin_memset(event, 0, sizeof(*event));
		event->kind = EXTRAPOLATED;
		event->handoff_start_us = handoff.start_ns / 1000;
		event->handoff_finish_us = handoff.finish_ns / 1000;
		event->ack_interval_ns = memory->ack_interval_ns;
		event->srtt_us = srtt_us(sk);
		event->alpha_before = event->alpha_after = memory->alpha;
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
	if (memory->kept_cwnd)
		memory->kept_cwnd = largest(memory->kept_cwnd, window.cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(lccwe_min_tso_segs, struct sock *sk)
{
	struct memory *memory = memory_of(sk);

	if (memory->ack_interval_ns)
		extrapolate(sk, memory);
	return MIN_TSO_SEGS;
}

SEC("struct_ops")
__u32 BPF_PROG(lccwe_undo_cwnd, struct sock *sk)
{
	struct memory *memory = memory_of(sk);

	memory->kept_cwnd = 0;
	return largest(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

/* Versions of clang-format break these lines differently. */
/* clang-format off */
#define OPERATIONS \
	{ \
		.ssthresh = (void *)lccwe_ssthresh, \
		.cong_avoid = (void *)lccwe_cong_avoid, \
		.set_state = (void *)lccwe_set_state, \
		.pkts_acked = (void *)lccwe_pkts_acked, \
		.min_tso_segs = (void *)lccwe_min_tso_segs, \
		.undo_cwnd = (void *)lccwe_undo_cwnd, \
		.init = (void *)lccwe_init, \
		.flags = TCP_CONG_NON_RESTRICTED, \
		.name = "holdfast_lccwe", \
	}
/* clang-format on */

SEC(".struct_ops.link")
struct tcp_congestion_ops lccwe_linked = OPERATIONS;

/* For kernels without links of struct_ops (before 6.4). */
SEC(".struct_ops")
struct tcp_congestion_ops lccwe_unlinked = OPERATIONS;

/*
 * Makes our sockets in the reader's namespace try to send; it is read at each end of a handoff.
 * Setting TCP_NODELAY makes a socket send. It is cleared afterwards if the application had not
 * set it.
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
int vector(struct vector *line)
{
	__u64 a = line->argument[0], b = line->argument[1], c = line->argument[2], d = line->argument[3];
	struct window window = { .cwnd = a, .counted = b, .ssthresh = c };

	line->result[1] = 0;
	switch (line->function) {
	case P_HANDOFF:
		line->result[0] = p_handoff(parp(a, b, c), d);
		return 0;
	case P_CONGESTION:
		line->result[0] = p_congestion(a, b, c);
		return 0;
	case NEXT_ALPHA:
		line->result[0] = next_alpha(a, b, c, d);
		return 0;
	case NEXT_ACK_INTERVAL:
		line->result[0] = next_ack_interval(a, b, c);
		return 0;
	case STEPS:
		line->result[0] = steps(a, b, c);
		return 0;
	case GROW:
		grow(&window, d);
		line->result[0] = window.cwnd;
		line->result[1] = window.counted;
		return 0;
	default:
		return 1;
	}
}

char LICENSE[] SEC("license") = "GPL";
