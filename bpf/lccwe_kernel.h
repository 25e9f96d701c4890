/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What lccwe.bpf.c sees of the kernel's structures: the members used, found by name
 * when the programs are loaded (CO-RE).
 */
#ifndef HOLDFAST_LCCWE_KERNEL_H
#define HOLDFAST_LCCWE_KERNEL_H

#include <linux/types.h>

#define CA_NAME_BYTES 16
#define TCP_CONG_NON_RESTRICTED 1 /* any user may select it, and a namespace may default to it */

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
	__u32 undo_marker;
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

#endif
