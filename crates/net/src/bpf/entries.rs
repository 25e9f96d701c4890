// SPDX-License-Identifier: Apache-2.0
//! All entries of a hash map, many with one call.
//!
//! Source: `__htab_map_lookup_and_delete_batch` in `kernel/bpf/hashtab.c`. The kernel returns whole
//! buckets, so a call may return fewer entries than there is room for although more follow. libbpf-rs
//! takes such a call for the last one.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{MapCore as _, MapHandle};

/// Limit of entries that one call returns. A bucket that holds more raises it.
const BATCH: usize = 256;

/// Calls `each` with every key and value of a hash map, as they are when the kernel reads their bucket.
///
/// Errors: the kernel's; `InvalidData` if keys or values have other sizes; those of `each`, which end
/// it.
pub(crate) fn for_each_entry<const KEY: usize, const VALUE: usize>(
    map: &MapHandle,
    each: impl FnMut(&[u8; KEY], &[u8; VALUE]) -> io::Result<()>,
) -> io::Result<()> {
    for_each_entry_of(map, BATCH, each)
}

/// The same, with room for this many entries at first.
pub(crate) fn for_each_entry_of<const KEY: usize, const VALUE: usize>(
    map: &MapHandle,
    room: usize,
    mut each: impl FnMut(&[u8; KEY], &[u8; VALUE]) -> io::Result<()>,
) -> io::Result<()> {
    if (map.key_size() as usize, map.value_size() as usize) != (KEY, VALUE) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let options = libbpf_sys::bpf_map_batch_opts {
        sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let mut keys = vec![[0; KEY]; room];
    let mut values = vec![[0; VALUE]; room];
    // The number of a bucket; none: from the first on.
    let mut bucket: Option<u32> = None;
    loop {
        let mut count = keys.len() as u32;
        let mut next = 0_u32;
        let first = bucket.as_mut().map_or(std::ptr::null_mut(), |bucket| {
            std::ptr::from_mut(bucket).cast()
        });
        // SAFETY: the kernel reads a bucket's number or none and writes another one, `count` keys and
        // values at most, and `count`; all outlive the call and have the map's sizes.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                first,
                (&raw mut next).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                &raw const options,
            )
        };
        let is_last = match -result {
            0 => false,
            // No bucket is left. The entries that were found come with this error.
            libc::ENOENT => true,
            // A bucket holds more than there is room for.
            libc::ENOSPC => {
                let room = keys.len() * 2;
                keys.resize(room, [0; KEY]);
                values.resize(room, [0; VALUE]);
                continue;
            }
            libc::EINTR => continue,
            errno => return Err(io::Error::from_raw_os_error(errno)),
        };
        for (key, value) in keys.iter().zip(&values).take(count as usize) {
            each(key, value)?;
        }
        if is_last {
            return Ok(());
        }
        bucket = Some(next);
    }
}
