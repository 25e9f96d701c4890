/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds a packet's TCP header, for the programs that handle TCP.
 *
 * The program that includes it has PASSED_NOT_TCP, PASSED_FRAGMENT, PASSED_EXTENSION,
 * PASSED_VLAN and PASSED_MALFORMED among its counters.
 */
#ifndef HOLDFAST_UPPER_H
#define HOLDFAST_UPPER_H

#include "path.h"

/* RFC 8200 section 4.1 lists at most six headers before the upper layer. */
#define EXTENSION_HEADERS_MAX 6

/* parse() has found the upper-layer header. */
#define FOUND (-1)

struct packet {
	__u32 upper_offset; /* of the TCP or ICMP header, from the frame's start */
	__u32 ip_bytes; /* the packet's length as its IP header has it; 0: unknown (BIG TCP) */
	__u8 upper; /* its protocol */
	__u8 version; /* 4 or 6 */
};

/* Finds the upper-layer header. Returns FOUND, or a reason to pass. */
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
		/* Hop-by-hop options come first, or not at all: RFC 8200, 4.1. */
		if (next == NEXT_HOP_BY_HOP && i > 0)
			return PASSED_EXTENSION;
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

/* A flow as a packet names it: the sender's address and port first. */
struct flow {
	__u8 addresses[32]; /* IPv4 in the first eight */
	__u16 ports[2]; /* all in network order */
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
