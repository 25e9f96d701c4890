// SPDX-License-Identifier: Apache-2.0
//! The seal of datagrams, by its description (`crates/core/src/sealed.rs`). All targets have one key: so
//! hostile bytes come also from a peer that has the key.

use chacha20poly1305::{AeadInOut as _, KeyInit as _, XChaCha20Poly1305};
use holdfast_core::signal::MobileKey;

use crate::dice::Dice;

const KEY: [u8; 36] = [7; 36];
const HEADER_BYTES: usize = 8;
/// Header and nonce.
const SEALED_AT: usize = 32;
const TAG_BYTES: usize = 16;

pub(crate) fn key() -> MobileKey {
    MobileKey::from_random(KEY)
}

/// Nonces and challenges that are never the same.
#[derive(Default)]
pub(crate) struct Nonces(u64);

impl Nonces {
    pub(crate) fn next<const N: usize>(&mut self) -> [u8; N] {
        self.0 += 1;
        let mut bytes = [0; N];
        bytes[..8].copy_from_slice(&self.0.to_be_bytes());
        bytes
    }
}

/// A datagram of the format that `magic` names, on this path.
pub(crate) fn seal(magic: [u8; 2], path: u8, nonce: [u8; 24], message: &[u8]) -> Vec<u8> {
    let mut datagram = vec![magic[0], magic[1], 1, path];
    datagram.extend(&KEY[..4]);
    datagram.extend(nonce);
    seal_behind(datagram, message)
}

/// Seals a message behind header and nonce.
fn seal_behind(mut datagram: Vec<u8>, message: &[u8]) -> Vec<u8> {
    datagram.extend(message);
    let (head, sealed) = datagram.split_at_mut(SEALED_AT);
    let (header, nonce) = split_head(head);
    let tag = cipher()
        .encrypt_inout_detached(nonce.into(), header, sealed.into())
        .expect("a short message");
    datagram.extend(tag);
    datagram
}

/// What happens to a datagram in flight: nothing, damage, or damage within the seal.
pub(crate) fn disturb(datagram: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let mut datagram = datagram;
    match dice.below(4) {
        0 => dice.damage(&mut datagram),
        1 => {
            let sealed = datagram.split_off(SEALED_AT);
            let (message, tag) = sealed.split_last_chunk::<TAG_BYTES>().expect("a tag");
            let mut message = message.to_vec();
            let (header, nonce) = split_head(&datagram);
            let buffer = message.as_mut_slice().into();
            cipher()
                .decrypt_inout_detached(nonce.into(), header, buffer, tag.into())
                .expect("a datagram as it was sealed");
            dice.damage(&mut message);
            return seal_behind(datagram, &message);
        }
        _ => {}
    }
    datagram
}

/// Header and nonce of a datagram's first [`SEALED_AT`] bytes.
fn split_head(head: &[u8]) -> (&[u8], &[u8; SEALED_AT - HEADER_BYTES]) {
    head.split_last_chunk().expect("header and nonce")
}

fn cipher() -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new_from_slice(&KEY[4..]).expect("the key behind its id")
}
