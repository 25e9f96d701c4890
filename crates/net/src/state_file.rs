// SPDX-License-Identifier: Apache-2.0
//! A file of fixed-size records that outlives the process that writes it.
//!
//! The file is mapped: writing a record is a copy in memory, and what was written is
//! there for a successor even after SIGKILL (not after a loss of power: it belongs on
//! a tmpfs such as `/run`). A record may be torn when the writer died in the middle
//! of it; who reads them has to tell.
//!
//! The file is locked while it is open, so that two daemons cannot share it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;

/// A mapped file of records of `N` octets; an empty slot is all zeros.
#[derive(Debug)]
pub struct StateFile<const N: usize> {
    /// Holds the lock.
    _file: File,
    start: NonNull<u8>,
    slots: usize,
}

// SAFETY: the mapping is owned by this value alone, and written through `&mut self`.
unsafe impl<const N: usize> Send for StateFile<N> {}

impl<const N: usize> StateFile<N> {
    /// Opens or creates the file with room for `slots` records; what a predecessor
    /// left in it is kept as far as there is room.
    ///
    /// Errors: no permission, no such directory, `WouldBlock` if another process has
    /// it open.
    pub fn open(path: &Path, slots: usize) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
            .open(path)?;
        // SAFETY: flock takes no pointers.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let slots = slots.max(1);
        let bytes = slots * N;
        file.set_len(bytes as u64)?;
        // SAFETY: a fresh mapping at an address that the kernel chooses, of a file that
        // is as long and that nobody shortens: it is locked, and only we resize it.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast()) {
            Some(start) if address != libc::MAP_FAILED => Ok(Self {
                _file: file,
                start,
                slots,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How many records fit.
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// The record in a slot.
    ///
    /// Panics if there is no such slot; so do the other two.
    pub fn get(&self, slot: usize) -> [u8; N] {
        assert!(slot < self.slots);
        let mut record = [0; N];
        // SAFETY: the slot lies within the mapping, and the record is as long.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr().add(slot * N),
                record.as_mut_ptr(),
                N,
            );
        }
        record
    }

    /// Writes a record.
    pub fn put(&mut self, slot: usize, record: &[u8; N]) {
        assert!(slot < self.slots);
        // SAFETY: the slot lies within the mapping, which only we write.
        unsafe {
            std::ptr::copy_nonoverlapping(record.as_ptr(), self.start.as_ptr().add(slot * N), N);
        }
    }

    /// Empties a slot.
    pub fn clear(&mut self, slot: usize) {
        self.put(slot, &[0; N]);
    }
}

impl<const N: usize> Drop for StateFile<N> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it now.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.slots * N) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("holdfast-state-{name}-{}", std::process::id()))
    }

    #[test]
    fn records_are_there_for_a_successor_with_more_or_less_room() {
        let path = path("successor");
        let mut file = StateFile::<4>::open(&path, 3).unwrap();
        file.put(0, b"zero");
        file.put(2, b"two.");
        drop(file);
        let mut file = StateFile::<4>::open(&path, 5).unwrap();
        assert_eq!(
            (&file.get(0), &file.get(1), &file.get(2)),
            (b"zero", &[0; 4], b"two.")
        );
        assert_eq!(file.get(4), [0; 4]);
        file.clear(0);
        drop(file);
        let file = StateFile::<4>::open(&path, 1).unwrap();
        assert_eq!((file.slots(), file.get(0)), (1, [0; 4]));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn two_daemons_cannot_share_the_file() {
        let path = path("shared");
        let first = StateFile::<4>::open(&path, 1).unwrap();
        let error = StateFile::<4>::open(&path, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        assert!(StateFile::<4>::open(&path, 1).is_ok());
        std::fs::remove_file(path).unwrap();
    }
}
