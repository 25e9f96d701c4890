// SPDX-License-Identifier: Apache-2.0
//! SH-TCP: the half toward the FH (sections 4.1 and 5, figure 4).
//!
//! ```text
//!                wintimer expires, or M-TCP freezes:             new M-TCP ACK, or
//!                ACK of the saved byte, window 0                 link up: window opened
//!   NOSHRINK --------------------------------------> SHRUNK ------------------> RECOVERING
//!    ^  |  ^                                       persist packets                   |
//!    |  |  |                                       answered, window 0                |
//!    +--+  +-------------------------------------------------------------------------+
//!     M-TCP ACK of x: ACK of x - 1            the FH has sent as far as the SH has received
//!     wintimer, and nothing is unacknowledged, or the saved byte is all: ACK, no shrink
//! ```
//!
//! The FH may have set `snd_max` back to `snd_una` when it left persist state. So RECOVERING
//! acknowledges nothing beyond what it has sent since.
//!
//! Where the paper is silent:
//!
//! - the ACK of a last byte is sent at once if no other ACK can follow it: a FIN's, or when the MH
//!   itself has closed its window by that ACK;
//! - if the FH retransmits what the MH has, or probes, it gets the ACK of the saved byte, whatever
//!   the timers are: so no sender gives up;
//! - the window is not shrunk while the byte that the MH waits for is not in the cache: only the
//!   FH can send it;
//! - the wintimer also runs while a byte is saved and no new segment arrives. It does not shrink if
//!   the FH got a new ACK within its length, because that ACK restarted the FH's own timer;
//! - the ACK that opens the window may be lost: it is repeated;
//! - an FH with an open window that sends nothing new for the wired half's RTO waits for ACKs of
//!   what it has sent before. So it has not set `snd_max` back, and RECOVERING ends. It does not
//!   end if the FH lacks an ACK of what it has sent since.

use core::time::Duration;

use holdfast_wire::{Instant, Segment, SeqNum};

use super::{Context, Mtcp, MtcpRelease, MtcpShrink};
use crate::flow::{AckOutcome, Flow};
use crate::rtt::RttEstimator;
use crate::schemes::snoop::EchoTimer;
use crate::timers::earliest;
use crate::{Payload, Verdict};

mod answers;
mod handoff;
mod idle;
mod late;
mod recovering;
mod shrinking;
mod window;

pub(super) use idle::Idle;

pub(super) use answers::on_nothing_new;
pub(super) use handoff::{close, leave, resume_saving};
use late::{shrinks_late, wake};
use recovering::{catch_up, end_recovering, open_again, recover, reopen, wired_rto};
pub(super) use shrinking::shrink;
use shrinking::{on_wintimer, shrink_at};
use window::{window_at, window_of_mh, within_own};

/// The window state (WS) of figure 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WindowState {
    #[default]
    NoShrink,
    Shrunk,
    Recovering,
}

/// The receiver that the FH sees.
#[derive(Clone, Debug, Default)]
pub(super) struct ShTcp {
    state: WindowState,
    /// The highest ACK that the FH was sent, and when it was sent first.
    acked: SeqNum,
    acked_at: Option<Instant>,
    /// The right edge of the window in that ACK, if the window is SH-TCP's own.
    acked_edge: Option<SeqNum>,
    /// The window of the MH's newest segment.
    mh_window: Option<u16>,
    wintimer: Option<Instant>,
    /// RECOVERING: the end of what the FH has sent since its window was opened, and how long the SH
    /// waits for more.
    sent_since: SeqNum,
    recovering_until: Option<Instant>,
    /// The FH was sent an ACK beyond what it is known to have sent. The flow is not closed before the
    /// FH shows that it accepts that ACK, or before this time.
    unproved_until: Option<Instant>,
    reopen_at: Option<Instant>,
    reopens: u32,
    was_shrunk: bool,
    /// The round trip from a segment's arrival here to the MH's ACK.
    rtt: RttEstimator,
    timed_segment: Option<(SeqNum, Instant)>,
    /// The round trip between SH and FH, by the FH's echoes of the MH's timestamps.
    wired_rtt: RttEstimator,
    echo: EchoTimer,
    /// A probe of the MH's closed window was sent to the MH, without an answer yet.
    probe_is_unanswered: bool,
    /// The MH has sent data since it got an ACK of all of it.
    uplink_open: bool,
    /// How often the FH has retransmitted its first segment into a freeze without an answer.
    unanswered: u32,
}

impl ShTcp {
    pub(super) const fn state(&self) -> WindowState {
        self.state
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, WindowState::NoShrink)
    }

    /// The highest ACK that the FH was sent.
    pub(super) const fn acked(&self) -> SeqNum {
        self.acked
    }

    /// The FH has an ACK of everything up to `una`.
    pub(super) fn begin(&mut self, una: SeqNum) {
        *self = Self {
            acked: una,
            rtt: self.rtt,
            wired_rtt: self.wired_rtt,
            echo: self.echo,
            ..Self::default()
        };
    }

    /// The next segment that the MH acknowledges may have been sent twice.
    pub(super) const fn forget_timed(&mut self) {
        self.timed_segment = None;
    }

    /// Handles a segment of the FH, which may have the awaited echo.
    fn on_fh_segment(&mut self, segment: &Segment, now: Instant) {
        if let Some(rtt) = self.echo.handle_reply(segment.options.timestamps, now) {
            self.wired_rtt.sample(rtt);
        }
        if self.acked.at_or_before(segment.seq) {
            self.unproved_until = None;
        }
    }

    /// True if the FH has an ACK of everything up to `una`, and accepts it as far as is known.
    pub(super) fn has_acked(&self, una: SeqNum) -> bool {
        una.at_or_before(self.acked) && self.unproved_until.is_none()
    }

    /// The next deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let all = [
            self.wintimer,
            self.recovering_until,
            self.reopen_at,
            self.unproved_until,
        ];
        earliest(all)
    }
}

/// Section 5.3.2: RTO of the wireless half, from a segment's arrival here to the MH's ACK.
fn rto<P: Payload>(mtcp: &Mtcp<P>, cx: &Context<'_, P>) -> Duration {
    let rtt = &mtcp.sh.rtt;
    let own = if rtt.srtt().is_some() { rtt } else { cx.rtt() };
    own.rto(cx.settings.mtcp.rto_variation_min)
}

/// Sends an ACK to the FH.
fn send_ack<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    ack: SeqNum,
    window: u16,
    cx: &mut Context<'_, P>,
) {
    let tsecr = flow.mh.timestamps.map_or(0, |mh| mh.tsecr);
    let made = flow.made_ack(ack, window, tsecr);
    note_acked(mtcp, flow, ack, cx.now);
    cx.actions.extend(made);
}

/// Sends an ACK to the FH with the window that it may use.
fn send_open_ack<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    ack: SeqNum,
    cx: &mut Context<'_, P>,
) {
    let window = window_at(mtcp, flow, ack, cx);
    send_ack(mtcp, flow, ack, window, cx);
}

fn note_acked<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, ack: SeqNum, now: Instant) {
    let sh = &mut mtcp.sh;
    if ack.after(sh.acked) {
        sh.acked = ack;
        sh.acked_at = Some(now);
    }
    sh.echo.on_passed(flow.mh.timestamps, now);
}

/// The ACK that the FH may get of what the MH has: without the saved byte, unless it must be
/// released. `closed`: the MH's window is 0.
fn ack_for_fh<P: Payload>(
    mtcp: &Mtcp<P>,
    flow: &Flow<P>,
    closed: bool,
    release: MtcpRelease,
) -> SeqNum {
    let una = flow.fh.una;
    let all = flow.fh.max.at_or_before(una);
    let fin = flow.fh.fin.is_some_and(|fin| fin.at_or_before(una));
    if fin || (all && (closed || release == MtcpRelease::AtOnce)) {
        una
    } else {
        mtcp.sh.acked.max(una - 1)
    }
}

/// Handles data of the FH; `is_new` if it was not in the cache.
pub(super) fn on_data<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    is_new: bool,
    cx: &mut Context<'_, P>,
) {
    let rto = rto(mtcp, cx);
    let wait = wired_rto(mtcp, cx);
    let shrinks_late = shrinks_late(mtcp, flow, segment, is_new, cx);
    let is_frozen = mtcp.m.is_frozen();
    let sh = &mut mtcp.sh;
    sh.on_fh_segment(segment, cx.now);
    if is_new {
        sh.wintimer = Some(cx.now + rto);
        if !is_frozen {
            sh.timed_segment.get_or_insert((segment.end(), cx.now));
        }
    }
    if sh.state != WindowState::Shrunk {
        // The FH has seen the open window.
        sh.reopen_at = None;
    }
    match sh.state {
        WindowState::NoShrink if shrinks_late => {
            let acked = sh.acked;
            shrink_at(mtcp, flow, acked, cx);
        }
        WindowState::NoShrink => on_probe(mtcp, flow, segment, cx),
        // In persist state: a probe has a byte (RFC 9293, 3.8.6.1), which is cached like any other.
        WindowState::Shrunk => {
            let acked = sh.acked;
            send_ack(mtcp, flow, acked, 0, cx);
        }
        WindowState::Recovering => {
            sh.sent_since = sh.sent_since.max(segment.end());
            sh.recovering_until = Some(cx.now + wait);
            let acked = sh.acked;
            catch_up(mtcp, flow, cx);
            // The FH retransmits: the last ACK may have been lost.
            if !is_new && mtcp.sh.acked == acked {
                send_open_ack(mtcp, flow, acked, cx);
            }
        }
    }
}

/// NOSHRINK, and the MH's own window is closed: the FH probes it. Probes go to the MH. If the MH does
/// not answer, the SH does.
fn on_probe<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) {
    let una = flow.fh.una;
    if !mtcp.m.closed || segment.seq.after(una) {
        return;
    }
    let away = mtcp.m.is_frozen();
    let unanswered = core::mem::replace(&mut mtcp.sh.probe_is_unanswered, true);
    if unanswered || away {
        let acked = mtcp.sh.acked;
        send_ack(mtcp, flow, acked, 0, cx);
    }
}

/// Starts the wintimer if a byte is saved.
fn save<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &Context<'_, P>) {
    if mtcp.sh.state == WindowState::NoShrink && mtcp.sh.acked.before(flow.fh.una) {
        let at = cx.now + rto(mtcp, cx);
        let all = flow.fh.max.at_or_before(flow.fh.una);
        let wintimer = mtcp.sh.wintimer.get_or_insert(at);
        // Nothing can be shrunk, so an earlier estimate of the round trip does not count.
        if all {
            *wintimer = at.min(*wintimer);
        }
    }
}

/// Handles a segment of the MH, after M-TCP.
pub(super) fn on_ack<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let una = flow.fh.una;
    (mtcp.sh.probe_is_unanswered, mtcp.sh.unanswered) = (false, 0);
    mtcp.sh.uplink_open |= !segment.is_empty();
    if let Some((end, at)) = mtcp.sh.timed_segment
        && end.at_or_before(una)
    {
        mtcp.sh.rtt.sample(cx.now.saturating_since(at));
        mtcp.sh.timed_segment = None;
    }
    let window_moved = mtcp.sh.mh_window.replace(segment.window) != Some(segment.window);
    match mtcp.sh.state {
        WindowState::NoShrink => on_ack_open(mtcp, flow, segment, outcome, window_moved, cx),
        WindowState::Shrunk => on_ack_shrunk(mtcp, flow, segment, outcome, window_moved, cx),
        WindowState::Recovering => on_ack_recovering(mtcp, flow, segment, window_moved, cx),
    }
}

/// The FH's window is closed: an ACK of new data opens it.
fn on_ack_shrunk<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    window_moved: bool,
    cx: &mut Context<'_, P>,
) -> Verdict {
    if outcome.acked == 0 {
        return with_last_ack(mtcp, flow, segment, cx);
    }
    if cx.settings.mtcp.shrink == MtcpShrink::Late {
        mtcp.sh.state = WindowState::NoShrink;
        return on_ack_open(mtcp, flow, segment, outcome, window_moved, cx);
    }
    reopen(mtcp, flow, cx);
    with_last_ack(mtcp, flow, segment, cx)
}

/// The FH retransmits after an outage: the SH makes the ACKs for it.
fn on_ack_recovering<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    window_moved: bool,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let acked = mtcp.sh.acked;
    catch_up(mtcp, flow, cx);
    if window_moved && mtcp.sh.acked == acked {
        send_open_ack(mtcp, flow, acked, cx);
    }
    with_last_ack(mtcp, flow, segment, cx)
}

/// The FH's window is open: the MH's segment goes to the FH with an ACK that is one byte lower.
fn on_ack_open<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    window_moved: bool,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let una = flow.fh.una;
    if segment.ack.before(una) {
        return Verdict::Forward;
    }
    // The segment at SND.UNA is not cached, so only the FH can retransmit it: the FH receives the
    // true ACK. An ACK that is one byte lower would make it retransmit from that byte on.
    let is_lost_before = flow.fh.max.after(una) && !flow.cache.holds(una);
    let ack = if is_lost_before {
        una
    } else {
        // A duplicate ACK with a window of 0 may be older than the one that opened the window. With
        // the saved byte's ACK it would make a BSD FH close its window and wait for a new ACK.
        let closed = segment.window == 0 && outcome.acked > 0;
        ack_for_fh(mtcp, flow, closed, cx.settings.mtcp.release)
    };
    let window = within_own(mtcp, flow, ack, segment.window, cx);
    let verdict = if !window_moved && is_ours_to_retransmit(mtcp, flow, segment, outcome) {
        Verdict::Suppress
    } else if ack == segment.ack && window == segment.window {
        Verdict::Forward
    } else {
        Verdict::ForwardWithAck { ack, window }
    };
    if verdict != Verdict::Suppress {
        note_acked(mtcp, flow, ack, cx.now);
    }
    save(mtcp, flow, cx);
    verdict
}

/// With a share of a cell, M-TCP alone retransmits what the wireless half loses: the FH gets no
/// duplicate ACKs (section 3.1).
fn is_ours_to_retransmit<P: Payload>(
    mtcp: &Mtcp<P>,
    flow: &Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
) -> bool {
    // An ACK without a window answers a probe.
    let duplicate = segment.is_empty() && outcome.acked == 0 && segment.window > 0;
    mtcp.m.share.in_cell
        && duplicate
        && flow.fh.max.after(flow.fh.una)
        && flow.cache.holds(flow.fh.una)
}

/// The MH's segment with the last ACK that the FH was sent. A pure ACK is suppressed.
fn with_last_ack<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &Context<'_, P>,
) -> Verdict {
    if segment.is_empty() {
        return Verdict::Suppress;
    }
    let ack = mtcp.sh.acked;
    let window = match mtcp.sh.state {
        WindowState::Shrunk => 0,
        // The window in the segment may be an older one.
        _ => window_at(mtcp, flow, ack, cx),
    };
    note_acked(mtcp, flow, ack, cx.now);
    Verdict::ForwardWithAck { ack, window }
}

/// Link up.
pub(super) fn on_reconnected<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    mtcp.sh.timed_segment = None;
    let late = cx.settings.mtcp.shrink == MtcpShrink::Late;
    match mtcp.sh.state {
        WindowState::Shrunk if !late => reopen(mtcp, flow, cx),
        WindowState::Shrunk | WindowState::NoShrink if late => wake(mtcp, flow, cx),
        _ => {}
    }
}

/// Handles the timers that are due.
pub(super) fn on_timeout<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let due = |at: Option<Instant>| at.is_some_and(|at| at <= cx.now);
    if due(mtcp.sh.unproved_until) {
        mtcp.sh.unproved_until = None;
    }
    let (wintimer, recovering, reopening) = {
        let sh = &mtcp.sh;
        (
            due(sh.wintimer),
            due(sh.recovering_until),
            due(sh.reopen_at),
        )
    };
    if wintimer {
        on_wintimer(mtcp, flow, cx);
    }
    if recovering {
        end_recovering(mtcp, flow, cx);
    }
    if reopening {
        mtcp.sh.reopen_at = None;
        if mtcp.sh.state != WindowState::Shrunk {
            open_again(mtcp, flow, cx);
        }
    }
}
