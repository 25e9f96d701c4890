// SPDX-License-Identifier: Apache-2.0
//! What the BPF programs counted.

use std::io;

use holdfast_core::{CounterInfo, counters};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::bpf::Programs;

/// Each counter's name and value, summed over the processors; a super-segment is one frame.
pub type CounterValues = Vec<(&'static str, u64)>;

/// What the programs of `bpf/gateway.bpf.c` count, in the order of its `enum counter`.
pub const DATA_PATH: &[CounterInfo] = counters! {
    /// Segments toward the MHs that went to the daemon.
    "taken_downlink",
    /// Segments of the MHs that went to the daemon.
    "taken_uplink",
    /// Segments toward the MHs that the daemon gave to the link.
    "given_downlink",
    /// Segments of the MHs that the daemon gave to the router.
    "given_uplink",
    /// ICMP messages that a packet was too big, copied to the daemon.
    "too_big_copied",
    /// Packets of this daemon that passed.
    "passed_own",
    /// Packets that passed because the daemon was late: it hung, or had ended.
    "passed_stale_heartbeat",
    /// Packets that passed because they are not TCP.
    "passed_not_tcp",
    /// Fragments that passed.
    "passed_fragment",
    /// Packets that passed because of their IPv6 extension headers.
    "passed_extension",
    /// Frames to a group, to all hosts or to another host that passed.
    "passed_group",
    /// Frames with a VLAN tag that passed.
    "passed_vlan",
    /// Packets that passed because their headers end too early.
    "passed_malformed",
    /// Segments toward the MHs that passed with a copy for the daemon.
    "copied_downlink",
    /// Segments of the MHs that passed with a copy for the daemon.
    "copied_uplink",
};

/// What the programs of `bpf/keep.bpf.c` count, in the order of its `enum counter`.
pub const KEEP_PATH: &[CounterInfo] = counters! {
    /// Packets that went to `keep`.
    "taken",
    /// Packets that `keep` gave to the link.
    "given_back",
    /// Peers whose packets were taken because they were silent.
    "alarms",
    /// Peers whose packets pass again after an outage.
    "resumed",
    /// Packets that passed because the daemon was late: it hung, or had ended.
    "passed_stale_heartbeat",
    /// Packets that passed because their peer found no slot in the table.
    "passed_no_slot",
};

/// What the programs of `bpf/mobile.bpf.c` count, in the order of its `enum counter`.
pub const MOBILE_PATH: &[CounterInfo] = counters! {
    /// Segments of the MH whose headers were noted.
    "noted_egress",
    /// Segments of FHs whose headers were noted.
    "noted_ingress",
    /// Segments of the MH that left with a closed window.
    "window_closed",
    /// Segments whose window could not be closed, and that left unchanged.
    "window_not_closed",
    /// Compressed segments that went to the daemon.
    "taken_compressed",
    /// Plain segments of flows with a dictionary that went to the daemon.
    "taken_followed",
    /// Restored segments that the daemon gave to the MH.
    "given_uplink",
    /// Segments with numbers that do not fit their flow; they passed and were not noted.
    "not_credible",
    /// Packets of this daemon that passed.
    "passed_own",
    /// Packets that passed because the daemon was late: it hung, or had ended.
    "passed_stale_heartbeat",
    /// Packets that passed because they are not TCP.
    "passed_not_tcp",
    /// Fragments that passed.
    "passed_fragment",
    /// Packets that passed because of their IPv6 extension headers.
    "passed_extension",
    /// Frames for another host that passed.
    "passed_other_host",
    /// Frames with a VLAN tag that passed.
    "passed_vlan",
    /// Packets that passed because their headers end too early.
    "passed_malformed",
    /// Segments of the MH that left with a lower ACK.
    "withheld",
    /// Segments whose ACK could not be lowered, and that left unchanged.
    "not_withheld",
    /// Pauses in which the withheld segment was acknowledged.
    "released",
    /// Timestamp echoes from before an outage that were replaced by newer ones.
    "echo_renewed",
};

/// A reader of a path's counters; outlives the path.
#[derive(Debug)]
pub struct Counters {
    map: MapHandle,
    infos: &'static [CounterInfo],
}

impl Counters {
    /// `infos` are in the order of the C source's `enum counter`.
    pub(crate) fn of(programs: &Programs, infos: &'static [CounterInfo]) -> io::Result<Self> {
        let map = programs.map("counters")?;
        Ok(Self { map, infos })
    }

    /// Another reader. Errors: no descriptor is free.
    pub fn try_clone(&self) -> io::Result<Self> {
        let map = MapHandle::try_from(&self.map).map_err(io::Error::other)?;
        let infos = self.infos;
        Ok(Self { map, infos })
    }

    /// Reads all counters.
    pub fn read(&self) -> io::Result<CounterValues> {
        let read = |(key, info): (usize, &CounterInfo)| Ok((info.name, self.sum(key as u32)?));
        self.infos.iter().enumerate().map(read).collect()
    }

    fn sum(&self, key: u32) -> io::Result<u64> {
        let found = self
            .map
            .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?;
        let values = found.iter().flatten();
        Ok(values
            .filter_map(|octets| octets.first_chunk().copied().map(u64::from_ne_bytes))
            .sum())
    }
}
