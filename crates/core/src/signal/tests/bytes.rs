// SPDX-License-Identifier: Apache-2.0
//! The bytes inside the seal may be anything: the owner of a key may be broken, or hostile.

use proptest::prelude::*;

use super::*;

/// Any bytes, many of them like a request: a kind, a number of addresses, families.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let any = proptest::collection::vec(any::<u8>(), 0..400);
    let like = (
        0_u8..6,
        0_u8..20,
        proptest::collection::vec(0_u8..8, 42..330),
    );
    let like = like.prop_map(|(kind, addresses, rest)| {
        let mut bytes = vec![kind, addresses];
        bytes.extend(rest);
        bytes
    });
    let reply = (0x80_u8..0x85, 0_u8..4).prop_map(|(kind, reason)| {
        let mut bytes = vec![0; 44];
        (bytes[0], bytes[1]) = (kind, reason);
        bytes
    });
    prop_oneof![any, like, reply]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in message()) {
        if let Ok(request) = Request::parse(&bytes) {
            prop_assert_eq!(Request::parse(&request.emit()), Ok(request));
        }
        if let Ok(reply) = Reply::parse(&bytes) {
            prop_assert_eq!(Reply::parse(&reply.emit()), Ok(reply));
        }
    }

    #[test]
    fn any_bytes_in_a_right_seal_get_no_longer_answer(messages in proptest::collection::vec(message(), 1..8)) {
        let mut fresh = Fresh::default();
        let mut gateway = gateway();
        let now = Instant::from_millis(1000);
        let mut session = mobile(1, &[address(2)], &mut fresh, now);
        for message in messages {
            let nonce = fresh.bytes();
            let up = seal::seal(&key(1), Recipient::Gateway, &nonce, &message);
            let handled = gateway.handle_datagram(&up, FROM, now, &fresh.entropy());
            let reply = handled.reply.map_or(0, |reply| reply.len());
            prop_assert!(reply <= up.len());
            let down = seal::seal(&key(1), Recipient::Mobile, &nonce, &message);
            let _ = session.handle_datagram(&down, now);
        }
    }
}
