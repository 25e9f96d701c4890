// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::testing::{Bytes, data};

const FREE: usize = 1 << 20;

fn keep(cache: &mut SegmentCache<Bytes>, seq: u32, bytes: &[u8]) -> Insertion {
    let (segment, payload) = data(seq, bytes);
    cache.insert(&segment, &payload, segment.seq, FREE, 100)
}

/// Everything from `seq` on, as a receiver would put it together.
fn content(cache: &SegmentCache<Bytes>, seq: u32, len_max: u32) -> Vec<u8> {
    let (mut seq, mut bytes) = (SeqNum::new(seq), Vec::new());
    while let Some(piece) = cache.piece(seq, None, len_max) {
        if piece.seq != seq {
            break;
        }
        bytes.extend_from_slice(&piece.payload.0[piece.offset as usize..][..piece.len as usize]);
        seq = piece.end;
    }
    bytes
}

#[test]
fn segments_in_order_come_out_in_pieces_of_any_size() {
    let mut cache = SegmentCache::default();
    assert_eq!(
        keep(&mut cache, 100, &[7; 1300]),
        Insertion::Cached { new_bytes: 1300 }
    );
    let _ = cache.clear();
    // Tiny ones count for what they take besides.
    for (seq, word) in [(100, &b"hello "[..]), (106, b"world")] {
        assert_eq!(
            keep(&mut cache, seq, word),
            Insertion::Cached { new_bytes: 1000 }
        );
    }
    for len_max in [1, 2, 5, 100] {
        assert_eq!(content(&cache, 100, len_max), b"hello world");
    }
    assert_eq!(cache.bytes(), 2 * 1000);
}

#[test]
fn a_retransmission_with_other_bytes_never_overwrites() {
    let mut cache = SegmentCache::default();
    let _ = keep(&mut cache, 100, b"abc");
    let _ = keep(&mut cache, 106, b"ghi");
    assert_eq!(
        keep(&mut cache, 99, b"XXXXXXXXXXXX"),
        Insertion::Cached {
            new_bytes: 3 * 1000
        }
    );
    assert_eq!(content(&cache, 99, 100), b"XabcXXXghiXX");
    assert_eq!(cache.bytes(), 5 * 1000);
}

#[test]
fn a_hole_ends_what_is_contiguous() {
    let mut cache = SegmentCache::default();
    let _ = keep(&mut cache, 100, b"abc");
    let _ = keep(&mut cache, 106, b"ghi");
    assert_eq!(cache.contiguous_end(SeqNum::new(100)), SeqNum::new(103));
    assert_eq!(cache.contiguous_end(SeqNum::new(104)), SeqNum::new(104));
    let _ = keep(&mut cache, 103, b"def");
    assert_eq!(cache.contiguous_end(SeqNum::new(100)), SeqNum::new(109));
}

#[test]
fn purge_trims_an_entry_that_is_acknowledged_in_part() {
    let mut cache = SegmentCache::default();
    let _ = keep(&mut cache, u32::MAX - 1, b"abcdef");
    assert_eq!(cache.purge(SeqNum::new(1)), 0);
    assert_eq!(content(&cache, 1, 2), b"def");
    assert_eq!(cache.purge(SeqNum::new(4)), 1000);
    assert!(cache.is_empty());
}

#[test]
fn at_a_limit_nothing_of_a_segment_is_kept() {
    let mut cache = SegmentCache::default();
    let (segment, payload) = data(100, b"abcdef");
    assert_eq!(
        cache.insert(&segment, &payload, SeqNum::new(0), 5, 100),
        Insertion::Full
    );
    assert_eq!(
        cache.insert(&segment, &payload, SeqNum::new(0), 6, 0),
        Insertion::Full
    );
    assert!(cache.is_empty());
}

#[test]
fn fin_and_push_go_with_the_last_piece_alone_and_fin_is_never_contiguous() {
    let mut cache = SegmentCache::default();
    let (mut segment, payload) = data(100, b"abcdef");
    segment.flags = Flags::ACK
        .with(Flags::PSH)
        .with(Flags::FIN)
        .with(Flags::CWR);
    let _ = cache.insert(&segment, &payload, SeqNum::new(0), FREE, 100);
    let first = cache.piece(SeqNum::new(100), None, 4).unwrap();
    assert_eq!(first.flags, Flags::ACK.with(Flags::CWR));
    let last = cache.piece(first.end, None, 4).unwrap();
    assert_eq!(last.flags, Flags::ACK.with(Flags::PSH).with(Flags::FIN));
    assert_eq!(last.end, SeqNum::new(107));
    assert_eq!(cache.contiguous_end(SeqNum::new(100)), SeqNum::new(106));
    cache.purge(SeqNum::new(106));
    let fin = cache.piece(SeqNum::new(106), None, 4).unwrap();
    assert_eq!((fin.len, fin.end), (0, SeqNum::new(107)));
}
