// SPDX-License-Identifier: Apache-2.0
//! Data for an MH whose connection is split here (M-TCP): all of it goes into the cache, and
//! out at the pace of the flow's own sender.

use holdfast_wire::{Flags, Instant, Segment};

use super::{Gateway, recovery};
use crate::cache::Insertion;
use crate::flow::Flow;
use crate::schemes::{Context, mtcp};
use crate::table::{FlowId, MobileId};
use crate::{Action, Actions, Payload, Verdict};

impl<P: Payload> Gateway<P> {
    /// Data that the MH lacks, for a flow that is split.
    pub(super) fn keep_split(
        &mut self,
        flow_id: FlowId,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let settings = &self.settings;
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        let Some(mobile) = self.mobiles.at_mut(flow.mobile) else {
            return Verdict::Forward;
        };
        let backlog = flow.has_backlog();
        let new_fin = segment.flags.has(Flags::FIN) && !flow.cache.holds(segment.end() - 1);
        mobile.count_kept_bytes(flow, &mut self.budget);
        let room = mobile.cache_room(&self.budget);
        let kept = flow.keep(segment, payload, room, settings);
        let counters = &mut self.counters;
        let mut cx = Context::new(settings, mobile, now, counters, actions);
        let Insertion::Kept { new_bytes } = kept else {
            cx.counters.cache_full += 1;
            mtcp::on_passed(flow, segment, &mut cx);
            // What is still waiting in the cache is not skipped.
            if !backlog {
                flow.on_forwarded(segment, now);
            }
            return Verdict::Forward;
        };
        let is_new = new_bytes > 0 || new_fin;
        mtcp::on_data(flow, segment, is_new, backlog, &mut cx)
    }

    /// What the MH's ACK shows to be lost, once more; it takes its time at the flow's rate.
    /// Without a share of a cell the FH hears of it, and repeats what no outage took.
    pub(super) fn repair_split(
        &mut self,
        flow_id: FlowId,
        dup_acks: bool,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let before = actions.len();
        let split = |flow: &&mut Flow<P>| {
            let ours = flow.mtcp.is_in_cell() || flow.recover.is_some();
            let ours = ours || !flow.mtcp.is_open_to_fh();
            flow.is_split() && ours && !flow.mtcp.is_frozen() && !flow.mtcp.is_closed()
        };
        if let Some(flow) = self.flows.at_mut(flow_id).filter(split) {
            recovery::repair(flow, dup_acks, &mut self.counters, actions);
            let sent = actions[before..].iter().map(|action| match action {
                Action::Resend(piece) => piece.len,
                _ => 0,
            });
            let sent: u32 = sent.sum();
            if sent > 0 {
                flow.mtcp.on_repeated();
            }
            flow.mtcp.charge(sent, now);
        }
    }

    /// An MH says that its link is up, whatever was known of that: the greeting for those of its
    /// flows that have frozen, or shrunk the FH's window, and were not greeted yet.
    pub(super) fn greet_split(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        self.with_flows_of(mobile_id, now, actions, |flow, _, cx| {
            if flow.mtcp.waits_for_mh() {
                cx.settings.scheme.on_reconnected(flow, cx);
            }
        });
        self.schedule_flows_of(mobile_id, now);
    }
}
