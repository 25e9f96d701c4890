// SPDX-License-Identifier: Apache-2.0
//! The gateway's BPF programs, and their settings.

use std::io;

use super::OWN_MARK_BASE;
use crate::attach_point::BpfObject;
use crate::bpf::Programs;
use crate::tun::LayerKind;

/// The settings with which the programs are loaded: `struct settings` of the C source.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramSettings {
    pub(super) heartbeat_max_age_ns: u64,
    pub(super) wireless_ifindex: u32,
    pub(super) down_ifindex: u32,
    pub(super) up_ifindex: u32,
    pub(super) kind: LayerKind,
    /// Frames given back downlink with this DSCP go ahead of others.
    pub(super) ahead_dscp: Option<u8>,
    /// The devices for copies, downlink first, if TCP passes.
    pub(super) copies: Option<[u32; 2]>,
}

/// No DSCP: more than six bits.
const NO_DSCP: u32 = u32::MAX;

impl ProgramSettings {
    /// Loads the programs.
    pub(super) fn load(&self) -> io::Result<Programs> {
        Programs::load(BpfObject::Gateway, &self.emit(), &[])
    }

    fn emit(&self) -> [u8; 40] {
        let mut octets = [0; 40];
        octets[..8].copy_from_slice(&self.heartbeat_max_age_ns.to_ne_bytes());
        let copies = self.copies.unwrap_or_default();
        let values = [
            self.wireless_ifindex,
            self.down_ifindex,
            self.up_ifindex,
            self.kind.header_bytes(),
            OWN_MARK_BASE | (self.up_ifindex & 0xffff),
            self.ahead_dscp.map_or(NO_DSCP, u32::from),
            copies[0],
            copies[1],
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
            wireless_ifindex: 101,
            down_ifindex: 102,
            up_ifindex: 103,
            kind: LayerKind::RawIp,
            ahead_dscp: None,
            copies: Some([104, 105]),
        };
        let found: Vec<u32> = BpfObject::Gateway.ifindices(&settings.emit()).collect();
        assert_eq!(found, [101, 102, 103, 104, 105]);
    }
}
