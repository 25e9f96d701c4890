// SPDX-License-Identifier: Apache-2.0
//! RACK: a segment is lost if a segment sent later has arrived, and enough time has passed
//! (RFC 8985, 6). The rules for the reordering window are Linux's.

use holdfast_wire::{Duration, Instant};

use super::flight::{Flight, Sent};

/// This many reported segments show a loss, if no reordering was seen.
const REORDERING: u32 = 3;
/// The largest RACK.reo_wnd_mult.
const STEPS_MAX: u32 = 255;
/// RACK.reo_wnd_persist: recoveries for which a larger window stays.
const PERSIST: u32 = 16;

/// The state of one connection (RFC 8985, 5.3).
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: of the delivered segment that was sent last.
    newest: Option<(Instant, u64)>,
    /// RACK.rtt: the round trip of the last delivery, as Linux.
    rtt: Duration,
    /// RACK.min_RTT, of the whole connection: Linux forgets it after five minutes.
    min_rtt: Option<Duration>,
    /// Something was delivered since the last search for losses.
    has_advanced: bool,
    reordering_seen: bool,
    steps: u32,
    persist: u32,
    /// A retransmission was a duplicate, and the window is to grow.
    dsack_seen: bool,
    /// Bytes delivered in all when the window last grew.
    grown_at: u64,
}

/// What the reordering window depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// In fast recovery, or after a timeout.
    pub recovers: bool,
    pub srtt: Duration,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            min_rtt: None,
            has_advanced: false,
            reordering_seen: false,
            steps: 1,
            persist: 0,
            dsack_seen: false,
            grown_at: 0,
        }
    }
}

impl Rack {
    /// A round trip is measured.
    pub(super) fn on_round_trip(&mut self, rtt: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// RACK.min_RTT.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// Steps 1 and 2: a segment is delivered.
    pub(super) fn on_delivered(&mut self, sent: &Sent, now: Instant) {
        let rtt = now.saturating_since(sent.at);
        // The original may have arrived instead of the retransmission.
        if sent.repeated && self.min_rtt.is_some_and(|least| rtt < least) {
            return;
        }
        self.has_advanced = true;
        self.rtt = rtt;
        self.newest = self.newest.max(Some((sent.at, sent.to)));
    }

    /// Step 3: a segment that was sent once is delivered behind a later one.
    pub(super) fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// A retransmission was a duplicate (step 4, D-SACK). Linux: only once reordering was seen.
    pub(super) fn on_dsack(&mut self) {
        self.dsack_seen |= self.reordering_seen;
    }

    /// Step 4: RACK.reo_wnd_mult, at most once a round trip. `prior`: bytes delivered in all when
    /// the newest delivered segment was sent; `delivered`: bytes delivered in all now.
    pub(super) fn update_steps(&mut self, prior: u64, delivered: u64) {
        if prior < self.grown_at {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = (self.steps + 1).min(STEPS_MAX);
            self.dsack_seen = false;
            self.grown_at = delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A recovery has ended.
    pub(super) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// The next ACK looks for losses again.
    pub(super) fn look_again(&mut self) {
        self.has_advanced = true;
    }

    /// RACK_update_reo_wnd (): zero if no reordering was seen and the loss is evident: in recovery,
    /// or with three segments reported. Else a quarter of the least round trip for each step.
    fn reordering_window(&self, flight: &Flight, situation: Situation) -> Duration {
        let is_evident = situation.recovers || flight.sacked_segments() >= REORDERING;
        if !self.reordering_seen && is_evident {
            return Duration::ZERO;
        }
        let quarters = self.min_rtt.unwrap_or_default() / 4 * self.steps;
        quarters.min(situation.srtt)
    }

    /// Step 5 on an ACK: bytes found lost, and the time after which all other suspects are lost.
    pub(super) fn detect_on_ack(
        &mut self,
        flight: &mut Flight,
        situation: Situation,
        now: Instant,
    ) -> (u64, Option<Duration>) {
        if core::mem::take(&mut self.has_advanced) {
            self.detect(flight, situation, now)
        } else {
            (0, None)
        }
    }

    /// RACK_detect_loss ().
    pub(super) fn detect(
        &self,
        flight: &mut Flight,
        situation: Situation,
        now: Instant,
    ) -> (u64, Option<Duration>) {
        let Some(newest) = self.newest else {
            return (0, None);
        };
        let window = self.reordering_window(flight, situation);
        let mut timeout = None;
        let bytes = flight.mark_lost(|sent| {
            if (sent.at, sent.to) >= newest {
                return false;
            }
            let remaining = self.remaining(sent, window, now);
            if remaining.is_some() {
                timeout = timeout.max(remaining);
            }
            remaining.is_none()
        });
        (bytes, timeout)
    }

    /// The time until a segment counts as lost. None: it is lost.
    pub(super) fn remaining(
        &self,
        sent: &Sent,
        window: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let allowed = self.rtt + window;
        let left = allowed.saturating_sub(now.saturating_since(sent.at));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::rate::Snapshot;

    const LEN: u64 = 1000;
    const CALM: Situation = Situation {
        recovers: false,
        srtt: Duration::from_millis(100),
    };
    const RECOVERS: Situation = Situation {
        recovers: true,
        ..CALM
    };

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Ten segments, one each 2 ms from 0 on; the least round trip is 100 ms.
    fn ten() -> (Rack, Flight) {
        let (mut rack, mut flight) = (Rack::default(), Flight::default());
        rack.on_round_trip(Duration::from_millis(100));
        for n in 0..10 {
            flight.on_sent(
                n * LEN,
                (n + 1) * LEN,
                false,
                Snapshot::default(),
                at(2 * n),
            );
        }
        (rack, flight)
    }

    /// Segment `n` is reported by SACK.
    fn sack(rack: &mut Rack, flight: &mut Flight, n: u64, now: Instant) {
        flight.take_sacked(n * LEN, (n + 1) * LEN, |sent| rack.on_delivered(sent, now));
    }

    fn lost(flight: &Flight) -> Vec<u64> {
        let lost = flight.iter().filter(|sent| sent.lost);
        lost.map(|sent| sent.from / LEN).collect()
    }

    /// Segment 2, sent at 4 ms, arrives at 104 ms with a round trip of 100 ms. The window is a
    /// quarter of 100 ms: 0 is lost at 0 + 100 + 25 = 125 ms and 1 at 127 ms, 3 is not. The
    /// timer is for the last of them: 23 ms.
    #[test]
    fn a_segment_is_lost_a_quarter_of_a_round_trip_after_a_later_one() {
        let (mut rack, mut flight) = ten();
        sack(&mut rack, &mut flight, 2, at(104));
        let wait = Some(Duration::from_millis(23));
        assert_eq!(rack.detect_on_ack(&mut flight, CALM, at(104)), (0, wait));
        // Without a new delivery there is no new search.
        assert_eq!(rack.detect_on_ack(&mut flight, CALM, at(200)), (0, None));
        let wait = Some(Duration::from_millis(2));
        assert_eq!(rack.detect(&mut flight, CALM, at(125)), (LEN, wait));
        assert_eq!(rack.detect(&mut flight, CALM, at(127)), (LEN, None));
        assert_eq!(lost(&flight), [0, 1]);
        // 10 segments, one reported, two lost.
        assert_eq!(flight.in_flight(), 7 * LEN);
    }

    /// Linux: three segments reported, and no reordering seen: no window.
    #[test]
    fn three_segments_reported_are_a_loss_at_once() {
        let (mut rack, mut flight) = ten();
        for n in 2..4 {
            sack(&mut rack, &mut flight, n, at(100 + 2 * n));
            assert_eq!(rack.detect_on_ack(&mut flight, CALM, at(100 + 2 * n)).0, 0);
        }
        sack(&mut rack, &mut flight, 4, at(108));
        assert_eq!(
            rack.detect_on_ack(&mut flight, CALM, at(108)),
            (2 * LEN, None)
        );
        assert_eq!(lost(&flight), [0, 1]);
    }

    #[test]
    fn in_recovery_there_is_no_window_until_reordering_is_seen() {
        let (mut rack, mut flight) = ten();
        sack(&mut rack, &mut flight, 1, at(102));
        let seen = Rack {
            reordering_seen: true,
            ..rack.clone()
        };
        let mut other = flight.clone();
        assert_eq!(rack.detect_on_ack(&mut flight, RECOVERS, at(102)).0, LEN);
        assert_eq!(seen.detect(&mut other, RECOVERS, at(102)).0, 0);
    }

    /// A retransmission that is lost too: 0 is retransmitted at 110 ms, and 9 at
    /// 112 ms, which arrives.
    #[test]
    fn a_lost_retransmission_is_found_by_a_later_one() {
        let (mut rack, mut flight) = ten();
        sack(&mut rack, &mut flight, 8, at(108));
        flight.mark_lost(|sent| [0, 9].contains(&(sent.from / LEN)));
        flight.on_sent(0, LEN, true, Snapshot::default(), at(110));
        flight.on_sent(9 * LEN, 10 * LEN, true, Snapshot::default(), at(112));
        // 10 segments, one reported.
        assert_eq!(flight.in_flight(), 9 * LEN);
        sack(&mut rack, &mut flight, 9, at(212));
        let (bytes, _) = rack.detect_on_ack(&mut flight, RECOVERS, at(212));
        // 1 to 7 are lost as well.
        assert_eq!((bytes, lost(&flight).len()), (8 * LEN, 8));
        assert!(flight.first().unwrap().needs_retransmission());
        assert_eq!(flight.in_flight(), 0);
    }

    /// A retransmission whose ACK comes sooner than any round trip: the original has arrived,
    /// and shows nothing of what was sent later.
    #[test]
    fn an_ack_too_soon_for_the_retransmission_is_of_the_original() {
        let (mut rack, mut flight) = ten();
        flight.on_sent(0, LEN, false, Snapshot::default(), at(90));
        sack(&mut rack, &mut flight, 0, at(100));
        assert_eq!(rack.newest, None);
        flight.on_sent(LEN, 2 * LEN, false, Snapshot::default(), at(90));
        sack(&mut rack, &mut flight, 1, at(190));
        assert_eq!(rack.newest, Some((at(90), 2 * LEN)));
    }

    /// RFC 8985, 6.2, step 4: two quarters after a D-SACK, one again after 16 recoveries; never
    /// more than the smoothed round trip.
    #[test]
    fn duplicates_widen_the_window_once_a_round_trip() {
        let (mut rack, flight) = ten();
        let window = |rack: &Rack| rack.reordering_window(&flight, CALM).as_millis();
        rack.on_dsack();
        rack.update_steps(0, 5000);
        assert_eq!(window(&rack), 25);
        rack.on_reordering();
        rack.on_dsack();
        rack.update_steps(0, 5000);
        assert_eq!(window(&rack), 50);
        // Within the same round trip.
        rack.on_dsack();
        rack.update_steps(4999, 8000);
        assert_eq!(window(&rack), 50);
        for delivered in 1..10 {
            rack.on_dsack();
            rack.update_steps(delivered * 5000, delivered * 5000);
        }
        assert_eq!(window(&rack), 100);
        for _ in 0..PERSIST {
            rack.update_steps(60_000, 60_000);
            assert_eq!(window(&rack), 100);
            rack.on_recovered();
        }
        rack.update_steps(60_000, 60_000);
        assert_eq!(window(&rack), 25);
    }
}
