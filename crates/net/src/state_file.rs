// SPDX-License-Identifier: Apache-2.0
//! A file of fixed-size records that outlives the process that writes it.
//!
//! The file is mapped: writing a record is a copy in memory. A successor finds what was
//! written even after SIGKILL, but not after a loss of power: the file belongs on a tmpfs
//! such as `/run`. A record may be torn if the writer died in the middle of it: the reader
//! has to detect that.
//!
//! The file is locked while it is open, so that two daemons cannot share it. All its
//! space is reserved before it is mapped: a write to a mapping that finds no space ends
//! the process (SIGBUS). A header distinguishes our files from others, which are left as
//! they are.

use std::fs::{File, Permissions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::mapping::Mapping;

/// Bytes before the first record.
pub const HEADER_BYTES: usize = 64;

/// The first bytes of the file; the length of a record follows, four bytes, big endian.
const MAGIC: &[u8; 20] = b"holdfast state file\n";

/// A longer file was never ours, bytes: it is not read into memory.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// A mapped file of records of `N` octets; an empty slot is all zeros.
#[derive(Debug)]
pub struct StateFile<const N: usize> {
    /// Holds the lock.
    file: File,
    mapping: Mapping,
    slots: usize,
}

/// What became of [`StateFile::open`].
#[derive(Debug)]
pub enum Opened<const N: usize> {
    /// The file is ready; what a predecessor left is in it.
    Ready(StateFile<N>),
    /// The file system has no space for the file. The file is empty now, so that no reader
    /// takes old records for new ones.
    NoSpace {
        /// The kernel's error.
        error: io::Error,
        /// What a predecessor left in the file.
        left: Vec<[u8; N]>,
    },
}

impl<const N: usize> StateFile<N> {
    /// Opens or creates the file with room for `slots` records; what a predecessor
    /// left in it is kept as far as there is room. `is_record` returns whether a record is
    /// whole: files of versions before 0.2 had no header.
    ///
    /// Errors: no permission, no such directory, `WouldBlock` if another process has
    /// it open, `InvalidData` if it is no file of ours. A file that is refused stays as it is.
    pub fn open(
        path: &Path,
        slots: usize,
        is_record: impl Fn([u8; N]) -> bool,
    ) -> io::Result<Opened<N>> {
        let slots = slots.max(1);
        let mut file = open_regular(path)?;
        let content = Content::read(&mut file, is_record)?;
        // Only now, since it is ours: a file of others keeps its mode too.
        if file.metadata()?.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        let bytes = HEADER_BYTES + slots * N;
        let length = content.bytes.max(bytes);
        if let Err(error) = allocate(&file, length) {
            let is_full = [Some(libc::ENOSPC), Some(libc::EDQUOT)].contains(&error.raw_os_error());
            if !is_full {
                return Err(error);
            }
            // This also frees the part that was allocated before the space ended.
            file.set_len(0)?;
            let left = content.records.into_iter().filter(is_used).collect();
            return Ok(Opened::NoSpace { error, left });
        }
        // No process shortens the file: it is locked, belongs to us, and only we resize it.
        let mapping = Mapping::new(&file, bytes)?;
        let mut this = Self {
            file,
            mapping,
            slots,
        };
        if !(content.has_header && content.records.len() <= slots) {
            this.fill(content.records);
        }
        // The last write: until then the file is one without a header, and valid as such.
        this.write(0, &header::<N>());
        this.file.set_len(bytes as u64)?;
        Ok(Opened::Ready(this))
    }

    /// Lays the records that are in use one after the other, and empties the rest.
    fn fill(&mut self, records: Vec<[u8; N]>) {
        let used = records.into_iter().filter(is_used);
        let all = used.chain(std::iter::repeat([0; N]));
        for (slot, record) in (0..self.slots).zip(all) {
            self.put(slot, &record);
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
                self.mapping.start().as_ptr().add(HEADER_BYTES + slot * N),
                record.as_mut_ptr(),
                N,
            );
        }
        record
    }

    /// Writes a record.
    pub fn put(&mut self, slot: usize, record: &[u8; N]) {
        assert!(slot < self.slots);
        self.write(HEADER_BYTES + slot * N, record);
    }

    /// Empties a slot.
    pub fn clear(&mut self, slot: usize) {
        self.put(slot, &[0; N]);
    }

    fn write(&mut self, at: usize, octets: &[u8]) {
        assert!(at + octets.len() <= HEADER_BYTES + self.slots * N);
        // SAFETY: all of it lies within the mapping, which only we write.
        unsafe {
            std::ptr::copy_nonoverlapping(
                octets.as_ptr(),
                self.mapping.start().as_ptr().add(at),
                octets.len(),
            );
        }
    }
}

fn is_used<const N: usize>(record: &[u8; N]) -> bool {
    *record != [0; N]
}

fn header<const N: usize>() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..MAGIC.len()].copy_from_slice(MAGIC);
    header[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&(N as u32).to_be_bytes());
    header
}

/// The content of the file.
struct Content<const N: usize> {
    /// It has the header of this version; its records stand where they are to stand.
    has_header: bool,
    /// Its slots, the empty ones too.
    records: Vec<[u8; N]>,
    /// Its length.
    bytes: usize,
}

impl<const N: usize> Content<N> {
    /// Errors: `InvalidData`: no file of ours.
    fn read(file: &mut File, is_record: impl Fn([u8; N]) -> bool) -> io::Result<Self> {
        if file.metadata()?.len() > FILE_BYTES_MAX {
            return Err(not_ours());
        }
        let mut octets = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut octets)?;
        let slots = |octets: &[u8]| octets.as_chunks::<N>().0.to_vec();
        let bytes = octets.len();
        let has_header = octets.starts_with(&header::<N>());
        let records = if has_header {
            slots(&octets[HEADER_BYTES..])
        } else if octets.starts_with(MAGIC) {
            // A version with other records: they cannot be read here.
            Vec::new()
        } else {
            let records = slots(&octets);
            if bytes % N != 0 || !are_records(&records, is_record) {
                return Err(not_ours());
            }
            records
        };
        Ok(Self {
            has_header,
            records,
            bytes,
        })
    }
}

/// Whether slots without a header are ours. One record may be torn: that in which the
/// writer died.
fn are_records<const N: usize>(slots: &[[u8; N]], is_record: impl Fn([u8; N]) -> bool) -> bool {
    let used = slots.iter().filter(|slot| is_used(slot)).count();
    let whole = slots.iter().filter(|slot| is_record(**slot)).count();
    used == 0 || whole > 0 && whole + 1 >= used
}

fn not_ours() -> io::Error {
    refused("is no state file of holdfast, and stays as it is")
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Opens and locks a regular file that belongs to this user, or creates it.
fn open_regular(path: &Path) -> io::Result<File> {
    // Looked at before it is opened: to open a device can do something already.
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => return Err(refused("is no regular file")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(refused("is no regular file"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        // Its owner could shorten it below us.
        return Err(refused(format!("belongs to user {}", found.uid())));
    }
    Ok(file)
}

/// Allocates space for the first `bytes` bytes, also in holes. The file is at least as long afterwards.
fn allocate(file: &File, bytes: usize) -> io::Result<()> {
    loop {
        // SAFETY: posix_fallocate takes no pointers.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
mod tests;
