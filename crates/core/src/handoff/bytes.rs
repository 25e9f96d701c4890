// SPDX-License-Identifier: Apache-2.0
//! Reading and writing the fields of messages. All numbers big-endian.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use holdfast_wire::{Endpoint, SeqNum};

use crate::FlowKey;

/// Writes fields one after the other.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn seq(&mut self, seq: SeqNum) {
        self.u32(seq.get());
    }

    pub(super) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => {
                self.u8(4);
                self.0.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                self.u8(6);
                self.0.extend_from_slice(&v6.octets());
            }
        }
    }

    pub(super) fn flow(&mut self, key: &FlowKey) {
        for end in [key.fh, key.mh] {
            self.address(end.address);
            self.u16(end.port);
        }
    }
}

/// Reads fields one after the other; `None` where the bytes end too soon or make no sense.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn seq(&mut self) -> Option<SeqNum> {
        self.u32().map(SeqNum::new)
    }

    pub(super) fn address(&mut self) -> Option<IpAddr> {
        let address = match self.u8()? {
            4 => Ipv4Addr::from(self.array::<4>()?).into(),
            6 => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return None,
        };
        Some(address)
    }

    pub(super) fn flow(&mut self) -> Option<FlowKey> {
        let mut end = || {
            Some(Endpoint {
                address: self.address()?,
                port: self.u16()?,
            })
        };
        Some(FlowKey {
            fh: end()?,
            mh: end()?,
        })
    }

    /// All of it was read.
    pub(super) const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}
