// SPDX-License-Identifier: Apache-2.0
//! In which order packets of one station leave.

/// The queue of its station in which a packet waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The queue of ordinary packets.
    #[default]
    Ordinary,
    /// Before ordinary packets of the same station, behind earlier packets of the same
    /// priority (Snoop, 3.1.2: "two queues at the link layer").
    Ahead,
}
