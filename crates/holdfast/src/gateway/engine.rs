// SPDX-License-Identifier: Apache-2.0
//! Starts the engine's packet worker: the gateway's, and the mobile's for what it sends.

use std::time::Duration;

use holdfast_core::{FlowRecord, Settings};
use holdfast_net::datapath::DataPath;
use tokio::sync::oneshot;

use super::records::Records;
use super::station::Station;
use super::worker::{Worker, WorkerSettings, attachment};
use crate::command::{Attaching, RunningWorker, WorkerHandle};
use crate::outages::OutageSender;

/// Starts the thread. `station` makes the part of a base station in it, where there are neighbours.
pub(super) fn start(
    path: DataPath,
    settings: WorkerSettings,
    (records, found): (Records, Vec<FlowRecord>),
    station: impl FnOnce() -> Option<Station> + Send + 'static,
) -> anyhow::Result<RunningWorker> {
    let (handle, inbox) = WorkerHandle::new()?;
    let attachment = attachment(&path)?;
    let (at_end, done) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("packets".into())
        .spawn(move || {
            let worker = Worker::new(path, settings, records, &found, inbox, station());
            // The control thread may have left already.
            let _ = at_end.send(worker.run());
        })?;
    Ok(RunningWorker {
        handle,
        done: Some(done),
        thread,
        attachment,
        attaching: Attaching::default(),
        injector: None,
    })
}

/// Starts the engine for what a mobile sends: the servers are its MHs, and the local stack and what
/// is behind it are its FHs.
pub(crate) fn start_at_mobile(
    path: DataPath,
    core: Settings,
    outages: OutageSender,
) -> anyhow::Result<RunningWorker> {
    let records = Records::in_memory(core.flows_max);
    let settings = WorkerSettings {
        core,
        // It owes nothing: it makes no ACK.
        drain: Duration::ZERO,
        wired_mtu: None,
        resend_dscp: None,
        outages,
    };
    start(path, settings, (records, Vec::new()), || None)
}
