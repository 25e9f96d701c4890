// SPDX-License-Identifier: Apache-2.0
//! New settings of mobiles, and new keys, while both ends run.

use super::*;

#[test]
fn a_mobile_that_stays_in_the_settings_stays_registered() {
    let mut pair = Pair::settled();
    let gone = pair.gateway.replace([config(3), config(1)], LIFETIME);
    assert_eq!(gone, Ok(vec![]));
    pair.mobile.link_down(pair.now);
    assert_eq!(pair.settle(), [LinkEvent::Down], "without a challenge");
    assert_eq!(pair.gateway.counters().challenges, 1);
}

#[test]
fn a_mobile_that_left_the_settings_has_no_address_and_can_send_nothing() {
    let mut pair = Pair::settled();
    let gone = pair.gateway.replace([config(2)], LIFETIME);
    assert_eq!(gone, Ok(vec![address(2)]));
    assert_eq!(pair.gateway.owner(address(2)), None);
    pair.mobile.register(pair.now);
    let datagram = pair.sent();
    pair.expect_rejected(&datagram, Rejection::UnknownKey);
}

#[test]
fn a_prefix_that_became_narrower_takes_the_addresses_outside() {
    let mut pair = Pair::settled();
    let narrow = PeerConfig {
        allowed: vec!["10.9.0.3/32".parse().expect("a prefix")],
        ..config(1)
    };
    assert_eq!(
        pair.gateway.replace([narrow], LIFETIME),
        Ok(vec![address(2)])
    );
    assert_eq!(pair.gateway.owner(address(2)), None);
    pair.mobile.register(pair.now);
    pair.settle();
    assert_eq!(
        pair.mobile.refusal(),
        Some(RefusalReason::AddressNotAllowed)
    );
}

#[test]
fn mobiles_with_the_same_key_are_refused_and_those_of_before_stay() {
    let mut pair = Pair::settled();
    let twins = pair.gateway.replace([config(2), config(2)], LIFETIME);
    assert!(twins.is_err());
    assert_eq!(pair.gateway.owner(address(2)), Some(key(1).id()));
}

#[test]
fn a_new_key_at_both_ends_is_challenged_and_believed() {
    let mut pair = Pair::settled();
    let with_new_key = PeerConfig {
        key: key(5),
        ..config(1)
    };
    assert_eq!(
        pair.gateway.replace([with_new_key], LIFETIME),
        Ok(vec![address(2)])
    );
    pair.mobile.set_key(key(5), pair.now);
    pair.settle();
    assert!(pair.mobile.is_acknowledged());
    assert_eq!(pair.gateway.owner(address(2)), Some(key(5).id()));
}
