// SPDX-License-Identifier: Apache-2.0
//! A socket's congestion control, and the cookie of a namespace.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::syscall::check;

/// The cookie of the calling thread's network namespace (Linux 5.14).
pub(super) fn net_cookie() -> io::Result<u64> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `cookie`; both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    check(result)?;
    Ok(cookie)
}

/// `include/uapi/asm-generic/socket.h`.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Makes `socket` use the congestion control `name`.
///
/// # Errors
/// There is none of this name, or the caller may not use it.
pub fn select(socket: impl AsFd, name: &str) -> io::Result<()> {
    Ok(set_tcp_congestion(socket, name)?)
}

/// The congestion control that `socket` has.
///
/// # Errors
/// It is no TCP socket.
pub fn selected(socket: impl AsFd) -> io::Result<String> {
    Ok(tcp_congestion(socket)?)
}
