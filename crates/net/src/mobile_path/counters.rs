// SPDX-License-Identifier: Apache-2.0
//! What the mobile's BPF programs counted.

/// Names in the order of `enum counter` in `bpf/mobile.bpf.c`.
pub(super) const NAMES: [&str; 20] = [
    "noted_egress",
    "noted_ingress",
    "window_closed",
    "window_not_closed",
    "taken_compressed",
    "taken_followed",
    "given_uplink",
    "not_credible",
    "passed_own",
    "passed_stale_heartbeat",
    "passed_not_tcp",
    "passed_fragment",
    "passed_extension",
    "passed_other_host",
    "passed_vlan",
    "passed_malformed",
    "held_back",
    "held_not",
    "let_go",
    "echo_renewed",
];
