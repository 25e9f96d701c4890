// SPDX-License-Identifier: Apache-2.0
//! Packets given to this host's own routing, as if an interface had brought them.
//!
//! A TUN device: what is written to it is routed, filtered and has its neighbour resolved as
//! any forwarded packet. It loses one hop (TTL) on the way, as with any router.

use std::io;
use std::net::Ipv4Addr;

use crate::privileges;
use crate::rtnl::{Rtnl, apart};
use crate::tun::{LayerKind, Tun, TunOptions};

/// The device's own address: without one, the loose check of a packet's source
/// (`rp_filter` 2) drops all. It is IPv4's dummy address (RFC 7600), which no host has.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// The device's MTU: not below any interface's.
const MTU: u32 = 65_535;

/// The device.
#[derive(Debug)]
pub struct Injector {
    tun: Tun,
}

impl Injector {
    /// Creates the device in the calling thread's namespace; it goes with this value.
    ///
    /// Errors: those of [`Tun::create`], or of a kernel parameter.
    pub fn create() -> io::Result<Self> {
        if let Some(broker) = privileges::broker() {
            let tun = broker.routed_device()?;
            return Ok(Self { tun });
        }
        let tun = Tun::create(&TunOptions {
            name: "hfg%d".into(),
            kind: LayerKind::RawIp,
            mtu: Some(MTU),
            ..TunOptions::default()
        })?;
        // Not by sysctl: a service manager may have made /proc/sys read-only.
        let ifindex = tun.ifindex();
        apart(|| {
            let rtnl = Rtnl::open()?;
            rtnl.set_routing(ifindex)?;
            rtnl.set_no_ipv6_address(ifindex)?;
            rtnl.add_address(ifindex, ADDRESS.into(), 32)
        })?;
        tun.set_up()?;
        Ok(Self { tun })
    }

    pub(crate) fn into_device(self) -> Tun {
        self.tun
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        self.tun.name()
    }

    /// The device's index.
    pub const fn ifindex(&self) -> u32 {
        self.tun.ifindex()
    }

    /// Gives a packet, from its IP header on and with right checksums, to the routing.
    pub fn inject(&self, packet: &[u8]) -> io::Result<()> {
        self.tun.write(packet).map(|_| ())
    }

    /// Drops packets that were routed into the device by mistake.
    pub fn drain(&self) {
        let mut buffer = [0; 64];
        while self.tun.read(&mut buffer).is_ok() {}
    }
}
