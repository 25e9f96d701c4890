// SPDX-License-Identifier: Apache-2.0
//! Tests of how long something takes, on machines that do not always keep time.
//!
//! A hypervisor takes a processor away for a tenth of a second, or another program has it: what
//! was to happen within 200 ms then takes longer, whatever is tested. [`punctual`] measures how
//! late the machine itself was meanwhile. A time that is too long counts at once where the machine
//! was on time, or not late enough to explain it; otherwise the attempt is made again, a few times.
//! Judged in this way are durations, and what clocks decide with them: whether a timer expired,
//! what was sent again. What is wrong in itself panics in the attempt, and is wrong at the first one.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// A program that misses its moment by a little may wait for a timer, and a sender for its
/// back-off: by up to so many times its lateness a measurement may be too long because of it.
const LATENESS_MULTIPLIED: u32 = 50;

/// Something took longer than it may, or a clock decided otherwise than it would in time.
#[derive(Debug)]
pub struct TooLong {
    what: String,
    /// By how much; zero where that cannot be said.
    by: Duration,
}

impl TooLong {
    /// Whether a machine that was this late explains it.
    fn is_explained_by(&self, late: Lateness) -> bool {
        let is_late = late.longest + late.disk >= LATE;
        // All waiting for the disk is counted, and much of it delayed nobody under test.
        is_late && self.by <= late.longest * LATENESS_MULTIPLIED + late.disk
    }
}

/// That both are in time. Lateness has to explain whichever is the longer.
pub fn both(one: Result<(), TooLong>, other: Result<(), TooLong>) -> Result<(), TooLong> {
    match (one, other) {
        (Err(one), Err(other)) => Err(TooLong {
            what: format!("{}; {}", one.what, other.what),
            by: one.by.max(other.by),
        }),
        (one, other) => one.and(other),
    }
}

/// That what took `measured_ms` took less than `limit_ms`, both in milliseconds.
pub fn shorter_than(limit_ms: u64, what: &str, measured_ms: u64) -> Result<(), TooLong> {
    if measured_ms < limit_ms {
        return Ok(());
    }
    Err(TooLong {
        what: format!("{what}: {measured_ms} ms, to be less than {limit_ms}"),
        by: Duration::from_millis(measured_ms - limit_ms),
    })
}

/// That what depends on time `holds`; `what` tells the figures otherwise. Of this no excess is
/// known: any lateness that counts explains it.
pub fn in_time(holds: bool, what: &dyn fmt::Display) -> Result<(), TooLong> {
    if holds {
        return Ok(());
    }
    Err(TooLong {
        what: what.to_string(),
        by: Duration::ZERO,
    })
}

/// Makes the attempt, and again, up to five times in all, if it took too long and the machine was
/// late enough for that.
///
/// # Panics
/// It took too long on a machine that was on time, or each time.
pub fn punctual(attempt: impl FnMut() -> Result<(), TooLong>) {
    // scripts/test.sh shows these at the end.
    let tell = |again: String| println!("TRIED AGAIN {again}");
    judge(attempt, Witness::start, Witness::seen, tell);
}

/// What is measured begins now: how late the machine was since the measurement before, if any,
/// while the attempt waited for its turn and built its hosts, explains nothing. (But for a nap that
/// had begun.) Nothing without an attempt.
pub fn measurement_begins() {
    WITNESSED.with_borrow(|witnessed| {
        if let Some(seen) = witnessed {
            seen.begin();
        }
    });
}

/// The measurement is over; another one may follow in the same attempt.
pub fn measurement_ends() {
    WITNESSED.with_borrow(|witnessed| {
        if let Some(seen) = witnessed {
            seen.end();
        }
    });
}

fn judge<W>(
    mut attempt: impl FnMut() -> Result<(), TooLong>,
    start: impl Fn() -> W,
    seen: impl Fn(W) -> Lateness,
    mut tell: impl FnMut(String),
) {
    for i in 1..=ATTEMPTS {
        let witness = start();
        let Err(too_long) = attempt() else {
            return;
        };
        let (late, what) = (seen(witness), &too_long.what);
        assert!(
            too_long.is_explained_by(late),
            "{what}; the machine was {late}"
        );
        assert!(i < ATTEMPTS, "{what}, as in all of {i} attempts; {late}");
        tell(format!("{what}; the machine was {late}"));
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

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [longest, disk] = [self.longest, self.disk].map(|one| one.as_millis());
        write!(
            f,
            "late by {longest} ms at worst, and somebody waited {disk} ms for its disk"
        )
    }
}

thread_local! {
    /// What the witness of this thread's attempt sees.
    static WITNESSED: RefCell<Option<Arc<Seen>>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
struct Seen {
    /// Of the measurement that goes on.
    longest_ns: AtomicU64,
    /// When that began; none between two.
    disk_before: Mutex<Option<Duration>>,
    /// Of those that are over.
    before: Mutex<Lateness>,
    ends: AtomicBool,
}

fn locked<T>(cell: &Mutex<T>) -> MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn begin(&self) {
        *locked(&self.disk_before) = Some(waited_for_disk());
        self.longest_ns.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        if let Some(disk_before) = locked(&self.disk_before).take() {
            let longest = Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed));
            let mut before = locked(&self.before);
            before.longest = before.longest.max(longest);
            before.disk += waited_for_disk().saturating_sub(disk_before);
        }
    }

    /// Naps until it ends.
    fn watch(&self) {
        while !self.ends.load(Ordering::Relaxed) {
            let began = Instant::now();
            thread::sleep(NAP);
            let late = began.elapsed().saturating_sub(NAP);
            self.longest_ns
                .fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// Watches how late the machine is: a thread on each processor, which sleeps. They end with it.
#[derive(Debug)]
struct Witness {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

impl Witness {
    fn start() -> Self {
        let seen = Arc::<Seen>::default();
        seen.begin();
        WITNESSED.set(Some(Arc::clone(&seen)));
        let ours = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu));
        let watch = |cpu: usize| {
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                let mut only = CpuSet::new();
                only.set(cpu);
                // Where it cannot be bound it watches all the same.
                let _ = sched_setaffinity(None, &only);
                seen.watch();
            })
        };
        let threads = cpus.map(watch).collect();
        Self { seen, threads }
    }

    /// Ends it: the nap of a processor that is away at this moment counts.
    fn seen(mut self) -> Lateness {
        self.stop();
        self.seen.end();
        *locked(&self.seen.before)
    }

    fn stop(&mut self) {
        self.seen.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        WITNESSED.set(None);
        self.stop();
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
        let (mut made, mut told) = (0, 0);
        let attempt = || {
            made += 1;
            shorter_than(200, "a stall", times_ms[made - 1])
        };
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            judge(attempt, || (), |()| late, |_| told += 1);
        }));
        assert_eq!(told, made - 1);
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
    fn a_time_that_is_longer_than_lateness_explains_is_wrong_at_once() {
        // Fifty times 40 ms, and the limit.
        assert_eq!(attempts(&[2_200, 100], BEHIND), (2, true));
        assert_eq!(attempts(&[2_201, 100], BEHIND), (1, false));
    }

    #[test]
    fn waiting_for_the_disk_is_lateness_too() {
        let disk = Lateness {
            longest: Duration::ZERO,
            disk: Duration::from_millis(120),
        };
        assert_eq!(attempts(&[320, 100], disk), (2, true));
        assert_eq!(attempts(&[321, 100], disk), (1, false));
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
            judge(wrong, || (), |()| BEHIND, drop);
        }));
        assert!(judged.is_err());
        assert_eq!(made, 1);
    }

    #[test]
    fn a_witness_sees_that_a_processor_was_busy_after_the_measurement_has_begun() {
        let witness = Witness::start();
        let all = witness.threads.len();
        assert!(all > 0);
        let set = |late: Duration| {
            let late_ns = late.as_nanos() as u64;
            witness.seen.longest_ns.store(late_ns, Ordering::Relaxed);
        };
        set(Duration::from_secs(120));
        measurement_begins();
        let longest = || witness.seen.longest_ns.load(Ordering::Relaxed);
        let until = Instant::now() + Duration::from_secs(20);
        let late_ns = LATE.as_nanos() as u64;
        // Many more programs than processors: one of them, or the witness, has to wait.
        thread::scope(|scope| {
            for _ in 0..16 * all {
                scope.spawn(|| {
                    while longest() < late_ns && Instant::now() < until {
                        std::hint::spin_loop();
                    }
                });
            }
        });
        let late = witness.seen();
        assert!(
            late.longest >= LATE && late.longest < Duration::from_secs(60),
            "{late}"
        );
        assert!(WITNESSED.with_borrow(Option::is_none));
    }

    #[test]
    fn of_several_measurements_the_worst_lateness_counts_and_none_between_them() {
        let witness = Witness::start();
        let seen = Arc::clone(&witness.seen);
        let late = |s: u64| {
            seen.longest_ns
                .fetch_max(s * 1_000_000_000, Ordering::Relaxed)
        };
        late(500);
        measurement_begins();
        late(100);
        measurement_ends();
        late(700);
        measurement_begins();
        late(60);
        measurement_ends();
        late(900);
        let worst = witness.seen().longest;
        assert_eq!(worst, Duration::from_secs(100));
    }

    #[test]
    fn of_two_times_the_longer_is_to_be_explained() {
        let (short, long) = (
            || shorter_than(9, "short", 10),
            || shorter_than(9, "long", 99),
        );
        let late = Lateness {
            longest: LATE,
            disk: Duration::ZERO,
        };
        let by = |result: Result<(), TooLong>| result.unwrap_err().by.as_millis();
        assert_eq!(by(both(short(), long())), 90);
        assert_eq!(by(both(long(), Ok(()))), 90);
        assert_eq!(by(both(Ok(()), short())), 1);
        assert!(both(Ok(()), Ok(())).is_ok());
        assert!(both(long(), short()).unwrap_err().is_explained_by(late));
    }
}
