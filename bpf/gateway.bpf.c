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
 * Each direction has its own device: nothing is compared or looked up to find the direction.
 *
 * A frame that is given back passes the same hook a second time. The egress hook recognises it by
 * its ingress interface, so that its mark is free for the operator. On ingress the kernel
 * overwrites that interface: the hook recognises the frame by own_mark, and clears the mark.
 *
 * On a mobile TCP passes, and the daemon gets copies through two more devices. So the sockets'
 * back-pressure and pacing reach the interface. In an outage the segments to and from the peers
 * that the daemon names are taken.
 *
 * A frame that passes gets TCX_NEXT (in clsact: continue), so that other programs still run. Ours
 * run first: the others see each frame once.
 */
/* The order is shared with DATA_PATH in crates/net/src/counters.rs. */
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
	PASSED_GROUP,
	PASSED_VLAN,
	PASSED_MALFORMED,
	COPIED_DOWNLINK,
	COPIED_UPLINK,
	COUNTERS,
};

#include "upper.h"

/* linux/pkt_sched.h */
#define TC_PRIO_INTERACTIVE 6
#define TC_PRIO_MAX 15

/* Limit of flows with a stored mark and priority; the least recently used are evicted. */
#define MARKED_FLOWS_MAX 16384

/* Limit of peers in an outage at a time. The segments of further peers pass, with copies. */
#define TAKEN_PEERS_MAX 16384

/* Set before loading; shared with crates/net/src/datapath/program.rs. */
struct settings {
	__u64 heartbeat_max_age_ns;
	__u32 wireless_ifindex;
	__u32 down_ifindex;
	__u32 up_ifindex;
	__u32 link_header_bytes; /* 14 or, for raw IP, 0 */
	__u32 own_mark;
	__u32 ahead_dscp; /* 0 to 63; anything else: none */
	__u32 down_copies_ifindex; /* 0: all TCP is taken */
	__u32 up_copies_ifindex;
};
const volatile struct settings settings = {};

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

/* Whether an entry was ever stored. Most routers set no marks, and need no lookup. */
__u32 handlings_kept = 0;

/* Not 0 while the interface is a port of a bridge, written through mmap. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} bridge_port SEC(".maps");

/* With copies: peers whose segments are taken, by address (IPv4: the first four bytes). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TAKEN_PEERS_MAX);
	__type(key, __u8[16]);
	__type(value, __u8);
} taken_peers SEC(".maps");

/* Stores the router's mark and priority for the flow: TUN does not transport them. */
static __always_inline void keep_handling(struct __sk_buff *skb, const struct packet *packet)
{
	struct handling handling = { .mark = skb->mark, .priority = skb->priority };
	struct handling *kept;
	struct flow flow;

	if (!handling.mark && !handling.priority && !handlings_kept)
		return;
	if (flow_of(skb, settings.link_header_bytes, packet, &flow))
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

	if (!handlings_kept || parse(skb, settings.link_header_bytes, &packet) != FOUND ||
	    flow_of(skb, settings.link_header_bytes, &packet, &flow))
		return;
	kept = bpf_map_lookup_elem(&handlings, &flow);
	if (kept) {
		skb->mark = kept->mark;
		skb->priority = kept->priority;
	}
}

/*
 * Gives frames with the DSCP `ahead_dscp` a high priority, for queueing disciplines with bands. A
 * class (major:minor) and a Wi-Fi priority (256 and more) that the router chose stay.
 */
static __always_inline void set_priority(struct __sk_buff *skb)
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

static __always_inline int is_taken_peer(struct __sk_buff *skb, const struct packet *packet, int is_downlink)
{
	__u32 address_bytes = packet->version == 4 ? 4 : 16;
	__u32 offset = settings.link_header_bytes + (packet->version == 4 ? 12 : 8);
	__u8 peer[16] = {};

	/* The peer is the destination on the downlink, the source on the uplink. */
	if (is_downlink)
		offset += address_bytes;
	if (packet->version == 4) {
		if (bpf_skb_load_bytes(skb, offset, peer, 4))
			return 0;
	} else if (bpf_skb_load_bytes(skb, offset, peer, 16)) {
		return 0;
	}
	return bpf_map_lookup_elem(&taken_peers, peer) != 0;
}

/* Takes the segment, or passes it and gives the daemon a copy. A copy that finds no room is lost. */
static __always_inline int take(struct __sk_buff *skb, const struct packet *packet, int is_downlink)
{
	__u32 copies = is_downlink ? settings.down_copies_ifindex : settings.up_copies_ifindex;

	if (copies && !is_taken_peer(skb, packet, is_downlink)) {
		bpf_clone_redirect(skb, copies, 0);
		return pass(is_downlink ? COPIED_DOWNLINK : COPIED_UPLINK);
	}
	count(is_downlink ? TAKEN_DOWNLINK : TAKEN_UPLINK);
	return bpf_redirect(is_downlink ? settings.down_ifindex : settings.up_ifindex, 0);
}

/*
 * Whether the frame is for this router. A bridge port receives frames to the
 * bridge's address, and to hosts behind its other ports. Another interface
 * receives frames for others only while a program captures: they go no further.
 */
static __always_inline int is_for_router(const struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u64 *is_port;

	if (skb->pkt_type != 3 /* PACKET_OTHERHOST */)
		return skb->pkt_type == 0 /* PACKET_HOST */;
	is_port = bpf_map_lookup_elem(&bridge_port, &zero);
	return is_port && *(volatile __u64 *)is_port;
}

SEC("tc")
int wireless_egress(struct __sk_buff *skb)
{
	struct packet packet = {};
	int reason;

	if (skb->ingress_ifindex == settings.down_ifindex)
		return pass(PASSED_OWN);
	reason = parse(skb, settings.link_header_bytes, &packet);
	if (reason != FOUND)
		return pass(reason);
	if (packet.upper != NEXT_TCP)
		return pass(PASSED_NOT_TCP);
	if (!daemon_lives(settings.heartbeat_max_age_ns))
		return pass(PASSED_STALE_HEARTBEAT);
	keep_handling(skb, &packet);
	return take(skb, &packet, 1);
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
	if (!is_for_router(skb))
		return pass(PASSED_GROUP);
	reason = parse(skb, settings.link_header_bytes, &packet);
	if (reason != FOUND)
		return pass(reason);
	if (packet.upper != NEXT_TCP) {
		if (is_too_big(skb, &packet) && daemon_lives(settings.heartbeat_max_age_ns)) {
			count(TOO_BIG_COPIED);
			bpf_clone_redirect(skb, settings.up_ifindex, 0);
		}
		return pass(PASSED_NOT_TCP);
	}
	if (!daemon_lives(settings.heartbeat_max_age_ns))
		return pass(PASSED_STALE_HEARTBEAT);
	return take(skb, &packet, 0);
}

SEC("tc")
int give_down(struct __sk_buff *skb)
{
	restore_handling(skb);
	set_priority(skb);
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
