// SPDX-License-Identifier: GPL-2.0
/*
 * The gateway's data path: TCP is taken at the wireless interface and given
 * back there, by way of two devices of the daemon.
 *
 *          router (NAT, firewall, routing)
 *              |  egress          ^  ingress
 *              v                  |
 *      wireless_egress      wireless_ingress      pass what is ours,
 *          |        |          |        |         what is not TCP,
 *        take      pass       take     pass       all when the heartbeat
 *          v        |          v        |         is stale
 *       [ down ]    |        [ up ]     |
 *        daemon     |        daemon     |
 *       [ down ]    |        [ up ]     |
 *          | give_down         | give_up
 *          v        v          v        v
 *         out on the link      up into the router
 *
 * The direction is the device: nothing is compared or looked up.
 *
 * A frame given back passes the hook at which it was taken once more. On
 * egress it is known by the interface it came from, so that its mark is free
 * for the operator's use; on ingress, where the kernel overwrites that, by
 * own_mark, which is cleared at once.
 *
 * Every hook answers TCX_NEXT (in clsact: go on), so that programs of others
 * still run. Ours stand first: others see each frame once.
 */
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

/* linux/pkt_sched.h */
#define TC_PRIO_INTERACTIVE 6
#define TC_PRIO_MAX 15

/* RFC 8200 section 4.1 lists at most six headers before the upper layer. */
#define EXTENSION_HEADERS_MAX 6

/* The flows of which mark and priority are kept; beyond, the oldest go. */
#define MARKED_FLOWS_MAX 16384

/* Set before loading; shared with crates/net/src/datapath/program.rs. */
struct settings {
	__u64 heartbeat_max_age_ns;
	__u32 wireless_ifindex;
	__u32 down_ifindex;
	__u32 up_ifindex;
	__u32 link_header_bytes; /* 14 or, for raw IP, 0 */
	__u32 own_mark;
	__u32 ahead_dscp; /* 0 to 63; anything else: none */
};
const volatile struct settings settings = {};

/* CLOCK_MONOTONIC of the daemon's last sign of life, written through mmap. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} heartbeat SEC(".maps");

/* The order is shared with COUNTERS in crates/net/src/datapath/counters.rs. */
enum counter {
	TAKEN_DOWNLINK,
	TAKEN_UPLINK,
	GIVEN_DOWNLINK,
	GIVEN_UPLINK,
	TOO_BIG_COPIED,
	PASSED_OWN,
	PASSED_STALE_HEARTBEAT,
	PASSED_NOT_TCP,
	PASSED_FRAGMENT,
	PASSED_EXTENSION,
	PASSED_OTHER_HOST,
	PASSED_VLAN,
	PASSED_MALFORMED,
	COUNTERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct flow {
	__u8 addresses[32]; /* IPv4 in the first eight */
	__u32 ports;
};

struct handling {
	__u32 mark;
	__u32 priority;
};

/* Mark and priority by flow, for the frames given back downlink. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MARKED_FLOWS_MAX);
	__type(key, struct flow);
	__type(value, struct handling);
} handlings SEC(".maps");

/* Whether any was ever kept: most routers set none, and pay nothing. */
__u32 handlings_kept = 0;

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

static __always_inline int daemon_lives(void)
{
	__u32 zero = 0;
	__u64 *beat = bpf_map_lookup_elem(&heartbeat, &zero);
	__u64 now = bpf_ktime_get_ns();
	__u64 last;

	if (!beat)
		return 0;
	last = *(volatile __u64 *)beat;
	/* The daemon may beat on another processor after now was read. */
	return last >= now || now - last <= settings.heartbeat_max_age_ns;
}

struct packet {
	__u32 upper_offset; /* of the TCP or ICMP header, from the frame's start */
	__u8 upper;	    /* protocol of it */
	__u8 version;	    /* 4 or 6 */
};

/* Finds the upper-layer header; what it cannot is a reason to pass. */
static __always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	__u8 header[20];

	if (bpf_skb_load_bytes(skb, settings.link_header_bytes, header, sizeof(header)))
		return PASSED_MALFORMED;
	/* More fragments, or an offset: RFC 791. */
	if ((header[6] & 0x3f) || header[7])
		return PASSED_FRAGMENT;
	packet->version = 4;
	packet->upper = header[9];
	packet->upper_offset = settings.link_header_bytes + (header[0] & 0xf) * 4;
	return -1;
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	__u32 offset = settings.link_header_bytes + 40;
	__u8 extension[2];
	__u8 next;

	if (bpf_skb_load_bytes(skb, settings.link_header_bytes + 6, &next, 1))
		return PASSED_MALFORMED;
#pragma unroll
	for (int i = 0; i <= EXTENSION_HEADERS_MAX; i++) {
		if (next == NEXT_TCP || next == NEXT_ICMPV6) {
			packet->version = 6;
			packet->upper = next;
			packet->upper_offset = offset;
			return -1;
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

static __always_inline int parse(struct __sk_buff *skb, struct packet *packet)
{
	if (skb->vlan_present)
		return PASSED_VLAN;
	if (skb->protocol == bpf_htons(ETH_P_IPV4))
		return parse_ipv4(skb, packet);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(skb, packet);
	return PASSED_NOT_TCP;
}

static __always_inline int flow_of(struct __sk_buff *skb, const struct packet *packet, struct flow *flow)
{
	int error;

	__builtin_memset(flow, 0, sizeof(*flow));
	if (packet->version == 4)
		error = bpf_skb_load_bytes(skb, settings.link_header_bytes + 12, flow->addresses, 8);
	else
		error = bpf_skb_load_bytes(skb, settings.link_header_bytes + 8, flow->addresses, 32);
	return error || bpf_skb_load_bytes(skb, packet->upper_offset, &flow->ports, 4);
}

/* Keeps what the router decided about the frame and TUN does not carry. */
static __always_inline void keep_handling(struct __sk_buff *skb, const struct packet *packet)
{
	struct handling handling = { .mark = skb->mark, .priority = skb->priority };
	struct handling *kept;
	struct flow flow;

	if (!handling.mark && !handling.priority && !handlings_kept)
		return;
	if (flow_of(skb, packet, &flow))
		return;
	kept = bpf_map_lookup_elem(&handlings, &flow);
	if (kept) {
		if (kept->mark != handling.mark || kept->priority != handling.priority)
			*kept = handling;
	} else if (handling.mark || handling.priority) {
		handlings_kept = 1;
		bpf_map_update_elem(&handlings, &flow, &handling, BPF_ANY);
	}
}

static __always_inline void restore_handling(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct handling *kept;
	struct flow flow;

	if (!handlings_kept || parse(skb, &packet) != -1 || flow_of(skb, &packet, &flow))
		return;
	kept = bpf_map_lookup_elem(&handlings, &flow);
	if (kept) {
		skb->mark = kept->mark;
		skb->priority = kept->priority;
	}
}

/*
 * What the daemon marks to go ahead of ordinary traffic also does where the
 * interface's queueing discipline has bands. A class (major:minor) and a Wi-Fi
 * priority (256 and more) that the router chose stay.
 */
static __always_inline void let_go_ahead(struct __sk_buff *skb)
{
	__u8 start[2];
	__u8 traffic_class;

	if (settings.ahead_dscp > 63 || skb->priority > TC_PRIO_MAX)
		return;
	if (bpf_skb_load_bytes(skb, settings.link_header_bytes, start, sizeof(start)))
		return;
	/* RFC 2474; in IPv6 it lies across the first two bytes. */
	traffic_class = start[0] >> 4 == 4 ? start[1] : start[0] << 4 | start[1] >> 4;
	if (traffic_class >> 2 == settings.ahead_dscp)
		skb->priority = TC_PRIO_INTERACTIVE;
}

/* ICMP "fragmentation needed" (RFC 1191), ICMPv6 packet too big (RFC 4443). */
static __always_inline int is_too_big(struct __sk_buff *skb, const struct packet *packet)
{
	__u8 type_code[2];

	if (bpf_skb_load_bytes(skb, packet->upper_offset, type_code, sizeof(type_code)))
		return 0;
	if (packet->version == 4)
		return packet->upper == NEXT_ICMP && type_code[0] == 3 && type_code[1] == 4;
	return packet->upper == NEXT_ICMPV6 && type_code[0] == 2;
}

SEC("tc")
int wireless_egress(struct __sk_buff *skb)
{
	struct packet packet = {};
	int reason;

	if (skb->ingress_ifindex == settings.down_ifindex)
		return pass(PASSED_OWN);
	reason = parse(skb, &packet);
	if (reason != -1)
		return pass(reason);
	if (packet.upper != NEXT_TCP)
		return pass(PASSED_NOT_TCP);
	if (!daemon_lives())
		return pass(PASSED_STALE_HEARTBEAT);
	keep_handling(skb, &packet);
	count(TAKEN_DOWNLINK);
	return bpf_redirect(settings.down_ifindex, 0);
}

SEC("tc")
int wireless_ingress(struct __sk_buff *skb)
{
	struct packet packet = {};
	int reason;

	if (skb->mark == settings.own_mark) {
		skb->mark = 0;
		return pass(PASSED_OWN);
	}
	if (skb->pkt_type != 0 /* PACKET_HOST */)
		return pass(PASSED_OTHER_HOST);
	reason = parse(skb, &packet);
	if (reason != -1)
		return pass(reason);
	if (packet.upper != NEXT_TCP) {
		if (is_too_big(skb, &packet) && daemon_lives()) {
			count(TOO_BIG_COPIED);
			bpf_clone_redirect(skb, settings.up_ifindex, 0);
		}
		return pass(PASSED_NOT_TCP);
	}
	if (!daemon_lives())
		return pass(PASSED_STALE_HEARTBEAT);
	count(TAKEN_UPLINK);
	return bpf_redirect(settings.up_ifindex, 0);
}

SEC("tc")
int give_down(struct __sk_buff *skb)
{
	restore_handling(skb);
	let_go_ahead(skb);
	count(GIVEN_DOWNLINK);
	return bpf_redirect(settings.wireless_ifindex, 0);
}

SEC("tc")
int give_up(struct __sk_buff *skb)
{
	skb->mark = settings.own_mark;
	count(GIVEN_UPLINK);
	return bpf_redirect(settings.wireless_ifindex, BPF_F_INGRESS);
}

char _license[] SEC("license") = "GPL";
