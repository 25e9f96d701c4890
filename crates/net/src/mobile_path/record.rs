// SPDX-License-Identifier: Apache-2.0
//! The maps' keys and values: `struct flow` of `bpf/upper.h` and `struct state` of `bpf/noted.h`.

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::HostFlow;
use holdfast_wire::{Endpoint, Instant, SackBlocks, SeqNum, Timestamps};

use crate::tun::LayerKind;

pub(super) const KEY_BYTES: usize = 36;
pub(super) const VALUE_BYTES: usize = 232;

// Offsets of the fields.
const FACTS: usize = 0;
const MH_SCALE: usize = 4;
const FH_HAS_FINISHED: usize = 8;

/// An error for one flow is an error only if no other flow could be read.
pub(super) fn or_the_others<T>(found: Vec<T>, failed: Option<io::Error>) -> io::Result<Vec<T>> {
    match failed {
        Some(error) if found.is_empty() => Err(error),
        Some(error) => {
            tracing::warn!(%error, "a flow cannot be read");
            Ok(found)
        }
        None => Ok(found),
    }
}

#[cfg(test)]
const TSVAL_TIMED_AT: usize = 24;
#[cfg(test)]
const SEQ_TIMED_AT: usize = 32;
#[cfg(test)]
const ORDERS: usize = 96;
const BEGUN: usize = 40;
const SND_NXT: usize = 44;
const RCV_NXT: usize = 48;
const TSVAL: usize = 52;
const TSECR: usize = 56;
const WINDOW: usize = 60;
const SACK_BLOCKS: usize = 62;
const TRAFFIC_CLASS: usize = 63;
const EGRESS_AT: usize = 64;
const LINK: usize = 72;
const ENDED: usize = 100;
const INGRESS_AT: usize = 104;
const DATA_AT: usize = 112;
const RTT_AT: usize = 120;
const RTT: usize = 128;
const SRTT: usize = 136;
const FH_TSVAL: usize = 144;
const FH_NXT: usize = 148;
const FH_ACK: usize = 152;
const SACK_BEGUN: usize = 168;
const SACK: usize = 172;
const SACK_ENDED: usize = 204;

/// The parts of a record that belong to one ACK and its SACK blocks.
const OF_AN_ACK: [Range<usize>; 2] = [BEGUN..ENDED + 4, SACK_BEGUN..SACK_ENDED + 4];

/// True if another processor may see stores in another order.
pub(super) const REORDERS_STORES: bool = !cfg!(any(target_arch = "x86_64", target_arch = "x86"));

// Facts, as in the C source.
const FACT_V6: u32 = 0x01;
const FACT_OPAQUE: u32 = 0x02;
const FACT_SACK: u32 = 0x04;
const FACT_OPEN: u32 = 0x40;
const FACT_TIMESTAMPS: u32 = 0x80;

/// A flow, and the further fields for a made ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedFlow {
    /// The state for decisions.
    pub flow: HostFlow,
    /// The newest timestamp of the FH.
    pub fh_tsval: u32,
    /// The FH's SND.NXT.
    pub fh_nxt: SeqNum,
    /// SEG.ACK of the FH's newest segment.
    pub fh_ack: SeqNum,
    /// When the newest round trip was measured.
    pub rtt_at: Option<Instant>,
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

/// A reader of native values.
struct Fields<'a>(&'a [u8; VALUE_BYTES]);

impl Fields<'_> {
    fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(*self.0[at..].first_chunk().unwrap_or(&[0; 2]))
    }

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

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Flow(Box<NotedFlow>),
    /// A program was writing the record: read it again.
    Torn,
    /// The MH has not acknowledged anything yet.
    NotOpen,
}

/// Reads a record.
pub(super) fn read(key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES], kind: LayerKind) -> Read {
    let fields = Fields(value);
    let facts = fields.u32(FACTS);
    if facts & FACT_OPEN == 0 {
        return Read::NotOpen;
    }
    if fields.u32(BEGUN) != fields.u32(ENDED) {
        return Read::Torn;
    }
    let timestamps = (facts & FACT_TIMESTAMPS != 0).then(|| Timestamps {
        tsval: fields.u32(TSVAL),
        tsecr: fields.u32(TSECR),
    });
    let scale = fields.u32(MH_SCALE);
    let scale = (scale <= 14).then_some(scale as u8);
    let flow = HostFlow {
        key: flow_key(key, facts & FACT_V6 != 0),
        snd_nxt: fields.seq(SND_NXT),
        rcv_nxt: fields.seq(RCV_NXT),
        window: fields.u16(WINDOW),
        window_shift: scale,
        timestamps,
        sack: sack(&fields),
        srtt: fields.duration(SRTT),
        rtt: fields.duration(RTT),
        sent_at: Instant::from_nanos(fields.u64(EGRESS_AT)),
        received_at: fields.instant(INGRESS_AT),
        is_opaque: facts & FACT_OPAQUE != 0,
        // The FIN arrived, and nothing is missing before it.
        is_finished: fields.u32(FH_HAS_FINISHED) != 0
            && !fields.seq(FH_NXT).after(fields.seq(RCV_NXT)),
        data_at: fields.instant(DATA_AT),
        // Both SYNs had the option, or the MH has sent a block.
        permits_sack: facts & FACT_SACK != 0,
        download: None,
    };
    Read::Flow(Box::new(NotedFlow {
        flow,
        fh_tsval: fields.u32(FH_TSVAL),
        fh_nxt: fields.seq(FH_NXT),
        fh_ack: fields.seq(FH_ACK),
        rtt_at: fields.instant(RTT_AT),
        link: value[LINK..LINK + kind.header_bytes() as usize].to_vec(),
        dscp: value[TRAFFIC_CLASS] >> 2,
    }))
}

/// The SACK blocks of the ACK; none if the record has those of an older ACK.
fn sack(fields: &Fields<'_>) -> SackBlocks {
    let mut sack = SackBlocks::default();
    let turn = fields.u32(BEGUN);
    if fields.u32(SACK_BEGUN) != turn || fields.u32(SACK_ENDED) != turn {
        return sack;
    }
    for block in 0..fields.0[SACK_BLOCKS].min(4) as usize {
        let edge = |at: usize| fields.seq(SACK + 8 * block + at);
        sack.push(edge(0), edge(4));
    }
    sack
}

/// True if two records that were read one after the other are of one ACK: then no program wrote
/// between the reads.
pub(super) fn are_of_one_ack(first: &[u8; VALUE_BYTES], second: &[u8; VALUE_BYTES]) -> bool {
    OF_AN_ACK
        .into_iter()
        .all(|part| first[part.clone()] == second[part])
}

/// The record with a 1 instead of each time, and without round trips and barriers, so that two runs can
/// be compared.
#[cfg(test)]
pub(super) fn without_times(value: &[u8; VALUE_BYTES]) -> [u8; VALUE_BYTES] {
    let mut settled = *value;
    for at in [TSVAL_TIMED_AT, SEQ_TIMED_AT, EGRESS_AT, INGRESS_AT, DATA_AT] {
        let is_set = u64::from(Fields(value).u64(at) != 0);
        settled[at..at + 8].copy_from_slice(&is_set.to_ne_bytes());
    }
    settled[RTT_AT..SRTT + 8].fill(0);
    settled[ORDERS..ORDERS + 4].fill(0);
    settled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_the_flow_that_it_was_made_from() {
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
    fn a_half_written_record_is_detected() {
        let mut value = [0; VALUE_BYTES];
        let read_it = |value: &[u8; VALUE_BYTES]| read(&[0; KEY_BYTES], value, LayerKind::RawIp);
        assert_eq!(read_it(&value), Read::NotOpen);
        value[FACTS..FACTS + 4].copy_from_slice(&FACT_OPEN.to_ne_bytes());
        assert!(matches!(read_it(&value), Read::Flow(_)));
        let whole = value;
        value[ENDED] = 1;
        assert_eq!(read_it(&value), Read::Torn);
        assert!(are_of_one_ack(&whole, &whole) && !are_of_one_ack(&whole, &value));
        value[INGRESS_AT] = 1;
        value[ENDED] = 0;
        assert!(
            are_of_one_ack(&whole, &value),
            "ingress is no part of an ACK"
        );
    }

    #[test]
    fn sack_blocks_of_another_ack_are_ignored() {
        let mut value = [0; VALUE_BYTES];
        value[FACTS..FACTS + 4].copy_from_slice(&FACT_OPEN.to_ne_bytes());
        for (at, word) in [(SACK, 10_u32), (SACK + 4, 20)] {
            value[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        value[SACK_BLOCKS] = 1;
        for (begun, ended, blocks) in [(0, 0, 1), (1, 0, 0), (0, 1, 0), (1, 1, 0)] {
            (value[SACK_BEGUN], value[SACK_ENDED]) = (begun, ended);
            let Read::Flow(noted) = read(&[0; KEY_BYTES], &value, LayerKind::RawIp) else {
                panic!("no flow");
            };
            assert_eq!(noted.flow.sack.iter().count(), blocks, "{begun}, {ended}");
        }
    }
}
