// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab inside`: the first program of a virtual kernel. No operator runs it.

use std::process::ExitCode;

use holdfast_lab::virtual_kernel::be_init;

/// Returns only with an error.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    match be_init()? {}
}
