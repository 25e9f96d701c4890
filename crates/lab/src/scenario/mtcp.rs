// SPDX-License-Identifier: Apache-2.0
//! `[gateway.mtcp]`: the parameters of the scheme `mtcp`, named as in the gateway's own
//! settings file.

use core::time::Duration;

use holdfast_core::{MtcpPersist, MtcpRelease, MtcpSettings};
use serde::{Deserialize, Serialize};

use crate::document::DocumentError;

/// The table. What is not given is the gateway's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MtcpConditions {
    /// When an MH that does not answer is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persist: Option<MtcpPersistChoice>,
    /// When the FH hears of the last byte of all that it has sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<MtcpReleaseChoice>,
    /// The wireless half has a congestion window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<bool>,
    /// The least that is added to the wireless half's round trip, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_variation_min_ms: Option<f64>,
    /// The largest window that FHs see, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// What the cell carries, kilobits of payload a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell_kbps: Option<u64>,
}

/// The intervals of persist packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpPersistChoice {
    /// From 5 s doubling to 60 s.
    Published,
    /// The round trip of the wireless half.
    RoundTrip,
}

/// When the last byte is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpReleaseChoice {
    /// When the wintimer expires.
    Wintimer,
    /// At once.
    AtOnce,
}

impl MtcpConditions {
    /// The ranges are those of the gateway's settings file.
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        let whole = |own: Option<u64>| own.map(|own| own as f64);
        for (key, value, min, max) in [
            (
                "rto_variation_min_ms",
                self.rto_variation_min_ms,
                1.0,
                10_000.0,
            ),
            (
                "window_bytes",
                whole(self.window_bytes),
                2048.0,
                1_073_741_824.0,
            ),
            ("cell_kbps", whole(self.cell_kbps), 1.0, 100_000_000.0),
        ] {
            if value.is_some_and(|value| !(min..=max).contains(&value)) {
                return Err(DocumentError::at(key, format!("takes {min} to {max}")));
            }
        }
        Ok(())
    }

    /// As the engine has them.
    pub fn settings(&self) -> MtcpSettings {
        let set = MtcpSettings::default();
        MtcpSettings {
            persist: match self.persist {
                Some(MtcpPersistChoice::Published) => MtcpPersist::Published,
                Some(MtcpPersistChoice::RoundTrip) => MtcpPersist::RoundTrip,
                None => set.persist,
            },
            release: match self.release {
                Some(MtcpReleaseChoice::Wintimer) => MtcpRelease::Wintimer,
                Some(MtcpReleaseChoice::AtOnce) => MtcpRelease::AtOnce,
                None => set.release,
            },
            slow_start: self.slow_start.unwrap_or(set.slow_start),
            rto_variation_min: self
                .rto_variation_min_ms
                .map_or(set.rto_variation_min, |ms| {
                    Duration::from_secs_f64(ms / 1e3)
                }),
            window_bytes: self
                .window_bytes
                .map_or(set.window_bytes, |bytes| bytes as usize),
            cell_bytes_per_s: self
                .cell_kbps
                .map_or(set.cell_bytes_per_s, |kbps| Some(kbps * 1000 / 8)),
        }
    }

    /// The section of the gateway's settings file.
    ///
    /// # Errors
    /// None is known: every value can be written.
    pub fn to_section(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("[mtcp]\n{}", toml::to_string(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "persist = \"round-trip\"\nrelease = \"at-once\"\nslow_start = false\n\
        rto_variation_min_ms = 7.5\nwindow_bytes = 32768\ncell_kbps = 32\n";

    #[test]
    fn without_keys_the_values_are_the_engines() {
        let own: MtcpConditions = toml::from_str("").unwrap();
        own.check().unwrap();
        let expected = format!("{:?}", MtcpSettings::default());
        assert_eq!(format!("{:?}", own.settings()), expected);
    }

    #[test]
    fn what_is_given_goes_to_the_engine_and_into_the_gateways_file() {
        let own: MtcpConditions = toml::from_str(ALL).unwrap();
        own.check().unwrap();
        assert_eq!(own.to_section().unwrap(), format!("[mtcp]\n{ALL}"));
        assert_eq!(
            format!("{:?}", own.settings()),
            "MtcpSettings { persist: RoundTrip, release: AtOnce, slow_start: false, \
             rto_variation_min: 7.5ms, window_bytes: 32768, cell_bytes_per_s: Some(4000) }"
        );
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        for text in [
            "rto_variation_min_ms = 0.5",
            "window_bytes = 1000",
            "cell_kbps = 0",
        ] {
            let own: MtcpConditions = toml::from_str(text).unwrap();
            let error = format!("{:?}", own.check().unwrap_err());
            let key = text.split(' ').next().unwrap();
            assert!(error.contains(key) && error.contains("takes"), "{error}");
        }
    }
}
