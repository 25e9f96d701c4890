// SPDX-License-Identifier: Apache-2.0
//! Many seeds on one thread and on two: each thread takes the next seed until none is left.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant as Wall;

use holdfast_sim::Experiment;

use super::{RUNS, median};

const SEEDS: u64 = 24;

/// Prints how much less time two threads take.
pub(crate) fn report(experiment: &Experiment) {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    if processors < 2 {
        println!("two threads    not measured: one processor");
        return;
    }
    let mut experiment = experiment.clone();
    // Or every seed would be the same run.
    experiment.hops[1].downlink.loss = 0.001;
    let mut ratios = Vec::new();
    let mut walls = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        let [one, two] = [1, 2].map(|threads| wall_s(&experiment, threads));
        ratios.push(one / two);
        walls[0].push(one);
        walls[1].push(two);
    }
    let [one, two] = walls.map(median);
    println!(
        "{SEEDS} seeds       one thread {one:.3} s  two threads {two:.3} s  {:.2} times as fast, of {processors} processors",
        median(ratios)
    );
}

fn wall_s(experiment: &Experiment, threads: usize) -> f64 {
    let next = AtomicU64::new(1);
    let start = Wall::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > SEEDS {
                        break;
                    }
                    let mut own = experiment.clone();
                    own.seed = seed;
                    assert!(own.run().transfers[0].finished);
                }
            });
        }
    });
    start.elapsed().as_secs_f64()
}
