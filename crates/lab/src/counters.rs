// SPDX-License-Identifier: Apache-2.0
//! The kernel's own TCP counters of a namespace.

use anyhow::Context as _;
use holdfast_net::netns::NetNs;

/// What `/proc/net/snmp` says of TCP, since the namespace was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments sent again (`RetransSegs`).
    pub retransmitted_segments: u64,
    /// Connections that were broken by a RST (`EstabResets`).
    pub resets: u64,
    /// Segments sent, without those that carried only what was sent before (`OutSegs`).
    pub segments: u64,
    /// Segments that came again, as told to their sender by D-SACK (`TCPDSACKOldSent`
    /// and `TCPDSACKOfoSent`).
    pub duplicates_reported: u64,
}

impl TcpCounters {
    /// Reads the namespace's counters.
    pub fn read(ns: &NetNs) -> anyhow::Result<Self> {
        // Of the thread: /proc/net is the process's, which is elsewhere.
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
        let netstat = "TcpExt: A TCPDSACKOldSent TCPDSACKOfoSent\nTcpExt: 9 4 1\n";
        let counters = TcpCounters::parse(snmp, netstat).unwrap();
        assert_eq!((counters.retransmitted_segments, counters.resets), (12, 3));
        assert_eq!((counters.segments, counters.duplicates_reported), (70, 5));
        assert_eq!(
            TcpCounters::parse(snmp, "").map(|c| c.duplicates_reported),
            Some(0)
        );
        assert_eq!(TcpCounters::parse("Tcp: RtoMin\nTcp: 200\n", ""), None);
    }
}
