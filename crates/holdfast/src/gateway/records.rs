// SPDX-License-Identifier: Apache-2.0
//! The flows' records, which the next gateway finds after this one was killed: one record a flow, in a file.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use holdfast_core::{FLOW_RECORD_LEN, FlowKey, FlowRecord};
use holdfast_net::state_file::{Opened, StateFile};

/// Where the records are.
#[derive(Debug)]
enum Store {
    /// In a file that a successor finds.
    File(StateFile<FLOW_RECORD_LEN>),
    /// Only in memory, for lack of space for a file: a successor finds nothing.
    Memory(Vec<[u8; FLOW_RECORD_LEN]>),
}

impl Store {
    fn slots(&self) -> usize {
        match self {
            Self::File(file) => file.slots(),
            Self::Memory(slots) => slots.len(),
        }
    }

    fn get(&self, slot: usize) -> [u8; FLOW_RECORD_LEN] {
        match self {
            Self::File(file) => file.get(slot),
            Self::Memory(slots) => slots[slot],
        }
    }

    fn put(&mut self, slot: usize, record: [u8; FLOW_RECORD_LEN]) {
        match self {
            Self::File(file) => file.put(slot, &record),
            Self::Memory(slots) => slots[slot] = record,
        }
    }
}

/// The records, and each flow's slot.
#[derive(Debug)]
pub(super) struct Records {
    store: Store,
    slots: HashMap<FlowKey, u32>,
    free: Vec<u32>,
    /// The slot at which the last search of [`Self::free_a_slot`] ended.
    cursor: usize,
}

/// The limit of slots that are searched in a full file to make room for an important record.
const SEARCHED_SLOTS: usize = 256;

impl Records {
    /// Opens the file for `flows_max` flows; also returns the records that a predecessor left, and the
    /// error if there is no space for the file.
    ///
    /// Errors: those of [`StateFile::open`].
    pub(super) fn open(
        path: &Path,
        flows_max: usize,
    ) -> io::Result<(Self, Vec<FlowRecord>, Option<io::Error>)> {
        let is_record = |bytes| FlowRecord::from_bytes(&bytes).is_some();
        match StateFile::open(path, flows_max, is_record)? {
            Opened::Ready(file) => {
                let mut records = Self::of(Store::File(file));
                let found = records.read();
                Ok((records, found, None))
            }
            Opened::NoSpace { error, left } => {
                let mut records = Self::in_memory(flows_max);
                let found: Vec<_> = left.iter().filter_map(FlowRecord::from_bytes).collect();
                // A new engine reads them after a panic.
                for record in &found {
                    records.update(record);
                }
                Ok((records, found, Some(error)))
            }
        }
    }

    /// Records that no successor finds.
    pub(super) fn in_memory(flows_max: usize) -> Self {
        let mut records = Self::of(Store::Memory(vec![[0; _]; flows_max]));
        records.read();
        records
    }

    fn of(store: Store) -> Self {
        Self {
            slots: HashMap::with_capacity(store.slots()),
            free: Vec::with_capacity(store.slots()),
            cursor: 0,
            store,
        }
    }

    /// Whether a successor will find them.
    pub(super) const fn outlive_the_process(&self) -> bool {
        matches!(self.store, Store::File(_))
    }

    /// Reads all records again: what a successor would find.
    pub(super) fn read(&mut self) -> Vec<FlowRecord> {
        self.slots.clear();
        self.free.clear();
        let mut found = Vec::new();
        for slot in (0..self.store.slots()).rev() {
            match FlowRecord::from_bytes(&self.store.get(slot)) {
                Some(record) => {
                    // A flow has two records if their writer died while it moved the records.
                    if let Some(other) = self.slots.insert(record.key, slot as u32) {
                        self.forget(other);
                        found.retain(|one: &FlowRecord| one.key != record.key);
                    }
                    found.push(record);
                }
                None => self.free.push(slot as u32),
            }
        }
        found
    }

    fn forget(&mut self, slot: u32) {
        self.store.put(slot as usize, [0; _]);
        self.free.push(slot);
    }

    /// Frees the slot of a flow that loses little by it: its window scale.
    fn free_a_slot(&mut self) {
        let slots = self.store.slots().max(1);
        for _ in 0..slots.min(SEARCHED_SLOTS) {
            self.cursor = (self.cursor + 1) % slots;
            let record = FlowRecord::from_bytes(&self.store.get(self.cursor));
            if let Some(record) = record.filter(|record| !must_outlive(record)) {
                self.slots.remove(&record.key);
                self.forget(self.cursor as u32);
                return;
            }
        }
    }

    /// Writes a flow's record, or frees its slot when it has ended. Without a free slot nothing is
    /// written: a successor treats the flow as one that it never tracked.
    pub(super) fn update(&mut self, record: &FlowRecord) {
        if record.gone {
            if let Some(slot) = self.slots.remove(&record.key) {
                self.forget(slot);
            }
            return;
        }
        let slot = if let Some(&slot) = self.slots.get(&record.key) {
            slot
        } else {
            if self.free.is_empty() && must_outlive(record) {
                self.free_a_slot();
            }
            let Some(slot) = self.free.pop() else {
                return;
            };
            self.slots.insert(record.key, slot);
            slot
        };
        self.store.put(slot as usize, record.to_bytes());
    }
}

/// Without this record the ends would lack bytes, or would not understand each other's numbers.
const fn must_outlive(record: &FlowRecord) -> bool {
    record.owed.is_some() || record.renumber.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_wire::{Endpoint, SeqNum};

    fn record(port: u16, owed: Option<u32>) -> FlowRecord {
        let end = |last, port| Endpoint {
            address: [10, 0, 0, last].into(),
            port,
        };
        FlowRecord {
            key: FlowKey {
                fh: end(1, 80),
                mh: end(2, port),
            },
            mh_window_scale: Some(7),
            owed: owed.map(SeqNum::new),
            renumber: None,
            gone: false,
        }
    }

    #[test]
    fn in_a_full_file_what_is_owed_replaces_a_window_scale() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flows");
        let (mut records, ..) = Records::open(&path, 2).unwrap();
        records.update(&record(1, None));
        records.update(&record(2, Some(5)));
        records.update(&record(3, None));
        records.update(&record(4, Some(7)));
        // Nothing can be given up for this one.
        records.update(&record(5, Some(9)));
        let mut owed: Vec<_> = records.read().iter().map(|one| one.owed).collect();
        owed.sort_unstable_by_key(|owed| owed.map(SeqNum::get));
        assert_eq!(owed, [Some(SeqNum::new(5)), Some(SeqNum::new(7))]);
    }

    #[test]
    fn a_successor_finds_the_newest_of_each_flow_that_is_not_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flows");
        let (mut records, found, _) = Records::open(&path, 2).unwrap();
        assert!(found.is_empty());
        records.update(&record(1, None));
        records.update(&record(2, Some(5)));
        records.update(&record(3, None));
        records.update(&record(2, Some(9)));
        records.update(&FlowRecord {
            gone: true,
            ..record(1, None)
        });
        records.update(&FlowRecord {
            gone: true,
            ..record(7, None)
        });
        drop(records);
        let (mut records, found, _) = Records::open(&path, 2).unwrap();
        assert_eq!(found, [record(2, Some(9))]);
        records.update(&record(4, None));
        drop(records);
        let (_, mut found, _) = Records::open(&path, 2).unwrap();
        found.sort_by_key(|record| record.key.mh.port);
        assert_eq!(found, [record(2, Some(9)), record(4, None)]);
    }

    #[test]
    fn a_flow_that_is_there_twice_has_one_slot() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flows");
        let twice = [record(1, Some(5)).to_bytes(), record(1, Some(5)).to_bytes()];
        std::fs::write(&path, twice.concat()).unwrap();
        let (mut records, found, _) = Records::open(&path, 2).unwrap();
        assert_eq!(found, [record(1, Some(5))]);
        records.update(&record(2, None));
        assert_eq!(records.read().len(), 2);
    }

    #[test]
    fn records_in_memory_are_there_for_an_engine_that_is_made_anew() {
        let mut records = Records::in_memory(2);
        assert!(records.read().is_empty() && !records.outlive_the_process());
        records.update(&record(1, None));
        records.update(&record(2, None));
        records.update(&record(3, None));
        assert_eq!(records.read().len(), 2);
    }
}
