// SPDX-License-Identifier: Apache-2.0
//! Reads `cases.txt`: segments of flows, and what is noted after each. The tests of these notes use
//! it, and by its path also those of the kernel's notes in `holdfast-net`.

use holdfast_core::mobile_host::HostFlow;
use holdfast_wire::{Flags, SackBlocks, SeqNum, Timestamps};

/// A segment, and what is noted then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// The line itself.
    pub(crate) text: &'static str,
    /// It comes from the FH.
    pub(crate) is_downlink: bool,
    /// When, milliseconds.
    pub(crate) at_ms: u64,
    pub(crate) seq: SeqNum,
    pub(crate) ack: SeqNum,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) clocks: Option<Timestamps>,
    pub(crate) sack: SackBlocks,
    pub(crate) payload_bytes: u32,
    /// What is noted, if the flow is known then.
    pub(crate) noted: Option<Expected>,
}

/// What is noted after a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// As [`written`] writes it.
    pub(crate) newest_ack: [&'static str; 5],
    /// The newest round trip, milliseconds.
    pub(crate) rtt_ms: Option<u64>,
    /// When the FH's newest credible segment came, milliseconds.
    pub(crate) received_ms: Option<u64>,
    pub(crate) is_finished: bool,
}

/// The flows, each a list of lines.
pub(crate) fn flows() -> Vec<Vec<Line>> {
    let mut flows: Vec<Vec<Line>> = Vec::new();
    for text in include_str!("cases.txt").lines() {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if text.starts_with("flow ") {
            flows.push(Vec::new());
            continue;
        }
        let (segment, noted) = text.split_once(" = ").unwrap();
        flows.last_mut().unwrap().push(line(text, segment, noted));
    }
    assert!(flows.len() > 5 && flows.iter().all(|lines| lines.len() > 2));
    flows
}

fn line(text: &'static str, segment: &str, noted: &'static str) -> Line {
    let fields: Vec<_> = segment.split_whitespace().collect();
    let [
        direction,
        at_ms,
        seq,
        ack,
        flags,
        window,
        clocks,
        sack,
        payload,
    ] = fields[..]
    else {
        panic!("{text}");
    };
    assert!([">", "<"].contains(&direction), "{text}");
    let number = |word: &str| SeqNum::new(word.parse().unwrap());
    Line {
        text,
        is_downlink: direction == "<",
        at_ms: at_ms.parse().unwrap(),
        seq: number(seq),
        ack: number(ack),
        flags: Flags(flags.chars().map(flag).sum()),
        window: window.parse().unwrap(),
        clocks: clocks.split_once('/').map(|(tsval, tsecr)| Timestamps {
            tsval: tsval.parse().unwrap(),
            tsecr: tsecr.parse().unwrap(),
        }),
        sack: blocks(sack),
        payload_bytes: payload.parse().unwrap(),
        noted: (noted != "none").then(|| expected(noted)),
    }
}

fn flag(letter: char) -> u8 {
    match letter {
        'F' => 0x01,
        'S' => 0x02,
        'P' => 0x08,
        'A' => 0x10,
        other => panic!("flag {other}"),
    }
}

fn blocks(word: &str) -> SackBlocks {
    let mut blocks = SackBlocks::default();
    let edge = |word: &str| SeqNum::new(word.parse().unwrap());
    for block in word.split(',').filter(|_| word != "-") {
        let (left, right) = block.split_once('-').unwrap();
        blocks.push(edge(left), edge(right));
    }
    blocks
}

fn expected(noted: &'static str) -> Expected {
    let fields: Vec<_> = noted.split_whitespace().collect();
    let (newest_ack, [rtt, received, finished]) = fields.split_first_chunk().unwrap() else {
        panic!("{noted}");
    };
    let ms = |word: &str| (word != "-").then(|| word.parse().unwrap());
    assert!(["yes", "no"].contains(finished), "{noted}");
    Expected {
        newest_ack: *newest_ack,
        rtt_ms: ms(rtt),
        received_ms: ms(received),
        is_finished: *finished == "yes",
    }
}

/// The flow's newest ACK as the cases write it, with these of its blocks.
pub(crate) fn written(flow: &HostFlow, sack: &SackBlocks) -> [String; 5] {
    let or_none = |word: Option<String>| word.unwrap_or_else(|| "-".into());
    let block = |(left, right): (SeqNum, SeqNum)| format!("{}-{}", left.get(), right.get());
    let blocks: Vec<_> = sack.iter().map(block).collect();
    let clocks = flow
        .timestamps
        .map(|clocks| format!("{}/{}", clocks.tsval, clocks.tsecr));
    [
        flow.snd_nxt.get().to_string(),
        flow.rcv_nxt.get().to_string(),
        flow.window.to_string(),
        or_none(clocks),
        or_none((!blocks.is_empty()).then(|| blocks.join(","))),
    ]
}
