// SPDX-License-Identifier: Apache-2.0
//! `[sources]`: the mobile's link sources, beside the interface's carrier.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::{As, Maybe, Millis, Number};
use crate::text::{AbsolutePath, Modem};

/// The section.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sources {
    /// Whether the interface's Wi-Fi (nl80211) is a source. The link is down when the interface
    /// leaves an access point or authenticates with another one, and up when it is associated and
    /// its keys are there. Its signal is a sample for `predict`.
    ///
    /// Cost: A query to the kernel each `poll_ms`. Where there is no Wi-Fi, a line in the log.
    ///
    /// Example: `true`
    pub wifi: bool,
    /// With `wifi`: the driver reports at once when the signal crosses this level (CQM), between
    /// two queries.
    ///
    /// Cost: It replaces the threshold that a supplicant has set for its own background scans.
    ///
    /// Example: `-75`
    #[serde(with = "Maybe::<Number<-100, -20>>")]
    pub wifi_threshold_dbm: Option<f64>,
    /// A modem of ModemManager, by its D-Bus path (`/org/freedesktop/ModemManager1/Modem/0`), or
    /// `auto` for the one that has the interface among its ports. The link is down when the modem's
    /// state leaves `connected`, and up when it is `connected` again. Its signal is a sample for
    /// `predict`.
    ///
    /// Cost: ModemManager queries the modem for its signal each `poll_ms`, rounded up to seconds.
    ///
    /// Example: `"auto"`
    #[serde(with = "Maybe::<Modem>")]
    pub modem: Option<String>,
    /// A program that the daemon runs, with the interface's name as its argument, and whose lines
    /// on standard output are events: `up`, `down`, `going-down-soon`, `going-down-soon 400`
    /// (milliseconds), `signal -97` (dBm). It is started again if it ends.
    ///
    /// Cost: It runs with the daemon's rights.
    ///
    /// Example: `"/usr/local/bin/link-watch"`
    #[serde(with = "Maybe::<AbsolutePath>")]
    pub script: Option<String>,
    /// Time between two queries for the signal.
    ///
    /// Cost: Shorter: trends are seen sooner.
    #[serde(rename = "poll_ms", with = "As::<Millis<50, 60_000>>")]
    pub poll: Duration,
    /// Whether the daemon gives a warning when a straight line through the signal's newest samples
    /// reaches `gone_dbm` within `horizon_ms`.
    ///
    /// Cost: A false warning closes the windows of `freeze` for nothing, for some hundred
    /// milliseconds; docs/link-signals.md has figures.
    ///
    /// Example: `true`
    pub predict: bool,
    /// The signal at which the link is taken to be down; without it -85 for Wi-Fi, -115 for modems
    /// and scripts.
    ///
    /// Cost: Higher: more warnings, and more false ones.
    ///
    /// Example: `-115`
    #[serde(with = "Maybe::<Number<-150, -20>>")]
    pub gone_dbm: Option<f64>,
    /// After a warning there is no other before the signal is this far above `gone_dbm`, or the
    /// link was down and up.
    ///
    /// Cost: Less: a signal about that level warns again and again.
    #[serde(with = "As::<Number<0, 60>>")]
    pub rearm_db: f64,
    /// The time that the line through the samples covers; 256 samples at most.
    ///
    /// Cost: Shorter: noise looks like a trend. Longer: a trend is seen late.
    #[serde(rename = "trend_ms", with = "As::<Millis<100, 60_000>>")]
    pub trend: Duration,
    /// The longest time from a warning to the predicted outage.
    ///
    /// Cost: Longer: more warnings, and more false ones. Shorter than the flows' round trips: too
    /// late for `freeze`.
    #[serde(rename = "horizon_ms", with = "As::<Millis<10, 60_000>>")]
    pub horizon: Duration,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            wifi: false,
            wifi_threshold_dbm: None,
            modem: None,
            script: None,
            poll: Duration::from_millis(500),
            predict: false,
            gone_dbm: None,
            rearm_db: 6.0,
            trend: Duration::from_secs(4),
            horizon: Duration::from_secs(2),
        }
    }
}
