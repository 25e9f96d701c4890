// SPDX-License-Identifier: Apache-2.0
//! The messages between stations, as values and as bytes.

use core::fmt;
use core::net::IpAddr;

use holdfast_wire::SeqNum;

use super::{Role, StationId};
use crate::FlowKey;
use crate::bytes::{Reader, Writer};
use crate::signal::{ADDRESSES_MAX, KeyId};

/// The outcome of a take-over at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The mobile was not there.
    NotHere,
    /// It was there; the state of its flows follows.
    StateFollows {
        /// Datagrams of the transfer.
        datagrams: u16,
    },
    /// The mobile registered with a higher epoch.
    Stale {
        /// The higher epoch.
        epoch: u64,
        /// The station that has the mobile.
        station: StationId,
    },
}

impl Outcome {
    fn write(self, w: &mut Writer) {
        match self {
            Self::NotHere => w.u8(0),
            Self::StateFollows { datagrams } => {
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
            1 => Self::StateFollows {
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

/// A message between stations about one mobile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The mobile.
    pub mobile: KeyId,
    /// The content.
    pub body: Body,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The sender's role for the mobile; repeated while it has one.
    Status(Status),
    /// The mobile has come to the sender.
    TakeOver(Claim),
    /// The sender has received a take-over.
    Answer {
        /// The take-over's epoch.
        epoch: u64,
        /// The outcome.
        outcome: Outcome,
    },
    /// The state of some flows.
    State(StatePart),
    /// The sender has received a [`State`](Self::State).
    StateReceived {
        /// The take-over's epoch.
        epoch: u64,
        /// The datagram's number.
        number: u16,
    },
    /// A request for all buffered packets with these bytes.
    Want(FlowRange),
    /// The sender has sent all that it had of these bytes.
    Given(FlowRange),
    /// The receiver had the mobile before it restarted, as far as the sender knows.
    Yours(Claim),
}

/// Which station has a mobile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The link epoch with which the mobile registered there.
    pub epoch: u64,
    /// The station.
    pub station: StationId,
    /// The mobile's addresses.
    pub addresses: Vec<IpAddr>,
}

impl Claim {
    /// The higher of two claims wins.
    pub(super) const fn rank(&self) -> (u64, StationId) {
        (self.epoch, self.station)
    }
}

/// A station's role for a mobile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sender, and the highest epoch that it knows.
    pub claim: Claim,
    /// The role.
    pub role: Role,
    /// From a forwarding station: buffer for this time, ms; 0: do not buffer.
    pub prepare_ms: u32,
}

/// One datagram of the state of a mobile's flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePart {
    /// The take-over's epoch.
    pub epoch: u64,
    /// The datagram's number, from 0.
    pub number: u16,
    /// Datagrams of the transfer.
    pub count: u16,
    /// Records, each after its length.
    pub records: Vec<u8>,
}

/// Bytes of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRange {
    /// The flow.
    pub flow: FlowKey,
    /// The first byte.
    pub from: SeqNum,
    /// The byte after the last.
    pub to: SeqNum,
}

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageError;

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a message of a base station")
    }
}

impl core::error::Error for MessageError {}

/// Why a copy of a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// To the group: it has just arrived by the wired route.
    Group,
    /// To one station, which requested it.
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

/// The header before a packet in the datagram of its copy.
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
    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.u8(self.body.kind());
        w.u32(self.mobile.0);
        self.body.write(&mut w);
        w.0
    }

    /// Parses a message, which must take all of `bytes`.
    ///
    /// Errors: of no known kind, too short, too long, or with an impossible value.
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
        let body = Body::read(kind, r)?;
        Some(Self { mobile, body })
    }
}

impl Body {
    const fn kind(&self) -> u8 {
        match self {
            Self::Status(_) => STATUS,
            Self::TakeOver(_) => TAKE_OVER,
            Self::Answer { .. } => ANSWER,
            Self::State(_) => STATE,
            Self::StateReceived { .. } => STATE_RECEIVED,
            Self::Want(_) => WANT,
            Self::Given(_) => GIVEN,
            Self::Yours(_) => YOURS,
        }
    }

    fn write(&self, w: &mut Writer) {
        match self {
            Self::Status(status) => {
                w.u64(status.claim.epoch);
                w.u32(status.claim.station.0);
                w.u8(role_number(status.role));
                w.u32(status.prepare_ms);
                write_addresses(w, &status.claim.addresses);
            }
            Self::TakeOver(claim) | Self::Yours(claim) => {
                w.u64(claim.epoch);
                w.u32(claim.station.0);
                write_addresses(w, &claim.addresses);
            }
            Self::Answer { epoch, outcome } => {
                w.u64(*epoch);
                outcome.write(w);
            }
            Self::State(part) => {
                w.u64(part.epoch);
                w.u16(part.number);
                w.u16(part.count);
                w.0.extend_from_slice(&part.records);
            }
            Self::StateReceived { epoch, number } => {
                w.u64(*epoch);
                w.u16(*number);
            }
            Self::Want(range) | Self::Given(range) => {
                w.flow(&range.flow);
                w.seq(range.from);
                w.seq(range.to);
            }
        }
    }

    fn read(kind: u8, r: &mut Reader<'_>) -> Option<Self> {
        Some(match kind {
            STATUS => {
                let (epoch, station) = (r.u64()?, StationId(r.u32()?));
                let role = *ROLES.get(usize::from(r.u8()?))?;
                let prepare_ms = r.u32()?;
                let claim = Claim {
                    epoch,
                    station,
                    addresses: read_addresses(r)?,
                };
                Self::Status(Status {
                    claim,
                    role,
                    prepare_ms,
                })
            }
            TAKE_OVER => Self::TakeOver(read_claim(r)?),
            ANSWER => Self::Answer {
                epoch: r.u64()?,
                outcome: Outcome::read(r)?,
            },
            STATE => Self::State(StatePart {
                epoch: r.u64()?,
                number: r.u16()?,
                count: r.u16()?,
                records: r.take(r.0.len())?.to_vec(),
            }),
            STATE_RECEIVED => Self::StateReceived {
                epoch: r.u64()?,
                number: r.u16()?,
            },
            WANT => Self::Want(read_range(r)?),
            GIVEN => Self::Given(read_range(r)?),
            YOURS => Self::Yours(read_claim(r)?),
            _ => return None,
        })
    }
}

fn read_claim(r: &mut Reader<'_>) -> Option<Claim> {
    Some(Claim {
        epoch: r.u64()?,
        station: StationId(r.u32()?),
        addresses: read_addresses(r)?,
    })
}

fn read_range(r: &mut Reader<'_>) -> Option<FlowRange> {
    Some(FlowRange {
        flow: r.flow()?,
        from: r.seq()?,
        to: r.seq()?,
    })
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
        let (epoch, station) = (u64::MAX - 1, StationId::of_name("west"));
        let claim = Claim {
            epoch,
            station,
            addresses: vec![MH.address, "2001:db8::2".parse().unwrap()],
        };
        let range = FlowRange {
            flow: FlowKey { fh: FH, mh: MH },
            from: SeqNum::new(u32::MAX),
            to: SeqNum::new(5),
        };
        let answer = |outcome| Body::Answer { epoch, outcome };
        let bodies = [
            Body::Status(Status {
                claim: claim.clone(),
                role: Role::Forwarding,
                prepare_ms: 10_000,
            }),
            Body::TakeOver(claim.clone()),
            Body::Yours(claim),
            answer(Outcome::NotHere),
            answer(Outcome::StateFollows { datagrams: 17 }),
            answer(Outcome::Stale { epoch: 9, station }),
            Body::State(StatePart {
                epoch,
                number: 3,
                count: 4,
                records: vec![0, 1, 9],
            }),
            Body::StateReceived { epoch, number: 3 },
            Body::Want(range),
            Body::Given(range),
        ];
        let mobile = KeyId(0x0102_0304);
        bodies.map(|body| Message { mobile, body }).to_vec()
    }

    #[test]
    fn every_message_is_parsed_from_its_bytes_and_a_torn_one_is_refused() {
        for message in all() {
            let bytes = message.to_bytes();
            assert_eq!(Message::from_bytes(&bytes), Ok(message.clone()));
            assert!(parse_copy(&bytes).is_none(), "{message:?}");
            if matches!(message.body, Body::State(_)) {
                continue;
            }
            for len in 0..bytes.len() {
                assert_eq!(Message::from_bytes(&bytes[..len]), Err(MessageError));
            }
            let long = [&bytes[..], &[0]].concat();
            assert_eq!(Message::from_bytes(&long), Err(MessageError));
        }
    }

    #[test]
    fn messages_have_the_pinned_bytes() {
        let hex = |bytes: Vec<u8>| -> String {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            digits.collect()
        };
        let all: Vec<_> = all().iter().map(|one| hex(one.to_bytes())).collect();
        assert_eq!(all, PINNED);
    }

    const PINNED: [&str; 10] = [
        "0101020304fffffffffffffffeeae949ae030000271002040a0200020620010db8000000000000000000000002",
        "0201020304fffffffffffffffeeae949ae02040a0200020620010db8000000000000000000000002",
        "0801020304fffffffffffffffeeae949ae02040a0200020620010db8000000000000000000000002",
        "0301020304fffffffffffffffe00",
        "0301020304fffffffffffffffe010011",
        "0301020304fffffffffffffffe020000000000000009eae949ae",
        "0401020304fffffffffffffffe00030004000109",
        "0501020304fffffffffffffffe0003",
        "0601020304040a0100020050040a0200029c40ffffffff00000005",
        "0701020304040a0100020050040a0200029c40ffffffff00000005",
    ];
}
