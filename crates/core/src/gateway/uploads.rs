// SPDX-License-Identifier: Apache-2.0
//! The MH retransmits its own data. During an upload the gateway detects an outage without a report, and
//! it wakes the MH's senders at link up (`crate::flow`).

use holdfast_wire::{Instant, Segment};

use super::Gateway;
use super::turn::Turn;
use crate::mobile::Mobile;
use crate::schemes;
use crate::table::{FlowId, MobileId};
use crate::upload_watch::UploadWatch;
use crate::{Actions, Payload};

impl<P: Payload> Turn<'_, P> {
    /// What a segment of the MH shows of its uploads.
    pub(super) fn follow_upload(&mut self, flow_id: FlowId, segment: &Segment, payload: &P) {
        let has_data = segment.payload_len > 0;
        let (mobile, now) = (&mut *self.mobile, self.now);
        if mobile.upload.is_none() && has_data && schemes::serves_uploads(self.settings) {
            let mut watch = UploadWatch::new(flow_id, now);
            watch.losses = schemes::expects_changing_rates(self.settings).then(Box::default);
            mobile.upload = Some(Box::new(watch));
        }
        let is_away = mobile.is_away();
        let Some(watch) = &mut mobile.upload else {
            return;
        };
        let rtt = self
            .flow
            .note_upload(segment, payload.segment_len(), is_away, now);
        if has_data {
            watch.on_data(flow_id, segment.payload_len, now);
        }
        if let Some(rtt) = rtt {
            let had_data_in_flight = segment.seq != self.flow.fh.ack;
            watch.on_round_trip(rtt, had_data_in_flight && !is_away, now);
        }
    }
}

impl<P: Payload> Gateway<P> {
    /// Sends the first probe to an MH that may have become silent in the middle of an upload.
    pub(super) fn probe_upload(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        let Some(flow_id) = mobile.take_upload_probe(now) else {
            return;
        };
        let flow = self.flows.at_mut(flow_id).map(|row| &mut row.flow);
        let flow = flow.filter(|flow| flow.is_uploading());
        let probe = flow.and_then(|flow| flow.made_probe(now));
        if let Some(probe) = probe {
            self.counters.probes += 1;
            actions.push(probe);
        } else if let Some(watch) = &mut mobile.upload {
            watch.pause(now);
        }
    }

    /// Forgets an upload without data for a while. In an outage the MH may still have data to send.
    pub(super) fn forget_upload(&mut self, flow_id: FlowId) {
        let Some(row) = self.flows.at_mut(flow_id) else {
            return;
        };
        let uploads = &mut row.flow.uploads;
        let is_waiting = uploads
            .as_ref()
            .is_some_and(|uploads| uploads.waits_for_sender());
        let is_away = self.mobiles.at(row.flow.mobile).is_none_or(Mobile::is_away);
        if !(is_away || is_waiting) {
            *uploads = None;
        }
    }

    /// Wakes a sender again that was woken and has not sent anything.
    pub(super) fn wake_sender_again(
        &mut self,
        flow_id: FlowId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(row) = self.flows.at_mut(flow_id) else {
            return;
        };
        let flow = &mut row.flow;
        if self.mobiles.at(flow.mobile).is_none_or(Mobile::is_away) {
            flow.postpone_wake_up(now);
        } else if flow.wake_sender_again(now, actions) {
            self.counters.wake_ups += 1;
        }
    }
}
