// SPDX-License-Identifier: Apache-2.0
//! Memory that programs and this process share.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::MapHandle;

/// A mappable map's values, mapped into our memory: values for programs and for us.
#[derive(Debug)]
pub(crate) struct SharedValues {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is shared, and accessed only by atomic loads and stores.
unsafe impl Send for SharedValues {}

impl SharedValues {
    const PAGE_BYTES: usize = 4096;

    /// Maps the first page of `map`, which is mappable (`BPF_F_MMAPABLE`).
    pub(crate) fn map(map: &MapHandle) -> io::Result<Self> {
        Self::map_bytes(map, Self::PAGE_BYTES)
    }

    /// Maps this many bytes of `map`, which is mappable.
    pub(crate) fn map_bytes(map: &MapHandle, bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping of pages that the kernel chooses; the map is
        // mappable and long enough, or the call fails.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast()) {
            Some(start) if address != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A word of 64 bits, by its number in the memory.
    pub(crate) fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.bytes / 8, "word {number} is outside");
        // SAFETY: the memory is mapped while self lives, aligned to a page, and has the word.
        unsafe { self.start.cast::<AtomicU64>().add(number).as_ref() }
    }

    /// A word of 32 bits, by its number in the memory.
    pub(crate) fn half_word(&self, number: usize) -> &AtomicU32 {
        assert!(number < self.bytes / 4, "half word {number} is outside");
        // SAFETY: as in `word`; a word is read either whole or by halves.
        unsafe { self.start.cast::<AtomicU32>().add(number).as_ref() }
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

impl Drop for SharedValues {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nothing refers to it now.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
