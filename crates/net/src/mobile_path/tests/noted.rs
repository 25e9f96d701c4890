// SPDX-License-Identifier: Apache-2.0
//! The record of a flow, and the ACKs that are made from it.

use super::*;

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
        // An ACK that a newer one on another processor has overtaken.
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
fn a_made_ack_repeats_the_mhs_last_one() {
    let Some(loaded) = Loaded::new("a_made_ack_repeats_the_mhs_last_one") else {
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
fn a_round_trip_is_measured_by_clocks_and_by_acks_but_not_by_what_was_sent_again() {
    let test = "a_round_trip_is_measured_by_clocks_and_by_acks_but_not_by_what_was_sent_again";
    if !goes_on_in_virtual_time() {
        return;
    }
    let loaded = Loaded::new(test).unwrap();
    let rtt = |key: &FlowKey| loaded.maps.flow(key).unwrap().unwrap().flow.rtt;
    let clocked = |port| {
        let key = flow(false, port);
        let began = monotonic_ns();
        loaded.egress(&Spec::uplink(key).frame());
        let old = Spec {
            clocks: Some((31, 39)),
            ..Spec::downlink(key)
        };
        // Data keeps coming: otherwise the answer would look like one after a pause of the FH.
        for _ in 0..10 {
            sleep_until(monotonic_ns() + 1_000_000);
            loaded.ingress(&old.frame());
        }
        assert_eq!(rtt(&key), None, "it answers an earlier segment");
        let next = Spec {
            seq: 71_000,
            ..Spec::downlink(key)
        };
        loaded.ingress(&next.frame());
        (rtt(&key), monotonic_ns() - began)
    };
    let (measured, passed_ns) = clocked(5_000);
    let measured_ns = measured.expect("a round trip").as_nanos() as u64;
    assert!(
        (passed_ns - 1_000_000..=passed_ns).contains(&measured_ns),
        "{measured_ns} of {passed_ns}"
    );

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
fn a_handshake_gives_scale_and_round_trip_and_a_fin_ends_the_flow() {
    let test = "a_handshake_gives_scale_and_round_trip_and_a_fin_ends_the_flow";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let key = flow(true, 4_000);
    let with_scale = |mut frame: Vec<u8>, shift: u8| {
        // Instead of timestamps: NOP, window scale, and NOPs. The MH alone permits SACK.
        let at = LINK + 40 + 20;
        frame[at..at + 12].copy_from_slice(&[1, 3, 3, shift, 1, 1, 1, 1, 1, 1, 1, 1]);
        if shift == 9 {
            frame[at + 4..at + 6].copy_from_slice(&[4, 2]);
        }
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
    assert_eq!(noted.flow.window_shift, Some(9));
    assert!(!noted.flow.permits_sack);
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
