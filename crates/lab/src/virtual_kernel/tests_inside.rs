// SPDX-License-Identifier: Apache-2.0
//! Tests whose verdict must not depend on the load of the machine: each one runs in a virtual
//! kernel of its own.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use holdfast_net::netns;
use holdfast_testbed::stop::StopFlag;

use super::{Job, VirtualKernel, available_or_skip};

/// Set for the test inside.
const INSIDE: &str = "HOLDFAST_INSIDE_VIRTUAL_KERNEL";
/// If this is 1, the tests run on this machine's kernel instead, and its clock judges them.
const RUNNING_KERNEL: &str = "HOLDFAST_TEST_RUNNING_KERNEL";

/// Seed of the virtual kernel's randomness; 1 unless set. With another seed a test takes another course.
const SEED: &str = "HOLDFAST_TEST_SEED";

/// The longest that one test may take of real time.
const LIMIT: Duration = Duration::from_secs(600);

/// Whether the calling test is to go on here. Otherwise it has passed in a virtual kernel, or was
/// skipped because there is none. `holdfast` is the program, which is the first one inside.
///
/// # Panics
/// The test failed in the virtual kernel. With `HOLDFAST_NO_SKIP=1`: there is none.
pub fn goes_on_here(holdfast: &Path) -> bool {
    // The test harness names each test's thread.
    let thread = thread::current();
    let test = thread.name().expect("the thread of a test has a name");
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| value == "1");
    if is_set(INSIDE) {
        return true;
    }
    if is_set(RUNNING_KERNEL) {
        return netns::available_or_skip(test);
    }
    if let Some(kernel) = available_or_skip(test)
        && let Err(error) = run_inside(&kernel, holdfast, test)
    {
        panic!("{error:#}");
    }
    false
}

/// Runs one test of the running program inside, and prints what it printed.
fn run_inside(kernel: &VirtualKernel, holdfast: &Path, test: &str) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("holdfast-virtual-")
        .tempdir()?;
    let program = std::env::current_exe()?;
    let program = program.to_str().context("the test program's path")?;
    let seed = match std::env::var(SEED) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{SEED}: {text}: not a number"))?,
        Err(_) => 1,
    };
    let own = std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_"));
    let job = Job {
        arguments: vec![test.into(), "--exact".into(), "--nocapture".into()],
        environment: own.chain([(INSIDE.into(), "1".into())]).collect(),
        seed,
        limit: LIMIT,
        ..Job::new(holdfast, program, folder.path())
    };
    let outcome = kernel.run(&job, &StopFlag::default())?;
    let stdout = fs::read_to_string(&outcome.stdout)?;
    // Not the lines of the test harness inside: this test counts once.
    let is_of_harness = |line: &&str| line.starts_with("test result: ");
    for line in stdout.lines().filter(|line| !is_of_harness(line)) {
        println!("{line}");
    }
    eprint!("{}", fs::read_to_string(&outcome.stderr)?);
    println!(
        "virtual kernel: {:.1} s, in {:.1} s of real time",
        outcome.virtual_s, outcome.wall_s
    );
    ensure!(
        outcome.exit_code == Some(0),
        "failed in the virtual kernel: {outcome:?}"
    );
    ensure!(
        stdout
            .lines()
            .any(|line| line.starts_with("test result: ok. 1 passed;")),
        "{test}: no such test in the virtual kernel"
    );
    Ok(())
}
