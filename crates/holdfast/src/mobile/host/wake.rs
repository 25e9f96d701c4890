// SPDX-License-Identifier: Apache-2.0
//! What `wake` needs of the daemon besides its machine: the word of flows that pause, and what the
//! programs are to know of flows that are woken.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::wake::{Looked, Try};
use holdfast_core::mobile_host::{FLOWS_SERVED_MAX, HostLinkEvent, MobileScheme};
use holdfast_net::mobile_path::{FlowMaps, NotedFlow, Woken, boottime};
use holdfast_wire::{Instant, SackBlocks};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::waking::wake_silent;
use super::{Attached, Host, now};

/// After a flow was woken, echoes from before the outage are renewed for so long.
pub(super) const RENEWED_FOR: Duration = Duration::from_secs(10);
/// And from the outage's begin for so long.
pub(super) const OUTAGE_MAX: Duration = Duration::from_secs(3_600);
/// The counter of segments that have come.
const HEARD: &str = "noted_ingress";
/// How often it is looked which flows pause, where the programs have no timers.
const LOOK_FOR_PAUSES: Duration = Duration::from_millis(25);

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

    /// Takes the word of flows that pause.
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
        // Else the MH has said more itself.
        let newest = |pause| attached.path.maps().paused(pause).ok().flatten();
        let pausing: Vec<_> = paused.iter().filter_map(newest).collect();
        self.acknowledge(&pausing);
    }

    /// Acknowledges what was held back of flows that pause.
    fn acknowledge(&mut self, pausing: &[NotedFlow]) {
        let Some(attached) = self.attached.as_ref().filter(|_| !pausing.is_empty()) else {
            return;
        };
        for noted in pausing {
            let answered = is_answered(attached.path.maps(), noted);
            self.waking.begin_silence(&noted.flow, answered);
        }
        let mut flows = pausing.iter().map(|noted| &noted.flow);
        if flows.any(|flow| self.waking.carries(flow)) {
            tracing::info!("the link was said to be down, and carries");
            self.handle_link(HostLinkEvent::Up);
        }
        self.drive(|machine, _, _, actions| {
            for noted in pausing {
                machine.handle_pause(noted.flow.key, actions);
            }
        });
    }

    /// What the MH itself sends when the link is back, before anybody says so, is to have an echo of
    /// that time too.
    pub(super) fn prepare_to_wake(&mut self) {
        let Some(attached) = &self.attached else {
            return;
        };
        let maps = attached.path.maps();
        let mut noted = maps.flows().unwrap_or_else(|error| {
            tracing::warn!(%error, "the flows cannot be read");
            Vec::new()
        });
        // Where options may be signed nothing is changed; an FH without SACK is not woken by ACKs.
        noted
            .retain(|noted| !noted.flow.is_opaque && !noted.flow.is_finished && noted.permits_sack);
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
        let mut pausing = match attached.path.maps().pausing(now) {
            Ok(pausing) => pausing,
            Err(error) => {
                tracing::warn!(%error, "pauses");
                return;
            }
        };
        let known = core::mem::take(&mut attached.let_go);
        let number = |noted: &NotedFlow| (noted.flow.key, noted.flow.rcv_nxt);
        attached.let_go = pausing.iter().map(number).collect();
        pausing.retain(|noted| known.get(&noted.flow.key) != Some(&noted.flow.rcv_nxt));
        self.acknowledge(&pausing);
    }
}

impl Host {
    /// Wakes flows that are silent, and sees to the guard.
    pub(super) fn look_for_silence(&mut self) {
        let now = now();
        let is_wake = self.scheme == MobileScheme::Wake && self.attached.is_some();
        if is_wake && self.waking.looks_for_guard(now) {
            // Nothing else happens meanwhile: it is quickly done.
            let is_there = self.is_guarded();
            self.waking.note_guard(is_there);
        }
        let Some(attached) = &self.attached else {
            return;
        };
        let looks = is_wake && self.waking.looks_for_silence(now, || attached.heard());
        if !looks && !self.waking.is_due(now) {
            return;
        }
        let maps = attached.path.maps();
        let Some(mut flows) = attached.flows() else {
            self.waking.put_off(now);
            return;
        };
        if looks {
            self.waking.look_for_silence(maps, &flows, now);
        }
        for Try { key, is_back } in self.waking.silent(now, &flows) {
            let Some(noted) = flows.iter_mut().find(|noted| noted.flow.key == key) else {
                continue;
            };
            let sent = if is_back {
                self.waking.wake_up(maps, &attached.sender, noted)
            } else {
                wake_silent(maps, &attached.sender, noted)
            };
            self.send_errors += u64::from(sent.is_err());
            self.silence_broken += 1;
        }
    }
}

impl Attached {
    /// How many segments have come, of all flows; none: that cannot be read.
    fn heard(&self) -> Option<u64> {
        let counters = self.path.counters().unwrap_or_else(|error| {
            // Tried several times a second.
            tracing::debug!(%error, "the counters cannot be read");
            Vec::default()
        });
        let heard = counters.into_iter().find(|(name, _)| *name == HEARD);
        heard.map(|(_, count)| count)
    }

    /// All flows; none: they cannot be read.
    fn flows(&self) -> Option<Vec<NotedFlow>> {
        let maps = self.path.maps();
        maps.flows()
            .inspect_err(|error| tracing::warn!(%error, "the flows cannot be read"))
            .ok()
    }

    /// What is known of a flow; none, too, if it cannot be read.
    fn noted(&self, key: &FlowKey) -> Option<NotedFlow> {
        self.path.maps().flow(key).unwrap_or_else(|error| {
            tracing::debug!(%error, "the flow cannot be read");
            None
        })
    }
}

/// An outage of which nobody tells.
impl Host {
    /// Finds out whether the link is back, while flows are silent; if it is, wakes their FHs.
    pub(super) fn watch_silence(&mut self) {
        let now = now();
        let Some(attached) = self.attached.as_ref().filter(|_| self.waking.watches(now)) else {
            return;
        };
        match self.waking.look(now, |key| attached.noted(key)) {
            None => {}
            Some(Looked::Ask(key)) => {
                let sent = attached
                    .noted(&key)
                    .map(|noted| attached.sender.ask(&noted));
                if let Some(Ok(())) = sent {
                    self.waking.note_asked(&key, now);
                    self.asked += 1;
                }
                self.send_errors += u64::from(matches!(sent, Some(Err(_))));
            }
            Some(Looked::Pauses(key)) => {
                let maps = attached.path.maps();
                let noted = attached.noted(&key);
                let sent = noted.map(|mut noted| wake_silent(maps, &attached.sender, &mut noted));
                self.send_errors += u64::from(matches!(sent, Some(Err(_))));
            }
            Some(Looked::IsBack) => self.end_silence(now),
        }
    }

    /// The link is back, though nobody has said that it was gone.
    fn end_silence(&mut self, now: Instant) {
        let Some(attached) = &self.attached else {
            return;
        };
        // If they cannot be read it is found again at the next look.
        let Some(flows) = attached.flows() else {
            return;
        };
        let woken = self.waking.handle_return(&flows, now);
        // Of one flow alone, whose data have told it, nobody is left to be woken.
        self.silent_outages += 1;
        let maps = attached.path.maps();
        let mut flows: BTreeMap<_, _> = flows.into_iter().map(|of| (of.flow.key, of)).collect();
        for mut noted in woken.iter().filter_map(|key| flows.remove(key)) {
            let sent = self.waking.wake_up(maps, &attached.sender, &mut noted);
            self.send_errors += u64::from(sent.is_err());
        }
    }
}

/// Whether what came last was the end of an answer.
pub(super) fn is_answered(maps: &FlowMaps, noted: &NotedFlow) -> bool {
    let reserve = maps.reserve(&noted.flow.key).unwrap_or_else(|error| {
        tracing::debug!(%error, "no reserve");
        None
    });
    let ack = noted.flow.rcv_nxt;
    reserve.is_some_and(|reserve| reserve.pushed_end == Some(ack) && reserve.grid.ends_answer(ack))
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
pub(super) fn wake(maps: &FlowMaps, noted: &mut NotedFlow, renewed_for: Duration) {
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
