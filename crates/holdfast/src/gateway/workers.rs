// SPDX-License-Identifier: Apache-2.0
//! The packet workers of one gateway, as one: the engine's for TCP, and that of `keep`.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use holdfast_net::counters::Counters;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::command::{Command, RunningWorker, WorkerHandle};
use crate::control::StatusReply;

/// The longest wait for a worker's status.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How a worker ended; an error: without a word.
pub(super) type WorkerEnd = Result<io::Result<()>, oneshot::error::RecvError>;

/// The commands' queues and the counters of all workers; the engine's first.
pub(super) struct Workers(Vec<(WorkerHandle, Counters)>);

impl Workers {
    pub(super) fn of(running: &[RunningWorker]) -> io::Result<Self> {
        let each = running.iter().map(|worker| {
            let counters = worker.counters.try_clone()?;
            Ok((worker.handle.clone(), counters))
        });
        each.collect::<io::Result<_>>().map(Self)
    }

    /// Hands a command to each worker; false if one hangs or has ended.
    pub(super) fn send(&self, command: &Command) -> bool {
        let mut all = true;
        for (handle, _) in &self.0 {
            all &= handle.send(command.clone());
        }
        all
    }

    /// What all workers and their data paths see; none if one does not answer.
    pub(super) async fn status(&self, flows_max: usize, named: Vec<IpAddr>) -> Option<StatusReply> {
        let mut all: Option<StatusReply> = None;
        for (handle, counters) in &self.0 {
            let (reply, mut answer) = mpsc::channel(1);
            let is_sent = handle.send(Command::Status {
                flows_max,
                named: named.clone(),
                reply,
            });
            if !is_sent {
                return None;
            }
            let mut status = timeout(ANSWER_MAX, answer.recv()).await.ok()??;
            for (name, value) in counters.read().unwrap_or_default() {
                status.counters.insert(format!("data-path.{name}"), value);
            }
            match &mut all {
                None => all = Some(status),
                Some(all) => all.add(status),
            }
        }
        all
    }
}
