// SPDX-License-Identifier: Apache-2.0
//! The cases with which `bpf/noted.h` is tested too.

use holdfast_wire::Endpoint;

use super::cases::{self, Line, written};
use super::*;
use crate::packet::NodeId;

fn key() -> FlowKey {
    let end = |address: &str, port| Endpoint {
        address: address.parse().unwrap(),
        port,
    };
    FlowKey {
        fh: end("10.1.0.2", 443),
        mh: end("10.2.0.2", 4_000),
    }
}

fn packet(line: &Line) -> Packet {
    let (from, to) = (key().mh, key().fh);
    let mut packet = Packet::made((NodeId(1), from), (NodeId(0), to));
    let Body::Tcp(tcp) = &mut packet.body else {
        unreachable!("it is made so");
    };
    let segment = &mut tcp.segment;
    (segment.seq, segment.ack, segment.flags) = (line.seq, line.ack, line.flags);
    segment.window = line.window;
    segment.options.timestamps = line.clocks;
    segment.options.sack = line.sack;
    segment.payload_len = line.payload_bytes;
    if line.is_downlink {
        (segment.from, segment.to) = (to, from);
    }
    packet
}

#[test]
fn what_is_noted_is_what_the_cases_expect() {
    let at = |ms: u64| Instant::from_millis(1_000 + ms);
    for lines in cases::flows() {
        let mut noted: Option<Noted> = None;
        for line in lines {
            let now = at(line.at_ms);
            let packet = packet(&line);
            let segment = *packet.segment().unwrap();
            let flow_notes = noted.get_or_insert_with(|| Noted::new(key(), &packet, now));
            if line.is_downlink {
                flow_notes.note_ingress(&segment, now);
            } else {
                flow_notes.note_egress(&segment, &packet, now);
            }
            let (flow, expected) = (flow_notes.flow(), line.noted);
            assert_eq!(flow.is_some(), expected.is_some(), "{}", line.text);
            let (Some(flow), Some(expected)) = (flow, expected) else {
                continue;
            };
            let text = line.text;
            assert_eq!(written(&flow, &flow.sack), expected.newest_ack, "{text}");
            let rtt_ms = flow.rtt.map(|rtt| rtt.as_millis() as u64);
            assert_eq!(rtt_ms, expected.rtt_ms, "{text}");
            assert_eq!(flow.received_at, expected.received_ms.map(at), "{text}");
            assert_eq!(flow.is_finished, expected.is_finished, "{text}");
        }
    }
}
