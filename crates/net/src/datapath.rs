// SPDX-License-Identifier: Apache-2.0
//! The gateway's data path: TCP is taken at the wireless interface and given
//! back there.
//!
//! [`DataPath::attach`] makes two devices, one for each direction, and attaches
//! the programs of `bpf/gateway.bpf.c`. Frames that the wireless interface is about
//! to send can be read from the downlink device. Frames that are written to it go
//! out on the interface. Frames that the interface received can be read from the
//! uplink device. Frames that are written to that go up into the router. Conntrack,
//! NAT, firewall and routing see each packet once, in the right order.
//!
//! Packets are taken only if [`DataPath::beat`] was called within the last
//! [`HEARTBEAT_AGE_MAX`]: if the owner hangs, packets pass without it. When the owner
//! dies, programs and devices vanish with it. See `docs/data-path.md`.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use holdfast_core::Direction;
use holdfast_wire::Instant;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use crate::counters::{Counters, DATA_PATH};
use crate::frame::{BufferPool, Frame};
use crate::privileges;
use crate::rtnl::{Rtnl, apart};
use crate::tun::{LayerKind, Tun, TunOptions, VNET_HDR_BYTES};

mod interface;
mod program;
#[cfg(test)]
mod tests;

pub use crate::attach_point::AttachMode;
pub use crate::vnet::{Gso, VnetHdr};
pub use interface::{
    FrameHeader, Interface, InterfaceId, has_carrier, interface_bytes, tcx_programs,
};

use crate::attach_point::HookSide;
use crate::bpf::{Hook, SharedValues, bpf};
use program::ProgramSettings;

/// The marks of packets that an uplink device gives up into the router: this plus the
/// lower half of the device's index. So two data paths never take each other's packets.
/// The mark is cleared before the router sees it. A packet that arrives on the wireless
/// interface with this mark passes.
pub const OWN_MARK_BASE: u32 = 0x4846_0000;

/// If the heartbeat is older than this, packets pass.
pub const HEARTBEAT_AGE_MAX: Duration = Duration::from_millis(200);

/// The interval of heartbeats: short enough that one late heartbeat does no harm.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(20);

/// Frames that may wait in a device: those of a hang of [`HEARTBEAT_AGE_MAX`] at 160,000
/// frames a second. Linux 7.2 refuses a longer queue (`S16_MAX`).
const QUEUE_LEN: u32 = 32_767;

/// Parts of a frame that one write takes, at most.
pub const WRITE_PARTS_MAX: usize = 15;

/// What becomes of the TCP segments at the wireless interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taking {
    /// The daemon takes each segment, and gives it back or not.
    #[default]
    All,
    /// Segments pass, and the daemon gets copies. Segments of the peers of [`DataPath::take_peer`] are taken.
    InOutages,
}

/// How a data path is attached.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathOptions {
    /// TCX or clsact.
    pub mode: AttachMode,
    /// What becomes of the segments.
    pub taking: Taking,
    /// Downlink frames given back with this DSCP (0 to 63) get the priority
    /// `TC_PRIO_INTERACTIVE`: queueing disciplines with bands (`pfifo_fast`, `prio`, `fq`)
    /// serve them first. A class or a Wi-Fi priority that the router chose stays.
    pub ahead_dscp: Option<u8>,
}

/// The programs, devices and maps on one wireless interface; one owner.
///
/// Dropping it stops the taking of packets, detaches the programs and removes the
/// devices, in this order. Packets still in the devices are lost then: to lose
/// none, call [`DataPath::stop_taking`] and read and write on until both devices
/// are empty.
#[derive(Debug)]
pub struct DataPath {
    heartbeat: SharedValues,
    bridge_port: SharedValues,
    // Fields drop in this order: no packet may be redirected to a removed device.
    /// None: it is detached.
    hooks: Option<[Hook; 2]>,
    giving: [Hook; 2],
    down: Tun,
    up: Tun,
    interface: Interface,
    counters: Counters,
    /// The devices for copies, downlink first; none: every segment is taken.
    copies: Option<[Tun; 2]>,
    taken_peers: MapHandle,
    options: PathOptions,
    /// Whether a heartbeat lets the programs take packets.
    may_take: bool,
    /// Whether frames that are written are dropped.
    is_silent: bool,
}

impl DataPath {
    /// Attaches to the interface `wireless` of the calling thread's network
    /// namespace. Packets are taken from the first [`DataPath::beat`] on.
    ///
    /// Errors: no such interface, a link type that is not known, no permission
    /// (`CAP_NET_ADMIN`, `CAP_BPF`), no `/dev/net/tun`; the message names the step.
    pub fn attach(wireless: &str, mode: AttachMode) -> io::Result<Self> {
        Self::attach_with(
            wireless,
            PathOptions {
                mode,
                ..PathOptions::default()
            },
        )
    }

    /// As [`DataPath::attach`], with all options.
    pub fn attach_with(wireless: &str, options: PathOptions) -> io::Result<Self> {
        let PathOptions {
            mode,
            taking,
            ahead_dscp,
        } = options;
        let interface = Interface::query(wireless)?;
        let down = create_device("hfd%d", interface.kind)?;
        let up = create_device("hfu%d", interface.kind)?;
        let copies = match taking {
            Taking::All => None,
            Taking::InOutages => Some([
                create_device("hfc%d", interface.kind)?,
                create_device("hfc%d", interface.kind)?,
            ]),
        };
        let programs = ProgramSettings {
            heartbeat_max_age_ns: HEARTBEAT_AGE_MAX.as_nanos() as u64,
            wireless_ifindex: interface.ifindex,
            down_ifindex: down.ifindex(),
            up_ifindex: up.ifindex(),
            kind: interface.kind,
            ahead_dscp,
            copies: copies
                .as_ref()
                .map(|copies| copies.each_ref().map(Tun::ifindex)),
        }
        .load()?;
        let heartbeat = SharedValues::map(&programs.map("heartbeat")?)?;
        let bridge_port = SharedValues::map(&programs.map("bridge_port")?)?;
        let counters = Counters::of(&programs, DATA_PATH)?;
        let taken_peers = programs.map("taken_peers")?;
        let give = |name, tun: &Tun| programs.attach(name, tun.ifindex(), HookSide::Ingress, mode);
        let giving = [give("give_down", &down)?, give("give_up", &up)?];
        let take = |name, side| programs.attach(name, interface.ifindex, side, mode);
        let hooks = [
            take("wireless_egress", HookSide::Egress)?,
            take("wireless_ingress", HookSide::Ingress)?,
        ];
        Ok(Self {
            heartbeat,
            bridge_port,
            hooks: Some(hooks),
            may_take: true,
            is_silent: false,
            giving,
            down,
            up,
            interface,
            counters,
            copies,
            taken_peers,
            options,
        })
    }

    /// A data path of the same kind at the interface that has the name now. It takes the same peers, but
    /// nothing until [`DataPath::start_taking`].
    ///
    /// Errors: as [`DataPath::attach`].
    pub fn attach_again(&self) -> io::Result<Self> {
        let mut next = Self::attach_with(&self.interface.name, self.options)?;
        next.may_take = false;
        for peer in self.taken_peers.keys() {
            let entered = next.taken_peers.update(&peer, &[1], MapFlags::ANY);
            entered.map_err(|error| bpf("taken peers", &error))?;
        }
        Ok(next)
    }

    /// The wireless interface as it was when attached.
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Whether the programs detach by themselves when this process dies (TCX).
    pub fn detaches_on_death(&self) -> bool {
        self.giving.iter().all(Hook::is_tcx)
    }

    /// The device of one direction, to wait for frames.
    pub fn device_fd(&self, direction: Direction) -> BorrowedFd<'_> {
        self.device(direction).as_fd()
    }

    /// The index of one direction's device.
    pub const fn device_ifindex(&self, direction: Direction) -> u32 {
        self.device(direction).ifindex()
    }

    /// The name of one direction's device.
    pub fn device_name(&self, direction: Direction) -> &str {
        self.device(direction).name()
    }

    /// The next frame taken in `direction`, if there is one.
    ///
    /// On the uplink also copies of ICMP messages that a packet was too big; those
    /// are never to be written back. Errors: see [`BufferPool::read`].
    pub fn read(&self, direction: Direction, pool: &mut BufferPool) -> io::Result<Option<Frame>> {
        read_frame(self.device(direction), pool)
    }

    /// The next copy of a frame that has passed in `direction`, if there is one. It is never to be
    /// given back. Errors: see [`BufferPool::read`].
    pub fn read_copy(
        &self,
        direction: Direction,
        pool: &mut BufferPool,
    ) -> io::Result<Option<Frame>> {
        match self.copies_device(direction) {
            Some(tun) => read_frame(tun, pool),
            None => Ok(None),
        }
    }

    /// The device of one direction's copies, to wait for them; none: every segment is taken.
    pub fn copies_device(&self, direction: Direction) -> Option<&Tun> {
        let [down, up] = self.copies.as_ref()?;
        Some(match direction {
            Direction::Downlink => down,
            Direction::Uplink => up,
        })
    }

    /// With copies: from now on takes the segments to and from `peer`, or if not `takes`, lets them pass.
    ///
    /// Errors: too many peers are taken; then its segments pass, and copies come.
    pub fn take_peer(&self, peer: IpAddr, takes: bool) -> io::Result<()> {
        let mut key = [0; 16];
        match peer {
            IpAddr::V4(address) => key[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => key = address.octets(),
        }
        let done = if takes {
            self.taken_peers.update(&key, &[1], MapFlags::ANY)
        } else {
            self.taken_peers.delete(&key)
        };
        done.map_err(|error| bpf("taken peers", &error))
    }

    /// With copies: takes no peer's segments any more.
    pub fn release_peers(&self) {
        let keys: Vec<_> = self.taken_peers.keys().collect();
        for key in keys {
            // The worker alone removes entries, so each is there.
            let _ = self.taken_peers.delete(&key);
        }
    }

    /// Gives a frame back as it came.
    pub fn forward(&self, direction: Direction, frame: &Frame) -> io::Result<()> {
        if self.is_silent {
            return Ok(());
        }
        let tun = self.device(direction);
        retry(|| tun.write(frame.as_read()))
    }

    /// Gives back, or sends, the frame whose parts are `parts`, at most
    /// [`WRITE_PARTS_MAX`].
    pub fn write(
        &self,
        direction: Direction,
        vnet: &VnetHdr,
        parts: &[IoSlice<'_>],
    ) -> io::Result<()> {
        if self.is_silent {
            return Ok(());
        }
        let header: [u8; VNET_HDR_BYTES] = vnet.emit();
        let mut whole = [IoSlice::new(&[]); WRITE_PARTS_MAX + 1];
        whole[0] = IoSlice::new(&header);
        let Some(rest) = whole.get_mut(1..=parts.len()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        rest.copy_from_slice(parts);
        let tun = self.device(direction);
        retry(|| tun.write_vectored(&whole[..=parts.len()]))
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

    /// Lets all packets pass for good: heartbeats have no effect any more, and the programs are detached from
    /// the interface. This works also if the interface has another name, or is in another namespace. Nothing
    /// is sent until [`DataPath::end_silence`].
    pub fn detach(&mut self) {
        self.may_take = false;
        self.is_silent = true;
        self.stop_taking();
        self.hooks = None;
    }

    /// Lets all packets pass from now on, until the next heartbeat.
    pub fn stop_taking(&self) {
        self.heartbeat.store(0, 0);
    }

    /// From now on frames are sent also when detached, if the interface still has its index: the last segments
    /// of flows that cannot continue.
    pub const fn end_silence(&mut self) {
        self.is_silent = false;
    }

    /// Whether the wireless interface is a port of a bridge, which receives frames to others too. Until
    /// the first call it is none.
    pub fn set_bridge_port(&self, is_port: bool) {
        self.bridge_port.store(0, is_port.into());
    }

    /// A reader of the programs' counters.
    pub fn counters(&self) -> io::Result<Counters> {
        self.counters.try_clone()
    }

    const fn device(&self, direction: Direction) -> &Tun {
        match direction {
            Direction::Downlink => &self.down,
            Direction::Uplink => &self.up,
        }
    }
}

impl Drop for DataPath {
    fn drop(&mut self) {
        self.stop_taking();
    }
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of the BPF programs.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// [`monotonic_ns`] as a time.
pub fn now() -> Instant {
    Instant::from_nanos(monotonic_ns())
}

/// A clock of the kernel in nanoseconds, by libc: rustix panics in User Mode Linux, whose vDSO has no
/// `getcpu`.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime writes one timespec, which outlives the call; it cannot fail for a
    // clock that each kernel has.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A device for taken packets. It has no address, and gets only packets that are redirected to it.
pub(crate) fn create_device(name: &str, kind: LayerKind) -> io::Result<Tun> {
    if let Some(broker) = privileges::broker() {
        return broker.device(name, kind);
    }
    let tun = Tun::create(&TunOptions {
        name: name.into(),
        kind,
        offload: true,
        queue_len: Some(QUEUE_LEN),
        // All packets of the wireless interface, now or later, must fit.
        mtu: Some(65_521),
        up: false,
    })?;
    // No address, no router solicitation: the device gets only packets that are redirected to it.
    let path = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", tun.name());
    if std::fs::write(path, "1").is_err() {
        // There is no IPv6, or a service manager has made it read-only. Then the device gets multicast reports.
        apart(|| Rtnl::open()?.set_no_ipv6_address(tun.ifindex()))?;
    }
    tun.set_up()?;
    Ok(tun)
}

/// The next frame of a device, if there is one. Errors: see [`BufferPool::read`].
pub(crate) fn read_frame(tun: &Tun, pool: &mut BufferPool) -> io::Result<Option<Frame>> {
    loop {
        match pool.read(|buffer| tun.read(buffer)) {
            Ok(frame) => return Ok(Some(frame)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Repeats a write that a signal interrupted.
pub(crate) fn retry(mut write: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
    loop {
        match write() {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
