// SPDX-License-Identifier: Apache-2.0

use std::net::{IpAddr, UdpSocket};

use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::available_or_skip;
use holdfast_testbed::seeded_file::SeededContent;
use holdfast_testbed::topology::{FH, Topology, TopologySettings, Wireless};

use super::end::Opening;
use super::*;
use crate::stall;

/// A test fails after this rather than hang.
const LIMIT: Duration = Duration::from_secs(60);
const SEED: u64 = 7;

fn exchange(direction: Direction, bytes: impl Into<Option<u64>>) -> QuicExchange {
    QuicExchange {
        direction,
        bytes: bytes.into(),
        seed: SEED,
        congestion_control: QuicCongestionControl::Cubic,
        segmentation_offload: true,
    }
}

/// Both ends on the loopback device: the FH's, the MH's, and what can be seen.
fn ends(exchange: &QuicExchange) -> (QuicEnd, QuicEnd, DownloadWatch) {
    let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let watch = DownloadWatch::default();
    let fh = QuicEnd::start(socket(), Opening::Listen, exchange, &watch).unwrap();
    let opening = Opening::Connect {
        to: fh.address(),
        begin_ns: 0,
    };
    let mh = QuicEnd::start(socket(), opening, exchange, &watch).unwrap();
    (fh, mh, watch)
}

/// What both ends of a whole transfer report: the sender, the receiver.
fn carried_out(exchange: &QuicExchange) -> (QuicReport, QuicReport) {
    let (fh, mh, watch) = ends(exchange);
    wait(|| fh.is_finished() && mh.is_finished());
    let (fh, mh) = (fh.finish().unwrap(), mh.finish().unwrap());
    let (sender, receiver) = match exchange.direction.sender() {
        Side::Fh => (fh, mh),
        Side::Mh => (mh, fh),
    };
    assert_eq!(watch.bytes(), receiver.received.bytes());
    (sender, receiver)
}

fn wait(is_so: impl Fn() -> bool) {
    let condition = || Ok(is_so().then_some(()));
    StopFlag::default()
        .wait_for("a QUIC transfer", LIMIT, condition)
        .unwrap();
}

/// That these are the first bytes of the seed.
fn assert_seeded(received: &Received) {
    let content = SeededContent::of(received.bytes(), SEED);
    assert_eq!(received.sha256, content.sha256);
}

#[test]
fn bytes_arrive_whole_either_way_with_each_congestion_control() {
    // More than the window, and no whole number of chunks.
    let bytes = 10_000_001;
    for direction in [Direction::Downlink, Direction::Uplink] {
        for congestion_control in QuicCongestionControl::ALL {
            let exchange = QuicExchange {
                congestion_control,
                ..exchange(direction, bytes)
            };
            let (sender, receiver) = carried_out(&exchange);
            assert_eq!((sender.error, receiver.error), (None, None));
            assert_eq!(sender.sent_bytes, bytes);
            assert_eq!(receiver.received.bytes(), bytes);
            assert_seeded(&receiver.received);
            let arrivals = &receiver.received.arrivals;
            assert!(arrivals.windows(2).all(|pair| {
                pair[0].at_ns <= pair[1].at_ns && pair[0].bytes_total < pair[1].bytes_total
            }));
            assert!(sender.received.arrivals.is_empty());
            assert!(sender.counts.packets > bytes / 1500);
        }
    }
}

#[test]
fn nothing_at_all_is_a_transfer_too() {
    let exchange = exchange(Direction::Uplink, 0);
    let (sender, receiver) = carried_out(&exchange);
    assert_eq!((sender.error, receiver.error), (None, None));
    assert_eq!(receiver.received.bytes(), 0);
}

#[test]
fn without_a_number_of_bytes_either_end_ends_it_well() {
    for direction in [Direction::Downlink, Direction::Uplink] {
        for mh_ends in [true, false] {
            let (fh, mh, watch) = ends(&exchange(direction, None));
            wait(|| watch.bytes() > 1_000_000);
            let reports = if mh_ends {
                [mh.end().unwrap(), fh.finish().unwrap()]
            } else {
                [fh.end().unwrap(), mh.finish().unwrap()]
            };
            for report in &reports {
                assert_eq!(report.error, None, "{direction:?} {mh_ends}");
            }
            let [one, other] = reports;
            let (sender, receiver) = if one.sent_bytes > 0 {
                (one, other)
            } else {
                (other, one)
            };
            assert_eq!(receiver.received.bytes(), watch.bytes());
            assert!(sender.sent_bytes >= watch.bytes());
            assert_seeded(&receiver.received);
        }
    }
}

#[test]
fn who_is_cut_short_reports_an_error() {
    let endless = exchange(Direction::Downlink, u64::MAX);
    let (fh, mh, watch) = ends(&endless);
    wait(|| watch.bytes() > 0);
    assert_eq!(fh.end().unwrap().error, None);
    let receiver = mh.finish().unwrap();
    assert_eq!(receiver.error.unwrap(), "the sender has broken off");
    assert_seeded(&receiver.received);
    let (fh, mh, watch) = ends(&endless);
    wait(|| watch.bytes() > 0);
    assert_eq!(mh.end().unwrap().error, None);
    assert!(fh.finish().unwrap().error.is_some());
}

#[test]
fn an_end_without_another_reports_that_there_was_no_connection() {
    let exchange = exchange(Direction::Uplink, 1);
    let watch = DownloadWatch::default();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let alone = QuicEnd::start(socket, Opening::Listen, &exchange, &watch).unwrap();
    assert!(!alone.is_finished());
    let report = alone.end().unwrap();
    assert_eq!(report.error.unwrap(), "there was no connection");
}

#[test]
fn congestion_controls_are_read_by_their_names() {
    for one in QuicCongestionControl::ALL {
        assert_eq!(one.name().parse::<QuicCongestionControl>().unwrap(), one);
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(json, format!("\"{one}\""));
    }
    let error = "vegas".parse::<QuicCongestionControl>().unwrap_err();
    assert!(error.to_string().contains("cubic, bbr or newreno"));
}

/// FH, gateway and MH without Holdfast, over veth pairs; none: it cannot be had here.
fn topology(test: &str) -> Option<Topology> {
    let wireless = Wireless::Veth { mtu: 1500 };
    available_or_skip(test)
        .then(|| Topology::build(&TopologySettings::new("unused", wireless)).unwrap())
}

#[test]
fn a_pair_in_two_namespaces_carries_bytes_either_way_by_either_family() {
    let test = "a_pair_in_two_namespaces_carries_bytes_either_way_by_either_family";
    let Some(topology) = topology(test) else {
        return;
    };
    let bytes = 3_000_000;
    for direction in [Direction::Downlink, Direction::Uplink] {
        for address in [IpAddr::from(FH.v4), IpAddr::from(FH.v6)] {
            let at = SocketAddr::new(address, 0);
            let exchange = exchange(direction, bytes);
            let (fh, mh, watch) = (&topology.fh, &topology.mh, DownloadWatch::default());
            let pair = QuicPair::prepare(fh, mh, at, &exchange, &watch).unwrap();
            let exchanged = pair.run(0, LIMIT, &StopFlag::default()).unwrap();
            assert!(exchanged.ended);
            assert_eq!(exchanged.sender_error, None);
            assert_eq!(exchanged.receiver_error, None);
            assert_eq!(exchanged.received.bytes(), bytes);
            assert_seeded(&exchanged.received);
        }
    }
}

#[test]
fn an_outage_is_a_stall_of_the_same_connection() {
    let Some(topology) = topology("an_outage_is_a_stall_of_the_same_connection") else {
        return;
    };
    for direction in [Direction::Downlink, Direction::Uplink] {
        let exchange = exchange(direction, None);
        let (at, watch) = (SocketAddr::new(FH.v4.into(), 0), DownloadWatch::default());
        let fh = QuicEnd::listen(&topology.fh, at, &exchange, &watch).unwrap();
        let begin_ns = monotonic_ns();
        let to = fh.address();
        let mh = QuicEnd::connect(&topology.mh, to, begin_ns, &exchange, &watch).unwrap();
        wait(|| watch.bytes() > 1_000_000);
        topology.set_mh_device(false).unwrap();
        let down_ns = monotonic_ns();
        let silence_ns = 300_000_000;
        wait(|| monotonic_ns() > down_ns.max(watch.last_ns()) + silence_ns);
        let before = watch.bytes();
        topology.set_mh_device(true).unwrap();
        let up_ns = monotonic_ns();
        wait(|| watch.bytes() > before + 1_000_000);
        let (fh, mh) = match direction {
            Direction::Downlink => {
                let mh = mh.end().unwrap();
                (fh.finish().unwrap(), mh)
            }
            Direction::Uplink => {
                let fh = fh.end().unwrap();
                (fh, mh.finish().unwrap())
            }
        };
        assert_eq!((fh.error, mh.error), (None, None));
        let received = match direction {
            Direction::Downlink => mh.received,
            Direction::Uplink => fh.received,
        };
        assert_seeded(&received);
        assert!(received.longest_gap_ns(begin_ns) >= silence_ns);
        let since_s = |at_ns: u64| at_ns.saturating_sub(begin_ns) as f64 / 1e9;
        let outage = OutageAt {
            at_s: since_s(down_ns),
            for_s: since_s(up_ns) - since_s(down_ns),
        };
        let between_s = [0.0, since_s(monotonic_ns())];
        let stalls_s = stall::stalls_s(&[outage], between_s, |from_s, _| {
            let first = received.first_from(begin_ns + (from_s * 1e9) as u64)?;
            Some(since_s(first.at_ns))
        });
        assert!(matches!(stalls_s[..], [Some(_)]), "{stalls_s:?}");
    }
}
