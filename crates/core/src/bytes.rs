// SPDX-License-Identifier: Apache-2.0
//! Readers and writers of the fields of messages and records. All numbers are big-endian.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use holdfast_wire::{Endpoint, SeqNum};

use crate::FlowKey;

/// Writes fields one after another.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn seq(&mut self, seq: SeqNum) {
        self.u32(seq.get());
    }

    pub(crate) fn address(&mut self, address: IpAddr) {
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

    pub(crate) fn flow(&mut self, key: &FlowKey) {
        for end in [key.fh, key.mh] {
            self.address(end.address);
            self.u16(end.port);
        }
    }
}

/// Reads fields one after another; `None` if the bytes end too soon or a value is impossible.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn seq(&mut self) -> Option<SeqNum> {
        self.u32().map(SeqNum::new)
    }

    pub(crate) fn address(&mut self) -> Option<IpAddr> {
        let address = match self.u8()? {
            4 => Ipv4Addr::from(self.array::<4>()?).into(),
            6 => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return None,
        };
        Some(address)
    }

    pub(crate) fn flow(&mut self) -> Option<FlowKey> {
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

    /// True if everything was read.
    pub(crate) const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes fields that a record may lack: a bit for each, in the order of the calls.
#[derive(Debug, Default)]
pub(crate) struct OptionalWriter {
    pub(crate) bits: u16,
    next: u16,
    pub(crate) fields: Writer,
}

impl OptionalWriter {
    pub(crate) fn flag(&mut self, flag: bool) {
        self.bits |= u16::from(flag) << self.next;
        self.next += 1;
    }

    pub(crate) fn put<T>(&mut self, field: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.flag(field.is_some());
        if let Some(field) = field {
            write(&mut self.fields, field);
        }
    }
}

/// Reads what an [`OptionalWriter`] has written, in the same order.
#[derive(Debug)]
pub(crate) struct OptionalReader {
    pub(crate) bits: u16,
}

impl OptionalReader {
    pub(crate) const fn flag(&mut self) -> bool {
        let flag = self.bits & 1 != 0;
        self.bits >>= 1;
        flag
    }

    /// The field, if the record has it. The outer `None` is a reader's error.
    #[expect(
        clippy::option_option,
        reason = "an error, or a field that may be absent"
    )]
    pub(crate) fn get<T>(&mut self, read: impl FnOnce() -> Option<T>) -> Option<Option<T>> {
        if self.flag() {
            read().map(Some)
        } else {
            Some(None)
        }
    }
}
