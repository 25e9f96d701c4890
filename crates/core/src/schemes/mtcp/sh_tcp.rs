// SPDX-License-Identifier: Apache-2.0
//! SH-TCP: the half toward the FH (sections 4.1 and 5, figure 4).
//!
//! ```text
//!                wintimer expires, or M-TCP freezes:             new M-TCP ACK, or
//!                ACK of the saved byte, window 0                 the MH is back: window opened
//!   NOSHRINK --------------------------------------> SHRUNK ------------------> RECOVERING
//!    ^  |  ^                                       persist packets                   |
//!    |  |  |                                       answered, window 0                |
//!    +--+  +-------------------------------------------------------------------------+
//!     M-TCP ACK of x: ACK of x - 1            the FH has sent as far as the SH has received
//!     wintimer, and nothing is unacknowledged, or the saved byte is all: ACK, no shrink
//! ```
//!
//! The FH may have set `snd_max` back to `snd_una` when it left persist state; so
//! RECOVERING acknowledges nothing beyond what it has sent since.
//!
//! Where the paper is silent:
//!
//! - a last byte whose ACK cannot be followed by another goes at once: a FIN's, or when the
//!   MH itself has closed its window;
//! - what the FH sends again of what the MH has, or a probe, gets the saved byte, whatever
//!   the timers say: so no sender ever gives up;
//! - nothing is shrunk while the byte that the MH waits for is not in the cache: only the
//!   FH can send it;
//! - the wintimer runs also while a byte is saved and no new segment comes, and does not
//!   shrink when the FH was told of something new within its length: that has set the FH's
//!   own timer anew;
//! - the ACK that opens the window may be lost: it is repeated;
//! - an FH that sends nothing that the MH lacks for the wired half's RTO, its window open, waits
//!   for ACKs of what it has sent before: it has not set `snd_max` back, and RECOVERING ends.

use core::time::Duration;

use holdfast_wire::{Instant, Segment, SeqNum};

use super::{Context, Mtcp, MtcpRelease, MtcpShrink};
use crate::flow::{AckOutcome, Flow};
use crate::rtt::RttEstimator;
use crate::schemes::snoop::Echo;
use crate::{Payload, Verdict};

mod answers;
mod handoff;
mod late;
mod recovering;
mod shrinking;
mod window;

pub(super) use answers::on_nothing_new;
pub(super) use handoff::{close, leave, resume_saving};
use late::{shrinks_late, wake};
use recovering::{catch_up, end_recovering, open_again, recover, reopen, wired_rto};
pub(super) use shrinking::shrink;
use shrinking::{on_wintimer, shrink_at};
use window::{window_at, window_of_mh, within_own};

/// The window state (WS) of figure 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Window {
    #[default]
    NoShrink,
    Shrunk,
    Recovering,
}

/// The receiver that the FH sees.
#[derive(Clone, Debug, Default)]
pub(super) struct ShTcp {
    state: Window,
    /// The FH was sent an ACK of this, and when it last was one of something new.
    told: SeqNum,
    told_at: Option<Instant>,
    /// The right edge of the window that it was shown, where that is SH-TCP's own.
    told_edge: Option<SeqNum>,
    /// The window of the MH's newest segment.
    mh_window: Option<u16>,
    wintimer: Option<Instant>,
    /// RECOVERING: what the FH has sent up to since its window was opened, and how long
    /// that is waited for.
    sent_since: SeqNum,
    recovering_until: Option<Instant>,
    /// It was told of more than it is known to take for sent: so long is a word of it waited
    /// for, before the flow is done.
    unproved_until: Option<Instant>,
    reopen_at: Option<Instant>,
    reopens: u32,
    /// It was SHRUNK before.
    was_shrunk: bool,
    /// From a segment's arrival here to the MH's ACK.
    rtt: RttEstimator,
    timed: Option<(SeqNum, Instant)>,
    /// The round trip between SH and FH, by the FH's echoes of the MH's timestamps.
    wired_rtt: RttEstimator,
    echo: Echo,
    /// A probe of the MH's closed window went to it, and nothing came of it since.
    probed: bool,
    /// The MH has sent data since it was sent an ACK of all of it.
    uplink_open: bool,
    /// The FH has repeated its first segment so often into a freeze, and heard nothing.
    unanswered: u32,
}

impl ShTcp {
    pub(super) const fn state(&self) -> Window {
        self.state
    }

    /// NOSHRINK.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, Window::NoShrink)
    }

    /// The FH was told of everything up to `una`.
    pub(super) fn begin(&mut self, una: SeqNum) {
        *self = Self {
            told: una,
            rtt: self.rtt,
            wired_rtt: self.wired_rtt,
            echo: self.echo,
            ..Self::default()
        };
    }

    /// What the MH acknowledges next may have been sent twice.
    pub(super) const fn forget_timed(&mut self) {
        self.timed = None;
    }

    /// A segment of the FH may echo what was waited for.
    fn hear_fh(&mut self, segment: &Segment, now: Instant) {
        if let Some(rtt) = self.echo.take(segment.options.timestamps, now) {
            self.wired_rtt.sample(rtt);
        }
        if self.told.at_or_before(segment.seq) {
            self.unproved_until = None;
        }
    }

    /// The FH was told of everything up to `una`, and took it, as far as is known.
    pub(super) fn has_told(&self, una: SeqNum) -> bool {
        una.at_or_before(self.told) && self.unproved_until.is_none()
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let all = [
            self.wintimer,
            self.recovering_until,
            self.reopen_at,
            self.unproved_until,
        ];
        all.into_iter().flatten().min()
    }
}

/// Section 5.3.2: RTO of the wireless half, from a segment's arrival here to the MH's ACK.
fn rto<P: Payload>(mtcp: &Mtcp<P>, cx: &Context<'_, P>) -> Duration {
    let rtt = &mtcp.sh.rtt;
    let own = if rtt.srtt().is_some() { rtt } else { cx.rtt };
    own.rto(cx.settings.mtcp.rto_variation_min)
}

/// An ACK of SH-TCP's.
fn tell<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    ack: SeqNum,
    window: u16,
    cx: &mut Context<'_, P>,
) {
    let tsecr = flow.mh.timestamps.map_or(0, |mh| mh.tsecr);
    let made = flow.made_ack(ack, window, tsecr);
    note_told(mtcp, flow, ack, cx.now);
    cx.actions.extend(made);
}

fn tell_open<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    ack: SeqNum,
    cx: &mut Context<'_, P>,
) {
    let window = window_at(mtcp, flow, ack, cx);
    tell(mtcp, flow, ack, window, cx);
}

fn note_told<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, ack: SeqNum, now: Instant) {
    let sh = &mut mtcp.sh;
    if ack.after(sh.told) {
        sh.told = ack;
        sh.told_at = Some(now);
    }
    sh.echo.ask(flow.mh.timestamps, now);
}

/// All of the saved byte's fellows are acknowledged: what the FH may hear of what the MH
/// has. `closed`: the MH offers no window.
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
        mtcp.sh.told.max(una - 1)
    }
}

/// Data of the FH; `is_new` if it was not in the cache.
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
    sh.hear_fh(segment, cx.now);
    if is_new {
        sh.wintimer = Some(cx.now + rto);
        if !is_frozen {
            sh.timed.get_or_insert((segment.end(), cx.now));
        }
    }
    if sh.state != Window::Shrunk {
        // The FH has seen the window open.
        sh.reopen_at = None;
    }
    match sh.state {
        Window::NoShrink if shrinks_late => {
            let told = sh.told;
            shrink_at(mtcp, flow, told, cx);
        }
        Window::NoShrink => on_probe(mtcp, flow, segment, cx),
        // In persist state: a probe has a byte (RFC 9293, 3.8.6.1), kept like any other.
        Window::Shrunk => {
            let told = sh.told;
            tell(mtcp, flow, told, 0, cx);
        }
        Window::Recovering => {
            sh.sent_since = sh.sent_since.max(segment.end());
            sh.recovering_until = Some(cx.now + wait);
            let told = sh.told;
            catch_up(mtcp, flow, cx);
            // It repeats itself: what was said may not have come through.
            if !is_new && mtcp.sh.told == told {
                tell_open(mtcp, flow, told, cx);
            }
        }
    }
}

/// NOSHRINK, and the MH itself offers no window: the FH probes it. Probes go to the MH, and
/// the FH hears of the SH if it does not of the MH.
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
    let unanswered = core::mem::replace(&mut mtcp.sh.probed, true);
    if unanswered || away {
        let told = mtcp.sh.told;
        tell(mtcp, flow, told, 0, cx);
    }
}

/// A byte is saved: the wintimer runs.
fn save<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &Context<'_, P>) {
    if mtcp.sh.state == Window::NoShrink && mtcp.sh.told.before(flow.fh.una) {
        let at = cx.now + rto(mtcp, cx);
        let all = flow.fh.max.at_or_before(flow.fh.una);
        let wintimer = mtcp.sh.wintimer.get_or_insert(at);
        // Nothing is to be shrunk: what was known of the round trip before does not count.
        if all {
            *wintimer = at.min(*wintimer);
        }
    }
}

/// A segment of the MH, after M-TCP took it.
pub(super) fn on_ack<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let una = flow.fh.una;
    (mtcp.sh.probed, mtcp.sh.unanswered) = (false, 0);
    mtcp.sh.uplink_open |= !segment.is_empty();
    if let Some((end, at)) = mtcp.sh.timed
        && end.at_or_before(una)
    {
        mtcp.sh.rtt.sample(cx.now.saturating_since(at));
        mtcp.sh.timed = None;
    }
    let moved = mtcp.sh.mh_window.replace(segment.window) != Some(segment.window);
    let told = mtcp.sh.told;
    match mtcp.sh.state {
        Window::NoShrink => {}
        Window::Shrunk if outcome.acked == 0 => return instead(mtcp, flow, segment, cx),
        Window::Shrunk if cx.settings.mtcp.shrink == MtcpShrink::Late => {
            mtcp.sh.state = Window::NoShrink;
        }
        Window::Shrunk => {
            reopen(mtcp, flow, cx);
            return instead(mtcp, flow, segment, cx);
        }
        Window::Recovering => {
            catch_up(mtcp, flow, cx);
            if moved && mtcp.sh.told == told {
                tell_open(mtcp, flow, told, cx);
            }
            return instead(mtcp, flow, segment, cx);
        }
    }
    if segment.ack.before(una) {
        return Verdict::Forward;
    }
    // What only the FH can send it finds by ACKs of all before it: less a byte it would send
    // one byte less of it.
    let lost_before = flow.fh.max.after(una) && !flow.cache.holds(una);
    let ack = if lost_before {
        una
    } else {
        ack_for_fh(mtcp, flow, segment.window == 0, cx.settings.mtcp.release)
    };
    let window = within_own(mtcp, flow, ack, segment.window, cx);
    let verdict = if !moved && is_ours_to_repair(mtcp, flow, segment, outcome) {
        Verdict::Suppress
    } else if ack == segment.ack && window == segment.window {
        Verdict::Forward
    } else {
        Verdict::ForwardWithAck { ack, window }
    };
    if verdict != Verdict::Suppress {
        note_told(mtcp, flow, ack, cx.now);
    }
    save(mtcp, flow, cx);
    verdict
}

/// With a share of a known capacity the wireless half is M-TCP's alone: of what it loses
/// the FH hears nothing (section 3.1).
fn is_ours_to_repair<P: Payload>(
    mtcp: &Mtcp<P>,
    flow: &Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
) -> bool {
    // Without a window it answers a probe.
    let duplicate = segment.is_empty() && outcome.acked == 0 && segment.window > 0;
    mtcp.m.share.in_cell
        && duplicate
        && flow.fh.max.after(flow.fh.una)
        && flow.cache.holds(flow.fh.una)
}

/// What goes to the FH in place of the MH's segment, with an ACK of what the FH was told:
/// nothing, if that has no more to say than an ACK.
fn instead<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &Context<'_, P>,
) -> Verdict {
    if segment.is_empty() {
        return Verdict::Suppress;
    }
    let ack = mtcp.sh.told;
    let window = match mtcp.sh.state {
        Window::Shrunk => 0,
        // Its own may be an older one.
        _ => window_at(mtcp, flow, ack, cx),
    };
    note_told(mtcp, flow, ack, cx.now);
    Verdict::ForwardWithAck { ack, window }
}

/// The MH is back.
pub(super) fn on_reconnected<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    mtcp.sh.timed = None;
    let late = cx.settings.mtcp.shrink == MtcpShrink::Late;
    match mtcp.sh.state {
        Window::Shrunk if !late => reopen(mtcp, flow, cx),
        Window::Shrunk | Window::NoShrink if late => wake(mtcp, flow, cx),
        _ => {}
    }
}

/// Something may be due.
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
        if mtcp.sh.state != Window::Shrunk {
            open_again(mtcp, flow, cx);
        }
    }
}
