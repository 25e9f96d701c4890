// SPDX-License-Identifier: Apache-2.0
//! All keys that a run reads, with their values, also those with defaults: so a line does not
//! depend on the defaults of another version.

use serde_json::{Map, Value as Json};

use super::Conditions;
use crate::scenario::hop::HopConditions;
use crate::scenario::keys::Keys;
use crate::scenario::sweep::Parameters;

impl Conditions {
    /// All keys of these conditions, not drawn, with their values; null: none. Keys that the scheme
    /// does not read are left out: tables of other schemes, and handoffs if there is one cell.
    ///
    /// A hop's own keys are those of the downlink, and `uplink` has those of the other direction.
    /// Each host has a table of its own.
    pub(crate) fn complete(&self) -> Parameters {
        let mut keys = Keys::default();
        keys.add("record", &self.record);
        let interval_ms = self.record_interval.as_nanos() as f64 / 1e6;
        keys.add("record_interval_ms", interval_ms);
        keys.add("transfer", &self.transfer);
        keys.add("wired", self.wired.as_ref().map(HopConditions::table));
        let wireless = self.wireless.table();
        let cells = match self.cells.as_slice() {
            [_] => Vec::new(),
            several => several
                .iter()
                .map(|cell| differing(cell.table(), &wireless))
                .collect(),
        };
        keys.add("wireless", wireless);
        keys.add("cells", cells);
        keys.add("movement", &self.movement);
        self.gateway.add_to(&mut keys, self.cells.len());
        self.mobile.add_to(&mut keys);
        keys.add("fh", &self.fh);
        keys.add("mh", &self.mh);
        keys.add("cross_traffic", &self.cross_traffic);
        keys.0
    }
}

/// The keys of `table` that differ from those of `from`: a cell's from the wireless hop's.
fn differing(mut table: Map<String, Json>, from: &Map<String, Json>) -> Map<String, Json> {
    table.retain(|key, value| from.get(key) != Some(value));
    table
}
