// SPDX-License-Identifier: Apache-2.0
//! The Wi-Fi of an interface, by nl80211: its access point and how strong
//! the signal is, when it leaves one access point and joins another.
//!
//! A station's view alone: events of the multicast groups `mlme` and `config`, the signal by
//! asking. Both sockets stay in the namespace in which they were opened, and do not block.
//! Nothing is changed, but the threshold of [`WifiMonitor::set_threshold`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::nlas::{GenlCtrlAttrs, McastGrpAttrs};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

use crate::datapath::Interface;
use crate::readiness::wait_readable;

mod codec;
#[cfg(test)]
mod tests;

use codec::Message;
pub use codec::{StationSignal, WifiEvent};

/// Multicast groups for a station's connections; events come by one of them.
const GROUPS: [&str; 2] = ["mlme", "config"];
/// The kernel answers at once, if at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Events kept while one is asked for.
const PENDING_MAX: usize = 256;

/// The Wi-Fi of one interface.
#[derive(Debug)]
pub struct WifiMonitor {
    events: Socket,
    requests: Socket,
    family: u16,
    ifindex: u32,
    pending: VecDeque<WifiEvent>,
    sequence: u32,
    has_threshold: bool,
}

impl WifiMonitor {
    /// Watches `interface` of the calling thread's namespace.
    ///
    /// Errors, one line each: no such interface; a kernel without nl80211; an interface that
    /// is none of Wi-Fi.
    pub fn open(interface: &str) -> io::Result<Self> {
        let ifindex = Interface::query(interface)?.ifindex;
        let requests = socket()?;
        let (family, groups) = family_of_nl80211(&requests)?;
        let events = socket()?;
        for group in groups {
            events.add_membership(group)?;
        }
        let mut monitor = Self {
            events,
            requests,
            family,
            ifindex,
            pending: VecDeque::new(),
            sequence: 1,
            has_threshold: false,
        };
        monitor.signal().map_err(|error| {
            let errno = error.raw_os_error();
            if matches!(errno, Some(libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL)) {
                let text = format!("{interface} is no Wi-Fi interface that has a station");
                return io::Error::new(io::ErrorKind::Unsupported, text);
            }
            error
        })?;
        Ok(monitor)
    }

    /// The next event of the interface, none if there is none at this moment.
    pub fn poll_event(&mut self) -> io::Result<Option<WifiEvent>> {
        while self.pending.is_empty() {
            match self.events.recv_from_full() {
                Ok((datagram, from)) if from.port_number() == 0 => {
                    self.take(&datagram);
                }
                // Not from the kernel.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    return Ok(Some(WifiEvent::Overrun));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.pending.pop_front())
    }

    fn take(&mut self, datagram: &[u8]) {
        for message in messages::<GenlMessage<Message>>(datagram).flatten() {
            let NetlinkPayload::InnerMessage(message) = message.payload else {
                continue;
            };
            let event = message.payload.event(self.ifindex);
            if self.pending.len() < PENDING_MAX {
                self.pending.extend(event);
            }
        }
    }

    /// The signal of the access point that the interface is associated with.
    ///
    /// It may take as long as the driver takes to ask its hardware.
    pub fn signal(&mut self) -> io::Result<StationSignal> {
        let request = Message::get_stations(self.ifindex);
        let answers = self.ask(request, NLM_F_DUMP)?;
        let signal = answers.iter().find_map(Message::signal);
        Ok(signal.unwrap_or(StationSignal::NoStation))
    }

    /// From now on an event reports when the signal falls below `dbm`, and when it has risen
    /// above it by `hysteresis_db`; until it is associated anew, or this is dropped. It takes
    /// replaces what others have set, a supplicant's background scan for one.
    pub fn set_threshold(&mut self, dbm: i32, hysteresis_db: u32) -> io::Result<()> {
        let request = Message::set_threshold(self.ifindex, dbm, hysteresis_db);
        self.ask(request, NLM_F_ACK)?;
        self.has_threshold = true;
        Ok(())
    }

    fn ask(&mut self, request: Message, flags: u16) -> io::Result<Vec<Message>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = GenlMessage::from_payload(request);
        message.set_resolved_family_id(self.family);
        let answers = ask(&self.requests, message, flags, self.sequence)?;
        Ok(answers.into_iter().map(|answer| answer.payload).collect())
    }
}

impl Drop for WifiMonitor {
    fn drop(&mut self) {
        if self.has_threshold {
            // 0: none. The threshold ends with the interface.
            let request = Message::set_threshold(self.ifindex, 0, 0);
            let _ = self.ask(request, NLM_F_ACK);
        }
    }
}

impl AsFd for WifiMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open for as long as the monitor is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.events.as_raw_fd()) }
    }
}

fn socket() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.set_non_blocking(true)?;
    Ok(socket)
}

/// The number of the family, and those of its groups for connections.
fn family_of_nl80211(requests: &Socket) -> io::Result<(u16, Vec<u32>)> {
    let request = GenlMessage::from_payload(GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName("nl80211".into())],
    });
    let answers = ask(requests, request, NLM_F_ACK, 1).map_err(|error| {
        if error.raw_os_error() == Some(libc::ENOENT) {
            let text = "this kernel has no nl80211 (cfg80211 is not loaded, or not built)";
            return io::Error::new(io::ErrorKind::Unsupported, text);
        }
        error
    })?;
    let (mut family, mut found) = (None, Vec::new());
    for attribute in answers.into_iter().flat_map(|answer| answer.payload.nlas) {
        match attribute {
            GenlCtrlAttrs::FamilyId(id) => family = Some(id),
            GenlCtrlAttrs::McastGroups(groups) => {
                found.extend(groups.iter().filter_map(|group| group_id(group)));
            }
            _ => {}
        }
    }
    let family = family.ok_or_else(|| io::Error::other("nl80211 has no number"))?;
    Ok((family, found))
}

fn group_id(group: &[McastGrpAttrs]) -> Option<u32> {
    let is_wanted = group.iter().any(
        |attribute| matches!(attribute, McastGrpAttrs::Name(name) if GROUPS.contains(&name.as_str())),
    );
    let id = |attribute: &McastGrpAttrs| match attribute {
        McastGrpAttrs::Id(id) => Some(*id),
        McastGrpAttrs::Name(_) => None,
    };
    is_wanted.then(|| group.iter().find_map(id))?
}

/// Sends a request and gathers its answers, until the kernel's end mark.
fn ask<T>(socket: &Socket, request: T, flags: u16, sequence: u32) -> io::Result<Vec<T>>
where
    T: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<T>>,
{
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | flags;
    message.header.sequence_number = sequence;
    message.finalize();
    let mut buffer = vec![0; message.header.length as usize];
    message.serialize(&mut buffer);
    socket.send_to(&buffer, &SocketAddr::new(0, 0), 0)?;
    let deadline = Instant::now() + ANSWER_WITHIN;
    let mut answers = Vec::new();
    loop {
        // SAFETY: the descriptor is open for as long as the socket is borrowed.
        let fd = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "nl80211: no answer",
            ));
        }
        let [ready] = wait_readable([fd], Some(left))?;
        if !ready {
            continue;
        }
        let (datagram, from) = socket.recv_from_full()?;
        if from.port_number() != 0 {
            continue;
        }
        for message in messages::<T>(&datagram) {
            let message = message?;
            if message.header.sequence_number != sequence {
                continue;
            }
            if let NetlinkPayload::InnerMessage(answer) = message.payload {
                answers.push(answer);
            } else if let Some(end) = end_of(&message.payload) {
                return end.map(|()| answers);
            }
        }
    }
}

/// Whether it is the kernel's end mark, or an error.
fn end_of<T>(payload: &NetlinkPayload<T>) -> Option<io::Result<()>> {
    match payload {
        // What a dump has failed of comes with its end.
        NetlinkPayload::Done(done) if done.code < 0 => {
            Some(Err(io::Error::from_raw_os_error(-done.code)))
        }
        NetlinkPayload::Error(error) if error.code.is_some() => Some(Err(error.to_io())),
        NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => Some(Ok(())),
        _ => None,
    }
}

/// The messages of a datagram.
fn messages<T: NetlinkDeserializable>(
    datagram: &[u8],
) -> impl Iterator<Item = io::Result<NetlinkMessage<T>>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        // A header's length.
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let (message, after) = rest.split_at_checked(length.max(1))?;
        rest = after
            .get(length.next_multiple_of(4) - length..)
            .unwrap_or(&[]);
        let invalid = |error: netlink_packet_core::DecodeError| {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        };
        Some(NetlinkMessage::deserialize(message).map_err(invalid))
    })
}
