// SPDX-License-Identifier: Apache-2.0
//! The word of a router whose link was down: a segment of the FH could not be delivered. A sender in
//! its back-off that receives it for its oldest segment undoes one doubling, and retransmits at once
//! if it is then due (RFC 6069, TCP-LCD; Linux, and no other system that is known).

use std::net::IpAddr;

use holdfast_wire::Header;
use holdfast_wire::checksum::Sum;

use super::NotedFlow;

/// RFC 792, and code 1: host unreachable.
const UNREACHABLE: [u8; 2] = [3, 1];
/// RFC 4443, 3.1, and code 0: no route.
const UNREACHABLE_V6: [u8; 2] = [1, 0];
/// Type, code, checksum, and a word without use.
const ICMP_BYTES: usize = 8;
const HOPS: u8 = 64;

/// The message about the segment that the MH waits for, of the MH's own address, with the link
/// layer's header; none if no packet can have it.
///
/// It quotes IP and TCP header of a segment without payload: sequence number and ports are what
/// counts (RFC 6069, section 3, and RFC 5927, section 4).
pub(super) fn unreachable(noted: &NotedFlow) -> Option<Vec<u8>> {
    let (fh, mh) = (noted.flow.key.fh, noted.flow.key.mh);
    let mut quoted = Header::made(&[], fh, mh)?;
    quoted.set_seq(noted.flow.rcv_nxt);
    let quoted = quoted.as_bytes();
    let mut frame = noted.link.clone();
    let icmp_bytes = ICMP_BYTES + quoted.len();
    let kind = match (mh.address, fh.address) {
        (IpAddr::V4(mh), IpAddr::V4(fh)) => {
            let mut ip = [0; 20];
            let total = (ip.len() + icmp_bytes) as u16;
            (ip[0], ip[6], ip[8], ip[9]) = (0x45, 0x40, HOPS, 1);
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            ip[12..16].copy_from_slice(&mh.octets());
            ip[16..].copy_from_slice(&fh.octets());
            let mut sum = Sum::default();
            sum.add(&ip);
            ip[10..12].copy_from_slice(&sum.finish().to_be_bytes());
            frame.extend_from_slice(&ip);
            UNREACHABLE
        }
        (IpAddr::V6(mh), IpAddr::V6(fh)) => {
            let mut ip = [0; 40];
            (ip[0], ip[6], ip[7]) = (0x60, 58, HOPS);
            ip[4..6].copy_from_slice(&(icmp_bytes as u16).to_be_bytes());
            ip[8..24].copy_from_slice(&mh.octets());
            ip[24..].copy_from_slice(&fh.octets());
            frame.extend_from_slice(&ip);
            UNREACHABLE_V6
        }
        _ => return None,
    };
    let at = frame.len();
    frame.extend_from_slice(&[kind[0], kind[1], 0, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(quoted);
    let mut sum = Sum::default();
    if let (IpAddr::V6(mh), IpAddr::V6(fh)) = (mh.address, fh.address) {
        // The pseudo-header (RFC 8200, 8.1).
        sum.add(&mh.octets());
        sum.add(&fh.octets());
        sum.add(&(icmp_bytes as u32).to_be_bytes());
        sum.add(&[0, 0, 0, 58]);
    }
    sum.add(&frame[at..]);
    frame[at + 2..at + 4].copy_from_slice(&sum.finish().to_be_bytes());
    Some(frame)
}

#[cfg(test)]
mod tests {
    use holdfast_core::FlowKey;
    use holdfast_core::mobile_host::HostFlow;
    use holdfast_wire::{Endpoint, Instant, SackBlocks, SeqNum};

    use super::*;

    fn noted(fh: &str, mh: &str) -> NotedFlow {
        let end = |address: &str, port| Endpoint {
            address: address.parse().unwrap(),
            port,
        };
        NotedFlow {
            flow: HostFlow {
                key: FlowKey {
                    fh: end(fh, 443),
                    mh: end(mh, 40_000),
                },
                snd_nxt: SeqNum::new(1),
                rcv_nxt: SeqNum::new(0xfedc_ba98),
                window: 500,
                window_shift: None,
                timestamps: None,
                sack: SackBlocks::default(),
                srtt: None,
                rtt: None,
                sent_at: Instant::ZERO,
                received_at: None,
                is_opaque: false,
                is_finished: false,
                data_at: None,
                permits_sack: false,
                download: None,
            },
            fh_tsval: 0,
            fh_nxt: SeqNum::new(0),
            fh_ack: SeqNum::new(0),
            rtt_at: None,
            link: vec![7; 14],
            dscp: 0,
        }
    }

    fn sum(octets: &[&[u8]]) -> u16 {
        let mut sum = Sum::default();
        for octets in octets {
            sum.add(octets);
        }
        sum.finish()
    }

    #[test]
    fn it_quotes_the_segment_that_the_mh_waits_for_in_both_families() {
        let (fh, mh) = ([10, 1, 0, 2], [10, 2, 0, 2]);
        let frame = unreachable(&noted("10.1.0.2", "10.2.0.2")).unwrap();
        assert_eq!(frame[..14], [7; 14]);
        let (ip, icmp) = frame[14..].split_at(20);
        assert_eq!(sum(&[ip]), 0);
        assert_eq!(
            usize::from(u16::from_be_bytes([ip[2], ip[3]])),
            frame.len() - 14
        );
        assert_eq!((ip[9], &ip[12..16], &ip[16..]), (1, &mh[..], &fh[..]));
        assert_eq!((&icmp[..2], sum(&[icmp])), (&UNREACHABLE[..], 0));
        // From the FH to the MH: its address first, then the ports, then the number.
        let quoted = &icmp[8..];
        assert_eq!((&quoted[12..16], &quoted[16..20]), (&fh[..], &mh[..]));
        assert_eq!(quoted[20..28], [1, 187, 156, 64, 0xfe, 0xdc, 0xba, 0x98]);

        let frame = unreachable(&noted("fd01::2", "fd02::2")).unwrap();
        let (ip, icmp) = frame[14..].split_at(40);
        assert_eq!(
            (ip[6], &ip[8..10], &ip[24..26]),
            (58, &[0xfd, 2][..], &[0xfd, 1][..])
        );
        let length = (icmp.len() as u32).to_be_bytes();
        assert_eq!(sum(&[&ip[8..], &length, &[0, 0, 0, 58], icmp]), 0);
        assert_eq!(icmp[..2], UNREACHABLE_V6);
        assert_eq!(icmp[8 + 40 + 4..8 + 40 + 8], [0xfe, 0xdc, 0xba, 0x98]);
        assert_eq!(unreachable(&noted("10.1.0.2", "fd02::2")), None);
    }
}
