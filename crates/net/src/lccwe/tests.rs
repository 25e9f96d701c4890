// SPDX-License-Identifier: Apache-2.0
//! The program's arithmetic in the kernel, with the vectors that test `holdfast_core`'s too;
//! names, registration, and what an owner leaves.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::netns::available_or_skip;

const VECTORS: &str = include_str!("../../../core/src/lccwe/vectors.txt");
/// The name that a child process registers.
const CHILD_ENV: &str = "HOLDFAST_LCCWE_CHILD";
const FUNCTIONS: [&str; 6] = [
    "p_handoff",
    "p_congestion",
    "next_alpha",
    "next_ack_interval",
    "steps",
    "grow",
];

/// A name of this process and test alone.
fn name_of(test: &str) -> String {
    format!("hf{}_{test}", std::process::id())
}

fn is_available(name: &str) -> bool {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    names.unwrap().split_whitespace().any(|each| each == name)
}

#[test]
fn programs_calculate_as_in_the_vectors() {
    if !available_or_skip("programs_calculate_as_in_the_vectors") {
        return;
    }
    let mut open = open(NAME).unwrap();
    for mut map in open.maps_mut() {
        if map.name() == LINKED || map.name() == UNLINKED {
            map.set_autocreate(false).unwrap();
        }
    }
    for mut program in open.progs_mut() {
        let is_it = program.name() == "vector";
        program.set_autoload(is_it);
    }
    let object = open.load().unwrap();
    let program = object
        .progs_mut()
        .find(|program| program.name() == "vector")
        .unwrap();
    let mut checked = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split_whitespace();
        let function = fields.next().unwrap();
        let number = FUNCTIONS.iter().position(|name| *name == function).unwrap();
        let mut values: Vec<u64> = fields.map(|field| field.parse().unwrap()).collect();
        let results = if function == "grow" { 2 } else { 1 };
        let expected = values.split_off(values.len() - results);
        values.resize(4, 0);
        let mut context: Vec<u8> = std::iter::once(number as u64)
            .chain(values)
            .chain([0, 0])
            .flat_map(u64::to_ne_bytes)
            .collect();
        let input = libbpf_rs::ProgramInput {
            context_in: Some(&mut context),
            ..Default::default()
        };
        let output = program.test_run(input).unwrap();
        assert_eq!(output.return_value, 0, "{line}");
        let came: Vec<u64> = context[40..40 + 8 * results]
            .chunks_exact(8)
            .map(|octets| u64::from_ne_bytes(octets.try_into().unwrap()))
            .collect();
        assert_eq!(came, expected, "{line}");
        checked += 1;
    }
    assert!(checked > 150, "{checked}");
}

#[test]
fn a_registration_ends_with_its_guard_and_a_name_is_taken_once() {
    if !available_or_skip("a_registration_ends_with_its_guard_and_a_name_is_taken_once") {
        return;
    }
    let name = name_of("once");
    let first = CongestionControl::register(&name).unwrap();
    assert!(is_available(&name));
    let error = CongestionControl::register(&name).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("the name is taken"), "{error}");
    let other = name_of("other");
    let second = CongestionControl::register(&other).unwrap();
    drop(first);
    // Another test's child may have inherited the descriptor, until it is executed.
    wait_until("the end of the first", || !is_available(&name));
    assert!(is_available(&other));
    drop(second);
    wait_until("the end of the second", || !is_available(&other));
}

/// What the child process of the next test does.
fn register_as_on_old_kernels(name: &str) {
    let control = CongestionControl::register_by(name, &ATTEMPTS[1..]).unwrap();
    assert!(!control.is_linked());
    let _ = io::stdin().read(&mut [0; 1]);
}

#[test]
fn without_links_a_killed_owner_leaves_no_registration_either() {
    let test = "without_links_a_killed_owner_leaves_no_registration_either";
    if let Ok(name) = std::env::var(CHILD_ENV) {
        return register_as_on_old_kernels(&name);
    }
    if !available_or_skip(test) {
        return;
    }
    let name = name_of("old");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("lccwe::tests::{test}")])
        .env(CHILD_ENV, &name)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child's registration", || is_available(&name));
    // A service manager sends these to the guardian, too: at a stop, and when its watchdog ends the daemon.
    for signal in [Signal::TERM, Signal::QUIT, Signal::ABORT] {
        for guardian in children(child.id()) {
            kill_process(guardian, signal).unwrap();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the end of the registration", || !is_available(&name));
    // The same if the owner ends in good order.
    let control = CongestionControl::register_by(&name, &ATTEMPTS[1..]).unwrap();
    assert!(is_available(&name));
    drop(control);
    wait_until("its end in good order", || !is_available(&name));
}

/// Each thread has its own.
fn children(parent: u32) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let children = threads.flatten().map(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children"));
        children.unwrap_or_default()
    });
    let children: String = children.collect();
    let numbers = children.split_ascii_whitespace();
    let found: Vec<_> = numbers
        .filter_map(|number| Pid::from_raw(number.parse().ok()?))
        .collect();
    assert!(!found.is_empty(), "no guardian");
    found
}

pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn handoffs_begin_before_they_end() {
    if !available_or_skip("handoffs_begin_before_they_end") {
        return;
    }
    let control = CongestionControl::register(&name_of("map")).unwrap();
    control.handoff_finished(7).unwrap();
    assert_eq!(control.handoff(7).unwrap(), None);
    control.handoff_started(7).unwrap();
    let [start, end] = control.handoff(7).unwrap().unwrap();
    assert!(start > 0 && end == GOES_ON);
    control.handoff_finished(7).unwrap();
    let [same, end] = control.handoff(7).unwrap().unwrap();
    assert!(same == start && (start..=monotonic_ns()).contains(&end));
    // A second end has no effect.
    control.handoff_finished(7).unwrap();
    assert_eq!(control.handoff(7).unwrap(), Some([start, end]));
    control.forget(7).unwrap();
    control.forget(7).unwrap();
    assert_eq!(control.handoff(7).unwrap(), None);
    assert_eq!(control.events().unwrap(), Vec::new());
}

#[test]
fn a_handoff_follows_its_interface_and_ends_with_its_owner() {
    if !available_or_skip("a_handoff_follows_its_interface_and_ends_with_its_owner") {
        return;
    }
    let control = CongestionControl::register(&name_of("own")).unwrap();
    control.handoff_started(7).unwrap();
    let [start, _] = control.handoff(7).unwrap().unwrap();
    control.rename(7, 8).unwrap();
    assert_eq!(control.handoff(7).unwrap(), None);
    assert_eq!(control.handoff(8).unwrap(), Some([start, GOES_ON]));
    // What sockets that have selected it keep.
    let map = libbpf_rs::MapHandle::try_from(&control.handoffs().unwrap()).unwrap();
    let key = CongestionControl::key(8).unwrap();
    drop(control);
    let value = map.lookup(&key, MapFlags::ANY).unwrap().unwrap();
    let finish = u64::from_ne_bytes(value[8..16].try_into().unwrap());
    assert!((start..=monotonic_ns()).contains(&finish), "{finish}");
}

#[test]
fn a_name_too_long_is_refused_in_a_line() {
    for name in ["", "sixteen_letters_", "a b", "é"] {
        let error = CongestionControl::register(name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(!error.to_string().contains('\n'));
    }
}
