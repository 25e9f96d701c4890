// SPDX-License-Identifier: Apache-2.0
//! What the next gateway finds when this one was killed: a record a flow, in a file.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use holdfast_core::{FLOW_RECORD_LEN, FlowKey, FlowRecord};
use holdfast_net::state_file::StateFile;

/// The state file and who has which slot of it.
#[derive(Debug)]
pub(super) struct Records {
    file: StateFile<FLOW_RECORD_LEN>,
    slots: HashMap<FlowKey, u32>,
    free: Vec<u32>,
}

impl Records {
    /// Opens the file for `flows_max` flows; also returns what a predecessor left.
    ///
    /// Errors: those of [`StateFile::open`].
    pub(super) fn open(path: &Path, flows_max: usize) -> io::Result<(Self, Vec<FlowRecord>)> {
        let file = StateFile::open(path, flows_max)?;
        let mut slots = HashMap::with_capacity(flows_max);
        let mut free = Vec::with_capacity(flows_max);
        let mut found = Vec::new();
        for slot in (0..file.slots()).rev() {
            match FlowRecord::from_bytes(&file.get(slot)) {
                Some(record) => {
                    slots.insert(record.key, slot as u32);
                    found.push(record);
                }
                None => free.push(slot as u32),
            }
        }
        Ok((Self { file, slots, free }, found))
    }

    /// Writes down a flow, or forgets it when it is gone. A flow that finds no room is
    /// not written: its successor treats it as one that it never met.
    pub(super) fn note(&mut self, record: &FlowRecord) {
        if record.gone {
            if let Some(slot) = self.slots.remove(&record.key) {
                self.file.clear(slot as usize);
                self.free.push(slot);
            }
            return;
        }
        let slot = match self.slots.get(&record.key) {
            Some(&slot) => slot,
            None => match self.free.pop() {
                Some(slot) => {
                    self.slots.insert(record.key, slot);
                    slot
                }
                None => return,
            },
        };
        self.file.put(slot as usize, &record.to_bytes());
    }
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
    fn a_successor_finds_the_newest_of_each_flow_that_is_not_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flows");
        let (mut records, found) = Records::open(&path, 2).unwrap();
        assert!(found.is_empty());
        records.note(&record(1, None));
        records.note(&record(2, Some(5)));
        records.note(&record(3, None));
        records.note(&record(2, Some(9)));
        records.note(&FlowRecord {
            gone: true,
            ..record(1, None)
        });
        records.note(&FlowRecord {
            gone: true,
            ..record(7, None)
        });
        drop(records);
        let (mut records, found) = Records::open(&path, 2).unwrap();
        assert_eq!(found, [record(2, Some(9))]);
        records.note(&record(4, None));
        drop(records);
        let (_, mut found) = Records::open(&path, 2).unwrap();
        found.sort_by_key(|record| record.key.mh.port);
        assert_eq!(found, [record(2, Some(9)), record(4, None)]);
    }
}
