// SPDX-License-Identifier: Apache-2.0
//! The messages inside the seal, as values and as bytes. All numbers big-endian.
//!
//! ```text
//! from a mobile                                from a gateway
//!  0   kind          1 byte                     0   kind          1 byte
//!  1   addresses     1 byte, 0 to 16            1   reason        1 byte, refusals only
//!  2   lead_ms       2 bytes                    2   zero          2 bytes
//!      or abilities, in `register` and `up`
//!  4   challenge    16 bytes, zero for none     4   challenge    16 bytes, challenges only
//! 20   incarnation   8 bytes                   20   incarnation   8 bytes, echoed
//! 28   epoch         8 bytes                   28   epoch         8 bytes, the gateway's view
//! 36   counter       8 bytes                   36   counter       8 bytes, echoed
//! 44   addresses, each 4 or 6 and its bytes    44   end
//! ```
//!
//! The reply is as long as the shortest request: a gateway never sends more bytes than it has
//! received.

use core::net::IpAddr;
use core::time::Duration;

use super::ADDRESSES_MAX;
use super::rejection::Rejection;
use crate::bytes::{Reader, Writer};
use crate::link_state::LinkState;

/// Length of a request without its addresses, and of every reply.
pub(super) const FIXED_BYTES: usize = 44;
/// Length of a request with the most and longest addresses.
pub(super) const REQUEST_BYTES_MAX: usize = FIXED_BYTES + ADDRESSES_MAX * 17;

/// A gateway's random value. All zero stands for none.
pub(super) type Challenge = [u8; 16];
/// No challenge known yet.
pub(super) const NO_CHALLENGE: Challenge = [0; 16];

/// A mobile's random value of one run of its daemon.
pub(super) type Incarnation = [u8; 8];

/// A mobile's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalKind {
    /// These are my addresses; my link is up.
    Register = 1,
    /// My link is about to go, in [`Request::lead_ms`](SignalKind) milliseconds if known.
    GoingDownSoon = 2,
    /// My link is down.
    Down = 3,
    /// My link is up: a new epoch.
    Up = 4,
}

impl SignalKind {
    /// The state of the link that the message reports.
    pub const fn state(self) -> LinkState {
        match self {
            Self::Register | Self::Up => LinkState::Up,
            Self::GoingDownSoon => LinkState::GoingDownSoon,
            Self::Down => LinkState::Down,
        }
    }

    fn parse(byte: u8) -> Result<Self, Rejection> {
        match byte {
            1 => Ok(Self::Register),
            2 => Ok(Self::GoingDownSoon),
            3 => Ok(Self::Down),
            4 => Ok(Self::Up),
            _ => Err(Rejection::UnknownKind),
        }
    }
}

/// The abilities of a mobile, as its `register` and `up` messages report them.
///
/// They have the bytes of `going-down-soon`'s lead time. A first byte of 0xa7 distinguishes them from
/// what mobiles without abilities send there: 0, or a lead time that has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Abilities(u8);

impl Abilities {
    /// None.
    pub const NONE: Self = Self(0);
    /// It restores segments compressed by raw deflate.
    pub const DEFLATE: Self = Self(1);
    /// It restores segments compressed by zstd, and follows their flows for dictionaries
    /// (`crate::compression`).
    pub const ZSTD: Self = Self(2);

    const MARK: u8 = 0xa7;

    /// The abilities of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if these abilities include all of `other`.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The two bytes of a message.
    pub(super) const fn to_field(self) -> u16 {
        if self.0 == 0 {
            return 0;
        }
        u16::from_be_bytes([Self::MARK, self.0])
    }

    /// The abilities in these two bytes of a message of `kind`.
    pub(super) const fn of_field(kind: SignalKind, field: u16) -> Self {
        match (kind, field.to_be_bytes()) {
            (SignalKind::Register | SignalKind::Up, [Self::MARK, abilities]) => Self(abilities),
            _ => Self(0),
        }
    }
}

/// Why a gateway refuses a message that it believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// An address lies outside the prefixes of the key.
    AddressNotAllowed = 1,
    /// An address is registered by another mobile.
    AddressTaken = 2,
}

/// A mobile's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The kind.
    pub(super) kind: SignalKind,
    /// Time until the link goes, in ms; 0 if not known. For `GoingDownSoon`; otherwise the
    /// mobile's [`Abilities`].
    pub(super) lead_ms: u16,
    /// The challenge that it answers.
    pub(super) challenge: Challenge,
    /// The run of the mobile's daemon that sent it.
    pub(super) incarnation: Incarnation,
    /// The link epoch: one more for each `Up`.
    pub(super) epoch: u64,
    /// One more for each datagram of the incarnation.
    pub(super) counter: u64,
    /// The mobile's addresses, at most [`ADDRESSES_MAX`].
    pub(super) addresses: Vec<IpAddr>,
}

/// What a gateway answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    /// A request for the message with this value.
    Challenge(Challenge),
    /// The message is believed.
    Ack,
    /// The message is believed and refused.
    Refusal(RefusalReason),
}

/// A gateway's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// The kind.
    pub(super) kind: ReplyKind,
    /// The request's incarnation.
    pub(super) incarnation: Incarnation,
    /// The newest epoch that the gateway believes of this mobile; 0 for none.
    pub(super) epoch: u64,
    /// The request's counter.
    pub(super) counter: u64,
}

impl Request {
    /// Time until the link goes down, if a warning names it.
    pub(super) fn lead(&self) -> Option<Duration> {
        (self.lead_ms > 0).then(|| Duration::from_millis(self.lead_ms.into()))
    }

    /// The message as bytes.
    pub(super) fn emit(&self) -> Vec<u8> {
        debug_assert!(self.addresses.len() <= ADDRESSES_MAX);
        let mut w = Writer(Vec::with_capacity(REQUEST_BYTES_MAX));
        w.u8(self.kind as u8);
        w.u8(self.addresses.len() as u8);
        w.u16(self.lead_ms);
        w.0.extend_from_slice(&self.challenge);
        w.0.extend_from_slice(&self.incarnation);
        w.u64(self.epoch);
        w.u64(self.counter);
        for address in &self.addresses {
            w.address(*address);
        }
        w.0
    }

    /// Parses a message, which must take all of `bytes`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Rejection> {
        let (fixed, rest) = bytes
            .split_first_chunk::<FIXED_BYTES>()
            .ok_or(Rejection::BadLength)?;
        let kind = SignalKind::parse(fixed[0])?;
        let count = usize::from(fixed[1]);
        if count > ADDRESSES_MAX {
            return Err(Rejection::BadLength);
        }
        let mut r = Reader(rest);
        let addresses: Result<_, _> = (0..count).map(|_| parse_address(&mut r)).collect();
        let addresses = addresses?;
        if !r.is_at_end() {
            return Err(Rejection::BadLength);
        }
        Ok(Self {
            kind,
            lead_ms: u16::from_be_bytes([fixed[2], fixed[3]]),
            challenge: field(fixed, 4),
            incarnation: field(fixed, 20),
            epoch: u64::from_be_bytes(field(fixed, 28)),
            counter: u64::from_be_bytes(field(fixed, 36)),
            addresses,
        })
    }
}

fn parse_address(r: &mut Reader<'_>) -> Result<IpAddr, Rejection> {
    if r.0.first().is_some_and(|family| !matches!(family, 4 | 6)) {
        return Err(Rejection::BadAddress);
    }
    let address = r.address().ok_or(Rejection::BadLength)?;
    // An IPv4-mapped IPv6 address would evade the prefixes and match no flow.
    if address.is_unspecified() || address.is_multicast() || address.to_canonical() != address {
        return Err(Rejection::BadAddress);
    }
    Ok(address)
}

fn field<const N: usize>(fixed: &[u8; FIXED_BYTES], at: usize) -> [u8; N] {
    fixed[at..at + N].try_into().expect("inside the fixed part")
}

impl Reply {
    /// The message as bytes.
    pub(super) fn emit(&self) -> [u8; FIXED_BYTES] {
        let mut bytes = [0; FIXED_BYTES];
        match self.kind {
            ReplyKind::Challenge(challenge) => {
                bytes[0] = 0x81;
                bytes[4..20].copy_from_slice(&challenge);
            }
            ReplyKind::Ack => bytes[0] = 0x82,
            ReplyKind::Refusal(reason) => {
                bytes[0] = 0x83;
                bytes[1] = reason as u8;
            }
        }
        bytes[20..28].copy_from_slice(&self.incarnation);
        bytes[28..36].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[36..44].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    /// Parses a message, which must take all of `bytes`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Rejection> {
        let fixed: &[u8; FIXED_BYTES] = bytes.try_into().map_err(|_| Rejection::BadLength)?;
        let kind = match (fixed[0], fixed[1]) {
            (0x81, 0) => ReplyKind::Challenge(field(fixed, 4)),
            (0x82, 0) => ReplyKind::Ack,
            (0x83, 1) => ReplyKind::Refusal(RefusalReason::AddressNotAllowed),
            (0x83, 2) => ReplyKind::Refusal(RefusalReason::AddressTaken),
            _ => return Err(Rejection::UnknownKind),
        };
        Ok(Self {
            kind,
            incarnation: field(fixed, 20),
            epoch: u64::from_be_bytes(field(fixed, 28)),
            counter: u64::from_be_bytes(field(fixed, 36)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            kind: SignalKind::GoingDownSoon,
            lead_ms: 300,
            challenge: [3; 16],
            incarnation: [4; 8],
            epoch: 5,
            counter: 6,
            addresses: vec![
                IpAddr::from([10, 9, 0, 2]),
                "2001:db8::2".parse().expect("an address"),
            ],
        }
    }

    #[test]
    fn a_warning_without_a_lead_time_has_none() {
        let mut request = request();
        assert_eq!(request.lead(), Some(Duration::from_millis(300)));
        request.lead_ms = 0;
        assert_eq!(request.lead(), None);
    }

    #[test]
    fn a_request_has_the_documented_bytes() {
        let expected = [
            &[2, 2, 0x01, 0x2c][..],
            &[3; 16],
            &[4; 8],
            &[0, 0, 0, 0, 0, 0, 0, 5],
            &[0, 0, 0, 0, 0, 0, 0, 6],
            &[4, 10, 9, 0, 2],
            &[
                6, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
            ],
        ]
        .concat();
        assert_eq!(request().emit(), expected);
        assert_eq!(Request::parse(&expected), Ok(request()));
    }

    #[test]
    fn a_reply_has_the_documented_bytes_and_is_no_longer_than_any_request() {
        for (kind, head) in [
            (ReplyKind::Challenge([7; 16]), [0x81, 0]),
            (ReplyKind::Ack, [0x82, 0]),
            (ReplyKind::Refusal(RefusalReason::AddressTaken), [0x83, 2]),
            (
                ReplyKind::Refusal(RefusalReason::AddressNotAllowed),
                [0x83, 1],
            ),
        ] {
            let reply = Reply {
                kind,
                incarnation: [4; 8],
                epoch: 5,
                counter: 6,
            };
            let bytes = reply.emit();
            assert_eq!(bytes[..2], head);
            assert_eq!(Reply::parse(&bytes), Ok(reply));
        }
        let shortest = Request {
            addresses: vec![],
            ..request()
        }
        .emit();
        assert_eq!(shortest.len(), FIXED_BYTES);
    }

    #[test]
    fn a_request_cut_anywhere_is_refused() {
        let bytes = request().emit();
        for length in 0..bytes.len() {
            assert_eq!(
                Request::parse(&bytes[..length]),
                Err(Rejection::BadLength),
                "{length}"
            );
        }
        assert_eq!(
            Request::parse(&[&bytes[..], &[0]].concat()),
            Err(Rejection::BadLength)
        );
    }

    #[test]
    fn unknown_kinds_and_too_many_addresses_are_refused() {
        let mut bytes = request().emit();
        bytes[0] = 5;
        assert_eq!(Request::parse(&bytes), Err(Rejection::UnknownKind));
        bytes[0] = 1;
        bytes[1] = 17;
        assert_eq!(Request::parse(&bytes), Err(Rejection::BadLength));
        assert_eq!(Reply::parse(&[0; FIXED_BYTES]), Err(Rejection::UnknownKind));
        assert_eq!(
            Reply::parse(&[0; FIXED_BYTES - 1]),
            Err(Rejection::BadLength)
        );
    }

    #[test]
    fn addresses_that_no_host_has_are_refused() {
        for address in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:10.9.0.2"] {
            let address = address.parse().expect("an address");
            let bytes = Request {
                addresses: vec![address],
                ..request()
            }
            .emit();
            assert_eq!(
                Request::parse(&bytes),
                Err(Rejection::BadAddress),
                "{address}"
            );
        }
        let mut bytes = request().emit();
        bytes[44] = 5;
        assert_eq!(Request::parse(&bytes), Err(Rejection::BadAddress));
    }
}
