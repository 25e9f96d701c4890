// SPDX-License-Identifier: Apache-2.0
//! `[web]`: the live page of the gateway and of the mobile.

use serde::{Deserialize, Serialize};

use crate::kind::Maybe;
use crate::text::{Listen, ListenAt};

/// `[web]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSettings {
    /// Where the daemon serves its live page by HTTP: an address and a port, or the path of a Unix
    /// socket. The socket is for its owner and group. The page shows the addresses of mobiles, and
    /// changes nothing. There is no password and no TLS: name an address that only operators reach.
    ///
    /// Cost: None unless it is given. Then a thread, and two statuses of the daemon a second at most
    /// while a page is open.
    ///
    /// Example: `"127.0.0.1:8484"`
    #[serde(with = "Maybe::<ListenAt>")]
    pub listen: Option<Listen>,
}

impl WebSettings {
    /// The same, with a flag over it.
    #[must_use]
    pub fn with_flag(self, flag: Option<&Listen>) -> Self {
        Self {
            listen: flag.cloned().or(self.listen),
        }
    }
}
