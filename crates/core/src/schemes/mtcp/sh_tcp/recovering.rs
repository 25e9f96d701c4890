// SPDX-License-Identifier: Apache-2.0
//! SH-TCP in RECOVERING: the FH's window has been opened, and it is not known yet what the FH counts
//! as sent.

use core::time::Duration;

use super::{Context, Mtcp, WindowState, ack_for_fh, save, send_open_ack, window_of_mh};
use crate::Payload;
use crate::flow::Flow;

/// The ACK that opens the window is repeated at most this often, until the FH answers.
const REOPEN_REPEATS: u32 = 6;
/// The time to its first repetition; it doubles.
const REOPEN_INTERVAL: Duration = Duration::from_millis(100);
/// An FH that has set `snd_max` back and got a higher ACK shows that when it retransmits: the longest
/// interval of 4.3BSD's timer (`TCPTV_REXMTMAX`).
const PROOF_WAIT: Duration = Duration::from_secs(64);

/// SHRUNK: the window is opened by an ACK of what was acknowledged (section 4.1, footnote).
pub(super) fn reopen<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    recover(mtcp, cx);
    mtcp.sh.reopens = 0;
    open_again(mtcp, flow, cx);
    catch_up(mtcp, flow, cx);
}

/// The FH may have set `snd_max` back to the last ACK that it got.
pub(super) fn recover<P: Payload>(mtcp: &mut Mtcp<P>, cx: &Context<'_, P>) {
    let wait = wired_rto(mtcp, cx);
    let sh = &mut mtcp.sh;
    sh.state = WindowState::Recovering;
    sh.sent_since = sh.acked;
    sh.recovering_until = Some(cx.now + wait);
}

/// Sends the ACK that opens the window, and schedules its repetition.
pub(super) fn open_again<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let sh = &mut mtcp.sh;
    let again = sh.reopens < REOPEN_REPEATS;
    sh.reopen_at = again.then(|| cx.now + REOPEN_INTERVAL * (1 << sh.reopens));
    sh.reopens += 1;
    let acked = sh.acked;
    send_open_ack(mtcp, flow, acked, cx);
}

/// RECOVERING: acknowledges what the FH has retransmitted.
pub(super) fn catch_up<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let sh = &mut mtcp.sh;
    if flow.fh.max.at_or_before(sh.sent_since) {
        sh.state = WindowState::NoShrink;
        sh.recovering_until = None;
    }
    let limit = sh.sent_since;
    let ack = ack_for_fh(mtcp, flow, false, cx.settings.mtcp.release).min(limit);
    if ack.after(mtcp.sh.acked) {
        send_open_ack(mtcp, flow, ack, cx);
        // The FH may send more now: its silence counts from here on.
        let wait = wired_rto(mtcp, cx);
        let is_recovering = mtcp.sh.state == WindowState::Recovering;
        mtcp.sh.recovering_until = is_recovering.then(|| cx.now + wait);
    }
    save(mtcp, flow, cx);
}

/// RECOVERING: the FH has sent nothing for this time, although it could.
pub(super) fn end_recovering<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let closed = window_of_mh(flow, mtcp.sh.acked) == 0;
    let wait = wired_rto(mtcp, cx);
    let sh = &mut mtcp.sh;
    sh.recovering_until = None;
    // An FH that waits for an ACK of what it has sent since shows nothing by its silence.
    let waits = (sh.acked + 1).before(sh.sent_since);
    if sh.state != WindowState::Recovering || waits {
        return;
    }
    if closed {
        sh.recovering_until = Some(cx.now + wait);
    } else {
        sh.sent_since = flow.fh.max;
        sh.unproved_until = Some(cx.now + PROOF_WAIT);
        catch_up(mtcp, flow, cx);
    }
}

/// How long the SH waits for the FH: RTO of the wired half.
pub(super) fn wired_rto<P: Payload>(mtcp: &Mtcp<P>, cx: &Context<'_, P>) -> Duration {
    let rtt = &mtcp.sh.wired_rtt;
    rtt.rto(cx.settings.mtcp.rto_variation_min)
}
