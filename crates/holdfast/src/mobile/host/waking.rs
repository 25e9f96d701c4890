// SPDX-License-Identifier: Apache-2.0
//! The wake-up of one flow's FH after an outage, and what is kept for it: when the link went and came,
//! how much may still be said, and which flows are silent though nobody told of an outage.

use std::io;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::wake::{Silence, doublings};
use holdfast_core::mobile_host::{HostFlow, HostLinkEvent, MadeAck};
use holdfast_net::mobile_path::{AckSender, FlowMaps, NotedFlow};
use holdfast_wire::Instant;

use super::now;
use super::wake::{OUTAGE_MAX, RENEWED_FOR, wake};

/// The FH of a flow that got no data for so long before an outage has nothing of it in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(5);
/// The same if nobody told when the outage began.
const OUTAGE_UNTOLD_MAX: Duration = Duration::from_secs(60);
/// An `up` so soon after another is the same one, by another source.
const SAME_UP: Duration = Duration::from_secs(1);
/// What is said so soon after `up` is the first; later it is a repetition.
const FIRST_WITHIN: Duration = Duration::from_millis(50);
/// ACKs that go before a wake-up: as many as an outage may have lost on their way.
const STEPS_MAX: u32 = 64;
/// Words and steps after one `up`, of all flows together: what goes before the user's own packets.
const WORDS_MAX: u32 = 256;
/// A silent flow's FH is told that nothing could be delivered from then on, one word a try.
const TOLD_FROM: Duration = Duration::from_secs(1);
/// How often it is looked whether the guard lives; and after a failure, twice as long each time...
const LOOK_FOR_GUARD: Duration = Duration::from_secs(1);
const LOOK_FOR_GUARD_AGAIN: Duration = Duration::from_secs(5);
/// ... up to this.
const LOOK_FOR_GUARD_MAX: Duration = Duration::from_secs(60);

/// What is kept for `wake` besides its machine.
#[derive(Debug, Default)]
pub(super) struct Waking {
    silence: Silence,
    is_down: bool,
    /// When the link was said to go, for the `up` that came or comes.
    down_at: Option<Instant>,
    up_at: Option<Instant>,
    words_left: u32,
    guard_look_at: Option<Instant>,
    guard_wait: Duration,
}

impl Waking {
    /// Something became of the link: before anything is done for it.
    pub(super) fn handle_link(&mut self, event: HostLinkEvent) {
        match event {
            HostLinkEvent::Down => {
                if !self.is_down {
                    self.down_at = Some(now());
                }
                self.is_down = true;
                // Who told of it tells of its end too.
                self.silence.end();
            }
            HostLinkEvent::Up => {
                let since_up = self.up_at.map(|at| now().saturating_since(at));
                if !self.is_down && since_up.is_some_and(|since| since < SAME_UP) {
                    return;
                }
                if !self.is_down {
                    self.down_at = None;
                }
                self.is_down = false;
                self.up_at = Some(now());
                self.words_left = WORDS_MAX;
            }
            HostLinkEvent::GoingDownSoon(_) => {}
        }
    }

    /// A flow's reserve was let go, for nothing came. `answered`: what came last was the end of an
    /// answer.
    pub(super) fn begin_silence(&mut self, flow: &HostFlow, answered: bool) {
        if !self.is_down {
            self.silence.begin(flow, answered, now());
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.silence.poll_timeout()
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.poll_timeout().is_some_and(|at| at <= now)
    }

    /// The silent flows to be woken now. `flows` are all that are known.
    pub(super) fn silent(&mut self, now: Instant, flows: &[NotedFlow]) -> Vec<FlowKey> {
        let flow = |key: &FlowKey| flows.iter().find(|noted| noted.flow.key == *key);
        let others = flows
            .iter()
            .map(|noted| (noted.flow.key, noted.flow.heard_at));
        self.silence
            .handle_timeout(now, others, |key| flow(key).map(|noted| noted.flow))
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
    /// delivered, so often that nothing of its back-off is left (RFC 6069): that wakes an FH that has heard
    /// all that the MH has acknowledged. Then the ends of the last segments, and what the MH itself
    /// says. Again the last one alone, and one word. An FH without SACK gets the words alone: ACKs of
    /// what it has not sent again are its proof of a false alarm, and then nothing shows it the loss.
    ///
    /// Errors: of the last one.
    pub(super) fn wake_up(
        &mut self,
        maps: &FlowMaps,
        sender: &AckSender,
        noted: &mut NotedFlow,
    ) -> io::Result<()> {
        let misses = noted.flow.sack.iter().next().is_some();
        if noted.permits_sack {
            wake(maps, noted, RENEWED_FOR);
        }
        let doubled = self.doubled(noted.data_at);
        if doubled > 0 {
            let is_first = self
                .up_at
                .is_some_and(|at| now().saturating_since(at) < FIRST_WITHIN);
            let words = u32::from(if is_first { doubled } else { 1 }).min(self.words_left);
            self.words_left -= words;
            // They may find no room on the interface; what counts comes after them.
            let told = sender.send_unreachable(noted, words as u8);
            if is_first && !misses && noted.permits_sack && told.is_ok() {
                self.climb(maps, sender, noted);
            }
        }
        if !noted.permits_sack {
            return Ok(());
        }
        sender.send(noted, MadeAck::Wake, 1)
    }

    /// How often the FH of a flow with data at that time may have doubled its RTO; 0 if nothing of it
    /// can have been in flight.
    fn doubled(&self, data_at: Option<Instant>) -> u8 {
        let Some(data_at) = data_at else {
            return 0;
        };
        let silent = now().saturating_since(data_at);
        let in_flight = match self.down_at {
            Some(down_at) => down_at.saturating_since(data_at) < IN_FLIGHT_MAX,
            None => silent < OUTAGE_UNTOLD_MAX,
        };
        if in_flight { doublings(silent) } else { 0 }
    }

    /// The ends of the last segments before what the MH itself says, each by an ACK. An FH that has
    /// missed the last ACKs hears so of the one that it has sent again first, and alone; BBR would
    /// else wait for as long as its queue was (docs/schemes/wake.md).
    fn climb(&mut self, maps: &FlowMaps, sender: &AckSender, noted: &NotedFlow) {
        let (Ok(Some(reserve)), Some(scale)) = (maps.reserve(&noted.flow.key), noted.mh_scale)
        else {
            return;
        };
        let own = noted.flow.rcv_nxt;
        let most = STEPS_MAX.min(self.words_left);
        // Further below than its window an FH takes no ACK for an old one (RFC 5961, 5.2).
        let window_bytes = u32::from(noted.flow.window) << scale;
        for end in reserve.grid.ends_below(own, most) {
            let behind = own.distance_from(end);
            if behind > window_bytes {
                continue;
            }
            let more = behind >> scale;
            // The right edge is the MH's own, rounded down, or nothing is said.
            let Ok(window) = u16::try_from(u32::from(noted.flow.window).saturating_add(more))
            else {
                continue;
            };
            let mut step = noted.clone();
            (step.flow.rcv_nxt, step.flow.window) = (end, window);
            if sender.send(&step, MadeAck::Wake, 1).is_err() {
                return;
            }
            self.words_left -= 1;
        }
    }
}

/// Wakes the FH of a flow that is silent: once more what the MH itself says, and from a while on one
/// word that nothing could be delivered.
///
/// Errors: of the ACK.
pub(super) fn wake_silent(
    maps: &FlowMaps,
    sender: &AckSender,
    noted: &mut NotedFlow,
) -> io::Result<()> {
    wake(maps, noted, OUTAGE_MAX);
    let silent = noted.data_at.map(|at| now().saturating_since(at));
    if silent.is_some_and(|silent| silent >= TOLD_FROM) {
        // It may find no room on the interface; what counts comes after it.
        let _ = sender.send_unreachable(noted, 1);
    }
    sender.send(noted, MadeAck::Wake, 1)
}

#[cfg(test)]
mod tests {
    use holdfast_wire::{Endpoint, SackBlocks, SeqNum};

    use super::*;

    fn flow() -> HostFlow {
        let end = |port| Endpoint {
            address: [10, 1, 0, 2].into(),
            port,
        };
        HostFlow {
            key: FlowKey {
                fh: end(443),
                mh: end(40_000),
            },
            snd_nxt: SeqNum::new(1),
            rcv_nxt: SeqNum::new(100),
            window: 500,
            window_shift: 7,
            timestamps: None,
            sack: SackBlocks::default(),
            srtt: None,
            rtt: None,
            sent_at: now(),
            heard_at: Some(now()),
            is_opaque: false,
            is_finished: false,
        }
    }

    #[test]
    fn in_an_outage_that_was_told_of_no_flow_is_silent() {
        let mut waking = Waking::default();
        waking.handle_link(HostLinkEvent::Down);
        waking.begin_silence(&flow(), false);
        assert_eq!(waking.poll_timeout(), None);
        waking.handle_link(HostLinkEvent::Up);
        waking.begin_silence(&flow(), true);
        assert_eq!(waking.poll_timeout(), None, "the end of an answer");
        waking.begin_silence(&flow(), false);
        assert!(waking.poll_timeout().is_some());
        waking.handle_link(HostLinkEvent::Down);
        assert_eq!(waking.poll_timeout(), None);
    }

    #[test]
    fn an_fh_is_told_only_if_something_of_the_flow_may_have_been_in_flight() {
        let at = |seconds| Some(now() - Duration::from_secs(seconds));
        let mut waking = Waking::default();
        assert_eq!(waking.doubled(None), 0);
        assert!(waking.doubled(at(7)) > 4);
        assert_eq!(waking.doubled(at(100)), 0, "nobody told when it began");
        waking.handle_link(HostLinkEvent::Down);
        assert!(waking.doubled(at(4)) > 3);
        assert_eq!(waking.doubled(at(6)), 0, "idle before the outage");
        assert_eq!(waking.doubled(Some(now())), 0, "no time for a timeout");
    }

    #[test]
    fn an_up_by_another_source_gives_no_more_words() {
        let mut waking = Waking::default();
        waking.handle_link(HostLinkEvent::Down);
        waking.handle_link(HostLinkEvent::Up);
        assert_eq!(waking.words_left, WORDS_MAX);
        waking.words_left = 7;
        waking.handle_link(HostLinkEvent::Up);
        assert_eq!(waking.words_left, 7);
        assert!(waking.down_at.is_some());
        waking.handle_link(HostLinkEvent::Down);
        waking.handle_link(HostLinkEvent::Up);
        assert_eq!(waking.words_left, WORDS_MAX);
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
