// SPDX-License-Identifier: Apache-2.0
//! Datagrams between stations: which are accepted, and which are not.

use core::net::SocketAddr;

use super::*;
use crate::signal::MobileKey;

const NONCE: [u8; NONCE_BYTES] = [3; NONCE_BYTES];

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], PORT_DEFAULT))
}

/// A run of the station with this number; its one neighbour is the other.
fn run(number: u8, incarnation: Incarnation) -> Channel {
    let key = MobileKey::from_random([7; 36]);
    Channel::new(key, incarnation, Peers::new([address(3 - number)]))
}

/// Delivers a datagram to `to`; the stations exchange hellos until both know each other.
fn deliver(
    from: (&mut Channel, u8),
    to: &mut Channel,
    datagram: &[u8],
) -> Result<Incoming, Refused> {
    let (sender, number) = from;
    let outcome = to.open(datagram, address(number));
    let mut greeting = match &outcome {
        Err(Refused::UnknownRun(peer)) => Some(to.greeting(*peer, &NONCE)),
        _ => None,
    };
    let (mut back, mut turns) = (true, 0);
    while let Some(datagram) = greeting.take() {
        turns += 1;
        assert!(turns < 5, "they exchange hellos for ever");
        let (hearer, other) = if back {
            (&mut *sender, address(3 - number))
        } else {
            (&mut *to, address(number))
        };
        let again = match hearer.open(&datagram, other) {
            Ok(Incoming::Greeting(peer)) => peer,
            Err(Refused::UnknownRun(peer)) => Some(peer),
            other => panic!("{other:?}"),
        };
        greeting = again.map(|peer| hearer.greeting(peer, &NONCE));
        back = !back;
    }
    outcome
}

fn message() -> Message {
    take_over(4, 1)
}

/// Two stations that know each other.
fn acquainted() -> (Channel, Channel) {
    let (mut west, mut east) = (run(1, 100), run(2, 200));
    let first = west.seal(WEST, &message(), &NONCE);
    let outcome = deliver((&mut west, 1), &mut east, &first);
    assert_eq!(outcome, Err(Refused::UnknownRun(WEST)));
    let again = west.seal(WEST, &message(), &NONCE);
    let taken = Ok(Incoming::Message(WEST, message()));
    assert_eq!(east.open(&again, address(1)), taken);
    (west, east)
}

#[test]
fn stations_become_acquainted_by_a_message_and_its_repetition() {
    let (west, mut east) = acquainted();
    let mut west = west;
    let back = east.seal(WEST, &message(), &NONCE);
    assert!(matches!(
        west.open(&back, address(2)),
        Ok(Incoming::Message(..))
    ));
}

#[test]
fn nothing_is_taken_twice_and_nothing_of_an_earlier_run() {
    let (mut west, mut east) = acquainted();
    let recorded = west.seal(WEST, &message(), &NONCE);
    let copy = west.seal_copy(MOBILE, b"packet", &NONCE);
    assert!(east.open(&recorded, address(1)).is_ok());
    assert!(east.open(&copy, address(1)).is_ok());
    assert_eq!(east.open(&recorded, address(1)), Err(Refused::Replayed));
    assert_eq!(east.open(&copy, address(1)), Err(Refused::Replayed));
    // West restarts: datagrams of its former run are refused.
    let unheard = west.seal(WEST, &message(), &NONCE);
    let mut west = run(1, 101);
    let first = west.seal(WEST, &message(), &NONCE);
    let outcome = deliver((&mut west, 1), &mut east, &first);
    assert_eq!(outcome, Err(Refused::UnknownRun(WEST)));
    let news = west.seal(WEST, &message(), &NONCE);
    assert!(east.open(&news, address(1)).is_ok());
    assert_eq!(east.open(&unheard, address(1)), Err(Refused::Replayed));
    assert_eq!(east.open(&copy, address(1)), Err(Refused::UnknownRun(WEST)));
    // East restarts: datagrams for its former run are refused.
    let recorded = west.seal(WEST, &message(), &NONCE);
    let mut east = run(2, 201);
    assert_eq!(
        east.open(&recorded, address(1)),
        Err(Refused::UnknownRun(WEST))
    );
}

#[test]
fn a_changed_bit_a_stranger_and_another_key_are_refused() {
    let (mut west, mut east) = acquainted();
    let good = west.seal(WEST, &message(), &NONCE);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let refused = east.open(&bad, address(1));
        assert!(
            matches!(refused, Err(Refused::BadSeal | Refused::Foreign)),
            "bit {bit}: {refused:?}"
        );
    }
    assert_eq!(east.open(&good, address(9)), Err(Refused::Stranger));
    let key = MobileKey::from_random([8; 36]);
    let mut other = Channel::new(key, 1, Peers::new([address(1)]));
    assert_eq!(other.open(&good, address(1)), Err(Refused::Foreign));
    assert!(
        east.open(&good, address(1)).is_ok(),
        "it was as good as ever"
    );
}

#[test]
fn copies_come_with_their_mobile_and_out_of_order() {
    let (mut west, mut east) = acquainted();
    let copies: Vec<_> = (0..100_u8)
        .map(|number| west.seal_copy(MOBILE, &[number; 40], &NONCE))
        .collect();
    for (number, copy) in copies.iter().enumerate().rev() {
        let incoming = Incoming::Copy {
            from: WEST,
            mobile: MOBILE,
            kind: CopyKind::Group,
            packet: vec![number as u8; 40],
        };
        assert_eq!(east.open(copy, address(1)), Ok(incoming));
    }
    let wanted = west.seal_wanted(WEST, MOBILE, b"packet", &NONCE);
    let incoming = east.open(&wanted, address(1));
    assert!(
        matches!(
            incoming,
            Ok(Incoming::Copy {
                kind: CopyKind::Wanted,
                ..
            })
        ),
        "{incoming:?}"
    );
    assert_eq!(east.counters().refused, 1, "the first message");
}
