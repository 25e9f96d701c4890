// SPDX-License-Identifier: Apache-2.0
//! Downloads that fall silent though nobody says that the link is down: who they are, what the answers
//! of their FHs tell, and their wake-ups by the clock, of which the one that arrives when the link is
//! back wakes the FH. When who is asked: [`sentinel`](super::sentinel).

use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::{Instant, SeqNum};

use crate::FlowKey;
use crate::mobile_host::flow::ROUND_TRIP_UNKNOWN;
use crate::mobile_host::{FLOWS_SERVED_MAX, HostFlow};

/// The first repetition after the reserve was let go...
const FIRST_AFTER: Duration = Duration::from_millis(300);
/// ... the next ones after twice as long each, but no longer than this.
const REPEATED_AFTER_MAX: Duration = Duration::from_secs(1);
/// And for no longer than this.
const REPEATED_FOR: Duration = Duration::from_secs(180);
/// Those that are woken when the link is back are so often woken again, if no data come, ...
const AGAIN: u8 = 3;
/// ... the first time after a round trip, or this.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Those of them that did not seem to be silent are followed for so long.
const AGAIN_FOR: Duration = Duration::from_secs(1);
/// Flows that are followed at once; others are not helped before the link is back.
const SILENT_MAX: usize = 64;
/// So many FHs are asked in turn whether the link is back: one may be gone.
const ASKED_MAX: usize = 3;
/// An FH that was not asked for so long, for nothing could be sent, says nothing of the time before.
const ASKED_WITHIN: Duration = Duration::from_secs(1);
/// An answer that comes so long beyond a round trip after the first probe is one to a later probe...
const LATE: Duration = Duration::from_millis(150);
/// ... and of a round trip no more than this counts.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(5);
/// The link may go again before data come: so often those that wait are woken.
const WOKEN_MAX: u8 = 3;
/// An FH that was asked is looked at so soon again.
const LOOKED_AT_AFTER: Duration = Duration::from_millis(20);
/// If flows cannot be read it is tried again after so long.
const PUT_OFF: Duration = Duration::from_millis(150);
/// A Linux sender's first RTO is no shorter (`TCP_RTO_MIN`).
const RTO_MIN: Duration = Duration::from_millis(200);
/// More doublings than a sender has in ten minutes.
const DOUBLINGS_MAX: u8 = 12;

/// How often a sender of which nothing was heard for so long may have doubled its RTO, and once
/// more: so many words that a segment could not be delivered take it all back (RFC 6069). 0: not even
/// its first RTO can have passed.
pub fn doublings(silent: Duration) -> u8 {
    let mut doublings = 0;
    let mut all = RTO_MIN;
    while silent >= all && doublings < DOUBLINGS_MAX {
        doublings += 1;
        all = all * 2 + RTO_MIN;
    }
    if doublings == 0 { 0 } else { doublings + 1 }
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Download {
    /// The flow.
    pub flow: HostFlow,
    /// When its newest data came.
    pub data_at: Option<Instant>,
}

/// A silent flow whose FH is to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// Whose it is.
    pub key: FlowKey,
    /// The link is known to be back: what is said is as after an outage that was told of.
    pub is_back: bool,
}

/// What an FH that was asked has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It has answered the first probe: the link was up all the time, and the FH pauses.
    Pauses,
    /// It has answered a later one, or sends data: the first was lost, and the link is back.
    IsBack,
    /// Its data have come. It may have answered, too.
    GoesOn,
}

#[derive(Clone, Copy, Debug)]
struct Silent {
    /// No data have come since.
    since: Instant,
    due: Instant,
    wait: Duration,
    until: Instant,
    rcv_nxt: SeqNum,
    heard_at: Option<Instant>,
    round_trip: Duration,
    /// When its FH was asked first.
    asked_at: Option<Instant>,
    /// It waits for the link, and its FH may be asked; else it was woken, for the link was back.
    waits: bool,
    /// How often it was woken so.
    woken: u8,
    /// So often again in the same way.
    again: u8,
}

impl Silent {
    fn new(flow: &HostFlow, now: Instant) -> Self {
        Self {
            since: now,
            due: now + FIRST_AFTER,
            wait: FIRST_AFTER,
            until: now + REPEATED_FOR,
            rcv_nxt: flow.rcv_nxt,
            heard_at: flow.heard_at,
            round_trip: flow.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN),
            asked_at: None,
            waits: true,
            woken: 0,
            again: 0,
        }
    }

    fn note_woken(&mut self, now: Instant) {
        self.wait = self.round_trip.clamp(AGAIN_AFTER, REPEATED_AFTER_MAX);
        self.due = now + self.wait;
        self.waits = false;
        self.woken += 1;
        self.again = AGAIN;
    }

    /// It was woken, and again, and nothing is heard of anybody: the link has gone again.
    fn waits_again(&mut self, now: Instant) {
        self.waits = true;
        self.since = now;
        self.asked_at = None;
    }

    /// Whether data have come.
    fn has_ended(&self, of: &Download) -> bool {
        of.flow.rcv_nxt != self.rcv_nxt || of.data_at.is_some_and(|at| at > self.since)
    }

    /// Whether it is still to be tried. Who was asked or woken may have answered that, and nothing else.
    fn is_silent(&self, of: &Download, now: Instant) -> bool {
        let answers = self.asked_at.is_some() || self.woken > 0;
        let is_heard = of.flow.heard_at.is_some_and(|at| at > self.since);
        of.flow.is_live(now) && now <= self.until && !self.has_ended(of) && (answers || !is_heard)
    }
}

/// The flows of an interface that are silent.
#[derive(Clone, Debug, Default)]
pub struct Silence {
    flows: BTreeMap<FlowKey, Silent>,
    /// Whose FHs were found to pause, and when; so it is while the MH acknowledges no more than this.
    pausing: BTreeMap<FlowKey, (SeqNum, Instant)>,
}

impl Silence {
    /// Nothing came for a round trip in a bulk download, whose reserve was let go. `answered`: it was
    /// the end of an answer (PSH, in a short segment): then its sender pauses. Whether it is followed from
    /// now on.
    pub fn begin(&mut self, flow: &HostFlow, answered: bool, now: Instant) -> bool {
        if self.pauses(flow) {
            return false;
        }
        self.pausing.remove(&flow.key);
        // A window of 0 is why a sender is silent.
        let is_full = !self.follows(&flow.key) && self.waiting().count() >= SILENT_MAX;
        if answered || flow.window == 0 || is_full || self.is_silent(flow) {
            return false;
        }
        self.flows.insert(flow.key, Silent::new(flow, now));
        true
    }

    /// Whether the flow is one of them.
    pub fn follows(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
    }

    /// The same, and nothing has come since.
    pub fn is_silent(&self, flow: &HostFlow) -> bool {
        let silent = self.flows.get(&flow.key);
        silent.is_some_and(|silent| silent.rcv_nxt == flow.rcv_nxt)
    }

    /// Whether the flow's FH is known to pause.
    pub fn pauses(&self, flow: &HostFlow) -> bool {
        matches!(self.pausing.get(&flow.key), Some((rcv_nxt, _)) if *rcv_nxt == flow.rcv_nxt)
    }

    /// The link is said to be down, or up: who says so says it of the other too.
    pub fn end(&mut self) {
        self.flows.clear();
    }

    /// When the first one of those that wait for the link fell silent, and when the last one.
    pub(super) fn began(&self) -> Option<[Instant; 2]> {
        let since = || self.waiting().map(|(_, silent)| silent.since);
        Some([since().min()?, since().max()?])
    }

    /// No flow is known any more.
    pub(super) fn forget(&mut self) {
        self.flows.clear();
        self.pausing.clear();
    }

    /// Those that wait for the link.
    fn waiting(&self) -> impl Iterator<Item = (&FlowKey, &Silent)> {
        self.flows.iter().filter(|(_, silent)| silent.waits)
    }

    /// The flow whose FH is to be asked at this turn whether the link is back, of a few: those of different
    /// addresses first, of these the one that was heard last.
    pub(super) fn to_ask(&self, turn: usize) -> Option<FlowKey> {
        let mut flows: Vec<_> = self.waiting().collect();
        flows.sort_by_key(|(_, silent)| core::cmp::Reverse(silent.heard_at));
        let mut of_address = BTreeMap::<_, u32>::new();
        flows.sort_by_cached_key(|(key, _)| {
            let place = of_address.entry(key.fh.address).or_default();
            *place += 1;
            *place
        });
        flows.truncate(ASKED_MAX);
        let of = turn.checked_rem(flows.len())?;
        flows.get(of).map(|(key, _)| **key)
    }

    /// The flow's FH was asked.
    pub(super) fn note_asked(&mut self, key: &FlowKey, now: Instant) {
        if let Some(silent) = self.flows.get_mut(key) {
            silent.asked_at.get_or_insert(now);
        }
    }

    /// The flows whose FHs were asked, and have not answered.
    pub(super) fn asked(&self) -> Vec<FlowKey> {
        let asked = self.waiting();
        let asked = asked.filter(|(_, silent)| silent.asked_at.is_some());
        asked.map(|(key, _)| *key).collect()
    }

    /// What the FH of this flow, which was asked, has told; none: nothing yet. Whoever pauses or goes on is
    /// followed no more.
    pub(super) fn told_by(&mut self, of: &Download, now: Instant) -> Option<Told> {
        let key = &of.flow.key;
        let silent = *self.flows.get(key)?;
        let asked_at = silent.asked_at?;
        let in_time = asked_at + silent.round_trip.min(ROUND_TRIP_MAX) + LATE;
        if silent.has_ended(of) {
            if of.data_at.is_some_and(|at| at > in_time) {
                return Some(Told::IsBack);
            }
            self.flows.remove(key);
            return Some(Told::GoesOn);
        }
        let answered_at = of.flow.heard_at.filter(|at| *at > asked_at)?;
        if asked_at > silent.since + ASKED_WITHIN || answered_at > in_time {
            return Some(Told::IsBack);
        }
        self.flows.remove(key);
        if self.pausing.len() >= SILENT_MAX {
            let oldest = self.pausing.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.pausing.remove(&oldest);
            }
        }
        self.pausing.insert(*key, (of.flow.rcv_nxt, now));
        Some(Told::Pauses)
    }

    /// The link is back: whether the flow may wait for it. Who was heard since all the others fell silent
    /// does not, unless it was taken for one that pauses since the first of them did.
    pub(super) fn may_wait(&self, of: &Download, still_comes: Duration) -> bool {
        if let Some(silent) = self.flows.get(&of.flow.key) {
            return silent.waits && !silent.has_ended(of);
        }
        let Some([first, last]) = self.began() else {
            return false;
        };
        let paused = self.pausing.get(&of.flow.key);
        let was_mistaken = paused.is_some_and(|(_, at)| *at >= first) && self.pauses(&of.flow);
        was_mistaken || of.flow.heard_at.is_none_or(|at| at <= last + still_comes)
    }

    /// The link is back, and these flows wait for it. Returns those that are woken now; they are woken
    /// again until data come, as far as there is room to follow them.
    pub(super) fn wake(&mut self, waiting: &[Download], now: Instant) -> Vec<FlowKey> {
        let mut woken = Vec::new();
        for Download { flow, .. } in waiting {
            if !flow.is_live(now) || woken.len() >= FLOWS_SERVED_MAX {
                continue;
            }
            self.pausing.remove(&flow.key);
            let silent = self.flows.entry(flow.key).or_insert_with(|| Silent {
                until: now + AGAIN_FOR,
                ..Silent::new(flow, now)
            });
            silent.note_woken(now);
            woken.push(flow.key);
        }
        // Those of which nothing is known any more, and who goes on.
        self.flows.retain(|_, silent| !silent.waits);
        woken
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flows.values().map(|silent| silent.due).min()
    }

    /// What is due is due a little later.
    pub(super) fn put_off(&mut self, now: Instant) {
        for silent in self.flows.values_mut() {
            silent.due = silent.due.max(now + PUT_OFF);
        }
    }

    /// The flows that are to be woken now, still silent. `known` is what is known of one; `heard`: when
    /// each flow was last heard. Where others are heard it is not the link that is silent, or it is
    /// back: a flow is woken once more then, and left alone.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        heard: impl IntoIterator<Item = (FlowKey, Option<Instant>)>,
        mut known: impl FnMut(&FlowKey) -> Option<Download>,
    ) -> Vec<Try> {
        let of_others = heard
            .into_iter()
            .filter(|(key, _)| !self.flows.contains_key(key))
            .filter_map(|(_, at)| at)
            .max();
        let mut woken = Vec::new();
        self.flows.retain(|key, silent| {
            if silent.due > now {
                return true;
            }
            let Some(of) = known(key) else { return false };
            if silent.waits && silent.asked_at.is_some() && silent.has_ended(&of) {
                // That tells something of the others: see `told_by`.
                silent.due = now + LOOKED_AT_AFTER;
                return now <= silent.until;
            }
            if !silent.is_silent(&of, now) {
                return false;
            }
            let is_back = silent.again > 0;
            silent.again = silent.again.saturating_sub(1);
            woken.push(Try { key: *key, is_back });
            let others_are_heard = of_others.is_some_and(|at| at > silent.since + FIRST_AFTER);
            if others_are_heard && silent.again == 0 {
                return false;
            }
            if is_back && silent.again == 0 && silent.woken < WOKEN_MAX {
                silent.waits_again(now);
            }
            silent.wait = (silent.wait * 2).min(REPEATED_AFTER_MAX);
            silent.due = now + silent.wait;
            true
        });
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::host_flow;
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(10_000 + ms)
    }

    fn flow(port: u16) -> HostFlow {
        host_flow(port, at(0))
    }

    /// Its data came at 0.
    fn of(flow: HostFlow) -> Download {
        Download {
            flow,
            data_at: Some(at(0)),
        }
    }

    /// The same, heard since.
    fn heard(port: u16, ms: u64) -> Download {
        of(host_flow(port, at(ms)))
    }

    #[test]
    fn what_is_silent_is_woken_after_longer_and_longer_until_it_is_heard() {
        let mut silence = Silence::default();
        silence.begin(&flow(1), false, at(0));
        let mut times = Vec::new();
        for _ in 0..6 {
            let due = silence.poll_timeout().unwrap();
            assert!(
                silence
                    .handle_timeout(at(0), [], |_| Some(of(flow(1))))
                    .is_empty()
            );
            assert_eq!(
                silence.handle_timeout(due, [], |_| Some(of(flow(1)))).len(),
                1
            );
            times.push(due.saturating_since(at(0)).as_millis());
        }
        assert_eq!(times, [300, 900, 1_900, 2_900, 3_900, 4_900]);
        let heard = heard(1, 5_000);
        assert!(
            silence
                .handle_timeout(at(6_000), [], |_| Some(heard))
                .is_empty()
        );
        assert_eq!(silence.poll_timeout(), None);
    }

    #[test]
    fn a_pause_a_closed_window_and_what_is_gone_are_left_alone() {
        let mut silence = Silence::default();
        silence.begin(&flow(1), true, at(0));
        let closed = HostFlow {
            window: 0,
            ..flow(2)
        };
        silence.begin(&closed, false, at(0));
        assert_eq!(silence.poll_timeout(), None);
        silence.begin(&flow(3), false, at(0));
        assert!(silence.handle_timeout(at(300), [], |_| None).is_empty());
        assert_eq!(silence.poll_timeout(), None);
        silence.begin(&flow(4), false, at(0));
        silence.end();
        assert_eq!(silence.poll_timeout(), None);
    }

    #[test]
    fn where_others_are_heard_a_flow_is_woken_once_more() {
        for (heard, due_again) in [(200, true), (500, false)] {
            let mut silence = Silence::default();
            silence.begin(&flow(1), false, at(0));
            let others = [(flow(1).key, Some(at(0))), (flow(2).key, Some(at(heard)))];
            let woken = silence.handle_timeout(at(600), others, |_| Some(of(flow(1))));
            assert_eq!(woken.len(), 1);
            assert!(woken[0].key == flow(1).key && !woken[0].is_back);
            assert_eq!(silence.poll_timeout().is_some(), due_again, "{heard} ms");
        }
    }

    #[test]
    fn nobody_is_woken_for_ever_nor_are_more_than_there_is_room_for() {
        let mut silence = Silence::default();
        for port in 0..200 {
            silence.begin(&flow(port), false, at(0));
        }
        assert_eq!(silence.flows.len(), SILENT_MAX);
        let mut sent = 0;
        while let Some(due) = silence.poll_timeout() {
            sent += silence
                .handle_timeout(due, [], |key| Some(of(flow(key.mh.port))))
                .len();
        }
        assert!(sent <= SILENT_MAX * 182, "{sent}");
    }

    #[test]
    fn doublings_are_as_many_as_a_sender_can_have_made_and_one_more() {
        let of = |ms| doublings(Duration::from_millis(ms));
        assert_eq!(
            [of(0), of(199), of(200), of(599), of(600), of(1_400)],
            [0, 0, 2, 2, 3, 4]
        );
        assert_eq!((of(7_000), of(60_000), of(u64::MAX)), (6, 9, 13));
    }

    /// Two flows that were heard at 0 and fell silent at 200 ms; the FH of the first was asked at 240.
    fn two() -> Silence {
        let mut silence = Silence::default();
        for port in [1, 2] {
            assert!(silence.begin(&flow(port), false, at(200)));
        }
        silence.note_asked(&flow(1).key, at(240));
        silence.note_asked(&flow(1).key, at(340));
        silence
    }

    /// The wake-ups by the clock until 8 s, of which FHs answer nothing: whose, how long after 5,030 ms, and
    /// whether as after an outage.
    fn tries(silence: &mut Silence) -> Vec<(u16, u128, bool)> {
        let mut tries = Vec::new();
        while let Some(due) = silence.poll_timeout().filter(|due| *due < at(8_000)) {
            let since = due.saturating_since(at(5_030)).as_millis();
            for Try { key, is_back } in
                silence.handle_timeout(due, [], |key| Some(of(flow(key.mh.port))))
            {
                tries.push((key.mh.port, since, is_back));
            }
        }
        tries
    }

    #[test]
    fn an_fh_that_answers_the_first_probe_pauses_and_a_later_one_says_that_the_link_is_back() {
        for (answered, told) in [
            (230, None),
            (290, Some(Told::Pauses)),
            (430, Some(Told::Pauses)),
            (450, Some(Told::IsBack)),
            (9_000, Some(Told::IsBack)),
        ] {
            let mut silence = two();
            assert_eq!(silence.asked(), [flow(1).key]);
            assert_eq!(
                silence.told_by(&heard(2, 290), at(9_000)),
                None,
                "not asked"
            );
            assert_eq!(silence.told_by(&heard(1, answered), at(9_000)), told);
            assert_eq!(silence.follows(&flow(1).key), told != Some(Told::Pauses));
        }
        // Its round trip is what it says, up to five seconds.
        for (srtt_ms, answered, told) in [(600, 980, Told::Pauses), (60_000, 5_400, Told::IsBack)] {
            let mut silence = Silence::default();
            let far = HostFlow {
                srtt: Some(Duration::from_millis(srtt_ms)),
                ..flow(1)
            };
            silence.begin(&far, false, at(200));
            silence.note_asked(&far.key, at(240));
            assert_eq!(silence.told_by(&heard(1, answered), at(9_000)), Some(told));
        }
    }

    #[test]
    fn what_an_fh_sends_soon_says_nothing_and_later_that_the_link_is_back() {
        for (data_ms, told, is_followed) in
            [(300, Told::GoesOn, false), (5_000, Told::IsBack, true)]
        {
            let mut silence = two();
            let goes_on = Download {
                data_at: Some(at(data_ms)),
                ..heard(1, data_ms)
            };
            assert_eq!(silence.told_by(&goes_on, at(data_ms)), Some(told));
            assert_eq!(silence.follows(&flow(1).key), is_followed);
            assert!(!silence.pauses(&flow(1)));
            // Nor does it wait.
            silence.wake(&[of(flow(2))], at(data_ms));
            assert!(!silence.follows(&flow(1).key));
        }
    }

    #[test]
    fn an_fh_that_could_not_be_asked_for_long_does_not_pause() {
        let mut silence = Silence::default();
        silence.begin(&flow(1), false, at(200));
        silence.note_asked(&flow(1).key, at(10_000));
        let answer = heard(1, 10_050);
        assert_eq!(silence.told_by(&answer, at(10_060)), Some(Told::IsBack));
    }

    #[test]
    fn who_falls_silent_again_is_silent_anew() {
        let mut silence = Silence::default();
        assert!(silence.begin(&flow(1), false, at(200)));
        assert!(!silence.begin(&flow(1), false, at(220)), "it is so already");
        let on = HostFlow {
            rcv_nxt: flow(1).rcv_nxt + 5_000,
            ..host_flow(1, at(230))
        };
        assert!(silence.begin(&on, false, at(320)));
        assert_eq!(silence.began(), Some([at(320); 2]));
    }

    #[test]
    fn who_waits_is_woken_when_the_link_is_back_and_thrice_more_until_data_come() {
        let mut silence = two();
        // The third was in flight and not followed.
        let woken = silence.wake(&[of(flow(1)), of(flow(3))], at(5_030));
        assert_eq!(woken, [flow(1).key, flow(3).key]);
        assert!(!silence.follows(&flow(2).key), "of which nothing is known");
        assert_eq!(silence.began(), None, "nobody waits any more");
        assert_eq!((silence.to_ask(0), silence.asked()), (None, Vec::new()));
        let tries = tries(&mut silence);
        let of = |port| {
            let its = tries.iter().filter(move |(of, ..)| *of == port);
            its.map(|(_, ms, is_back)| (*ms, *is_back))
                .collect::<Vec<_>>()
        };
        let thrice = [(100, true), (300, true), (700, true)];
        assert_eq!(of(3), thrice, "not followed before");
        assert_eq!(of(1)[..3], thrice);
        assert_eq!(of(1)[3..], [(1_500, false), (2_500, false)]);
    }

    #[test]
    fn if_nothing_is_heard_who_was_woken_waits_for_the_link_again_but_not_for_ever() {
        let mut silence = two();
        let mut now = at(5_030);
        for woken in 1..=WOKEN_MAX {
            assert_eq!(silence.wake(&[of(flow(1))], now), [flow(1).key]);
            assert_eq!(silence.to_ask(0), None);
            for _ in 0..AGAIN {
                now = silence.poll_timeout().unwrap();
                silence.handle_timeout(now, [], |_| Some(of(flow(1))));
            }
            let waits = silence.to_ask(0);
            assert_eq!(waits.is_some(), woken < WOKEN_MAX, "{woken}");
            silence.note_asked(&flow(1).key, now + Duration::from_millis(50));
            assert_eq!(silence.began().is_some(), woken < WOKEN_MAX);
            now += Duration::from_secs(5);
        }
    }

    #[test]
    fn an_answer_is_not_what_somebody_who_was_woken_waits_for() {
        let mut silence = two();
        silence.wake(&[of(flow(1))], at(5_030));
        let answer = heard(1, 5_070);
        let tries = silence.handle_timeout(at(5_130), [], |_| Some(answer));
        assert_eq!(tries.len(), 1);
        let data = Download {
            data_at: Some(at(5_200)),
            ..answer
        };
        assert!(
            silence
                .handle_timeout(at(5_330), [], |_| Some(data))
                .is_empty()
        );
        assert!(!silence.follows(&flow(1).key));
    }

    #[test]
    fn who_was_heard_since_the_others_fell_silent_does_not_wait_unless_it_was_taken_for_one_that_pauses()
     {
        let mut silence = two();
        let late = Duration::from_millis(500);
        for (of, waits) in [
            (heard(1, 0), true),
            (heard(3, 700), true),
            (heard(3, 701), false),
            (
                Download {
                    data_at: Some(at(5_020)),
                    ..heard(2, 5_020)
                },
                false,
            ),
        ] {
            assert_eq!(silence.may_wait(&of, late), waits, "{of:?}");
        }
        assert_eq!(silence.told_by(&heard(1, 290), at(300)), Some(Told::Pauses));
        assert!(silence.may_wait(&heard(1, 2_000), late));
        silence.wake(&[heard(1, 2_000)], at(5_030));
        assert!(!silence.may_wait(&heard(1, 2_000), late), "once");
    }

    #[test]
    fn a_round_trip_passes_before_a_flow_is_woken_again() {
        let far = HostFlow {
            srtt: Some(Duration::from_millis(600)),
            ..flow(1)
        };
        let mut silence = Silence::default();
        silence.begin(&far, false, at(700));
        let woken = silence.wake(&[of(far)], at(5_000));
        assert_eq!((woken.len(), silence.poll_timeout()), (1, Some(at(5_600))));
    }

    #[test]
    fn an_fh_that_pauses_is_left_alone_until_it_goes_on_however_many_have_paused_before() {
        let mut silence = Silence::default();
        let mut pause = |port: u16, ms: u64| {
            let of = heard(port, ms);
            assert!(silence.begin(&of.flow, false, at(ms)), "{port}");
            silence.note_asked(&of.flow.key, at(ms + 10));
            let answer = heard(port, ms + 60);
            assert_eq!(silence.told_by(&answer, at(ms + 60)), Some(Told::Pauses));
        };
        for port in 0..2 * SILENT_MAX as u16 {
            pause(2_000 - port, u64::from(port) * 100);
        }
        pause(1, 20_000);
        pause(2, 20_100);
        assert_eq!(silence.pausing.len(), SILENT_MAX);
        for port in [1, 2] {
            let is_new = silence.begin(&flow(port), false, at(21_000));
            assert!(!is_new && silence.pauses(&flow(port)));
        }
        let on = HostFlow {
            rcv_nxt: flow(1).rcv_nxt + 5_000,
            ..flow(1)
        };
        assert!(silence.begin(&on, false, at(22_000)));
        assert!(!silence.pauses(&flow(1)), "of long ago");
    }

    #[test]
    fn a_few_fhs_are_asked_in_turn_those_of_other_addresses_first_and_who_was_heard_last() {
        let mut silence = Silence::default();
        assert_eq!(silence.to_ask(0), None);
        let mut begin = |address: &str, port, heard| {
            let mut flow = host_flow(port, at(heard));
            flow.key.fh.address = address.parse().unwrap();
            silence.begin(&flow, false, at(500));
        };
        begin("10.1.0.1", 1, 100);
        begin("10.1.0.1", 2, 200);
        begin("10.1.0.2", 3, 300);
        begin("10.1.0.3", 4, 50);
        let asked: Vec<_> = (0..4)
            .map(|turn| silence.to_ask(turn).unwrap().mh.port)
            .collect();
        assert_eq!(asked, [3, 2, 4, 3]);
        assert_eq!(two().to_ask(1), Some(flow(2).key), "of the same address");
    }
}
