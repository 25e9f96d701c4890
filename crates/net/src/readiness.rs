// SPDX-License-Identifier: Apache-2.0
//! Waits for descriptors, and wakers for them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{self, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// In waits up to this the kernel's slack is too short to matter: 5 us.
const EXACT: Duration = Duration::from_millis(1);

/// Waits until one of `fds` can be read or `timeout` is over; returns which can.
///
/// A descriptor with an error counts as readable: reading it gives the error. A
/// signal ends the wait early. The timeout is kept to some microseconds, however long it is.
pub fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let (time, is_last) = match left.map(|left| (left, step(left))) {
            Some((left, step)) => (Some(step), step == left),
            None => (None, true),
        };
        let polled = poll(fds, time)?;
        if is_last || polled.is_none_or(|readable| readable.contains(&true)) {
            return Ok(polled.unwrap_or([false; N]));
        }
    }
}

/// The length of the next wait if `left` is left. The kernel may end a wait late by a thousandth of its
/// length: by 38 ms of 38 s. In a process with a lower priority it is a 200th (`select_estimate_accuracy`
/// in `fs/select.c`). So the last part is a wait of its own.
fn step(left: Duration) -> Duration {
    if left > EXACT {
        left.saturating_sub(left / 64)
    } else {
        left
    }
}

/// One `ppoll`. None: a signal has ended it.
fn poll<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<Option<[bool; N]>> {
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    // A timeout that no timespec can hold is endless.
    let time = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match event::poll(&mut polled, time.as_ref()) {
        Ok(_) => Ok(Some(polled.map(|fd| !fd.revents().is_empty()))),
        Err(Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// An eventfd: it becomes readable, and wakes a thread that waits for that. Clones
/// wake the same thread.
#[derive(Clone, Debug)]
pub struct Waker {
    file: Arc<File>,
}

impl Waker {
    /// A waker that was not used yet.
    pub fn new() -> io::Result<Self> {
        let fd = event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
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
        // It fails when it was not woken: nothing to do.
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
    fn no_step_of_a_wait_ends_after_its_time_for_all_that_the_kernel_adds() {
        for exponent in 0..42 {
            let mut left = Duration::from_nanos(1 << exponent);
            for _ in 0..2000 {
                let next = step(left);
                if next == left {
                    break;
                }
                // Linux adds 100 ms at most.
                let late = (next / 200).min(Duration::from_millis(100));
                left = left.checked_sub(next + late).expect("late");
            }
            assert!(left <= EXACT, "{left:?} of 2^{exponent} ns");
        }
    }

    #[test]
    fn a_wait_of_some_steps_is_as_long_as_requested() {
        let waker = Waker::new().unwrap();
        let (length, began) = (Duration::from_millis(70), Instant::now());
        assert_eq!(
            wait_readable([waker.as_fd()], Some(length)).unwrap(),
            [false]
        );
        assert!(began.elapsed() >= length);
    }

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
