/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all data paths share: protocol numbers, counters, and the daemon's heartbeat.
 *
 * The program that includes it defines `enum counter` before: COUNTERS comes last.
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

/* CLOCK_MONOTONIC of the daemon's last heartbeat, written through mmap. */
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

#endif
