// SPDX-License-Identifier: Apache-2.0
//! Hostile input for all code that reads from the network, from a file that another process wrote,
//! or from the kernel. There must be no panic, no timer that is due without end, no limit exceeded, and
//! nothing sent that must not be sent.
//!
//! Each target takes bytes. `src/bin` gives it those of libFuzzer, `tests/corpora.rs` those in
//! `corpus/`. A [`Subject`] takes them as decisions ([`Dice`]): so a fuzzer gets past checksums and
//! seals. `tests/long_runs.rs` makes a million steps with one object, from a seed.

use std::cell::RefCell;

mod checks;
mod dice;
mod engine;
mod frames;
mod nl80211;
mod packet;
mod payloads;
mod sealed;
mod signals;
mod state_file;
mod stations;
mod traffic;

pub use dice::Dice;
pub use engine::{Engine, SCHEMES, Size};
pub use frames::frames;
pub use nl80211::nl80211;
pub use payloads::Payloads;
pub use signals::Signals;
pub use state_file::state_file;
pub use stations::Stations;

/// A target, which panics if something is wrong.
pub type Target = fn(&[u8]);

/// All targets by their names: those of the programs, and of the folders in `corpus/`.
pub const TARGETS: [(&str, Target); 7] = [
    ("frames", frames),
    ("engine", engine),
    ("signals", signals),
    ("stations", stations),
    ("payloads", payloads),
    ("state_file", state_file),
    ("nl80211", nl80211),
];

/// An object that takes many inputs.
pub trait Subject {
    /// One input, and what follows from it. Panics if something is wrong.
    fn step(&mut self, dice: &mut Dice);

    /// What was counted so far.
    fn tally(&self) -> &Tally;
}

/// What a subject has counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Inputs.
    pub inputs: u64,
    /// Of these, those that were read as a segment or a message.
    pub parsed: u64,
    /// Pieces and ACKs of honest flows, which were compared exactly.
    pub exact: u64,
    /// Compressed segments that were restored exactly.
    pub restored: u64,
    /// Peers whose segments were taken.
    pub taken: u64,
    /// The bytes of the last input.
    pub last: Vec<u8>,
}

/// The gateway's engine, with the scheme that the first byte names.
pub fn engine(bytes: &[u8]) {
    let mut dice = Dice::of_bytes(bytes);
    let scheme = dice.pick(&SCHEMES);
    drive(&mut Engine::new(scheme, &Size::SHORT, &mut dice), dice);
}

/// Link signals, at both ends.
pub fn signals(bytes: &[u8]) {
    drive(&mut Signals::default(), Dice::of_bytes(bytes));
}

/// Messages between base stations.
pub fn stations(bytes: &[u8]) {
    drive(&mut Stations::default(), Dice::of_bytes(bytes));
}

/// Compressed payload.
pub fn payloads(bytes: &[u8]) {
    thread_local! {
        // Its contexts and buffers take longer to make than an input takes.
        static SUBJECT: RefCell<Payloads> = RefCell::default();
    }
    SUBJECT.with_borrow_mut(|subject| {
        subject.forget_all();
        drive(subject, Dice::of_bytes(bytes));
    });
}

fn drive(subject: &mut impl Subject, mut dice: Dice) {
    while !dice.is_used_up() {
        subject.step(&mut dice);
    }
}
