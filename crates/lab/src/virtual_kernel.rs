// SPDX-License-Identifier: Apache-2.0
//! A Linux kernel that runs as an ordinary process, in virtual time. It has real sockets and real
//! TCP. It needs no privileges, and the load of this machine changes no result.
//!
//! It is User Mode Linux with `time-travel=inf-cpu`. The clock stands still while any program
//! computes, and jumps to the next timer when all programs wait. So a sleep costs no real time. One
//! seed determines all of the kernel's randomness, so the same command always gives the same
//! result.
//!
//! ```text
//!   VirtualKernel::setup   sources, configuration, make      once, minutes
//!   VirtualKernel::find    what setup left in the cache
//!   VirtualKernel::run     boots, runs one command as root inside, ends: 0.2 s and the command
//! ```
//!
//! Inside, the host's files have their usual paths and are read-only; `/tmp`, `/run` and `/dev` are
//! separate. The command's results are in the folder of the run. There is one processor, and the
//! only network is what the command makes. It protects against mistakes, not against malice: root
//! inside can change the host's files as the user can.
//!
//! Neither building nor running needs root, if the tools are installed.
//!
//! Source: `arch/um` of Linux, `Documentation/virt/uml/user_mode_linux_howto_v2.rst`,
//! `arch/um/kernel/time.c` on time travel.

mod exchange;
mod inside;
mod processor;
mod run;
mod setup;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

pub use inside::be_init;
pub use run::{Job, Outcome};
pub use setup::SetupOptions;

/// The kernel's configuration.
const CONFIGURATION: &str = include_str!("../virtual-kernel/config");
/// The changes to the kernel's sources, in the order in which they are made.
const PATCHES: [(&str, &str); 2] = [
    (
        "random-seed.patch",
        include_str!("../virtual-kernel/random-seed.patch"),
    ),
    (
        "vdso-clock.patch",
        include_str!("../virtual-kernel/vdso-clock.patch"),
    ),
];

/// The file of the kernel within its folder.
const PROGRAM: &str = "linux";
/// The file with the kernel's release, for results.
const RELEASE: &str = "release";

/// A virtual kernel that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualKernel {
    program: PathBuf,
    release: String,
}

impl VirtualKernel {
    /// The kernel that [`VirtualKernel::setup`] built for this user. `None`: it was not built, or
    /// the program's configuration has changed since.
    ///
    /// Errors: neither `XDG_CACHE_HOME` nor `HOME` is set, or a file cannot be read.
    pub fn find() -> anyhow::Result<Option<Self>> {
        Self::find_in(&cache_folder()?)
    }

    fn find_in(cache: &Path) -> anyhow::Result<Option<Self>> {
        let folder = kernel_folder(cache);
        let path = folder.join(RELEASE);
        match std::fs::read_to_string(&path) {
            Ok(release) => Ok(Some(Self {
                program: folder.join(PROGRAM),
                release: release.trim().to_owned(),
            })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{}: cannot be read", path.display())),
        }
    }

    /// As [`VirtualKernel::find`]; an error with the remedy if there is none.
    pub fn require() -> anyhow::Result<Self> {
        Self::find()?.context("the virtual kernel is not built; run: holdfast lab setup")
    }

    /// The kernel's program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The kernel's release, as `uname -r`.
    pub fn release(&self) -> &str {
        &self.release
    }
}

/// The virtual kernel for a test. If it is not built, a line on the terminal names the
/// skipped test; the test harness does not capture the line.
pub fn available_or_skip(test: &str) -> Option<VirtualKernel> {
    let found = VirtualKernel::require();
    if let Err(error) = &found {
        holdfast_net::netns::report_skipped(test, format_args!("{error:#}"));
    }
    found.ok()
}

/// This user's cache folder: `$XDG_CACHE_HOME/holdfast`, or
/// `~/.cache/holdfast`.
pub fn cache_folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let cache = cache.context("no folder for the virtual kernel: set XDG_CACHE_HOME or HOME")?;
    Ok(cache.join("holdfast"))
}

/// The folder for the kernel with this program's configuration.
fn kernel_folder(cache: &Path) -> PathBuf {
    cache.join(format!("virtual-kernel-{}", identity()))
}

/// A hash of everything that the kernel is built from: any change makes another kernel.
fn identity() -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    hash.update(CONFIGURATION);
    hash.update(setup::BUILD_SCRIPT);
    for (name, patch) in PATCHES {
        hash.update(name);
        hash.update(patch);
    }
    let mut text = String::new();
    for octet in &hash.finalize()[..6] {
        let _ = write!(text, "{octet:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
