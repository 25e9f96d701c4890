// SPDX-License-Identifier: Apache-2.0
//! The largest window that a TCP socket advertises: `TCP_WINDOW_CLAMP` of tcp(7).

use std::io::{self, Read};
use std::net::TcpStream;

use crate::syscall::set_option;

/// A buffer of this many windows, which the kernel doubles, does not limit the window, however small the segments.
const BUFFER_WINDOWS: u32 = 4;
/// The largest window without a scale. For a larger window the kernel tunes the buffer, so that is left alone.
const FIXED_WINDOW_MAX: u32 = 0xffff;

/// A connection that is read with a largest window.
///
/// The kernel raises the limit when it enlarges the buffer. So the buffer of a small window has a fixed size. The
/// kernel also raises the limit when a segment is larger than all before it (seen on Linux 6.18 and 7.2). So each
/// read sets the limit anew. Until the next read a large window may be exceeded.
#[derive(Clone, Copy, Debug)]
pub struct ClampedReader<'a> {
    stream: &'a TcpStream,
    /// None: the kernel chooses.
    window_bytes_max: Option<u32>,
}

impl<'a> ClampedReader<'a> {
    /// Reads from `stream`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses a size of the buffer.
    pub fn new(stream: &'a TcpStream, window_bytes_max: Option<u32>) -> io::Result<Self> {
        if let Some(bytes) = window_bytes_max.filter(|bytes| *bytes <= FIXED_WINDOW_MAX) {
            let buffer_bytes = (bytes * BUFFER_WINDOWS) as libc::c_int;
            let set = |option| set_option(stream, libc::SOL_SOCKET, option, buffer_bytes);
            // Without CAP_NET_ADMIN the system's limit holds.
            set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))?;
        }
        Ok(Self {
            stream,
            window_bytes_max,
        })
    }
}

impl Read for ClampedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(bytes) = self.window_bytes_max {
            let bytes = bytes.try_into().unwrap_or(libc::c_int::MAX);
            let (level, option) = (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);
            set_option(self.stream, level, option, bytes)?;
        }
        (&mut &*self.stream).read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;
    use crate::tcp_info::TcpInfo;

    /// The sender's view of the window when the last of 400 kB has been read. All segments have one size.
    fn window_at_the_end(window_bytes_max: Option<u32>) -> u32 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_option(&listener, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 1460).unwrap();
        let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let to = listener.accept().unwrap().0;
        let sender = std::thread::spawn(move || {
            from.write_all(&vec![7; 400_000]).unwrap();
            from
        });
        let mut reader = ClampedReader::new(&to, window_bytes_max)
            .unwrap()
            .take(400_000);
        let read = io::copy(&mut reader, &mut io::sink()).unwrap();
        assert_eq!(read, 400_000);
        let from = sender.join().unwrap();
        TcpInfo::of(&from).unwrap().snd_wnd
    }

    #[test]
    fn the_window_stays_below_its_limit() {
        let free = window_at_the_end(None);
        assert!(free > 50_000, "{free}");
        // The window's scale rounds it up.
        let clamped = window_at_the_end(Some(50_000));
        assert!((1..=50_000 + (1 << 10)).contains(&clamped), "{clamped}");
    }
}
