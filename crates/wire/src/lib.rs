// SPDX-License-Identifier: Apache-2.0
//! Bytes to TCP segments and back.
//!
//! No clock, no I/O, no allocation but for [`unreachable()`]: views of bytes that the caller
//! holds, and plain values.
//!
//! - [`parse()`] reads a frame into a [`Segment`] (values) and a [`Layout`] (where
//!   its parts lie);
//! - [`Header`] is a copy of a frame's headers that can be changed and put in front
//!   of a payload;
//! - [`SeqNum`] and [`Instant`] are the two kinds of number: positions in a stream, and
//!   times.

pub mod checksum;
mod header;
mod ip;
mod parse;
mod segment;
mod seq;
mod time;
mod unreachable;

pub use header::{HEADER_LEN_MAX, Header, LinkAddresses, PackedHeader, checksum_is_right};
pub use ip::{dscp, ip_checksum_is_right};
pub use parse::{Layout, NotTcp, PacketTooBig, is_icmp, parse, parse_packet_too_big};
pub use segment::{Endpoint, Flags, Options, SackBlocks, Segment, Timestamps};
pub use seq::SeqNum;
pub use time::{Duration, Instant};
pub use unreachable::unreachable;
