// SPDX-License-Identifier: Apache-2.0
//! Messages of real sessions, and invented messages.
//!
//! The hexadecimal messages were recorded on `nlmon` between wpa_supplicant, hostapd and
//! mac80211_hwsim. They are from the tests of the crate `wl-nl80211` (MIT), where another
//! parser reads them. This machine need not have nl80211. If it has, the output of
//! `a_kernel_or_an_interface_without_wifi_...` shows whether sockets and kernel agree.

use netlink_packet_core::NetlinkSerializable;

use super::*;
use crate::netlink::{end_of, messages};
use crate::netns::available_or_skip;

const AUTHENTICATE: &str = "\
    a800000032000000000000000000000025010000080001001200000008000300d301000084003300\
    b0003a01020000000000020000000100020000000100e0000300010000001300a43ffd80b342bd16\
    e6db7aa603910e13361a9ba5baf04df7f9f626c27f3e71a78e343ef0dbfe218b85653e77649a9b57\
    36c0b662ad61494c374f2a3885117f70646b13b69586dd3fa4bd41b1e2958a9de411cfe506d47e62\
    2fc2cb591fa7dde0";

const CONNECT: &str = "\
    b80000003200000000000000000000002e010000080001001200000008000300d30100000a000600\
    0200000001000000060048000000000060004d000009546573742d57494649010802040b160c1218\
    2432043048606c301a0100000fac040100000fac040100000fac08c0000000000fac067f0a04004a\
    020140004000013b175151525354737475767778797a7b7c7d7e7f80810082801e004e0001088284\
    8b960c12182432043048606c7f0804000000000000400000";

const DISCONNECT: &str = "\
    2c00000032000000000000000000000030010000080001001200000008000300d301000006003600\
    03000000";

const DEAUTHENTICATE: &str = "\
    440000003200000000000000000000002701000008000100e2000000080003000a0300001e003300\
    c0403a01020000000000020000000100020000000100000102000000";

const DISASSOCIATE: &str = "\
    440000003200000000000000000000002801000008000100e2000000080003000a0300001e003300\
    a0403a01020000000000020000000100020000000100900102000000";

const NOTIFY_CQM: &str = "\
    380000002c000000000000000000000040010000080001003b010000080003003e02000014005e00\
    080003000000000008000900e2ffffff";

const SET_CQM: &str = "\
    300000002c00050010000000000000003f010000080003003e02000014005e8008000100f6ffffff\
    0800020005000000";

/// The interface of the recorded sessions.
const SESSION: u32 = 467;
const DISTURBED: u32 = 778;
const QUALITY: u32 = 574;

fn octets(hexadecimal: &str) -> Vec<u8> {
    let digit = |octet: u8| char::from(octet).to_digit(16).expect("a digit") as u8;
    let pairs = hexadecimal.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn read(datagram: &[u8]) -> Vec<Message> {
    messages::<GenlMessage<Message>>(datagram)
        .into_iter()
        .filter_map(|message| match message.payload {
            NetlinkPayload::InnerMessage(message) => Some(message.payload),
            _ => None,
        })
        .collect()
}

fn event(hexadecimal: &str, ifindex: u32) -> Option<WifiEvent> {
    let read = read(&octets(hexadecimal));
    assert_eq!(read.len(), 1);
    read[0].event(ifindex)
}

#[test]
fn recorded_events_are_understood_and_other_interfaces_are_ignored() {
    for (recorded, ifindex, expected) in [
        (AUTHENTICATE, SESSION, WifiEvent::Authenticating),
        (CONNECT, SESSION, WifiEvent::Joined),
        (DISCONNECT, SESSION, WifiEvent::Left),
        (DEAUTHENTICATE, DISTURBED, WifiEvent::Left),
        (DISASSOCIATE, DISTURBED, WifiEvent::Left),
        (
            NOTIFY_CQM,
            QUALITY,
            WifiEvent::Threshold {
                is_low: true,
                dbm: Some(-30),
            },
        ),
    ] {
        assert_eq!(event(recorded, ifindex), Some(expected));
        assert_eq!(event(recorded, ifindex + 1), None);
    }
}

#[test]
fn a_refused_connection_is_no_connection() {
    let mut refused = octets(CONNECT);
    // The status behind the address of the access point.
    let at = refused
        .windows(4)
        .position(|octets| octets == [6, 0, 72, 0])
        .expect("a status");
    refused[at + 4] = 17;
    assert_eq!(read(&refused)[0].event(SESSION), Some(WifiEvent::Refused));
}

#[test]
fn a_threshold_is_set_as_recorded() {
    let mut message = GenlMessage::from_payload(Message::set_threshold(QUALITY, -10, 5));
    message.set_resolved_family_id(0x2c);
    let mut octets_made = vec![0; message.buffer_len()];
    NetlinkSerializable::serialize(&message, &mut octets_made);
    // Behind the netlink header, whose sequence number is the session's.
    assert_eq!(octets_made, octets(SET_CQM)[16..]);
}

/// A station's answer: its signal, and another attribute of each length around it.
fn station(signal: &[(u16, i8)]) -> Message {
    station_with_flags(signal, None)
}

/// The same with its flags: `struct nl80211_sta_flag_update`.
fn station_with_flags(signal: &[(u16, i8)], flags: Option<&[u8]>) -> Message {
    let attribute = |kind: u16, value: &[u8]| {
        let mut octets = (4 + value.len() as u16).to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend(value);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    };
    let mut info = attribute(1, &[1, 0, 0, 0]);
    for (kind, dbm) in signal {
        info.extend(attribute(*kind, &[*dbm as u8]));
        info.extend(attribute(200, &[7; 9]));
    }
    if let Some(flags) = flags {
        info.extend(attribute(17, flags));
    }
    let attributes = [
        attribute(3, &[9, 0, 0, 0]),
        attribute(6, &[2, 0, 0, 0, 1, 0]),
        attribute(0x8015, &info),
    ];
    let header = netlink_packet_generic::GenlHeader {
        cmd: 19,
        version: 1,
    };
    netlink_packet_core::ParseableParametrized::parse_with_param(&attributes.concat()[..], header)
        .expect("any octets")
}

/// An answer about an interface: its attributes.
fn interface(command: u8, attributes: &[(u16, u32)]) -> Message {
    let octets = attributes.iter().flat_map(|(kind, value)| {
        let head = [8_u16.to_ne_bytes(), kind.to_ne_bytes()].concat();
        [head, value.to_ne_bytes().to_vec()].concat()
    });
    let octets: Vec<u8> = octets.collect();
    let header = netlink_packet_generic::GenlHeader {
        cmd: command,
        version: 1,
    };
    netlink_packet_core::ParseableParametrized::parse_with_param(&octets[..], header)
        .expect("any octets")
}

#[test]
fn access_points_and_stations_are_known_and_a_device_without_an_interface_is_left_out() {
    // NL80211_ATTR_WIPHY, _IFINDEX, _IFTYPE.
    let role = |kind| interface(7, &[(1, 0), (3, 9), (5, kind)]).interface();
    assert_eq!(role(3), Some((9, WifiRole::AccessPoint)));
    assert_eq!(role(2), Some((9, WifiRole::Station)));
    assert_eq!(role(7), Some((9, WifiRole::Other)));
    assert_eq!(interface(7, &[(1, 0), (5, 10)]).interface(), None);
    assert_eq!(interface(19, &[(3, 9), (5, 2)]).interface(), None);
}

#[test]
fn without_wifi_there_is_no_interface_of_it() {
    if !available_or_skip("without_wifi_there_is_no_interface_of_it") {
        return;
    }
    let ns = crate::netns::NetNs::new().unwrap();
    assert_eq!(ns.run(|| wifi_interfaces().unwrap()).unwrap(), []);
}

#[test]
fn the_signal_is_the_average_where_there_is_one() {
    let dbm = |dbm| Some(StationSignal::Dbm(dbm));
    assert_eq!(station(&[(7, -61)]).signal(), dbm(-61));
    assert_eq!(station(&[(7, -61), (13, -58)]).signal(), dbm(-58));
    assert_eq!(
        station(&[(7, -61), (13, 0)]).signal(),
        dbm(-61),
        "no average yet"
    );
    for nothing in [&[][..], &[(7, 0)], &[(7, 20), (13, 0)]] {
        assert_eq!(station(nothing).signal(), Some(StationSignal::Unknown));
    }
    assert_eq!(Message::get_stations(9).signal(), None, "the question");
}

#[test]
fn a_station_without_keys_joins_and_a_driver_that_does_not_know_has_them() {
    let signal = |flags| station_with_flags(&[(7, -61)], Some(flags)).signal();
    let dbm = Some(StationSignal::Dbm(-61));
    // The known flags, then those that are set.
    assert_eq!(signal(&[2, 0, 0, 0, 2, 0, 0, 0]), dbm);
    assert_eq!(
        signal(&[2, 0, 0, 0, 0, 0, 0, 0]),
        Some(StationSignal::Joining)
    );
    assert_eq!(signal(&[0; 8]), dbm, "not known");
    assert_eq!(signal(&[2, 0, 0, 0]), dbm, "short");
}

#[test]
fn a_dump_of_an_interface_that_has_gone_has_failed_and_an_empty_one_has_not() {
    // NLMSG_DONE, as Linux 6.1 ended a dump with it; behind the header the code.
    let end = |code: i32| {
        let mut datagram = octets("14000000030002000200000000000000");
        datagram.extend(code.to_ne_bytes());
        let read = messages::<GenlMessage<Message>>(&datagram);
        end_of(&read.first().expect("a message").payload)
    };
    let gone = end(-libc::ENODEV).expect("an end").expect_err("a failure");
    assert_eq!(gone.raw_os_error(), Some(libc::ENODEV));
    assert!(end(0).expect("an end").is_ok());
}

#[test]
fn damaged_datagrams_end_and_have_nothing_of_other_interfaces() {
    const SEED: u64 = 20_261_121;
    let mut state = SEED;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let recorded = [
        AUTHENTICATE,
        CONNECT,
        DISCONNECT,
        DEAUTHENTICATE,
        NOTIFY_CQM,
    ];
    let recorded = recorded.map(octets);
    let mut understood = 0;
    for _ in 0..20_000 {
        let mut datagram = [
            recorded[below(recorded.len())].as_slice(),
            &recorded[below(recorded.len())],
        ]
        .concat();
        for _ in 0..=below(6) {
            let at = below(datagram.len());
            datagram[at] = below(256) as u8;
        }
        datagram.truncate(below(datagram.len() + 1));
        for message in read(&datagram) {
            understood += usize::from(message.event(SESSION).is_some());
            let _ = message.signal();
        }
    }
    assert!(understood > 1_000, "seed {SEED}: {understood}");
}

#[test]
fn a_kernel_or_an_interface_without_wifi_is_reported_in_one_line() {
    if !available_or_skip("a_kernel_or_an_interface_without_wifi_is_reported_in_one_line") {
        return;
    }
    let error = WifiMonitor::open("lo").expect_err("lo is no Wi-Fi");
    println!("{error}");
    assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
    assert!(!error.to_string().contains('\n'));
    assert!(WifiMonitor::open("no-such-if").is_err());
}

/// An answer with the results of a scan.
fn scanned(signal_mbm: Option<i32>, status: Option<u32>, elements: &[u8]) -> Message {
    let mut bss = attribute_of(1, &[2, 0, 0, 0, 1, 0]);
    bss.extend(attribute_of(6, elements));
    bss.extend(signal_mbm.map_or(Vec::new(), |mbm| attribute_of(7, &mbm.to_ne_bytes())));
    bss.extend(status.map_or(Vec::new(), |status| attribute_of(9, &status.to_ne_bytes())));
    bss.extend(attribute_of(10, &1_500_u32.to_ne_bytes()));
    let attributes = attribute_of((1 << 15) + 47, &bss);
    let header = netlink_packet_generic::GenlHeader {
        cmd: 34,
        version: 1,
    };
    netlink_packet_core::ParseableParametrized::parse_with_param(&attributes[..], header).unwrap()
}

fn attribute_of(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = (4 + value.len() as u16).to_ne_bytes().to_vec();
    octets.extend(kind.to_ne_bytes());
    octets.extend(value);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

#[test]
fn access_points_of_a_scan_have_their_network_and_signal() {
    // Supported rates, then the SSID `net`.
    let elements = [1, 2, 0x82, 0x84, 0, 3, b'n', b'e', b't'];
    let own = scanned(Some(-6_250), Some(1), &elements);
    let expected = AccessPoint {
        address: [2, 0, 0, 0, 1, 0],
        network: b"net".to_vec(),
        dbm: -62,
        seen_ago: std::time::Duration::from_millis(1_500),
        is_own: true,
    };
    assert_eq!(own.access_point(), Some(expected));
    // Authenticated with it alone.
    let other = scanned(Some(-7_000), Some(0), &elements).access_point();
    assert_eq!(other.map(|point| point.is_own), Some(false));
    // A driver without dBm; a frame that ends in its SSID.
    assert_eq!(scanned(None, None, &elements).access_point(), None);
    assert_eq!(
        scanned(Some(-7_000), None, &elements[..8]).access_point(),
        None
    );
    assert_eq!(own.signal(), None);
}
