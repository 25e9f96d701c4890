// SPDX-License-Identifier: Apache-2.0
//! Keys of a scenario with their values, as a line of results has them.

use holdfast_settings::kind::parse_size;
use serde::Serialize;
use serde_json::{Number, Value as Json};

use super::sweep::Parameters;

/// Keys with the tables that they are in: `wireless.delay_ms`.
#[derive(Debug, Default)]
pub(super) struct Keys(pub(super) Parameters);

impl Keys {
    /// Adds a key; for a table, adds each of its keys. Lists are not split.
    pub(super) fn add(&mut self, key: &str, value: impl Serialize) {
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
pub(super) fn json(value: impl Serialize) -> Json {
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

/// The same number without a fraction; none: it is an integer type already, or not whole.
fn whole(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let is_whole = float.fract() == 0.0 && float.abs() < 1e15;
    is_whole.then(|| Number::from(float as i64))
}
