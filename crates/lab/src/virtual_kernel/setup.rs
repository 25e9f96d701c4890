// SPDX-License-Identifier: Apache-2.0
//! Builds the virtual kernel once for each user, by `virtual-kernel/build.sh` in a folder of the
//! cache.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use holdfast_testbed::stop::StopFlag;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::{FlockOperation, flock};

use super::run::{Group, Job, last_lines, remove_folder};
use super::{CONFIGURATION, PATCHES, PROGRAM, RELEASE, VirtualKernel, cache_folder, kernel_folder};

/// Builds the kernel from the sources, its configuration and the patches.
pub(super) const BUILD_SCRIPT: &str = include_str!("../../virtual-kernel/build.sh");
/// The scripts in their order: the first installs tools, the second builds.
const SCRIPTS: [(&str, &str); 2] = [
    ("tools.sh", include_str!("../../virtual-kernel/tools.sh")),
    ("build.sh", BUILD_SCRIPT),
];
/// The number of lines that the kernel's build prints, for the progress bar.
const LINES_EXPECTED: u64 = 1_290;
/// The time between two checks of the stop flag.
const POLL: Duration = Duration::from_millis(100);
/// The longest time that the new kernel may take to boot and run one command.
const TRIAL_LIMIT: Duration = Duration::from_secs(120);

/// The settings of the build.
#[derive(Clone, Debug)]
pub struct SetupOptions {
    /// A tarball of the kernel's sources; none: Debian's sources, by apt.
    pub source: Option<PathBuf>,
    /// Number of parallel compilers; none: one for each processor.
    pub jobs: Option<usize>,
    /// Whether to build again if it is built already.
    pub again: bool,
    /// Our own binary, which is the first program inside.
    pub holdfast: PathBuf,
}

impl VirtualKernel {
    /// Builds the kernel into the cache, or returns the one in the cache. Prints the progress on
    /// the standard error.
    ///
    /// Errors: a tool is missing (the error names it and the remedy), a step failed, the kernel
    /// does not run here, or the flag was raised.
    pub fn setup(options: &SetupOptions, stop: &StopFlag) -> anyhow::Result<Self> {
        let cache = cache_folder()?;
        fs::create_dir_all(&cache)
            .with_context(|| format!("{}: cannot be made", cache.display()))?;
        if let (false, Some(found)) = (options.again, Self::find_in(&cache)?) {
            return Ok(found);
        }
        let lock = File::create(cache.join("virtual-kernel.lock"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("{}: another set-up is at work", cache.display());
        }
        if let (false, Some(found)) = (options.again, Self::find_in(&cache)?) {
            return Ok(found);
        }
        let source = options.source.as_ref().map(|path| {
            fs::canonicalize(path)
                .with_context(|| format!("--source: {} cannot be read", path.display()))
        });
        let source = source.transpose()?;
        let folder = kernel_folder(&cache).with_extension("build");
        fs::create_dir_all(&folder)?;
        for (name, text) in SCRIPTS
            .iter()
            .chain(&PATCHES)
            .chain(&[("config", CONFIGURATION)])
        {
            fs::write(folder.join(name), text)?;
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let jobs = options.jobs.unwrap_or(processors).to_string();
        let [tools, build] = SCRIPTS.map(|(script, _)| {
            let mut command = Command::new("bash");
            command.arg(script).current_dir(&folder);
            command
        });
        for (mut command, jobs) in [(tools, None), (build, Some(&jobs))] {
            command.args(jobs).args(&source);
            run_script(&mut command, &folder.join("log"), stop)?;
        }
        let kernel = finish(options, &folder.join("tree/linux"), &cache, stop)?;
        // The sources and objects take over a gigabyte.
        remove_folder(&folder)?;
        Ok(kernel)
    }
}

/// Runs a script, with its output in a log. Lines that begin with "== " name its steps.
///
/// Errors: its status is not 0 (the error shows its last lines), or the flag was raised.
fn run_script(command: &mut Command, log_path: &Path, stop: &StopFlag) -> anyhow::Result<()> {
    let mut log = File::create(log_path)
        .with_context(|| format!("{}: cannot be written", log_path.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(log.try_clone()?);
    let mut group = Group::spawn(command)?;
    let output = group.child().stdout.take().context("no output to read")?;
    let (sender, lines) = mpsc::sync_channel(1024);
    thread::spawn(move || {
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.try_for_each(|line| sender.send(line))
    });
    let bar = std::io::stderr().is_terminal().then(progress_bar);
    loop {
        stop.check()?;
        let line = match lines.recv_timeout(POLL) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        writeln!(log, "{line}")?;
        match (line.strip_prefix("== "), &bar) {
            (Some(step), Some(bar)) => bar.set_message(step.to_owned()),
            (Some(step), None) => eprintln!("{step}"),
            (None, Some(bar)) => bar.inc(1),
            (None, None) => {}
        }
    }
    let status = group.child().wait()?;
    ensure!(
        status.success(),
        "{} (all of it: {})",
        last_lines(log_path),
        log_path.display()
    );
    Ok(())
}

fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} [{bar:30}] {elapsed} gone")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(LINES_EXPECTED).with_style(style.progress_chars("=> "))
}

/// Copies the program into its folder after a trial run.
fn finish(
    options: &SetupOptions,
    built: &Path,
    cache: &Path,
    stop: &StopFlag,
) -> anyhow::Result<VirtualKernel> {
    eprintln!("trying it");
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
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a "kernel" with this Makefile and one patch, and returns the build's result.
    fn build(folder: &Path, makefile: &str, patch: &str) -> anyhow::Result<()> {
        let inner = folder.join("linux-1");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("Makefile"), makefile).unwrap();
        fs::write(folder.join("config"), "CONFIG_TUN=y\n").unwrap();
        fs::write(folder.join("build.sh"), BUILD_SCRIPT).unwrap();
        fs::write(folder.join("only.patch"), patch).unwrap();
        let mut tar = Command::new("tar");
        tar.current_dir(folder)
            .args(["-cf", "linux.tar", "linux-1"]);
        assert!(tar.status().unwrap().success());
        let mut command = Command::new("bash");
        command
            .current_dir(folder)
            .args(["build.sh", "1", "linux.tar"]);
        run_script(&mut command, &folder.join("log"), &StopFlag::default())
    }

    const PATCH: &str = "--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-VERSION = 6\n+VERSION = 8\n";
    const TARGETS: &str =
        "allnoconfig:\n\tcp $(KCONFIG_ALLCONFIG) .config\nlinux:\n\techo $(VERSION) > linux\n";

    #[test]
    fn sources_are_unpacked_patched_configured_and_built() {
        let folder = tempfile::tempdir().unwrap();
        let makefile = format!("VERSION = 6\nPATCHLEVEL = 18\n{TARGETS}");
        build(folder.path(), &makefile, PATCH).unwrap();
        let built = fs::read_to_string(folder.path().join("tree/linux")).unwrap();
        assert_eq!(built, "8\n");
    }

    #[test]
    fn sources_that_will_not_do_are_refused_by_name() {
        let drops = TARGETS.replace("cp $(KCONFIG_ALLCONFIG)", "touch");
        let wrong_patch = PATCH.replace("-VERSION = 6", "-VERSION = 5");
        for (makefile, patch, expected) in [
            (
                "VERSION = 6\nPATCHLEVEL = 12\n",
                PATCH,
                "Linux 6.12; takes 6.16",
            ),
            ("all:\n", PATCH, "not the sources of Linux"),
            (
                "VERSION = 6\nPATCHLEVEL = 18\n",
                &wrong_patch,
                "only.patch: does not fit",
            ),
            (
                &format!("VERSION = 6\nPATCHLEVEL = 18\n{drops}"),
                PATCH,
                "does not take CONFIG_TUN=y",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let error = build(folder.path(), makefile, patch).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn the_flag_ends_all_that_a_script_started() {
        let folder = tempfile::tempdir().unwrap();
        let (log, stop) = (folder.path().join("log"), StopFlag::default());
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 300 & echo $!; wait"]);
        let raiser = (log.clone(), stop.clone());
        let child = thread::spawn(move || {
            let (log, stop) = raiser;
            let id = loop {
                match fs::read_to_string(&log) {
                    Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
                    _ => thread::sleep(Duration::from_millis(2)),
                }
            };
            stop.raise();
            id
        });
        let error = run_script(&mut command, &log, &stop).unwrap_err();
        assert!(error.is::<holdfast_testbed::stop::Interrupted>());
        let process = format!("/proc/{}/stat", child.join().unwrap());
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        // The process has ended, or is a zombie until its new parent reads its status.
        while fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(std::time::Instant::now() < deadline, "the child still runs");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
