// SPDX-License-Identifier: Apache-2.0
//! Loads the congestion control of LC and CWE (`bpf/lccwe.bpf.c`), registers it under a
//! name, and reports handoffs to it.
//!
//! A congestion control is registered for the whole kernel, and any socket may select it
//! by its name (`TCP_CONGESTION`). From Linux 6.4 on the registration is a link: it vanishes
//! with its owner, however the owner ends. Sockets that have selected it keep it. Before 6.4
//! a child process removes the registration of a killed owner (`guardian`).

mod event;
mod guardian;
mod socket;

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::query::{MapInfo, MapInfoIter};
use libbpf_rs::{
    Iter, Link, MapCore as _, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject,
    RingBufferBuilder,
};

pub use event::{Event, EventKind};
use guardian::{Guardian, NAME_BYTES};
use socket::net_cookie;
pub use socket::{select, selected};

use crate::bpf::bpf;
use crate::datapath::monotonic_ns;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lccwe.bpf.o"));

/// The default name.
pub const NAME: &str = "holdfast_lccwe";

/// The map of a registration by a link, and of one without a link.
const LINKED: &str = "lccwe_linked";
const UNLINKED: &str = "lccwe_unlinked";
/// The map of handoffs, and `HANDOFFS_MAX`.
const HANDOFFS: &str = "lccwe_handoffs";
const HANDOFFS_MAX: u32 = 1024;
/// The end in `struct handoff` while the handoff goes on.
const GOES_ON: u64 = u64::MAX;
/// Limit of events that one call returns.
const EVENTS_MAX: usize = 4096;

/// A registered congestion control; its registration goes when this is dropped.
pub struct CongestionControl {
    // Dropped first: the registration before the programs and maps that it uses.
    _registration: Link,
    // None if the registration is a link of the kernel.
    _guardian: Option<Guardian>,
    nudge: Option<Link>,
    object: Object,
    name: String,
    linked: bool,
    /// Handoffs in progress, by their keys: no more than the map has.
    going_on: Mutex<Vec<InterfaceKey>>,
}

/// `struct interface_key`: the network namespace and the interface.
type InterfaceKey = [u8; 16];

impl std::fmt::Debug for CongestionControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CongestionControl")
            .field("name", &self.name)
            .field("linked", &self.linked)
            .field("nudges", &self.nudge.is_some())
            .finish_non_exhaustive()
    }
}

/// The parts of the object that are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    linked: bool,
    nudge: bool,
}

/// From the newest kernels to the oldest.
const ATTEMPTS: [Parts; 3] = [
    Parts {
        linked: true,
        nudge: true,
    },
    Parts {
        linked: false,
        nudge: true,
    },
    Parts {
        linked: false,
        nudge: false,
    },
];

impl CongestionControl {
    /// Loads the programs and registers them as `name`, of at most 15 letters, digits,
    /// `_` and `-`.
    ///
    /// # Errors
    /// One line: what the kernel lacks, or that the name is taken.
    pub fn register(name: &str) -> io::Result<Self> {
        Self::register_by(name, &ATTEMPTS)
    }

    fn register_by(name: &str, attempts: &[Parts]) -> io::Result<Self> {
        check_name(name)?;
        let mut first_error = None;
        for &parts in attempts {
            match load(name, parts) {
                Ok(object) => return Self::attach(object, parts, name),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let error = first_error.unwrap_or_else(|| io::Error::other("nothing was tried"));
        Err(explain(name, &error))
    }

    fn attach(mut object: Object, parts: Parts, name: &str) -> io::Result<Self> {
        let map_name = if parts.linked { LINKED } else { UNLINKED };
        let mut map = object
            .maps_mut()
            .find(|map| map.name() == map_name)
            .ok_or_else(|| io::Error::other("BPF programs: no congestion control"))?;
        // Started before there is a registration to remove.
        let guardian = if parts.linked {
            None
        } else {
            Some(Guardian::start(map.as_fd())?)
        };
        let registration = map.attach_struct_ops().map_err(|error| {
            let taken = error.kind() == libbpf_rs::ErrorKind::AlreadyExists;
            if taken {
                let text = format!("congestion control {name}: the name is taken; choose another one, or end its owner (before Linux 6.4: bpftool struct_ops unregister name {UNLINKED})");
                return io::Error::new(io::ErrorKind::AlreadyExists, text);
            }
            explain(name, &io::Error::other(error.to_string()))
        })?;
        let nudge = if parts.nudge {
            let program = object.progs_mut().find(|program| program.name() == "nudge");
            program.and_then(|program| program.attach().ok())
        } else {
            None
        };
        Ok(Self {
            _registration: registration,
            _guardian: guardian,
            nudge,
            object,
            name: name.to_owned(),
            linked: parts.linked,
            going_on: Mutex::default(),
        })
    }

    /// The name that sockets select it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the registration vanishes with its owner, however the owner ends (Linux 6.4).
    pub const fn is_linked(&self) -> bool {
        self.linked
    }

    /// Whether sockets that have selected it under a former owner receive handoffs. For that
    /// the caller needs CAP_SYS_ADMIN.
    pub fn adopts(&self) -> bool {
        let mut first = 0;
        // SAFETY: the kernel writes a number to `first`.
        let result = unsafe { libbpf_sys::bpf_map_get_next_id(0, &raw mut first) };
        result == 0
    }

    /// Whether its sockets can be made to send at the end of a handoff.
    pub const fn nudges(&self) -> bool {
        self.nudge.is_some()
    }

    /// A handoff of this interface of the calling thread's network namespace begins now.
    /// Sockets see it at once.
    pub fn handoff_started(&self, ifindex: u32) -> io::Result<()> {
        let key = Self::key(ifindex)?;
        self.set_handoff(ifindex, monotonic_ns(), GOES_ON)?;
        self.note_begin(key);
        Ok(())
    }

    /// The handoff that was started last is over: the ambiguous period begins, and our sockets
    /// in the calling thread's namespace try to send. Without a handoff in progress nothing
    /// happens.
    pub fn handoff_finished(&self, ifindex: u32) -> io::Result<()> {
        let Some([start_ns, GOES_ON]) = self.handoff(ifindex)? else {
            return Ok(());
        };
        self.set_handoff(ifindex, start_ns, monotonic_ns())?;
        self.nudge()
    }

    /// Sets a handoff with its begin and end, nanoseconds of CLOCK_MONOTONIC: for a handoff
    /// that was reported late.
    pub fn set_handoff(&self, ifindex: u32, start_ns: u64, finish_ns: u64) -> io::Result<()> {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&start_ns.to_ne_bytes());
        value[8..].copy_from_slice(&finish_ns.to_ne_bytes());
        let key = Self::key(ifindex)?;
        self.handoffs()?
            .update(&key, &value, MapFlags::ANY)
            .map_err(|error| bpf("handoff", &error))?;
        self.note_end(&key);
        Ok(())
    }

    /// An interface has another index now, such as a modem that was unplugged. A handoff that
    /// goes on moves to the new index, and the old index is forgotten.
    pub fn rename(&self, old: u32, new: u32) -> io::Result<()> {
        if let Some([start_ns, GOES_ON]) = self.handoff(old)? {
            self.set_handoff(new, start_ns, GOES_ON)?;
            self.note_begin(Self::key(new)?);
        }
        self.forget(old)
    }

    /// Forgets an interface.
    pub fn forget(&self, ifindex: u32) -> io::Result<()> {
        let key = Self::key(ifindex)?;
        self.note_end(&key);
        match self.handoffs()?.delete(&key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(bpf("handoff", &error))
            }
            _ => Ok(()),
        }
    }

    /// The events since the last call. The ring holds about 600; further ones are lost.
    pub fn events(&self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        let map = self.map("judgements")?;
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&map, |bytes: &[u8]| {
                if events.len() < EVENTS_MAX {
                    events.extend(Event::parse(bytes));
                }
                0
            })
            .map_err(|error| bpf("ring", &error))?;
        let ring = builder.build().map_err(|error| bpf("ring", &error))?;
        ring.consume().map_err(|error| bpf("ring", &error))?;
        drop(ring);
        Ok(events)
    }

    fn note_begin(&self, key: InterfaceKey) {
        let mut going_on = self.going_on.lock().unwrap_or_else(PoisonError::into_inner);
        if !going_on.contains(&key) {
            going_on.push(key);
        }
    }

    fn note_end(&self, key: &InterfaceKey) {
        let mut going_on = self.going_on.lock().unwrap_or_else(PoisonError::into_inner);
        going_on.retain(|other| other != key);
    }

    fn handoff(&self, ifindex: u32) -> io::Result<Option<[u64; 2]>> {
        let value = self
            .handoffs()?
            .lookup(&Self::key(ifindex)?, MapFlags::ANY)
            .map_err(|error| bpf("handoff", &error))?;
        Ok(value.map(|value| {
            [0, 8].map(|at| {
                let mut octets = [0; 8];
                octets.copy_from_slice(&value[at..at + 8]);
                u64::from_ne_bytes(octets)
            })
        }))
    }

    /// Has each of its sockets in the calling thread's namespace try to send.
    fn nudge(&self) -> io::Result<()> {
        let Some(link) = &self.nudge else {
            return Ok(());
        };
        let mut iterator = Iter::new(link).map_err(|error| bpf("iterator", &error))?;
        let mut nothing = [0; 64];
        while iterator.read(&mut nothing)? > 0 {}
        Ok(())
    }

    /// The map's key: `struct interface_key`.
    fn key(ifindex: u32) -> io::Result<InterfaceKey> {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&net_cookie()?.to_ne_bytes());
        key[8..12].copy_from_slice(&ifindex.to_ne_bytes());
        Ok(key)
    }

    fn handoffs(&self) -> io::Result<libbpf_rs::Map<'_>> {
        self.map(HANDOFFS)
    }

    fn map(&self, name: &str) -> io::Result<libbpf_rs::Map<'_>> {
        self.object
            .maps()
            .find(|map| map.name() == name)
            .ok_or_else(|| io::Error::other(format!("BPF programs: no map {name}")))
    }
}

/// Ends the handoffs in progress: sockets keep the programs and the map. (A killed owner's
/// handoff ends by itself, `HANDOFF_NS_MAX` after its begin.)
impl Drop for CongestionControl {
    fn drop(&mut self) {
        let mut going_on = self.going_on.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = std::mem::take(&mut *going_on);
        drop(going_on);
        let Ok(handoffs) = self.handoffs() else {
            return;
        };
        for key in keys {
            if let Ok(Some(mut value)) = handoffs.lookup(&key, MapFlags::ANY) {
                value[8..16].copy_from_slice(&monotonic_ns().to_ne_bytes());
                // It fails only if the entry was removed, and then there is no handoff.
                let _ = handoffs.update(&key, &value, MapFlags::EXIST);
            }
        }
    }
}

/// Errors: the kernel takes no congestion control of this name.
pub fn check_name(name: &str) -> io::Result<()> {
    let is_name = (1..NAME_BYTES).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_name {
        return Ok(());
    }
    let text = format!("got {name:?}, takes a name of 1 to 15 letters, digits, `_` and `-`");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// A checked name with zeros behind it.
fn padded(name: &str) -> [u8; NAME_BYTES] {
    let mut padded = [0; NAME_BYTES];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    padded
}

fn load(name: &str, parts: Parts) -> io::Result<Object> {
    let mut open = open(name)?;
    let known = known_handoffs();
    for mut map in open.maps_mut() {
        if let (Some(known), HANDOFFS) = (&known, map.name().to_str().unwrap_or_default()) {
            map.reuse_fd(known.as_fd())
                .map_err(|error| bpf("handoffs", &error))?;
        }
        let is_wanted = match map.name().to_str() {
            Some(LINKED) => parts.linked,
            Some(UNLINKED) => !parts.linked,
            _ => continue,
        };
        map.set_autocreate(is_wanted)
            .map_err(|error| bpf("map", &error))?;
    }
    for mut program in open.progs_mut() {
        match program.name().to_str() {
            Some("nudge") => program.set_autoload(parts.nudge),
            Some("vector") => program.set_autoload(false),
            _ => {}
        }
    }
    open.load().map_err(|error| bpf("load", &error))
}

/// The map of another owner, former or present. None if no socket or owner holds it any more, or the
/// kernel does not let the caller find it (`adopts`). Owners can share it: keys have the namespace in them.
fn known_handoffs() -> Option<MapHandle> {
    let size = size_of::<InterfaceKey>() as u32;
    let is_it = |info: &MapInfo| {
        let sizes = (info.key_size, info.value_size, info.max_entries);
        info.name == HANDOFFS && info.ty == MapType::LruHash && sizes == (size, size, HANDOFFS_MAX)
    };
    let found = MapInfoIter::default().find(is_it)?;
    // It may have ended in the meantime.
    MapHandle::from_map_id(found.id).ok()
}

/// The object with `name` written into it.
fn open(name: &str) -> io::Result<OpenObject> {
    libbpf_rs::set_print(None);
    let mut open = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(|error| bpf("open", &error))?;
    let name = padded(name);
    let mut written = 0;
    for mut map in open.maps_mut() {
        let map_name = map.name().to_string_lossy().into_owned();
        let Some(value) = map.initial_value_mut() else {
            continue;
        };
        let at = if map_name.ends_with(".rodata") && value.len() == NAME_BYTES {
            Some(0)
        } else if map_name == LINKED || map_name == UNLINKED {
            let is_placeholder = |bytes: &[u8]| bytes.starts_with(NAME.as_bytes());
            value.windows(NAME_BYTES).position(is_placeholder)
        } else {
            continue;
        };
        if let Some(at) = at {
            value[at..at + NAME_BYTES].copy_from_slice(&name);
            written += 1;
        }
    }
    if written == 3 {
        return Ok(open);
    }
    Err(io::Error::other("BPF programs: no field for the name"))
}

/// One line on why the kernel refuses it.
fn explain(name: &str, error: &io::Error) -> io::Error {
    let why = if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        "this kernel has no type information (CONFIG_DEBUG_INFO_BTF); ".to_owned()
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; ".to_owned()
    } else {
        "this kernel may lack BPF struct_ops (CONFIG_BPF_JIT, Linux 6.1); ".to_owned()
    };
    let text = format!("congestion control {name}: not registered: {why}{error}");
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
pub(crate) mod tests;
