// SPDX-License-Identifier: Apache-2.0
//! Removes the registration of an owner that was killed. On kernels before 6.4 the registration is no link,
//! and would stay.
//!
//! A child process holds the descriptor of the registration's map, and one end of a pipe. The owner alone
//! holds the other end. When that closes, however the owner ended, the child removes the registration and
//! ends. Only a kill of both leaves it.

use std::io;
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

/// What the child's two descriptors are there.
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
        // SAFETY: the child calls nothing but system calls, which is all that a child of a
        // process with threads may do, and does not return.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is that child.
            0 => unsafe { guard(read_fd, map_fd) },
            pid => Ok(Self {
                pipe: Some(write),
                pid,
            }),
        }
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

/// The child's whole life.
///
/// # Safety
/// Only in a forked child: it closes every descriptor.
unsafe fn guard(read_fd: c_int, map_fd: c_int) -> ! {
    // SAFETY: system calls alone; the buffers are the child's own.
    unsafe {
        // What ends the owner by the terminal, its group or its watchdog must not end the child first.
        libc::setsid();
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGABRT,
        ] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // Out of the way of the numbers that they are to have.
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
