// SPDX-License-Identifier: Apache-2.0

//! Helpers for system calls: results, options, errors.

use std::ffi::c_int;
use std::io;
use std::os::fd::AsRawFd;

/// The error of a call that answered `result`: negative means that `errno` has the reason.
pub(crate) fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Sets an option of a socket whose value is an int (setsockopt(2)).
pub(crate) fn set_option(
    socket: &impl AsRawFd,
    level: c_int,
    option: c_int,
    value: c_int,
) -> io::Result<()> {
    // SAFETY: setsockopt reads one int, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    check(result)
}

/// `error`, with the step in which it came about before it.
pub(crate) fn at(step: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{step}: {error}"))
}
