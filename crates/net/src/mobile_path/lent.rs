// SPDX-License-Identifier: Apache-2.0
//! Maps for a process that their owner starts. It inherits their descriptors: to find maps by
//! their numbers the kernel asks for `CAP_SYS_ADMIN`, to have them handed over for nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use libbpf_rs::MapHandle;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use super::{FlowMaps, program};
use crate::datapath::Interface;

/// Standard input, output and error are below.
const FD_MIN: i32 = 3;

/// Under which numbers a process that was started with them finds its parent's maps; they live as
/// long as one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentMaps {
    /// The map of flows.
    pub flows: i32,
    /// The map of flows whose window is closed.
    pub closed: i32,
    /// The map of the deadline.
    pub control: i32,
    /// The map of withheld.
    pub withheld: i32,
    /// The map of flows that were woken.
    pub woken: i32,
}

impl FlowMaps {
    /// Lends these maps to the process that `command` starts, and to no other; pass to it the
    /// returned value.
    ///
    /// Errors: no more descriptors.
    pub fn lend(&self, command: &mut Command) -> io::Result<LentMaps> {
        let own = |map: &MapHandle| map.as_fd().try_clone_to_owned();
        let lent = [
            own(&self.flows)?,
            own(&self.closed)?,
            own(&self.control)?,
            own(&self.withheld)?,
            own(&self.woken)?,
        ];
        let [flows, closed, control, withheld, woken] = lent.each_ref().map(OwnedFd::as_raw_fd);
        let keep_open = move || {
            for fd in &lent {
                fcntl_setfd(fd, FdFlags::empty())?;
            }
            Ok(())
        };
        // SAFETY: the closure runs between fork and exec and makes async-signal-safe calls alone;
        // it allocates nothing.
        unsafe { command.pre_exec(keep_open) };
        Ok(LentMaps {
            flows,
            closed,
            control,
            withheld,
            woken,
        })
    }

    /// The maps that this process was started with, of one that is attached to `interface`.
    ///
    /// Errors: there are no such descriptors, or they are something else; no permission
    /// (`CAP_BPF`).
    pub fn inherited(lent: &LentMaps, interface: &Interface) -> io::Result<Self> {
        let flows = duplicate(lent.flows)?;
        let closed = duplicate(lent.closed)?;
        let control = duplicate(lent.control)?;
        let withheld = duplicate(lent.withheld)?;
        let woken = duplicate(lent.woken)?;
        let programs = program::of_maps(&[
            ("flows", flows.as_fd()),
            ("closed", closed.as_fd()),
            ("control", control.as_fd()),
            ("withheld_segments", withheld.as_fd()),
            ("woken", woken.as_fd()),
        ])?;
        Self::of(&programs, interface)
    }
}

/// A descriptor of our own for the one with this number. Neither is inherited by processes that this one
/// starts.
fn duplicate(number: i32) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: the kernel refuses a number that is no descriptor.
    let lent = unsafe { BorrowedFd::borrow_raw(number) };
    let own = fcntl_dupfd_cloexec(lent, FD_MIN)?;
    fcntl_setfd(lent, FdFlags::CLOEXEC)?;
    Ok(own)
}
