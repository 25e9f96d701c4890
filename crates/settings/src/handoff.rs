// SPDX-License-Identifier: Apache-2.0
//! `[handoff]`: the gateway as a base station with neighbours.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Contradiction;
pub use crate::entries::Station;
use crate::kind::{As, Bytes, Count, Maybe, Millis, Seconds};
use crate::text::{AbsolutePath, InterfaceName, MulticastGroup, Name, Stations};

/// UDP port of the messages and the copies, unless another is given.
pub const HANDOFF_PORT: u16 = 4849;

/// A base station's name in a number that all stations know: decides between equal epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(pub u32);

impl StationId {
    /// The number of a name (FNV-1a).
    pub fn of_name(name: &str) -> Self {
        Self(name.bytes().fold(0x811c_9dc5, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        }))
    }
}

/// Keys of `[handoff]` that the mechanism does not need.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HandoffStation {
    /// The name of this base station; each has its own. With equal epochs the number made of it
    /// decides.
    ///
    /// Cost: Has to be given, and makes the gateway a base station with neighbours.
    ///
    /// Example: `"west"`
    #[serde(with = "Maybe::<Name>")]
    pub name: Option<String>,
    /// The other base stations, each once and without this one: the addresses from which they
    /// send, on the wired side. They have this one in their lists.
    ///
    /// Cost: Has to be given with `name`.
    ///
    /// Example: `["10.0.0.2", "10.0.0.3:4849"]`
    #[serde(with = "As::<Stations>")]
    pub neighbours: Vec<Station>,
    /// The file with the key that all base stations share, made by `holdfast mobile keygen`. Their
    /// messages and the copies of packets are sealed with it.
    ///
    /// Cost: Has to be given with `name`. A person who reads it can take over mobiles: make it
    /// readable by root and the group `holdfast` alone.
    ///
    /// Example: `"/etc/holdfast/stations.key"`
    #[serde(with = "Maybe::<AbsolutePath>")]
    pub key_file: Option<String>,
    /// The interface toward the other base stations: groups are joined and copies sent there.
    /// Without it `gateway.wired`.
    ///
    /// Cost: This or `gateway.wired` has to be given with `name`.
    ///
    /// Example: `"eth0"`
    #[serde(with = "Maybe::<InterfaceName>")]
    pub interface: Option<String>,
    /// The first of the multicast groups, IPv4 or IPv6; the neighbours' addresses are of the same
    /// family. All base stations have the same.
    ///
    /// Cost: None.
    #[serde(with = "As::<MulticastGroup>")]
    pub group: IpAddr,
    /// The largest number of multicast routers that a copy passes.
    ///
    /// Cost: None, unless the groups leave the own network.
    #[serde(with = "As::<Count<1, 255>>")]
    pub hops: u8,
    /// The UDP port of messages and copies. All base stations have the same, unless a neighbour's
    /// is given.
    ///
    /// Cost: None.
    #[serde(with = "As::<Count<1, 65_535>>")]
    pub port: u16,
    /// A program that is run when a mobile has arrived here, with its addresses as arguments: it
    /// may move the wired network's routes. The daemon keeps `CAP_NET_ADMIN` for it. The gateway does
    /// not wait for it; after 10 s it is killed.
    ///
    /// Cost: Without it, or another way to move the routes, TCP alone reaches a mobile that has
    /// moved. Its packets are copied by the base station to which the routes point. UDP, QUIC,
    /// ICMP, fragments, IPsec and everything else that is no TCP is lost there, until the routes
    /// are moved.
    ///
    /// Example: `"/etc/holdfast/took-over"`
    #[serde(with = "Maybe::<AbsolutePath>")]
    pub took_over_command: Option<String>,
}

impl Default for HandoffStation {
    fn default() -> Self {
        Self {
            name: None,
            neighbours: Vec::new(),
            key_file: None,
            interface: None,
            group: IpAddr::V4(Ipv4Addr::new(239, 195, 72, 0)),
            hops: 16,
            port: HANDOFF_PORT,
            took_over_command: None,
        }
    }
}

/// Settings of the mechanism of handoff.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HandoffSettings {
    /// The station's own number; no two stations may have the same.
    #[serde(skip)]
    pub station: StationId,
    /// The neighbours buffer at any time for the mobiles that are here, not only when one has sent
    /// a warning.
    ///
    /// Cost: With true: the mobiles' traffic a second time on the wired side, and
    /// `mobile_buffer_bytes_max` at each neighbour.
    ///
    /// Example: `true`
    pub always: bool,
    /// How long a base station buffers after the last request, or after a mobile has left it; and
    /// the largest age of a packet.
    ///
    /// Cost: Longer: copies for mobiles that stay where they are. Shorter: a mobile that moves
    /// later finds nothing.
    #[serde(rename = "buffer_s", with = "As::<Seconds<1, 6_000, 10>>")]
    pub buffer_time: Duration,
    /// How long a mobile's packets are queued after its arrival, until the base station before has
    /// reported what the mobile has. Several round trips between base stations.
    ///
    /// Cost: Longer: a mobile that comes from a dead base station stalls for longer.
    #[serde(rename = "sync_wait_ms", with = "As::<Millis<1, 10_000>>")]
    pub sync_wait: Duration,
    /// Time between two retransmissions of a message that is not acknowledged.
    #[serde(skip)]
    pub retry: Duration,
    /// The largest number of times that it is sent.
    #[serde(skip)]
    pub tries_max: u32,
    /// Time between two announcements of a role.
    #[serde(skip)]
    pub announce: Duration,
    /// The time for which another station's announcement counts.
    #[serde(skip)]
    pub announced_lifetime: Duration,
    /// Bytes that are buffered at most for one mobile; the oldest are dropped. What is in flight to
    /// it and in its link's queue should fit.
    ///
    /// Cost: Memory.
    // Right after a mobile has left, the newest are dropped: what the engine had cached comes
    // first. While it is here nothing is dropped, see `Handoff::has_room`.
    #[serde(with = "As::<Bytes<16_384, 1_073_741_824>>")]
    pub mobile_buffer_bytes_max: usize,
    /// Bytes that are buffered at most for all mobiles; beyond, nothing more is.
    ///
    /// Cost: Memory, beside `gateway.cache_bytes_max`.
    #[serde(with = "As::<Bytes<65_536, 68_719_476_736>>")]
    pub buffer_bytes_max: usize,
    /// The largest number of mobiles; further ones have no handoff, unless one that is nothing to
    /// this station can be forgotten for them.
    #[serde(skip)]
    pub mobiles_max: usize,
    /// The number of groups: a mobile's is its key's id modulo this. All base stations have the
    /// same.
    ///
    /// Cost: Fewer: mobiles share groups, and a base station receives copies that it does not
    /// need.
    #[serde(with = "As::<Count<1, 4096>>")]
    pub groups: u16,
}

impl Default for HandoffSettings {
    fn default() -> Self {
        Self {
            station: StationId::default(),
            always: false,
            buffer_time: Duration::from_secs(10),
            sync_wait: Duration::from_millis(50),
            retry: Duration::from_millis(20),
            tries_max: 10,
            announce: Duration::from_millis(500),
            announced_lifetime: Duration::from_secs(3),
            mobile_buffer_bytes_max: 1 << 20,
            buffer_bytes_max: 64 << 20,
            mobiles_max: 4096,
            groups: 256,
        }
    }
}

impl HandoffSettings {
    /// The number of the group of the mobile with this key id, below [`groups`](Self::groups).
    pub fn group_of(&self, key_id: u32) -> u16 {
        (key_id % u32::from(self.groups.max(1))) as u16
    }

    /// Refuses limits that contradict each other.
    ///
    /// # Errors
    /// The key, and what it takes.
    pub fn check(&self) -> Result<(), Contradiction> {
        if self.mobile_buffer_bytes_max > self.buffer_bytes_max {
            let problem =
                "more than all mobiles together may take; takes at most handoff.buffer_bytes_max";
            let limit_problem =
                "less than one mobile may take; takes at least handoff.mobile_buffer_bytes_max";
            return Err(Contradiction::new(
                ("mobile_buffer_bytes_max", problem.to_owned()),
                ("buffer_bytes_max", limit_problem.to_owned()),
            ));
        }
        Ok(())
    }
}
