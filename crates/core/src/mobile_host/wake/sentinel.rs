// SPDX-License-Identifier: Apache-2.0
//! When FHs are asked whether the link is back, while flows are silent and nobody says anything of it: by
//! a segment that every TCP answers with an ACK (RFC 1122, 4.2.3.6: a keep-alive probe).

use core::time::Duration;

use holdfast_wire::Instant;

/// How often it is looked whether an FH has answered.
const LOOK: Duration = Duration::from_millis(20);
/// Nobody is asked before flows have been silent for so long more...
const QUIET: Duration = Duration::from_millis(40);
/// ... nor before so long after an answer: Linux gives one in half a second (`tcp_invalid_ratelimit`).
const QUIET_AFTER_ANSWER: Duration = Duration::from_millis(550);
/// From one probe to the next...
const PROBES_APART: Duration = Duration::from_millis(100);
/// ... or such a part of the time since the first one, if that is longer.
const PROBES_APART_SHARE: u32 = 150;

/// Watches an interface on which flows are silent.
#[derive(Clone, Debug, Default)]
pub(super) struct Sentinel {
    look_at: Instant,
    probe_at: Instant,
    quiet_until: Instant,
    began: Instant,
    turn: usize,
}

impl Sentinel {
    /// A flow falls silent. `others_wait`: some are so already.
    pub(super) fn begin(&mut self, others_wait: bool, now: Instant) {
        self.began = now;
        if others_wait {
            self.probe_at = self.probe_at.min(now + PROBES_APART);
        } else {
            self.look_at = now;
            self.probe_at = now + QUIET;
        }
    }

    /// An FH has answered.
    pub(super) fn note_answer(&mut self, now: Instant) {
        self.quiet_until = now + QUIET_AFTER_ANSWER;
    }

    /// When it is looked next.
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.look_at
    }

    /// It is looked now. If somebody is to be asked, too: whose turn it is.
    pub(super) fn look(&mut self, now: Instant) -> Option<usize> {
        self.look_at = now + LOOK;
        if now < self.probe_at.max(self.quiet_until) {
            return None;
        }
        let apart = now.saturating_since(self.began) / PROBES_APART_SHARE;
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
    fn probes(sentinel: &mut Sentinel, until_ms: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while sentinel.poll_timeout() < at(until_ms) {
            let now = sentinel.poll_timeout();
            if let Some(turn) = sentinel.look(now) {
                assert_eq!(turn, times.len());
                times.push(now.saturating_since(at(0)).as_millis() as u64);
            }
        }
        times
    }

    #[test]
    fn probes_are_a_tenth_of_a_second_apart_and_later_a_part_of_the_silence() {
        let mut sentinel = Sentinel::default();
        sentinel.begin(false, at(0));
        let times = probes(&mut sentinel, 180_000);
        assert_eq!(times[..4], [40, 140, 240, 340]);
        let apart = |ms: u64| {
            let later = times.iter().position(|time| *time > ms).unwrap();
            times[later] - times[later - 1]
        };
        assert!(apart(10_000) <= 100, "{}", apart(10_000));
        assert!(apart(60_000) <= 420, "{}", apart(60_000));
        assert!(times.len() < 560, "{} probes", times.len());
        // For another flow it begins anew.
        sentinel.begin(true, at(180_000));
        assert!(sentinel.look(at(180_100)).is_some());
        assert!(sentinel.look(at(180_200)).is_some());
    }

    #[test]
    fn after_an_answer_nobody_is_asked_for_longer_than_linux_waits_from_one_to_the_next() {
        for silent_again_ms in [20, 300, 900] {
            let mut sentinel = Sentinel::default();
            sentinel.begin(false, at(0));
            assert_eq!(sentinel.look(at(40)), Some(0));
            sentinel.note_answer(at(100));
            sentinel.begin(false, at(100 + silent_again_ms));
            let mut times = (100 + silent_again_ms..).filter(|ms| {
                let now = at(*ms);
                now >= sentinel.poll_timeout() && sentinel.look(now).is_some()
            });
            let next = times.next().unwrap();
            let expected = (100 + silent_again_ms + 40).max(650);
            assert!((expected..expected + 20).contains(&next), "{next}");
        }
    }
}
