// SPDX-License-Identifier: GPL-2.0
/*
 * The mobile's data path: the newest ACK header of each flow is noted on the
 * interface's way out, and its window closed while the daemon says so; no
 * packet takes a detour but those that the gateway has compressed.
 *
 *      sockets, forwarded flows              sockets, forwarded flows
 *            | egress                              ^  ingress
 *            v                                     |
 *      mobile_egress                        mobile_ingress --- compressed --> [ device ]
 *        note the header                      note what the FH said            daemon
 *        close the window, if ordered              ^                          [ device ]
 *            |                                     |  give_up                     |
 *            v                                     +------------------------------+
 *       out on the link                       from the link
 *
 * The flow's key has the MH's end first, in both directions.
 *
 * What is ordered holds until a deadline that the daemon puts off again and
 * again: if it hangs or dies, windows go out as they are.
 *
 * Segments of the FH change what is noted of the MH's side nowhere: what the
 * daemon acknowledges is what the MH itself has acknowledged.
 */

/* The order is shared with NAMES in crates/net/src/mobile_path/counters.rs. */
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
	COUNTERS,
};

#include "path.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10
#define URG 0x20

#define TCP_HEADER_BYTES 20
#define TCP_OPTIONS_BYTES_MAX 40
/* Room for the largest read from any place below OPTIONS_MASK. */
#define OPTIONS_ROOM 104
#define OPTIONS_MASK 63
#define WINDOW_OFFSET 14
#define CHECKSUM_OFFSET 16

#define LINK_HEADER_BYTES_MAX 14
#define SACK_BLOCKS_MAX 4
#define SCALE_UNKNOWN 255
/* RFC 7323, 2.3 */
#define SCALE_MAX 14

/* Sequence numbers that lie further apart are no neighbours. */
#define SEQUENCE_REACH (1 << 30)

/* A time measurement that nothing has answered by then begins anew. */
#define TIMED_NS_MAX 10000000000ULL

/* The header of a compressed payload, before what follows. */
#define COMPRESSED_HEADER_BYTES 7

/* Set before loading; shared with crates/net/src/mobile_path/program.rs. */
struct settings {
	__u64 heartbeat_max_age_ns;
	__u32 link_header_bytes; /* 14 or, for raw IP, 0 */
	__u32 mobile_ifindex;
	__u32 device_ifindex; /* of the daemon's device; 0: none */
	__u32 own_mark;
};
const volatile struct settings settings = {};

/* What the daemon says by stores, through mmap; shared with mobile_path.rs. */
struct control {
	__u64 orders_until_ns; /* CLOCK_MONOTONIC; older: no order holds */
	__u64 followed;	       /* flows in the map of that name */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

/* Facts of a flow; shared with crates/net/src/mobile_path/record.rs. */
#define FACT_V6 0x01
#define FACT_OPAQUE 0x02 /* carries options that a made ACK could not have */
#define FACT_MH_SACK 0x04
#define FACT_FH_SACK 0x08
#define FACT_MH_FIN 0x10
#define FACT_FH_FIN 0x20
#define FACT_OPEN 0x40 /* the MH has sent an ACK that is not a SYN */
#define FACT_TIMESTAMPS 0x80

/*
 * What is known of a flow; shared with crates/net/src/mobile_path/record.rs.
 *
 * The way out alone writes between `begun` and `ended`, in this order: ended,
 * the fields, begun. Who reads from the front to the back and finds the two
 * equal has read no half of two ACKs. The way in writes what is behind.
 */
struct state {
	__u32 begun;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 tsval;
	__u32 tsecr;
	__u32 window; /* as it stands in the header */
	__u32 sack[2 * SACK_BLOCKS_MAX];
	__u32 sack_blocks;
	__u32 traffic_class;
	__u8 link[16]; /* the link layer's header */
	__u32 mh_scale;
	__u32 ended;

	__u32 facts;
	__u32 fh_scale;
	__u32 fh_tsval;
	__u32 fh_nxt;
	__u32 timed_tsval;
	__u32 timed_seq;
	__u64 egress_at_ns;
	__u64 ingress_at_ns; /* newest segment of the FH */
	__u64 data_at_ns;    /* newest payload of the FH */
	__u64 tsval_timed_at_ns;
	__u64 seq_timed_at_ns;
	__u64 rtt_at_ns;
	__u64 rtt_ns;
	__u64 srtt_ns; /* RFC 6298 */
};

_Static_assert(sizeof(struct flow) == 36 && sizeof(struct state) == 176, "as in record.rs");
_Static_assert(__builtin_offsetof(struct state, link) == 64 && __builtin_offsetof(struct state, facts) == 88 &&
		       __builtin_offsetof(struct state, egress_at_ns) == 112,
	       "as in record.rs");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* replaced before loading */
	__type(key, struct flow);
	__type(value, struct state);
} flows SEC(".maps");

/* Flows whose window is to be closed. One that is evicted is open again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* replaced before loading */
	__type(key, struct flow);
	__type(value, __u32);
} closed SEC(".maps");

/* Flows whose plain segments the daemon is to see too. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 64);
	__type(key, struct flow);
	__type(value, __u32);
} followed SEC(".maps");

/* A state with nothing in it; too large for the stack. */
const volatile struct state fresh SEC(".rodata.fresh") = { .mh_scale = SCALE_UNKNOWN, .fh_scale = SCALE_UNKNOWN };

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
	__u8 timestamps;
	__u8 sack_permitted;
	__u8 others;
};

/*
 * Where options are read: for each path through memory of its own the verifier
 * would go through the loop once more than it has patience for.
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

/* Reads the fixed part; 0, or a reason to pass. */
static __always_inline int read_segment(struct __sk_buff *skb, const struct packet *packet, struct segment *segment)
{
	__u32 ip_bytes = packet->ip_bytes ? packet->ip_bytes : skb->len - settings.link_header_bytes;
	__u32 end = settings.link_header_bytes + ip_bytes;
	struct tcp_header header;
	__u32 header_bytes;
	__u32 payload_offset;

	if (end > skb->len || packet->upper_offset < settings.link_header_bytes + 20)
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
		options->sack_permitted = 1;
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
	__u32 at = 0;

	if (end < 4 || end > TCP_OPTIONS_BYTES_MAX)
		return;
	if (bpf_skb_load_bytes(skb, segment->options_offset, bytes, end))
		return;
	/* What most segments have (RFC 7323, appendix A). */
	if (end == 12 && word(bytes) == 0x0101080a) {
		options->tsval = word(bytes + 4);
		options->tsecr = word(bytes + 8);
		options->timestamps = 1;
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
		if (option[0] != 1)
			read_option(option, length, options);
		at += length;
	}
}

/* What the options say, until they are read again on this processor. */
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

static __always_inline __u32 traffic_class(struct __sk_buff *skb)
{
	__u8 start[2] = {};

	bpf_skb_load_bytes(skb, settings.link_header_bytes, start, sizeof(start));
	/* RFC 2474; in IPv6 it lies across the first two bytes. */
	return start[0] >> 4 == 4 ? start[1] : (start[0] << 4 | start[1] >> 4) & 0xff;
}

static __always_inline void sample(struct state *state, __u64 rtt_ns, __u64 now)
{
	if (!state->srtt_ns)
		state->srtt_ns = rtt_ns;
	else
		state->srtt_ns += rtt_ns / 8 - state->srtt_ns / 8;
	state->rtt_ns = rtt_ns;
	state->rtt_at_ns = now;
}

/* The entry of a flow, new if need be; its SYN makes it a new one. */
static __always_inline struct state *enter(const struct flow *key, const struct packet *packet,
					   const struct segment *segment)
{
	struct state *state = bpf_map_lookup_elem(&flows, key);
	int again = state && segment->flags & SYN && state->snd_nxt == segment->seq + 1;

	if (state && (!(segment->flags & SYN) || again))
		return state;
	if (bpf_map_update_elem(&flows, key, (const void *)&fresh, BPF_ANY))
		return 0;
	state = bpf_map_lookup_elem(&flows, key);
	if (!state)
		return 0;
	state->facts = packet->version == 6 ? FACT_V6 : 0;
	state->snd_nxt = segment->seq;
	state->rcv_nxt = segment->ack;
	return state;
}

/* Starts the clocks by which the FH's answer is a round trip. */
static __always_inline void time_egress(struct state *state, const struct segment *segment,
					const struct options *options, __u32 length, __u64 now)
{
	if (options->timestamps) {
		/* The first segment with this value: an earlier one might be what is answered. */
		int first = options->tsval != state->tsval || !(state->facts & FACT_TIMESTAMPS);
		int idle = !state->tsval_timed_at_ns || now - state->tsval_timed_at_ns > TIMED_NS_MAX;

		if (first && idle) {
			state->timed_tsval = options->tsval;
			state->tsval_timed_at_ns = now;
		}
		state->facts |= FACT_TIMESTAMPS;
	}
	if (!length)
		return;
	if (segment->seq != state->snd_nxt) {
		/* Sent again: its ACK tells no round trip (Karn). */
		state->seq_timed_at_ns = 0;
	} else if (!state->seq_timed_at_ns || now - state->seq_timed_at_ns > TIMED_NS_MAX) {
		state->timed_seq = segment->seq + length;
		state->seq_timed_at_ns = now;
	}
}

static __always_inline void note_ack(struct __sk_buff *skb, struct state *state, const struct segment *segment,
				     const struct options *options, __u32 end)
{
	__u32 turn = state->ended + 1;

	state->ended = turn;
	barrier();
	if (at_or_after(end, state->snd_nxt))
		state->snd_nxt = end;
	state->rcv_nxt = segment->ack;
	state->window = segment->window;
	if (options->timestamps) {
		state->tsval = options->tsval;
		state->tsecr = options->tsecr;
	}
#pragma unroll
	for (int i = 0; i < 2 * SACK_BLOCKS_MAX; i++)
		state->sack[i] = options->sack[i];
	state->sack_blocks = options->sack_blocks;
	state->traffic_class = traffic_class(skb);
	if (settings.link_header_bytes == LINK_HEADER_BYTES_MAX)
		bpf_skb_load_bytes(skb, 0, state->link, LINK_HEADER_BYTES_MAX);
	barrier();
	state->begun = turn;
}

static __always_inline void note_egress(struct __sk_buff *skb, struct state *state, const struct segment *segment)
{
	__u32 length = segment->payload + !!(segment->flags & SYN) + !!(segment->flags & FIN);
	__u64 now = bpf_ktime_get_ns();
	struct options *options;

	options = read_options(skb, segment);
	if (!options)
		return;
	time_egress(state, segment, options, length, now);
	if (segment->flags & SYN) {
		state->mh_scale = options->scale == SCALE_UNKNOWN ? 0 : options->scale;
		if (options->sack_permitted)
			state->facts |= FACT_MH_SACK;
		state->snd_nxt = segment->seq + length;
	} else {
		if (options->others)
			state->facts |= FACT_OPAQUE;
		if (segment->flags & FIN)
			state->facts |= FACT_MH_FIN;
		if (segment->flags & ACK) {
			/* One that another processor has overtaken is not the newest. */
			if (!(state->facts & FACT_OPEN) || at_or_after(segment->ack, state->rcv_nxt))
				note_ack(skb, state, segment, options, segment->seq + length);
			state->facts |= FACT_OPEN;
		}
	}
	state->egress_at_ns = now;
	count(NOTED_EGRESS);
}

static __always_inline __u64 orders_until(void)
{
	__u32 zero = 0;
	struct control *said = bpf_map_lookup_elem(&control, &zero);

	return said ? *(volatile __u64 *)&said->orders_until_ns : 0;
}

/* Window 0 in place of the MH's, if it is so ordered. */
static __always_inline void close_window(struct __sk_buff *skb, const struct packet *packet, const struct flow *key,
					 const struct segment *segment)
{
	__u32 tcp = packet->upper_offset;
	__u16 none = 0;
	__u16 window = bpf_htons(segment->window);

	if (segment->flags & (SYN | RST) || !(segment->flags & ACK) || !window)
		return;
	if (!bpf_map_lookup_elem(&closed, key))
		return;
	/*
	 * The window is not part of the pseudo-header: while the checksum is left to the
	 * device (CHECKSUM_PARTIAL) the helper changes nothing, as is right.
	 */
	if (bpf_l4_csum_replace(skb, tcp + CHECKSUM_OFFSET, window, none, sizeof(window))) {
		count(WINDOW_NOT_CLOSED);
		return;
	}
	if (bpf_skb_store_bytes(skb, tcp + WINDOW_OFFSET, &none, sizeof(none), 0)) {
		/* As it was: the one without the other would be a wrong checksum. */
		bpf_l4_csum_replace(skb, tcp + CHECKSUM_OFFSET, none, window, sizeof(window));
		count(WINDOW_NOT_CLOSED);
		return;
	}
	count(WINDOW_CLOSED);
}

SEC("tc")
int mobile_egress(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct segment segment;
	struct state *state;
	struct flow key;
	int reason;

	reason = parse(skb, settings.link_header_bytes, &packet);
	if (reason != FOUND)
		return pass(reason);
	if (packet.upper != NEXT_TCP)
		return pass(PASSED_NOT_TCP);
	reason = read_segment(skb, &packet, &segment);
	if (reason)
		return pass(reason);
	if (flow_of(skb, settings.link_header_bytes, &packet, &key))
		return pass(PASSED_MALFORMED);
	if (segment.flags & RST) {
		bpf_map_delete_elem(&flows, &key);
		return NEXT;
	}
	state = enter(&key, &packet, &segment);
	if (!state)
		return NEXT;
	note_egress(skb, state, &segment);
	if (orders_until() > state->egress_at_ns && !(state->facts & FACT_OPAQUE))
		close_window(skb, &packet, &key, &segment);
	return NEXT;
}

/* What an off-path sender would have to guess (RFC 9293, 3.10.7.4; RFC 5961). */
static __always_inline int credible(const struct state *state, const struct segment *segment, __u32 end)
{
	__u32 shift = state->mh_scale == SCALE_UNKNOWN ? SCALE_MAX : state->mh_scale;
	__s32 window = state->window << (shift & 15);

	if (!(segment->flags & ACK))
		return 0;
	if (at_or_after(segment->ack, state->snd_nxt + 1) ||
	    !at_or_after(segment->ack, state->snd_nxt - SEQUENCE_REACH))
		return 0;
	if (segment->flags & SYN)
		return !(state->facts & FACT_OPEN) && segment->ack == state->snd_nxt;
	if (!(state->facts & FACT_OPEN))
		return 0;
	/* An end's own retransmissions lie before, by a window at most. */
	return (__s32)(segment->seq - state->rcv_nxt) <= window + (1 << 16) &&
	       (__s32)(end - state->rcv_nxt) >= -(window + (1 << 16));
}

static __always_inline void time_ingress(struct state *state, const struct segment *segment,
					 const struct options *options, __u64 now)
{
	__u64 gap = now - state->ingress_at_ns;
	__u64 rtt = 0;

	if (state->seq_timed_at_ns && at_or_after(segment->ack, state->timed_seq)) {
		rtt = now - state->seq_timed_at_ns;
		state->seq_timed_at_ns = 0;
	}
	if (state->tsval_timed_at_ns && options->timestamps && at_or_after(options->tsecr, state->timed_tsval) &&
	    at_or_after(state->tsval, options->tsecr)) {
		__u64 since = now - state->tsval_timed_at_ns;

		/* The FH may have had nothing to say: a pause as long as all that tells nothing. */
		if (!rtt && (gap < since / 2 || since < state->srtt_ns))
			rtt = since;
		state->tsval_timed_at_ns = 0;
	}
	if (rtt)
		sample(state, rtt, now);
}

static __always_inline void note_ingress(struct __sk_buff *skb, struct state *state, const struct segment *segment)
{
	__u32 end = segment->seq + segment->payload + !!(segment->flags & SYN) + !!(segment->flags & FIN);
	__u64 now = bpf_ktime_get_ns();
	struct options *options;

	if (!credible(state, segment, end)) {
		count(NOT_CREDIBLE);
		return;
	}
	options = read_options(skb, segment);
	if (!options)
		return;
	time_ingress(state, segment, options, now);
	if (segment->flags & SYN) {
		state->fh_scale = options->scale == SCALE_UNKNOWN ? 0 : options->scale;
		/* RFC 7323, 2.2: one end without it, and neither scales. */
		if (options->scale == SCALE_UNKNOWN)
			state->mh_scale = 0;
		if (options->sack_permitted)
			state->facts |= FACT_FH_SACK;
		state->fh_nxt = end;
	} else if (at_or_after(end, state->fh_nxt) || !state->ingress_at_ns) {
		state->fh_nxt = end;
	}
	if (options->timestamps)
		state->fh_tsval = options->tsval;
	if (segment->flags & FIN)
		state->facts |= FACT_FH_FIN;
	state->ingress_at_ns = now;
	if (segment->payload)
		state->data_at_ns = now;
	count(NOTED_INGRESS);
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

static __always_inline int is_followed(const struct flow *key)
{
	__u32 zero = 0;
	struct control *said = bpf_map_lookup_elem(&control, &zero);

	if (!said || !*(volatile __u64 *)&said->followed)
		return 0;
	return bpf_map_lookup_elem(&followed, key) != 0;
}

/* Whether the daemon is to have it: compressed, or of a flow that it follows. */
static __always_inline int to_daemon(const struct segment *segment, const struct flow *key)
{
	__u32 reason;

	if (!settings.device_ifindex || !segment->payload)
		return 0;
	if ((segment->flags & (FIN | SYN | RST | PSH | ACK | URG)) == PSH &&
	    segment->payload > COMPRESSED_HEADER_BYTES)
		reason = TAKEN_COMPRESSED;
	else if (is_followed(key))
		reason = TAKEN_FOLLOWED;
	else
		return 0;
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
	struct packet packet = {};
	struct segment segment;
	struct state *state;
	struct flow key;
	int reason;

	if (own) {
		skb->mark = 0;
		count(PASSED_OWN);
	}
	if (skb->pkt_type != 0 /* PACKET_HOST */)
		return pass(PASSED_OTHER_HOST);
	reason = parse(skb, settings.link_header_bytes, &packet);
	if (reason != FOUND)
		return pass(reason);
	if (packet.upper != NEXT_TCP)
		return pass(PASSED_NOT_TCP);
	reason = read_segment(skb, &packet, &segment);
	if (reason)
		return pass(reason);
	if (flow_of(skb, settings.link_header_bytes, &packet, &key))
		return pass(PASSED_MALFORMED);
	turn_round(&packet, &key);
	if (!own && to_daemon(&segment, &key))
		return bpf_redirect(settings.device_ifindex, 0);
	state = bpf_map_lookup_elem(&flows, &key);
	if (!state)
		return NEXT;
	if (segment.flags & RST) {
		/* RFC 5961, 3.2: any other the MH itself does not take either. */
		if (segment.seq == state->rcv_nxt)
			bpf_map_delete_elem(&flows, &key);
		return NEXT;
	}
	note_ingress(skb, state, &segment);
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
