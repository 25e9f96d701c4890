// SPDX-License-Identifier: Apache-2.0
//! Recovery fills the path, also one that has become longer, and what waits for it keeps its order.

use core::ops::Range;
use std::collections::{BTreeSet, VecDeque};

use super::auto::with_sack;
use super::bench::{Bench, LEN, bench_with, settings};
use crate::{Scheme, Settings};

/// Segments that the FH keeps in flight.
const FLIGHT: u32 = 120;

/// A link that takes a segment a millisecond, but for the time when it is slow.
#[derive(Default)]
struct Link {
    queue: VecDeque<u32>,
    /// When a segment takes four milliseconds.
    slow_ms: Range<u64>,
    queue_max: usize,
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
        self.queue_max = self.queue_max.max(self.queue.len());
    }

    /// A millisecond passes. The ACK that comes now.
    fn tick(&mut self, now_ms: u64, round_trip_ms: u64) -> Option<u32> {
        let takes_one = !self.slow_ms.contains(&now_ms) || now_ms.is_multiple_of(4);
        if let Some(seq) = self.queue.pop_front_if(|_| takes_one) {
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

/// An FH whose window is constant, behind a gateway and an outage.
struct Transfer {
    bench: Bench,
    link: Link,
    round_trip_ms: u64,
    now_ms: u64,
    una: u32,
    /// What the FH sends next.
    next: u32,
}

impl Transfer {
    /// The path has a round trip of 10 ms before an outage, and of `round_trip_ms` after it.
    fn after_an_outage(round_trip_ms: u64, slow_ms: Range<u64>) -> Self {
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
            slow_ms,
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
        // What the MH receives from now on was sent in the outage.
        bench.fh_clock_seen = bench.clock();
        Self {
            bench,
            link,
            round_trip_ms,
            now_ms: 0,
            una,
            next,
        }
    }

    fn go_on(&mut self, millis: u64) {
        for _ in 0..millis {
            if let Some(ack) = self.link.tick(self.now_ms, self.round_trip_ms) {
                self.link.send(&self.bench.up(ack).lines);
                self.una = self.una.max(ack);
                while self.next < self.una + FLIGHT * LEN {
                    let answer = self.bench.down(self.next, LEN);
                    if answer.forwarded {
                        self.link.queue.push_back(self.next);
                    }
                    self.link.send(&answer.lines);
                    self.next += LEN;
                }
            }
            self.link.send(&self.bench.wait(1));
            self.now_ms += 1;
        }
    }

    /// Segments cached beyond what is on the link.
    fn waiting(&self) -> u64 {
        let on_link = self.link.queue.len() as u64 + self.link.acks.len() as u64;
        (self.bench.cached() / u64::from(LEN)).saturating_sub(on_link)
    }
}

/// The window holds two of the shortest round trips and 50 ms: 70 segments. The rest of the FH's window waits in the
/// gateway.
#[test]
fn a_longer_path_is_filled_and_the_window_limits_the_queue() {
    // Of 1000 segments a second; a round trip above 120 ms allows 120 in that time.
    for (round_trip_ms, least, most_waiting) in
        [(10, 990, 50), (50, 990, 50), (80, 950, 10), (200, 570, 10)]
    {
        let mut transfer = Transfer::after_an_outage(round_trip_ms, 0..0);
        transfer.go_on(9_000);
        let before = transfer.link.rcv_nxt;
        transfer.go_on(1_000);
        let arrived = (transfer.link.rcv_nxt - before) / LEN;
        let waiting = transfer.waiting();
        assert!(
            arrived >= least && waiting <= most_waiting,
            "{round_trip_ms} ms: {arrived} arrived, {waiting} wait"
        );
    }
}

/// The round trip of the first copies shows the path. Later ones have a queue, most of all while the link is slow.
#[test]
fn a_slow_link_is_no_longer_path() {
    for slow_ms in [20..200, 50..500, 100..1_000] {
        let mut transfer = Transfer::after_an_outage(10, slow_ms.clone());
        transfer.go_on(2_000);
        let queue_max = transfer.link.queue_max;
        assert!(
            queue_max <= 70,
            "slow at {slow_ms:?} ms: {queue_max} segments in the queue"
        );
    }
}

/// The FH takes what waits in the gateway for lost, because its own copies overtake it.
#[test]
fn a_copy_of_what_is_on_the_link_does_not_overtake_the_backlog() {
    let mut transfer = Transfer::after_an_outage(10, 0..0);
    transfer.go_on(1_000);
    assert!(transfer.waiting() >= 45);
    // On the link are 70 ms of segments.
    let (old, newest) = (transfer.una + 10 * LEN, transfer.una + 65 * LEN);
    let mut is_forwarded = |seq| transfer.bench.down(seq, LEN).forwarded;
    assert_eq!([old, newest].map(&mut is_forwarded), [false, false]);
    // An answer could have come, and the FH knows best. What has not been sent waits all the same.
    transfer.bench.wait(20);
    let unsent = transfer.next - LEN;
    let mut is_forwarded = |seq| transfer.bench.down(seq, LEN).forwarded;
    assert_eq!(
        [old, newest, unsent].map(&mut is_forwarded),
        [true, false, false]
    );
}

#[test]
fn a_copy_of_what_was_overtaken_passes() {
    let mut transfer = Transfer::after_an_outage(10, 0..0);
    transfer.go_on(1_000);
    let (una, lost) = (transfer.una, transfer.una + 10 * LEN);
    assert!(!transfer.bench.down(lost, LEN).forwarded);
    transfer.bench.up_with_sack(una, lost + LEN, lost + 5 * LEN);
    assert!(transfer.bench.down(lost, LEN).forwarded);
}
