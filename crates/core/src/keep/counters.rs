// SPDX-License-Identifier: Apache-2.0
//! The counters of `keep`.

crate::counters! {
    /// What `keep` has done since the start.
    pub struct KeepCounters {
        /// Packets that were taken in an outage.
        pub taken = "taken",
        /// Packets that passed unchanged.
        pub passed = "passed",
        /// Packets, or copies of them, that were queued.
        pub kept = "kept",
        /// Of the queued, those that a newer packet displaced.
        pub displaced = "displaced",
        /// Of the queued, those whose deadline passed.
        pub expired = "expired",
        /// Of the queued, copies whose packet was answered.
        pub answered = "answered",
        /// Of the queued, those that were sent after an outage.
        pub released = "released",
        /// Copies that were sent as probes to a silent peer.
        pub probes = "probes",
        /// Peers that fell silent.
        pub silences = "silences",
        /// Links that a link source reported down.
        pub downs = "downs",
        /// Outages that are not in the list of outages: too many had ended at the same time.
        pub outages_lost = "outages_lost",
    }
}
