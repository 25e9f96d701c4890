// SPDX-License-Identifier: Apache-2.0
//! The interface of the settings is a name. At another time another interface may have it, or none.
//!
//! PPP, WWAN, tunnels and USB devices are removed and made again with another index. A modem may change
//! to raw IP and keep its index: this also counts as another interface.

use holdfast_net::datapath::InterfaceId;
use holdfast_net::monitor::InterfaceState;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// Whether an interface of this network namespace has this name now.
pub(crate) fn exists(name: &str) -> bool {
    let index = socket(AddressFamily::INET, SocketType::DGRAM, None)
        .and_then(|socket| netdevice::name_to_index(socket, name));
    index != Err(Errno::NODEV)
}

/// The interface's own name, if `name` is an alternative name of an interface.
pub(crate) fn own_name(name: &str) -> Option<String> {
    let own_name = socket(AddressFamily::INET, SocketType::DGRAM, None).and_then(|socket| {
        let index = netdevice::name_to_index(&socket, name)?;
        netdevice::index_to_name(&socket, index)
    });
    own_name.ok().filter(|own| own != name)
}

/// Checks the name: the kernel's reports have an interface's own name, never an alternative one.
///
/// Errors: `name` is an alternative name; one line.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    match own_name(name) {
        Some(own) => {
            anyhow::bail!("interface {name}: this is an alternative name of {own}; write {own}")
        }
        None => Ok(()),
    }
}

/// A name, and the interface that has it.
#[derive(Clone, Debug)]
pub(crate) struct NamedInterface {
    pub(crate) name: String,
    /// None: no interface has the name.
    pub(crate) id: Option<InterfaceId>,
}

impl NamedInterface {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            id: None,
        }
    }

    /// The index of the interface that has the name.
    pub(crate) fn ifindex(&self) -> Option<u32> {
        self.id.map(|id| id.ifindex)
    }

    /// Whether the report is about an interface that has this name, or had it until now.
    pub(crate) fn is_about(&self, state: &InterfaceState) -> bool {
        if state.name == self.name {
            // The report may be a late one of an earlier interface's removal.
            !state.removed || self.id.is_none_or(|id| id.ifindex == state.ifindex)
        } else {
            // The interface may have another name now.
            self.ifindex() == Some(state.ifindex)
        }
    }

    /// Follows a report about the interface. Without a carrier a supplicant may scan with other addresses:
    /// the address counts only with a carrier.
    pub(crate) fn follow(&mut self, state: &InterfaceState) {
        let is_there = state.name == self.name && !state.removed;
        let id = is_there.then(|| state.id());
        let kind = |id: InterfaceId| (id.ifindex, id.header.map(|header| header.kind));
        if state.carrier || self.id.map(kind) != id.map(kind) {
            self.id = id;
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_net::datapath::FrameHeader;
    use holdfast_net::tun::LayerKind;

    use super::*;

    fn state(name: &str, ifindex: u32, removed: bool) -> InterfaceState {
        InterfaceState {
            ifindex,
            name: name.to_owned(),
            carrier: !removed,
            up: !removed,
            removed,
            mtu: 1500,
            is_bridge_port: false,
            header: None,
        }
    }

    /// The index after these reports.
    fn after(states: &[InterfaceState]) -> Option<u32> {
        let mut interface = NamedInterface::new("ppp0");
        for state in states {
            if interface.is_about(state) {
                interface.follow(state);
            }
        }
        interface.ifindex()
    }

    #[test]
    fn an_interface_with_another_header_or_address_is_another_one() {
        let header = |kind, last| {
            let mac = [2, 0, 0, 0, 0, last];
            Some(FrameHeader { kind, mac })
        };
        let mut interface = NamedInterface::new("wwan0");
        let mut ids = Vec::new();
        for header in [
            header(LayerKind::Ethernet, 1),
            header(LayerKind::Ethernet, 2),
            header(LayerKind::RawIp, 2),
            None,
        ] {
            let mut state = state("wwan0", 7, false);
            state.header = header;
            assert!(interface.is_about(&state));
            interface.follow(&state);
            assert_eq!(interface.ifindex(), Some(7));
            assert!(!ids.contains(&interface.id), "{header:?}");
            ids.push(interface.id);
            // The same again is nothing new.
            interface.follow(&state);
            assert_eq!(ids.last(), Some(&interface.id));
        }
    }

    #[test]
    fn an_address_counts_when_there_is_a_carrier() {
        let mut interface = NamedInterface::new("wlan0");
        let mut id_with = |last, carrier| {
            let mac = [2, 0, 0, 0, 0, last];
            let kind = LayerKind::Ethernet;
            let mut state = state("wlan0", 7, false);
            (state.carrier, state.header) = (carrier, Some(FrameHeader { kind, mac }));
            interface.follow(&state);
            interface.id
        };
        let first = id_with(1, true);
        assert_eq!(id_with(2, false), first, "a scan");
        assert_eq!(id_with(1, true), first);
        id_with(2, false);
        assert_ne!(id_with(2, true), first);
    }

    #[test]
    fn an_interface_is_followed_by_its_name_and_by_its_index() {
        let there = state("ppp0", 7, false);
        assert_eq!(after(&[state("eth0", 3, false)]), None);
        assert_eq!(after(std::slice::from_ref(&there)), Some(7));
        assert_eq!(after(&[there.clone(), state("ppp0", 7, true)]), None);
        let renamed = state("old0", 7, false);
        assert_eq!(after(&[there.clone(), renamed.clone()]), None);
        let next = state("ppp0", 9, false);
        assert_eq!(after(&[there.clone(), renamed, next.clone()]), Some(9));
        // The kernel reports the removal after the next one was made.
        assert_eq!(after(&[there, next, state("ppp0", 7, true)]), Some(9));
    }
}
