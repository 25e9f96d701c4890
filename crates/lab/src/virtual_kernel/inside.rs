// SPDX-License-Identifier: Apache-2.0
//! The first program inside a virtual kernel: mounts the file systems of a Linux system, runs the
//! one command, reports how it ended, switches off.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use holdfast_net::netns::LOOPBACK_IFINDEX;
use holdfast_net::rtnl::Rtnl;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot, sethostname};

use super::exchange::{REPLY_FILE, REQUEST_FILE, Reply, Request, STDERR_FILE, STDOUT_FILE};

/// The mount point of the job's folder.
const JOB: &str = "/run/job";
/// The job's folder, by the path that the virtual kernel's process on the host uses.
const JOB_ON_HOST: &CStr = c"/proc/self/cwd";
/// The mount point of the command's current folder, if it is not the job's.
const FOLDER: &str = "/run/folder";
/// The current folder, by the path that the virtual kernel's process on the host uses.
const FOLDER_ON_HOST: &CStr = c"/proc/self/cwd/virtual-folder";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs the whole job; returns only if an error prevents that.
pub fn be_init() -> anyhow::Result<Infallible> {
    ensure!(
        std::process::id() == 1,
        "only the first program of a virtual kernel can be this"
    );
    let reply = furnish()
        .and_then(|()| work())
        .unwrap_or_else(|error| Reply {
            error: Some(format!("{error:#}")),
            ..Reply::default()
        });
    if let Some(error) = &reply.error {
        // Also on the console: the folder for the reply may be missing.
        eprintln!("{error}");
    }
    let written = serde_json::to_vec(&reply)
        .map_err(anyhow::Error::from)
        .and_then(|text| Ok(fs::write(Path::new(JOB).join(REPLY_FILE), text)?));
    if let Err(error) = written {
        eprintln!("{error:#}");
    }
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff)?;
    // The kernel ends as soon as it has shut down its devices.
    loop {
        std::thread::park();
    }
}

/// Sets up file systems, the loopback device and the host name.
fn furnish() -> anyhow::Result<()> {
    mount_at("proc", "/proc", None)?;
    mount_at("sysfs", "/sys", None)?;
    mount_at("devtmpfs", "/dev", None)?;
    for (folder, kind) in [("/dev/pts", "devpts"), ("/dev/shm", "tmpfs")] {
        fs::create_dir_all(folder)?;
        mount_at(kind, folder, None)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, Path::new("/dev").join(name))?;
    }
    mount_at("tmpfs", "/run", None)?;
    for folder in [JOB, "/run/tmp/upper", "/run/tmp/work"] {
        fs::create_dir_all(folder)?;
    }
    mount_at("hostfs", JOB, Some(JOB_ON_HOST))?;
    // Shows the host's /tmp; what is written to it stays inside.
    let layers = c"lowerdir=/tmp,upperdir=/run/tmp/upper,workdir=/run/tmp/work";
    mount_at("overlay", "/tmp", Some(layers))?;
    sethostname(b"virtual")?;
    Rtnl::open()?
        .set_up(LOOPBACK_IFINDEX)
        .context("loopback device")
}

fn mount_at(kind: &str, target: &str, options: Option<&CStr>) -> anyhow::Result<()> {
    mount(kind, target, kind, MountFlags::empty(), options)
        .with_context(|| format!("mount {kind} at {target}"))
}

/// Mounts the host's folder to which instrumented programs write their counts.
fn mount_profile_folder(profile: &str) -> anyhow::Result<()> {
    let folder = Path::new(profile).parent().and_then(Path::to_str);
    let folder = folder.context("LLVM_PROFILE_FILE: no folder")?;
    let on_host = CString::new(folder)?;
    mount_at("hostfs", folder, Some(&on_host))
}

/// Runs the command.
fn work() -> anyhow::Result<Reply> {
    let folder = Path::new(JOB);
    let request: Request = serde_json::from_slice(&fs::read(folder.join(REQUEST_FILE))?)?;
    let is_profile = |(name, _): &&(String, String)| name == "LLVM_PROFILE_FILE";
    if let Some((_, profile)) = request.environment.iter().find(is_profile) {
        mount_profile_folder(profile)?;
    }
    if request.has_folder {
        fs::create_dir(FOLDER)?;
        mount_at("hostfs", FOLDER, Some(FOLDER_ON_HOST))?;
    }
    let current_folder = if request.has_folder { FOLDER } else { JOB };
    let program = find_program(&request.program);
    let program = program.with_context(|| format!("{}: no such program", request.program))?;
    let mut command = Command::new(program);
    command.args(&request.arguments).current_dir(current_folder);
    command.env_clear().env("PATH", PATH).env("HOME", "/root");
    command.env("TMPDIR", "/tmp").env("LC_ALL", "C");
    command.envs(request.environment);
    command.stdin(Stdio::null());
    command.stdout(File::create(folder.join(STDOUT_FILE))?);
    command.stderr(File::create(folder.join(STDERR_FILE))?);
    let began = Instant::now();
    let status = command.status();
    let status = status.with_context(|| format!("{}: cannot be started", request.program))?;
    Ok(Reply {
        exit_code: status.code(),
        signal: status.signal(),
        virtual_s: began.elapsed().as_secs_f64(),
        error: None,
    })
}

/// Finds the program: a name is searched in [`PATH`], a path is not changed.
fn find_program(program: &str) -> Option<PathBuf> {
    let mut folders = PATH.split(':').map(Path::new);
    if program.contains('/') {
        return Some(program.into());
    }
    folders.find_map(|folder| Some(folder.join(program)).filter(|path| path.is_file()))
}
