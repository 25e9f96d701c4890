// SPDX-License-Identifier: Apache-2.0
//! The target `stations`: see [`holdfast_fuzz`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdfast_fuzz::stations(bytes));
