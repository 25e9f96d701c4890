// SPDX-License-Identifier: Apache-2.0
//! The mobile's daemon against a gateway's half of the signals, with real sockets and
//! a device whose carrier the test holds. The signals take a way of their own, so that
//! a `down` is delivered too.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_core::LinkEvent;
use holdfast_core::signal::{
    DATAGRAM_BYTES_MAX, Entropy, GatewayPeers, LinkNotice, MobileKey, PORT_DEFAULT, PeerConfig,
    Rejection,
};
use holdfast_net::netns::{ChildGuard, NetNs, available_or_skip};
use holdfast_net::rtnl::Rtnl;
use holdfast_net::tun::{LayerKind, Tun, TunOptions};

/// More than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const LIFETIME: Duration = Duration::from_secs(90);
const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 8, 0, 1));
const MOBILE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 2));

/// A mobile's namespace with a daemon in it, a gateway's with a socket.
struct Place {
    mobile_ns: NetNs,
    daemon: ChildGuard,
    wwan: Tun,
    socket: UdpSocket,
    peers: GatewayPeers,
    /// What the gateway has heard last.
    last: Option<LinkNotice>,
    key: MobileKey,
    started: Instant,
    folder: tempfile::TempDir,
}

fn peers(key: &MobileKey) -> GatewayPeers {
    let config = PeerConfig {
        name: "mobile".into(),
        key: key.clone(),
        allowed: vec!["10.9.0.0/24".parse().unwrap()],
    };
    GatewayPeers::new([config], LIFETIME).unwrap()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

/// The way that the signals take.
fn connect_namespaces(gateway_ns: &NetNs, mobile_ns: &NetNs) {
    Rtnl::open()
        .unwrap()
        .add_veth("sig-g", gateway_ns, "sig-m", mobile_ns)
        .unwrap();
    let addresses = [
        (gateway_ns, "sig-g", GATEWAY),
        (mobile_ns, "sig-m", [10, 8, 0, 2].into()),
    ];
    for (ns, name, address) in addresses {
        ns.run(|| {
            let rtnl = Rtnl::open().unwrap();
            let ifindex = rtnl.link_index(name).unwrap();
            rtnl.add_address(ifindex, address, 24).unwrap();
            rtnl.set_up(ifindex).unwrap();
        })
        .unwrap();
    }
}

fn spawn(mobile_ns: &NetNs, folder: &Path) -> ChildGuard {
    let mut command = mobile_ns.command(env!("CARGO_BIN_EXE_holdfast"));
    command
        .args([
            "mobile",
            "--interface",
            "wwan0",
            "--scheme",
            "none",
            "--gateway",
            "10.8.0.1",
            "--keepalive",
            "1",
        ])
        .arg("--key-file")
        .arg(folder.join("mobile.key"))
        .arg("--control-socket")
        .arg(folder.join("mobile.sock"))
        .stderr(Stdio::null());
    mobile_ns.spawn_guarded(command).unwrap()
}

/// A device whose carrier the test holds.
fn wireless(ns: &NetNs, name: &str, address: IpAddr) -> Tun {
    ns.run(|| {
        let options = TunOptions {
            name: name.into(),
            kind: LayerKind::RawIp,
            up: true,
            ..TunOptions::default()
        };
        let tun = Tun::create(&options).unwrap();
        let rtnl = Rtnl::open().unwrap();
        rtnl.add_address(rtnl.link_index(name).unwrap(), address, 32)
            .unwrap();
        tun
    })
    .unwrap()
}

impl Place {
    fn new() -> Self {
        let [gateway_ns, mobile_ns] = [(); 2].map(|()| NetNs::new().unwrap());
        connect_namespaces(&gateway_ns, &mobile_ns);
        let wwan = wireless(&mobile_ns, "wwan0", MOBILE);
        let socket = gateway_ns
            .run(|| UdpSocket::bind((GATEWAY, PORT_DEFAULT)).unwrap())
            .unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let key = MobileKey::from_random(random());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mobile.key"), key.to_secret_text()).unwrap();
        let daemon = spawn(&mobile_ns, folder.path());
        let started = Instant::now();
        Self {
            mobile_ns,
            daemon,
            wwan,
            socket,
            peers: peers(&key),
            last: None,
            key,
            started,
            folder,
        }
    }

    /// Takes the datagrams that come until one is news.
    fn next_notice(&mut self) -> LinkNotice {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if let Some(notice) = self.take_datagram().1 {
                return notice;
            }
        }
        panic!(
            "no news from the mobile within {LIMIT:?}: {:?}",
            self.peers.counters()
        );
    }

    /// Takes a datagram if one comes: whether, and what it changed.
    fn take_datagram(&mut self) -> (bool, Option<LinkNotice>) {
        let mut datagram = [0; DATAGRAM_BYTES_MAX + 1];
        let Ok((length, from)) = self.socket.recv_from(&mut datagram) else {
            return (false, None);
        };
        let now = holdfast_wire::Instant::ZERO + self.started.elapsed();
        let entropy = Entropy {
            nonce: random(),
            challenge: random(),
        };
        let handled = self
            .peers
            .handle_datagram(&datagram[..length], from, now, &entropy);
        if let Some(reply) = handled.reply {
            self.socket.send_to(&reply, from).unwrap();
        }
        self.last = handled.notice.clone().or(self.last.take());
        (true, handled.notice)
    }

    #[track_caller]
    fn expect(&mut self, event: LinkEvent, addresses: &[IpAddr]) -> LinkNotice {
        let notice = self.next_notice();
        assert_eq!(
            (notice.event, notice.addresses.as_slice()),
            (event, addresses)
        );
        notice
    }

    /// Takes what comes until the link is this by the daemon itself and, with these addresses,
    /// by what the gateway has heard last: its epoch.
    #[track_caller]
    fn settle(&mut self, link: &str, addresses: &[IpAddr]) -> u64 {
        let deadline = Instant::now() + LIMIT;
        loop {
            self.take_datagram();
            let (status, last) = (self.status(), &self.last);
            if let Some(last) = last
                && (last.event == LinkEvent::Down) == (link == "down")
                && last.addresses == addresses
                && status["link"] == link
            {
                return last.epoch;
            }
            assert!(Instant::now() < deadline, "{last:?}, {status}");
        }
    }

    /// Stops the daemon, and changes things until the kernel has dropped what it would say.
    fn stop_until_news_is_missed(&mut self) {
        self.daemon.signal(libc::SIGSTOP).unwrap();
        let (before, deadline) = (self.missed_messages(), Instant::now() + LIMIT);
        while self.missed_messages() == before {
            assert!(Instant::now() < deadline, "the kernel keeps them all");
            let change = || {
                for octets in [1400, 1500] {
                    self.wwan.set_mtu(octets).unwrap();
                }
            };
            self.mobile_ns.run(change).unwrap();
        }
    }

    /// Messages of rtnetlink that sockets in the mobile's namespace have missed.
    fn missed_messages(&self) -> u64 {
        let path = format!("/proc/{}/net/netlink", self.daemon.id());
        let sockets = std::fs::read_to_string(path).unwrap();
        let missed = sockets.lines().skip(1).filter_map(|line| {
            // sk, Eth, Pid, Groups, Rmem, Wmem, Dump, Locks, Drops, Inode
            let words: Vec<_> = line.split_whitespace().collect();
            (words[1] == "0").then(|| words[8].parse::<u64>().ok())?
        });
        missed.sum()
    }

    fn signal(&self, arguments: &[&str]) {
        let status = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(["mobile", "signal", "--socket"])
            .arg(self.folder.path().join("mobile.sock"))
            .args(arguments)
            .status()
            .unwrap();
        assert!(status.success(), "{arguments:?}");
    }

    fn status(&self) -> serde_json::Value {
        let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(["status", "--json", "--socket"])
            .arg(self.folder.path().join("mobile.sock"))
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn a_mobile_tells_of_its_carrier_its_addresses_and_commands() {
    if !available_or_skip("a_mobile_tells_of_its_carrier_its_addresses_and_commands") {
        return;
    }
    let mut place = Place::new();
    place.expect(LinkEvent::Up, &[MOBILE]);

    place.wwan.set_carrier(false).unwrap();
    let down = place.expect(LinkEvent::Down, &[MOBILE]);
    place.wwan.set_carrier(true).unwrap();
    let up = place.expect(LinkEvent::Up, &[MOBILE]);
    assert_eq!(up.epoch, down.epoch + 1);

    let second = IpAddr::from([10, 9, 0, 3]);
    place
        .mobile_ns
        .run(|| {
            let rtnl = Rtnl::open().unwrap();
            rtnl.add_address(rtnl.link_index("wwan0").unwrap(), second, 32)
                .unwrap();
        })
        .unwrap();
    place.expect(LinkEvent::Up, &[MOBILE, second]);

    let both = [MOBILE, second];
    place.signal(&["going-down-soon", "--lead-ms", "300"]);
    place.expect(
        LinkEvent::GoingDownSoon(Some(Duration::from_millis(300))),
        &both,
    );
    place.signal(&["down"]);
    place.expect(LinkEvent::Down, &both);
    assert_eq!(place.status()["link"], "down");
    place.signal(&["up"]);
    place.expect(LinkEvent::Up, &both);
    assert_eq!(place.status()["link"], "up");
    assert_eq!(
        place.status()["gateway"],
        SocketAddr::new(GATEWAY, PORT_DEFAULT).to_string()
    );
}

#[test]
fn either_end_may_restart() {
    if !available_or_skip("either_end_may_restart") {
        return;
    }
    let mut place = Place::new();
    let first = place.expect(LinkEvent::Up, &[MOBILE]);

    // The gateway: the next keepalive is challenged, and believed then.
    place.peers = peers(&place.key);
    place.expect(LinkEvent::Up, &[MOBILE]);
    assert!(
        place
            .peers
            .counters()
            .rejections
            .count(Rejection::NoSession)
            >= 1
    );

    // The mobile: killed, it leaves its socket behind, and its successor replaces it.
    place.daemon.kill().unwrap();
    place.daemon = spawn(&place.mobile_ns, place.folder.path());
    let again = place.expect(LinkEvent::Up, &[MOBILE]);
    assert!(
        again.epoch > first.epoch,
        "it goes on above the epoch that it forgot"
    );
    let deadline = Instant::now() + LIMIT;
    while place.status()["acknowledged"] != true {
        assert!(Instant::now() < deadline, "{}", place.status());
        place.take_datagram();
    }

    let (status, by_itself) = place.daemon.terminate(LIMIT).unwrap();
    assert!(
        status.success() && by_itself,
        "SIGTERM ends it in good order"
    );
    assert!(!place.folder.path().join("mobile.sock").exists());
}

#[test]
fn a_mobile_outside_its_prefixes_says_that_it_was_refused() {
    if !available_or_skip("a_mobile_outside_its_prefixes_says_that_it_was_refused") {
        return;
    }
    let mut place = Place::new();
    place.expect(LinkEvent::Up, &[MOBILE]);
    let foreign = IpAddr::from([10, 7, 0, 1]);
    place
        .mobile_ns
        .run(|| {
            let rtnl = Rtnl::open().unwrap();
            rtnl.add_address(rtnl.link_index("wwan0").unwrap(), foreign, 32)
                .unwrap();
        })
        .unwrap();
    let deadline = Instant::now() + LIMIT;
    while place.status()["refused"] != "AddressNotAllowed" {
        assert!(Instant::now() < deadline, "{}", place.status());
        assert_eq!(place.take_datagram().1, None, "it changes nothing");
    }
}

#[test]
fn after_fifty_flaps_the_link_is_what_it_was_last() {
    if !available_or_skip("after_fifty_flaps_the_link_is_what_it_was_last") {
        return;
    }
    let mut place = Place::new();
    let first = place.expect(LinkEvent::Up, &[MOBILE]).epoch;
    for last in [false, true] {
        for _ in 0..25 {
            for carrier in [!last, last] {
                place.wwan.set_carrier(carrier).unwrap();
                place.take_datagram();
            }
        }
        let link = if last { "up" } else { "down" };
        let epoch = place.settle(link, &[MOBILE]);
        println!("{link} after 25 flaps, epoch {first} to {epoch}");
        // The end of each outage that was seen is a new epoch; so is the last, if it ended.
        let seen = u64::from(last)..=50;
        assert!(seen.contains(&(epoch - first)), "{first}, {epoch}");
    }
    assert_eq!(place.status()["sources"][0]["failures"], 0);
}

#[test]
fn a_daemon_that_was_stopped_for_longer_than_the_kernel_keeps_news_learns_what_is_so() {
    let test = "a_daemon_that_was_stopped_for_longer_than_the_kernel_keeps_news_learns_what_is_so";
    if !available_or_skip(test) {
        return;
    }
    let mut place = Place::new();
    let first = place.expect(LinkEvent::Up, &[MOBILE]).epoch;
    place.stop_until_news_is_missed();
    // The device is gone, and what said so was missed.
    let other = wireless(&place.mobile_ns, "other0", MOBILE);
    drop(std::mem::replace(&mut place.wwan, other));
    place.daemon.signal(libc::SIGCONT).unwrap();
    place.settle("down", &[MOBILE]);
    // And stays so, when all that waited has been read.
    let sent = |place: &Place| place.status()["counters"]["sent"].as_u64().unwrap();
    let before = sent(&place);
    let deadline = Instant::now() + LIMIT;
    while sent(&place) < before + 2 {
        assert!(Instant::now() < deadline, "no keepalive");
        place.take_datagram();
    }
    assert_eq!(place.status()["link"], "down");
    // It comes back with another number, and another address.
    let second = IpAddr::from([10, 9, 0, 3]);
    place.wwan = wireless(&place.mobile_ns, "wwan0", second);
    let epoch = place.settle("up", &[second]);
    assert!(epoch > first, "{first}, {epoch}");
    // It goes and is there again before anybody looks.
    place.stop_until_news_is_missed();
    let third = IpAddr::from([10, 9, 0, 4]);
    let other = wireless(&place.mobile_ns, "other1", MOBILE);
    drop(std::mem::replace(&mut place.wwan, other));
    place.wwan = wireless(&place.mobile_ns, "wwan0", third);
    place.daemon.signal(libc::SIGCONT).unwrap();
    let again = place.settle("up", &[third]);
    assert!(again > epoch, "{epoch}, {again}");
}
