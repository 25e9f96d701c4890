// SPDX-License-Identifier: Apache-2.0
//! The station at its sockets, with a neighbour on loopback.

use std::net::{Ipv4Addr, UdpSocket};

use holdfast_core::handoff::{HandoffSettings, Peers};
use holdfast_core::signal::MobileKey;
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::rtnl::{Rtnl, sysctl};
use tokio::sync::mpsc::{Receiver, channel};

use super::*;

const STATION: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4849);
const NEIGHBOUR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 4850);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 195, 72, 0);

/// The neighbour's end.
struct Neighbour {
    socket: UdpSocket,
    channel: Channel,
}

impl Neighbour {
    fn open(key: &MobileKey) -> Self {
        let socket = UdpSocket::bind(NEIGHBOUR).unwrap();
        socket.set_nonblocking(true).unwrap();
        let channel = Channel::new(key.clone(), 9, Peers::new([STATION]));
        Self { socket, channel }
    }

    /// The next datagram that has come; on loopback it is there as soon as it was sent.
    fn receive(&mut self) -> Option<Result<Incoming, Refused>> {
        let mut datagram = [0; 2048];
        let (length, from) = self.socket.recv_from(&mut datagram).ok()?;
        Some(self.channel.open(&datagram[..length], from))
    }

    fn send_greeting(&mut self) {
        let datagram = self.channel.greeting(PeerId(0), &nonce().unwrap());
        self.socket.send_to(&datagram, STATION).unwrap();
    }
}

/// Runs the work with a station in a namespace of its own, whose reports find room for one.
fn with_station(test: &str, work: impl FnOnce(Station, Receiver<HandoffReport>, Neighbour) + Send) {
    if !available_or_skip(test) {
        return;
    }
    let run = || {
        let rtnl = Rtnl::open().unwrap();
        rtnl.set_up(rtnl.link_index("lo").unwrap()).unwrap();
        let key = MobileKey::from_random([7; 36]);
        let neighbour = Neighbour::open(&key);
        let settings = StationSettings {
            name: "west".into(),
            core: HandoffSettings::default(),
            peers: Peers::new([NEIGHBOUR]),
            key,
            interface: "lo".into(),
            group: GROUP.into(),
            hops: 1,
            port: STATION.port(),
            took_over_command: None,
        };
        let (sender, reports) = channel(1);
        let edge = StationEdge::open(&settings, 5).unwrap();
        work(Station::new(edge, settings, sender), reports, neighbour);
    };
    NetNs::new().unwrap().run(run).unwrap();
}

/// Both know each other's run, and nothing is on its way.
fn acquainted(station: &mut Station, neighbour: &mut Neighbour) {
    // Either knows the other's run only from an answer to its own greeting.
    assert_eq!(
        neighbour.receive(),
        Some(Err(Refused::UnknownRun(PeerId(0))))
    );
    neighbour.send_greeting();
    station.greeted.clear();
    station.receive(Instant::ZERO).unwrap();
    assert_eq!(
        neighbour.receive(),
        Some(Ok(Incoming::Greeting(Some(PeerId(0)))))
    );
    neighbour.send_greeting();
    station.receive(Instant::ZERO).unwrap();
    while neighbour.receive().is_some() {}
}

/// Whether the kernel has joined the group of this number.
fn is_member(group: u8) -> bool {
    let joined = std::fs::read_to_string("/proc/thread-self/net/igmp").unwrap();
    // The table has the address as a number in the order of this machine.
    let [a, b, c, _] = GROUP.octets();
    joined.contains(&format!("{:08X}", u32::from_ne_bytes([a, b, c, group])))
}

#[test]
fn reports_for_which_there_is_no_room_wait_and_of_each_mobile_the_newest_counts() {
    let test = "reports_for_which_there_is_no_room_wait_and_of_each_mobile_the_newest_counts";
    with_station(test, |mut station, mut reports, _neighbour| {
        let mh = IpAddr::from([10, 9, 0, 2]);
        let elsewhere = |station: &mut Station, mobile, epoch| {
            let mobile = KeyId(mobile);
            let action = HandoffAction::EpochElsewhere { mobile, epoch };
            assert!(station.perform(action).is_none());
        };
        elsewhere(&mut station, 1, 5);
        for (mobile, epoch) in [(3, 8), (2, 6), (2, 7)] {
            elsewhere(&mut station, mobile, epoch);
        }
        // Another kind of report about the same mobile replaces none.
        let here = HandoffAction::TookOver {
            mobile: KeyId(2),
            addresses: vec![mh],
        };
        assert!(station.perform(here).is_none());
        let mut shown = Vec::new();
        while let Ok(report) = reports.try_recv() {
            shown.push(match report {
                HandoffReport::TookOver { addresses, .. } => format!("{addresses:?} here"),
                HandoffReport::EpochElsewhere { mobile, epoch } => format!("{}: {epoch}", mobile.0),
            });
            station.handle_timeout(Instant::ZERO);
        }
        assert_eq!(shown, ["1: 5", "2: 7", "[10.9.0.2] here", "3: 8"]);
    });
}

#[test]
fn a_neighbour_learns_that_a_station_has_started_again() {
    let test = "a_neighbour_learns_that_a_station_has_started_again";
    with_station(test, |mut station, _reports, mut neighbour| {
        acquainted(&mut station, &mut neighbour);
        assert!(station.perform(HandoffAction::Join(3)).is_none());
        assert!(is_member(3));
        station.start_again();
        assert!(
            !is_member(3),
            "no mobile is known for which copies could come"
        );
        // The old run's number would be taken for a repetition, without a hint that state is lost.
        let greeting = neighbour.receive().expect("it sends a greeting at once");
        assert_eq!(greeting, Err(Refused::UnknownRun(PeerId(0))));
        neighbour.send_greeting();
        station.greeted.clear();
        station.receive(Instant::ZERO).unwrap();
        let greeting = neighbour.receive().expect("an answer");
        assert_eq!(greeting, Ok(Incoming::Greeting(Some(PeerId(0)))));
    });
}

/// Anyone who has recorded a datagram of the neighbour can send it again.
#[test]
fn repeated_datagrams_cause_one_greeting_and_no_more() {
    let test = "repeated_datagrams_cause_one_greeting_and_no_more";
    with_station(test, |mut station, _reports, mut neighbour| {
        // Made for another run of the station.
        let recorded = neighbour.channel.greeting(PeerId(0), &nonce().unwrap());
        while neighbour.receive().is_some() {}
        station.greeted.clear();
        for _ in 0..20 {
            neighbour.socket.send_to(&recorded, STATION).unwrap();
        }
        // The time of the last greeting lies ahead: it is not over, however busy the machine is.
        station.receive(Instant::ZERO).unwrap();
        let ahead = Instant::from_nanos(u64::MAX);
        assert!(station.greeted.insert(PeerId(0), ahead).is_some());
        assert!(neighbour.receive().is_some(), "the first one is answered");
        assert_eq!(neighbour.receive(), None);
        for _ in 0..20 {
            neighbour.socket.send_to(&recorded, STATION).unwrap();
        }
        station.receive(Instant::ZERO).unwrap();
        assert_eq!(station.channel.counters().refused, 40);
        assert_eq!(neighbour.receive(), None);
        assert_eq!(station.greeted.get(&PeerId(0)), Some(&ahead));
    });
}

#[test]
fn a_group_that_cannot_be_joined_is_tried_again_unless_it_was_left() {
    let test = "a_group_that_cannot_be_joined_is_tried_again_unless_it_was_left";
    with_station(test, |mut station, _reports, _neighbour| {
        let groups_max = |groups| sysctl("net/ipv4/igmp_max_memberships", groups).unwrap();
        groups_max("0");
        for group in [3, 4] {
            assert!(station.perform(HandoffAction::Join(group)).is_none());
        }
        assert!(station.perform(HandoffAction::Leave(4)).is_none());
        groups_max("20");
        station.handle_timeout(Instant::ZERO);
        assert!(is_member(3) && !is_member(4));
        assert!(station.not_joined.0.is_empty());
        // A further failure waits for its time.
        groups_max("0");
        assert!(station.perform(HandoffAction::Join(5)).is_none());
        groups_max("20");
        let due = station.not_joined.1;
        assert_eq!(due, Instant::ZERO + JOIN_AGAIN);
        station.handle_timeout(Instant::ZERO);
        assert!(!is_member(5));
        station.handle_timeout(due);
        assert!(is_member(5));
        assert!(station.perform(HandoffAction::Leave(5)).is_none());
        assert!(!is_member(5) && is_member(3));
    });
}
