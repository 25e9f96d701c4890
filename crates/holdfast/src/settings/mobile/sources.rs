// SPDX-License-Identifier: Apache-2.0
//! `[sources]`: the mobile's link sources, beside the interface's carrier.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::link_prediction::PredictionSettings;
use holdfast_settings::sources::Sources;

/// The signal of a Wi-Fi link (RSSI) that is down, dBm.
const WIFI_GONE_DBM: f64 = -85.0;
/// The same of a modem's: RSRP of LTE and 5G.
const MODEM_GONE_DBM: f64 = -115.0;

/// Which modem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModemChoice {
    /// The one that has the interface.
    OfInterface,
    /// The one with this D-Bus path.
    Path(String),
}

/// What tells the daemon of the link, beside the carrier.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceSettings {
    /// The interface's Wi-Fi.
    pub(crate) wifi: bool,
    /// The level of which the driver tells, dBm.
    pub(crate) wifi_threshold_dbm: Option<i32>,
    /// A modem.
    pub(crate) modem: Option<ModemChoice>,
    /// A program.
    pub(crate) script: Option<PathBuf>,
    /// Time between two questions for the signal.
    pub(crate) poll: Duration,
    /// When a trend of Wi-Fi's signal is a warning, if it is to be.
    pub(crate) wifi_prediction: Option<PredictionSettings>,
    /// The same of a modem's or a script's.
    pub(crate) modem_prediction: Option<PredictionSettings>,
}

impl From<Sources> for SourceSettings {
    fn from(keys: Sources) -> Self {
        let prediction = |gone_dbm: f64| {
            keys.predict.then(|| PredictionSettings {
                gone_dbm: keys.gone_dbm.unwrap_or(gone_dbm),
                rearm_db: keys.rearm_db,
                window: keys.trend,
                horizon: keys.horizon,
            })
        };
        Self {
            wifi: keys.wifi,
            wifi_threshold_dbm: keys.wifi_threshold_dbm.map(|dbm| dbm.round() as i32),
            wifi_prediction: prediction(WIFI_GONE_DBM),
            modem_prediction: prediction(MODEM_GONE_DBM),
            modem: keys.modem.map(modem),
            script: keys.script.map(PathBuf::from),
            poll: keys.poll,
        }
    }
}

fn modem(text: String) -> ModemChoice {
    match text.as_str() {
        "auto" => ModemChoice::OfInterface,
        _ => ModemChoice::Path(text),
    }
}
