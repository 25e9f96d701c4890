// SPDX-License-Identifier: Apache-2.0
//! The wake-up of one flow's FH after an outage, as packets: what is said of it is
//! `holdfast_core`'s to decide. And when it is looked whether the guard lives.

use std::io;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::wake::{
    Before, Download, Leaves, Looked, Outages, Try, was_download, words_for_silent,
};
use holdfast_core::mobile_host::{HostFlow, HostLinkEvent, MadeAck};
use holdfast_net::mobile_path::{AckSender, FlowMaps, NotedFlow, NotedReserve};
use holdfast_wire::Instant;

use super::now;
use super::wake::{OUTAGE_MAX, RENEWED_FOR, is_answered, wake};

/// Data that the MH sent so long before the newest of the FH may stand before its ACKs.
const UPLOADS_WITHIN: Duration = Duration::from_secs(1);
/// How often flows are looked for that are silent, at most: the daemon does something every 200 ms.
const LOOK_FOR_SILENCE: Duration = Duration::from_millis(150);
/// And no longer after the last segment than this.
const FALLS_SILENT_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether the guard lives; and after a failure, twice as long each time...
const LOOK_FOR_GUARD: Duration = Duration::from_secs(1);
const LOOK_FOR_GUARD_AGAIN: Duration = Duration::from_secs(5);
/// ... up to this.
const LOOK_FOR_GUARD_MAX: Duration = Duration::from_secs(60);

/// What is kept for `wake` besides its machine.
#[derive(Debug, Default)]
pub(super) struct Waking {
    outages: Outages,
    silence_look_at: Option<Instant>,
    /// Segments that had come when they became more last, and when that was.
    heard: u64,
    heard_at: Instant,
    guard_look_at: Option<Instant>,
    guard_wait: Duration,
}

impl Waking {
    /// Something became of the link: before anything is done for it.
    pub(super) fn handle_link(&mut self, event: HostLinkEvent) {
        self.outages.handle_link(event, now());
    }

    /// Whether what came of the flow shows that the link is up though it was said to be down.
    pub(super) fn carries(&self, flow: &HostFlow) -> bool {
        self.outages.carries(flow)
    }

    /// A flow's reserve was let go, for nothing came. `answered`: what came last was the end of an
    /// answer.
    pub(super) fn begin_silence(&mut self, flow: &HostFlow, answered: bool) {
        self.outages.begin_silence(flow, answered, now());
    }

    /// Whether it is time to look for flows that are silent though nothing of them was held back.
    /// `heard`: how many segments have come; while there are more, or none for long, nobody falls silent.
    pub(super) fn looks_for_silence(
        &mut self,
        now: Instant,
        heard: impl Fn() -> Option<u64>,
    ) -> bool {
        if self.silence_look_at.is_some_and(|at| at > now) {
            return false;
        }
        self.silence_look_at = Some(now + LOOK_FOR_SILENCE);
        let Some(heard) = heard() else {
            return false;
        };
        if heard != self.heard {
            (self.heard, self.heard_at) = (heard, now);
            return false;
        }
        now.saturating_since(self.heard_at) < FALLS_SILENT_WITHIN
    }

    /// Looks for them among `flows`, which are all that are known.
    pub(super) fn look_for_silence(&mut self, maps: &FlowMaps, flows: &[NotedFlow], now: Instant) {
        let newest = flows.iter().filter_map(|noted| noted.flow.heard_at).max();
        for noted in flows {
            if !self.outages.is_quiet(&download(noted), newest, now) {
                continue;
            }
            let reserve = maps.reserve(&noted.flow.key).ok().flatten();
            if reserve.is_some_and(|reserve| was_download(reserve.segments)) {
                self.begin_silence(&noted.flow, is_answered(maps, noted));
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.outages.poll_timeout()
    }

    /// Whether [`look`](Self::look) is due.
    pub(super) fn watches(&self, now: Instant) -> bool {
        self.outages.looks(now)
    }

    /// Looks whether the link is back.
    pub(super) fn look(
        &mut self,
        now: Instant,
        noted: impl Fn(&FlowKey) -> Option<NotedFlow>,
    ) -> Option<Looked> {
        self.outages
            .look(now, |key| noted(key).as_ref().map(download))
    }

    /// The FH of this flow was asked.
    pub(super) fn note_asked(&mut self, key: &FlowKey, now: Instant) {
        self.outages.note_asked(key, now);
    }

    /// The link is back: the flows to be woken now, of `flows`, which are all that are known.
    pub(super) fn handle_return(&mut self, flows: &[NotedFlow], now: Instant) -> Vec<FlowKey> {
        let flows = flows.iter().map(download).collect();
        self.outages.handle_return(flows, now)
    }

    /// Whether [`silent`](Self::silent) is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.outages.silent_at().is_some_and(|at| at <= now)
    }

    /// The flows cannot be read at the moment.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.outages.put_off(now);
    }

    /// The interface has gone, and with it all that is known of flows.
    pub(super) fn forget_flows(&mut self) {
        self.outages.forget_flows();
        (self.silence_look_at, self.heard) = (None, 0);
    }

    /// The silent flows to be woken now. `flows` are all that are known.
    pub(super) fn silent(&mut self, now: Instant, flows: &[NotedFlow]) -> Vec<Try> {
        let flow = |key: &FlowKey| flows.iter().find(|noted| noted.flow.key == *key);
        let others = flows
            .iter()
            .map(|noted| (noted.flow.key, noted.flow.heard_at));
        self.outages
            .silent(now, others, |key| flow(key).map(download))
    }

    /// Whether it is time to look for the guard.
    pub(super) fn looks_for_guard(&self, now: Instant) -> bool {
        self.guard_look_at.is_none_or(|at| at <= now)
    }

    /// It is there, or could not be started: that takes long, and is not tried all the time.
    pub(super) fn note_guard(&mut self, is_there: bool) {
        self.guard_wait = match self.guard_wait {
            _ if is_there => LOOK_FOR_GUARD,
            wait if wait < LOOK_FOR_GUARD_AGAIN => LOOK_FOR_GUARD_AGAIN,
            wait => (wait * 2).min(LOOK_FOR_GUARD_MAX),
        };
        self.guard_look_at = Some(now() + self.guard_wait);
    }

    /// Wakes the FH of a flow, after an outage that was told of.
    ///
    /// The first time three things, in one go. It is told that what the MH waits for could not be
    /// delivered: that wakes an FH that has heard all that the MH has acknowledged. Then the ends of the
    /// last segments, and what the MH itself says. An FH that has missed the last ACKs hears so of the
    /// segment that it has sent again first, and alone; BBR would else wait for as long as its queue was
    /// (docs/schemes/wake.md). An FH without SACK gets the words alone: ACKs of what it has not sent
    /// again are its proof of a false alarm, and then nothing shows it the loss.
    ///
    /// Errors: of the last one.
    pub(super) fn wake_up(
        &mut self,
        maps: &FlowMaps,
        sender: &AckSender,
        noted: &mut NotedFlow,
    ) -> io::Result<()> {
        let reserve = maps.reserve(&noted.flow.key).unwrap_or_else(|error| {
            tracing::debug!(%error, "no reserve");
            None
        });
        let said = self.outages.say(&before(noted, reserve.as_ref()), now());
        if noted.permits_sack {
            wake(maps, noted, RENEWED_FOR);
        }
        // They may find no room on the interface; what counts comes after them.
        let told = said.words == 0 || sender.send_unreachable(noted, said.words).is_ok();
        if told && let Some(reserve) = reserve {
            climb(sender, noted, &reserve, said.steps);
        }
        if !noted.permits_sack {
            return Ok(());
        }
        sender.send(noted, MadeAck::Wake, 1)
    }
}

const fn download(noted: &NotedFlow) -> Download {
    Download {
        flow: noted.flow,
        data_at: noted.data_at,
    }
}

/// Whether the FH is told that nothing could be delivered: see [`Before::is_told`].
const fn is_told(noted: &NotedFlow) -> bool {
    noted.permits_sack || noted.flow.timestamps.is_some()
}

fn before(noted: &NotedFlow, reserve: Option<&NotedReserve>) -> Before {
    let uploads = |reserve: &NotedReserve| {
        let upload_at = reserve.upload_at?;
        Some(upload_at + UPLOADS_WITHIN > noted.data_at?)
    };
    let misses = noted.flow.sack.iter().next().is_some();
    Before {
        key: noted.flow.key,
        data_at: noted.data_at,
        is_told: is_told(noted),
        climbs: !misses && noted.permits_sack && noted.mh_scale.is_some() && reserve.is_some(),
        segments: reserve.map_or(0, |reserve| reserve.segments),
        uploads: reserve.and_then(uploads).unwrap_or(false),
    }
}

/// The ends of the last segments before what the MH itself says, each by an ACK.
fn climb(sender: &AckSender, noted: &NotedFlow, reserve: &NotedReserve, most: u32) {
    let Some(scale) = noted.mh_scale else {
        return;
    };
    let own = Leaves {
        ack: noted.flow.rcv_nxt,
        window: noted.flow.window,
    };
    for step in reserve.grid.steps(own, scale, most) {
        let mut ack = noted.clone();
        (ack.flow.rcv_nxt, ack.flow.window) = (step.ack, step.window);
        if sender.send(&ack, MadeAck::Wake, 1).is_err() {
            return;
        }
    }
}

/// Wakes the FH of a flow that is silent: once more what the MH itself says, and from a while on words that
/// nothing could be delivered. An FH without SACK gets these alone, as in [`Waking::wake_up`].
///
/// Errors: of the ACK.
pub(super) fn wake_silent(
    maps: &FlowMaps,
    sender: &AckSender,
    noted: &mut NotedFlow,
) -> io::Result<()> {
    if noted.permits_sack {
        wake(maps, noted, OUTAGE_MAX);
    }
    let words = words_for_silent(noted.data_at, now());
    if words > 0 && is_told(noted) {
        // It may find no room on the interface; what counts comes after it.
        let _ = sender.send_unreachable(noted, words);
    }
    if !noted.permits_sack {
        return Ok(());
    }
    sender.send(noted, MadeAck::Wake, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_looked_at_only_for_a_while_after_the_last_segment() {
        let mut waking = Waking::default();
        let at = |ms: u64| Instant::from_millis(1_000_000 + ms);
        let mut looks = |ms, heard| waking.looks_for_silence(at(ms), || Some(heard));
        assert!(!looks(0, 5));
        assert!(!looks(100, 5), "a moment ago");
        assert!(looks(500, 5));
        assert!(!looks(1_000, 6), "more have come");
        assert!(looks(1_500, 6));
        assert!(!looks(11_500, 6), "none for long");
    }

    #[test]
    fn a_guard_that_cannot_be_started_is_looked_for_less_and_less() {
        let mut waking = Waking::default();
        assert!(waking.looks_for_guard(now()));
        let mut waits = Vec::new();
        for is_there in [true, false, false, false, false, false, false, true] {
            waking.note_guard(is_there);
            waits.push(waking.guard_wait.as_secs());
        }
        assert_eq!(waits, [1, 5, 10, 20, 40, 60, 60, 1]);
        assert!(!waking.looks_for_guard(now()));
    }
}
