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

#[test]
fn a_range_counts_as_1000_bytes_at_least_and_at_a_limit_there_is_room_for_it() {
    for (len, counts) in [(1, 1000), (1000, 1000), (1001, 1001)] {
        let (segment, payload) = data(100, &vec![7; len]);
        let insert = |bytes_free, entries_max| {
            let mut cache = SegmentCache::default();
            cache.insert(&segment, &payload, segment.seq, bytes_free, entries_max)
        };
        let new_bytes = counts as u32;
        assert_eq!(insert(counts, 1), Insertion::Cached { new_bytes });
        assert_eq!(insert(counts - 1, 1), Insertion::Full);
        assert_eq!(insert(counts, 0), Insertion::Full);
    }
}

#[test]
fn what_fills_holes_is_cached_if_there_is_room_for_all_of_it() {
    let (segment, payload) = data(100, &[7; 6000]);
    let fill = |bytes_free, entries_max| {
        let mut cache = SegmentCache::default();
        let _ = keep(&mut cache, 1100, &[7; 1000]);
        let _ = keep(&mut cache, 4100, &[7; 1000]);
        // Holes of 1000, 2000 and 1000 bytes.
        let filled = cache.insert(&segment, &payload, segment.seq, bytes_free, entries_max);
        assert_eq!(
            cache.bytes() - 2000,
            if filled == Insertion::Full { 0 } else { 4000 }
        );
        filled
    };
    assert_eq!(fill(4000, 5), Insertion::Cached { new_bytes: 4000 });
    assert_eq!(fill(3999, 5), Insertion::Full);
    assert_eq!(fill(4000, 4), Insertion::Full);
}

#[test]
fn of_bytes_that_were_acknowledged_nothing_is_cached() {
    let mut cache = SegmentCache::default();
    let (segment, payload) = data(100, &[7; 3000]);
    let una = SeqNum::new(3100);
    let none = cache.insert(&segment, &payload, una, FREE, 100);
    assert_eq!(
        (none, cache.entries()),
        (Insertion::Cached { new_bytes: 0 }, 0)
    );
    let some = cache.insert(&segment, &payload, una - 1500, FREE, 100);
    assert_eq!(some, Insertion::Cached { new_bytes: 1500 });
    assert_eq!(content(&cache, 1600, 9000).len(), 1500);
    assert!(!cache.holds(SeqNum::new(1599)) && cache.holds(SeqNum::new(1600)));
    assert!(cache.holds(SeqNum::new(3099)) && !cache.holds(SeqNum::new(3100)));
}

#[test]
fn a_copy_contradicts_if_one_byte_of_the_overlap_is_another() {
    use crate::testing::Packet;
    let mut cache = SegmentCache::default();
    let packet = |seq: u32, bytes: &[u8]| {
        let (segment, _) = data(seq, bytes);
        (segment, Packet::new(segment, bytes, 1000))
    };
    let (segment, kept) = packet(100, b"abcdef");
    let _ = cache.insert(&segment, &kept, segment.seq, FREE, 100);
    for (seq, bytes, contradicts) in [
        (100, &b"abcdef"[..], false),
        (98, b"XXabc", false),
        (104, b"efXX", false),
        (106, b"X", false),
        (97, b"XXX", false),
        (97, b"XXXX", true),
        (105, b"X", true),
        (102, b"cdX", true),
    ] {
        let (segment, copy) = packet(seq, bytes);
        assert_eq!(cache.contradicts(&segment, &copy), contradicts, "{seq}");
    }
    // Of bytes that are not known nothing is contradicted.
    let mut cache = SegmentCache::default();
    let _ = keep(&mut cache, 100, b"abcdef");
    let (segment, other) = data(100, b"XXXXXX");
    assert!(!cache.contradicts(&segment, &other));
}

#[test]
fn a_piece_ends_at_its_limit_and_begins_with_what_is_cached() {
    let mut cache = SegmentCache::default();
    let _ = keep(&mut cache, 100, b"abcdef");
    let range = |seq, limit: Option<u32>, len_max| {
        let piece = cache.piece(SeqNum::new(seq), limit.map(SeqNum::new), len_max);
        piece.map(|piece| (piece.seq.get(), piece.end.get(), piece.offset))
    };
    assert_eq!(range(90, None, 100), Some((100, 106, 0)));
    assert_eq!(range(102, Some(104), 100), Some((102, 104, 2)));
    assert_eq!(range(102, Some(102), 100), None);
    assert_eq!(range(90, Some(100), 100), None);
    assert_eq!(range(90, Some(101), 100), Some((100, 101, 0)));
    assert_eq!(range(106, None, 100), None);
    assert_eq!(range(100, None, 0), None);
}

#[test]
fn a_fin_before_the_limit_goes_along_and_one_at_it_does_not() {
    let mut cache = SegmentCache::default();
    let (mut segment, payload) = data(100, b"abc");
    segment.flags = segment.flags.with(Flags::FIN);
    let _ = cache.insert(&segment, &payload, segment.seq, FREE, 100);
    for (limit, end) in [(Some(103), 103), (Some(104), 104), (None, 104)] {
        let piece = cache.piece(SeqNum::new(100), limit.map(SeqNum::new), 100);
        assert_eq!(piece.expect("a piece").end.get(), end, "{limit:?}");
    }
    assert_eq!(cache.held_end(SeqNum::new(100)).get(), 104);
    assert_eq!(cache.contiguous_end(SeqNum::new(100)).get(), 103);
}

#[test]
fn the_mark_of_a_reduced_window_goes_with_the_first_byte_alone() {
    let mut cache = SegmentCache::default();
    let (mut segment, payload) = data(100, b"abcdef");
    segment.flags = segment.flags.with(Flags::CWR);
    let _ = cache.insert(&segment, &payload, segment.seq, FREE, 100);
    for (una, marked) in [(100, true), (101, false)] {
        cache.purge(SeqNum::new(una));
        let piece = cache.piece(SeqNum::new(una), None, 100).expect("a piece");
        assert_eq!(piece.flags.has(Flags::CWR), marked, "{una}");
    }
}

#[test]
fn the_mark_of_a_reduced_window_does_not_go_with_the_rest_of_a_segment() {
    let mut cache = SegmentCache::default();
    let _ = keep(&mut cache, 100, b"abc");
    let (mut segment, payload) = data(100, b"abcdef");
    segment.flags = segment.flags.with(Flags::CWR);
    let _ = cache.insert(&segment, &payload, segment.seq, FREE, 100);
    let rest = cache.piece(SeqNum::new(103), None, 100).expect("a piece");
    assert_eq!((rest.seq.get(), rest.end.get()), (103, 106));
    assert!(!rest.flags.has(Flags::CWR));
}

#[test]
fn bytes_are_given_out_from_the_first_to_the_last_that_is_meant() {
    use crate::testing::Packet;
    let mut cache = SegmentCache::default();
    for (seq, bytes) in [(100, b"abcdef"), (106, b"ghijkl")] {
        let (segment, _) = data(seq, bytes);
        let packet = Packet::new(segment, bytes, 1000);
        let _ = cache.insert(&segment, &packet, segment.seq, FREE, 100);
    }
    cache.purge(SeqNum::new(101));
    let given = |left, right| {
        let mut given = Vec::new();
        cache.each_between(SeqNum::new(left), SeqNum::new(right), |seq, bytes| {
            given.push((seq.get(), String::from_utf8_lossy(bytes).into_owned()));
        });
        given
    };
    let text = |seq: u32, bytes: &str| (seq, bytes.to_string());
    assert_eq!(given(102, 108), [text(102, "cdef"), text(106, "gh")]);
    assert_eq!(given(101, 106), [text(101, "bcdef")]);
    assert_eq!(given(106, 200), [text(106, "ghijkl")]);
    assert_eq!(cache.entries(), 2);
}

#[test]
fn an_empty_cache_gives_back_room_for_more_than_256_entries() {
    for (entries, kept) in [(CAPACITY_KEPT as u32, CAPACITY_KEPT), (300, 0)] {
        let mut cache = SegmentCache::default();
        for n in 0..entries {
            let (segment, payload) = data(100 + n, b"x");
            let _ = cache.insert(&segment, &payload, segment.seq, FREE, 1000);
        }
        cache.purge(SeqNum::new(100 + entries));
        assert!(cache.is_empty());
        assert_eq!(cache.entries.capacity(), kept, "{entries}");
    }
}
