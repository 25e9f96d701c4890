// SPDX-License-Identifier: Apache-2.0
//! Exports the state of a flow for another station, and adopts a state that another station exported.

use core::time::Duration;

use holdfast_wire::{Instant, SeqNum};

use super::{FhState, Flow, MhState, Stage};
use crate::handoff::FlowState;
use crate::{Payload, Resend};

impl<P: Payload> Flow<P> {
    /// The flow's numbers for another station, with what was measured of the MH's link. `None` if too
    /// little is known, or if bytes are owed: only this station has them.
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

    /// Adopts a flow's state from another station, because this station has seen too little. Nothing is
    /// cached yet: the bytes from `fh_una` to `fh_max` are still to come.
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
            clock_may_differ: false,
            refuses_all: false,
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
        // The previous station may have seen segments that this one has not seen.
        fh.max = fh.max.max(state.fh_max);
        mh.nxt = mh.nxt.max(state.mh_nxt);
        if let Some(edge) = state.mh_right_edge {
            mh.right_edge = Some(mh.right_edge.map_or(edge, |own| own.max(edge)));
        }
        mh.window_largest = mh.window_largest.max(state.mh_window_largest);
        fh.window_largest = fh.window_largest.max(state.fh_window_largest);
        self.path_mtu = self.path_mtu.or(state.path_mtu);
    }

    /// The cached bytes that the MH may lack, one segment a piece, for another station to deliver. They
    /// have the sequence numbers of the FH's half.
    pub(crate) fn cached_pieces(&mut self, pieces: &mut Vec<Resend<P>>) {
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

#[cfg(test)]
pub(super) mod tests {
    use holdfast_wire::Timestamps;

    use super::*;
    use crate::table::{Id as _, MobileId, Slot};
    use crate::testing::{Bytes, data};
    use crate::{Direction, FlowKey};

    const NOW: Instant = Instant::from_millis(1000);

    fn key() -> FlowKey {
        FlowKey::of(&data(0, b"").0, Direction::Downlink)
    }

    pub(in crate::flow) fn flow() -> Flow<Bytes> {
        Flow::new(key(), MobileId::new(Slot::default()), NOW)
    }

    /// Each number is another one.
    pub(in crate::flow) fn state() -> FlowState {
        let seq = SeqNum::new;
        FlowState {
            key: key(),
            fh_max: seq(9_000),
            fh_una: seq(2_000),
            fh_ack: seq(5_100),
            fh_window: 510,
            fh_window_largest: 520,
            fh_window_scale: Some(5),
            fh_tsecr: 71_000,
            fh_fin: Some(seq(9_001)),
            fh_sack: true,
            mh_nxt: seq(5_200),
            mh_window_scale: Some(7),
            mh_window_largest: 610,
            mh_right_edge: Some(seq(60_000)),
            mh_timestamps: Some(Timestamps {
                tsval: 71_500,
                tsecr: 1_400,
            }),
            mh_fin: Some(seq(5_300)),
            tsval_sent: Some(1_500),
            path_mtu: Some(1_300),
            reported: vec![(seq(3_000), seq(4_000)), (seq(5_000), seq(6_000))],
            srtt: None,
            bytes_per_s: None,
            split: None,
            renumber: None,
        }
    }

    #[test]
    fn a_flow_that_was_taken_over_is_as_the_other_station_knew_it() {
        let mut flow = flow();
        flow.adopt(&state(), NOW);
        assert_eq!(flow.state(None, None), Some(state()));
        // Nothing of it was sent here.
        assert_eq!(flow.sent_nxt, SeqNum::new(2_000));
        assert_eq!(flow.in_flight(), 0);
    }

    #[test]
    fn of_a_flow_that_is_known_here_only_what_is_missing_is_taken_over() {
        let own = FlowState {
            fh_max: SeqNum::new(9_500),
            fh_window_largest: 530,
            fh_window_scale: None,
            fh_fin: None,
            fh_sack: false,
            mh_nxt: SeqNum::new(5_150),
            mh_window_scale: None,
            mh_window_largest: 600,
            mh_right_edge: None,
            mh_fin: None,
            path_mtu: None,
            ..state()
        };
        let mut flow = flow();
        flow.adopt(&own, NOW);
        flow.complete(&state());
        let both = FlowState {
            fh_max: SeqNum::new(9_500),
            fh_window_largest: 530,
            ..state()
        };
        assert_eq!(flow.state(None, None), Some(both.clone()));
        // What is known here stays.
        let other = FlowState {
            fh_una: SeqNum::new(2_500),
            fh_ack: SeqNum::new(5_150),
            fh_window: 1,
            fh_window_scale: Some(1),
            fh_tsecr: 1,
            fh_fin: Some(SeqNum::new(1)),
            fh_sack: false,
            mh_window_scale: Some(1),
            mh_right_edge: Some(SeqNum::new(50_000)),
            mh_timestamps: None,
            mh_fin: Some(SeqNum::new(1)),
            tsval_sent: None,
            path_mtu: Some(1),
            reported: Vec::new(),
            ..both.clone()
        };
        flow.complete(&other);
        assert_eq!(flow.state(None, None), Some(both));
    }

    #[test]
    fn a_flow_that_owes_bytes_or_is_not_open_is_not_handed_over() {
        let mut flow = flow();
        assert_eq!(flow.state(None, None), None);
        flow.adopt(&state(), NOW);
        flow.owed = Some(SeqNum::new(2_001));
        assert_eq!(flow.state(None, None), None);
    }

    #[test]
    fn of_what_is_cached_all_that_the_mh_lacks_is_handed_over_in_segments() {
        let mut flow = flow();
        flow.adopt(&state(), NOW);
        // From 4000 on a segment is missing here.
        for seq in [2_000, 3_000, 5_000, 6_000] {
            let (segment, payload) = data(seq, &[7; 1000]);
            let _ = flow
                .cache
                .insert(&segment, &payload, segment.seq, 1 << 20, 10);
        }
        let mut pieces = Vec::new();
        flow.cached_pieces(&mut pieces);
        let ranges: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.seq.get(), piece.len))
            .collect();
        assert_eq!(ranges, [(2_000, 1000), (6_000, 1000)]);
    }
}
