// SPDX-License-Identifier: Apache-2.0
//! Values that programs and this process share.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::MapHandle;

use crate::mapping::Mapping;

/// A mappable map's values, accessed only by atomic loads and stores.
#[derive(Debug)]
pub(crate) struct SharedValues(Mapping);

impl SharedValues {
    const PAGE_BYTES: usize = 4096;

    /// Maps the first page of `map`, which is mappable (`BPF_F_MMAPABLE`).
    pub(crate) fn map(map: &MapHandle) -> io::Result<Self> {
        Self::map_bytes(map, Self::PAGE_BYTES)
    }

    /// Maps this many bytes of `map`, which is mappable.
    pub(crate) fn map_bytes(map: &MapHandle, bytes: usize) -> io::Result<Self> {
        Mapping::new(map.as_fd(), bytes).map(Self)
    }

    /// A word of 64 bits, by its number in the memory.
    pub(crate) fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.0.bytes() / 8, "word {number} is outside");
        // SAFETY: the memory is mapped while self lives, aligned to a page, and has the word.
        unsafe { self.0.start().cast::<AtomicU64>().add(number).as_ref() }
    }

    /// A word of 32 bits, by its number in the memory.
    pub(crate) fn half_word(&self, number: usize) -> &AtomicU32 {
        assert!(number < self.0.bytes() / 4, "half word {number} is outside");
        // SAFETY: as in `word`; a word is read either whole or by halves.
        unsafe { self.0.start().cast::<AtomicU32>().add(number).as_ref() }
    }

    /// Stores a word, by its number in the value.
    pub(crate) fn store(&self, number: usize, word: u64) {
        self.word(number).store(word, Ordering::Relaxed);
    }

    /// What a word holds.
    pub(crate) fn load(&self, number: usize) -> u64 {
        self.word(number).load(Ordering::Relaxed)
    }
}
