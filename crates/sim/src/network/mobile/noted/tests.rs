// SPDX-License-Identifier: Apache-2.0
//! The vectors that `bpf/noted.h` is held against too.

use holdfast_wire::{Endpoint, Timestamps};

use super::*;
use crate::packet::NodeId;

const VECTORS: &str = include_str!("vectors.txt");

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

fn clocks(word: &str) -> Option<Timestamps> {
    let (tsval, tsecr) = word.split_once('/')?;
    Some(Timestamps {
        tsval: tsval.parse().unwrap(),
        tsecr: tsecr.parse().unwrap(),
    })
}

fn blocks(word: &str) -> SackBlocks {
    let mut blocks = SackBlocks::default();
    for block in word.split(',') {
        if let Some((left, right)) = block.split_once('-')
            && !left.is_empty()
        {
            let edge = |word: &str| SeqNum::new(word.parse().unwrap());
            blocks.push(edge(left), edge(right));
        }
    }
    blocks
}

fn packet(words: &[&str], is_downlink: bool) -> Packet {
    let (from, to) = (key().mh, key().fh);
    let mut packet = Packet::made((NodeId(1), from), (NodeId(0), to));
    let Body::Tcp(tcp) = &mut packet.body else {
        unreachable!("it is made so");
    };
    let number = |place: usize| words[place].parse::<u32>().unwrap();
    let flag = |letter| match letter {
        'F' => 0x01,
        'S' => 0x02,
        'P' => 0x08,
        'A' => 0x10,
        other => panic!("flag {other}"),
    };
    tcp.segment.seq = SeqNum::new(number(0));
    tcp.segment.ack = SeqNum::new(number(1));
    tcp.segment.flags = Flags(words[2].chars().map(flag).sum());
    tcp.segment.window = number(3) as u16;
    tcp.segment.options.timestamps = clocks(words[4]);
    tcp.segment.options.sack = blocks(words[5]);
    tcp.segment.payload_len = number(6);
    if is_downlink {
        (tcp.segment.from, tcp.segment.to) = (to, from);
    }
    packet
}

fn ms(instant: Instant) -> u64 {
    instant.as_nanos() / 1_000_000
}

/// The flow as the vectors write it.
fn written(flow: Option<HostFlow>) -> String {
    let Some(flow) = flow else {
        return "none".into();
    };
    let or_none = |word: Option<String>| word.unwrap_or_else(|| "-".into());
    let block = |(left, right): (SeqNum, SeqNum)| format!("{}-{}", left.get(), right.get());
    let sack: Vec<_> = flow.sack.iter().map(block).collect();
    let clocks = flow
        .timestamps
        .map(|its| format!("{}/{}", its.tsval, its.tsecr));
    [
        flow.snd_nxt.get().to_string(),
        flow.rcv_nxt.get().to_string(),
        flow.window.to_string(),
        or_none(clocks),
        or_none((!sack.is_empty()).then(|| sack.join(","))),
        or_none(flow.rtt.map(|rtt| rtt.as_millis().to_string())),
        or_none(flow.heard_at.map(|at| ms(at).to_string())),
        (if flow.is_finished { "yes" } else { "no" }).into(),
    ]
    .join(" ")
}

#[test]
fn what_is_noted_is_what_the_vectors_say() {
    let mut noted: Option<Noted> = None;
    let mut checked = 0;
    for line in VECTORS.lines() {
        if line.starts_with("flow") {
            noted = None;
        }
        let Some((segment, expected)) = line.split_once(" = ") else {
            continue;
        };
        if line.starts_with('#') {
            continue;
        }
        let words: Vec<_> = segment.split_whitespace().collect();
        let is_downlink = words[0] == "<";
        let at: u64 = words[1].parse().unwrap();
        let now = Instant::from_nanos(1_000_000_000 + at * 1_000_000);
        let packet = packet(&words[2..], is_downlink);
        let segment = *packet.segment().unwrap();
        let its = noted.get_or_insert_with(|| Noted::new(key(), &packet, now));
        if is_downlink {
            its.note_ingress(&segment, now);
        } else {
            its.note_egress(&segment, &packet, now);
        }
        let flow = its.flow().map(|flow| HostFlow {
            heard_at: flow
                .heard_at
                .map(|at| Instant::from_nanos(at.as_nanos() - 1_000_000_000)),
            ..flow
        });
        assert_eq!(written(flow), expected, "{line}");
        checked += 1;
    }
    assert!(checked > 30, "{checked}");
}
