// SPDX-License-Identifier: Apache-2.0
//! Whole frames on an interface, past its queueing discipline and the tc hooks.
//!
//! Source: packet(7).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::datapath::Interface;
use crate::syscall::{at, check};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// A packet socket that only sends.
#[derive(Debug)]
pub(super) struct FrameSocket {
    socket: OwnedFd,
    ifindex: i32,
}

impl FrameSocket {
    /// Opens the socket for `interface`, of the calling thread's network namespace.
    ///
    /// Errors: no permission (`CAP_NET_RAW`).
    pub(super) fn open(interface: &Interface) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0: nothing is received.
        // SAFETY: socket takes no pointers.
        let raw = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        check(raw).map_err(|error| at("packet socket", &error))?;
        // SAFETY: raw was just opened and is owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let yes: libc::c_int = 1;
        // SAFETY: setsockopt reads one int, which outlives the call.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_QDISC_BYPASS,
                (&raw const yes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        })
        .map_err(|error| at("packet socket: no queueing discipline", &error))?;
        Ok(Self {
            socket,
            ifindex: interface.ifindex as i32,
        })
    }

    pub(super) const fn ifindex(&self) -> u32 {
        self.ifindex as u32
    }

    /// Sends a frame with all its headers.
    ///
    /// Errors: those of the interface.
    pub(super) fn send(&self, frame: &[u8], is_v4: bool) -> io::Result<()> {
        let protocol = if is_v4 { ETH_P_IP } else { ETH_P_IPV6 };
        // SAFETY: sockaddr_ll is plain data, for which all zeros is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.ifindex;
        // SAFETY: sendto reads the frame and the address, which outlive the call.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
