// SPDX-License-Identifier: Apache-2.0
//! The mobile's data path: it notes the newest numbers of each flow, and closes the flow's window while
//! the daemon orders that. Packets stay in the kernel, but for those of a [`Detour`].
//!
//! [`MobilePath::attach`] attaches the programs of `bpf/mobile.bpf.c` to both ways of the
//! interface. [`FlowMaps`] reads their notes and gives them orders; it can be lent
//! to another process too, which then knows the flows of an owner that has died.
//! [`AckSender`] sends ACKs as the MH would.

use std::io;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::withheld;
use holdfast_wire::{Instant, SeqNum};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::attach_point::{AttachMode, HookSide};
use crate::bpf::{Hook, Programs, SharedValues, for_each_entry};
use crate::counters::{CounterValues, Counters, MOBILE_PATH};
use crate::datapath::{self, Interface};
use crate::tun::{LayerKind, Tun};

mod detour;
mod frame_socket;
mod lent;
mod next_hop;
mod program;
mod record;
mod sender;
#[cfg(test)]
pub(crate) mod tests;
mod withheld_segments;

pub use detour::{Detour, FOLLOWED_MAX};
pub(crate) use frame_socket::open_frame_socket;
pub use lent::LentMaps;
pub(crate) use next_hop::resolve;
pub use record::NotedFlow;
pub use sender::AckSender;
pub use withheld_segments::{NotedWithheldSegment, Pause, Pauses, Woken, boottime};

use program::{ProgramSettings, Reads};
use record::{KEY_BYTES, Read, VALUE_BYTES, or_the_others};

/// The marks of packets that a device gives up into the host: this plus the lower half of the
/// device's index. The gateway's data path has another base, [`crate::datapath::OWN_MARK_BASE`].
const OWN_MARK_BASE: u32 = 0x484d_0000;

/// If the heartbeat is older than this, no packet is taken.
const HEARTBEAT_AGE_MAX: Duration = Duration::from_millis(200);

/// Limit of noted flows, unless the operator sets another one. The least recently used are evicted.
pub const FLOWS_MAX: u32 = 8192;

/// A released number stays in the map of woken flows for this time. The programs copy it into the
/// flow's record at the flow's next segment.
const RELEASED_FOR: Duration = Duration::from_secs(30);

/// If the daemon hangs, the guard acknowledges a released segment that was withheld within this time. It
/// is longer than the guard takes to detect the hang.
const UNACKNOWLEDGED_FOR: Duration = Duration::from_secs(3);

/// A record is left out if a program was writing it at each of this many reads.
const READ_TRIES: usize = 4;

// Fields of `struct control` in the C source.
const ORDERS_UNTIL: usize = 0;
const FOLLOWED: usize = 1;
const WOKEN_UNTIL: usize = 2;

/// `struct order` of the C source.
const ORDER_BYTES: usize = 8;

/// The programs and maps on one interface; one owner. Dropping it detaches them.
#[derive(Debug)]
pub struct MobilePath {
    // Detached before the maps go.
    hooks: [Hook; 2],
    interface: Interface,
    maps: FlowMaps,
    counters: Counters,
    programs: Programs,
}

impl MobilePath {
    /// Attaches to `interface` of the calling thread's network namespace, with room for
    /// `flows_max` flows.
    ///
    /// Errors: no such interface, a link type that is not known, no permission
    /// (`CAP_NET_ADMIN`, `CAP_BPF`); the message names the step.
    pub fn attach(interface: &str, mode: AttachMode, flows_max: u32) -> io::Result<Self> {
        let interface = Interface::query(interface)?;
        let programs = load(&interface, flows_max, None)?;
        Ok(Self::attach_with(programs, interface, mode, None)?.0)
    }

    /// The same for `wake`: a segment of each bulk download stays unacknowledged while the orders'
    /// deadline holds. Also returns the reports of flows that pause. There are none if the kernel has no
    /// compiler for programs (JIT): then the caller uses [`FlowMaps::pausing`].
    pub fn attach_withholding(
        interface: &str,
        mode: AttachMode,
        flows_max: u32,
    ) -> io::Result<(Self, Option<Pauses>)> {
        let interface = Interface::query(interface)?;
        let (programs, pauses) = match load_withholding(&interface, flows_max, true) {
            Ok(programs) => {
                let pauses = Pauses::open(&programs.map("pauses")?)?;
                (programs, Some(pauses))
            }
            // A kernel without a compiler refuses callbacks with EINVAL. So does a kernel before 5.15,
            // which has no timers.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                (load_withholding(&interface, flows_max, false)?, None)
            }
            Err(error) => return Err(error),
        };
        let (path, _) = Self::attach_with(programs, interface, mode, None)?;
        Ok((path, pauses))
    }

    /// As [`MobilePath::attach`], with a device for the segments that the daemon has to see.
    pub fn attach_with_detour(
        interface: &str,
        mode: AttachMode,
        flows_max: u32,
    ) -> io::Result<(Self, Detour)> {
        let interface = Interface::query(interface)?;
        let device = Detour::create_device(&interface)?;
        let programs = load(&interface, flows_max, Some(device.ifindex()))?;
        let (path, detour) = Self::attach_with(programs, interface, mode, Some(device))?;
        let detour = detour.ok_or_else(|| io::Error::other("no device for compressed segments"))?;
        Ok((path, detour))
    }

    fn attach_with(
        programs: Programs,
        interface: Interface,
        mode: AttachMode,
        device: Option<Tun>,
    ) -> io::Result<(Self, Option<Detour>)> {
        let maps = FlowMaps::of(&programs, &interface)?;
        let counters = Counters::of(&programs, MOBILE_PATH)?;
        // The program that gives packets back is attached before those that take packets.
        let detour = device.map(|device| Detour::attach(&programs, device, mode));
        let detour = detour.transpose()?;
        let attach = |name, side| programs.attach(name, interface.ifindex, side, mode);
        let hooks = [
            attach("mobile_egress", HookSide::Egress)?,
            attach("mobile_ingress", HookSide::Ingress)?,
        ];
        let path = Self {
            hooks,
            interface,
            maps,
            counters,
            programs,
        };
        Ok((path, detour))
    }

    /// The interface as it was when attached.
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Whether the programs detach by themselves when this process dies (TCX).
    pub fn detaches_on_death(&self) -> bool {
        self.hooks.iter().all(Hook::is_tcx)
    }

    /// The flows' maps.
    pub const fn maps(&self) -> &FlowMaps {
        &self.maps
    }

    /// Of each program: its name, how often it ran while statistics were gathered
    /// ([`crate::bpf_stats`]), nanoseconds a run.
    pub(crate) fn run_times(&self) -> io::Result<Vec<(String, u64, f64)>> {
        self.programs.run_times()
    }

    /// What the programs counted.
    pub fn counters(&self) -> io::Result<CounterValues> {
        self.counters.read()
    }
}

fn load(interface: &Interface, flows_max: u32, device: Option<u32>) -> io::Result<Programs> {
    settings(interface, flows_max, device).load()
}

fn load_withholding(
    interface: &Interface,
    flows_max: u32,
    has_timers: bool,
) -> io::Result<Programs> {
    ProgramSettings {
        withholds: true,
        has_timers,
        ..settings(interface, flows_max, None)
    }
    .load()
}

fn settings(interface: &Interface, flows_max: u32, device: Option<u32>) -> ProgramSettings {
    ProgramSettings {
        heartbeat_max_age_ns: HEARTBEAT_AGE_MAX.as_nanos() as u64,
        kind: interface.kind,
        mobile_ifindex: interface.ifindex,
        device_ifindex: device.unwrap_or(0),
        own_mark: Detour::mark(device.unwrap_or(0)),
        flows_max,
        withholds: false,
        has_timers: false,
        reorders_stores: record::REORDERS_STORES,
        reads: Reads::Both,
    }
}

/// The records of flows, and the orders for them.
#[derive(Debug)]
pub struct FlowMaps {
    flows: MapHandle,
    closed: MapHandle,
    control: MapHandle,
    withheld: MapHandle,
    woken: MapHandle,
    values: SharedValues,
    kind: LayerKind,
}

impl FlowMaps {
    fn of(programs: &Programs, interface: &Interface) -> io::Result<Self> {
        let map = |name| programs.map(name);
        let maps = [map("flows")?, map("closed")?, map("control")?];
        Self::new(maps, [map("withheld_segments")?, map("woken")?], interface)
    }

    fn new(
        [flows, closed, control]: [MapHandle; 3],
        [withheld, woken]: [MapHandle; 2],
        interface: &Interface,
    ) -> io::Result<Self> {
        let keys = [&flows, &closed, &withheld, &woken].map(MapCore::key_size);
        let values = [&flows, &closed, &withheld, &woken].map(MapCore::value_size);
        let sizes = (keys, values);
        let expected = [
            VALUE_BYTES,
            ORDER_BYTES,
            withheld_segments::VALUE_BYTES,
            withheld_segments::WOKEN_BYTES,
        ];
        if sizes != ([KEY_BYTES as u32; 4], expected.map(|bytes| bytes as u32)) {
            let message = format!("maps of another version: {sizes:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let values = SharedValues::map(&control)?;
        Ok(Self {
            flows,
            closed,
            control,
            withheld,
            woken,
            values,
            kind: interface.kind,
        })
    }

    /// The kernel's IDs of these maps.
    pub fn ids(&self) -> io::Result<Vec<u32>> {
        [
            &self.flows,
            &self.closed,
            &self.control,
            &self.withheld,
            &self.woken,
        ]
        .map(|map| map.info().map(|info| info.info.id))
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(io::Error::other)
    }

    /// All flows with an ACK of the MH.
    pub fn flows(&self) -> io::Result<Vec<NotedFlow>> {
        let mut found = Vec::new();
        for_each_entry(&self.flows, |key, value| {
            match record::read(key, value, self.kind) {
                Read::Flow(flow) if !record::REORDERS_STORES => found.push(*flow),
                Read::NotOpen => {}
                Read::Flow(_) | Read::Torn => found.extend(self.read(key)?),
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// One flow, if it is known and the MH has sent an ACK of it.
    pub fn flow(&self, flow: &FlowKey) -> io::Result<Option<NotedFlow>> {
        self.read(&record::key(flow))
    }

    fn read(&self, key: &[u8; KEY_BYTES]) -> io::Result<Option<NotedFlow>> {
        let mut before = None;
        for _ in 0..READ_TRIES {
            let value = self
                .flows
                .lookup(key, MapFlags::ANY)
                .map_err(io::Error::other)?;
            let Some(value) = value.as_deref().and_then(<[u8]>::first_chunk) else {
                return Ok(None);
            };
            let settled = !record::REORDERS_STORES
                || before.is_some_and(|before| record::are_of_one_ack(&before, value));
            match record::read(key, value, self.kind) {
                Read::Flow(flow) if settled => return Ok(Some(*flow)),
                Read::NotOpen => return Ok(None),
                Read::Flow(_) | Read::Torn => {}
            }
            before = Some(*value);
        }
        Ok(None)
    }

    /// From now on the flow's segments leave with a window of 0, while the orders' deadline holds.
    pub fn close(&self, flow: &FlowKey) -> io::Result<()> {
        self.order(flow, [0, 0])
    }

    /// From now on the flow's segments leave with a window that ends at `edge`, while the orders' deadline
    /// holds. If the MH's own window ends before `edge`, it stays.
    pub fn limit_window(&self, flow: &FlowKey, edge: SeqNum) -> io::Result<()> {
        self.order(flow, [1, edge.get()])
    }

    fn order(&self, flow: &FlowKey, [limited, edge]: [u32; 2]) -> io::Result<()> {
        let mut order = [0; ORDER_BYTES];
        order[..4].copy_from_slice(&limited.to_ne_bytes());
        order[4..].copy_from_slice(&edge.to_ne_bytes());
        self.closed
            .update(&record::key(flow), &order, MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// Removes the order of [`FlowMaps::close`] or [`FlowMaps::limit_window`].
    pub fn open_window(&self, flow: &FlowKey) -> io::Result<()> {
        match self.closed.delete(&record::key(flow)) {
            // The window of an evicted flow is open already.
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(io::Error::other(error))
            }
            _ => Ok(()),
        }
    }

    /// The flows whose window is closed or limited, as far as they are noted.
    pub fn closed_flows(&self) -> io::Result<Vec<NotedFlow>> {
        let mut found = Vec::new();
        let mut failed = None;
        for_each_entry(&self.closed, |key, _: &[u8; ORDER_BYTES]| {
            match self.read(key) {
                Ok(flow) => found.extend(flow),
                Err(error) => failed = Some(error),
            }
            Ok(())
        })?;
        or_the_others(found, failed)
    }

    /// The flow's state for `wake`.
    pub fn withheld(&self, flow: &FlowKey) -> io::Result<Option<NotedWithheldSegment>> {
        let value = self
            .withheld
            .lookup(&record::key(flow), MapFlags::ANY)
            .map_err(io::Error::other)?;
        let value = value.as_deref().and_then(<[u8]>::first_chunk);
        Ok(value.map(withheld_segments::read))
    }

    /// The record of a flow that pauses, if the MH has acknowledged nothing newer since.
    pub fn paused(&self, pause: &Pause) -> io::Result<Option<NotedFlow>> {
        let flow = self.read(&pause.key)?;
        Ok(flow.filter(|noted| noted.flow.rcv_nxt == pause.ack))
    }

    /// The flows with a withheld segment.
    pub fn withholding_flows(&self) -> io::Result<Vec<NotedFlow>> {
        let withheld = self.withheld_where(NotedWithheldSegment::is_withholding)?;
        Ok(withheld.into_iter().map(|(noted, _)| noted).collect())
    }

    /// The same, and flows whose segment was released lately and is not acknowledged yet: a daemon that hangs
    /// sends no made ACK for it.
    pub fn unacknowledged_flows(&self) -> io::Result<Vec<NotedFlow>> {
        let now = datapath::now();
        let withheld = self.withheld_where(|withheld| {
            let unacknowledged = withheld
                .unacknowledged_from
                .is_some_and(|at| at + UNACKNOWLEDGED_FOR > now);
            withheld.is_withholding() || unacknowledged
        })?;
        Ok(withheld.into_iter().map(|(noted, _)| noted).collect())
    }

    /// The flows with a withheld segment that pause at `now`: no ACK was lowered lately.
    pub fn pausing(&self, now: Instant) -> io::Result<Vec<NotedFlow>> {
        let mut withheld = self.withheld_where(NotedWithheldSegment::is_withholding)?;
        withheld.retain(|(noted, withheld)| {
            let pause_after = withheld::pause_after(noted.flow.srtt);
            withheld
                .withheld_at
                .is_some_and(|at| at + pause_after <= now)
        });
        Ok(withheld.into_iter().map(|(noted, _)| noted).collect())
    }

    /// The flows whose state for `wake` fulfils `is_such`.
    fn withheld_where(
        &self,
        is_such: impl Fn(&NotedWithheldSegment) -> bool,
    ) -> io::Result<Vec<(NotedFlow, NotedWithheldSegment)>> {
        let mut found = Vec::new();
        let mut failed = None;
        for_each_entry(&self.withheld, |key, value| {
            let withheld = withheld_segments::read(value);
            if is_such(&withheld) {
                match self.read(key) {
                    Ok(flow) => found.extend(flow.map(|noted| (noted, withheld))),
                    Err(error) => failed = Some(error),
                }
            }
            Ok(())
        })?;
        or_the_others(found, failed)
    }

    /// Notes that a made ACK with the number `woken.released` has woken the flow.
    pub fn wake(&self, flow: &FlowKey, woken: &Woken) -> io::Result<()> {
        self.woken
            .update(&record::key(flow), &woken.emit(), MapFlags::ANY)
            .map_err(io::Error::other)?;
        let until = self.values.load(WOKEN_UNTIL).max(woken.until.as_nanos());
        self.values.store(WOKEN_UNTIL, until);
        Ok(())
    }

    /// A made ACK has this number: no lower one leaves any more. Echoes that are being replaced are
    /// still replaced.
    pub fn release(&self, flow: &FlowKey, ack: SeqNum) -> io::Result<()> {
        let before = self
            .woken
            .lookup(&record::key(flow), MapFlags::ANY)
            .map_err(io::Error::other)?;
        let before = before.as_deref().and_then(<[u8]>::first_chunk);
        let now = datapath::now();
        let released = Woken {
            released: ack,
            ..before.map_or_else(|| Woken::nothing_renewed(ack, now), Woken::parse)
        };
        let until = released.until.max(now + RELEASED_FOR);
        self.wake(flow, &Woken { until, ..released })
    }

    /// Orders hold until `deadline`, CLOCK_MONOTONIC. Costs one store.
    pub fn set_orders_until(&self, deadline: Instant) {
        self.values.store(ORDERS_UNTIL, deadline.as_nanos());
    }

    /// The deadline of the orders.
    pub fn orders_until(&self) -> Instant {
        Instant::from_nanos(self.values.load(ORDERS_UNTIL))
    }
}
