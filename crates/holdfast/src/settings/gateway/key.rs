// SPDX-License-Identifier: Apache-2.0
//! The keys of a gateway's settings file.

use super::super::keys::{Key, Kind};

/// `[gateway]`, in the order of the documentation.
pub(crate) const GATEWAY_KEYS: &[Key] = &[
    SCHEME,
    WIRELESS,
    WIRED,
    FLOWS_MAX,
    CACHE_BYTES_MAX,
    FLOW_CACHE_BYTES_MAX,
    FLOW_CACHE_ENTRIES_MAX,
    SILENCE_MIN,
    PROBE_INTERVAL_MIN,
    PROBE_INTERVAL_MAX,
    FLOW_IDLE_MAX,
    OWED_WAIT,
    DRAIN,
    RESEND_DSCP,
    CONTROL_SOCKET,
    STATE_FILE,
];

/// `[snoop]`, in the order of the documentation. Defaults are those of the set `today`.
pub(crate) const SNOOP_KEYS: &[Key] = &[
    SNOOP_SET,
    ALPHA,
    RETRANSMIT_SRTTS,
    RETRANSMIT_INTERVAL_MIN,
    PERSIST,
    HIGH_WATER_MARK_BYTES,
    NACK_THRESHOLD_PACKETS,
    NACK_WAIT,
    HIDE_RTOS,
    CONGESTED_RTTS,
];

/// `[signals]`.
pub(crate) const SIGNAL_KEYS: &[Key] = &[LISTEN, REGISTRATION_LIFETIME];

/// Each `[[mobile]]`.
pub(crate) const MOBILE_ENTRY_KEYS: &[Key] =
    &[MOBILE_NAME, MOBILE_KEY, MOBILE_KEY_FILE, MOBILE_ADDRESSES];

pub(super) const SCHEME: Key = Key {
    path: "gateway.scheme",
    kind: Kind::Choice(&["hold", "keep", "mtcp-plus", "mtcp", "snoop", "observe"]),
    default: Some("\"hold\""),
    example: "\"hold\"",
    meaning: "What is done for the flows. `hold` keeps the segments of an outage and sends them on \
        after it; it makes no ACK and touches no window. `keep` keeps the newest packets of each flow in \
        an outage, of any protocol, by the parameters of `[keep]`; all other packets stay in the kernel. `mtcp-plus` also acknowledges what it keeps \
        while the link is down. `mtcp` splits the connections, and keeps the FHs waiting with a window \
        of 0 while the link is down, by the parameters of `[mtcp]`. `snoop` retransmits what the wireless half loses and hides the loss \
        from the FH, by the parameters of `[snoop]`. `observe` passes every segment as it came, and counts \
        what outages cost.",
    cost: "With `mtcp-plus` bytes are acknowledged before the MH has them: a gateway that dies in an \
        outage breaks those connections. With the others none breaks.",
};

pub(super) const WIRELESS: Key = Key {
    path: "gateway.wireless",
    kind: Kind::Interface,
    default: None,
    example: "\"wlan0\"",
    meaning: "The interface toward the mobiles. All TCP through it passes the gateway.",
    cost: "Has to be given, here or by `--wireless`.",
};

pub(super) const WIRED: Key = Key {
    path: "gateway.wired",
    kind: Kind::Interface,
    default: None,
    example: "\"eth0\"",
    meaning: "The interface toward the fixed hosts. Only `--check` and `holdfast status` use it.",
    cost: "None.",
};

pub(super) const FLOWS_MAX: Key = Key {
    path: "gateway.flows_max",
    kind: Kind::Count {
        min: 1,
        max: 1_048_576,
    },
    default: Some("65536"),
    example: "65536",
    meaning: "Flows followed at most. Further ones pass untouched.",
    cost: "About 3 KiB of memory for each flow there is.",
};

pub(super) const CACHE_BYTES_MAX: Key = Key {
    path: "gateway.cache_bytes_max",
    kind: Kind::Bytes {
        min: 1 << 20,
        max: 64 << 30,
    },
    default: Some("\"256 MiB\""),
    example: "\"256 MiB\"",
    meaning: "Payload in the cache at most, all flows together. A segment counts as 1,000 bytes at \
        least. One mobile takes four fifths at most, the next one four fifths of the rest. At the \
        limit segments pass and are not cached: their senders retransmit them, as without a gateway.",
    cost: "Up to twice that much memory and 16 MiB, when it is full: a segment pins a buffer of 2,176, \
        8,704, 17,408 or 69,632 bytes. Without a free buffer a segment passes and is not cached \
        (counter `worker.no_buffer`). Buffers never take more than 36,506,664,960 bytes, whatever \
        is set.",
};

pub(super) const FLOW_CACHE_BYTES_MAX: Key = Key {
    path: "gateway.flow_cache_bytes_max",
    kind: Kind::Bytes {
        min: 64 << 10,
        max: 1 << 30,
    },
    default: Some("\"8 MiB\""),
    example: "\"8 MiB\"",
    meaning: "Payload kept at most for one flow. What an FH has in flight should fit: the product of \
        the link's rate and the round trip with its queue.",
    cost: "Memory; one flow may take so much of `cache_bytes_max`.",
};

pub(super) const FLOW_CACHE_ENTRIES_MAX: Key = Key {
    path: "gateway.flow_cache_entries_max",
    kind: Kind::Count {
        min: 16,
        max: 1_048_576,
    },
    default: Some("8192"),
    example: "8192",
    meaning: "Segments kept at most for one flow; a super-segment counts once. Bounds what many tiny \
        segments cost.",
    cost: "About 100 bytes of memory for each segment kept, beside its payload.",
};

pub(super) const SILENCE_MIN: Key = Key {
    path: "gateway.silence_min_ms",
    kind: Kind::Millis {
        min: 10.0,
        max: 60_000.0,
    },
    default: Some("200"),
    example: "200",
    meaning: "The least time that is added to the smoothed round trip of the wireless half before an \
        MH that acknowledges nothing is taken for silent, if no signal says so first.",
    cost: "Shorter: outages without signals are seen sooner, and delay spikes are taken for outages.",
};

pub(super) const PROBE_INTERVAL_MIN: Key = Key {
    path: "gateway.probe_interval_min_ms",
    kind: Kind::Millis {
        min: 1.0,
        max: 60_000.0,
    },
    default: Some("20"),
    example: "20",
    meaning: "The least time between two probes of a silent MH; otherwise it is about the round trip \
        of the wireless half.",
    cost: "Shorter: the end of an outage without signals is seen sooner, for more probes on the link.",
};

pub(super) const PROBE_INTERVAL_MAX: Key = Key {
    path: "gateway.probe_interval_max_ms",
    kind: Kind::Millis {
        min: 10.0,
        max: 600_000.0,
    },
    default: Some("1000"),
    example: "1000",
    meaning: "The longest time between two probes of a silent MH.",
    cost: "Longer: fewer probes, and a longer stall after an outage without signals.",
};

pub(super) const FLOW_IDLE_MAX: Key = Key {
    path: "gateway.flow_idle_max_s",
    kind: Kind::Seconds {
        min: 60.0,
        max: 604_800.0,
    },
    default: Some("7440"),
    example: "7440",
    meaning: "After this time without any segment a flow is forgotten. RFC 5382 asks middle nodes for \
        at least 2 h 4 min.",
    cost: "Longer: flows that ended unseen fill the table for longer.",
};

pub(super) const OWED_WAIT: Key = Key {
    path: "gateway.owed_wait_s",
    kind: Kind::Seconds {
        min: 1.0,
        max: 86_400.0,
    },
    default: Some("600"),
    example: "600",
    meaning: "`mtcp-plus` only: how long bytes that were acknowledged ahead of the MH wait for it. \
        Then both ends get a RST, never a silent gap.",
    cost: "Longer: the bytes take up the cache for longer.",
};

pub(super) const DRAIN: Key = Key {
    path: "gateway.drain_s",
    kind: Kind::Seconds {
        min: 0.0,
        max: 3_600.0,
    },
    default: Some("10"),
    example: "10",
    meaning: "`mtcp-plus` only: how long SIGTERM waits for the MHs to acknowledge what was \
        acknowledged ahead of them. It acknowledges nothing further meanwhile.",
    cost: "Longer: the service stops later. Shorter: flows that are still owed bytes get a RST.",
};

pub(super) const RESEND_DSCP: Key = Key {
    path: "gateway.resend_dscp",
    kind: Kind::Dscp,
    default: None,
    example: "\"cs5\"",
    meaning: "The DSCP of what `snoop` retransmits to go ahead of ordinary traffic; without it as the \
        sender sent it. On the wireless interface those packets also get the priority of interactive \
        traffic: queueing disciplines with bands (`pfifo_fast`, `prio`, `fq`) serve them first, as \
        everything else that passes the gateway downlink with this DSCP. Wi-Fi goes by the DSCP itself.",
    cost: "What marks its own packets with this DSCP gains the same place in the queue.",
};

pub(super) const CONTROL_SOCKET: Key = Key {
    path: "gateway.control_socket",
    kind: Kind::Path,
    default: Some("\"/run/holdfast/gateway.sock\""),
    example: "\"/run/holdfast/gateway.sock\"",
    meaning: "The Unix socket of `holdfast status` and `holdfast gateway signal`, for its owner and group \
        (mode 0660). A socket that a killed daemon left is replaced; anything else stays, and the daemon \
        does not start.",
    cost: "None. Only /run/holdfast is made if it is missing.",
};

pub(super) const STATE_FILE: Key = Key {
    path: "gateway.state_file",
    kind: Kind::Path,
    default: Some("\"/run/holdfast/gateway.state\""),
    example: "\"/run/holdfast/gateway.state\"",
    meaning: "Where the daemon keeps what its successor needs to go on in mid-flow, also after a kill. A \
        file that is no state file of holdfast stays as it is, and the daemon does not start.",
    cost: "64 bytes for each of `flows_max`, 4 MiB with the default, taken at the start; in memory if the \
        path is on a tmpfs, as /run is. If the file system is full the gateway runs without it, logs it, and \
        `mtcp-plus` acknowledges nothing ahead.",
};

pub(super) const LISTEN: Key = Key {
    path: "signals.listen",
    kind: Kind::SocketAddr,
    default: Some("\"[::]:4848\""),
    example: "\"[::]:4848\"",
    meaning: "Where the mobiles' signals come in, UDP. `[::]` takes IPv4 too. Nothing is opened while \
        no `[[mobile]]` is there.",
    cost: "None.",
};

pub(super) const REGISTRATION_LIFETIME: Key = Key {
    path: "signals.registration_lifetime_s",
    kind: Kind::Seconds {
        min: 1.0,
        max: 86_400.0,
    },
    default: Some("90"),
    example: "90",
    meaning: "How long an address stays with a mobile that is not heard. Until then no other mobile \
        can register it.",
    cost: "Shorter than a few keepalives (30 s): a mobile in an outage may lose its address to \
        another with the same prefix.",
};

pub(super) const MOBILE_NAME: Key = Key {
    path: "mobile.name",
    kind: Kind::Text,
    default: None,
    example: "\"train-7\"",
    meaning: "The mobile's name in logs and in `holdfast status`. Each mobile has its own.",
    cost: "Has to be given.",
};

pub(super) const MOBILE_KEY: Key = Key {
    path: "mobile.key",
    kind: Kind::SecretKey,
    default: None,
    example: "\"hf1:...\" as `holdfast mobile keygen` prints it",
    meaning: "The key that the mobile's signals are sealed with. Each mobile has its own. Whoever \
        reads it can speak for the mobile: keep the file readable by root alone, or use `key_file`.",
    cost: "This or `key_file` has to be given.",
};

pub(super) const MOBILE_KEY_FILE: Key = Key {
    path: "mobile.key_file",
    kind: Kind::Path,
    default: None,
    example: "\"/etc/holdfast/train-7.key\"",
    meaning: "A file with the key alone, in place of `key`.",
    cost: "None.",
};

pub(super) const MOBILE_ADDRESSES: Key = Key {
    path: "mobile.addresses",
    kind: Kind::Prefixes,
    default: None,
    example: "[\"10.9.0.2\", \"2001:db8:9::/64\"]",
    meaning: "The addresses and prefixes that the mobile may register. A signal with any other changes \
        nothing and is counted.",
    cost: "Has to be given. Wider: the mobile can speak for more addresses.",
};

pub(super) const SNOOP_SET: Key = Key {
    path: "snoop.set",
    kind: Kind::Choice(&["today", "1995"]),
    default: Some("\"today\""),
    example: "\"today\"",
    meaning: "Which Snoop. `1995`: as published. `today`: for senders with SACK, RACK and D-SACK. The \
        defaults of the keys below are those of `today`.",
    cost: "With `1995` today's senders hear of more losses, and outages are not carried through.",
};

pub(super) const ALPHA: Key = Key {
    path: "snoop.alpha",
    kind: Kind::Factor {
        min: 0.001,
        max: 1.0,
    },
    default: Some("0.25"),
    example: "0.25",
    meaning: "Weight of a new measurement in the smoothed round trip of the wireless half, `srtt`.",
    cost: "Larger: follows changes sooner, and single measurements too.",
};

pub(super) const RETRANSMIT_SRTTS: Key = Key {
    path: "snoop.retransmit_srtts",
    kind: Kind::Count { min: 1, max: 100 },
    default: Some("2"),
    example: "2",
    meaning: "A packet that was retransmitted is retransmitted again after so many `srtt` without an \
        ACK of it.",
    cost: "Fewer: a second loss is repaired sooner, for more packets sent in vain.",
};

pub(super) const RETRANSMIT_INTERVAL_MIN: Key = Key {
    path: "snoop.retransmit_interval_min_ms",
    kind: Kind::Millis {
        min: 1.0,
        max: 10_000.0,
    },
    default: Some("5"),
    example: "5",
    meaning: "But no sooner than after this time. `1995`: 40.",
    cost: "Shorter: as above.",
};

pub(super) const PERSIST: Key = Key {
    path: "snoop.persist_ms",
    kind: Kind::Millis {
        min: 1.0,
        max: 60_000.0,
    },
    default: Some("200"),
    example: "200",
    meaning: "While something is unacknowledged and no packet of either end has come for so long, the \
        first of it is retransmitted.",
    cost: "Shorter: the last packet of a burst is repaired sooner, and more often in vain.",
};

pub(super) const HIGH_WATER_MARK_BYTES: Key = Key {
    path: "snoop.high_water_mark_bytes",
    kind: Kind::Bytes {
        min: 1 << 10,
        max: 1 << 30,
    },
    default: Some("\"6 MiB\""),
    example: "\"6 MiB\"",
    meaning: "Bytes cached for a flow up to which packets in the normal sequence are taken in; what \
        comes out of sequence is cached beyond, up to `flow_cache_bytes_max`. `1995`: 64 KiB.",
    cost: "Memory. Less than what an FH has in flight: the losses of the rest are left to the FH.",
};

pub(super) const NACK_THRESHOLD_PACKETS: Key = Key {
    path: "snoop.nack_threshold_packets",
    kind: Kind::Count { min: 1, max: 1000 },
    default: Some("3"),
    example: "3",
    meaning: "Uplink: an MH is told of a hole in what it sends after so many packets beyond it.",
    cost: "Fewer: sooner, and packets that only overtook one another are sent again.",
};

pub(super) const NACK_WAIT: Key = Key {
    path: "snoop.nack_wait_ms",
    kind: Kind::Millis {
        min: 1.0,
        max: 10_000.0,
    },
    default: Some("10"),
    example: "10",
    meaning: "Uplink: or so long after the last of them, if no more come. `1995`: 40.",
    cost: "As above.",
};

pub(super) const HIDE_RTOS: Key = Key {
    path: "snoop.hide_rtos",
    kind: Kind::Factor {
        min: 0.0,
        max: 100.0,
    },
    default: Some("0.75"),
    example: "0.75",
    meaning: "A loss is hidden from the FH for at most this part of the FH's retransmission timeout as \
        the gateway estimates it. Of `today` alone.",
    cost: "Larger: the FH may time out before it hears of the loss. Smaller: it hears of losses that \
        the next retransmission would have repaired.",
};

pub(super) const CONGESTED_RTTS: Key = Key {
    path: "snoop.congested_rtts",
    kind: Kind::Factor {
        min: 0.0,
        max: 1000.0,
    },
    default: Some("2"),
    example: "2",
    meaning: "A loss while the link's own queue holds more than this part of the whole path's shortest \
        round trip is taken for congestion: the FH is told. Of `today` alone.",
    cost: "Larger: longer queues. Smaller: losses by the radio on a busy link slow the FH down.",
};
