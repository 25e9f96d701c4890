// SPDX-License-Identifier: Apache-2.0
//! What a keeper counts.

/// What a keeper has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepCounters {
    /// Packets taken.
    pub taken: u64,
    /// Packets that went on as they came.
    pub passed: u64,
    /// Packets, or copies of them, that were kept.
    pub kept: u64,
    /// Of these, those that gave way to newer ones.
    pub displaced: u64,
    /// Of these, those that became too old.
    pub expired: u64,
    /// Of these, copies whose packet was answered after all.
    pub answered: u64,
    /// Of these, those that were sent after an outage.
    pub released: u64,
    /// Copies that were sent to a silent peer.
    pub asked: u64,
    /// Peers that fell silent.
    pub silences: u64,
    /// Links that somebody called down.
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
            ("asked", self.asked),
            ("silences", self.silences),
            ("downs", self.downs),
        ]
    }
}
