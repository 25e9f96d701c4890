// SPDX-License-Identifier: Apache-2.0
//! Tests whose verdict must not depend on the load of the machine: each one runs in a virtual kernel
//! of its own (`holdfast lab exec`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::netns;

/// If this is 1, the test runs inside a virtual kernel.
const INSIDE: &str = "HOLDFAST_INSIDE_VIRTUAL_KERNEL";
/// If this is 1, the tests run on this machine's kernel instead: it is the one to be tested.
const RUNNING_KERNEL: &str = "HOLDFAST_TEST_RUNNING_KERNEL";
/// Where an instrumented program writes which of its lines ran.
const PROFILE: &str = "LLVM_PROFILE_FILE";
/// Seed of the virtual kernel's randomness; the default is 1. With another seed a test takes another course.
const SEED: &str = "HOLDFAST_TEST_SEED";

/// Whether the calling test is to go on here. Otherwise it has passed in a virtual kernel, or was
/// skipped because there is none.
///
/// # Panics
/// The test failed in the virtual kernel. With `HOLDFAST_NO_SKIP=1`: there is none.
pub fn goes_on_here() -> bool {
    if is_set(INSIDE) {
        return true;
    }
    let test = own_name();
    if is_set(RUNNING_KERNEL) {
        return netns::available_or_skip(&test);
    }
    run_inside(&test);
    false
}

/// As [`goes_on_here`], for a test that compares times exactly: it runs in the virtual kernel alone.
///
/// # Panics
/// As [`goes_on_here`].
pub fn goes_on_in_virtual_time() -> bool {
    if is_set(RUNNING_KERNEL) && !is_set(INSIDE) {
        println!("LEFT OUT {}: it needs virtual time", own_name());
        return false;
    }
    goes_on_here()
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value == "1")
}

/// The name of the calling test.
fn own_name() -> String {
    // The test harness names each test's thread.
    let thread = thread::current();
    thread
        .name()
        .expect("the thread of a test has a name")
        .to_owned()
}

/// Runs one test of the running program inside, and prints what it printed.
fn run_inside(test: &str) {
    let program = std::env::current_exe().expect("the test program has a path");
    let mut command = Command::new(holdfast(&program));
    command.args(["lab", "exec"]);
    if let Some(seed) = std::env::var_os(SEED) {
        command.arg("--seed").arg(seed);
    }
    let own = std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_"));
    let inside = [(INSIDE.to_owned(), "1".to_owned())];
    let profile = profile_inside(&program, test);
    for (name, value) in own.chain(inside).chain(profile) {
        command.arg("--env").arg(format!("{name}={value}"));
    }
    command.arg("--").arg(program);
    command.args([test, "--exact", "--nocapture"]);
    let output = command.output().expect("holdfast starts");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if stderr.contains("the virtual kernel is not built") {
        return netns::report_skipped(test, stderr.trim());
    }
    // Not the lines of the test harness inside: this test counts once.
    let is_of_harness = |line: &&str| line.starts_with("test result: ");
    for line in stdout.lines().filter(|line| !is_of_harness(line)) {
        println!("{line}");
    }
    eprint!("{stderr}");
    assert!(
        output.status.success(),
        "failed in the virtual kernel: {}",
        output.status
    );
    assert!(
        stdout
            .lines()
            .any(|line| line.starts_with("test result: ok. 1 passed;")),
        "{test}: no such test in the virtual kernel"
    );
}

/// The variable for instrumented programs inside. Each virtual kernel counts its processes from 1, so
/// each test has files of its own.
fn profile_inside(program: &Path, test: &str) -> Option<(String, String)> {
    let on_host = PathBuf::from(std::env::var_os(PROFILE)?);
    let program = program.file_name()?.to_str()?;
    let pattern = on_host.file_name()?.to_str()?;
    let file = format!("{program}-{}-{pattern}", test.replace("::", "-"));
    Some((
        PROFILE.to_owned(),
        on_host.with_file_name(file).to_str()?.to_owned(),
    ))
}

/// The program, which cargo builds two folders above its tests.
fn holdfast(test_program: &Path) -> PathBuf {
    let folder = test_program.parent().and_then(Path::parent);
    let path = folder.map(|folder| folder.join("holdfast"));
    path.filter(|path| path.exists())
        .expect("the program is built first: cargo build -p holdfast")
}
