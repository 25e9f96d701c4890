// SPDX-License-Identifier: Apache-2.0
//! `[sources]`: what tells a mobile's daemon of its link, beside the interface's carrier.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::link_prediction::PredictionSettings;
use toml::Value;

use crate::settings::SettingsError;
use crate::settings::file::Section;
use crate::settings::keys::{Key, Kind};

/// `[sources]`.
pub(crate) const SOURCE_KEYS: &[Key] = &[
    WIFI,
    WIFI_THRESHOLD,
    MODEM,
    SCRIPT,
    POLL,
    PREDICT,
    GONE,
    REARM,
    TREND,
    HORIZON,
];

/// What a Wi-Fi signal (RSSI) is when it carries nothing any more, dBm.
const WIFI_GONE_DBM: f64 = -85.0;
/// The same of a modem's: RSRP of LTE and 5G.
const MODEM_GONE_DBM: f64 = -115.0;

const WIFI: Key = Key {
    path: "sources.wifi",
    kind: Kind::Flag,
    default: Some("false"),
    example: "true",
    meaning: "Whether to hear the interface's Wi-Fi (nl80211): the link goes when the interface leaves an access \
        point or authenticates with another one, and is back when it is associated; its signal is a sample for `predict`.",
    cost: "A question to the kernel each `poll_ms`. Where there is no Wi-Fi, a line in the log.",
};

const WIFI_THRESHOLD: Key = Key {
    path: "sources.wifi_threshold_dbm",
    kind: Kind::Factor {
        min: -100.0,
        max: -20.0,
    },
    default: None,
    example: "-75",
    meaning: "With `wifi`: the driver tells at once when the signal crosses this level (CQM), between two questions.",
    cost: "It takes the place of the threshold that a supplicant has set for its own background scans.",
};

const MODEM: Key = Key {
    path: "sources.modem",
    kind: Kind::Modem,
    default: None,
    example: "\"auto\"",
    meaning: "A modem of ModemManager, by its D-Bus path (`/org/freedesktop/ModemManager1/Modem/0`), or `auto` for the \
        one that has the interface among its ports: the link goes when the modem's state leaves `connected`, and is \
        back when it has it again; its signal is a sample for `predict`.",
    cost: "ModemManager asks the modem for its signal each `poll_ms`, rounded up to seconds.",
};

const SCRIPT: Key = Key {
    path: "sources.script",
    kind: Kind::Path,
    default: None,
    example: "\"/usr/local/bin/link-watch\"",
    meaning: "A program that the daemon runs, with the interface's name as its argument, and whose lines on standard \
        output are events: `up`, `down`, `going-down-soon`, `going-down-soon 400` (milliseconds), `signal -97` (dBm). \
        It is started again if it ends.",
    cost: "It runs with the daemon's rights.",
};

const POLL: Key = Key {
    path: "sources.poll_ms",
    kind: Kind::Millis {
        min: 50.0,
        max: 60_000.0,
    },
    default: Some("500"),
    example: "500",
    meaning: "Time between two questions for the signal.",
    cost: "Shorter: trends are seen sooner.",
};

const PREDICT: Key = Key {
    path: "sources.predict",
    kind: Kind::Flag,
    default: Some("false"),
    example: "true",
    meaning: "Whether to take the link to go soon when a straight line through the signal's newest samples reaches \
        `gone_dbm` within `horizon_ms`.",
    cost: "A warning of which nothing comes closes the windows of `freeze` for nothing, for some hundred \
        milliseconds; docs/link-signals.md says how often that is.",
};

const GONE: Key = Key {
    path: "sources.gone_dbm",
    kind: Kind::Factor {
        min: -150.0,
        max: -20.0,
    },
    default: None,
    example: "-115",
    meaning: "The signal at which the link is taken to carry nothing; without it -85 for Wi-Fi, -115 for modems and scripts.",
    cost: "Higher: more warnings, and more of them of nothing.",
};

const REARM: Key = Key {
    path: "sources.rearm_db",
    kind: Kind::Factor {
        min: 0.0,
        max: 60.0,
    },
    default: Some("6"),
    example: "6",
    meaning: "After a warning there is no other before the signal is so far above `gone_dbm`, or the link has gone and come.",
    cost: "Less: a signal about that level warns again and again.",
};

const TREND: Key = Key {
    path: "sources.trend_ms",
    kind: Kind::Millis {
        min: 100.0,
        max: 60_000.0,
    },
    default: Some("4000"),
    example: "4000",
    meaning: "How far back the line through the samples looks; 256 samples at most.",
    cost: "Shorter: noise looks like a trend. Longer: a trend is seen late.",
};

const HORIZON: Key = Key {
    path: "sources.horizon_ms",
    kind: Kind::Millis {
        min: 10.0,
        max: 60_000.0,
    },
    default: Some("2000"),
    example: "2000",
    meaning: "How long ahead a warning is given at most.",
    cost: "Longer: more warnings, and more of them of nothing. Shorter than the flows' round trips: too late for `freeze`.",
};

/// What `modem` says.
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

impl SourceSettings {
    pub(super) fn of(section: &Section<'_>) -> Result<Self, SettingsError> {
        let gone_dbm = section.get(&GONE, Kind::factor)?;
        let rearm_db = section.get_or_default(&REARM, Kind::factor)?;
        let window = section.get_or_default(&TREND, Kind::duration)?;
        let horizon = section.get_or_default(&HORIZON, Kind::duration)?;
        let predict = section.get_or_default(&PREDICT, Kind::flag)?;
        let prediction = |default: f64| {
            predict.then(|| PredictionSettings {
                gone_dbm: gone_dbm.unwrap_or(default),
                rearm_db,
                window,
                horizon,
            })
        };
        let threshold = section.get(&WIFI_THRESHOLD, Kind::factor)?;
        Ok(Self {
            wifi: section.get_or_default(&WIFI, Kind::flag)?,
            wifi_threshold_dbm: threshold.map(|dbm| dbm.round() as i32),
            modem: section.get(&MODEM, modem)?,
            script: section.get(&SCRIPT, Kind::text)?.map(PathBuf::from),
            poll: section.get_or_default(&POLL, Kind::duration)?,
            wifi_prediction: prediction(WIFI_GONE_DBM),
            modem_prediction: prediction(MODEM_GONE_DBM),
        })
    }
}

fn modem(kind: Kind, value: &Value) -> Option<ModemChoice> {
    let text = kind.text(value)?;
    Some(match text.as_str() {
        "auto" => ModemChoice::OfInterface,
        _ => ModemChoice::Path(text),
    })
}
