// SPDX-License-Identifier: Apache-2.0
//! The withheld segment of `wake` in the kernel: the cases of `holdfast_core`, and packet by packet.

use holdfast_core::mobile_host::withheld::FhClock;

use super::*;

#[path = "../../../../core/src/mobile_host/withheld/cases.rs"]
mod cases;
mod series;

/// Offsets in `struct withheld`.
const ACKED_OUT: usize = 84;
const OUT_FACTS: usize = 88;
const BULK: usize = 28;
const ANSWER_AT: usize = 176;

/// The deadline for a timer of the kernel.
const LIMIT_NS: u64 = 60_000_000_000;

/// With programs that have timers.
pub(super) fn wake(test: &str) -> Option<Loaded> {
    available_or_skip(test).then(|| withholding(true))
}

/// In virtual time, with programs that have no timers.
fn held() -> Option<Loaded> {
    goes_on_in_virtual_time().then(|| {
        // A machine that has just started has no old answer.
        sleep_until(60_000_000_000);
        withholding(false)
    })
}

fn withholding(has_timers: bool) -> Loaded {
    let interface = interface();
    let programs = load_withholding(&interface, FLOWS, has_timers).unwrap();
    let maps = FlowMaps::of(&programs, &interface).unwrap();
    let loaded = Loaded { programs, maps };
    loaded.order(3_600);
    loaded
}

impl Loaded {
    pub(super) fn order(&self, seconds: u64) {
        let until = monotonic_ns() + seconds * 1_000_000_000;
        self.maps.set_orders_until(Instant::from_nanos(until));
    }

    /// The MH sends its SYN with a window scale, and its first ACK.
    pub(super) fn begin(&self, key: FlowKey, shift: u8, ack: u32) {
        self.begin_by(&syn(key, shift, true), key, ack);
    }

    fn begin_by(&self, syn: &[u8], key: FlowKey, ack: u32) {
        self.egress(syn);
        let open = Spec {
            ack,
            ..Spec::uplink(key)
        };
        self.egress(&open.frame());
    }

    /// Sets the flow to bulk: 100 segments of `segment_bytes` have arrived from `start` on.
    pub(super) fn put_bulk_from(&self, key: FlowKey, start: u32, segment_bytes: u32) {
        let boundaries = [
            (0, start),
            (4, start + 100 * segment_bytes),
            (8, segment_bytes),
        ];
        let out = [(BULK, 1), (ACKED_OUT, start), (OUT_FACTS, 1)];
        self.put(key, &[&boundaries[..], &out[..]].concat());
    }

    /// Replaces the programs' entry for the withheld segment.
    fn put(&self, key: FlowKey, fields: &[(usize, u32)]) {
        let mut value = [0; withheld_segments::VALUE_BYTES];
        for (at, field) in fields {
            value[*at..at + 4].copy_from_slice(&field.to_ne_bytes());
        }
        let key = record::key(&key);
        self.maps
            .withheld
            .update(&key, &value, MapFlags::ANY)
            .unwrap();
    }

    /// Changes fields of the programs' entry for the withheld segment, if there is one.
    fn change_fields(&self, key: FlowKey, fields: &[(usize, u32)]) {
        let key = record::key(&key);
        let value = self.maps.withheld.lookup(&key, MapFlags::ANY).unwrap();
        let Some(mut value) = value else {
            return;
        };
        for (at, field) in fields {
            value[*at..at + 4].copy_from_slice(&field.to_ne_bytes());
        }
        self.maps
            .withheld
            .update(&key, &value, MapFlags::ANY)
            .unwrap();
    }

    /// Number, window and echo with which the segment leaves.
    fn leaves(&self, spec: &Spec) -> (u32, u16, Option<u32>) {
        let frame = spec.frame();
        let left = self.egress(&frame);
        let (segment, layout) = parse(&left, LINK).unwrap();
        assert!(checksum_is_right(&left, &segment, &layout));
        assert_eq!(left.len(), frame.len());
        let echo = segment.options.timestamps.map(|clocks| clocks.tsecr);
        (segment.ack.get(), segment.window, echo)
    }
}

fn syn(key: FlowKey, shift: u8, permits_sack: bool) -> Vec<u8> {
    let syn = Spec {
        seq: 999,
        ack: 0,
        flags: Flags::SYN,
        ..Spec::uplink(key)
    };
    let mut frame = syn.frame();
    // Instead of the timestamps: NOP, window scale, SACK permitted or NOPs, and NOPs.
    let at = frame.len() - 12;
    let permitted = if permits_sack { [4, 2] } else { [1, 1] };
    frame[at..at + 4].copy_from_slice(&[1, 3, 3, shift]);
    frame[at + 4..at + 6].copy_from_slice(&permitted);
    frame[at + 6..].fill(1);
    frame
}

const PIECE: u32 = 1_000;
const FIRST: u32 = 70_000;

/// A flow in bulk: 100 segments have arrived, and all but the last are acknowledged.
pub(super) fn bulk(loaded: &Loaded, key: FlowKey) {
    loaded.begin(key, 7, FIRST);
    put_bulk(loaded, key);
}

fn put_bulk(loaded: &Loaded, key: FlowKey) {
    let end = FIRST + 100 * PIECE;
    loaded.put(
        key,
        &[
            (0, FIRST),
            (4, end),
            (8, PIECE),
            (BULK, 1),
            (ACKED_OUT, end - PIECE),
            (OUT_FACTS, 1),
        ],
    );
}

pub(super) fn last(key: FlowKey) -> Spec {
    Spec {
        ack: FIRST + 100 * PIECE,
        clocks: Some((60, 50)),
        ..Spec::uplink(key)
    }
}

#[test]
fn nothing_is_withheld_from_an_fh_without_sack() {
    let Some(loaded) = held() else {
        return;
    };
    let own = FIRST + 100 * PIECE;
    for (port, permits_sack, leaves) in [(4_100, true, own - PIECE), (4_101, false, own)] {
        let key = flow(false, port);
        loaded.begin_by(&syn(key, 7, permits_sack), key, FIRST);
        put_bulk(&loaded, key);
        let (ack, _, _) = loaded.leaves(&last(key));
        assert_eq!(ack, leaves, "SACK permitted: {permits_sack}");
    }
}

#[test]
fn the_kernel_gives_the_numbers_and_windows_of_the_cases() {
    let Some(loaded) = held() else {
        return;
    };
    for (number, line) in cases::cases().into_iter().enumerate() {
        let key = flow(number % 2 == 1, 10_000 + number as u16);
        loaded.begin(key, line.scale, line.ack);
        loaded.put(
            key,
            &[
                (0, line.start),
                (4, line.end),
                (8, line.segment_bytes),
                (BULK, 1),
                (ACKED_OUT, line.floor),
                (OUT_FACTS, 1),
            ],
        );
        let spec = Spec {
            ack: line.ack,
            window: line.window,
            payload: number % 3 * 7,
            ..Spec::uplink(key)
        };
        let (ack, window, _) = loaded.leaves(&spec);
        assert_eq!(
            (ack, window),
            (line.ack_left, line.window_left),
            "{}",
            line.text
        );
    }
}

#[test]
fn one_segment_is_withheld_while_orders_hold_and_nothing_is_missing() {
    let Some(loaded) = held() else {
        return;
    };
    for is_v6 in [false, true] {
        let key = flow(is_v6, 4_000);
        let own = last(key);
        bulk(&loaded, key);
        // The window grows by 7 units of 128 bytes for 1000 bytes.
        assert_eq!(loaded.leaves(&own), (own.ack - PIECE, 508, Some(50)));
        assert!(
            loaded
                .maps
                .withheld(&key)
                .unwrap()
                .unwrap()
                .is_withholding()
        );
        assert_eq!(
            loaded.maps.flow(&key).unwrap().unwrap().flow.rcv_nxt,
            SeqNum::new(own.ack)
        );
        assert!(
            loaded
                .maps
                .withholding_flows()
                .unwrap()
                .iter()
                .any(|noted| noted.flow.key == key)
        );
        let mut sack = SackBlocks::default();
        sack.push(SeqNum::new(own.ack + 5_000), SeqNum::new(own.ack + 6_000));
        let frame = own.frame_with(&sack);
        assert_eq!(loaded.egress(&frame), frame, "something is missing");
        assert_eq!(loaded.leaves(&own).0, own.ack, "it has left: never below");
        bulk(&loaded, key);
        loaded.order(0);
        assert_eq!(loaded.leaves(&own), (own.ack, 501, Some(50)), "no daemon");
        loaded.order(3_600);
        bulk(&loaded, key);
        let fin = Spec {
            flags: FIN_ACK,
            ..own
        };
        assert_eq!(loaded.leaves(&fin).0, own.ack);
    }
}

#[test]
fn data_of_the_fh_show_segment_boundaries_and_bulk() {
    let Some(loaded) = held() else {
        return;
    };
    let key = flow(false, 4_000);
    loaded.begin(key, 7, FIRST);
    let mut seq = FIRST;
    let mut sent = Vec::new();
    let began = monotonic_ns();
    // The FH's echo is 60 ms old: many times 128 segments fit into such a round trip.
    while monotonic_ns() - began < 600_000_000 {
        sleep_until(monotonic_ns() + 50_000);
        let ms = ((monotonic_ns() - began) / 1_000_000) as u32;
        let data = Spec {
            seq,
            clocks: Some((31 + ms, 40 + ms.saturating_sub(60))),
            ..Spec::downlink(key)
        };
        loaded.ingress(&data.frame());
        if seq == FIRST {
            // This segment begins an answer; the answer gets an old time.
            loaded.change_fields(key, &[(ANSWER_AT, 1), (ANSWER_AT + 4, 0)]);
        }
        seq += PIECE;
        let ack = Spec {
            ack: seq,
            clocks: Some((41 + ms, 31 + ms)),
            ..Spec::uplink(key)
        };
        sent.push((seq, loaded.leaves(&ack).0));
    }
    assert!(
        sent.windows(2).all(|pair| pair[0].1 <= pair[1].1),
        "a lower ACK"
    );
    let held = sent
        .iter()
        .filter(|(own, left)| own - left == PIECE)
        .count();
    assert!(sent.iter().all(|(own, left)| own - left <= PIECE));
    assert!(held * 3 > sent.len(), "{held} of {}", sent.len());
    let clock = loaded.maps.withheld(&key).unwrap().unwrap().clock;
    let FhClock { first, newest, .. } = clock;
    assert_eq!(first.0, 31);
    assert!(newest.0 > 60 && newest.1.saturating_since(first.1) > Duration::from_millis(25));
}

#[test]
fn a_pause_releases_the_segment_and_is_reported() {
    let Some(loaded) = wake("a_pause_releases_the_segment_and_is_reported") else {
        return;
    };
    let pauses = Pauses::open(&loaded.programs.map("pauses").unwrap()).unwrap();
    let key = flow(true, 4_000);
    let own = last(key);
    bulk(&loaded, key);
    let began = monotonic_ns();
    assert_eq!(loaded.leaves(&own).0, own.ack - PIECE);
    let reported = loop {
        let reported = pauses.drain().unwrap();
        if !reported.is_empty() {
            break reported;
        }
        assert!(monotonic_ns() - began < LIMIT_NS, "no report");
    };
    let after = Duration::from_nanos(monotonic_ns() - began);
    assert!(after >= Duration::from_millis(45), "{after:?}");
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].ack, SeqNum::new(own.ack));
    // If the daemon hangs, the flow stays in this list.
    let unacknowledged = loaded.maps.unacknowledged_flows().unwrap();
    assert!(unacknowledged.iter().any(|noted| noted.flow.key == key));
    let noted = loaded.maps.paused(&reported[0]).unwrap().unwrap();
    assert_eq!(noted.flow.key, key);
    let withheld = loaded.maps.withheld(&key).unwrap().unwrap();
    assert!(!withheld.is_withholding());
    assert_eq!(withheld.floor, Some(SeqNum::new(own.ack)));
    assert_eq!(loaded.leaves(&own).0, own.ack, "never a lower ACK");
    assert!(
        loaded.maps.unacknowledged_flows().unwrap().is_empty(),
        "the ACK is sent"
    );
    // The same timer serves the next withheld segment.
    bulk(&loaded, key);
    assert_eq!(loaded.leaves(&own).0, own.ack - PIECE);
    let began = monotonic_ns();
    while pauses.drain().unwrap().is_empty() {
        assert!(monotonic_ns() - began < LIMIT_NS, "no second report");
    }
}

#[test]
fn a_woken_flow_withholds_nothing_and_its_old_echoes_are_renewed_at_any_offset() {
    let Some(loaded) = held() else {
        return;
    };
    for is_v6 in [false, true] {
        let key = flow(is_v6, 4_000);
        let own = last(key);
        bulk(&loaded, key);
        let now = Instant::from_nanos(monotonic_ns());
        let woken = Woken {
            released: SeqNum::new(own.ack),
            stale: Some(50),
            echo: 7_050,
            at: boottime(),
            ticks_per_s: 1_000,
            until: now + Duration::from_secs(10),
        };
        loaded.maps.wake(&key, &woken).unwrap();
        let (ack, window, echo) = loaded.leaves(&own);
        assert_eq!((ack, window), (own.ack, 501));
        assert!((7_050..7_950).contains(&echo.unwrap()), "{echo:?}");
        let newer = Spec {
            clocks: Some((61, 51)),
            ..own
        };
        assert_eq!(
            loaded.leaves(&newer).2,
            Some(51),
            "the echo is from after the outage"
        );
        // Timestamps at an odd offset: NOP, timestamps, end.
        let mut odd = own.frame();
        let at = odd.len() - 12;
        let clocks = odd[at + 2..].to_vec();
        odd[at + 1..at + 11].copy_from_slice(&clocks);
        odd[at + 11] = 0;
        let tcp = LINK + if is_v6 { 40 } else { 20 };
        let before = sum_of(&odd, tcp);
        let left = loaded.egress(&odd);
        assert_ne!(left[at + 7..at + 11], odd[at + 7..at + 11]);
        assert_eq!(sum_of(&left, tcp), before, "the checksum changed");
        loaded
            .maps
            .wake(
                &key,
                &Woken {
                    until: now,
                    ..woken
                },
            )
            .unwrap();
        assert_eq!(loaded.leaves(&own).2, Some(50), "no longer");
    }
}

/// The sum of a TCP segment, without the pseudo-header.
fn sum_of(frame: &[u8], tcp: usize) -> u16 {
    let mut sum = 0_u32;
    for pair in frame[tcp..].chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn hostile_packets_change_at_most_in_number_window_and_echo_and_no_ack_is_raised() {
    let Some(loaded) = held() else {
        return;
    };
    let base = |key| Spec {
        ack: FIRST + 50 * PIECE,
        ..Spec::uplink(key)
    };
    let mut changed = 0;
    for frame in damaged(hostile(base)) {
        for is_v6 in [false, true] {
            bulk(&loaded, flow(is_v6, 4_000));
            let boundaries = [(0, FIRST), (4, FIRST + 100 * PIECE), (8, PIECE)];
            let out = [(BULK, 1), (ACKED_OUT, FIRST), (OUT_FACTS, 1)];
            loaded.put(flow(is_v6, 4_000), &[&boundaries[..], &out[..]].concat());
        }
        let what = format!("seed {SEED}: {frame:02x?}");
        let Ok((answer, left, _)) = run_once(&loaded.programs, "mobile_egress", &frame, 1) else {
            continue;
        };
        assert_eq!((answer, left.len()), (NEXT, frame.len()), "{what}");
        if left == frame {
            continue;
        }
        changed += 1;
        let (Ok((was, at)), Ok((is, _))) = (parse(&frame, LINK), parse(&left, LINK)) else {
            continue;
        };
        assert!(
            !is.ack.after(was.ack) && is.ack.after(SeqNum::new(FIRST - 1)),
            "{what}"
        );
        let right = checksum_is_right(&frame, &was, &at);
        assert_eq!(checksum_is_right(&left, &is, &at), right, "{what}");
    }
    assert!(changed > 100, "too few segments: {changed}");
}

#[test]
fn hostile_data_of_the_fh_never_raise_or_lower_an_ack_of_the_mh() {
    let Some(loaded) = held() else {
        return;
    };
    let key = flow(false, 4_000);
    let mut own = FIRST + 100 * PIECE;
    bulk(&loaded, key);
    let (mut out, mut held) = (own - PIECE, 0);
    for (number, frame) in damaged(hostile(Spec::downlink)).into_iter().enumerate() {
        let run = run_once(&loaded.programs, "mobile_ingress", &frame, 1);
        if let Ok((answer, left, _)) = run {
            assert_eq!((answer, &left), (NEXT, &frame), "seed {SEED}");
        }
        if loaded.maps.flow(&key).unwrap().is_none() {
            // The frame was a RST with the next sequence number.
            bulk(&loaded, key);
            (own, out) = (FIRST + 100 * PIECE, FIRST + 99 * PIECE);
        }
        own += PIECE;
        loaded.change_fields(key, &[(BULK, 1)]);
        if number % 2 == 0 {
            // Without these boundaries no segment could be withheld.
            let boundaries = [(0, own - 50 * PIECE), (4, own + PIECE), (8, PIECE)];
            loaded.change_fields(key, &boundaries);
        }
        let segment = Spec {
            ack: own,
            ..Spec::uplink(key)
        };
        let (ack, _, _) = loaded.leaves(&segment);
        assert!(
            ack <= own && own - ack <= 2 * PIECE,
            "seed {SEED}: {ack} of {own}"
        );
        assert!(ack >= out, "seed {SEED}: a lower ACK");
        held += u32::from(ack < own);
        out = ack;
    }
    println!("{held} withheld");
    assert!(held > 300, "{held}");
}

#[test]
fn a_new_connection_of_the_same_ends_begins_without_a_withheld_segment() {
    let Some(loaded) = held() else {
        return;
    };
    let key = flow(false, 4_000);
    for first in [FIRST - 60_000, FIRST + 50 * PIECE] {
        bulk(&loaded, key);
        assert_eq!(loaded.leaves(&last(key)).0, last(key).ack - PIECE);
        loaded.begin(key, 7, first);
        assert_eq!(loaded.maps.withheld(&key).unwrap(), None);
        let own = Spec {
            ack: first + PIECE,
            ..Spec::uplink(key)
        };
        assert_eq!(loaded.leaves(&own).0, own.ack);
    }
}
