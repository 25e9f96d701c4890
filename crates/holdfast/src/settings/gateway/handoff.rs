// SPDX-License-Identifier: Apache-2.0
//! `[handoff]`: the gateway as a base station with neighbours.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use holdfast_core::handoff::{HandoffSettings, PORT_DEFAULT, Peers, StationId};
use holdfast_core::signal::MobileKey;
use toml::Value;

use super::super::SettingsError;
use super::super::file::Section;
use super::super::keys::{Key, Kind};
use super::{MOBILES_MAX, SchemeName};

/// `[handoff]`, in the order of the documentation.
pub(crate) const KEYS: &[Key] = &[
    NAME,
    NEIGHBOURS,
    KEY_FILE,
    INTERFACE,
    GROUP,
    GROUPS,
    HOPS,
    PORT,
    ALWAYS,
    BUFFER_TIME,
    SYNC_WAIT,
    MOBILE_BUFFER_BYTES_MAX,
    BUFFER_BYTES_MAX,
    TOOK_OVER_COMMAND,
];

/// Neighbours at most.
const NEIGHBOURS_MAX: usize = 64;

/// What a base station with neighbours runs with.
#[derive(Clone, Debug)]
pub(crate) struct StationSettings {
    /// Its name.
    pub(crate) name: String,
    /// The settings of the mechanism.
    pub(crate) core: HandoffSettings,
    /// The neighbours.
    pub(crate) peers: Peers,
    /// The key that all stations share.
    pub(crate) key: MobileKey,
    /// The interface toward the other stations.
    pub(crate) interface: String,
    /// The first multicast group.
    pub(crate) group: IpAddr,
    /// Routers that a copy passes at most.
    pub(crate) hops: u8,
    /// The UDP port.
    pub(crate) port: u16,
    /// What is run when a mobile has come.
    pub(crate) took_over_command: Option<PathBuf>,
}

impl StationSettings {
    /// The address of the group with this number.
    pub(crate) fn group_address(&self, number: u16) -> IpAddr {
        match self.group {
            IpAddr::V4(v4) => IpAddr::V4((u32::from(v4).wrapping_add(number.into())).into()),
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6).wrapping_add(number.into())).into()),
        }
    }
}

/// The section's settings; none without a name and neighbours.
pub(super) fn settings(
    section: &Section<'_>,
    scheme: SchemeName,
    wired: Option<&str>,
) -> Result<Option<StationSettings>, SettingsError> {
    let Some(name) = section.get(&NAME, Kind::text)? else {
        if let Some(given) = KEYS.iter().find(|key| section.value(key).is_some()) {
            let problem = "is given without `handoff.name`; takes a name for this base station too, \
                for example name = \"west\"";
            return Err(section.error(given, problem));
        }
        return Ok(None);
    };
    if scheme == SchemeName::Keep {
        let problem = "the scheme keep moves nothing between base stations; takes the scheme hold, \
            snoop or mtcp";
        return Err(section.error(&NAME, problem));
    }
    if scheme == SchemeName::MtcpPlus {
        let problem = "the scheme mtcp-plus owes bytes that no other base station has; takes the \
            scheme hold, snoop or mtcp";
        return Err(section.error(&NAME, problem));
    }
    let port = section.get_or_default(&PORT, Kind::count)? as u16;
    let group: IpAddr =
        section.get_or_default(&GROUP, |kind, value| kind.text(value)?.parse().ok())?;
    let neighbours = neighbours(section, port, group)?;
    let key_file = section.require(&KEY_FILE, Kind::text)?;
    let key = super::super::key_file::read_key(key_file.as_ref())
        .map_err(|problem| section.error(&KEY_FILE, problem))?;
    let interface = match section.get(&INTERFACE, Kind::text)? {
        Some(interface) => interface,
        None => wired
            .map(str::to_owned)
            .ok_or_else(|| section.missing(&INTERFACE))?,
    };
    let groups = section.get_or_default(&GROUPS, Kind::count)? as u16;
    if !last_of(group, groups).is_multicast() {
        let problem =
            format!("got {groups}, but from {group} on there are fewer; takes fewer groups");
        return Err(section.error(&GROUPS, problem));
    }
    Ok(Some(StationSettings {
        core: core_settings(section, &name, groups)?,
        name,
        peers: Peers::new(neighbours),
        key,
        interface,
        group,
        hops: section.get_or_default(&HOPS, Kind::count)? as u8,
        port,
        took_over_command: section
            .get(&TOOK_OVER_COMMAND, Kind::text)?
            .map(PathBuf::from),
    }))
}

/// The neighbours: each once, and all of the groups' family.
fn neighbours(
    section: &Section<'_>,
    port: u16,
    group: IpAddr,
) -> Result<Vec<SocketAddr>, SettingsError> {
    let neighbours = section.require(&NEIGHBOURS, |_, value| stations(value, port))?;
    for (number, one) in neighbours.iter().enumerate() {
        let problem = if one.is_ipv6() != group.is_ipv6() {
            format!(
                "got {}, which is not of the family of handoff.group, {group}; takes addresses of one family",
                one.ip()
            )
        } else if neighbours[..number].contains(one) {
            format!("got {one} twice; takes each of the other base stations once")
        } else {
            continue;
        };
        return Err(section.error(&NEIGHBOURS, problem));
    }
    Ok(neighbours)
}

/// The settings of the mechanism.
fn core_settings(
    section: &Section<'_>,
    name: &str,
    groups: u16,
) -> Result<HandoffSettings, SettingsError> {
    let bytes = |key| {
        let bytes = section.get_or_default(key, Kind::bytes);
        bytes.map(|bytes| bytes as usize)
    };
    let settings = HandoffSettings {
        station: StationId::of_name(name),
        always: section.get_or_default(&ALWAYS, Kind::flag)?,
        buffer_time: section.get_or_default(&BUFFER_TIME, Kind::duration)?,
        sync_wait: section.get_or_default(&SYNC_WAIT, Kind::duration)?,
        mobile_buffer_bytes_max: bytes(&MOBILE_BUFFER_BYTES_MAX)?,
        buffer_bytes_max: bytes(&BUFFER_BYTES_MAX)?,
        mobiles_max: MOBILES_MAX,
        groups,
        ..HandoffSettings::default()
    };
    if settings.mobile_buffer_bytes_max > settings.buffer_bytes_max {
        let problem =
            "more than all mobiles together may take; takes at most handoff.buffer_bytes_max";
        return Err(section.error(&MOBILE_BUFFER_BYTES_MAX, problem));
    }
    Ok(settings)
}

fn last_of(group: IpAddr, groups: u16) -> IpAddr {
    match group {
        IpAddr::V4(v4) => IpAddr::V4(u32::from(v4).saturating_add(u32::from(groups) - 1).into()),
        IpAddr::V6(v6) => IpAddr::V6(u128::from(v6).saturating_add(u128::from(groups) - 1).into()),
    }
}

fn stations(value: &Value, port: u16) -> Option<Vec<SocketAddr>> {
    let values = value.as_array()?;
    if !(1..=NEIGHBOURS_MAX).contains(&values.len()) {
        return None;
    }
    let station = |text: &str| {
        let address = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port));
        address.or_else(|_| text.parse()).ok()
    };
    values
        .iter()
        .map(|value| station(value.as_str()?))
        .collect()
}

/// The port in the default of `handoff.port` is the documented one.
const _: () = assert!(PORT_DEFAULT == 4849);

const NAME: Key = Key {
    path: "handoff.name",
    kind: Kind::Text,
    default: None,
    example: "\"west\"",
    meaning: "The name of this base station; each has its own. With equal epochs the number made of it decides.",
    cost: "Has to be given, and makes the gateway a base station with neighbours.",
};

const NEIGHBOURS: Key = Key {
    path: "handoff.neighbours",
    kind: Kind::Stations,
    default: None,
    example: "[\"10.0.0.2\", \"10.0.0.3:4849\"]",
    meaning: "The other base stations, each once and without this one: the addresses from which they send, on the wired side. \
        They have this one in their lists.",
    cost: "Has to be given with `name`.",
};

const KEY_FILE: Key = Key {
    path: "handoff.key_file",
    kind: Kind::Path,
    default: None,
    example: "\"/etc/holdfast/stations.key\"",
    meaning: "The file with the key that all base stations share, made by `holdfast mobile keygen`. What \
        they say to each other and the copies of packets are sealed with it.",
    cost: "Has to be given with `name`. Whoever reads it can take over mobiles: keep it readable by root alone.",
};

const INTERFACE: Key = Key {
    path: "handoff.interface",
    kind: Kind::Interface,
    default: None,
    example: "\"eth0\"",
    meaning: "The interface toward the other base stations: groups are joined and copies sent there. \
        Without it `gateway.wired`.",
    cost: "This or `gateway.wired` has to be given with `name`.",
};

const GROUP: Key = Key {
    path: "handoff.group",
    kind: Kind::Group,
    default: Some("\"239.195.72.0\""),
    example: "\"239.195.72.0\"",
    meaning: "The first of the multicast groups, IPv4 or IPv6; the neighbours' addresses are of the same \
        family. All base stations have the same.",
    cost: "None.",
};

const GROUPS: Key = Key {
    path: "handoff.groups",
    kind: Kind::Count { min: 1, max: 4096 },
    default: Some("256"),
    example: "256",
    meaning: "How many groups there are: a mobile's is its key's id modulo this. All base stations have the same.",
    cost: "Fewer: mobiles share groups, and a base station hears copies that it has no use for.",
};

const HOPS: Key = Key {
    path: "handoff.hops",
    kind: Kind::Count { min: 1, max: 255 },
    default: Some("16"),
    example: "16",
    meaning: "Multicast routers that a copy passes at most.",
    cost: "None, unless the groups leave the own network.",
};

const PORT: Key = Key {
    path: "handoff.port",
    kind: Kind::Count {
        min: 1,
        max: 65_535,
    },
    default: Some("4849"),
    example: "4849",
    meaning: "The UDP port of messages and copies. All base stations have the same, unless a neighbour's is given.",
    cost: "None.",
};

const ALWAYS: Key = Key {
    path: "handoff.always",
    kind: Kind::Flag,
    default: Some("false"),
    example: "true",
    meaning: "The neighbours buffer at any time for the mobiles that are here, not only when one says that \
        its link will go soon.",
    cost: "With true: the mobiles' traffic once more on the wired side, and `mobile_buffer_bytes_max` at each neighbour.",
};

const BUFFER_TIME: Key = Key {
    path: "handoff.buffer_s",
    kind: Kind::Seconds {
        min: 0.1,
        max: 600.0,
    },
    default: Some("10"),
    example: "10",
    meaning: "How long a base station buffers after it was last asked to, or after a mobile has left it; \
        and how long it keeps a packet at all.",
    cost: "Longer: copies for mobiles that stay where they are. Shorter: a mobile that goes later finds nothing.",
};

const SYNC_WAIT: Key = Key {
    path: "handoff.sync_wait_ms",
    kind: Kind::Millis {
        min: 1.0,
        max: 10_000.0,
    },
    default: Some("50"),
    example: "50",
    meaning: "How long a mobile's packets are kept back after it has come, while the base station before \
        is asked what the mobile has. Several round trips between base stations.",
    cost: "Longer: a mobile that comes from a dead base station stalls for longer.",
};

const MOBILE_BUFFER_BYTES_MAX: Key = Key {
    path: "handoff.mobile_buffer_bytes_max",
    kind: Kind::Bytes {
        min: 16 << 10,
        max: 1 << 30,
    },
    default: Some("\"1 MiB\""),
    example: "\"1 MiB\"",
    meaning: "Bytes that are buffered at most for one mobile; the oldest go. What is on its way to it and in \
        its link's queue should fit.",
    cost: "Memory.",
};

const BUFFER_BYTES_MAX: Key = Key {
    path: "handoff.buffer_bytes_max",
    kind: Kind::Bytes {
        min: 64 << 10,
        max: 64 << 30,
    },
    default: Some("\"64 MiB\""),
    example: "\"64 MiB\"",
    meaning: "Bytes that are buffered at most for all mobiles; beyond, nothing more is.",
    cost: "Memory, beside `gateway.cache_bytes_max`.",
};

const TOOK_OVER_COMMAND: Key = Key {
    path: "handoff.took_over_command",
    kind: Kind::Path,
    default: None,
    example: "\"/etc/holdfast/took-over\"",
    meaning: "A program that is run when a mobile has come here, with its addresses as arguments: it may \
        move the wired network's routes. It is not waited for; after 10 s it is killed.",
    cost: "Without it, or another way to move the routes, TCP alone reaches a mobile that has moved: its packets are \
        copied by the base station to which the routes point. UDP, QUIC, ICMP, fragments, IPsec and whatever else is no TCP \
        is lost there, for as long as the routes point there.",
};
