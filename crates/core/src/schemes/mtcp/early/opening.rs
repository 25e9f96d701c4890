// SPDX-License-Identifier: Apache-2.0
//! A connection while its halves are set up, and how its numbers are translated after that.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Options, Segment, SeqNum};

use crate::renumber::{Renumber, Rescale};
use crate::{Direction, Payload, Side};

/// The window scale offered in the other end's name.
pub(super) const SHIFT: u8 = 7;
/// The window offered before the other end's is known: ten segments (RFC 6928).
pub(super) const WINDOW: u16 = 14_600;
/// The MSS offered at most, for IPv4 and IPv6: packets of 1400 bytes.
const MSS_MAX: [u16; 2] = [1360, 1340];
/// The MSS of an end that names none (RFC 9293, 3.7.1).
const MSS_UNNAMED: [u16; 2] = [536, 1220];
/// A made SYN or SYN/ACK is sent this many times, at intervals that double. The last interval ends
/// before the flow is forgotten as an idle one.
pub(super) const TRIES_MAX: u32 = 4;
/// The first interval (RFC 6298, 2.1).
const INTERVAL: Duration = Duration::from_secs(1);

/// The set-up.
pub(crate) struct Opening<P> {
    pub opener: Side,
    /// The opener's SYN, as the other end gets it: without timestamps.
    pub syn: Segment,
    pub syn_packet: P,
    /// The answer, in the other end's name.
    pub answer: P,
    /// The initial sequence number in that answer.
    pub iss: SeqNum,
    /// The opener has acknowledged the answer, and the SYN was sent to the other end.
    pub is_confirmed: bool,
    pub again_at: Option<Instant>,
    pub tries: u32,
    /// What the opener has sent since, in the order in which it came.
    pub queued_segments: Vec<(Segment, P)>,
    /// The bytes of `queued_segments` that count toward the cache's limits.
    pub queued_bytes: usize,
}

impl<P> Opening<P> {
    pub(super) fn wait(&mut self, now: Instant) {
        self.again_at = Some(now + INTERVAL * (1 << self.tries.min(TRIES_MAX)));
        self.tries += 1;
    }
}

impl<P: Payload> Opening<P> {
    /// A RST for the other end, because the opener has given up the connection.
    pub(super) fn reset_other(&self) -> Option<P> {
        self.reset_other_at(self.syn.seq + 1)
    }

    /// That RST with another sequence number.
    pub(super) fn reset_other_at(&self, seq: SeqNum) -> Option<P> {
        let mut reset = self.syn;
        (reset.seq, reset.flags) = (seq, Flags::RST);
        reset.options = Options::default();
        self.syn_packet.renumbered(&reset)
    }

    /// A challenge ACK for the opener (RFC 5961, 4).
    pub(super) fn challenge(&self) -> Option<P> {
        let ack = Segment {
            seq: self.iss + 1,
            flags: Flags::ACK,
            options: Options::default(),
            ..answer_to(&self.syn, self.iss)
        };
        self.syn_packet.answered(&ack)
    }

    /// The opener has not confirmed the answer, and its segment is one of an open connection: the
    /// SYN may be forged.
    pub(super) fn is_of_another_connection(&self, direction: Direction, segment: &Segment) -> bool {
        let flags = segment.flags;
        direction.sender() == self.opener
            && !self.is_confirmed
            && flags.has(Flags::ACK)
            && !flags.has(Flags::SYN)
            && segment.ack != self.iss + 1
    }

    /// The opener has not confirmed the answer, and the other end has a connection already.
    pub(super) fn is_contradicted(&self, direction: Direction, segment: &Segment) -> bool {
        let of_opener = (direction == Direction::Downlink) == (self.opener == Side::Fh);
        let flags = segment.flags;
        !of_opener && !self.is_confirmed && flags.has(Flags::ACK) && !flags.has(Flags::SYN)
    }
}

/// A SYN/ACK in the other end's name.
pub(super) fn answer_to(syn: &Segment, iss: SeqNum) -> Segment {
    let family = usize::from(syn.from.address.is_ipv6());
    let own = syn.options.mss.unwrap_or(MSS_UNNAMED[family]);
    Segment {
        from: syn.to,
        to: syn.from,
        seq: iss,
        ack: syn.seq + 1,
        flags: Flags::SYN.with(Flags::ACK),
        window: WINDOW,
        options: Options {
            mss: Some(own.min(MSS_MAX[family])),
            window_scale: syn.options.window_scale.map(|_| SHIFT),
            sack_permitted: syn.options.sack_permitted,
            ..Options::default()
        },
        payload_len: 0,
    }
}

/// How numbers, windows and SACK are translated, by the two SYNs and the gateway's answer.
pub(super) fn numbers<P>(opening: &Opening<P>, answer: &Segment) -> Renumber {
    let (syn, answer_options) = (&opening.syn.options, &answer.options);
    let difference = opening.iss.get().wrapping_sub(answer.seq.get());
    // On the opener's half windows are scaled if the opener offers it, on the other half if both
    // ends do.
    let offered = syn.window_scale.map(|_| SHIFT);
    let both = syn.window_scale.and(answer_options.window_scale);
    let of_opener = Rescale {
        from: syn.window_scale.unwrap_or(0),
        to: both.and(syn.window_scale).unwrap_or(0),
    };
    let of_other = Rescale {
        from: both.unwrap_or(0),
        to: offered.unwrap_or(0),
    };
    let sack = syn.sack_permitted && answer_options.sack_permitted;
    match opening.opener {
        Side::Fh => Renumber {
            uplink: difference,
            downlink: 0,
            uplink_window: of_other,
            downlink_window: of_opener,
            fh_sack: syn.sack_permitted,
            mh_sack: sack,
        },
        Side::Mh => Renumber {
            uplink: 0,
            downlink: difference,
            uplink_window: of_opener,
            downlink_window: of_other,
            fh_sack: sack,
            mh_sack: syn.sack_permitted,
        },
    }
}
