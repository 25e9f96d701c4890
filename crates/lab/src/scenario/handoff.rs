// SPDX-License-Identifier: Apache-2.0
//! `gateway.handoff`: whether the base stations of several cells hand an MH over, with the
//! parameters of the gateway's own settings file.

use holdfast_files::document::{DocumentError, TableReader, differing};
use holdfast_settings::handoff::HandoffSettings;
use serde::{Deserialize, Serialize};
use toml::Table;

use super::keys::Keys;

/// The table. What is not given is the gateway's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HandoffConditions {
    kind: HandoffChoice,
    settings: HandoffSettings,
}

/// The key of scenarios alone.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HandoffKeys {
    kind: HandoffChoice,
}

/// How an MH is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandoffChoice {
    /// Each base station is a gateway that knows of no other.
    #[default]
    None,
    /// Its packets go to the neighbours too, by multicast, and they queue them (Snoop, 3.3).
    Multicast,
}

impl HandoffConditions {
    /// Reads the table, with the ranges of the gateway's settings file.
    pub(super) fn read(table: Table) -> Result<Self, DocumentError> {
        let given = table.clone();
        let mut read = TableReader::new(table);
        let HandoffKeys { kind } = read.take(&HandoffKeys::default())?;
        let settings: HandoffSettings = read.take(&HandoffSettings::default())?;
        read.finish(&[])?;
        settings
            .check()
            .map_err(|error| error.of_given(|key| given.contains_key(key)))
            .map_err(|(key, problem)| DocumentError::at(key, problem))?;
        Ok(Self { kind, settings })
    }

    /// Whether the stations know of each other.
    pub fn is_on(&self) -> bool {
        self.kind != HandoffChoice::None
    }

    /// Adds its keys; the parameters only if the stations know of each other.
    pub(super) fn add_to(&self, keys: &mut Keys) {
        keys.add("gateway.handoff.kind", self.kind);
        if self.is_on() {
            keys.add("gateway.handoff", &self.settings);
        }
    }

    /// As the engine has them.
    pub fn settings(&self) -> HandoffSettings {
        self.settings.clone()
    }

    /// The lines of the section of the gateway's settings file that are not about a
    /// station's own name and neighbours.
    pub fn to_lines(&self) -> String {
        differing(&self.settings, &HandoffSettings::default()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> Result<HandoffConditions, DocumentError> {
        HandoffConditions::read(text.parse().expect("TOML"))
    }

    #[test]
    fn what_is_given_goes_to_the_engine_and_into_the_gateways_file() {
        let text = "always = true\nbuffer_s = 2.5\nmobile_buffer_bytes_max = \"100000 B\"\n\
                    sync_wait_ms = 7.5\n";
        let own = read(&format!("kind = 'multicast'\n{text}")).unwrap();
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
            let error = read(text).unwrap_err().to_string();
            let key = text.split(' ').next().unwrap();
            assert!(error.contains(key) && error.contains("takes"), "{error}");
        }
    }
}
