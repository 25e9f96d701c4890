// SPDX-License-Identifier: Apache-2.0
//! What is noted, against the vectors that the simulator's notes are held against too.

use super::*;

const VECTORS: &str = include_str!("../../../../sim/src/network/mobile/noted/vectors.txt");

/// How long a ms of the vectors is here, tried in turn: on a busy machine pauses creep in, and what
/// a pause tells is another thing then.
const SCALES: [u64; 18] = [1, 1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 20, 20, 20, 20, 50, 50, 50];

fn spec(words: &[&str], flow: FlowKey) -> (Spec, SackBlocks) {
    let number = |place: usize| words[place].parse::<u32>().unwrap();
    let flag = |letter| match letter {
        'F' => 0x01,
        'S' => 0x02,
        'P' => 0x08,
        'A' => 0x10,
        other => panic!("flag {other}"),
    };
    let clocks = words[6].split_once('/');
    let mut sack = SackBlocks::default();
    for block in words[7].split(',') {
        if let Some((left, right)) = block.split_once('-')
            && !left.is_empty()
        {
            let edge = |word: &str| SeqNum::new(word.parse().unwrap());
            sack.push(edge(left), edge(right));
        }
    }
    let spec = Spec {
        flow,
        downlink: words[0] == "<",
        seq: number(2),
        ack: number(3),
        flags: Flags(words[4].chars().map(flag).sum()),
        window: number(5) as u16,
        clocks: clocks.map(|(own, echo)| (own.parse().unwrap(), echo.parse().unwrap())),
        payload: number(8) as usize,
    };
    (spec, sack)
}

/// What is noted as the vectors write it, but for what depends on time.
fn written(noted: &NotedFlow) -> String {
    let flow = &noted.flow;
    let or_none = |word: Option<String>| word.unwrap_or_else(|| "-".into());
    let block = |(left, right): (SeqNum, SeqNum)| format!("{}-{}", left.get(), right.get());
    let sack = sender::without_dsack(&flow.sack, flow.rcv_nxt);
    let sack: Vec<_> = sack.iter().map(block).collect();
    let clocks = flow
        .timestamps
        .map(|its| format!("{}/{}", its.tsval, its.tsecr));
    [
        flow.snd_nxt.get().to_string(),
        flow.rcv_nxt.get().to_string(),
        flow.window.to_string(),
        or_none(clocks),
        or_none((!sack.is_empty()).then(|| sack.join(","))),
    ]
    .join(" ")
}

/// Whether so many ns can have passed between two of the lines, `ms` of the vectors apart: each
/// took from one time to another, however late it was.
fn is_between(ran: &[(u64, u64, u64)], ms: u64, ns: u64) -> bool {
    ran.iter().any(|(begun, from, to)| {
        ran.iter().any(|(ended, later_from, later_to)| {
            let range = later_from.saturating_sub(*to)..=later_to.saturating_sub(*from);
            *ended == begun + ms && range.contains(&ns)
        })
    })
}

/// Runs a flow's lines at their times, `scale` times as slow; what was wrong, if it was a time.
fn run(loaded: &Loaded, lines: &[&str], flow: FlowKey, scale: u64) -> Result<(), String> {
    let began = monotonic_ns();
    // When each was run: from, to.
    let mut ran = Vec::new();
    for line in lines {
        let (segment, expected) = line.split_once(" = ").unwrap();
        let words: Vec<_> = segment.split_whitespace().collect();
        let at_ms: u64 = words[1].parse().unwrap();
        // Not before its time, and as little after it as can be.
        while monotonic_ns() < began + at_ms * scale * 1_000_000 {
            std::hint::spin_loop();
        }
        let (spec, sack) = spec(&words, flow);
        let from = monotonic_ns();
        if spec.downlink {
            loaded.run("mobile_ingress", &spec.frame_with(&sack));
        } else {
            loaded.egress(&spec.frame_with(&sack));
        }
        let to = monotonic_ns();
        ran.push((at_ms, from, to));
        let Some(noted) = loaded.maps.flow(&flow).unwrap() else {
            assert_eq!(expected, "none", "{line}");
            continue;
        };
        let expected: Vec<_> = expected.split_whitespace().collect();
        assert_eq!(written(&noted), expected[..5].join(" "), "{line}");
        assert_eq!(noted.flow.is_finished, expected[7] == "yes", "{line}");
        let heard = noted.flow.heard_at.map(Instant::as_nanos);
        let expected_heard = expected[6].parse::<u64>().ok();
        let is_then = |heard: u64| {
            let mut at = ran.iter().filter(|(at, ..)| Some(*at) == expected_heard);
            at.any(|(_, from, to)| (*from..=*to).contains(&heard))
        };
        assert_eq!(heard.is_some(), expected_heard.is_some(), "{line}");
        assert!(heard.is_none_or(is_then), "{line}");
        let rtt = noted.flow.rtt.map(|rtt| rtt.as_nanos() as u64);
        let is_right = match (rtt, expected[5].parse::<u64>()) {
            (Some(ns), Ok(ms)) => is_between(&ran, ms, ns),
            (rtt, expected) => rtt.is_none() && expected.is_err(),
        };
        if !is_right {
            return Err(format!("a round trip of {rtt:?} ns: {line}"));
        }
    }
    Ok(())
}

#[test]
fn what_the_kernel_notes_is_what_the_vectors_say() {
    let test = "what_the_kernel_notes_is_what_the_vectors_say";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    let mut flows = 0;
    for vectors in VECTORS.split("\nflow ").skip(1) {
        let lines = vectors
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with('#'));
        let lines: Vec<_> = lines.filter(|line| line.contains(" = ")).collect();
        assert!(lines.len() > 2, "{vectors}");
        for is_v6 in [false, true] {
            let mut wrong = String::new();
            let went = SCALES.into_iter().zip(0..).any(|(scale, number)| {
                let flow = flow(is_v6, 10_000 + 100 * flows + number);
                let ran = run(&loaded, &lines, flow, scale);
                ran.map_err(|error| wrong = error).is_ok()
            });
            assert!(went, "{wrong}");
        }
        flows += 1;
    }
    assert!(flows > 5, "{flows}");
}
