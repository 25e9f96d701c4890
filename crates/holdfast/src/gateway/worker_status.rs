// SPDX-License-Identifier: Apache-2.0
//! The status of one gateway's packet workers, and how a worker ended.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use holdfast_net::counters::Counters;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::links::WirelessLink;
use crate::command::{Command, WorkerHandle};
use crate::control::StatusReply;

/// The longest wait for a worker's answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How a worker ended. `RecvError`: the thread ended without a result.
pub(super) type WorkerEnd = Result<io::Result<()>, oneshot::error::RecvError>;

/// A worker whose status can be queried while the control thread does other things.
pub(super) struct QueriedWorker {
    handle: WorkerHandle,
    counters: Counters,
    pub(super) interface: String,
    pub(super) data_path: &'static str,
}

impl QueriedWorker {
    /// All workers of an interface that have not ended. Errors: no descriptor is free.
    pub(super) fn of_link(link: &WirelessLink) -> impl Iterator<Item = io::Result<Self>> {
        let running = link.workers.running().iter();
        let running = running.filter(|worker| !worker.thread.is_finished());
        running.map(|worker| {
            Ok(Self {
                handle: worker.handle.clone(),
                counters: worker.attachment.counters.try_clone()?,
                interface: link.interface.name.clone(),
                data_path: worker.attachment.data_path,
            })
        })
    }

    /// The status of the worker and the counters of its data path; none if the worker does not answer.
    pub(super) async fn status(&self, flows_max: usize, named: Vec<IpAddr>) -> Option<StatusReply> {
        let (reply, mut answer) = mpsc::channel(1);
        let is_sent = self.handle.send(Command::Status {
            flows_max,
            named,
            reply,
        });
        if !is_sent {
            return None;
        }
        let mut status = timeout(ANSWER_MAX, answer.recv()).await.ok()??;
        for (name, value) in self.counters.read().unwrap_or_default() {
            status.counters.insert(format!("data-path.{name}"), value);
        }
        Some(status)
    }
}
