// SPDX-License-Identifier: Apache-2.0
//! What SH-TCP answers to segments of the FH that bring nothing new.

use holdfast_wire::{SackBlocks, Segment};

use super::{Context, Mtcp, Window, catch_up, on_probe, recover, tell, tell_open};
use crate::flow::Flow;
use crate::{Payload, Verdict};

/// A segment of the FH that brings nothing new.
pub(in crate::schemes::mtcp) fn on_nothing_new<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> Verdict {
    mtcp.sh.hear_fh(segment, cx.now);
    let verdict = answer_nothing_new(mtcp, flow, segment, cx);
    let all = flow.mh.nxt.at_or_before(segment.ack);
    if verdict == Verdict::Forward {
        mtcp.sh.uplink_open &= !all;
    } else if mtcp.sh.uplink_open && segment.is_empty() && !mtcp.m.is_frozen() {
        // The MH takes no ACK out of a segment that lies before what it has (RFC 9293, 3.10.7.4).
        let made = flow.made_report(segment.ack, SackBlocks::default());
        cx.actions.extend(made);
        mtcp.sh.uplink_open = !all;
    }
    verdict
}

fn answer_nothing_new<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let una = flow.fh.una;
    let sh = &mut mtcp.sh;
    // A challenge ACK and any ACK in turn have SEG.SEQ = SND.NXT and are not answered: no
    // loop. A probe lies before what the MH has acknowledged.
    if segment.is_empty() && !segment.seq.before(una) {
        return Verdict::Forward;
    }
    let told = sh.told;
    match sh.state {
        Window::Shrunk => tell(mtcp, flow, told, 0, cx),
        Window::Recovering => {
            sh.sent_since = sh.sent_since.max(segment.end());
            catch_up(mtcp, flow, cx);
            if mtcp.sh.told == told {
                tell_open(mtcp, flow, told, cx);
            }
        }
        // Its own ACK tells where its `snd_max` is: it did set that back, and answers an ACK
        // beyond it with an ACK, for ever.
        Window::NoShrink if segment.is_empty() && sh.was_shrunk && segment.seq.before(told - 1) => {
            sh.told = segment.seq;
            recover(mtcp, cx);
            tell_open(mtcp, flow, segment.seq, cx);
        }
        Window::NoShrink if segment.is_empty() => {
            // The MH answers, and what it says goes through to the last byte.
            sh.told = una;
            on_probe(mtcp, flow, segment, cx);
            return Verdict::Forward;
        }
        Window::NoShrink => {
            // One that has set `snd_max` back takes no ACK of more than it has sent.
            if sh.was_shrunk && segment.end().before(told) {
                tell_open(mtcp, flow, segment.end(), cx);
            }
            tell_open(mtcp, flow, una, cx);
        }
    }
    Verdict::Suppress
}
