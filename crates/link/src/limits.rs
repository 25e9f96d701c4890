// SPDX-License-Identifier: Apache-2.0
//! Ranges of settings, and the error of a setting out of its range.

use std::fmt;

/// An invalid setting: the key, what it got and what it takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: got {got}, takes {takes}")]
pub struct SettingsError {
    /// The key, with those of the tables it is in.
    pub key: String,
    /// What it got.
    pub got: String,
    /// What it takes.
    pub takes: String,
}

impl SettingsError {
    /// An error about `key`.
    pub fn new(key: &str, got: impl fmt::Display, takes: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            got: got.to_string(),
            takes: takes.into(),
        }
    }

    /// The same error with the name of the table that the key is in.
    pub fn within(mut self, table: &str) -> Self {
        self.key = format!("{table}.{}", self.key);
        self
    }
}

/// `value` if it is from `min` to `max`; NaN is not.
pub(crate) fn in_range(
    key: &str,
    value: f64,
    min: f64,
    max: f64,
    unit: &str,
) -> Result<f64, SettingsError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(SettingsError::new(
        key,
        value,
        format!("{min} to {max} {unit}"),
    ))
}

pub(crate) fn probability(key: &str, value: f64) -> Result<f64, SettingsError> {
    in_range(key, value, 0.0, 1.0, "(a probability)")
}
