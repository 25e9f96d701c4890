// SPDX-License-Identifier: Apache-2.0
//! The settings of the gateway's and the mobile's daemon as plain data.
//!
//! A section of a settings file is one struct, or a few whose keys stand together in the section.
//! A field is a key: its comment is its documentation, its [`kind`] its range, and the
//! struct's `Default` its default. The engine, the daemons and the lab use the same structs, so a
//! new setting is one field. The pages and the example files are made of [`docs`].
//!
//! This crate reads no file and depends on nothing but `serde`.

pub mod bandwidth;
mod contradiction;
pub mod docs;
mod entries;
pub mod gateway;
pub mod handoff;
pub mod keep;
pub mod kind;
pub mod metrics;
pub mod mobile;
pub mod mtcp;
pub mod prefix;
pub mod signals;
pub mod snoop;
pub mod sources;
pub mod text;
pub mod web;

pub use contradiction::Contradiction;
pub use kind::{parse_size, size_text};
