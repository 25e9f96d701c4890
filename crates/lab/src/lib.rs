// SPDX-License-Identifier: Apache-2.0
//! Experiments: topologies of network namespaces, the programs run in them,
//! and what is measured.
//!
//! ```text
//!   FH --- veth --- gateway --- emulated link, or veth --- MH
//!   nginx,          holdfast gateway        curl, or an endpoint;
//!   or an endpoint                          holdfast mobile
//! ```
//!
//! From the bottom up: [`topology`] builds the namespaces, [`link_process`] the
//! link between gateway and MH; [`web_server`], [`download`] and [`daemons`] are
//! the programs, [`endpoint`] the lab's own in place of the former two, [`quic`] the same
//! over QUIC; [`counters`] reads the kernel's; [`transfer`] is one transfer with all of this, [`demo`] several
//! side by side; [`harness`] is for tests that
//! bring their own sockets, [`punctuality`] for those that measure times.
//!
//! Every namespace, process and file is owned by a guard, and namespaces have
//! no names: nothing is left behind on any way out. Loops watch a
//! [`stop::StopFlag`], which SIGINT and SIGTERM raise.

mod appointed;
pub mod campaign;
pub mod claims;
pub mod counters;
pub mod cross_traffic;
pub mod daemons;
pub mod demo;
pub mod document;
pub mod download;
pub mod endpoint;
pub mod files;
pub mod framing;
mod full_rate;
pub mod handoffs;
pub mod harness;
pub mod link_accuracy;
pub mod link_file;
pub mod link_process;
mod movement;
pub mod outage_matrix;
pub mod own_flows;
pub mod packet_trace;
pub mod peers;
pub mod punctuality;
pub mod quic;
pub mod report;
pub mod results;
pub mod scenario;
pub mod scratch;
pub mod seeded_file;
mod stall;
pub mod statistics;
pub mod stop;
pub mod substrate;
pub mod throughput;
pub mod topology;
pub mod traced;
pub mod transfer;
pub mod virtual_kernel;
pub mod web_server;
