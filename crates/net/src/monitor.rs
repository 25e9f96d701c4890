// SPDX-License-Identifier: Apache-2.0
//! Events of links, by the kernel: carrier, MTU, removal.
//!
//! A subscription to `RTNLGRP_LINK` of the namespace in which it was opened.
//! The socket does not block: poll its descriptor, then drain it with
//! [`LinkMonitor::poll_event`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::rtnl::LinkInfo;

/// `RTMGRP_LINK` (`include/uapi/linux/rtnetlink.h`), the mask of `RTNLGRP_LINK`.
const RTMGRP_LINK: u32 = 1;

/// Events kept while one is asked for; the kernel sends a few hundred a
/// datagram at most.
const PENDING_MAX: usize = 4096;

/// What is known of a link after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The index in the monitor's namespace.
    pub ifindex: u32,
    /// The link's name.
    pub name: String,
    /// Whether the link is up and has a carrier; false for a removed one.
    pub carrier: bool,
    /// Whether it was brought up (IFF_UP).
    pub up: bool,
    /// Whether it was removed, or moved to another namespace.
    pub removed: bool,
    /// The MTU in octets; 0 if the kernel did not report it.
    pub mtu: u32,
}

/// The monitor's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A link's state after a change, or in answer to [`LinkMonitor::ask_all`].
    State(LinkState),
    /// The kernel dropped messages, since they were read too late. The monitor
    /// has asked for the state of all links by itself; the answers follow.
    Overrun,
}

/// A subscription to the namespace's link events.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: Socket,
    pending: VecDeque<LinkEvent>,
}

impl LinkMonitor {
    /// Subscribes in the calling thread's namespace and asks for the state of
    /// all links: the first events are the present states.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
        socket.set_non_blocking(true)?;
        let monitor = Self {
            socket,
            pending: VecDeque::new(),
        };
        monitor.ask_all()?;
        Ok(monitor)
    }

    /// Asks for the present state of all links; the answers arrive as events.
    pub fn ask_all(&self) -> io::Result<()> {
        let mut message =
            NetlinkMessage::from(RouteNetlinkMessage::GetLink(LinkMessage::default()));
        message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        message.finalize();
        let mut buffer = vec![0; message.header.length as usize];
        message.serialize(&mut buffer);
        let kernel = SocketAddr::new(0, 0);
        match self.socket.send_to(&buffer, &kernel, 0) {
            Ok(_) => Ok(()),
            // A dump is under way already: its answers follow.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next event, none if there is none at this moment.
    pub fn poll_event(&mut self) -> io::Result<Option<LinkEvent>> {
        while self.pending.is_empty() {
            match self.socket.recv_from_full() {
                Ok((datagram, from)) if from.port_number() == 0 => self.parse(&datagram)?,
                // Not from the kernel.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.ask_all()?;
                    return Ok(Some(LinkEvent::Overrun));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.pending.pop_front())
    }

    /// The next event, waiting for it at most `limit`.
    pub fn wait_event(&mut self, limit: Duration) -> io::Result<Option<LinkEvent>> {
        let deadline = std::time::Instant::now() + limit;
        loop {
            if let Some(event) = self.poll_event()? {
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut entry = libc::pollfd {
                fd: self.socket.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let left_ms = left.as_millis().clamp(1, 60_000) as libc::c_int;
            // SAFETY: poll reads and writes one pollfd, which outlives the call.
            let result = unsafe { libc::poll(&raw mut entry, 1, left_ms) };
            if result < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }

    fn parse(&mut self, datagram: &[u8]) -> io::Result<()> {
        let mut rest = datagram;
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            let length = (message.header.length as usize).next_multiple_of(4);
            if length == 0 {
                break;
            }
            let (link, removed) = match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => (link, false),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => (link, true),
                _ => {
                    rest = &rest[length.min(rest.len())..];
                    continue;
                }
            };
            // Wireless extensions multicast messages that have no state: the flags alone do not show
            // that a supplicant still exchanges keys.
            let has_state =
                |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::OperState(_));
            let has_state = removed || link.attributes.iter().any(has_state);
            if has_state && self.pending.len() < PENDING_MAX {
                self.pending
                    .push_back(LinkEvent::State(LinkState::of(&link, removed)));
            }
            rest = &rest[length.min(rest.len())..];
        }
        Ok(())
    }
}

impl LinkState {
    fn of(message: &LinkMessage, removed: bool) -> Self {
        let info = LinkInfo::of(message);
        Self {
            ifindex: info.ifindex,
            name: info.name,
            carrier: info.up && info.carrier && !removed,
            up: info.up && !removed,
            removed,
            mtu: info.mtu,
        }
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open for as long as the monitor is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{NetNs, available_or_skip};
    use crate::rtnl::Rtnl;
    use crate::tun::{Tun, TunOptions};

    const LIMIT: Duration = Duration::from_secs(5);

    /// Waits for the first event on the link that `wanted` accepts.
    fn await_state(monitor: &mut LinkMonitor, wanted: impl Fn(&LinkState) -> bool) -> LinkState {
        let deadline = std::time::Instant::now() + LIMIT;
        while std::time::Instant::now() < deadline {
            if let Some(LinkEvent::State(state)) = monitor.wait_event(LIMIT).unwrap()
                && wanted(&state)
            {
                return state;
            }
        }
        panic!("no such event within {LIMIT:?}");
    }

    #[test]
    fn the_first_events_are_the_present_states() {
        if !available_or_skip("the_first_events_are_the_present_states") {
            return;
        }
        let ns = NetNs::new().unwrap();
        let mut monitor = ns.run(|| LinkMonitor::open().unwrap()).unwrap();
        let state = await_state(&mut monitor, |state| state.name == "lo");
        assert!(state.carrier && state.up && !state.removed);
        assert_eq!(state.mtu, 65536);
    }

    #[test]
    fn a_tun_devices_carrier_mtu_and_removal_are_reported() {
        if !available_or_skip("a_tun_devices_carrier_mtu_and_removal_are_reported") {
            return;
        }
        let ns = NetNs::new().unwrap();
        let mut monitor = ns.run(|| LinkMonitor::open().unwrap()).unwrap();
        let tun = ns
            .run(|| {
                let options = TunOptions {
                    name: "w0".into(),
                    up: true,
                    ..Default::default()
                };
                Tun::create(&options).unwrap()
            })
            .unwrap();
        await_state(&mut monitor, |state| state.name == "w0" && state.carrier);
        tun.set_carrier(false).unwrap();
        let down = await_state(&mut monitor, |state| state.name == "w0" && !state.carrier);
        assert!(down.up && !down.removed);
        tun.set_carrier(true).unwrap();
        await_state(&mut monitor, |state| state.name == "w0" && state.carrier);
        ns.run(|| Rtnl::open().unwrap().set_mtu(tun.ifindex(), 1400).unwrap())
            .unwrap();
        await_state(&mut monitor, |state| {
            state.name == "w0" && state.mtu == 1400
        });
        let ifindex = tun.ifindex();
        drop(tun);
        let gone = await_state(&mut monitor, |state| state.removed);
        assert_eq!((gone.ifindex, gone.carrier), (ifindex, false));
    }

    /// As a supplicant of Wi-Fi does, which exchanges keys before the link is up.
    #[test]
    fn a_link_that_waits_for_its_supplicant_has_no_carrier_yet() {
        if !available_or_skip("a_link_that_waits_for_its_supplicant_has_no_carrier_yet") {
            return;
        }
        let ns = NetNs::new().unwrap();
        let mut monitor = ns.run(|| LinkMonitor::open().unwrap()).unwrap();
        let options = TunOptions {
            name: "w0".into(),
            up: true,
            ..Default::default()
        };
        let tun = ns.run(|| Tun::create(&options).unwrap()).unwrap();
        let ip = |arguments: &[&str]| {
            let output = ns.command("ip").args(arguments).output().unwrap();
            assert!(output.status.success(), "{arguments:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        tun.set_carrier(false).unwrap();
        await_state(&mut monitor, |state| state.name == "w0" && !state.carrier);
        ip(&["link", "set", "w0", "mode", "dormant"]);
        tun.set_carrier(true).unwrap();
        // The kernel gathers changes of carriers, for a second at most.
        let deadline = std::time::Instant::now() + LIMIT;
        while !ip(&["-oneline", "link", "show", "w0"]).contains("state DORMANT") {
            assert!(std::time::Instant::now() < deadline, "never dormant");
        }
        ns.run(|| Rtnl::open().unwrap().set_mtu(tun.ifindex(), 1400).unwrap())
            .unwrap();
        let waiting = await_state(&mut monitor, |state| state.mtu == 1400);
        assert!(!waiting.carrier, "its keys are not there");
        ip(&["link", "set", "w0", "state", "up"]);
        await_state(&mut monitor, |state| state.name == "w0" && state.carrier);
    }
}
