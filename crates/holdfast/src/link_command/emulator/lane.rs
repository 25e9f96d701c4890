// SPDX-License-Identifier: Apache-2.0
//! One direction of the emulated link: its model, and how far others have followed it.

use holdfast_link::{LinkModel, LinkPlan, MediumState, OutageSchedule};
use holdfast_wire::Instant;

use crate::link_command::Side;

/// A packet on the link.
#[derive(Debug)]
pub(super) struct Carried {
    /// The side where it entered.
    pub(super) from: Side,
    /// From the IP header on.
    pub(super) bytes: Box<[u8]>,
}

/// One direction: its model, and how far carrier and log have followed it.
pub(super) struct Lane {
    pub(super) name: &'static str,
    pub(super) model: LinkModel<Carried>,
    /// What the model does.
    pub(super) plan: LinkPlan,
    /// A copy of the model's outages, which is followed in real time.
    pub(super) schedule: OutageSchedule,
    /// The link's state as last reported to carrier and log.
    pub(super) state: MediumState,
    /// The time on the schedule's clock up to which changes were reported.
    pub(super) reported_until: Instant,
    /// When the last outage ended; none once a packet has come through.
    pub(super) returned_at: Option<Instant>,
}

impl Lane {
    pub(super) fn new(
        name: &'static str,
        plan: &LinkPlan,
        seed: u64,
        schedule: OutageSchedule,
    ) -> Self {
        let model = LinkModel::with_schedule(plan, seed, schedule.clone()).waiting_for_start();
        let (state, reported_until, returned_at) = (MediumState::Up, Instant::ZERO, None);
        Self {
            name,
            model,
            plan: plan.clone(),
            schedule,
            state,
            reported_until,
            returned_at,
        }
    }

    /// The next change that carrier and log have to follow, on the schedule's
    /// clock.
    pub(super) fn next_change(&mut self) -> Option<Instant> {
        let outage = self.schedule.outage_ending_after(self.reported_until)?;
        Some(match self.state {
            MediumState::Up => outage.begin,
            MediumState::Down => outage.end,
        })
    }

    /// The next change up to `model_time`, if there is one, and the new state.
    pub(super) fn follow(&mut self, model_time: Instant) -> Option<(Instant, MediumState)> {
        let at = self.next_change().filter(|&at| at <= model_time)?;
        self.state = match self.state {
            MediumState::Up => MediumState::Down,
            MediumState::Down => MediumState::Up,
        };
        self.reported_until = at;
        Some((at, self.state))
    }
}
