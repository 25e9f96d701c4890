// SPDX-License-Identifier: Apache-2.0
//! Maps that their owner lends to a process it starts. The process inherits their descriptors, which needs
//! no capability. To find maps by their IDs it would need `CAP_SYS_ADMIN`.

use std::io;
use std::os::fd::{AsFd as _, RawFd};
use std::process::Command;

use super::FlowMaps;
use crate::attach_point::BpfObject;
use crate::bpf::Programs;
use crate::datapath::Interface;
use crate::privileges::{duplicate, lend_descriptor};

/// The maps that are lent, by their names in the C source.
const NAMES: [&str; 5] = ["flows", "closed", "control", "withheld_segments", "woken"];

/// The numbers under which a process finds the maps of its parent, in the order of `NAMES`. The maps live as long
/// as one of the two processes.
pub type LentMaps = [RawFd; NAMES.len()];

impl FlowMaps {
    /// Lends these maps to the process that `command` starts, and to no other; pass to it the
    /// returned value.
    ///
    /// Errors: no descriptor is free.
    pub fn lend(&self, command: &mut Command) -> io::Result<LentMaps> {
        let maps = [
            &self.flows,
            &self.closed,
            &self.control,
            &self.withheld,
            &self.woken,
        ];
        let mut lent = [0; NAMES.len()];
        for (number, map) in lent.iter_mut().zip(maps) {
            *number = lend_descriptor(command, map.as_fd().try_clone_to_owned()?);
        }
        Ok(lent)
    }

    /// The maps that the parent process has lent. Its programs are attached to `interface`.
    ///
    /// Errors: there are no such descriptors, or they are something else.
    pub fn inherited(lent: &LentMaps, interface: &Interface) -> io::Result<Self> {
        let maps: io::Result<Vec<_>> = NAMES
            .into_iter()
            .zip(lent)
            .map(|(name, number)| Ok((name.to_owned(), duplicate(*number)?)))
            .collect();
        let programs = Programs::of_maps(BpfObject::Mobile, &maps?)?;
        Self::of(&programs, interface)
    }
}
