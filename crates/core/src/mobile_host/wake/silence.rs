// SPDX-License-Identifier: Apache-2.0
//! Downloads that fall silent though nobody says that the link is down: their wake-up is repeated
//! until something is heard. The one that arrives when the link is back wakes the FH.

use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::{Instant, SeqNum};

use crate::FlowKey;
use crate::mobile_host::HostFlow;

/// The first repetition after the reserve was let go...
const FIRST_AFTER: Duration = Duration::from_millis(300);
/// ... the next ones after twice as long each, but no longer than this.
const REPEATED_AFTER_MAX: Duration = Duration::from_secs(1);
/// And for no longer than this.
const REPEATED_FOR: Duration = Duration::from_secs(180);
/// Flows that are followed at once; others are not helped.
const SILENT_MAX: usize = 64;
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

#[derive(Clone, Copy, Debug)]
struct Silent {
    since: Instant,
    due: Instant,
    wait: Duration,
    rcv_nxt: SeqNum,
}

/// The flows of an interface that are silent.
#[derive(Clone, Debug, Default)]
pub struct Silence {
    flows: BTreeMap<FlowKey, Silent>,
}

impl Silence {
    /// Nothing came for a round trip in a bulk download, whose reserve was let go. `answered`: it was
    /// the end of an answer (PSH, in a short segment): then its sender pauses.
    pub fn begin(&mut self, flow: &HostFlow, answered: bool, now: Instant) {
        // A window of 0 is why a sender is silent.
        let is_new = !self.follows(&flow.key);
        if answered || flow.window == 0 || is_new && self.flows.len() >= SILENT_MAX {
            return;
        }
        let silent = Silent {
            since: now,
            due: now + FIRST_AFTER,
            wait: FIRST_AFTER,
            rcv_nxt: flow.rcv_nxt,
        };
        self.flows.insert(flow.key, silent);
    }

    /// Whether the flow is one of them.
    pub fn follows(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
    }

    /// The link is said to be down: who says so says when it is up.
    pub fn end(&mut self) {
        self.flows.clear();
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flows.values().map(|silent| silent.due).min()
    }

    /// The flows that are to be woken now, still silent. `flow` is what is known of one; `heard`: when
    /// each flow was last heard. Where others are heard it is not the link that is silent, or it is
    /// back: a flow is woken once more then, and left alone.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        heard: impl IntoIterator<Item = (FlowKey, Option<Instant>)>,
        mut flow: impl FnMut(&FlowKey) -> Option<HostFlow>,
    ) -> Vec<FlowKey> {
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
            let is_silent = flow(key).is_some_and(|flow| {
                flow.is_live(now)
                    && flow.rcv_nxt == silent.rcv_nxt
                    && flow.heard_at.is_none_or(|at| at <= silent.since)
            });
            if !is_silent || now.saturating_since(silent.since) > REPEATED_FOR {
                return false;
            }
            woken.push(*key);
            if of_others.is_some_and(|at| at > silent.since + FIRST_AFTER) {
                return false;
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

    #[test]
    fn what_is_silent_is_woken_after_longer_and_longer_until_it_is_heard() {
        let mut silence = Silence::default();
        silence.begin(&flow(1), false, at(0));
        let mut times = Vec::new();
        for _ in 0..6 {
            let due = silence.poll_timeout().unwrap();
            assert!(
                silence
                    .handle_timeout(at(0), [], |_| Some(flow(1)))
                    .is_empty()
            );
            assert_eq!(silence.handle_timeout(due, [], |_| Some(flow(1))).len(), 1);
            times.push(due.saturating_since(at(0)).as_millis());
        }
        assert_eq!(times, [300, 900, 1_900, 2_900, 3_900, 4_900]);
        let heard = HostFlow {
            heard_at: Some(at(5_000)),
            ..flow(1)
        };
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
            let woken = silence.handle_timeout(at(600), others, |_| Some(flow(1)));
            assert_eq!(woken, [flow(1).key]);
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
                .handle_timeout(due, [], |key| Some(flow(key.mh.port)))
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
}
