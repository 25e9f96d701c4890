// SPDX-License-Identifier: Apache-2.0
//! The report of a router whose link was down: a segment could not be delivered. A sender in its
//! back-off may receive it for its oldest segment. The sender then undoes one doubling, and
//! retransmits at once if that is then due (RFC 6069, TCP-LCD; Linux, and no other known
//! system).
//!
//! On the gateway `hold` and `auto` send it to MHs that upload. On the mobile `wake` sends it to FHs, and
//! so does `auto` without a gateway.

use core::net::IpAddr;

use crate::checksum::Sum;
use crate::{Endpoint, Header, SeqNum};

/// RFC 792, and code 1: host unreachable.
const UNREACHABLE: [u8; 2] = [3, 1];
/// RFC 4443, 3.1, and code 0: no route.
const UNREACHABLE_V6: [u8; 2] = [1, 0];
/// Type, code, checksum, and an unused word.
const ICMP_BYTES: usize = 8;
const HOPS: u8 = 64;

/// The message to `sender` about its segment `seq` to `receiver`, behind the link layer's header
/// `link`. It comes from the receiver's address. None: the two addresses are not of one family.
///
/// It quotes the IP and TCP headers of a segment without payload: only the sequence number and
/// the ports matter (RFC 6069, section 3, and RFC 5927, section 4).
pub fn unreachable(
    link: &[u8],
    sender: Endpoint,
    receiver: Endpoint,
    seq: SeqNum,
) -> Option<Vec<u8>> {
    let mut quoted = Header::made(&[], sender, receiver)?;
    quoted.set_seq(seq);
    let quoted = quoted.as_bytes();
    let mut frame = link.to_vec();
    let icmp_bytes = ICMP_BYTES + quoted.len();
    let kind = match (receiver.address, sender.address) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut ip = [0; 20];
            let total = (ip.len() + icmp_bytes) as u16;
            (ip[0], ip[6], ip[8], ip[9]) = (0x45, 0x40, HOPS, 1);
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            ip[12..16].copy_from_slice(&from.octets());
            ip[16..].copy_from_slice(&to.octets());
            let mut sum = Sum::default();
            sum.add(&ip);
            ip[10..12].copy_from_slice(&sum.finish().to_be_bytes());
            frame.extend_from_slice(&ip);
            UNREACHABLE
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut ip = [0; 40];
            (ip[0], ip[6], ip[7]) = (0x60, 58, HOPS);
            ip[4..6].copy_from_slice(&(icmp_bytes as u16).to_be_bytes());
            ip[8..24].copy_from_slice(&from.octets());
            ip[24..].copy_from_slice(&to.octets());
            frame.extend_from_slice(&ip);
            UNREACHABLE_V6
        }
        _ => return None,
    };
    let at = frame.len();
    frame.extend_from_slice(&[kind[0], kind[1], 0, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(quoted);
    let mut sum = Sum::default();
    if let (IpAddr::V6(from), IpAddr::V6(to)) = (receiver.address, sender.address) {
        // The pseudo-header (RFC 8200, 8.1).
        sum.add(&from.octets());
        sum.add(&to.octets());
        sum.add(&(icmp_bytes as u32).to_be_bytes());
        sum.add(&[0, 0, 0, 58]);
    }
    sum.add(&frame[at..]);
    frame[at + 2..at + 4].copy_from_slice(&sum.finish().to_be_bytes());
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_fh(fh: &str, mh: &str) -> Option<Vec<u8>> {
        let end = |address: &str, port| Endpoint {
            address: address.parse().unwrap(),
            port,
        };
        let seq = SeqNum::new(0xfedc_ba98);
        unreachable(&[7; 14], end(fh, 443), end(mh, 40_000), seq)
    }

    fn sum(octets: &[&[u8]]) -> u16 {
        let mut sum = Sum::default();
        for octets in octets {
            sum.add(octets);
        }
        sum.finish()
    }

    #[test]
    fn it_quotes_the_segment_in_both_families() {
        let (fh, mh) = ([10, 1, 0, 2], [10, 2, 0, 2]);
        let frame = to_fh("10.1.0.2", "10.2.0.2").unwrap();
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

        let frame = to_fh("fd01::2", "fd02::2").unwrap();
        let (ip, icmp) = frame[14..].split_at(40);
        assert_eq!(
            (ip[6], &ip[8..10], &ip[24..26]),
            (58, &[0xfd, 2][..], &[0xfd, 1][..])
        );
        let length = (icmp.len() as u32).to_be_bytes();
        assert_eq!(sum(&[&ip[8..], &length, &[0, 0, 0, 58], icmp]), 0);
        assert_eq!(icmp[..2], UNREACHABLE_V6);
        assert_eq!(icmp[8 + 40 + 4..8 + 40 + 8], [0xfe, 0xdc, 0xba, 0x98]);
        assert_eq!(to_fh("10.1.0.2", "fd02::2"), None);
    }
}
