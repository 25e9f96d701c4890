// SPDX-License-Identifier: Apache-2.0
//! A netlink socket: requests with their answers, and the kernel's reports.
//!
//! The socket stays in the network namespace in which it was opened. It does not block: wait for its
//! descriptor, then call [`Netlink::receive`] until it returns `None`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

use crate::readiness::wait_readable;

/// The kernel answers at once, if at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A socket of one netlink protocol.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket that receives the reports of the multicast groups in the mask `groups`.
    pub(crate) fn open(protocol: isize, groups: u32) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind(&SocketAddr::new(0, groups))?;
        socket.set_non_blocking(true)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Receives the reports of this multicast group too.
    pub(crate) fn join(&mut self, group: u32) -> io::Result<()> {
        self.socket.add_membership(group)
    }

    /// Requests a list, whose items arrive as reports.
    pub(crate) fn start_dump<T: Into<NetlinkPayload<T>> + NetlinkSerializable>(
        &mut self,
        request: T,
    ) -> io::Result<()> {
        self.send(request, NLM_F_DUMP)
    }

    /// Sends a request. Returns its answers.
    ///
    /// Errors: the kernel's; `TimedOut` without an answer.
    pub(crate) fn request<T>(&mut self, request: T, flags: u16) -> io::Result<Vec<T>>
    where
        T: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<T>>,
    {
        self.send(request, flags | NLM_F_ACK)?;
        let mut answers = Vec::new();
        let mut deadline = Instant::now() + ANSWER_WITHIN;
        loop {
            for message in self.receive::<T>()?.unwrap_or_default() {
                deadline = Instant::now() + ANSWER_WITHIN;
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                if let Some(end) = end_of(&message.payload) {
                    return end.map(|()| answers);
                } else if let NetlinkPayload::InnerMessage(answer) = message.payload {
                    answers.push(answer);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let problem = "netlink: no answer";
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            wait_readable([self.as_fd()], Some(left))?;
        }
    }

    fn send<T: Into<NetlinkPayload<T>> + NetlinkSerializable>(
        &mut self,
        request: T,
        flags: u16,
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut octets = vec![0; message.header.length as usize];
        message.serialize(&mut octets);
        self.socket
            .send_to(&octets, &SocketAddr::new(0, 0), 0)
            .map(drop)
    }

    /// The messages of the kernel's next datagram; `None` if there is none at this moment.
    ///
    /// Errors: `ENOBUFS` if reports were lost, because they were read too late ([`is_overrun`]).
    pub(crate) fn receive<T: NetlinkDeserializable>(
        &self,
    ) -> io::Result<Option<Vec<NetlinkMessage<T>>>> {
        loop {
            match self.socket.recv_from_full() {
                Ok((datagram, from)) if from.port_number() == 0 => {
                    return Ok(Some(messages(&datagram)));
                }
                // Not from the kernel.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether this ends the answers, and with which error.
pub(crate) fn end_of<T>(payload: &NetlinkPayload<T>) -> Option<io::Result<()>> {
    match payload {
        // An error of a dump comes with its end.
        NetlinkPayload::Done(done) if done.code < 0 => {
            Some(Err(io::Error::from_raw_os_error(-done.code)))
        }
        NetlinkPayload::Error(error) if error.code.is_some() => Some(Err(error.to_io())),
        NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => Some(Ok(())),
        _ => None,
    }
}

/// The messages of a datagram. One that cannot be parsed does not hide the others.
pub(crate) fn messages<T: NetlinkDeserializable>(datagram: &[u8]) -> Vec<NetlinkMessage<T>> {
    let mut rest = datagram;
    let mut messages = Vec::new();
    while let Some(length) = rest.first_chunk().copied().map(u32::from_ne_bytes) {
        let length = length as usize;
        let Some(message) = rest.get(..length).filter(|message| !message.is_empty()) else {
            tracing::debug!("netlink: a message longer than its datagram");
            break;
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        match NetlinkMessage::deserialize(message) {
            Ok(message) => messages.push(message),
            Err(error) => tracing::warn!(%error, "netlink: a message is left out"),
        }
    }
    messages
}

/// Whether reports were lost, because they were read too late.
pub(crate) fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}
