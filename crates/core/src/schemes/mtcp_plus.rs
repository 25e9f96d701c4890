// SPDX-License-Identifier: Apache-2.0
//! M-TCP+ (M. Omueti and Lj. Trajković, "M-TCP+: using disconnection feedback to
//! improve performance of TCP in wired/wireless networks", 2007), at the IH.
//!
//! Connected, it is `hold`: a copy of each segment is kept, ACKs pass as received.
//! On disconnection the FH gets an ACK of the last segment received, with `rwnd` 0,
//! which acknowledges all that is outstanding; so does what still arrives. With
//! nothing outstanding the FH goes into persist state, and its probes are answered.
//! On reconnection it gets the true window and goes on with the `cwnd` it had.
//!
//! ```text
//!              disconnected            reconnected             MH has acknowledged
//!   CONNECTED ---------------> FROZEN --------------> OWING --------------------> CONNECTED
//!      ^      ACK all, rwnd 0    |  ACK, true rwnd      |    all that was owed
//!      |                         |  (repeated)          | disconnected
//!      |                         +<---------------------+
//! ```
//!
//! Where the paper is silent: nothing is acknowledged across a hole; a FIN is not
//! acknowledged, so that closing stays end to end; a flow whose window scale is not
//! known, or none of whose uplink headers could be copied, is served as `hold`.
//!
//! Where it departs from the paper: nothing is acknowledged sooner than the MH could
//! have done it ([`acknowledge_later`]).

use core::time::Duration;

use holdfast_wire::{Instant, Segment, SeqNum};

use crate::flow::{Flow, Stage};
use crate::{Action, Actions, Payload, Verdict};

/// The ACK that opens the window is repeated so often at most until the FH sends
/// something new: it may be lost, and a persist timer is long (RFC 9293, 3.8.6.1).
const REOPEN_REPEATS: u32 = 6;
/// The wait before its first repetition; it doubles.
const REOPEN_INTERVAL: Duration = Duration::from_millis(100);

/// How far the FH was told more than the MH said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    /// The FH is held in persist state.
    pub frozen: bool,
    /// The gateway is about to leave: nothing further is acknowledged ahead.
    pub draining: bool,
    /// Acknowledged to the FH up to here, ahead of the MH.
    pub owed: Option<SeqNum>,
    /// Since when bytes are owed.
    pub owed_since: Option<Instant>,
    /// The FH has been told of a window of 0.
    closed: bool,
    /// How long bytes are kept before they are acknowledged ahead.
    wait: Duration,
    /// The next ACK ahead of the MH, and what it acknowledges at most.
    pub acknowledge_at: Option<Instant>,
    acknowledge_to: SeqNum,
    /// The next repetition of the ACK that opens the window.
    pub reopen_at: Option<Instant>,
    reopens: u32,
    /// The timestamp that the FH was last given an echo of.
    echo: Option<u32>,
}

impl Ahead {
    /// From now on the FH is to be held in persist state.
    pub(super) fn freeze(&mut self) {
        self.frozen = true;
        self.closed = self.reopen_at.take().is_some();
    }
}

/// Whether ACKs can be made for the flow.
pub(super) fn serves<P: Payload>(flow: &Flow<P>) -> bool {
    flow.stage == Stage::Open && flow.mh.window_scale.is_some() && flow.uplink_header.is_some()
}

/// What the FH takes for SND.UNA.
fn acknowledged<P: Payload>(flow: &Flow<P>) -> SeqNum {
    flow.ahead
        .owed
        .map_or(flow.fh.una, |owed| owed.max(flow.fh.una))
}

/// Everything kept is acknowledged, but not before a segment could have reached the MH
/// and its ACK come back: BBR would take the short way to the gateway for the path's,
/// and its `cwnd` would be made for that.
fn acknowledge_later<P: Payload>(flow: &mut Flow<P>, now: Instant, actions: &mut Actions<P>) {
    if flow.ahead.wait.is_zero() {
        let end = flow.cache.contiguous_end(acknowledged(flow));
        acknowledge(flow, end, actions);
    } else if flow.ahead.acknowledge_at.is_none() {
        flow.ahead.acknowledge_at = Some(now + flow.ahead.wait);
        flow.ahead.acknowledge_to = flow.cache.end().unwrap_or(flow.fh.una);
    }
}

/// The ACK of what is kept up to the first hole and up to `limit`, with a window of 0.
fn acknowledge<P: Payload>(flow: &mut Flow<P>, limit: SeqNum, actions: &mut Actions<P>) {
    let from = acknowledged(flow);
    let to = if flow.ahead.draining {
        from
    } else {
        flow.cache.contiguous_end(from).min(limit).max(from)
    };
    // RFC 7323, 4.3: the echo is of the segment at the left edge of what is
    // acknowledged; of the last one echoed if that is nothing.
    let echo = if to == from {
        None
    } else {
        flow.cache.tsval_at(from)
    };
    let tsecr = echo.unwrap_or(last_echo(flow));
    let Some(ack) = flow.made_ack(to, 0, tsecr) else {
        return;
    };
    flow.ahead.echo = Some(tsecr);
    flow.ahead.closed = true;
    let owed = to.after(flow.fh.una).then_some(to);
    // The record first: a crash between the two must not forget what is owed.
    if owed != flow.ahead.owed {
        flow.ahead.owed = owed;
        actions.push(Action::Record(flow.record()));
    }
    actions.push(ack);
}

/// The ACK of what was acknowledged already, with a window of 0.
pub(super) fn acknowledge_again<P: Payload>(flow: &mut Flow<P>, actions: &mut Actions<P>) {
    let again = acknowledged(flow);
    acknowledge(flow, again, actions);
}

/// The timestamp that the FH was last given an echo of.
fn last_echo<P: Payload>(flow: &Flow<P>) -> u32 {
    let by_mh = flow.mh.timestamps.map(|mh| mh.tsecr);
    flow.ahead.echo.or(by_mh).unwrap_or_default()
}

/// The ACK of what was acknowledged already, with the true window.
fn open_window<P: Payload>(flow: &Flow<P>) -> Option<Action<P>> {
    flow.made_ack(acknowledged(flow), true_window(flow), last_echo(flow))
}

/// The window that the MH has offered beyond what was acknowledged.
fn true_window<P: Payload>(flow: &Flow<P>) -> u16 {
    let (Some(edge), Some(shift)) = (flow.mh.right_edge, flow.mh.window_scale) else {
        return 0;
    };
    u16::try_from(edge.distance_from(acknowledged(flow)) >> shift).unwrap_or(u16::MAX)
}

/// `wait`: the shortest round trip between gateway and MH.
pub(super) fn on_disconnected<P: Payload>(
    flow: &mut Flow<P>,
    wait: Duration,
    now: Instant,
    actions: &mut Actions<P>,
) {
    if serves(flow) && !flow.ahead.draining && !flow.is_in_doubt() {
        flow.ahead.freeze();
        flow.ahead.wait = wait;
        acknowledge_later(flow, now, actions);
    }
}

pub(super) fn on_kept<P: Payload>(flow: &mut Flow<P>, now: Instant, actions: &mut Actions<P>) {
    if flow.ahead.frozen {
        acknowledge_later(flow, now, actions);
    } else {
        // Something new: the FH has seen the window open.
        flow.ahead.reopen_at = None;
    }
}

pub(super) fn on_nothing_new<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    actions: &mut Actions<P>,
) -> Verdict {
    // A challenge ACK (RFC 5961) and any ACK in turn have SEG.SEQ = SND.NXT and are
    // not answered: no loop. A probe lies before what the FH has an ACK for.
    let behind = segment.seq.before(acknowledged(flow));
    if flow.ahead.frozen && (behind || !segment.is_empty()) {
        // No sooner acknowledged for that.
        acknowledge_again(flow, actions);
    } else if flow.ahead.owed.is_some() && behind {
        // The ACK that opens the window was lost, or is still under way. Nothing more
        // is acknowledged ahead: the link carries.
        actions.extend(open_window(flow));
    } else {
        return Verdict::Forward;
    }
    Verdict::Suppress
}

pub(super) fn on_mh_segment<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    actions: &mut Actions<P>,
) -> Verdict {
    if flow
        .ahead
        .owed
        .is_some_and(|owed| owed.at_or_before(flow.fh.una))
    {
        flow.ahead.owed = None;
        flow.ahead.owed_since = None;
        flow.ahead.echo = None;
        actions.push(Action::Record(flow.record()));
    }
    // An ACK that was under way when the link went would open the window again.
    if flow.ahead.frozen && flow.ahead.closed && segment.is_empty() {
        Verdict::Suppress
    } else {
        Verdict::Forward
    }
}

pub(super) fn on_reconnected<P: Payload>(
    flow: &mut Flow<P>,
    now: Instant,
    actions: &mut Actions<P>,
) {
    flow.ahead.acknowledge_at = None;
    if core::mem::take(&mut flow.ahead.frozen) && flow.ahead.closed {
        flow.ahead.reopens = 0;
        reopen(flow, now, actions);
    }
}

pub(super) fn on_timeout<P: Payload>(flow: &mut Flow<P>, now: Instant, actions: &mut Actions<P>) {
    if flow.ahead.acknowledge_at.is_some_and(|at| at <= now) {
        flow.ahead.acknowledge_at = None;
        let limit = flow.ahead.acknowledge_to;
        acknowledge(flow, limit, actions);
        // What came since waits as long from now on.
        if flow.cache.end().is_some_and(|end| end.after(limit)) {
            acknowledge_later(flow, now, actions);
        }
    }
    if flow.ahead.reopen_at.is_some_and(|at| at <= now) && !flow.ahead.frozen {
        reopen(flow, now, actions);
    }
}

fn reopen<P: Payload>(flow: &mut Flow<P>, now: Instant, actions: &mut Actions<P>) {
    actions.extend(open_window(flow));
    let again = flow.ahead.reopens < REOPEN_REPEATS;
    flow.ahead.reopen_at = again.then(|| now + REOPEN_INTERVAL * (1 << flow.ahead.reopens));
    flow.ahead.reopens += 1;
}
