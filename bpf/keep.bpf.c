// SPDX-License-Identifier: GPL-2.0
/*
 * The data path of `keep`: packets pass in the kernel while a peer's link is up,
 * and go to the daemon while it is down or silent.
 *
 *      router, sockets                        router, sockets
 *          |  egress                               ^  ingress
 *          v                                       |
 *      link_egress                             link_ingress
 *        PASS: note since when an               note when the peer was seen,
 *              answer is missing                and by which flow
 *        TAKE, DRAIN: redirect                     |
 *          |         v                             |
 *          |     [ device ]  daemon                |
 *          v         |  give_back                  |
 *         out on the link <------              from the link
 *
 * A peer is one address behind the link, or the whole link (`whole_link`). For each packet to a
 * peer the program reads the mode in the peer's slot. In PASS it also reads when the peer was last
 * seen, and since when a flow in use has had no answer. If that is longer than the
 * peer's recent gaps explain, the peer is silent: the program takes this packet and all that
 * follow.
 *
 * DRAIN ends here when the daemon has finished all taken packets: the next packet passes. The
 * daemon ends DRAIN if no packet comes, or if some were lost.
 *
 * Peers and answered flows are in plain arrays, at an index from a seeded hash. The daemon reads
 * and writes them through mmap.
 *
 * Beside another daemon's data path for TCP (`passes_tcp`) no TCP is taken. A TCP packet of a
 * peer still shows that the peer is there.
 */

/* The order is shared with KEEP_PATH in crates/net/src/counters.rs. */
enum counter {
	TAKEN,
	GIVEN_BACK,
	ALARMS,
	RESUMED,
	PASSED_STALE_HEARTBEAT,
	PASSED_NO_SLOT,
	COUNTERS,
};

#include "path.h"

/* gso_size of super-packets that are lists: include/linux/skbuff.h. */
#define GSO_BY_FRAGS 0xffff

#define NEXT_UDP 17
#define ICMP_UNREACHABLE 3
#define ICMPV6_INFORMATION 128 /* the errors are below (RFC 4443, 2.1) */
#define NEXT_DCCP 33
#define NEXT_SCTP 132
#define NEXT_UDP_LITE 136

/* Neighbour discovery: RFC 4861, 4. */
#define ND_TYPE_MIN 133
#define ND_TYPE_MAX 137

/* The modes of a peer; shared with crates/net/src/keep_path/peers.rs. */
#define MODE_PASS 0
#define MODE_TAKE 1
#define MODE_DRAIN 2
#define MODE_NEW 3 /* the slot is being written */

/* Slots of peers. A peer is in one of the BUCKET slots that its hash selects. */
#define PEERS_MAX 16384
#define BUCKET 4
/* A peer that was not seen for this time may lose its slot to another peer. */
#define IDLE_NS 10000000000LL

#define ANSWERED_MAX 65536
/*
 * A flow with this many packets of the peer in four seconds is in use for 64 s: its silence
 * counts. The silence of a flow that is answered now and then shows nothing.
 */
#define IN_USE_PACKETS 8
#define IN_USE_S 64

/* A peer is silent if an answer is missing for 5/4 of its longest recent gap, plus this. */
#define SILENCE_MIN_NS 50000000LL
/* Longer gaps are outages. A satellite's round trip is shorter. */
#define GAP_MAX_NS 700000000LL
/* The longest gap until one was measured. */
#define GAP_INITIAL_NS 100000000ULL
/* A gap counts for one to two times this. */
#define GAP_AGE_NS 60000000000LL

/* Set before loading; shared with crates/net/src/keep_path/program.rs. */
struct settings {
	__u64 heartbeat_max_age_ns;
	__u64 seed;
	__u32 link_ifindex;
	__u32 device_ifindex;
	__u32 link_header_bytes; /* 14 or, for raw IP, 0 */
	__u32 whole_link;
	__u32 passes_tcp;
};
const volatile struct settings settings = {};

/* Three cache lines: fields that seldom change, fields of egress, fields of ingress. */
struct peer {
	__u64 address[2]; /* IPv4 as ::ffff:a.b.c.d */
	__u32 mode;
	__u32 taken; /* packets redirected, of all time */
	__u32 done; /* of these, those that the daemon has finished */
	__u32 announced; /* the daemon knows that the peer was seen */
	__u32 ignores_silence;
	__u32 unused[7];

	__u64 waited_ns;
	__u64 unused_waited[7];

	__u64 seen_ns;
	__u32 seen; /* packets of the peer while in TAKE */
	__u32 gap_ns[2]; /* the longest of this age, and of the age before */
	__u32 unused_seen;
	__u64 gap_age_ns;
	__u64 unused_seen_2[4];
};
_Static_assert(sizeof(struct peer) == 192, "as in keep_path/peers.rs");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PEERS_MAX);
	__type(key, __u32);
	__type(value, struct peer);
} peers SEC(".maps");

/* How often the peer sent packets of a flow; shared with crates/net/src/keep_path/peers.rs. */
struct answer {
	__u32 tag; /* of the flow's hash */
	__u16 seen_s;
	__u16 in_use_s; /* when it was in use last */
	__u32 packets; /* in these four seconds */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ANSWERED_MAX);
	__type(key, __u32);
	__type(value, struct answer);
} answered SEC(".maps");

/* The indexes of peers that were seen while the daemon waits for that. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} announcements SEC(".maps");

/* The fields that are read of a packet. */
struct packet {
	__u64 source[2];
	__u64 destination[2];
	__u32 ports; /* as in the header; 0 without */
	__u8 protocol;
	__u8 is_local; /* multicast, or for neighbours alone */
};

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static __always_inline __u64 hash_of_peer(const __u64 address[2])
{
	return mix(mix(settings.seed, address[0]), address[1]);
}

static __always_inline __u64 hash_of_flow(const __u64 near[2], const __u64 far[2], __u32 ports, __u8 protocol)
{
	return mix(mix(mix(hash_of_peer(near), far[0]), far[1]), (__u64)protocol << 32 | ports);
}

static __always_inline void map_ipv4(__u64 to[2], __u32 address)
{
	__u32 fields[2] = { bpf_htonl(0xffff), address };

	to[0] = 0;
	__builtin_memcpy(&to[1], fields, sizeof(fields));
}

static __always_inline int has_ports(__u8 protocol)
{
	return protocol == NEXT_TCP || protocol == NEXT_UDP || protocol == NEXT_SCTP || protocol == NEXT_DCCP ||
	       protocol == NEXT_UDP_LITE;
}

/*
 * Makes this number of octets linear: some drivers leave little more than the link layer's header
 * there. Pulls no octet that is linear already. A super-packet of SCTP is a list of packets behind a
 * header. If octets of that list are pulled, skb_segment() of Linux 6.1 ends in a BUG.
 */
static __always_inline int make_linear(struct __sk_buff *skb, __u32 octets)
{
	if ((void *)(long)skb->data + octets <= (void *)(long)skb->data_end)
		return 0;
	if (skb->len < octets || skb->gso_size == GSO_BY_FRAGS)
		return -1;
	return bpf_skb_pull_data(skb, octets);
}

/* Reads the headers. -1: it is no IP packet, or its headers cannot be made linear. */
static __always_inline int read_packet(struct __sk_buff *skb, struct packet *packet)
{
	__u32 link = settings.link_header_bytes;
	__u8 *octets;
	__u8 *end;
	__u32 *fields;
	__u32 upper;

	if (skb->vlan_present || (skb->protocol != bpf_htons(ETH_P_IPV4) && skb->protocol != bpf_htons(ETH_P_IPV6)))
		return -1;
	/* 24 and 44 octets: the whole IPv4 or IPv6 header, and ports. */
	if (make_linear(skb, link + (skb->protocol == bpf_htons(ETH_P_IPV4) ? 24 : 44)))
		return -1;
	octets = (void *)(long)skb->data + link;
	end = (void *)(long)skb->data_end;
	fields = (void *)octets;
	if (octets + 24 > end)
		return -1;
	packet->is_local = 0;
	packet->ports = 0;
	if (octets[0] >> 4 == 4) {
		map_ipv4(packet->source, fields[3]);
		map_ipv4(packet->destination, fields[4]);
		packet->protocol = octets[9];
		packet->is_local = octets[16] >= 224 || (octets[16] == 169 && octets[17] == 254);
		upper = (octets[0] & 0xf) * 4;
		/* More fragments, or an offset (RFC 791): most have no ports. */
		if (octets[6] & 0x3f || octets[7] || !has_ports(packet->protocol))
			return 0;
		/* Options are rare. */
		if (upper == 20)
			packet->ports = fields[5];
		else if (bpf_skb_load_bytes(skb, settings.link_header_bytes + upper, &packet->ports, 4))
			packet->ports = 0;
		return 0;
	}
	if (octets[0] >> 4 != 6 || octets + 44 > end)
		return -1;
	__builtin_memcpy(packet->source, octets + 8, 16);
	__builtin_memcpy(packet->destination, octets + 24, 16);
	packet->protocol = octets[6];
	packet->is_local = octets[24] == 0xff || (octets[24] == 0xfe && (octets[25] & 0xc0) == 0x80) ||
			   (packet->protocol == NEXT_ICMPV6 && octets[40] >= ND_TYPE_MIN && octets[40] <= ND_TYPE_MAX);
	/* Behind extension headers, all flows of two addresses count as one. */
	if (has_ports(packet->protocol))
		packet->ports = fields[10];
	return 0;
}

/*
 * TCP, or an ICMP error about TCP: the engine's notifications at link up must not wait here. ICMP
 * errors of other routers pass too: they are lost in an outage, as without keep. Behind IP options
 * other octets are read: `keep` serves such a packet.
 */
static __always_inline int is_of_tcp(struct __sk_buff *skb, const struct packet *packet)
{
	int is_ipv4 = packet->protocol == NEXT_ICMP;
	__u32 icmp = settings.link_header_bytes + (is_ipv4 ? 20 : 40);
	__u8 type;
	__u8 quoted;

	if (packet->protocol == NEXT_TCP)
		return 1;
	if (!is_ipv4 && packet->protocol != NEXT_ICMPV6)
		return 0;
	if (bpf_skb_load_bytes(skb, icmp, &type, 1) ||
	    bpf_skb_load_bytes(skb, icmp + 8 + (is_ipv4 ? 9 : 6), &quoted, 1))
		return 0;
	return quoted == NEXT_TCP && (is_ipv4 ? type == ICMP_UNREACHABLE : type < ICMPV6_INFORMATION);
}

static __always_inline struct peer *slot_of(__u32 index)
{
	return bpf_map_lookup_elem(&peers, &index);
}

static __always_inline int is_at(const struct peer *peer, const __u64 address[2])
{
	return peer->address[1] == address[1] && peer->address[0] == address[0];
}

static __always_inline struct peer *find(const __u64 address[2], __u32 *index)
{
	__u32 first;

	*index = 0;
	if (settings.whole_link)
		return slot_of(0);
	first = (hash_of_peer(address) & (PEERS_MAX / BUCKET - 1)) * BUCKET;
#pragma unroll
	for (int i = 0; i < BUCKET; i++) {
		struct peer *peer = slot_of(first + i);

		*index = first + i;
		if (peer && is_at(peer, address))
			return peer;
	}
	return 0;
}

/* Gives a new peer an empty slot, or the slot of an idle peer. */
static __always_inline void enter(const __u64 address[2], __u64 now)
{
	__u32 first = (hash_of_peer(address) & (PEERS_MAX / BUCKET - 1)) * BUCKET;
	struct peer *oldest = 0;

#pragma unroll
	for (int i = 0; i < BUCKET; i++) {
		struct peer *peer = slot_of(first + i);

		if (peer && peer->mode == MODE_PASS && (!oldest || peer->seen_ns < oldest->seen_ns))
			oldest = peer;
	}
	if (!oldest || (oldest->seen_ns && (__s64)(now - oldest->seen_ns) < IDLE_NS) ||
	    !__sync_bool_compare_and_swap(&oldest->mode, MODE_PASS, MODE_NEW)) {
		count(PASSED_NO_SLOT);
		return;
	}
	oldest->address[0] = address[0];
	oldest->address[1] = address[1];
	oldest->waited_ns = 0;
	oldest->ignores_silence = 0;
	oldest->seen_ns = now;
	oldest->gap_ns[0] = GAP_INITIAL_NS;
	oldest->gap_ns[1] = 0;
	oldest->gap_age_ns = now;
	__sync_lock_test_and_set(&oldest->mode, MODE_PASS);
}

static __always_inline struct answer *answer_of(__u64 hash)
{
	__u32 index = hash & (ANSWERED_MAX - 1);

	return bpf_map_lookup_elem(&answered, &index);
}

static __always_inline int is_in_use(__u64 hash, __u64 now)
{
	struct answer *answer = answer_of(hash);

	return answer && answer->tag == hash >> 32 && answer->packets &&
	       (__u16)((__u16)(now / 1000000000) - answer->in_use_s) < IN_USE_S;
}

static __always_inline void note_answer(__u64 hash, __u64 now)
{
	struct answer *answer = answer_of(hash);
	__u16 second = now / 1000000000;

	if (!answer)
		return;
	if (answer->tag != hash >> 32 || !answer->packets) {
		answer->tag = hash >> 32;
		answer->seen_s = second;
		answer->in_use_s = second - 2 * IN_USE_S;
		answer->packets = 1;
		return;
	}
	if (answer->seen_s / 4 != second / 4)
		answer->packets = 1;
	else if (answer->packets < IN_USE_PACKETS)
		answer->packets += 1;
	if (answer->seen_s != second)
		answer->seen_s = second;
	if (answer->packets == IN_USE_PACKETS && answer->in_use_s != second)
		answer->in_use_s = second;
}

/*
 * Whether the peer's answer is missing for longer than its recent gaps explain. The first packet
 * of a flow in use after such a pause is taken too: it may be the sender's only try.
 */
static __always_inline int is_silent(struct peer *peer, const struct packet *packet, __u64 now)
{
	__u64 waited = peer->waited_ns;
	__u64 seen = peer->seen_ns;
	__s64 gap = peer->gap_ns[0] > peer->gap_ns[1] ? peer->gap_ns[0] : peer->gap_ns[1];
	__s64 limit = gap + gap / 4 + SILENCE_MIN_NS;

	if (peer->ignores_silence)
		return 0;
	if (waited > seen)
		return (__s64)(now - waited) > limit;
	/* No answer is expected for a flow that is hardly ever answered. */
	if (!is_in_use(hash_of_flow(packet->destination, packet->source, packet->ports << 16 | packet->ports >> 16,
				    packet->protocol),
		       now))
		return 0;
	peer->waited_ns = now;
	return (__s64)(now - seen) > limit;
}

static __always_inline void note_gap(struct peer *peer, __u64 now)
{
	__s64 gap = now - peer->waited_ns;

	if ((__s64)(now - peer->gap_age_ns) > GAP_AGE_NS) {
		peer->gap_ns[1] = peer->gap_ns[0];
		peer->gap_ns[0] = 0;
		peer->gap_age_ns = now;
	}
	if (gap <= GAP_MAX_NS && gap > (__s64)peer->gap_ns[0])
		peer->gap_ns[0] = gap;
}

SEC("tc")
int link_egress(struct __sk_buff *skb)
{
	struct packet packet;
	struct peer *peer;
	__u32 index;
	__u32 mode;

	if (skb->ingress_ifindex == settings.device_ifindex || read_packet(skb, &packet))
		return NEXT;
	if (settings.passes_tcp && is_of_tcp(skb, &packet))
		return NEXT;
	peer = find(packet.destination, &index);
	if (!peer || packet.is_local)
		return NEXT;
	mode = *(volatile __u32 *)&peer->mode;
	if (mode == MODE_DRAIN && daemon_lives(settings.heartbeat_max_age_ns)) {
		__u32 taken = __sync_fetch_and_add(&peer->taken, 1);

		if (*(volatile __u32 *)&peer->done != taken ||
		    !__sync_bool_compare_and_swap(&peer->mode, MODE_DRAIN, MODE_PASS)) {
			count(TAKEN);
			return bpf_redirect(settings.device_ifindex, 0);
		}
		__sync_fetch_and_add(&peer->done, 1);
		count(RESUMED);
		mode = MODE_PASS;
	}
	if (mode != MODE_TAKE && !is_silent(peer, &packet, bpf_ktime_get_coarse_ns()))
		return NEXT;
	if (!daemon_lives(settings.heartbeat_max_age_ns))
		return pass(PASSED_STALE_HEARTBEAT);
	if (mode != MODE_TAKE && __sync_bool_compare_and_swap(&peer->mode, MODE_PASS, MODE_TAKE)) {
		peer->announced = 0;
		count(ALARMS);
	}
	__sync_fetch_and_add(&peer->taken, 1);
	count(TAKEN);
	return bpf_redirect(settings.device_ifindex, 0);
}

SEC("tc")
int link_ingress(struct __sk_buff *skb)
{
	struct packet packet;
	struct peer *peer;
	__u32 index;
	__u64 now;

	/* A bridge port receives frames to the bridge's address, and to hosts behind its other ports. */
	if ((skb->pkt_type != 0 /* PACKET_HOST */ && skb->pkt_type != 3 /* PACKET_OTHERHOST */) ||
	    read_packet(skb, &packet))
		return NEXT;
	now = bpf_ktime_get_coarse_ns();
	peer = find(packet.source, &index);
	if (!peer) {
		enter(packet.source, now);
		return NEXT;
	}
	note_answer(hash_of_flow(packet.source, packet.destination, packet.ports, packet.protocol), now);
	if (peer->waited_ns > peer->seen_ns)
		note_gap(peer, now);
	if (peer->seen_ns != now)
		peer->seen_ns = now;
	if (peer->ignores_silence)
		peer->ignores_silence = 0;
	if (*(volatile __u32 *)&peer->mode != MODE_TAKE)
		return NEXT;
	__sync_fetch_and_add(&peer->seen, 1);
	if (!peer->announced && !bpf_ringbuf_output(&announcements, &index, sizeof(index), 0))
		peer->announced = 1;
	return NEXT;
}

SEC("tc")
int give_back(struct __sk_buff *skb __attribute__((unused)))
{
	count(GIVEN_BACK);
	return bpf_redirect(settings.link_ifindex, 0);
}

char _license[] SEC("license") = "GPL";
