// SPDX-License-Identifier: Apache-2.0
//! `[gateway.mtcp]`: the parameters of the scheme `mtcp`, named as in the gateway's own
//! settings file.

use core::time::Duration;

use holdfast_core::compression::{CompressionSettings, Method};
use holdfast_core::{MtcpHandoff, MtcpPersist, MtcpRelease, MtcpSetUp, MtcpSettings, MtcpShrink};
use serde::{Deserialize, Serialize};

use crate::document::DocumentError;

/// The gateway's own unless one is given.
const COMPRESSION_LEVEL: u8 = 3;

/// The table. What is not given is the set's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MtcpConditions {
    /// Which M-TCP.
    pub set: MtcpSetChoice,
    /// When the FH's window is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrink: Option<MtcpShrinkChoice>,
    /// When an MH that does not answer is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persist: Option<MtcpPersistChoice>,
    /// When the FH hears of the last byte of all that it has sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<MtcpReleaseChoice>,
    /// The wireless half has a congestion window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<bool>,
    /// Segments of it at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window_segments: Option<u32>,
    /// The least that is added to the wireless half's round trip, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_variation_min_ms: Option<f64>,
    /// The largest window that FHs see, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// What becomes of what is kept for a mobile that has gone to another gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff: Option<MtcpHandoffChoice>,
    /// In which order the halves of a connection are set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_up: Option<MtcpSetUpChoice>,
    /// How payload toward the MH is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<MtcpCompressionChoice>,
    /// How hard it is tried, 1 to 9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression_level: Option<u8>,
    /// How long the SH takes for a packet of 1,400 bytes, in milliseconds, on the model; others
    /// in proportion.
    #[serde(skip_serializing)]
    pub compression_ms: Option<f64>,
}

/// Methods of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpCompressionChoice {
    /// None.
    Off,
    /// Each packet on its own: as published.
    Deflate,
    /// With what the MH has acknowledged as a dictionary.
    Zstd,
}

/// What becomes of buffers in a handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpHandoffChoice {
    /// They are discarded.
    Published,
    /// The new gateway asks for them.
    Forward,
}

/// The order of the halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpSetUpChoice {
    /// Both at once.
    LockStep,
    /// That of the end that opens first.
    Early,
}

/// The sets of parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpSetChoice {
    /// For today's senders.
    #[default]
    Today,
    /// As published in 1997.
    Published,
}

/// When the FH's window is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpShrinkChoice {
    /// As soon as the MH is gone.
    Published,
    /// When the FH has repeated itself.
    Late,
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
            (
                "initial_window_segments",
                self.initial_window_segments.map(f64::from),
                1.0,
                1000.0,
            ),
            (
                "compression_level",
                self.compression_level.map(f64::from),
                1.0,
                9.0,
            ),
            ("compression_ms", self.compression_ms, 0.0, 1000.0),
        ] {
            if value.is_some_and(|value| !(min..=max).contains(&value)) {
                return Err(DocumentError::at(key, format!("takes {min} to {max}")));
            }
        }
        Ok(())
    }

    /// How the engine compresses; none: it does not.
    pub fn compression(&self) -> Option<CompressionSettings> {
        let method = match self.compression? {
            MtcpCompressionChoice::Off => return None,
            MtcpCompressionChoice::Deflate => Method::Deflate,
            MtcpCompressionChoice::Zstd => Method::Zstd,
        };
        let level = self.compression_level.unwrap_or(COMPRESSION_LEVEL);
        Some(CompressionSettings { method, level })
    }

    /// As the engine has them.
    pub fn settings(&self) -> MtcpSettings {
        let set = match self.set {
            MtcpSetChoice::Today => MtcpSettings::today(),
            MtcpSetChoice::Published => MtcpSettings::published(),
        };
        MtcpSettings {
            shrink: match self.shrink {
                Some(MtcpShrinkChoice::Published) => MtcpShrink::Published,
                Some(MtcpShrinkChoice::Late) => MtcpShrink::Late,
                None => set.shrink,
            },
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
            initial_window_segments: self
                .initial_window_segments
                .unwrap_or(set.initial_window_segments),
            rto_variation_min: self
                .rto_variation_min_ms
                .map_or(set.rto_variation_min, |ms| {
                    Duration::from_secs_f64(ms / 1e3)
                }),
            window_bytes: self
                .window_bytes
                .map_or(set.window_bytes, |bytes| bytes as usize),
            handoff: match self.handoff {
                Some(MtcpHandoffChoice::Published) => MtcpHandoff::Published,
                Some(MtcpHandoffChoice::Forward) => MtcpHandoff::Forward,
                None => set.handoff,
            },
            set_up: match self.set_up {
                Some(MtcpSetUpChoice::LockStep) => MtcpSetUp::LockStep,
                Some(MtcpSetUpChoice::Early) => MtcpSetUp::Early,
                None => set.set_up,
            },
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

    const ALL: &str = "set = \"published\"\nshrink = \"late\"\npersist = \"round-trip\"\n\
        release = \"at-once\"\nslow_start = false\ninitial_window_segments = 4\nrto_variation_min_ms = 7.5\nwindow_bytes = 32768\n\
        handoff = \"forward\"\nset_up = \"early\"\n";

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
            "MtcpSettings { shrink: Late, persist: RoundTrip, release: AtOnce, slow_start: false, \
             initial_window_segments: 4, rto_variation_min: 7.5ms, window_bytes: 32768, \
             handoff: Forward, set_up: Early }"
        );
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        for text in ["rto_variation_min_ms = 0.5", "window_bytes = 1000"] {
            let own: MtcpConditions = toml::from_str(text).unwrap();
            let error = format!("{:?}", own.check().unwrap_err());
            let key = text.split(' ').next().unwrap();
            assert!(error.contains(key) && error.contains("takes"), "{error}");
        }
    }
}
