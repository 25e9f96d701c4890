// SPDX-License-Identifier: Apache-2.0
//! The target `state_file`: see [`holdfast_fuzz`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdfast_fuzz::state_file(bytes));
