// SPDX-License-Identifier: Apache-2.0
//! A segment of the FH on its way to the MH.

use holdfast_wire::{Flags, Instant, Segment};

use super::Gateway;
use super::turn::Turn;
use crate::cache::Insertion;
use crate::flow::{DataOutcome, Flow, Mute, Stage};
use crate::mobile::{Link, Mobile};
use crate::table::FlowId;
use crate::{Actions, Payload, Verdict};

/// What happens to data that is in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposition {
    /// It goes to the MH as it came.
    Forward,
    /// A copy of cached bytes. It is not forwarded.
    Duplicate,
    /// It waits in the cache.
    Queue,
}

impl<P: Payload> Gateway<P> {
    /// A segment of the FH that is no SYN and no RST.
    pub(super) fn handle_downlink(
        &mut self,
        flow_id: FlowId,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let Some(mut turn) = self.turn(flow_id, now, actions) else {
            return Verdict::Forward;
        };
        let is_unknown = turn.flow.stage == Stage::Adopting;
        if is_unknown && turn.flow.open_after_syns(segment, now) {
            let is_reset = self.begin(flow_id, now, actions);
            debug_assert!(!is_reset, "the SYNs were seen: nothing is owed");
            let Some(begun) = self.turn(flow_id, now, actions) else {
                return Verdict::Forward;
            };
            turn = begun;
        }
        turn.on_fh_segment(segment, payload)
    }
}

impl<P: Payload> Turn<'_, P> {
    fn on_fh_segment(&mut self, segment: &Segment, payload: &P) -> Verdict {
        let outcome = self.flow.track_fh_segment(segment, payload, self.now);
        if outcome.is_resynchronised {
            self.scheme.on_resynchronised(self.flow.fh.una);
        }
        if outcome.data == DataOutcome::Unknown {
            self.counters.implausible += u64::from(self.flow.stage == Stage::Open);
            let record = self.records.get(&self.flow.key);
            let owed = record.and_then(|record| record.owed);
            if let (Stage::Adopting, Some(owed)) = (self.flow.stage, owed) {
                // An FH in persist state may send nothing that the MH would answer.
                self.actions.extend(self.flow.made_query(segment, owed));
            }
            return Verdict::Forward;
        }
        let link_addresses = payload.link_addresses();
        self.mobile.note_link_addresses(link_addresses, self.now);
        let is_away = self.mobile.is_away() || self.scheme.waits_for_mh();
        let is_withheld = self.hook(|scheme, flow, cx| scheme.on_fh_ack(flow, segment, cx));
        let bare = segment.is_empty() && segment.seq == self.flow.fh.max && payload.is_cacheable();
        // At link up this ACK is sent unchanged. So it is not stored while the MH is shown a lower one.
        if is_away && bare && self.flow.ack_for_mh(segment.ack) == segment.ack {
            self.flow.ack_in_outage = Some(payload.clone());
        }
        if is_withheld {
            return Verdict::Suppress;
        }
        let verdict = if segment.is_empty() || outcome.data == DataOutcome::Old {
            self.hook(|scheme, flow, cx| scheme.on_nothing_new(flow, segment, cx))
        } else if self.flow.has_own_sender {
            self.cache_for_sender(segment, payload)
        } else {
            self.cache_and_decide(segment, payload)
        };
        if let (true, Some(watch)) = (bare, &self.mobile.upload) {
            self.flow.time_echo(segment, watch.rtt.least(), self.now);
        }
        if verdict == Verdict::Forward {
            if self.mobile.link == Link::Silent && !segment.is_empty() {
                let measured = self.mobile.rtt.least().is_some();
                self.flow.note_passed_probe(segment, measured);
            }
            self.flow.note_passed(segment, self.now);
            self.scheme.on_forwarded(segment);
        }
        verdict
    }

    /// Data that the MH may lack: cached, and forwarded if it is its turn.
    fn cache_and_decide(&mut self, segment: &Segment, payload: &P) -> Verdict {
        if !self.scheme.caches() {
            self.hook(|scheme, flow, cx| scheme.on_data(flow, segment, Insertion::Full, cx));
            self.forward(segment);
            return Verdict::Forward;
        }
        let backlog = self.flow.has_backlog();
        if self.flow.cache.contradicts(segment, payload) {
            self.counters.implausible += 1;
        }
        let room = self.scheme.cache_room(self.flow, segment, self.settings);
        let room = room.min(self.cache_room());
        let insertion = self
            .flow
            .cache_segment(segment, payload, room, self.settings);
        let Insertion::Cached { new_bytes } = insertion else {
            self.forward_uncached(segment, backlog);
            self.mobile.on_sent(self.now);
            self.mobile.cell.forwarded_bytes += u64::from(segment.payload_len);
            return Verdict::Forward;
        };
        let is_copy = new_bytes == 0 && !segment.flags.has(Flags::FIN);
        // The FH's copies would overtake the backlog, and the FH would take the backlog for lost (RFC 8985).
        let is_premature =
            is_copy && backlog && !self.flow.retransmits_itself() && self.is_under_way(segment);
        match disposition(self.flow, self.mobile, segment, is_copy, backlog) {
            Disposition::Forward if is_premature => {
                self.counters.segments_queued += 1;
                Verdict::Suppress
            }
            Disposition::Forward => {
                self.hook(|scheme, flow, cx| scheme.on_data(flow, segment, insertion, cx));
                self.forward(segment);
                Verdict::Forward
            }
            Disposition::Duplicate => {
                self.counters.segments_queued += 1;
                // Whatever the scheme answers, this copy goes no further.
                let _ = self.hook(|scheme, flow, cx| scheme.on_nothing_new(flow, segment, cx));
                Verdict::Suppress
            }
            Disposition::Queue => {
                self.counters.segments_queued += 1;
                self.mobile.on_data(self.now);
                self.hook(|scheme, flow, cx| scheme.on_queued(flow, segment, cx));
                Verdict::Suppress
            }
        }
    }

    /// The segment went to the MH so recently that no answer to it can have come. Always false for a link whose
    /// rate is constant.
    fn is_under_way(&self, segment: &Segment) -> bool {
        let newest_arrival = self.mobile.newest_arrival.get();
        let (Some((newest_sent, reported)), true) =
            (newest_arrival, self.mobile.changing.is_some())
        else {
            return false;
        };
        let round_trip = reported.saturating_since(newest_sent);
        let is_recent =
            |at: Instant| at > newest_sent && self.now.saturating_since(at) < round_trip;
        let mut sent = self
            .flow
            .transmissions
            .within(segment.seq, segment.end())
            .peekable();
        sent.peek().is_some() && sent.all(|range| is_recent(range.at))
    }

    fn forward(&mut self, segment: &Segment) {
        self.flow.on_forwarded(segment, self.now);
        self.mobile.on_sent(self.now);
        self.mobile.cell.forwarded_bytes += u64::from(segment.payload_len);
    }

    /// The cache has no room for the segment. `sent_nxt` does not skip a backlog.
    fn forward_uncached(&mut self, segment: &Segment, backlog: bool) {
        self.counters.cache_full += 1;
        self.hook(|scheme, flow, cx| scheme.on_data(flow, segment, Insertion::Full, cx));
        if !backlog {
            self.flow.on_forwarded(segment, self.now);
        }
    }

    /// Data that the MH may lack, for the scheme's own sender.
    fn cache_for_sender(&mut self, segment: &Segment, payload: &P) -> Verdict {
        let backlog = self.flow.has_backlog();
        let has_fin = segment.flags.has(Flags::FIN);
        let new_fin = has_fin && !self.flow.cache.holds(segment.end() - 1);
        let room = self.cache_room();
        let insertion = self
            .flow
            .cache_segment(segment, payload, room, self.settings);
        let Insertion::Cached { new_bytes } = insertion else {
            self.forward_uncached(segment, backlog);
            return Verdict::Forward;
        };
        let is_new = new_bytes > 0 || new_fin;
        self.mobile.on_data(self.now);
        self.hook(|scheme, flow, cx| scheme.on_data_to_send(flow, segment, is_new, backlog, cx))
    }
}

/// `is_copy`: all of it was cached before. `backlog`: something waited before it came.
fn disposition<P: Payload>(
    flow: &Flow<P>,
    mobile: &Mobile,
    segment: &Segment,
    is_copy: bool,
    backlog: bool,
) -> Disposition {
    // The silence may be another flow's. So new data of a flow with nothing in flight is its own probe.
    let probes =
        mobile.link == Link::Silent && !flow.in_persist && !backlog && flow.in_flight() == 0;
    let is_open = mobile.receives_at_once() || probes;
    // The gateway's own segments may be the ones that do not arrive: their headers or sizes differ from the FH's.
    let fh_tries = is_copy && mobile.link == Link::Silent && mobile.receives_at_once();
    let is_ours = is_copy && flow.retransmits_alone() && !fh_tries;
    let has_turn = is_open && !backlog;
    let skips_nothing = segment.seq.at_or_before(flow.sent_nxt);
    // A segment waits only if the gateway will send it from the cache.
    let waits = !has_turn && segment.end().after(flow.sent_nxt) && !(fh_tries && skips_nothing);
    // A mute flow sends no more than probes: after some of them the FH's own copies do better.
    let waits = waits && (flow.mute == Mute::No || !is_copy || is_ours);
    let is_away = mobile.is_away() && !is_open;
    if !(is_away || flow.waits_for_handoff || waits || is_ours) {
        Disposition::Forward
    } else if is_copy && !flow.in_persist {
        Disposition::Duplicate
    } else {
        Disposition::Queue
    }
}
