// SPDX-License-Identifier: Apache-2.0
//! The counters of `keep`.

/// What `keep` has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepCounters {
    /// Packets taken.
    pub taken: u64,
    /// Packets that passed unchanged.
    pub passed: u64,
    /// Packets, or copies of them, that were queued.
    pub kept: u64,
    /// Of these, those that a newer packet displaced.
    pub displaced: u64,
    /// Of these, those whose deadline passed.
    pub expired: u64,
    /// Of these, copies whose packet was answered.
    pub answered: u64,
    /// Of these, those that were sent after an outage.
    pub released: u64,
    /// Copies that were sent as probes to a silent peer.
    pub probes: u64,
    /// Peers that fell silent.
    pub silences: u64,
    /// Links that a link source reported down.
    pub downs: u64,
}

impl KeepCounters {
    /// Each counter by its name.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("taken", self.taken),
            ("passed", self.passed),
            ("kept", self.kept),
            ("displaced", self.displaced),
            ("expired", self.expired),
            ("answered", self.answered),
            ("released", self.released),
            ("probes", self.probes),
            ("silences", self.silences),
            ("downs", self.downs),
        ]
    }
}
