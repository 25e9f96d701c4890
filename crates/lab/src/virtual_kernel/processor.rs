// SPDX-License-Identifier: Apache-2.0
//! One processor for each virtual kernel.
//!
//! A virtual kernel and the programs in it are many processes; one of them runs at a
//! time, handing over at each system call. On one processor a hand-over is a switch,
//! between two it is an interrupt and an idle processor that wakes up: measured on two
//! cores a 20 Mb/s transfer ran in 3.1 s on one processor and in 8.6 s on both.

use std::sync::{Mutex, PoisonError};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How many virtual kernels of this process sit on each processor.
static SEATED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A seat on a processor, free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    processor: usize,
}

impl Seat {
    /// The processor with the fewest seats taken among those that we may use; none if
    /// the kernel does not give them.
    pub(super) fn take() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let mut seated = SEATED.lock().unwrap_or_else(PoisonError::into_inner);
        // Several processes of ours start at different ones.
        let first = std::process::id() as usize;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|&processor| allowed.is_set(processor))
            .collect();
        let rotated = (0..all.len()).map(|i| all[(first + i) % all.len()]);
        let taken = |processor: usize| seated.get(processor).copied().unwrap_or(0);
        let processor = rotated.min_by_key(|&processor| taken(processor))?;
        if seated.len() <= processor {
            seated.resize(processor + 1, 0);
        }
        seated[processor] += 1;
        Some(Self { processor })
    }

    /// Does `work`, which spawns, with the calling thread on this processor: what is
    /// spawned stays there.
    pub(super) fn seat<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = sched_getaffinity(None);
        let mut own = CpuSet::new();
        own.set(self.processor);
        // If it is refused we are slower, and nothing else.
        let moved = before.is_ok() && sched_setaffinity(None, &own).is_ok();
        let result = work();
        if let (true, Ok(before)) = (moved, before) {
            let _ = sched_setaffinity(None, &before);
        }
        result
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seated = SEATED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = seated.get_mut(self.processor) {
            *count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_spread_and_given_back() {
        let allowed = sched_getaffinity(None).unwrap().count() as usize;
        let seats: Vec<Seat> = (0..allowed).map(|_| Seat::take().unwrap()).collect();
        let mut processors: Vec<usize> = seats.iter().map(|seat| seat.processor).collect();
        processors.sort_unstable();
        processors.dedup();
        assert_eq!(processors.len(), allowed, "each has one of its own");
        drop(seats);
        let seated = SEATED.lock().unwrap();
        assert!(seated.iter().all(|&count| count == 0));
    }

    #[test]
    fn what_is_spawned_from_a_seat_stays_there_and_the_thread_does_not() {
        let before = sched_getaffinity(None).unwrap().count();
        let seat = Seat { processor: 0 };
        let shown = seat.seat(|| {
            std::process::Command::new("cat")
                .arg("/proc/self/status")
                .output()
                .unwrap()
        });
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("Cpus_allowed_list:\t0\n"), "{shown}");
        assert_eq!(sched_getaffinity(None).unwrap().count(), before);
        std::mem::forget(seat);
    }
}
