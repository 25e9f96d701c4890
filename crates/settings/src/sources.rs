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
    /// its keys are there. `holdfast status` shows its signal.
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
    /// state leaves `connected`, and up when it is `connected` again. `holdfast status` shows its
    /// signal.
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
    /// Cost: Shorter: more queries; a newer signal in the status.
    #[serde(rename = "poll_ms", with = "As::<Millis<50, 60_000>>")]
    pub poll: Duration,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            wifi: false,
            wifi_threshold_dbm: None,
            modem: None,
            script: None,
            poll: Duration::from_millis(500),
        }
    }
}
