// SPDX-License-Identifier: Apache-2.0
//! The datagrams of link signals: [`sealed`] with "HF" and 0 from a mobile to a gateway
//! or 1 from a gateway to a mobile.

use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};

use super::key::MobileKey;
use super::rejection::Rejection;
use crate::sealed::KeyId;
use crate::sealed::{self, Header, NONCE_BYTES};

const MAGIC: [u8; 2] = *b"HF";
const VERSION: u8 = 1;

/// The receiver of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient {
    /// From a mobile to a gateway.
    Gateway = 0,
    /// From a gateway to a mobile.
    Mobile = 1,
}

fn cipher(key: &MobileKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.secret().into())
}

/// Seals `message` into a datagram. A nonce must never be used twice with a key.
pub(super) fn seal(
    key: &MobileKey,
    recipient: Recipient,
    nonce: &[u8; NONCE_BYTES],
    message: &[u8],
) -> Vec<u8> {
    let header = Header {
        magic: MAGIC,
        version: VERSION,
        path: recipient as u8,
        key: key.id(),
    };
    sealed::seal(&cipher(key), header, nonce, &[message])
}

/// The id of the key that a datagram claims to be sealed with.
pub(super) fn key_id(datagram: &[u8], recipient: Recipient) -> Result<KeyId, Rejection> {
    let header = Header::parse(datagram).ok_or(Rejection::BadLength)?;
    if datagram.len() > super::DATAGRAM_BYTES_MAX {
        return Err(Rejection::BadLength);
    }
    if header.magic != MAGIC {
        return Err(Rejection::BadMagic);
    }
    if header.version != VERSION {
        return Err(Rejection::UnknownVersion);
    }
    if header.path != recipient as u8 {
        return Err(Rejection::WrongWay);
    }
    Ok(header.key)
}

/// Whether a datagram looks like a link signal, of either way. Its seal is not opened.
pub fn is_signal(datagram: &[u8]) -> bool {
    let is_for = |recipient| key_id(datagram, recipient).is_ok();
    is_for(Recipient::Gateway) || is_for(Recipient::Mobile)
}

/// The message in a datagram that [`key_id`] accepted.
pub(super) fn open(key: &MobileKey, datagram: &[u8]) -> Result<Vec<u8>, Rejection> {
    sealed::open(&cipher(key), datagram).ok_or(Rejection::BadSeal)
}

#[cfg(test)]
mod tests {
    use super::super::DATAGRAM_BYTES_MAX;
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
    fn a_signal_of_either_way_is_known_without_its_key() {
        for recipient in [Recipient::Gateway, Recipient::Mobile] {
            let datagram = seal(&key(1), recipient, &[9; 24], b"message");
            assert!(is_signal(&datagram));
            assert!(!is_signal(&datagram[1..]), "no magic");
            assert!(!is_signal(&datagram[..47]), "too short");
            let longer = [datagram, vec![0; DATAGRAM_BYTES_MAX]].concat();
            assert!(!is_signal(&longer));
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
        let long = vec![0; DATAGRAM_BYTES_MAX + 1];
        assert_eq!(key_id(&long, Recipient::Gateway), Err(Rejection::BadLength));
        assert_eq!(key_id(&[], Recipient::Gateway), Err(Rejection::BadLength));
    }
}
