// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway --scheme keep` with protocols that many machines' kernels do not have: SCTP,
//! and TCP inside WireGuard and inside ESP.
//!
//! They load modules, which a machine in use should be spared: `scripts/kernel_tests.sh keep` runs
//! them in one of their own.
//!
//! ```text
//!   FH ---- gateway (lets one protocol through, and nothing else) ---- link with outages ---- MH
//! ```
//!
//! The machine may be an emulated one, where nothing is on time. So a run with `keep` is compared
//! with a plain run of the same sender, whose timers are seconds long by the end of an outage.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::{self, JoinHandle};

use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::daemons::status_at;
use holdfast_testbed::harness::{Harness, SOCKET_LIMIT, accept, connect, listen};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::{FH, MH, TopologySettings, Wireless};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketType, ipproto};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
const PORT: u16 = 700;
const BYTES: usize = 4_500_000;
/// One packet with each of the protocols.
const MESSAGE_BYTES: usize = 1_200;
/// Begin and length in seconds. Their lengths are no multiples of each other by two: a sender that
/// tries after twice the wait each time cannot meet the end of all of them by chance.
const OUTAGES: [(f64, f64); 3] = [(1.0, 2.0), (5.0, 3.5), (11.0, 6.0)];

/// The ends' addresses inside WireGuard.
const FH_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const MH_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const WIREGUARD_PORT: &str = "51820";
/// A key of AES-128 and its salt.
const ESP_KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";

/// A connection that the MH opens to the FH: the FH's end and the MH's.
type Connection = (TcpStream, TcpStream);

/// What carries the bytes.
#[derive(Clone, Copy)]
struct Protocol {
    name: &'static str,
    /// Its IP protocol number (RFC 5237).
    number: u8,
    modules: &'static [&'static str],
    open: fn(&Harness) -> Connection,
}

/// Runs a program in a namespace with this input; what it wrote.
fn run(ns: &NetNs, input: &str, arguments: &[&str]) -> String {
    let mut command = ns.command(arguments[0]);
    command.args(&arguments[1..]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{}: {error}", arguments[0]));
    let mut standard_input = child.stdin.take().unwrap();
    standard_input.write_all(input.as_bytes()).unwrap();
    drop(standard_input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The same for arguments with a blank between each two of them.
fn ip(ns: &NetNs, arguments: &str) {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    run(ns, "", &[&["ip"], &arguments[..]].concat());
}

fn sctp_socket() -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::SCTP));
    let socket = socket.unwrap();
    set_socket_timeout(&socket, Timeout::Send, Some(SOCKET_LIMIT)).unwrap();
    socket
}

/// A socket of SCTP with one association is used as one of TCP.
fn open_sctp(harness: &Harness) -> Connection {
    let address = SocketAddrV4::new(FH.v4, PORT);
    let bound = || {
        let socket = sctp_socket();
        rustix::net::bind(&socket, &address).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        TcpListener::from(socket)
    };
    let listener = harness.topology.fh.run(bound).unwrap();
    let connected = || {
        let socket = sctp_socket();
        rustix::net::connect(&socket, &address).unwrap();
        TcpStream::from(socket)
    };
    let at_mh = harness.topology.mh.run(connected).unwrap();
    at_mh.set_read_timeout(Some(SOCKET_LIMIT)).unwrap();
    let (at_fh, _) = accept(&listener).unwrap();
    (at_fh, at_mh)
}

fn open_tcp(harness: &Harness, address: Ipv4Addr) -> Connection {
    let listener = listen(&harness.topology.fh, address.into(), PORT).unwrap();
    let at_mh = connect(&harness.topology.mh, address.into(), PORT).unwrap();
    let (at_fh, _) = accept(&listener).unwrap();
    (at_fh, at_mh)
}

/// Makes a private key in a file, and its public key.
fn wireguard_key(harness: &Harness, ns: &NetNs, name: &str) -> (PathBuf, String) {
    let private = run(ns, "", &["wg", "genkey"]);
    let public = run(ns, &private, &["wg", "pubkey"]);
    let path = harness.folder().join(name);
    std::fs::write(&path, private).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    (path, public.trim().to_owned())
}

fn open_wireguard(harness: &Harness) -> Connection {
    let (fh, mh) = (&harness.topology.fh, &harness.topology.mh);
    let fh_key = wireguard_key(harness, fh, "wg-fh");
    let mh_key = wireguard_key(harness, mh, "wg-mh");
    let ends = [
        (fh, &fh_key, FH_INSIDE, (&mh_key, MH_INSIDE, MH.v4)),
        (mh, &mh_key, MH_INSIDE, (&fh_key, FH_INSIDE, FH.v4)),
    ];
    for (ns, (private, _), inside, ((_, public), other_inside, other)) in ends {
        ip(ns, "link add wg0 type wireguard");
        let [private, endpoint, allowed] = [
            private.display().to_string(),
            format!("{other}:{WIREGUARD_PORT}"),
            format!("{other_inside}/32"),
        ];
        let own = ["listen-port", WIREGUARD_PORT, "private-key", &private];
        let peer = [
            "peer",
            public,
            "endpoint",
            &endpoint,
            "allowed-ips",
            &allowed,
        ];
        run(ns, "", &[&["wg", "set", "wg0"], &own[..], &peer].concat());
        ip(ns, &format!("address add {inside}/24 dev wg0"));
        ip(ns, "link set wg0 mtu 1420 up");
    }
    open_tcp(harness, FH_INSIDE)
}

/// ESP in transport mode (RFC 4303): all between the two hosts.
fn open_esp(harness: &Harness) -> Connection {
    let ways = [(FH.v4, MH.v4, "0x100"), (MH.v4, FH.v4, "0x200")];
    for ns in [&harness.topology.fh, &harness.topology.mh] {
        for (from, to, spi) in ways {
            let state = [
                "xfrm",
                "state",
                "add",
                "src",
                &from.to_string(),
                "dst",
                &to.to_string(),
                "proto",
                "esp",
                "spi",
                spi,
                "reqid",
                "1",
                "mode",
                "transport",
                "replay-window",
                "32",
                "aead",
                "rfc4106(gcm(aes))",
                ESP_KEY,
                "128",
            ];
            run(ns, "", &[&["ip"], &state[..]].concat());
        }
    }
    for (ns, own, other) in [
        (&harness.topology.fh, FH.v4, MH.v4),
        (&harness.topology.mh, MH.v4, FH.v4),
    ] {
        for (way, from, to) in [("out", own, other), ("in", other, own)] {
            let what = format!("src {from} dst {to} dir {way}");
            let by = format!("tmpl src {from} dst {to} proto esp reqid 1 mode transport");
            ip(ns, &format!("xfrm policy add {what} {by}"));
        }
    }
    open_tcp(harness, FH.v4)
}

/// Bytes that do not repeat within what is sent.
fn bytes() -> Vec<u8> {
    let numbers = 0..(BYTES as u64).div_ceil(8);
    let mixed = numbers.flat_map(|number| {
        let mixed = (number ^ number >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).to_be_bytes()
    });
    mixed.take(BYTES).collect()
}

/// When bytes arrived, CLOCK_MONOTONIC, and all that arrived.
type Received = (Vec<u64>, Vec<u8>);

/// Sends all bytes in messages; another thread receives them until the end.
fn send(mut from: TcpStream, mut to: TcpStream) -> (JoinHandle<()>, JoinHandle<Received>) {
    let sender = thread::spawn(move || {
        for message in bytes().chunks(MESSAGE_BYTES) {
            from.write_all(message).unwrap();
        }
        from.shutdown(Shutdown::Write).unwrap();
        // It is closed when the other end has closed: by then all has arrived.
        let _ = from.read(&mut [0]);
    });
    let receiver = thread::spawn(move || {
        let (mut times, mut received) = (Vec::new(), Vec::new());
        let mut buffer = vec![0; 1 << 16];
        loop {
            match to.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    times.push(monotonic_ns());
                    received.extend(&buffer[..length]);
                }
                Err(error) => panic!("after {} bytes: {error}", received.len()),
            }
        }
        (times, received)
    });
    (sender, receiver)
}

fn settings(protocol: &Protocol) -> TopologySettings {
    let outages = OUTAGES.map(|(at_s, for_s)| OutageAt { at_s, for_s });
    let link = EmulatedLink {
        // So slow that an emulated processor has time left.
        rate_mbit_per_s: 4.0,
        queue_packets: 40,
        outages: outages.to_vec(),
        ..EmulatedLink::default()
    };
    TopologySettings {
        gateway_nft: format!(
            "table inet filter {{
                chain forward {{
                    type filter hook forward priority 0;
                    meta l4proto != {} drop;
                }}
            }}",
            protocol.number
        ),
        ..TopologySettings::new(HOLDFAST, Wireless::Emulated(link))
    }
}

/// A download through the outages, with this scheme or none: how long nothing came after each of
/// them, in milliseconds.
fn stalls(test: &str, protocol: &Protocol, scheme: Option<&str>) -> Vec<u64> {
    let harness = Harness::new(test, &settings(protocol), scheme).unwrap();
    let mut harness = harness.expect("namespaces");
    let (at_fh, at_mh) = (protocol.open)(&harness);
    let (sender, receiver) = send(at_fh, at_mh);
    let start_ns = monotonic_ns();
    let link = harness.topology.cells[0].link.as_mut().unwrap();
    link.start_clock(start_ns).unwrap();
    let (times, received) = receiver.join().unwrap();
    assert!(received == bytes(), "{}: other bytes", protocol.name);
    sender.join().unwrap();
    let stalls = OUTAGES.map(|(at_s, for_s)| {
        let returned_ns = start_ns + ((at_s + for_s) * 1e9) as u64;
        let next = times.partition_point(|at_ns| *at_ns < returned_ns);
        let at_ns = times.get(next).expect("bytes after the outage");
        (at_ns - returned_ns) / 1_000_000
    });
    if scheme.is_some() {
        let status = status_at(&harness.folder().join("gateway.sock")).unwrap();
        let counter = |name: &str| status["counters"][name].as_u64().unwrap_or_default();
        let [kept, released, downs] =
            ["kept", "released", "downs"].map(|name| counter(&format!("keep.{name}")));
        println!(
            "{}: {kept} kept, {released} released, {downs} downs",
            protocol.name
        );
        assert!(kept >= 3 && released >= 3, "a packet of each outage");
        assert!(downs >= 3, "the carrier was down three times");
    }
    stalls.to_vec()
}

fn outages_are_survived(test: &str, protocol: &Protocol) {
    let arguments = std::fs::read_to_string("/proc/cmdline").unwrap();
    if !arguments.contains("holdfast.kernel_tests") {
        println!("SKIPPED {test}: it is for scripts/kernel_tests.sh keep");
        return;
    }
    let here = NetNs::current().unwrap();
    for module in protocol.modules {
        run(&here, "", &["modprobe", module]);
    }
    let plain = stalls(test, protocol, None);
    let kept = stalls(test, protocol, Some("keep"));
    println!("{}: plain {plain:?} ms, keep {kept:?} ms", protocol.name);
    let [plain, kept]: [u64; 2] = [plain.iter().sum(), kept.iter().sum()];
    assert!(kept * 2 < plain, "{kept} ms of {plain} ms");
}

#[test]
fn an_sctp_association_goes_on_after_outages() {
    let sctp = Protocol {
        name: "SCTP",
        number: 132,
        modules: &["sctp"],
        open: open_sctp,
    };
    outages_are_survived("an_sctp_association_goes_on_after_outages", &sctp);
}

#[test]
fn tcp_inside_wireguard_goes_on_after_outages() {
    let wireguard = Protocol {
        name: "WireGuard",
        number: 17,
        modules: &["wireguard"],
        open: open_wireguard,
    };
    outages_are_survived("tcp_inside_wireguard_goes_on_after_outages", &wireguard);
}

#[test]
fn tcp_inside_esp_goes_on_after_outages() {
    let esp = Protocol {
        name: "ESP",
        number: 50,
        modules: &["esp4", "xfrm_user"],
        open: open_esp,
    };
    outages_are_survived("tcp_inside_esp_goes_on_after_outages", &esp);
}
