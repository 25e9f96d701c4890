// SPDX-License-Identifier: Apache-2.0
//! Removes the registration of an owner that was killed. On kernels before 6.4 the registration is no link,
//! and would stay.
//!
//! A child process holds the descriptor of the registration's map, and one end of a pipe. The owner alone
//! holds the other end. When that closes, however the owner ended, the child removes the registration and
//! ends. Only a kill of both leaves it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use libc::c_int;

/// Bytes of a congestion control's name with the 0 at its end (`TCP_CA_NAME_MAX`).
pub(super) const NAME_BYTES: usize = 16;

/// The child.
#[derive(Debug)]
pub(super) struct Guardian {
    pipe: Option<OwnedFd>,
    pid: libc::pid_t,
}

/// The numbers of the child's two descriptors.
const PIPE: c_int = 0;
const MAP: c_int = 1;

impl Guardian {
    /// Starts it for the registration that `map` is, or will be.
    pub(super) fn start(map: impl AsFd) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors into the array.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just opened and have no other owner.
        let [read, write] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let (read_fd, map_fd) = (read.as_raw_fd(), map.as_fd().as_raw_fd());
        let (signals, mut before) = (signals_to_block(), MaybeUninit::uninit());
        // The child inherits this mask: from its first moment none of the signals ends it.
        // SAFETY: the kernel reads the one set and writes the other.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, before.as_mut_ptr()) };
        // SAFETY: the child calls nothing but system calls, which is all that a child of a
        // process with threads may do, and does not return.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: this is that child.
            unsafe { guard(read_fd, map_fd) }
        }
        let error = io::Error::last_os_error();
        // SAFETY: the first call has written this set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
        if pid < 0 {
            return Err(error);
        }
        Ok(Self {
            pipe: Some(write),
            pid,
        })
    }
}

/// Signals from the terminal, the process group or the watchdog that end the owner must not end the child first.
const SIGNALS: [c_int; 5] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGABRT,
];

/// The set of [`SIGNALS`].
fn signals_to_block() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes the set, the others add to it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// The registration is removed when this returns.
impl Drop for Guardian {
    fn drop(&mut self) {
        self.pipe = None;
        // SAFETY: waits for our own child, and takes no status.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// The child's program.
///
/// # Safety
/// Only in a forked child: it closes every descriptor.
unsafe fn guard(read_fd: c_int, map_fd: c_int) -> ! {
    // SAFETY: system calls alone; the buffers are the child's own.
    unsafe {
        libc::setsid();
        // Moved first, so that neither has the number that the other one gets.
        let read_fd = libc::fcntl(read_fd, libc::F_DUPFD, 3);
        let map_fd = libc::fcntl(map_fd, libc::F_DUPFD, 3);
        if libc::dup2(read_fd, PIPE) < 0 || libc::dup2(map_fd, MAP) < 0 {
            libc::_exit(1);
        }
        // Nothing else of the owner's may live as long as the child: devices, links, the
        // pipe's other end.
        libc::syscall(libc::SYS_close_range, 2, u32::MAX, 0);
        let mut byte = 0_u8;
        while libc::read(PIPE, (&raw mut byte).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        let key = 0_u32;
        libbpf_sys::bpf_map_delete_elem(MAP, (&raw const key).cast());
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Its status once the pipe is closed.
    fn status_after(signal: c_int) -> c_int {
        let mut guardian = Guardian::start(File::open("/dev/null").unwrap()).unwrap();
        let mut status = 0;
        // SAFETY: it is our own child, and is waited for once: `drop` finds none.
        unsafe {
            libc::kill(guardian.pid, signal);
            guardian.pipe = None;
            assert_eq!(
                libc::waitpid(guardian.pid, &raw mut status, 0),
                guardian.pid
            );
        }
        status
    }

    #[test]
    fn a_signal_at_its_first_moment_does_not_end_it() {
        for signal in SIGNALS {
            for _ in 0..20 {
                let status = status_after(signal);
                assert!(
                    libc::WIFEXITED(status),
                    "signal {signal}: status {status:#x}"
                );
            }
        }
    }
}
