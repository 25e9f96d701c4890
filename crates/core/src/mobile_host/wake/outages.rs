// SPDX-License-Identifier: Apache-2.0
//! The outages of an interface, and how much is said to the FHs after one: when the link went and
//! came, which flows had something in flight, how many packets may go ahead of the ACK that wakes an
//! FH, and which flows are silent though nobody told of an outage.

use core::time::Duration;
use std::collections::BTreeSet;

use holdfast_wire::Instant;

use super::{Silence, doublings};
use crate::FlowKey;
use crate::mobile_host::flow::ROUND_TRIP_UNKNOWN;
use crate::mobile_host::{FLOWS_SERVED_MAX, HostFlow, HostLinkEvent, ON_ITS_WAY, SAME_UP};

/// The FH of a flow that got no data for so long before an outage has nothing of it in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(5);
/// The same if nobody told when the outage began.
const OUTAGE_UNTOLD_MAX: Duration = Duration::from_secs(60);
/// Of all flows together, at an `up` and at each repetition: words that nothing could be delivered (57 KB, by IPv6 100), and
/// ACKs for the ends of segments (42 KB, by IPv6 55). They go before the user's own packets.
const WORDS_MAX: u32 = 1024;
const STEPS_ALL_MAX: u32 = 640;
/// Repetitions are no less apart.
const TURN: Duration = Duration::from_millis(80);
/// ACKs for the ends of segments of one flow: as many as an outage may have lost on their way.
const STEPS: u32 = 64;
/// The same if the MH sends data too: then ACKs stand in its queue, a round trip's at most.
const STEPS_MAX: u32 = 256;
/// A silent flow's FH is told that nothing could be delivered, with each try, once more from each of these
/// on: which doubling it has come to is not known.
const TOLD_FROM: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
/// Segments in the last round trip of a download that is followed if it falls silent.
const FOLLOWED_SEGMENTS: u32 = 16;
/// And so long beyond two round trips; no longer than this.
const SILENT_AFTER: Duration = Duration::from_millis(200);
const SILENT_WITHIN: Duration = Duration::from_secs(10);

/// What the way down of a flow was like before the outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Whose it is.
    pub key: FlowKey,
    /// When its newest data came.
    pub data_at: Option<Instant>,
    /// The FH takes ACKs for a repair: it knows SACK, and misses none of the MH's blocks.
    pub climbs: bool,
    /// Segments in its last round trip; 0: not known.
    pub segments: u32,
    /// The MH sent data too.
    pub uploads: bool,
}

/// What is said to an FH before the ACK that wakes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// So often that nothing could be delivered (ICMP), 0 to 13.
    pub words: u8,
    /// So many ends of its last segments, each by an ACK, 0 to 256.
    pub steps: u32,
}

/// The outages of an interface.
#[derive(Clone, Debug, Default)]
pub struct Outages {
    silence: Silence,
    is_down: bool,
    /// When the link was said to go, for the `up` that came or comes.
    down_at: Option<Instant>,
    up_at: Option<Instant>,
    /// To whom something was said since.
    told: BTreeSet<FlowKey>,
    words_left: u32,
    steps_left: u32,
    turn_at: Instant,
}

impl Outages {
    /// Something became of the link: before anything is done for it.
    pub fn handle_link(&mut self, event: HostLinkEvent, now: Instant) {
        match event {
            HostLinkEvent::Down => {
                if !self.is_down {
                    self.down_at = Some(now);
                }
                self.is_down = true;
                // Who told of it tells of its end too.
                self.silence.end();
            }
            HostLinkEvent::Up => {
                let since_up = self.up_at.map(|at| now.saturating_since(at));
                if !self.is_down && since_up.is_some_and(|since| since < SAME_UP) {
                    return;
                }
                if !self.is_down {
                    self.down_at = None;
                }
                self.is_down = false;
                self.up_at = Some(now);
                self.told.clear();
                self.begin_turn(now);
            }
            HostLinkEvent::GoingDownSoon(_) => {}
        }
    }

    /// Whether what came of the flow shows that the link is up though it was said to be down: nobody
    /// may be there to say so.
    pub fn carries(&self, flow: &HostFlow) -> bool {
        let Some(down_at) = self.down_at.filter(|_| self.is_down) else {
            return false;
        };
        let late = down_at + flow.round_trip().unwrap_or_default().max(ON_ITS_WAY);
        flow.heard_at.is_some_and(|heard| heard > late)
    }

    fn begin_turn(&mut self, now: Instant) {
        (self.words_left, self.steps_left) = (WORDS_MAX, STEPS_ALL_MAX);
        self.turn_at = now;
    }

    /// Whether nothing came of the flow for long, as of no other one: then
    /// [`begin_silence`](Self::begin_silence) is for it too, if it [`was_download`], though nothing of it was
    /// held back. `newest`: when anything was heard of any flow.
    pub fn is_quiet(&self, flow: &HostFlow, newest: Option<Instant>, now: Instant) -> bool {
        let Some(heard_at) = flow.heard_at else {
            return false;
        };
        let quiet = flow.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN) * 2 + SILENT_AFTER;
        let silent = now.saturating_since(heard_at);
        let is_new = !self.is_down && !self.silence.follows(&flow.key);
        let all_are = newest.is_none_or(|newest| newest <= heard_at + quiet);
        is_new && all_are && flow.is_live(now) && (quiet..SILENT_WITHIN).contains(&silent)
    }

    /// A flow's reserve was let go, for nothing came. `answered`: what came last was the end of an
    /// answer.
    pub fn begin_silence(&mut self, flow: &HostFlow, answered: bool, now: Instant) {
        if !self.is_down {
            self.silence.begin(flow, answered, now);
        }
    }

    /// When [`silent`](Self::silent) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.silence.poll_timeout()
    }

    /// The silent flows to be woken now: see [`Silence::handle_timeout`].
    pub fn silent(
        &mut self,
        now: Instant,
        heard: impl IntoIterator<Item = (FlowKey, Option<Instant>)>,
        flow: impl FnMut(&FlowKey) -> Option<HostFlow>,
    ) -> Vec<FlowKey> {
        self.silence.handle_timeout(now, heard, flow)
    }

    /// What is said to the FH of a flow before the ACK that wakes it, after an outage that was told of.
    ///
    /// The first time that nothing could be delivered, so often that nothing of the back-off is left (RFC
    /// 6069), and the ends of the last segments; again one word. All flows share what may be said.
    pub fn say(&mut self, flow: &Before, now: Instant) -> Said {
        let doubled = self.doubled(flow.data_at, now);
        if doubled == 0 {
            return Said::default();
        }
        if now.saturating_since(self.turn_at) >= TURN {
            self.begin_turn(now);
        }
        let is_first = !self.told.contains(&flow.key);
        let words = u32::from(if is_first { doubled } else { 1 });
        if words > self.words_left {
            // The next time, then.
            return Said::default();
        }
        self.words_left -= words;
        if self.told.len() < FLOWS_SERVED_MAX {
            self.told.insert(flow.key);
        }
        let lost = if flow.uploads {
            flow.segments.clamp(STEPS, STEPS_MAX)
        } else {
            STEPS
        };
        let steps = if is_first && flow.climbs {
            lost.min(self.steps_left)
        } else {
            0
        };
        self.steps_left -= steps;
        Said {
            words: words as u8,
            steps,
        }
    }

    /// How often the FH of a flow with data at that time may have doubled its RTO; 0 if nothing of it
    /// can have been in flight.
    fn doubled(&self, data_at: Option<Instant>, now: Instant) -> u8 {
        let Some(data_at) = data_at else {
            return 0;
        };
        let silent = now.saturating_since(data_at);
        let in_flight = match self.down_at {
            Some(down_at) => down_at.saturating_since(data_at) < IN_FLIGHT_MAX,
            None => silent < OUTAGE_UNTOLD_MAX,
        };
        if in_flight { doublings(silent) } else { 0 }
    }
}

/// How often the FH of a silent flow is told that nothing could be delivered, with this try.
pub fn words_for_silent(data_at: Option<Instant>, now: Instant) -> u8 {
    let Some(silent) = data_at.map(|at| now.saturating_since(at)) else {
        return 0;
    };
    TOLD_FROM.iter().filter(|from| silent >= **from).count() as u8
}

/// Whether a flow with so many segments in its last round trip was a download.
pub const fn was_download(segments: u32) -> bool {
    segments >= FOLLOWED_SEGMENTS
}

#[cfg(test)]
mod tests {
    use super::super::tests::host_flow;
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000_000 + ms)
    }

    fn before(port: u16, data_ms: u64) -> Before {
        Before {
            key: host_flow(port, at(data_ms)).key,
            data_at: Some(at(data_ms)),
            climbs: true,
            segments: 290,
            uploads: false,
        }
    }

    /// An outage from `down` to `up`.
    fn after(down: u64, up: u64) -> Outages {
        let mut outages = Outages::default();
        outages.handle_link(HostLinkEvent::Down, at(down));
        outages.handle_link(HostLinkEvent::Up, at(up));
        outages
    }

    #[test]
    fn in_an_outage_that_was_told_of_no_flow_is_silent() {
        let flow = host_flow(1, at(0));
        let mut outages = Outages::default();
        outages.handle_link(HostLinkEvent::Down, at(0));
        outages.begin_silence(&flow, false, at(100));
        assert_eq!(outages.poll_timeout(), None);
        outages.handle_link(HostLinkEvent::Up, at(200));
        outages.begin_silence(&flow, true, at(300));
        assert_eq!(outages.poll_timeout(), None, "the end of an answer");
        outages.begin_silence(&flow, false, at(400));
        assert!(outages.poll_timeout().is_some());
        outages.handle_link(HostLinkEvent::Down, at(500));
        assert_eq!(outages.poll_timeout(), None);
    }

    #[test]
    fn an_fh_is_told_only_if_something_of_the_flow_may_have_been_in_flight() {
        let untold = Outages::default();
        let words = |outages: &Outages, data_ms, now| outages.doubled(Some(at(data_ms)), at(now));
        assert_eq!(untold.doubled(None, at(0)), 0);
        assert!(words(&untold, 0, 7_000) > 4);
        assert_eq!(words(&untold, 0, 100_000), 0, "nobody told when it began");
        let told = after(10_000, 17_000);
        assert!(words(&told, 6_000, 17_000) > 3);
        assert_eq!(words(&told, 4_000, 17_000), 0, "idle before the outage");
        assert_eq!(words(&told, 16_900, 17_000), 0, "no time for a timeout");
    }

    #[test]
    fn a_repeated_down_does_not_move_the_outages_begin() {
        let mut outages = Outages::default();
        for ms in [0, 1_000, 6_000] {
            outages.handle_link(HostLinkEvent::Down, at(ms));
        }
        outages.handle_link(HostLinkEvent::Up, at(7_000));
        assert_ne!(outages.say(&before(1, 0), at(7_000)), Said::default());
    }

    #[test]
    fn an_up_by_another_source_gives_no_more_words() {
        let mut outages = after(0, 7_000);
        let first = outages.say(&before(1, 0), at(7_000));
        assert_eq!(
            first,
            Said {
                words: doublings(Duration::from_secs(7)),
                steps: STEPS
            }
        );
        outages.handle_link(HostLinkEvent::Up, at(7_020));
        let again = Said { words: 1, steps: 0 };
        assert_eq!(outages.say(&before(1, 0), at(7_060)), again);
        // Much later it is another outage, of whose begin nobody told.
        outages.handle_link(HostLinkEvent::Up, at(9_000));
        assert_eq!(outages.down_at, None);
        assert!(outages.say(&before(1, 8_000), at(9_000)).words > 1);
        outages.handle_link(HostLinkEvent::Down, at(10_000));
        outages.handle_link(HostLinkEvent::Up, at(10_300));
        assert!(outages.say(&before(1, 9_900), at(10_300)).steps > 0);
    }

    #[test]
    fn a_hundred_flows_share_what_is_said_and_each_ack_of_theirs_stays() {
        let mut outages = after(0, 7_000);
        // The way of the packets takes time: the last one is the first of its flow all the same.
        let said: Vec<_> = (0..100)
            .map(|port| outages.say(&before(port, 0), at(7_000 + u64::from(port) / 2)))
            .collect();
        let words: u32 = said.iter().map(|said| u32::from(said.words)).sum();
        let steps: u32 = said.iter().map(|said| said.steps).sum();
        // A hundred of Cubic's are told whole.
        let each = doublings(Duration::from_secs(7));
        assert_eq!((words, steps), (100 * u32::from(each), STEPS_ALL_MAX));
        assert_eq!(said[3].steps, STEPS, "the flow that was heard last first");
    }

    #[test]
    fn of_very_many_flows_those_that_were_not_told_are_told_at_the_repetition() {
        let mut outages = after(0, 7_000);
        let mut tell = |ms| -> Vec<_> {
            let say = |port| outages.say(&before(port, 0), at(ms)).words;
            (0..300).map(say).collect()
        };
        let (first, again) = (tell(7_000), tell(7_100));
        for told in [&first, &again] {
            let sum: u32 = told.iter().copied().map(u32::from).sum();
            assert!(sum <= WORDS_MAX, "{sum}");
        }
        assert!(first.contains(&0));
        for (first, again) in first.into_iter().zip(again) {
            assert_eq!(again == 1, first > 0, "{first} and {again}");
        }
    }

    #[test]
    fn a_download_of_which_nothing_is_held_is_followed_too_if_all_are_silent() {
        let flow = host_flow(1, at(0));
        let mut outages = Outages::default();
        let quiet =
            |outages: &Outages, newest, now| outages.is_quiet(&flow, Some(at(newest)), at(now));
        assert!(!quiet(&outages, 0, 250), "two round trips and 200 ms");
        assert!(quiet(&outages, 0, 350));
        assert!(!quiet(&outages, 320, 350), "another one is heard");
        assert!(!quiet(&outages, 0, 10_500), "long ago");
        outages.begin_silence(&flow, false, at(350));
        assert!(!quiet(&outages, 0, 400), "it is followed");
        let mut down = Outages::default();
        down.handle_link(HostLinkEvent::Down, at(100));
        assert!(!quiet(&down, 0, 350));
        assert!(was_download(86) && !was_download(10));
    }

    #[test]
    fn where_the_mh_sends_data_too_as_many_acks_may_be_lost_as_a_round_trip_has() {
        for (segments, steps) in [(0, 64), (100, 100), (290, 256)] {
            let mut outages = after(0, 7_000);
            let flow = Before {
                segments,
                uploads: true,
                ..before(1, 0)
            };
            assert_eq!(outages.say(&flow, at(7_000)).steps, steps);
            let deaf = Before {
                climbs: false,
                ..before(2, 0)
            };
            assert_eq!(outages.say(&deaf, at(7_000)).steps, 0);
        }
    }

    #[test]
    fn what_still_comes_long_after_a_down_says_that_the_link_is_up() {
        let mut outages = Outages::default();
        assert!(!outages.carries(&host_flow(1, at(5_000))));
        outages.handle_link(HostLinkEvent::Down, at(0));
        assert!(!outages.carries(&host_flow(1, at(400))), "on its way");
        assert!(outages.carries(&host_flow(1, at(600))));
        outages.handle_link(HostLinkEvent::Up, at(700));
        assert!(!outages.carries(&host_flow(1, at(800))));
    }

    #[test]
    fn a_silent_fh_is_told_from_a_second_on() {
        assert_eq!(words_for_silent(None, at(0)), 0);
        let words = [900, 1_000, 3_000, 60_000].map(|ms| words_for_silent(Some(at(0)), at(ms)));
        assert_eq!(words, [0, 1, 2, 3]);
    }
}
