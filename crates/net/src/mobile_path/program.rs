// SPDX-License-Identifier: Apache-2.0
//! The mobile's BPF programs, and what they are loaded with.

use std::io;

use crate::bpf::Programs;
use crate::tun::LayerKind;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mobile.bpf.o"));

/// What the programs are loaded with: `struct settings` of the C source.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramSettings {
    pub(super) heartbeat_max_age_ns: u64,
    pub(super) kind: LayerKind,
    pub(super) mobile_ifindex: u32,
    /// 0: nothing is taken.
    pub(super) device_ifindex: u32,
    pub(super) own_mark: u32,
    pub(super) flows_max: u32,
}

impl ProgramSettings {
    pub(super) fn load(&self) -> io::Result<Programs> {
        let entries = [("flows", self.flows_max), ("closed", self.flows_max)];
        Programs::load(OBJECT, &self.emit(), &entries)
    }

    fn emit(&self) -> [u8; 24] {
        let mut octets = [0; 24];
        octets[..8].copy_from_slice(&self.heartbeat_max_age_ns.to_ne_bytes());
        let words = [
            self.kind.header_bytes(),
            self.mobile_ifindex,
            self.device_ifindex,
            self.own_mark,
        ];
        for (to, word) in octets[8..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        octets
    }
}
