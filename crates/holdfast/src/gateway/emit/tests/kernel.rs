// SPDX-License-Identifier: Apache-2.0
//! Frames of our own, as the kernels at both ends take them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use holdfast_net::datapath::{AttachMode, HEARTBEAT_INTERVAL, monotonic_ns};
use holdfast_net::frame::Frame;
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::readiness::wait_readable;
use holdfast_testbed::harness::{Flow, accept, connect, listen};
use holdfast_testbed::link_process::{GATEWAY_IF, MH_IF};
use holdfast_testbed::topology::{FH, Topology, TopologySettings, Wireless};

use super::*;

/// A frame is lost after this many bytes of downlink payload.
const LOSE_EVERY_BYTES: u32 = 100_000;

/// What a gateway did that loses segments and changes what is reported of it.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    lost: u32,
    replaced: u32,
    as_it_came: u32,
    with_whole_checksum: u32,
}

/// Loses segments, and takes all SACK blocks but the first, or all of them, from what
/// returns, until `stop`.
fn meddle(path: &DataPath, blocks_kept: usize, stop: &AtomicBool) -> Done {
    let mut pool = BufferPool::new(16 << 20);
    let (mut done, mut since_lost) = (Done::default(), 0);
    while !stop.load(Ordering::Relaxed) {
        path.beat(monotonic_ns());
        for direction in [Direction::Downlink, Direction::Uplink] {
            while let Some(frame) = path.read(direction, &mut pool).unwrap() {
                let Content::Segment(segment, packet) = classify(&frame, direction, 14) else {
                    path.forward(direction, &frame).unwrap();
                    continue;
                };
                if direction == Direction::Downlink && segment.payload_len > 0 {
                    since_lost += segment.payload_len;
                    if since_lost >= LOSE_EVERY_BYTES {
                        since_lost = 0;
                        done.lost += 1;
                        continue;
                    }
                }
                if segment.options.sack.is_empty() {
                    path.forward(direction, &frame).unwrap();
                    continue;
                }
                let mut kept = SackBlocks::default();
                for (left, right) in segment.options.sack.iter().take(blocks_kept) {
                    assert!(kept.push(left, right));
                }
                done.with_whole_checksum += u32::from(!Frame::vnet(&frame).needs_csum);
                let is_replaced = forward_with_sack(path, &packet, &kept).unwrap();
                done.replaced += u32::from(is_replaced);
                done.as_it_came += u32::from(!is_replaced);
            }
        }
        let fds =
            [Direction::Downlink, Direction::Uplink].map(|direction| path.device_fd(direction));
        wait_readable(fds, Some(HEARTBEAT_INTERVAL)).unwrap();
    }
    done
}

/// A counter of a namespace's kernel, by the names of its lines and its own.
fn counter(ns: &NetNs, file: &str, prefix: &str, name: &str) -> u64 {
    let path = format!("/proc/thread-self/net/{file}");
    let text = ns.run(|| std::fs::read_to_string(path)).unwrap().unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let found = pairs.find(|(key, _)| *key == name);
    found.unwrap_or_else(|| panic!("{name}")).1.parse().unwrap()
}

#[test]
fn the_fh_takes_segments_with_other_blocks_and_recovers_by_what_is_left_of_them() {
    let test = "the_fh_takes_segments_with_other_blocks_and_recovers_by_what_is_left_of_them";
    if !available_or_skip(test) {
        return;
    }
    for (blocks_kept, is_left_to_the_device) in [(0, true), (1, true), (1, false)] {
        let settings = TopologySettings::new("no-link", Wireless::Veth { mtu: 1500 });
        let topology = Topology::build(&settings).unwrap();
        if !is_left_to_the_device {
            let mut ethtool = topology.mh.command("ethtool");
            let output = ethtool.args(["-K", MH_IF, "tx", "off"]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        let listener = listen(&topology.fh, FH.v4.into(), 700).unwrap();
        let stop = AtomicBool::new(false);
        let (taking, is_taking) = mpsc::channel();
        let (gateway_ns, stop_of) = (topology.gateway(), &stop);
        let done = std::thread::scope(|scope| {
            let gateway = scope.spawn(move || {
                let run = || {
                    let path = DataPath::attach(GATEWAY_IF, AttachMode::Auto).unwrap();
                    path.beat(monotonic_ns());
                    taking.send(()).unwrap();
                    meddle(&path, blocks_kept, stop_of)
                };
                gateway_ns.run(run).unwrap()
            });
            is_taking.recv().unwrap();
            let at_mh = connect(&topology.mh, FH.v4.into(), 700).unwrap();
            let (at_fh, _) = accept(&listener).unwrap();
            let received = Flow::start(at_fh, at_mh, 2_000_000, 1).finish();
            stop.store(true, Ordering::Relaxed);
            received.unwrap();
            gateway.join().unwrap()
        });
        assert!(done.lost > 5 && done.replaced > 5, "{done:?}");
        let left = done.replaced - done.with_whole_checksum;
        assert_eq!(left > 0, is_left_to_the_device, "{done:?}");
        assert_eq!(done.as_it_came, 0, "{done:?}");
        assert_eq!(counter(&topology.fh, "snmp", "Tcp: ", "InCsumErrors"), 0);
        // Reports that it had of the MH: none, if none was let through.
        let of_fh = |name| counter(&topology.fh, "netstat", "TcpExt: ", name);
        let by_sack = of_fh("TCPSackRecovery");
        assert_eq!(by_sack > 0, blocks_kept > 0, "{blocks_kept}: {by_sack}");
        println!("{test}: {blocks_kept} blocks kept: {done:?}");
    }
}
