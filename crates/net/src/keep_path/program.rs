// SPDX-License-Identifier: Apache-2.0
//! The BPF programs of `keep`, and their settings.

use std::io;

use crate::attach_point::BpfObject;
use crate::bpf::Programs;
use crate::tun::LayerKind;

/// The settings with which the programs are loaded: `struct settings` of the C source.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramSettings {
    pub(super) heartbeat_max_age_ns: u64,
    /// Unpredictable, so that an attacker cannot choose addresses that share a bucket.
    pub(super) seed: u64,
    pub(super) link_ifindex: u32,
    pub(super) device_ifindex: u32,
    pub(super) kind: LayerKind,
    /// All that is behind the link is one peer.
    pub(super) whole_link: bool,
    /// TCP passes: another data path handles it.
    pub(super) passes_tcp: bool,
}

impl ProgramSettings {
    /// Loads the programs.
    pub(super) fn load(&self) -> io::Result<Programs> {
        Programs::load(BpfObject::Keep, &self.emit(), &[])
    }

    fn emit(&self) -> [u8; 40] {
        let mut octets = [0; 40];
        octets[..8].copy_from_slice(&self.heartbeat_max_age_ns.to_ne_bytes());
        octets[8..16].copy_from_slice(&self.seed.to_ne_bytes());
        let values = [
            self.link_ifindex,
            self.device_ifindex,
            self.kind.header_bytes(),
            u32::from(self.whole_link),
            u32::from(self.passes_tcp),
        ];
        for (to, value) in octets[16..].chunks_exact_mut(4).zip(values) {
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
            seed: 0,
            link_ifindex: 101,
            device_ifindex: 102,
            kind: LayerKind::RawIp,
            whole_link: false,
            passes_tcp: false,
        };
        let found: Vec<u32> = BpfObject::Keep.ifindices(&settings.emit()).collect();
        assert_eq!(found, [101, 102]);
    }
}
