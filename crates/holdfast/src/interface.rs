// SPDX-License-Identifier: Apache-2.0
//! The interface of the settings: a name, which has an interface now, another one later, or none.
//!
//! PPP, WWAN, tunnels and USB devices are removed and made again. The index shows which is which.

use holdfast_net::monitor::InterfaceState;

/// A name, and the index of the interface that has it.
#[derive(Clone, Debug)]
pub(crate) struct NamedInterface {
    pub(crate) name: String,
    pub(crate) ifindex: Option<u32>,
}

impl NamedInterface {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ifindex: None,
        }
    }

    /// Whether the report is about an interface that has, or had until now, this name.
    pub(crate) fn is_about(&self, state: &InterfaceState) -> bool {
        if state.name == self.name {
            // The removal of an earlier one comes late.
            !state.removed || self.ifindex.is_none_or(|ifindex| ifindex == state.ifindex)
        } else {
            // It has another name now.
            self.ifindex == Some(state.ifindex)
        }
    }

    /// Follows a report that is about it.
    pub(crate) fn follow(&mut self, state: &InterfaceState) {
        let is_there = state.name == self.name && !state.removed;
        self.ifindex = is_there.then_some(state.ifindex);
    }
}

#[cfg(test)]
mod tests {
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
        interface.ifindex
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
