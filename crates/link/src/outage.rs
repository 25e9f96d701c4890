// SPDX-License-Identifier: Apache-2.0
//! Outages: the times in which a link delivers nothing.
//!
//! [`OutageSettings`] is what a user writes, [`OutagePlan`] the same checked and
//! in nanoseconds, [`OutageSchedule`] the plan with a seed: a pure function from
//! time to link state that answers for any time, in any order. Times are
//! since the schedule's start. An outage begins at `begin` and is over at `end`:
//! at `begin` the link is down, at `end` it is up.

mod plan;

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_wire::Instant;
use serde::{Deserialize, Serialize};

use crate::random::{Part, Stream};
use plan::Cursor;
pub use plan::OutagePlan;

/// Whether the link delivers anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MediumState {
    /// The link delivers packets.
    Up,
    /// The link is in an outage.
    Down,
}

/// What an outage does to the packets on the link and in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutageEffect {
    /// All that is in the queue or on the way when the outage begins is lost, and
    /// so is all that arrives while it lasts.
    #[default]
    Lose,
    /// The link stands still: the queue keeps what it has and takes more up to
    /// its limit, what is on the way arrives later by as long as the outage
    /// lasted.
    Keep,
    /// The link goes on sending what it has, and takes more; what would come out at
    /// its other end while the outage lasts is lost there. So M-TCP's authors emulated
    /// disconnections: the mobile's IP discarded what came (Brown and Singh, 1997, 6).
    LoseArriving,
}

/// One outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The first point in time at which the link is down.
    pub begin: Instant,
    /// The first point in time at which it is up again.
    pub end: Instant,
}

/// An outage in a list: `{ at_s = 4.0, for_s = 3.0 }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageAt {
    /// Begin, in seconds since the start; 0 or more.
    pub at_s: f64,
    /// Length in seconds, at least 0.0001.
    pub for_s: f64,
}

/// A patch of the two-state model: for how long it lasts, and its own outages.
/// All three lengths are drawn from exponential distributions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Mean length of the patch in seconds.
    pub length_mean_s: f64,
    /// Mean time between two outages in the patch, in seconds; none: the patch
    /// has no outages.
    #[serde(default)]
    pub up_mean_s: Option<f64>,
    /// Mean length of an outage in the patch, in seconds.
    #[serde(default)]
    pub down_mean_s: Option<f64>,
}

/// When there are outages, as the user writes it. Every time is in seconds; the
/// link starts up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OutageSettings {
    /// Never.
    #[default]
    None,
    /// At the times given, in order and apart.
    List {
        /// The outages.
        list: Vec<OutageAt>,
    },
    /// At equal distances, without end.
    Periodic {
        /// Begin of the first one.
        first_at_s: f64,
        /// From begin to begin.
        every_s: f64,
        /// Length of each, shorter than `every_s`.
        for_s: f64,
    },
    /// Times up and down from normal distributions; what is drawn below 1 ms
    /// counts as 1 ms.
    Normal {
        /// Mean time up.
        up_mean_s: f64,
        /// Standard deviation of the time up.
        up_deviation_s: f64,
        /// Mean length of an outage.
        down_mean_s: f64,
        /// Standard deviation of the length.
        down_deviation_s: f64,
    },
    /// Times up and down from exponential distributions, no shorter than 1 ms.
    Exponential {
        /// Mean time up.
        up_mean_s: f64,
        /// Mean length of an outage.
        down_mean_s: f64,
    },
    /// Good and bad patches by turns, a good one first, each kind with its own
    /// outages.
    TwoState {
        /// The good patches.
        good: Patch,
        /// The bad ones.
        bad: Patch,
    },
    /// Outages of given lengths, in this order, at random times.
    Scattered {
        /// The lengths.
        lengths_s: Vec<f64>,
        /// No outage begins before.
        from_s: f64,
        /// Every outage is over by then.
        to_s: f64,
        /// The least time between two of them.
        apart_s: f64,
    },
    /// The stretches of a trace in which nothing is delivered.
    Trace {
        /// The trace's file; none: the link's own rate trace.
        #[serde(default)]
        file: Option<String>,
        /// Gaps shorter than this are no outages; at least 0.01.
        gap_min_s: f64,
    },
}

/// Outages stored for calls about the past. Older ones are drawn again from the seed when
/// needed.
const REMEMBERED_MAX: usize = 65_536;

/// A plan with a seed: the outages themselves.
#[derive(Clone, Debug)]
pub struct OutageSchedule {
    plan: Arc<OutagePlan>,
    seed: u64,
    cursor: Cursor,
    /// In order, not touching.
    known: VecDeque<Outage>,
    /// Drawn, but the next outage may still prolong it.
    pending: Option<Outage>,
    exhausted: bool,
    /// The end of the newest outage that was forgotten.
    forgotten_until: Instant,
}

impl OutageSchedule {
    /// The outages of `plan` for `seed`.
    pub fn new(plan: &OutagePlan, seed: u64) -> Self {
        Self {
            plan: Arc::new(plan.clone()),
            seed,
            cursor: Cursor::new(Stream::new(seed, Part::Outages)),
            known: VecDeque::new(),
            pending: None,
            exhausted: false,
            forgotten_until: Instant::ZERO,
        }
    }

    /// The state of the link at `t`.
    pub fn state_at(&mut self, t: Instant) -> MediumState {
        match self.outage_ending_after(t) {
            Some(outage) if outage.begin <= t => MediumState::Down,
            _ => MediumState::Up,
        }
    }

    /// The first time after `t` at which the state changes, if it ever does.
    pub fn next_change(&mut self, t: Instant) -> Option<Instant> {
        let outage = self.outage_ending_after(t)?;
        Some(if outage.begin > t {
            outage.begin
        } else {
            outage.end
        })
    }

    /// The outage that the link is in at `t`, or else the next one.
    pub fn outage_ending_after(&mut self, t: Instant) -> Option<Outage> {
        if t < self.forgotten_until {
            *self = Self::new(&self.plan, self.seed);
        }
        while !self.exhausted && self.known.back().is_none_or(|last| last.end <= t) {
            self.draw();
        }
        let i = self.known.partition_point(|outage| outage.end <= t);
        self.known.get(i).copied()
    }

    /// The outages that begin before `t`, in order.
    pub fn until(&mut self, t: Instant) -> Vec<Outage> {
        self.first_until(t, usize::MAX)
    }

    /// The first `most` of the outages that begin before `t`, in order. No outage is drawn
    /// beyond them.
    pub fn first_until(&mut self, t: Instant, most: usize) -> Vec<Outage> {
        let (mut outages, mut after) = (Vec::new(), Instant::ZERO);
        while outages.len() < most
            && let Some(outage) = self.outage_ending_after(after).filter(|o| o.begin < t)
        {
            outages.push(outage);
            after = outage.end;
        }
        outages
    }

    fn draw(&mut self) {
        let next = self.plan.next_outage(&mut self.cursor);
        match (&mut self.pending, next) {
            (Some(pending), Some(next)) if next.begin <= pending.end => pending.end = next.end,
            (pending, next) => {
                if let Some(finished) = std::mem::replace(pending, next) {
                    self.known.push_back(finished);
                }
                self.exhausted = next.is_none();
            }
        }
        if self.known.len() > REMEMBERED_MAX
            && let Some(oldest) = self.known.pop_front()
        {
            self.forgotten_until = oldest.end;
        }
    }
}

#[cfg(test)]
mod tests;
