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
}

impl TcpCounters {
    /// Reads the namespace's counters.
    pub fn read(ns: &NetNs) -> anyhow::Result<Self> {
        // Of the thread: /proc/net is the process's, which is elsewhere.
        let text = ns
            .run(|| std::fs::read_to_string("/proc/thread-self/net/snmp"))?
            .context("/proc/thread-self/net/snmp: cannot be read")?;
        Self::parse(&text).context("/proc/thread-self/net/snmp: has no line of TCP")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next()?, lines.next()?);
        let value = |wanted: &str| {
            let mut pairs = names.split_whitespace().zip(values.split_whitespace());
            pairs
                .find(|(name, _)| *name == wanted)
                .and_then(|(_, value)| value.parse().ok())
        };
        Some(Self {
            retransmitted_segments: value("RetransSegs")?,
            resets: value("EstabResets")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: RtoMin EstabResets RetransSegs\nTcp: 200 3 12\n";
        let counters = TcpCounters::parse(text).unwrap();
        assert_eq!((counters.retransmitted_segments, counters.resets), (12, 3));
        assert_eq!(TcpCounters::parse("Tcp: RtoMin\nTcp: 200\n"), None);
    }
}
