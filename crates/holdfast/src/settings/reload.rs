// SPDX-License-Identifier: Apache-2.0
//! A settings file that is read again while the daemon runs.
//!
//! If any key of the file is wrong, nothing changes. Otherwise the live keys are applied; all
//! others keep the values of the start, and are named.

use std::path::Path;

use anyhow::bail;

use super::SettingsError;
use super::file::SettingsFile;
use super::keys::{Key, Section};

/// Keys that a reload of a running gateway applies; a repeated section is one key.
pub(super) const GATEWAY_LIVE: &[&str] = &[
    "gateway.drain_s",
    "gateway.log_filter",
    "gateway.cache_bytes_max",
    "gateway.flow_cache_bytes_max",
    "gateway.flow_cache_entries_max",
    "gateway.silence_min_ms",
    "gateway.probe_interval_min_ms",
    "gateway.probe_interval_max_ms",
    "gateway.flow_idle_max_s",
    "gateway.owed_wait_s",
    "keep.flow_packets_max",
    "keep.bytes_max",
    "keep.age_max_s",
    "signals.registration_lifetime_s",
    "mobile",
];

/// Keys that a reload of a running mobile applies.
pub(super) const MOBILE_LIVE: &[&str] = &[
    "mobile.key_file",
    "mobile.keepalive_s",
    "mobile.log_filter",
    "keep.flow_packets_max",
    "keep.bytes_max",
    "keep.age_max_s",
];

/// Whether a reload applies the key.
pub(super) fn is_live(section: &Section, key: &Key) -> bool {
    if section.is_repeated {
        return GATEWAY_LIVE.contains(&section.name);
    }
    let name = format!("{}.{}", section.name, key.name);
    [GATEWAY_LIVE, MOBILE_LIVE]
        .iter()
        .any(|live| live.contains(&name.as_str()))
}

/// A file that was read again.
#[derive(Debug)]
pub(crate) struct Reloaded<T> {
    /// The settings in force from now on.
    pub(crate) settings: T,
    /// The settings of the whole new file.
    pub(super) wanted: T,
    /// Changed keys that were applied.
    pub(crate) applied: Vec<String>,
    /// Changed keys that only a restart applies.
    pub(crate) left: Vec<String>,
    /// Changed keys without effect, each with the flag or variable that overrides it.
    pub(crate) overridden: Vec<(String, &'static str)>,
}

impl<T> Reloaded<T> {
    /// Reads the file of `running` again. `over` makes the settings of a file. `stands_over`
    /// names what overrides a key. `applies` judges a key; it also gets the settings of the whole new file.
    pub(super) fn read(
        config: Option<&Path>,
        running: &SettingsFile,
        stands_over: impl Fn(&str) -> Option<&'static str>,
        applies: impl Fn(&str, &T) -> bool,
        over: impl Fn(&SettingsFile) -> Result<T, SettingsError>,
    ) -> Result<Self, SettingsError> {
        let newer = running.read_again(config)?;
        // The keys that are not applied must be right too.
        let wanted = over(&newer)?;
        let mut file = running.clone();
        let (mut applied, mut left, mut overridden) = (Vec::new(), Vec::new(), Vec::new());
        for key in newer.differences(running) {
            if let Some(name) = stands_over(&key) {
                // Taken over, so that the next reload does not name the key again.
                file.take_over(&key, &newer);
                overridden.push((key, name));
            } else if applies(&key, &wanted) {
                file.take_over(&key, &newer);
                applied.push(key);
            } else {
                left.push(key);
            }
        }
        Ok(Self {
            settings: over(&file)?,
            wanted,
            applied,
            left,
            overridden,
        })
    }

    /// The file to which the key points was replaced: the key is applied, although its value is the same.
    pub(super) fn note_replaced_file(&mut self, key: &str) {
        if !self.applied.iter().any(|applied| applied == key) {
            self.applied.push(key.to_owned());
        }
    }

    /// Logs which keys have changed, and which were applied.
    ///
    /// Errors: the settings did not reach all packet workers.
    pub(crate) fn announce(&self, has_reached_workers: bool) -> anyhow::Result<()> {
        for (key, name) in &self.overridden {
            let kind = if name.starts_with('-') {
                "flag"
            } else {
                "variable"
            };
            tracing::warn!("{key}: no effect, the {kind} {name} stands over it");
        }
        if !self.left.is_empty() {
            tracing::warn!(
                "{}: not applied, the values of the start stay; restart the daemon to apply them, no \
                 connection is lost",
                self.left.join(", ")
            );
        }
        if !has_reached_workers {
            bail!(
                "the settings were read again, but a packet worker does not answer and keeps its limits \
                 of before; restart the daemon"
            );
        }
        match self.applied.as_slice() {
            [] => tracing::info!("the settings were read again: nothing to apply"),
            keys => tracing::info!("the settings were read again; applied: {}", keys.join(", ")),
        }
        Ok(())
    }
}

/// The error of a reload that has changed nothing.
pub(crate) fn nothing_changed(error: anyhow::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:#}; the settings of before stay in force")
}
