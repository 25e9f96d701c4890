// SPDX-License-Identifier: Apache-2.0
//! What the BPF programs counted.

use std::io;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::bpf::Programs;

/// Each counter's name and value, summed over the processors; a super-segment is one frame.
pub type CounterValues = Vec<(&'static str, u64)>;

/// A reader of a path's counters; outlives the path.
#[derive(Debug)]
pub struct Counters {
    map: MapHandle,
    names: &'static [&'static str],
}

impl Counters {
    /// `names` are in the order of the C source's `enum counter`.
    pub(crate) fn of(programs: &Programs, names: &'static [&'static str]) -> io::Result<Self> {
        let map = programs.map("counters")?;
        Ok(Self { map, names })
    }

    /// Another reader. Errors: no descriptor is free.
    pub fn try_clone(&self) -> io::Result<Self> {
        let map = MapHandle::try_from(&self.map).map_err(io::Error::other)?;
        let names = self.names;
        Ok(Self { map, names })
    }

    /// Reads all counters.
    pub fn read(&self) -> io::Result<CounterValues> {
        let read = |(key, name): (usize, &&'static str)| Ok((*name, self.sum(key as u32)?));
        self.names.iter().enumerate().map(read).collect()
    }

    fn sum(&self, key: u32) -> io::Result<u64> {
        let found = self
            .map
            .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?;
        let values = found.iter().flatten();
        Ok(values
            .filter_map(|octets| octets.first_chunk().copied().map(u64::from_ne_bytes))
            .sum())
    }
}
