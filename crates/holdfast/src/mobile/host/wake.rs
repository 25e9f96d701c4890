// SPDX-License-Identifier: Apache-2.0
//! What `wake` needs of the daemon besides its machine: the word of flows that pause, and what the
//! programs are to know of flows that are woken.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::wake::{Silence, doublings};
use holdfast_core::mobile_host::{FLOWS_SERVED_MAX, MadeAck, MobileScheme};
use holdfast_net::mobile_path::{AckSender, FlowMaps, NotedFlow, Woken, boottime};
use holdfast_wire::{Instant, SackBlocks};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Attached, Host, now};

/// After a flow was woken, echoes from before the outage are renewed for so long.
const RENEWED_FOR: Duration = Duration::from_secs(10);
/// And from the outage's begin for so long.
const OUTAGE_MAX: Duration = Duration::from_secs(3_600);
/// How often it is looked which flows pause, where the programs have no timers.
const LOOK_FOR_PAUSES: Duration = Duration::from_millis(25);
/// How often it is looked whether the guard lives.
const LOOK_FOR_GUARD: Duration = Duration::from_secs(1);
/// The FH of a flow that got no data for so long before an outage has nothing of it in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(5);

/// ACKs that go before a wake-up: as many as an outage may have lost on their way.
const STEPS_MAX: u32 = 64;

/// What is kept for `wake` besides its machine.
#[derive(Debug, Default)]
pub(super) struct Waking {
    silence: Silence,
    /// When the link was said to go.
    down_at: Option<Instant>,
    guard_seen_at: Option<Instant>,
}

impl Waking {
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.silence.poll_timeout()
    }
}

impl Host {
    /// Returns when flows pause: then [`handle_pauses`](Self::handle_pauses) is due.
    #[expect(
        deprecated,
        reason = "its replacement is unsafe; the ring's descriptor never changes"
    )]
    pub(in crate::mobile) async fn paused(&self) {
        let pauses = self.attached.as_ref().and_then(|of| of.pauses.as_ref());
        let Some(pauses) = pauses else {
            return std::future::pending().await;
        };
        // Of each waiting: the interface, and with it the ring, comes and goes.
        match AsyncFd::with_interest(pauses.as_fd(), Interest::READABLE) {
            Ok(ring) => match ring.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => tracing::warn!(%error, "pauses"),
            },
            Err(error) => {
                tracing::warn!(%error, "pauses are not heard of");
                std::future::pending::<()>().await;
            }
        }
    }

    /// Acknowledges what was held back of flows that pause.
    pub(in crate::mobile) fn handle_pauses(&mut self) {
        let Some(attached) = &self.attached else {
            return;
        };
        let Some(pauses) = &attached.pauses else {
            return;
        };
        let paused = match pauses.take() {
            Ok(paused) => paused,
            Err(error) => {
                tracing::warn!(%error, "pauses");
                return;
            }
        };
        let mut keys = Vec::new();
        for pause in &paused {
            // Else the MH has said more itself.
            if let Ok(Some(noted)) = attached.path.maps().paused(pause) {
                self.waking.begin_silence(attached, &noted);
                keys.push(noted.flow.key);
            }
        }
        self.drive(|machine, _, _, actions| {
            for key in keys {
                machine.handle_pause(key, actions);
            }
        });
    }

    /// What the MH itself sends when the link is back, before anybody says so, is to have an echo of
    /// that time too.
    pub(super) fn prepare_to_wake(&mut self) {
        self.waking.silence.end();
        self.waking.down_at = Some(now());
        let Some(attached) = &self.attached else {
            return;
        };
        let maps = attached.path.maps();
        let mut noted = maps.flows().unwrap_or_else(|error| {
            tracing::warn!(%error, "the flows cannot be read");
            Vec::new()
        });
        noted.sort_by_key(|noted| std::cmp::Reverse(noted.flow.heard_at));
        for noted in noted.iter_mut().take(FLOWS_SERVED_MAX) {
            wake(maps, noted, OUTAGE_MAX);
        }
    }

    /// What the programs do by timers where they can.
    pub(super) fn look_for_pauses(&mut self) {
        let now = now();
        let Some(attached) = &mut self.attached else {
            return;
        };
        if attached.look_at.is_none_or(|at| at > now) {
            return;
        }
        attached.look_at = Some(now + LOOK_FOR_PAUSES);
        let pausing = match attached.path.maps().pausing(now) {
            Ok(pausing) => pausing,
            Err(error) => {
                tracing::warn!(%error, "pauses");
                return;
            }
        };
        let known = core::mem::take(&mut attached.let_go);
        let mut keys = Vec::new();
        for noted in pausing {
            let (key, ack) = (noted.flow.key, noted.flow.rcv_nxt);
            if known.get(&key) != Some(&ack) {
                self.waking.begin_silence(attached, &noted);
                keys.push(key);
            }
            attached.let_go.insert(key, ack);
        }
        if !keys.is_empty() {
            self.drive(|machine, _, _, actions| {
                for key in keys {
                    machine.handle_pause(key, actions);
                }
            });
        }
    }
}

impl Host {
    /// Wakes flows that are silent, and sees to the guard.
    pub(super) fn look_for_silence(&mut self) {
        let now = now();
        let due = |at: Option<Instant>| at.is_none_or(|at| now >= at + LOOK_FOR_GUARD);
        if self.scheme == MobileScheme::Wake && due(self.waking.guard_seen_at) {
            self.waking.guard_seen_at = Some(now);
            if self.attached.is_some() {
                // One line says so if there is none.
                self.is_guarded();
            }
        }
        let Some(attached) = &self.attached else {
            return;
        };
        let maps = attached.path.maps();
        let of = |key: &FlowKey| maps.flow(key).ok().flatten().map(|noted| noted.flow);
        for key in self.waking.silence.handle_timeout(now, of) {
            let Ok(Some(mut noted)) = maps.flow(&key) else {
                continue;
            };
            let sent = wake_up(maps, &attached.sender, &mut noted, true);
            self.send_errors += u64::from(sent.is_err());
            self.silence_broken += 1;
        }
    }
}

impl Waking {
    /// A flow's reserve was let go, for nothing came.
    fn begin_silence(&mut self, attached: &Attached, noted: &NotedFlow) {
        let reserve = attached.path.maps().reserve(&noted.flow.key);
        let pushed_end = reserve.ok().flatten().and_then(|of| of.pushed_end);
        let answered = pushed_end == Some(noted.flow.rcv_nxt);
        self.silence.begin(&noted.flow, answered, now());
    }

    /// Wakes the FH of a flow, after an outage.
    pub(super) fn wake_up(
        &self,
        maps: &FlowMaps,
        sender: &AckSender,
        noted: &mut NotedFlow,
    ) -> io::Result<()> {
        let was_in_flight = |data_at: Instant| {
            let down_at = self.down_at.unwrap_or(data_at);
            down_at.saturating_since(data_at) < IN_FLIGHT_MAX
        };
        let may_wait = noted.data_at.is_some_and(was_in_flight);
        wake_up(maps, sender, noted, may_wait)
    }
}

/// Wakes the FH of a flow; `may_wait`: it may have something in flight.
///
/// Three things, in one go. It is told that what the MH waits for could not be delivered, so often that
/// nothing of its back-off is left (RFC 6069): that wakes an FH that has heard all that the MH has
/// acknowledged. Then the ends of the last segments, and what the MH itself says.
fn wake_up(
    maps: &FlowMaps,
    sender: &AckSender,
    noted: &mut NotedFlow,
    may_wait: bool,
) -> io::Result<()> {
    let misses = noted.flow.sack.iter().next().is_some();
    wake(maps, noted, RENEWED_FOR);
    let silent = noted.data_at.map(|at| now().saturating_since(at));
    if let Some(silent) = silent.filter(|_| may_wait) {
        sender.send_unreachable(noted, doublings(silent))?;
        if !misses && doublings(silent) > 0 {
            climb(maps, sender, noted)?;
        }
    }
    sender.send(noted, MadeAck::Wake, 1)
}

/// Before what the MH itself says is said: the ends of the last segments, each by an ACK. An FH that
/// has missed the last ACKs hears so of the one that it has sent again first, and alone; BBR
/// would else wait for as long as its queue was (docs/schemes/wake.md).
fn climb(maps: &FlowMaps, sender: &AckSender, noted: &NotedFlow) -> io::Result<()> {
    let own = noted.flow.rcv_nxt;
    let Some(reserve) = maps.reserve(&noted.flow.key)? else {
        return Ok(());
    };
    for end in reserve.grid.ends_below(own, STEPS_MAX) {
        let mut step = noted.clone();
        step.flow.rcv_nxt = end;
        // The right edge is the MH's own, rounded down.
        let more = own.distance_from(end) >> noted.mh_scale.unwrap_or(0);
        let window = u32::from(noted.flow.window).saturating_add(more);
        step.flow.window = u16::try_from(window).unwrap_or(u16::MAX);
        sender.send(&step, MadeAck::Wake, 1)?;
    }
    Ok(())
}

/// Nothing below what the MH itself says is to leave any more: a made ACK says it.
pub(super) fn let_go(maps: &FlowMaps, noted: &NotedFlow) {
    if let Err(error) = maps.let_go(&noted.flow.key, noted.flow.rcv_nxt) {
        tracing::debug!(%error, "what leaves is not changed");
    }
}

/// The same, and the ACK's echo is one of now, as those of the MH's own ACKs will be for so long.
///
/// It has no SACK blocks. What the FH has not heard of yet it would take for the proof of a false
/// alarm; Linux then believes its retransmission of the oldest segment, which the outage has lost too,
/// to be on the way until its next RTO (`tcp_mark_skb_lost` after `tcp_try_undo_loss`).
fn wake(maps: &FlowMaps, noted: &mut NotedFlow, renewed_for: Duration) {
    let clock = match maps.reserve(&noted.flow.key) {
        Ok(reserve) => reserve.map(|reserve| reserve.clock),
        Err(error) => {
            tracing::debug!(%error, "no clock");
            None
        }
    };
    noted.flow.sack = SackBlocks::default();
    let at = boottime();
    let mut woken = Woken {
        let_go: noted.flow.rcv_nxt,
        stale: None,
        echo: 0,
        at,
        ticks_per_s: 0,
        until: now() + renewed_for,
    };
    if let (Some(timestamps), Some(clock)) = (&mut noted.flow.timestamps, clock) {
        // What came last may not have been echoed yet.
        let is_newer = (noted.fh_tsval.wrapping_sub(timestamps.tsecr) as i32) > 0;
        woken.stale = Some(if is_newer {
            noted.fh_tsval
        } else {
            timestamps.tsecr
        });
        woken.echo = clock.echo(at);
        woken.ticks_per_s = clock.ticks_per_s();
        timestamps.tsecr = woken.echo;
    }
    if let Err(error) = maps.wake(&noted.flow.key, &woken) {
        tracing::debug!(%error, "what leaves is not changed");
    }
}
