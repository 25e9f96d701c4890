// SPDX-License-Identifier: Apache-2.0
//! In which order packets of one station leave.

/// In which of its station's queues a packet waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// With all others.
    #[default]
    Ordinary,
    /// Ahead of what is ordinary of the same station, behind what came before it with
    /// the same priority (Snoop, 3.1.2: "two queues at the link layer").
    Ahead,
}
