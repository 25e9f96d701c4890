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
//! have done it ([`MtcpPlus::acknowledge_later`]).

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::{Context, FlowScheme};
use crate::cache::Insertion;
use crate::flow::{AckOutcome, Flow, Stage};
use crate::timers::earliest;
use crate::{Action, Payload, Settings, Verdict};

/// The ACK that opens the window is repeated this many times at most, until the FH sends something
/// new. The ACK may be lost, and a persist timer is long (RFC 9293, 3.8.6.1).
const REOPEN_REPEATS: u32 = 6;
/// The wait before its first repetition; it doubles.
const REOPEN_INTERVAL: Duration = Duration::from_millis(100);

/// What was acknowledged to the FH ahead of the MH, and when the window opens again. The bytes
/// that are owed are the flow's [`owed`](Flow::owed).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MtcpPlus {
    /// The FH was sent a window of 0.
    closed: bool,
    /// How long bytes are cached before they are acknowledged ahead.
    wait: Duration,
    /// The next ACK ahead of the MH, and what it acknowledges at most.
    acknowledge_at: Option<Instant>,
    acknowledge_to: SeqNum,
    /// The next repetition of the ACK that opens the window.
    reopen_at: Option<Instant>,
    reopens: u32,
    /// The timestamp that was last echoed to the FH.
    echo: Option<u32>,
}

/// What is left of that while a flow is idle: the timestamp that was last echoed to the FH.
pub(crate) struct IdleMtcpPlus(Option<u32>);

/// Whether ACKs can be made for the flow.
pub(super) fn serves<P: Payload>(flow: &Flow<P>) -> bool {
    flow.stage == Stage::Open && flow.mh.window_scale.is_some() && flow.uplink_header.is_some()
}

/// What the FH takes for SND.UNA.
fn acknowledged<P: Payload>(flow: &Flow<P>) -> SeqNum {
    flow.owed.map_or(flow.fh.una, |owed| owed.max(flow.fh.una))
}

/// The window that the MH has offered beyond what was acknowledged.
fn true_window<P: Payload>(flow: &Flow<P>) -> u16 {
    let (Some(edge), Some(shift)) = (flow.mh.right_edge, flow.mh.window_scale) else {
        return 0;
    };
    u16::try_from(edge.distance_from(acknowledged(flow)) >> shift).unwrap_or(u16::MAX)
}

impl MtcpPlus {
    /// The state of a flow that is idle. `None`: a timer runs.
    pub(super) fn pack(&self) -> Option<IdleMtcpPlus> {
        let is_idle = self.acknowledge_at.is_none() && self.reopen_at.is_none();
        is_idle.then_some(IdleMtcpPlus(self.echo))
    }

    /// The state of a flow that was idle.
    pub(super) fn unpack(idle: IdleMtcpPlus) -> Self {
        Self {
            echo: idle.0,
            ..Self::default()
        }
    }

    /// From now on the FH is to be held in persist state.
    pub(super) fn freeze<P: Payload>(&mut self, flow: &mut Flow<P>) {
        flow.in_persist = true;
        self.closed = self.reopen_at.take().is_some();
    }

    /// Acknowledges everything cached, but no sooner than a segment could have reached the MH and
    /// its ACK returned. Otherwise BBR would take the round trip to the gateway for the path's, and
    /// set its `cwnd` for that.
    fn acknowledge_later<P: Payload>(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if self.wait.is_zero() {
            let end = flow.cache.contiguous_end(acknowledged(flow));
            self.acknowledge(flow, end, cx);
        } else if self.acknowledge_at.is_none() {
            self.acknowledge_at = Some(cx.now + self.wait);
            self.acknowledge_to = flow.cache.end().unwrap_or(flow.fh.una);
        }
    }

    /// The ACK of what is cached up to the first hole and up to `limit`, with a window of 0.
    fn acknowledge<P: Payload>(
        &mut self,
        flow: &mut Flow<P>,
        limit: SeqNum,
        cx: &mut Context<'_, P>,
    ) {
        let from = acknowledged(flow);
        let to = if cx.draining {
            from
        } else {
            flow.cache.contiguous_end(from).min(limit).max(from)
        };
        // RFC 7323, 4.3: the echo is of the segment at the left edge of what is acknowledged. If
        // nothing new is acknowledged, the last echo is repeated.
        let echo = if to == from {
            None
        } else {
            flow.cache.tsval_at(from)
        };
        let tsecr = echo.unwrap_or(self.last_echo(flow));
        let Some(ack) = flow.made_ack(to, 0, tsecr) else {
            return;
        };
        self.echo = Some(tsecr);
        self.closed = true;
        let owed = to.after(flow.fh.una).then_some(to);
        // The record comes first: a crash between the two must not lose the owed bytes.
        if owed != flow.owed {
            flow.owed = owed;
            cx.actions.push(Action::Record(flow.record()));
        }
        cx.actions.push(ack);
    }

    /// The ACK of what was acknowledged already, with a window of 0.
    pub(super) fn acknowledge_again<P: Payload>(
        &mut self,
        flow: &mut Flow<P>,
        cx: &mut Context<'_, P>,
    ) {
        let again = acknowledged(flow);
        self.acknowledge(flow, again, cx);
    }

    /// The timestamp that was last echoed to the FH.
    fn last_echo<P: Payload>(&self, flow: &Flow<P>) -> u32 {
        let by_mh = flow.mh.timestamps.map(|mh| mh.tsecr);
        self.echo.or(by_mh).unwrap_or_default()
    }

    /// The ACK of what was acknowledged already, with the true window.
    fn open_window<P: Payload>(&self, flow: &Flow<P>) -> Option<Action<P>> {
        flow.made_ack(acknowledged(flow), true_window(flow), self.last_echo(flow))
    }

    fn reopen<P: Payload>(&mut self, flow: &Flow<P>, cx: &mut Context<'_, P>) {
        cx.actions.extend(self.open_window(flow));
        let again = self.reopens < REOPEN_REPEATS;
        self.reopen_at = again.then(|| cx.now + REOPEN_INTERVAL * (1 << self.reopens));
        self.reopens += 1;
    }
}

impl<P: Payload> FlowScheme<P> for MtcpPlus {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn on_disconnected(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if serves(flow) && !cx.draining && !flow.is_in_doubt() {
            self.freeze(flow);
            self.wait = cx.rtt().least().unwrap_or_default();
            self.acknowledge_later(flow, cx);
        }
    }

    fn on_data(
        &mut self,
        _flow: &mut Flow<P>,
        segment: &Segment,
        insertion: Insertion,
        _cx: &mut Context<'_, P>,
    ) {
        let is_new = matches!(insertion, Insertion::Cached { new_bytes } if new_bytes > 0);
        if is_new || (insertion != Insertion::Full && segment.flags.has(Flags::FIN)) {
            self.reopen_at = None;
        }
    }

    fn on_queued(&mut self, flow: &mut Flow<P>, _segment: &Segment, cx: &mut Context<'_, P>) {
        if flow.in_persist {
            self.acknowledge_later(flow, cx);
        } else {
            // Something new: the FH has seen the window open.
            self.reopen_at = None;
        }
    }

    fn on_nothing_new(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        // A challenge ACK (RFC 5961) and any ACK in turn have SEG.SEQ = SND.NXT and are
        // not answered: no loop. A probe lies before what the FH has an ACK for.
        let behind = segment.seq.before(acknowledged(flow));
        if flow.in_persist && (behind || !segment.is_empty()) {
            // A copy or a probe makes nothing acknowledged sooner.
            self.acknowledge_again(flow, cx);
        } else if flow.owed.is_some() && behind {
            // The ACK that opens the window was lost, or is still in flight. Nothing more is
            // acknowledged ahead: the link is up.
            cx.actions.extend(self.open_window(flow));
        } else {
            return Verdict::Forward;
        }
        Verdict::Suppress
    }

    fn on_mh_segment(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        _outcome: &AckOutcome,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        let una = flow.fh.una;
        if flow.owed.is_some_and(|owed| owed.at_or_before(una)) {
            (flow.owed, flow.owed_since) = (None, None);
            self.echo = None;
            cx.actions.push(Action::Record(flow.record()));
        }
        // An ACK that was in flight when the link went down would open the window again.
        if flow.in_persist && self.closed && segment.is_empty() {
            Verdict::Suppress
        } else {
            Verdict::Forward
        }
    }

    fn on_reconnected(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        self.acknowledge_at = None;
        if core::mem::take(&mut flow.in_persist) && self.closed {
            self.reopens = 0;
            self.reopen(flow, cx);
        }
    }

    fn on_timeout(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if self.acknowledge_at.is_some_and(|at| at <= cx.now) {
            self.acknowledge_at = None;
            let limit = self.acknowledge_to;
            self.acknowledge(flow, limit, cx);
            // What arrived since then waits for the same time, from now on.
            if flow.cache.end().is_some_and(|end| end.after(limit)) {
                self.acknowledge_later(flow, cx);
            }
        }
        if self.reopen_at.is_some_and(|at| at <= cx.now) && !flow.in_persist {
            self.reopen(flow, cx);
        }
    }

    fn next_timeout(&self, _flow: &Flow<P>, _settings: &Settings) -> Option<Instant> {
        let timers = [self.reopen_at, self.acknowledge_at];
        earliest(timers)
    }

    fn acked_to_fh(&self, flow: &Flow<P>) -> SeqNum {
        acknowledged(flow)
    }

    fn state(&self, flow: &Flow<P>) -> Option<&'static str> {
        match (flow.in_persist, flow.owed) {
            (true, _) => Some("frozen"),
            (false, Some(_)) => Some("owing"),
            (false, None) => None,
        }
    }
}
