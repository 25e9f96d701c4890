// SPDX-License-Identifier: Apache-2.0
//! Many flows at once: a mobile with one dead flow, as behind a train's NAT, and a table that an
//! attacker fills.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::bench::{Bench, LEN, not_adopted, passed, settings};
use crate::testing::{MH, Packet, direction_of};
use crate::{Action, Direction, Scheme, Verdict};

/// The way of a segment from the gateway to the MH, and of its answer.
const ROUND_TRIP: Duration = Duration::from_millis(20);
const PUSH_INTERVAL: Duration = Duration::from_millis(500);
const PUSHES: u64 = 90;
const PUSH_LEN: u32 = 100;

/// A mobile with a flow that gets no answers any more, and one that lives: its FH sends a little
/// now and then.
struct TwoFlows {
    bench: Bench,
    living: u16,
    /// The living MH's answers on their way.
    answers: Vec<(Instant, Segment)>,
    /// What the living MH has received, and what its FH has sent.
    received: u32,
    sent: u32,
    /// The window that the FH knows is open.
    open: bool,
    pushed_at: Instant,
    worst: Duration,
    delivered: u64,
}

impl TwoFlows {
    fn new(scheme: Scheme) -> Self {
        let mut bench = not_adopted(settings(scheme));
        for port in [MH.port, MH.port + 1] {
            bench.mh_port = port;
            bench.shake_hands(0, 5000);
            assert!(bench.up(1).forwarded);
            bench.forward(1, 1);
            bench.wait(20);
            assert!(bench.up(1001).forwarded);
        }
        // The first of the two is dead from here on.
        bench.mh_port = MH.port;
        bench.forward(1001, 3);
        bench.mh_port = MH.port + 1;
        let pushed_at = bench.now;
        Self {
            bench,
            living: MH.port + 1,
            answers: Vec::new(),
            received: 1001,
            sent: 1001,
            open: true,
            pushed_at,
            worst: Duration::ZERO,
            delivered: 0,
        }
    }

    /// Bytes up to here are at the living MH: it answers.
    fn arrives(&mut self, end: u32) {
        if end > self.received {
            self.received = end;
            self.delivered += 1;
            let took = self.bench.now.saturating_since(self.pushed_at);
            self.worst = self.worst.max(took);
        }
        let answer = self.bench.mh_segment(self.received);
        self.answers.push((self.bench.now + ROUND_TRIP, answer));
    }

    fn put(&mut self, segment: Segment) {
        let bytes = vec![0; segment.payload_len as usize];
        let packet = Packet::new(segment, &bytes, LEN);
        let mut actions = Vec::new();
        let now = self.bench.now;
        let gateway = &mut self.bench.gateway;
        let verdict =
            gateway.handle_segment(direction_of(&segment), &segment, &packet, now, &mut actions);
        let forwarded = verdict == Verdict::Forward;
        match direction_of(&segment) {
            Direction::Downlink if forwarded => self.arrives(segment.end().get()),
            Direction::Uplink if forwarded => self.open = true,
            _ => {}
        }
        self.see(actions);
    }

    fn see(&mut self, actions: Vec<Action<Packet>>) {
        for action in actions {
            let packet = match &action {
                Action::Resend(resend) => Packet::of_resend(resend),
                Action::Send(made) => Packet::of_made(made),
                Action::Repeat(packet) => packet.clone(),
                Action::Notify(_) | Action::Record(_) => continue,
            };
            let segment = packet.segment;
            if segment.from.port == self.living {
                self.open = segment.window > 0;
            } else if segment.to.port == self.living {
                let end = segment.end().get();
                self.arrives(if segment.payload_len > 0 { end } else { 0 });
            }
        }
    }

    fn run_until(&mut self, until: Instant) {
        loop {
            self.answers.sort_by_key(|answer| answer.0);
            let answer = self.answers.first().map(|answer| answer.0);
            let timer = self.bench.gateway.poll_timeout();
            let next = [answer, timer].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= until) else {
                break;
            };
            self.bench.now = self.bench.now.max(next);
            if answer == Some(next) {
                let (_, segment) = self.answers.remove(0);
                self.put(segment);
            } else {
                let mut actions = Vec::new();
                let now = self.bench.now;
                self.bench.gateway.handle_timeout(now, &mut actions);
                self.see(actions);
            }
        }
        self.bench.now = until;
    }

    /// The FH pushes, as far as it may.
    fn push_all(&mut self) {
        for _ in 0..PUSHES {
            if self.open && self.received == self.sent {
                let segment = self.bench.fh_segment(self.sent, PUSH_LEN);
                self.sent += PUSH_LEN;
                self.pushed_at = self.bench.now;
                self.put(segment);
            }
            self.run_until(self.bench.now + PUSH_INTERVAL);
        }
    }
}

#[test]
fn a_dead_flow_does_not_delay_another_of_its_mobile() {
    for (scheme, worst) in [
        (Scheme::Hold, Duration::from_millis(200)),
        (Scheme::MtcpPlus, Duration::from_secs(2)),
        (Scheme::Snoop, Duration::from_millis(200)),
    ] {
        let mut flows = TwoFlows::new(scheme);
        flows.push_all();
        assert!(
            flows.delivered >= PUSHES * 9 / 10 && flows.worst <= worst,
            "{scheme:?}: {} of {PUSHES} pushes arrived, the slowest took {:?}",
            flows.delivered,
            flows.worst
        );
    }
}

/// Segments of flows that do not exist, each of another one, as a stranger sends them. An option
/// that is not known takes the flow for one that must not be copied.
fn flood(bench: &mut Bench, count: u16, from_mh: bool, others: bool, flags: Flags) {
    for port in 0..count {
        let mut forged = if from_mh {
            bench.mh_segment(7)
        } else {
            bench.fh_segment(7, LEN)
        };
        // Such a flow has segments in one direction only.
        if from_mh {
            forged.from.port = 1000 + port;
        } else {
            forged.to.port = 2000 + port;
        }
        (forged.flags, forged.options.others) = (flags, others);
        assert!(bench.put(forged).forwarded);
    }
}

/// All kinds of segments that make a stranger's flow.
fn flood_all(bench: &mut Bench) {
    for from_mh in [true, false] {
        for (others, flags) in [
            (true, Flags::ACK),
            (false, Flags::ACK),
            (false, Flags::SYN),
            (true, Flags::SYN),
        ] {
            flood(bench, 100, from_mh, others, flags);
            bench.wait(100);
        }
    }
}

const TABLE: usize = 20;

fn small_table(scheme: Scheme) -> Bench {
    let mut small = settings(scheme);
    small.flows_max = TABLE;
    not_adopted(small)
}

/// The flow's next data is kept when the link goes.
fn is_followed(bench: &mut Bench, seq: u32) -> bool {
    bench.link_down();
    !bench.down(seq, LEN).forwarded
}

#[test]
fn a_flow_is_followed_on_while_a_stranger_fills_the_table() {
    for scheme in [Scheme::Hold, Scheme::Auto, Scheme::MtcpPlus, Scheme::Snoop] {
        let mut bench = small_table(scheme);
        bench.shake_hands(0, 5000);
        assert!(bench.up(1).forwarded);
        bench.forward(1, 1);
        assert!(bench.up(1001).forwarded);
        flood_all(&mut bench);
        assert!(bench.gateway.stats().flows <= TABLE);
        assert_eq!(bench.down(1001, LEN), passed());
        assert!(is_followed(&mut bench, 2001), "{scheme:?}");
    }
}

#[test]
fn a_new_flow_is_followed_after_a_stranger_filled_the_table() {
    for scheme in [Scheme::Hold, Scheme::Auto, Scheme::MtcpPlus, Scheme::Snoop] {
        let mut bench = small_table(scheme);
        flood_all(&mut bench);
        bench.shake_hands(0, 5000);
        assert!(bench.up(1).forwarded);
        assert!(bench.down(1, LEN).forwarded);
        assert!(bench.up(1001).forwarded);
        assert!(is_followed(&mut bench, 1001), "{scheme:?}");
    }
}

#[test]
fn a_stranger_that_goes_on_does_not_push_a_new_flow_out_of_the_table() {
    for scheme in [Scheme::Hold, Scheme::Auto, Scheme::MtcpPlus, Scheme::Snoop] {
        let mut bench = small_table(scheme);
        flood_all(&mut bench);
        bench.shake_hands(0, 5000);
        flood(&mut bench, TABLE as u16 / 2, true, true, Flags::ACK);
        assert!(bench.up(1).forwarded);
        flood_all(&mut bench);
        let first = bench.fh_segment(1, LEN);
        assert_eq!(first.seq, SeqNum::new(1));
        assert!(bench.put(first).forwarded);
        assert!(bench.up(1001).forwarded);
        flood_all(&mut bench);
        assert!(is_followed(&mut bench, 1001), "{scheme:?}");
    }
}
