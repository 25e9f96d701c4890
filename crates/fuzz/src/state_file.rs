// SPDX-License-Identifier: Apache-2.0
//! The gateway's state file: its bytes as a predecessor, or another program, may have left them.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::Path;

use holdfast_core::{FLOW_RECORD_LEN, FlowRecord};
use holdfast_net::state_file::{HEADER_BYTES, Opened, StateFile};
use tempfile::NamedTempFile;

type Record = [u8; FLOW_RECORD_LEN];

/// Where the checksum of a record is.
const CHECK_AT: usize = FLOW_RECORD_LEN - 4;

/// The first byte: how many slots the gateway has, and whether the records' checksums are corrected.
/// The rest is the file.
pub fn state_file(bytes: &[u8]) {
    thread_local! {
        static FILE: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
    }
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let slots = usize::from(choice & 7) + 1;
    let mut bytes = bytes.to_vec();
    if choice & 8 != 0 {
        correct_all(&mut bytes);
    }
    FILE.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(|| NamedTempFile::new().expect("a file"));
        std::fs::write(file.path(), &bytes).expect("the file written");
        check(file.path(), &bytes, slots);
    });
}

fn is_record(record: Record) -> bool {
    FlowRecord::from_bytes(&record).is_some()
}

fn check(path: &Path, before: &[u8], slots: usize) {
    let file = match StateFile::open(path, slots, is_record) {
        Ok(Opened::Ready(file)) => file,
        // The disk may be full.
        Ok(Opened::NoSpace { .. }) => return,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            let after = std::fs::read(path).expect("the file read");
            assert!(after == before, "a refused file was changed");
            return;
        }
    };
    let found: Vec<Record> = (0..slots).map(|slot| file.get(slot)).collect();
    drop(file);
    let after = std::fs::read(path).expect("the file read");
    assert_eq!(after.len(), HEADER_BYTES + slots * FLOW_RECORD_LEN);
    assert!(after[HEADER_BYTES..] == *found.as_flattened());
    check_kept(before, &found);
    for record in found.iter().filter_map(FlowRecord::from_bytes) {
        let again = FlowRecord::from_bytes(&record.to_bytes());
        assert_eq!(
            again,
            Some(record),
            "a record is not read as it was written"
        );
    }
    // A successor with the same settings finds the same.
    let Ok(Opened::Ready(file)) = StateFile::open(path, slots, is_record) else {
        panic!("a file of ours is refused");
    };
    assert!((0..slots).all(|slot| file.get(slot) == found[slot]));
    drop(file);
    assert!(std::fs::read(path).expect("the file read") == after);
}

/// Checks that these are the predecessor's records, in their order, as far as there is room, and no others.
fn check_kept(before: &[u8], found: &[Record]) {
    let has_magic = before.starts_with(b"holdfast state file\n");
    let has_length = before.get(20..24) == Some(&(FLOW_RECORD_LEN as u32).to_be_bytes());
    let (headless, of_another_version) = (!has_magic, has_magic && !has_length);
    let old = match before.get(HEADER_BYTES..) {
        _ if headless => before,
        // A header that is cut short, or not of this version's length: nothing is read.
        Some(records) if !of_another_version => records,
        _ => &[],
    };
    let used = |records: &[Record]| -> Vec<Record> {
        let used = records.iter().filter(|record| **record != [0; _]);
        used.copied().collect()
    };
    let (whole, torn) = old.as_chunks();
    let mut expected = used(whole);
    expected.truncate(found.len());
    let mut found = used(found);
    // The file may end within a record. What there is of it may stay: its checksum is wrong.
    let mut rest = [0; _];
    rest[..torn.len()].copy_from_slice(torn);
    if found.last() == Some(&rest) && found.len() > expected.len() {
        found.pop();
    }
    // A header with other bytes behind the length is one of another version.
    assert!(
        found == expected || (has_magic && found.is_empty()),
        "other records than the predecessor's"
    );
}

/// Corrects the checksum of each record, behind a header or without one: a fuzzer does not find it.
fn correct_all(bytes: &mut [u8]) {
    // Header and record are equally long.
    for record in bytes.as_chunks_mut().0 {
        if !record.starts_with(b"holdfast") && *record != [0; _] {
            correct_check(record);
        }
    }
}

/// FNV-1a, by the format of [`FlowRecord::to_bytes`].
pub(crate) fn correct_check(record: &mut Record) {
    let (bytes, check) = record.split_at_mut(CHECK_AT);
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    check.copy_from_slice(&hash.to_be_bytes());
}

const _: () = assert!(HEADER_BYTES == FLOW_RECORD_LEN);
