// SPDX-License-Identifier: Apache-2.0
//! How the gateway's edge performs the engine's actions: priority, direction, other SACK blocks;
//! and which bit errors count.

use holdfast_core::{Action, Direction, Made, Resend};
use holdfast_wire::{Flags, Options, SackBlocks, Segment};

use super::*;
use crate::content::ContentKind;
use crate::packet::{Origin, TcpPacket};

const RESEND_DSCP: u8 = 46;

/// TCP packets in the order of their arrival over a link: SEG.SEQ and SACK blocks.
#[derive(Debug, Default)]
struct Arrivals {
    all: Vec<(LinkId, u32, SackBlocks)>,
}

impl Arrivals {
    fn over(&self, link: LinkId) -> Vec<u32> {
        let those = self.all.iter().filter(|(seen, ..)| *seen == link);
        those.map(|(_, seq, _)| *seq).collect()
    }
}

impl Observer for Arrivals {
    fn on_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, _: Instant) {
        if let (PacketEvent::Arrived, Some(segment)) = (event, packet.segment()) {
            self.all
                .push((link, segment.seq.get(), segment.options.sack));
        }
    }
}

/// FH, gateway and MH in a row.
struct Row {
    network: Network,
    nodes: [NodeId; 3],
    wired: [LinkId; 2],
    wireless: [LinkId; 2],
}

impl Row {
    /// A packet of 1000 bytes takes 8 ms on the wireless link.
    fn new(priority_dscp_min: Option<u8>, resend_dscp: Option<u8>, half_duplex: bool) -> Self {
        let mut network = Network::new();
        let nodes = [(); 3].map(|()| network.add_node());
        let [fh, gateway, mh] = nodes;
        let wired = join(&mut network, fh, gateway, 100.0);
        let mut plan = medium(1.0, 5.0);
        plan.plan.priority_dscp_min = priority_dscp_min;
        let wireless = if half_duplex {
            network.add_half_duplex(gateway, mh, plan)
        } else {
            network.add_link(gateway, mh, plan.clone(), plan)
        };
        let role = GatewayRole {
            settings: Settings::default(),
            wireless: wireless[0],
            signal: None,
            restarts: Vec::new(),
            resend_dscp,
            compression_time: Duration::ZERO,
        };
        network.add_gateway(gateway, role);
        network.run(Instant::ZERO, &mut (), |_| false);
        Self {
            network,
            nodes,
            wired,
            wireless,
        }
    }

    fn packet(&self, direction: Direction, seq: u32, payload_len: u32) -> Packet {
        let [fh, _, mh] = self.nodes;
        let (from, to) = match direction {
            Direction::Downlink => (fh, mh),
            Direction::Uplink => (mh, fh),
        };
        let segment = Segment {
            from: end(from, 1).endpoint,
            to: end(to, 2).endpoint,
            seq: SeqNum::new(seq),
            ack: SeqNum::new(1),
            flags: Flags::ACK,
            window: 1000,
            options: Options::default(),
            payload_len,
        };
        Packet {
            from,
            to,
            body: Body::Tcp(TcpPacket {
                segment,
                origin: Origin::default(),
                repeated: false,
                content: ContentKind::Bulk,
                wire: None,
            }),
            corrupted: false,
        }
    }

    fn forward(&mut self, packet: &Packet) {
        let gateway = self.nodes[1];
        self.network.forward(gateway, packet, DSCP_DEFAULT);
    }

    fn resend(&mut self, direction: Direction, seq: u32, ahead: bool) {
        let payload = self.packet(direction, seq, 960);
        let piece = Resend {
            direction,
            ahead,
            payload,
            offset: 0,
            len: 960,
            seq: SeqNum::new(seq),
            ack: SeqNum::new(1),
            window: 1000,
            flags: Flags::ACK,
            timestamps: None,
            segment_len: 960,
            path_mtu: None,
            compress: None,
        };
        self.network.perform(0, vec![Action::Resend(piece)]);
    }

    fn arrivals(&mut self) -> Arrivals {
        let mut arrivals = Arrivals::default();
        self.network
            .run(Instant::from_millis(10_000), &mut arrivals, |_| false);
        arrivals
    }
}

#[test]
fn what_is_resent_ahead_overtakes_what_waits_where_role_and_link_allow_it() {
    let order = |priority_dscp_min, resend_dscp, ahead| {
        let mut row = Row::new(priority_dscp_min, resend_dscp, false);
        for seq in 1..=3 {
            row.forward(&row.packet(Direction::Downlink, seq, 960));
        }
        row.resend(Direction::Downlink, 9, ahead);
        let wireless = row.wireless[0];
        let order = row.arrivals().over(wireless);
        (order, row.network.link_counters(wireless).ahead_packets)
    };
    let first = (vec![1, 9, 2, 3], 1);
    let last = (vec![1, 2, 3, 9], 0);
    assert_eq!(order(Some(40), Some(RESEND_DSCP), true), first);
    assert_eq!(order(Some(40), Some(RESEND_DSCP), false), last);
    assert_eq!(order(Some(40), None, true), last);
    assert_eq!(order(Some(47), Some(RESEND_DSCP), true), last);
    assert_eq!(order(None, Some(RESEND_DSCP), true), last);
}

#[test]
fn on_a_half_duplex_link_what_goes_ahead_still_takes_turns_with_the_other_end() {
    let mut row = Row::new(Some(40), Some(RESEND_DSCP), true);
    let [_, gateway, mh] = row.nodes;
    row.forward(&row.packet(Direction::Downlink, 1, 960));
    row.forward(&row.packet(Direction::Downlink, 2, 960));
    for seq in [101, 102] {
        let packet = row.packet(Direction::Uplink, seq, 960);
        row.network.forward(mh, &packet, DSCP_DEFAULT);
    }
    row.resend(Direction::Downlink, 9, true);
    assert_eq!(row.nodes[1], gateway);
    let [down, up] = row.wireless;
    let arrivals = row.arrivals();
    let on_medium: Vec<u32> = arrivals
        .all
        .iter()
        .filter(|(link, ..)| [down, up].contains(link))
        .map(|(_, seq, _)| *seq)
        .collect();
    assert_eq!(on_medium, [1, 101, 9, 102, 2]);
}

#[test]
fn an_uplink_piece_goes_out_on_the_wired_side() {
    let mut row = Row::new(None, None, false);
    row.resend(Direction::Uplink, 7, false);
    let [_, to_fh] = row.wired;
    assert_eq!(row.arrivals().over(to_fh), [7]);
}

#[test]
fn a_made_ack_carries_its_blocks_and_a_packet_goes_on_with_others() {
    let mut row = Row::new(None, None, false);
    let mut sack = SackBlocks::default();
    assert!(sack.push(SeqNum::new(10), SeqNum::new(20)));
    let made = Made {
        direction: Direction::Downlink,
        template: row.packet(Direction::Downlink, 5, 0),
        seq: SeqNum::new(5),
        ack: SeqNum::new(1),
        window: 1000,
        flags: Flags::ACK,
        timestamps: None,
        sack,
    };
    row.network.perform(0, vec![Action::Send(made)]);
    let [down, _] = row.wireless;
    assert_eq!(row.arrivals().all, [(down, 5, sack)]);
    let mut with_two = row.packet(Direction::Uplink, 1, 0);
    let Body::Tcp(tcp) = &mut with_two.body else {
        panic!("a segment");
    };
    tcp.segment.options.sack = sack;
    assert!(
        tcp.segment
            .options
            .sack
            .push(SeqNum::new(30), SeqNum::new(40))
    );
    let with_one = with_two.with_sack(sack);
    assert_eq!(with_one.segment().unwrap().options.sack, sack);
    assert_eq!(with_two.len_bytes() - with_one.len_bytes(), 8);
}

/// Counts corrupted packets that arrive.
#[derive(Default)]
struct Corrupted(u32);

impl Observer for Corrupted {
    fn on_packet(&mut self, _: LinkId, event: PacketEvent, packet: &Packet, _: Instant) {
        self.0 += u32::from(event == PacketEvent::Arrived && packet.corrupted);
    }
}

/// As in the emulator: a frame's overhead has none of the packet's bits.
#[test]
fn wrong_bits_behind_the_packet_do_not_corrupt_it() {
    let corrupted_of = |overhead_bytes: u32, payload_len: u32| {
        let mut network = Network::new();
        let (a, b) = (network.add_node(), network.add_node());
        let mut plan = medium(1.0, 0.0);
        plan.plan.bit_error_rate = 1e-4;
        plan.plan.bit_error_effect = holdfast_link::BitErrorEffect::Corrupt;
        plan.overhead_bytes = overhead_bytes;
        let links = network.add_link(a, b, plan.clone(), plan);
        let source = SourceSettings {
            from: a,
            to: b,
            rate_bit_per_s: 8_000,
            packet_bytes: payload_len,
            start: Instant::ZERO,
            stop: Instant::from_millis(2_000_000),
            poisson: false,
            seed: 1,
        };
        network.add_source(source);
        let mut seen = Corrupted::default();
        network.run(Instant::from_millis(2_100_000), &mut seen, |_| false);
        let sent = network.link_counters(links[0]).offered_packets;
        f64::from(seen.0) / sent as f64
    };
    // 1 - (1 - 1e-4)^(8 * 1000), whatever the frame is.
    let expected = 1.0 - libm::pow(1.0 - 1e-4, 8000.0);
    for overhead_bytes in [0, 1000] {
        let share = corrupted_of(overhead_bytes, 1000);
        assert!((share / expected - 1.0).abs() < 0.06, "{share} {expected}");
    }
}
