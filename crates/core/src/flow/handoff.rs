// SPDX-License-Identifier: Apache-2.0
//! What another station has to know of a flow, and a flow as another station knew it.

use core::time::Duration;

use holdfast_wire::{Instant, SeqNum};

use super::{FhState, Flow, MhState, Stage};
use crate::handoff::FlowState;
use crate::{Payload, Resend};

impl<P: Payload> Flow<P> {
    /// The flow's numbers for another station, with what was measured of the MH's link;
    /// `None` if too little is known, or bytes are owed that only this one has.
    pub(crate) fn state(
        &self,
        srtt: Option<Duration>,
        bytes_per_s: Option<u64>,
    ) -> Option<FlowState> {
        if self.stage != Stage::Open || self.owed.is_some() {
            return None;
        }
        let (fh, mh) = (&self.fh, &self.mh);
        Some(FlowState {
            key: self.key,
            fh_max: fh.max,
            fh_una: fh.una,
            fh_ack: fh.ack,
            fh_window: fh.window,
            fh_window_largest: fh.window_largest,
            fh_window_scale: fh.window_scale,
            fh_tsecr: fh.tsecr,
            fh_fin: fh.fin,
            fh_sack: fh.sack,
            mh_nxt: mh.nxt,
            mh_window_scale: mh.window_scale,
            mh_window_largest: mh.window_largest,
            mh_right_edge: mh.right_edge,
            mh_timestamps: mh.timestamps,
            mh_fin: mh.fin,
            tsval_sent: self.tsval_sent,
            path_mtu: self.path_mtu,
            reported: self.sacked.iter().take(FlowState::REPORTED_MAX).collect(),
            srtt,
            bytes_per_s,
            split: None,
            renumber: self.renumber,
        })
    }

    /// A flow in which this station has seen too little becomes one as another knew it.
    /// Nothing is kept of it yet: what lies between `fh_una` and `fh_max` is to come.
    pub(crate) fn adopt(&mut self, state: &FlowState, now: Instant) {
        self.stage = Stage::Open;
        self.fh = FhState {
            max: state.fh_max,
            una: state.fh_una,
            ack: state.fh_ack,
            window: state.fh_window,
            tsecr: state.fh_tsecr,
            window_scale: state.fh_window_scale,
            window_largest: state.fh_window_largest,
            fin: state.fh_fin,
            sack: state.fh_sack,
            ..FhState::default()
        };
        self.mh = MhState {
            clock_is_of_syn: false,
            nxt: state.mh_nxt,
            window_scale: state.mh_window_scale,
            right_edge: state.mh_right_edge,
            timestamps: state.mh_timestamps,
            fin: state.mh_fin,
            window_largest: state.mh_window_largest,
            received_at: now,
        };
        self.unseen = None;
        self.tsval_sent = state.tsval_sent;
        self.path_mtu = state.path_mtu;
        self.sent_nxt = state.fh_una;
        self.begin_resending();
        self.seen = now;
        for (left, right) in &state.reported {
            self.sacked.add(*left, *right);
        }
    }

    /// Adds what this station could not see of a flow that it adopted in mid-stream.
    pub(crate) fn complete(&mut self, state: &FlowState) {
        let (fh, mh) = (&mut self.fh, &mut self.mh);
        mh.window_scale = mh.window_scale.or(state.mh_window_scale);
        fh.window_scale = fh.window_scale.or(state.fh_window_scale);
        fh.sack |= state.fh_sack;
        fh.fin = fh.fin.or(state.fh_fin);
        mh.fin = mh.fin.or(state.mh_fin);
        // An end may have been so bold as to send what the station before has seen alone.
        fh.max = fh.max.max(state.fh_max);
        mh.nxt = mh.nxt.max(state.mh_nxt);
        if let Some(edge) = state.mh_right_edge {
            mh.right_edge = Some(mh.right_edge.map_or(edge, |own| own.max(edge)));
        }
        mh.window_largest = mh.window_largest.max(state.mh_window_largest);
        fh.window_largest = fh.window_largest.max(state.fh_window_largest);
        self.path_mtu = self.path_mtu.or(state.path_mtu);
    }

    /// What is kept and the MH may lack, a segment's worth a piece; to be delivered by
    /// another station. By the numbers of the FH.
    pub(crate) fn kept_pieces(&mut self, pieces: &mut Vec<Resend<P>>) {
        let mut at: SeqNum = self.fh.una;
        loop {
            let (from, limit) = self.sacked.next_missing(at);
            let len = self.cache.segment_len_at(from).unwrap_or(1);
            if let Some(piece) = self.cache.piece(from, limit, len) {
                at = piece.end;
                let mut piece = self.resend(piece);
                if let Some(numbers) = self.renumber {
                    (piece.seq, piece.ack, piece.window) =
                        numbers.sent_by_fh(piece.seq, piece.ack, piece.window);
                }
                pieces.push(piece);
            } else if let Some(reported) = limit.filter(|limit| limit.after(at)) {
                at = reported;
            } else {
                return;
            }
        }
    }
}
