// SPDX-License-Identifier: Apache-2.0
//! The programs of `keep` in the kernel's verifier and in BPF_PROG_RUN.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use holdfast_core::keep::{Answers, Mode, PacketFlow};

use super::peers::{SEEN_NS, WAITED_NS};
use super::*;
use crate::bpf::{Programs, run_once};
use crate::datapath::{HEARTBEAT_AGE_MAX, monotonic_ns};
use crate::mobile_path::tests::hostile;
use crate::netns::available_or_skip;
use crate::tun::LayerKind;
use crate::virtual_kernel::goes_on_in_virtual_time;

/// TCX_NEXT.
const NEXT: i32 = -1;
/// TCX_REDIRECT.
const REDIRECT: i32 = 7;
const HOUR_NS: u64 = 3_600_000_000_000;
const SEED: u64 = 0x1234_5678_9abc_def0;

struct Loaded {
    programs: Programs,
    table: PeerTable,
}

impl Loaded {
    /// The programs, with a daemon that lives for an hour.
    fn new(peers: Peers) -> Self {
        Self::of(peers, Protocols::All)
    }

    fn of(peers: Peers, protocols: Protocols) -> Self {
        let programs = ProgramSettings {
            heartbeat_max_age_ns: HEARTBEAT_AGE_MAX.as_nanos() as u64,
            seed: SEED,
            link_ifindex: 1,
            device_ifindex: 2,
            kind: LayerKind::Ethernet,
            whole_link: peers == Peers::WholeLink,
            passes_tcp: protocols == Protocols::AllButTcp,
        }
        .load()
        .unwrap();
        let table = PeerTable::map(&programs, SEED, peers).unwrap();
        let loaded = Self { programs, table };
        loaded.beat(monotonic_ns() + HOUR_NS);
        loaded
    }

    fn beat(&self, at_ns: u64) {
        let heartbeat = self.programs.map("heartbeat").unwrap();
        SharedValues::map(&heartbeat).unwrap().store(0, at_ns);
    }

    fn run(&self, program: &str, packet: &[u8]) -> i32 {
        let frame = [&[0; 12][..], &ethertype(packet), packet].concat();
        run_once(&self.programs, program, &frame, 1).unwrap().0
    }

    fn counted(&self, name: &str) -> u64 {
        let counters = Counters::of(&self.programs, KEEP_PATH).unwrap();
        let all = counters.read().unwrap();
        all.iter().find(|(known, _)| *known == name).unwrap().1
    }
}

fn ethertype(packet: &[u8]) -> [u8; 2] {
    if packet[0] >> 4 == 6 {
        [0x86, 0xdd]
    } else {
        [0x08, 0x00]
    }
}

/// A packet of these ends, by its protocol and its first bytes behind the IP header.
fn packet(ends: [IpAddr; 2], protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut packet = match ends {
        [IpAddr::V4(from), IpAddr::V4(to)] => {
            let mut header = vec![0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0];
            header.extend(from.octets().into_iter().chain(to.octets()));
            header
        }
        [IpAddr::V6(from), IpAddr::V6(to)] => {
            let mut header = vec![0x60, 0, 0, 0, 0, 40, protocol, 64];
            header.extend(from.octets().into_iter().chain(to.octets()));
            header
        }
        _ => panic!("one family"),
    };
    packet.extend(upper);
    packet.resize(packet.len() + 40 - upper.len(), 0);
    packet
}

/// The same in the other direction.
fn answer(ends: [IpAddr; 2], protocol: u8, upper: &[u8]) -> Vec<u8> {
    let swapped = [&upper[2..4], &upper[..2]].concat();
    packet([ends[1], ends[0]], protocol, &swapped)
}

const V4: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)),
    IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)),
];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 7)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2)),
];
/// Ports 443 and 50,000.
const PORTS: [u8; 4] = [0x01, 0xbb, 0xc3, 0x50];

#[test]
fn the_programs_and_the_daemon_agree_on_peers_and_flows() {
    if !available_or_skip("the_programs_and_the_daemon_agree_on_peers_and_flows") {
        return;
    }
    let loaded = Loaded::new(Peers::ByAddress);
    for ends in [V4, V6] {
        for protocol in [6, 17, 33, 50, 132, 47, 44, 0] {
            let down = packet(ends, protocol, &PORTS);
            let flow = PacketFlow::of(&down).unwrap();
            let answers = |at_ns| loaded.table.answers(&flow, at_ns);
            assert_eq!(answers(monotonic_ns()), Answers::None, "{flow:?}");
            assert_eq!(loaded.run("link_egress", &down), NEXT);
            // The first packet of a peer gives it a slot. The next one counts for its flow.
            for _ in 0..2 {
                assert_eq!(
                    loaded.run("link_ingress", &answer(ends, protocol, &PORTS)),
                    NEXT
                );
            }
            assert_eq!(answers(monotonic_ns()), Answers::Few, "{flow:?}");
            // Another period of four seconds may begin meanwhile.
            for _ in 0..32 {
                loaded.run("link_ingress", &answer(ends, protocol, &PORTS));
            }
            assert_eq!(answers(monotonic_ns()), Answers::Many, "{flow:?}");
            let later = monotonic_ns() + 70_000_000_000;
            assert_eq!(answers(later), Answers::None, "{flow:?}");
        }
        let peer = loaded.table.find(ends[1]).expect("it was seen");
        assert_eq!(loaded.table.address(peer), Some(ends[1]));
        assert_eq!(loaded.table.find(ends[0]), None);
        assert_eq!(loaded.table.find_or_enter(ends[1]), Some(peer));
    }
    assert_eq!(loaded.table.followed().len(), 2);
    let unseen = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 99));
    let entered = loaded.table.find_or_enter(unseen);
    assert!(entered.is_some() && loaded.table.find(unseen) == entered);
}

#[test]
fn a_silent_peers_packets_are_taken_until_all_that_were_taken_are_finished() {
    if !available_or_skip("a_silent_peers_packets_are_taken_until_all_that_were_taken_are_finished")
    {
        return;
    }
    for (peers, ends) in [(Peers::ByAddress, V4), (Peers::WholeLink, V6)] {
        let loaded = Loaded::new(peers);
        let (down, up) = (packet(ends, 17, &PORTS), answer(ends, 17, &PORTS));
        let one_way = packet(ends, 17, &[0, 1, 0, 2]);
        for _ in 0..32 {
            assert_eq!(loaded.run("link_ingress", &up), NEXT);
        }
        let peer = loaded.table.find(ends[1]).unwrap();
        let second_ago = monotonic_ns() - 1_000_000_000;
        let seen_at = |at_ns| loaded.table.word(peer, SEEN_NS).store(at_ns, Relaxed);
        let waited_since = |at_ns| loaded.table.word(peer, WAITED_NS).store(at_ns, Relaxed);
        // A peer that gets no packets owes no answer, however long it was not seen.
        seen_at(second_ago - 1);
        for _ in 0..2 {
            assert_eq!(loaded.run("link_egress", &one_way), NEXT);
        }
        assert_eq!(loaded.table.seen_and_waited_for_ns(peer).1, 0);
        // The peer was seen lately, however long the test takes.
        let in_an_hour = monotonic_ns() + HOUR_NS;
        seen_at(in_an_hour);
        assert_eq!(loaded.run("link_egress", &down), NEXT);
        let waited = loaded.table.seen_and_waited_for_ns(peer).1;
        assert!(waited > 0, "it is waited for now");
        seen_at(second_ago - 1);
        waited_since(in_an_hour);
        assert_eq!(
            loaded.run("link_egress", &down),
            NEXT,
            "for too short a time"
        );
        waited_since(second_ago);
        assert_eq!(loaded.run("link_egress", &down), REDIRECT);
        assert_eq!(
            loaded.run("link_egress", &one_way),
            REDIRECT,
            "for the order"
        );
        assert!(loaded.table.is_taking(peer));
        assert_eq!(
            (loaded.counted("alarms"), loaded.table.unfinished(peer)),
            (1, 2)
        );
        // The peer is seen: it is counted, and what it sends passes.
        assert_eq!(loaded.run("link_ingress", &up), NEXT);
        assert_eq!(loaded.table.take_seen(peer), 1);
        loaded.table.set_mode(peer, Mode::Drain);
        loaded.table.finish(peer, 1);
        assert_eq!(
            loaded.run("link_egress", &down),
            REDIRECT,
            "one is not finished"
        );
        loaded.table.finish(peer, 2);
        seen_at(in_an_hour);
        assert_eq!(loaded.run("link_egress", &down), NEXT);
        assert!(!loaded.table.is_draining(peer) && !loaded.table.is_taking(peer));
        assert_eq!(loaded.table.unfinished(peer), 0);
        // `resume` ends DRAIN although packets were lost in the device.
        loaded.table.set_mode(peer, Mode::Take);
        loaded.run("link_egress", &down);
        loaded.table.set_mode(peer, Mode::Drain);
        loaded.table.resume(peer);
        assert_eq!(loaded.run("link_egress", &down), NEXT);
        // The first try after a pause may be the only one.
        waited_since(0);
        seen_at(monotonic_ns() - 3_000_000_000);
        assert_eq!(loaded.run("link_egress", &one_way), NEXT);
        assert_eq!(loaded.run("link_egress", &down), REDIRECT);
        // Without a daemon nothing is taken, nor while it hangs.
        loaded.table.set_mode(peer, Mode::Take);
        for beat_ns in [0, monotonic_ns() - HEARTBEAT_AGE_MAX.as_nanos() as u64 - 1] {
            loaded.beat(beat_ns);
            assert_eq!(loaded.run("link_egress", &down), NEXT);
        }
        assert_eq!(loaded.counted("passed_stale_heartbeat"), 2);
    }
}

#[test]
fn a_peer_is_silent_after_its_longest_gap_and_some_more() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let loaded = Loaded::new(Peers::ByAddress);
    let (down, up) = (packet(V4, 17, &PORTS), answer(V4, 17, &PORTS));
    for _ in 0..32 {
        loaded.run("link_ingress", &up);
    }
    // 5/4 of the 100 ms that a new peer starts with, and 50 ms.
    for (wait_ms, expected) in [(20, NEXT), (150, NEXT), (50, REDIRECT)] {
        std::thread::sleep(Duration::from_millis(wait_ms));
        assert_eq!(loaded.run("link_egress", &down), expected, "{wait_ms} ms");
    }
}

#[test]
fn neighbours_and_multicast_pass_in_an_outage() {
    if !available_or_skip("neighbours_and_multicast_pass_in_an_outage") {
        return;
    }
    let loaded = Loaded::new(Peers::WholeLink);
    loaded.table.set_mode(PeerId(0), Mode::Take);
    let to = |address: &str| -> [IpAddr; 2] {
        let to: IpAddr = address.parse().unwrap();
        [if to.is_ipv4() { V4[0] } else { V6[0] }, to]
    };
    for (ends, protocol, upper) in [
        (to("224.0.0.251"), 17, PORTS),
        (to("255.255.255.255"), 17, PORTS),
        (to("ff02::1"), 58, [135, 0, 0, 0]),
        (to("fe80::1"), 17, PORTS),
        (V6, 58, [136, 0, 0, 0]),
    ] {
        assert_eq!(
            loaded.run("link_egress", &packet(ends, protocol, &upper)),
            NEXT,
            "{ends:?}"
        );
    }
    for ends in [V4, V6] {
        assert_eq!(
            loaded.run("link_egress", &packet(ends, 58, &[128, 0, 0, 0])),
            REDIRECT
        );
    }
}

#[test]
fn beside_an_engine_what_is_of_tcp_passes_in_an_outage() {
    if !available_or_skip("beside_an_engine_what_is_of_tcp_passes_in_an_outage") {
        return;
    }
    let (tcp, udp) = (6, 17);
    for (protocols, passed) in [(Protocols::All, REDIRECT), (Protocols::AllButTcp, NEXT)] {
        let loaded = Loaded::of(Peers::WholeLink, protocols);
        loaded.table.set_mode(PeerId(0), Mode::Take);
        for (ends, icmp, error, echo) in [(V4, 1, 3, 8), (V6, 58, 1, 128)] {
            let about = |icmp_type: u8, protocol: u8| {
                let mut message = vec![icmp_type, 0, 0, 0, 0, 0, 0, 0];
                message.extend(&packet(ends, protocol, &PORTS)[..20]);
                packet(ends, icmp, &message)
            };
            for (packet, expected) in [
                (packet(ends, tcp, &PORTS), passed),
                (packet(ends, udp, &PORTS), REDIRECT),
                (about(error, tcp), passed),
                (about(error, udp), REDIRECT),
                (about(echo, tcp), REDIRECT),
            ] {
                let verdict = loaded.run("link_egress", &packet);
                assert_eq!(verdict, expected, "{protocols:?} {packet:?}");
            }
        }
    }
}

#[test]
fn hostile_packets_are_taken_or_passed_as_they_came() {
    if !available_or_skip("hostile_packets_are_taken_or_passed_as_they_came") {
        return;
    }
    for peers in [Peers::ByAddress, Peers::WholeLink] {
        let loaded = Loaded::new(peers);
        for mode in [None, Some(Mode::Take), Some(Mode::Drain)] {
            for downlink in [true, false] {
                for frame in hostile::frames(downlink) {
                    for program in ["link_egress", "link_ingress", "give_back"] {
                        let Ok((answer, left, _)) = run_once(&loaded.programs, program, &frame, 1)
                        else {
                            assert!(frame.len() < 60, "seed {}: {frame:02x?}", hostile::SEED);
                            continue;
                        };
                        assert_eq!(left, frame, "{program}");
                        assert!([NEXT, REDIRECT].contains(&answer), "{answer}: {frame:02x?}");
                    }
                }
            }
            for peer in loaded.table.followed() {
                if let Some(mode) = mode {
                    loaded.table.set_mode(peer, mode);
                }
            }
        }
        assert!(loaded.counted("taken") > 0);
    }
}

#[test]
fn a_flood_of_new_peers_takes_no_slot_from_one_that_is_seen() {
    if !available_or_skip("a_flood_of_new_peers_takes_no_slot_from_one_that_is_seen") {
        return;
    }
    let loaded = Loaded::new(Peers::ByAddress);
    let up = answer(V4, 17, &PORTS);
    loaded.run("link_ingress", &up);
    let mine = loaded.table.find(V4[1]).unwrap();
    for number in 0..100_000_u32 {
        let spoofed = IpAddr::V4(Ipv4Addr::from(0x0b00_0000 + number));
        loaded.run("link_ingress", &answer([V4[0], spoofed], 17, &PORTS));
        if number % 1_000 == 0 {
            loaded.run("link_ingress", &up);
        }
    }
    assert_eq!(loaded.table.find(V4[1]), Some(mine));
    assert!(loaded.counted("passed_no_slot") > 0);
}
