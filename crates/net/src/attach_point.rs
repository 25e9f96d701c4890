// SPDX-License-Identifier: Apache-2.0
//! Which programs are loaded, and where they are attached: plain data, which the broker process gets too.

use serde::{Deserialize, Serialize};

/// How the programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttachMode {
    /// TCX links, or clsact filters where the kernel has none.
    #[default]
    Auto,
    /// Clsact filters.
    Clsact,
}

/// The objects of the data paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BpfObject {
    /// `bpf/gateway.bpf.c`.
    Gateway,
    /// `bpf/keep.bpf.c`.
    Keep,
    /// `bpf/mobile.bpf.c`.
    Mobile,
}

impl BpfObject {
    pub(crate) const fn octets(self) -> &'static [u8] {
        match self {
            Self::Gateway => include_bytes!(concat!(env!("OUT_DIR"), "/gateway.bpf.o")),
            Self::Keep => include_bytes!(concat!(env!("OUT_DIR"), "/keep.bpf.o")),
            Self::Mobile => include_bytes!(concat!(env!("OUT_DIR"), "/mobile.bpf.o")),
        }
    }

    /// The handle by which a successor finds the clsact filters. Several objects' filters may be at one interface.
    pub(crate) const fn clsact_handle(self) -> u32 {
        match self {
            Self::Gateway => 0x4846,
            Self::Keep => 0x4847,
            Self::Mobile => 0x4848,
        }
    }

    /// The interfaces and devices that settings name, by their indices: 0 is none. The programs read from
    /// these and redirect to them.
    pub(crate) fn ifindices(self, settings: &[u8]) -> impl Iterator<Item = u32> {
        /// Their offsets in `struct settings` of the C source.
        const fn offsets(object: BpfObject) -> &'static [usize] {
            match object {
                BpfObject::Gateway => &[8, 12, 16, 32, 36],
                BpfObject::Keep => &[16, 20],
                BpfObject::Mobile => &[12, 16],
            }
        }
        let fields = offsets(self).iter().map(|at| settings.get(*at..*at + 4));
        fields.map(|field| {
            field
                .and_then(|field| field.try_into().ok())
                .map_or(0, u32::from_ne_bytes)
        })
    }
}

/// Where and how a program is attached.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct AttachPoint {
    /// The interface's index.
    pub(crate) ifindex: u32,
    pub(crate) side: HookSide,
    pub(crate) mode: AttachMode,
    /// The handle by which a successor finds the filter, if the kernel has no TCX.
    pub(crate) clsact_handle: u32,
}

/// The side of an interface at which a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HookSide {
    Ingress,
    Egress,
}
