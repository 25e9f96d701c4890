// SPDX-License-Identifier: Apache-2.0
//! The capabilities: a daemon's packet process drops them, and its broker process keeps them.
//!
//! The daemon reads packets from anywhere, so it should not be able to do more than it needs. But an
//! interface that was removed and is there again needs new devices and programs. So the daemon
//! starts a broker, its own program once more, and drops its capabilities ([`hand_over`]). The broker
//! ([`crate::broker`]) receives no packet. It makes devices, loads programs, attaches them to the
//! interfaces of its command line, and opens packet sockets. It passes descriptors of devices, maps,
//! links and sockets back (`SCM_RIGHTS`), and keeps the programs: a program's descriptor could be
//! attached to any interface (TCX needs no capability for that). The broker ends when the daemon and
//! its guard have ended.
//!
//! The rest of this crate calls `broker` at each step that needs a capability. Without a broker (a
//! check, the laboratory, a kernel before [`KERNEL_MIN`]) the process does the step itself.
//!
//! Sources: capabilities(7), unix(7).

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

use crate::syscall::at;

mod client;
mod message;
#[cfg(test)]
mod tests;

pub use client::LOST;
pub(crate) use client::{Attached, Client, Loaded, is_end};
pub(crate) use message::{Answer, Request, receive, send};

/// This program, even if its file was replaced by another version.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// From this kernel on, a process with a map's descriptor may use the map without `CAP_BPF`.
pub const KERNEL_MIN: (u32, u32) = (5, 19);

/// The capabilities that a daemon of root keeps: its files may belong to others, and a reload may open low
/// ports. The units have none of these.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// What a broker needs: devices, filters and neighbours; programs; packet sockets.
const NEEDED: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::NET_RAW);

static BROKER: OnceLock<Client> = OnceLock::new();

/// The broker of this process; none: this process does everything itself.
pub(crate) fn broker() -> Option<&'static Client> {
    BROKER.get()
}

/// Starts a broker and drops the capabilities of the calling thread. The threads that it starts later have
/// none either. A thread that runs already must call [`drop_capabilities`].
///
/// `arguments` are those that make this program call [`crate::broker::run`]. A program of the operator
/// that moves routes needs `CAP_NET_ADMIN`: the daemon keeps it if `moves_routes`. A process without
/// capabilities starts no broker. False: the kernel is too old, and nothing has changed.
///
/// Errors: the broker cannot be started, or the capabilities cannot be dropped; one line.
pub fn hand_over(arguments: &[String], moves_routes: bool) -> io::Result<bool> {
    let kernel = rustix::system::uname();
    if !is_new_enough(&kernel.release().to_string_lossy()) {
        return Ok(false);
    }
    if !capabilities(None)?.effective.intersects(NEEDED) {
        return Ok(true);
    }
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let mut command = Command::new(OWN_PROGRAM);
    command
        .arg0("holdfast")
        .args(arguments)
        // A signal to the daemon's process group is not meant for it.
        .process_group(0)
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null());
    command
        .spawn()
        .map_err(|error| at("the broker process cannot be started", &error))?;
    let for_routes = if moves_routes {
        CapabilitySet::NET_ADMIN
    } else {
        CapabilitySet::empty()
    };
    let step = "capabilities cannot be dropped; the unit's SystemCallFilter has to allow capset";
    drop_all_but(KEPT | for_routes).map_err(|error| at(step, &error))?;
    // A daemon calls this once.
    let _ = BROKER.set(Client::new(ours));
    Ok(true)
}

/// Whether the broker has ended: then no interface can be attached to any more.
pub fn has_lost_broker() -> bool {
    broker().is_some_and(Client::is_lost)
}

/// Drops the capabilities of the calling thread, but for those over files and low ports. It and what it
/// executes get no others any more, also as root.
///
/// Errors: the kernel's; a filter of system calls without capset(2).
pub fn drop_capabilities() -> io::Result<()> {
    drop_all_but(KEPT)
}

/// In a broker: drops what no broker needs, and what this one does not.
pub(crate) fn keep_needed(opens_packet_sockets: bool) -> io::Result<()> {
    drop_all_but(if opens_packet_sockets {
        NEEDED
    } else {
        NEEDED - CapabilitySet::NET_RAW
    })
}

fn drop_all_but(kept: CapabilitySet) -> io::Result<()> {
    // A program that gained capabilities when it was executed would not end with its daemon.
    set_no_new_privs(true)?;
    let before = capabilities(None)?;
    let kept = before.permitted & kept;
    set_capabilities(
        None,
        CapabilitySets {
            effective: before.effective & kept,
            permitted: kept,
            inheritable: before.inheritable & kept,
        },
    )?;
    Ok(())
}

/// Whether a map's descriptor is enough in the kernel of this release: `6.18.44-amd64`.
fn is_new_enough(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    next()
        .zip(next())
        .is_some_and(|found: (u32, u32)| found >= KERNEL_MIN)
}

/// The number of a descriptor for the process that `command` starts, which calls [`adopt`] with it: it
/// may send requests that have no answer to the broker. None: there is no broker.
///
/// Errors: no descriptor is free.
pub fn lend(command: &mut Command) -> io::Result<Option<RawFd>> {
    let Some(broker) = broker() else {
        return Ok(None);
    };
    let own = broker.as_fd().try_clone_to_owned()?;
    Ok(Some(lend_descriptor(command, own)))
}

/// Uses the broker that this process's parent has lent to it, and drops the capabilities.
///
/// Errors: there is no such descriptor; as of [`drop_capabilities`].
pub fn adopt(lent: RawFd) -> io::Result<()> {
    let socket = duplicate(lent)?;
    drop_capabilities()?;
    let _ = BROKER.set(Client::new(socket));
    Ok(())
}

/// The process that `command` starts finds this descriptor under the returned number; no other does.
pub(crate) fn lend_descriptor(command: &mut Command, lent: OwnedFd) -> RawFd {
    let number = lent.as_raw_fd();
    let keep_open = move || Ok(fcntl_setfd(&lent, FdFlags::empty())?);
    // SAFETY: the closure runs between fork and exec and makes one async-signal-safe call; it
    // allocates nothing.
    unsafe { command.pre_exec(keep_open) };
    number
}

/// A descriptor of our own for a lent one. Neither is inherited by processes that this one starts.
///
/// Errors: there is no descriptor with this number.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    /// Standard input, output and error are below.
    const FD_MIN: RawFd = 3;

    if number < 0 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: the kernel refuses a number that is no descriptor.
    let lent = unsafe { BorrowedFd::borrow_raw(number) };
    let own = fcntl_dupfd_cloexec(lent, FD_MIN)?;
    fcntl_setfd(lent, FdFlags::CLOEXEC)?;
    Ok(own)
}
