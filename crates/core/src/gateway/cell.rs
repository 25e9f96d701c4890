// SPDX-License-Identifier: Apache-2.0
//! M-TCP's bandwidth management: what the cell carries is shared anew, again and again, among
//! the connections that are split here.
//!
//! One cell: all that lies behind the gateway's wireless interface.

use core::time::Duration;

use holdfast_wire::Instant;

use super::Gateway;
use crate::Payload;
use crate::bandwidth::{Need, shares};

/// Shares hold so long.
const PERIOD: Duration = Duration::from_millis(250);

impl<P: Payload> Gateway<P> {
    /// A connection has been split, or was heard: its cell is looked after.
    pub(super) fn watch_cell(&mut self, place: u32, now: Instant) {
        let Some(capacity) = self.settings.mtcp.cell_bytes_per_s else {
            return;
        };
        let Some(flow) = self.flows.at_mut(place).filter(|flow| flow.is_split()) else {
            return;
        };
        self.cell_at.get_or_insert(now + PERIOD);
        if !flow.mtcp.is_assigned() {
            flow.mtcp.assign(Some(capacity));
            self.share_cell(now);
        }
    }

    /// The shares are due.
    pub(super) fn on_cell_due(&mut self, now: Instant) {
        if self.cell_at.is_some_and(|at| at <= now) {
            self.cell_at = None;
            if self.share_cell(now) {
                self.cell_at = Some(now + PERIOD);
            }
        }
    }

    /// Every connection gets its share. True if there is one that needs any.
    fn share_cell(&mut self, now: Instant) -> bool {
        let Some(capacity) = self.settings.mtcp.cell_bytes_per_s else {
            return false;
        };
        let elapsed = now.saturating_since(self.cell_shared).max(PERIOD);
        self.cell_shared = now;
        let (mut places, mut needs) = (Vec::new(), Vec::new());
        for place in 0..self.flows.places() {
            let Some(flow) = self.flows.at_mut(place).filter(|flow| flow.is_split()) else {
                continue;
            };
            let backlog = flow.has_backlog() && !flow.mtcp.is_frozen();
            let offered = u128::from(flow.mtcp.take_offered()) * 1_000_000_000;
            let offered = u64::try_from(offered / elapsed.as_nanos()).unwrap_or(u64::MAX);
            if flow.mtcp.is_frozen() || (offered == 0 && !backlog) {
                continue;
            }
            places.push(place);
            needs.push(Need {
                weight: 1,
                bytes_per_s: if backlog { None } else { Some(offered) },
            });
        }
        let own = capacity / (needs.len() as u64).max(1);
        for ((place, need), share) in places.iter().zip(&needs).zip(shares(capacity, &needs)) {
            if let Some(flow) = self.flows.at_mut(*place) {
                // Who needs less than its own part may take up to that at any time.
                let spare = need.bytes_per_s.map_or(0, |_| own);
                flow.mtcp.assign(Some(share.max(spare).max(1)));
            }
        }
        !places.is_empty()
    }
}
