// SPDX-License-Identifier: Apache-2.0
//! `[sources]`: the mobile's link sources, beside the interface's carrier.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::{As, Count, Maybe, Millis, Number};
use crate::text::{AbsolutePath, Modem};

/// The section.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sources {
    /// Whether the interface's Wi-Fi (nl80211) is a source. The link is down when the interface
    /// leaves an access point or authenticates with another one. The link is up when the interface
    /// is associated and its keys are there. `holdfast status` shows its signal.
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
    /// With `wifi`: a handoff begins when an access point of the same network is stronger than the own
    /// one by this many dB. It must be so in two scans in a row. The daemon warns the gateway
    /// (`going-down-soon`), and base stations nearby begin to buffer. It runs `wifi_roam_command`.
    /// If the interface does not roam, the handoff begins again after 30 s.
    ///
    /// Cost: The daemon reads the supplicant's scan results. Without background scans there are none.
    ///
    /// Example: `8`
    #[serde(with = "Maybe::<Count<1, 40>>")]
    pub wifi_stronger_db: Option<i32>,
    /// With `wifi_stronger_db`: the program that lets the interface roam then. Its arguments are the
    /// interface's name and the access point's address. `wpa_cli -i INTERFACE roam ADDRESS` does it.
    ///
    /// Cost: It runs as the daemon's user, from Linux 5.19 on without its capabilities. Without it the
    /// supplicant alone decides when to roam.
    ///
    /// Example: `"/usr/local/bin/roam"`
    #[serde(with = "Maybe::<AbsolutePath>")]
    pub wifi_roam_command: Option<String>,
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
    /// A program that the daemon runs, with the interface's name as its argument. Its lines on
    /// standard output are events: `up`, `down`, `going-down-soon`, `going-down-soon 400`
    /// (milliseconds), `signal -97` (dBm). It is started again if it ends.
    ///
    /// Cost: It runs as the daemon's user, from Linux 5.19 on without its capabilities.
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
            wifi_stronger_db: None,
            wifi_roam_command: None,
            modem: None,
            script: None,
            poll: Duration::from_millis(500),
        }
    }
}
