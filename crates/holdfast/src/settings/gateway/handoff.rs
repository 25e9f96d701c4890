// SPDX-License-Identifier: Apache-2.0
//! `[handoff]`: the gateway as a base station with neighbours.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use holdfast_core::handoff::{HandoffSettings, Peers, StationId};
use holdfast_core::signal::MobileKey;
use holdfast_settings::handoff::HandoffStation;

use super::SchemeName;
use crate::settings::SettingsError;
use crate::settings::file::SectionValues;
use crate::settings::key_file::read_key;

/// The settings of a base station with neighbours.
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
    /// The limit of routers that a copy passes.
    pub(crate) hops: u8,
    /// The UDP port.
    pub(crate) port: u16,
    /// The program to run when a mobile has come.
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
    section: &SectionValues<'_>,
    scheme: SchemeName,
    wired: Option<&str>,
) -> Result<Option<StationSettings>, SettingsError> {
    let keys: HandoffStation = section.read()?;
    let Some(name) = keys.name else {
        if let Some(given) = section.first_given() {
            let problem = "is given without `handoff.name`; takes a name for this base station too, \
                for example name = \"west\"";
            return Err(section.error(given, problem));
        }
        return Ok(None);
    };
    let unfit = match scheme {
        SchemeName::Keep => Some("moves nothing between base stations"),
        SchemeName::Observe => Some("caches nothing that could move"),
        SchemeName::Mtcp2007 => Some("is for comparison with one base station"),
        SchemeName::MtcpPlus => Some("owes bytes that no other base station has"),
        _ => None,
    };
    if let Some(reason) = unfit {
        let scheme = scheme.name();
        let problem =
            format!("the scheme {scheme} {reason}; takes the scheme auto, hold, snoop or mtcp");
        return Err(section.error("name", problem));
    }
    if keys.neighbours.is_empty() {
        return Err(section.missing("neighbours"));
    }
    let addresses = keys.neighbours.iter().map(|station| {
        let port = station.port.unwrap_or(keys.port);
        SocketAddr::new(station.address, port)
    });
    let neighbours: Vec<SocketAddr> = addresses.collect();
    check_neighbours(section, &neighbours, keys.group)?;
    let key_file = keys.key_file.ok_or_else(|| section.missing("key_file"))?;
    let key =
        read_key(Path::new(&key_file)).map_err(|problem| section.error("key_file", problem))?;
    let interface = keys.interface.or(wired.map(str::to_owned));
    let core = HandoffSettings {
        station: StationId::of_name(&name),
        ..section.read()?
    };
    core.check().map_err(|error| section.contradiction(error))?;
    let (group, groups) = (keys.group, core.groups);
    if !last_of(group, groups).is_multicast() {
        let problem =
            format!("got {groups}, but from {group} on there are fewer; takes fewer groups");
        return Err(section.error("groups", problem));
    }
    Ok(Some(StationSettings {
        name,
        core,
        peers: Peers::new(neighbours),
        key,
        interface: interface.ok_or_else(|| section.missing("interface"))?,
        group,
        hops: keys.hops,
        port: keys.port,
        took_over_command: keys.took_over_command.map(PathBuf::from),
    }))
}

/// Checks that each neighbour is listed once, and has an address of the groups' family.
fn check_neighbours(
    section: &SectionValues<'_>,
    neighbours: &[SocketAddr],
    group: IpAddr,
) -> Result<(), SettingsError> {
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
        return Err(section.error("neighbours", problem));
    }
    Ok(())
}

fn last_of(group: IpAddr, groups: u16) -> IpAddr {
    match group {
        IpAddr::V4(v4) => IpAddr::V4(u32::from(v4).saturating_add(u32::from(groups) - 1).into()),
        IpAddr::V6(v6) => IpAddr::V6(u128::from(v6).saturating_add(u128::from(groups) - 1).into()),
    }
}
