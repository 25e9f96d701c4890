/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A TCP segment's header and options, for programs on whole packets.
 *
 * Functions that read a packet get the length of its link layer's header.
 */
#ifndef HOLDFAST_TCP_H
#define HOLDFAST_TCP_H

#include "upper.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10
#define URG 0x20

#define TCP_HEADER_BYTES 20
#define TCP_OPTIONS_BYTES_MAX 40
/* Room for the largest read at any offset up to OPTIONS_MASK. */
#define OPTIONS_ROOM 104
#define OPTIONS_MASK 63
#define WINDOW_OFFSET 14
#define CHECKSUM_OFFSET 16

#define SACK_BLOCKS_MAX 4
#define SCALE_UNKNOWN 255
/* RFC 7323, 2.3 */
#define SCALE_MAX 14

struct tcp_header {
	__u16 ports[2];
	__u32 seq;
	__u32 ack;
	__u8 data_offset;
	__u8 flags;
	__u16 window;
	__u16 checksum;
	__u16 urgent;
};

struct segment {
	__u32 seq;
	__u32 ack;
	__u32 payload;
	__u32 options_offset;
	__u32 options_bytes;
	__u16 window;
	__u8 flags;
};

struct options {
	__u32 tsval;
	__u32 tsecr;
	__u32 sack[2 * SACK_BLOCKS_MAX];
	__u32 sack_blocks;
	__u32 scale;
	__u32 echo_offset; /* of the TSecr, in the options */
	__u8 timestamps;
	__u8 permits_sack;
	__u8 others;
};

/*
 * The memory in which options are read. On the stack the verifier would follow the loop anew
 * for each path to it, and exceed its limit.
 */
struct scratch {
	__u8 bytes[OPTIONS_ROOM];
	struct options options;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline __u32 word(const __u8 *bytes)
{
	return (__u32)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

static __always_inline int at_or_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) >= 0;
}

/* Reads the fixed part of the header. Returns 0, or a reason to pass. */
static __always_inline int read_segment(struct __sk_buff *skb, __u32 link_header_bytes, const struct packet *packet,
					struct segment *segment)
{
	__u32 ip_bytes = packet->ip_bytes ? packet->ip_bytes : skb->len - link_header_bytes;
	__u32 end = link_header_bytes + ip_bytes;
	struct tcp_header header;
	__u32 header_bytes;
	__u32 payload_offset;

	if (end > skb->len || packet->upper_offset < link_header_bytes + 20)
		return PASSED_MALFORMED;
	if (bpf_skb_load_bytes(skb, packet->upper_offset, &header, sizeof(header)))
		return PASSED_MALFORMED;
	header_bytes = (header.data_offset >> 4) * 4;
	payload_offset = packet->upper_offset + header_bytes;
	if (header_bytes < TCP_HEADER_BYTES || payload_offset > end)
		return PASSED_MALFORMED;
	segment->seq = bpf_ntohl(header.seq);
	segment->ack = bpf_ntohl(header.ack);
	segment->window = bpf_ntohs(header.window);
	segment->flags = header.flags;
	segment->payload = end - payload_offset;
	segment->options_offset = packet->upper_offset + TCP_HEADER_BYTES;
	segment->options_bytes = header_bytes - TCP_HEADER_BYTES;
	return 0;
}

static __always_inline void read_sack(const __u8 *option, __u32 length, struct options *options)
{
#pragma unroll
	for (__u32 i = 0; i < SACK_BLOCKS_MAX; i++) {
		if (8 * i + 10 > length)
			return;
		options->sack[2 * i] = word(option + 2 + 8 * i);
		options->sack[2 * i + 1] = word(option + 6 + 8 * i);
		options->sack_blocks = i + 1;
	}
}

/* One option, of `length` bytes. */
static __always_inline void read_option(const __u8 *option, __u32 length, struct options *options)
{
	switch (option[0]) {
	case 2: /* maximum segment size */
		break;
	case 3: /* window scale */
		if (length == 3)
			options->scale = option[2] > SCALE_MAX ? SCALE_MAX : option[2];
		break;
	case 4:
		options->permits_sack = 1;
		break;
	case 5:
		read_sack(option, length, options);
		break;
	case 8:
		if (length == 10) {
			options->tsval = word(option + 2);
			options->tsecr = word(option + 6);
			options->timestamps = 1;
		}
		break;
	default:
		options->others = 1;
	}
}

static __always_inline void walk_options(struct __sk_buff *skb, const struct segment *segment, __u8 *bytes,
					 struct options *options)
{
	__u32 end = segment->options_bytes;
	__u32 beyond_4;
	__u32 at = 0;

	if (end < 4 || end > TCP_OPTIONS_BYTES_MAX)
		return;
	/* It is below already. The verifier of Linux 6.1 forgets the comparison at a spill. */
	beyond_4 = end - 4;
	asm volatile("%0 &= %1" : "+r"(beyond_4) : "i"(OPTIONS_MASK));
	if (bpf_skb_load_bytes(skb, segment->options_offset, bytes, beyond_4 + 4))
		return;
	/* Timestamps alone, as most segments have them (RFC 7323, appendix A). */
	if (end == 12 && word(bytes) == 0x0101080a) {
		options->tsval = word(bytes + 4);
		options->tsecr = word(bytes + 8);
		options->timestamps = 1;
		options->echo_offset = 8;
		return;
	}
	for (int i = 0; i < TCP_OPTIONS_BYTES_MAX; i++) {
		const __u8 *option;
		__u32 length;

		if (at >= end)
			return;
		/* It is below already; the verifier does not see that. */
		asm volatile("%0 &= %1" : "+r"(at) : "i"(OPTIONS_MASK));
		option = bytes + at;
		if (option[0] == 0)
			return;
		length = option[0] == 1 ? 1 : option[1];
		if (at + length > end || (option[0] != 1 && length < 2)) {
			options->others = 1;
			return;
		}
		if (option[0] == 8 && length == 10)
			options->echo_offset = at + 6;
		if (option[0] != 1)
			read_option(option, length, options);
		at += length;
	}
}

/* Reads the options. The result is valid until the next call on this processor. */
static __always_inline struct options *read_options(struct __sk_buff *skb, const struct segment *segment)
{
	__u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);

	if (!scratch)
		return 0;
	__builtin_memset(&scratch->options, 0, sizeof(scratch->options));
	scratch->options.scale = SCALE_UNKNOWN;
	walk_options(skb, segment, scratch->bytes, &scratch->options);
	return &scratch->options;
}

#endif
