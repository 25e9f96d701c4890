// SPDX-License-Identifier: Apache-2.0
//! FH, gateway and MH as network namespaces with the links between them.
//!
//! The gateway is router and base station in one. With several cells each has a base station
//! of its own, behind one router ([`base_stations`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use anyhow::Context as _;
use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::{self, RouteOptions, Rtnl};

use crate::link_process::{EmulatedLink, GATEWAY_IF, LinkProcess, MH_IF};

pub mod absence;
pub mod base_stations;
pub mod routes;

/// The FH's addresses.
pub const FH: Addresses = Addresses::of(1, 2);
/// The gateway's addresses toward the FH.
pub const GATEWAY_WIRED: Addresses = Addresses::of(1, 1);
/// The gateway's addresses toward the MH.
pub const GATEWAY_WIRELESS: Addresses = Addresses::of(2, 1);
/// The MH's addresses.
pub const MH: Addresses = Addresses::of(2, 2);

/// The addresses of a second mobile, which shares the MH's host, device and link.
pub const SECOND_MH: Addresses = Addresses::of(2, 3);

/// The FH's device.
pub const FH_IF: &str = "fh0";
/// The gateway's device toward the FH.
pub const GATEWAY_WIRED_IF: &str = "gw0";

/// The prefix lengths of IPv4 and of IPv6.
const PREFIX_BITS: [u8; 2] = [24, 64];

/// One interface's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4.
    pub v4: Ipv4Addr,
    /// IPv6.
    pub v6: Ipv6Addr,
}

impl Addresses {
    /// All addresses, with a prefix of 0 bits.
    const ALL: Self = Self {
        v4: Ipv4Addr::UNSPECIFIED,
        v6: Ipv6Addr::UNSPECIFIED,
    };

    const fn of(net: u8, host: u8) -> Self {
        Self {
            v4: Ipv4Addr::new(10, net, 0, host),
            v6: Ipv6Addr::new(0xfd00 + net as u16, 0, 0, 0, 0, 0, 0, host as u16),
        }
    }
}

/// The link between gateway and MH.
#[derive(Clone, Debug, PartialEq)]
pub enum Wireless {
    /// `holdfast link`.
    Emulated(EmulatedLink),
    /// A veth pair with this MTU in octets: no limit of rate, for throughput.
    Veth {
        /// MTU in octets.
        mtu: u32,
    },
}

/// How a topology is to be built.
#[derive(Clone, Debug)]
pub struct TopologySettings {
    /// Our own binary, for the link.
    pub holdfast: PathBuf,
    /// The link between gateway and MH; of several cells that of the first one.
    pub wireless: Wireless,
    /// The links of other cells, each with a base station of its own.
    pub other_cells: Vec<EmulatedLink>,
    /// MTU of the link between FH and gateway in octets.
    pub wired_mtu: u32,
    /// Congestion control of FH and MH, by their default routes.
    pub congestion_control: String,
    /// An emulated link between FH and gateway; none: a veth pair.
    pub wired: Option<EmulatedLink>,
    /// Settings of the FH alone.
    pub fh: HostTuning,
    /// Settings of the MH alone.
    pub mh: HostTuning,
    /// Rules for the gateway as `nft -f` takes them; empty: none.
    pub gateway_nft: String,
    /// More kernel parameters at the gateway.
    pub gateway_sysctls: Vec<(String, String)>,
}

/// Settings in which one host differs from the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTuning {
    /// Its congestion control; none: the topology's.
    pub congestion_control: Option<String>,
    /// More kernel parameters, over those of both hosts.
    pub sysctls: Vec<(String, String)>,
    /// Options of its default routes, as `ip route` takes them.
    pub route_options: Vec<String>,
    /// Its timestamps are in microseconds. Not together with route options.
    pub microsecond_timestamps: bool,
}

impl TopologySettings {
    /// A topology over `wireless`: Cubic, 1500 octets, no rules.
    pub fn new(holdfast: impl Into<PathBuf>, wireless: Wireless) -> Self {
        Self {
            holdfast: holdfast.into(),
            wireless,
            other_cells: Vec::new(),
            wired_mtu: 1500,
            congestion_control: "cubic".into(),
            wired: None,
            fh: HostTuning::default(),
            mh: HostTuning::default(),
            gateway_nft: String::new(),
            gateway_sysctls: Vec::new(),
        }
    }
}

/// Kernel parameters of FH and MH, pinned because distributions differ in them.
pub const HOST_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
    ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_window_scaling", "1"),
    ("net.ipv4.tcp_retries2", "15"),
    ("net.ipv4.tcp_slow_start_after_idle", "1"),
];

/// Set in all three before any device is made: the kernel sends nothing by itself on the links.
const QUIET_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
];

const GATEWAY_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
];

/// The namespaces and their links; all is removed when it is dropped.
#[derive(Debug)]
pub struct Topology {
    /// The fixed host.
    pub fh: NetNs,
    /// The router before several base stations; none: the only gateway is the router.
    pub router: Option<NetNs>,
    /// The cells, one or more.
    pub cells: Vec<Cell>,
    /// The mobile host.
    pub mh: NetNs,
    /// The emulated link between the FH and its router; none: a veth pair.
    pub wired_link: Option<LinkProcess>,
}

/// A base station and the link of its cell.
#[derive(Debug)]
pub struct Cell {
    /// The router between the wired and the wireless part.
    pub gateway: NetNs,
    /// The emulated link to the MH; none: a veth pair.
    pub link: Option<LinkProcess>,
}

impl Topology {
    /// Builds it. Errors name the step that failed; without privilege it is the
    /// first namespace.
    pub fn build(settings: &TopologySettings) -> anyhow::Result<Self> {
        let fh = NetNs::new()?;
        // The router, or the only gateway.
        let inner = NetNs::new()?;
        let mh = NetNs::new()?;
        for ns in [&fh, &inner, &mh] {
            ns.run(|| set_sysctls(QUIET_SYSCTLS))??;
        }
        let wired_link = if let Some(link) = &settings.wired {
            let (fh_end, inner_end) = ((&fh, FH_IF), (&inner, GATEWAY_WIRED_IF));
            Some(LinkProcess::spawn_between(
                &settings.holdfast,
                fh_end,
                inner_end,
                link,
            )?)
        } else {
            inner.run(|| Rtnl::open()?.add_veth(FH_IF, &fh, GATEWAY_WIRED_IF, &inner))??;
            None
        };
        let (router, cells) = if settings.other_cells.is_empty() {
            let link = only_link(settings, &inner, &mh)?;
            let gateway = inner;
            (None, vec![Cell { gateway, link }])
        } else {
            let Wireless::Emulated(first) = &settings.wireless else {
                anyhow::bail!("several cells need emulated links");
            };
            let links = std::iter::once(first).chain(&settings.other_cells);
            let cells = links
                .enumerate()
                .map(|item| base_stations::build(&settings.holdfast, &inner, &mh, item));
            let cells = cells.collect::<anyhow::Result<_>>()?;
            (Some(inner), cells)
        };
        let topology = Self {
            fh,
            router,
            cells,
            mh,
            wired_link,
        };
        topology.configure(settings)?;
        Ok(topology)
    }

    /// The gateway; of several the first cell's, where the MH begins.
    pub fn gateway(&self) -> &NetNs {
        &self.cells[0].gateway
    }

    fn configure(&self, settings: &TopologySettings) -> anyhow::Result<()> {
        let mtu_of = |wireless: &Wireless| match wireless {
            Wireless::Emulated(link) => link.mtu,
            Wireless::Veth { mtu } => *mtu,
        };
        let wireless_mtu = mtu_of(&settings.wireless);
        let wired_mtu = settings.wired_mtu;
        self.configure_host(&self.fh, &settings.fh)?;
        self.configure_host(&self.mh, &settings.mh)?;
        self.fh.run(|| set_interface(FH_IF, FH, wired_mtu))??;
        if let Some(router) = &self.router {
            let others = settings.other_cells.iter().map(|link| link.mtu);
            let mtus: Vec<u32> = std::iter::once(wireless_mtu).chain(others).collect();
            base_stations::configure(self, router, wired_mtu, &mtus)?;
        } else {
            self.mh.run(|| {
                // Nothing is sent from the second addresses unless a socket is bound to one: Linux prefers the
                // oldest IPv4 address and the newest IPv6 address.
                add_address(MH_IF, IpAddr::V6(SECOND_MH.v6), PREFIX_BITS[1])?;
                set_interface(MH_IF, MH, wireless_mtu)?;
                add_address(MH_IF, IpAddr::V4(SECOND_MH.v4), PREFIX_BITS[0])
            })??;
            self.gateway().run(|| {
                set_sysctls(GATEWAY_SYSCTLS)?;
                set_interface(GATEWAY_WIRED_IF, GATEWAY_WIRED, wired_mtu)?;
                set_interface(GATEWAY_IF, GATEWAY_WIRELESS, wireless_mtu)
            })??;
        }
        let mh_router = match &self.router {
            Some(_) => base_stations::station(0),
            None => GATEWAY_WIRELESS,
        };
        set_default_routes(&self.fh, FH_IF, GATEWAY_WIRED, (settings, &settings.fh))?;
        set_default_routes(&self.mh, MH_IF, mh_router, (settings, &settings.mh))?;
        for cell in &self.cells {
            cell.gateway
                .run(|| set_owned_sysctls(&settings.gateway_sysctls))??;
            if !settings.gateway_nft.is_empty() {
                load_rules(&cell.gateway, &settings.gateway_nft)?;
            }
        }
        Ok(())
    }

    fn configure_host(&self, ns: &NetNs, tuning: &HostTuning) -> anyhow::Result<()> {
        let several = self.router.is_some();
        ns.run(|| {
            set_sysctls(HOST_SYSCTLS)?;
            if several {
                // A packet may come by the new cell before the route leads there.
                set_sysctls(&[("net.ipv4.conf.all.rp_filter", "2")])?;
            }
            set_owned_sysctls(&tuning.sysctls)
        })?
    }

    /// Takes the gateway's device toward the MH down, or up again. Over a veth pair the MH's
    /// device loses its carrier meanwhile.
    pub fn set_gateway_device(&self, up: bool) -> anyhow::Result<()> {
        self.gateway().run(|| {
            let rtnl = Rtnl::open()?;
            let ifindex = rtnl.link_index(GATEWAY_IF)?;
            if up {
                rtnl.set_up(ifindex)
            } else {
                rtnl.set_down(ifindex)
            }
        })??;
        Ok(())
    }

    /// Takes the MH's device down, or up again with its route of IPv4. Over a veth
    /// pair the gateway's device loses its carrier meanwhile; the kernel forgets
    /// neighbours and routes, as when a radio is switched off.
    pub fn set_mh_device(&self, up: bool) -> anyhow::Result<()> {
        self.mh.run(|| {
            let rtnl = Rtnl::open()?;
            let ifindex = rtnl.link_index(MH_IF)?;
            if !up {
                return Ok(rtnl.set_down(ifindex)?);
            }
            rtnl.set_up(ifindex)?;
            let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            let via = IpAddr::V4(GATEWAY_WIRELESS.v4);
            Ok(rtnl.add_route(everywhere, 0, Some(via), ifindex)?)
        })?
    }
}

/// Loads rules into a namespace with `nft -f -`.
pub fn load_rules(ns: &NetNs, rules: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut child = ns
        .command("nft")
        .args(["-f", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .context("cannot start nft")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(rules.as_bytes())?;
    }
    anyhow::ensure!(child.wait()?.success(), "nft does not take the rules");
    Ok(())
}

fn set_sysctls(sysctls: &[(&str, &str)]) -> anyhow::Result<()> {
    for (path, value) in sysctls {
        rtnl::sysctl(path, value)?;
    }
    Ok(())
}

fn set_owned_sysctls(sysctls: &[(String, String)]) -> anyhow::Result<()> {
    for (path, value) in sysctls {
        rtnl::sysctl(path, value)?;
    }
    Ok(())
}

fn set_interface(name: &str, own: Addresses, mtu: u32) -> anyhow::Result<()> {
    set_interface_with(name, own, PREFIX_BITS, mtu)
}

fn set_interface_with(name: &str, own: Addresses, bits: [u8; 2], mtu: u32) -> anyhow::Result<()> {
    let rtnl = Rtnl::open()?;
    let ifindex = rtnl.link_index(name)?;
    rtnl.set_mtu(ifindex, mtu)?;
    rtnl.add_address(ifindex, IpAddr::V4(own.v4), bits[0])?;
    rtnl.add_address(ifindex, IpAddr::V6(own.v6), bits[1])?;
    Ok(rtnl.set_up(ifindex)?)
}

fn add_address(name: &str, address: IpAddr, prefix_bits: u8) -> anyhow::Result<()> {
    let rtnl = Rtnl::open()?;
    Ok(rtnl.add_address(rtnl.link_index(name)?, address, prefix_bits)?)
}

/// The options of a host's routes, as `ip route` takes it.
fn route_arguments(congestion_control: &str, tuning: &HostTuning) -> Vec<String> {
    let own = tuning.congestion_control.as_deref();
    let mut arguments = vec![
        "congctl".to_owned(),
        own.unwrap_or(congestion_control).to_owned(),
    ];
    arguments.extend(tuning.route_options.iter().cloned());
    arguments
}

/// Default routes of both families by way of `router`.
fn set_default_routes(
    ns: &NetNs,
    name: &str,
    router: Addresses,
    (settings, tuning): (&TopologySettings, &HostTuning),
) -> anyhow::Result<()> {
    let own = tuning.congestion_control.as_ref();
    let congestion_control = own.unwrap_or(&settings.congestion_control);
    let options = RouteOptions {
        congestion_control: Some(congestion_control.clone()),
        mtu: None,
        microsecond_timestamps: tuning.microsecond_timestamps,
    };
    ns.run(|| {
        let rtnl = Rtnl::open()?;
        let ifindex = rtnl.link_index(name)?;
        let families = [
            (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(router.v4)),
            (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(router.v6)),
        ];
        for (everywhere, via) in families {
            rtnl.add_route_with(everywhere, 0, Some(via), ifindex, &options)?;
        }
        anyhow::Ok(())
    })??;
    if tuning.route_options.is_empty() {
        return Ok(());
    }
    anyhow::ensure!(
        !tuning.microsecond_timestamps,
        "ip route would take the microseconds of timestamps away"
    );
    // The options that netlink's library has no names for.
    for (family, via) in [("-4", router.v4.to_string()), ("-6", router.v6.to_string())] {
        let mut command = ns.command("ip");
        command.args([
            family, "route", "change", "default", "via", &via, "dev", name,
        ]);
        command.args(route_arguments(congestion_control, tuning));
        let output = command.output().context("cannot start ip")?;
        anyhow::ensure!(
            output.status.success(),
            "ip route {}: {}",
            tuning.route_options.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Makes the link of the only gateway; none: it is a veth pair.
fn only_link(
    settings: &TopologySettings,
    gateway: &NetNs,
    mh: &NetNs,
) -> anyhow::Result<Option<LinkProcess>> {
    match &settings.wireless {
        Wireless::Emulated(link) => {
            let link = LinkProcess::spawn(&settings.holdfast, gateway, mh, link)?;
            Ok(Some(link))
        }
        Wireless::Veth { .. } => {
            gateway.run(|| Rtnl::open()?.add_veth(GATEWAY_IF, gateway, MH_IF, mh))??;
            Ok(None)
        }
    }
}
