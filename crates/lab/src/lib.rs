// SPDX-License-Identifier: Apache-2.0
//! Experiments: what is run on a [`holdfast_testbed`] or on the model, and what is measured.
//!
//! From the bottom up: [`endpoint`] is a TCP end of our own, [`quic`] one over QUIC; [`transfer`]
//! is one transfer in namespaces, [`demo`] several side by side. A [`scenario`] is a document of
//! runs; a [`substrate`] executes one of them, [`campaign`] many; [`results`] are lines of JSON.
//! [`claims`] judges them by what papers print, [`report`] shows them as a page.

pub mod campaign;
pub mod claims;
pub mod cross_traffic;
pub mod demo;
pub mod endpoint;
pub mod export;
pub mod framing;
mod full_rate;
pub mod handoffs;
pub mod library;
mod movement;
pub mod new_scenario;
pub mod own_flows;
mod packet_files;
pub mod quic;
pub mod report;
pub mod results;
pub mod scenario;
mod stall;
pub mod statistics;
pub mod substrate;
pub mod traced;
pub mod transfer;
pub mod virtual_kernel;
