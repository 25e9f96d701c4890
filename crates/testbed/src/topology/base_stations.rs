// SPDX-License-Identifier: Apache-2.0
//! Several base stations behind one router, and an MH with a device in the cell of each.
//!
//! ```text
//!   FH --- gw0 router lan0 ==bridge==+== gw0 station 1 wl-gw --- wl-mh  --+-- MH
//!                                    +== gw0 station 2 wl-gw --- wl-mh2 --+
//! ```
//!
//! The bridge is one Ethernet: what a station sends to a multicast group reaches the others.
//! The MH has the same address on all its devices. Its default route leads to the station of its
//! cell. Each station reaches the MH by its own device. The router reaches the MH by the station
//! to which its route was last changed.

use anyhow::Context as _;
use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::Rtnl;

use super::{
    Addresses, Cell, GATEWAY_WIRED, GATEWAY_WIRED_IF, HostTuning, MH, Topology, route_arguments,
    set_interface, set_interface_with, set_sysctls,
};
use crate::link_process::{EmulatedLink, GATEWAY_IF, LinkProcess, MH_IF};

/// The router's bridge.
const BRIDGE_IF: &str = "lan0";
/// The router's address on it.
pub const LAN_ROUTER: Addresses = Addresses::of(3, 1);
/// All bits of an address: its link has no other host.
const BITS: [u8; 2] = [32, 128];

/// The address of a base station on the router's bridge; `cell` counts from 0.
pub const fn station(cell: usize) -> Addresses {
    Addresses::of(3, 11 + cell as u8)
}

/// The MH's device in a cell, from 0.
pub fn mh_device(cell: usize) -> String {
    match cell {
        0 => MH_IF.to_owned(),
        other => format!("{MH_IF}{}", other + 1),
    }
}

/// Makes the base station of `cell`, its link to the MH, and its wire to the router.
pub(super) fn build(
    holdfast: &std::path::Path,
    router: &NetNs,
    mh: &NetNs,
    (cell, link): (usize, &EmulatedLink),
) -> anyhow::Result<Cell> {
    let gateway = NetNs::new()?;
    gateway.run(|| set_sysctls(super::QUIET_SYSCTLS))??;
    let port = format!("lan{}", cell + 1);
    router.run(|| Rtnl::open()?.add_veth(&port, router, GATEWAY_WIRED_IF, &gateway))??;
    let device = mh_device(cell);
    let (near, far) = ((&gateway, GATEWAY_IF), (mh, device.as_str()));
    let link = LinkProcess::spawn_between(holdfast, near, far, link)?;
    Ok(Cell {
        gateway,
        link: Some(link),
    })
}

/// Sets addresses and routes of router, stations and MH. The MH is in the first cell.
pub(super) fn configure(
    topology: &Topology,
    router: &NetNs,
    wired_mtu: u32,
    wireless_mtus: &[u32],
) -> anyhow::Result<()> {
    ip(router, &["link", "add", BRIDGE_IF, "type", "bridge"])?;
    for cell in 0..topology.cells.len() {
        let port = format!("lan{}", cell + 1);
        ip(
            router,
            &["link", "set", &port, "mtu", &wired_mtu.to_string()],
        )?;
        ip(router, &["link", "set", &port, "master", BRIDGE_IF, "up"])?;
    }
    router.run(|| {
        set_sysctls(super::GATEWAY_SYSCTLS)?;
        set_interface(GATEWAY_WIRED_IF, GATEWAY_WIRED, wired_mtu)?;
        set_interface(BRIDGE_IF, LAN_ROUTER, wired_mtu)
    })??;
    for (cell, item) in topology.cells.iter().enumerate() {
        let mtu = wireless_mtus[cell];
        item.gateway.run(|| {
            set_sysctls(super::GATEWAY_SYSCTLS)?;
            set_interface(GATEWAY_WIRED_IF, station(cell), wired_mtu)?;
            set_interface_with(GATEWAY_IF, station(cell), BITS, mtu)?;
            add_routes(GATEWAY_WIRED_IF, Addresses::ALL, [0, 0], Some(LAN_ROUTER))?;
            add_routes(GATEWAY_IF, MH, BITS, None)
        })??;
        let device = mh_device(cell);
        topology.mh.run(|| {
            set_interface_with(&device, MH, BITS, mtu)?;
            add_routes(&device, station(cell), BITS, None)
        })??;
    }
    router.run(|| add_routes(BRIDGE_IF, MH, BITS, Some(station(0))))?
}

/// Arguments of `ip route replace` that lead the MH's packets through a cell, from 0.
pub fn mh_routes(cell: usize, congestion_control: &str, tuning: &HostTuning) -> [String; 2] {
    let own = route_arguments(congestion_control, tuning).join(" ");
    let (via, device) = (station(cell), mh_device(cell));
    [
        format!("0.0.0.0/0 via {} dev {device} {own}", via.v4),
        format!("::/0 via {} dev {device} {own}", via.v6),
    ]
}

/// The same for the router's packets to the MH, through the station of a cell.
pub fn router_routes(cell: usize) -> [String; 2] {
    let via = station(cell);
    [
        format!("{}/32 via {} dev {BRIDGE_IF}", MH.v4, via.v4),
        format!("{}/128 via {} dev {BRIDGE_IF}", MH.v6, via.v6),
    ]
}

fn add_routes(
    name: &str,
    to: Addresses,
    bits: [u8; 2],
    via: Option<Addresses>,
) -> anyhow::Result<()> {
    let rtnl = Rtnl::open()?;
    let ifindex = rtnl.link_index(name)?;
    let (via_v4, via_v6) = (via.map(|a| a.v4.into()), via.map(|a| a.v6.into()));
    rtnl.add_route(to.v4.into(), bits[0], via_v4, ifindex)?;
    Ok(rtnl.add_route(to.v6.into(), bits[1], via_v6, ifindex)?)
}

fn ip(ns: &NetNs, arguments: &[&str]) -> anyhow::Result<()> {
    let output = ns.command("ip").args(arguments).output();
    let output = output.context("cannot start ip")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "ip {}: {}",
        arguments.join(" "),
        complaint.trim()
    );
    Ok(())
}
