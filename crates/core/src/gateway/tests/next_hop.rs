// SPDX-License-Identifier: Apache-2.0
//! The addresses of the link layer with which the packets to a mobile come.

use holdfast_wire::LinkAddresses;

use super::bench::{Bench, LEN, bench, stream};
use crate::testing::{MH, Packet};
use crate::{Direction, Scheme, Verdict};

const FROM: [u8; 6] = [1; 6];
const OTHER_FROM: [u8; 6] = [2; 6];
const OLD: [u8; 6] = [3; 6];
const NEW: [u8; 6] = [4; 6];

fn addresses(to: [u8; 6], from: [u8; 6]) -> LinkAddresses {
    [to, from].concat().try_into().expect("twelve octets")
}

/// Data of the FH, as its next hop has it now.
fn down(bench: &mut Bench, seq: u32, link_addresses: LinkAddresses) -> Verdict {
    let segment = bench.fh_segment(seq, LEN);
    let packet = Packet {
        link_addresses: Some(link_addresses),
        ..Packet::new(segment, &stream(seq, LEN), LEN)
    };
    let mut actions = Vec::new();
    let (way, now) = (Direction::Downlink, bench.now);
    bench
        .gateway
        .handle_segment(way, &segment, &packet, now, &mut actions)
}

fn newest(bench: &Bench) -> Option<LinkAddresses> {
    bench.gateway.link_addresses(MH.address)
}

/// A flow in silence. Two of its segments are cached, with the old address.
fn silent() -> Bench {
    let mut bench = bench(Scheme::Hold);
    for seq in [1, 1001] {
        let verdict = down(&mut bench, seq, addresses(OLD, FROM));
        assert_eq!(verdict, Verdict::Forward);
    }
    bench.wait(3_000);
    bench
}

#[test]
fn they_are_those_of_the_newest_packet_forwarded_or_not() {
    let mut bench = bench(Scheme::Hold);
    assert_eq!(newest(&bench), None, "the SYNs had none");
    for (seq, to) in [(1, OLD), (1001, NEW), (2001, OLD)] {
        let verdict = down(&mut bench, seq, addresses(to, FROM));
        assert_eq!(verdict, Verdict::Forward);
        assert_eq!(newest(&bench), Some(addresses(to, FROM)));
    }
    bench.wait(3_000);
    let verdict = down(&mut bench, 1, addresses(NEW, FROM));
    assert_eq!(verdict, Verdict::Suppress);
    assert_eq!(newest(&bench), Some(addresses(NEW, FROM)));
}

#[test]
fn a_silent_mobile_behind_another_next_hop_is_probed_at_once() {
    for (link_addresses, is_at_once) in [
        (addresses(OLD, FROM), false),
        (addresses(OLD, OTHER_FROM), false),
        (addresses(NEW, FROM), true),
    ] {
        let mut bench = silent();
        let verdict = down(&mut bench, 1, link_addresses);
        assert_eq!(verdict, Verdict::Suppress);
        let is_due = bench.gateway.poll_timeout() <= Some(bench.now);
        assert_eq!(is_due, is_at_once, "{link_addresses:?}");
    }
}
