// SPDX-License-Identifier: Apache-2.0
//! `[signals]` and `[[mobile]]`: how the gateway receives the signals of its mobiles.

use core::net::{Ipv6Addr, SocketAddr};
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::{As, Maybe, Seconds};
use crate::prefix::Prefix;
use crate::text::{AbsolutePath, AddressAndPort, Name, Prefixes, SecretKey};

/// UDP port of the gateway's signals, unless another is given.
pub const SIGNAL_PORT: u16 = 4848;

/// `[signals]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SignalSettings {
    /// The address on which the gateway receives the mobiles' signals, UDP. `[::]` takes IPv4 too.
    /// Nothing is opened without a `[[mobile]]`.
    ///
    /// Cost: None.
    #[serde(with = "As::<AddressAndPort>")]
    pub listen: SocketAddr,
    /// How long an address stays with a mobile that is silent. Until then no other mobile can
    /// register it.
    ///
    /// Cost: Shorter than a few keepalives (30 s): a mobile in an outage may lose its address to
    /// another with the same prefix.
    #[serde(rename = "registration_lifetime_s", with = "As::<Seconds<1, 86_400>>")]
    pub registration_lifetime: Duration,
}

impl Default for SignalSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), SIGNAL_PORT),
            registration_lifetime: Duration::from_secs(90),
        }
    }
}

/// Each `[[mobile]]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MobileEntry {
    /// The mobile's name in logs and in `holdfast status`. Each mobile has its own.
    ///
    /// Cost: Has to be given.
    ///
    /// Example: `"train-7"`
    #[serde(with = "Maybe::<Name>")]
    pub name: Option<String>,
    /// The key that the mobile's signals are sealed with. Each mobile has its own. A person who
    /// reads it can send signals as the mobile: make the file readable by root and the group
    /// `holdfast` alone, or use `key_file`.
    ///
    /// Cost: This or `key_file` has to be given.
    ///
    /// Example: `"hf1:..."`
    #[serde(with = "Maybe::<SecretKey>")]
    pub key: Option<String>,
    /// A file with the key alone, instead of `key`.
    ///
    /// Cost: None.
    ///
    /// Example: `"/etc/holdfast/train-7.key"`
    #[serde(with = "Maybe::<AbsolutePath>")]
    pub key_file: Option<String>,
    /// The addresses and prefixes that the mobile may register. A signal with any other changes
    /// nothing and is counted.
    ///
    /// Cost: Has to be given. Wider: the mobile can send signals for more addresses.
    ///
    /// Example: `["10.9.0.2", "2001:db8:9::/64"]`
    #[serde(with = "As::<Prefixes>")]
    pub addresses: Vec<Prefix>,
}
