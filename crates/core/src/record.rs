// SPDX-License-Identifier: Apache-2.0
//! What one gateway leaves to the next: after a restart, an upgrade, a crash.

use holdfast_wire::{Endpoint, SeqNum};

use crate::{FlowKey, Renumber};

/// The state of one flow that a gateway cannot learn from the flow's packets when it adopts it in
/// mid-stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The flow.
    pub key: FlowKey,
    /// The shift of the windows that the MH advertises, if its SYN was seen.
    pub mh_window_scale: Option<u8>,
    /// Bytes up to here were acknowledged to the FH ahead of the MH.
    pub owed: Option<SeqNum>,
    /// How the numbers of its halves differ, if it was set up early.
    pub renumber: Option<Renumber>,
    /// The flow was forgotten: its record may be reused.
    pub gone: bool,
}

/// Bytes of a record as written by [`FlowRecord::to_bytes`].
pub const FLOW_RECORD_LEN: usize = 64;

const VERSION: u8 = 2;

/// Where the checksum is, which shows a torn record.
const CHECK: usize = FLOW_RECORD_LEN - 4;

impl FlowRecord {
    /// The record of the same flow after it was forgotten.
    pub(crate) const fn ended(self) -> Self {
        Self { gone: true, ..self }
    }

    /// The record in a fixed length, for a file that a crash leaves behind.
    pub fn to_bytes(&self) -> [u8; FLOW_RECORD_LEN] {
        let mut bytes = [0; FLOW_RECORD_LEN];
        bytes[0] = VERSION;
        bytes[1] = u8::from(matches!(self.key.fh.address, core::net::IpAddr::V6(_)));
        bytes[2] = self.mh_window_scale.map_or(0xff, |shift| shift);
        bytes[3] = u8::from(self.owed.is_some()) | u8::from(self.renumber.is_some()) << 1;
        for (at, end) in [(4, self.key.fh), (22, self.key.mh)] {
            match end.address {
                core::net::IpAddr::V4(v4) => bytes[at..at + 4].copy_from_slice(&v4.octets()),
                core::net::IpAddr::V6(v6) => bytes[at..at + 16].copy_from_slice(&v6.octets()),
            }
            bytes[at + 16..at + 18].copy_from_slice(&end.port.to_be_bytes());
        }
        bytes[40..44].copy_from_slice(&self.owed.unwrap_or_default().get().to_be_bytes());
        let numbers = self.renumber.unwrap_or_default().to_bytes();
        bytes[44..44 + Renumber::BYTES].copy_from_slice(&numbers);
        let check = fold(&bytes[..CHECK]);
        bytes[CHECK..].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    /// Reads a record back; `None` if it is empty, torn or of another version.
    pub fn from_bytes(bytes: &[u8; FLOW_RECORD_LEN]) -> Option<Self> {
        let word =
            |at: usize| -> [u8; 4] { [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]] };
        if bytes[0] != VERSION || fold(&bytes[..CHECK]) != u32::from_be_bytes(word(CHECK)) {
            return None;
        }
        let end = |at: usize| {
            let address = if bytes[1] == 1 {
                let octets: [u8; 16] = bytes[at..at + 16].try_into().unwrap_or_default();
                octets.into()
            } else {
                word(at).into()
            };
            Endpoint {
                address,
                port: u16::from_be_bytes([bytes[at + 16], bytes[at + 17]]),
            }
        };
        let numbers = bytes[44..44 + Renumber::BYTES].try_into().ok()?;
        let renumber = match bytes[3] & 2 {
            0 => None,
            _ => Some(Renumber::from_bytes(numbers)?),
        };
        Some(Self {
            key: FlowKey {
                fh: end(4),
                mh: end(22),
            },
            mh_window_scale: Some(bytes[2]).filter(|shift| *shift <= 14),
            owed: (bytes[3] & 1 != 0).then(|| SeqNum::new(u32::from_be_bytes(word(40)))),
            renumber,
            gone: false,
        })
    }
}

/// FNV-1a: detects a torn record, nothing more.
fn fold(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_survives_the_file_and_a_torn_one_is_refused() {
        let record = FlowRecord {
            key: FlowKey {
                fh: Endpoint {
                    address: "2001:db8::1".parse().unwrap(),
                    port: 80,
                },
                mh: Endpoint {
                    address: "2001:db8::2".parse().unwrap(),
                    port: 40_000,
                },
            },
            mh_window_scale: Some(7),
            owed: Some(SeqNum::new(0xffff_fff0)),
            renumber: Some(Renumber {
                uplink: 7,
                downlink: u32::MAX,
                fh_sack: true,
                ..Renumber::default()
            }),
            gone: false,
        };
        let mut bytes = record.to_bytes();
        assert_eq!(FlowRecord::from_bytes(&bytes), Some(record));
        bytes[20] ^= 1;
        assert_eq!(FlowRecord::from_bytes(&bytes), None);
        assert_eq!(FlowRecord::from_bytes(&[0; FLOW_RECORD_LEN]), None);
    }
}
