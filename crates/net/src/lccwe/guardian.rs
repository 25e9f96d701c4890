// SPDX-License-Identifier: Apache-2.0
//! Who undoes what a killed owner cannot: a registration, on kernels before 6.4, where it is
//! no link and would stay; and a namespace's default.
//!
//! A child process holds the descriptor of what is to be undone, and one end of a pipe whose
//! other end is the owner's alone. When that closes, however the owner ended, the child
//! undoes it and ends. Only what kills both leaves it as it is.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use libc::{c_int, c_void};

/// Bytes of a congestion control's name with the 0 at its end (`TCP_CA_NAME_MAX`).
pub(super) const NAME_BYTES: usize = 16;

/// What is undone, on the descriptor that the child is given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undo {
    /// The registration that this map is.
    Registration,
    /// The default that this file of `/proc/sys` is, if it still is `ours`.
    Default {
        /// What the owner has made it.
        ours: [u8; NAME_BYTES],
        /// What it was; nothing: not known.
        before: [u8; NAME_BYTES],
    },
}

/// The child.
#[derive(Debug)]
pub(super) struct Guardian {
    pipe: Option<OwnedFd>,
    pid: libc::pid_t,
}

/// What the child's two descriptors are there.
const PIPE: c_int = 0;
const HELD: c_int = 1;

impl Guardian {
    /// Starts it; what it is to undo need not have been done yet.
    pub(super) fn start(held: impl AsFd, undo: Undo) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors into the array.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just opened and have no other owner.
        let [read, write] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let (read_fd, held_fd) = (read.as_raw_fd(), held.as_fd().as_raw_fd());
        // SAFETY: the child calls nothing but system calls, which is all that a child of a
        // process with threads may do, and does not return.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is that child.
            0 => unsafe { guard(read_fd, held_fd, undo) },
            pid => Ok(Self {
                pipe: Some(write),
                pid,
            }),
        }
    }
}

/// It is undone when this returns.
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
unsafe fn guard(read_fd: c_int, held_fd: c_int, undo: Undo) -> ! {
    // SAFETY: system calls alone; the buffers are the child's own.
    unsafe {
        // What ends the owner by the terminal or its group must not end the child first.
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // Out of the way of the numbers that they are to have.
        let read_fd = libc::fcntl(read_fd, libc::F_DUPFD, 3);
        let held_fd = libc::fcntl(held_fd, libc::F_DUPFD, 3);
        if libc::dup2(read_fd, PIPE) < 0 || libc::dup2(held_fd, HELD) < 0 {
            libc::_exit(1);
        }
        // Nothing else of the owner's may live as long as the child: devices, links, the
        // pipe's other end.
        libc::syscall(libc::SYS_close_range, 2, u32::MAX, 0);
        let mut byte = 0_u8;
        while libc::read(PIPE, (&raw mut byte).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        match undo {
            Undo::Registration => {
                let key = 0_u32;
                libbpf_sys::bpf_map_delete_elem(HELD, (&raw const key).cast());
            }
            Undo::Default { ours, before } => restore(&ours, &before),
        }
        libc::_exit(0)
    }
}

/// Writes `before` into the file, if it contains `ours`.
///
/// # Safety
/// Only in the child: `HELD` is its descriptor.
unsafe fn restore(ours: &[u8; NAME_BYTES], before: &[u8; NAME_BYTES]) {
    let mut found = [0_u8; NAME_BYTES];
    // SAFETY: the kernel writes at most the buffer's length.
    let read = unsafe {
        let room = found.as_mut_ptr().cast::<c_void>();
        libc::pread(HELD, room, NAME_BYTES, 0)
    };
    if !(1..=NAME_BYTES as isize).contains(&read) || length(&found) != length(ours) {
        return;
    }
    if found[..length(ours)] != ours[..length(ours)] {
        return;
    }
    // The old one may not exist any more: then Linux's own.
    let candidates: [&[u8]; 3] = [&before[..length(before)], b"cubic", b"reno"];
    for name in candidates.into_iter().filter(|name| !name.is_empty()) {
        // SAFETY: the kernel reads at most the name's length.
        let written = unsafe { libc::pwrite(HELD, name.as_ptr().cast(), name.len(), 0) };
        if written >= 0 {
            return;
        }
    }
}

/// Of the name in it: what ends it is a line's end or a 0.
fn length(name: &[u8; NAME_BYTES]) -> usize {
    let ends = |byte: &u8| matches!(byte, 0 | b'\n');
    name.iter().position(ends).unwrap_or(NAME_BYTES)
}
