// SPDX-License-Identifier: Apache-2.0
//! The namespaces, links and daemons of a transfer.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_testbed::daemons::{Daemon, GatewayOptions, StationOptions, make_key, make_key_file};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{Cell, Topology, TopologySettings, Wireless};

use super::{Middle, TransferSettings};

/// The longest time until the MH's base station knows it.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// The namespaces and links that a transfer needs.
pub(super) fn topology(settings: &TransferSettings) -> TopologySettings {
    let (first, others) = match settings.cells.split_first() {
        Some((first, others)) => (first, others.to_vec()),
        None => (&settings.link, Vec::new()),
    };
    TopologySettings {
        other_cells: others,
        congestion_control: settings.congestion_control.clone(),
        wired: settings.wired.clone(),
        fh: settings.fh.clone(),
        mh: settings.mh.clone(),
        ..TopologySettings::new(&settings.holdfast, Wireless::Emulated(first.clone()))
    }
}

/// Starts a gateway in each cell and the mobile's daemon, if the transfer needs them.
pub(super) fn daemons(
    settings: &TransferSettings,
    topology: &Topology,
    folder: &Path,
    stop: &StopFlag,
) -> anyhow::Result<(Vec<Daemon>, Option<Daemon>)> {
    let key = match settings.middle {
        Middle::Gateway {
            mobile_signals: true,
            ..
        } => Some(make_key(&settings.holdfast, folder)?),
        Middle::Gateway { .. } | Middle::Plain | Middle::HaProxy => None,
    };
    let gateways = match &settings.middle {
        Middle::Gateway { scheme, .. } => {
            gateways(scheme, key.as_deref(), settings, topology, folder, stop)?
        }
        Middle::Plain | Middle::HaProxy => Vec::new(),
    };
    let mobile = mobile(key.as_deref(), settings, topology, folder, stop)?;
    if settings.handoff.is_some() && !gateways.is_empty() {
        stop.wait_for("the MH is at its first base station", READY_LIMIT, || {
            let status = gateways[0].status()?;
            let role = &status["handoff"]["mobiles"][0]["role"];
            Ok((role == "forwarding").then_some(()))
        })?;
    }
    Ok((gateways, mobile))
}

/// Starts the gateway of each cell.
fn gateways(
    scheme: &str,
    key: Option<&Path>,
    settings: &TransferSettings,
    topology: &Topology,
    folder: &Path,
    stop: &StopFlag,
) -> anyhow::Result<Vec<Daemon>> {
    let stations_key = settings
        .handoff
        .is_some()
        .then(|| make_key_file(&settings.holdfast, folder.join("stations.key")))
        .transpose()?;
    let start = |(number, cell): (usize, &Cell)| {
        let station = stations_key.as_ref().map(|key| StationOptions {
            cell: number,
            cells: topology.cells.len(),
            key: key.clone(),
            settings: settings.handoff.clone().unwrap_or_default(),
        });
        let options = GatewayOptions {
            holdfast: settings.holdfast.clone(),
            scheme: scheme.to_owned(),
            mobile_key: key.map(Path::to_owned),
            settings: settings.gateway_settings.clone(),
            station,
        };
        let own = folder.join(format!("cell-{}", number + 1));
        fs::create_dir_all(&own).with_context(|| format!("{}: cannot be made", own.display()))?;
        Daemon::start_gateway_in(&cell.gateway, &options, &own, stop)
    };
    topology.cells.iter().enumerate().map(start).collect()
}

/// Starts the mobile's daemon: for a gateway, for own flows, or for both.
fn mobile(
    key: Option<&Path>,
    settings: &TransferSettings,
    topology: &Topology,
    folder: &Path,
    stop: &StopFlag,
) -> anyhow::Result<Option<Daemon>> {
    let holdfast = &settings.holdfast;
    let own_flows = settings.own_flows.as_ref();
    if key.is_none() && own_flows.is_none() {
        return Ok(None);
    }
    let lines = own_flows.map_or("", |own| &own.settings);
    let daemon = Daemon::start_mobile(topology, holdfast, key, lines, folder, stop)?;
    Ok(Some(daemon))
}
