// SPDX-License-Identifier: Apache-2.0
//! The mobile's BPF programs, and their settings.

use std::io;

use crate::attach_point::BpfObject;
use crate::bpf::Programs;
use crate::tun::LayerKind;

/// The settings with which the programs are loaded: `struct settings` of the C source.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramSettings {
    pub(super) heartbeat_max_age_ns: u64,
    pub(super) kind: LayerKind,
    pub(super) mobile_ifindex: u32,
    /// 0: nothing is taken.
    pub(super) device_ifindex: u32,
    pub(super) own_mark: u32,
    pub(super) flows_max: u32,
    /// `wake`: a segment of each bulk download is left unacknowledged.
    pub(super) withholds: bool,
    /// Timers in the programs detect which flows pause. A kernel without a compiler (JIT) refuses
    /// timers: then the caller has to check.
    pub(super) has_timers: bool,
    /// Another processor may see stores in another order than they were made in.
    pub(super) reorders_stores: bool,
    /// The code that reads headers; tests compare both.
    pub(super) reads: Reads,
}

/// The code that reads the headers of segments (`bpf/quick.h`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Reads {
    Both,
    #[cfg(test)]
    Slowly,
    /// Packets that the quick code cannot read pass unread.
    #[cfg(test)]
    Quickly,
}

impl ProgramSettings {
    pub(super) fn load(&self) -> io::Result<Programs> {
        let entries_if = |is: bool| if is { self.flows_max } else { 1 };
        let entries = [
            ("flows", self.flows_max),
            ("closed", entries_if(!self.withholds)),
            ("withheld_segments", entries_if(self.withholds)),
            ("woken", entries_if(self.withholds)),
        ];
        Programs::load(BpfObject::Mobile, &self.emit(), &entries)
    }

    fn emit(&self) -> [u8; 40] {
        let mut octets = [0; 40];
        octets[..8].copy_from_slice(&self.heartbeat_max_age_ns.to_ne_bytes());
        let values = [
            self.kind.header_bytes(),
            self.mobile_ifindex,
            self.device_ifindex,
            self.own_mark,
            u32::from(self.withholds),
            u32::from(self.has_timers),
            u32::from(self.reorders_stores),
            self.reads as u32,
        ];
        for (to, value) in octets[8..].chunks_exact_mut(4).zip(values) {
            to.copy_from_slice(&value.to_ne_bytes());
        }
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The broker checks them.
    #[test]
    fn the_interfaces_of_the_settings_are_found() {
        let settings = ProgramSettings {
            heartbeat_max_age_ns: 0,
            kind: LayerKind::RawIp,
            mobile_ifindex: 101,
            device_ifindex: 102,
            own_mark: 0,
            flows_max: 0,
            withholds: false,
            has_timers: false,
            reorders_stores: false,
            reads: Reads::Both,
        };
        let found: Vec<u32> = BpfObject::Mobile.ifindices(&settings.emit()).collect();
        assert_eq!(found, [101, 102]);
    }
}
