// SPDX-License-Identifier: Apache-2.0
//! One object through many inputs that a seed decides: full tables, full caches, flows that end. A
//! fuzzer's inputs are too short for that.
//!
//! `HOLDFAST_CASES=n` changes the number of inputs, `HOLDFAST_SEED=n` the seed, 1 unless set. A
//! failure prints the command that replays it.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use holdfast_fuzz::{Dice, Engine, Payloads, SCHEMES, Signals, Size, Stations, Subject, Tally};

fn variable(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |text| text.parse().expect("a whole number"))
}

/// Gives `inputs` inputs to a subject, and returns its counts.
fn run<S: Subject>(test: &str, inputs: u64, make: impl FnOnce(&mut Dice) -> S) -> Tally {
    let seed = variable("HOLDFAST_SEED", 1);
    let inputs = variable("HOLDFAST_CASES", inputs);
    let mut dice = Dice::of_seed(seed);
    let mut subject = make(&mut dice);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        (0..inputs).for_each(|_| subject.step(&mut dice));
    }));
    let tally = subject.tally();
    if let Err(panic) = outcome {
        let mut bytes = String::new();
        for byte in &tally.last {
            write!(bytes, "{byte:02x}").expect("a string");
        }
        println!("input {} was {bytes}", tally.inputs);
        println!(
            "replay: HOLDFAST_SEED={seed} HOLDFAST_CASES={inputs} \
             cargo test -p holdfast-fuzz --test long_runs -- {test}"
        );
        resume_unwind(panic);
    }
    tally.clone()
}

fn run_engine(scheme: &str) -> Tally {
    let make = |dice: &mut Dice| Engine::new(scheme, &Size::LONG, dice);
    let test = format!("{}_keeps", scheme.replace('-', "_"));
    let tally = run(&test, 500_000, make);
    assert!(tally.parsed > tally.inputs / 2, "{tally:?}");
    tally
}

macro_rules! engines {
    ($($test:ident: $scheme:literal,)*) => {
        #[test]
        fn each_scheme_has_a_test() {
            assert_eq!([$($scheme),*], SCHEMES);
        }
    $(
        #[test]
        fn $test() {
            let tally = run_engine($scheme);
            // With two numberings there is nothing to compare with.
            assert_eq!(tally.exact > 0, $scheme != "mtcp-early", "{tally:?}");
            assert_eq!(tally.restored > 0, $scheme == "mtcp-zip", "{tally:?}");
            assert_eq!(tally.taken > 0, $scheme == "auto-mobile", "{tally:?}");
        }
    )*};
}

engines! {
    hold_keeps_its_limits_and_changes_no_byte: "hold",
    mtcp_plus_keeps_its_limits_and_changes_no_byte: "mtcp-plus",
    mtcp_keeps_its_limits_and_changes_no_byte: "mtcp",
    mtcp_early_keeps_its_limits_and_changes_no_byte: "mtcp-early",
    mtcp_zip_keeps_its_limits_and_changes_no_byte: "mtcp-zip",
    mtcp2007_keeps_its_limits_and_changes_no_byte: "mtcp2007",
    snoop_keeps_its_limits_and_changes_no_byte: "snoop",
    snoop95_keeps_its_limits_and_changes_no_byte: "snoop95",
    auto_keeps_its_limits_and_changes_no_byte: "auto",
    auto_mobile_keeps_its_limits_and_changes_no_byte: "auto-mobile",
}

#[test]
fn signals_of_a_disturbed_mobile_are_believed_now_and_then() {
    let tally = run("signals", 50_000, |_| Signals::default());
    assert!(tally.parsed > 0, "{tally:?}");
}

#[test]
fn stations_read_what_they_write() {
    let tally = run("stations", 100_000, |_| Stations::default());
    assert!(tally.parsed > 0, "{tally:?}");
}

#[test]
fn payloads_are_restored_to_what_they_were() {
    let tally = run("payloads", 50_000, |_| Payloads::default());
    assert!(tally.restored > 0, "{tally:?}");
}
