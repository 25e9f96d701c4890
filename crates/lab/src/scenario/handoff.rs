// SPDX-License-Identifier: Apache-2.0
//! `gateway.handoff`: whether the base stations of several cells hand an MH over, with the
//! parameters of the gateway's own settings file.

use core::time::Duration;
use std::fmt::Write as _;

use holdfast_core::handoff::HandoffSettings;
use serde::Deserialize;

use crate::document::DocumentError;

/// The table. What is not given is the gateway's default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HandoffConditions {
    /// Whether.
    pub kind: HandoffChoice,
    /// The neighbours keep packets always, not only when they are asked to.
    pub always: Option<bool>,
    /// How long they keep them after they were last asked to, in seconds.
    pub buffer_s: Option<f64>,
    /// How long a mobile's packets are kept back while the station before is awaited, in
    /// milliseconds.
    pub sync_wait_ms: Option<f64>,
    /// Bytes kept at most for one mobile at one station.
    pub mobile_buffer_bytes_max: Option<u64>,
}

/// How an MH is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandoffChoice {
    /// Each base station is a gateway that knows of no other.
    #[default]
    None,
    /// Its packets go to the neighbours too, by multicast, and they keep them (Snoop, 3.3).
    Multicast,
}

impl HandoffConditions {
    /// Whether the stations know of each other.
    pub fn is_on(&self) -> bool {
        self.kind != HandoffChoice::None
    }

    /// The ranges are those of the gateway's settings file.
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        let bytes = self.mobile_buffer_bytes_max.map(|bytes| bytes as f64);
        for (key, value, min, max) in [
            ("buffer_s", self.buffer_s, 0.1, 600.0),
            ("sync_wait_ms", self.sync_wait_ms, 1.0, 10_000.0),
            ("mobile_buffer_bytes_max", bytes, 16_384.0, 67_108_864.0),
        ] {
            if value.is_some_and(|value| !(min..=max).contains(&value)) {
                return Err(DocumentError::at(key, format!("takes {min} to {max}")));
            }
        }
        Ok(())
    }

    /// As the engine has them.
    pub fn settings(&self) -> HandoffSettings {
        let own = HandoffSettings::default();
        HandoffSettings {
            always: self.always.unwrap_or(own.always),
            buffer_time: self
                .buffer_s
                .map_or(own.buffer_time, Duration::from_secs_f64),
            sync_wait: self
                .sync_wait_ms
                .map_or(own.sync_wait, |ms| Duration::from_secs_f64(ms / 1e3)),
            mobile_buffer_bytes_max: self
                .mobile_buffer_bytes_max
                .map_or(own.mobile_buffer_bytes_max, |bytes| bytes as usize),
            ..own
        }
    }

    /// The lines of the section of the gateway's settings file that are not about a
    /// station's own name and neighbours.
    pub fn to_lines(&self) -> String {
        let mut lines = String::new();
        let values = [
            ("always", self.always.map(|value| value.to_string())),
            ("buffer_s", self.buffer_s.map(|value| value.to_string())),
            ("sync_wait_ms", self.sync_wait_ms.map(|ms| ms.to_string())),
            (
                "mobile_buffer_bytes_max",
                self.mobile_buffer_bytes_max.map(|bytes| bytes.to_string()),
            ),
        ];
        for (key, value) in values {
            if let Some(value) = value {
                let _ = writeln!(lines, "{key} = {value}");
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_goes_to_the_engine_and_into_the_gateways_file() {
        let text = "always = true\nbuffer_s = 2.5\nsync_wait_ms = 7.5\n\
                    mobile_buffer_bytes_max = 100000\n";
        let own: HandoffConditions =
            toml::from_str(&format!("kind = 'multicast'\n{text}")).unwrap();
        own.check().unwrap();
        assert!(own.is_on());
        assert_eq!(own.to_lines(), text);
        let settings = own.settings();
        assert!(settings.always);
        assert_eq!(settings.buffer_time, Duration::from_millis(2500));
        assert_eq!(settings.sync_wait, Duration::from_micros(7500));
        assert_eq!(settings.mobile_buffer_bytes_max, 100_000);
        assert_eq!(HandoffConditions::default().to_lines(), "");
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        for text in [
            "buffer_s = 0",
            "sync_wait_ms = nan",
            "mobile_buffer_bytes_max = 1",
        ] {
            let own: HandoffConditions = toml::from_str(text).unwrap();
            let error = own.check().unwrap_err().to_string();
            let key = text.split(' ').next().unwrap();
            assert!(error.contains(key) && error.contains("takes"), "{error}");
        }
    }
}
