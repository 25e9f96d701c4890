// SPDX-License-Identifier: Apache-2.0
//! Compression and decompression make their contexts and buffers once: nothing is allocated for
//! a packet. Counted by the allocator; zstd's own memory is C's, and is bounded by its levels.

use std::alloc::System;

use holdfast_core::compression::{CompressionSettings, Method, PlainCodec};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A packet of text, or of bytes that do not shrink.
fn packet(number: u32, shrinks: bool) -> Vec<u8> {
    let mut state = number;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..1448)
        .map(|at| {
            let byte = random();
            if shrinks {
                b"host gateway "[(at + usize::from(byte % 2)) % 13]
            } else {
                byte
            }
        })
        .collect()
}

#[test]
fn nothing_is_allocated_for_a_packet() {
    for method in [Method::Deflate, Method::Zstd] {
        let mut codec = PlainCodec::new(CompressionSettings { method, level: 3 });
        let packets: Vec<Vec<u8>> = (0..64)
            .map(|number| packet(number, number % 4 != 0))
            .collect();
        let dictionary = packets[5..8].concat();
        let mut payload = Vec::with_capacity(4096);
        let mut restored = 0;
        let mut pass = |restored: &mut u32| {
            for plain in &packets {
                payload.clear();
                if let Some(compressed) = codec.compress(plain, &dictionary) {
                    payload.extend_from_slice(compressed);
                    assert_eq!(codec.decompress(&payload, &dictionary), Some(&plain[..]));
                    *restored += 1;
                }
            }
        };
        pass(&mut restored);
        assert_eq!(restored, 48, "{method:?}");
        // The test's own frame may allocate beside, now and then.
        let least = (0..5).map(|_| {
            let region = Region::new(ALLOCATOR);
            pass(&mut restored);
            let change = region.change();
            change.allocations + change.reallocations
        });
        assert_eq!(least.min(), Some(0), "{method:?}");
    }
}
