// SPDX-License-Identifier: Apache-2.0
//! The datagram around a message: a header in clear, a nonce, and the sealed rest.
//!
//! ```text
//!  0      2         3      4         8          32                     n-16
//! +------+---------+------+---------+----------+----------------------+-----+
//! | "HF" | version | way  | key id  | nonce    | sealed message       | tag |
//! +------+---------+------+---------+----------+----------------------+-----+
//! ```
//!
//! XChaCha20-Poly1305; the header is its associated data, so that a datagram turned
//! round, or moved to another key or version, does not open. The nonce is random: 192
//! bits are enough for that without any state.

use chacha20poly1305::{AeadInPlace as _, KeyInit as _, Tag, XChaCha20Poly1305, XNonce};

use super::key::{KeyId, MobileKey};
use super::rejection::Rejection;

/// Length of the header in clear.
pub(super) const HEADER_BYTES: usize = 8;
/// Length of the nonce.
pub(super) const NONCE_BYTES: usize = 24;
/// Length of the tag.
pub(super) const TAG_BYTES: usize = 16;

const MAGIC: [u8; 2] = *b"HF";
const VERSION: u8 = 1;
const SEALED_AT: usize = HEADER_BYTES + NONCE_BYTES;

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient {
    /// From a mobile to a gateway.
    Gateway = 0,
    /// From a gateway to a mobile.
    Mobile = 1,
}

/// Seals `message` into a datagram. A nonce must never be used twice with a key.
pub(super) fn seal(
    key: &MobileKey,
    recipient: Recipient,
    nonce: &[u8; NONCE_BYTES],
    message: &[u8],
) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(SEALED_AT + message.len() + TAG_BYTES);
    datagram.extend_from_slice(&MAGIC);
    datagram.extend_from_slice(&[VERSION, recipient as u8]);
    datagram.extend_from_slice(&key.id().0.to_be_bytes());
    datagram.extend_from_slice(nonce);
    datagram.extend_from_slice(message);
    let (head, sealed) = datagram.split_at_mut(SEALED_AT);
    let tag = XChaCha20Poly1305::new(key.secret().into())
        .encrypt_in_place_detached(XNonce::from_slice(nonce), &head[..HEADER_BYTES], sealed)
        .expect("a message is far below the cipher's limit");
    datagram.extend_from_slice(&tag);
    datagram
}

/// The id of the key that a datagram claims to be sealed with.
pub(super) fn key_id(datagram: &[u8], recipient: Recipient) -> Result<KeyId, Rejection> {
    if datagram.len() < SEALED_AT + TAG_BYTES || datagram.len() > super::DATAGRAM_BYTES_MAX {
        return Err(Rejection::BadLength);
    }
    if datagram[..2] != MAGIC {
        return Err(Rejection::BadMagic);
    }
    if datagram[2] != VERSION {
        return Err(Rejection::UnknownVersion);
    }
    if datagram[3] != recipient as u8 {
        return Err(Rejection::WrongWay);
    }
    let id = datagram[4..HEADER_BYTES].try_into().expect("4 bytes");
    Ok(KeyId(u32::from_be_bytes(id)))
}

/// The message in a datagram that [`key_id`] took.
pub(super) fn open(key: &MobileKey, datagram: &[u8]) -> Result<Vec<u8>, Rejection> {
    let (head, sealed) = datagram.split_at(SEALED_AT);
    let (sealed, tag) = sealed.split_at(sealed.len() - TAG_BYTES);
    let mut message = sealed.to_vec();
    XChaCha20Poly1305::new(key.secret().into())
        .decrypt_in_place_detached(
            XNonce::from_slice(&head[HEADER_BYTES..]),
            &head[..HEADER_BYTES],
            &mut message,
            Tag::from_slice(tag),
        )
        .map_err(|_| Rejection::BadSeal)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> MobileKey {
        MobileKey::from_random([byte; 36])
    }

    #[test]
    fn what_was_sealed_opens_with_the_same_key_only() {
        let datagram = seal(&key(1), Recipient::Gateway, &[9; 24], b"message");
        assert_eq!(key_id(&datagram, Recipient::Gateway), Ok(key(1).id()));
        assert_eq!(open(&key(1), &datagram), Ok(b"message".to_vec()));
        assert_eq!(open(&key(2), &datagram), Err(Rejection::BadSeal));
    }

    #[test]
    fn no_bit_of_a_datagram_can_be_changed() {
        let datagram = seal(&key(1), Recipient::Gateway, &[9; 24], b"message");
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                open(&key(1), &changed),
                Err(Rejection::BadSeal),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn the_message_is_not_in_clear() {
        let datagram = seal(&key(1), Recipient::Gateway, &[9; 24], b"message");
        assert!(!datagram.windows(7).any(|window| window == b"message"));
    }

    #[test]
    fn each_fault_of_the_header_has_its_reason() {
        let good = seal(&key(1), Recipient::Gateway, &[9; 24], b"message");
        let with = |at: usize, byte: u8| {
            let mut changed = good.clone();
            changed[at] = byte;
            key_id(&changed, Recipient::Gateway)
        };
        assert_eq!(with(0, b'X'), Err(Rejection::BadMagic));
        assert_eq!(with(2, 2), Err(Rejection::UnknownVersion));
        assert_eq!(with(3, 1), Err(Rejection::WrongWay));
        assert_eq!(
            key_id(&good[..47], Recipient::Gateway),
            Err(Rejection::BadLength)
        );
        let long = vec![0; super::super::DATAGRAM_BYTES_MAX + 1];
        assert_eq!(key_id(&long, Recipient::Gateway), Err(Rejection::BadLength));
        assert_eq!(key_id(&[], Recipient::Gateway), Err(Rejection::BadLength));
    }
}
