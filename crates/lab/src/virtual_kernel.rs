// SPDX-License-Identifier: Apache-2.0
//! A Linux kernel that runs as an ordinary process, in virtual time: real sockets
//! and real TCP, free of this machine's noise and of its privileges.
//!
//! It is User Mode Linux with `time-travel=inf-cpu`: while any program computes the
//! clock stands, and when all of them wait it goes to the next timer. A sleep costs
//! nothing, and the load of this machine changes no result. With one seed for all of
//! the kernel's randomness the same command does the same every time.
//!
//! ```text
//!   VirtualKernel::setup   sources, configuration, make      once, minutes
//!   VirtualKernel::find    what setup left in the cache
//!   VirtualKernel::run     boots, runs one command as root inside, ends: 0.2 s and the command
//! ```
//!
//! Inside, the host's files are where they always are, read-only, with a `/tmp`, a
//! `/run` and a `/dev` of its own; what comes out of it is in the folder of
//! the run. There is one processor and no network but what the command
//! makes itself. It keeps mistakes in, not malice: root inside can do to the host's
//! files what we can.
//!
//! Needs no root, once built nor to build, if the tools for it are installed.
//!
//! Source: `arch/um` of Linux, `Documentation/virt/uml/user_mode_linux_howto_v2.rst`,
//! `arch/um/kernel/time.c` on time travel.

mod inside;
mod processor;
mod run;
mod setup;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

pub use inside::{INSIDE_ARGUMENTS, be_init};
pub use run::{Job, Outcome};
pub use setup::SetupOptions;

/// What the kernel is configured to have.
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
/// Beside it: what it calls itself, for results.
const RELEASE: &str = "release";

/// A virtual kernel that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualKernel {
    program: PathBuf,
    release: String,
}

impl VirtualKernel {
    /// The kernel that [`VirtualKernel::setup`] built for this user; none: it has
    /// not been built, or with another configuration than this program's.
    ///
    /// Errors: there is no folder for it (neither `XDG_CACHE_HOME` nor `HOME` is
    /// set), or what is there cannot be read.
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

    /// What it calls itself, as `uname -r`.
    pub fn release(&self) -> &str {
        &self.release
    }
}

/// Whether a test that needs the virtual kernel can run here: it is built. If not it
/// says so on the terminal, past the test harness's capture.
pub fn available_or_skip(test: &str) -> Option<VirtualKernel> {
    let found = VirtualKernel::require();
    if let Err(error) = &found {
        holdfast_net::netns::report_skipped(test, format_args!("{error:#}"));
    }
    found.ok()
}

/// This user's folder for what can be made again: `$XDG_CACHE_HOME/holdfast`, or
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

/// Where the kernel of this program's configuration is, or is to be.
fn kernel_folder(cache: &Path) -> PathBuf {
    cache.join(format!("virtual-kernel-{}", identity()))
}

/// Names configuration and patches: a kernel with others is another kernel.
fn identity() -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    hash.update(CONFIGURATION);
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
