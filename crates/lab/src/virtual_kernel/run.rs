// SPDX-License-Identifier: Apache-2.0
//! One command in a fresh virtual kernel.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use holdfast_testbed::stop::StopFlag;
use rustix::process::{Pid, Signal, kill_process_group};

use super::VirtualKernel;
use super::exchange::{
    FOLDER_FILE, INSIDE_ARGUMENTS, REPLY_FILE, REQUEST_FILE, Reply, Request, STDERR_FILE,
    STDOUT_FILE,
};
use super::processor::Seat;

/// The default memory inside, in MiB. The host provides only what is used.
const MEMORY_MIB: u32 = 768;
/// The default limit of a command's real time.
const LIMIT: Duration = Duration::from_secs(600);
/// The wall clock at boot: 2025-01-01, in nanoseconds. It is the same for every run.
const BOOT_TIME_NS: u64 = 1_735_689_600_000_000_000;

/// Lines of a log that an error shows.
const LINES_SHOWN: usize = 5;

/// The file with the virtual kernel's output, in the job's folder.
const CONSOLE_FILE: &str = "console";
/// A link to the first program.
const INIT_FILE: &str = "virtual-init";
/// The same link, by its path in the virtual kernel's root, which is the host's.
const INIT_ON_HOST: &str = "/proc/self/cwd/virtual-init";
/// The folder that User Mode Linux makes in its home folder.
const CONTROL_FOLDER: &str = ".uml";

/// A command to be run inside.
#[derive(Clone, Debug)]
pub struct Job {
    /// Our own binary: it is the first program inside and starts the command.
    pub holdfast: PathBuf,
    /// The command's program: a name, or a path on the host, relative to our current folder.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that are added to its environment.
    pub environment: Vec<(String, String)>,
    /// An existing folder of the host for the job's files.
    pub folder: PathBuf,
    /// The command's current folder on the host; none: the job's folder. The command can write to
    /// these two folders only.
    pub current_folder: Option<PathBuf>,
    /// Seed of all the randomness inside.
    pub seed: u64,
    /// Memory inside in MiB.
    pub memory_mib: u32,
    /// The longest real time that the command may take.
    pub limit: Duration,
}

impl Job {
    /// `program` in `folder`, without arguments.
    pub fn new(holdfast: &Path, program: &str, folder: &Path) -> Self {
        Self {
            holdfast: holdfast.to_owned(),
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: folder.to_owned(),
            current_folder: None,
            seed: 1,
            memory_mib: MEMORY_MIB,
            limit: LIMIT,
        }
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Its exit status; none if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The duration in virtual time, in seconds.
    pub virtual_s: f64,
    /// The duration of everything in real time, in seconds.
    pub wall_s: f64,
    /// The file with its standard output.
    pub stdout: PathBuf,
    /// The file with its standard error.
    pub stderr: PathBuf,
}

impl Outcome {
    /// An error with the command's last lines, unless its status is 0.
    pub fn require_success(&self) -> anyhow::Result<()> {
        if self.exit_code == Some(0) {
            return Ok(());
        }
        let how = match (self.exit_code, self.signal) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no exit status".to_owned(),
        };
        bail!("{how}: {}", last_lines(&self.stderr))
    }
}

impl VirtualKernel {
    /// Boots, runs the command as root, powers off.
    ///
    /// Errors: the kernel does not start, the command cannot be started, it takes longer than its
    /// limit, or the user stopped it. The command's own failure is no error.
    pub fn run(&self, job: &Job, stop: &StopFlag) -> anyhow::Result<Outcome> {
        let began = Instant::now();
        let file = |name: &str| job.folder.join(name);
        let request = Request {
            program: host_program(&job.program)?,
            arguments: job.arguments.clone(),
            environment: job.environment.clone(),
            has_folder: job.current_folder.is_some(),
        };
        fs::write(file(REQUEST_FILE), serde_json::to_vec(&request)?)
            .with_context(|| format!("{}: cannot be written", job.folder.display()))?;
        remove_file(&file(REPLY_FILE))?;
        make_link(&job.holdfast, &file(INIT_FILE))?;
        if let Some(folder) = &job.current_folder {
            ensure!(folder.is_dir(), "{}: no such folder", folder.display());
            make_link(folder, &file(FOLDER_FILE))?;
        }
        let ended = self.boot(job, stop);
        remove_file(&file(INIT_FILE))?;
        remove_folder(&file(CONTROL_FOLDER))?;
        ended?;
        let reply = fs::read(file(REPLY_FILE)).ok();
        let reply: Option<Reply> = reply.and_then(|text| serde_json::from_slice(&text).ok());
        let Some(reply) = reply else {
            bail!(
                "the virtual kernel did not come to an end: {}",
                console_end(&file(CONSOLE_FILE))
            );
        };
        if let Some(error) = reply.error {
            bail!("in the virtual kernel: {error}");
        }
        Ok(Outcome {
            exit_code: reply.exit_code,
            signal: reply.signal,
            virtual_s: reply.virtual_s,
            wall_s: began.elapsed().as_secs_f64(),
            stdout: file(STDOUT_FILE),
            stderr: file(STDERR_FILE),
        })
    }

    /// Boots and waits for the end.
    fn boot(&self, job: &Job, stop: &StopFlag) -> anyhow::Result<()> {
        let mut command = self.command(job)?;
        let seat = Seat::take();
        let mut spawn = || Group::spawn(&mut command);
        let mut kernel = match &seat {
            Some(seat) => seat.seat(spawn),
            None => spawn(),
        }?;
        let what = format!("{} in the virtual kernel ends", job.program);
        stop.wait_for(&what, job.limit, || Ok(kernel.child().try_wait()?))?;
        Ok(())
    }

    fn command(&self, job: &Job) -> anyhow::Result<Command> {
        ensure!(
            job.memory_mib >= 64,
            "memory_mib: got {}, takes 64 or more",
            job.memory_mib
        );
        let mut command = holdfast_net::netns::guarded_command(&self.program);
        command.args(["root=none", "rootfstype=hostfs", "rootflags=/", "ro"]);
        // Without a `console` argument User Mode Linux appends one, and it would be an argument of
        // our program.
        command.args(["console=tty0", "con=null", "con0=null,fd:1"]);
        command.args(["quiet", "panic=-1"]);
        command.args(["time-travel=inf-cpu", "seccomp=on"]);
        command.arg(format!("time-travel-start={BOOT_TIME_NS}"));
        command.arg(format!("random_seed={}", job.seed));
        command.arg(format!("mem={}M", job.memory_mib));
        command.arg(format!("init={INIT_ON_HOST}"));
        command.arg("--").args(INSIDE_ARGUMENTS);
        // The command line also seeds the kernel's randomness, so it contains no path of this
        // machine. The first program is found in the current folder, which is the job's.
        command.current_dir(&job.folder);
        // User Mode Linux needs a home folder for its control socket.
        command.env("HOME", &job.folder);
        let console = File::create(job.folder.join(CONSOLE_FILE))?;
        command.stdin(Stdio::null()).stdout(console.try_clone()?);
        command.stderr(console);
        Ok(command)
    }
}

/// The end of the console's text, without the stack trace of a panic.
fn console_end(console: &Path) -> String {
    let octets = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&octets);
    match text.split_once("Kernel panic") {
        Some((before, panic)) => last_lines_of(&format!(
            "{before}Kernel panic{}",
            panic.lines().next().unwrap_or_default()
        )),
        None => last_lines_of(&text),
    }
}

/// A child that leads its own process group; the group is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
}

impl Group {
    pub(super) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn();
        let child = child.with_context(|| format!("cannot start {program}"))?;
        Ok(Self { child })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An error: all processes of the group have ended already.
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed())
            && !matches!(self.child.try_wait(), Ok(Some(_)))
        {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Makes a path relative to our current folder absolute; a name without `/` is unchanged.
fn host_program(program: &str) -> anyhow::Result<String> {
    if !program.contains('/') {
        return Ok(program.to_owned());
    }
    let path = std::path::absolute(program)?.into_os_string();
    let path = path.into_string().ok();
    path.with_context(|| format!("{program}: the path of the current folder is not UTF-8"))
}

/// Makes a link, or replaces it.
fn make_link(target: &Path, link: &Path) -> anyhow::Result<()> {
    let path = fs::canonicalize(target);
    let path = path.with_context(|| format!("{}: not there", target.display()))?;
    remove_file(link)?;
    Ok(symlink(path, link)?)
}

/// Removes a file that may not be there.
fn remove_file(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}: cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes a folder that may not be there.
pub(super) fn remove_folder(path: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}: cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

/// The last lines of a file, joined to one line.
pub(super) fn last_lines(path: &Path) -> String {
    let octets = std::fs::read(path).unwrap_or_default();
    last_lines_of(&String::from_utf8_lossy(&octets))
}

/// The last lines of a text, joined to one line.
pub(super) fn last_lines_of(text: &str) -> String {
    let mut lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .rev()
        .take(LINES_SHOWN)
        .collect();
    if lines.is_empty() {
        return "(no output)".to_owned();
    }
    lines.reverse();
    lines.join(" | ")
}
