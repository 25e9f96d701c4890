// SPDX-License-Identifier: Apache-2.0
//! Where results go: the standard output, or a file of lines that are whole at any time.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use holdfast_files as files;
use holdfast_lab::results::ResultLine;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

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

/// Where lines go.
#[derive(Debug)]
pub(super) enum Output {
    Nowhere,
    Standard,
    File(LineFile),
}

impl Output {
    /// None: nowhere; `-`: the standard output.
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        Ok(match path {
            None => Self::Nowhere,
            Some(path) if path.as_os_str() == "-" => Self::Standard,
            Some(path) => Self::File(LineFile::create(path)?),
        })
    }

    /// A line, at once: what is there when the run is interrupted is whole.
    pub(super) fn write(&mut self, line: &ResultLine) -> anyhow::Result<()> {
        let text = serde_json::to_string(line)?;
        match self {
            Self::Nowhere => Ok(()),
            Self::Standard => print(text),
            Self::File(file) => file.write(text),
        }
    }
}

/// A file of whole lines that one process at a time writes to.
#[derive(Debug)]
pub(super) struct LineFile {
    file: File,
    path: PathBuf,
    /// The length of its whole lines; none: it is no regular file.
    whole: Option<u64>,
}

impl LineFile {
    /// Empties the file, or makes it.
    ///
    /// # Errors
    /// It cannot be written, or another process holds it.
    fn create(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("--out: {} cannot be written", path.display());
        // Not emptied before it is ours.
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(cannot)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => bail!(
                "--out: another run writes to {}; give each run a file of its own",
                path.display()
            ),
            locked => locked.with_context(cannot)?,
        }
        files::check_overwritable(path, files::JSON_LINES).with_context(cannot)?;
        let is_regular = file.metadata().with_context(cannot)?.is_file();
        if is_regular {
            file.set_len(0).with_context(cannot)?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            whole: is_regular.then_some(0),
        })
    }

    /// A line, by one write; if it does not get there, nothing of it stays.
    fn write(&mut self, mut line: String) -> anyhow::Result<()> {
        line.push('\n');
        let written = self.file.write_all(line.as_bytes());
        if let Some(whole) = &mut self.whole {
            if written.is_ok() {
                *whole += line.len() as u64;
            } else {
                self.file.set_len(*whole).with_context(|| {
                    format!("--out: the end of {} is no whole line", self.path.display())
                })?;
            }
        }
        written.with_context(|| format!("--out: cannot write to {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_a_run_writes_to_is_refused_to_another_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, "{\"of\":\"an earlier run\"}\n").unwrap();
        let mut first = LineFile::create(&path).unwrap();
        first.write("one".into()).unwrap();
        let error = LineFile::create(&path).unwrap_err().to_string();
        assert!(
            error.starts_with("--out: another run writes to ") && error.ends_with("its own"),
            "{error}"
        );
        first.write("two".into()).unwrap();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        // A file that is no result belongs to the operator.
        let error = format!("{:#}", LineFile::create(&path).unwrap_err());
        assert!(error.contains("no earlier output"), "{error}");
        fs::write(&path, "{}\n").unwrap();
        drop(LineFile::create(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn a_device_takes_lines_too() {
        let mut file = LineFile::create(Path::new("/dev/null")).unwrap();
        assert_eq!(file.whole, None);
        file.write("line".into()).unwrap();
        let mut full = LineFile::create(Path::new("/dev/full")).unwrap();
        let error = full.write("line".into()).unwrap_err().to_string();
        assert_eq!(error, "--out: cannot write to /dev/full");
    }
}
