// SPDX-License-Identifier: Apache-2.0
//! ACKs as the MH would send them, on its interface.
//!
//! By a packet socket, past the queueing discipline and the tc hooks: neither the host's
//! conntrack, which would take the ACK of a masqueraded flow for a new connection, nor our own
//! program sees them. The next hop is that of the flow's newest segment.
//!
//! Source: packet(7).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use holdfast_core::RECONNECTION_FLAGS;
use holdfast_core::mobile_host::MadeAck;
use holdfast_wire::{Flags, Header, SackBlocks, SeqNum};

use super::NotedFlow;
use super::unreachable::unreachable;
use crate::datapath::Interface;
use crate::syscall::{at, check};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// A packet socket that only sends.
#[derive(Debug)]
pub struct AckSender {
    socket: OwnedFd,
    ifindex: i32,
}

impl AckSender {
    /// Opens the socket for `interface`, of the calling thread's network namespace.
    ///
    /// Errors: no permission (`CAP_NET_RAW`).
    pub fn open(interface: &Interface) -> io::Result<Self> {
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

    /// Sends `copies` of the ACK.
    ///
    /// Errors: those of the interface; `InvalidData` if no such ACK can be made.
    pub fn send(&self, noted: &NotedFlow, ack: MadeAck, copies: u8) -> io::Result<()> {
        let header = made(noted, ack).ok_or(io::ErrorKind::InvalidData)?;
        for _ in 0..copies {
            self.send_frame(header.as_bytes(), header.is_ipv4())?;
        }
        Ok(())
    }

    /// Says so often that the segment which the MH waits for could not be delivered (RFC 6069).
    ///
    /// Errors: as of [`send`](Self::send).
    pub fn send_unreachable(&self, noted: &NotedFlow, copies: u8) -> io::Result<()> {
        let frame = unreachable(noted).ok_or(io::ErrorKind::InvalidData)?;
        for _ in 0..copies {
            self.send_frame(&frame, noted.flow.key.mh.address.is_ipv4())?;
        }
        Ok(())
    }

    fn send_frame(&self, frame: &[u8], is_v4: bool) -> io::Result<()> {
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

/// The ACK with all its headers; none if no packet can have them.
pub(super) fn made(noted: &NotedFlow, ack: MadeAck) -> Option<Header> {
    let flow = &noted.flow;
    let mut header = Header::made(&noted.link, flow.key.mh, flow.key.fh)?;
    header.set_dscp(noted.dscp);
    header.set_seq(flow.snd_nxt);
    header.set_ack(flow.rcv_nxt);
    header.set_flags(match ack {
        MadeAck::Marked => RECONNECTION_FLAGS,
        MadeAck::ZeroWindow | MadeAck::Last | MadeAck::Limited(_) | MadeAck::Wake => Flags::ACK,
    });
    header.set_window(match ack {
        MadeAck::ZeroWindow => 0,
        MadeAck::Marked | MadeAck::Last | MadeAck::Wake => flow.window,
        MadeAck::Limited(edge) => flow.window_until(edge),
    });
    header.set_options(flow.timestamps, &without_dsack(&flow.sack, flow.rcv_nxt));
    header.set_payload_len(0).then(|| {
        header.set_checksum(&[]);
        header
    })
}

/// The blocks without a first one that tells of a duplicate (RFC 2883): said again, it would
/// tell of one more.
pub(super) fn without_dsack(sack: &SackBlocks, rcv_nxt: SeqNum) -> SackBlocks {
    let mut blocks = sack.iter();
    let mut kept = SackBlocks::default();
    if let Some((left, right)) = blocks.next() {
        let within = |(from, to): (SeqNum, SeqNum)| !left.before(from) && !right.after(to);
        let is_duplicate = !right.after(rcv_nxt) || sack.iter().nth(1).is_some_and(within);
        if !is_duplicate {
            kept.push(left, right);
        }
    }
    for (left, right) in blocks {
        kept.push(left, right);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_tells_of_a_duplicate_is_not_said_again() {
        let blocks = |edges: &[(u32, u32)]| {
            let mut blocks = SackBlocks::default();
            for (left, right) in edges {
                blocks.push(SeqNum::new(*left), SeqNum::new(*right));
            }
            blocks
        };
        for (said, again) in [
            (&[(50, 60), (200, 300)][..], &[(200, 300)][..]),
            (&[(210, 220), (200, 300)], &[(200, 300)]),
            (&[(200, 300), (400, 500)], &[(200, 300), (400, 500)]),
            (&[], &[]),
        ] {
            let kept = without_dsack(&blocks(said), SeqNum::new(100));
            assert_eq!(kept, blocks(again));
        }
    }
}
