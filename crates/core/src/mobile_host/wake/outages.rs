// SPDX-License-Identifier: Apache-2.0
//! The outages of an interface, and how much is said to the FHs after one: when the link went and
//! came, which flows had something in flight, how many packets may go ahead of the ACK that wakes an
//! FH, and which flows are silent though nobody told of an outage.

use core::time::Duration;
use std::collections::BTreeSet;

use holdfast_wire::Instant;

use super::sentinel::Sentinel;
use super::silence::Told;
use super::{Download, Silence, Try, doublings};
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
    /// The FH can use the word that nothing could be delivered: it knows SACK or timestamps. One without
    /// either repairs from there on a segment a round trip.
    pub is_told: bool,
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

/// What comes of a look at an interface on which flows are silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// The FH of this flow is to be asked whether the link is back, by a segment that it answers:
    /// [`Outages::note_asked`] if it was.
    Ask(FlowKey),
    /// The FH of this flow has answered at once, and pauses. It is to be told once more what the MH says.
    Pauses(FlowKey),
    /// An FH has answered after a while: the link is back. [`Outages::handle_return`] says who is to be
    /// woken.
    IsBack,
}

/// The outages of an interface.
#[derive(Clone, Debug, Default)]
pub struct Outages {
    silence: Silence,
    sentinel: Sentinel,
    is_down: bool,
    /// When the link was said to go, for the `up` that came or comes.
    down_at: Option<Instant>,
    up_at: Option<Instant>,
    /// That was found, and nobody has said it.
    is_found: bool,
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
                self.is_found = false;
                // Who told of it tells of its end too.
                self.silence.end();
            }
            HostLinkEvent::Up => {
                let since_up = self.up_at.map(|at| now.saturating_since(at));
                if !self.is_down && since_up.is_some_and(|since| since < SAME_UP) {
                    if core::mem::take(&mut self.is_found) {
                        // What was found, told: the machine wakes all.
                        self.silence.end();
                    }
                    return;
                }
                if !self.is_down {
                    self.down_at = None;
                }
                self.is_down = false;
                // All are woken now, and again by their machine.
                self.silence.end();
                self.is_found = false;
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

    /// Whether no data came of the flow for long, and nothing of any other one: then
    /// [`begin_silence`](Self::begin_silence) is for it too, if it [`was_download`], though nothing of it was
    /// held back. `newest`: when anything was heard of any flow.
    pub fn is_quiet(&self, of: &Download, newest: Option<Instant>, now: Instant) -> bool {
        let flow = &of.flow;
        let Some(data_at) = of.data_at else {
            return false;
        };
        let quiet = flow.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN) * 2 + SILENT_AFTER;
        let silent = now.saturating_since(data_at);
        let is_known = self.silence.is_silent(flow) || self.silence.pauses(flow);
        let is_new = !self.is_down && !is_known;
        let all_are = newest.is_none_or(|newest| newest <= data_at + quiet);
        is_new && all_are && flow.is_live(now) && (quiet..SILENT_WITHIN).contains(&silent)
    }

    /// A flow's reserve was let go, for nothing came. `answered`: what came last was the end of an
    /// answer.
    pub fn begin_silence(&mut self, flow: &HostFlow, answered: bool, now: Instant) {
        if self.is_down {
            return;
        }
        let others_wait = self.silence.began().is_some();
        if self.silence.begin(flow, answered, now) {
            self.sentinel.begin(others_wait, now);
        }
    }

    /// When [`look`](Self::look) or [`silent`](Self::silent) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let looks = self.silence.began().map(|_| self.sentinel.poll_timeout());
        [self.silence.poll_timeout(), looks]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether [`look`](Self::look) is due.
    pub fn looks(&self, now: Instant) -> bool {
        self.silence.began().is_some() && self.sentinel.poll_timeout() <= now
    }

    /// Looks whether an FH has told that the link is back, while flows are silent. `known` is what is known of
    /// a flow.
    pub fn look(
        &mut self,
        now: Instant,
        known: impl Fn(&FlowKey) -> Option<Download>,
    ) -> Option<Looked> {
        let turn = self.sentinel.look(now);
        for key in self.silence.asked() {
            let told = known(&key).and_then(|of| self.silence.told_by(&of, now));
            let Some(told) = told else { continue };
            self.sentinel.note_answer(now);
            return match told {
                Told::Pauses => Some(Looked::Pauses(key)),
                Told::IsBack => Some(Looked::IsBack),
                Told::GoesOn => None,
            };
        }
        turn.and_then(|turn| self.silence.to_ask(turn))
            .map(Looked::Ask)
    }

    /// The FH of this flow was asked.
    pub fn note_asked(&mut self, key: &FlowKey, now: Instant) {
        self.silence.note_asked(key, now);
    }

    /// The link is back, as an FH has told: the flows to be woken now, the one first that was heard last.
    /// `flows`: all that are known.
    pub fn handle_return(&mut self, mut flows: Vec<Download>, now: Instant) -> Vec<FlowKey> {
        let Some([began, _]) = self.silence.began() else {
            return Vec::new();
        };
        self.told.clear();
        self.begin_turn(now);
        self.down_at = Some(began);
        self.up_at = Some(now);
        self.is_found = true;
        flows.retain(|of| {
            let was_in_flight =
                self.silence.follows(&of.flow.key) || self.doubled(of.data_at, now) > 0;
            was_in_flight && self.silence.may_wait(of, ON_ITS_WAY)
        });
        flows.sort_by_key(|of| (core::cmp::Reverse(of.data_at), of.flow.key));
        self.silence.wake(&flows, now)
    }

    /// The silent flows to be woken now: see [`Silence::handle_timeout`].
    pub fn silent(
        &mut self,
        now: Instant,
        heard: impl IntoIterator<Item = (FlowKey, Option<Instant>)>,
        known: impl FnMut(&FlowKey) -> Option<Download>,
    ) -> Vec<Try> {
        let others_wait = self.silence.began().is_some();
        let tries = self.silence.handle_timeout(now, heard, known);
        if !others_wait && self.silence.began().is_some() {
            self.sentinel.begin(false, now);
        }
        tries
    }

    /// When [`silent`](Self::silent) is due.
    pub fn silent_at(&self) -> Option<Instant> {
        self.silence.poll_timeout()
    }

    /// What is due waits for a little: the flows cannot be read.
    pub fn put_off(&mut self, now: Instant) {
        self.silence.put_off(now);
    }

    /// The interface has gone, and with it all that is known of flows. Not what was said of the link.
    pub fn forget_flows(&mut self) {
        self.silence.forget();
        self.told.clear();
    }

    /// What is said to the FH of a flow before the ACK that wakes it, after an outage that was told of.
    ///
    /// The first time that nothing could be delivered, so often that nothing of the back-off is left (RFC
    /// 6069), and the ends of the last segments; again one word. All flows share what may be said.
    pub fn say(&mut self, flow: &Before, now: Instant) -> Said {
        let doubled = self.doubled(flow.data_at, now);
        if doubled == 0 || !flow.is_told {
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
            is_told: true,
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
        let quiet = |outages: &Outages, newest, now| {
            outages.is_quiet(&known(flow, 0), Some(at(newest)), at(now))
        };
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
    fn an_fh_with_neither_sack_nor_timestamps_is_told_nothing() {
        let mut outages = after(0, 7_000);
        let neither = Before {
            is_told: false,
            climbs: false,
            ..before(1, 0)
        };
        let left = (outages.words_left, outages.steps_left);
        assert_eq!(outages.say(&neither, at(7_000)), Said::default());
        assert_eq!((outages.words_left, outages.steps_left), left);
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

    fn known(flow: HostFlow, data_ms: u64) -> Download {
        Download {
            flow,
            data_at: Some(at(data_ms)),
        }
    }

    /// The first that comes of looking, and when: who is asked is asked then, and has answered at these times
    /// last.
    fn looked(
        outages: &mut Outages,
        heard_ms: [u64; 2],
        from: u64,
        until: u64,
    ) -> (u64, Vec<Looked>) {
        let mut seen = Vec::new();
        for ms in (from..until).filter(|ms| ms.is_multiple_of(20)) {
            if !outages.looks(at(ms)) {
                continue;
            }
            let of = |key: &FlowKey| {
                let heard_ms = heard_ms[usize::from(key.mh.port) - 1];
                Some(known(host_flow(key.mh.port, at(heard_ms)), 0))
            };
            let Some(looked) = outages.look(at(ms), of) else {
                continue;
            };
            if let Looked::Ask(key) = looked {
                outages.note_asked(&key, at(ms));
            }
            seen.push(looked);
            if !matches!(looked, Looked::Ask(_)) {
                return (ms, seen);
            }
        }
        (until, seen)
    }

    #[test]
    fn an_outage_of_which_nobody_tells_ends_as_one_that_was_told_of() {
        let (flow, other) = (host_flow(1, at(0)), host_flow(2, at(0)));
        let long_ago = Download {
            data_at: Some(Instant::from_millis(990_000)),
            ..known(host_flow(3, at(0)), 0)
        };
        let flows = vec![known(other, 0), known(flow, 0), long_ago];
        let mut outages = Outages::default();
        assert!(!outages.looks(at(0)));
        outages.begin_silence(&flow, false, at(300));
        let (_, asked) = looked(&mut outages, [0, 0], 300, 7_000);
        assert!((60..70).contains(&asked.len()), "{}", asked.len());
        assert!(asked.iter().all(|asked| *asked == Looked::Ask(flow.key)));
        let (ms, told) = looked(&mut outages, [7_010, 0], 7_000, 8_000);
        assert_eq!((ms, &told[..]), (7_000, &[Looked::IsBack][..]));
        let woken = outages.handle_return(flows.clone(), at(7_020));
        assert_eq!(woken, [flow.key, other.key], "the other was not followed");
        let said = outages.say(&before(1, 0), at(7_020));
        let words = doublings(Duration::from_millis(7_020));
        assert_eq!((said.words, said.steps), (words, STEPS));
        // Whatever they answer now, nobody is asked, and nobody woken but by the clock.
        assert!(!outages.looks(at(7_500)));
        assert!(outages.handle_return(flows, at(7_500)).is_empty());
        for event in [HostLinkEvent::Up, HostLinkEvent::Down] {
            outages.handle_link(event, at(10_000));
            assert_eq!(outages.poll_timeout(), None, "{event:?}");
        }
    }

    #[test]
    fn an_fh_that_answers_the_first_time_it_is_asked_is_asked_no_more() {
        let flow = host_flow(1, at(0));
        let mut outages = Outages::default();
        outages.begin_silence(&flow, false, at(300));
        let (_, asked) = looked(&mut outages, [0, 0], 300, 350);
        assert_eq!(asked, [Looked::Ask(flow.key)]);
        let (ms, told) = looked(&mut outages, [400, 0], 400, 1_000);
        assert_eq!((ms, &told[..]), (400, &[Looked::Pauses(flow.key)][..]));
        assert!(outages.poll_timeout().is_none());
        let answer = known(host_flow(1, at(400)), 0);
        for later in (400..12_000).step_by(100) {
            assert!(!outages.is_quiet(&answer, Some(at(400)), at(later)));
        }
    }

    #[test]
    fn an_fh_whose_data_come_with_its_answer_is_not_asked_before_it_answers_again() {
        let mut outages = Outages::default();
        let mut of = known(host_flow(1, at(0)), 0);
        outages.begin_silence(&of.flow, false, at(60));
        // Linux answers once in half a second.
        let (mut asked, mut answers_from, mut answer_at) = (Vec::new(), 0, None);
        for ms in 60..2_000 {
            if answer_at == Some(ms) || ms == 119 {
                of.flow.heard_at = Some(at(ms));
            }
            if ms == 119 {
                of.data_at = Some(at(ms));
                of.flow.rcv_nxt += 5_000;
            }
            if ms == 215 {
                outages.begin_silence(&of.flow, false, at(ms));
            }
            let looked = outages
                .looks(at(ms))
                .then(|| outages.look(at(ms), |_| Some(of)));
            match looked.flatten() {
                None | Some(Looked::Pauses(_)) => {}
                Some(Looked::IsBack) => panic!("{ms} ms: the link was up all the time"),
                Some(Looked::Ask(key)) => {
                    outages.note_asked(&key, at(ms));
                    asked.push(ms);
                    if ms >= answers_from {
                        (answers_from, answer_at) = (ms + 500, Some(ms + 20));
                    }
                }
            }
        }
        assert_eq!(asked.len(), 2, "{asked:?}");
    }

    #[test]
    fn an_up_ends_what_was_found_though_it_comes_soon_after() {
        let flow = host_flow(1, at(0));
        let mut outages = Outages::default();
        outages.begin_silence(&flow, false, at(300));
        assert_eq!(
            outages.handle_return(vec![known(flow, 0)], at(5_000)).len(),
            1
        );
        outages.handle_link(HostLinkEvent::Up, at(5_400));
        assert_eq!(outages.poll_timeout(), None);
        // Of a second one nothing comes, and a silence goes on.
        outages.begin_silence(&flow, false, at(5_500));
        outages.handle_link(HostLinkEvent::Up, at(5_600));
        assert!(outages.poll_timeout().is_some());
    }

    #[test]
    fn an_fh_that_never_answers_beside_others_that_do_is_woken_by_the_clock_alone() {
        let dead = host_flow(1, at(0));
        let mut outages = Outages::default();
        outages.begin_silence(&dead, false, at(300));
        let mut asked = 0;
        let mut tries = 0;
        for ms in (300..200_000).step_by(20) {
            let chatty_ms = ms / 800 * 800;
            let chatty = (host_flow(2, at(0)).key, Some(at(chatty_ms)));
            if outages.looks(at(ms)) {
                let looked = outages.look(at(ms), |_| Some(known(dead, 0)));
                assert!(matches!(looked, None | Some(Looked::Ask(_))), "{looked:?}");
                if let Some(Looked::Ask(key)) = looked {
                    outages.note_asked(&key, at(ms));
                    asked += 1;
                }
            }
            let tried = outages.silent(at(ms), [chatty], |_| Some(known(dead, 0)));
            assert!(tried.iter().all(|tried| !tried.is_back));
            tries += tried.len();
        }
        // Until others were heard.
        assert!(asked < 10 && tries <= 2, "{asked} probes, {tries} tries");
        assert_eq!(outages.poll_timeout(), None);
    }

    #[test]
    fn a_silent_fh_is_told_from_a_second_on() {
        assert_eq!(words_for_silent(None, at(0)), 0);
        let words = [900, 1_000, 3_000, 60_000].map(|ms| words_for_silent(Some(at(0)), at(ms)));
        assert_eq!(words, [0, 1, 2, 3]);
    }
}
