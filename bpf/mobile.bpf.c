// SPDX-License-Identifier: GPL-2.0
/*
 * The mobile's data path. On the interface's egress it notes the newest ACK header of each flow.
 * While the daemon orders it, egress closes the window or withholds a segment (`wake`). Only
 * compressed segments, and those of flows that the daemon follows, go through the daemon.
 *
 *      sockets, forwarded flows              sockets, forwarded flows
 *            | egress                              ^  ingress
 *            v                                     |
 *      mobile_egress                        mobile_ingress --- compressed --> [ device ]
 *        note the header                      note the FH's numbers           daemon
 *        close the window, if ordered              ^                          [ device ]
 *            |                                     |  give_up                     |
 *            v                                     +------------------------------+
 *       out on the link                       from the link
 *
 * The flow's key has the MH's end first, in both directions.
 *
 * Orders hold until a deadline, which the daemon keeps moving on. If the daemon hangs or dies,
 * windows leave unchanged.
 *
 * A segment of the FH never changes the noted numbers of the MH. So the daemon acknowledges only
 * what the MH itself has acknowledged.
 */

/* The order is shared with MOBILE_PATH in crates/net/src/counters.rs. */
enum counter {
	NOTED_EGRESS,
	NOTED_INGRESS,
	WINDOW_CLOSED,
	WINDOW_NOT_CLOSED,
	TAKEN_COMPRESSED,
	TAKEN_FOLLOWED,
	GIVEN_UPLINK,
	NOT_CREDIBLE,
	PASSED_OWN,
	PASSED_STALE_HEARTBEAT,
	PASSED_NOT_TCP,
	PASSED_FRAGMENT,
	PASSED_EXTENSION,
	PASSED_OTHER_HOST,
	PASSED_VLAN,
	PASSED_MALFORMED,
	WITHHELD,
	NOT_WITHHELD,
	RELEASED,
	ECHO_RENEWED,
	COUNTERS,
};

#include "path.h"

/* Bytes of the header before a compressed payload. */
#define COMPRESSED_HEADER_BYTES 7

/* READS_BOTH: quick.h reads the headers of most segments, tcp.h the others. Tests use one alone. */
#define READS_BOTH 0
#define READS_SLOWLY 1
#define READS_QUICKLY 2

/* Set before loading; shared with crates/net/src/mobile_path/program.rs. */
struct settings {
	__u64 heartbeat_max_age_ns;
	__u32 link_header_bytes; /* 14 or, for raw IP, 0 */
	__u32 mobile_ifindex;
	__u32 device_ifindex; /* of the daemon's device; 0: none */
	__u32 own_mark;
	__u32 withholds; /* the scheme is `wake` */
	__u32 has_timers; /* 0: the daemon checks which flows pause */
	__u32 reorders_stores; /* the processor may do so */
	__u32 reads; /* READS_BOTH, but in tests */
};
const volatile struct settings settings = {};

#include "noted.h"
#include "withheld_egress.h"

/* Values that the daemon stores through mmap; shared with mobile_path.rs. */
struct control {
	__u64 orders_until_ns; /* CLOCK_MONOTONIC; later no order holds */
	__u64 followed; /* number of flows in the map `followed` */
	__u64 woken_until_ns; /* the latest until_ns in the map `woken` */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

/* The order for a flow's window; shared with mobile_path.rs. */
struct order {
	__u32 limited; /* 0: the window is closed */
	__u32 edge; /* if limited: its right edge; see ordered_window() */
};

/* Flows whose window is to be closed or limited. An evicted flow's window is open again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* replaced before loading */
	__type(key, struct flow);
	__type(value, struct order);
} closed SEC(".maps");

/*
 * Flows whose plain segments go to the daemon too. There is room for one more than the daemon
 * follows: a new flow is entered before the flow that it replaces is removed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64 + 1);
	__type(key, struct flow);
	__type(value, __u32);
} followed SEC(".maps");

static __always_inline __u64 orders_until(void)
{
	__u32 zero = 0;
	struct control *orders = bpf_map_lookup_elem(&control, &zero);

	return orders ? *(volatile __u64 *)&orders->orders_until_ns : 0;
}

static __always_inline __u64 woken_until(void)
{
	__u32 zero = 0;
	struct control *orders = bpf_map_lookup_elem(&control, &zero);

	return orders ? *(volatile __u64 *)&orders->woken_until_ns : 0;
}

/*
 * The ordered window: 0, or the part of the MH's own window before the edge. It is rounded up to
 * the window's unit, and the edge moves there. So the edge that is sent moves left by less than
 * a unit, and only if the daemon sets the edge at that moment.
 */
static __always_inline __u16 ordered_window(struct order *order, const struct state *state,
					    const struct segment *segment)
{
	__u32 shift = state->mh_scale == SCALE_UNKNOWN ? 0 : state->mh_scale & 15;
	__s32 room = order->edge - segment->ack;
	__u32 units;

	if (!order->limited || room <= 0)
		return 0;
	units = ((__u32)room + (1U << shift) - 1) >> shift;
	if (units >= segment->window)
		return segment->window;
	order->edge = segment->ack + (units << shift);
	return units;
}

/* Replaces the MH's window by the ordered one. */
static __always_inline void close_window(struct __sk_buff *skb, const struct packet *packet, const struct flow *key,
					 const struct state *state, const struct segment *segment)
{
	__u32 tcp = packet->upper_offset;
	__u16 window = bpf_htons(segment->window);
	struct order *order;
	__u16 rewritten;

	if (segment->flags & (SYN | RST) || !(segment->flags & ACK) || !window)
		return;
	order = bpf_map_lookup_elem(&closed, key);
	if (!order)
		return;
	rewritten = bpf_htons(ordered_window(order, state, segment));
	if (rewritten == window)
		return;
	/*
	 * The window is not part of the pseudo-header. So the helper rightly changes nothing while
	 * the checksum is left to the device (CHECKSUM_PARTIAL).
	 */
	if (bpf_l4_csum_replace(skb, tcp + CHECKSUM_OFFSET, window, rewritten, sizeof(window))) {
		count(WINDOW_NOT_CLOSED);
		return;
	}
	if (bpf_skb_store_bytes(skb, tcp + WINDOW_OFFSET, &rewritten, sizeof(rewritten), 0)) {
		/* Undo: the new checksum would be wrong with the old window. */
		bpf_l4_csum_replace(skb, tcp + CHECKSUM_OFFSET, rewritten, window, sizeof(window));
		count(WINDOW_NOT_CLOSED);
		return;
	}
	count(WINDOW_CLOSED);
}

static __always_inline void turn_round(const struct packet *packet, struct flow *key)
{
	__u32 length = packet->version == 4 ? 4 : 16;
	__u16 port = key->ports[0];

	key->ports[0] = key->ports[1];
	key->ports[1] = port;
#pragma unroll
	for (__u32 i = 0; i < 16; i++) {
		__u8 byte = key->addresses[i];

		if (i >= length)
			break;
		if (length == 4) {
			key->addresses[i] = key->addresses[i + 4];
			key->addresses[i + 4] = byte;
		} else {
			key->addresses[i] = key->addresses[i + 16];
			key->addresses[i + 16] = byte;
		}
	}
}

/* The content of a packet; the key has the MH's end first. */
struct read {
	struct packet packet;
	struct segment segment;
	struct flow key;
	struct outer outer; /* valid on egress alone */
	const struct options *options;
	struct options quick;
};

/* Reads a packet by upper.h and tcp.h. Returns FOUND, or a reason to pass. */
static __always_inline int read_slowly(struct __sk_buff *skb, int inward, struct read *read)
{
	__u32 link = settings.link_header_bytes;
	int reason = parse(skb, link, &read->packet);

	if (reason != FOUND)
		return reason;
	if (read->packet.upper != NEXT_TCP)
		return PASSED_NOT_TCP;
	reason = read_segment(skb, link, &read->packet, &read->segment);
	if (reason)
		return reason;
	if (flow_of(skb, link, &read->packet, &read->key))
		return PASSED_MALFORMED;
	if (inward)
		turn_round(&read->packet, &read->key);
	else
		read_outer(skb, &read->outer);
	read->options = read_options(skb, &read->segment);
	return read->options ? FOUND : PASSED_MALFORMED;
}

static __always_inline int read_packet(struct __sk_buff *skb, int inward, struct read *read)
{
	if (settings.reads != READS_SLOWLY && quick_read(skb, settings.link_header_bytes, inward, &read->packet,
							 &read->segment, &read->key, &read->quick, &read->outer)) {
		read->options = &read->quick;
		return FOUND;
	}
	return settings.reads == READS_QUICKLY ? PASSED_NOT_TCP : read_slowly(skb, inward, read);
}

SEC("tc")
int mobile_egress(struct __sk_buff *skb)
{
	struct state *state;
	struct read read;
	int reason;

	reason = read_packet(skb, 0, &read);
	if (reason != FOUND)
		return pass(reason);
	if (read.segment.flags & (RST | SYN))
		forget_withheld(&read.key);
	if (read.segment.flags & RST) {
		bpf_map_delete_elem(&flows, &read.key);
		return NEXT;
	}
	state = enter(&read.key, &read.packet, &read.segment);
	if (!state)
		return NEXT;
	note_egress(state, &read.segment, read.options, &read.outer);
	if (settings.withholds)
		withheld_egress(skb, &read.packet, &read.key, &read.segment, read.options, state, orders_until(),
				woken_until());
	else if (orders_until() > state->egress_at_ns && !(state->facts & FACT_OPAQUE))
		close_window(skb, &read.packet, &read.key, state, &read.segment);
	return NEXT;
}

static __always_inline int is_followed(const struct flow *key)
{
	__u32 zero = 0;
	struct control *orders = bpf_map_lookup_elem(&control, &zero);

	if (!orders || !*(volatile __u64 *)&orders->followed)
		return 0;
	return bpf_map_lookup_elem(&followed, key) != 0;
}

/*
 * Whether the segment goes to the daemon: it is compressed, or of a followed flow. A segment that
 * does not fit the connection would spoil the daemon's state. It passes, and the host drops it.
 */
static __always_inline int to_daemon(const struct state *state, const struct segment *segment, const struct flow *key)
{
	__u32 end = segment->seq + segment->payload + !!(segment->flags & FIN);
	__u32 reason;

	if (!settings.device_ifindex || !(segment->payload || segment->flags & (FIN | RST)))
		return 0;
	if ((segment->flags & (FIN | SYN | RST | PSH | ACK | URG)) == PSH && segment->payload > COMPRESSED_HEADER_BYTES)
		reason = TAKEN_COMPRESSED;
	else if (is_followed(key))
		reason = TAKEN_FOLLOWED;
	else
		return 0;
	/* The host accepts a RST at RCV.NXT alone: RFC 5961, 3.2. */
	if (!state || (segment->flags & RST ? segment->seq != state->rcv_nxt : !fits(state, segment, end))) {
		count(NOT_CREDIBLE);
		return 0;
	}
	if (!daemon_lives(settings.heartbeat_max_age_ns)) {
		count(PASSED_STALE_HEARTBEAT);
		return 0;
	}
	count(reason);
	return 1;
}

SEC("tc")
int mobile_ingress(struct __sk_buff *skb)
{
	int own = settings.device_ifindex && skb->mark == settings.own_mark;
	struct state *state;
	struct read read;
	int reason;

	if (own) {
		skb->mark = 0;
		count(PASSED_OWN);
	}
	if (skb->pkt_type != 0 /* PACKET_HOST */)
		return pass(PASSED_OTHER_HOST);
	reason = read_packet(skb, 1, &read);
	if (reason != FOUND)
		return pass(reason);
	state = bpf_map_lookup_elem(&flows, &read.key);
	if (!own && to_daemon(state, &read.segment, &read.key))
		return bpf_redirect(settings.device_ifindex, 0);
	if (!state)
		return NEXT;
	if (read.segment.flags & RST) {
		/* The MH itself accepts no other RST: RFC 5961, 3.2. */
		if (read.segment.seq == state->rcv_nxt) {
			bpf_map_delete_elem(&flows, &read.key);
			forget_withheld(&read.key);
		}
		return NEXT;
	}
	if (note_ingress(state, &read.segment, read.options) && settings.withholds)
		withheld_ingress(skb, &read.key, state, &read.segment);
	return NEXT;
}

SEC("tc")
int give_up(struct __sk_buff *skb)
{
	skb->mark = settings.own_mark;
	count(GIVEN_UPLINK);
	return bpf_redirect(settings.mobile_ifindex, BPF_F_INGRESS);
}

char _license[] SEC("license") = "GPL";
