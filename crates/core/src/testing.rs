// SPDX-License-Identifier: Apache-2.0
//! Payloads and segments for tests.

use std::rc::Rc;

use holdfast_wire::{Endpoint, Flags, Options, Segment, SeqNum, Timestamps};

use crate::Payload;

/// Real bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub Rc<[u8]>);

impl Payload for Bytes {
    type Header = ();

    fn header(&self) -> Option<()> {
        Some(())
    }

    fn segment_len(&self) -> u32 {
        (self.0.len() as u32).clamp(1, 1000)
    }

    fn is_cacheable(&self) -> bool {
        true
    }
}

/// The FH of the tests.
pub(crate) const FH: Endpoint = Endpoint {
    address: core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 1, 0, 2)),
    port: 80,
};
/// The MH of the tests.
pub(crate) const MH: Endpoint = Endpoint {
    address: core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 2, 0, 2)),
    port: 40_000,
};

/// A data segment from FH to MH.
pub(crate) fn data(seq: u32, bytes: &[u8]) -> (Segment, Bytes) {
    let segment = Segment {
        from: FH,
        to: MH,
        seq: SeqNum::new(seq),
        ack: SeqNum::new(5000),
        flags: Flags::ACK,
        window: 500,
        options: Options {
            timestamps: Some(Timestamps { tsval: 1, tsecr: 1 }),
            ..Options::default()
        },
        payload_len: bytes.len() as u32,
    };
    (segment, Bytes(bytes.into()))
}
