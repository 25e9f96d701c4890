// SPDX-License-Identifier: Apache-2.0
//! Invented packets, and damaged ones.

use super::*;

/// The seed of `TestRng`; each test prints it.
pub(crate) const SEED: u64 = 20_000_526;

/// Pseudo-random numbers (xorshift).
pub(super) struct TestRng(pub(super) u64);

impl TestRng {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Frames that no honest host sends, made of the segments that `base` gives for a flow.
pub(super) fn hostile(base: fn(FlowKey) -> Spec) -> Vec<Vec<u8>> {
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
        for (number, (_, eights)) in chain.iter().enumerate() {
            let next = chain.get(number + 1).map_or(6, |(kind, _)| *kind);
            headers.extend([next, *eights as u8 + announced]);
            headers.resize(headers.len() + 6 + 8 * eights, 0);
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

/// The frames, and thousands of damaged copies.
pub(super) fn damaged(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
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

/// Frames to the MH or from it, hostile and damaged.
pub(crate) fn frames(downlink: bool) -> Vec<Vec<u8>> {
    damaged(hostile(if downlink {
        Spec::downlink
    } else {
        Spec::uplink
    }))
}

/// Runs each frame through `program`, after frames that begin the flow anew, and gives the
/// result to `judge`. The kernel refuses to run only a few frames: those without a whole IP
/// header.
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
        let case = format!("seed {SEED}, frame {number}: {frame:02x?}");
        let Ok((answer, left, _)) = run_once(&loaded.programs, program, frame, 1) else {
            assert!(frame.len() < LINK + 40, "{case}");
            refused += 1;
            continue;
        };
        assert_eq!((answer, left.len()), (NEXT, frame.len()), "{case}");
        judge(frame, &left, &case);
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
    // A flow stays opaque after unknown options: so it begins anew each time.
    let begin = [false, true].map(|is_v6| {
        let flags = Flags::SYN;
        let spec = Spec::uplink(flow(is_v6, 4_000));
        Spec { flags, ..spec }.frame()
    });
    let mut closed = 0;
    let judge = |frame: &[u8], left: &[u8], case: &str| {
        let changed: Vec<_> = (0..frame.len())
            .filter(|at| frame[*at] != left[*at])
            .collect();
        let (Some(first), Some(last)) = (changed.first(), changed.last()) else {
            return;
        };
        closed += 1;
        assert!(last - first <= 3, "window and checksum alone, {case}");
        // As right or wrong as it was.
        if let (Ok((was, at)), Ok((is, _))) = (parse(frame, LINK), parse(left, LINK)) {
            assert_eq!(is.window, 0, "{case}");
            let right = checksum_is_right(frame, &was, &at);
            assert_eq!(checksum_is_right(left, &is, &at), right, "{case}");
        }
    };
    run_hostile(&loaded, "mobile_egress", Spec::uplink, &begin, judge);
    assert!(closed > 100, "hardly any is a segment: {closed}");
}

#[test]
fn hostile_packets_come_in_unchanged_and_change_no_numbers_of_the_mh() {
    let test = "hostile_packets_come_in_unchanged_and_change_no_numbers_of_the_mh";
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
    let judge = |frame: &[u8], left: &[u8], case: &str| {
        assert_eq!(frame, left, "{case}");
        for is_v6 in [false, true] {
            let Some(noted) = loaded.maps.flow(&flow(is_v6, 4_000)).unwrap() else {
                // A RST that names the next byte.
                forgotten += 1;
                continue;
            };
            let numbers = (noted.flow.snd_nxt, noted.flow.rcv_nxt, noted.flow.window);
            assert_eq!(
                numbers,
                (SeqNum::new(1_000), SeqNum::new(70_000), 501),
                "{case}"
            );
            taken += u32::from(noted.flow.received_at.is_some());
        }
    };
    run_hostile(&loaded, "mobile_ingress", Spec::downlink, &begin, judge);
    assert!(taken > 100, "hardly any is a segment: {taken}");
    assert!(forgotten < 100, "{forgotten}");
}
