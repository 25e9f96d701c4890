// SPDX-License-Identifier: Apache-2.0
//! The kernel's data about a TCP connection, for the owner of its socket.
//!
//! Source: `struct tcp_info` in `include/uapi/linux/tcp.h`, which only ever grows at its
//! end; tcp(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// Bytes that are requested: up to `tcpi_rcv_wnd` of Linux 6.2.
const ASKED_BYTES: usize = 236;
/// `TCP_INFINITE_SSTHRESH` (`include/net/tcp.h`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// A connection at one point in time. A value is 0 if the kernel is too old for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Timeouts since the last ACK of new data: by how much the timer has backed off.
    pub backoff: u8,
    /// Payload of a full segment that it sends, bytes.
    pub snd_mss: u32,
    /// Smoothed round trip, microseconds.
    pub rtt_us: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Slow start threshold, segments; none until there was a loss.
    pub snd_ssthresh: Option<u32>,
    /// The window that the other end advertised last, bytes (Linux 5.4).
    pub snd_wnd: u32,
    /// Bytes acknowledged; the SYN counts where this end sent the first one.
    pub bytes_acked: u64,
    /// Bytes sent, retransmissions too (Linux 4.19).
    pub bytes_sent: u64,
    /// Bytes retransmitted (Linux 4.19).
    pub bytes_retrans: u64,
}

impl TcpInfo {
    /// Reads the kernel's data about the connection of a TCP socket.
    ///
    /// Errors: it is no TCP socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0_u8; ASKED_BYTES];
        let mut len = ASKED_BYTES as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, which are there, and the new
        // length; both outlive the call.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::parse(&bytes))
    }

    /// Bytes sent, without retransmissions.
    pub const fn bytes_sent_once(&self) -> u64 {
        self.bytes_sent.saturating_sub(self.bytes_retrans)
    }

    /// Reads the structure; what was not written is 0.
    fn parse(bytes: &[u8; ASKED_BYTES]) -> Self {
        let u32_at = |at: usize| {
            let mut octets = [0; 4];
            octets.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(octets)
        };
        let u64_at = |at: usize| {
            let mut octets = [0; 8];
            octets.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(octets)
        };
        Self {
            backoff: bytes[4],
            snd_mss: u32_at(16),
            rtt_us: u32_at(68),
            snd_ssthresh: Some(u32_at(76)).filter(|&segments| segments < INFINITE_SSTHRESH),
            snd_cwnd: u32_at(80),
            bytes_acked: u64_at(120),
            bytes_sent: u64_at(200),
            bytes_retrans: u64_at(208),
            snd_wnd: u32_at(228),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener, TcpStream};

    #[test]
    fn a_connection_over_loopback_counts_what_it_sent_and_got_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut to, _) = listener.accept().unwrap();
        from.write_all(&[7; 5000]).unwrap();
        from.shutdown(Shutdown::Write).unwrap();
        let mut read = Vec::new();
        to.read_to_end(&mut read).unwrap();
        // Its FIN shows that all data before has arrived.
        drop(to);
        assert_eq!(from.read(&mut [0; 1]).unwrap(), 0);
        let info = TcpInfo::of(&from).unwrap();
        assert_eq!(info.bytes_sent_once(), 5000, "{info:?}");
        // SYN and FIN.
        assert!((5001..=5002).contains(&info.bytes_acked), "{info:?}");
        assert!(info.rtt_us > 0, "{info:?}");
        assert!(info.snd_wnd > 1000 && info.snd_mss > 500, "{info:?}");
        // On a busy machine an ACK may be late: then the data is retransmitted, and the window is smaller.
        let is_as_at_first = info.snd_cwnd >= 2 && info.snd_ssthresh.is_none();
        assert!(is_as_at_first || info.bytes_retrans > 0, "{info:?}");
        assert!((1..1000).contains(&info.snd_cwnd), "{info:?}");
    }

    #[test]
    fn a_socket_that_is_not_of_tcp_has_none() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }
}
