// SPDX-License-Identifier: Apache-2.0
//! A window that opens in steps after an outage (`today`).
//!
//! A sender that was frozen for longer than its retransmission timeout restarts with less than its
//! window and in slow start (RFC 5681, 4.1; Linux: `tcp_slow_start_after_idle`). Each ACK brings two
//! segments, in a burst twice as fast as the link, and half a window of them waits in the link's
//! queue. In a shorter queue the rest is lost, and the freeze has cost more than the outage would have.
//! The MH prevents that by its window. The right edge moves on
//!
//! - in the first round trip, until data arrives, by twice what a restarting sender is expected to
//!   send: that halves its window with each timeout that it is idle;
//! - after that twice as fast as data arrived in the last round trip, but at most a quarter faster
//!   than before the freeze. A sender that has used all of the first round trip has not restarted,
//!   and gets at least half its rate;
//! - never further ahead of the received data than the bytes that were in flight before, plus an
//!   eighth of them for each round trip after the old rate is reached.
//!
//! If the first answer shows that a third of the old round trip was queue (half, if the sender was
//! not idle for its timeout), the queue has room for the sender's burst. Then the window opens that
//! far at once.
//!
//! So the sender's window doubles with each round trip, as its own rules require, but spread over the
//! round trip. Nothing waits in the queue that did not wait there before. The edge never moves back.
//! The bytes that were in flight are the bytes that arrived within a round trip after the window was
//! closed, up to the last arrival.

use core::time::Duration;
use std::collections::VecDeque;

use holdfast_wire::{Instant, SeqNum};

use super::flow::HostFlow;

/// With fewer bytes in flight a window opens at once: little more than what any sender may begin
/// with (RFC 6928, ten segments).
const FLIGHT_MIN: u32 = 32 * 1024;
/// Bytes that may arrive at once: RFC 6928, section 2.
const FIRST_BURST: u32 = 14_600;
/// A flow that was missing this many times has ended.
const MISSES_MAX: u32 = 8;
/// Twice the window of a sender after a long idle time.
const RESTART_WINDOW_TWICE: u32 = 2 * FIRST_BURST;
/// A sender's timeout is longer than its round trip by this: Linux, `TCP_RTO_MIN`.
const RTO_MORE: Duration = Duration::from_millis(200);
/// A zero-window probe brings at most this, and may arrive at any time.
const PROBE_MAX: u32 = 1500;
/// A sender has used everything if at most this is left, because it sends whole segments.
const REMAINDER: u32 = 3000;
/// Steps in a round trip; none sooner than [`STEP_MIN`] after the last.
const STEPS: u32 = 16;
const STEP_MIN: Duration = Duration::from_millis(5);
/// The window is open after this many round trips at the latest.
const ROUNDS_MAX: u32 = 16;
/// The window is open this many round trips after the old rate is reached, at the latest.
const ROUNDS_AT_RATE: u32 = 6;
/// If nothing arrives for this many round trips, or for [`SILENCE_MIN`] if that is longer, steps are
/// useless.
const ROUNDS_SILENT: u32 = 4;
/// The bytes in flight took at least the measured round trip divided by this to arrive. A shorter time
/// only shows a sender with little to send. No answer arrives sooner either.
const ARRIVAL_PART_MIN: u32 = 4;
const SILENCE_MIN: Duration = Duration::from_millis(300);

// The shares below are this project's own: with them no cell of docs/scenarios/freeze-today.toml is
// more than 2% worse than plain TCP (docs/schemes/freeze.md).

/// Data that arrive within this many quarters of a round trip were sent in the first one: data of
/// the second arrive in the third.
const FIRST_ROUND_QUARTERS: u32 = 7;
/// The old rate counts as reached at this many quarters of it.
const AT_RATE_QUARTERS: u32 = 3;
/// The edge moves at most at this many quarters of the old rate.
const RATE_QUARTERS_MAX: u32 = 5;
/// With each round trip at the old rate, the limit grows by the bytes in flight divided by this.
const GROWTH_PART: u32 = 8;
/// A sender that has used all of the first round trip gets at least its rate divided by this.
const RATE_PART_MIN: u32 = 2;

/// The state of a flow when its window was closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedWindow {
    /// What the MH had acknowledged; `None`: the flow was not known any more.
    pub(super) rcv_nxt: Option<SeqNum>,
    /// The time.
    pub(super) at: Instant,
    /// The flow's round trip, queues included.
    pub(super) round_trip: Option<Duration>,
    /// The bytes in flight before an earlier freeze, if the flow had not recovered from that.
    pub(super) flight: Option<u32>,
}

impl ClosedWindow {
    pub(super) fn new(flow: Option<&HostFlow>, at: Instant) -> Self {
        match flow {
            Some(flow) => Self {
                rcv_nxt: Some(flow.rcv_nxt),
                at,
                round_trip: flow.round_trip(),
                flight: None,
            },
            None => Self {
                rcv_nxt: None,
                at,
                round_trip: None,
                flight: None,
            },
        }
    }

    /// The time in which the bytes in flight arrived. The measured round trip is too long after a queue
    /// has drained, and a time that is too long gives too low a rate.
    fn flight_time(&self, flow: &HostFlow) -> Option<Duration> {
        let round_trip = self.round_trip.filter(|round_trip| !round_trip.is_zero())?;
        let received = flow.received_at.filter(|_| self.rcv_nxt.is_some());
        // A segment that arrives later than a round trip is a zero-window probe.
        let flight_time = received.map(|received| received.saturating_since(self.at));
        let flight_time = flight_time
            .filter(|time| !time.is_zero())
            .unwrap_or(round_trip);
        Some(flight_time.clamp(round_trip / ARRIVAL_PART_MIN, round_trip))
    }
}

/// The next limit of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The window ends here from now on.
    Edge(SeqNum),
    /// The window needs no limit any more.
    Open,
}

/// The opening of one flow's window.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    edge: SeqNum,
    /// The edge as advertised: in units of the window, and never before an earlier one.
    advertised: SeqNum,
    /// Bytes that were in flight before the freeze.
    flight: u32,
    /// The time in which they arrived.
    flight_time: Duration,
    began: Instant,
    closed_at: Instant,
    /// RCV.NXT when the opening began.
    first_rcv_nxt: SeqNum,
    /// The sender was idle for longer than its timeout.
    sender_restarts: bool,
    /// Bytes that may arrive in the first round trip.
    first_round_bytes: u32,
    /// All bytes of `first_round_bytes` have arrived.
    used_first_round: bool,
    /// The new round trip: from the start of the opening to the first arrival.
    round_trip: Option<Duration>,
    /// The arrivals of the last round trip.
    arrivals: VecDeque<(Instant, SeqNum)>,
    at_rate_since: Option<Instant>,
    stepped_at: Instant,
    /// How often the flow was missing.
    misses: u32,
}

impl Opening {
    /// Begins; `None` if the window may open at once.
    pub(super) fn begin(flow: &HostFlow, closed: &ClosedWindow, now: Instant) -> Option<Self> {
        let flight_time = closed.flight_time(flow)?;
        let arrived_bytes = || {
            let before = closed.rcv_nxt?;
            Some(flow.rcv_nxt.distance_from(before))
        };
        let flight = closed.flight.or_else(arrived_bytes)?;
        // An edge is advertised in units of the window.
        flow.window_shift?;
        let own = flow.window_bytes();
        // More than the window was never in flight: the numbers are of another connection.
        if flight < FLIGHT_MIN || flight > own.saturating_mul(2) {
            return None;
        }
        let idle = now.saturating_since(closed.at).saturating_sub(flight_time);
        let halvings = idle.as_nanos() / (flight_time + RTO_MORE).as_nanos();
        let expected = flight >> halvings.min(31);
        let first_round_bytes = (expected * 2).max(RESTART_WINDOW_TWICE).min(flight / 2);
        Some(Self {
            edge: flow.rcv_nxt + FIRST_BURST.min(first_round_bytes),
            advertised: flow.aligned(flow.rcv_nxt + FIRST_BURST.min(first_round_bytes)),
            first_round_bytes,
            sender_restarts: halvings > 0,
            used_first_round: false,
            flight,
            flight_time,
            began: now,
            closed_at: closed.at,
            first_rcv_nxt: flow.rcv_nxt,
            round_trip: None,
            arrivals: VecDeque::new(),
            at_rate_since: None,
            stepped_at: now,
            misses: 0,
        })
    }

    /// The edge of the window.
    pub(super) const fn advertised(&self) -> SeqNum {
        self.advertised
    }

    /// The bytes that were in flight before the freeze.
    pub(super) const fn flight(&self) -> u32 {
        self.flight
    }

    /// When the window was closed.
    pub(super) const fn closed_at(&self) -> Instant {
        self.closed_at
    }

    /// The time in which these bytes arrived.
    pub(super) const fn flight_time(&self) -> Duration {
        self.flight_time
    }

    /// When the next step is due.
    pub(super) fn next_step_at(&self) -> Instant {
        let round_trip = self.round_trip.unwrap_or(self.flight_time);
        self.stepped_at + (round_trip / STEPS).max(STEP_MIN)
    }

    /// The flow is missing at the moment.
    pub(super) fn on_missing(&mut self, now: Instant) -> Step {
        self.stepped_at = now;
        self.misses += 1;
        if self.misses < MISSES_MAX {
            Step::Edge(self.advertised)
        } else {
            Step::Open
        }
    }

    /// The next step.
    pub(super) fn step(&mut self, flow: &HostFlow, now: Instant) -> Step {
        // After a pause of the caller the missed steps are not made up for, because that would be a
        // burst.
        let since = now.saturating_since(self.stepped_at);
        let since = since.min((self.round_trip.unwrap_or(self.flight_time) / 4).max(STEP_MIN));
        self.stepped_at = now;
        let (moves, limit) = if flow.rcv_nxt.distance_from(self.first_rcv_nxt) <= PROBE_MAX {
            let silence = (self.flight_time * ROUNDS_SILENT).max(SILENCE_MIN);
            if now.saturating_since(self.began) >= silence {
                return Step::Open;
            }
            (
                share(self.first_round_bytes, since, self.flight_time),
                self.first_round_bytes,
            )
        } else {
            match self.after_first(flow.rcv_nxt, since, now) {
                Some(step) => step,
                None => return Step::Open,
            }
        };
        // An FH that sends beyond the edge is not limited by it.
        let ahead = self.edge.max(flow.rcv_nxt) + moves;
        self.edge = self.edge.max(ahead.min(flow.rcv_nxt + limit));
        if self.edge.distance_from(flow.rcv_nxt) >= flow.window_bytes() {
            return Step::Open;
        }
        if self.edge.after(self.advertised) {
            self.advertised = flow.aligned(self.edge);
        }
        Step::Edge(self.advertised)
    }

    /// How far the edge moves after the first arrival, and how far ahead of the received data it may
    /// be. `None`: the window may open.
    fn after_first(
        &mut self,
        rcv_nxt: SeqNum,
        since: Duration,
        now: Instant,
    ) -> Option<(u32, u32)> {
        let elapsed = now.saturating_since(self.began);
        let (flight_time, first_rcv_nxt) = (self.flight_time, self.first_rcv_nxt);
        let round_trip = *self
            .round_trip
            .get_or_insert_with(|| elapsed.clamp(STEP_MIN, flight_time.max(STEP_MIN)));
        if elapsed >= round_trip * ROUNDS_MAX {
            return None;
        }
        self.arrivals.push_back((now, rcv_nxt));
        // One arrival that is at least a round trip old stays: `recent` counts from it.
        while self
            .arrivals
            .get(1)
            .is_some_and(|(at, _)| now.saturating_since(*at) >= round_trip)
        {
            self.arrivals.pop_front();
        }
        let before = match self.arrivals.front() {
            Some((at, before)) if now.saturating_since(*at) >= round_trip => *before,
            _ => first_rcv_nxt,
        };
        let recent = rcv_nxt.distance_from(before);
        // Data sent in the second round trip arrive in the third.
        if elapsed < round_trip * FIRST_ROUND_QUARTERS / 4 {
            self.used_first_round |=
                rcv_nxt.distance_from(first_rcv_nxt) + REMAINDER >= self.first_round_bytes;
        }
        let flight_share = share(self.flight, round_trip, self.flight_time);
        if recent >= flight_share / 4 * AT_RATE_QUARTERS {
            self.at_rate_since.get_or_insert(now);
        }
        let mut limit = self.flight;
        if let Some(at) = self.at_rate_since {
            let at_rate = now.saturating_since(at);
            if at_rate >= round_trip * ROUNDS_AT_RATE {
                return None;
            }
            limit = limit.saturating_add(grown(self.flight / GROWTH_PART, at_rate, round_trip));
        }
        let least = if self.used_first_round && elapsed < round_trip * 3 {
            flight_share / RATE_PART_MIN
        } else {
            FIRST_BURST
        };
        if self.has_room(round_trip) {
            return Some((limit, limit));
        }
        let most = (flight_share / 4 * RATE_QUARTERS_MAX).max(FIRST_BURST);
        let allowance = (recent.saturating_mul(2)).clamp(least.min(most), most);
        Some((share(allowance, since, round_trip), limit))
    }

    /// The queue is empty now, and had more bytes than the sender will now send at once. A restarting
    /// sender leaves a quarter of the bytes in flight in the queue during its slow start. A sender that
    /// does not restart sends the half that the window did not allow.
    fn has_room(&self, round_trip: Duration) -> bool {
        let enough = if self.sender_restarts {
            round_trip * 3 <= self.flight_time * 2
        } else {
            round_trip * 2 <= self.flight_time
        };
        // A segment this soon was no answer: the link had queued it.
        enough && round_trip * ARRIVAL_PART_MIN >= self.flight_time
    }
}

/// The part of `bytes`, spread over `whole`, that falls into `part`; at most all.
fn share(bytes: u32, part: Duration, whole: Duration) -> u32 {
    grown(bytes, part.min(whole), whole)
}

/// The bytes in `time` at a rate of `bytes` for each `whole`.
fn grown(bytes: u32, time: Duration, whole: Duration) -> u32 {
    let grown = u128::from(bytes) * time.as_nanos() / whole.as_nanos().max(1);
    u32::try_from(grown).unwrap_or(u32::MAX)
}
