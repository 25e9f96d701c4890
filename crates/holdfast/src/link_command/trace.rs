// SPDX-License-Identifier: Apache-2.0
//! The packets of `holdfast link` as pcapng files: each packet as it enters and as it leaves. There is
//! one file for both devices, or one for each device.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_files::packet_trace::{PacketTrace, Passing};
use holdfast_net::datapath::monotonic_ns;
use holdfast_wire::Instant;

use super::{LinkArgs, Side};

/// Traces being written.
#[derive(Debug)]
pub(super) struct LinkTrace {
    /// The file for both devices, in the order of [`Side`].
    both: Option<PacketTrace>,
    /// The files for one device each.
    each: [Option<PacketTrace>; 2],
    /// Time zero of CLOCK_MONOTONIC, as time since 1970.
    boot: Duration,
}

impl LinkTrace {
    /// Creates the files that the arguments name; none if they name none.
    pub(super) fn create(args: &LinkArgs) -> anyhow::Result<Option<Self>> {
        let devices = [
            (args.fh_if.as_str(), "the link's device on the FH's side"),
            (args.mh_if.as_str(), "the link's device on the MH's side"),
        ];
        let create = |path: &Option<PathBuf>, devices: &[(&str, &str)]| {
            let path = path.as_deref();
            path.map(|path| PacketTrace::create(path, devices))
                .transpose()
        };
        let both = create(&args.pcap, &devices)?;
        let each = [
            create(&args.pcap_fh, &devices[..1])?,
            create(&args.pcap_mh, &devices[1..])?,
        ];
        if both.is_none() && each.iter().all(Option::is_none) {
            return Ok(None);
        }
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Ok(Some(Self {
            both,
            each,
            boot: since_1970.saturating_sub(Duration::from_nanos(monotonic_ns())),
        }))
    }

    /// A packet enters the link at `side`: its host sent it.
    pub(super) fn entered(&mut self, side: Side, at: Instant, packet: &[u8]) -> anyhow::Result<()> {
        self.write(side, Passing::Outbound, at, packet)
    }

    /// A packet that entered at `from` leaves the link at the other side.
    pub(super) fn left(&mut self, from: Side, at: Instant, packet: &[u8]) -> anyhow::Result<()> {
        let side = match from {
            Side::Fh => Side::Mh,
            Side::Mh => Side::Fh,
        };
        self.write(side, Passing::Inbound, at, packet)
    }

    fn write(
        &mut self,
        side: Side,
        passing: Passing,
        at: Instant,
        packet: &[u8],
    ) -> anyhow::Result<()> {
        let since_1970 = self.boot + Duration::from_nanos(at.as_nanos());
        let len = packet.len() as u32;
        if let Some(trace) = &mut self.both {
            trace.write(side as u32, passing, since_1970, packet, len)?;
        }
        match &mut self.each[side as usize] {
            Some(trace) => trace.write(0, passing, since_1970, packet, len),
            None => Ok(()),
        }
    }

    /// Writes the rest.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        for trace in self.both.into_iter().chain(self.each.into_iter().flatten()) {
            let left_out = trace.finish()?;
            if left_out > 0 {
                eprintln!("--pcap: a file is full; {left_out} packets are not in it");
            }
        }
        Ok(())
    }
}
