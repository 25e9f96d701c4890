// SPDX-License-Identifier: Apache-2.0
//! The SH's and the MH's side against each other. A compressed segment is restored; a damaged,
//! truncated or forged one is not.
//!
//! `HOLDFAST_SEED=n` replays one case, `HOLDFAST_CASES=n` changes how many are run.

use holdfast_wire::{Flags, Header, Instant, Segment, SeqNum, checksum_is_right, parse};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::codec::{DictionaryRef, Encoder, Plain};
use super::{
    COMPRESSED_FLAGS, Decompressor, DecompressorLimits, NotRestored, PlainCodec, Restored,
    is_marked, marked, restored_header,
};
use super::{CompressionSettings, Method};
use crate::testing::{FH, MH, data};

const NOW: Instant = Instant::from_millis(5);

fn encoder(method: Method) -> Encoder {
    Encoder::new(CompressionSettings { method, level: 3 })
}

/// Text that shrinks like English.
fn text(len: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    const VOCABULARY: [&str; 12] = [
        "the ",
        "mobile ",
        "host ",
        "acknowledges ",
        "a ",
        "window ",
        "of ",
        "0 ",
        "and ",
        "freezes ",
        "its ",
        "timers.\n",
    ];
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        text.extend_from_slice(VOCABULARY[rng.next_u32() as usize % 12].as_bytes());
    }
    text.truncate(len);
    text
}

/// A word that the vocabulary does not have.
fn word(rng: &mut ChaCha8Rng) -> String {
    let letter = |_| char::from(b'a' + (rng.next_u32() % 26) as u8);
    let mut word: String = (0..7).map(letter).collect();
    word.push(' ');
    word
}

fn segment(seq: SeqNum, payload: &[u8]) -> Segment {
    let (segment, _) = data(seq.get(), payload);
    Segment {
        flags: marked(segment.flags),
        ..segment
    }
}

/// Encodes a payload with a dictionary.
fn encoded(encoder: &mut Encoder, plain: Plain<'_>, with: DictionaryRef<'_>) -> Option<Vec<u8>> {
    let with = Some(with).filter(|it| !it.bytes.is_empty());
    let len = encoder.encode(plain, with)?;
    Some(encoder.payload(len).to_vec())
}

fn compressed(encoder: &mut Encoder, seq: SeqNum, plain: &[u8]) -> Vec<u8> {
    let plain = Plain {
        bytes: plain,
        seq,
        psh: true,
    };
    let len = encoder.encode(plain, None).expect("it shrinks");
    encoder.payload(len).to_vec()
}

#[test]
fn the_mark_is_the_ack_bit_off_and_ecn_s_bits_stay() {
    let data = Flags::ACK.with(Flags::CWR);
    assert_eq!(marked(data), COMPRESSED_FLAGS.with(Flags::CWR));
    assert!(is_marked(marked(data)) && !marked(data).has(Flags::ACK));
    for other in 0..=255_u8 {
        let flags = Flags(other);
        let what_stacks_send = flags.has(Flags::ACK) || flags.has(Flags::SYN);
        assert!(!(is_marked(flags) && what_stacks_send), "{other:#x}");
    }
}

#[test]
fn each_method_restores_what_went_in_with_its_control_bits() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for method in [Method::Deflate, Method::Zstd] {
        let (mut encoder, mut decompressor) = (
            encoder(method),
            Decompressor::new(DecompressorLimits::default()),
        );
        for len in [200, 536, 1448, 8960, 65_000] {
            let plain = text(len, &mut rng);
            let seq = SeqNum::new(rng.next_u32());
            let payload = compressed(&mut encoder, seq, &plain);
            assert!(payload.len() < plain.len());
            let restored = decompressor.handle(&segment(seq, &payload), &payload, NOW);
            let expected = Restored::Segment {
                flags: Flags::ACK.with(Flags::PSH),
                payload: &plain,
                follow: method == Method::Zstd,
            };
            assert_eq!(restored, expected);
        }
    }
}

#[test]
fn payload_that_does_not_shrink_by_a_thirty_second_part_stays_plain() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut plain = vec![0; 1448];
    rng.fill_bytes(&mut plain);
    for method in [Method::Deflate, Method::Zstd] {
        let mut encoder = encoder(method);
        let seq = SeqNum::new(1);
        let plain_of = |bytes| Plain {
            bytes,
            seq,
            psh: false,
        };
        assert_eq!(encoder.encode(plain_of(&plain), None), None);
        assert_eq!(encoder.encode(plain_of(&[]), None), None);
        // The encoder works as before.
        let shrinks = text(1448, &mut rng);
        assert!(encoder.encode(plain_of(&shrinks), None).is_some());
    }
}

#[test]
fn a_dictionary_is_what_was_acknowledged_and_helps() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let vocabulary: Vec<String> = (0..1000).map(|_| word(&mut rng)).collect();
    let random = (0..40_000).map(|_| vocabulary[rng.next_u32() as usize % 1000].as_str());
    let stream: String = random.collect();
    let stream = stream.as_bytes();
    let mut encoder = encoder(Method::Zstd);
    let mut decompressor = Decompressor::new(DecompressorLimits::default());
    let first = SeqNum::new(u32::MAX - 20_000);
    let (mut with, mut without, mut from) = (0, 0, 0);
    while from + 1448 <= stream.len() {
        let plain = &stream[from..from + 1448];
        let seq = first + from as u32;
        without += compressed(&mut encoder, seq, plain).len();
        // Segments in flight are not acknowledged yet.
        let acked = from.saturating_sub(3 * 1448);
        let known = &stream[acked.saturating_sub(32 << 10)..acked];
        let dictionary = DictionaryRef {
            bytes: known,
            end: first + acked as u32,
        };
        let plain_segment = Plain {
            bytes: plain,
            seq,
            psh: false,
        };
        let payload = encoded(&mut encoder, plain_segment, dictionary).expect("shrinks");
        with += payload.len();
        match decompressor.handle(&segment(seq, &payload), &payload, NOW) {
            Restored::Segment { payload, .. } => assert_eq!(payload, plain),
            other => panic!("{other:?}"),
        }
        from += 1448;
    }
    assert!(with * 10 < without * 9, "{with} with, {without} without");
}

#[test]
fn an_unknown_dictionary_is_reported_and_changes_nothing() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let plain = text(3000, &mut rng);
    let mut encoder = encoder(Method::Zstd);
    let dictionary = DictionaryRef {
        bytes: &plain[..1448],
        end: SeqNum::new(2449),
    };
    let second = Plain {
        bytes: &plain[1448..2896],
        seq: SeqNum::new(2449),
        psh: false,
    };
    let payload = encoded(&mut encoder, second, dictionary).expect("shrinks");
    let marked = segment(SeqNum::new(2449), &payload);
    let mut decompressor = Decompressor::new(DecompressorLimits::default());
    let unknown = Restored::Dropped(NotRestored::UnknownDictionary);
    assert_eq!(decompressor.handle(&marked, &payload, NOW), unknown);
    // A dictionary of other bytes with the same sequence numbers: the checksum shows it.
    let begin = compressed(
        &mut self::encoder(Method::Zstd),
        SeqNum::new(1001),
        &plain[1448..2896],
    );
    let mut wire_bytes = begin.len();
    let first = segment(SeqNum::new(1001), &begin);
    assert!(matches!(
        decompressor.handle(&first, &begin, NOW),
        Restored::Segment { .. }
    ));
    let bad = Restored::Dropped(NotRestored::BadBytes);
    assert_eq!(decompressor.handle(&marked, &payload, NOW), bad);
    // The right dictionary.
    let begin = compressed(
        &mut self::encoder(Method::Zstd),
        SeqNum::new(1001),
        &plain[..1448],
    );
    let first = segment(SeqNum::new(1001), &begin);
    assert!(matches!(
        decompressor.handle(&first, &begin, NOW),
        Restored::Segment { .. }
    ));
    assert!(matches!(
        decompressor.handle(&marked, &payload, NOW),
        Restored::Segment { .. }
    ));
    wire_bytes += begin.len() + payload.len();
    let counters = decompressor.counters();
    assert_eq!(
        (
            counters.unknown_dictionary,
            counters.bad_bytes,
            counters.restored
        ),
        (1, 1, 3)
    );
    assert_eq!(
        (counters.wire_bytes, counters.plain_bytes),
        (wire_bytes as u64, 3 * 1448)
    );
}

#[test]
fn plain_segments_of_a_followed_flow_are_known_and_others_are_not_kept() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let plain = text(4000, &mut rng);
    let mut decompressor = Decompressor::new(DecompressorLimits::default());
    let (one, _) = data(1, &plain[..1000]);
    assert_eq!(
        decompressor.handle(&one, &plain[..1000], NOW),
        Restored::NotCompressed
    );
    assert_eq!(decompressor.followed(), 0, "nothing compressed has come");
    let payload = compressed(
        &mut encoder(Method::Zstd),
        SeqNum::new(1001),
        &plain[1000..2000],
    );
    let marked = segment(SeqNum::new(1001), &payload);
    assert!(matches!(
        decompressor.handle(&marked, &payload, NOW),
        Restored::Segment { .. }
    ));
    let (three, _) = data(2001, &plain[2000..3000]);
    assert_eq!(
        decompressor.handle(&three, &plain[2000..3000], NOW),
        Restored::NotCompressed
    );
    let dictionary = DictionaryRef {
        bytes: &plain[1000..3000],
        end: SeqNum::new(3001),
    };
    let last = Plain {
        bytes: &plain[3000..],
        seq: SeqNum::new(3001),
        psh: false,
    };
    let mut encoder = encoder(Method::Zstd);
    let payload = encoded(&mut encoder, last, dictionary).expect("shrinks");
    let marked = segment(SeqNum::new(3001), &payload);
    match decompressor.handle(&marked, &payload, NOW) {
        Restored::Segment { payload, .. } => assert_eq!(payload, &plain[3000..]),
        other => panic!("{other:?}"),
    }
    // A SYN: another connection of the same two ends.
    let mut syn = segment(SeqNum::new(77), &[]);
    syn.flags = Flags::SYN.with(Flags::ACK);
    assert_eq!(decompressor.handle(&syn, &[], NOW), Restored::NotCompressed);
    assert_eq!(decompressor.take_forgotten().count(), 1);
    assert_eq!(decompressor.followed(), 0);
}

#[test]
fn flows_beyond_the_limit_are_not_followed_and_their_segments_are_dropped() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let plain = text(1000, &mut rng);
    let limits = DecompressorLimits {
        flows_max: 2,
        ..DecompressorLimits::default()
    };
    let mut decompressor = Decompressor::new(limits);
    let payload = compressed(&mut encoder(Method::Zstd), SeqNum::new(1), &plain);
    let of_port = |port: u16| {
        let mut segment = segment(SeqNum::new(1), &payload);
        segment.from.port = port;
        segment
    };
    let is_restored = |restored: Restored<'_>| matches!(restored, Restored::Segment { .. });
    assert!(is_restored(decompressor.handle(&of_port(1), &payload, NOW)));
    assert!(is_restored(decompressor.handle(&of_port(2), &payload, NOW)));
    let none = Restored::Dropped(NotRestored::NoRoom);
    assert_eq!(decompressor.handle(&of_port(3), &payload, NOW), none);
    // One of the flows has ended.
    let mut fin = of_port(2);
    fin.flags = Flags::ACK.with(Flags::FIN);
    assert_eq!(decompressor.handle(&fin, &[], NOW), Restored::NotCompressed);
    assert!(is_restored(decompressor.handle(&of_port(3), &payload, NOW)));
    assert_eq!(decompressor.handle(&of_port(2), &payload, NOW), none);
    // A flow was idle for a minute.
    let later = Instant::from_millis(120_000);
    assert!(is_restored(decompressor.handle(
        &of_port(2),
        &payload,
        later
    )));
    let forgotten: Vec<u16> = decompressor
        .take_forgotten()
        .map(|key| key.fh.port)
        .collect();
    assert_eq!(forgotten.len(), 2);
    assert_eq!(decompressor.followed(), 2);
}

#[test]
fn a_payload_may_be_as_long_as_the_limit() {
    let zeros = vec![0; 1460];
    for (plain_len_max, is_restored) in [(1460, true), (1459, false)] {
        let mut decompressor = Decompressor::new(DecompressorLimits {
            plain_len_max,
            ..DecompressorLimits::default()
        });
        let payload = compressed(&mut encoder(Method::Deflate), SeqNum::new(1), &zeros);
        let whole = segment(SeqNum::new(1), &payload);
        let restored = decompressor.handle(&whole, &payload, NOW);
        let too_long = Restored::Dropped(NotRestored::BadHeader);
        assert_eq!(restored != too_long, is_restored, "{plain_len_max}");
    }
}

#[test]
fn a_bomb_makes_no_more_bytes_than_its_header_states() {
    let zeros = vec![0; 65_000];
    for method in [Method::Deflate, Method::Zstd] {
        let mut decompressor = Decompressor::new(DecompressorLimits {
            plain_len_max: 1460,
            ..DecompressorLimits::default()
        });
        let mut payload = compressed(&mut encoder(method), SeqNum::new(1), &zeros);
        assert!(payload.len() < 200);
        let whole = segment(SeqNum::new(1), &payload);
        let too_long = Restored::Dropped(NotRestored::BadHeader);
        assert_eq!(decompressor.handle(&whole, &payload, NOW), too_long);
        // The header states fewer bytes than there are.
        payload[1..3].copy_from_slice(&1000_u16.to_be_bytes());
        let bad = Restored::Dropped(NotRestored::BadBytes);
        assert_eq!(decompressor.handle(&whole, &payload, NOW), bad);
    }
}

/// Bit flips, cuts, insertions, random bytes: the result is the plain payload or nothing.
#[test]
fn damaged_segments_are_dropped_or_restored_whole() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
    };
    let seeds = match number("HOLDFAST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HOLDFAST_CASES").unwrap_or(20_000),
    };
    let mut decompressor = Decompressor::new(DecompressorLimits::default());
    let mut encoders = [encoder(Method::Deflate), encoder(Method::Zstd)];
    for seed in seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let stream = text(6000, &mut rng);
        let first = SeqNum::new(rng.next_u32());
        let from = 1500 + rng.next_u32() as usize % 1000;
        let plain = &stream[from..from + 64 + rng.next_u32() as usize % 1400];
        let encoder = &mut encoders[rng.next_u32() as usize % 2];
        let begin = compressed(encoder, first, &stream[..1500]);
        decompressor.handle(&segment(first, &begin), &begin, NOW);
        let dictionary = DictionaryRef {
            bytes: &stream[..1500],
            end: first + 1500,
        };
        let seq = first + from as u32;
        let one = Plain {
            bytes: plain,
            seq,
            psh: false,
        };
        let Some(mut payload) = encoded(encoder, one, dictionary) else {
            continue;
        };
        let len = payload.len();
        let at = rng.next_u32() as usize % len;
        match rng.next_u32() % 5 {
            0 => payload[at] ^= 1 << (rng.next_u32() % 8),
            1 => payload.truncate(at),
            2 => payload.insert(at, rng.next_u32() as u8),
            3 => rng.fill_bytes(&mut payload[at..]),
            // The header stays valid, so the codecs get random bytes.
            _ => rng.fill_bytes(&mut payload[12.min(len - 1)..]),
        }
        let wrong_seq = rng.next_u32().is_multiple_of(8);
        let seq = if wrong_seq {
            seq + rng.next_u32() % 3000
        } else {
            seq
        };
        match decompressor.handle(&segment(seq, &payload), &payload, NOW) {
            Restored::Segment { payload, .. } => {
                assert_eq!(payload, plain, "HOLDFAST_SEED={seed}");
            }
            Restored::Dropped(_) => {}
            Restored::NotCompressed => panic!("HOLDFAST_SEED={seed}: marked, and not read"),
        }
        // The next segment is restored.
        let next = compressed(encoder, first, &stream[..1500]);
        let restored = decompressor.handle(&segment(first, &next), &next, NOW);
        let good =
            matches!(restored, Restored::Segment { payload, .. } if payload == &stream[..1500]);
        assert!(good, "HOLDFAST_SEED={seed}");
    }
    assert!(decompressor.counters().bad_bytes > 0);
}

#[test]
fn the_codec_alone_restores_what_it_compressed() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let stream = text(5000, &mut rng);
    for (method, dictionary) in [
        (Method::Deflate, &stream[..0]),
        (Method::Zstd, &stream[..0]),
        (Method::Zstd, &stream[..3000]),
    ] {
        let mut codec = PlainCodec::new(CompressionSettings { method, level: 9 });
        let payload = codec
            .compress(&stream[3000..], dictionary)
            .expect("shrinks")
            .to_vec();
        assert_eq!(
            codec.decompress(&payload, dictionary),
            Some(&stream[3000..])
        );
    }
}

#[test]
fn a_compressed_segment_has_psh_and_no_ack_and_its_marks_of_ecn_stay() {
    let (ece, cwr) = (Flags::ECE, Flags::CWR);
    for ecn in [Flags(0), ece, cwr, ece.with(cwr)] {
        let sent = Flags::ACK.with(Flags::FIN).with(ecn);
        assert!(!is_marked(sent), "{sent:?}");
        assert_eq!(marked(sent), COMPRESSED_FLAGS.with(ecn));
        assert!(is_marked(marked(sent)), "{sent:?}");
    }
    for other in [Flags::ACK, Flags::SYN, Flags::FIN, Flags::RST, Flags::URG] {
        assert!(!is_marked(COMPRESSED_FLAGS.with(other)), "{other:?}");
    }
    assert!(!is_marked(Flags(0)));
}

#[test]
fn the_headers_of_a_restored_segment_fit_its_payload() {
    let made = Header::made(&[], FH, MH).expect("a header");
    let flags = Flags::ACK.with(Flags::PSH);
    let payload = [7; 1000];
    let header = restored_header(made, flags, &payload).expect("a packet");
    let frame = [header.as_bytes(), &payload].concat();
    let (segment, layout) = parse(&frame, 0).expect("TCP");
    assert_eq!((segment.flags, segment.payload_len), (flags, 1000));
    assert!(checksum_is_right(&frame, &segment, &layout));
    assert!(restored_header(made, flags, &vec![7; 65_535 - 40]).is_some());
    assert!(restored_header(made, flags, &vec![7; 65_535 - 39]).is_none());
}
