// SPDX-License-Identifier: Apache-2.0
//! Frames keep the octets that were read, as long as there is a handle to them.

use super::*;

fn fill(pool: &mut BufferPool, len: usize, seed: u8) -> Frame {
    pool.read(|buffer| {
        buffer[..VNET_HDR_BYTES].fill(0);
        for (index, octet) in buffer[VNET_HDR_BYTES..len].iter_mut().enumerate() {
            *octet = seed.wrapping_add(index as u8);
        }
        Ok(len)
    })
    .expect("a frame")
}

fn is_intact(frame: &Frame, len: usize, seed: u8) -> bool {
    frame.bytes().len() == len - VNET_HDR_BYTES
        && frame
            .bytes()
            .iter()
            .enumerate()
            .all(|(i, &octet)| octet == seed.wrapping_add(i as u8))
}

#[test]
fn kept_frames_survive_whatever_is_read_after_them() {
    let mut pool = BufferPool::new(16 * CHUNK_BYTES);
    let mut kept = std::collections::VecDeque::new();
    let mut state = 12345_u32;
    for round in 0..5000_u32 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let len = match state >> 30 {
            0 => 64,
            1 => 1510,
            2 => 11 + (state >> 8) as usize % 20_000,
            _ => 11 + (state >> 8) as usize % (FRAME_BYTES_MAX - 11),
        };
        let frame = fill(&mut pool, len, round as u8);
        assert!(is_intact(&frame, len, round as u8));
        if frame.is_cacheable() && state & 3 != 0 {
            kept.push_back((frame, len, round as u8));
        }
        if kept.len() > 300 || state & 31 == 7 {
            kept.pop_front();
        }
        if round % 100 == 0 {
            for (frame, len, seed) in &kept {
                assert!(is_intact(frame, *len, *seed));
            }
        }
    }
    kept.clear();
    drop(kept);
    assert!(pool.in_use_bytes() <= FRAME_BYTES_MAX, "{pool:?}");
}

#[test]
fn an_exhausted_pool_goes_on_with_frames_that_cannot_be_kept() {
    let mut pool = BufferPool::new(CHUNK_BYTES);
    let kept: Vec<_> = (0..8).map(|seed| fill(&mut pool, 60_000, seed)).collect();
    assert!(kept.iter().all(Frame::is_cacheable));
    for seed in 0..3 {
        let passing = fill(&mut pool, 60_000, seed);
        assert!(!passing.is_cacheable());
        assert!(is_intact(&passing, 60_000, seed));
    }
    drop(kept);
    assert!(fill(&mut pool, 60_000, 9).is_cacheable());
}

#[test]
fn a_scratch_frame_that_is_held_is_never_overwritten() {
    let mut pool = BufferPool::new(CHUNK_BYTES);
    let _kept: Vec<_> = (0..8).map(|seed| fill(&mut pool, 60_000, seed)).collect();
    let passing = fill(&mut pool, 60_000, 77);
    let error = pool.read(|_| panic!("must not read")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert!(is_intact(&passing, 60_000, 77));
}

#[test]
fn a_chunk_without_frames_serves_another_size() {
    let mut pool = BufferPool::new(2 * CHUNK_BYTES);
    let small: Vec<_> = (0..SLOTS_MAX)
        .map(|i| fill(&mut pool, 1510, i as u8))
        .collect();
    let large: Vec<_> = (0..8).map(|seed| fill(&mut pool, 60_000, seed)).collect();
    assert!(!fill(&mut pool, 60_000, 0).is_cacheable());
    drop(small);
    assert!(fill(&mut pool, 60_000, 0).is_cacheable());
    assert!(
        large
            .iter()
            .zip(0..)
            .all(|(frame, seed)| is_intact(frame, 60_000, seed))
    );
}

#[test]
fn small_frames_do_not_pin_large_slots() {
    let mut pool = BufferPool::new(4 * CHUNK_BYTES);
    let kept: Vec<_> = (0..2 * SLOTS_MAX)
        .map(|i| fill(&mut pool, 1510, i as u8))
        .collect();
    assert!(kept.iter().all(Frame::is_cacheable));
    assert!(pool.in_use_bytes() <= kept.len() * SLOT_BYTES[0] + FRAME_BYTES_MAX);
}

#[test]
fn a_slice_keeps_its_slot_after_the_frame_is_gone() {
    let mut pool = BufferPool::new(CHUNK_BYTES);
    let part = fill(&mut pool, 60_000, 1).slice(100..200);
    let others: Vec<_> = (0..7).map(|seed| fill(&mut pool, 60_000, seed)).collect();
    assert!(others.iter().all(Frame::is_cacheable));
    assert!(
        part.iter()
            .zip(101_u8..)
            .all(|(&octet, expected)| octet == expected)
    );
}

#[test]
fn frames_outlive_their_pool() {
    let mut pool = BufferPool::new(CHUNK_BYTES);
    let frame = fill(&mut pool, 3000, 5);
    drop(pool);
    assert!(is_intact(&frame, 3000, 5));
}

#[test]
fn a_failed_read_leaves_the_pool_as_it_was() {
    let mut pool = BufferPool::new(CHUNK_BYTES);
    for _ in 0..100 {
        let error = pool
            .read(|_| Err(io::ErrorKind::WouldBlock.into()))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
    assert_eq!(pool.in_use_bytes(), FRAME_BYTES_MAX);
}

#[test]
fn a_read_shorter_than_its_header_is_refused() {
    let mut pool = BufferPool::new(CHUNK_BYTES);
    let error = pool.read(|_| Ok(VNET_HDR_BYTES - 1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}
