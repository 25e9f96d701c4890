// SPDX-License-Identifier: Apache-2.0
//! The link between gateway and MH removed, and made again: a modem that is unplugged.

use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::Rtnl;

use super::{
    GATEWAY_IF, GATEWAY_WIRELESS, MH, MH_IF, Topology, TopologySettings, Wireless, only_link,
    set_default_routes, set_interface,
};

/// The link-layer addresses of the devices that were removed, the gateway's first.
#[derive(Clone, Debug)]
pub struct RemovedLink([Vec<u8>; 2]);

impl Topology {
    /// Removes the devices between gateway and MH, with their addresses and routes.
    pub fn remove_wireless(&mut self) -> anyhow::Result<RemovedLink> {
        let of_gateway = address(self.gateway(), GATEWAY_IF)?;
        let of_mh = address(&self.mh, MH_IF)?;
        match self.cells[0].link.take() {
            Some(link) => drop(link.end()?),
            None => self.gateway().run(|| {
                let rtnl = Rtnl::open()?;
                rtnl.delete_link(rtnl.link_index(GATEWAY_IF)?)
            })??,
        }
        Ok(RemovedLink([of_gateway, of_mh]))
    }

    /// Makes the devices again as they were built, with other indices.
    pub fn make_wireless_again(
        &mut self,
        settings: &TopologySettings,
        removed: &RemovedLink,
    ) -> anyhow::Result<()> {
        let mtu = match &settings.wireless {
            Wireless::Emulated(link) => link.mtu,
            Wireless::Veth { mtu } => *mtu,
        };
        self.cells[0].link = only_link(settings, self.gateway(), &self.mh)?;
        let ends = [
            (self.gateway(), GATEWAY_IF, GATEWAY_WIRELESS),
            (&self.mh, MH_IF, MH),
        ];
        for ((ns, name, addresses), link) in ends.into_iter().zip(&removed.0) {
            ns.run(|| {
                if let Ok(mac) = link.as_slice().try_into() {
                    let rtnl = Rtnl::open()?;
                    rtnl.set_address(rtnl.link_index(name)?, mac)?;
                }
                set_interface(name, addresses, mtu)
            })??;
        }
        set_default_routes(&self.mh, MH_IF, GATEWAY_WIRELESS, (settings, &settings.mh))
    }
}

fn address(ns: &NetNs, name: &str) -> anyhow::Result<Vec<u8>> {
    let link = ns.run(|| {
        let rtnl = Rtnl::open()?;
        rtnl.link(rtnl.link_index(name)?)
    })??;
    Ok(link.address)
}
