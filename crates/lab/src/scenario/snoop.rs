// SPDX-License-Identifier: Apache-2.0
//! `[gateway.snoop]`: the parameters of the scheme `snoop`, named as in the gateway's own
//! settings file.

use holdfast_core::SnoopSettings;
use serde::{Deserialize, Serialize};

use crate::document::DocumentError;

/// The table. What is not given is the set's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SnoopConditions {
    /// Which Snoop.
    pub set: SnoopSetChoice,
    /// Weight of a new measurement in `srtt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Retransmitted again after so many `srtt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmit_srtts: Option<u32>,
    /// But no sooner than after this time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmit_interval_min_ms: Option<f64>,
    /// Time without a packet of either end until the first unacknowledged one is
    /// retransmitted, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persist_ms: Option<f64>,
    /// Bytes of a flow up to which packets in sequence are cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_water_mark_bytes: Option<u64>,
    /// Packets beyond a hole in what the MH sends until it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nack_threshold_packets: Option<u32>,
    /// Or this time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nack_wait_ms: Option<f64>,
    /// The part of the FH's retransmission timeout for which a hole is hidden at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hide_rtos: Option<f64>,
    /// The part of the path's shortest round trip that the link's queue may hold before a
    /// loss counts as congestion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congested_rtts: Option<f64>,
}

/// The sets of parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnoopSetChoice {
    /// For today's senders.
    #[default]
    #[serde(rename = "today")]
    Today,
    /// As published.
    #[serde(rename = "1995")]
    Paper1995,
}

impl SnoopConditions {
    /// The ranges are those of the gateway's settings file.
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        let whole = |own: Option<u32>| own.map(f64::from);
        let bytes = self.high_water_mark_bytes.map(|bytes| bytes as f64);
        for (key, value, min, max) in [
            ("alpha", self.alpha, 0.001, 1.0),
            ("retransmit_srtts", whole(self.retransmit_srtts), 1.0, 100.0),
            (
                "retransmit_interval_min_ms",
                self.retransmit_interval_min_ms,
                1.0,
                10_000.0,
            ),
            ("persist_ms", self.persist_ms, 1.0, 60_000.0),
            ("high_water_mark_bytes", bytes, 1024.0, 1_073_741_824.0),
            (
                "nack_threshold_packets",
                whole(self.nack_threshold_packets),
                1.0,
                1000.0,
            ),
            ("nack_wait_ms", self.nack_wait_ms, 1.0, 10_000.0),
            ("hide_rtos", self.hide_rtos, 0.0, 100.0),
            ("congested_rtts", self.congested_rtts, 0.0, 1000.0),
        ] {
            if value.is_some_and(|value| !(min..=max).contains(&value)) {
                return Err(DocumentError::at(key, format!("takes {min} to {max}")));
            }
        }
        Ok(())
    }

    /// As the engine has them.
    pub fn settings(&self) -> SnoopSettings {
        let set = match self.set {
            SnoopSetChoice::Today => SnoopSettings::today(),
            SnoopSetChoice::Paper1995 => SnoopSettings::paper_1995(),
        };
        let millis = |own: Option<f64>, set: core::time::Duration| {
            own.map_or(set, |ms| core::time::Duration::from_secs_f64(ms / 1e3))
        };
        SnoopSettings {
            set: set.set,
            alpha: self.alpha.unwrap_or(set.alpha),
            retransmit_srtts: self.retransmit_srtts.unwrap_or(set.retransmit_srtts),
            retransmit_interval_min: millis(
                self.retransmit_interval_min_ms,
                set.retransmit_interval_min,
            ),
            persist: millis(self.persist_ms, set.persist),
            high_water_mark_bytes: self
                .high_water_mark_bytes
                .map_or(set.high_water_mark_bytes, |bytes| bytes as usize),
            nack_threshold_packets: self
                .nack_threshold_packets
                .unwrap_or(set.nack_threshold_packets),
            nack_wait: millis(self.nack_wait_ms, set.nack_wait),
            hide_rtos: self.hide_rtos.unwrap_or(set.hide_rtos),
            congested_rtts: self.congested_rtts.unwrap_or(set.congested_rtts),
        }
    }

    /// The section of the gateway's settings file.
    ///
    /// # Errors
    /// None is known: every value can be written.
    pub fn to_section(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("[snoop]\n{}", toml::to_string(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "set = \"1995\"\nalpha = 0.5\nretransmit_srtts = 3\n\
        retransmit_interval_min_ms = 7.5\npersist_ms = 100.0\nhigh_water_mark_bytes = 32768\n\
        nack_threshold_packets = 4\nnack_wait_ms = 50.0\nhide_rtos = 2.0\ncongested_rtts = 0.125\n";

    #[test]
    fn without_keys_the_sets_are_the_engines() {
        for (text, expected) in [
            ("", SnoopSettings::today()),
            ("set = \"today\"", SnoopSettings::today()),
            ("set = \"1995\"", SnoopSettings::paper_1995()),
        ] {
            let own: SnoopConditions = toml::from_str(text).unwrap();
            own.check().unwrap();
            assert_eq!(format!("{:?}", own.settings()), format!("{expected:?}"));
        }
    }

    #[test]
    fn what_is_given_goes_to_the_engine_and_into_the_gateways_file() {
        let own: SnoopConditions = toml::from_str(ALL).unwrap();
        assert_eq!(own.to_section().unwrap(), format!("[snoop]\n{ALL}"));
        let settings = own.settings();
        assert_eq!(
            format!("{settings:?}"),
            "SnoopSettings { set: Paper1995, alpha: 0.5, retransmit_srtts: 3, \
             retransmit_interval_min: 7.5ms, persist: 100ms, high_water_mark_bytes: 32768, \
             nack_threshold_packets: 4, nack_wait: 50ms, hide_rtos: 2.0, congested_rtts: 0.125 }"
        );
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        for text in [
            "alpha = 0",
            "retransmit_srtts = 0",
            "retransmit_interval_min_ms = 0.5",
            "persist_ms = 60001",
            "high_water_mark_bytes = 1",
            "nack_threshold_packets = 0",
            "nack_wait_ms = nan",
            "hide_rtos = -1",
            "congested_rtts = inf",
        ] {
            let own: SnoopConditions = toml::from_str(text).unwrap();
            let error = format!("{:?}", own.check().unwrap_err());
            let key = text.split(' ').next().unwrap();
            assert!(error.contains(key) && error.contains("takes"), "{error}");
        }
    }
}
