// SPDX-License-Identifier: Apache-2.0
//! Windows that are closed, and what ends that.

use super::*;

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
    // MD5, AO, MPTCP, and an unknown one.
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
fn a_limited_window_ends_at_its_edge_and_never_before_an_edge_that_was_sent() {
    let test = "a_limited_window_ends_at_its_edge_and_never_before_an_edge_that_was_sent";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let key = flow(false, 4_000);
    let window = |ack: u32| {
        let spec = Spec {
            ack,
            ..Spec::uplink(key)
        };
        let left = loaded.egress(&spec.frame());
        let (segment, layout) = parse(&left, LINK).unwrap();
        assert!(checksum_is_right(&left, &segment, &layout));
        segment.window
    };
    // For the deadline.
    loaded.close(&key);
    let edge = |number| loaded.maps.limit_window(&key, SeqNum::new(number)).unwrap();
    edge(70_300);
    assert_eq!([70_000, 70_100, 70_299].map(window), [300, 200, 1]);
    assert_eq!(window(70_300), 0, "all of it has come");
    edge(71_000);
    assert_eq!(window(70_300), 501, "the MH's own is less");
    assert_eq!(window(70_600), 400);
    let noted = loaded.maps.flow(&key).unwrap().unwrap();
    assert_eq!(noted.flow.window, 501, "as the MH sent it");
    loaded.maps.open_window(&key).unwrap();
    assert_eq!(window(70_700), 501);
}

#[test]
fn a_limited_window_in_large_units_never_takes_back_where_it_ended() {
    const SCALE: u8 = 7;
    let test = "a_limited_window_in_large_units_never_takes_back_where_it_ended";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let key = flow(false, 4_000);
    loaded.begin(key, SCALE, 70_000);
    loaded.close(&key);
    let edge = SeqNum::new(90_000);
    loaded.maps.limit_window(&key, edge).unwrap();
    let (mut ended, mut acks) = (90_000, 0);
    for ack in [70_000, 70_001, 70_001, 70_127, 70_128, 71_448, 89_999] {
        let spec = Spec {
            ack,
            ..Spec::uplink(key)
        };
        let left = loaded.egress(&spec.frame());
        let (segment, layout) = parse(&left, LINK).unwrap();
        assert!(checksum_is_right(&left, &segment, &layout));
        let end = ack + (u32::from(segment.window) << SCALE);
        acks += 1;
        assert!(end >= ended, "{ended}, then {end} with {ack}");
        assert!(end < 90_000 + (acks << SCALE), "{end} with {ack}");
        ended = end;
    }
}
