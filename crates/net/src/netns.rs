// SPDX-License-Identifier: Apache-2.0
//! Network namespaces without names, and children that cannot outlive us.
//!
//! A [`NetNs`] is a file descriptor. The kernel removes the namespace, with
//! its devices, routes and rules, when the last descriptor and the last
//! process in it are gone: nothing has to be cleaned up, whatever ends us.
//!
//! A child of [`NetNs::command`] is killed by the kernel when the thread that
//! spawned it ends (`PR_SET_PDEATHSIG`: the thread, not the process), so
//! [`NetNs::spawn_guarded`] spawns from one thread that lives as long as the
//! process.
//!
//! Sources: namespaces(7), setns(2), `PR_SET_PDEATHSIG(2const)`.

use std::ffi::{OsStr, c_int};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::rtnl::Rtnl;
use crate::syscall::{at, check};

/// A network namespace held by a file descriptor; clones share it.
#[derive(Clone, Debug)]
pub struct NetNs {
    fd: Arc<OwnedFd>,
}

impl NetNs {
    /// Creates an empty namespace (a loopback device, which is up).
    ///
    /// Errors: without `CAP_SYS_ADMIN` the kernel answers "operation not
    /// permitted".
    pub fn new() -> io::Result<Self> {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    // SAFETY: it moves this thread alone; descriptors stay shared.
                    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                        .map_err(|error| at("create a network namespace", &error.into()))?;
                    let ns = Self::current()?;
                    Rtnl::open()?.set_up(LOOPBACK_IFINDEX)?;
                    Ok(ns)
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The namespace of the calling thread.
    pub fn current() -> io::Result<Self> {
        let file = File::open("/proc/thread-self/ns/net")
            .map_err(|error| at("open /proc/thread-self/ns/net", &error))?;
        Ok(Self {
            fd: Arc::new(file.into()),
        })
    }

    /// Moves the calling thread into the namespace, for good.
    pub fn enter(&self) -> io::Result<()> {
        move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| at("enter a network namespace", &error.into()))
    }

    /// Runs `work` on a thread of its own inside the namespace and returns its
    /// result; a panic in `work` goes on in the caller.
    ///
    /// A child that `work` spawns with [`NetNs::command`] and leaves running
    /// dies with that thread: use [`NetNs::spawn_guarded`].
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.enter()?;
                    Ok(work())
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A command whose child enters the namespace before it is executed and
    /// is killed when the spawning thread ends. It has a process group of its own: a
    /// terminal's Ctrl-C reaches this process alone, which then ends the child.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let fd = Arc::clone(&self.fd);
        let parent = std::process::id();
        let enter = move || {
            move_into_link_name_space(fd.as_fd(), Some(LinkNameSpaceType::Network))?;
            die_with(parent)
        };
        command.process_group(0);
        // SAFETY: the closure runs between fork and exec and makes
        // async-signal-safe calls alone; it allocates nothing.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Spawns a command, most often one of [`NetNs::command`], from a thread
    /// that lives as long as the process, and guards its child.
    pub fn spawn_guarded(&self, command: Command) -> io::Result<ChildGuard> {
        ChildGuard::spawn(command)
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The loopback device is the first of every namespace (`LOOPBACK_IFINDEX` in
/// `include/net/flow.h`).
pub const LOOPBACK_IFINDEX: u32 = 1;

/// A command whose child is killed when the spawning thread ends, in whatever
/// namespace that thread is; in a process group of its own.
pub fn guarded_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let parent = std::process::id();
    command.process_group(0);
    // SAFETY: the closure runs between fork and exec and makes
    // async-signal-safe calls alone; it allocates nothing.
    unsafe { command.pre_exec(move || die_with(parent)) };
    command
}

/// Has the kernel kill the calling process when the thread that forked it ends. Async-signal-safe.
///
/// Errors: its parent, whose process id this is, has died already.
fn die_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Pid::from_raw(parent as i32) {
        return Err(Errno::SRCH.into());
    }
    Ok(())
}

/// A child process that is killed and waited for when the guard is dropped.
#[derive(Debug)]
pub struct ChildGuard {
    child: Child,
    program: String,
}

impl ChildGuard {
    /// Spawns from the thread that lives as long as the process.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let (reply, answer) = mpsc::sync_channel(1);
        let job: SpawnJob = Box::new(move || {
            // A failed send means that the caller has ended; the child dies with the guard.
            drop(reply.send(command.spawn().map(|child| Self {
                child,
                program: command.get_program().to_string_lossy().into_owned(),
            })));
        });
        spawner()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(job)
            .map_err(|_| io::Error::other("the thread that spawns children has ended"))?;
        answer
            .recv()
            .map_err(|_| io::Error::other("the thread that spawns children has ended"))?
            .map_err(|error| at(&format!("start {program}"), &error))
    }

    /// The program's name as it was given.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The child's exit status, none while it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends a signal, `libc::SIGSTOP` for instance; nothing once the child
    /// was waited for.
    pub fn signal(&mut self, signal: c_int) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        // SAFETY: kill takes no pointers; the child is not reaped, so the id is its own.
        check(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) })
    }

    /// Waits until the child ends or `limit` has passed (none: still running).
    pub fn wait_at_most(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(WAIT_POLL);
        }
    }

    /// SIGTERM, and SIGKILL if the child has not ended after `limit`. Returns
    /// its status and whether it ended by itself.
    pub fn terminate(&mut self, limit: Duration) -> io::Result<(ExitStatus, bool)> {
        self.signal(libc::SIGTERM)?;
        if let Some(status) = self.wait_at_most(limit)? {
            return Ok((status, true));
        }
        self.child.kill()?;
        Ok((self.child.wait()?, false))
    }

    /// SIGKILL, and waits.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The time between two checks whether a child has ended.
const WAIT_POLL: Duration = Duration::from_millis(2);

/// A spawn to be done by the thread that lives as long as the process.
type SpawnJob = Box<dyn FnOnce() + Send>;

/// The channel to that thread. Its queue is bounded by the callers, who each wait
/// for the answer.
fn spawner() -> &'static Mutex<Sender<SpawnJob>> {
    static SPAWNER: OnceLock<Mutex<Sender<SpawnJob>>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (jobs, queue) = mpsc::channel::<SpawnJob>();
        thread::spawn(move || queue.into_iter().for_each(|job| job()));
        Mutex::new(jobs)
    })
}

/// Whether a test that needs namespaces can run here. If not it reports this on
/// the terminal, past the test harness's capture, and with the environment's
/// `HOLDFAST_NO_SKIP=1` it panics: a skipped test is then a failed one.
pub fn available_or_skip(test: &str) -> bool {
    let Err(error) = NetNs::new() else {
        return true;
    };
    report_skipped(test, format_args!("needs a network namespace: {error}"));
    false
}

/// Reports a test that cannot run here on the terminal, past the test harness's capture.
///
/// # Panics
/// With the environment's `HOLDFAST_NO_SKIP=1`: a skipped test is then a failed one.
pub fn report_skipped(test: &str, reason: impl fmt::Display) {
    let message = format!("SKIPPED {test}: {reason}");
    assert!(
        std::env::var_os("HOLDFAST_NO_SKIP").is_none_or(|value| value != "1"),
        "{message}"
    );
    // Not eprintln, which the test harness captures.
    drop(writeln!(io::stderr(), "{message}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::process::Stdio;

    fn inode(ns: &NetNs) -> u64 {
        File::from(ns.as_fd().try_clone_to_owned().unwrap())
            .metadata()
            .unwrap()
            .ino()
    }

    #[test]
    fn a_new_namespace_holds_the_loopback_device_alone() {
        if !available_or_skip("a_new_namespace_holds_the_loopback_device_alone") {
            return;
        }
        let ns = NetNs::new().unwrap();
        assert_ne!(inode(&ns), inode(&NetNs::current().unwrap()));
        let devices = ns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let names: Vec<_> = devices
            .unwrap()
            .lines()
            .skip(2)
            .map(|line| line.split(':').next().unwrap().trim().to_owned())
            .collect();
        assert_eq!(names, ["lo"]);
    }

    #[test]
    fn the_callers_thread_stays_where_it_is() {
        if !available_or_skip("the_callers_thread_stays_where_it_is") {
            return;
        }
        let before = inode(&NetNs::current().unwrap());
        let ns = NetNs::new().unwrap();
        let inside = ns.run(|| inode(&NetNs::current().unwrap())).unwrap();
        assert_eq!(inside, inode(&ns));
        assert_eq!(before, inode(&NetNs::current().unwrap()));
    }

    #[test]
    fn a_child_runs_inside_the_namespace() {
        if !available_or_skip("a_child_runs_inside_the_namespace") {
            return;
        }
        let ns = NetNs::new().unwrap();
        let output = ns
            .command("readlink")
            .arg("/proc/self/ns/net")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.trim(), format!("net:[{}]", inode(&ns)));
    }

    #[test]
    fn children_have_process_groups_of_their_own() {
        let test = "children_have_process_groups_of_their_own";
        if !available_or_skip(test) {
            return;
        }
        let ns = NetNs::new().unwrap();
        for mut command in [ns.command("cat"), guarded_command("cat")] {
            command.stdin(Stdio::piped());
            let mut child = ChildGuard::spawn(command).unwrap();
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            // After the name: state, parent, process group.
            let group = stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap();
            assert_eq!(group, child.id().to_string());
            child.kill().unwrap();
        }
    }

    #[test]
    fn a_guarded_child_outlives_the_thread_that_called_but_not_its_guard() {
        if !available_or_skip("a_guarded_child_outlives_the_thread_that_called_but_not_its_guard") {
            return;
        }
        let ns = NetNs::new().unwrap();
        let mut child = thread::scope(|scope| {
            scope
                .spawn(|| {
                    let mut command = ns.command("cat");
                    command.stdin(Stdio::piped()).stdout(Stdio::piped());
                    ns.spawn_guarded(command).unwrap()
                })
                .join()
                .unwrap()
        });
        // The calling thread has ended; cat still answers.
        let mut stdin = child.child().stdin.take().unwrap();
        stdin.write_all(b"x").unwrap();
        let mut answer = [0];
        io::Read::read_exact(child.child().stdout.as_mut().unwrap(), &mut answer).unwrap();
        assert_eq!(&answer, b"x");
        let pid = child.id() as libc::pid_t;
        drop(child);
        // SAFETY: signal 0 only checks whether the process exists.
        assert_eq!(unsafe { libc::kill(pid, 0) }, -1);
    }
}
