/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the data paths of the gateway and of the mobile share: counters, and the
 * way to a packet's TCP header.
 *
 * The program that includes it defines `enum counter` before: COUNTERS comes
 * last, and among the others are all PASSED_... that are named here.
 */
#ifndef HOLDFAST_PATH_H
#define HOLDFAST_PATH_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NEXT TC_ACT_UNSPEC /* equals TCX_NEXT */

#define ETH_P_IPV4 0x0800
#define ETH_P_IPV6 0x86dd

#define NEXT_HOP_BY_HOP 0
#define NEXT_ICMP 1
#define NEXT_TCP 6
#define NEXT_ROUTING 43
#define NEXT_FRAGMENT 44
#define NEXT_ICMPV6 58
#define NEXT_DESTINATION 60

/* RFC 8200 section 4.1 lists at most six headers before the upper layer. */
#define EXTENSION_HEADERS_MAX 6

/* parse() has found the upper-layer header. */
#define FOUND (-1)

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(__u32 which)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &which);

	if (counter)
		*counter += 1;
}

static __always_inline int pass(__u32 reason)
{
	count(reason);
	return NEXT;
}

struct packet {
	__u32 upper_offset; /* of the TCP or ICMP header, from the frame's start */
	__u32 ip_bytes;	    /* the packet's length as its IP header has it; 0: not said (BIG TCP) */
	__u8 upper;	    /* protocol of it */
	__u8 version;	    /* 4 or 6 */
};

/* Finds the upper-layer header; what it cannot is a reason to pass. */
static __always_inline int parse_ipv4(struct __sk_buff *skb, __u32 link_header_bytes, struct packet *packet)
{
	__u8 header[20];

	if (bpf_skb_load_bytes(skb, link_header_bytes, header, sizeof(header)))
		return PASSED_MALFORMED;
	/* More fragments, or an offset: RFC 791. */
	if ((header[6] & 0x3f) || header[7])
		return PASSED_FRAGMENT;
	packet->version = 4;
	packet->upper = header[9];
	packet->upper_offset = link_header_bytes + (header[0] & 0xf) * 4;
	packet->ip_bytes = header[2] << 8 | header[3];
	return FOUND;
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, __u32 link_header_bytes, struct packet *packet)
{
	__u32 offset = link_header_bytes + 40;
	__u8 extension[2];
	__u8 start[3]; /* payload length, next header */
	__u8 next;

	if (bpf_skb_load_bytes(skb, link_header_bytes + 4, start, sizeof(start)))
		return PASSED_MALFORMED;
	next = start[2];
	packet->ip_bytes = start[0] << 8 | start[1];
	if (packet->ip_bytes)
		packet->ip_bytes += 40;
#pragma unroll
	for (int i = 0; i <= EXTENSION_HEADERS_MAX; i++) {
		if (next == NEXT_TCP || next == NEXT_ICMPV6) {
			packet->version = 6;
			packet->upper = next;
			packet->upper_offset = offset;
			return FOUND;
		}
		if (next == NEXT_FRAGMENT)
			return PASSED_FRAGMENT;
		if (next != NEXT_HOP_BY_HOP && next != NEXT_ROUTING && next != NEXT_DESTINATION)
			return PASSED_NOT_TCP;
		if (bpf_skb_load_bytes(skb, offset, extension, sizeof(extension)))
			return PASSED_MALFORMED;
		next = extension[0];
		offset += (extension[1] + 1) * 8;
	}
	return PASSED_EXTENSION;
}

static __always_inline int parse(struct __sk_buff *skb, __u32 link_header_bytes, struct packet *packet)
{
	if (skb->vlan_present)
		return PASSED_VLAN;
	if (skb->protocol == bpf_htons(ETH_P_IPV4))
		return parse_ipv4(skb, link_header_bytes, packet);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(skb, link_header_bytes, packet);
	return PASSED_NOT_TCP;
}

/* CLOCK_MONOTONIC of the daemon's last sign of life, written through mmap. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} heartbeat SEC(".maps");

static __always_inline int daemon_lives(__u64 max_age_ns)
{
	__u32 zero = 0;
	__u64 *beat = bpf_map_lookup_elem(&heartbeat, &zero);
	__u64 now = bpf_ktime_get_ns();
	__u64 last;

	if (!beat)
		return 0;
	last = *(volatile __u64 *)beat;
	/* The daemon may beat on another processor after now was read. */
	return last >= now || now - last <= max_age_ns;
}

/* A connection as a packet names it: the sender's address and port first. */
struct flow {
	__u8 addresses[32]; /* IPv4 in the first eight */
	__u16 ports[2];	    /* in network order, as all here */
};

static __always_inline int flow_of(struct __sk_buff *skb, __u32 link_header_bytes, const struct packet *packet,
				   struct flow *flow)
{
	int error;

	__builtin_memset(flow, 0, sizeof(*flow));
	if (packet->version == 4)
		error = bpf_skb_load_bytes(skb, link_header_bytes + 12, flow->addresses, 8);
	else
		error = bpf_skb_load_bytes(skb, link_header_bytes + 8, flow->addresses, 32);
	return error || bpf_skb_load_bytes(skb, packet->upper_offset, flow->ports, 4);
}

#endif
