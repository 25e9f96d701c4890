// SPDX-License-Identifier: Apache-2.0
//! What the BPF programs counted.

use std::io;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// Names in the order of `enum counter` in `bpf/gateway.bpf.c`.
const NAMES: [&str; 13] = [
    "taken_downlink",
    "taken_uplink",
    "given_downlink",
    "given_uplink",
    "too_big_copied",
    "passed_own",
    "passed_stale_heartbeat",
    "passed_not_tcp",
    "passed_fragment",
    "passed_extension",
    "passed_other_host",
    "passed_vlan",
    "passed_malformed",
];

/// A reader of the programs' counters; outlives the data path.
#[derive(Debug)]
pub struct Counters {
    map: MapHandle,
}

/// The counters at one moment, summed over the processors; frames, a
/// super-segment being one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValues([u64; NAMES.len()]);

impl CounterValues {
    /// Each counter's name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.into_iter().zip(self.0)
    }

    /// The value of the counter `name`, if there is one of that name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

impl Counters {
    pub(super) const fn new(map: MapHandle) -> Self {
        Self { map }
    }

    /// Reads all counters.
    pub fn read(&self) -> io::Result<CounterValues> {
        let mut values = CounterValues::default();
        for (value, sum) in values.0.iter_mut().zip(sums(&self.map, NAMES.len())?) {
            *value = sum;
        }
        Ok(values)
    }
}

/// The first `count` counters of a program's map, each summed over the processors.
pub(crate) fn sums(map: &MapHandle, count: usize) -> io::Result<Vec<u64>> {
    (0..count as u32)
        .map(|key| {
            let found = map
                .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
                .map_err(io::Error::other)?;
            let octets = found.iter().flatten();
            Ok(octets
                .filter_map(|octets| octets.first_chunk().copied().map(u64::from_ne_bytes))
                .sum())
        })
        .collect()
}
