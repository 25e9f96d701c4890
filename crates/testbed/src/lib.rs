// SPDX-License-Identifier: Apache-2.0
//! Where programs are tried: namespaces and the processes in them.
//!
//! ```text
//!   FH --- veth --- gateway --- emulated link, or veth --- MH
//!   nginx,          holdfast gateway        curl;
//!   or a socket                             holdfast mobile
//! ```
//!
//! [`topology`] builds the namespaces, [`link_process`] the link between gateway and MH;
//! [`web_server`], [`download`], [`daemons`] and [`peers`] are the programs, [`counters`] reads
//! the kernel's. [`harness`] is for tests that bring their own sockets. Experiments are in
//! `holdfast-lab`.
//!
//! Every namespace, process and file is owned by a guard, and namespaces have
//! no names: nothing is left behind, however a program ends. Loops watch a
//! [`stop::StopFlag`], which SIGINT and SIGTERM raise.

pub mod appointed;
pub mod counters;
pub mod daemons;
pub mod download;
pub mod harness;
pub mod link_process;
pub mod peers;
pub mod scratch;
pub mod seeded_file;
pub mod stop;
pub mod topology;
pub mod web_server;
