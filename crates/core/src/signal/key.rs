// SPDX-License-Identifier: Apache-2.0
//! The key that one mobile shares with its gateway.

use core::fmt::{self, Write as _};
use core::str::FromStr;

use crate::sealed::KeyId;

/// A key and its name. Its text is `hf1:` + 8 hexadecimal digits of the name + `:` +
/// 64 of the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct MobileKey {
    id: KeyId,
    secret: [u8; 32],
}

/// A text that is not a key. The error names no position, because that could show the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFormatError;

/// What a key's text starts with: the format's version.
const TEXT_PREFIX: &str = "hf1";

impl MobileKey {
    /// A key of 36 random bytes: 4 for its name, 32 for its secret.
    pub fn from_random(random: [u8; 36]) -> Self {
        let (id, secret) = random.split_at(4);
        Self {
            id: KeyId(u32::from_be_bytes(id.try_into().expect("4 of 36 bytes"))),
            secret: secret.try_into().expect("32 of 36 bytes"),
        }
    }

    /// The key's name.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// The key as text. Its reader can send messages for the mobile.
    pub fn to_secret_text(&self) -> String {
        let mut text = format!("{TEXT_PREFIX}:{}:", self.id);
        for byte in self.secret {
            write!(text, "{byte:02x}").expect("a String takes all");
        }
        text
    }

    /// The secret, for sealing.
    pub(crate) const fn secret(&self) -> &[u8; 32] {
        &self.secret
    }
}

impl FromStr for MobileKey {
    type Err = KeyFormatError;

    fn from_str(text: &str) -> Result<Self, KeyFormatError> {
        let mut fields = text.trim().split(':');
        let (Some(TEXT_PREFIX), Some(id), Some(secret_hex), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(KeyFormatError);
        };
        let id: [u8; 4] = hex(id)?;
        Ok(Self {
            id: KeyId(u32::from_be_bytes(id)),
            secret: hex(secret_hex)?,
        })
    }
}

/// `N` bytes from exactly `2 * N` hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Result<[u8; N], KeyFormatError> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(KeyFormatError);
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digits = core::str::from_utf8(digits).map_err(|_| KeyFormatError)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| KeyFormatError)?;
    }
    Ok(bytes)
}

impl fmt::Debug for MobileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MobileKey({}, secret not shown)", self.id)
    }
}

impl fmt::Display for KeyFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a key made by `holdfast mobile keygen`")
    }
}

impl core::error::Error for KeyFormatError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text() {
        let key = MobileKey::from_random(core::array::from_fn(|i| i as u8 * 7));
        let text = key.to_secret_text();
        assert_eq!(text.len(), 4 + 8 + 1 + 64);
        assert_eq!(text.parse(), Ok(key.clone()));
        assert_eq!(format!(" {text}\n").parse(), Ok(key), "as read from a file");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let good = MobileKey::from_random([7; 36]).to_secret_text();
        let without_last = &good[..good.len() - 1];
        let bad = [
            "",
            "hf1",
            without_last,
            &format!("{good}0"),
            &format!("{good}:"),
            &good.replace("hf1", "hf2"),
            &format!("{without_last}g"),
            &good.replacen("07", "+7", 1),
        ];
        for text in bad {
            assert_eq!(text.parse::<MobileKey>(), Err(KeyFormatError), "{text:?}");
        }
    }

    #[test]
    fn a_key_in_a_log_shows_its_name_only() {
        let shown = format!("{:?}", MobileKey::from_random([0xab; 36]));
        assert_eq!(shown, "MobileKey(abababab, secret not shown)");
    }
}
