// SPDX-License-Identifier: Apache-2.0
//! Tests of how long something takes, on machines that do not always keep time.
//!
//! A hypervisor takes a processor away for a tenth of a second, or another program has it: what
//! was to happen within 200 ms then takes longer, whatever is tested. [`punctual`] measures how
//! late the machine itself was meanwhile. A time that is too long counts at once where the machine
//! was on time; where it was not, the attempt is made again, a few times. Only times are judged in
//! this way: what is wrong in itself panics in the attempt, and is wrong at the first one.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How often an attempt is made at most.
const ATTEMPTS: u32 = 5;

/// How long the witness of a processor sleeps.
const NAP: Duration = Duration::from_millis(2);

/// A machine that is later than this is not on time: some of the programs under test did nothing
/// for as long, one after another.
const LATE: Duration = Duration::from_millis(10);

/// A time that is longer than it may be, in words.
#[derive(Debug)]
pub struct TooLong(String);

/// That what took `measured_ms` took less than `limit_ms`, both in milliseconds.
pub fn shorter_than(limit_ms: u64, what: &str, measured_ms: u64) -> Result<(), TooLong> {
    if measured_ms < limit_ms {
        return Ok(());
    }
    Err(TooLong(format!(
        "{what}: {measured_ms} ms, to be less than {limit_ms}"
    )))
}

/// That what depends on time `holds`; `what` tells the figures otherwise.
pub fn in_time(holds: bool, what: &dyn fmt::Display) -> Result<(), TooLong> {
    if holds {
        return Ok(());
    }
    Err(TooLong(what.to_string()))
}

/// Makes the attempt, and again, up to five times in all, if it took too long and the machine was
/// not on time.
///
/// # Panics
/// It took too long on a machine that was on time, or each time.
pub fn punctual(attempt: impl FnMut() -> Result<(), TooLong>) {
    judge(attempt, Witness::start, Witness::seen);
}

fn judge<W>(
    mut attempt: impl FnMut() -> Result<(), TooLong>,
    start: impl Fn() -> W,
    seen: impl Fn(&W) -> Lateness,
) {
    for i in 1..=ATTEMPTS {
        let witness = start();
        let Err(TooLong(what)) = attempt() else {
            return;
        };
        let late = seen(&witness);
        assert!(late.is_late(), "{what}; the machine was on time: {late}");
        assert!(i < ATTEMPTS, "{what}, as in all of {i} attempts; {late}");
        println!("{what}; tried again: {late}");
    }
}

/// How late a machine was in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Lateness {
    /// A sleeper woke this much too late at worst, on whatever processor.
    longest: Duration,
    /// Somebody waited for the disk, for instance for a page of a program.
    disk: Duration,
}

impl Lateness {
    fn is_late(self) -> bool {
        self.longest.max(self.disk) >= LATE
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [longest, disk] = [self.longest, self.disk].map(|one| one.as_millis());
        write!(
            f,
            "late by {longest} ms at worst, {disk} ms of waiting for the disk"
        )
    }
}

/// Watches how late the machine is: a thread on each processor, which sleeps. They end with it.
#[derive(Debug)]
struct Witness {
    longest_ns: Arc<AtomicU64>,
    disk_before: Duration,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Witness {
    fn start() -> Self {
        let (longest_ns, ends) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let ours = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let watch = |cpu: usize| {
            let (longest_ns, ends) = (Arc::clone(&longest_ns), Arc::clone(&ends));
            thread::spawn(move || {
                let mut only = CpuSet::new();
                only.set(cpu);
                // Where it cannot be bound it watches all the same.
                let _ = sched_setaffinity(None, &only);
                while !ends.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    thread::sleep(NAP);
                    let late = began.elapsed().saturating_sub(NAP);
                    longest_ns.fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
                }
            })
        };
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu));
        let threads = cpus.map(watch).collect();
        Self {
            longest_ns,
            disk_before: waited_for_disk(),
            ends,
            threads,
        }
    }

    fn seen(&self) -> Lateness {
        Lateness {
            longest: Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed)),
            disk: waited_for_disk().saturating_sub(self.disk_before),
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How long somebody has waited for the disk since the machine began; zero where the kernel does not
/// count it.
fn waited_for_disk() -> Duration {
    let text = fs::read_to_string("/proc/pressure/io").unwrap_or_default();
    Duration::from_micros(some_total_us(&text).unwrap_or(0))
}

/// Of `some avg10=0.00 avg60=0.00 avg300=0.00 total=165701760`, the last.
fn some_total_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split(' ').find_map(|word| word.strip_prefix("total="));
    total?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON_TIME: Lateness = Lateness {
        longest: Duration::from_millis(3),
        disk: Duration::ZERO,
    };
    const BEHIND: Lateness = Lateness {
        longest: Duration::from_millis(40),
        disk: Duration::ZERO,
    };

    /// Attempts that take as long as `times_ms` says, with a limit of 200 ms: how many are made,
    /// and whether the last one is well.
    fn attempts(times_ms: &[u64], late: Lateness) -> (usize, bool) {
        let mut made = 0;
        let attempt = || {
            made += 1;
            shorter_than(200, "a stall", times_ms[made - 1])
        };
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            judge(attempt, || (), |()| late);
        }));
        (made, judged.is_ok())
    }

    #[test]
    fn a_time_that_is_short_enough_is_measured_once() {
        assert_eq!(attempts(&[199], BEHIND), (1, true));
        assert_eq!(attempts(&[0], ON_TIME), (1, true));
    }

    #[test]
    fn a_time_that_is_too_long_on_a_machine_that_was_on_time_is_wrong_at_once() {
        assert_eq!(attempts(&[200, 100], ON_TIME), (1, false));
    }

    #[test]
    fn a_time_that_is_too_long_on_a_late_machine_is_measured_again_up_to_five_times() {
        assert_eq!(attempts(&[300, 250, 100], BEHIND), (3, true));
        assert_eq!(attempts(&[300; 9], BEHIND), (5, false));
    }

    #[test]
    fn waiting_for_the_disk_is_lateness_too() {
        let disk = Lateness {
            disk: LATE,
            ..ON_TIME
        };
        assert_eq!(attempts(&[300, 100], disk), (2, true));
        let text = "some avg10=0.00 avg60=0.07 avg300=0.49 total=165701760\n\
                    full avg10=0.00 avg60=0.04 avg300=0.37 total=67432281\n";
        assert_eq!(some_total_us(text), Some(165_701_760));
        assert_eq!(some_total_us(""), None);
    }

    #[test]
    fn what_is_wrong_in_itself_is_wrong_at_the_first_attempt() {
        let mut made = 0;
        let wrong = || {
            made += 1;
            panic!("other bytes")
        };
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            judge(wrong, || (), |()| BEHIND);
        }));
        assert!(judged.is_err());
        assert_eq!(made, 1);
    }

    #[test]
    fn a_witness_sees_that_a_processor_was_busy() {
        let witness = Witness::start();
        assert!(!witness.threads.is_empty());
        let all = witness.threads.len();
        let until = Instant::now() + Duration::from_secs(20);
        // Many more programs than processors: one of them, or the witness, has to wait.
        thread::scope(|scope| {
            for _ in 0..16 * all {
                scope.spawn(|| {
                    while witness.seen().longest < LATE && Instant::now() < until {
                        std::hint::spin_loop();
                    }
                });
            }
        });
        assert!(witness.seen().is_late(), "{:?}", witness.seen());
    }
}
