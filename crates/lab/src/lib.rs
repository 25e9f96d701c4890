// SPDX-License-Identifier: Apache-2.0
//! Experiments: topologies of network namespaces, the programs run in them,
//! and what is measured.
//!
//! ```text
//!   FH --- veth --- gateway --- emulated link, or veth --- MH
//!   nginx           holdfast gateway        curl, holdfast mobile
//! ```
//!
//! From the bottom up: [`topology`] builds the namespaces, [`link_process`] the
//! link between gateway and MH; [`web_server`], [`download`] and [`daemons`] are
//! the programs; [`counters`] reads the kernel's; [`transfer`] is one download
//! with all of this, [`demo`] several side by side; [`harness`] is for tests that
//! bring their own sockets.
//!
//! Every namespace, process and file is owned by a guard, and namespaces have
//! no names: nothing is left behind on any way out. Loops watch a
//! [`stop::StopFlag`], which SIGINT and SIGTERM raise.

pub mod counters;
pub mod daemons;
pub mod demo;
pub mod download;
pub mod harness;
pub mod link_accuracy;
pub mod link_process;
pub mod outage_matrix;
pub mod peers;
pub mod seeded_file;
pub mod stop;
pub mod throughput;
pub mod topology;
pub mod transfer;
pub mod web_server;
