// SPDX-License-Identifier: Apache-2.0
//! The output of results: the standard output, or a file.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};

use anyhow::Context as _;

use super::line_file::LineFile;

/// The error of a standard output without a reader: `holdfast lab list | head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputClosed;

impl fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the standard output has no reader any more")
    }
}

impl std::error::Error for OutputClosed {}

/// Writes a line to the standard output.
///
/// # Errors
/// [`OutputClosed`], or it cannot be written.
pub(super) fn print(line: impl fmt::Display) -> anyhow::Result<()> {
    let written = writeln!(io::stdout().lock(), "{line}").and_then(|()| io::stdout().flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        written => written.context("cannot write to the standard output"),
    }
}

/// The output of lines.
#[derive(Debug)]
pub(super) enum Output {
    Nowhere,
    Standard,
    File(LineFile),
}

impl Output {
    /// Writes the line of the run at `index` at once: after an interrupt the output has only whole
    /// lines.
    pub(super) fn write(&mut self, index: usize, line: String) -> anyhow::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Standard => print(line),
            Self::File(file) => file.write(index, line),
        }
    }

    /// Finishes the output after all runs were carried out.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Nowhere | Self::Standard => Ok(()),
        }
    }
}
