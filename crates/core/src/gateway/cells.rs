// SPDX-License-Identifier: Apache-2.0
//! Divides the cells, with every scheme (`[bandwidth]`). Period by period, the capacity of a cell is
//! divided among the mobiles that need some of it, and a mobile's share among its connections.
//!
//! A connection with its own sender is paced to its share ([`Share`](crate::bandwidth::Share)). With
//! any other scheme the FH's segments pass at once, and count. The cache is sent at the pace of the
//! mobile's share ([`CellMember`](crate::bandwidth::CellMember)).
//!
//! A mobile that becomes active between two divisions gets its part at once. Until the next division
//! the sum of the parts may exceed the capacity.

use core::time::Duration;

use holdfast_wire::Instant;

use super::Connection;
use super::flows::Flows;
use crate::Payload;
use crate::bandwidth::{CellSettings, Estimate, Need, StandingQueue, drained, shares};
use crate::mobile::Mobile;
use crate::settings::Settings;
use crate::table::{FlowId, MobileId, Table};

/// Time between two divisions.
const PERIOD: Duration = Duration::from_millis(250);

/// All cells, and when they are divided anew.
pub(super) struct Cells {
    cells: Vec<Cell>,
    due_at: Option<Instant>,
}

/// A cell and its mobiles.
#[derive(Debug, Default)]
struct Cell {
    /// Its capacity by the settings, bytes a second.
    set: Option<u64>,
    estimate: Estimate,
    standing_queue: StandingQueue,
    /// Mobiles that take part in the next division.
    active: Vec<MobileId>,
    /// The sum of their weights.
    weights: u64,
    divided_at: Instant,
}

impl Cell {
    /// Its capacity, bytes a second; none: not known yet.
    fn capacity(&self) -> Option<u64> {
        self.set.or(self.estimate.bytes_per_s())
    }

    /// The part of one mobile of this weight until the next division.
    fn part(&self, weight: u32) -> Option<u64> {
        let weights = u128::from(self.weights.max(1));
        let part = u128::from(self.capacity()?) * u128::from(weight) / weights;
        Some(u64::try_from(part).unwrap_or(u64::MAX).max(1))
    }
}

/// What the mobiles of a cell have received and need.
#[derive(Default)]
struct Demand {
    /// The mobiles that need some capacity, and the need of each.
    mobiles: Vec<MobileId>,
    needs: Vec<Need>,
    /// What all have received, bytes a second.
    delivered: u64,
    /// The shortest time that anything has waited in their queues.
    queue: Option<Duration>,
}

/// The flows and mobiles of a gateway.
pub(super) struct Tables<'a, P: Payload> {
    pub flows: &'a mut Flows<P>,
    pub mobiles: &'a mut Table<MobileId, Mobile>,
}

impl Cells {
    /// The cells of the settings.
    pub(super) fn new(settings: &Settings) -> Self {
        let cell = |set: &CellSettings| Cell {
            set: set.bytes_per_s,
            ..Cell::default()
        };
        Self {
            cells: settings.bandwidth.cells.iter().map(cell).collect(),
            due_at: None,
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.due_at
    }

    /// A segment of a connection has come: its mobile takes part in its cell.
    pub(super) fn on_segment<P: Payload>(
        &mut self,
        flow_id: FlowId,
        tables: Tables<'_, P>,
        now: Instant,
    ) {
        if self.cells.is_empty() {
            return;
        }
        let Some(Connection { flow, scheme }) = tables.flows.at_mut(flow_id) else {
            return;
        };
        let Some(mobile) = tables.mobiles.at_mut(flow.mobile) else {
            return;
        };
        let member = &mut mobile.cell;
        let Some(cell) = member.cell.and_then(|cell| self.cells.get_mut(cell)) else {
            return;
        };
        if !member.is_active {
            member.is_active = true;
            member.sharing_flows = 0;
            cell.active.push(flow.mobile);
            cell.weights += u64::from(member.weight);
            if self.due_at.is_none() {
                cell.divided_at = now;
                self.due_at = Some(now + PERIOD);
            }
        }
        let share = scheme.get_mut().share_mut().filter(|_| flow.has_own_sender);
        if let Some(share) = share.filter(|share| share.assigned.is_none()) {
            member.sharing_flows = member.sharing_flows.saturating_add(1);
            let part = cell.part(member.weight);
            let flows = u64::from(member.sharing_flows);
            share.assign(part.map(|part| (part / flows).max(1)));
        }
    }

    /// Divides the cells if that is due.
    pub(super) fn handle_timeout<P: Payload>(&mut self, mut tables: Tables<'_, P>, now: Instant) {
        if self.due_at.is_none_or(|at| at > now) {
            return;
        }
        for cell in &mut self.cells {
            cell.divide(&mut tables, now);
        }
        let busy = self.cells.iter().any(|cell| !cell.active.is_empty());
        self.due_at = busy.then(|| now + PERIOD);
    }
}

impl Cell {
    /// Each mobile that needs some of the capacity gets its share; the others take part no longer.
    fn divide<P: Payload>(&mut self, tables: &mut Tables<'_, P>, now: Instant) {
        let elapsed = now
            .saturating_since(self.divided_at)
            .max(Duration::from_millis(1));
        self.divided_at = now;
        self.weights = 0;
        let active = core::mem::take(&mut self.active);
        let Demand {
            mobiles,
            needs,
            delivered,
            queue,
        } = tables.demand(active, elapsed);
        let wanted = needs.iter().any(|need| need.bytes_per_s.is_none());
        let (queue, capacity) = (queue.unwrap_or_default(), self.capacity());
        let to_drain = self
            .standing_queue
            .queue_to_drain(queue, wanted, delivered, capacity);
        let queue = to_drain.unwrap_or_default();
        self.estimate.update(delivered, queue, wanted);
        self.weights = needs.iter().map(|need| u64::from(need.weight)).sum();
        self.active.clone_from(&mobiles);
        let Some(capacity) = self.capacity() else {
            return;
        };
        // An estimate is already lower because of the queue.
        let capacity = match self.set {
            Some(_) => drained(capacity, queue),
            None => capacity,
        };
        let parts: Vec<_> = needs.iter().map(|need| self.part(need.weight)).collect();
        let shares = shares(capacity, &needs);
        for ((mobile_id, need), (share, part)) in mobiles
            .iter()
            .zip(&needs)
            .zip(shares.into_iter().zip(parts))
        {
            // What seemed to be a queue was a longer path: the round trip without a queue is measured again.
            if let Some(mobile) = tables
                .mobiles
                .at_mut(*mobile_id)
                .filter(|_| to_drain.is_none())
            {
                mobile.rtt.forget_base();
            }
            // A mobile that needs less than its own part may use all of its part at any time.
            let spare = need.bytes_per_s.and(part).unwrap_or_default();
            tables.share_mobile(*mobile_id, share.max(spare).max(1));
        }
    }
}

impl<P: Payload> Tables<'_, P> {
    /// What these mobiles have received and need.
    fn demand(&mut self, active: Vec<MobileId>, elapsed: Duration) -> Demand {
        let mut demand = Demand::default();
        for mobile_id in active {
            let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
                continue;
            };
            demand.delivered += rate(core::mem::take(&mut mobile.cell.acked_bytes), elapsed);
            let away = mobile.is_away();
            if let Some(waited) = mobile.rtt.take_queue().filter(|_| !away) {
                let least = demand.queue.unwrap_or(waited);
                demand.queue = Some(least.min(waited));
            }
            if let Some(need) = self.need_of(mobile_id, elapsed) {
                demand.mobiles.push(mobile_id);
                demand.needs.push(need);
            } else if let Some(mobile) = self.mobiles.at_mut(mobile_id) {
                // Its share stays, for data that an outage may have delayed.
                mobile.cell.is_active = false;
            }
        }
        demand
    }

    /// What a mobile has needed of late, and its weight; none: nothing. Its connections that
    /// need nothing lose their shares.
    fn need_of(&mut self, mobile_id: MobileId, elapsed: Duration) -> Option<Need> {
        let mobile = self.mobiles.at_mut(mobile_id)?;
        let away = mobile.is_away();
        let mut bytes = core::mem::take(&mut mobile.cell.forwarded_bytes);
        let mut greedy = !away && mobile.is_recovering() && !mobile.send_queue.is_empty();
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
            weight: mobile.cell.weight,
            bytes_per_s: (!greedy).then(|| rate(bytes, elapsed)),
        };
        (greedy || bytes > 0).then_some(need)
    }

    /// Assigns a mobile's share, and the shares of its connections.
    fn share_mobile(&mut self, mobile_id: MobileId, share: u64) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        mobile.cell.share = Some(share);
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
        mobile.cell.sharing_flows = flows.len() as u32;
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
