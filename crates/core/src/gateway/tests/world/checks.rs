// SPDX-License-Identifier: Apache-2.0
//! What must be true of each packet that the gateway sends, and of the gateway itself, at any time.

use holdfast_wire::{Flags, Segment};

use super::World;
use crate::flow::{Flow, Mute, Stage};
use crate::gateway::Connection;
use crate::gateway::deadlines::STALE_MAX;
use crate::mobile::{InFlight, Link};
use crate::schemes::AnyScheme;
use crate::testing::{FH, Packet};
use crate::{Scheme, Unreachable, Verdict};

impl World {
    /// What goes on of a segment by a verdict.
    pub(super) fn check_judged(&self, verdict: Verdict, packet: Option<&Packet>) {
        if self.lenient {
            return;
        }
        match (verdict, packet) {
            (Verdict::ForwardWithSack(sack), _) => {
                for (left, right) in sack.iter() {
                    let (left, right) = (self.mh.peer_offset(left), self.mh.peer_offset(right));
                    assert!(self.mh.has(left, right), "a report of what the MH lacks");
                }
                if self.trace {
                    eprintln!("           with {sack:?}");
                }
            }
            (Verdict::ForwardWithAck { .. }, Some(packet)) => {
                if self.trace {
                    eprintln!("           as {}", self.brief(packet));
                }
                self.check_ack(&packet.segment);
            }
            (Verdict::Suppress, _) if self.trace => eprintln!("           suppressed"),
            _ => {}
        }
    }

    /// What goes to the MH is what the FH sent, in all that counts.
    pub(super) fn check_resend(&self, packet: &Packet) {
        if self.lenient {
            return;
        }
        let segment = &packet.segment;
        let from = self.mh.peer_offset(segment.seq);
        let sent = usize::try_from(from).ok();
        let sent = sent.and_then(|from| self.fh.sending.get(from..from + packet.bytes.len()));
        let sent = sent.expect("bytes that the FH does not have");
        assert_eq!(&packet.bytes[..], sent, "other bytes at {from}");
        let end = from + i64::from(segment.len());
        assert!(end <= self.fh.max, "sent on before it was sent");
        let is_end = end == self.fh.sending.len() as i64 + 1;
        assert_eq!(
            segment.flags.has(Flags::FIN),
            is_end,
            "FIN at the wrong sequence number"
        );
        let ack = self.fh.peer_offset(segment.ack);
        assert!(ack <= self.fh.rcv_nxt, "an ACK to the MH ahead of the FH");
        if self.trace {
            eprintln!("           resend {}", self.brief(packet));
        }
    }

    /// What goes to the FH again is what the MH sent and this engine has forwarded.
    pub(super) fn check_uplink_resend(&self, packet: &Packet) {
        if self.lenient {
            return;
        }
        let segment = &packet.segment;
        let from = self.fh.peer_offset(segment.seq);
        let sent = usize::try_from(from).ok();
        let sent = sent.and_then(|from| self.mh.sending.get(from..from + packet.bytes.len()));
        let sent = sent.expect("bytes that the MH does not have");
        assert_eq!(&packet.bytes[..], sent, "other bytes at {from}");
        let end = from + i64::from(segment.len());
        let passed = &self.mh_passed[from as usize..end as usize];
        assert!(passed.iter().all(|passed| *passed), "not forwarded before");
        if let Some(flow) = self.flow_in_use() {
            assert!(segment.end().after(flow.fh.ack), "the FH has it");
        }
        let is_end = end == self.mh.sending.len() as i64 + 1;
        assert_eq!(segment.flags.has(Flags::FIN), is_end, "FIN misplaced");
        let ack = self.fh.sent_offset(segment.ack);
        assert!(ack <= self.mh_acked, "an ACK to the FH ahead of the MH");
        let shift = self.mh.profile.window_scale;
        let edge = ack + (i64::from(segment.window) << shift);
        assert!(edge <= self.mh.advertised, "a window that the MH lacks");
        if self.trace {
            eprintln!("           resend {}", self.brief(packet));
        }
    }

    /// The FH's ACK that was just judged, with an earlier timestamp echoed.
    fn is_earlier_echo(&self, segment: &Segment) -> bool {
        let (Some(judged), Some(ours)) = (self.judged, segment.options.timestamps) else {
            return false;
        };
        let mut same = *segment;
        same.options.timestamps = judged.options.timestamps;
        let echo = judged.options.timestamps.map_or(0, |own| own.tsecr);
        same == judged && (ours.tsecr.wrapping_sub(echo) as i32) < 0
    }

    /// A report to the MH contains only what the FH has acknowledged or reported, and what this
    /// engine has forwarded and caches.
    pub(super) fn check_report(&self, packet: &Packet) {
        let segment = &packet.segment;
        if self.is_earlier_echo(segment) {
            return;
        }
        assert_eq!(segment.flags, Flags::ACK);
        let ack = self.mh.sent_offset(segment.ack);
        assert!(ack <= self.fh_acked && ack <= self.fh.rcv_nxt, "ahead");
        assert!(self.mh.peer_offset(segment.seq) <= self.fh.max);
        let edge = ack + (i64::from(segment.window) << self.fh.profile.window_scale);
        assert!(edge <= self.fh_edge, "a window that the FH lacks");
        let blocks: Vec<_> = segment.options.sack.iter().collect();
        assert!(blocks.is_empty() || (self.fh.profile.sack && self.mh.profile.sack));
        assert!(blocks.len() <= 3);
        let row = self.gateway.flows.iter().next();
        let uplink_holds = |seq| match row.map(|row| &row.scheme) {
            Some(AnyScheme::Snoop(snoop) | AnyScheme::Auto(snoop)) => snoop.uplink.holds(seq),
            _ => false,
        };
        let mut farthest = None;
        for (left, right) in blocks {
            let (from, to) = (self.mh.sent_offset(left), self.mh.sent_offset(right));
            assert!(ack < from && from < to && to <= self.mh.max, "{from}..{to}");
            assert!(farthest.is_none_or(|before| to < before), "out of order");
            farthest = Some(from);
            for offset in from..to {
                let acked = offset < self.fh_acked;
                assert!(acked || self.mh_passed[offset as usize], "not forwarded");
                let seq = left + (offset - from) as u32;
                assert!(acked || uplink_holds(seq), "not cached");
            }
        }
    }

    /// ICMP names what the FH waits for, or has acknowledged meanwhile.
    pub(super) fn check_notice(&self, report: &Unreachable<Segment>) {
        let seq = self.mh.sent_offset(report.seq);
        assert!(self.lenient || seq <= self.fh_acked, "ahead of the FH");
        assert!((1..=13).contains(&report.copies));
    }

    /// What is made in the MH's name contains no more than the MH has sent.
    pub(super) fn check_made(&self, packet: &Packet) {
        if self.lenient {
            return;
        }
        let segment = &packet.segment;
        let is_for_fh = segment.from != FH;
        assert!(
            !is_for_fh || self.settings.scheme != Scheme::Hold,
            "hold makes no ACK for the FH"
        );
        if segment.flags.has(Flags::RST) {
            assert!(self.may_reset, "a RST without a reason");
            return;
        }
        if segment.from == FH
            && matches!(
                self.settings.scheme,
                Scheme::Hold | Scheme::Snoop | Scheme::Auto | Scheme::Mtcp
            )
        {
            return self.check_report(packet);
        }
        if segment.from == FH {
            let keep_alive = self.mh.peer_offset(segment.seq) + 1;
            assert!(keep_alive <= self.mh_acked && segment.flags == Flags::ACK);
            assert!(self.fh.peer_offset(segment.ack) <= self.fh.rcv_nxt);
            return;
        }
        assert_eq!(segment.flags, Flags::ACK);
        for (left, right) in segment.options.sack.iter() {
            let (left, right) = (self.mh.peer_offset(left), self.mh.peer_offset(right));
            assert!(matches!(self.settings.scheme, Scheme::Snoop | Scheme::Auto));
            assert!(self.mh.has(left, right), "a report of what the MH lacks");
        }
        self.check_ack(segment);
        let ahead = self.settings.scheme == Scheme::MtcpPlus;
        // An ACK that replaces another may be as late as that one was.
        if let (true, Some(timestamps)) = (ahead, segment.options.timestamps) {
            assert_eq!(
                Some(timestamps.tsval),
                self.mh_tsval,
                "TSval is not the newest"
            );
        }
    }

    /// An ACK to the FH that is not the MH's own word.
    pub(super) fn check_ack(&self, segment: &Segment) {
        let ack = self.fh.sent_offset(segment.ack);
        let ahead = self.settings.scheme == Scheme::MtcpPlus;
        assert!(ahead || ack <= self.mh_acked, "ahead of the MH");
        assert!(
            ack <= self.arrived_end.max(self.mh_acked),
            "{ack} acknowledged, {} came without a hole",
            self.arrived_end
        );
        let fin = self.fh.sending.len() as i64;
        assert!(
            ack <= fin || self.mh_acked > fin,
            "the FIN is acknowledged ahead"
        );
        if let Some(flow) = self.flow_in_use() {
            let held = flow.cache.contiguous_end(flow.fh.una);
            assert!(segment.ack.at_or_before(held), "acknowledged and not held");
        }
        let shift = self.mh.profile.window_scale;
        let edge = ack + (i64::from(segment.window) << shift);
        assert!(
            segment.window == 0 || edge <= self.mh.advertised,
            "the window reaches to {edge}, the MH's to {}",
            self.mh.advertised
        );
        assert!(
            self.mh.sent_offset(segment.seq) <= self.mh.max,
            "SEQ ahead of the MH"
        );
    }

    /// The flow, unless it is closed.
    fn flow_in_use(&self) -> Option<&Flow<Packet>> {
        self.gateway.flows.iter().next().map(|row| &row.flow)
    }

    pub(super) fn check_engine(&self) {
        let gateway = &self.gateway;
        let kept: usize = gateway
            .flows
            .iter()
            .map(|row| &row.flow)
            .map(Flow::cached_bytes)
            .sum();
        assert_eq!(gateway.budget.bytes(), kept, "bytes kept and bytes counted");
        assert!(kept <= self.settings.cache_bytes_max);
        assert!(kept <= self.settings.flow_cache_bytes_max);
        for mobile in gateway.mobiles.iter() {
            let flows = mobile
                .flows
                .iter()
                .filter_map(|id| Some(&gateway.flows.at(*id)?.flow));
            let mut in_flight = InFlight::default();
            for flow in flows {
                in_flight.count(0, flow.in_flight_at_mobile());
            }
            assert_eq!(mobile.in_flight, in_flight, "what is in flight");
            for (index, flow_id) in mobile.flows.iter().enumerate() {
                let index_at_mobile = gateway.flows.index_at_mobile(*flow_id);
                assert_eq!(index_at_mobile, Some(index as u32), "its index");
                let Some(Connection { flow, .. }) = gateway.flows.at(*flow_id) else {
                    let is_open = gateway
                        .flows
                        .row(*flow_id)
                        .is_some_and(|row| row.stage() == Stage::Open);
                    assert!(!is_open || index < mobile.open, "an open flow is not found");
                    let entries = mobile.send_queue.iter().filter(|other| **other == *flow_id);
                    assert!(entries.count() <= 1, "who waits");
                    continue;
                };
                let is_open = flow.stage == Stage::Open;
                assert!(!is_open || index < mobile.open, "an open flow is not found");
                let entries = mobile.send_queue.iter().filter(|other| **other == *flow_id);
                assert_eq!(
                    entries.count(),
                    usize::from(flow.is_in_send_queue),
                    "who waits"
                );
                assert!(
                    flow.is_in_send_queue
                        || flow.has_own_sender
                        || flow.mute == Mute::Probed
                        || !flow.has_backlog(),
                    "a backlog waits for ever"
                );
            }
            assert!(mobile.send_queue.len() <= 2 * mobile.flows.len() + STALE_MAX);
            assert!(
                mobile.link != Link::Up || mobile.send_queue.is_empty(),
                "a backlog waits although the link is up"
            );
        }
    }
}
