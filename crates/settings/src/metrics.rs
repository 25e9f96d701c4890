// SPDX-License-Identifier: Apache-2.0
//! `[metrics]`: figures for a monitoring system, of the gateway and of the mobile.

use serde::{Deserialize, Serialize};

use crate::kind::Maybe;
use crate::text::{Listen, ListenAt};

/// `[metrics]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsSettings {
    /// Where the daemon serves its metrics by HTTP, at `/metrics`: an address and a port, or the
    /// path of a Unix socket. The socket is for its owner and group. There is no password and no
    /// TLS: name an address that only the monitoring system reaches.
    ///
    /// Cost: None unless it is given. Then a thread, and a status of the daemon for the requests of each half second.
    ///
    /// Example: `"127.0.0.1:9848"`
    #[serde(with = "Maybe::<ListenAt>")]
    pub listen: Option<Listen>,
}
