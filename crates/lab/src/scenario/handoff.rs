// SPDX-License-Identifier: Apache-2.0
//! `gateway.handoff`: the handoff between the base stations of several cells. Its parameters are
//! those of the gateway's settings file.

use holdfast_files::document::{DocumentError, TableReader, differing};
use holdfast_settings::handoff::HandoffSettings;
use serde::{Deserialize, Serialize};
use toml::Table;

use super::keys::Keys;

/// The table. Missing keys have the gateway's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HandoffConditions {
    kind: HandoffChoice,
    settings: HandoffSettings,
}

/// The key that only scenarios have.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HandoffKeys {
    kind: HandoffChoice,
}

/// The kind of handoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandoffChoice {
    /// Each base station is a gateway that does not know the others.
    #[default]
    None,
    /// Neighbours get the MH's packets too, by multicast, and queue them (Snoop, 3.3).
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

    /// Whether the base stations know each other.
    pub fn is_on(&self) -> bool {
        self.kind != HandoffChoice::None
    }

    /// Adds its keys; the parameters are only added if the base stations know each other.
    pub(super) fn add_to(&self, keys: &mut Keys) {
        keys.add("gateway.handoff.kind", self.kind);
        if self.is_on() {
            keys.add("gateway.handoff", &self.settings);
        }
    }

    /// The settings for the engine.
    pub fn settings(&self) -> HandoffSettings {
        self.settings.clone()
    }

    /// The lines of the gateway's section `[handoff]`, without the station's own name and its
    /// neighbours.
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
