// SPDX-License-Identifier: Apache-2.0
//! The packet workers of one interface: the engine's for TCP, that of `keep`, or both. Gateway and
//! mobile both use this module.
//!
//! The workers start when the interface exists for the first time. When it is removed they
//! detach, and keep all flows. When an interface of that name exists again they attach to it. They take
//! packets only when all are attached: until then the link has no carrier, and TCP would wait.

use std::time::Duration;

use anyhow::bail;
use holdfast_net::datapath::{InterfaceId, monotonic_ns};

use crate::command::{Attaching, Command, RunningWorker};

/// The interval at which [`Workers::release`] checks whether a worker has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The workers, the engine's first.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    running: Vec<RunningWorker>,
    /// The interface of that name, if it exists. Workers may not be attached to it yet.
    noted: Option<InterfaceId>,
    /// The interface to which all workers are attached.
    attached: Option<InterfaceId>,
}

impl Workers {
    /// Notes the interface of that name. None: no interface has the name. `start` starts the workers the first
    /// time.
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
                    // The worker removes its devices before it answers, and its answer may be late.
                    worker.attachment.devices.clear();
                    worker.attachment = worker.attaching.attach(&worker.handle)?;
                }
                if worker.attachment.link_ifindex != id.ifindex {
                    // The answer may be to an earlier command, or the report of the interface is late.
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

    /// Makes all packets pass: the interface was removed, or is another one. With other frames it is another one.
    fn detach(&mut self) {
        self.attached = None;
        // A worker that hangs does not beat: the kernel passes the packets anyway.
        self.send(&Command::Detach);
        for worker in &mut self.running {
            // Another interface may get the same index, and a late answer is about the old interface.
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

    /// The workers; none before the interface existed.
    pub(crate) fn running(&self) -> &[RunningWorker] {
        &self.running
    }

    /// The workers, to wait for their ends.
    pub(crate) fn running_mut(&mut self) -> &mut [RunningWorker] {
        &mut self.running
    }

    /// Sends a command to each worker; false if one hangs.
    pub(crate) fn send(&self, command: &Command) -> bool {
        let mut all = true;
        for worker in &self.running {
            all &= worker.handle.send(command.clone());
        }
        all
    }

    /// Whether no worker hangs. A worker that has ended does not hang.
    pub(crate) fn are_alive(&self) -> bool {
        let now_ns = monotonic_ns();
        self.running
            .iter()
            .all(|worker| worker.thread.is_finished() || worker.handle.is_alive(now_ns))
    }

    /// Makes all packets pass, and waits until the workers have ended. It does not wait for one that hangs.
    pub(crate) fn release(&mut self) {
        self.attached = None;
        for worker in self.running.drain(..) {
            // A worker that has ended needs no command.
            worker.handle.send(Command::Leave);
            while !worker.thread.is_finished() && worker.handle.is_alive(monotonic_ns()) {
                std::thread::sleep(CHECK_INTERVAL);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
