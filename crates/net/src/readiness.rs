// SPDX-License-Identifier: Apache-2.0
//! Waiting for descriptors, and waking who waits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Waits until one of `fds` can be read or `timeout` is over; says which can.
///
/// A descriptor with an error counts as readable: reading it says what is wrong. A
/// signal ends the wait early. The timeout is exact to the nanosecond (`ppoll`).
pub fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let time = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: ppoll reads and writes N pollfds and reads one timespec or none; all
    // outlive the call. The null signal mask means: unchanged.
    let result = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            N as libc::nfds_t,
            time,
            std::ptr::null(),
        )
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok([false; N]);
    }
    Ok(polled.map(|fd| fd.revents != 0))
}

/// Wakes a thread that waits for it to become readable: an eventfd. Clones wake
/// the same one.
#[derive(Clone, Debug)]
pub struct Waker {
    file: Arc<File>,
}

impl Waker {
    /// A waker that nobody has used yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fd was just opened and is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            file: Arc::new(File::from(fd)),
        })
    }

    /// Makes it readable.
    pub fn wake(&self) {
        // It fails only when the count is full, and then it is readable.
        let _ = (&*self.file).write(&1_u64.to_ne_bytes());
    }

    /// Makes it unreadable until the next [`Waker::wake`].
    pub fn reset(&self) {
        // It fails when nobody woke it: nothing to do.
        let _ = (&*self.file).read(&mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_is_readable_from_wake_to_reset() {
        let waker = Waker::new().unwrap();
        let other = Waker::new().unwrap();
        let look = || wait_readable([other.as_fd(), waker.as_fd()], Some(Duration::ZERO)).unwrap();
        assert_eq!(look(), [false, false]);
        waker.clone().wake();
        waker.wake();
        assert_eq!(look(), [false, true]);
        waker.reset();
        assert_eq!(look(), [false, false]);
    }

    #[test]
    fn a_wait_ends_when_woken_from_another_thread() {
        let waker = Waker::new().unwrap();
        let remote = waker.clone();
        let thread = std::thread::spawn(move || remote.wake());
        assert_eq!(wait_readable([waker.as_fd()], None).unwrap(), [true]);
        thread.join().unwrap();
    }
}
