// SPDX-License-Identifier: Apache-2.0
//! Events of links, by the kernel: carrier, MTU, link type, removal.
//!
//! A subscription to `RTNLGRP_LINK` of the namespace in which it was opened.
//! The socket does not block: poll its descriptor, then drain it with
//! [`LinkMonitor::poll_event`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::datapath::{FrameHeader, InterfaceId};
use crate::netlink::{Netlink, is_overrun};
use crate::rtnl::LinkInfo;
use crate::tun::query_ifindex;

/// `RTMGRP_LINK` (`include/uapi/linux/rtnetlink.h`), the mask of `RTNLGRP_LINK`.
const RTMGRP_LINK: u32 = 1;

/// What is known of a link after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceState {
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
    /// Whether it is a port of a bridge or of a virtual switch.
    pub is_bridge_port: bool,
    /// What its frames begin with; none: no data path has such frames.
    pub header: Option<FrameHeader>,
}

impl InterfaceState {
    /// Which interface it is.
    pub const fn id(&self) -> InterfaceId {
        InterfaceId {
            ifindex: self.ifindex,
            header: self.header,
        }
    }

    /// The state of an interface that was removed, or has another index now, without a report of that. None:
    /// it is there.
    pub fn removed_unreported(ifindex: u32, name: &str) -> Option<Self> {
        let is_there = match query_ifindex(name) {
            Ok(found) => found == ifindex,
            // Any other failure is not about the interface.
            Err(error) => error.raw_os_error() != Some(libc::ENODEV),
        };
        (!is_there).then(|| Self {
            ifindex,
            name: name.to_owned(),
            carrier: false,
            up: false,
            removed: true,
            mtu: 0,
            is_bridge_port: false,
            header: None,
        })
    }
}

/// The monitor's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceEvent {
    /// A link's state after a change, or its present state.
    State(InterfaceState),
    /// The kernel dropped messages, since they were read too late. The monitor
    /// has requested the state of all links; the answers follow.
    Overrun,
}

/// A subscription to the namespace's link events.
#[derive(Debug)]
pub struct LinkMonitor {
    netlink: Netlink,
    pending: VecDeque<InterfaceEvent>,
}

impl LinkMonitor {
    /// Subscribes in the calling thread's namespace and requests the state of
    /// all links: the first events are the present states.
    pub fn open() -> io::Result<Self> {
        let mut monitor = Self {
            netlink: Netlink::open(NETLINK_ROUTE, RTMGRP_LINK)?,
            pending: VecDeque::new(),
        };
        monitor.request_all()?;
        Ok(monitor)
    }

    fn request_all(&mut self) -> io::Result<()> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        match self.netlink.start_dump(request) {
            // Another dump is not read to its end yet: its answers follow.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
            result => result,
        }
    }

    /// The next event, none if there is none at this moment.
    pub fn poll_event(&mut self) -> io::Result<Option<InterfaceEvent>> {
        while self.pending.is_empty() {
            match self.netlink.receive() {
                Ok(Some(messages)) => {
                    let events = messages
                        .into_iter()
                        .filter_map(|message| event(message.payload));
                    self.pending.extend(events);
                }
                Ok(None) => return Ok(None),
                Err(error) if is_overrun(&error) => {
                    self.request_all()?;
                    return Ok(Some(InterfaceEvent::Overrun));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.pending.pop_front())
    }
}

fn event(payload: NetlinkPayload<RouteNetlinkMessage>) -> Option<InterfaceEvent> {
    let (link, removed) = match payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => (link, false),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => (link, true),
        _ => return None,
    };
    // A port that leaves its bridge is reported as removed, and is there as before.
    if link.header.interface_family == AddressFamily::Bridge {
        return None;
    }
    // Wireless extensions multicast messages that have no state: the flags alone do not show
    // that a supplicant still exchanges keys.
    let has_state = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::OperState(_));
    let has_state = removed || link.attributes.iter().any(has_state);
    has_state.then(|| InterfaceEvent::State(InterfaceState::of(&link, removed)))
}

impl InterfaceState {
    fn of(message: &LinkMessage, removed: bool) -> Self {
        let info = LinkInfo::of(message);
        Self {
            ifindex: info.ifindex,
            name: info.name,
            carrier: info.up && info.carrier && !removed,
            up: info.up && !removed,
            removed,
            mtu: info.mtu,
            is_bridge_port: info.is_bridge_port,
            header: FrameHeader::of(info.link_type, &info.address),
        }
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

impl AsRawFd for LinkMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::netns::{NetNs, available_or_skip};
    use crate::readiness::wait_readable;
    use crate::rtnl::Rtnl;
    use crate::tun::{Tun, TunOptions};

    const LIMIT: Duration = Duration::from_secs(60);

    /// Waits for the first event on the link that `wanted` accepts.
    fn await_state(
        monitor: &mut LinkMonitor,
        wanted: impl Fn(&InterfaceState) -> bool,
    ) -> InterfaceState {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            match monitor.poll_event().unwrap() {
                Some(InterfaceEvent::State(state)) if wanted(&state) => return state,
                Some(_) => {}
                None => drop(wait_readable([monitor.as_fd()], Some(LIMIT)).unwrap()),
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
    fn a_port_of_a_bridge_is_reported_as_one_until_it_leaves() {
        if !available_or_skip("a_port_of_a_bridge_is_reported_as_one_until_it_leaves") {
            return;
        }
        let ns = NetNs::new().unwrap();
        let mut monitor = ns.run(|| LinkMonitor::open().unwrap()).unwrap();
        for (command, is_port) in [
            (
                "ip link add br0 type bridge && ip link add w0 type veth peer name w1",
                false,
            ),
            ("ip link set w0 master br0", true),
            ("ip link set w0 nomaster", false),
        ] {
            let status = ns.command("sh").args(["-c", command]).status().unwrap();
            assert!(status.success());
            await_state(&mut monitor, |state| {
                state.name == "w0" && state.is_bridge_port == is_port
            });
        }
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
