// SPDX-License-Identifier: Apache-2.0
//! The FH and the MH of the transfers, and what the programs do to each segment that leaves.

use super::*;

/// The FH.
impl World {
    pub(super) fn send(&mut self, place: usize, seq: u32) {
        let sent_at = self.now;
        self.put(
            0,
            self.of_a_segment,
            Event::ToMh {
                place,
                seq,
                sent_at,
            },
        );
    }

    /// A probe: as Linux does it answers one in half a second; and one FH in some worlds none.
    pub(super) fn on_question(&mut self, place: usize) {
        let is_deaf = place == 0 && self.seed.is_multiple_of(4);
        let of = &mut self.senders[place];
        if is_deaf || self.now < of.answers_from {
            return;
        }
        of.answers_from = self.now + Duration::from_millis(500);
        self.put(0, self.of_a_segment / 20, Event::Answer { place });
    }

    pub(super) fn pump(&mut self, place: usize) {
        loop {
            let of = self.senders[place];
            let limit = of.edge.min(of.una + of.window).min(of.total);
            if of.nxt + PIECE > limit {
                break;
            }
            self.senders[place].nxt += PIECE;
            self.send(place, of.nxt);
        }
        self.restart_timer(place);
    }

    pub(super) fn restart_timer(&mut self, place: usize) {
        let of = &mut self.senders[place];
        of.turn += 1;
        if of.una < of.total {
            let (turn, doublings) = (of.turn, of.doublings);
            let round_trip = (self.delay * 2 + self.of_a_segment * 60) * 2;
            let rto = (round_trip + RTO_MIN) * (1 << doublings);
            self.plan(self.now + rto, Event::Rto { place, turn });
        }
    }

    pub(super) fn on_rto(&mut self, place: usize) {
        let of = &mut self.senders[place];
        of.doublings = (of.doublings + 1).min(DOUBLINGS_MAX);
        of.window = PIECE;
        of.same = 0;
        // Into a window of 0 too: it is the probe. All is sent again from here on.
        let seq = of.una;
        of.nxt = of.una + PIECE;
        self.send(place, seq);
        self.restart_timer(place);
    }

    pub(super) fn on_ack(&mut self, place: usize, ack: SeqNum, window: u16) {
        let said = ack.distance_from(START);
        let edge = said + (u32::from(window) << SCALE);
        let of = &mut self.senders[place];
        if said < of.una {
            return;
        }
        let is_new = said > of.una;
        of.edge = edge;
        if !is_new {
            of.same += u32::from(of.nxt > of.una);
            if of.same == 3 {
                self.send(place, said);
            }
            return self.pump_on(place);
        }
        of.window = (of.window + PIECE).min(of.window_max);
        (of.una, of.nxt, of.doublings, of.same) = (said, of.nxt.max(said), 0, 0);
        self.pump(place);
    }

    /// The same without a new timer.
    pub(super) fn pump_on(&mut self, place: usize) {
        let of = self.senders[place];
        if of.nxt + PIECE <= of.edge.min(of.una + of.window).min(of.total) {
            self.pump(place);
        }
    }

    /// ICMP, host unreachable: a doubling less (RFC 6069).
    pub(super) fn on_word(&mut self, place: usize) {
        let of = &mut self.senders[place];
        if of.doublings > 0 {
            of.doublings -= 1;
            let seq = of.una;
            self.send(place, seq);
            self.restart_timer(place);
        }
    }
}

/// The MH.
impl World {
    pub(super) fn on_data(&mut self, place: usize, seq: u32, sent_at: Instant) {
        let now = self.now;
        let push = self.one_in(60);
        self.segments += 1;
        let of = &mut self.receivers[place];
        let rtt = now.saturating_since(sent_at) + self.delay;
        (of.noted.rtt, of.noted.received_at) = (Some(rtt), Some(now));
        of.noted.data_at = Some(now);
        of.noted.srtt = Some(of.noted.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
        let data = FromFh {
            seq: START + seq,
            len: PIECE,
            segment_bytes: PIECE,
            push,
        };
        of.withheld.handle_fh_data(&data, Some(rtt), now);
        let is_next = seq == of.received;
        if seq >= of.received && seq + PIECE <= of.edge {
            of.beyond.insert(seq);
        }
        while of.beyond.remove(&of.received) {
            of.received += PIECE;
            of.unread += PIECE;
        }
        of.unacknowledged += 1;
        if of.unacknowledged >= 2 || !is_next || !of.beyond.is_empty() {
            self.acknowledge(place);
        } else {
            self.plan(now + DELAYED_ACK, Event::DelayedAck { place });
        }
    }

    /// The MH's stack sends an ACK, through the programs.
    pub(super) fn acknowledge(&mut self, place: usize) {
        let (has_payload, now) = (self.one_in(30), self.now);
        let runs = self.daemon.is_some();
        let ordered = now < self.orders_until && runs;
        let of = &mut self.receivers[place];
        if of.reads {
            of.unread = 0;
        }
        of.unacknowledged = 0;
        if has_payload {
            of.upload_at = Some(now);
        }
        let space = of.space - of.unread.min(of.space);
        let window = of.edge.max(of.received + space) - of.received;
        let window = (window >> SCALE) as u16;
        of.edge = of.edge.max(of.received + (u32::from(window) << SCALE));
        let own = AckAndWindow {
            ack: START + of.received,
            window,
        };
        (of.noted.rcv_nxt, of.noted.window, of.noted.sent_at) = (own.ack, window, now);
        let segment = FromMh {
            own,
            scale: Some(SCALE),
            has_payload,
            has_sack: !of.beyond.is_empty(),
            is_ending: false,
        };
        let mut left = own;
        if self.scheme == MobileScheme::Wake && runs {
            left = of.withheld.handle_mh_segment(&segment, ordered, now);
            let edge = |leaves: AckAndWindow| leaves.ack + (u32::from(leaves.window) << SCALE);
            let less = edge(own).distance_from(edge(left));
            assert!(less < 1 << SCALE, "seed {}: {less} less", self.seed);
            self.held += u64::from(left.ack != own.ack);
            if let Some(at) = of.withheld.poll_timeout(of.noted.srtt) {
                self.plan(at, Event::Pause { place });
            }
        }
        let of = &self.receivers[place];
        match self.orders.get(&of.noted.key).filter(|_| ordered) {
            Some(None) => left.window = 0,
            Some(Some(edge)) => left.window = left.window.min(of.noted.window_until(*edge)),
            None => {}
        }
        self.leave(place, left);
    }

    /// What leaves acknowledges nothing that has not come, and promises no window that the MH has not said.
    pub(super) fn leave(&mut self, place: usize, left: AckAndWindow) {
        let AckAndWindow { ack, window } = left;
        let what = format!("seed {}, {}: {left:?}", self.seed, self.scheme);
        let of = &self.receivers[place];
        let said = ack.distance_from(START);
        assert!(said <= of.received, "{what}: of {}", of.received);
        let edge = said + (u32::from(window) << SCALE);
        assert!(edge <= of.edge, "{what}: beyond {}", of.edge);
        let takes = self.of_a_segment / 20;
        self.put(1, takes, Event::ToFh { place, ack, window });
    }

    pub(super) fn on_pause(&mut self, place: usize) {
        let now = self.now;
        let of = &mut self.receivers[place];
        let srtt = of.noted.srtt;
        if self.daemon.is_none() || of.withheld.handle_timeout(srtt, now).is_none() {
            return;
        }
        if self.hangs {
            return;
        }
        let pausing = of.observed();
        self.drive(|machine, _, now, actions| {
            machine.handle_pauses(pausing.as_slice(), now, actions);
        });
    }
}
