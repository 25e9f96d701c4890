// SPDX-License-Identifier: Apache-2.0
//! The data of the wireless interface that the data path needs.

use std::io;

use crate::tun::{LayerKind, interface_ioctl, named_request, query_ifindex};

/// Link types with an Ethernet header: `ARPHRD_ETHER`.
const WITH_ETHERNET: [u16; 1] = [1];
/// Link types whose frames start with the IP header, as the kernel's
/// `dev_is_mac_header_xmit` has them: PPP, raw IP, the tunnels (IPIP, IPv6, SIT,
/// GRE, GRE over IPv6), none.
const WITHOUT_HEADER: [u16; 8] = [512, 519, 768, 769, 776, 778, 823, 0xfffe];

/// What the frames of an interface begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The kind of header.
    pub kind: LayerKind,
    /// The interface's own address; zeros without an Ethernet header.
    pub mac: [u8; 6],
}

impl FrameHeader {
    /// `link_type` is an `ARPHRD_*`. None: no data path has such frames.
    pub(crate) fn of(link_type: u16, address: &[u8]) -> Option<Self> {
        if WITH_ETHERNET.contains(&link_type) {
            let mac = address.first_chunk().copied().unwrap_or_default();
            let kind = LayerKind::Ethernet;
            return Some(Self { kind, mac });
        }
        WITHOUT_HEADER.contains(&link_type).then_some(Self {
            kind: LayerKind::RawIp,
            mac: [0; 6],
        })
    }
}

/// The identity of an interface for a data path. With other frames it is another interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId {
    /// Its index.
    pub ifindex: u32,
    /// What its frames begin with; none: no data path has such frames.
    pub header: Option<FrameHeader>,
}

/// An interface of the calling thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub ifindex: u32,
    /// What its frames start with.
    pub kind: LayerKind,
    /// Its MTU in octets.
    pub mtu: u32,
    /// Its own address; zeros without an Ethernet header.
    pub mac: [u8; 6],
}

impl Interface {
    /// Looks up the interface `name`.
    ///
    /// Errors: there is none, or its frames start with neither an Ethernet nor
    /// an IP header (`Unsupported`).
    pub fn query(name: &str) -> io::Result<Self> {
        let ifindex = query_ifindex(name)
            .map_err(|error| io::Error::new(error.kind(), format!("interface {name}: {error}")))?;
        let mut request = named_request(name)?;
        interface_ioctl(libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: SIOCGIFHWADDR filled the union's hwaddr.
        let hwaddr = unsafe { request.ifr_ifru.ifru_hwaddr };
        let link_type = hwaddr.sa_family;
        let address = hwaddr.sa_data.map(|octet| octet as u8);
        let Some(FrameHeader { kind, mac }) = FrameHeader::of(link_type, &address) else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "interface {name}: link type {link_type}; takes Ethernet (1), PPP (512), \
                     raw IP (519), an IP tunnel (768, 769, 776, 778, 823) or none (65534)"
                ),
            ));
        };
        let mut request = named_request(name)?;
        interface_ioctl(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU filled the union's mtu.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu } as u32;
        Ok(Self {
            name: name.into(),
            ifindex,
            kind,
            mtu,
            mac,
        })
    }

    /// Which interface it is.
    pub const fn id(&self) -> InterfaceId {
        let (kind, mac) = (self.kind, self.mac);
        InterfaceId {
            ifindex: self.ifindex,
            header: Some(FrameHeader { kind, mac }),
        }
    }
}

/// `SIOCETHTOOL` with `ETHTOOL_GLINK` (`include/uapi/linux/ethtool.h`).
const ETHTOOL_GLINK: u32 = 0x0a;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// Whether the interface is up and has a carrier at this moment. Netlink's value may
/// be a second old: the kernel gathers changes of the carrier (`linkwatch`).
///
/// Errors: no such interface, or its driver does not report it.
pub fn has_carrier(name: &str) -> io::Result<bool> {
    let mut value = EthtoolValue {
        cmd: ETHTOOL_GLINK,
        data: 0,
    };
    let mut request = named_request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    interface_ioctl(libc::SIOCETHTOOL, &mut request)?;
    Ok(value.data != 0)
}

/// What an interface of the calling thread's namespace has received and sent, in bytes.
///
/// Errors: no such interface, or the kernel's list cannot be read.
pub fn interface_bytes(name: &str) -> io::Result<(u64, u64)> {
    let list = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    bytes_of(&list, name).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The first column of bytes received, the ninth of bytes sent, after `name:`.
fn bytes_of(list: &str, name: &str) -> Option<(u64, u64)> {
    let mut lines = list.lines().filter_map(|line| line.split_once(':'));
    let (_, columns) = lines.find(|(found, _)| found.trim() == name)?;
    let mut columns = columns.split_whitespace().map(|column| column.parse().ok());
    Some((columns.next()??, columns.nth(7)??))
}

/// The largest number of TCX programs at one side of an interface (`BPF_MPROG_MAX`).
const TCX_PROGRAMS_MAX: usize = 64;

/// The TCX programs at each side of an interface by name, in the order in which they run; none where
/// the kernel has no TCX. A name that this user may not read is the program's number.
pub fn tcx_programs(ifindex: u32) -> [(&'static str, Vec<String>); 2] {
    let sides = [
        ("ingress", libbpf_sys::BPF_TCX_INGRESS),
        ("egress", libbpf_sys::BPF_TCX_EGRESS),
    ];
    sides.map(|(side, attach_type)| {
        let names = tcx_program_ids(ifindex, attach_type).into_iter();
        (side, names.map(program_name).collect())
    })
}

fn tcx_program_ids(ifindex: u32, attach_type: libbpf_sys::bpf_attach_type) -> Vec<u32> {
    let mut ids = vec![0; TCX_PROGRAMS_MAX];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = TCX_PROGRAMS_MAX as u32;
    // SAFETY: options and buffer outlive the call, and the kernel writes `count` numbers at most.
    let result =
        unsafe { libbpf_sys::bpf_prog_query_opts(ifindex as i32, attach_type, &raw mut options) };
    // SAFETY: both members of the union are the same count.
    let count = unsafe { options.__bindgen_anon_1.count };
    ids.truncate(if result == 0 { count as usize } else { 0 });
    ids
}

fn program_name(id: u32) -> String {
    let options = libbpf_rs::query::ProgInfoQueryOptions::default();
    let mut programs = libbpf_rs::query::ProgInfoIter::with_query_opts(options);
    let named = programs.find(|program| program.id == id);
    let name = named.map(|program| program.name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("program {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_an_interface_are_found_by_its_whole_name() {
        let list = "Inter-|   Receive       |  Transmit\n \
            face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n    \
            lo: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n\
            wlan0: 5000000000 3 0 0 0 0 0 0 12 4 0 0 0 0 0 0\n";
        assert_eq!(bytes_of(list, "wlan0"), Some((5_000_000_000, 12)));
        assert_eq!(bytes_of(list, "lan0"), None);
        assert_eq!(bytes_of("wlan0: 1 2", "wlan0"), None);
    }
}
