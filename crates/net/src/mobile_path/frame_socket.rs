// SPDX-License-Identifier: Apache-2.0
//! Sends whole frames on an interface, past its queueing discipline and the tc hooks.
//!
//! Source: packet(7).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use holdfast_core::mobile_host::FLOWS_SERVED_MAX;

use crate::datapath::Interface;
use crate::privileges;
use crate::syscall::{at, check, set_option};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// Frames that one event makes: three for each of the flows that are served.
const FRAMES_AT_ONCE: usize = 3 * FLOWS_SERVED_MAX;
/// Memory that the kernel charges for each frame: 832 bytes (Linux 6.18), and a little more.
const FRAME_BYTES: usize = 1024;

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
        let socket = match privileges::broker() {
            Some(broker) => broker.frame_socket(),
            None => open_frame_socket(),
        };
        Ok(Self::of(socket?, interface))
    }

    /// A socket that another process has opened.
    pub(super) const fn of(socket: OwnedFd, interface: &Interface) -> Self {
        Self {
            socket,
            ifindex: interface.ifindex as i32,
        }
    }

    /// Another descriptor of the socket.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
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

/// Opens a packet socket for [`FrameSocket`].
///
/// Errors: no permission (`CAP_NET_RAW`).
pub(crate) fn open_frame_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // Protocol 0: nothing is received.
    // SAFETY: socket takes no pointers.
    let raw = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    check(raw).map_err(|error| at("packet socket", &error))?;
    // SAFETY: raw was just opened and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)
        .map_err(|error| at("packet socket: no queueing discipline", &error))?;
    receive_nothing(&socket).map_err(|error| at("packet socket: filter", &error))?;
    // If the device queues frames, the default buffer has room for 280. The kernel doubles the
    // value: socket(7).
    let bytes = (FRAMES_AT_ONCE * FRAME_BYTES / 2) as libc::c_int;
    let set_buffer = |option| set_option(&socket, libc::SOL_SOCKET, option, bytes);
    set_buffer(libc::SO_SNDBUFFORCE)
        // Without CAP_NET_ADMIN the system's limit holds.
        .or_else(|_| set_buffer(libc::SO_SNDBUF))
        .map_err(|error| at("packet socket: buffer", &error))?;
    Ok(socket)
}

/// Drops all that the socket may receive, for good: its owner may have no right to read what others
/// receive.
fn receive_nothing(socket: &OwnedFd) -> io::Result<()> {
    // `ret #0`: no octet of any packet.
    let mut nothing = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let filter = libc::sock_fprog {
        len: 1,
        filter: &raw mut nothing,
    };
    // SAFETY: setsockopt reads the program and its one instruction, which outlive the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    check(result)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{NetNs, available_or_skip};

    #[test]
    fn what_one_event_makes_finds_room_on_a_device_that_keeps_it() {
        let test = "what_one_event_makes_finds_room_on_a_device_that_keeps_it";
        if !available_or_skip(test) {
            return;
        }
        let ns = NetNs::new().unwrap();
        // What is sent on `mv` waits in `base`'s queue, counted as the sender's.
        for line in [
            "ip link add base type veth peer name other",
            "ip link set other up",
            "ip link set base up",
            "tc qdisc add dev base root tbf rate 8kbit burst 1600 limit 10mb",
            "ip link add link base name mv type macvlan mode vepa",
            "ip link set mv up",
        ] {
            let (program, arguments) = line.split_once(' ').unwrap();
            let output = ns
                .command(program)
                .args(arguments.split(' '))
                .output()
                .unwrap();
            let may_be_missing = line.contains("tbf") || line.contains("macvlan");
            if !output.status.success() {
                assert!(may_be_missing, "{line}: {output:?}");
                let errors = String::from_utf8_lossy(&output.stderr);
                println!("SKIPPED {test}: {line}: {errors}");
                return;
            }
        }
        let open = || FrameSocket::open(&Interface::query("mv").unwrap()).unwrap();
        let frames = ns.run(open).unwrap();
        let mut frame = [0; 100];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        for number in 0..FRAMES_AT_ONCE {
            let sent = frames.send(&frame, true);
            assert!(sent.is_ok(), "{number}: {sent:?}");
        }
        let more = (0..10 * FRAMES_AT_ONCE).find_map(|_| frames.send(&frame, true).err());
        let kind = more.map(|error| error.kind());
        assert_eq!(kind, Some(io::ErrorKind::WouldBlock), "it does keep them");
    }
}
