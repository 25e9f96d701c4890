// SPDX-License-Identifier: Apache-2.0
//! Made ACKs of a flow whose router has another address of the link layer after an outage.
//!
//! ```text
//!   phone --- [lan] mh [wl0] --- [ap0] router [core] --- fh
//!   10.3.0.2   .1     10.2.0.2    .1   10.1.0.1          .2
//! ```
//!
//! The window is closed. Then the router takes another address, nothing goes down any more, so that
//! the MH has nothing to answer, and one ACK is made that opens the window: the FH receives it
//! only if it goes to that address.
#![allow(missing_docs, reason = "a test")]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdfast_core::mobile_host::MadeAck;
use holdfast_net::datapath::{AttachMode, monotonic_ns};
use holdfast_net::mobile_path::{AckSender, FLOWS_MAX, MobilePath, NotedFlow};
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::rtnl::{Rtnl, sysctl};
use holdfast_net::tcp_info::TcpInfo;
use holdfast_wire::Instant as Clock;

/// An emulated processor is slow.
const LIMIT: Duration = Duration::from_secs(60);
const NEW_MAC: [u8; 6] = [2, 0, 0, 0xbe, 0xef, 1];

fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The network `net`'s host `host`.
fn address(is_v6: bool, net: u8, host: u8) -> IpAddr {
    if is_v6 {
        format!("fd0{net}::{host}").parse().unwrap()
    } else {
        [10, net, 0, host].into()
    }
}

fn run_in<T: Send>(ns: &NetNs, work: impl FnOnce(&Rtnl) -> T + Send) -> T {
    ns.run(|| work(&Rtnl::open().unwrap())).unwrap()
}

struct World {
    is_v6: bool,
    mh: NetNs,
    router: NetNs,
    fh: NetNs,
    phone: NetNs,
}

impl World {
    fn new(is_v6: bool) -> Self {
        let [mh, router, fh, phone] = [(); 4].map(|()| {
            let ns = NetNs::new().unwrap();
            ns.run(|| {
                for kind in ["all", "default"] {
                    sysctl(&format!("net.ipv4.conf.{kind}.rp_filter"), "0").unwrap();
                    sysctl(&format!("net.ipv6.conf.{kind}.accept_dad"), "0").unwrap();
                    sysctl(&format!("net.ipv6.conf.{kind}.forwarding"), "1").unwrap();
                    // Addresses stay when a link goes.
                    sysctl(&format!("net.ipv6.conf.{kind}.keep_addr_on_down"), "1").unwrap();
                }
                sysctl("net.ipv4.ip_forward", "1").unwrap();
            })
            .unwrap();
            ns
        });
        let world = Self {
            is_v6,
            mh,
            router,
            fh,
            phone,
        };
        let rtnl = Rtnl::open().unwrap();
        let links = [
            (&world.mh, "wl0", 2, 2, &world.router, "ap0", 1),
            (&world.fh, "wire", 1, 2, &world.router, "core", 1),
            (&world.phone, "wire", 3, 2, &world.mh, "lan", 1),
        ];
        for (ns, name, net, host, other, other_name, other_host) in links {
            rtnl.add_veth(name, ns, other_name, other).unwrap();
            for (ns, name, host) in [(ns, name, host), (other, other_name, other_host)] {
                run_in(ns, |rtnl| {
                    let ifindex = rtnl.link_index(name).unwrap();
                    rtnl.set_up(ifindex).unwrap();
                    let bits = if is_v6 { 64 } else { 24 };
                    let address = address(is_v6, net, host);
                    rtnl.add_address(ifindex, address, bits).unwrap();
                });
            }
        }
        world.add_default(&world.fh, "wire", address(is_v6, 1, 1));
        world.add_default(&world.phone, "wire", address(is_v6, 3, 1));
        world.add_default(&world.mh, "wl0", address(is_v6, 2, 1));
        run_in(&world.router, |rtnl| {
            let ifindex = rtnl.link_index("ap0").unwrap();
            let (to, bits) = world.phones();
            let via = Some(address(is_v6, 2, 2));
            rtnl.add_route(to, bits, via, ifindex).unwrap();
        });
        world
    }

    fn phones(&self) -> (IpAddr, u8) {
        (address(self.is_v6, 3, 0), if self.is_v6 { 64 } else { 24 })
    }

    fn add_default(&self, ns: &NetNs, name: &str, via: IpAddr) {
        let any: IpAddr = if self.is_v6 { "::" } else { "0.0.0.0" }.parse().unwrap();
        run_in(ns, |rtnl| {
            let ifindex = rtnl.link_index(name).unwrap();
            rtnl.add_route(any, 0, Some(via), ifindex).unwrap();
        });
    }

    fn ip(&self, ns: &NetNs, args: &[&str]) {
        let family = if self.is_v6 { "-6" } else { "-4" };
        let output = ns.command("ip").arg(family).args(args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {args:?}: {errors}");
    }

    /// Whether the MH has an address of the link layer for its router.
    fn knows_router(&self) -> bool {
        let router = address(self.is_v6, 2, 1).to_string();
        let mut command = self.mh.command("ip");
        let output = command
            .args(["neigh", "show", &router])
            .output()
            .unwrap()
            .stdout;
        String::from_utf8_lossy(&output).contains("lladdr")
    }

    /// Nothing goes down to the flow's end any more.
    fn silence(&self, mh: IpAddr) {
        let bits = if self.is_v6 { 128 } else { 32 };
        let to = format!("{mh}/{bits}");
        self.ip(&self.router, &["route", "add", "blackhole", &to]);
    }

    /// The router has another address, with or without an outage in which the MH forgets the old
    /// one.
    fn change_router(&self, with_outage: bool) {
        run_in(&self.router, |rtnl| {
            let ifindex = rtnl.link_index("ap0").unwrap();
            if with_outage {
                rtnl.set_down(ifindex).unwrap();
                await_that("the MH forgets", || !self.knows_router());
            }
            rtnl.set_address(ifindex, NEW_MAC).unwrap();
            if with_outage {
                rtnl.set_up(ifindex).unwrap();
            }
        });
        if with_outage {
            // Routes to the router's networks by that link went with it.
            run_in(&self.router, |rtnl| {
                let ifindex = rtnl.link_index("ap0").unwrap();
                let (to, bits) = self.phones();
                let via = Some(address(self.is_v6, 2, 2));
                rtnl.add_route(to, bits, via, ifindex).unwrap();
            });
            await_that("the carrier", || {
                run_in(&self.mh, |rtnl| {
                    let ifindex = rtnl.link_index("wl0").unwrap();
                    rtnl.link(ifindex).unwrap().carrier
                })
            });
        } else {
            // As the router's own announcement makes it.
            let router = address(self.is_v6, 2, 1).to_string();
            let mac = "02:00:00:be:ef:01";
            let entry = [
                "neigh", "replace", &router, "lladdr", mac, "dev", "wl0", "nud", "stale",
            ];
            self.ip(&self.mh, &entry);
        }
    }
}

/// A download that never ends by itself, to the MH or to the phone behind it.
struct Download {
    path: Option<MobilePath>,
    received: Arc<AtomicU64>,
    ends: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Download {
    fn start(world: &World, at: &NetNs) -> Self {
        let path = world
            .mh
            .run(|| MobilePath::attach("wl0", AttachMode::Auto, FLOWS_MAX).unwrap());
        let to = (address(world.is_v6, 1, 2), 0);
        let listener = world.fh.run(|| TcpListener::bind(to).unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        let at_mh = at.run(|| TcpStream::connect(to).unwrap()).unwrap();
        let (at_fh, _) = listener.accept().unwrap();
        let ends = [at_mh.try_clone().unwrap(), at_fh.try_clone().unwrap()];
        let received = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&received);
        let threads = vec![
            thread::spawn(move || {
                let (mut at_fh, chunk) = (at_fh, vec![7; 1 << 16]);
                while at_fh.write_all(&chunk).is_ok() {}
            }),
            thread::spawn(move || {
                let (mut at_mh, mut buffer) = (at_mh, vec![0; 1 << 16]);
                while let Ok(bytes @ 1..) = at_mh.read(&mut buffer) {
                    counted.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }),
        ];
        Self {
            path: Some(path.unwrap()),
            received,
            ends,
            threads,
        }
    }

    fn path(&self) -> &MobilePath {
        self.path.as_ref().unwrap()
    }

    fn noted(&self) -> NotedFlow {
        let flows = self.path().maps().flows().unwrap();
        assert_eq!(flows.len(), 1, "{flows:?}");
        flows.into_iter().next().unwrap()
    }

    fn at_fh(&self) -> TcpInfo {
        TcpInfo::of(&self.ends[1]).unwrap()
    }

    /// The window that the FH knows.
    fn window(&self) -> u32 {
        self.at_fh().snd_wnd
    }

    fn close(&self) {
        let maps = self.path().maps();
        maps.close(&self.noted().flow.key).unwrap();
        let deadline = monotonic_ns() + 10 * LIMIT.as_nanos() as u64;
        maps.set_orders_until(Clock::from_nanos(deadline));
        await_that("the window is closed", || self.window() == 0);
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A download that ran, whose window is closed, and to whose end nothing goes any more. All has arrived.
fn closed_and_silent(world: &World, download: &Download) -> (AckSender, NotedFlow) {
    await_that("it runs", || {
        download.received.load(Ordering::Relaxed) > 1_000_000
    });
    let interface = download.path().interface();
    let sender = world.mh.run(|| AckSender::open(interface)).unwrap();
    let sender = sender.unwrap();
    download.close();
    // A reader that is late gives the MH's own window free, which is then noted.
    await_that("all is read", || {
        let info = download.at_fh();
        let received = download.received.load(Ordering::Relaxed);
        info.bytes_acked == info.bytes_sent_once() && info.bytes_acked == received
    });
    let noted = download.noted();
    world.silence(noted.flow.key.mh.address);
    (sender, noted)
}

fn an_opening_ack_arrives(is_v6: bool, with_outage: bool, is_forwarded: bool) {
    let world = World::new(is_v6);
    let at = if is_forwarded {
        &world.phone
    } else {
        &world.mh
    };
    let download = Download::start(&world, at);
    let (sender, _) = closed_and_silent(&world, &download);
    world.change_router(with_outage);
    let before = download.at_fh();
    assert_eq!(before.snd_wnd, 0, "it was not opened");
    let begun = Instant::now();
    sender.send(&download.noted(), MadeAck::Last, 1).unwrap();
    // The MH's last answer to a probe may come late and close it again. What the FH has sent stays.
    await_that("the FH receives the window", || {
        let now = download.at_fh();
        now.snd_wnd > 0 || now.bytes_sent_once() > before.bytes_sent_once()
    });
    println!(
        "IPv6: {is_v6}, outage: {with_outage}, forwarded: {is_forwarded}: {:?}",
        begun.elapsed()
    );
}

/// Frames that have come to the router from the MH, whatever address they bear.
fn come_to_router(world: &World) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let devices = world.router.run(read).unwrap();
    let mut lines = devices.lines();
    let line = lines.find_map(|line| line.trim_start().strip_prefix("ap0:"));
    let frames = line.unwrap().split_whitespace().nth(1);
    frames.unwrap().parse().unwrap()
}

#[test]
fn a_process_that_makes_acks_and_ends_leaves_none_of_them_unsent() {
    /// Three times what leaves at once.
    const ACKS: u8 = 100;
    if !available_or_skip("a_process_that_makes_acks_and_ends_leaves_none_of_them_unsent") {
        return;
    }
    let world = World::new(false);
    let download = Download::start(&world, &world.mh);
    let (sender, noted) = closed_and_silent(&world, &download);
    world.change_router(false);
    let before = come_to_router(&world);
    sender.send(&noted, MadeAck::Last, ACKS).unwrap();
    drop(sender);
    let came = come_to_router(&world) - before;
    // To the noted address, and to the one that the router has announced.
    assert!(came >= 2 * u64::from(ACKS), "{came} frames");
}

#[test]
fn made_acks_go_to_the_router_that_answers_after_an_outage() {
    if !available_or_skip("made_acks_go_to_the_router_that_answers_after_an_outage") {
        return;
    }
    for is_v6 in [false, true] {
        for is_forwarded in [false, true] {
            an_opening_ack_arrives(is_v6, true, is_forwarded);
        }
    }
}

#[test]
fn made_acks_go_to_the_address_that_the_router_has_announced() {
    if !available_or_skip("made_acks_go_to_the_address_that_the_router_has_announced") {
        return;
    }
    for is_v6 in [false, true] {
        an_opening_ack_arrives(is_v6, false, false);
    }
}
