// SPDX-License-Identifier: Apache-2.0
//! What the MH sends, and how its sender is woken after an outage: by no more than what is true.
//!
//! - The FH's newest ACK. The radio may have lost those before it, and an ACK of something new ends
//!   a sender's back-off.
//! - ICMP about the first byte that the FH lacks (RFC 6069), for a sender that has every ACK. A
//!   sender that lacks one ignores it.

use core::time::Duration;

use holdfast_wire::{Instant, SackBlocks, Segment};

use super::{Flow, Stage};
use crate::back_off::doublings;
use crate::{Action, Actions, Payload, Unreachable};

/// An MH whose last data were older than this at link down has nothing in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(60);
/// A sender is woken this often at most.
const TRIES_MAX: u8 = 3;

/// What is known of the data that the MH sends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uploads {
    /// When they came last.
    data_at: Option<Instant>,
    /// The timestamp of an ACK of the FH, and when that passed.
    timed: Option<(u32, Instant)>,
    /// Until the MH sends something after an outage.
    wake_up: Option<WakeUp>,
}

/// The next try to wake a sender.
#[derive(Clone, Copy, Debug)]
struct WakeUp {
    at: Instant,
    wait: Duration,
    tries: u8,
}

impl Uploads {
    /// Nothing is known that counts.
    pub(crate) const fn is_empty(&self) -> bool {
        self.data_at.is_none() && self.timed.is_none() && self.wake_up.is_none()
    }

    /// When the sender is woken again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        Some(self.wake_up?.at)
    }
}

impl<P: Payload> Flow<P> {
    /// The MH has sent data of late, and may send more.
    pub(crate) fn is_uploading(&self) -> bool {
        self.stage == Stage::Open && self.uploads.data_at.is_some() && self.mh.fin.is_none()
    }

    /// An ACK of the FH passes: the MH's next data echo its timestamp.
    pub(crate) fn time_echo(&mut self, ack: &Segment, now: Instant) {
        if let (None, Some(timestamps)) = (self.uploads.timed, ack.options.timestamps) {
            self.uploads.timed = Some((timestamps.tsval, now));
        }
    }

    /// A segment of the MH that fits. Returns a round trip of the wireless half, if it shows one.
    pub(crate) fn note_upload(&mut self, segment: &Segment, now: Instant) -> Option<Duration> {
        let has_data = segment.payload_len > 0;
        if has_data {
            self.uploads.data_at = Some(now);
        }
        if has_data || segment.seq == self.fh.ack {
            self.uploads.wake_up = None;
        }
        let (tsval, at) = self.uploads.timed?;
        let echo = segment.options.timestamps?.tsecr;
        let answers = (echo.wrapping_sub(tsval) as i32) >= 0;
        answers.then(|| {
            self.uploads.timed = None;
            now.saturating_since(at)
        })
    }

    /// The link is up again after `outage`. `held`: the FH's newest ACK, if it came in the outage.
    /// `is_heard`: a segment of the flow shows it. `wait`: for an answer of the MH. True if its sender
    /// is woken.
    pub(crate) fn wake_sender(
        &mut self,
        held: Option<P>,
        is_heard: bool,
        outage: Duration,
        wait: Duration,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> bool {
        // What an outage has delayed measures nothing.
        self.uploads.timed = None;
        let since_data = self.uploads.data_at.map(|at| now.saturating_since(at));
        let is_recent = since_data.is_some_and(|since| since < outage + IN_FLIGHT_MAX);
        let ack = held.map(Action::Repeat);
        if self.stage != Stage::Open || !is_recent {
            actions.extend(ack);
            return false;
        }
        // What is cached for the MH has the FH's newest ACK too.
        let is_repeated = ack.is_some() || !self.has_backlog();
        actions.extend(ack.or_else(|| is_repeated.then(|| self.newest_ack()).flatten()));
        // It has just sent data, or has none that the FH lacks.
        let is_awake = is_heard && (since_data == Some(Duration::ZERO) || self.mh.nxt == self.fh.ack);
        if !is_awake {
            let copies = if is_repeated { doublings(outage) } else { 0 };
            actions.extend(self.unreachable(copies));
            self.uploads.wake_up = Some(WakeUp {
                at: now + wait,
                wait,
                tries: 1,
            });
        }
        is_repeated
    }

    /// Wakes the sender once more, if that is due. True if so.
    pub(crate) fn wake_sender_again(&mut self, now: Instant, actions: &mut Actions<P>) -> bool {
        let wake_up = self.uploads.wake_up.filter(|wake_up| wake_up.at <= now);
        let Some(WakeUp { wait, tries, .. }) = wake_up else {
            return false;
        };
        let wait = wait * 2;
        self.uploads.wake_up = (tries < TRIES_MAX).then(|| WakeUp {
            at: now + wait,
            wait,
            tries: tries + 1,
        });
        actions.extend(self.newest_ack());
        actions.extend(self.unreachable(1));
        true
    }

    /// The sender is not woken any more: the link is down.
    pub(crate) const fn let_sender_sleep(&mut self) {
        self.uploads.wake_up = None;
    }

    fn newest_ack(&mut self) -> Option<Action<P>> {
        self.made_report(self.ack_for_mh(self.fh.ack), SackBlocks::default())
    }

    fn unreachable(&self, copies: u8) -> Option<Action<P>> {
        let template = self.downlink_header.clone().filter(|_| copies > 0)?;
        Some(Action::Notify(Unreachable {
            template,
            key: self.key,
            seq: self.ack_for_mh(self.fh.ack),
            copies,
        }))
    }
}
