// SPDX-License-Identifier: Apache-2.0
//! The kernel's own TCP counters of a namespace.

use anyhow::Context as _;
use holdfast_net::netns::NetNs;
use serde::{Deserialize, Serialize};

/// What `/proc/net/snmp` states about TCP, since the namespace was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments retransmitted (`RetransSegs`).
    pub retransmitted_segments: u64,
    /// Connections that were broken by a RST (`EstabResets`).
    pub resets: u64,
    /// Segments sent, without those that had only retransmitted bytes (`OutSegs`).
    pub segments: u64,
    /// Segments that came again, as reported to their sender by D-SACK (`TCPDSACKOldSent`
    /// and `TCPDSACKOfoSent`).
    pub duplicates_reported: u64,
    /// The counters of its timers.
    pub timers: TimerCounts,
}

/// Counters of the timers of a kernel's TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerCounts {
    /// Tail-loss probes (`TCPLossProbes`).
    pub loss_probes: u64,
    /// Losses that such a probe has recovered (`TCPLossProbeRecovery`).
    pub loss_probe_recoveries: u64,
    /// Retransmission timeouts that F-RTO found false and undid (`TCPSpuriousRTOs`).
    pub spurious_timeouts: u64,
    /// Expiries of retransmission timers (`TCPTimeouts`).
    pub timeouts: u64,
}

impl TimerCounts {
    /// The counts since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            loss_probes: self.loss_probes - before.loss_probes,
            loss_probe_recoveries: self.loss_probe_recoveries - before.loss_probe_recoveries,
            spurious_timeouts: self.spurious_timeouts - before.spurious_timeouts,
            timeouts: self.timeouts - before.timeouts,
        }
    }
}

impl TcpCounters {
    /// Reads the namespace's counters.
    pub fn read(ns: &NetNs) -> anyhow::Result<Self> {
        // /proc/net is that of the process, which is in another namespace.
        let read = |file: &str| {
            let path = format!("/proc/thread-self/net/{file}");
            ns.run(|| std::fs::read_to_string(&path))?
                .with_context(|| format!("{path}: cannot be read"))
        };
        Self::parse(&read("snmp")?, &read("netstat")?)
            .context("/proc/thread-self/net/snmp: has no line of TCP")
    }

    /// Reads `snmp` and `netstat`; what a kernel does not count in the latter is 0.
    fn parse(snmp: &str, netstat: &str) -> Option<Self> {
        let extended = |name: &str| value(netstat, "TcpExt: ", name).unwrap_or(0);
        Some(Self {
            retransmitted_segments: value(snmp, "Tcp: ", "RetransSegs")?,
            resets: value(snmp, "Tcp: ", "EstabResets")?,
            segments: value(snmp, "Tcp: ", "OutSegs")?,
            duplicates_reported: extended("TCPDSACKOldSent") + extended("TCPDSACKOfoSent"),
            timers: TimerCounts {
                loss_probes: extended("TCPLossProbes"),
                loss_probe_recoveries: extended("TCPLossProbeRecovery"),
                spurious_timeouts: extended("TCPSpuriousRTOs"),
                timeouts: extended("TCPTimeouts"),
            },
        })
    }
}

/// The value called `wanted` in the pair of lines, names and values, that begin with
/// `prefix`.
fn value(text: &str, prefix: &str, wanted: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs
        .find(|(name, _)| *name == wanted)
        .and_then(|(_, value)| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let snmp =
            "Ip: A B\nIp: 1 2\nTcp: RtoMin EstabResets RetransSegs OutSegs\nTcp: 200 3 12 70\n";
        let netstat = "TcpExt: A TCPDSACKOldSent TCPDSACKOfoSent TCPLossProbes\nTcpExt: 9 4 1 6\n";
        let counters = TcpCounters::parse(snmp, netstat).unwrap();
        assert_eq!((counters.retransmitted_segments, counters.resets), (12, 3));
        assert_eq!((counters.segments, counters.duplicates_reported), (70, 5));
        assert_eq!(counters.timers.loss_probes, 6);
        assert_eq!(
            TcpCounters::parse(snmp, "").map(|c| c.duplicates_reported),
            Some(0)
        );
        assert_eq!(TcpCounters::parse("Tcp: RtoMin\nTcp: 200\n", ""), None);
    }
}
