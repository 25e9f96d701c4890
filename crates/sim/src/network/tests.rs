// SPDX-License-Identifier: Apache-2.0
use core::net::Ipv4Addr;

use holdfast_core::Settings;
use holdfast_link::{LinkSettings, OutageAt, OutageSettings};
use holdfast_wire::{Endpoint, SeqNum};

use super::*;
use crate::tcp::Reading;
use crate::tcp::{Application, End, Preset};

mod edge;

fn medium(rate_mbit_per_s: f64, delay_ms: f64) -> MediumPlan {
    let settings = LinkSettings {
        rate_mbit_per_s: Some(rate_mbit_per_s),
        delay_ms,
        ..LinkSettings::default()
    };
    MediumPlan {
        plan: settings.plan().unwrap(),
        seed: 1,
        outage_seed: 1,
        overhead_bytes: 0,
        header_compression: false,
    }
}

fn join(network: &mut Network, a: NodeId, b: NodeId, rate_mbit_per_s: f64) -> [LinkId; 2] {
    let plan = medium(rate_mbit_per_s, 5.0);
    network.add_link(a, b, plan.clone(), plan)
}

fn end(node: NodeId, number: u8) -> End {
    End {
        node,
        endpoint: Endpoint {
            address: Ipv4Addr::new(10, 0, 0, number).into(),
            port: 1000 + u16::from(number),
        },
        stream: u32::from(number),
        iss: SeqNum::new(u32::MAX - 5000 * u32::from(number)),
    }
}

/// Sends `bytes` from one node to another; returns the receiver.
fn transfer(
    network: &mut Network,
    from: NodeId,
    to: NodeId,
    number: u8,
    bytes: u64,
) -> ConnectionId {
    transfer_of(Preset::Sack, network, [from, to], number, bytes)
}

fn transfer_of(
    preset: Preset,
    network: &mut Network,
    [from, to]: [NodeId; 2],
    number: u8,
    bytes: u64,
) -> ConnectionId {
    let (sender, receiver) = (end(from, number), end(to, number + 100));
    let app = |sends| Application {
        sends,
        after_receiving: 0,
        closes_first: sends > 0,
        reading: Reading::AtOnce,
        relays: false,
    };
    let tcp = preset.settings();
    let ports = (sender.endpoint.port, receiver.endpoint.port);
    let waiting = Connection::new(tcp, sender, receiver, app(bytes), true);
    network.add_connection(from, waiting, ports, None, 0, None);
    let opening = Connection::new(tcp, receiver, sender, app(0), false);
    let back = (ports.1, ports.0);
    network.add_connection(to, opening, back, Some(Instant::ZERO), bytes, None)
}

/// Two FHs, two routers, two MHs: the flows over the middle link share its rate.
#[test]
fn transfers_over_a_dumbbell_share_its_middle() {
    let mut network = Network::new();
    let nodes: Vec<NodeId> = (0..6).map(|_| network.add_node()).collect();
    let [fh_a, fh_b, left, right, mh_a, mh_b] = nodes[..] else {
        panic!("six nodes");
    };
    for (a, b) in [(fh_a, left), (fh_b, left), (right, mh_a), (right, mh_b)] {
        join(&mut network, a, b, 100.0);
    }
    let middle = join(&mut network, left, right, 10.0);
    let receivers = [
        transfer(&mut network, fh_a, mh_a, 1, 2_000_000),
        transfer(&mut network, fh_b, mh_b, 2, 2_000_000),
    ];
    let aside = transfer(&mut network, fh_a, fh_b, 3, 2_000_000);
    network.run(Instant::from_millis(60_000), &mut (), Network::is_delivered);
    assert!(network.is_delivered());
    let ideal = 4e6 * 8.0 / 10e6 * 1500.0 / 1448.0;
    let last = receivers
        .iter()
        .filter_map(|id| network.delivered_at(*id))
        .max()
        .unwrap()
        .as_secs_f64();
    assert!((ideal..ideal * 1.1).contains(&last), "{last} {ideal}");
    // The flow that does not cross the link is not delayed by it.
    assert!(network.delivered_at(aside).unwrap().as_secs_f64() < 1.0);
    assert!(network.link_counters(middle[0]).delivered_bytes > 4_000_000);
}

#[test]
fn packets_take_the_shortest_way() {
    let mut network = Network::new();
    let nodes: Vec<NodeId> = (0..4).map(|_| network.add_node()).collect();
    let long = join(&mut network, nodes[0], nodes[1], 100.0);
    join(&mut network, nodes[1], nodes[3], 100.0);
    let short = join(&mut network, nodes[0], nodes[3], 100.0);
    transfer(&mut network, nodes[0], nodes[3], 1, 50_000);
    network.run(Instant::from_millis(5000), &mut (), Network::is_delivered);
    assert!(network.is_delivered());
    assert_eq!(network.link_counters(long[0]).offered_packets, 0);
    assert!(network.link_counters(short[0]).offered_packets > 30);
}

/// The time of 100 kB over a link, and the number of packets that the link delivered.
fn over_a_link(header_compression: bool, loss: f64) -> (f64, u64) {
    let mut network = Network::new();
    let (here, there) = (network.add_node(), network.add_node());
    let mut plan = medium(0.1, 5.0);
    plan.header_compression = header_compression;
    let back = plan.clone();
    plan.plan.loss = loss;
    let [link, _] = network.add_link(here, there, plan, back);
    let ends = [here, there];
    let id = transfer_of(Preset::Reno43bsd, &mut network, ends, 1, 100_000);
    network.run(
        Instant::from_millis(900_000),
        &mut (),
        Network::is_delivered,
    );
    let taken = network.delivered_at(id).unwrap().as_secs_f64();
    (taken, network.link_counters(link).delivered_packets)
}

#[test]
fn compressed_headers_save_time_and_make_losses_dearer() {
    let [whole, compressed] = [false, true].map(|compression| over_a_link(compression, 0.0));
    assert_eq!(whole.1, compressed.1);
    // 37 of 1,500 bytes are not sent for most packets, fewer for the first ones.
    let saved = 1.0 - compressed.0 / whole.0;
    assert!((0.022..0.0247).contains(&saved), "{saved} {whole:?}");
    let [whole, compressed] = [false, true].map(|compression| over_a_link(compression, 0.03));
    assert!(compressed.0 > whole.0, "{compressed:?} {whole:?}");
    assert!(compressed.1 > whole.1, "{compressed:?} {whole:?}");
}

/// No host is there, and no path leads there: packets are dropped, and the opener
/// gives up.
#[test]
fn connection_to_nowhere_is_given_up() {
    let mut network = Network::new();
    let (here, there) = (network.add_node(), network.add_node());
    let id = transfer(&mut network, there, here, 1, 1000);
    network.run(
        Instant::from_millis(900_000),
        &mut (),
        Network::is_delivered,
    );
    assert_eq!(network.connection(id).ending(), crate::tcp::Ending::GaveUp);
    assert!(network.is_delivered() && network.delivered_at(id).is_none());
}

/// A gateway sees only packets to and from its wireless side.
#[test]
fn traffic_between_wired_hosts_passes_by_the_engine() {
    let mut network = Network::new();
    let nodes: Vec<NodeId> = (0..4).map(|_| network.add_node()).collect();
    let [fh_a, fh_b, gateway, mh] = nodes[..] else {
        panic!("four nodes");
    };
    join(&mut network, fh_a, gateway, 100.0);
    join(&mut network, fh_b, gateway, 100.0);
    let wireless = join(&mut network, gateway, mh, 20.0);
    network.add_gateway(
        gateway,
        GatewayRole {
            settings: Settings::default(),
            wireless: wireless[0],
            signal: None,
            restarts: Vec::new(),
            resend_dscp: None,
            compression_time: Duration::ZERO,
        },
    );
    let segments = |network: &Network| {
        let counters = network.gateway_counters(gateway);
        counters
            .iter()
            .find(|(name, _)| *name == "segments")
            .unwrap()
            .1
    };
    transfer(&mut network, fh_a, fh_b, 1, 500_000);
    network.run(Instant::from_millis(5000), &mut (), Network::is_delivered);
    assert!(network.is_delivered());
    assert_eq!(segments(&network), 0);
    transfer(&mut network, fh_a, mh, 2, 500_000);
    network.run(Instant::from_millis(9000), &mut (), Network::is_delivered);
    assert!(network.is_delivered());
    assert!(segments(&network) > 500);
}

/// Data that the MH has not acknowledged is noted. A connection closed by both ends is forgotten.
#[test]
fn node_that_reports_a_bad_link_forgets_closed_connections() {
    let mut network = Network::new();
    let nodes: Vec<NodeId> = (0..3).map(|_| network.add_node()).collect();
    let [fh, station, mh] = nodes[..] else {
        panic!("three nodes");
    };
    join(&mut network, fh, station, 100.0);
    let [wireless, _] = join(&mut network, station, mh, 20.0);
    let every = Duration::from_millis(100);
    network.add_bad_link_messages(station, BadLinkRole { wireless, every });
    // Downloads, and an upload.
    for (number, (from, to)) in [(fh, mh), (fh, mh), (mh, fh)].into_iter().enumerate() {
        transfer(&mut network, from, to, number as u8 + 1, 100_000);
    }
    network.run(Instant::from_millis(50), &mut (), |_| false);
    assert_eq!(network.bad_links[0].connections(), 3);
    network.run(Instant::from_millis(300_000), &mut (), Network::is_closed);
    assert!(network.is_delivered() && network.is_closed());
    assert_eq!(network.bad_links[0].connections(), 0);
}

/// Changes of a link are reported at their time, for each direction of the link.
#[test]
fn observer_receives_outages() {
    #[derive(Default)]
    struct Changes(Vec<(u32, MediumState, u64)>);
    impl Observer for Changes {
        fn on_link_state(&mut self, link: LinkId, state: MediumState, now: Instant) {
            self.0.push((link.0, state, now.as_nanos() / 1_000_000));
        }
    }
    let mut network = Network::new();
    let (a, b) = (network.add_node(), network.add_node());
    let list = vec![
        OutageAt {
            at_s: 0.0,
            for_s: 0.5,
        },
        OutageAt {
            at_s: 2.0,
            for_s: 1.0,
        },
    ];
    let settings = LinkSettings {
        outages: OutageSettings::List { list },
        ..LinkSettings::default()
    };
    let failing = MediumPlan {
        plan: settings.plan().unwrap(),
        ..medium(10.0, 1.0)
    };
    network.add_link(a, b, failing, medium(10.0, 1.0));
    let mut changes = Changes::default();
    network.run(Instant::from_millis(10_000), &mut changes, |_| false);
    let (up, down) = (MediumState::Up, MediumState::Down);
    assert_eq!(
        changes.0,
        [(0, down, 0), (0, up, 500), (0, down, 2000), (0, up, 3000)]
    );
    assert_eq!(network.now(), Instant::from_millis(10_000));
}
