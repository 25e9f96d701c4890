// SPDX-License-Identifier: Apache-2.0
//! One processor for each virtual kernel.
//!
//! A virtual kernel and the programs in it are many processes. Only one of them runs at a time, and
//! each system call switches to another. On one processor that is a context switch; between two it is
//! an interrupt that wakes an idle processor. On a machine with two cores a 20 Mb/s transfer ran in
//! 3.1 s on one processor and in 8.6 s on both.
//!
//! A seat is a bound abstract socket. All processes in one network namespace see which seats are
//! taken, and a seat is free as soon as its process has ended.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The prefix of the names of seats.
const SEATS: &str = "holdfast-virtual-kernel";
/// The most virtual kernels on one processor. Further ones have no seat, and are slower.
const SEATS_OF_PROCESSOR: usize = 64;

/// A seat on a processor; it is free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    processor: usize,
    _taken: UnixListener,
}

impl Seat {
    /// Takes a seat on the allowed processor with the fewest seats taken; none: the kernel does not
    /// list the processors, or all seats are taken.
    pub(super) fn take() -> Option<Self> {
        Self::take_of(SEATS)
    }

    fn take_of(seats: &str) -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|&processor| allowed.is_set(processor))
            .collect();
        // Begins at different processors, for processes that do not see each other's seats.
        let first = std::process::id() as usize;
        let rotated = (0..all.len()).map(|i| all[(first + i) % all.len()]);
        let rows = (0..SEATS_OF_PROCESSOR).flat_map(|row| rotated.clone().map(move |p| (row, p)));
        let mut free = rows.filter_map(|(row, processor)| {
            let name = format!("{seats}-{processor}-{row}");
            let address = SocketAddr::from_abstract_name(name).ok()?;
            let taken = UnixListener::bind_addr(&address).ok()?;
            Some(Self {
                processor,
                _taken: taken,
            })
        });
        free.next()
    }

    /// Runs `work` with the calling thread on this processor: processes that it spawns stay there.
    pub(super) fn seat<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = sched_getaffinity(None);
        let mut own = CpuSet::new();
        own.set(self.processor);
        // If the kernel refuses the move, the run is only slower.
        let moved = before.is_ok() && sched_setaffinity(None, &own).is_ok();
        let result = work();
        if let (true, Ok(before)) = (moved, before) {
            let _ = sched_setaffinity(None, &before);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use super::*;

    /// The names of seats that only this test uses.
    fn own(test: &str) -> String {
        format!("holdfast-test-{}-{test}", std::process::id())
    }

    #[test]
    fn seats_are_spread_and_given_back() {
        let seats = own("spread");
        let allowed = sched_getaffinity(None).unwrap().count() as usize;
        let take = |count| -> Vec<usize> {
            let taken: Vec<Seat> = (0..count).map(|_| Seat::take_of(&seats).unwrap()).collect();
            taken.iter().map(|seat| seat.processor).collect()
        };
        let mut processors = take(2 * allowed);
        processors.sort_unstable();
        assert!(
            processors.chunk_by(|a, b| a == b).all(|one| one.len() == 2),
            "each has two: {processors:?}"
        );
        wait_until_first_is_free(&seats, take(1)[0]);
    }

    /// A child that another test starts holds a seat's descriptor until it executes its program.
    fn wait_until_first_is_free(seats: &str, first: usize) {
        let until = Instant::now() + Duration::from_secs(30);
        while Seat::take_of(seats).unwrap().processor != first {
            assert!(Instant::now() < until, "the first seat is not free again");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_seat_that_another_process_has_taken_is_left_to_it() {
        let seats = own("another");
        let Seat {
            processor: first,
            _taken: taken,
        } = Seat::take_of(&seats).unwrap();
        // The seat's only descriptor is the child's standard input.
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .stdin(OwnedFd::from(taken))
            .spawn()
            .unwrap();
        let allowed = sched_getaffinity(None).unwrap().count() as usize;
        let own: Vec<Seat> = (1..allowed)
            .map(|_| Seat::take_of(&seats).unwrap())
            .collect();
        let is_spread = own.iter().all(|seat| seat.processor != first);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(is_spread, "{own:?}");
        wait_until_first_is_free(&seats, first);
    }

    #[test]
    fn what_is_spawned_from_a_seat_stays_there_and_the_thread_does_not() {
        let before = sched_getaffinity(None).unwrap().count();
        let seat = Seat::take_of(&own("stays")).unwrap();
        let shown = seat.seat(|| {
            std::process::Command::new("cat")
                .arg("/proc/self/status")
                .output()
                .unwrap()
        });
        let shown = String::from_utf8(shown.stdout).unwrap();
        let alone = format!("Cpus_allowed_list:\t{}\n", seat.processor);
        assert!(shown.contains(&alone), "{shown}");
        assert_eq!(sched_getaffinity(None).unwrap().count(), before);
    }
}
