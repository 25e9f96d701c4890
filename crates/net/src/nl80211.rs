// SPDX-License-Identifier: Apache-2.0
//! The Wi-Fi of an interface, by nl80211: its access point, the strength of the signal,
//! and when it leaves one access point and joins another.
//!
//! A station's view alone: events come by the multicast groups `mlme` and `config`. The signal, and the access
//! points of the last scans, come by queries. Both sockets stay in the namespace in which they were opened, and
//! do not block. Nothing is changed, but the threshold of [`WifiMonitor::set_threshold`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NLM_F_DUMP, NetlinkMessage, NetlinkPayload};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::nlas::{GenlCtrlAttrs, McastGrpAttrs};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_sys::protocols::NETLINK_GENERIC;

use crate::datapath::Interface;
use crate::netlink::{Netlink, is_overrun, messages};
use crate::privileges;

mod codec;
#[cfg(test)]
mod tests;

use codec::Message;
pub use codec::{AccessPoint, StationSignal, WifiEvent, WifiRole};

/// Multicast groups for a station's connections; each event comes by one of them.
const GROUPS: [&str; 2] = ["mlme", "config"];

/// The Wi-Fi of one interface.
#[derive(Debug)]
pub struct WifiMonitor {
    events: Netlink,
    requests: Netlink,
    family: u16,
    ifindex: u32,
    pending: VecDeque<WifiEvent>,
    has_threshold: bool,
}

impl WifiMonitor {
    /// Watches `interface` of the calling thread's namespace.
    ///
    /// Errors, one line each: no such interface; a kernel without nl80211; an interface that
    /// is none of Wi-Fi.
    pub fn open(interface: &str) -> io::Result<Self> {
        let ifindex = Interface::query(interface)?.ifindex;
        let mut requests = Netlink::open(NETLINK_GENERIC, 0)?;
        let (family, groups) = family_of_nl80211(&mut requests)?;
        let mut events = Netlink::open(NETLINK_GENERIC, 0)?;
        for group in groups {
            events.join(group)?;
        }
        let mut monitor = Self {
            events,
            requests,
            family,
            ifindex,
            pending: VecDeque::new(),
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
            match self.events.receive::<GenlMessage<Message>>() {
                Ok(Some(messages)) => {
                    let ifindex = self.ifindex;
                    self.pending
                        .extend(inner(messages).filter_map(|message| message.event(ifindex)));
                }
                Ok(None) => return Ok(None),
                Err(error) if is_overrun(&error) => return Ok(Some(WifiEvent::Overrun)),
                Err(error) => return Err(error),
            }
        }
        Ok(self.pending.pop_front())
    }

    /// The signal of the access point that the interface is associated with.
    ///
    /// It may take as long as the driver takes to query its hardware.
    pub fn signal(&mut self) -> io::Result<StationSignal> {
        let request = Message::get_stations(self.ifindex);
        let answers = self.request(request, NLM_F_DUMP)?;
        Ok(signal_of(answers))
    }

    /// The access points in the results of the last scans. It starts none.
    pub fn access_points(&mut self) -> io::Result<Vec<AccessPoint>> {
        let answers = self.request(Message::get_scan(self.ifindex), NLM_F_DUMP)?;
        let found = answers.iter().filter_map(Message::access_point);
        Ok(found.collect())
    }

    /// From now on an event reports when the signal falls below `dbm`, and when it has risen
    /// above it by `hysteresis_db`. This ends when the interface is associated anew, or this is dropped. It
    /// replaces a threshold of others, for example of a supplicant's background scan.
    pub fn set_threshold(&mut self, dbm: i32, hysteresis_db: u32) -> io::Result<()> {
        self.request_threshold(dbm, hysteresis_db)?;
        self.has_threshold = true;
        Ok(())
    }

    /// Only a process with `CAP_NET_ADMIN` may set it.
    fn request_threshold(&self, dbm: i32, hysteresis_db: u32) -> io::Result<()> {
        if let Some(broker) = privileges::broker() {
            return broker.set_wifi_threshold(self.ifindex, dbm, hysteresis_db);
        }
        set_threshold(self.ifindex, dbm, hysteresis_db)
    }

    fn request(&mut self, request: Message, flags: u16) -> io::Result<Vec<Message>> {
        let mut message = GenlMessage::from_payload(request);
        message.set_resolved_family_id(self.family);
        let answers = self.requests.request(message, flags)?;
        Ok(answers.into_iter().map(|answer| answer.payload).collect())
    }
}

/// [`WifiMonitor::set_threshold`] for a monitor of another process.
pub(crate) fn set_threshold(ifindex: u32, dbm: i32, hysteresis_db: u32) -> io::Result<()> {
    let mut requests = Netlink::open(NETLINK_GENERIC, 0)?;
    let family = family_of_nl80211(&mut requests)?.0;
    let mut message =
        GenlMessage::from_payload(Message::set_threshold(ifindex, dbm, hysteresis_db));
    message.set_resolved_family_id(family);
    requests.request(message, 0).map(drop)
}

/// The interfaces of Wi-Fi in the calling thread's namespace, by index, and what each is; none on
/// a kernel without nl80211.
pub fn wifi_interfaces() -> io::Result<Vec<(u32, WifiRole)>> {
    let mut requests = Netlink::open(NETLINK_GENERIC, 0)?;
    let family = match family_of_nl80211(&mut requests) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(Vec::new()),
        found => found?.0,
    };
    let mut message = GenlMessage::from_payload(Message::get_interfaces());
    message.set_resolved_family_id(family);
    let answers = requests.request(message, NLM_F_DUMP)?.into_iter();
    Ok(answers
        .filter_map(|answer| answer.payload.interface())
        .collect())
}

impl Drop for WifiMonitor {
    fn drop(&mut self) {
        if self.has_threshold {
            // 0 removes the threshold. An error: the interface was removed, and the threshold with it.
            let _ = self.request_threshold(0, 0);
        }
    }
}

/// The events of an interface in a datagram of the kernel, as [`WifiMonitor::poll_event`] reads them.
/// A damaged message does not hide the others.
pub fn events_in(datagram: &[u8], ifindex: u32) -> Vec<WifiEvent> {
    let messages = inner(messages(datagram));
    messages
        .filter_map(|message| message.event(ifindex))
        .collect()
}

/// The signal in a datagram of the kernel, as [`WifiMonitor::signal`] reads it.
pub fn signal_in(datagram: &[u8]) -> StationSignal {
    signal_of(inner(messages(datagram)))
}

/// The access points in a datagram of the kernel, as [`WifiMonitor::access_points`] reads them.
pub fn access_points_in(datagram: &[u8]) -> Vec<AccessPoint> {
    let messages = inner(messages(datagram));
    messages
        .filter_map(|message| message.access_point())
        .collect()
}

fn inner(messages: Vec<NetlinkMessage<GenlMessage<Message>>>) -> impl Iterator<Item = Message> {
    messages
        .into_iter()
        .filter_map(|message| match message.payload {
            NetlinkPayload::InnerMessage(message) => Some(message.payload),
            _ => None,
        })
}

fn signal_of(answers: impl IntoIterator<Item = Message>) -> StationSignal {
    let signal = answers.into_iter().find_map(|answer| answer.signal());
    signal.unwrap_or(StationSignal::NoStation)
}

impl AsFd for WifiMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// The number of the family, and those of its groups for connections.
fn family_of_nl80211(requests: &mut Netlink) -> io::Result<(u16, Vec<u32>)> {
    let request = GenlMessage::from_payload(GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName("nl80211".into())],
    });
    let answers = requests.request(request, 0).map_err(|error| {
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
