// SPDX-License-Identifier: Apache-2.0
//! The gateway's programs in the kernel's verifier and in BPF_PROG_RUN, on invented packets.

use libbpf_rs::{MapCore, MapFlags};

use super::program::ProgramSettings;
use super::*;
use crate::bpf::{Programs, run_once};
use crate::mobile_path::tests::hostile;
use crate::netns::{NetNs, available_or_skip};

/// TCX_NEXT.
const NEXT: i32 = -1;
/// TCX_REDIRECT.
const REDIRECT: i32 = 7;
/// MARKED_FLOWS_MAX of the C source.
const MARKED_FLOWS_MAX: usize = 16_384;
const ALL: [&str; 4] = [
    "wireless_egress",
    "wireless_ingress",
    "give_down",
    "give_up",
];

fn load(kind: LayerKind) -> Programs {
    load_with(kind, None)
}

fn load_with(kind: LayerKind, copies: Option<[u32; 2]>) -> Programs {
    let settings = ProgramSettings {
        heartbeat_max_age_ns: HEARTBEAT_AGE_MAX.as_nanos() as u64,
        wireless_ifindex: 1,
        down_ifindex: 2,
        up_ifindex: 3,
        kind,
        ahead_dscp: Some(46),
        copies,
    };
    let programs = settings.load().unwrap();
    // No frame of these tests has the address of the interface on which it runs.
    set_bridge_port(&programs, true);
    programs
}

fn set_bridge_port(programs: &Programs, is_port: bool) {
    let map = programs.map("bridge_port").unwrap();
    let is_port = is_port.into();
    SharedValues::map(&map).unwrap().store(0, is_port);
}

fn beat(programs: &Programs, at_ns: u64) {
    let heartbeat = programs.map("heartbeat").unwrap();
    SharedValues::map(&heartbeat).unwrap().store(0, at_ns);
}

fn counted(programs: &Programs, name: &str) -> u64 {
    let counters = Counters::of(programs, DATA_PATH).unwrap();
    let all = counters.read().unwrap();
    all.iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn hostile_packets_are_taken_or_passed_as_they_came_and_all_pass_without_a_daemon() {
    let test = "hostile_packets_are_taken_or_passed_as_they_came_and_all_pass_without_a_daemon";
    if !available_or_skip(test) {
        return;
    }
    // What is copied to the daemon's device goes nowhere: there is none.
    let nowhere = NetNs::new().unwrap();
    let ran = nowhere.run(|| {
        for kind in [LayerKind::Ethernet, LayerKind::RawIp] {
            let programs = load(kind);
            for lives in [true, false] {
                let in_an_hour = monotonic_ns() + 3_600_000_000_000;
                let too_old = monotonic_ns() - HEARTBEAT_AGE_MAX.as_nanos() as u64 - 1;
                beat(&programs, if lives { in_an_hour } else { too_old });
                run_all(&programs, lives);
            }
            // A daemon that has ended.
            beat(&programs, 0);
            run_all(&programs, false);
            if kind == LayerKind::Ethernet {
                assert!(counted(&programs, "taken_downlink") > 1_000);
                assert!(counted(&programs, "taken_uplink") > 1_000);
                assert!(counted(&programs, "passed_fragment") > 10);
                assert!(counted(&programs, "passed_stale_heartbeat") > 1_000);
            }
        }
    });
    ran.unwrap();
}

fn run_all(programs: &Programs, lives: bool) {
    for downlink in [true, false] {
        for (number, frame) in hostile::frames(downlink).iter().enumerate() {
            for program in ALL {
                let case = format!("{program}, seed {}, {number}: {frame:02x?}", hostile::SEED);
                // The test facility itself refuses some that are short.
                let Ok((answer, left, _)) = run_once(programs, program, frame, 1) else {
                    assert!(frame.len() < 60, "{case}");
                    continue;
                };
                assert_eq!(&left, frame, "{case}");
                let gives = program.starts_with("give");
                let expected = if gives {
                    &[REDIRECT][..]
                } else {
                    &[NEXT, REDIRECT]
                };
                assert!(expected.contains(&answer), "{answer}, {case}");
                assert!(gives || lives || answer == NEXT, "{case}");
            }
        }
    }
}

#[test]
fn frames_to_another_host_are_taken_at_a_bridge_port_alone() {
    if !available_or_skip("frames_to_another_host_are_taken_at_a_bridge_port_alone") {
        return;
    }
    let programs = load(LayerKind::Ethernet);
    beat(&programs, monotonic_ns() + 3_600_000_000_000);
    // The kernel runs the program on `lo`, whose address is 0.
    let mut frame = tcp_frame();
    for (destination, is_port, is_taken) in [
        ([0; 6], false, true),
        ([0; 6], true, true),
        ([2, 0, 0, 0, 0, 9], false, false),
        ([2, 0, 0, 0, 0, 9], true, true),
        ([0xff; 6], true, false),
    ] {
        set_bridge_port(&programs, is_port);
        frame[..6].copy_from_slice(&destination);
        let (answer, _, _) = run_once(&programs, "wireless_ingress", &frame, 1).unwrap();
        let expected = if is_taken { REDIRECT } else { NEXT };
        assert_eq!(answer, expected, "{destination:?}, port: {is_port}");
    }
}

fn tcp_frame() -> Vec<u8> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2; 6], [0; 6])
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .tcp(4000, 80, 1, 1000)
        .write(&mut frame, &[7; 100])
        .unwrap();
    frame
}

fn to_tcp(frame: &mut Vec<u8>) {
    let packet = etherparse::PacketBuilder::ethernet2([2; 6], [0; 6]).ipv6([1; 16], [2; 16], 64);
    let packet = packet.tcp(4000, 80, 1, 1000);
    packet.write(frame, &[7; 100]).unwrap();
}

fn too_big(frame: &mut Vec<u8>) {
    let packet = etherparse::PacketBuilder::ethernet2([2; 6], [0; 6]).ipv6([1; 16], [2; 16], 64);
    let packet = packet.icmpv6(etherparse::Icmpv6Type::PacketTooBig { mtu: 1280 });
    packet.write(frame, &[7; 100]).unwrap();
}

/// A packet over IPv6 behind these extension headers of 8 bytes.
fn extended_frame(write: fn(&mut Vec<u8>), kinds: [u8; 2]) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame);
    let (next, end_of_header) = (14 + 6, 14 + 40);
    let upper = frame[next];
    let padding = [1, 4, 0, 0, 0, 0];
    let headers = [&[kinds[1], 0], &padding[..], &[upper, 0], &padding].concat();
    frame[next] = kinds[0];
    frame[next - 1] += headers.len() as u8;
    frame.splice(end_of_header..end_of_header, headers);
    frame
}

#[test]
fn hop_by_hop_options_behind_another_header_are_not_followed() {
    if !available_or_skip("hop_by_hop_options_behind_another_header_are_not_followed") {
        return;
    }
    // A copy to the daemon's device goes nowhere: there is none.
    let nowhere = NetNs::new().unwrap();
    let ran = nowhere.run(|| {
        let programs = load(LayerKind::Ethernet);
        beat(&programs, monotonic_ns() + 3_600_000_000_000);
        let answer = |write, kinds| {
            let frame = extended_frame(write, kinds);
            run_once(&programs, "wireless_ingress", &frame, 1)
                .unwrap()
                .0
        };
        let counts = || ["passed_extension", "too_big_copied"].map(|name| counted(&programs, name));
        // 0: hop-by-hop options; 60: destination options.
        assert_eq!(answer(to_tcp, [0, 60]), REDIRECT);
        answer(too_big, [0, 60]);
        assert_eq!(counts(), [0, 1]);
        assert_eq!(answer(to_tcp, [60, 0]), NEXT);
        assert_eq!(answer(too_big, [60, 0]), NEXT);
        assert_eq!(counts(), [2, 1]);
    });
    ran.unwrap();
}

#[test]
fn with_copies_no_hostile_packet_is_taken() {
    if !available_or_skip("with_copies_no_hostile_packet_is_taken") {
        return;
    }
    // What is copied to the daemon's devices goes nowhere: there are none.
    let nowhere = NetNs::new().unwrap();
    let ran = nowhere.run(|| {
        let programs = load_with(LayerKind::Ethernet, Some([4, 5]));
        beat(&programs, monotonic_ns() + 3_600_000_000_000);
        run_all(&programs, true);
        for name in ["taken_downlink", "taken_uplink"] {
            assert_eq!(counted(&programs, name), 0);
        }
        assert!(counted(&programs, "copied_downlink") > 1_000);
        assert!(counted(&programs, "copied_uplink") > 1_000);
    });
    ran.unwrap();
}

#[test]
fn the_flows_whose_mark_is_kept_have_a_limit() {
    if !available_or_skip("the_flows_whose_mark_is_kept_have_a_limit") {
        return;
    }
    let programs = load(LayerKind::Ethernet);
    let handlings = programs.map("handlings").unwrap();
    let key = |number: u32| [&number.to_ne_bytes()[..], &[0; 32]].concat();
    for number in 0..2 * MARKED_FLOWS_MAX as u32 {
        handlings
            .update(&key(number), &[1; 8], MapFlags::ANY)
            .unwrap();
    }
    let kept = handlings.keys().count();
    assert!((1..=MARKED_FLOWS_MAX).contains(&kept), "{kept}");
    let newest = handlings.lookup(&key(2 * MARKED_FLOWS_MAX as u32 - 1), MapFlags::ANY);
    assert!(newest.unwrap().is_some());
}
