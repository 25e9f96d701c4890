// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab endpoint`: one end of a transfer, started by the lab in its host.

use std::process::ExitCode;

use holdfast_lab::endpoint::process;

/// Executes the orders on the standard input.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    process::serve()?;
    Ok(ExitCode::SUCCESS)
}
