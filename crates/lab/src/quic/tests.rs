// SPDX-License-Identifier: Apache-2.0

use holdfast_net::netns::available_or_skip;
use holdfast_testbed::seeded_file::SeededContent;
use holdfast_testbed::topology::{FH, Topology, TopologySettings, Wireless};

use super::*;

/// The longest time of a test: it fails instead of hanging.
const LIMIT: Duration = Duration::from_secs(60);

fn stream(direction: Direction, bytes: u64) -> QuicStream<'static> {
    QuicStream {
        direction,
        bytes,
        seed: 7,
        congestion_control: "cubic",
    }
}

/// The result of the stream over the loopback device.
fn carried_out(stream: &QuicStream<'_>, limit: Duration) -> FlowResult {
    let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (fh, watch) = (socket(), DownloadWatch::default());
    let to = fh.local_addr().unwrap();
    let fh = End::start(fh, None, stream, &watch).unwrap();
    let mh = End::start(socket(), Some((to, 0)), stream, &watch).unwrap();
    stream.wait(fh, mh, limit, &StopFlag::default()).unwrap()
}

#[test]
fn bytes_arrive_whole_either_way_with_each_congestion_control() {
    // More than the window, and not a multiple of the chunk size.
    let bytes = 10_000_001;
    for direction in [Direction::Downlink, Direction::Uplink] {
        for congestion_control in ["cubic", "bbr", "reno"] {
            let stream = QuicStream {
                congestion_control,
                ..stream(direction, bytes)
            };
            let result = carried_out(&stream, LIMIT);
            assert!(result.in_time && result.is_whole);
            let sent = SeededContent::of(bytes, 7);
            assert_eq!(result.received.bytes(), bytes);
            assert_eq!(result.received.sha256, sent.sha256);
        }
    }
    let vegas = QuicStream {
        congestion_control: "vegas",
        ..stream(Direction::Uplink, 1)
    };
    let error = vegas.transport().unwrap_err().to_string();
    assert!(error.ends_with("takes cubic, bbr or reno"), "{error}");
}

#[test]
fn a_transfer_without_bytes_is_whole() {
    assert!(carried_out(&stream(Direction::Uplink, 0), LIMIT).is_whole);
}

#[test]
fn a_transfer_that_is_cut_short_is_not_whole() {
    let endless = stream(Direction::Downlink, u64::MAX);
    let result = carried_out(&endless, Duration::from_millis(300));
    assert!(!result.in_time && !result.is_whole);
    let received = SeededContent::of(result.received.bytes(), 7);
    assert_eq!(result.received.sha256, received.sha256);
}

#[test]
fn bytes_go_either_way_between_two_namespaces() {
    if !available_or_skip("bytes_go_either_way_between_two_namespaces") {
        return;
    }
    let settings = TopologySettings::new("unused", Wireless::Veth { mtu: 1500 });
    let topology = Topology::build(&settings).unwrap();
    let at = SocketAddr::new(FH.v4.into(), 0);
    for direction in [Direction::Downlink, Direction::Uplink] {
        let (hosts, watch) = ([&topology.fh, &topology.mh], DownloadWatch::default());
        let stop = StopFlag::default();
        let stream = stream(direction, 3_000_000);
        let result = stream.run(hosts, at, (0, LIMIT), &watch, &stop).unwrap();
        assert!(result.is_whole && result.received.bytes() == 3_000_000);
    }
}
