// SPDX-License-Identifier: Apache-2.0
//! The mobile's daemon and a gateway's receiver of signals, with real sockets and a device
//! whose carrier the test controls. The signals have a link of their own, so that a `down`
//! arrives too.

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
use holdfast_testbed::daemons::request_output;

/// The deadline of each step; a busy machine needs less.
const LIMIT: Duration = Duration::from_secs(60);
const LIFETIME: Duration = Duration::from_secs(90);
const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 8, 0, 1));
const MOBILE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 2));

const ONE_GATEWAY: &str = "gateway = \"10.8.0.1\"";

/// A namespace with the mobile's daemon, and one with the gateway's socket.
struct World {
    mobile_ns: NetNs,
    daemon: ChildGuard,
    wwan: Tun,
    socket: UdpSocket,
    peers: GatewayPeers,
    /// The gateway's last notice.
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

/// The link for the signals.
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

/// `gateways`: the setting that names them.
fn spawn(mobile_ns: &NetNs, folder: &Path, gateways: &str) -> ChildGuard {
    let text = format!(
        "[mobile]\ninterface = \"wwan0\"\nscheme = \"none\"\nkeepalive_s = 1\n{gateways}\n\
         key_file = \"{0}/mobile.key\"\ncontrol_socket = \"{0}/mobile.sock\"\n",
        folder.display()
    );
    let file = folder.join("mobile.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = mobile_ns.command(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["mobile", "--config"]).arg(file);
    command.stderr(Stdio::null());
    mobile_ns.spawn_guarded(command).unwrap()
}

/// A device whose carrier the test controls.
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

impl World {
    fn new() -> Self {
        Self::with_gateways(ONE_GATEWAY)
    }

    fn with_gateways(gateways: &str) -> Self {
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
        let daemon = spawn(&mobile_ns, folder.path(), gateways);
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

    /// Takes datagrams until one gives a notice.
    fn next_notice(&mut self) -> LinkNotice {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if let Some(notice) = self.take_datagram().1 {
                return notice;
            }
        }
        panic!(
            "no notice from the mobile within {LIMIT:?}: {:?}",
            self.peers.counters()
        );
    }

    /// Takes a datagram: true if there was one, and the notice that it gave.
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

    /// Takes datagrams until the daemon's status and the gateway's last notice have this link state,
    /// and the notice has these addresses. Returns its epoch.
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

    /// Stops the daemon, and changes the MTU until the kernel has dropped notifications.
    fn stop_until_notifications_are_dropped(&mut self) {
        self.daemon.signal(libc::SIGSTOP).unwrap();
        let (before, deadline) = (self.dropped_messages(), Instant::now() + LIMIT);
        while self.dropped_messages() == before {
            assert!(Instant::now() < deadline, "the kernel drops no message");
            let change = || {
                for octets in [1400, 1500] {
                    self.wwan.set_mtu(octets).unwrap();
                }
            };
            self.mobile_ns.run(change).unwrap();
        }
    }

    /// The rtnetlink messages that the kernel has dropped for the mobile's namespace.
    fn dropped_messages(&self) -> u64 {
        let path = format!("/proc/{}/net/netlink", self.daemon.id());
        let sockets = std::fs::read_to_string(path).unwrap();
        let dropped = sockets.lines().skip(1).filter_map(|line| {
            // sk, Eth, Pid, Groups, Rmem, Wmem, Dump, Locks, Drops, Inode
            let fields: Vec<_> = line.split_whitespace().collect();
            (fields[1] == "0").then(|| fields[8].parse::<u64>().ok())?
        });
        dropped.sum()
    }

    fn signal(&self, arguments: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["mobile", "signal", "--socket"]);
        command.arg(self.folder.path().join("mobile.sock"));
        let output = request_output(command.args(arguments)).unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    fn status(&self) -> serde_json::Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["status", "--json", "--socket"]);
        let output = request_output(command.arg(self.folder.path().join("mobile.sock"))).unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

#[test]
fn a_mobile_reports_its_carrier_its_addresses_and_commands() {
    if !available_or_skip("a_mobile_reports_its_carrier_its_addresses_and_commands") {
        return;
    }
    let mut world = World::new();
    world.expect(LinkEvent::Up, &[MOBILE]);
    assert_eq!(world.status()["scheme"], "none");

    world.wwan.set_carrier(false).unwrap();
    let down = world.expect(LinkEvent::Down, &[MOBILE]);
    world.wwan.set_carrier(true).unwrap();
    let up = world.expect(LinkEvent::Up, &[MOBILE]);
    assert_eq!(up.epoch, down.epoch + 1);

    let second = IpAddr::from([10, 9, 0, 3]);
    world
        .mobile_ns
        .run(|| {
            let rtnl = Rtnl::open().unwrap();
            rtnl.add_address(rtnl.link_index("wwan0").unwrap(), second, 32)
                .unwrap();
        })
        .unwrap();
    world.expect(LinkEvent::Up, &[MOBILE, second]);

    let both = [MOBILE, second];
    world.signal(&["going-down-soon", "--lead-ms", "300"]);
    world.expect(
        LinkEvent::GoingDownSoon(Some(Duration::from_millis(300))),
        &both,
    );
    world.signal(&["down"]);
    world.expect(LinkEvent::Down, &both);
    assert_eq!(world.status()["link"], "down");
    world.signal(&["up"]);
    world.expect(LinkEvent::Up, &both);
    assert_eq!(world.status()["link"], "up");
    assert_eq!(
        world.status()["gateway"],
        SocketAddr::new(GATEWAY, PORT_DEFAULT).to_string()
    );
}

#[test]
fn either_end_may_restart() {
    if !available_or_skip("either_end_may_restart") {
        return;
    }
    let mut world = World::new();
    let first = world.expect(LinkEvent::Up, &[MOBILE]);

    // The gateway restarts: it challenges the next keepalive.
    world.peers = peers(&world.key);
    world.expect(LinkEvent::Up, &[MOBILE]);
    assert!(
        world
            .peers
            .counters()
            .rejections
            .count(Rejection::NoSession)
            >= 1
    );

    // The mobile is killed: its successor replaces the socket.
    world.daemon.kill().unwrap();
    world.daemon = spawn(&world.mobile_ns, world.folder.path(), ONE_GATEWAY);
    let again = world.expect(LinkEvent::Up, &[MOBILE]);
    assert!(
        again.epoch > first.epoch,
        "the epoch is not higher than before the restart"
    );
    let deadline = Instant::now() + LIMIT;
    while world.status()["acknowledged"] != true {
        assert!(Instant::now() < deadline, "{}", world.status());
        world.take_datagram();
    }

    let (status, by_itself) = world.daemon.terminate(LIMIT).unwrap();
    assert!(
        status.success() && by_itself,
        "SIGTERM did not end the daemon"
    );
    assert!(!world.folder.path().join("mobile.sock").exists());
}

#[test]
fn a_mobile_whose_first_cell_has_no_interface_yet_reports_from_the_second() {
    if !available_or_skip("a_mobile_whose_first_cell_has_no_interface_yet_reports_from_the_second")
    {
        return;
    }
    let mut world = World::with_gateways("cells = [\"wwan1 10.7.0.1\", \"wwan0 10.8.0.1\"]");
    world.expect(LinkEvent::Up, &[MOBILE]);
}

#[test]
fn a_mobile_outside_its_prefixes_reports_that_it_was_refused() {
    if !available_or_skip("a_mobile_outside_its_prefixes_reports_that_it_was_refused") {
        return;
    }
    let mut world = World::new();
    world.expect(LinkEvent::Up, &[MOBILE]);
    let foreign = IpAddr::from([10, 7, 0, 1]);
    world
        .mobile_ns
        .run(|| {
            let rtnl = Rtnl::open().unwrap();
            rtnl.add_address(rtnl.link_index("wwan0").unwrap(), foreign, 32)
                .unwrap();
        })
        .unwrap();
    let deadline = Instant::now() + LIMIT;
    while world.status()["refused"] != "AddressNotAllowed" {
        assert!(Instant::now() < deadline, "{}", world.status());
        assert_eq!(world.take_datagram().1, None, "the signal was accepted");
    }
}

#[test]
fn after_fifty_flaps_both_ends_have_the_last_state() {
    if !available_or_skip("after_fifty_flaps_both_ends_have_the_last_state") {
        return;
    }
    let mut world = World::new();
    let first = world.expect(LinkEvent::Up, &[MOBILE]).epoch;
    for last in [false, true] {
        for _ in 0..25 {
            for carrier in [!last, last] {
                world.wwan.set_carrier(carrier).unwrap();
                world.take_datagram();
            }
        }
        let link = if last { "up" } else { "down" };
        let epoch = world.settle(link, &[MOBILE]);
        println!("{link} after 25 flaps, epoch {first} to {epoch}");
        // The end of each outage that the daemon saw is a new epoch.
        let seen = u64::from(last)..=50;
        assert!(seen.contains(&(epoch - first)), "{first}, {epoch}");
    }
    assert_eq!(world.status()["sources"][0]["failures"], 0);
}

#[test]
fn a_daemon_that_missed_notifications_reads_the_present_state() {
    let test = "a_daemon_that_missed_notifications_reads_the_present_state";
    if !available_or_skip(test) {
        return;
    }
    let mut world = World::new();
    let first = world.expect(LinkEvent::Up, &[MOBILE]).epoch;
    world.stop_until_notifications_are_dropped();
    // The device is removed, and the daemon misses the notification.
    let other = wireless(&world.mobile_ns, "other0", MOBILE);
    drop(std::mem::replace(&mut world.wwan, other));
    world.daemon.signal(libc::SIGCONT).unwrap();
    world.settle("down", &[MOBILE]);
    // The link stays down after the daemon has read all messages.
    let sent = |world: &World| world.status()["counters"]["sent"].as_u64().unwrap();
    let before = sent(&world);
    let deadline = Instant::now() + LIMIT;
    while sent(&world) < before + 2 {
        assert!(Instant::now() < deadline, "no keepalive");
        world.take_datagram();
    }
    assert_eq!(world.status()["link"], "down");
    // A new device has another index and another address.
    let second = IpAddr::from([10, 9, 0, 3]);
    world.wwan = wireless(&world.mobile_ns, "wwan0", second);
    let epoch = world.settle("up", &[second]);
    assert!(epoch > first, "{first}, {epoch}");
    // The device is removed and made again while the daemon is stopped.
    world.stop_until_notifications_are_dropped();
    let third = IpAddr::from([10, 9, 0, 4]);
    let other = wireless(&world.mobile_ns, "other1", MOBILE);
    drop(std::mem::replace(&mut world.wwan, other));
    world.wwan = wireless(&world.mobile_ns, "wwan0", third);
    world.daemon.signal(libc::SIGCONT).unwrap();
    let again = world.settle("up", &[third]);
    assert!(again > epoch, "{epoch}, {again}");
}
