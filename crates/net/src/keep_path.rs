// SPDX-License-Identifier: Apache-2.0
//! The data path of `keep`: packets stay in the kernel while a link is up, and are taken while it
//! is down or silent.
//!
//! [`KeepPath::attach`] makes a device and attaches the programs of `bpf/keep.bpf.c` to the
//! link's interface. Packets that the interface is about to send to a peer that is away can be read
//! from the device. Packets that are written to the device go out on the link. The programs note which
//! peers and flows were seen, in the [`PeerTable`]. See `docs/data-path.md`.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use holdfast_core::keep::PeerId;
use holdfast_wire::LinkAddresses;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::attach_point::{AttachMode, HookSide};
use crate::bpf::{Hook, SharedValues, bpf};
use crate::counters::{Counters, KEEP_PATH};
use crate::datapath::{HEARTBEAT_AGE_MAX, Interface, create_device, read_frame, retry};
use crate::frame::{BufferPool, Frame};
use crate::tun::{Tun, VNET_HDR_BYTES};

mod peers;
mod program;
#[cfg(test)]
mod tests;

pub use peers::{PeerTable, Peers};
use program::ProgramSettings;

/// Whose packets are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// All of IP.
    All,
    /// All but TCP, which another data path takes.
    AllButTcp,
}

/// The programs, the device and the tables on one interface; one owner.
///
/// Dropping it has all packets pass, detaches the programs and removes the device, in this order.
#[derive(Debug)]
pub struct KeepPath {
    heartbeat: SharedValues,
    // Fields drop in this order: no packet may be redirected to a removed device.
    /// None: it is detached.
    hooks: Option<[Hook; 2]>,
    _giving: Hook,
    device: Tun,
    interface: Interface,
    table: PeerTable,
    announcements: MapHandle,
    counters: Counters,
    mode: AttachMode,
    protocols: Protocols,
    /// Whether a heartbeat lets the programs take packets.
    may_take: bool,
}

impl KeepPath {
    /// Attaches to the interface `link` of the calling thread's network namespace. Packets are
    /// taken from the first [`KeepPath::beat`] on. `seed` must be unpredictable.
    ///
    /// With [`Protocols::AllButTcp`] a [`DataPath`](crate::datapath::DataPath) may be at the same
    /// interface.
    ///
    /// Errors: no such interface, a link type that is not known, no permission (`CAP_NET_ADMIN`,
    /// `CAP_BPF`), no `/dev/net/tun`; the message names the step.
    pub fn attach(
        link: &str,
        mode: AttachMode,
        (peers, protocols): (Peers, Protocols),
        seed: u64,
    ) -> io::Result<Self> {
        let interface = Interface::query(link)?;
        let device = create_device("hfk%d", interface.kind)?;
        let programs = ProgramSettings {
            heartbeat_max_age_ns: HEARTBEAT_AGE_MAX.as_nanos() as u64,
            seed,
            link_ifindex: interface.ifindex,
            device_ifindex: device.ifindex(),
            kind: interface.kind,
            whole_link: peers == Peers::WholeLink,
            passes_tcp: protocols == Protocols::AllButTcp,
        }
        .load()?;
        let heartbeat = SharedValues::map(&programs.map("heartbeat")?)?;
        let table = PeerTable::map(&programs, seed, peers)?;
        let giving = programs.attach("give_back", device.ifindex(), HookSide::Ingress, mode)?;
        let on_link = |name, side| programs.attach(name, interface.ifindex, side, mode);
        let hooks = [
            on_link("link_egress", HookSide::Egress)?,
            on_link("link_ingress", HookSide::Ingress)?,
        ];
        Ok(Self {
            heartbeat,
            hooks: Some(hooks),
            _giving: giving,
            may_take: true,
            device,
            interface,
            table,
            announcements: programs.map("announcements")?,
            mode,
            protocols,
            counters: Counters::of(&programs, KEEP_PATH)?,
        })
    }

    /// A data path of the same kind at the interface that has the name now. It follows no peer yet, and takes nothing
    /// until [`KeepPath::start_taking`].
    ///
    /// Errors: as [`KeepPath::attach`].
    pub fn attach_again(&self) -> io::Result<Self> {
        let taken = (self.table.kind(), self.protocols);
        let mut next = Self::attach(&self.interface.name, self.mode, taken, self.table.seed())?;
        next.may_take = false;
        Ok(next)
    }

    /// The link's interface as it was when attached.
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Whether the programs detach by themselves when this process dies (TCX).
    pub fn detaches_on_death(&self) -> bool {
        self.hooks.iter().flatten().all(Hook::is_tcx)
    }

    /// The device, to wait for frames.
    pub fn device_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// The device's name.
    pub fn device_name(&self) -> &str {
        self.device.name()
    }

    /// The device's index.
    pub const fn device_ifindex(&self) -> u32 {
        self.device.ifindex()
    }

    /// What the programs note.
    pub const fn table(&self) -> &PeerTable {
        &self.table
    }

    /// The next frame that was taken, if there is one. Errors: see [`BufferPool::read`].
    pub fn read(&self, pool: &mut BufferPool) -> io::Result<Option<Frame>> {
        read_frame(&self.device, pool)
    }

    /// Sends a frame out on the link as it came. A detached path sends nothing.
    pub fn send(&self, frame: &Frame) -> io::Result<()> {
        if self.hooks.is_none() {
            return Ok(());
        }
        retry(|| self.device.write(frame.as_read()))
    }

    /// Sends a frame out on the link with other link-layer addresses. The frame has an Ethernet header. A
    /// detached path sends nothing.
    pub fn send_with(&self, frame: &Frame, addresses: &LinkAddresses) -> io::Result<()> {
        if self.hooks.is_none() {
            return Ok(());
        }
        let vnet: [u8; VNET_HDR_BYTES] = frame.vnet().emit();
        let rest = frame.bytes().get(addresses.len()..).unwrap_or_default();
        let parts = [&vnet[..], addresses, rest].map(IoSlice::new);
        retry(|| self.device.write_vectored(&parts))
    }

    /// A sign of life, with CLOCK_MONOTONIC in nanoseconds; costs one store.
    pub fn beat(&self, monotonic_ns: u64) {
        if self.may_take {
            self.heartbeat.store(0, monotonic_ns);
        }
    }

    /// From the next beat on packets are taken.
    pub const fn start_taking(&mut self) {
        self.may_take = self.hooks.is_some();
    }

    /// As [`DataPath::detach`](crate::datapath::DataPath::detach).
    pub fn detach(&mut self) {
        self.may_take = false;
        self.stop_taking();
        self.hooks = None;
    }

    /// Lets all packets pass from now on, until the next heartbeat.
    pub fn stop_taking(&self) {
        self.heartbeat.store(0, 0);
    }

    /// The peers that the programs announce as seen.
    pub fn announcements(&self) -> io::Result<Announcements> {
        Announcements::of(&self.announcements)
    }

    /// A reader of the programs' counters.
    pub fn counters(&self) -> io::Result<Counters> {
        self.counters.try_clone()
    }

    /// The peer for packets to `address`.
    pub fn peer(&self, address: IpAddr) -> Option<PeerId> {
        self.table.find(address)
    }
}

impl Drop for KeepPath {
    fn drop(&mut self) {
        self.stop_taking();
    }
}

/// The peers that were seen while they were waited for. Stays on the thread that made it.
pub struct Announcements {
    ring: RingBuffer<'static>,
    seen: Rc<RefCell<Vec<PeerId>>>,
}

impl Announcements {
    fn of(map: &MapHandle) -> io::Result<Self> {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&seen);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |octets: &[u8]| {
                if let Some(index) = octets.first_chunk() {
                    to.borrow_mut().push(PeerId(u32::from_ne_bytes(*index)));
                }
                0
            })
            .map_err(|error| bpf("announcements", &error))?;
        let ring = builder
            .build()
            .map_err(|error| bpf("announcements", &error))?;
        Ok(Self { ring, seen })
    }

    /// Readable when there is one.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor, and lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Takes all announcements.
    pub fn take(&self, peers: &mut Vec<PeerId>) -> io::Result<()> {
        self.ring
            .consume()
            .map_err(|error| bpf("announcements", &error))?;
        peers.append(&mut self.seen.borrow_mut());
        Ok(())
    }
}

impl std::fmt::Debug for Announcements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Announcements")
    }
}
