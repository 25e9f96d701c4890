// SPDX-License-Identifier: Apache-2.0
//! Frames of our own, as the kernels at both ends take them.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use holdfast_core::FlowKey;
use holdfast_net::datapath::{AttachMode, HEARTBEAT_INTERVAL, monotonic_ns};
use holdfast_net::frame::Frame;
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::readiness::wait_readable;
use holdfast_testbed::harness::{Flow, accept, connect, listen};
use holdfast_testbed::link_process::{GATEWAY_IF, MH_IF};
use holdfast_testbed::topology::{FH, Topology, TopologySettings, Wireless};
use holdfast_wire::{Options, Segment};

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

/// An engine that knows of no other next hop.
fn without_mobiles() -> Gateway<Packet> {
    Gateway::new(Settings::default())
}

/// Gives each segment to `handle` until `stop`; all other frames pass.
fn serve(
    path: &DataPath,
    stop: &AtomicBool,
    mut handle: impl FnMut(Direction, &Frame, &Segment, &Packet),
) {
    let mut pool = BufferPool::new(16 << 20);
    while !stop.load(Ordering::Relaxed) {
        for direction in [Direction::Downlink, Direction::Uplink] {
            while let Some(frame) = path.read(direction, &mut pool).unwrap() {
                match classify(&frame, direction, 14) {
                    Content::Segment(segment, packet) => {
                        handle(direction, &frame, &segment, &packet);
                    }
                    _ => path.forward(direction, &frame).unwrap(),
                }
            }
        }
        let fds =
            [Direction::Downlink, Direction::Uplink].map(|direction| path.device_fd(direction));
        wait_readable(fds, Some(HEARTBEAT_INTERVAL)).unwrap();
    }
}

/// Which downlink segments are lost.
#[derive(Default)]
struct Loss {
    bytes_since: u32,
    lost: u32,
}

impl Loss {
    fn takes(&mut self, direction: Direction, segment: &Segment) -> bool {
        if direction == Direction::Uplink || segment.payload_len == 0 {
            return false;
        }
        self.bytes_since += segment.payload_len;
        let takes = self.bytes_since >= LOSE_EVERY_BYTES;
        if takes {
            self.bytes_since = 0;
            self.lost += 1;
        }
        takes
    }
}

/// Loses segments, and takes all SACK blocks but the first, or all of them, from what
/// returns, until `stop`.
fn meddle(path: &DataPath, blocks_kept: usize, stop: &AtomicBool) -> Done {
    let (mut done, mut loss) = (Done::default(), Loss::default());
    serve(path, stop, |direction, frame, segment, packet| {
        if loss.takes(direction, segment) {
            return;
        }
        if segment.options.sack.is_empty() {
            path.forward(direction, frame).unwrap();
            return;
        }
        let mut kept = SackBlocks::default();
        for (left, right) in segment.options.sack.iter().take(blocks_kept) {
            assert!(kept.push(left, right));
        }
        done.with_whole_checksum += u32::from(!Frame::vnet(frame).needs_csum);
        let is_replaced = forward_with_sack(path, packet, &kept).unwrap();
        done.replaced += u32::from(is_replaced);
        done.as_it_came += u32::from(!is_replaced);
    });
    done.lost = loss.lost;
    done
}

/// The segment with the numbers of the other half: the MH sees the FH's data this much later.
fn on_the_other_half(direction: Direction, segment: &Segment, by: u32) -> Segment {
    let mut other = *segment;
    if direction == Direction::Downlink {
        other.seq = segment.seq + by;
        return other;
    }
    if segment.flags.has(Flags::ACK) {
        other.ack = segment.ack - by;
    }
    other.options.sack = SackBlocks::default();
    for (left, right) in segment.options.sack.iter() {
        assert!(other.options.sack.push(left - by, right - by));
    }
    other
}

/// Runs `gateway` with the data path in the gateway's namespace, and `ends` beside it as soon as the
/// path takes segments. What the gateway did.
fn beside_gateway<T: Send>(
    topology: &Topology,
    gateway: impl FnOnce(&DataPath, &AtomicBool) -> T + Send,
    ends: impl FnOnce(),
) -> T {
    /// Also if an end panics.
    struct StopAtEnd<'a>(&'a AtomicBool);
    impl Drop for StopAtEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let (taking, is_taking) = mpsc::channel();
    let (gateway_ns, stop_of) = (topology.gateway(), &stop);
    std::thread::scope(|scope| {
        let gateway = scope.spawn(move || {
            let run = || {
                let path = DataPath::attach(GATEWAY_IF, AttachMode::Auto).unwrap();
                // Longer than any test: a packet that passes without the gateway would make the test fail.
                path.beat(monotonic_ns() + 3_600_000_000_000);
                taking.send(()).unwrap();
                gateway(&path, stop_of)
            };
            gateway_ns.run(run).unwrap()
        });
        is_taking.recv().unwrap();
        {
            let _stop = StopAtEnd(&stop);
            ends();
        }
        gateway.join().unwrap()
    })
}

/// A topology; the MH's kernel fills in all checksums itself unless they are left to the device.
fn topology(is_left_to_the_device: bool) -> Topology {
    let settings = TopologySettings::new("no-link", Wireless::Veth { mtu: 1500 });
    let topology = Topology::build(&settings).unwrap();
    if !is_left_to_the_device {
        let mut ethtool = topology.mh.command("ethtool");
        let output = ethtool.args(["-K", MH_IF, "tx", "off"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    topology
}

/// A download of two megabytes by one connection; each byte is checked.
fn download(topology: &Topology) {
    let listener = listen(&topology.fh, FH.v4.into(), 700).unwrap();
    let at_mh = connect(&topology.mh, FH.v4.into(), 700).unwrap();
    let (at_fh, _) = accept(&listener).unwrap();
    Flow::start(at_fh, at_mh, 2_000_000, 1).finish().unwrap();
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
        let topology = topology(is_left_to_the_device);
        let gateway = |path: &DataPath, stop: &AtomicBool| meddle(path, blocks_kept, stop);
        let done = beside_gateway(&topology, gateway, || download(&topology));
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

/// Each half of a connection has its own numbers, as after a set-up that the gateway answered.
#[test]
fn both_kernels_take_segments_that_were_renumbered() {
    if !available_or_skip("both_kernels_take_segments_that_were_renumbered") {
        return;
    }
    for is_left_to_the_device in [true, false] {
        let topology = topology(is_left_to_the_device);
        let renumber = |path: &DataPath, stop: &AtomicBool| {
            let engine = without_mobiles();
            let (mut loss, mut sacks) = (Loss::default(), 0);
            serve(path, stop, |direction, _, segment, packet| {
                if loss.takes(direction, segment) {
                    return;
                }
                sacks += u32::from(!segment.options.sack.is_empty());
                let other = on_the_other_half(direction, segment, 0x8765_4321);
                repeat(path, &packet.renumbered(&other).unwrap(), &engine).unwrap();
            });
            (loss.lost, sacks)
        };
        let (lost, sacks) = beside_gateway(&topology, renumber, || {
            download(&topology);
            // Before the gateway goes: what comes later is not renumbered.
            for end in [&topology.fh, &topology.mh] {
                assert_eq!(counter(end, "snmp", "Tcp: ", "InCsumErrors"), 0);
                // A SACK block with the wrong half's numbers would be none of the sender's.
                assert_eq!(counter(end, "netstat", "TcpExt: ", "TCPSACKDiscard"), 0);
            }
        });
        assert!(lost > 5 && sacks > 5, "{lost} {sacks}");
    }
}

#[test]
fn the_mh_takes_an_answer_that_the_gateway_made_of_its_own_segment() {
    if !available_or_skip("the_mh_takes_an_answer_that_the_gateway_made_of_its_own_segment") {
        return;
    }
    let topology = topology(true);
    let refuse = |path: &DataPath, stop: &AtomicBool| {
        let engine = without_mobiles();
        let mut refused = 0;
        serve(path, stop, |direction, frame, segment, packet| {
            if segment.flags != Flags::SYN {
                path.forward(direction, frame).unwrap();
                return;
            }
            refused += 1;
            // RFC 9293, 3.5.2, group 1.
            let answer = Segment {
                from: segment.to,
                to: segment.from,
                seq: SeqNum::new(0),
                ack: segment.seq + 1,
                flags: Flags::RST.with(Flags::ACK),
                window: 0,
                options: Options::default(),
                payload_len: 0,
            };
            repeat(path, &packet.answered(&answer).unwrap(), &engine).unwrap();
        });
        refused
    };
    let _listener = listen(&topology.fh, FH.v4.into(), 700).unwrap();
    let refused = beside_gateway(&topology, refuse, || {
        let error = connect(&topology.mh, FH.v4.into(), 700).expect_err("the SYN was answered");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    });
    // If the gateway is late the MH sends its SYN again.
    assert!(refused >= 1);
    assert_eq!(counter(&topology.mh, "snmp", "Tcp: ", "InCsumErrors"), 0);
}

#[test]
fn the_mh_takes_a_made_reset_and_a_report_about_its_segment() {
    let test = "the_mh_takes_a_made_reset_and_a_report_about_its_segment";
    if !available_or_skip(test) {
        return;
    }
    let topology = topology(true);
    let meddle = |path: &DataPath, stop: &AtomicBool| {
        let engine = without_mobiles();
        let (mut template, mut reported, mut was_reset) = (None, false, false);
        serve(path, stop, |direction, frame, segment, packet| {
            if direction == Direction::Downlink {
                template = packet.header();
            }
            if direction == Direction::Downlink || segment.payload_len == 0 {
                path.forward(direction, frame).unwrap();
                return;
            }
            // The MH's data are lost. It retransmits after the report.
            let Some(template) = template.filter(|_| !was_reset) else {
                return;
            };
            if reported {
                was_reset = true;
                let made = Made {
                    direction: Direction::Downlink,
                    template,
                    seq: segment.ack,
                    ack: segment.seq,
                    window: 0,
                    flags: Flags::RST.with(Flags::ACK),
                    timestamps: None,
                    sack: SackBlocks::default(),
                };
                send_made(path, &made, &engine).unwrap();
            } else {
                reported = true;
                let report = Unreachable {
                    template,
                    key: FlowKey::of(segment, direction),
                    seq: segment.seq,
                    copies: 2,
                };
                send_unreachable(path, &report, &engine).unwrap();
            }
        });
        (reported, was_reset)
    };
    let listener = listen(&topology.fh, FH.v4.into(), 700).unwrap();
    let done = beside_gateway(&topology, meddle, || {
        let mut at_mh = connect(&topology.mh, FH.v4.into(), 700).unwrap();
        let _at_fh = accept(&listener).unwrap();
        at_mh.write_all(b"lost").unwrap();
        let ended = at_mh.read(&mut [0]).expect_err("a RST ends it");
        assert_eq!(ended.kind(), io::ErrorKind::ConnectionReset);
    });
    assert_eq!(done, (true, true));
    let received = |name| counter(&topology.mh, "snmp", "Icmp: ", name);
    assert_eq!(
        (received("InDestUnreachs"), received("InCsumErrors")),
        (2, 0)
    );
}
