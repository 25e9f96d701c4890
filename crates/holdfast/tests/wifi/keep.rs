// SPDX-License-Identifier: Apache-2.0
//! `keep` on both sides of a Wi-Fi whose access point sends the station away.
//!
//! No command reports it: the mobile's daemon sees the outage by nl80211 or the carrier, the
//! gateway's daemon by the silence of a download.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_net::rtnl::Rtnl;
use holdfast_testbed::daemons::status_at;
use holdfast_testbed::harness::{Flow, accept, connect, listen};

use super::air::{
    ACCESS_POINTS, ALONE, Air, HOLDFAST, LIMIT, STATION, await_that, run, set_radio, spawn,
};

const AT_AP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const AT_MH: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PREFIX_BITS: u8 = 24;
const PORT: u16 = 700;
const MB: u64 = 1_000_000;
/// Fewer than are kept of one flow.
const DATAGRAMS: u32 = 10;

/// A Wi-Fi of one access point, with both daemons.
struct KeptWifi {
    air: Air,
    _gateway: ChildGuard,
}

impl KeptWifi {
    fn new(test: &str) -> Option<Self> {
        let mut air = Air::with_a_namespace(test)?;
        // The station has one way only.
        set_radio(ACCESS_POINTS[1], "group", ALONE);
        await_that("associated", || air.associated() == Some(0));
        // From now on it associates on a request alone.
        assert!(
            air.supplicant_command(&["sta_autoconnect", "0"])
                .contains("OK")
        );
        set_address(&NetNs::current().unwrap(), ACCESS_POINTS[0], AT_AP);
        set_address(&air.ns(), STATION, AT_MH);
        let gateway = start_gateway(&air);
        air.start_daemon_with("poll_ms = 100", &["--scheme", "keep"]);
        await_that("up", || air.link() == "up");
        Some(Self {
            air,
            _gateway: gateway,
        })
    }

    /// What the mobile's daemon has counted.
    fn at_mh(&self, name: &str) -> u64 {
        let status = self.air.status();
        status["counters"][name].as_u64().unwrap_or_default()
    }

    /// What the gateway's daemon has counted.
    fn at_ap(&self, name: &str) -> u64 {
        let status = status_at(Path::new(&self.air.path("gateway.sock"))).unwrap();
        status["counters"][name].as_u64().unwrap_or_default()
    }

    /// A download that has begun.
    fn download(&self) -> Flow {
        let (ap, address) = (NetNs::current().unwrap(), IpAddr::V4(AT_AP));
        let listener = listen(&ap, address, PORT).unwrap();
        let to = connect(&self.air.ns(), address, PORT).unwrap();
        let (from, _) = accept(&listener).unwrap();
        let flow = Flow::start(from, to, 12 * MB, 5);
        flow.wait_bytes(MB).unwrap();
        flow
    }
}

fn set_address(ns: &NetNs, interface: &str, address: Ipv4Addr) {
    let set = || {
        let rtnl = Rtnl::open()?;
        rtnl.add_address(rtnl.link_index(interface)?, address.into(), PREFIX_BITS)
    };
    ns.run(set).unwrap().unwrap();
}

fn start_gateway(air: &Air) -> ChildGuard {
    let [config, socket, state] = ["gateway.toml", "gateway.sock", "gateway.state"];
    let [config, socket, state] = [config, socket, state].map(|name| air.path(name));
    std::fs::write(&config, "").unwrap();
    let args = [
        "gateway",
        "--wireless",
        ACCESS_POINTS[0],
        "--scheme",
        "keep",
        "--config",
        &config,
        "--control-socket",
        &socket,
        "--state-file",
        &state,
    ];
    let log = air.path("gateway.log");
    let gateway = spawn(Command::new(HOLDFAST), &args, Path::new(&log));
    await_that("the gateway is attached", || {
        status_at(Path::new(&socket)).is_ok_and(|status| status["attached"] == true)
    });
    gateway
}

/// Two sockets, the station's and the access point's. Each has answered the other: packets of a
/// two-request flow are kept for long.
fn datagram_sockets(wifi: &KeptWifi) -> (UdpSocket, UdpSocket) {
    let bind = |address| UdpSocket::bind((address, PORT)).unwrap();
    let (at_mh, at_ap) = (wifi.air.ns().run(|| bind(AT_MH)).unwrap(), bind(AT_AP));
    at_mh.connect((AT_AP, PORT)).unwrap();
    at_ap.connect((AT_MH, PORT)).unwrap();
    for socket in [&at_mh, &at_ap] {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
    }
    for _ in 0..20 {
        for (from, to) in [(&at_mh, &at_ap), (&at_ap, &at_mh)] {
            from.send(b"before").unwrap();
            assert_eq!(receive(to).unwrap(), b"before");
        }
    }
    (at_mh, at_ap)
}

fn receive(socket: &UdpSocket) -> std::io::Result<Vec<u8>> {
    let mut octets = vec![0; 100];
    let length = socket.recv(&mut octets)?;
    octets.truncate(length);
    Ok(octets)
}

/// One outage: `request` is how the access point sends the station away.
fn outage_is_survived(wifi: &KeptWifi, request: &str) {
    let air = &wifi.air;
    let (at_mh, at_ap) = datagram_sockets(wifi);
    await_that("the next hop is known", || {
        wifi.at_mh("keep.neighbours") > 0
    });
    let flow = wifi.download();
    let before = (air.events().len(), wifi.at_ap("keep.kept"));
    let released = wifi.at_mh("keep.released");
    let hostapd = air.path("hostapd");
    let arguments = [
        "-p",
        &hostapd,
        "-i",
        ACCESS_POINTS[0],
        request,
        &air.station,
    ];
    run("hostapd_cli", &arguments);
    air.await_event(before.0, "Down");
    await_that("down", || air.link() == "down");
    assert!(!flow.is_finished(), "{request}: the outage came too late");
    for number in 0..DATAGRAMS {
        let kept = wifi.at_mh("keep.kept");
        at_mh.send(&number.to_be_bytes()).unwrap();
        await_that("the datagram is kept", || wifi.at_mh("keep.kept") > kept);
    }
    await_that("the download's sender tries again and again", || {
        wifi.at_ap("keep.kept") > before.1 + 2
    });
    assert!(air.supplicant_command(&["reassociate"]).contains("OK"));
    air.await_event(before.0, "Up");
    for number in 0..DATAGRAMS {
        let received = receive(&at_ap).unwrap_or_else(|error| {
            panic!("{request}: datagram {number} of {DATAGRAMS} has not arrived: {error}")
        });
        assert_eq!(received, number.to_be_bytes(), "{request}: in order");
    }
    flow.finish().unwrap();
    at_ap.set_nonblocking(true).unwrap();
    let more = receive(&at_ap).map_err(|error| error.kind());
    assert_eq!(more, Err(ErrorKind::WouldBlock), "{request}: none twice");
    let released_now = wifi.at_mh("keep.released");
    let events = air.events().split_off(before.0);
    println!("{request}: {events:?}, released {released:?} before, {released_now:?} after");
    // At the gateway there may be none: it keeps copies, and a retransmission may arrive first.
    assert!(released_now >= released + u64::from(DATAGRAMS));
    let (source, event) = &events[0];
    assert!(event == "Down" && ["wifi", "carrier"].contains(&source.as_str()));
}

#[test]
fn what_both_sides_send_while_the_station_is_away_arrives_once_and_in_order() {
    let test = "what_both_sides_send_while_the_station_is_away_arrives_once_and_in_order";
    let Some(wifi) = KeptWifi::new(test) else {
        return;
    };
    outage_is_survived(&wifi, "deauthenticate");
    assert!(wifi.at_ap("keep.silences") > 0);
    assert_eq!(wifi.at_mh("keep.displaced"), 0);
    assert_eq!(wifi.air.wifi()["failures"], 0);
}
