// SPDX-License-Identifier: Apache-2.0
//! Maps for a process that their owner starts. It inherits their descriptors: to find maps by
//! their numbers the kernel asks for `CAP_SYS_ADMIN`, to have them handed over for nothing.

use std::io;
use std::os::fd::{AsFd as _, RawFd};
use std::process::Command;

use libbpf_rs::MapHandle;

use super::FlowMaps;
use crate::attach_point::BpfObject;
use crate::bpf::Programs;
use crate::datapath::Interface;
use crate::privileges::{duplicate, lend_descriptor};

/// Under which numbers a process that was started with them finds its parent's maps; they live as
/// long as one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentMaps {
    /// The map of flows.
    pub flows: RawFd,
    /// The map of flows whose window is closed.
    pub closed: RawFd,
    /// The map of the deadline.
    pub control: RawFd,
    /// The map of withheld.
    pub withheld: RawFd,
    /// The map of flows that were woken.
    pub woken: RawFd,
}

impl FlowMaps {
    /// Lends these maps to the process that `command` starts, and to no other; pass to it the
    /// returned value.
    ///
    /// Errors: no more descriptors.
    pub fn lend(&self, command: &mut Command) -> io::Result<LentMaps> {
        let mut lend = |map: &MapHandle| {
            let own = map.as_fd().try_clone_to_owned()?;
            io::Result::Ok(lend_descriptor(command, own))
        };
        Ok(LentMaps {
            flows: lend(&self.flows)?,
            closed: lend(&self.closed)?,
            control: lend(&self.control)?,
            withheld: lend(&self.withheld)?,
            woken: lend(&self.woken)?,
        })
    }

    /// The maps that this process was started with, of one that is attached to `interface`.
    ///
    /// Errors: there are no such descriptors, or they are something else.
    pub fn inherited(lent: &LentMaps, interface: &Interface) -> io::Result<Self> {
        let own = |name: &str, number| Ok((name.to_owned(), duplicate(number)?));
        let maps: io::Result<Vec<_>> = [
            own("flows", lent.flows),
            own("closed", lent.closed),
            own("control", lent.control),
            own("withheld_segments", lent.withheld),
            own("woken", lent.woken),
        ]
        .into_iter()
        .collect();
        let programs = Programs::of_maps(BpfObject::Mobile, &maps?)?;
        Self::of(&programs, interface)
    }
}
