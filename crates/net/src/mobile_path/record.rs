// SPDX-License-Identifier: Apache-2.0
//! The maps' keys and values: `struct flow` of `bpf/path.h` and `struct state` of `bpf/noted.h`.

use std::net::IpAddr;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::HostFlow;
use holdfast_wire::{Endpoint, Instant, SackBlocks, SeqNum, Timestamps};

use crate::tun::LayerKind;

pub(super) const KEY_BYTES: usize = 36;
pub(super) const VALUE_BYTES: usize = 176;

// Where the words stand that say how the others are to be read.
const BEGUN: usize = 0;
const ENDED: usize = 84;
const FACTS: usize = 88;

// Facts, as in the C source.
const FACT_V6: u32 = 0x01;
const FACT_OPAQUE: u32 = 0x02;
const FACT_OPEN: u32 = 0x40;
const FACT_TIMESTAMPS: u32 = 0x80;

/// A flow, and what else an ACK of it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedFlow {
    /// What decisions are made from.
    pub flow: HostFlow,
    /// The window scale of the MH (RFC 7323); none if its SYN was not seen.
    pub mh_scale: Option<u8>,
    /// The newest clock of the FH.
    pub fh_tsval: u32,
    /// The sequence number after the highest of the FH.
    pub fh_nxt: SeqNum,
    /// When the newest round trip was measured.
    pub rtt_at: Option<Instant>,
    /// When the newest payload of the FH came.
    pub data_at: Option<Instant>,
    /// The link layer's header of the newest segment.
    pub(super) link: Vec<u8>,
    /// The differentiated services codepoint of the newest segment, 0 to 63.
    pub(super) dscp: u8,
}

/// The map's key of a flow.
pub(super) fn key(flow: &FlowKey) -> [u8; KEY_BYTES] {
    let mut octets = [0; KEY_BYTES];
    match (flow.mh.address, flow.fh.address) {
        (IpAddr::V4(mh), IpAddr::V4(fh)) => {
            octets[..4].copy_from_slice(&mh.octets());
            octets[4..8].copy_from_slice(&fh.octets());
        }
        (mh, fh) => {
            octets[..16].copy_from_slice(&v6(mh));
            octets[16..32].copy_from_slice(&v6(fh));
        }
    }
    octets[32..34].copy_from_slice(&flow.mh.port.to_be_bytes());
    octets[34..].copy_from_slice(&flow.fh.port.to_be_bytes());
    octets
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn flow_key(octets: &[u8; KEY_BYTES], is_v6: bool) -> FlowKey {
    let v4 = |at: usize| IpAddr::from(*octets[at..].first_chunk::<4>().unwrap_or(&[0; 4]));
    let v6 = |at: usize| IpAddr::from(*octets[at..].first_chunk::<16>().unwrap_or(&[0; 16]));
    let port = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
    let (mh, fh) = if is_v6 {
        (v6(0), v6(16))
    } else {
        (v4(0), v4(4))
    };
    FlowKey {
        fh: Endpoint {
            address: fh,
            port: port(34),
        },
        mh: Endpoint {
            address: mh,
            port: port(32),
        },
    }
}

/// A reader of native words.
struct Words<'a>(&'a [u8; VALUE_BYTES]);

impl Words<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(*self.0[at..].first_chunk().unwrap_or(&[0; 4]))
    }

    fn seq(&self, at: usize) -> SeqNum {
        SeqNum::new(self.u32(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(*self.0[at..].first_chunk().unwrap_or(&[0; 8]))
    }

    fn instant(&self, at: usize) -> Option<Instant> {
        let ns = self.u64(at);
        (ns != 0).then(|| Instant::from_nanos(ns))
    }

    fn duration(&self, at: usize) -> Option<Duration> {
        let ns = self.u64(at);
        (ns != 0).then(|| Duration::from_nanos(ns))
    }
}

/// What became of reading a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The flow.
    Flow(Box<NotedFlow>),
    /// It was being written: read it again.
    Torn,
    /// The MH has acknowledged nothing in it yet.
    NotOpen,
}

/// Reads a record.
pub(super) fn read(key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES], kind: LayerKind) -> Read {
    let words = Words(value);
    let facts = words.u32(FACTS);
    if facts & FACT_OPEN == 0 {
        return Read::NotOpen;
    }
    if words.u32(BEGUN) != words.u32(ENDED) {
        return Read::Torn;
    }
    let mut sack = SackBlocks::default();
    for block in 0..words.u32(56).min(4) as usize {
        let edge = |at: usize| SeqNum::new(words.u32(24 + 8 * block + at));
        sack.push(edge(0), edge(4));
    }
    let timestamps = (facts & FACT_TIMESTAMPS != 0).then(|| Timestamps {
        tsval: words.u32(12),
        tsecr: words.u32(16),
    });
    let scale = words.u32(80);
    let flow = HostFlow {
        key: flow_key(key, facts & FACT_V6 != 0),
        snd_nxt: words.seq(4),
        rcv_nxt: words.seq(8),
        window: words.u32(20) as u16,
        timestamps,
        sack,
        srtt: words.duration(168),
        rtt: words.duration(160),
        sent_at: Instant::from_nanos(words.u64(112)),
        heard_at: words.instant(120),
        is_opaque: facts & FACT_OPAQUE != 0,
        // Nothing is missing before the FIN.
        is_finished: words.u32(92) != 0 && !words.seq(100).after(words.seq(8)),
    };
    Read::Flow(Box::new(NotedFlow {
        flow,
        mh_scale: (scale <= 14).then_some(scale as u8),
        fh_tsval: words.u32(96),
        fh_nxt: words.seq(100),
        rtt_at: words.instant(152),
        data_at: words.instant(128),
        link: value[64..64 + kind.header_bytes() as usize].to_vec(),
        dscp: (words.u32(60) >> 2) as u8 & 0x3f,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_what_it_was_made_of() {
        let end = |address: &str, port| Endpoint {
            address: address.parse().unwrap(),
            port,
        };
        for (fh, mh, is_v6) in [
            ("10.1.0.2", "10.2.0.2", false),
            ("fd01::2", "fd02::2", true),
        ] {
            let flow = FlowKey {
                fh: end(fh, 443),
                mh: end(mh, 40_000),
            };
            assert_eq!(flow_key(&key(&flow), is_v6), flow);
        }
    }

    #[test]
    fn half_a_record_is_known_by_its_ends() {
        let mut value = [0; VALUE_BYTES];
        let read_it = |value: &[u8; VALUE_BYTES]| read(&[0; KEY_BYTES], value, LayerKind::RawIp);
        assert_eq!(read_it(&value), Read::NotOpen);
        value[FACTS..FACTS + 4].copy_from_slice(&FACT_OPEN.to_ne_bytes());
        assert!(matches!(read_it(&value), Read::Flow(_)));
        value[ENDED] = 1;
        assert_eq!(read_it(&value), Read::Torn);
    }
}
