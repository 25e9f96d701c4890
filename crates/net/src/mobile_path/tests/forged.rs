// SPDX-License-Identifier: Apache-2.0
//! Segments that do not fit the connection, and what is taken to the daemon.

use super::*;

/// The segment with numbers that no end of the connection could send.
fn beside(fits: Spec) -> [Spec; 4] {
    [
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
    ]
}

#[test]
fn numbers_of_the_fh_count_only_where_they_fit() {
    let Some(loaded) = Loaded::new("numbers_of_the_fh_count_only_where_they_fit") else {
        return;
    };
    let key = flow(false, 4_000);
    loaded.egress(&Spec::uplink(key).frame());
    let fits = Spec::downlink(key);
    let forged = [
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
    for spec in beside(fits).into_iter().chain(forged) {
        loaded.ingress(&spec.frame());
        assert_eq!(loaded.maps.flow(&key).unwrap().as_ref(), Some(&before));
    }
    loaded.ingress(&fits.frame());
    let noted = loaded.maps.flow(&key).unwrap().unwrap();
    assert_eq!((noted.fh_tsval, noted.fh_nxt), (31, SeqNum::new(71_000)));
    assert!(noted.flow.received_at.is_some() && noted.flow.data_at.is_some());
    assert_eq!(
        noted.flow.rcv_nxt, before.flow.rcv_nxt,
        "only the MH sends that"
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
fn what_follows_a_segment_that_fits_is_believed_as_far_as_the_mh_follows() {
    let test = "what_follows_a_segment_that_fits_is_believed_as_far_as_the_mh_follows";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let key = flow(false, 4_000);
    // Without its SYN the window may be as large as any.
    loaded.egress(
        &Spec {
            window: 1,
            ..Spec::uplink(key)
        }
        .frame(),
    );
    let data = |seq| Spec {
        seq,
        ..Spec::downlink(key)
    };
    for number in 0..2_000 {
        loaded.ingress(&data(70_000 + 1_000 * number).frame());
    }
    let fh_nxt = || loaded.maps.flow(&key).unwrap().unwrap().fh_nxt.get();
    let far = fh_nxt() - 70_000;
    let limit = (1 << 14) + (1 << 16) + (1 << 18);
    assert!((1 << 16..limit + 2_000).contains(&far), "{far}");
    let ack = Spec {
        ack: fh_nxt(),
        ..Spec::uplink(key)
    };
    loaded.egress(&ack.frame());
    let before = fh_nxt();
    loaded.ingress(&data(before).frame());
    assert_eq!(fh_nxt(), before + 1_000, "and on from there");
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
            // Of an unknown flow.
            let of_another = Spec {
                flow: flow(is_v6, 4_001),
                ..fits
            };
            for spec in beside(fits).into_iter().chain([of_another]) {
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
    assert!(!loaded.is_taken(&other), "it is not followed");
}
