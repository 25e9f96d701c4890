// SPDX-License-Identifier: Apache-2.0
//! `[sources]`: the mobile's link sources, beside the interface's carrier.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_settings::sources::Sources;

use crate::settings::SettingsError;
use crate::settings::file::SectionValues;

/// The modem to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModemChoice {
    /// The modem that has the interface.
    OfInterface,
    /// The modem with this D-Bus path.
    Path(String),
}

/// The link sources beside the carrier.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceSettings {
    /// Whether to watch the interface's Wi-Fi.
    pub(crate) wifi: bool,
    /// The driver reports when the signal crosses this level, dBm.
    pub(crate) wifi_threshold_dbm: Option<i32>,
    /// A handoff begins when another access point is stronger by this many dB.
    pub(crate) wifi_stronger_db: Option<i32>,
    /// The program that then lets the interface roam.
    pub(crate) wifi_roam_command: Option<PathBuf>,
    /// The modem to watch.
    pub(crate) modem: Option<ModemChoice>,
    /// The program whose lines are events.
    pub(crate) script: Option<PathBuf>,
    /// Time between two queries of the signal.
    pub(crate) poll: Duration,
}

impl SourceSettings {
    /// # Errors
    /// A key is wrong, or needs another key that is missing.
    pub(super) fn read(section: &SectionValues<'_>) -> Result<Self, SettingsError> {
        let keys = section.read::<Sources>()?;
        let given = [
            ("wifi_threshold_dbm", keys.wifi_threshold_dbm.is_some()),
            ("wifi_stronger_db", keys.wifi_stronger_db.is_some()),
        ];
        let useless = given.iter().find(|(_, is_given)| *is_given && !keys.wifi);
        if let Some((key, _)) = useless {
            let problem = "is given without `sources.wifi`; takes `wifi = true` too, or goes";
            return Err(section.error(key, problem));
        }
        if keys.wifi_roam_command.is_some() && keys.wifi_stronger_db.is_none() {
            let problem = "is given without `sources.wifi_stronger_db`; takes that too, or goes";
            return Err(section.error("wifi_roam_command", problem));
        }
        Ok(Self {
            wifi: keys.wifi,
            wifi_threshold_dbm: keys.wifi_threshold_dbm.map(|dbm| dbm.round() as i32),
            wifi_stronger_db: keys.wifi_stronger_db,
            wifi_roam_command: keys.wifi_roam_command.map(PathBuf::from),
            modem: keys.modem.map(modem),
            script: keys.script.map(PathBuf::from),
            poll: keys.poll,
        })
    }
}

fn modem(text: String) -> ModemChoice {
    match text.as_str() {
        "auto" => ModemChoice::OfInterface,
        _ => ModemChoice::Path(text),
    }
}
