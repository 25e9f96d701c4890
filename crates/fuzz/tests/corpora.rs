// SPDX-License-Identifier: Apache-2.0
//! The inputs that fuzzing has found to be of interest, and those that once failed.

use std::path::Path;

use holdfast_fuzz::TARGETS;

#[test]
fn every_input_in_the_corpora_passes() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let inputs = std::fs::read_dir(corpora.join(name)).expect("a corpus for each target");
        let mut count = 0;
        for input in inputs {
            let path = input.expect("an input").path();
            println!("{}", path.display());
            target(&std::fs::read(&path).expect("an input"));
            count += 1;
        }
        assert!(count > 0, "{name} has no input");
    }
}

#[test]
fn no_input_and_short_inputs_pass() {
    for (_, target) in TARGETS {
        target(&[]);
        for byte in 0..=u8::MAX {
            target(&[byte]);
            target(&[byte; 64]);
        }
    }
}
