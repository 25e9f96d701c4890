/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads most segments by direct access. They are IPv4 without options or IPv6 without extension
 * headers. TCP has no options or timestamps alone, and ACK but none of SYN, FIN, RST and URG. All
 * headers are in the packet's linear part. upper.h and tcp.h read the others, by calls that take
 * 30 ns each. Both give the same result for the same segment.
 */
#ifndef HOLDFAST_QUICK_H
#define HOLDFAST_QUICK_H

#include "tcp.h"

#define CLOCKS_BYTES 12
/* NOP, NOP, timestamps, ten bytes: RFC 7323, appendix A. */
#define CLOCKS_START 0x0101080a
#define CLOCKS_ECHO_OFFSET 8

struct ipv4_header {
	__u8 version_length;
	__u8 traffic_class;
	__u16 ip_bytes;
	__u16 identification;
	__u16 fragment;
	__u8 hops;
	__u8 upper;
	__u16 checksum;
	__u32 from;
	__u32 to;
};

struct ipv6_header {
	__u32 start;
	__u16 payload_bytes;
	__u8 upper;
	__u8 hops;
	__u32 from[4];
	__u32 to[4];
};

/* The link layer's header and the traffic class of a packet at egress. */
struct outer {
	__u64 link[2];
	__u32 traffic_class; /* RFC 2474; 0 to 255 */
};

/* The key has the MH's end first: the source on egress, the destination on ingress. */
static __always_inline void quick_ports(const struct tcp_header *tcp, int inward, struct flow *key)
{
	key->ports[0] = tcp->ports[inward];
	key->ports[1] = tcp->ports[!inward];
}

/* Reads an IPv4 header. Returns the TCP header behind it, or 0. */
static __always_inline const struct tcp_header *quick_ipv4(const void *ip, const void *data_end, int inward,
							   struct packet *packet, struct flow *key, struct outer *outer)
{
	const struct ipv4_header *header = ip;
	__u32 *addresses = (__u32 *)key->addresses;

	if ((const void *)(header + 1) + TCP_HEADER_BYTES > data_end)
		return 0;
	/* More fragments, or an offset: RFC 791. */
	if (header->version_length != 0x45 || header->fragment & bpf_htons(0x3fff) || header->upper != NEXT_TCP)
		return 0;
	packet->version = 4;
	packet->ip_bytes = bpf_ntohs(header->ip_bytes);
	outer->traffic_class = header->traffic_class;
	addresses[inward] = header->from;
	addresses[!inward] = header->to;
#pragma unroll
	for (int i = 2; i < 8; i++)
		addresses[i] = 0;
	return ip + sizeof(*header);
}

/* The same for IPv6. */
static __always_inline const struct tcp_header *quick_ipv6(const void *ip, const void *data_end, int inward,
							   struct packet *packet, struct flow *key, struct outer *outer)
{
	const struct ipv6_header *header = ip;
	__u32 *addresses = (__u32 *)key->addresses;

	if ((const void *)(header + 1) + TCP_HEADER_BYTES > data_end)
		return 0;
	if ((bpf_ntohl(header->start) >> 28) != 6 || header->upper != NEXT_TCP)
		return 0;
	packet->version = 6;
	packet->ip_bytes = bpf_ntohs(header->payload_bytes);
	if (packet->ip_bytes)
		packet->ip_bytes += sizeof(*header);
	outer->traffic_class = bpf_ntohl(header->start) >> 20 & 0xff;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		addresses[4 * inward + i] = header->from[i];
		addresses[4 * !inward + i] = header->to[i];
	}
	return ip + sizeof(*header);
}

static __always_inline int quick_options(const struct tcp_header *tcp, const void *data_end, __u32 bytes,
					 struct options *options)
{
	const __u32 *fields = (const void *)(tcp + 1);

	__builtin_memset(options, 0, sizeof(*options));
	options->scale = SCALE_UNKNOWN;
	if (!bytes)
		return 1;
	if (bytes != CLOCKS_BYTES || (const void *)fields + CLOCKS_BYTES > data_end ||
	    fields[0] != bpf_htonl(CLOCKS_START))
		return 0;
	options->tsval = bpf_ntohl(fields[1]);
	options->tsecr = bpf_ntohl(fields[2]);
	options->echo_offset = CLOCKS_ECHO_OFFSET;
	options->timestamps = 1;
	return 1;
}

/* Whether the packet was read. If not, the results are undefined. */
static __always_inline int quick_read(struct __sk_buff *skb, __u32 link_header_bytes, int inward, struct packet *packet,
				      struct segment *segment, struct flow *key, struct options *options,
				      struct outer *outer)
{
	const void *data_end = (const void *)(long)skb->data_end;
	const void *data = (const void *)(long)skb->data;
	const void *ip = data + link_header_bytes;
	const struct tcp_header *tcp;
	__u32 header_bytes;
	__u32 ip_bytes;

	if (skb->vlan_present)
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_IPV4))
		tcp = quick_ipv4(ip, data_end, inward, packet, key, outer);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		tcp = quick_ipv6(ip, data_end, inward, packet, key, outer);
	else
		return 0;
	if (!tcp || (tcp->flags & (FIN | SYN | RST | ACK | URG)) != ACK)
		return 0;
	packet->upper = NEXT_TCP;
	packet->upper_offset =
		link_header_bytes + (packet->version == 4 ? sizeof(struct ipv4_header) : sizeof(struct ipv6_header));
	ip_bytes = packet->ip_bytes ? packet->ip_bytes : skb->len - link_header_bytes;
	header_bytes = (tcp->data_offset >> 4) * 4;
	if (link_header_bytes + ip_bytes > skb->len || header_bytes < TCP_HEADER_BYTES ||
	    packet->upper_offset + header_bytes > link_header_bytes + ip_bytes)
		return 0;
	if (!quick_options(tcp, data_end, header_bytes - TCP_HEADER_BYTES, options))
		return 0;
	segment->seq = bpf_ntohl(tcp->seq);
	segment->ack = bpf_ntohl(tcp->ack);
	segment->window = bpf_ntohs(tcp->window);
	segment->flags = tcp->flags;
	segment->payload = link_header_bytes + ip_bytes - packet->upper_offset - header_bytes;
	segment->options_offset = packet->upper_offset + TCP_HEADER_BYTES;
	segment->options_bytes = header_bytes - TCP_HEADER_BYTES;
	quick_ports(tcp, inward, key);
	if (!inward) {
		const __u8 *link = data;

		outer->link[0] = outer->link[1] = 0;
		if (link_header_bytes) {
			outer->link[0] = *(const __u64 *)link;
			*(__u32 *)&outer->link[1] = *(const __u32 *)(link + 8);
			*((__u16 *)&outer->link[1] + 2) = *(const __u16 *)(link + 12);
		}
	}
	return 1;
}

#endif
