// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;

use crate::parse::tests::packet;
use crate::{Header, SackBlocks, SeqNum, Timestamps, checksum_is_right, parse};

fn blocks(ranges: &[(u32, u32)]) -> SackBlocks {
    let mut sack = SackBlocks::default();
    for &(left, right) in ranges {
        assert!(sack.push(SeqNum::new(left), SeqNum::new(right)));
    }
    sack
}

fn header_of(bytes: &[u8]) -> Header {
    let (_, layout) = parse(bytes, 0).unwrap();
    Header::copy_from(bytes, &layout).unwrap()
}

/// A SACK option as it stands in a header.
fn sack_option(ranges: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![5, 2 + 8 * ranges.len() as u8];
    for (left, right) in ranges {
        option.extend(left.to_be_bytes());
        option.extend(right.to_be_bytes());
    }
    option
}

#[test]
fn three_blocks_fit_beside_timestamps_and_four_without() {
    let four = blocks(&[(1, 2), (3, 4), (5, 6), (7, 8)]);
    let clocks = Some(Timestamps { tsval: 8, tsecr: 9 });
    for (timestamps, fits, len) in [(clocks, 3, 60), (None, 4, 56)] {
        let mut header = header_of(&packet(false, &[], b""));
        header.set_options(timestamps, &four);
        assert!(header.set_payload_len(0));
        assert_eq!(header.network_len() - 20, len);
        let (segment, _) = parse(header.as_bytes(), 0).unwrap();
        assert_eq!(segment.options.timestamps, timestamps);
        assert!(segment.options.sack.iter().eq(four.iter().take(fits)));
        assert!(!segment.options.others);
    }
}

#[test]
fn without_blocks_there_is_no_sack_option() {
    let mut header = header_of(&packet(true, &sack_option(&[(1, 2)]).repeat(2), b""));
    header.set_options(None, &SackBlocks::default());
    assert_eq!(header.network_len(), 60);
}

#[test]
fn blocks_that_go_leave_nops_instead() {
    let options = [&[1, 1][..], &sack_option(&[(1, 2), (3, 4)])].concat();
    let bytes = packet(false, &options, b"");
    let mut header = header_of(&bytes);
    assert!(header.keep_sack_blocks(&blocks(&[(3, 4)])));
    assert_eq!(
        header.as_bytes()[40..],
        [&[1, 1][..], &sack_option(&[(3, 4)]), &[1; 8]].concat()
    );
    let mut header = header_of(&bytes);
    assert!(header.keep_sack_blocks(&SackBlocks::default()));
    assert_eq!(header.as_bytes()[40..], [1; 20]);
    assert_eq!(header.as_bytes()[..40], bytes[..40]);
}

#[test]
fn what_has_no_room_or_is_not_understood_changes_nothing() {
    let one = sack_option(&[(1, 2)]);
    let two = blocks(&[(1, 2), (3, 4)]);
    for (options, wanted) in [
        ([&[1, 1][..], &one].concat(), two),
        (vec![1; 4], blocks(&[(1, 2)])),
        // MD5 (RFC 2385) and one that runs over the end, before and behind the blocks.
        (
            [&[19, 18][..], &[7; 16], &one].concat(),
            SackBlocks::default(),
        ),
        ([&one[..], &[8, 10]].concat(), SackBlocks::default()),
        ([&one[..], &[30, 2]].concat(), SackBlocks::default()),
        // A length that no SACK option has.
        (vec![5, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], two),
    ] {
        let bytes = packet(false, &options, b"");
        let mut header = header_of(&bytes);
        assert!(!header.keep_sack_blocks(&wanted), "{options:?}");
        assert_eq!(header.as_bytes(), bytes);
    }
}

#[test]
fn what_lies_behind_the_end_of_the_options_stays() {
    let options = [&sack_option(&[(1, 2)])[..], &[0, 30]].concat();
    let mut header = header_of(&packet(false, &options, b""));
    assert!(header.keep_sack_blocks(&blocks(&[(5, 6)])));
    assert_eq!(
        header.as_bytes()[40..],
        [&sack_option(&[(5, 6)])[..], &[0, 30]].concat()
    );
}

/// Options one after another, as senders write them, with at most one of SACK.
fn any_options() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let other = prop_oneof![
        Just(vec![1]),
        any::<[u8; 2]>().prop_map(|mss| [&[2, 4][..], &mss].concat()),
        (0u8..=14).prop_map(|shift| vec![3, 3, shift]),
        Just(vec![4, 2]),
        any::<[u8; 8]>().prop_map(|clocks| [&[8, 10][..], &clocks].concat()),
    ];
    let others = || prop::collection::vec(other.clone(), 0..3).prop_map(|all| all.concat());
    let sack = prop::collection::vec(any::<(u32, u32)>(), 1..=4);
    (others(), sack, others())
        .prop_map(|(before, sack, after)| {
            let all = [&before[..], &sack_option(&sack), &after].concat();
            (all, sack.len())
        })
        .prop_filter("too long", |(all, _)| all.len() <= 40)
        .prop_map(|(mut all, count)| {
            all.resize(all.len().next_multiple_of(4), 1);
            (all, count)
        })
}

proptest! {
    #[test]
    fn kept_blocks_are_read_back_and_all_else_is_as_it_was(
        v6: bool,
        (options, count) in any_options(),
        wanted in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
        payload in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut bytes = packet(v6, &options, &payload);
        let (segment, layout) = parse(&bytes, 0).unwrap();
        let mut before = Header::copy_from(&bytes, &layout).unwrap();
        before.set_checksum(&payload);
        bytes[..layout.payload].copy_from_slice(before.as_bytes());
        let mut header = before;
        let wanted = blocks(&wanted);
        prop_assert_eq!(header.keep_sack_blocks(&wanted), wanted.len() <= count);
        if wanted.len() > count {
            prop_assert_eq!(header.as_bytes(), before.as_bytes());
            return Ok(());
        }
        header.correct_checksum(&before);
        let made = [header.as_bytes(), &payload].concat();
        let mut expected = segment;
        expected.options.sack = wanted;
        prop_assert_eq!(parse(&made, 0), Ok((expected, layout)));
        prop_assert!(checksum_is_right(&made, &expected, &layout));
    }

    #[test]
    fn no_options_panic_and_what_is_read_afterwards_is_requested(
        v6: bool,
        octets in prop::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..=40),
        wanted in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
    ) {
        let mut octets = octets;
        octets.resize(octets.len().next_multiple_of(4).min(40), 0);
        let bytes = packet(v6, &octets, b"x");
        let (segment, _) = parse(&bytes, 0).unwrap();
        let mut header = header_of(&bytes);
        let wanted = blocks(&wanted);
        if header.keep_sack_blocks(&wanted) {
            let made = [header.as_bytes(), b"x"].concat();
            let (read, _) = parse(&made, 0).unwrap();
            let mut expected = segment;
            expected.options.sack = wanted;
            prop_assert_eq!(read, expected);
        } else {
            prop_assert_eq!(header.as_bytes(), &bytes[..bytes.len() - 1]);
        }
    }

    #[test]
    fn options_that_are_set_are_read_back(
        v6: bool,
        timestamps in prop::option::of(any::<(u32, u32)>()),
        sack in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
    ) {
        let timestamps = timestamps.map(|(tsval, tsecr)| Timestamps { tsval, tsecr });
        let sack = blocks(&sack);
        let mut header = header_of(&packet(v6, &[1; 8], b"abc"));
        header.set_options(timestamps, &sack);
        prop_assert!(header.set_payload_len(3));
        header.set_checksum(b"abc");
        let made = [header.as_bytes(), b"abc"].concat();
        let (segment, layout) = parse(&made, 0).unwrap();
        let room = if timestamps.is_some() { 3 } else { 4 };
        prop_assert!(segment.options.sack.iter().eq(sack.iter().take(room)));
        prop_assert_eq!(segment.options.timestamps, timestamps);
        prop_assert!(!segment.options.others);
        prop_assert!(checksum_is_right(&made, &segment, &layout));
    }
}
