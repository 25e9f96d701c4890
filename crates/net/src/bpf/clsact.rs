// SPDX-License-Identifier: Apache-2.0
//! Filters at a clsact qdisc, for kernels without TCX.
//!
//! An interface has one qdisc at `ffff:`. That is clsact, with a hook for each way, or `ingress`, with one hook alone.
//! There a filter for egress would stand at ingress, and the next filter would replace it.
//!
//! Source: `tc_modify_qdisc` in `net/sched/sch_api.c`, `ingress_tcf_block` in `net/sched/sch_ingress.c`.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHook, TcHookBuilder};

use self::qdisc::{CLSACT, Qdisc};
use super::bpf;
use crate::attach_point::{AttachPoint, HookSide};
use crate::tun::interface_name;

mod qdisc;
#[cfg(test)]
mod tests;

/// The priority of our filters.
const PRIORITY: u32 = 1;

/// The qdiscs that this process has made. Locked, so that none is removed between its use and its filter.
static MADE: Mutex<BTreeSet<Qdisc>> = Mutex::new(BTreeSet::new());

/// An attached filter. A drop detaches it. The last filter's drop removes the qdisc too, if this process has made it.
#[derive(Debug)]
pub(crate) struct Filter {
    hook: TcHook,
    qdisc: Qdisc,
}

// SAFETY: TcHook is plain data (an index, numbers); it is not Send only because
// of a pointer that libbpf reserves in its options and that is null here.
unsafe impl Send for Filter {}

impl Filter {
    /// Errors: the kernel's; `AlreadyExists` if another qdisc stands where clsact would.
    pub(super) fn attach(program: BorrowedFd<'_>, point: AttachPoint) -> io::Result<Self> {
        let qdisc = Qdisc::at(point.ifindex)?;
        let mut made = made();
        if make(&qdisc)? {
            made.insert(qdisc.clone());
        }
        let mut hook = TcHookBuilder::new(program)
            .ifindex(point.ifindex as i32)
            .replace(true)
            .handle(point.clsact_handle)
            .priority(PRIORITY)
            .hook(side_of(point.side));
        if let Err(error) = hook.attach() {
            remove_unused(&mut made, &qdisc);
            return Err(bpf("clsact filter", &error));
        }
        Ok(Self { hook, qdisc })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        let mut made = made();
        // It fails when the interface is removed, and then there is nothing to do.
        drop(self.hook.detach());
        remove_unused(&mut made, &self.qdisc);
    }
}

fn made() -> MutexGuard<'static, BTreeSet<Qdisc>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the qdisc if there is none; whether it did.
fn make(qdisc: &Qdisc) -> io::Result<bool> {
    let step = |error: io::Error| io::Error::new(error.kind(), format!("clsact: {error}"));
    match qdisc.make() {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(step(error)),
    }
    let kind = qdisc.kind().map_err(step)?;
    if kind == CLSACT {
        return Ok(false);
    }
    let name = interface_name(qdisc.ifindex)?;
    let problem = format!(
        "{name} has the qdisc {kind:?}, where the programs need {CLSACT:?} before Linux 6.6; \
         remove it: tc qdisc del dev {name} {kind}"
    );
    Err(io::Error::new(io::ErrorKind::AlreadyExists, problem))
}

/// Removes a qdisc of `made` that has no filter any more.
fn remove_unused(made: &mut BTreeSet<Qdisc>, qdisc: &Qdisc) {
    // In another namespace the index is another interface's.
    let is_here = Qdisc::at(qdisc.ifindex).is_ok_and(|here| here == *qdisc);
    if !is_here || !made.contains(qdisc) {
        return;
    }
    // If its filters cannot be read it stays: there may be filters of others.
    let is_used = qdisc.has_filters().unwrap_or(true);
    if !is_used {
        let _ = qdisc.remove();
        made.remove(qdisc);
    }
}

/// Where libbpf attaches a filter.
const fn side_of(side: HookSide) -> TcAttachPoint {
    match side {
        HookSide::Ingress => TC_INGRESS,
        HookSide::Egress => TC_EGRESS,
    }
}
