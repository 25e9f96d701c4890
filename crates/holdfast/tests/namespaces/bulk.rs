// SPDX-License-Identifier: Apache-2.0
//! Bulk data in both directions, both families, many flows, outages.

use std::net::IpAddr;

use holdfast_link::LinkFile;
use holdfast_link::{
    BitErrorEffect, Instant, LinkModel, LinkSettings, OutageAt, OutageEffect, seed_for,
};
use holdfast_testbed::harness::{Flow, accept, connect, listen};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::FH;

use super::{
    PORT, SCHEMES, TCP_SCHEMES, assert_shorter_than, await_outage, connection, emulated, fh,
    harness, start_link, wired,
};

const MB: u64 = 1_000_000;

/// A link on which a transfer of a few megabytes is short.
pub(super) fn fast_link() -> EmulatedLink {
    EmulatedLink {
        rate_mbit_per_s: 100.0,
        delay_ms: 5.0,
        ..EmulatedLink::default()
    }
}

#[test]
fn bulk_data_arrives_whole_in_both_directions_at_once() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let harness = harness(&emulated(fast_link()), scheme);
        let (down_fh, down_mh) = connection(&harness, fh(), PORT);
        let (up_fh, up_mh) = connection(&harness, fh(), PORT + 1);
        let downlink = Flow::start(down_fh, down_mh, 4 * MB, 1);
        let uplink = Flow::start(up_mh, up_fh, 4 * MB, 2);
        downlink
            .finish()
            .unwrap_or_else(|error| panic!("{scheme} downlink: {error:#}"));
        uplink
            .finish()
            .unwrap_or_else(|error| panic!("{scheme} uplink: {error:#}"));
    }
}

#[test]
fn one_connection_transfers_in_both_directions_at_once() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let harness = harness(&emulated(fast_link()), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let (fh_in, mh_in) = (at_fh.try_clone().unwrap(), at_mh.try_clone().unwrap());
        let downlink = Flow::start(at_fh, mh_in, 4 * MB, 3);
        let uplink = Flow::start(at_mh, fh_in, 4 * MB, 4);
        downlink
            .finish()
            .unwrap_or_else(|error| panic!("{scheme} downlink: {error:#}"));
        uplink
            .finish()
            .unwrap_or_else(|error| panic!("{scheme} uplink: {error:#}"));
    }
}

#[test]
fn two_hundred_flows_at_once_arrive_whole() {
    in_virtual_kernel!();
    let harness = harness(&wired(1500), "hold");
    let listener = listen(&harness.topology.fh, fh(), PORT).unwrap();
    let mut flows = Vec::new();
    for seed in 0..200 {
        let at_mh = connect(&harness.topology.mh, fh(), PORT).unwrap();
        let (at_fh, _) = accept(&listener).unwrap();
        // In alternate directions.
        let (from, to) = if seed % 2 == 0 {
            (at_fh, at_mh)
        } else {
            (at_mh, at_fh)
        };
        flows.push(Flow::start(from, to, MB / 4, seed));
    }
    for (i, flow) in flows.into_iter().enumerate() {
        flow.finish()
            .unwrap_or_else(|error| panic!("flow {i}: {error:#}"));
    }
}

#[test]
fn ipv6_survives_an_outage_as_ipv4_does() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        outage_is_survived(scheme, FH.v6.into(), EmulatedLink::default(), 200);
    }
}

#[test]
fn an_outage_stalls_a_download_for_less_than_two_tenths_of_a_second() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        outage_is_survived(scheme, fh(), EmulatedLink::default(), 200);
    }
    let keeping = EmulatedLink {
        outage_effect: OutageEffect::Keep,
        ..EmulatedLink::default()
    };
    outage_is_survived("hold", fh(), keeping, 200);
}

#[test]
fn an_outage_without_a_report_stalls_a_download_for_a_few_probes() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let silent = EmulatedLink {
            carrier_follows: false,
            ..EmulatedLink::default()
        };
        // The gateway probes every round trip, 50 to 130 ms here.
        outage_is_survived(scheme, fh(), silent, 300);
    }
}

/// A download over this link, with an outage of two seconds in it.
fn outage_is_survived(scheme: &str, from: IpAddr, link: EmulatedLink, limit_ms: u64) {
    let link = EmulatedLink {
        outages: vec![OutageAt {
            at_s: 1.0,
            for_s: 2.0,
        }],
        ..link
    };
    let what = format!("{scheme} {from} {:?}: stalled for", link.outage_effect);
    let settings = emulated(link);
    let mut harness = harness(&settings, scheme);
    let (at_fh, at_mh) = connection(&harness, from, PORT);
    let flow = Flow::start(at_fh, at_mh, 4 * MB, 5);
    flow.wait_bytes(MB / 4).unwrap();
    let start_ns = start_link(&mut harness);
    let received = flow
        .finish()
        .unwrap_or_else(|error| panic!("{what} ... {error:#}"));
    let stall_ms = received.stall_ms(start_ns + 3_000_000_000);
    println!("{what} {stall_ms} ms");
    assert_shorter_than(limit_ms, &what, stall_ms);
}

#[test]
fn an_upload_survives_an_outage_whole() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let link = EmulatedLink {
            outages: vec![OutageAt {
                at_s: 0.5,
                for_s: 1.0,
            }],
            ..EmulatedLink::default()
        };
        let mut harness = harness(&emulated(link), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_mh, at_fh, 4 * MB, 6);
        flow.wait_bytes(MB / 8).unwrap();
        start_link(&mut harness);
        await_outage(&harness);
        flow.finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
    }
}

/// A seed without two wrong bits in one packet in the first 60 Mbit of each direction: TCP's checksum
/// does not detect some pairs.
fn seed_of_lone_errors(settings: &LinkSettings) -> u64 {
    const PACKETS: u64 = 5000;
    const PACKET_BYTES: u64 = 1500;
    let at_once = LinkSettings {
        rate_mbit_per_s: None,
        delay_ms: 0.0,
        ..settings.clone()
    };
    let are_lone = |seed: u64| {
        let mut link = LinkModel::new(&at_once, seed).unwrap();
        let mut last = None;
        (0..PACKETS).all(|number| {
            let _ = link.enqueue((), PACKET_BYTES, Instant::ZERO);
            let packet = link.poll_departure(Instant::ZERO).unwrap();
            packet.flipped_bits.iter().all(|bit| {
                let offset = number * PACKET_BYTES * 8 + u64::from(*bit);
                let before = last.replace(offset);
                before.is_none_or(|before| offset - before > 2 * PACKET_BYTES * 8)
            })
        })
    };
    (1..10_000)
        .find(|seed| {
            [1, 2]
                .iter()
                .all(|direction| are_lone(seed_for(*seed, *direction)))
        })
        .unwrap()
}

/// Only the checksums of IP and TCP detect these wrong bits, in both directions.
#[test]
fn packets_with_wrong_bits_are_dropped_and_never_cached() {
    in_virtual_kernel!();
    let settings = LinkSettings {
        rate_mbit_per_s: Some(100.0),
        delay_ms: 5.0,
        // 1% of the full packets, and one ACK in 2,400.
        bit_error_rate: 1e-6,
        bit_error_effect: BitErrorEffect::Corrupt,
        ..LinkSettings::default()
    };
    let link = EmulatedLink {
        description: Some(Box::new(LinkFile {
            seed: Some(seed_of_lone_errors(&settings)),
            downlink: settings.clone(),
            uplink: settings,
            ..LinkFile::default()
        })),
        ..fast_link()
    };
    for scheme in TCP_SCHEMES {
        let mut harness = harness(&emulated(link.clone()), scheme);
        let (down_fh, down_mh) = connection(&harness, fh(), PORT);
        let (up_fh, up_mh) = connection(&harness, fh(), PORT + 1);
        let downlink = Flow::start(down_fh, down_mh, 2 * MB, 1);
        let uplink = Flow::start(up_mh, up_fh, 2 * MB, 2);
        for (flow, direction) in [(downlink, "downlink"), (uplink, "uplink")] {
            let finished = flow.finish();
            finished.unwrap_or_else(|error| panic!("{scheme} {direction}: {error:#}"));
        }
        let status = harness.gateway.as_ref().unwrap().status().unwrap();
        let counters = harness.topology.cells[0]
            .link
            .take()
            .unwrap()
            .end()
            .unwrap()
            .counters;
        let wrong = |direction: &str| counters[direction]["corrupted_packets"].as_u64().unwrap();
        assert!(wrong("downlink") > 5 && wrong("uplink") > 5, "{counters}");
        // The gateway receives those of the uplink that still have TCP's protocol number.
        let noticed = &status["counters"];
        let noticed = ["wrong_checksum", "not_understood"]
            .map(|name| noticed[format!("worker.{name}")].as_u64().unwrap());
        assert!(noticed[0] > 0, "{status}");
        assert!(noticed.iter().sum::<u64>() <= wrong("uplink"), "{status}");
    }
}
