// SPDX-License-Identifier: Apache-2.0
//! The mobile's half: link events in, datagrams out until they are acknowledged.

use core::net::IpAddr;

use holdfast_wire::{Duration, Instant};

use super::ADDRESSES_MAX;
use super::key::MobileKey;
use super::message::{
    Abilities, Challenge, Incarnation, NO_CHALLENGE, RefusalReason, Reply, ReplyKind, Request,
    SignalKind,
};
use super::rejection::{Rejection, RejectionCounters};
use super::seal::{self, Recipient};
use crate::link_state::LinkState;

/// When a mobile repeats a message.
#[derive(Clone, Debug)]
pub struct MobileTimers {
    /// Time to the first repetition of an unacknowledged message; doubles each time.
    pub retry_first: Duration,
    /// Longest time between two repetitions.
    pub retry_max: Duration,
    /// How often `down` and `going-down-soon` are sent; they are rarely deliverable.
    pub farewells: u32,
    /// Time from an acknowledgement to the next message when nothing happens.
    pub keepalive: Duration,
}

impl Default for MobileTimers {
    /// 50 ms, 2 s, 3 times, 30 s.
    fn default() -> Self {
        Self {
            retry_first: Duration::from_millis(50),
            retry_max: Duration::from_secs(2),
            farewells: 3,
            keepalive: Duration::from_secs(30),
        }
    }
}

/// What a gateway's datagram means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MobileEvent {
    /// The gateway believes the newest message.
    Acknowledged,
    /// The gateway requests the message with a fresh value; it is due now.
    Challenged,
    /// The gateway refuses it; it is tried again at the next keepalive.
    Refused(RefusalReason),
}

crate::counters! {
    /// What a mobile counts.
    pub struct MobileCounters {
        /// Link signals sent to the gateway.
        pub sent = "sent",
        /// Of the signals sent, repetitions of an unanswered one.
        pub repeated = "repeated",
        /// Signals that a gateway has acknowledged.
        pub acknowledged = "acknowledged",
        /// Challenges of a gateway that were answered.
        pub challenged = "challenged",
        /// Signals that a gateway has refused.
        pub refused = "refused",
        ;
        /// Datagrams that changed nothing.
        pub rejections: RejectionCounters,
    }
}

/// The challenge that a gateway gave a session; for the session alone to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayChallenge(Challenge);

/// How far the newest message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Not answered yet: the next datagram is due at `due`, after `sent` datagrams.
    Unanswered { due: Instant, sent: u32 },
    /// Sent often enough; an answer is still welcome.
    GivenUp,
    /// The gateway believes it.
    Acknowledged,
    /// The gateway refuses it.
    Refused(RefusalReason),
}

/// The mobile's half of the link signals.
///
/// Inputs: [`register`](Self::register), [`link_up`](Self::link_up),
/// [`link_down`](Self::link_down), [`going_down_soon`](Self::going_down_soon),
/// [`set_addresses`](Self::set_addresses), [`handle_datagram`](Self::handle_datagram).
/// After each input, and at [`poll_timeout`](Self::poll_timeout), call
/// [`poll_transmit`](Self::poll_transmit) until it gives nothing.
#[derive(Debug)]
pub struct MobileSession {
    key: MobileKey,
    timers: MobileTimers,
    incarnation: Incarnation,
    challenge: Challenge,
    /// The counter of the newest datagram.
    counter: u64,
    /// The counter of the first datagram of the newest message in its present form: an
    /// answer to an earlier one confirms nothing about it.
    counter_first: u64,
    epoch: u64,
    lead_ms: u16,
    abilities: Abilities,
    addresses: Vec<IpAddr>,
    /// The newest message.
    kind: SignalKind,
    progress: Progress,
    /// When the message is repeated if nothing else happens.
    keepalive_at: Instant,
    counters: MobileCounters,
}

impl MobileSession {
    /// A session of a mobile whose link is up; its first message is a registration, due
    /// at `now`. `incarnation` are fresh random bytes: they distinguish this run of the daemon
    /// from all others.
    pub fn new(
        key: MobileKey,
        incarnation: [u8; 8],
        addresses: &[IpAddr],
        timers: MobileTimers,
        now: Instant,
    ) -> Self {
        Self {
            key,
            incarnation,
            challenge: NO_CHALLENGE,
            counter: 0,
            counter_first: 1,
            epoch: 1,
            lead_ms: 0,
            abilities: Abilities::NONE,
            addresses: bounded(addresses),
            kind: SignalKind::Register,
            progress: Progress::Unanswered { due: now, sent: 0 },
            keepalive_at: now + timers.keepalive,
            timers,
            counters: MobileCounters::default(),
        }
    }

    /// Link up: a new epoch begins.
    pub fn link_up(&mut self, now: Instant) {
        self.epoch = self.epoch.saturating_add(1);
        self.begin(SignalKind::Up, now);
    }

    /// The mobile is at another gateway now, which gave it `challenge` before, or
    /// nothing ([`None`]): a new epoch begins there. Returns the challenge of the old gateway,
    /// for the return.
    pub fn hand_over(
        &mut self,
        challenge: Option<GatewayChallenge>,
        now: Instant,
    ) -> GatewayChallenge {
        let challenge = challenge.map_or(NO_CHALLENGE, |challenge| challenge.0);
        let before = core::mem::replace(&mut self.challenge, challenge);
        self.link_up(now);
        GatewayChallenge(before)
    }

    /// Link down.
    pub fn link_down(&mut self, now: Instant) {
        self.begin(SignalKind::Down, now);
    }

    /// The link will go down in about `lead_ms` milliseconds, 0 if not known. Sends
    /// nothing when it is down already.
    pub fn going_down_soon(&mut self, lead_ms: u16, now: Instant) {
        if self.kind != SignalKind::Down {
            self.lead_ms = lead_ms;
            self.begin(SignalKind::GoingDownSoon, now);
        }
    }

    /// Repeats the current state, as a keepalive does.
    pub fn register(&mut self, now: Instant) {
        let kind = match (self.kind, self.progress) {
            // An `up` that the gateway may not have received stays one.
            (SignalKind::Up, Progress::Acknowledged) => SignalKind::Register,
            (kind, _) => kind,
        };
        self.begin(kind, now);
    }

    /// The mobile's addresses are now these; beyond
    /// [`ADDRESSES_MAX`] they are ignored. Reports them to the gateway if they are others.
    pub fn set_addresses(&mut self, addresses: &[IpAddr], now: Instant) {
        let addresses = bounded(addresses);
        if addresses != self.addresses {
            self.addresses = addresses;
            self.register(now);
        }
    }

    /// The mobile's abilities from now on; reported to the gateway if they are new.
    pub fn set_abilities(&mut self, abilities: Abilities, now: Instant) {
        if abilities != self.abilities {
            self.abilities = abilities;
            self.register(now);
        }
    }

    /// The key from now on. With another one the gateway challenges the mobile first.
    pub fn set_key(&mut self, key: MobileKey, now: Instant) {
        if key != self.key {
            self.key = key;
            self.challenge = NO_CHALLENGE;
            self.register(now);
        }
    }

    /// The time between two registrations from now on.
    pub const fn set_keepalive(&mut self, keepalive: Duration) {
        self.timers.keepalive = keepalive;
    }

    /// Takes a gateway's datagram. A rejected one changes nothing.
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        now: Instant,
    ) -> Result<MobileEvent, Rejection> {
        self.open(datagram)
            .map(|reply| self.handle_reply(&reply, now))
            .inspect_err(|rejection| self.counters.rejections.add(*rejection))
    }

    /// The next datagram for the gateway, if one is due. `nonce` are fresh random bytes,
    /// used if there is one.
    pub fn poll_transmit(&mut self, now: Instant, nonce: &[u8; 24]) -> Option<Vec<u8>> {
        if now >= self.keepalive_at {
            self.register(now);
        }
        let Progress::Unanswered { due, sent } = self.progress else {
            return None;
        };
        if now < due {
            return None;
        }
        self.counters.sent += 1;
        self.counters.repeated += u64::from(sent > 0);
        self.counter += 1;
        let sent = sent + 1;
        self.progress = if self.is_farewell() && sent >= self.timers.farewells {
            Progress::GivenUp
        } else {
            Progress::Unanswered {
                due: now + self.backoff(sent),
                sent,
            }
        };
        let request = Request {
            kind: self.kind,
            lead_ms: match self.kind {
                SignalKind::Register | SignalKind::Up => self.abilities.to_field(),
                SignalKind::GoingDownSoon | SignalKind::Down => self.lead_ms,
            },
            challenge: self.challenge,
            incarnation: self.incarnation,
            epoch: self.epoch,
            counter: self.counter,
            addresses: self.addresses.clone(),
        };
        Some(seal::seal(
            &self.key,
            Recipient::Gateway,
            nonce,
            &request.emit(),
        ))
    }

    /// When [`poll_transmit`](Self::poll_transmit) has something to send if nothing
    /// happens before.
    pub fn poll_timeout(&self) -> Instant {
        match self.progress {
            Progress::Unanswered { due, .. } => due.min(self.keepalive_at),
            _ => self.keepalive_at,
        }
    }

    /// The state of the link as last reported.
    pub const fn state(&self) -> LinkState {
        self.kind.state()
    }

    /// The link epoch.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The addresses as last reported.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Whether the gateway believes the newest message.
    pub fn is_acknowledged(&self) -> bool {
        self.progress == Progress::Acknowledged
    }

    /// Why the gateway refused the newest message, if it did.
    pub const fn refusal(&self) -> Option<RefusalReason> {
        match self.progress {
            Progress::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    /// What was counted since the start.
    pub const fn counters(&self) -> &MobileCounters {
        &self.counters
    }

    /// Makes `kind` with the present content the newest message, due now.
    fn begin(&mut self, kind: SignalKind, now: Instant) {
        self.kind = kind;
        self.counter_first = self.counter + 1;
        self.progress = Progress::Unanswered { due: now, sent: 0 };
        self.keepalive_at = now + self.timers.keepalive;
    }

    fn open(&self, datagram: &[u8]) -> Result<Reply, Rejection> {
        if seal::key_id(datagram, Recipient::Mobile)? != self.key.id() {
            return Err(Rejection::UnknownKey);
        }
        let reply = Reply::parse(&seal::open(&self.key, datagram)?)?;
        let awaited = (self.counter_first..=self.counter).contains(&reply.counter)
            && matches!(
                self.progress,
                Progress::Unanswered { .. } | Progress::GivenUp
            );
        if reply.incarnation != self.incarnation || !awaited {
            return Err(Rejection::NotAwaited);
        }
        Ok(reply)
    }

    fn handle_reply(&mut self, reply: &Reply, now: Instant) -> MobileEvent {
        match reply.kind {
            ReplyKind::Challenge(challenge) => {
                self.counters.challenged += 1;
                self.challenge = challenge;
                if reply.epoch >= self.epoch {
                    // The epoch is of an earlier run of this mobile: ours must be higher. Only the
                    // highest number stays, which only a peer with the key can send.
                    self.epoch = reply.epoch.saturating_add(1);
                }
                self.begin(self.kind, now);
                MobileEvent::Challenged
            }
            ReplyKind::Ack => {
                self.counters.acknowledged += 1;
                self.progress = Progress::Acknowledged;
                self.keepalive_at = now + self.timers.keepalive;
                MobileEvent::Acknowledged
            }
            ReplyKind::Refusal(reason) => {
                self.counters.refused += 1;
                self.progress = Progress::Refused(reason);
                self.keepalive_at = now + self.timers.keepalive;
                MobileEvent::Refused(reason)
            }
        }
    }

    /// Whether the newest message announces the end of the link.
    fn is_farewell(&self) -> bool {
        self.state() != LinkState::Up
    }

    /// Time to the next repetition after `sent` datagrams.
    fn backoff(&self, sent: u32) -> Duration {
        let doublings = sent.saturating_sub(1).min(16);
        self.timers
            .retry_first
            .saturating_mul(1 << doublings)
            .min(self.timers.retry_max)
    }
}

/// The addresses in order, each once, at most [`ADDRESSES_MAX`].
fn bounded(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut addresses = addresses.to_vec();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    addresses
}
