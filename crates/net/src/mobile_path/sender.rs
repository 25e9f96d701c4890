// SPDX-License-Identifier: Apache-2.0
//! ACKs as the MH would send them, on its interface.
//!
//! A packet socket sends them past the queueing discipline and the tc hooks. So our own program does
//! not see them, nor does conntrack, which would take the ACK of a masqueraded flow for a new
//! connection. They go to the next hop of the flow's newest segment. If the present next hop is another
//! one, they go there too (`next_hop`).
//!
//! Source: packet(7).

use std::io;
use std::os::fd::RawFd;
use std::process::Command;
use std::sync::Arc;

use holdfast_core::RECONNECTION_FLAGS;
use holdfast_core::mobile_host::MadeAck;
use holdfast_wire::{Flags, Header, SackBlocks, SeqNum, unreachable};

use super::NotedFlow;
use super::frame_socket::FrameSocket;
use super::next_hop::{NextHops, Sent};
use crate::datapath::Interface;
use crate::privileges::{duplicate, lend_descriptor};
use crate::syscall::at;
use crate::tun::LayerKind;

/// Sends made ACKs on one interface.
#[derive(Debug)]
pub struct AckSender {
    frames: Arc<FrameSocket>,
    /// None: the link layer has no addresses.
    next_hops: Option<NextHops>,
}

impl AckSender {
    /// Opens the sockets for `interface`, of the calling thread's network namespace.
    ///
    /// Errors: no permission (`CAP_NET_RAW`).
    pub fn open(interface: &Interface) -> io::Result<Self> {
        Self::by(FrameSocket::open(interface)?, interface)
    }

    /// Lends the packet socket to the process that `command` starts, which finds it under the returned
    /// number.
    ///
    /// Errors: no descriptor is free.
    pub fn lend(&self, command: &mut Command) -> io::Result<RawFd> {
        Ok(lend_descriptor(command, self.frames.descriptor()?))
    }

    /// As [`AckSender::open`], with the packet socket that the parent process has lent.
    ///
    /// Errors: there is no such descriptor, or it is something else.
    pub fn inherited(lent: RawFd, interface: &Interface) -> io::Result<Self> {
        Self::by(FrameSocket::of(duplicate(lent)?, interface), interface)
    }

    fn by(frames: FrameSocket, interface: &Interface) -> io::Result<Self> {
        let frames = Arc::new(frames);
        let next_hops = match interface.kind {
            LayerKind::Ethernet => {
                let next_hops = NextHops::start(Arc::clone(&frames));
                Some(next_hops.map_err(|error| at("neighbours of the interface", &error))?)
            }
            LayerKind::RawIp => None,
        };
        Ok(Self { frames, next_hops })
    }

    /// Sends `copies` of the ACK.
    ///
    /// Errors: those of the interface; `InvalidData` if no such ACK can be made.
    pub fn send(&self, noted: &NotedFlow, ack: MadeAck, copies: u8) -> io::Result<()> {
        let header = made(noted, ack).ok_or(io::ErrorKind::InvalidData)?;
        for _ in 0..copies {
            // A late zero window would close a window that has opened meanwhile.
            self.send_frame(noted, header.as_bytes(), ack != MadeAck::ZeroWindow)?;
        }
        Ok(())
    }

    /// Sends a keep-alive probe: a segment below the FH's window. The FH takes no data from it and answers
    /// with an ACK (RFC 9293, 3.10.7.4; RFC 1122, 4.2.3.6), whatever data of the MH is in flight.
    ///
    /// Errors: as of [`send`](Self::send).
    pub fn probe(&self, noted: &NotedFlow) -> io::Result<()> {
        let mut probe = noted.clone();
        probe.flow.snd_nxt = noted.fh_ack - 1;
        let header = made(&probe, MadeAck::Last).ok_or(io::ErrorKind::InvalidData)?;
        // A late probe would be answered instead of a newer one.
        self.send_frame(noted, header.as_bytes(), false)
    }

    /// Sends `copies` of a report that the segment which the MH waits for was not delivered (RFC 6069).
    ///
    /// Errors: as of [`send`](Self::send).
    pub fn send_unreachable(&self, noted: &NotedFlow, copies: u8) -> io::Result<()> {
        let flow = &noted.flow;
        let (fh, mh) = (flow.key.fh, flow.key.mh);
        let frame = unreachable(&noted.link, fh, mh, flow.rcv_nxt);
        let frame = frame.ok_or(io::ErrorKind::InvalidData)?;
        for _ in 0..copies {
            self.send_frame(noted, &frame, true)?;
        }
        Ok(())
    }

    fn send_frame(&self, noted: &NotedFlow, frame: &[u8], may_be_late: bool) -> io::Result<()> {
        let key = &noted.flow.key;
        self.frames.send(frame, key.mh.address.is_ipv4())?;
        if let Some(next_hops) = &self.next_hops {
            next_hops.follow(Sent {
                ends: [key.mh.address, key.fh.address],
                frame: frame.to_vec(),
                may_be_late,
            });
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
        MadeAck::ZeroWindow | MadeAck::Last | MadeAck::Limited(_) => Flags::ACK,
    });
    header.set_window(match ack {
        MadeAck::ZeroWindow => 0,
        MadeAck::Marked | MadeAck::Last => flow.window,
        MadeAck::Limited(edge) => flow.window_until(edge),
    });
    header.set_options(flow.timestamps, &without_dsack(&flow.sack, flow.rcv_nxt));
    header.set_payload_len(0).then(|| {
        header.set_checksum(&[]);
        header
    })
}

/// The SACK blocks without a D-SACK (RFC 2883): repeated, it would report a second duplicate.
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
    fn a_block_that_reports_a_duplicate_is_not_repeated() {
        let blocks = |edges: &[(u32, u32)]| {
            let mut blocks = SackBlocks::default();
            for (left, right) in edges {
                blocks.push(SeqNum::new(*left), SeqNum::new(*right));
            }
            blocks
        };
        for (sent, again) in [
            (&[(50, 60), (200, 300)][..], &[(200, 300)][..]),
            (&[(210, 220), (200, 300)], &[(200, 300)]),
            (&[(200, 300), (400, 500)], &[(200, 300), (400, 500)]),
            (&[], &[]),
        ] {
            let kept = without_dsack(&blocks(sent), SeqNum::new(100));
            assert_eq!(kept, blocks(again));
        }
    }
}
