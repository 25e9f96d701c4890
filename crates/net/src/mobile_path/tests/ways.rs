// SPDX-License-Identifier: Apache-2.0
//! Compares the quick and the slow code that reads segments: with both, the same packets leave in the
//! same form, and leave the same records.

use super::*;

/// The programs with the quick code, and the programs without it. The latter have the barriers for
/// processors that reorder stores.
struct Readers {
    quick: Loaded,
    slow: Loaded,
}

impl Readers {
    fn new(test: &str, interface: &Interface, settings: ProgramSettings) -> Option<Self> {
        let with = |reads, reorders_stores| {
            let settings = ProgramSettings {
                reorders_stores,
                reads,
                ..settings
            };
            Loaded::of(interface, settings)
        };
        available_or_skip(test).then(|| Self {
            quick: with(Reads::Both, false),
            slow: with(Reads::Slowly, true),
        })
    }

    fn each(&self, mut check: impl FnMut(&Loaded)) {
        check(&self.quick);
        check(&self.slow);
    }

    /// Runs the frame by both readers. Returns the answer, and the frame as it left; none if the kernel
    /// refuses to run it.
    fn run(
        &self,
        program: &str,
        frame: &[u8],
        gso_size: u32,
        case: &str,
    ) -> Option<(i32, Vec<u8>)> {
        let run = |loaded: &Loaded| {
            let run = run_super(&loaded.programs, program, frame, gso_size, 1);
            run.ok().map(|(answer, left, _)| (answer, left))
        };
        let ran = [&self.quick, &self.slow].map(run);
        assert_eq!(ran[0], ran[1], "{case}");
        let [ran, _] = ran;
        ran
    }

    fn assert_same_notes(&self, flows: &[FlowKey], case: &str) {
        for flow in flows {
            let noted = [&self.quick, &self.slow].map(|loaded| {
                let value = loaded.maps.flows.lookup(&record::key(flow), MapFlags::ANY);
                let value = value.unwrap()?;
                Some(record::without_times(value.first_chunk().unwrap()))
            });
            assert_eq!(noted[0], noted[1], "{flow:?}, {case}");
        }
    }

    fn assert_same_counts(&self) {
        let counts = [&self.quick, &self.slow].map(|loaded| {
            let counters = Counters::of(&loaded.programs, MOBILE_PATH);
            counters.unwrap().read().unwrap()
        });
        assert_eq!(counts[0], counts[1]);
    }
}

fn plain() -> ProgramSettings {
    settings(&interface(), FLOWS, None)
}

/// The flows for the segments.
fn flows() -> Vec<FlowKey> {
    let flows = |is_v6| (4_000..4_003).map(move |port| flow(is_v6, port));
    flows(false).chain(flows(true)).collect()
}

/// A segment of one of the flows as an honest or a strange host may send it, and the length of its
/// pieces if it is a super-segment.
fn segment(rng: &mut TestRng, flows: &[FlowKey]) -> (Spec, SackBlocks, u32) {
    let spec = Spec::uplink(flows[rng.below(flows.len())]);
    let spec = match rng.below(2) {
        0 => spec,
        _ => Spec::downlink(spec.flow),
    };
    let plain = [Flags::ACK, Flags::ACK, Flags::ACK, PSH_ACK, Flags(0x50)];
    let strange = [0x11, 0x02, 0x12, 0x04, 0x14, 0x08, 0x30, 0x00, 0xff];
    let flags = match rng.below(12) {
        0 => Flags(strange[rng.below(strange.len())]),
        _ => plain[rng.below(plain.len())],
    };
    let mut sack = SackBlocks::default();
    for block in 0..rng.below(9).saturating_sub(5) as u32 {
        let left = SeqNum::new(spec.ack + 1_000 * (block + 1));
        sack.push(left, left + 500);
    }
    let near = |rng: &mut TestRng, number: u32| {
        let reach = [1, 3, 5_000, 200_000][rng.below(4)];
        let above = number.wrapping_add(rng.below(2 * reach) as u32);
        above.wrapping_sub(reach as u32 / 2)
    };
    let payload = [0, 0, 1, 700, 1_400, 2_800][rng.below(6)];
    let clocks = (40 + rng.below(4) as u32, 30 + rng.below(12) as u32);
    let spec = Spec {
        seq: near(rng, spec.seq),
        ack: near(rng, spec.ack),
        flags,
        window: [0, 1, 501, 0xffff][rng.below(4)],
        clocks: (rng.below(5) != 0).then_some(clocks),
        payload,
        ..spec
    };
    let gso_size = if payload > 1_400 { 1_400 } else { 0 };
    (spec, sack, gso_size)
}

const fn program(spec: &Spec) -> &'static str {
    if spec.downlink {
        "mobile_ingress"
    } else {
        "mobile_egress"
    }
}

#[test]
fn by_both_ways_a_random_exchange_leaves_the_same_notes() {
    let test = "by_both_ways_a_random_exchange_leaves_the_same_notes";
    let Some(readers) = Readers::new(test, &interface(), plain()) else {
        return;
    };
    let flows = flows();
    readers.each(|loaded| flows[..2].iter().for_each(|flow| loaded.close(flow)));
    let mut rng = TestRng(SEED);
    let (mut noted, mut closed) = (0, 0);
    for number in 0..6_000 {
        let (spec, sack, gso_size) = segment(&mut rng, &flows);
        let frame = spec.frame_with(&sack);
        let case = format!("seed {SEED}, segment {number}: {spec:?}");
        let (answer, left) = readers
            .run(program(&spec), &frame, gso_size, &case)
            .expect("it runs");
        assert_eq!(answer, NEXT, "{case}");
        closed += u32::from(left != frame);
        readers.assert_same_notes(&[spec.flow], &case);
        noted += u32::from(readers.quick.maps.flow(&spec.flow).unwrap().is_some());
    }
    readers.assert_same_counts();
    assert!(noted > 3_000 && closed > 300, "{noted}, {closed}");
}

#[test]
fn by_both_ways_hostile_packets_leave_the_same_notes() {
    let test = "by_both_ways_hostile_packets_leave_the_same_notes";
    let Some(readers) = Readers::new(test, &interface(), plain()) else {
        return;
    };
    let flows = flows();
    readers.each(|loaded| loaded.close(&flows[0]));
    let out = damaged(hostile(Spec::uplink))
        .into_iter()
        .map(|it| (false, it));
    let into = damaged(hostile(Spec::downlink))
        .into_iter()
        .map(|it| (true, it));
    let begin = flows.iter().map(|flow| Spec::uplink(*flow).frame());
    let begin: Vec<_> = begin.collect();
    for (number, (downlink, frame)) in out.chain(into).enumerate() {
        if number % 50 == 0 {
            readers.each(|loaded| begin.iter().for_each(|frame| drop(loaded.egress(frame))));
        }
        let case = format!("seed {SEED}, frame {number}: {frame:02x?}");
        let way = if downlink {
            "mobile_ingress"
        } else {
            "mobile_egress"
        };
        // Pieces of a length that no segment of this size has.
        let gso_size = if number % 7 == 0 { 536 } else { 0 };
        readers.run(way, &frame, gso_size, &case);
        readers.assert_same_notes(&[flows[0], flows[3]], &case);
    }
    readers.assert_same_counts();
}

#[test]
fn by_both_ways_what_is_withheld_and_renewed_leaves_the_same() {
    let test = "by_both_ways_what_is_withheld_and_renewed_leaves_the_same";
    let settings = ProgramSettings {
        withholds: true,
        // A timer for which the kernel has no memory would make a difference.
        has_timers: false,
        ..plain()
    };
    let Some(readers) = Readers::new(test, &interface(), settings) else {
        return;
    };
    let flows = flows();
    let now = Instant::from_nanos(monotonic_ns());
    let woken = Woken {
        released: SeqNum::new(10),
        stale: Some(35),
        // The clock stands still: the two readers run one after the other.
        ticks_per_s: 0,
        echo: 7_000,
        at: boottime(),
        until: now + Duration::from_secs(3_600),
    };
    readers.each(|loaded| loaded.order(3_600));
    let mut rng = TestRng(SEED);
    let random = |rng: &mut TestRng| {
        let (spec, sack, gso_size) = segment(rng, &flows);
        (program(&spec), spec.flow, spec.frame_with(&sack), gso_size)
    };
    let mut frames: Vec<_> = (0..3_000).map(|_| random(&mut rng)).collect();
    let strange = |base, way| {
        let frames = damaged(hostile(base)).into_iter();
        frames.map(move |frame| (way, flow(false, 4_000), frame, 0))
    };
    frames.extend(strange(Spec::uplink, "mobile_egress"));
    frames.extend(strange(Spec::downlink, "mobile_ingress"));
    let mut changed = 0;
    for (number, (way, flow, frame, gso_size)) in frames.iter().enumerate() {
        let case = format!("seed {SEED}, frame {number}: {frame:02x?}");
        readers.each(|loaded| {
            if number % 20 == 0 {
                loaded.begin(*flow, 7, 70_000);
            }
            // Whether a flow is bulk depends on the time, which is set here.
            loaded.put_bulk_from(*flow, 60_000, 1_000);
            if flows[..3].contains(flow) {
                loaded.maps.wake(flow, &woken).unwrap();
            }
        });
        let ran = readers.run(way, frame, *gso_size, &case);
        changed += u32::from(ran.is_some_and(|(_, left)| left != *frame));
        readers.assert_same_notes(&[*flow], &case);
    }
    // No echo of an opaque flow is replaced.
    assert!(changed > 300, "{changed}");
}

#[test]
fn by_both_ways_raw_ip_leaves_the_same_notes() {
    let test = "by_both_ways_raw_ip_leaves_the_same_notes";
    let raw = Interface {
        kind: LayerKind::RawIp,
        ..interface()
    };
    let Some(readers) = Readers::new(test, &raw, settings(&raw, FLOWS, None)) else {
        return;
    };
    // For raw IP the kernel reads an Ethernet type at bytes of the MH's address.
    let mut flows = flows();
    for flow in &mut flows {
        let is_v4 = flow.mh.address.is_ipv4();
        let mh = if is_v4 { "8.0.0.2" } else { "fd02:0:86dd::2" };
        flow.mh.address = mh.parse().unwrap();
    }
    let mut rng = TestRng(SEED);
    for number in 0..4_000 {
        let (spec, sack, gso_size) = segment(&mut rng, &flows);
        // The kernel takes no packet without an Ethernet address for the host's own.
        if spec.downlink {
            continue;
        }
        let mut packet = spec.packet(&sack);
        for _ in 0..rng.below(3) {
            let at = rng.below(packet.len());
            packet[at] = rng.below(256) as u8;
        }
        let case = format!("seed {SEED}, packet {number}: {packet:02x?}");
        readers.run("mobile_egress", &packet, gso_size, &case);
        readers.assert_same_notes(&[spec.flow], &case);
    }
    readers.assert_same_counts();
    let noted = readers.quick.maps.flows().unwrap();
    assert!(noted.len() >= flows.len(), "{}", noted.len());
    assert!(noted.iter().all(|noted| noted.link.is_empty()));
}

#[test]
fn the_quick_way_is_taken() {
    // A time would show that too, but not on an emulated processor.
    let test = "the_quick_way_is_taken";
    if !available_or_skip(test) {
        return;
    }
    let settings = ProgramSettings {
        reads: Reads::Quickly,
        ..plain()
    };
    let loaded = Loaded::of(&interface(), settings);
    let mut port = 4_000;
    for is_v6 in [false, true] {
        for clocks in [None, Some((40, 30))] {
            port += 1;
            let key = flow(is_v6, port);
            let noted = || loaded.maps.flow(&key).unwrap();
            let mut acks = SackBlocks::default();
            acks.push(SeqNum::new(80_000), SeqNum::new(81_000));
            let spec = Spec {
                clocks,
                ..Spec::uplink(key)
            };
            loaded.egress(&spec.frame_with(&acks));
            assert!(noted().is_none(), "options are read by the long way");
            loaded.egress(&spec.frame());
            let received_at = noted().unwrap().flow.received_at;
            assert_eq!(received_at, None);
            let spec = Spec {
                clocks: clocks.map(|_| (31, 40)),
                ..Spec::downlink(key)
            };
            loaded.ingress(&spec.frame());
            assert!(noted().unwrap().flow.received_at.is_some());
        }
    }
}
