// SPDX-License-Identifier: Apache-2.0
//! What a transfer's settings ask for, made: namespaces with their links, and daemons.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::{Middle, TransferSettings};
use crate::daemons::{Daemon, GatewayOptions, StationOptions, make_key, make_key_file};
use crate::stop::StopFlag;
use crate::topology::{Topology, TopologySettings, Wireless};

/// How long the MH may take until its base station knows it.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// The namespaces and links that a transfer asks for.
pub(super) fn topology(settings: &TransferSettings) -> TopologySettings {
    let extras = &settings.extras;
    let (first, others) = match extras.cells.split_first() {
        Some((first, others)) => (first, others.to_vec()),
        None => (&settings.link, Vec::new()),
    };
    TopologySettings {
        other_cells: others,
        congestion_control: settings.congestion_control.clone(),
        host_sysctls: settings.host_sysctls.clone(),
        wired: extras.wired.clone(),
        fh: extras.fh.clone(),
        mh: extras.mh.clone(),
        ..TopologySettings::new(&settings.holdfast, Wireless::Emulated(first.clone()))
    }
}

/// Starts a gateway in each cell and the mobile's daemon, as far as the transfer asks for
/// them.
pub(super) fn daemons(
    settings: &TransferSettings,
    topology: &Topology,
    folder: &Path,
    stop: &StopFlag,
) -> anyhow::Result<(Vec<Daemon>, Option<Daemon>)> {
    let Middle::Gateway {
        scheme,
        mobile_signals,
    } = &settings.middle
    else {
        return Ok((Vec::new(), None));
    };
    let holdfast = &settings.holdfast;
    let key = mobile_signals
        .then(|| make_key(holdfast, folder))
        .transpose()?;
    let options = GatewayOptions {
        holdfast: holdfast.clone(),
        scheme: scheme.clone(),
        mobile_key: key.clone(),
        settings: settings.extras.gateway_settings.clone(),
        station: None,
    };
    let stations_key = settings
        .extras
        .handoff
        .is_some()
        .then(|| make_key_file(holdfast, folder.join("stations.key")))
        .transpose()?;
    let mut gateways = Vec::new();
    for (number, cell) in topology.cells.iter().enumerate() {
        let station = stations_key.as_ref().map(|key| StationOptions {
            cell: number,
            cells: topology.cells.len(),
            key: key.clone(),
            settings: settings.extras.handoff.clone().unwrap_or_default(),
        });
        let options = GatewayOptions {
            station,
            ..options.clone()
        };
        let own = folder.join(format!("cell-{}", number + 1));
        fs::create_dir_all(&own).with_context(|| format!("{}: cannot be made", own.display()))?;
        gateways.push(Daemon::start_gateway_in(
            &cell.gateway,
            &options,
            &own,
            stop,
        )?);
    }
    let start = match topology.cells.len() {
        1 => Daemon::start_mobile,
        _ => Daemon::start_moving_mobile,
    };
    let mobile = key
        .map(|key| start(topology, holdfast, &key, folder, stop))
        .transpose()?;
    if stations_key.is_some() {
        stop.wait_for("the MH is at its first base station", READY_LIMIT, || {
            let status = gateways[0].status()?;
            let role = &status["handoff"]["mobiles"][0]["role"];
            Ok((role == "forwarding").then_some(()))
        })?;
    }
    Ok((gateways, mobile))
}
