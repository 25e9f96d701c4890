// SPDX-License-Identifier: Apache-2.0
//! Starts the packet worker with the engine: on the gateway, and on the mobile for its uploads.

use std::time::Duration;

use holdfast_core::{FlowRecord, Settings};
use holdfast_net::datapath::DataPath;

use super::records::Records;
use super::station::Station;
use super::worker::{Worker, WorkerSettings, attachment};
use crate::command::RunningWorker;
use crate::outages::OutageSender;

/// Starts the thread. `station` runs in that thread; it makes the [`Station`] if there are neighbours.
pub(super) fn start(
    path: DataPath,
    settings: WorkerSettings,
    (records, found): (Records, Vec<FlowRecord>),
    station: impl FnOnce() -> Option<Station> + Send + 'static,
) -> anyhow::Result<RunningWorker> {
    let attachment = attachment(&path)?;
    let run = move |inbox| Worker::new(path, settings, records, &found, inbox, station()).run();
    Ok(RunningWorker::spawn(attachment, run)?)
}

/// Starts the engine for what a mobile sends. The servers are its MHs. The local stack and the hosts
/// behind it are its FHs.
pub(crate) fn start_at_mobile(
    path: DataPath,
    core: Settings,
    outages: OutageSender,
) -> anyhow::Result<RunningWorker> {
    let records = Records::in_memory(core.flows_max);
    let settings = WorkerSettings {
        core,
        // The mobile owes no bytes: it makes no ACK.
        drain: Duration::ZERO,
        wired_mtu: None,
        resend_dscp: None,
        outages,
    };
    start(path, settings, (records, Vec::new()), || None)
}
