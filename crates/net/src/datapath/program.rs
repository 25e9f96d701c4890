// SPDX-License-Identifier: Apache-2.0
//! Loads the BPF programs and attaches them.
//!
//! By TCX links where the kernel has them (6.6): those detach with their
//! owner, however it ends. Else as clsact filters, which outlive a killed owner;
//! the heartbeat then makes them pass everything on, and a successor replaces
//! them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{
    MapCore, MapHandle, Object, ObjectBuilder, TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHook,
    TcHookBuilder,
};

use super::OWN_MARK_BASE;
use crate::tun::LayerKind;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gateway.bpf.o"));

/// Descriptors from this number on are links; see [`raise`].
const LINK_FD_MIN: i32 = 512;
/// Where our clsact filters stand, and by what a successor finds them.
const CLSACT_PRIORITY: u32 = 1;
const CLSACT_HANDLE: u32 = 0x4846;

/// How the programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachMode {
    /// TCX links, or clsact filters where the kernel has none.
    #[default]
    Auto,
    /// Clsact filters.
    Clsact,
}

/// What the programs are loaded with: `struct settings` of the C source.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramSettings {
    pub(super) heartbeat_max_age_ns: u64,
    pub(super) wireless_ifindex: u32,
    pub(super) down_ifindex: u32,
    pub(super) up_ifindex: u32,
    pub(super) kind: LayerKind,
    /// Frames given back downlink with this DSCP go ahead of others.
    pub(super) ahead_dscp: Option<u8>,
}

/// No DSCP: more than six bits.
const NO_DSCP: u32 = u32::MAX;

impl ProgramSettings {
    fn emit(&self) -> [u8; 32] {
        let link_header_bytes = match self.kind {
            LayerKind::Ethernet => 14_u32,
            LayerKind::RawIp => 0,
        };
        let mut octets = [0; 32];
        octets[..8].copy_from_slice(&self.heartbeat_max_age_ns.to_ne_bytes());
        let words = [
            self.wireless_ifindex,
            self.down_ifindex,
            self.up_ifindex,
            link_header_bytes,
            OWN_MARK_BASE | (self.up_ifindex & 0xffff),
            self.ahead_dscp.map_or(NO_DSCP, u32::from),
        ];
        for (to, word) in octets[8..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        octets
    }
}

/// The loaded programs and maps, before they are attached.
pub(super) struct Programs {
    object: Object,
}

impl Programs {
    pub(super) fn load(settings: &ProgramSettings) -> io::Result<Self> {
        silence_libbpf();
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(|e| bpf("open", &e))?;
        let octets = settings.emit();
        let mut rodata = open
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(".rodata"))
            .ok_or_else(|| io::Error::other("BPF programs: no settings section"))?;
        let value = rodata
            .initial_value_mut()
            .filter(|value| value.len() == octets.len())
            .ok_or_else(|| io::Error::other("BPF programs: settings of another size"))?;
        value.copy_from_slice(&octets);
        let object = open.load().map_err(|error| bpf("load", &error))?;
        Ok(Self { object })
    }

    pub(super) fn map(&self, name: &str) -> io::Result<MapHandle> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == name)
            .ok_or_else(|| io::Error::other(format!("BPF programs: no map {name}")))?;
        MapHandle::try_from(&map).map_err(|error| bpf("map", &error))
    }

    /// Attaches the program `name` to the interface `ifindex`, before all others.
    pub(super) fn attach(
        &self,
        name: &str,
        ifindex: u32,
        side: HookSide,
        mode: AttachMode,
    ) -> io::Result<Hook> {
        let program = self
            .object
            .progs()
            .find(|program| program.name() == name)
            .ok_or_else(|| io::Error::other(format!("BPF programs: no program {name}")))?;
        if mode == AttachMode::Auto {
            match attach_tcx(program.as_fd().as_raw_fd(), ifindex, side) {
                Ok(link) => return Ok(Hook::Tcx(link)),
                // A kernel without TCX does not know the attach type.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
            }
        }
        let mut hook = TcHookBuilder::new(program.as_fd())
            .ifindex(ifindex as i32)
            .replace(true)
            .handle(CLSACT_HANDLE)
            .priority(CLSACT_PRIORITY)
            .hook(side.point());
        hook.create().map_err(|error| bpf("clsact", &error))?;
        hook.attach()
            .map_err(|error| bpf("clsact filter", &error))?;
        Ok(Hook::Clsact(hook))
    }
}

/// On which way of an interface a program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookSide {
    Ingress,
    Egress,
}

impl HookSide {
    const fn point(self) -> TcAttachPoint {
        match self {
            Self::Ingress => TC_INGRESS,
            Self::Egress => TC_EGRESS,
        }
    }
}

/// An attached program; detached when dropped.
#[derive(Debug)]
pub(super) enum Hook {
    Tcx(#[expect(dead_code, reason = "held for its drop")] OwnedFd),
    Clsact(TcHook),
}

// SAFETY: TcHook is plain data (an index, numbers); it is not Send only because
// of a pointer that libbpf reserves in its options and that is null here.
unsafe impl Send for Hook {}

impl Hook {
    pub(super) const fn is_tcx(&self) -> bool {
        matches!(self, Self::Tcx(_))
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if let Self::Clsact(hook) = self {
            // It fails when the interface is gone, and then there is nothing to do.
            let _ = hook.detach();
        }
    }
}

fn attach_tcx(program: i32, ifindex: u32, side: HookSide) -> io::Result<OwnedFd> {
    let attach_type = match side {
        HookSide::Ingress => libbpf_sys::BPF_TCX_INGRESS,
        HookSide::Egress => libbpf_sys::BPF_TCX_EGRESS,
    };
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: the options outlive the call, and their unused part is zero.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program, ifindex as i32, attach_type, &raw const options)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: fd was just opened and is owned by nobody else.
    Ok(raise(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Moves a link's descriptor above those of the devices.
///
/// When a process dies the kernel closes descriptors in ascending order, but
/// releases what is behind them in the opposite one. The links must go before the
/// devices, or redirected frames are dropped in between.
fn raise(link: OwnedFd) -> OwnedFd {
    // SAFETY: F_DUPFD_CLOEXEC takes no pointers.
    let fd = unsafe { libc::fcntl(link.as_raw_fd(), libc::F_DUPFD_CLOEXEC, LINK_FD_MIN) };
    if fd < 0 {
        return link;
    }
    // SAFETY: fd was just opened and is owned by nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn bpf(step: &str, error: &libbpf_rs::Error) -> io::Error {
    let kind = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("BPF programs: {step}: {error}"))
}

/// Keeps libbpf from writing to standard error; what matters is in the errors.
fn silence_libbpf() {
    libbpf_rs::set_print(None);
}
