// SPDX-License-Identifier: Apache-2.0
//! The link between gateway and MH removed, and made again: a modem that is unplugged.

use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::Rtnl;

use super::{
    GATEWAY_IF, GATEWAY_WIRELESS, MH, MH_IF, Topology, TopologySettings, set_default_routes,
    set_interface,
};

/// The link-layer addresses of the devices that were removed, the gateway's first.
#[derive(Clone, Debug)]
pub struct RemovedLink([Vec<u8>; 2]);

impl Topology {
    /// Removes the veth pair between gateway and MH, with its addresses and routes.
    pub fn remove_wireless(&self) -> anyhow::Result<RemovedLink> {
        let of_gateway = address(self.gateway(), GATEWAY_IF)?;
        let of_mh = address(&self.mh, MH_IF)?;
        self.gateway().run(|| {
            let rtnl = Rtnl::open()?;
            rtnl.delete_link(rtnl.link_index(GATEWAY_IF)?)
        })??;
        Ok(RemovedLink([of_gateway, of_mh]))
    }

    /// Makes it again as it was built, with the same addresses and other indices.
    pub fn make_wireless_again(
        &self,
        settings: &TopologySettings,
        removed: &RemovedLink,
    ) -> anyhow::Result<()> {
        let (gateway, mh) = (self.gateway(), &self.mh);
        gateway.run(|| Rtnl::open()?.add_veth(GATEWAY_IF, gateway, MH_IF, mh))??;
        let ends = [(gateway, GATEWAY_IF, GATEWAY_WIRELESS), (mh, MH_IF, MH)];
        for ((ns, name, addresses), link) in ends.into_iter().zip(&removed.0) {
            ns.run(|| {
                let rtnl = Rtnl::open()?;
                let ifindex = rtnl.link_index(name)?;
                if let Ok(mac) = link.as_slice().try_into() {
                    rtnl.set_address(ifindex, mac)?;
                }
                set_interface(name, addresses, settings.wired_mtu)
            })??;
        }
        set_default_routes(mh, MH_IF, GATEWAY_WIRELESS, (settings, &settings.mh))
    }
}

fn address(ns: &NetNs, name: &str) -> anyhow::Result<Vec<u8>> {
    let link = ns.run(|| {
        let rtnl = Rtnl::open()?;
        rtnl.link(rtnl.link_index(name)?)
    })??;
    Ok(link.address)
}
