// SPDX-License-Identifier: Apache-2.0
//! Sealed datagrams: of link signals, and of messages between base stations.
//!
//! ```text
//!  0       2         3      4         8          32              n-16
//! +-------+---------+------+---------+----------+---------------+-----+
//! | magic | version | path | key id  | nonce    | sealed bytes  | tag |
//! +-------+---------+------+---------+----------+---------------+-----+
//! ```
//!
//! XChaCha20-Poly1305. The header is associated data: a datagram that was moved to another path, key
//! or version does not open. The nonce is random; 192 bits are enough for that without any state.

use core::fmt;

use chacha20poly1305::{AeadInOut as _, XChaCha20Poly1305};

/// Names a key on the wire, in clear. Not a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Length of the header in clear.
pub(crate) const HEADER_BYTES: usize = 8;
/// Length of the nonce.
pub(crate) const NONCE_BYTES: usize = 24;
/// Length of the tag.
pub(crate) const TAG_BYTES: usize = 16;
/// Where the sealed bytes begin.
pub(crate) const SEALED_AT: usize = HEADER_BYTES + NONCE_BYTES;

/// The header in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub magic: [u8; 2],
    pub version: u8,
    pub path: u8,
    pub key: KeyId,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let ([m0, m1], [k0, k1, k2, k3]) = (self.magic, self.key.0.to_be_bytes());
        [m0, m1, self.version, self.path, k0, k1, k2, k3]
    }

    /// The header of a datagram; `None` if the datagram is too short to be one.
    pub(crate) fn parse(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < SEALED_AT + TAG_BYTES {
            return None;
        }
        let [m0, m1, version, path, k0, k1, k2, k3] = *datagram.first_chunk()?;
        Some(Self {
            magic: [m0, m1],
            version,
            path,
            key: KeyId(u32::from_be_bytes([k0, k1, k2, k3])),
        })
    }
}

/// Seals `parts` into a datagram. A nonce must never be used twice with a key.
pub(crate) fn seal(
    cipher: &XChaCha20Poly1305,
    header: Header,
    nonce: &[u8; NONCE_BYTES],
    parts: &[&[u8]],
) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut datagram = Vec::with_capacity(SEALED_AT + len + TAG_BYTES);
    datagram.extend_from_slice(&header.to_bytes());
    datagram.extend_from_slice(nonce);
    for part in parts {
        datagram.extend_from_slice(part);
    }
    let (head, sealed) = datagram.split_at_mut(SEALED_AT);
    let tag = cipher
        .encrypt_inout_detached(nonce.into(), &head[..HEADER_BYTES], sealed.into())
        .expect("a datagram is far below the cipher's limit");
    datagram.extend_from_slice(&tag);
    datagram
}

/// The sealed bytes of a datagram that [`Header::parse`] has accepted. `None` if it was sealed with
/// another key or changed.
pub(crate) fn open(cipher: &XChaCha20Poly1305, datagram: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = datagram.split_first_chunk::<HEADER_BYTES>()?;
    let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let (sealed, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
    let mut opened = sealed.to_vec();
    let buffer = opened.as_mut_slice().into();
    let result = cipher.decrypt_inout_detached(nonce.into(), header, buffer, tag.into());
    result.ok().map(|()| opened)
}
