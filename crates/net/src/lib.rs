// SPDX-License-Identifier: Apache-2.0
//! The edge to Linux: TUN and TAP devices, BPF programs, network namespaces,
//! netlink.
//!
//! No protocol logic. The only crate with `unsafe` code, all of it calls of
//! the kernel and views of buffers that the kernel fills.
#![allow(unsafe_code, reason = "calls of the kernel that no safe crate offers")]

pub mod addresses;
pub mod arrival;
mod attach_point;
mod bpf;
pub mod bpf_stats;
pub mod broker;
pub mod counters;
pub mod datapath;
pub mod frame;
pub mod group;
pub mod inject;
pub mod keep_path;
pub mod lccwe;
mod mapping;
pub mod mobile_path;
pub mod monitor;
mod netlink;
pub mod netns;
pub mod nl80211;
pub mod privileges;
pub mod readiness;
pub mod replies;
pub mod rtnl;
pub mod state_file;
mod syscall;
pub mod tcp_info;
pub mod tcp_window;
pub mod tun;
pub mod tun_ring;
pub mod virtual_kernel;
mod vnet;
