// SPDX-License-Identifier: Apache-2.0
//! The link-layer addresses of neighbours, through a time without a carrier.
//!
//! The kernel forgets its neighbours when the carrier is lost. Then it drops packets for them before any BPF
//! program at the interface sees these. So a daemon that queues such packets enters the old neighbours again
//! during an outage. When there is a carrier again, the kernel resolves them anew.
//!
//! Source: `neigh_carrier_down` in `net/core/neighbour.c`.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};

use super::Rtnl;
use crate::privileges;

/// Entries are set anew after this time: without traffic one is valid for 15 s at least (`base_reachable_time_ms`).
const RENEWAL: Duration = Duration::from_secs(5);
/// The time between two reads of the kernel's neighbours.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// More neighbours are not remembered.
const NEIGHBOURS_MAX: usize = 1024;

/// An address of Ethernet.
type Mac = [u8; 6];

/// The neighbours of one interface.
#[derive(Debug)]
pub struct NeighbourMemory {
    rtnl: Rtnl,
    ifindex: u32,
    known: BTreeMap<IpAddr, Mac>,
    has_carrier: bool,
    next_at: Instant,
}

impl NeighbourMemory {
    /// For an interface of the calling thread's network namespace.
    pub fn open(ifindex: u32) -> io::Result<Self> {
        Ok(Self {
            rtnl: Rtnl::open()?,
            ifindex,
            known: BTreeMap::new(),
            has_carrier: true,
            next_at: Instant::now(),
        })
    }

    /// Neighbours that are remembered.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The interface has a carrier now, or none.
    pub fn set_carrier(&mut self, has_carrier: bool) -> io::Result<()> {
        if has_carrier && self.has_carrier {
            return Ok(());
        }
        self.has_carrier = has_carrier;
        // The kernel forgets them again if the carrier is lost after another source's link down.
        self.next_at = Instant::now();
        if has_carrier {
            let addresses: Vec<IpAddr> = self.known.keys().copied().collect();
            // Another host may have the address by now. One that the kernel has forgotten already is
            // no loss.
            if let Some(broker) = privileges::broker() {
                broker.forget_neighbours(self.ifindex, &addresses)?;
            } else {
                for address in addresses {
                    let _ = self.rtnl.forget_neighbour(self.ifindex, address);
                }
            }
        }
        self.tick()
    }

    /// If it is due: reads the neighbours, or enters them again if there is no carrier.
    pub fn tick(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if now < self.next_at {
            return Ok(());
        }
        if self.has_carrier {
            self.next_at = now + READ_INTERVAL;
            let found = self.rtnl.neighbours(self.ifindex)?;
            // After an outage the kernel has none until a packet is sent: the old ones stay.
            if !found.is_empty() {
                self.known = found;
            }
            return Ok(());
        }
        self.next_at = now + RENEWAL;
        if let Some(broker) = privileges::broker() {
            let known: Vec<_> = self.known.iter().map(|(at, mac)| (*at, *mac)).collect();
            return broker.set_neighbours(self.ifindex, &known);
        }
        for (address, mac) in &self.known {
            self.rtnl.set_neighbour(self.ifindex, *address, *mac)?;
        }
        Ok(())
    }
}

impl Rtnl {
    /// The neighbours of an interface that have answered.
    pub(crate) fn neighbours(&self, ifindex: u32) -> io::Result<BTreeMap<IpAddr, Mac>> {
        let mut stream = self.handle.neighbours().get().execute();
        self.wait("read the neighbours", async {
            let mut found = BTreeMap::new();
            while let Some(message) = stream.try_next().await? {
                if let Some((address, mac)) = answered(&message, ifindex)
                    && found.len() < NEIGHBOURS_MAX
                {
                    found.insert(address, mac);
                }
            }
            Ok(found)
        })
    }

    /// Sets the neighbour as if it had just answered.
    pub(crate) fn set_neighbour(&self, ifindex: u32, address: IpAddr, mac: Mac) -> io::Result<()> {
        let request = self.handle.neighbours().add(ifindex, address);
        let request = request
            .state(NeighbourState::Reachable)
            .link_layer_address(&mac)
            .replace();
        self.wait(&format!("set the neighbour {address}"), request.execute())
    }

    /// Has the kernel resolve the neighbour anew.
    pub(crate) fn forget_neighbour(&self, ifindex: u32, address: IpAddr) -> io::Result<()> {
        let mut request = self.handle.neighbours().add(ifindex, address);
        let message = request.message_mut().clone();
        let request = self.handle.neighbours().del(message);
        self.wait(
            &format!("forget the neighbour {address}"),
            request.execute(),
        )
    }
}

/// A neighbour of the interface that has answered: its addresses.
fn answered(message: &NeighbourMessage, ifindex: u32) -> Option<(IpAddr, Mac)> {
    let has_answered = matches!(
        message.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
    );
    if message.header.ifindex != ifindex || !has_answered {
        return None;
    }
    let mut address = None;
    let mut mac = None;
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                address = Some(IpAddr::from(*v4));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                address = Some(IpAddr::from(*v6));
            }
            NeighbourAttribute::LinkLayerAddress(octets) => {
                mac = octets.as_slice().try_into().ok();
            }
            _ => {}
        }
    }
    Some((address?, mac?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{NetNs, available_or_skip};

    #[test]
    fn the_kernel_has_its_neighbours_back_in_each_outage() {
        if !available_or_skip("the_kernel_has_its_neighbours_back_in_each_outage") {
            return;
        }
        let [here, there] = [(); 2].map(|()| NetNs::new().unwrap());
        let steps = || {
            let rtnl = Rtnl::open().unwrap();
            rtnl.add_veth("east", &here, "west", &there).unwrap();
            let ifindex = rtnl.link_index("east").unwrap();
            rtnl.set_up(ifindex).unwrap();
            let router = IpAddr::from([10, 99, 0, 1]);
            rtnl.set_neighbour(ifindex, router, [2; 6]).unwrap();
            let forget = || rtnl.forget_neighbour(ifindex, router).unwrap();
            let known = || rtnl.neighbours(ifindex).unwrap();

            let mut memory = NeighbourMemory::open(ifindex).unwrap();
            memory.tick().unwrap();
            assert_eq!(memory.len(), 1);
            forget();
            memory.set_carrier(false).unwrap();
            assert!(known().contains_key(&router));
            // Now the carrier goes, too: another source had reported link down.
            forget();
            memory.set_carrier(false).unwrap();
            assert!(known().contains_key(&router));
            // Nothing is sent until the next outage.
            memory.set_carrier(true).unwrap();
            assert!(known().is_empty());
            memory.set_carrier(false).unwrap();
            assert_eq!(known().get(&router), Some(&[2; 6]));
        };
        here.run(steps).unwrap();
    }
}
