// SPDX-License-Identifier: Apache-2.0
//! One direction of a link as a state machine.
//!
//! [`LinkModel::enqueue`] gives it a packet, [`LinkModel::poll_departure`] returns a
//! packet that has arrived at the other end, [`LinkModel::poll_timeout`] returns when to
//! call that again. `now` never goes back; a time before the latest one counts as the
//! latest one. Events between two calls are processed in order, so that the result does
//! not depend on the number of calls.

mod arq;
mod counters;
mod progress;
mod queue;
mod returns;
mod waits;

use std::collections::VecDeque;

use holdfast_wire::{Duration, Instant};

use arq::Arq;
pub use counters::{Counters, DropReason};
use progress::{InFlight, Progress, Sending};
pub use queue::Station;
use queue::{Queues, Waiting};
use returns::Returns;
use waits::Waits;

use crate::capacity::{NanoBits, need};
use crate::limits::SettingsError;
use crate::loss::{BitErrors, BitFate, GilbertElliottLoss};
use crate::outage::{MediumState, OutageEffect, OutageSchedule};
use crate::priority::Priority;
use crate::random::{Part, Stream};
use crate::settings::{LinkPlan, LinkSettings};

/// Most packets in flight at once; reached only by a link without a rate.
const IN_FLIGHT_MAX: usize = 1_000_000;

/// What became of a packet given to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueue {
    /// It is in the queue or being sent. It may still be lost.
    Enqueued,
    /// It is lost.
    Dropped {
        /// Why.
        reason: DropReason,
    },
}

/// A packet that has arrived at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// The packet.
    pub packet: P,
    /// Its length in bytes, as given.
    pub len_bytes: u64,
    /// When it arrived there; never later than the time of the call.
    pub at: Instant,
    /// Numbers of the bits to flip. Bit 0 is the highest one of the first byte. Empty unless
    /// bit errors corrupt packets.
    pub flipped_bits: Vec<u32>,
}

/// One direction of a link.
#[derive(Debug)]
pub struct LinkModel<P> {
    plan: LinkPlan,
    schedule: OutageSchedule,
    /// Since when rate trace and outages run, and whether they do.
    origin: Instant,
    started: bool,
    clock: Instant,
    state: MediumState,
    /// The next change of `state`, absolute.
    change_at: Option<Instant>,
    queues: Queues<P>,
    sending: Option<Sending<P>>,
    /// When the last packet was sent, and C's target then: the next one goes on
    /// from there if it starts at the same time.
    sent_last: Option<(Instant, NanoBits)>,
    /// In order of arrival.
    in_flight: VecDeque<InFlight<P>>,
    /// No packet arrives before this time, unless packets may overtake.
    arrive_after: Instant,
    random_loss: Stream,
    bit_errors: BitErrors,
    gilbert_elliott: Option<GilbertElliottLoss>,
    jitter: Stream,
    arq: Option<Arq<P>>,
    /// When the far end delivered or took in its latest packet, with ARQ.
    delivered_last: Instant,
    counters: Counters,
    waits: Waits,
    returns: Returns,
}

impl<P> LinkModel<P> {
    /// A link with these settings, its outages and trace running from time zero.
    ///
    /// # Errors
    /// Settings out of range; settings that name a trace's file, which
    /// [`LinkSettings::plan_with`] reads.
    pub fn new(settings: &LinkSettings, seed: u64) -> Result<Self, SettingsError> {
        Ok(Self::from_plan(&settings.plan()?, seed))
    }

    /// The same from settings that were checked before.
    pub fn from_plan(plan: &LinkPlan, seed: u64) -> Self {
        Self::with_schedule(plan, seed, OutageSchedule::new(&plan.outages, seed))
    }

    /// The same with outages of its own, instead of those of the plan and the
    /// seed: two directions that fail together have equal schedules.
    pub fn with_schedule(plan: &LinkPlan, seed: u64, schedule: OutageSchedule) -> Self {
        let mut link = Self {
            plan: plan.clone(),
            schedule,
            origin: Instant::ZERO,
            started: true,
            clock: Instant::ZERO,
            state: MediumState::Up,
            change_at: None,
            queues: Queues::new(),
            sending: None,
            sent_last: None,
            in_flight: VecDeque::new(),
            arrive_after: Instant::ZERO,
            random_loss: Stream::new(seed, Part::RandomLoss),
            bit_errors: BitErrors::new(plan.bit_error_rate, plan.bit_error_effect, seed),
            gilbert_elliott: plan
                .gilbert_elliott
                .map(|ge| GilbertElliottLoss::new(ge, seed)),
            jitter: Stream::new(seed, Part::Jitter),
            arq: plan.arq.map(Arq::new),
            delivered_last: Instant::ZERO,
            counters: Counters::default(),
            waits: Waits::new(),
            returns: Returns::default(),
        };
        link.enter_schedule();
        link
    }

    /// Delays the outages until [`Self::start`], when a rate trace also begins anew. For a
    /// link that is built before the experiment begins.
    pub fn waiting_for_start(mut self) -> Self {
        self.started = false;
        self.state = MediumState::Up;
        self.change_at = None;
        self
    }

    /// Makes `now` the time zero of outages and rate trace.
    pub fn start(&mut self, now: Instant) {
        let now = self.advance(now);
        if self.state == MediumState::Down {
            // A stopped packet goes on, unless the schedule begins with an outage.
            self.state = MediumState::Up;
        }
        self.stop_sending(now);
        (self.origin, self.started, self.sent_last) = (now, true, None);
        self.enter_schedule();
        if self.state == MediumState::Down {
            self.begin_outage(now);
        }
        if self.is_up() {
            self.resume_sending(now);
        }
    }

    fn enter_schedule(&mut self) {
        self.state = self.schedule.state_at(Instant::ZERO);
        self.change_at = self.next_change(Instant::ZERO);
    }

    fn next_change(&mut self, model_time: Instant) -> Option<Instant> {
        self.schedule
            .next_change(model_time)
            .map(|t| t + since_zero(self.origin))
    }

    /// The time on the schedule's own clock.
    fn model_time(&self, now: Instant) -> Instant {
        Instant::ZERO + now.saturating_since(self.origin)
    }

    fn units_by(&self, now: Instant) -> NanoBits {
        self.plan.capacity.units_by(self.model_time(now))
    }

    /// The plan from which it was made.
    pub const fn plan(&self) -> &LinkPlan {
        &self.plan
    }

    /// Whether the link is up at the latest time given.
    pub fn state(&self) -> MediumState {
        self.state
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        let first = self.returns.first_arrivals();
        let first_us = first.map(|at| at.saturating_since(self.origin).as_micros() as u64);
        Counters {
            first_after_outage_us: first_us.collect(),
            wait_median_us: self.waits.percentile_us(50),
            wait_p95_us: self.waits.percentile_us(95),
            ..self.counters.clone()
        }
    }

    /// Packets that wait, besides the one being sent.
    pub fn queue_len(&self) -> usize {
        self.queues.len()
    }

    /// The same for one of two stations that share the link.
    pub fn queue_len_of(&self, station: Station) -> usize {
        self.queues.len_of(station)
    }

    /// Packets inside: waiting, being sent, in flight, or arrived but not yet taken out.
    pub fn packets_inside(&self) -> usize {
        self.queues.len()
            + usize::from(self.sending.is_some())
            + self.in_flight.len()
            + self.arq.as_ref().map_or(0, Arq::len)
    }

    /// Gives the link a packet of `len_bytes` at `now`.
    pub fn enqueue(&mut self, packet: P, len_bytes: u64, now: Instant) -> Enqueue {
        self.enqueue_from(Station::First, Priority::Ordinary, packet, len_bytes, now)
    }

    /// The same for one of two stations that share the link, and with a priority: each
    /// station has a queue of its own for each priority, all with the limits of the
    /// settings, and the stations take turns.
    pub fn enqueue_from(
        &mut self,
        station: Station,
        priority: Priority,
        packet: P,
        len_bytes: u64,
        now: Instant,
    ) -> Enqueue {
        let now = self.advance(now);
        self.counters.offered_packets += 1;
        self.counters.offered_bytes += len_bytes;
        self.counters.ahead_packets += u64::from(priority == Priority::Ahead);
        let waiting = Waiting {
            packet,
            len_bytes,
            since: now,
            attempts: None,
        };
        match self.state {
            MediumState::Down if self.plan.outage_effect == OutageEffect::Lose => {
                return self.refuse(DropReason::OutageArrival);
            }
            MediumState::Up | MediumState::Down
                if self.is_up() && self.sending.is_none() && !self.is_arq_full() =>
            {
                self.queues.pass_turn(station);
                self.begin_sending(waiting, now);
                // Without a rate it has been sent already.
                self.advance(now);
                return Enqueue::Enqueued;
            }
            MediumState::Up | MediumState::Down => {}
        }
        let (packets, bytes) = (self.plan.queue_packets_max, self.plan.queue_bytes_max);
        match self
            .queues
            .offer(station, priority, waiting, packets, bytes)
        {
            Ok(()) => Enqueue::Enqueued,
            Err(reason) => self.refuse(reason),
        }
    }

    fn refuse(&mut self, reason: DropReason) -> Enqueue {
        self.counters.count_drop(reason, 1);
        Enqueue::Dropped { reason }
    }

    /// The next packet that has arrived at the other end by `now`.
    pub fn poll_departure(&mut self, now: Instant) -> Option<Departure<P>> {
        let now = self.advance(now);
        let InFlight {
            waiting: Waiting {
                packet, len_bytes, ..
            },
            arrive_at,
            flipped_bits,
        } = self.next_arrived(now)?;
        self.returns.on_arrival(arrive_at);
        self.counters.delivered_packets += 1;
        self.counters.delivered_bytes += len_bytes;
        self.counters.corrupted_packets += u64::from(!flipped_bits.is_empty());
        Some(Departure {
            packet,
            len_bytes,
            at: arrive_at,
            flipped_bits,
        })
    }

    /// When to call [`Self::poll_departure`] next; none while the link is empty.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let arrival = self.in_flight.front().map(|first| first.arrive_at);
        let sent = match &self.sending {
            Some(Sending {
                progress: Progress::Running { finish, .. },
                ..
            }) => Some(self.change_at.map_or(*finish, |change| change.min(*finish))),
            None if self.queues.is_empty() => None,
            Some(_) | None => self.change_at,
        };
        let sent = earliest(sent, self.retransmission_at());
        let arrival = earliest(arrival, self.arq.as_ref().and_then(Arq::skip_at));
        match arrival {
            // A packet still being sent arrives later: no call is needed before.
            Some(arrival) if !self.reorders() && self.arq.is_none() => Some(arrival),
            _ => earliest(arrival, sent),
        }
    }

    fn reorders(&self) -> bool {
        self.plan.jitter.is_some_and(|jitter| jitter.reorders())
    }

    /// Processes all events up to `now`. Returns `now`, or the latest time if that is later.
    fn advance(&mut self, now: Instant) -> Instant {
        let now = now.max(self.clock);
        self.clock = now;
        loop {
            let change = self.change_at.filter(|&change| change <= now);
            let finish = match &self.sending {
                Some(Sending {
                    progress: Progress::Running { finish, .. },
                    ..
                }) => Some(*finish),
                _ => None,
            };
            match (finish.filter(|&finish| finish <= now), change) {
                (Some(finish), change) if change.is_none_or(|change| finish <= change) => {
                    self.finish_sending(finish);
                }
                (_, change) => match (self.retransmission_at(), change) {
                    (Some(at), change) if at <= now && change.is_none_or(|c| at <= c) => {
                        self.send_next(at);
                    }
                    (_, Some(change)) => self.change_state(change),
                    _ => return now,
                },
            }
        }
    }

    fn change_state(&mut self, at: Instant) {
        self.change_at = self.next_change(self.model_time(at));
        match self.state {
            MediumState::Up => {
                self.state = MediumState::Down;
                if !self.is_up() {
                    self.stop_sending(at);
                }
                self.begin_outage(at);
            }
            MediumState::Down => {
                self.state = MediumState::Up;
                self.returns.on_outage_end(at);
                self.resume_sending(at);
            }
        }
    }

    fn begin_sending(&mut self, mut waiting: Waiting<P>, at: Instant) {
        if let Some(arq) = &mut self.arq {
            arq.number(&mut waiting);
        }
        let from = match self.sent_last {
            Some((finish, target)) if finish == at => target,
            _ => self.units_by(at),
        };
        let target = from + need(waiting.len_bytes);
        let progress = self.run_to(target, at);
        self.sending = Some(Sending { waiting, progress });
    }

    fn run_to(&self, target: NanoBits, at: Instant) -> Progress {
        let finish = self.plan.capacity.time_of(target) + since_zero(self.origin);
        Progress::Running {
            target,
            finish: finish.max(at),
        }
    }

    fn send_next(&mut self, at: Instant) {
        let again = self.arq.as_mut().and_then(|arq| arq.take_due(at));
        let next = match again {
            None if self.is_arq_full() => None,
            again => again.or_else(|| self.queues.take()),
        };
        if let Some(waiting) = next {
            self.begin_sending(waiting, at);
        }
    }

    fn finish_sending(&mut self, at: Instant) {
        let Some(Sending {
            waiting,
            progress: Progress::Running { target, .. },
        }) = self.sending.take()
        else {
            return;
        };
        self.sent_last = Some((at, target));
        self.waits.record(at.saturating_since(waiting.since));
        self.launch(waiting, at);
        self.send_next(at);
    }

    /// Puts a packet in flight, or loses it. Every random part draws for every packet, so that
    /// none depends on what another one drew.
    fn launch(&mut self, waiting: Waiting<P>, at: Instant) {
        let lost_at_random = self.random_loss.chance(self.plan.loss);
        let lost_in_state = self
            .gilbert_elliott
            .as_mut()
            .is_some_and(GilbertElliottLoss::loses);
        let bits = self.bit_errors.pass(waiting.len_bytes.saturating_mul(8));
        let extra = match &self.plan.jitter {
            Some(jitter) => jitter.draw(&mut self.jitter),
            None => Duration::ZERO,
        };
        let reason = if lost_at_random {
            DropReason::RandomLoss
        } else if lost_in_state {
            DropReason::GilbertElliott
        } else if bits == BitFate::Lost {
            DropReason::BitError
        } else {
            DropReason::InFlightLimit
        };
        let BitFate::Arrives(flipped_bits) = bits else {
            return self.lose_attempt(waiting, reason, at);
        };
        if reason != DropReason::InFlightLimit || self.in_flight.len() >= IN_FLIGHT_MAX {
            return self.lose_attempt(waiting, reason, at);
        }
        let slow = self.plan.slow.map_or(Duration::ZERO, |slow| {
            slow.more_at(self.model_time(at).saturating_since(Instant::ZERO))
        });
        let mut arrive_at = at + self.plan.delay + slow + extra;
        if !self.reorders() {
            arrive_at = arrive_at.max(self.arrive_after);
            self.arrive_after = arrive_at;
        }
        if self.is_lost_arriving(arrive_at) {
            return self.lose_attempt(waiting, DropReason::OutageInFlight, at);
        }
        let index = self
            .in_flight
            .partition_point(|other| other.arrive_at <= arrive_at);
        self.in_flight.insert(
            index,
            InFlight {
                waiting,
                arrive_at,
                flipped_bits,
            },
        );
    }
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

fn since_zero(t: Instant) -> Duration {
    t.saturating_since(Instant::ZERO)
}

#[cfg(test)]
mod tests;
