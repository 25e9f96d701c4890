// SPDX-License-Identifier: Apache-2.0
//! The detour of the few packets that the daemon has to see before the host does: compressed segments,
//! and segments of flows that the daemon follows.
//!
//! As in the gateway's data path there is a device beside the interface. The program on the interface's
//! ingress redirects packets to the device. Packets that are written to the device go to the interface's
//! ingress. It is a TAP device if frames have an Ethernet header, and otherwise a TUN device.

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use holdfast_core::FlowKey;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::record;
use super::{FOLLOWED, OWN_MARK_BASE};
use crate::attach_point::{AttachMode, HookSide};
use crate::bpf::{Hook, Programs, SharedValues};
use crate::datapath::{Interface, VnetHdr, create_device, read_frame, retry};
use crate::frame::{BufferPool, Frame};
use crate::tun::{Tun, VNET_HDR_BYTES};

/// Limit of followed flows. The map in the C source has room for one more: a new flow is entered before
/// the flow that it replaces is removed.
pub const FOLLOWED_MAX: usize = 64;

/// The device, and the programs' data about it; one owner. Packets are redirected only if
/// [`Detour::beat`] was called within the last 200 ms. A drop ends the redirection first.
#[derive(Debug)]
pub struct Detour {
    heartbeat: SharedValues,
    _giving: Hook,
    control: SharedValues,
    followed: MapHandle,
    known: BTreeSet<FlowKey>,
    device: Tun,
    link_header_bytes: usize,
}

impl Detour {
    /// The device beside `interface`, without programs yet.
    pub(super) fn create_device(interface: &Interface) -> io::Result<Tun> {
        create_device("hfm%d", interface.kind)
    }

    /// The mark of packets that come from the device with this index.
    pub(super) const fn mark(ifindex: u32) -> u32 {
        OWN_MARK_BASE | (ifindex & 0xffff)
    }

    pub(super) fn attach(programs: &Programs, device: Tun, mode: AttachMode) -> io::Result<Self> {
        let giving = programs.attach("give_up", device.ifindex(), HookSide::Ingress, mode)?;
        Ok(Self {
            heartbeat: SharedValues::map(&programs.map("heartbeat")?)?,
            _giving: giving,
            control: SharedValues::map(&programs.map("control")?)?,
            followed: programs.map("followed")?,
            known: BTreeSet::new(),
            link_header_bytes: device.kind().header_bytes() as usize,
            device,
        })
    }

    /// Where the IP header of its frames begins.
    pub const fn link_header_bytes(&self) -> usize {
        self.link_header_bytes
    }

    /// A sign of life, with CLOCK_MONOTONIC in nanoseconds; costs one store.
    pub fn beat(&self, monotonic_ns: u64) {
        self.heartbeat.store(0, monotonic_ns);
    }

    /// The next frame that was taken, if there is one. Errors: see [`BufferPool::read`].
    pub fn read(&self, pool: &mut BufferPool) -> io::Result<Option<Frame>> {
        read_frame(&self.device, pool)
    }

    /// Gives a frame to the host as it came.
    pub fn give_back(&self, frame: &Frame) -> io::Result<()> {
        retry(|| self.device.write(frame.as_read()))
    }

    /// Gives headers and payload to the host. The headers have right checksums.
    pub fn deliver(&self, headers: &[u8], payload: &[u8]) -> io::Result<()> {
        let vnet: [u8; VNET_HDR_BYTES] = VnetHdr::default().emit();
        let parts = [
            IoSlice::new(&vnet),
            IoSlice::new(headers),
            IoSlice::new(payload),
        ];
        retry(|| self.device.write_vectored(&parts))
    }

    /// From now on the daemon sees all payload of the flow, before the host does.
    pub fn follow(&mut self, flow: &FlowKey) -> io::Result<()> {
        if self.known.contains(flow) {
            return Ok(());
        }
        self.followed
            .update(&record::key(flow), &1_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?;
        self.known.insert(*flow);
        self.control.store(FOLLOWED, self.known.len() as u64);
        Ok(())
    }

    /// Ends [`Detour::follow`] for the flow.
    pub fn forget(&mut self, flow: &FlowKey) -> io::Result<()> {
        self.known.remove(flow);
        self.control.store(FOLLOWED, self.known.len() as u64);
        match self.followed.delete(&record::key(flow)) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(io::Error::other(error))
            }
            _ => Ok(()),
        }
    }

    /// How many flows are followed.
    pub fn followed(&self) -> usize {
        self.known.len()
    }
}

impl AsFd for Detour {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        self.heartbeat.store(0, 0);
    }
}
