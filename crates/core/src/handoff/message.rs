// SPDX-License-Identifier: Apache-2.0
//! The messages between stations, as values and as bytes.

use core::fmt;
use core::net::IpAddr;

use holdfast_wire::SeqNum;

use super::bytes::{Reader, Writer};
use super::{Role, StationId};
use crate::FlowKey;
use crate::signal::{ADDRESSES_MAX, KeyId};

/// What a take-over meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The mobile was not there.
    NotHere,
    /// It was there; the state of its flows follows in this many datagrams.
    Yielded {
        /// Datagrams of the transfer.
        datagrams: u16,
    },
    /// It is there by a higher epoch.
    Stale {
        /// That epoch.
        epoch: u64,
        /// The station that has the mobile.
        station: StationId,
    },
}

impl Outcome {
    fn write(self, w: &mut Writer) {
        match self {
            Self::NotHere => w.u8(0),
            Self::Yielded { datagrams } => {
                w.u8(1);
                w.u16(datagrams);
            }
            Self::Stale { epoch, station } => {
                w.u8(2);
                w.u64(epoch);
                w.u32(station.0);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            0 => Self::NotHere,
            1 => Self::Yielded {
                datagrams: r.u16()?,
            },
            2 => Self::Stale {
                epoch: r.u64()?,
                station: StationId(r.u32()?),
            },
            _ => return None,
        })
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// My role for a mobile; repeated while I have one.
    Status {
        /// Whose.
        mobile: KeyId,
        /// The highest link epoch known.
        epoch: u64,
        /// Who speaks.
        station: StationId,
        /// The role.
        role: Role,
        /// Of a forwarding station: buffer for this time, ms; 0: there is no need.
        prepare_ms: u32,
        /// The mobile's addresses.
        addresses: Vec<IpAddr>,
    },
    /// The mobile has come to me.
    TakeOver {
        /// Whose.
        mobile: KeyId,
        /// The link epoch with which it registered.
        epoch: u64,
        /// Who speaks.
        station: StationId,
        /// The mobile's addresses.
        addresses: Vec<IpAddr>,
    },
    /// I have received your take-over.
    Answer {
        /// Whose.
        mobile: KeyId,
        /// The take-over's epoch.
        epoch: u64,
        /// Its outcome.
        outcome: Outcome,
    },
    /// The state of some flows.
    State {
        /// Whose.
        mobile: KeyId,
        /// The take-over's epoch.
        epoch: u64,
        /// The datagram's number, from 0.
        number: u16,
        /// Datagrams of the transfer.
        count: u16,
        /// Records, each after its length.
        records: Vec<u8>,
    },
    /// I have that datagram.
    StateReceived {
        /// Whose.
        mobile: KeyId,
        /// The take-over's epoch.
        epoch: u64,
        /// The datagram's number.
        number: u16,
    },
    /// Send me what you have of these bytes, once.
    Want {
        /// Whose.
        mobile: KeyId,
        /// The flow.
        flow: FlowKey,
        /// The first byte.
        from: SeqNum,
        /// The byte after the last.
        to: SeqNum,
    },
    /// Of these bytes you have been sent all that I have.
    Given {
        /// Whose.
        mobile: KeyId,
        /// The flow.
        flow: FlowKey,
        /// The first byte.
        from: SeqNum,
        /// The byte after the last.
        to: SeqNum,
    },
    /// Before you restarted the mobile was at your station, as far as I know.
    Yours {
        /// Whose.
        mobile: KeyId,
        /// The link epoch with which you had it.
        epoch: u64,
        /// The station that had it.
        station: StationId,
        /// The mobile's addresses.
        addresses: Vec<IpAddr>,
    },
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageError;

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no message of a base station")
    }
}

impl core::error::Error for MessageError {}

/// Why a copy of a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// To the group: it has just come by the wired route.
    Group,
    /// To one station, which asked for it.
    Wanted,
}

const STATUS: u8 = 1;
const TAKE_OVER: u8 = 2;
const ANSWER: u8 = 3;
const STATE: u8 = 4;
const STATE_RECEIVED: u8 = 5;
const WANT: u8 = 6;
const GIVEN: u8 = 7;
const YOURS: u8 = 8;
/// The kinds of a copy's datagram; the packet follows.
const COPY_GROUP: u8 = 16;
const COPY_WANTED: u8 = 17;

/// Bytes before the packet in a copy.
pub(super) const COPY_HEADER_BYTES: usize = 5;

/// What stands before a packet in the datagram of its copy.
pub(super) fn copy_header(mobile: KeyId, kind: CopyKind) -> [u8; COPY_HEADER_BYTES] {
    let [a, b, c, d] = mobile.0.to_be_bytes();
    let kind = match kind {
        CopyKind::Group => COPY_GROUP,
        CopyKind::Wanted => COPY_WANTED,
    };
    [kind, a, b, c, d]
}

/// The mobile and the kind of a copy, if the bytes are one.
pub(super) fn parse_copy(bytes: &[u8]) -> Option<(KeyId, CopyKind)> {
    let header: &[u8; COPY_HEADER_BYTES] = bytes.first_chunk()?;
    let kind = match header[0] {
        COPY_GROUP => CopyKind::Group,
        COPY_WANTED => CopyKind::Wanted,
        _ => return None,
    };
    let [_, a, b, c, d] = *header;
    Some((KeyId(u32::from_be_bytes([a, b, c, d])), kind))
}

impl Message {
    /// Whose mobile it is about.
    pub const fn mobile(&self) -> KeyId {
        match self {
            Self::Status { mobile, .. }
            | Self::TakeOver { mobile, .. }
            | Self::Answer { mobile, .. }
            | Self::State { mobile, .. }
            | Self::StateReceived { mobile, .. }
            | Self::Want { mobile, .. }
            | Self::Given { mobile, .. }
            | Self::Yours { mobile, .. } => *mobile,
        }
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.u8(self.kind());
        w.u32(self.mobile().0);
        match self {
            Self::Status {
                role, prepare_ms, ..
            } => {
                self.write_claim(&mut w);
                w.u8(role_number(*role));
                w.u32(*prepare_ms);
            }
            Self::TakeOver { .. } | Self::Yours { .. } => self.write_claim(&mut w),
            Self::Answer { epoch, outcome, .. } => {
                w.u64(*epoch);
                outcome.write(&mut w);
            }
            Self::State {
                epoch,
                number,
                count,
                records,
                ..
            } => {
                w.u64(*epoch);
                w.u16(*number);
                w.u16(*count);
                w.0.extend_from_slice(records);
            }
            Self::StateReceived { epoch, number, .. } => {
                w.u64(*epoch);
                w.u16(*number);
            }
            Self::Want { flow, from, to, .. } | Self::Given { flow, from, to, .. } => {
                w.flow(flow);
                w.seq(*from);
                w.seq(*to);
            }
        }
        if let Self::Status { addresses, .. }
        | Self::TakeOver { addresses, .. }
        | Self::Yours { addresses, .. } = self
        {
            write_addresses(&mut w, addresses);
        }
        w.0
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Status { .. } => STATUS,
            Self::TakeOver { .. } => TAKE_OVER,
            Self::Answer { .. } => ANSWER,
            Self::State { .. } => STATE,
            Self::StateReceived { .. } => STATE_RECEIVED,
            Self::Want { .. } => WANT,
            Self::Given { .. } => GIVEN,
            Self::Yours { .. } => YOURS,
        }
    }

    /// The epoch and the station of a claim.
    fn write_claim(&self, w: &mut Writer) {
        if let Self::Status { epoch, station, .. }
        | Self::TakeOver { epoch, station, .. }
        | Self::Yours { epoch, station, .. } = self
        {
            w.u64(*epoch);
            w.u32(station.0);
        }
    }

    /// The message in `bytes`, all of them.
    ///
    /// Errors: of no known kind, too short, too long, or with a value that no field takes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut r = Reader(bytes);
        let message = Self::read(&mut r).ok_or(MessageError)?;
        if r.is_at_end() {
            Ok(message)
        } else {
            Err(MessageError)
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (kind, mobile) = (r.u8()?, KeyId(r.u32()?));
        Some(match kind {
            STATUS => Self::Status {
                mobile,
                epoch: r.u64()?,
                station: StationId(r.u32()?),
                role: *ROLES.get(usize::from(r.u8()?))?,
                prepare_ms: r.u32()?,
                addresses: read_addresses(r)?,
            },
            TAKE_OVER => Self::TakeOver {
                mobile,
                epoch: r.u64()?,
                station: StationId(r.u32()?),
                addresses: read_addresses(r)?,
            },
            ANSWER => Self::Answer {
                mobile,
                epoch: r.u64()?,
                outcome: Outcome::read(r)?,
            },
            STATE => Self::State {
                mobile,
                epoch: r.u64()?,
                number: r.u16()?,
                count: r.u16()?,
                records: r.take(r.0.len())?.to_vec(),
            },
            STATE_RECEIVED => Self::StateReceived {
                mobile,
                epoch: r.u64()?,
                number: r.u16()?,
            },
            WANT => Self::Want {
                mobile,
                flow: r.flow()?,
                from: r.seq()?,
                to: r.seq()?,
            },
            GIVEN => Self::Given {
                mobile,
                flow: r.flow()?,
                from: r.seq()?,
                to: r.seq()?,
            },
            YOURS => Self::Yours {
                mobile,
                epoch: r.u64()?,
                station: StationId(r.u32()?),
                addresses: read_addresses(r)?,
            },
            _ => return None,
        })
    }
}

const ROLES: [Role; 4] = [
    Role::Idle,
    Role::Buffering,
    Role::Synchronising,
    Role::Forwarding,
];

fn role_number(role: Role) -> u8 {
    ROLES.iter().position(|one| *one == role).unwrap_or(0) as u8
}

fn write_addresses(w: &mut Writer, addresses: &[IpAddr]) {
    let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
    w.u8(addresses.len() as u8);
    for address in addresses {
        w.address(*address);
    }
}

fn read_addresses(r: &mut Reader<'_>) -> Option<Vec<IpAddr>> {
    let count = usize::from(r.u8()?);
    if count > ADDRESSES_MAX {
        return None;
    }
    (0..count).map(|_| r.address()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FH, MH};

    fn all() -> Vec<Message> {
        let mobile = KeyId(0x0102_0304);
        let addresses = vec![MH.address, "2001:db8::2".parse().unwrap()];
        let (epoch, station) = (u64::MAX - 1, StationId::of_name("west"));
        let answer = |outcome| Message::Answer {
            mobile,
            epoch,
            outcome,
        };
        vec![
            Message::Status {
                mobile,
                epoch,
                station,
                role: Role::Forwarding,
                prepare_ms: 10_000,
                addresses: addresses.clone(),
            },
            Message::TakeOver {
                mobile,
                epoch,
                station,
                addresses: addresses.clone(),
            },
            Message::Yours {
                mobile,
                epoch,
                station,
                addresses,
            },
            answer(Outcome::NotHere),
            answer(Outcome::Yielded { datagrams: 17 }),
            answer(Outcome::Stale { epoch: 9, station }),
            Message::State {
                mobile,
                epoch,
                number: 3,
                count: 4,
                records: vec![0, 1, 9],
            },
            Message::StateReceived {
                mobile,
                epoch,
                number: 3,
            },
            Message::Want {
                mobile,
                flow: FlowKey { fh: FH, mh: MH },
                from: SeqNum::new(u32::MAX),
                to: SeqNum::new(5),
            },
            Message::Given {
                mobile,
                flow: FlowKey { fh: FH, mh: MH },
                from: SeqNum::new(u32::MAX),
                to: SeqNum::new(5),
            },
        ]
    }

    #[test]
    fn every_message_survives_its_bytes_and_no_torn_one_is_taken() {
        for message in all() {
            let bytes = message.to_bytes();
            assert_eq!(Message::from_bytes(&bytes), Ok(message.clone()));
            assert_eq!(message.mobile(), KeyId(0x0102_0304));
            assert!(parse_copy(&bytes).is_none(), "{message:?}");
            if matches!(message, Message::State { .. }) {
                continue;
            }
            for len in 0..bytes.len() {
                assert_eq!(Message::from_bytes(&bytes[..len]), Err(MessageError));
            }
            let long = [&bytes[..], &[0]].concat();
            assert_eq!(Message::from_bytes(&long), Err(MessageError));
        }
    }
}
