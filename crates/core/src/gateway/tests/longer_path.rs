// SPDX-License-Identifier: Apache-2.0
//! The path becomes longer in an outage: recovery fills it. The FH's window stays the same.

use std::collections::{BTreeSet, VecDeque};

use super::auto::with_sack;
use super::bench::{Bench, LEN, bench_with, settings};
use crate::{Scheme, Settings};

/// Segments that the FH keeps in flight.
const FLIGHT: u32 = 120;

/// A link that takes a segment a millisecond.
#[derive(Default)]
struct Link {
    queue: VecDeque<u32>,
    /// When an ACK comes, and its number.
    acks: VecDeque<(u64, u32)>,
    received: BTreeSet<u32>,
    rcv_nxt: u32,
}

impl Link {
    fn send(&mut self, lines: &[String]) {
        for line in lines {
            let Some((seq, end)) = line.strip_prefix("DATA ").and_then(|rest| {
                let (seq, end) = rest.split_once(' ')?.0.split_once("..")?;
                Some((seq.parse::<u32>().ok()?, end.parse::<u32>().ok()?))
            }) else {
                continue;
            };
            self.queue.extend((seq..end).step_by(LEN as usize));
        }
    }

    /// A millisecond passes. The ACK that comes now.
    fn tick(&mut self, now_ms: u64, round_trip_ms: u64) -> Option<u32> {
        if let Some(seq) = self.queue.pop_front() {
            self.received.insert(seq);
            while self.received.remove(&self.rcv_nxt) {
                self.rcv_nxt += LEN;
            }
            self.acks.push_back((now_ms + round_trip_ms, self.rcv_nxt));
        }
        let due = self.acks.front().is_some_and(|(at, _)| *at <= now_ms);
        due.then(|| self.acks.pop_front())
            .flatten()
            .map(|(_, ack)| ack)
    }
}

/// The path has a round trip of 10 ms before an outage, and of `round_trip_ms` after it. Segments that arrive in the
/// tenth second, and what the gateway has cached then beyond what is on the link.
fn after_an_outage(round_trip_ms: u64) -> (u32, u64) {
    let mut bench: Bench = bench_with(Settings {
        flow_cache_bytes_max: 1 << 22,
        ..settings(Scheme::Auto)
    });
    let mut una = with_sack(&mut bench);
    for _ in 0..50 {
        bench.forward(una, 4);
        bench.wait(10);
        una += 4 * LEN;
        bench.up(una);
    }
    let mut link = Link {
        rcv_nxt: una,
        ..Link::default()
    };
    bench.link_down();
    let mut next = una;
    while next < una + FLIGHT * LEN {
        bench.down(next, LEN);
        next += LEN;
    }
    bench.wait(1_000);
    link.send(&bench.link_up());
    let mut before = 0;
    for ms in 0..10_000 {
        if let Some(ack) = link.tick(ms, round_trip_ms) {
            link.send(&bench.up(ack).lines);
            una = una.max(ack);
            while next < una + FLIGHT * LEN {
                let answer = bench.down(next, LEN);
                if answer.forwarded {
                    link.queue.push_back(next);
                }
                link.send(&answer.lines);
                next += LEN;
            }
        }
        link.send(&bench.wait(1));
        if ms == 9_000 {
            before = link.rcv_nxt;
        }
    }
    let on_link = link.queue.len() as u64 + link.acks.len() as u64;
    let cached = bench.cached() / u64::from(LEN);
    (
        (link.rcv_nxt - before) / LEN,
        cached.saturating_sub(on_link),
    )
}

/// The window holds two of the shortest round trips and 50 ms: 70 segments. The rest of the FH's window waits in the
/// gateway.
#[test]
fn a_longer_path_is_filled_and_the_window_limits_the_queue() {
    // Of 1000 segments a second; a round trip above 120 ms allows 120 in that time.
    for (round_trip_ms, least, most_waiting) in
        [(10, 990, 50), (50, 990, 50), (80, 950, 10), (200, 570, 10)]
    {
        let (arrived, waiting) = after_an_outage(round_trip_ms);
        assert!(
            arrived >= least && waiting <= most_waiting,
            "{round_trip_ms} ms: {arrived} arrived, {waiting} wait"
        );
    }
}
