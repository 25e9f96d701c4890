// SPDX-License-Identifier: Apache-2.0
//! One peer that is away, or was until now.

use core::time::Duration;

use holdfast_wire::Instant;

use super::shelf::{Kept, Shelf};
use super::{KeepSettings, PacketFlow, PeerId, PeerView};
use crate::link_state::LinkSource;
use crate::outage::{Outage, stall_without};
use crate::rtt::RTO_INITIAL;

/// Packets that are sent at once at link up (RFC 6928: ten segments).
const CREDIT_INITIAL: i32 = 10;
/// Packets that may follow each packet of the peer, as in slow start.
const CREDIT_PER_PACKET: i32 = 2;
/// The largest credit.
const CREDIT_MAX: i32 = 64;
/// Without a packet of the peer, one packet may be sent after each of these intervals.
const CREDIT_INTERVAL: Duration = Duration::from_millis(10);
/// A link that was reported down is probed at this many times the interval of a silent peer.
const SLOW_PROBE_FACTOR: u32 = 10;
/// A peer that is silent for longer is probed at the same long interval, because it may be dead.
const FAST_PROBES_FOR: Duration = Duration::from_secs(64);

/// A peer's state in the diagram of the parent module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Silent,
    Down,
    Releasing,
}

/// The begin of an outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    pub at: Instant,
    /// What noticed it.
    pub source: LinkSource,
}

/// A peer that is not PASSING.
#[derive(Debug)]
pub(super) struct Peer<F> {
    pub phase: Phase,
    /// What caused this phase.
    pub source: LinkSource,
    pub since: Instant,
    /// When the outage began, and what noticed it.
    pub began: Began,
    /// When the first packet of a two-way flow was taken in the outage.
    pub timer_at: Option<Instant>,
    /// When a packet was last sent to it.
    pub sent_at: Instant,
    /// Packets of two-way flows, and of one-way flows.
    pub shelves: [Shelf<F>; 2],
    /// Packets that may be sent now; below 0 after a super-segment.
    credit: i32,
    /// Which of the two shelves is next.
    turn: usize,
    credit_at: Instant,
    /// Its entry among the keeper's deadlines.
    pub due: Option<Instant>,
}

impl Began {
    /// The outage, as it ends now without anything queued.
    pub(super) fn outage(self, peer: PeerId, now: Instant) -> Outage<PeerId> {
        Outage {
            mobile: peer,
            begin: self.at,
            length: now.saturating_since(self.at),
            source: self.source,
            flows: 0,
            cached_bytes: 0,
            stall_saved: Duration::ZERO,
        }
    }
}

impl<F> Peer<F> {
    pub(super) fn new(phase: Phase, source: LinkSource, now: Instant) -> Self {
        Self {
            phase,
            source,
            since: now,
            began: Began { at: now, source },
            timer_at: None,
            sent_at: now,
            shelves: [Shelf::default(), Shelf::default()],
            credit: 0,
            turn: 0,
            credit_at: now,
            due: None,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase, source: LinkSource, now: Instant) {
        if self.phase != phase {
            self.since = now;
        }
        if self.phase == Phase::Releasing {
            (self.began, self.timer_at) = (Began { at: now, source }, None);
        }
        self.phase = phase;
        self.source = source;
        self.sent_at = now;
        self.credit = CREDIT_INITIAL;
        self.credit_at = now;
    }

    /// The outage, as it ends now. None: a silence in which nothing was lost.
    pub(super) fn outage(&self, peer: PeerId, now: Instant) -> Option<Outage<PeerId>> {
        let view = self.view(peer);
        let has_lost = self.phase != Phase::Silent || !self.shelves[0].is_empty();
        let timer_at = self.timer_at.unwrap_or(self.began.at);
        let stall = stall_without(timer_at, RTO_INITIAL, now);
        has_lost.then(|| Outage {
            flows: view.flows as u32,
            cached_bytes: view.bytes as u64,
            stall_saved: if self.shelves[0].is_empty() {
                Duration::ZERO
            } else {
                stall
            },
            ..self.began.outage(peer, now)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shelves.iter().all(Shelf::is_empty)
    }

    /// The shelf for a packet: where others of its flow are, so that they stay in order.
    pub(super) fn shelf_of(&self, flow: &PacketFlow, is_two_way: bool) -> usize {
        let found = self.shelves.iter().position(|shelf| shelf.holds(flow));
        found.unwrap_or(usize::from(!is_two_way))
    }

    /// Packets of the peer were seen: for each of them two more may be sent.
    pub(super) fn earn(&mut self, packets: u32) {
        let packets = i32::try_from(packets).unwrap_or(i32::MAX);
        let earned = packets.saturating_mul(CREDIT_PER_PACKET);
        self.credit = self.credit.saturating_add(earned).min(CREDIT_MAX);
    }

    pub(super) fn earn_by_time(&mut self, now: Instant) {
        if now.saturating_since(self.credit_at) >= CREDIT_INTERVAL {
            self.credit = (self.credit + 1).min(1).max(self.credit);
            self.credit_at = now;
        }
    }

    /// A packet came that waits behind others. It allows its own number of packets to be sent, so that the queue
    /// does not grow, however fast a flow is.
    pub(super) fn earn_by_arrival(&mut self, segments: u32) {
        self.credit = self
            .credit
            .saturating_add_unsigned(segments)
            .min(CREDIT_MAX);
    }

    /// Takes the next packet that may be sent, and the number of its shelf.
    pub(super) fn next_to_send(&mut self) -> Option<(usize, Kept<F>)> {
        if self.credit <= 0 {
            return None;
        }
        let next = self.next_of_all()?;
        self.credit = self.credit.saturating_sub_unsigned(next.1.segments);
        Some(next)
    }

    /// Takes the next packet without that limit, if the peer's link is up.
    pub(super) fn next_of_all(&mut self) -> Option<(usize, Kept<F>)> {
        if self.phase != Phase::Releasing {
            return None;
        }
        let turn = self.turn;
        self.turn = 1 - turn;
        [turn, 1 - turn].into_iter().find_map(|number| {
            let kept = self.shelves[number].pop_in_turn()?;
            Some((number, kept))
        })
    }

    /// It has been away for long, and nothing is queued for it.
    pub(super) fn is_given_up(&self, settings: &KeepSettings, now: Instant) -> bool {
        self.given_up_at(settings).is_some_and(|at| at <= now)
    }

    fn given_up_at(&self, settings: &KeepSettings) -> Option<Instant> {
        let ends_by_itself = self.source != LinkSource::Carrier;
        (ends_by_itself && self.is_empty()).then(|| self.since + settings.age_max)
    }

    fn probe_at(&self, settings: &KeepSettings) -> Option<Instant> {
        let often = self.sent_at + settings.ask_interval;
        let seldom = self.sent_at + settings.ask_interval * SLOW_PROBE_FACTOR;
        match self.phase {
            Phase::Silent if often < self.since + FAST_PROBES_FOR => Some(often),
            Phase::Silent => Some(seldom),
            // Without a carrier nothing can be sent, and the carrier reports link up.
            Phase::Down if self.source != LinkSource::Carrier => Some(seldom),
            Phase::Down | Phase::Releasing => None,
        }
    }

    /// The packet whose copy is sent as a probe, if a probe is due. An answer shows link up.
    pub(super) fn next_probe(&mut self, settings: &KeepSettings, now: Instant) -> Option<&Kept<F>> {
        if self.probe_at(settings).is_none_or(|at| at > now) {
            return None;
        }
        self.sent_at = now;
        let kept = self.shelves[0].newest_in_turn()?;
        kept.sent_at = kept.can_probe.then_some(now).or(kept.sent_at);
        kept.can_probe.then_some(kept)
    }

    /// The next deadline.
    pub(super) fn deadline(&self, settings: &KeepSettings, now: Instant) -> Option<Instant> {
        let ages = [settings.age_max, settings.one_way_age_max];
        let is_away = self.phase != Phase::Releasing;
        let expiry = self.shelves.iter().zip(ages).filter(|_| is_away);
        let expiry = expiry.filter_map(|(shelf, age)| Some(shelf.oldest_at()? + age));
        let given_up = self.given_up_at(settings).filter(|_| is_away);
        let credit = (!is_away).then(|| self.credit_at + CREDIT_INTERVAL);
        let can_probe = !self.shelves[0].is_empty();
        let ask = if can_probe {
            self.probe_at(settings)
        } else {
            None
        };
        let at = expiry.chain(credit).chain(ask).chain(given_up).min()?;
        Some(at.max(now))
    }

    pub(super) fn view(&self, peer: PeerId) -> PeerView {
        PeerView {
            peer,
            source: self.source,
            is_away: self.phase != Phase::Releasing,
            since: self.since,
            flows: self.shelves.iter().map(Shelf::flows).sum(),
            bytes: self.shelves.iter().map(Shelf::bytes).sum(),
        }
    }
}
