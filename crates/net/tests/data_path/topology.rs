// SPDX-License-Identifier: Apache-2.0
//! FH, router and MH as network namespaces, and threads that a test stops.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use holdfast_net::datapath::HEARTBEAT_INTERVAL;
use holdfast_net::netns::NetNs;
use holdfast_net::readiness::wait_readable;
use holdfast_net::rtnl::{Rtnl, sysctl};
use holdfast_net::tun::{LayerKind, Tun, TunOptions};

use super::WAIT_MAX;

/// FH, router and MH; the wireless link is a veth pair or two TUN devices.
pub(super) struct Topology {
    pub(super) fh: Arc<NetNs>,
    pub(super) gw: Arc<NetNs>,
    pub(super) mh: Arc<NetNs>,
    /// Moves packets between the TUN devices.
    _pump: Option<Background<()>>,
}

/// A thread that runs until it is stopped.
pub(super) struct Background<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Background<T> {
    pub(super) fn spawn(work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        Self {
            stop,
            thread: Some(thread::spawn(move || work(&flag))),
        }
    }
}

impl<T> Background<T> {
    pub(super) fn finish(mut self) -> T {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Addresses, and the default routes through `via`.
fn configure(ns: &NetNs, device: &str, addresses: [&str; 2], via: Option<[&str; 2]>) {
    ns.run(|| {
        let rtnl = Rtnl::open().unwrap();
        let index = rtnl.link_index(device).unwrap();
        rtnl.set_up(index).unwrap();
        for (text, prefix) in addresses.into_iter().zip([24, 64]) {
            rtnl.add_address(index, address(text), prefix).unwrap();
        }
        for (all, via) in ["0.0.0.0", "::"].into_iter().zip(via.into_iter().flatten()) {
            rtnl.add_route(address(all), 0, Some(address(via)), index)
                .unwrap();
        }
    })
    .unwrap();
}

impl Topology {
    pub(super) fn new(kind: LayerKind) -> Self {
        let [fh, gw, mh] = [(); 3].map(|()| Arc::new(NetNs::new().unwrap()));
        for ns in [&fh, &gw, &mh] {
            // Link-local addresses are usable at once: the router solicits with them.
            ns.run(|| sysctl("net.ipv6.conf.default.accept_dad", "0").unwrap())
                .unwrap();
        }
        let rtnl = Rtnl::open().unwrap();
        rtnl.add_veth("f0", &fh, "g0", &gw).unwrap();
        let pump = match kind {
            LayerKind::Ethernet => {
                rtnl.add_veth("wl0", &gw, "wl0", &mh).unwrap();
                None
            }
            LayerKind::RawIp => Some(pump(&gw, &mh)),
        };
        configure(
            &fh,
            "f0",
            ["10.1.0.2", "fd01::2"],
            Some(["10.1.0.1", "fd01::1"]),
        );
        configure(&gw, "g0", ["10.1.0.1", "fd01::1"], None);
        configure(&gw, "wl0", ["10.2.0.1", "fd02::1"], None);
        configure(
            &mh,
            "wl0",
            ["10.2.0.2", "fd02::2"],
            Some(["10.2.0.1", "fd02::1"]),
        );
        gw.run(|| {
            sysctl("net.ipv4.ip_forward", "1").unwrap();
            sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
        })
        .unwrap();
        Self {
            fh,
            gw,
            mh,
            _pump: pump,
        }
    }

    /// What a home router has: masquerading, and a firewall that knows connections.
    pub(super) fn masquerade(&self) {
        let rules = "table ip nat { chain post { type nat hook postrouting priority 100;
            oifname \"g0\" masquerade; }; }
            table inet guard { chain transit { type filter hook forward priority 0;
            ct state invalid drop; }; }";
        let status = self.gw.command("nft").arg(rules).status().unwrap();
        assert!(status.success());
    }

    /// A connection from the MH to the FH.
    pub(super) fn connect(&self, fh: &str) -> (TcpStream, TcpStream) {
        let at = SocketAddr::new(address(fh), 0);
        let listener = self.fh.run(|| TcpListener::bind(at).unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        let mh_end = self
            .mh
            .run(|| TcpStream::connect_timeout(&at, WAIT_MAX).unwrap())
            .unwrap();
        let (fh_end, _) = listener.accept().unwrap();
        for end in [&fh_end, &mh_end] {
            end.set_read_timeout(Some(WAIT_MAX)).unwrap();
            end.set_write_timeout(Some(WAIT_MAX)).unwrap();
        }
        (fh_end, mh_end)
    }
}

/// Two TUN devices `wl0`, and a thread that carries super-segments between them.
fn pump(gw: &NetNs, mh: &NetNs) -> Background<()> {
    let create = || {
        Tun::create(&TunOptions {
            name: "wl0".into(),
            kind: LayerKind::RawIp,
            offload: true,
            ..TunOptions::default()
        })
        .unwrap()
    };
    let ends = [gw.run(create).unwrap(), mh.run(create).unwrap()];
    Background::spawn(move |stop| {
        let mut frame = vec![0; 70_000];
        while !stop.load(Ordering::Relaxed) {
            let fds = [ends[0].as_fd(), ends[1].as_fd()];
            wait_readable(fds, Some(HEARTBEAT_INTERVAL)).unwrap();
            for (from, to) in [(0, 1), (1, 0)] {
                for _ in 0..64 {
                    let Ok(len) = ends[from].read(&mut frame) else {
                        break;
                    };
                    let _ = ends[to].write(&frame[..len]);
                }
            }
        }
    })
}
