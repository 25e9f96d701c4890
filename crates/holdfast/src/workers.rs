// SPDX-License-Identifier: Apache-2.0
//! The packet workers of one interface: the engine's for TCP, that of `keep`, or both. Gateway and
//! mobile use them alike.
//!
//! They are started when the interface is there for the first time. When none has the name any more they
//! detach, and live on with all flows. When an interface of that name is there again they attach to it.
//! Then they take packets when all are attached: before, the link has no carrier, and TCP would wait.

use std::time::Duration;

use anyhow::bail;
use holdfast_net::datapath::{InterfaceId, monotonic_ns};

use crate::command::{Attaching, Command, RunningWorker};

/// How often it is looked whether a worker has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The workers, the engine's first.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    running: Vec<RunningWorker>,
    /// The interface that is there, to which some or all of them are attached.
    noted: Option<InterfaceId>,
    /// The interface to which all of them are attached.
    attached: Option<InterfaceId>,
}

impl Workers {
    /// This interface is there, or none of that name is. `start` starts the workers for the first time.
    ///
    /// Errors: those of `start` or of attaching; then all packets pass, and the next call tries again.
    pub(crate) fn note_interface(
        &mut self,
        id: Option<InterfaceId>,
        start: impl FnOnce(&mut Vec<RunningWorker>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.noted, id);
        if id.is_some() && self.attached == id {
            return Ok(());
        }
        if self.is_attached() || (before.is_some() && before != id) {
            self.detach();
        }
        let Some(id) = id else {
            return Ok(());
        };
        if self.running.is_empty() {
            if let Err(error) = start(&mut self.running) {
                self.release();
                return Err(error);
            }
        } else {
            for worker in &mut self.running {
                if worker.thread.is_finished() {
                    continue;
                }
                if worker.attachment.link_ifindex != id.ifindex {
                    // It removes its devices before it answers, and may answer late.
                    worker.attachment.devices.clear();
                    worker.attachment = worker.attaching.attach(&worker.handle)?;
                }
                if worker.attachment.link_ifindex != id.ifindex {
                    // A late answer to an earlier command, or a report that is late.
                    bail!("the packet worker is at another interface of this name");
                }
            }
        }
        self.send(&Command::Take);
        let mut running = self.running.iter();
        let first = running.find(|worker| !worker.thread.is_finished());
        self.attached = first.map(|worker| InterfaceId {
            ifindex: worker.attachment.link_ifindex,
            ..id
        });
        Ok(())
    }

    /// Has all packets pass: no interface has the name, or another one. One with other frames is another one.
    fn detach(&mut self) {
        self.attached = None;
        // One that hangs does not beat, so that they pass all the same.
        self.send(&Command::Detach);
        for worker in &mut self.running {
            // Another interface may get the same index, and a late answer is about this one.
            worker.attachment.link_ifindex = 0;
            worker.attaching = Attaching::default();
        }
    }

    /// The interface whose packets can be taken.
    pub(crate) const fn attached(&self) -> Option<InterfaceId> {
        self.attached
    }

    /// Whether packets can be taken.
    pub(crate) const fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// The workers, none before the interface was there.
    pub(crate) fn running(&self) -> &[RunningWorker] {
        &self.running
    }

    /// The same, to wait for their ends.
    pub(crate) fn running_mut(&mut self) -> &mut [RunningWorker] {
        &mut self.running
    }

    /// Hands a command to each worker; false if one hangs.
    pub(crate) fn send(&self, command: &Command) -> bool {
        let mut all = true;
        for worker in &self.running {
            all &= worker.handle.send(command.clone());
        }
        all
    }

    /// Whether no worker hangs. One that has ended does not.
    pub(crate) fn are_alive(&self) -> bool {
        let now_ns = monotonic_ns();
        self.running
            .iter()
            .all(|worker| worker.thread.is_finished() || worker.handle.is_alive(now_ns))
    }

    /// Has all packets pass, and waits for the workers' ends. One that hangs is not waited for.
    pub(crate) fn release(&mut self) {
        self.attached = None;
        for worker in self.running.drain(..) {
            // One that has ended has left already.
            worker.handle.send(Command::Leave);
            while !worker.thread.is_finished() && worker.handle.is_alive(monotonic_ns()) {
                std::thread::sleep(LOOK);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
