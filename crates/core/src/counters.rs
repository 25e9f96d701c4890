// SPDX-License-Identifier: Apache-2.0
//! What the engine counts.

/// What the engine counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub(crate) segments: u64,
    pub(crate) flows_adopted: u64,
    pub(crate) table_full: u64,
    pub(crate) evicted: u64,
    pub(crate) cache_full: u64,
    pub(crate) implausible: u64,
    pub(crate) kept_back: u64,
    pub(crate) sent_on: u64,
    pub(crate) repaired: u64,
    pub(crate) silences: u64,
    pub(crate) false_silences: u64,
    pub(crate) probes: u64,
    pub(crate) recoveries: u64,
    pub(crate) wake_ups: u64,
    pub(crate) owed_lost: u64,
    pub(crate) links_that_kept: u64,
    pub(crate) congested: u64,
    pub(crate) shown_late: u64,
    pub(crate) reports: u64,
    pub(crate) repaired_uplink: u64,
    pub(crate) congested_uplink: u64,
    pub(crate) undone_uplink: u64,
    pub(crate) freezes: u64,
    pub(crate) shrinks: u64,
    pub(crate) early_joined: u64,
    pub(crate) early_refused: u64,
    pub(crate) early_lost: u64,
    pub(crate) unserved: u64,
    pub(crate) compressed: u64,
    pub(crate) compressed_in_vain: u64,
    pub(crate) compressed_from_bytes: u64,
    pub(crate) compressed_to_bytes: u64,
    pub(crate) compression_proofs: u64,
    /// What the schemes count by names of their own.
    of_schemes: Vec<(&'static str, u64)>,
}

impl Counters {
    /// All 0, with the names of the schemes.
    pub(crate) fn new(names: impl Iterator<Item = &'static str>) -> Self {
        Self {
            of_schemes: names.map(|name| (name, 0)).collect(),
            ..Self::default()
        }
    }

    /// Adds to a counter that a scheme has named.
    pub(crate) fn add(&mut self, name: &'static str, count: u64) {
        if let Some(counter) = self.of_schemes.iter_mut().find(|own| own.0 == name) {
            counter.1 += count;
        }
    }

    /// All counters, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let c = self;
        [
            ("segments", c.segments),
            ("flows_met", c.flows_adopted),
            ("passed.table_full", c.table_full),
            ("evicted", c.evicted),
            ("passed.cache_full", c.cache_full),
            ("passed.implausible", c.implausible),
            ("kept_back", c.kept_back),
            ("sent_on", c.sent_on),
            ("repaired", c.repaired),
            ("silences", c.silences),
            ("false_silences", c.false_silences),
            ("probes", c.probes),
            ("recoveries", c.recoveries),
            ("wake_ups", c.wake_ups),
            ("owed_lost", c.owed_lost),
            ("links_that_kept", c.links_that_kept),
            ("congested", c.congested),
            ("shown_late", c.shown_late),
            ("reports", c.reports),
            ("repaired_uplink", c.repaired_uplink),
            ("congested_uplink", c.congested_uplink),
            ("undone_uplink", c.undone_uplink),
            ("freezes", c.freezes),
            ("shrinks", c.shrinks),
            ("early_joined", c.early_joined),
            ("early_refused", c.early_refused),
            ("early_lost", c.early_lost),
            ("unserved", c.unserved),
            ("compressed", c.compressed),
            ("compressed_in_vain", c.compressed_in_vain),
            ("compressed_from_bytes", c.compressed_from_bytes),
            ("compressed_to_bytes", c.compressed_to_bytes),
            ("compression_proofs", c.compression_proofs),
        ]
        .into_iter()
        .chain(self.of_schemes.iter().copied())
    }
}
