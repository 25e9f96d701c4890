// SPDX-License-Identifier: Apache-2.0
//! The headers of a frame, copied to be changed: for retransmissions from a cache and for
//! made ACKs.

use crate::checksum::Sum;
use crate::{Flags, Layout, Segment, SeqNum};
use core::net::IpAddr;

mod link;
mod made;
mod options;
mod packed;
mod set_up;

pub use link::LinkAddresses;
pub use packed::PackedHeader;

/// The longest link-layer, IP and TCP headers that are copied, bytes: Ethernet with
/// two tags, IPv6 with some extension headers, TCP with all its options.
pub const HEADER_LEN_MAX: usize = 160;

const TCP_HEADER_LEN: usize = 20;
const TCP_HEADER_LEN_MAX: usize = 60;

/// All headers of one frame, link layer to TCP.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    bytes: [u8; HEADER_LEN_MAX],
    len: u8,
    ip: u8,
    tcp: u8,
}

impl Header {
    /// Whether headers can be copied if TCP's begins at `offset`: all options of TCP must fit behind it.
    pub const fn can_begin_tcp_at(offset: usize) -> bool {
        offset + TCP_HEADER_LEN_MAX <= HEADER_LEN_MAX
    }

    /// Copies the headers of `frame`; `None` if they are longer than
    /// [`HEADER_LEN_MAX`].
    pub fn copy_from(frame: &[u8], layout: &Layout) -> Option<Self> {
        if !Self::can_begin_tcp_at(layout.tcp) {
            return None;
        }
        let mut bytes = [0; HEADER_LEN_MAX];
        bytes
            .get_mut(..layout.payload)?
            .copy_from_slice(frame.get(..layout.payload)?);
        Some(Self {
            bytes,
            len: layout.payload as u8,
            ip: layout.ip as u8,
            tcp: layout.tcp as u8,
        })
    }

    /// The bytes, ready to go in front of the payload.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Length of all headers, bytes.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Always false: there is always a TCP header.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Offset of the IP header, which is the link layer's length.
    pub const fn ip_offset(&self) -> usize {
        self.ip as usize
    }

    /// Offset of the TCP header, where a device starts the checksum.
    pub const fn tcp_offset(&self) -> usize {
        self.tcp as usize
    }

    /// IP and TCP headers together, bytes: the part of an MTU that they take.
    pub const fn network_len(&self) -> usize {
        (self.len - self.ip) as usize
    }

    fn is_v4(&self) -> bool {
        self.bytes[self.ip_offset()] >> 4 == 4
    }

    /// The headers are IPv4's, not IPv6's.
    pub fn is_ipv4(&self) -> bool {
        self.is_v4()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = self.tcp_offset() + at;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Sets SEG.SEQ.
    pub fn set_seq(&mut self, seq: SeqNum) {
        self.put(4, &seq.get().to_be_bytes());
    }

    /// Sets SEG.ACK.
    pub fn set_ack(&mut self, ack: SeqNum) {
        self.put(8, &ack.get().to_be_bytes());
    }

    /// Sets the control bits.
    pub fn set_flags(&mut self, flags: Flags) {
        self.put(13, &[flags.0]);
    }

    /// Sets SEG.WND, not scaled.
    pub fn set_window(&mut self, window: u16) {
        self.put(14, &window.to_be_bytes());
    }

    /// Sets the differentiated services codepoint (RFC 2474), 0 to 63. The ECN bits stay
    /// (RFC 3168, 5). An IPv4 header's checksum is wrong until the next
    /// [`set_payload_len`](Self::set_payload_len).
    pub fn set_dscp(&mut self, dscp: u8) {
        let ip = self.ip_offset();
        let dscp = dscp & 0x3f;
        if self.is_v4() {
            let ecn = self.bytes[ip + 1] & 0x03;
            self.bytes[ip + 1] = dscp << 2 | ecn;
        } else {
            // The traffic class lies across the first two bytes (RFC 8200, 3).
            self.bytes[ip] = self.bytes[ip] & 0xf0 | dscp >> 2;
            self.bytes[ip + 1] = self.bytes[ip + 1] & 0x3f | (dscp & 0x03) << 6;
        }
    }

    /// Sets the lengths in the IP header for `payload_len` bytes of payload, and an
    /// IPv4 header's checksum. `false` if no IP packet has that length.
    pub fn set_payload_len(&mut self, payload_len: usize) -> bool {
        let ip = self.ip_offset();
        let total = self.network_len() + payload_len;
        if self.is_v4() {
            let Ok(total) = u16::try_from(total) else {
                return false;
            };
            self.bytes[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
            self.bytes[ip + 10..ip + 12].fill(0);
            let mut sum = Sum::default();
            sum.add(&self.bytes[ip..self.tcp_offset()]);
            self.bytes[ip + 10..ip + 12].copy_from_slice(&sum.finish().to_be_bytes());
        } else {
            let Ok(after) = u16::try_from(total.saturating_sub(40)) else {
                return false;
            };
            self.bytes[ip + 4..ip + 6].copy_from_slice(&after.to_be_bytes());
        }
        true
    }

    fn addresses(&self) -> (IpAddr, IpAddr) {
        let ip = self.ip_offset();
        if self.is_v4() {
            let word =
                |at: usize| -> [u8; 4] { self.bytes[at..at + 4].try_into().unwrap_or_default() };
            (word(ip + 12).into(), word(ip + 16).into())
        } else {
            let address =
                |at: usize| -> [u8; 16] { self.bytes[at..at + 16].try_into().unwrap_or_default() };
            (address(ip + 8).into(), address(ip + 24).into())
        }
    }

    /// Leaves the checksum to the device: the field gets the sum of the
    /// pseudo-header for `payload_len` bytes.
    pub fn set_checksum_partial(&mut self, payload_len: usize) {
        let (from, to) = self.addresses();
        let tcp_len = self.len() - self.tcp_offset() + payload_len;
        let sum = Sum::pseudo_header(from, to, tcp_len as u32).folded();
        self.put(16, &sum.to_be_bytes());
    }

    /// Computes the checksum over headers and `payload`.
    pub fn set_checksum(&mut self, payload: &[u8]) {
        let (from, to) = self.addresses();
        let tcp = self.tcp_offset();
        self.put(16, &[0, 0]);
        let mut sum = Sum::pseudo_header(from, to, (self.len() - tcp + payload.len()) as u32);
        sum.add(&self.bytes[tcp..self.len()]);
        sum.add(payload);
        self.put(16, &sum.finish().to_be_bytes());
    }
}

/// Whether the TCP checksum of a frame is right.
pub fn checksum_is_right(frame: &[u8], segment: &Segment, layout: &Layout) -> bool {
    let Some(tcp) = frame.get(layout.tcp..layout.end) else {
        return false;
    };
    let mut sum = Sum::pseudo_header(segment.from.address, segment.to.address, tcp.len() as u32);
    sum.add(tcp);
    sum.finish() == 0
}
