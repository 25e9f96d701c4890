// SPDX-License-Identifier: Apache-2.0
//! A socket's congestion control, and the cookie of a namespace.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use super::guardian::NAME_BYTES;

/// The cookie of the calling thread's network namespace (Linux 5.14).
pub(super) fn net_cookie() -> io::Result<u64> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fd was just opened and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
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
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cookie)
}

/// `include/uapi/asm-generic/socket.h`.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Makes `socket` use the congestion control `name`.
///
/// # Errors
/// There is none of this name, or the caller may not use it.
pub fn select(socket: impl AsFd, name: &str) -> io::Result<()> {
    // SAFETY: the kernel reads `name.len()` bytes of `name`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The congestion control that `socket` has.
///
/// # Errors
/// It is no TCP socket.
pub fn selected(socket: impl AsFd) -> io::Result<String> {
    let mut name = [0_u8; NAME_BYTES];
    let mut len = NAME_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `name`; both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let ends = name.iter().position(|&byte| byte == 0);
    Ok(String::from_utf8_lossy(&name[..ends.unwrap_or(NAME_BYTES)]).into_owned())
}
