// SPDX-License-Identifier: Apache-2.0

//! What every system call's result goes through.

use std::ffi::c_int;
use std::io;

/// The error of a call that answered `result`: negative means that `errno` has the reason.
pub(crate) fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// `error`, with the step in which it came about before it.
pub(crate) fn at(step: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{step}: {error}"))
}
