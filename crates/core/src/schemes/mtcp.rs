// SPDX-License-Identifier: Apache-2.0
//! M-TCP (K. Brown and S. Singh, "M-TCP: TCP for mobile cellular networks", 1997) at the
//! supervisor host (SH): the connection is split in two, and no byte is acknowledged to the
//! FH before the MH has it.
//!
//! - [`sh_tcp`] is the half toward the FH: all but the last byte that the MH has
//!   acknowledged is acknowledged to the FH; that byte is kept for the ACK that shrinks the
//!   FH's window to 0 when the MH is gone, and for the one that opens it (figure 4).
//! - [`m_tcp`] is the half toward the MH: what the FH sends goes out of the cache, at the
//!   rate that was assigned; a timeout freezes it instead of shrinking its window, until the
//!   MH is heard again (figure 5).
//!
//! Set-up is in lock-step (section 5.3.1): SYNs pass as they are, so that sequence numbers
//! are the same on both halves and the ends can go on without the gateway.
//!
//! A flow whose window scale is not known, or none of whose uplink headers could be copied,
//! is not split: it is served as by `hold`.

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::Context;
use super::mtcp_plus::serves;
use crate::flow::{AckOutcome, Flow};
use crate::{Action, Actions, Payload, Verdict};

mod handoff;
mod m_tcp;
mod parameters;
mod persist;
mod sh_tcp;

pub use handoff::{MtcpHandoff, SplitState};
pub(crate) use handoff::{adopt, hand_over, let_go};
use m_tcp::MTcp;
pub use parameters::{MtcpPersist, MtcpRelease, MtcpSetUp, MtcpSettings, MtcpShrink};
use sh_tcp::ShTcp;

/// The control bits of the ACK by which M-TCP at the MH says that it is connected again
/// (section 5.1: "an unused combination of TCP flags in a standard TCP acknowledgement").
///
/// On a segment without payload: PSH asks that what came be given to the reader, and nothing
/// came. Receivers do not look at it then, firewalls take it with any ACK, and no stack that
/// we know of sets it there.
pub const RECONNECTION_FLAGS: Flags = Flags(Flags::ACK.0 | Flags::PSH.0);

/// What the SH knows of a connection besides what every scheme does: the paper's "mtb".
#[derive(Clone, Debug, Default)]
pub(crate) struct Mtcp {
    /// The connection is split here.
    pub split: bool,
    /// Another SH has been told of it.
    is_handed_over: bool,
    sh: ShTcp,
    m: MTcp,
}

impl Mtcp {
    /// Where it stands, in a word.
    pub(crate) const fn state(&self) -> Option<&'static str> {
        if !self.split {
            return None;
        }
        match (self.m.is_frozen(), self.sh.state()) {
            (_, sh_tcp::Window::Shrunk) => Some("shrunk"),
            (true, _) => Some("frozen"),
            (false, sh_tcp::Window::Recovering) => Some("reopening"),
            (false, sh_tcp::Window::NoShrink) => Some("split"),
        }
    }

    /// The FH was told of everything up to `una`: SH-TCP has nothing more to say.
    pub(crate) fn has_told(&self, una: SeqNum) -> bool {
        !self.split || self.sh.has_told(una)
    }

    /// M-TCP waits for the MH.
    pub(crate) const fn is_frozen(&self) -> bool {
        self.split && self.m.is_frozen()
    }

    /// M-TCP is frozen, or SH-TCP has closed the FH's window.
    pub(crate) const fn waits_for_mh(&self) -> bool {
        self.split && (self.m.is_frozen() || matches!(self.sh.state(), sh_tcp::Window::Shrunk))
    }

    /// The MH offers no window: its duplicate ACKs answer probes.
    pub(crate) const fn is_closed(&self) -> bool {
        self.m.closed
    }

    /// What has passed by unseen was acknowledged up to `una`: both halves begin anew.
    pub(crate) fn resynchronise(&mut self, una: SeqNum) {
        self.sh.begin(una);
        self.m.begin(una);
    }

    /// So many connections does the MH have.
    pub(crate) fn note_flows(&mut self, flows: usize) {
        self.m.persist.flows = u32::try_from(flows).unwrap_or(u32::MAX);
    }

    /// The FH's window is open, and nothing of that has still to be made good.
    pub(crate) const fn is_open_to_fh(&self) -> bool {
        self.sh.is_open()
    }

    /// Something was sent to the MH again: its ACK tells no round trip (Karn).
    pub(crate) const fn on_repeated(&mut self) {
        self.sh.forget_timed();
    }

    /// The share of its cell that was assigned to the connection, bytes a second.
    pub(crate) const fn assign(&mut self, bytes_per_s: Option<u64>) {
        self.m.assigned = bytes_per_s;
        self.m.in_cell |= bytes_per_s.is_some();
    }

    /// So many bytes went out of turn.
    pub(crate) fn charge(&mut self, bytes: u32, now: Instant) {
        if let Some(assigned) = self.m.assigned {
            self.m.pacer.charge(bytes, assigned, now);
        }
    }

    /// So many bytes that were charged did not take the link.
    pub(crate) fn refund(&mut self, bytes: u32) {
        if let Some(assigned) = self.m.assigned {
            self.m.pacer.refund(bytes, assigned);
        }
    }

    /// It has a share.
    pub(crate) const fn is_assigned(&self) -> bool {
        self.m.assigned.is_some()
    }

    /// It has had a share of its cell.
    pub(crate) const fn is_in_cell(&self) -> bool {
        self.m.in_cell
    }

    /// What it needs, bytes a second; none: whatever it gets.
    pub(crate) const fn note_need(&mut self, bytes_per_s: Option<u64>) {
        self.m.need = bytes_per_s;
    }

    /// What it needed when that was asked last.
    pub(crate) const fn need(&self) -> Option<u64> {
        self.m.need
    }

    /// Bytes that the FH has sent since this was asked last.
    pub(crate) const fn take_offered(&mut self) -> u64 {
        core::mem::replace(&mut self.m.offered, 0)
    }
}

/// When something is due for a flow that is split.
pub(crate) fn deadline<P: Payload>(flow: &Flow<P>) -> Option<Instant> {
    if !flow.is_split() {
        return None;
    }
    let both = [m_tcp::deadline(flow), flow.mtcp.sh.deadline()];
    both.into_iter().flatten().min()
}

/// The flow was met: both halves begin.
pub(super) fn on_met<P: Payload>(flow: &mut Flow<P>, cx: &Context<'_, P>) {
    if !serves(flow) {
        return;
    }
    flow.begin_split();
    flow.mtcp.split = true;
    flow.mtcp.sh.begin(flow.fh.una);
    flow.mtcp.m.begin(flow.sent_nxt);
    m_tcp::open(flow, cx);
}

/// Data of the FH that the MH may lack, all of it in the cache; `is_new` if some of it was
/// not, and `backlog` if something waited to be sent before it came.
pub(crate) fn on_data<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    is_new: bool,
    backlog: bool,
    cx: &mut Context<'_, P>,
) -> Verdict {
    sh_tcp::on_data(flow, segment, is_new, cx);
    flow.mtcp.m.offered += u64::from(segment.payload_len);
    if !is_new {
        m_tcp::send(flow, cx);
        // Of a closed window only the MH knows whether it has opened.
        if m_tcp::is_closed(flow) && !flow.mtcp.m.is_frozen() {
            return Verdict::Forward;
        }
        return if m_tcp::repeats_itself(flow, segment) {
            Verdict::Suppress
        } else {
            flow.mtcp.on_repeated();
            flow.on_forwarded(segment, cx.now);
            Verdict::Forward
        };
    }
    if m_tcp::takes(flow, segment, backlog, cx) {
        return if flow.offer(segment, cx.actions) {
            Verdict::Suppress
        } else {
            Verdict::Forward
        };
    }
    cx.counters.kept_back += 1;
    m_tcp::send(flow, cx);
    Verdict::Suppress
}

/// Data of the FH goes on that no room was left to keep.
pub(crate) fn on_passed<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) {
    sh_tcp::on_data(flow, segment, true, cx);
}

/// A segment of the FH that brings nothing new.
pub(super) fn on_nothing_new<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> Verdict {
    sh_tcp::on_nothing_new(flow, segment, cx)
}

/// A segment of the MH, its ACK taken in.
pub(super) fn on_mh_segment<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let was_frozen = flow.mtcp.is_frozen();
    let reconnected = m_tcp::on_ack(flow, segment, outcome, cx);
    let verdict = sh_tcp::on_ack(flow, segment, outcome, cx);
    if reconnected {
        sh_tcp::on_reconnected(flow, cx);
    }
    if was_frozen && !flow.mtcp.m.is_told_away() {
        repeat_held(flow, cx);
    }
    m_tcp::send(flow, cx);
    verdict
}

/// The MH cannot be reached, somebody says.
pub(super) fn on_disconnected<P: Payload>(flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    m_tcp::on_disconnected(flow, cx);
    sh_tcp::shrink(flow, cx);
}

/// The newest ACK of the FH that the freeze may have swallowed.
fn repeat_held<P: Payload>(flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    cx.actions.extend(flow.held_ack.take().map(Action::Repeat));
}

/// The MH is back, somebody says: its greeting (section 4.1).
pub(super) fn on_reconnected<P: Payload>(flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    m_tcp::on_reconnected(flow);
    sh_tcp::on_reconnected(flow, cx);
    repeat_held(flow, cx);
    m_tcp::send(flow, cx);
}

/// Something may be due.
pub(super) fn on_timeout<P: Payload>(flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    if m_tcp::on_timeout(flow, cx) {
        sh_tcp::shrink(flow, cx);
    }
    sh_tcp::on_timeout(flow, cx);
    m_tcp::send(flow, cx);
}

/// The way to the MH takes smaller packets only: what is on it is lost.
pub(crate) fn on_path_mtu<P: Payload>(flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    flow.mtcp.on_repeated();
    flow.rewind();
    m_tcp::send(flow, cx);
}

/// The gateway is about to leave: the FH gets the byte that was saved, and its window.
pub(crate) fn leave<P: Payload>(flow: &mut Flow<P>, actions: &mut Actions<P>) {
    if flow.is_split() {
        sh_tcp::leave(flow, actions);
    }
}
