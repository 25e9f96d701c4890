// SPDX-License-Identifier: Apache-2.0
//! The FH and the MH of the transfers, and what the programs do to each segment of the MH.

use super::*;

/// The FH.
impl World {
    pub(super) fn send(&mut self, index: usize, seq: u32) {
        let sent_at = self.now;
        self.put(
            0,
            self.segment_time,
            Event::ToMh {
                index,
                seq,
                sent_at,
            },
        );
    }

    /// The FH answers a probe. Like Linux it answers once in half a second. In some worlds one FH answers
    /// none.
    pub(super) fn on_probe(&mut self, index: usize) {
        let is_deaf = index == 0 && self.seed.is_multiple_of(4);
        let sender = &mut self.senders[index];
        if is_deaf || self.now < sender.answers_from {
            return;
        }
        sender.answers_from = self.now + Duration::from_millis(500);
        self.put(0, self.segment_time / 20, Event::ProbeAnswer { index });
    }

    pub(super) fn pump(&mut self, index: usize) {
        loop {
            let sender = self.senders[index];
            let limit = sender
                .edge
                .min(sender.una + sender.window)
                .min(sender.total);
            if sender.nxt + PIECE > limit {
                break;
            }
            self.senders[index].nxt += PIECE;
            self.send(index, sender.nxt);
        }
        self.restart_timer(index);
    }

    pub(super) fn restart_timer(&mut self, index: usize) {
        let sender = &mut self.senders[index];
        sender.turn += 1;
        if sender.una < sender.total {
            let (turn, doublings) = (sender.turn, sender.doublings);
            let round_trip = (self.delay * 2 + self.segment_time * 60) * 2;
            let rto = (round_trip + RTO_MIN) * (1 << doublings);
            self.plan(self.now + rto, Event::Rto { index, turn });
        }
    }

    pub(super) fn on_rto(&mut self, index: usize) {
        let sender = &mut self.senders[index];
        sender.doublings = (sender.doublings + 1).min(DOUBLINGS_MAX);
        sender.window = PIECE;
        sender.dup_acks = 0;
        // The segment is sent into a window of 0 too, as a probe. Everything from here on is
        // retransmitted.
        let seq = sender.una;
        sender.nxt = sender.una + PIECE;
        self.send(index, seq);
        self.restart_timer(index);
    }

    pub(super) fn on_ack(&mut self, index: usize, ack: SeqNum, window: u16) {
        let acked = ack.distance_from(START);
        let edge = acked + (u32::from(window) << SCALE);
        let sender = &mut self.senders[index];
        if acked < sender.una {
            return;
        }
        let is_new = acked > sender.una;
        sender.edge = edge;
        if !is_new {
            sender.dup_acks += u32::from(sender.nxt > sender.una);
            if sender.dup_acks == 3 {
                self.send(index, acked);
            }
            return self.pump_on(index);
        }
        sender.window = (sender.window + PIECE).min(sender.window_max);
        (sender.una, sender.nxt, sender.doublings, sender.dup_acks) =
            (acked, sender.nxt.max(acked), 0, 0);
        self.pump(index);
    }

    /// Sends more if the window permits it; otherwise the timer is not restarted.
    pub(super) fn pump_on(&mut self, index: usize) {
        let sender = self.senders[index];
        if sender.nxt + PIECE
            <= sender
                .edge
                .min(sender.una + sender.window)
                .min(sender.total)
        {
            self.pump(index);
        }
    }

    /// ICMP, host unreachable: undoes a doubling (RFC 6069).
    pub(super) fn on_unreachable(&mut self, index: usize) {
        let sender = &mut self.senders[index];
        if sender.doublings > 0 {
            sender.doublings -= 1;
            let seq = sender.una;
            self.send(index, seq);
            self.restart_timer(index);
        }
    }
}

/// The MH.
impl World {
    pub(super) fn on_data(&mut self, index: usize, seq: u32, sent_at: Instant) {
        let now = self.now;
        let push = self.one_in(60);
        self.segments += 1;
        let receiver = &mut self.receivers[index];
        let rtt = now.saturating_since(sent_at) + self.delay;
        (receiver.noted.rtt, receiver.noted.received_at) = (Some(rtt), Some(now));
        receiver.noted.data_at = Some(now);
        receiver.noted.srtt = Some(receiver.noted.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
        let data = FhData {
            seq: START + seq,
            len: PIECE,
            segment_bytes: PIECE,
            push,
        };
        receiver.withheld.handle_fh_data(&data, Some(rtt), now);
        let is_next = seq == receiver.received;
        if seq >= receiver.received && seq + PIECE <= receiver.edge {
            receiver.beyond.insert(seq);
        }
        while receiver.beyond.remove(&receiver.received) {
            receiver.received += PIECE;
            receiver.unread += PIECE;
        }
        receiver.unacknowledged += 1;
        if receiver.unacknowledged >= 2 || !is_next || !receiver.beyond.is_empty() {
            self.acknowledge(index);
        } else {
            self.plan(now + DELAYED_ACK, Event::DelayedAck { index });
        }
    }

    /// The MH's stack sends an ACK, through the programs.
    pub(super) fn acknowledge(&mut self, index: usize) {
        let (has_payload, now) = (self.one_in(30), self.now);
        let runs = self.daemon.is_some();
        let ordered = now < self.orders_until && runs;
        let receiver = &mut self.receivers[index];
        if receiver.reads {
            receiver.unread = 0;
        }
        receiver.unacknowledged = 0;
        if has_payload {
            receiver.upload_at = Some(now);
        }
        let space = receiver.space - receiver.unread.min(receiver.space);
        let window = receiver.edge.max(receiver.received + space) - receiver.received;
        let window = (window >> SCALE) as u16;
        receiver.edge = receiver
            .edge
            .max(receiver.received + (u32::from(window) << SCALE));
        let own = AckAndWindow {
            ack: START + receiver.received,
            window,
        };
        (
            receiver.noted.rcv_nxt,
            receiver.noted.window,
            receiver.noted.sent_at,
        ) = (own.ack, window, now);
        let segment = MhSegment {
            own,
            scale: Some(SCALE),
            has_payload,
            has_sack: !receiver.beyond.is_empty(),
            is_ending: false,
        };
        let mut left = own;
        if self.scheme == MobileScheme::Wake && runs {
            left = receiver.withheld.handle_mh_segment(&segment, ordered, now);
            let edge = |leaves: AckAndWindow| leaves.ack + (u32::from(leaves.window) << SCALE);
            let less = edge(own).distance_from(edge(left));
            assert!(less < 1 << SCALE, "seed {}: {less} less", self.seed);
            self.withheld += u64::from(left.ack != own.ack);
            if let Some(at) = receiver.withheld.poll_timeout(receiver.noted.srtt) {
                self.plan(at, Event::Pause { index });
            }
        }
        let receiver = &self.receivers[index];
        match self.orders.get(&receiver.noted.key).filter(|_| ordered) {
            Some(None) => left.window = 0,
            Some(Some(edge)) => left.window = left.window.min(receiver.noted.window_until(*edge)),
            None => {}
        }
        self.leave(index, left);
    }

    /// Checks a segment that leaves: it acknowledges only what has arrived, and its window ends within the
    /// MH's own.
    pub(super) fn leave(&mut self, index: usize, left: AckAndWindow) {
        let AckAndWindow { ack, window } = left;
        let what = format!("seed {}, {}: {left:?}", self.seed, self.scheme);
        let receiver = &self.receivers[index];
        let acked = ack.distance_from(START);
        assert!(
            acked <= receiver.received,
            "{what}: of {}",
            receiver.received
        );
        let edge = acked + (u32::from(window) << SCALE);
        assert!(edge <= receiver.edge, "{what}: beyond {}", receiver.edge);
        let takes = self.segment_time / 20;
        self.put(1, takes, Event::ToFh { index, ack, window });
    }

    pub(super) fn on_pause(&mut self, index: usize) {
        let now = self.now;
        let receiver = &mut self.receivers[index];
        let srtt = receiver.noted.srtt;
        if self.daemon.is_none() || receiver.withheld.handle_timeout(srtt, now).is_none() {
            return;
        }
        if self.hangs {
            return;
        }
        let pausing = receiver.observed();
        self.drive(|machine, _, now, actions| {
            machine.handle_pauses(pausing.as_slice(), now, actions);
        });
    }
}
