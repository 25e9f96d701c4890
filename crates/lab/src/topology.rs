// SPDX-License-Identifier: Apache-2.0
//! FH, gateway and MH as network namespaces with the links between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use anyhow::Context as _;
use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::{self, RouteOptions, Rtnl};

use crate::link_process::{EmulatedLink, GATEWAY_IF, LinkProcess, MH_IF};

/// The FH's addresses.
pub const FH: Addresses = Addresses::of(1, 2);
/// The gateway's addresses toward the FH.
pub const GATEWAY_WIRED: Addresses = Addresses::of(1, 1);
/// The gateway's addresses toward the MH.
pub const GATEWAY_WIRELESS: Addresses = Addresses::of(2, 1);
/// The MH's addresses.
pub const MH: Addresses = Addresses::of(2, 2);

/// The FH's device.
pub const FH_IF: &str = "fh0";
/// The gateway's device toward the FH.
pub const GATEWAY_WIRED_IF: &str = "gw0";

const PREFIX_BITS_V4: u8 = 24;
const PREFIX_BITS_V6: u8 = 64;

/// One interface's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4.
    pub v4: Ipv4Addr,
    /// IPv6.
    pub v6: Ipv6Addr,
}

impl Addresses {
    const fn of(net: u8, host: u8) -> Self {
        Self {
            v4: Ipv4Addr::new(10, net, 0, host),
            v6: Ipv6Addr::new(0xfd00 + net as u16, 0, 0, 0, 0, 0, 0, host as u16),
        }
    }
}

/// The way between gateway and MH.
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
    /// The way between gateway and MH.
    pub wireless: Wireless,
    /// MTU of the way between FH and gateway in octets.
    pub wired_mtu: u32,
    /// Congestion control of FH and MH, by their default routes.
    pub congestion_control: String,
    /// More kernel parameters at FH and MH, over the pinned ones.
    pub host_sysctls: Vec<(String, String)>,
    /// An emulated link between FH and gateway; none: a veth pair.
    pub wired: Option<EmulatedLink>,
    /// What is the FH's own.
    pub fh: HostTuning,
    /// What is the MH's own.
    pub mh: HostTuning,
    /// Rules for the gateway as `nft -f` takes them; empty: none.
    pub gateway_nft: String,
    /// More kernel parameters at the gateway.
    pub gateway_sysctls: Vec<(String, String)>,
}

/// What one host has different from the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTuning {
    /// Its congestion control; none: the topology's.
    pub congestion_control: Option<String>,
    /// More kernel parameters, over those of both hosts.
    pub sysctls: Vec<(String, String)>,
    /// Options of its default routes, as `ip route` takes them.
    pub route_options: Vec<String>,
}

impl TopologySettings {
    /// A topology over `wireless`: Cubic, 1500 octets, no rules.
    pub fn new(holdfast: impl Into<PathBuf>, wireless: Wireless) -> Self {
        Self {
            holdfast: holdfast.into(),
            wireless,
            wired_mtu: 1500,
            congestion_control: "cubic".into(),
            host_sysctls: Vec::new(),
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

/// Before any device is made, in all three: no chatter of its own on the links.
const QUIET_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
];

const GATEWAY_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
];

/// The three namespaces and their links; all is gone when it is dropped.
#[derive(Debug)]
pub struct Topology {
    /// The fixed host.
    pub fh: NetNs,
    /// The router between the wired and the wireless part.
    pub gateway: NetNs,
    /// The mobile host.
    pub mh: NetNs,
    /// The emulated link, if that is the way between gateway and MH.
    pub link: Option<LinkProcess>,
    /// The emulated link between FH and gateway, if that is the way.
    pub wired_link: Option<LinkProcess>,
}

impl Topology {
    /// Builds it. Errors say which step failed; without privilege it is the
    /// first namespace.
    pub fn build(settings: &TopologySettings) -> anyhow::Result<Self> {
        let fh = NetNs::new()?;
        let gateway = NetNs::new()?;
        let mh = NetNs::new()?;
        for ns in [&fh, &gateway, &mh] {
            ns.run(|| set_sysctls(QUIET_SYSCTLS))??;
        }
        let wired_link = if let Some(link) = &settings.wired {
            let (fh_end, gateway_end) = ((&fh, FH_IF), (&gateway, GATEWAY_WIRED_IF));
            Some(LinkProcess::spawn_between(
                &settings.holdfast,
                fh_end,
                gateway_end,
                link,
            )?)
        } else {
            gateway.run(|| Rtnl::open()?.add_veth(FH_IF, &fh, GATEWAY_WIRED_IF, &gateway))??;
            None
        };
        let link = match &settings.wireless {
            Wireless::Emulated(link) => {
                Some(LinkProcess::spawn(&settings.holdfast, &gateway, &mh, link)?)
            }
            Wireless::Veth { .. } => {
                gateway.run(|| Rtnl::open()?.add_veth(GATEWAY_IF, &gateway, MH_IF, &mh))??;
                None
            }
        };
        let topology = Self {
            fh,
            gateway,
            mh,
            link,
            wired_link,
        };
        topology.configure(settings)?;
        Ok(topology)
    }

    fn configure(&self, settings: &TopologySettings) -> anyhow::Result<()> {
        let wireless_mtu = match &settings.wireless {
            Wireless::Emulated(link) => link.mtu,
            Wireless::Veth { mtu } => *mtu,
        };
        let wired_mtu = settings.wired_mtu;
        self.gateway.run(|| {
            set_sysctls(GATEWAY_SYSCTLS)?;
            set_interface(GATEWAY_WIRED_IF, GATEWAY_WIRED, wired_mtu)?;
            set_interface(GATEWAY_IF, GATEWAY_WIRELESS, wireless_mtu)?;
            set_owned_sysctls(&settings.gateway_sysctls)
        })??;
        let hosts = [
            (&self.fh, FH_IF, FH, GATEWAY_WIRED, wired_mtu, &settings.fh),
            (
                &self.mh,
                MH_IF,
                MH,
                GATEWAY_WIRELESS,
                wireless_mtu,
                &settings.mh,
            ),
        ];
        for (ns, name, own, router, mtu, tuning) in hosts {
            let congestion_control = tuning
                .congestion_control
                .as_ref()
                .unwrap_or(&settings.congestion_control);
            let routes = RouteOptions {
                congestion_control: Some(congestion_control.clone()),
                mtu: None,
            };
            ns.run(|| {
                set_sysctls(HOST_SYSCTLS)?;
                set_owned_sysctls(&settings.host_sysctls)?;
                set_owned_sysctls(&tuning.sysctls)?;
                set_interface(name, own, mtu)?;
                set_default_routes(name, router, &routes)
            })??;
            if !tuning.route_options.is_empty() {
                tune_default_routes(ns, name, router, congestion_control, &tuning.route_options)?;
            }
        }
        if !settings.gateway_nft.is_empty() {
            load_rules(&self.gateway, &settings.gateway_nft)?;
        }
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

fn set_interface(name: &str, addresses: Addresses, mtu: u32) -> anyhow::Result<()> {
    let rtnl = Rtnl::open()?;
    let ifindex = rtnl.link_index(name)?;
    rtnl.set_mtu(ifindex, mtu)?;
    rtnl.add_address(ifindex, IpAddr::V4(addresses.v4), PREFIX_BITS_V4)?;
    rtnl.add_address(ifindex, IpAddr::V6(addresses.v6), PREFIX_BITS_V6)?;
    Ok(rtnl.set_up(ifindex)?)
}

/// Gives the default routes more options, by `ip route`.
fn tune_default_routes(
    ns: &NetNs,
    name: &str,
    router: Addresses,
    congestion_control: &str,
    options: &[String],
) -> anyhow::Result<()> {
    for (family, via) in [("-4", router.v4.to_string()), ("-6", router.v6.to_string())] {
        let mut command = ns.command("ip");
        command.args([
            family, "route", "change", "default", "via", &via, "dev", name,
        ]);
        command.args(["congctl", congestion_control]).args(options);
        let output = command.output().context("cannot start ip")?;
        anyhow::ensure!(
            output.status.success(),
            "ip route {}: {}",
            options.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Default routes of both families by way of `router`.
fn set_default_routes(name: &str, router: Addresses, options: &RouteOptions) -> anyhow::Result<()> {
    let rtnl = Rtnl::open()?;
    let ifindex = rtnl.link_index(name)?;
    let families = [
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(router.v4)),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(router.v6)),
    ];
    for (everywhere, via) in families {
        rtnl.add_route_with(everywhere, 0, Some(via), ifindex, options)?;
    }
    Ok(())
}
