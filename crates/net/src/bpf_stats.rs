// SPDX-License-Identifier: Apache-2.0
//! How long BPF programs take: the kernel's own statistics (`BPF_ENABLE_STATS`).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::mobile_path::MobilePath;

/// Statistics are gathered while this lives.
#[derive(Debug)]
pub struct RunTimes {
    _enabled: OwnedFd,
}

impl RunTimes {
    /// Begins to gather them, for all programs of this kernel.
    ///
    /// Errors: no permission (`CAP_SYS_ADMIN`), a kernel before 5.8.
    pub fn measure() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: fd was just opened and has no other owner.
        let enabled = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { _enabled: enabled })
    }

    /// Of each of the path's programs: its name, how often it ran, nanoseconds a run.
    pub fn of(&self, path: &MobilePath) -> io::Result<Vec<(String, u64, f64)>> {
        path.run_times()
    }
}
