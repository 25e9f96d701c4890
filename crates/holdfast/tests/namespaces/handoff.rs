// SPDX-License-Identifier: Apache-2.0
//! Two base stations, one router, an FH, and an MH that moves between their cells under load in both
//! directions: real sockets, real IP multicast.
//!
//! ```text
//!   FH --- router ===+=== west ---(cell, veth with 40 Mb/s)--- MH (10.9.0.2)
//!                    +=== east ---(cell, veth with 40 Mb/s)---+
//! ```
//!
//! The MH leaves a cell: from then on it receives nothing from there.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_testbed::download::Received;
use holdfast_testbed::harness::{Flow, accept, connect, listen};
use serde_json::Value;

use super::{HOLDFAST, PORT, assert_shorter_than, await_that};

const MB: u64 = 1_000_000;

/// The MH's own address, the same in both cells.
const MH: &str = "10.9.0.2";
const FH: &str = "10.1.0.2";

/// The longest time without a byte around a handoff.
const GAP_MAX_MS: u64 = 250;

/// The same for M-TCP that forwards. A segment that reaches the old station at the move may be lost;
/// the FH's timer retransmits it after 200 ms and a round trip.
const FORWARDED_GAP_MAX_MS: u64 = 400;

/// The same if the buffers are discarded: the FH's timer retransmits, and Linux may need two timeouts.
const DISCARDED_GAP_MAX_MS: u64 = 2_000;

/// The longest synchronisation of an announced move while the old station is alive. It is below
/// `sync_wait_ms`.
const SYNC_MAX_MS: f64 = 25.0;

/// The same if the old station dies at the move: the FH's timer retransmits what was lost.
const KILLED_GAP_MAX_MS: u64 = 3_000;

const KEY: &str = "hf1:0000000a:1111111111111111111111111111111111111111111111111111111111111111";
const GROUP_KEY: &str =
    "hf1:0000000b:2222222222222222222222222222222222222222222222222222222222222222";

/// A base station: its name, its address on the wired side, the network of its cell.
#[derive(Clone, Copy, Debug)]
struct Station {
    name: &'static str,
    wired: &'static str,
    cell: u8,
}

const WEST: Station = Station {
    name: "west",
    wired: "10.0.0.1",
    cell: 2,
};
const EAST: Station = Station {
    name: "east",
    wired: "10.0.0.2",
    cell: 3,
};

struct Variant {
    name: &'static str,
    scheme: &'static str,
    /// Sections of the stations' settings.
    lines: &'static str,
    /// The longest time without a byte around a handoff.
    gap_max_ms: u64,
}

const VARIANTS: [Variant; 5] = [
    Variant {
        name: "auto",
        scheme: "auto",
        lines: "",
        gap_max_ms: GAP_MAX_MS,
    },
    Variant {
        name: "hold",
        scheme: "hold",
        lines: "",
        gap_max_ms: GAP_MAX_MS,
    },
    Variant {
        name: "snoop",
        scheme: "snoop",
        lines: "",
        gap_max_ms: GAP_MAX_MS,
    },
    Variant {
        name: "mtcp, published",
        scheme: "mtcp",
        lines: "[mtcp]\nslow_start = false\nhandoff = \"published\"\n",
        gap_max_ms: DISCARDED_GAP_MAX_MS,
    },
    Variant {
        name: "mtcp, forward",
        scheme: "mtcp",
        lines: "[mtcp]\nslow_start = false\nhandoff = \"forward\"\n",
        gap_max_ms: FORWARDED_GAP_MAX_MS,
    },
];

struct World {
    fh: NetNs,
    router: NetNs,
    mh: NetNs,
    stations: [(Station, NetNs, Option<ChildGuard>); 2],
    mobile: Option<ChildGuard>,
    folder: tempfile::TempDir,
    /// Further lines of the stations' settings.
    lines: String,
    /// The station of the MH's cell.
    cell: usize,
}

/// Runs a shell line in a namespace.
fn sh(ns: &NetNs, line: &str) {
    let output = ns.command("sh").args(["-ec", line]).output();
    let output = output.unwrap_or_else(|error| panic!("{line}: {error}"));
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {problem}");
}

fn veth(a: (&NetNs, &str), b: (&NetNs, &str)) {
    a.0.run(|| {
        let rtnl = holdfast_net::rtnl::Rtnl::open().unwrap();
        rtnl.add_veth(a.1, a.0, b.1, b.0).unwrap();
    })
    .unwrap();
}

/// A counter of TCP in a namespace, of `/proc/net/snmp` or `/proc/net/netstat`.
fn tcp_counter(ns: &NetNs, file: &str, name: &str) -> u64 {
    let path = format!("/proc/thread-self/net/{file}");
    let text = ns.run(|| std::fs::read_to_string(&path)).unwrap().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines
        .chunks_exact(2)
        .filter(|pair| pair[0].starts_with("Tcp"));
    pairs
        .flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()))
        .find(|(key, _)| *key == name)
        .and_then(|(_, count)| count.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {file}"))
}

/// The longest time without a byte around a move.
fn gap_ms(received: &Received, (from_ns, to_ns): (u64, u64)) -> u64 {
    let arrivals: Vec<u64> = received.arrivals.iter().map(|one| one.at_ns).collect();
    let gaps = arrivals.windows(2).filter(|pair| {
        // The gap ends after the move began, and began at most 0.5 s after the move's end.
        pair[1] > from_ns && pair[0] < to_ns + 500_000_000
    });
    let longest = gaps.map(|pair| pair[1] - pair[0]).max();
    longest.expect("no byte arrived after the move") / 1_000_000
}

const FORWARDING: &str = "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
    net.ipv4.conf.default.rp_filter=0";

impl World {
    fn new(variant: &Variant, always: bool) -> Self {
        let ns = || NetNs::new().unwrap();
        let (fh, router, mh) = (ns(), ns(), ns());
        let stations = [WEST, EAST].map(|station| (station, ns(), None));
        for one in [&router, &stations[0].1, &stations[1].1, &mh] {
            sh(one, FORWARDING);
        }
        veth((&fh, "eth0"), (&router, "fh"));
        sh(
            &fh,
            "ip addr add 10.1.0.2/24 dev eth0; ip link set eth0 up; ip route add default via 10.1.0.1",
        );
        sh(
            &router,
            "ip link add br0 type bridge; ip link set br0 up; ip addr add 10.0.0.254/24 dev br0",
        );
        sh(&router, "ip addr add 10.1.0.1/24 dev fh; ip link set fh up");
        for (station, ns, _) in &stations {
            let Station { name, wired, cell } = station;
            veth((ns, "eth0"), (&router, name));
            sh(&router, &format!("ip link set {name} master br0 up"));
            sh(
                ns,
                &format!("ip addr add {wired}/24 dev eth0; ip link set eth0 up"),
            );
            sh(ns, "ip route add default via 10.0.0.254");
            veth((ns, "wl0"), (&mh, name));
            sh(
                ns,
                &format!("ip addr add 10.{cell}.0.1/24 dev wl0; ip link set wl0 up"),
            );
            sh(
                &mh,
                &format!("ip addr add 10.{cell}.0.2/24 dev {name}; ip link set {name} up"),
            );
            sh(ns, &format!("ip route add {MH} via 10.{cell}.0.2 dev wl0"));
            // The cell's rate, with a queue of 50 ms.
            for (ns, device) in [(ns, "wl0"), (&mh, *name)] {
                let tbf = "root tbf rate 40mbit burst 32k latency 50ms";
                sh(ns, &format!("tc qdisc add dev {device} {tbf}"));
            }
        }
        sh(
            &mh,
            &format!("ip addr add {MH}/32 dev lo; nft add table inet radio"),
        );
        sh(
            &mh,
            "nft 'add chain inet radio in { type filter hook prerouting priority -300; }'",
        );
        let mut world = Self {
            fh,
            router,
            mh,
            stations,
            mobile: None,
            folder: tempfile::tempdir().unwrap(),
            lines: variant.lines.to_owned(),
            cell: 0,
        };
        world.route_to(0);
        world.receive_from(0);
        for number in 0..2 {
            world.start_station(number, variant.scheme, always);
        }
        world.start_mobile();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn start_station(&mut self, number: usize, scheme: &str, always: bool) {
        let station = self.stations[number].0;
        let other = self.stations[1 - number].0;
        let name = station.name;
        let group_key = self.write("stations.key", GROUP_KEY);
        let group_key = group_key.display();
        let (socket, state) = (self.path(&format!("{name}.sock")), self.path(name));
        let (socket, state) = (socket.display(), state.display());
        let text = format!(
            "[gateway]\nwireless = \"wl0\"\nwired = \"eth0\"\nscheme = \"{scheme}\"\n\
             control_socket = \"{socket}\"\nstate_file = \"{state}\"\n\
             [handoff]\nname = \"{name}\"\nneighbours = [\"{}\"]\nkey_file = \"{group_key}\"\n\
             always = {always}\n\
             [[mobile]]\nname = \"mh\"\nkey = \"{KEY}\"\naddresses = [\"10.0.0.0/8\"]\n{}",
            other.wired, self.lines,
        );
        let config = self.write(&format!("{name}.toml"), &text);
        let ns = &self.stations[number].1;
        let child = self.spawn(ns, &["gateway", "--config"], &config, name);
        self.stations[number].2 = Some(child);
        await_that("the station answers", || self.try_status(number).is_some());
    }

    fn start_mobile(&mut self) {
        let key = self.write("mobile.key", KEY);
        let socket = self.path("mobile.sock");
        let (key, socket) = (key.display(), socket.display());
        let text = format!(
            "[mobile]\ninterface = \"lo\"\nscheme = \"none\"\nkey_file = \"{key}\"\ncontrol_socket = \"{socket}\"\n\
             cells = [\"west 10.2.0.1\", \"east 10.3.0.1\"]\n"
        );
        let config = self.write("mobile.toml", &text);
        let child = self.spawn(&self.mh, &["mobile", "--config"], &config, "mobile");
        self.mobile = Some(child);
        await_that("the MH is registered", || self.role(0) == "forwarding");
    }

    fn spawn(&self, ns: &NetNs, arguments: &[&str], config: &Path, name: &str) -> ChildGuard {
        let log = std::fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = ns.command(HOLDFAST);
        command.args(arguments).arg(config).stderr(log);
        command.env("HOLDFAST_LOG", "debug");
        ns.spawn_guarded(command).unwrap()
    }

    fn try_status(&self, number: usize) -> Option<Value> {
        let socket = self.path(&format!("{}.sock", self.stations[number].0.name));
        let mut command = Command::new(HOLDFAST);
        let output = command.args(["status", "--json", "--socket"]).arg(socket);
        serde_json::from_slice(&output.output().ok()?.stdout).ok()
    }

    fn status(&self, number: usize) -> Value {
        self.try_status(number).expect("a status")
    }

    fn counter(&self, number: usize, name: &str) -> u64 {
        let status = self.status(number);
        status["counters"][format!("handoff.{name}")]
            .as_u64()
            .unwrap()
    }

    fn role(&self, number: usize) -> String {
        let status = self.status(number);
        let role = status["handoff"]["mobiles"][0]["role"].as_str();
        role.unwrap_or("none").to_owned()
    }

    /// The wired network sends what is for the MH to this station.
    fn route_to(&self, number: usize) {
        let wired = self.stations[number].0.wired;
        sh(&self.router, &format!("ip route replace {MH} via {wired}"));
    }

    /// The MH receives from one cell only.
    fn receive_from(&self, number: usize) {
        let other = self.stations[1 - number].0.name;
        let lines =
            format!("flush chain inet radio in; add rule inet radio in iifname {other} drop");
        sh(&self.mh, &format!("nft '{lines}'"));
        let cell = self.stations[number].0.cell;
        let route = format!("ip route replace default via 10.{cell}.0.1 src {MH}");
        sh(&self.mh, &route);
    }

    /// The MH announces that it will leave, and the other station buffers.
    fn prepare(&self) {
        let mut command = Command::new(HOLDFAST);
        command.args(["mobile", "signal", "going-down-soon", "--socket"]);
        let status = command.arg(self.path("mobile.sock")).status().unwrap();
        assert!(status.success(), "{status}");
        let other = 1 - self.cell;
        await_that("the other station buffers", || {
            self.role(other) == "buffering"
        });
    }

    /// Moves the MH to the other cell. Returns the time before and after.
    fn leave(&mut self) -> (u64, u64) {
        self.cell = 1 - self.cell;
        let before_ns = monotonic_ns();
        self.receive_from(self.cell);
        (before_ns, monotonic_ns())
    }

    /// Waits until the MH is at its cell's station. Returns the duration of the handoff, in ms; `None` if
    /// the station knew no old one.
    fn arrived(&self) -> Option<f64> {
        let cell = self.cell;
        await_that("the MH is there", || self.role(cell) == "forwarding");
        let status = self.status(cell);
        status["handoff"]["mobiles"][0]["last_sync_ms"].as_f64()
    }

    /// The segments that both ends have retransmitted, and those that the MH received twice.
    fn retransmitted(&self) -> (u64, u64) {
        let sent = [&self.fh, &self.mh].map(|ns| tcp_counter(ns, "snmp", "RetransSegs"));
        let twice = ["TCPDSACKOldSent", "TCPDSACKOfoSent"];
        let twice = twice.map(|name| tcp_counter(&self.mh, "netstat", name));
        (sent.iter().sum(), twice.iter().sum())
    }

    fn kill(&mut self, number: usize) {
        let mut child = self.stations[number].2.take().expect("it runs");
        child.kill().unwrap();
    }

    /// Starts a transfer in each direction, of these bytes: downlink, uplink.
    fn flows(&self, [downlink, uplink]: [u64; 2]) -> (Flow, Flow) {
        let address: IpAddr = FH.parse().unwrap();
        let connection = |port: u16| {
            let listener = listen(&self.fh, address, port).unwrap();
            let at_mh = connect(&self.mh, address, port).unwrap();
            let (at_fh, _) = accept(&listener).unwrap();
            (at_fh, at_mh)
        };
        let (at_fh, at_mh) = connection(PORT);
        let down = Flow::start(at_fh, at_mh, downlink, 1);
        let (at_fh, at_mh) = connection(PORT + 1);
        let up = Flow::start(at_mh, at_fh, uplink, 2);
        (down, up)
    }

    fn report(&self, what: &str) {
        for number in 0..2 {
            let Some(status) = self.try_status(number) else {
                continue;
            };
            let counters = status["counters"].as_object().unwrap().iter();
            let shown: Vec<String> = counters
                .filter(|(name, count)| name.starts_with("handoff.") && **count != 0)
                .map(|(name, count)| format!("{}={count}", &name[8..]))
                .collect();
            let mobile = &status["handoff"]["mobiles"][0];
            println!(
                "{what}: {}: {} {mobile}",
                self.stations[number].0.name,
                shown.join(" ")
            );
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report("at the end");
            for name in ["west.log", "east.log", "mobile.log"] {
                let log = std::fs::read_to_string(self.path(name)).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = &lines[lines.len().saturating_sub(40)..];
                println!("--- {name}\n{}", last.join("\n"));
            }
        }
    }
}

/// Bytes of the upload, which may be twice as fast as the download.
const UP: u64 = 24 * MB;

fn moves_between_cells(variant: &Variant) {
    let scheme = variant.name;
    let mut world = World::new(variant, false);
    // Both last beyond the last move.
    let (down, up) = world.flows([18 * MB, UP]);
    let mut moves = Vec::new();
    for round in 0..4 {
        let before = down.watch().bytes();
        down.wait_bytes(before + 2 * MB).unwrap();
        // Every second move is announced. Only in the second half the wired route changes.
        let is_prepared = round % 2 == 0;
        let retransmitted = world.retransmitted();
        if is_prepared {
            world.prepare();
        }
        assert!(up.watch().bytes() < UP, "the upload has ended");
        let at_ns = world.leave();
        let took_ms = world.arrived().expect("a synchronisation, and its time");
        let before = down.watch().bytes();
        down.wait_bytes(before + MB).unwrap();
        let after = world.retransmitted();
        let (sent, twice) = (after.0 - retransmitted.0, after.1 - retransmitted.1);
        if is_prepared {
            let timeouts = world.counter(world.cell, "sync_timeouts");
            assert!(
                timeouts == 0 && took_ms < SYNC_MAX_MS,
                "{scheme}: {took_ms} ms, {timeouts} timeouts"
            );
        }
        moves.push((at_ns, is_prepared, took_ms, sent, twice));
        if round >= 2 {
            world.route_to(world.cell);
        }
    }
    let down = down.finish();
    let down = down.unwrap_or_else(|error| panic!("{scheme} downlink: {error:#}"));
    up.finish()
        .unwrap_or_else(|error| panic!("{scheme} uplink: {error:#}"));
    for (at_ns, is_prepared, took_ms, sent, twice) in moves {
        let gap_ms = gap_ms(&down, at_ns);
        println!(
            "{scheme}, announced {is_prepared}: no byte for {gap_ms} ms, synchronised in \
             {took_ms:.1} ms, {sent} segments retransmitted by both ends, {twice} received twice"
        );
        assert_shorter_than(variant.gap_max_ms, scheme, gap_ms);
    }
    world.report(scheme);
    for number in 0..2 {
        assert!(world.counter(number, "copies") > 0, "no multicast came");
        assert_eq!(world.counter(number, "taken_over"), 2, "station {number}");
        assert!(world.counter(number, "states_adopted") > 0);
    }
}

#[test]
fn an_mh_moves_between_cells_under_load_and_every_byte_arrives() {
    in_virtual_kernel!();
    for variant in &VARIANTS {
        moves_between_cells(variant);
    }
}

#[test]
fn every_byte_arrives_although_the_old_station_is_killed_at_the_move() {
    in_virtual_kernel!();
    for variant in &VARIANTS {
        let scheme = variant.name;
        let mut world = World::new(variant, true);
        let (down, up) = world.flows([14 * MB, 11 * MB]);
        down.wait_bytes(4 * MB).unwrap();
        await_that("the other station buffers", || world.role(1) == "buffering");
        world.kill(0);
        let at_ns = world.leave();
        world.arrived();
        // The killed station sends no copies: the network has to change its route.
        world.route_to(1);
        down.wait_bytes(8 * MB).unwrap();
        world.start_station(0, variant.scheme, true);
        world.leave();
        world.arrived();
        world.route_to(0);
        let down = down.finish();
        let down = down.unwrap_or_else(|error| panic!("{scheme} downlink: {error:#}"));
        up.finish()
            .unwrap_or_else(|error| panic!("{scheme} uplink: {error:#}"));
        let gap_ms = gap_ms(&down, at_ns);
        println!("{scheme}: killed: no byte for {gap_ms} ms");
        world.report(scheme);
        assert_shorter_than(KILLED_GAP_MAX_MS, scheme, gap_ms);
    }
}

/// Connections that have sent a byte in each direction, and are idle now.
fn idle_connections(world: &World, count: usize) -> Vec<(TcpStream, TcpStream)> {
    let address: IpAddr = FH.parse().unwrap();
    let listener = listen(&world.fh, address, PORT + 2).unwrap();
    let connections = (0..count).map(|_| {
        let mut at_mh = connect(&world.mh, address, PORT + 2).unwrap();
        let (mut at_fh, _) = accept(&listener).unwrap();
        let mut byte = [7];
        at_mh.write_all(&byte).unwrap();
        at_fh.read_exact(&mut byte).unwrap();
        at_fh.write_all(&byte).unwrap();
        at_mh.read_exact(&mut byte).unwrap();
        (at_fh, at_mh)
    });
    connections.collect()
}

/// Also the figures of docs/schemes/handoff.md, with `HOLDFAST_CONNECTIONS=1,100,1000` and
/// `--nocapture`.
#[test]
fn a_handoff_moves_all_of_many_connections() {
    in_virtual_kernel!();
    let counts = std::env::var("HOLDFAST_CONNECTIONS").unwrap_or_else(|_| "100".to_string());
    let counts: Vec<usize> = counts.split(',').map(|one| one.parse().unwrap()).collect();
    for variant in &VARIANTS {
        for &count in &counts {
            let mut world = World::new(variant, false);
            let mut idle = idle_connections(&world, count - 1);
            let address: IpAddr = FH.parse().unwrap();
            let listener = listen(&world.fh, address, PORT).unwrap();
            let at_mh = connect(&world.mh, address, PORT).unwrap();
            let (at_fh, _) = accept(&listener).unwrap();
            let down = Flow::start(at_fh, at_mh, 20 * MB, 1);
            let mut moves = Vec::new();
            for round in 0..4_u64 {
                down.wait_bytes((4 + 4 * round) * MB).unwrap();
                if round % 2 == 0 {
                    world.prepare();
                }
                let at_ns = world.leave();
                moves.push((at_ns, world.arrived().unwrap_or(f64::NAN)));
                world.route_to(world.cell);
            }
            let down = down.finish();
            let down = down.unwrap_or_else(|error| panic!("{}: {error:#}", variant.name));
            // The idle connections still work.
            for (at_fh, at_mh) in &mut idle {
                at_fh.write_all(&[9]).unwrap();
                at_mh.read_exact(&mut [0]).unwrap();
            }
            let sum = |name| world.counter(0, name) + world.counter(1, name);
            let (states, bytes) = (sum("states_sent"), sum("state_bytes"));
            assert!(states >= count as u64, "{}: {states} states", variant.name);
            assert!(
                bytes <= 500 * states,
                "{}: {bytes} of {states}",
                variant.name
            );
            let gaps: Vec<u64> = moves.iter().map(|one| gap_ms(&down, one.0)).collect();
            let sync: Vec<String> = moves.iter().map(|one| format!("{:.1}", one.1)).collect();
            println!(
                "{}, {count} connections: synchronised in {} ms; no byte for {gaps:?} ms; \
                 {} bytes a connection; {} timeouts",
                variant.name,
                sync.join(", "),
                bytes.checked_div(states).unwrap_or(0),
                sum("sync_timeouts"),
            );
        }
    }
}
