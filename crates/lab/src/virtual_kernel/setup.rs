// SPDX-License-Identifier: Apache-2.0
//! Builds the virtual kernel, once for a user.
//!
//! Each step leaves its result under its name only when it is whole, so that a set-up
//! that was interrupted goes on where it was; `make` does so by itself.

use std::fs::{self, File};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use holdfast_testbed::stop::StopFlag;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::{FlockOperation, flock};

use super::run::Job;
use super::source::{download, remove_folder, unpack};
use super::steps::Steps;
use super::{CONFIGURATION, PATCHES, PROGRAM, RELEASE, VirtualKernel, cache_folder, kernel_folder};

/// Files that the kernel's build tells of, of which progress is shown.
const FILES_EXPECTED: u64 = 1_290;
/// How often a line is written where no bar can be drawn.
const PLAIN_INTERVAL: Duration = Duration::from_secs(20);
/// How long the new kernel may take to boot and run one command.
const TRIAL_LIMIT: Duration = Duration::from_secs(120);

/// What the build needs: a program, and the Debian package that has it.
const TOOLS: [(&str, &str); 9] = [
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("patch", "patch"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];
/// What it needs to bring the sources.
const APT_TOOLS: [(&str, &str); 2] = [("apt-get", "apt"), ("dpkg-deb", "dpkg")];

/// How to build.
#[derive(Clone, Debug)]
pub struct SetupOptions {
    /// A tarball of the kernel's sources; none: Debian's, by apt.
    pub source: Option<PathBuf>,
    /// Compilers at the same time; none: as many as there are processors.
    pub jobs: Option<usize>,
    /// Whether to build even if it is built already.
    pub again: bool,
    /// Our own binary, which is the first program inside.
    pub holdfast: PathBuf,
}

impl VirtualKernel {
    /// Builds the kernel into the cache, or returns the one that is there. Tells its
    /// progress on the standard error.
    ///
    /// Errors: a tool is missing (it is named, with what to do), a step failed, the
    /// kernel does not run here, or we are to stop.
    pub fn setup(options: &SetupOptions, stop: &StopFlag) -> anyhow::Result<Self> {
        let cache = cache_folder()?;
        fs::create_dir_all(&cache)
            .with_context(|| format!("{}: cannot be made", cache.display()))?;
        let lock = File::create(cache.join("virtual-kernel.lock"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("{}: another set-up is at work", cache.display());
        }
        if let (false, Some(found)) = (options.again, Self::find_in(&cache)?) {
            return Ok(found);
        }
        install_tools(options.source.is_none())?;
        let folder = kernel_folder(&cache).with_extension("build");
        fs::create_dir_all(&folder)?;
        let built = build(options, &folder, stop)?;
        let kernel = finish(options, &built, &cache, stop)?;
        // Sources and objects: over a gigabyte.
        remove_folder(&folder)?;
        Ok(kernel)
    }
}

/// The four steps; the kernel's program.
fn build(options: &SetupOptions, folder: &Path, stop: &StopFlag) -> anyhow::Result<PathBuf> {
    let mut steps = Steps::new(&folder.join("log"), stop)?;
    let tree = folder.join("tree");
    if !tree.is_dir() {
        let tarball = if let Some(path) = &options.source {
            fs::canonicalize(path)
                .with_context(|| format!("--source: {} cannot be read", path.display()))?
        } else {
            let _shown = Shown::begin("getting the kernel's sources from Debian (160 MB)");
            download(folder, &mut steps)?
        };
        let _shown = Shown::begin("unpacking them");
        unpack(&tarball, &PATCHES, &tree, &mut steps)?;
    }
    configure(&tree, &mut steps)?;
    let jobs = options.jobs.or_else(|| {
        let processors = std::thread::available_parallelism().ok()?;
        Some(processors.get())
    });
    let shown = Shown::begin_counting("building the kernel", FILES_EXPECTED);
    let mut make = make(&tree);
    make.arg(format!("-j{}", jobs.unwrap_or(1))).arg("linux");
    steps.run(&mut make, |_| shown.count())?;
    Ok(tree.join("linux"))
}

fn make(tree: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("ARCH=um").current_dir(tree).env("LC_ALL", "C");
    // Not of a make that we may be run by.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS");
    make
}

/// Writes the configuration, and sees that it was taken whole: the kernel's tools drop
/// without a word what another option forbids.
fn configure(tree: &Path, steps: &mut Steps<'_>) -> anyhow::Result<()> {
    let wanted = tree.join("wanted.config");
    fs::write(&wanted, CONFIGURATION)?;
    // Only if another was made: its time decides what has to be compiled again.
    if fs::read_to_string(tree.join(".config")).is_ok_and(|made| missing(&made).is_empty()) {
        return Ok(());
    }
    let mut make = make(tree);
    make.arg(format!("KCONFIG_ALLCONFIG={}", wanted.display()));
    steps.run(make.arg("allnoconfig"), |_| {})?;
    let made = fs::read_to_string(tree.join(".config"))?;
    let missing = missing(&made);
    ensure!(
        missing.is_empty(),
        "this kernel does not take {}; try another one",
        missing.join(", ")
    );
    Ok(())
}

/// Options that are wanted and not in the configuration `made`.
fn missing(made: &str) -> Vec<&'static str> {
    let wanted = CONFIGURATION
        .lines()
        .filter(|line| line.starts_with("CONFIG_"));
    wanted
        .filter(|option| !made.lines().any(|line| line == *option))
        .collect()
}

/// Copies the program into its place, once it has shown that it runs.
fn finish(
    options: &SetupOptions,
    built: &Path,
    cache: &Path,
    stop: &StopFlag,
) -> anyhow::Result<VirtualKernel> {
    let shown = Shown::begin("trying it");
    let folder = kernel_folder(cache);
    let partial = folder.with_extension("partial");
    remove_folder(&partial)?;
    fs::create_dir_all(&partial)?;
    fs::copy(built, partial.join(PROGRAM))?;
    let mut kernel = VirtualKernel {
        program: partial.join(PROGRAM),
        release: String::new(),
    };
    let trial = partial.join("trial");
    fs::create_dir(&trial)?;
    let job = Job {
        arguments: vec!["-r".into()],
        limit: TRIAL_LIMIT,
        ..Job::new(&options.holdfast, "uname", &trial)
    };
    let outcome = kernel.run(&job, stop)?;
    let release = fs::read_to_string(&outcome.stdout)?;
    ensure!(
        outcome.exit_code == Some(0) && !release.trim().is_empty(),
        "the virtual kernel runs, but no program in it: {outcome:?}"
    );
    fs::remove_dir_all(&trial)?;
    fs::write(partial.join(RELEASE), &release)?;
    remove_folder(&folder)?;
    fs::rename(&partial, &folder)?;
    kernel.program = folder.join(PROGRAM);
    release.trim().clone_into(&mut kernel.release);
    drop(shown);
    Ok(kernel)
}

/// Sees that the tools are there; installs them as root on a Debian system.
fn install_tools(by_apt: bool) -> anyhow::Result<()> {
    let wanted = TOOLS.iter().chain(APT_TOOLS.iter().filter(|_| by_apt));
    let missing: Vec<&str> = wanted
        .filter(|(program, _)| !on_path(program))
        .map(|&(_, package)| package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if missing.contains(&"apt") || missing.contains(&"dpkg") || !on_path("apt-get") {
        bail!(
            "the virtual kernel's build lacks (Debian's package names) {names}; without apt, \
             install their equivalents and give the kernel's sources with --source"
        );
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "the virtual kernel's build lacks {names}; not root, so nothing was installed; \
             run: sudo apt-get install --no-install-recommends {names}"
        );
    }
    eprintln!("installing {names}");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-y", "-o", "DPkg::Lock::Timeout=300"]);
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command.stdin(std::process::Stdio::null()).output()
    };
    // A third-party source that fails is no reason to stop: the installation decides.
    apt(&["update"])?;
    let mut arguments = vec!["install", "--no-install-recommends"];
    arguments.extend(&missing);
    let output = apt(&arguments)?;
    ensure!(
        output.status.success(),
        "apt-get install {names}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A step that is shown while it lasts: a bar on a terminal, lines elsewhere.
struct Shown {
    what: &'static str,
    bar: Option<ProgressBar>,
    files: Option<(std::cell::Cell<u64>, std::cell::Cell<Instant>)>,
    began: Instant,
}

impl Shown {
    fn begin(what: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if bar.is_none() {
            eprintln!("{what}");
        }
        let began = Instant::now();
        Self {
            what,
            bar,
            files: None,
            began,
        }
    }

    fn begin_counting(what: &'static str, expected: u64) -> Self {
        let mut shown = Self::begin(what);
        if let Some(bar) = &shown.bar {
            let template = "{msg} [{bar:30}] {percent:>3}%  about {eta} left";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style.progress_chars("=> "));
            bar.set_length(expected);
        }
        let began = std::cell::Cell::new(Instant::now());
        shown.files = Some((std::cell::Cell::new(0), began));
        shown
    }

    /// One more file is done.
    fn count(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        } else if let Some((files, told)) = &self.files {
            files.set(files.get() + 1);
            if told.get().elapsed() >= PLAIN_INTERVAL {
                told.set(Instant::now());
                let percent = (files.get() * 100 / FILES_EXPECTED).min(99);
                eprintln!("{}: {percent}%", self.what);
            }
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            eprintln!("{}: {:.0} s", self.what, self.began.elapsed().as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_was_dropped_is_noticed() {
        assert!(missing(CONFIGURATION).is_empty());
        let without = CONFIGURATION.replace("CONFIG_TUN=y", "# CONFIG_TUN is not set");
        assert_eq!(missing(&without), ["CONFIG_TUN=y"]);
    }
}
