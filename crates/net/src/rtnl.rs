// SPDX-License-Identifier: Apache-2.0
//! Links, addresses and routes of the calling thread's network namespace, set
//! up synchronously.
//!
//! A socket stays in the namespace in which it was opened: an [`Rtnl`] keeps
//! working on that one, wherever the thread goes.

use std::fs;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd as _};

use futures_util::TryStreamExt as _;
use netlink_packet_route::link::{
    AfSpecInet, AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InetDevConf, InfoData, InfoVeth,
    LinkAttribute, LinkFlags, LinkMessage, State,
};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteMetric};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, RouteMessageBuilder};
use tokio::runtime::{Builder, Runtime};

mod neighbours;

pub use neighbours::NeighbourMemory;

/// `RTAX_FEATURE_TCP_USEC_TS` (`include/uapi/linux/rtnetlink.h`), a bit of a route's features.
const RTAX_FEATURE_TCP_USEC_TS: u32 = 1 << 4;

/// A netlink route socket with a private runtime.
#[derive(Debug)]
pub struct Rtnl {
    runtime: Runtime,
    handle: Handle,
}

/// The kernel's data about a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The index in its namespace.
    pub ifindex: u32,
    /// The name, at most 15 octets.
    pub name: String,
    /// The link-layer address; empty for a raw-IP device.
    pub address: Vec<u8>,
    /// The MTU in octets.
    pub mtu: u32,
    /// Whether it has been brought up (IFF_UP).
    pub up: bool,
    /// Whether there is a carrier (IFF_LOWER_UP), and the link is not dormant: until a Wi-Fi
    /// has its keys, its driver drops all packets (IF_OPER_DORMANT, RFC 2863).
    pub carrier: bool,
    /// What its frames start with: `ARPHRD_*` of `include/uapi/linux/if_arp.h`.
    pub link_type: u16,
    /// The kind of a virtual device, for example "bridge"; empty for hardware.
    pub kind: String,
    /// The bridge, bond or VRF that it is a port of.
    pub master: Option<u32>,
    /// Whether it is a port of a bridge or of a virtual switch.
    pub is_bridge_port: bool,
    /// Whether it is a port of a hardware switch.
    pub is_switch_port: bool,
}

impl LinkInfo {
    /// Reads the kernel's message.
    pub(crate) fn of(message: &LinkMessage) -> Self {
        let mut info = Self {
            ifindex: message.header.index,
            name: String::new(),
            address: Vec::new(),
            mtu: 0,
            up: message.header.flags.contains(LinkFlags::Up),
            carrier: message.header.flags.contains(LinkFlags::LowerUp),
            link_type: message.header.link_layer_type.into(),
            kind: String::new(),
            master: None,
            is_bridge_port: false,
            is_switch_port: false,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => info.name.clone_from(name),
                LinkAttribute::Address(address) => info.address.clone_from(address),
                LinkAttribute::Mtu(octets) => info.mtu = *octets,
                LinkAttribute::OperState(State::Dormant) => info.carrier = false,
                LinkAttribute::Controller(master) => info.master = Some(*master),
                LinkAttribute::PhysSwitchId(_) => info.is_switch_port = true,
                LinkAttribute::LinkInfo(infos) => {
                    info.kind = infos.iter().find_map(kind_of).unwrap_or_default();
                    info.is_bridge_port = infos.iter().any(is_of_bridge_port);
                }
                _ => {}
            }
        }
        info
    }
}

fn kind_of(info: &netlink_packet_route::link::LinkInfo) -> Option<String> {
    match info {
        netlink_packet_route::link::LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

fn is_of_bridge_port(info: &netlink_packet_route::link::LinkInfo) -> bool {
    match info {
        netlink_packet_route::link::LinkInfo::PortKind(kind) => {
            ["bridge", "openvswitch"].contains(&kind.to_string().as_str())
        }
        _ => false,
    }
}

/// Does the work on a thread of its own in the calling thread's namespace: an [`Rtnl`] has a runtime, and none can
/// be entered within another one.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let done = scope.spawn(work).join();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Rtnl {
    /// Opens a socket in the calling thread's namespace.
    pub fn open() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let handle = {
            let _inside = runtime.enter();
            let (connection, handle, _) = rtnetlink::new_connection()?;
            runtime.spawn(connection);
            handle
        };
        Ok(Self { runtime, handle })
    }

    /// The index of the link `name`.
    pub fn link_index(&self, name: &str) -> io::Result<u32> {
        let name = name.to_owned();
        let step = format!("find link {name}");
        Ok(self
            .link_where(&step, |handle| handle.link().get().match_name(name))?
            .ifindex)
    }

    /// The kernel's data about the link `ifindex`.
    pub fn link(&self, ifindex: u32) -> io::Result<LinkInfo> {
        let step = format!("read link {ifindex}");
        self.link_where(&step, |handle| handle.link().get().match_index(ifindex))
    }

    /// The kernel's data about all links.
    pub fn links(&self) -> io::Result<Vec<LinkInfo>> {
        let links = self.handle.link().get().execute();
        let links = links.map_ok(|message| LinkInfo::of(&message));
        self.wait("read the links", links.try_collect())
    }

    fn link_where(
        &self,
        step: &str,
        request: impl FnOnce(&Handle) -> rtnetlink::LinkGetRequest,
    ) -> io::Result<LinkInfo> {
        let request = request(&self.handle);
        let message = self.wait(step, async { request.execute().try_next().await })?;
        message
            .map(|message| LinkInfo::of(&message))
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{step}: no answer")))
    }

    /// Brings the link up.
    pub fn set_up(&self, ifindex: u32) -> io::Result<()> {
        self.change(
            &format!("bring link {ifindex} up"),
            LinkUnspec::new_with_index(ifindex).up().build(),
        )
    }

    /// Takes the link down; its routes go.
    pub fn set_down(&self, ifindex: u32) -> io::Result<()> {
        self.change(
            &format!("take link {ifindex} down"),
            LinkUnspec::new_with_index(ifindex).down().build(),
        )
    }

    /// Sets the MTU in octets.
    pub fn set_mtu(&self, ifindex: u32, octets: u32) -> io::Result<()> {
        self.change(
            &format!("set the MTU of link {ifindex} to {octets}"),
            LinkUnspec::new_with_index(ifindex).mtu(octets).build(),
        )
    }

    /// Sets the Ethernet address.
    pub fn set_address(&self, ifindex: u32, mac: [u8; 6]) -> io::Result<()> {
        self.change(
            &format!("set the address of link {ifindex}"),
            LinkUnspec::new_with_index(ifindex)
                .address(mac.to_vec())
                .build(),
        )
    }

    /// This host routes what the link receives, and accepts a source that another link reaches (`rp_filter` 2).
    pub fn set_routing(&self, ifindex: u32) -> io::Result<()> {
        let mut conf = InetDevConf::default();
        (conf.forwarding, conf.rp_filter) = (1, 2);
        let conf = AfSpecUnspec::Inet(vec![AfSpecInet::DevConfRequest(conf)]);
        let step = format!("set up routing of link {ifindex}");
        self.change(&step, with_spec(ifindex, conf))
    }

    /// The link gets no IPv6 address when it is brought up. Without IPv6 it gets none anyway.
    pub fn set_no_ipv6_address(&self, ifindex: u32) -> io::Result<()> {
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        let step = format!("keep IPv6 addresses off link {ifindex}");
        let message = with_spec(ifindex, AfSpecUnspec::Inet6(vec![mode]));
        let done = self
            .runtime
            .block_on(self.handle.link().set(message).execute());
        if let Err(rtnetlink::Error::NetlinkError(error)) = &done
            && error.raw_code() == -libc::EAFNOSUPPORT
        {
            return Ok(());
        }
        self.wait(&step, std::future::ready(done))
    }

    /// Deletes the link.
    pub fn delete_link(&self, ifindex: u32) -> io::Result<()> {
        let request = self.handle.link().del(ifindex);
        self.wait(&format!("delete link {ifindex}"), request.execute())
    }

    /// Adds a pair of virtual Ethernet devices, both down, one end in each
    /// namespace; the socket's own namespace is not touched.
    pub fn add_veth(
        &self,
        name_a: &str,
        ns_a: &impl AsFd,
        name_b: &str,
        ns_b: &impl AsFd,
    ) -> io::Result<()> {
        let step = format!("add veth {name_a} and {name_b}");
        let mut message = LinkVeth::new(name_a, name_b)
            .setns_by_fd(ns_a.as_fd().as_raw_fd())
            .build();
        let mut peer = LinkMessage::default();
        peer.attributes
            .push(LinkAttribute::IfName(name_b.to_owned()));
        peer.attributes
            .push(LinkAttribute::NetNsFd(ns_b.as_fd().as_raw_fd()));
        for attribute in &mut message.attributes {
            if let LinkAttribute::LinkInfo(infos) = attribute {
                for info in infos {
                    if let netlink_packet_route::link::LinkInfo::Data(data) = info {
                        *data = InfoData::Veth(InfoVeth::Peer(peer.clone()));
                    }
                }
            }
        }
        self.wait(&step, self.handle.link().add(message).execute())
    }

    /// Adds an address with its prefix length in bits.
    pub fn add_address(&self, ifindex: u32, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
        let step = format!("add address {address}/{prefix_bits} to link {ifindex}");
        let mut request = self.handle.address().add(ifindex, address, prefix_bits);
        if address.is_ipv6() {
            // No duplicate address detection: the address is usable at once.
            request
                .message_mut()
                .header
                .flags
                .insert(netlink_packet_route::address::AddressHeaderFlags::Nodad);
        }
        self.wait(&step, request.execute())
    }

    /// Adds or replaces a route; `via` none: the link itself reaches the
    /// destination. All zeros with prefix 0 is the default route.
    pub fn add_route(
        &self,
        destination: IpAddr,
        prefix_bits: u8,
        via: Option<IpAddr>,
        ifindex: u32,
    ) -> io::Result<()> {
        self.add_route_with(
            destination,
            prefix_bits,
            via,
            ifindex,
            &RouteOptions::default(),
        )
    }

    /// [`Rtnl::add_route`] with further attributes of a route.
    pub fn add_route_with(
        &self,
        destination: IpAddr,
        prefix_bits: u8,
        via: Option<IpAddr>,
        ifindex: u32,
        options: &RouteOptions,
    ) -> io::Result<()> {
        let step = format!("add route {destination}/{prefix_bits} on link {ifindex}");
        let bad = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("{step}: {error}"));
        let mut builder = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(destination, prefix_bits)
            .map_err(|error| bad(format!("{error}")))?
            .output_interface(ifindex);
        if let Some(via) = via {
            builder = builder
                .gateway(via)
                .map_err(|error| bad(format!("{error}")))?;
        } else if destination.is_ipv4() {
            builder = builder.scope(netlink_packet_route::route::RouteScope::Link);
        }
        let mut message: RouteMessage = builder.build();
        let metrics = options.metrics();
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.wait(&step, self.handle.route().add(message).replace().execute())
    }

    fn change(&self, step: &str, message: LinkMessage) -> io::Result<()> {
        self.wait(step, self.handle.link().set(message).execute())
    }

    fn wait<T>(
        &self,
        step: &str,
        future: impl Future<Output = Result<T, rtnetlink::Error>>,
    ) -> io::Result<T> {
        self.runtime.block_on(future).map_err(|error| {
            let inner = match &error {
                rtnetlink::Error::NetlinkError(message) => message.to_io(),
                other => io::Error::other(other.to_string()),
            };
            io::Error::new(inner.kind(), format!("{step}: {inner}"))
        })
    }
}

/// Parameters of the link for one family of addresses.
fn with_spec(ifindex: u32, spec: AfSpecUnspec) -> LinkMessage {
    let spec = LinkAttribute::AfSpecUnspec(vec![spec]);
    let link = LinkUnspec::new_with_index(ifindex);
    link.append_extra_attribute(spec).build()
}

/// Attributes of a route beside its destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteOptions {
    /// The congestion control of connections over the route ("cubic"): unlike
    /// a namespace's default it needs not be in `tcp_allowed_congestion_control`.
    pub congestion_control: Option<String>,
    /// The path MTU in octets.
    pub mtu: Option<u32>,
    /// TCP timestamps in microseconds (Linux 6.7 and later; older ones refuse the route).
    pub microsecond_timestamps: bool,
}

impl RouteOptions {
    fn metrics(&self) -> Vec<RouteMetric> {
        let mut metrics = Vec::new();
        if let Some(name) = &self.congestion_control {
            metrics.push(RouteMetric::CcAlgo(name.clone()));
        }
        if let Some(octets) = self.mtu {
            metrics.push(RouteMetric::Mtu(octets));
        }
        if self.microsecond_timestamps {
            metrics.push(RouteMetric::Features(RTAX_FEATURE_TCP_USEC_TS));
        }
        metrics
    }
}

/// Sets a kernel parameter by its path under `/proc/sys`, dots or slashes
/// ("net.ipv4.ip_forward"); those of `net` are the calling thread's
/// namespace's.
pub fn sysctl(path: &str, value: &str) -> io::Result<()> {
    fs::write(sysctl_file(path), value).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("set sysctl {path} to {value:?}: {error}"),
        )
    })
}

/// Reads a kernel parameter, without the line's end.
pub fn read_sysctl(path: &str) -> io::Result<String> {
    fs::read_to_string(sysctl_file(path))
        .map(|text| text.trim_end().to_owned())
        .map_err(|error| io::Error::new(error.kind(), format!("read sysctl {path}: {error}")))
}

/// A path with slashes is taken as it is: a device's name may hold a dot.
fn sysctl_file(path: &str) -> String {
    let path = path.trim_start_matches('/');
    if path.contains('/') {
        format!("/proc/sys/{path}")
    } else {
        format!("/proc/sys/{}", path.replace('.', "/"))
    }
}

#[cfg(test)]
mod tests;
