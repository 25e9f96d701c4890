// SPDX-License-Identifier: Apache-2.0
//! The packets of `holdfast link` as a pcapng file: each as it enters and as it leaves.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_lab::packet_trace::{PacketTrace, Passing};
use holdfast_net::datapath::monotonic_ns;
use holdfast_wire::Instant;

use super::LinkArgs;
use super::emulator::Side;

/// The file's interface on the FH's side.
const FH_SIDE: u32 = 0;
/// The one on the MH's side.
const MH_SIDE: u32 = 1;

/// A trace being written.
#[derive(Debug)]
pub(super) struct LinkTrace {
    trace: PacketTrace,
    /// Time zero of CLOCK_MONOTONIC, since 1970.
    boot: Duration,
}

impl LinkTrace {
    pub(super) fn create(path: &Path, args: &LinkArgs) -> anyhow::Result<Self> {
        let interfaces = [
            (args.fh_if.as_str(), "the link's device on the FH's side"),
            (args.mh_if.as_str(), "the link's device on the MH's side"),
        ];
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Ok(Self {
            trace: PacketTrace::create(path, &interfaces)?,
            boot: since_1970.saturating_sub(Duration::from_nanos(monotonic_ns())),
        })
    }

    /// A packet enters the link at `side`: its host sent it.
    pub(super) fn entered(&mut self, side: Side, at: Instant, packet: &[u8]) -> anyhow::Result<()> {
        let interface = match side {
            Side::Fh => FH_SIDE,
            Side::Mh => MH_SIDE,
        };
        self.write(interface, Passing::Outbound, at, packet)
    }

    /// A packet that entered at `from` leaves the link at the other side.
    pub(super) fn left(&mut self, from: Side, at: Instant, packet: &[u8]) -> anyhow::Result<()> {
        let interface = match from {
            Side::Fh => MH_SIDE,
            Side::Mh => FH_SIDE,
        };
        self.write(interface, Passing::Inbound, at, packet)
    }

    fn write(
        &mut self,
        interface: u32,
        passing: Passing,
        at: Instant,
        packet: &[u8],
    ) -> anyhow::Result<()> {
        let since_1970 = self.boot + Duration::from_nanos(at.as_nanos());
        self.trace
            .write(interface, passing, since_1970, packet, packet.len() as u32)
    }

    /// Writes what is left.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let left_out = self.trace.finish()?;
        if left_out > 0 {
            eprintln!("--pcap: the file is full; {left_out} packets are not in it");
        }
        Ok(())
    }
}
