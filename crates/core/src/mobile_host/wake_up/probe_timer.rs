// SPDX-License-Identifier: Apache-2.0
//! When keep-alive probes are sent while flows are silent without a report of an outage: every TCP
//! answers one with an ACK (RFC 1122, 4.2.3.6).

use core::time::Duration;

use holdfast_wire::Instant;

/// The interval between two checks for answers.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The first probe leaves this time after the silence began.
const QUIET: Duration = Duration::from_millis(40);
/// No probe leaves for this time after an answer: Linux answers once in half a second
/// (`tcp_invalid_ratelimit`).
const QUIET_AFTER_ANSWER: Duration = Duration::from_millis(550);
/// The shortest interval between two probes.
const PROBES_APART: Duration = Duration::from_millis(100);
/// The interval is the time since the newest silence began, divided by this, if that is longer.
const PROBES_APART_PART: u32 = 150;

/// Watches an interface on which flows are silent.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeTimer {
    check_at: Instant,
    probe_at: Instant,
    quiet_until: Instant,
    began: Instant,
    turn: usize,
}

impl ProbeTimer {
    /// A flow falls silent. `others_wait`: others are silent already.
    pub(super) fn begin(&mut self, others_wait: bool, now: Instant) {
        self.began = now;
        if others_wait {
            self.probe_at = self.probe_at.min(now + PROBES_APART);
        } else {
            self.check_at = now;
            self.probe_at = now + QUIET;
        }
    }

    /// An FH has answered.
    pub(super) fn note_answer(&mut self, now: Instant) {
        self.quiet_until = now + QUIET_AFTER_ANSWER;
    }

    /// When answers are checked next.
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.check_at
    }

    /// The answers are checked now. Returns the number of the turn if a probe is due too.
    pub(super) fn look(&mut self, now: Instant) -> Option<usize> {
        self.check_at = now + CHECK_INTERVAL;
        if now < self.probe_at.max(self.quiet_until) {
            return None;
        }
        let apart = now.saturating_since(self.began) / PROBES_APART_PART;
        self.probe_at = now + apart.max(PROBES_APART);
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(10_000 + ms)
    }

    /// Looks as often as it is due until then; the times of the probes in milliseconds.
    fn probes(probe_timer: &mut ProbeTimer, until_ms: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while probe_timer.poll_timeout() < at(until_ms) {
            let now = probe_timer.poll_timeout();
            if let Some(turn) = probe_timer.look(now) {
                assert_eq!(turn, times.len());
                times.push(now.saturating_since(at(0)).as_millis() as u64);
            }
        }
        times
    }

    #[test]
    fn probes_are_a_tenth_of_a_second_apart_and_later_a_part_of_the_silence() {
        let mut probe_timer = ProbeTimer::default();
        probe_timer.begin(false, at(0));
        let times = probes(&mut probe_timer, 180_000);
        assert_eq!(times[..4], [40, 140, 240, 340]);
        let apart = |ms: u64| {
            let later = times.iter().position(|time| *time > ms).unwrap();
            times[later] - times[later - 1]
        };
        assert!(apart(10_000) <= 100, "{}", apart(10_000));
        assert!(apart(60_000) <= 420, "{}", apart(60_000));
        assert!(times.len() < 560, "{} probes", times.len());
        // The interval is short again when another flow falls silent.
        probe_timer.begin(true, at(180_000));
        assert!(probe_timer.look(at(180_100)).is_some());
        assert!(probe_timer.look(at(180_200)).is_some());
    }

    #[test]
    fn after_an_answer_no_probe_leaves_for_longer_than_linux_waits_from_one_to_the_next() {
        for silent_again_ms in [20, 300, 900] {
            let mut probe_timer = ProbeTimer::default();
            probe_timer.begin(false, at(0));
            assert_eq!(probe_timer.look(at(40)), Some(0));
            probe_timer.note_answer(at(100));
            probe_timer.begin(false, at(100 + silent_again_ms));
            let mut times = (100 + silent_again_ms..).filter(|ms| {
                let now = at(*ms);
                now >= probe_timer.poll_timeout() && probe_timer.look(now).is_some()
            });
            let next = times.next().unwrap();
            let expected = (100 + silent_again_ms + 40).max(650);
            assert!((expected..expected + 20).contains(&next), "{next}");
        }
    }
}
