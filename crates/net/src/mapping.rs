// SPDX-License-Identifier: Apache-2.0
//! Memory that this process shares with a file, or with the programs of a BPF map.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::ptr::NonNull;

/// The first bytes of a file or map, mapped to be read and written.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone. Its users answer for what they read and write.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Errors: what `mmap` returns; a map without `BPF_F_MMAPABLE` is refused.
    pub(crate) fn new(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast()) {
            Some(start) if address != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The first byte, aligned to a page.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nothing refers to it now.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
