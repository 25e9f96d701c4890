// SPDX-License-Identifier: Apache-2.0
//! All keys that a run reads, with their values, those too that its scenario leaves at their
//! defaults: another version's defaults change no line.

use holdfast_settings::kind::parse_size;
use serde::Serialize;
use serde_json::{Map, Number, Value as Json};

use super::Conditions;
use crate::scenario::hop::HopConditions;
use crate::scenario::sweep::Parameters;

/// Keys with the tables that they are in: `wireless.delay_ms`.
#[derive(Debug, Default)]
pub(in crate::scenario) struct Keys(Parameters);

impl Keys {
    /// Adds a key; of a table each of its keys. Lists stay whole.
    pub(in crate::scenario) fn add(&mut self, key: &str, value: impl Serialize) {
        self.add_json(key.to_owned(), plain(&json(value), key));
    }

    fn add_json(&mut self, key: String, value: Json) {
        match value {
            Json::Object(table) => {
                for (name, value) in table {
                    self.add_json(format!("{key}.{name}"), value);
                }
            }
            value => {
                self.0.insert(key, value);
            }
        }
    }
}

/// A value as JSON.
pub(in crate::scenario) fn json(value: impl Serialize) -> Json {
    serde_json::to_value(value).unwrap_or(Json::Null)
}

/// A value as a scenario's author would write it: whole numbers without a point, and sizes as
/// numbers, because their keys name the unit.
fn plain(value: &Json, key: &str) -> Json {
    match value {
        Json::Number(number) => Json::Number(whole(number).unwrap_or_else(|| number.clone())),
        Json::String(text) if key.contains("bytes") => {
            parse_size(text).map_or_else(|| value.clone(), Json::from)
        }
        Json::Array(items) => items.iter().map(|item| plain(item, key)).collect(),
        Json::Object(table) => {
            let keys = table
                .iter()
                .map(|(name, value)| (name.clone(), plain(value, name)));
            Json::Object(keys.collect())
        }
        other => other.clone(),
    }
}

/// The same number without a point; none: it has none, or is not whole.
fn whole(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let is_whole = float.fract() == 0.0 && float.abs() < 1e15;
    is_whole.then(|| Number::from(float as i64))
}

impl Conditions {
    /// All keys of these conditions, not drawn, with their values. Null: none. What a scheme does
    /// not read is not there: the tables of other schemes, and handoffs with one cell.
    ///
    /// A hop's own keys are the downlink's, and `uplink` has those of the other direction; both
    /// hosts have each their own table.
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

/// What a table has differently from another one: a cell's from the wireless hop's.
fn differing(mut table: Map<String, Json>, from: &Map<String, Json>) -> Map<String, Json> {
    table.retain(|key, value| from.get(key) != Some(value));
    table
}
