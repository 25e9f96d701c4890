// SPDX-License-Identifier: Apache-2.0
//! A TUN or TAP device, owned by its file descriptor.
//!
//! The device lives in the network namespace of the thread that created it
//! and vanishes with the last descriptor: nothing is left behind, whatever
//! ends the process. Descriptors are close-on-exec, or a child would keep the
//! device alive after its owner's death.
//!
//! Source: `Documentation/networking/tuntap.rst` and `include/uapi/linux/if_tun.h`.

use std::ffi::{c_int, c_uint, c_ulong};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};

use crate::syscall::{at, check};

/// Octets of the `virtio_net_hdr` before each frame of a device with offloads.
pub const VNET_HDR_BYTES: usize = 10;

/// What a frame of the device starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayerKind {
    /// The IP header (a TUN device).
    RawIp,
    /// The Ethernet header (a TAP device).
    Ethernet,
}

impl LayerKind {
    /// Octets of the link layer's header.
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::RawIp => 0,
            Self::Ethernet => 14,
        }
    }
}

/// How a device is to be created; every field but the name has a default.
#[derive(Clone, Debug)]
pub struct TunOptions {
    /// The device's name, at most 15 octets; one `%d` is replaced by the first
    /// number that is free.
    pub name: String,
    /// What a frame starts with.
    pub kind: LayerKind,
    /// Super-segments come whole: a `virtio_net_hdr` before each frame
    /// ([`VNET_HDR_BYTES`]), checksums and TSO for IPv4 and IPv6, with ECN.
    /// False: frames are as on a wire.
    pub offload: bool,
    /// Frames that may wait for a read; the kernel drops further frames. None:
    /// the kernel's default (500 for TUN, 1000 for TAP).
    pub queue_len: Option<u32>,
    /// The device's MTU in octets; none: the kernel's default (1500).
    pub mtu: Option<u32>,
    /// Whether to bring the device up at once.
    pub up: bool,
}

impl Default for TunOptions {
    fn default() -> Self {
        Self {
            name: "tun%d".into(),
            kind: LayerKind::RawIp,
            offload: false,
            queue_len: None,
            mtu: None,
            up: false,
        }
    }
}

/// An open TUN or TAP device, non-blocking.
///
/// [`Tun::read`] and [`Tun::write`] move one frame a call and return
/// [`io::ErrorKind::WouldBlock`] when there is none or no room.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    ifindex: u32,
    kind: LayerKind,
}

impl Tun {
    /// Creates a device in the calling thread's network namespace.
    ///
    /// Errors: the name is too long or taken, `/dev/net/tun` is missing, or
    /// `CAP_NET_ADMIN` is; the message names the step that failed.
    pub fn create(options: &TunOptions) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(|error| at("open /dev/net/tun", &error))?;
        let mut request = named_request(&options.name)?;
        let mut flags = libc::IFF_NO_PI;
        flags |= match options.kind {
            LayerKind::RawIp => libc::IFF_TUN,
            LayerKind::Ethernet => libc::IFF_TAP,
        };
        if options.offload {
            flags |= libc::IFF_VNET_HDR;
        }
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        check(result).map_err(|error| at(&format!("create device {}", options.name), &error))?;
        if options.offload {
            enable_offload(&file).map_err(|error| at("set the device's offloads", &error))?;
        }
        let name = request_name(&request);
        let ifindex = query_ifindex(&name).map_err(|error| at("query the device", &error))?;
        let tun = Self {
            file,
            name,
            ifindex,
            kind: options.kind,
        };
        if let Some(frames) = options.queue_len {
            tun.configure(libc::SIOCSIFTXQLEN, |request| {
                request.ifr_ifru.ifru_metric = frames as c_int;
            })?;
        }
        if let Some(octets) = options.mtu {
            tun.set_mtu(octets)?;
        }
        if options.up {
            tun.set_up()?;
        }
        Ok(tun)
    }

    /// A device that another process has made.
    pub(crate) fn of_descriptor(
        descriptor: OwnedFd,
        name: String,
        ifindex: u32,
        kind: LayerKind,
    ) -> Self {
        Self {
            file: descriptor.into(),
            name,
            ifindex,
            kind,
        }
    }

    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.file.into()
    }

    /// The device's name, with `%d` replaced.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's index in its namespace.
    pub const fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// What a frame of this device starts with.
    pub const fn kind(&self) -> LayerKind {
        self.kind
    }

    /// Sets the carrier that the rest of the system sees.
    pub fn set_carrier(&self, carrier: bool) -> io::Result<()> {
        let value = c_int::from(carrier);
        // SAFETY: TUNSETCARRIER reads one int, which outlives the call.
        let result =
            unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETCARRIER, &raw const value) };
        check(result).map_err(|error| at(&format!("set carrier of {}", self.name), &error))
    }

    /// Sets the link type that the rest of the system sees: `ARPHRD_*` of
    /// `include/uapi/linux/if_arp.h`. Errors: the device is up.
    pub fn set_link_type(&self, link_type: u16) -> io::Result<()> {
        // SAFETY: TUNSETLINK takes its argument by value.
        let result = unsafe {
            libc::ioctl(
                self.file.as_raw_fd(),
                libc::TUNSETLINK,
                c_int::from(link_type),
            )
        };
        check(result).map_err(|error| at(&format!("set link type of {}", self.name), &error))
    }

    /// Sets the device's MTU in octets; from a thread in its namespace.
    pub fn set_mtu(&self, octets: u32) -> io::Result<()> {
        self.configure(libc::SIOCSIFMTU, |request| {
            request.ifr_ifru.ifru_mtu = octets as c_int;
        })
    }

    /// Brings the device up; from a thread in its namespace.
    pub fn set_up(&self) -> io::Result<()> {
        self.configure(libc::SIOCSIFFLAGS, |request| {
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        })
    }

    /// Reads one frame, after its `virtio_net_hdr` if the device has offloads.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Writes one frame, after its `virtio_net_hdr` if the device has offloads.
    pub fn write(&self, frame: &[u8]) -> io::Result<usize> {
        (&self.file).write(frame)
    }

    /// Writes one frame that is scattered over `parts`.
    pub fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.file).write_vectored(parts)
    }

    fn configure(&self, call: c_ulong, set: impl FnOnce(&mut libc::ifreq)) -> io::Result<()> {
        let mut request = named_request(&self.name)?;
        set(&mut request);
        interface_ioctl(call, &mut request)
            .map_err(|error| at(&format!("configure device {}", self.name), &error))
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// An `ifreq` for the interface `name`, the rest zero.
pub(crate) fn named_request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("interface name {name:?}: takes 1 to 15 octets"),
        ));
    }
    // SAFETY: ifreq is plain data, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// One `SIOC...` call on a fresh socket of the calling thread's namespace.
pub(crate) fn interface_ioctl(call: c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    // With musl the number of a call is an int.
    let call = call as libc::Ioctl;
    // SAFETY: the SIOC[GS]IF... calls read and write one ifreq, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), call, std::ptr::from_mut(request)) })
}

/// The index of the interface `name` in the calling thread's namespace.
pub fn query_ifindex(name: &str) -> io::Result<u32> {
    let mut request = named_request(name)?;
    interface_ioctl(libc::SIOCGIFINDEX, &mut request)?;
    // SAFETY: SIOCGIFINDEX filled the union's ifindex.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
}

/// The name of the interface with this index in the calling thread's namespace.
pub(crate) fn interface_name(ifindex: u32) -> io::Result<String> {
    // SAFETY: ifreq is plain data, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = ifindex as c_int;
    interface_ioctl(libc::SIOCGIFNAME, &mut request)?;
    Ok(request_name(&request))
}

/// Segmentation of UDP (`include/uapi/linux/if_tun.h`).
const TUN_F_USO4: c_uint = 0x20;
const TUN_F_USO6: c_uint = 0x40;

fn enable_offload(file: &File) -> io::Result<()> {
    let header_bytes = VNET_HDR_BYTES as c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one int, which outlives the call.
    check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETVNETHDRSZ,
            &raw const header_bytes,
        )
    })?;
    let of_tcp: c_uint =
        libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let set = |offloads: c_uint| {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        check(unsafe {
            libc::ioctl(
                file.as_raw_fd(),
                libc::TUNSETOFFLOAD,
                c_ulong::from(offloads),
            )
        })
    };
    // Before Linux 6.2 super-packets of UDP come cut into their datagrams.
    set(of_tcp | TUN_F_USO4 | TUN_F_USO6).or_else(|_| set(of_tcp))
}

fn request_name(request: &libc::ifreq) -> String {
    request
        .ifr_name
        .iter()
        .take_while(|&&octet| octet != 0)
        .map(|&octet| char::from(octet as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_refused_with_its_limit() {
        let error = named_request("sixteen-letters-").unwrap_err();
        assert!(error.to_string().contains("1 to 15 octets"), "{error}");
        assert!(named_request("fifteen-letters").is_ok());
    }
}
