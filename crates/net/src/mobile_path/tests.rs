// SPDX-License-Identifier: Apache-2.0
//! The programs in the kernel's verifier and in BPF_PROG_RUN: what they note, what they
//! change, and what they do with packets that somebody has thought out.

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::MadeAck;
use holdfast_wire::{
    Endpoint, Flags, Header, SackBlocks, SeqNum, Timestamps, checksum_is_right, parse,
};

use super::*;
use crate::bpf::run_once;
use crate::datapath::monotonic_ns;
use crate::netns::available_or_skip;

mod held;

/// TCX_NEXT.
const NEXT: i32 = -1;
/// TCX_REDIRECT.
const REDIRECT: i32 = 7;
const LINK: usize = 14;
const FLOWS: u32 = 512;
/// `TestRng`'s seed, printed by who uses it.
const SEED: u64 = 20_000_526;

fn interface() -> Interface {
    Interface {
        name: "none".into(),
        ifindex: 1,
        kind: LayerKind::Ethernet,
        mtu: 1500,
        mac: [0; 6],
    }
}

struct Loaded {
    programs: Programs,
    maps: FlowMaps,
}

impl Loaded {
    fn new(test: &str) -> Option<Self> {
        Self::with(test, None)
    }

    /// With a daemon that lives, behind this device.
    fn with_daemon(test: &str) -> Option<Self> {
        let loaded = Self::with(test, Some(1))?;
        let heartbeat = loaded.programs.map("heartbeat").unwrap();
        let later = monotonic_ns() + 3_600_000_000_000;
        SharedWords::map(&heartbeat).unwrap().store(0, later);
        Some(loaded)
    }

    fn with(test: &str, device: Option<u32>) -> Option<Self> {
        if !available_or_skip(test) {
            return None;
        }
        let interface = interface();
        let programs = load(&interface, FLOWS, device).unwrap();
        let maps = FlowMaps::of(&programs, &interface).unwrap();
        Some(Self { programs, maps })
    }

    fn run(&self, program: &str, frame: &[u8]) -> Vec<u8> {
        let (answer, left, _) = run_once(&self.programs, program, frame, 1).unwrap();
        assert_eq!(answer, NEXT);
        left
    }

    fn egress(&self, frame: &[u8]) -> Vec<u8> {
        self.run("mobile_egress", frame)
    }

    fn ingress(&self, frame: &[u8]) {
        assert_eq!(self.run("mobile_ingress", frame), frame);
    }

    /// Whether it goes to the daemon; it is as it was in any case.
    fn is_taken(&self, spec: &Spec) -> bool {
        let frame = spec.frame();
        let (answer, left, _) = run_once(&self.programs, "mobile_ingress", &frame, 1).unwrap();
        assert_eq!(left, frame);
        assert!([NEXT, REDIRECT].contains(&answer), "{answer}");
        answer == REDIRECT
    }

    /// Plain segments of the flow go to the daemon too.
    fn follow(&self, flow: &FlowKey) -> io::Result<()> {
        let followed = self.programs.map("followed")?;
        followed
            .update(&record::key(flow), &1_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?;
        self.maps.words.store(FOLLOWED, 1);
        Ok(())
    }

    fn close(&self, flow: &FlowKey) {
        self.maps.close(flow).unwrap();
        let until = monotonic_ns() + 3_600_000_000_000;
        self.maps.set_orders_until(Instant::from_nanos(until));
    }
}

fn flow(is_v6: bool, port: u16) -> FlowKey {
    let [fh, mh] = if is_v6 {
        ["fd01::2", "fd02::2"]
    } else {
        ["10.1.0.2", "10.2.0.2"]
    };
    let end = |address: &str, port| Endpoint {
        address: address.parse().unwrap(),
        port,
    };
    FlowKey {
        fh: end(fh, 443),
        mh: end(mh, port),
    }
}

/// A segment as it stands in a test.
#[derive(Clone, Copy, Debug)]
struct Spec {
    flow: FlowKey,
    downlink: bool,
    seq: u32,
    ack: u32,
    flags: Flags,
    window: u16,
    clocks: Option<(u32, u32)>,
    payload: usize,
}

impl Spec {
    fn uplink(flow: FlowKey) -> Self {
        Self {
            flow,
            downlink: false,
            seq: 1_000,
            ack: 70_000,
            flags: Flags::ACK,
            window: 501,
            clocks: Some((40, 30)),
            payload: 0,
        }
    }

    fn downlink(flow: FlowKey) -> Self {
        Self {
            downlink: true,
            seq: 70_000,
            ack: 1_000,
            clocks: Some((31, 40)),
            payload: 1_000,
            ..Self::uplink(flow)
        }
    }

    fn frame(&self) -> Vec<u8> {
        self.frame_with(&SackBlocks::default())
    }

    fn frame_with(&self, sack: &SackBlocks) -> Vec<u8> {
        // Addresses of zeros: those of the loopback device, on which the kernel lets it run.
        let mut link = vec![0; LINK];
        let is_v4 = self.flow.fh.address.is_ipv4();
        link[12..].copy_from_slice(if is_v4 { &[8, 0] } else { &[0x86, 0xdd] });
        let (from, to) = if self.downlink {
            (self.flow.fh, self.flow.mh)
        } else {
            (self.flow.mh, self.flow.fh)
        };
        let mut header = Header::made(&link, from, to).unwrap();
        header.set_seq(SeqNum::new(self.seq));
        header.set_ack(SeqNum::new(self.ack));
        header.set_flags(self.flags);
        header.set_window(self.window);
        let clocks = self
            .clocks
            .map(|(tsval, tsecr)| Timestamps { tsval, tsecr });
        header.set_options(clocks, sack);
        let payload = vec![0x5a; self.payload];
        assert!(header.set_payload_len(payload.len()));
        header.set_checksum(&payload);
        [header.as_bytes(), &payload].concat()
    }
}

const PSH_ACK: Flags = Flags(0x18);
const SYN_ACK: Flags = Flags(0x12);
const FIN_ACK: Flags = Flags(0x11);

#[test]
fn the_newest_ack_of_each_flow_is_noted() {
    let Some(loaded) = Loaded::new("the_newest_ack_of_each_flow_is_noted") else {
        return;
    };
    for is_v6 in [false, true] {
        let key = flow(is_v6, 4_000);
        let spec = Spec::uplink(key);
        let mut sack = SackBlocks::default();
        sack.push(SeqNum::new(71_000), SeqNum::new(72_000));
        sack.push(SeqNum::new(74_000), SeqNum::new(75_000));
        loaded.egress(&spec.frame());
        let data = Spec {
            flags: PSH_ACK,
            payload: 300,
            clocks: Some((41, 31)),
            ..spec
        };
        loaded.egress(&data.frame_with(&sack));
        // Overtaken on another processor.
        loaded.egress(
            &Spec {
                ack: 69_000,
                ..spec
            }
            .frame(),
        );
        let noted = loaded.maps.flow(&key).unwrap().unwrap();
        assert_eq!(noted.flow.key, key);
        assert_eq!(noted.flow.snd_nxt, SeqNum::new(1_300));
        assert_eq!(noted.flow.rcv_nxt, SeqNum::new(70_000));
        assert_eq!(noted.flow.window, 501);
        let clocks = Timestamps {
            tsval: 41,
            tsecr: 31,
        };
        assert_eq!(noted.flow.timestamps, Some(clocks));
        assert_eq!(noted.flow.sack, sack);
        assert_eq!(noted.link.len(), LINK);
        assert!(!noted.flow.is_opaque && !noted.flow.is_finished);
    }
    assert_eq!(loaded.maps.flows().unwrap().len(), 2);
}

#[test]
fn a_made_ack_says_again_what_the_mh_said_last() {
    let Some(loaded) = Loaded::new("a_made_ack_says_again_what_the_mh_said_last") else {
        return;
    };
    for is_v6 in [false, true] {
        let key = flow(is_v6, 4_000);
        let frame = Spec::uplink(key).frame();
        loaded.egress(&frame);
        let noted = loaded.maps.flow(&key).unwrap().unwrap();
        let made = sender::made(&noted, MadeAck::Last).unwrap();
        assert_eq!(made.as_bytes(), frame);
        for (ack, flags, window) in [
            (MadeAck::ZeroWindow, Flags::ACK, 0),
            (MadeAck::Marked, PSH_ACK, 501),
        ] {
            let made = sender::made(&noted, ack).unwrap();
            let (segment, layout) = parse(made.as_bytes(), LINK).unwrap();
            assert!(checksum_is_right(made.as_bytes(), &segment, &layout));
            assert_eq!((segment.flags, segment.window), (flags, window));
        }
    }
}

#[test]
fn a_closed_window_is_0_on_the_wire_with_a_right_checksum_and_as_it_was_in_the_note() {
    let test = "a_closed_window_is_0_on_the_wire_with_a_right_checksum_and_as_it_was_in_the_note";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    for is_v6 in [false, true] {
        let key = flow(is_v6, 4_000);
        loaded.close(&key);
        for payload in [0, 1, 999] {
            let frame = Spec {
                payload,
                ..Spec::uplink(key)
            }
            .frame();
            let left = loaded.egress(&frame);
            let (segment, layout) = parse(&left, LINK).unwrap();
            assert_eq!(segment.window, 0);
            assert!(checksum_is_right(&left, &segment, &layout));
            let differing = frame.iter().zip(&left).filter(|(a, b)| a != b).count();
            assert!(differing <= 4, "window and checksum alone: {differing}");
        }
        assert_eq!(loaded.maps.flow(&key).unwrap().unwrap().flow.window, 501);
        let other = Spec::uplink(flow(is_v6, 4_001)).frame();
        assert_eq!(loaded.egress(&other), other, "another flow's is untouched");
    }
}

#[test]
fn orders_end_with_their_deadline_or_when_they_are_taken_back() {
    let test = "orders_end_with_their_deadline_or_when_they_are_taken_back";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let key = flow(false, 4_000);
    let frame = Spec::uplink(key).frame();
    loaded.close(&key);
    assert_ne!(loaded.egress(&frame), frame);
    loaded
        .maps
        .set_orders_until(Instant::from_nanos(monotonic_ns()));
    assert_eq!(loaded.egress(&frame), frame, "the deadline has passed");
    loaded.close(&key);
    loaded.maps.open_window(&key).unwrap();
    assert_eq!(loaded.egress(&frame), frame, "it was taken back");
    loaded.maps.open_window(&key).unwrap();
}

#[test]
fn syn_rst_and_options_that_are_not_understood_keep_their_window() {
    let test = "syn_rst_and_options_that_are_not_understood_keep_their_window";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let key = flow(false, 4_000);
    loaded.close(&key);
    for flags in [Flags::SYN, SYN_ACK, Flags::RST, Flags(0x14)] {
        let frame = Spec {
            flags,
            ..Spec::uplink(key)
        }
        .frame();
        assert_eq!(loaded.egress(&frame), frame, "{flags:?}");
    }
    // MD5, AO, MPTCP, and one that nobody knows.
    for kind in [19, 29, 30, 77] {
        let mut frame = Spec::uplink(flow(false, 5_000 + kind)).frame();
        let clocks_at = frame.len() - 12;
        frame[clocks_at..clocks_at + 2].copy_from_slice(&[kind as u8, 12]);
        let key = flow(false, 5_000 + kind);
        loaded.close(&key);
        assert_eq!(loaded.egress(&frame), frame, "option {kind}");
        assert!(loaded.maps.flow(&key).unwrap().unwrap().flow.is_opaque);
    }
}

#[test]
fn what_the_fh_says_counts_only_where_it_fits() {
    let Some(loaded) = Loaded::new("what_the_fh_says_counts_only_where_it_fits") else {
        return;
    };
    let key = flow(false, 4_000);
    loaded.egress(&Spec::uplink(key).frame());
    let fits = Spec::downlink(key);
    let forged = [
        Spec { ack: 1_001, ..fits },
        Spec {
            ack: 0x8000_0000,
            ..fits
        },
        Spec {
            seq: 0x4000_0000,
            ..fits
        },
        Spec {
            seq: 70_000_u32.wrapping_sub(0x2000_0000),
            ..fits
        },
        Spec {
            flags: Flags::PSH,
            ..fits
        },
        Spec {
            flags: SYN_ACK,
            ..fits
        },
        // A RST that does not name the next byte.
        Spec {
            seq: 70_001,
            flags: Flags::RST,
            payload: 0,
            ..fits
        },
    ];
    let before = loaded.maps.flow(&key).unwrap().unwrap();
    for spec in forged {
        loaded.ingress(&spec.frame());
        assert_eq!(loaded.maps.flow(&key).unwrap().as_ref(), Some(&before));
    }
    loaded.ingress(&fits.frame());
    let noted = loaded.maps.flow(&key).unwrap().unwrap();
    assert_eq!((noted.fh_tsval, noted.fh_nxt), (31, SeqNum::new(71_000)));
    assert!(noted.flow.heard_at.is_some() && noted.data_at.is_some());
    assert_eq!(
        noted.flow.rcv_nxt, before.flow.rcv_nxt,
        "the MH alone says that"
    );
    let reset = Spec {
        flags: Flags::RST,
        payload: 0,
        ..fits
    };
    loaded.ingress(&reset.frame());
    assert!(loaded.maps.flow(&key).unwrap().is_none());
}

#[test]
fn what_does_not_fit_the_connection_is_left_to_the_host_and_never_reaches_the_daemon() {
    let test = "what_does_not_fit_the_connection_is_left_to_the_host_and_never_reaches_the_daemon";
    let Some(loaded) = Loaded::with_daemon(test) else {
        return;
    };
    for is_v6 in [false, true] {
        let key = flow(is_v6, 4_000);
        loaded.egress(&Spec::uplink(key).frame());
        loaded.follow(&key).unwrap();
        for flags in [Flags::PSH, PSH_ACK] {
            let fits = Spec {
                flags,
                ..Spec::downlink(key)
            };
            let forged = [
                Spec { ack: 1_001, ..fits },
                Spec {
                    ack: 0x8000_0000,
                    ..fits
                },
                Spec {
                    seq: 0x4000_0000,
                    ..fits
                },
                Spec {
                    seq: 70_000_u32.wrapping_sub(0x2000_0000),
                    ..fits
                },
                // Of a flow that nobody here has.
                Spec {
                    flow: flow(is_v6, 4_001),
                    ..fits
                },
            ];
            for spec in forged {
                assert!(!loaded.is_taken(&spec), "{spec:?}");
            }
            assert!(loaded.is_taken(&fits), "{fits:?}");
        }
    }
}

#[test]
fn the_end_of_a_followed_flow_reaches_the_daemon_without_payload_too() {
    let test = "the_end_of_a_followed_flow_reaches_the_daemon_without_payload_too";
    let Some(loaded) = Loaded::with_daemon(test) else {
        return;
    };
    let key = flow(false, 4_000);
    loaded.egress(&Spec::uplink(key).frame());
    loaded.follow(&key).unwrap();
    let bare = |flags, seq| Spec {
        flags,
        seq,
        payload: 0,
        ..Spec::downlink(key)
    };
    assert!(!loaded.is_taken(&bare(Flags::ACK, 70_000)));
    assert!(loaded.is_taken(&bare(FIN_ACK, 70_000)));
    assert!(loaded.is_taken(&bare(Flags::RST, 70_000)));
    assert!(!loaded.is_taken(&bare(Flags::RST, 70_001)), "RFC 5961");
    let other = Spec {
        flow: flow(false, 4_001),
        ..bare(FIN_ACK, 70_000)
    };
    loaded.egress(&Spec::uplink(other.flow).frame());
    assert!(!loaded.is_taken(&other), "nobody follows it");
}

#[test]
fn a_flow_that_takes_anothers_place_finds_room_before_that_one_goes() {
    let test = "a_flow_that_takes_anothers_place_finds_room_before_that_one_goes";
    let Some(loaded) = Loaded::with_daemon(test) else {
        return;
    };
    for port in 0..=FOLLOWED_MAX as u16 {
        loaded.follow(&flow(false, 4_000 + port)).unwrap();
    }
}

#[test]
fn a_round_trip_is_measured_by_clocks_and_by_acks_but_not_by_what_was_sent_again() {
    let test = "a_round_trip_is_measured_by_clocks_and_by_acks_but_not_by_what_was_sent_again";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let rtt = |key: &FlowKey| loaded.maps.flow(key).unwrap().unwrap().flow.rtt;
    let clocked = |port| {
        let key = flow(false, port);
        loaded.egress(&Spec::uplink(key).frame());
        let old = Spec {
            clocks: Some((31, 39)),
            ..Spec::downlink(key)
        };
        // Data keeps coming, or the answer would look like one after a pause of the FH.
        let began = monotonic_ns();
        while monotonic_ns() - began < 10_000_000 {
            loaded.ingress(&old.frame());
        }
        assert_eq!(rtt(&key), None, "it answers an earlier segment");
        let next = Spec {
            seq: 71_000,
            ..Spec::downlink(key)
        };
        loaded.ingress(&next.frame());
        rtt(&key)
    };
    // On a busy machine a pause may creep in.
    let measured = (5_000..5_020).find_map(clocked).expect("a round trip");
    assert!(measured >= Duration::from_millis(10), "{measured:?}");

    let bare = Spec {
        clocks: None,
        payload: 100,
        ..Spec::uplink(flow(false, 4_001))
    };
    let answer = Spec {
        clocks: None,
        ack: 1_100,
        ..Spec::downlink(bare.flow)
    };
    loaded.egress(&bare.frame());
    loaded.ingress(&answer.frame());
    assert!(rtt(&bare.flow).is_some());

    let again = Spec {
        flow: flow(false, 4_002),
        ..bare
    };
    loaded.egress(&again.frame());
    loaded.egress(&again.frame());
    loaded.ingress(
        &Spec {
            flow: again.flow,
            ..answer
        }
        .frame(),
    );
    assert_eq!(rtt(&again.flow), None, "Karn");
}

#[test]
fn a_handshake_tells_scale_and_round_trip_and_a_fin_ends_the_flow() {
    let test = "a_handshake_tells_scale_and_round_trip_and_a_fin_ends_the_flow";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let key = flow(true, 4_000);
    let with_scale = |mut frame: Vec<u8>, shift: u8| {
        // In place of the clocks: NOP, window scale, and NOPs.
        let at = LINK + 40 + 20;
        frame[at..at + 12].copy_from_slice(&[1, 3, 3, shift, 1, 1, 1, 1, 1, 1, 1, 1]);
        frame
    };
    let syn = Spec {
        seq: 999,
        ack: 0,
        flags: Flags::SYN,
        ..Spec::uplink(key)
    };
    loaded.egress(&with_scale(syn.frame(), 9));
    assert!(loaded.maps.flow(&key).unwrap().is_none(), "not open yet");
    let syn_ack = Spec {
        seq: 69_999,
        flags: SYN_ACK,
        payload: 0,
        ..Spec::downlink(key)
    };
    loaded.ingress(&with_scale(syn_ack.frame(), 7));
    loaded.egress(&Spec::uplink(key).frame());
    let noted = loaded.maps.flow(&key).unwrap().unwrap();
    assert_eq!(noted.mh_scale, Some(9));
    assert!(noted.flow.rtt.is_some());
    loaded.ingress(
        &Spec {
            flags: FIN_ACK,
            ..Spec::downlink(key)
        }
        .frame(),
    );
    let is_finished = || loaded.maps.flow(&key).unwrap().unwrap().flow.is_finished;
    assert!(!is_finished(), "something may be missing before it");
    let last = Spec {
        ack: 71_001,
        ..Spec::uplink(key)
    };
    loaded.egress(&last.frame());
    assert!(is_finished());
    // The same ports again, by another connection.
    let syn = Spec {
        seq: 0x7000_0000,
        ..syn
    };
    loaded.egress(&syn.frame());
    assert!(loaded.maps.flow(&key).unwrap().is_none());
}

#[test]
fn the_flows_that_are_noted_have_a_limit_and_the_newest_stay() {
    let test = "the_flows_that_are_noted_have_a_limit_and_the_newest_stay";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    for port in 1_000..9_000 {
        loaded.egress(&Spec::uplink(flow(false, port)).frame());
    }
    let flows = loaded.maps.flows().unwrap();
    assert!(
        !flows.is_empty() && flows.len() <= FLOWS as usize,
        "{}",
        flows.len()
    );
    assert!(loaded.maps.flow(&flow(false, 8_999)).unwrap().is_some());
    for port in 1_000..9_000 {
        loaded.maps.close(&flow(false, port)).unwrap();
    }
    assert!(loaded.maps.closed.keys().count() <= FLOWS as usize);
}

/// Numbers that look like any (xorshift).
struct TestRng(u64);

impl TestRng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Frames that no honest host sends, made of the segments that `base` gives for a flow.
fn hostile(base: fn(FlowKey) -> Spec) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for is_v6 in [false, true] {
        let key = flow(is_v6, 4_000);
        let tcp = LINK + if is_v6 { 40 } else { 20 };
        let whole = Spec {
            payload: 60,
            ..base(key)
        }
        .frame();
        frames.extend((LINK..whole.len()).map(|len| whole[..len].to_vec()));
        for offset in 0..16_u8 {
            let mut frame = whole.clone();
            frame[tcp + 12] = offset << 4;
            frames.push(frame);
        }
        for options in [
            [8, 0],
            [8, 1],
            [8, 255],
            [5, 2],
            [5, 11],
            [5, 12],
            [3, 3],
            [1, 8],
            [254, 2],
        ] {
            for at in 0..12 {
                let mut frame = whole.clone();
                frame[tcp + 20 + at..tcp + 22 + at].copy_from_slice(&options);
                frames.push(frame);
            }
        }
        let mut length = |value: [u8; 2]| {
            let mut frame = whole.clone();
            let at = if is_v6 { LINK + 4 } else { LINK + 2 };
            frame[at..at + 2].copy_from_slice(&value);
            frames.push(frame);
        };
        [[0, 0], [0, 1], [0, 39], [0, 41], [255, 255]]
            .into_iter()
            .for_each(&mut length);
        let mut vlan = whole.clone();
        vlan.splice(12..12, [0x81, 0, 0, 5]);
        frames.push(vlan);
    }
    frames.extend(extended(base));
    let v4 = base(flow(false, 4_000)).frame();
    for (at, value) in [
        (LINK, 0x40),
        (LINK, 0x44),
        (LINK, 0x4f),
        (LINK + 6, 0x20),
        (LINK + 7, 3),
    ] {
        let mut frame = v4.clone();
        frame[at] = value;
        frames.push(frame);
    }
    frames
}

/// IPv6 extension headers: chains, fragments, one that points beyond the end, too many.
fn extended(base: fn(FlowKey) -> Spec) -> Vec<Vec<u8>> {
    let plain = base(flow(true, 4_000)).frame();
    let with = |chain: &[(u8, usize)], announced: u8| {
        let mut frame = plain.clone();
        let mut headers = Vec::new();
        frame[LINK + 6] = chain[0].0;
        for (number, (_, words)) in chain.iter().enumerate() {
            let next = chain.get(number + 1).map_or(6, |(kind, _)| *kind);
            headers.extend([next, *words as u8 + announced]);
            headers.resize(headers.len() + 6 + 8 * words, 0);
        }
        let at = LINK + 40;
        let length = (frame.len() - at + headers.len()) as u16;
        frame.splice(at..at, headers);
        frame[LINK + 4..LINK + 6].copy_from_slice(&length.to_be_bytes());
        frame
    };
    vec![
        with(&[(0, 0)], 0),
        with(&[(0, 1), (43, 2), (60, 0)], 0),
        with(&[(44, 0)], 0),
        with(&[(60, 0)], 200),
        with(&[(60, 0); 6], 0),
        with(&[(60, 0); 7], 0),
        with(&[(60, 0); 12], 0),
        with(&[(51, 0)], 0),
    ]
}

/// The frames, and thousands of others that come of damaging them.
fn damaged(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut rng = TestRng(SEED);
    let long = |frame: &&Vec<u8>| frame.len() > 60;
    let seeds: Vec<_> = frames.iter().filter(long).cloned().collect();
    for _ in 0..3_000 {
        let mut frame = seeds[rng.below(seeds.len())].clone();
        for _ in 0..=rng.below(4) {
            let at = LINK + rng.below(frame.len() - LINK);
            frame[at] = rng.below(256) as u8;
        }
        frames.push(frame);
    }
    frames
}

/// Runs each frame through `program`, after what begins the flow anew, and hands what came of
/// it to `judge`. Those that the test facility refuses, since it wants a whole IP header, are
/// few.
fn run_hostile(
    loaded: &Loaded,
    program: &str,
    base: fn(FlowKey) -> Spec,
    begin: &[Vec<u8>],
    mut judge: impl FnMut(&[u8], &[u8], &str),
) {
    let mut refused = 0;
    for (number, frame) in damaged(hostile(base)).iter().enumerate() {
        for frame in begin {
            loaded.egress(frame);
        }
        let of = format!("seed {SEED}, frame {number}: {frame:02x?}");
        let Ok((answer, left, _)) = run_once(&loaded.programs, program, frame, 1) else {
            assert!(frame.len() < LINK + 40, "{of}");
            refused += 1;
            continue;
        };
        assert_eq!((answer, left.len()), (NEXT, frame.len()), "{of}");
        judge(frame, &left, &of);
    }
    assert!(refused < 150, "too many are refused: {refused}");
}

#[test]
fn hostile_packets_pass_out_unchanged_or_with_their_window_closed_and_nothing_else() {
    let test = "hostile_packets_pass_out_unchanged_or_with_their_window_closed_and_nothing_else";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    for is_v6 in [false, true] {
        loaded.close(&flow(is_v6, 4_000));
    }
    // Options that are not understood stay with a flow: it begins anew each time.
    let begin = [false, true].map(|is_v6| {
        let flags = Flags::SYN;
        let spec = Spec::uplink(flow(is_v6, 4_000));
        Spec { flags, ..spec }.frame()
    });
    let mut closed = 0;
    let judge = |frame: &[u8], left: &[u8], of: &str| {
        let changed: Vec<_> = (0..frame.len())
            .filter(|at| frame[*at] != left[*at])
            .collect();
        let (Some(first), Some(last)) = (changed.first(), changed.last()) else {
            return;
        };
        closed += 1;
        assert!(last - first <= 3, "window and checksum alone, {of}");
        // As right or wrong as it was.
        if let (Ok((was, at)), Ok((is, _))) = (parse(frame, LINK), parse(left, LINK)) {
            assert_eq!(is.window, 0, "{of}");
            let right = checksum_is_right(frame, &was, &at);
            assert_eq!(checksum_is_right(left, &is, &at), right, "{of}");
        }
    };
    run_hostile(&loaded, "mobile_egress", Spec::uplink, &begin, judge);
    assert!(closed > 100, "hardly any is a segment: {closed}");
}

#[test]
fn hostile_packets_come_in_unchanged_and_change_nothing_of_what_the_mh_said() {
    let test = "hostile_packets_come_in_unchanged_and_change_nothing_of_what_the_mh_said";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let begin = [false, true].map(|is_v6| {
        let ack = Spec::uplink(flow(is_v6, 4_000));
        let syn = Spec {
            seq: 999,
            flags: Flags::SYN,
            ..ack
        };
        [syn.frame(), ack.frame()]
    });
    let begin = begin.concat();
    let (mut taken, mut forgotten) = (0, 0);
    let judge = |frame: &[u8], left: &[u8], of: &str| {
        assert_eq!(frame, left, "{of}");
        for is_v6 in [false, true] {
            let Some(noted) = loaded.maps.flow(&flow(is_v6, 4_000)).unwrap() else {
                // A RST that names the next byte.
                forgotten += 1;
                continue;
            };
            let said = (noted.flow.snd_nxt, noted.flow.rcv_nxt, noted.flow.window);
            assert_eq!(said, (SeqNum::new(1_000), SeqNum::new(70_000), 501), "{of}");
            taken += u32::from(noted.flow.heard_at.is_some());
        }
    };
    run_hostile(&loaded, "mobile_ingress", Spec::downlink, &begin, judge);
    assert!(taken > 100, "hardly any is a segment: {taken}");
    assert!(forgotten < 100, "{forgotten}");
}
