// SPDX-License-Identifier: Apache-2.0
//! M-TCP's bandwidth management: what a cell carries is shared anew, again and again, among
//! the mobiles that need any of it, and a mobile's part among its connections.
//!
//! A connection that is split is paced to its share. Of any other scheme's what the FH sends
//! passes as it comes, and counts; what is sent from the cache is paced to the mobile's share
//! ([`Mobile::share`](crate::mobile::Mobile)).
//!
//! Who comes in between two sharings gets what would be its part, so that the sum may exceed
//! the cell for that time.

use core::time::Duration;

use holdfast_wire::Instant;

use super::{Connection, Gateway};
use crate::Payload;
use crate::bandwidth::{Estimate, Need, Standing, drained, shares};
use crate::settings::Settings;
use crate::table::{FlowId, MobileId};

/// Shares hold so long.
const PERIOD: Duration = Duration::from_millis(250);

/// A cell at work.
#[derive(Debug, Default)]
pub(super) struct Cell {
    /// What it is set to carry, bytes a second.
    set: Option<u64>,
    estimate: Estimate,
    standing: Standing,
    /// Mobiles that take part.
    active: Vec<MobileId>,
    /// Their weights together.
    weights: u64,
    shared: Instant,
}

impl Cell {
    /// Those of the settings.
    pub(super) fn all(settings: &Settings) -> Vec<Self> {
        let cell = |set: &crate::bandwidth::CellSettings| Self {
            set: set.bytes_per_s,
            ..Self::default()
        };
        settings.bandwidth.cells.iter().map(cell).collect()
    }

    /// What it carries, bytes a second; none: not known yet.
    fn capacity(&self) -> Option<u64> {
        self.set.or(self.estimate.bytes_per_s())
    }

    /// Until it is shared anew, what one of so much weight that takes part may have.
    fn part(&self, weight: u32) -> Option<u64> {
        let of = u128::from(self.weights.max(1));
        let part = u128::from(self.capacity()?) * u128::from(weight) / of;
        Some(u64::try_from(part).unwrap_or(u64::MAX).max(1))
    }
}

/// What the mobiles of a cell have got and need.
#[derive(Default)]
struct Asked {
    /// Those that need something, and what.
    mobiles: Vec<MobileId>,
    needs: Vec<Need>,
    /// What all have got, bytes a second.
    delivered: u64,
    /// The shortest time that anything has waited in their queues.
    queue: Option<Duration>,
}

impl<P: Payload> Gateway<P> {
    /// Something was heard of a connection: it takes part in its cell.
    pub(super) fn watch_cell(&mut self, flow_id: FlowId, now: Instant) {
        if self.cells.is_empty() {
            return;
        }
        let Some(Connection { flow, scheme }) = self.flows.at_mut(flow_id) else {
            return;
        };
        let Some(mobile) = self.mobiles.at_mut(flow.mobile) else {
            return;
        };
        let Some(cell) = mobile.cell.and_then(|cell| self.cells.get_mut(cell)) else {
            return;
        };
        if !mobile.takes_part {
            mobile.takes_part = true;
            mobile.sharing_flows = 0;
            cell.active.push(flow.mobile);
            cell.weights += u64::from(mobile.weight);
            if self.cell_at.is_none() {
                cell.shared = now;
                self.cell_at = Some(now + PERIOD);
            }
        }
        let share = scheme.get_mut().share_mut().filter(|_| flow.has_own_sender);
        if let Some(share) = share.filter(|share| share.assigned.is_none()) {
            mobile.sharing_flows = mobile.sharing_flows.saturating_add(1);
            let part = cell.part(mobile.weight);
            let flows = u64::from(mobile.sharing_flows);
            share.assign(part.map(|part| (part / flows).max(1)));
        }
    }

    /// The shares are due.
    pub(super) fn on_cell_due(&mut self, now: Instant) {
        if self.cell_at.is_none_or(|at| at > now) {
            return;
        }
        for cell in 0..self.cells.len() {
            self.share_cell(cell, now);
        }
        let busy = self.cells.iter().any(|cell| !cell.active.is_empty());
        self.cell_at = busy.then(|| now + PERIOD);
    }

    /// Every mobile that needs any gets its share; the others take part no more.
    fn share_cell(&mut self, cell_index: usize, now: Instant) {
        let Some(cell) = self.cells.get_mut(cell_index) else {
            return;
        };
        let elapsed = now
            .saturating_since(cell.shared)
            .max(Duration::from_millis(1));
        cell.shared = now;
        cell.weights = 0;
        let active = core::mem::take(&mut cell.active);
        let Asked {
            mobiles,
            needs,
            delivered,
            queue,
        } = self.ask(active, elapsed);
        let wanted = needs.iter().any(|need| need.bytes_per_s.is_none());
        let Some(cell) = self.cells.get_mut(cell_index) else {
            return;
        };
        let (queue, capacity) = (queue.unwrap_or_default(), cell.capacity());
        let standing = cell.standing.take(queue, wanted, delivered, capacity);
        let queue = standing.unwrap_or_default();
        cell.estimate.update(delivered, queue, wanted);
        cell.weights = needs.iter().map(|need| u64::from(need.weight)).sum();
        cell.active.clone_from(&mobiles);
        let Some(capacity) = cell.capacity() else {
            return;
        };
        // An estimate has come down for that already.
        let capacity = match cell.set {
            Some(_) => drained(capacity, queue),
            None => capacity,
        };
        let parts: Vec<_> = needs.iter().map(|need| cell.part(need.weight)).collect();
        let shares = shares(capacity, &needs);
        for ((mobile_id, need), (share, part)) in mobiles
            .iter()
            .zip(&needs)
            .zip(shares.into_iter().zip(parts))
        {
            if let Some(mobile) = self
                .mobiles
                .at_mut(*mobile_id)
                .filter(|_| standing.is_none())
            {
                mobile.rtt.forget_base();
            }
            // Who needs less than its own part may take up to that at any time.
            let spare = need.bytes_per_s.and(part).unwrap_or_default();
            self.share_mobile(*mobile_id, share.max(spare).max(1));
        }
    }

    /// What these mobiles have got and need.
    fn ask(&mut self, active: Vec<MobileId>, elapsed: Duration) -> Asked {
        let mut asked = Asked::default();
        for mobile_id in active {
            let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
                continue;
            };
            asked.delivered += rate(core::mem::take(&mut mobile.acked), elapsed);
            let away = mobile.is_away();
            if let Some(waited) = mobile.rtt.take_queue().filter(|_| !away) {
                let least = asked.queue.unwrap_or(waited);
                asked.queue = Some(least.min(waited));
            }
            if let Some(need) = self.need_of(mobile_id, elapsed) {
                asked.mobiles.push(mobile_id);
                asked.needs.push(need);
            } else if let Some(mobile) = self.mobiles.at_mut(mobile_id) {
                // Its share stays, for what an outage may have held up.
                mobile.takes_part = false;
            }
        }
        asked
    }

    /// What a mobile has needed of late, and its weight; none: nothing. Its connections that
    /// need nothing lose their shares.
    fn need_of(&mut self, mobile_id: MobileId, elapsed: Duration) -> Option<Need> {
        let mobile = self.mobiles.at_mut(mobile_id)?;
        let away = mobile.is_away();
        let mut bytes = core::mem::take(&mut mobile.passed);
        let mut greedy = !away && mobile.is_recovering() && !mobile.waiting.is_empty();
        for flow_id in mobile.open_flows() {
            let Some(Connection { flow, scheme }) = self.flows.at_mut(*flow_id) else {
                continue;
            };
            let waits = flow.has_backlog() && !scheme.get().waits_for_mh();
            let share = scheme.get_mut().share_mut();
            let Some(share) = share.filter(|_| flow.has_own_sender) else {
                continue;
            };
            let offered = share.take_offered();
            share.need = if waits {
                None
            } else {
                Some(rate(offered, elapsed))
            };
            bytes += offered;
            greedy |= waits;
        }
        let need = Need {
            weight: mobile.weight,
            bytes_per_s: (!greedy).then(|| rate(bytes, elapsed)),
        };
        (greedy || bytes > 0).then_some(need)
    }

    /// A mobile's share, and those of its connections.
    fn share_mobile(&mut self, mobile_id: MobileId, share: u64) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        mobile.share = Some(share);
        let (mut flows, mut needs) = (Vec::new(), Vec::new());
        for flow_id in mobile.open_flows() {
            let Some(Connection { flow, scheme }) = self.flows.at_mut(*flow_id) else {
                continue;
            };
            let paced = scheme.get_mut().share_mut();
            let Some(paced) = paced.filter(|_| flow.has_own_sender) else {
                continue;
            };
            match paced.need {
                Some(0) => paced.assign(None),
                need => {
                    flows.push(*flow_id);
                    needs.push(Need {
                        weight: 1,
                        bytes_per_s: need,
                    });
                }
            }
        }
        mobile.sharing_flows = flows.len() as u32;
        let own = share / (flows.len() as u64).max(1);
        for ((flow_id, need), share) in flows.iter().zip(&needs).zip(shares(share, &needs)) {
            let row = self.flows.at_mut(*flow_id);
            if let Some(paced) = row.and_then(|row| row.scheme.get_mut().share_mut()) {
                let spare = need.bytes_per_s.map_or(0, |_| own);
                paced.assign(Some(share.max(spare).max(1)));
            }
        }
    }
}

/// Bytes a second.
fn rate(bytes: u64, elapsed: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / elapsed.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
