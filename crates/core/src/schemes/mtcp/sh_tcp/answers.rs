// SPDX-License-Identifier: Apache-2.0
//! SH-TCP's answers to segments of the FH without anything new.

use holdfast_wire::{SackBlocks, Segment};

use super::{Context, Mtcp, WindowState, catch_up, on_probe, recover, send_ack, send_open_ack};
use crate::flow::Flow;
use crate::{Payload, Verdict};

/// Handles a segment of the FH without anything new.
pub(in crate::schemes::mtcp) fn on_nothing_new<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> Verdict {
    mtcp.sh.on_fh_segment(segment, cx.now);
    let verdict = answer(mtcp, flow, segment, cx);
    let all = flow.mh.nxt.at_or_before(segment.ack);
    if verdict == Verdict::Forward {
        mtcp.sh.uplink_open &= !all;
    } else if mtcp.sh.uplink_open && segment.is_empty() && !mtcp.m.is_frozen() {
        // The MH ignores the ACK in a segment that ends before what it has (RFC 9293, 3.10.7.4).
        let made = flow.made_ack_with_sack(segment.ack, SackBlocks::default());
        cx.actions.extend(made);
        mtcp.sh.uplink_open = !all;
    }
    verdict
}

fn answer<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let una = flow.fh.una;
    let sh = &mut mtcp.sh;
    // A challenge ACK, like any ACK in turn, has SEG.SEQ = SND.NXT and is not answered: there is no loop.
    // A probe has a lower number than the MH's ACK.
    if segment.is_empty() && !segment.seq.before(una) {
        return Verdict::Forward;
    }
    let acked = sh.acked;
    match sh.state {
        WindowState::Shrunk => send_ack(mtcp, flow, acked, 0, cx),
        WindowState::Recovering => {
            sh.sent_since = sh.sent_since.max(segment.end());
            catch_up(mtcp, flow, cx);
            if mtcp.sh.acked == acked {
                send_open_ack(mtcp, flow, acked, cx);
            }
        }
        // The FH's own ACK shows that it has set its `snd_max` back. It would answer each ACK beyond that
        // with an ACK, for ever.
        WindowState::NoShrink
            if segment.is_empty() && sh.was_shrunk && segment.seq.before(acked - 1) =>
        {
            sh.acked = segment.seq;
            recover(mtcp, cx);
            send_open_ack(mtcp, flow, segment.seq, cx);
        }
        WindowState::NoShrink if segment.is_empty() => {
            // The MH answers, and its ACK passes unchanged.
            sh.acked = una;
            on_probe(mtcp, flow, segment, cx);
            return Verdict::Forward;
        }
        WindowState::NoShrink => {
            // An FH that has set `snd_max` back accepts no ACK of more than it has sent.
            if sh.was_shrunk && segment.end().before(acked) {
                send_open_ack(mtcp, flow, segment.end(), cx);
            }
            send_open_ack(mtcp, flow, una, cx);
        }
    }
    Verdict::Suppress
}
