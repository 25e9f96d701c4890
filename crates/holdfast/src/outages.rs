// SPDX-License-Identifier: Apache-2.0
//! The outages that have ended, of all workers of a daemon: for log, status and metrics.
//!
//! Several records may be about one outage of one mobile: for TCP and for other protocols, or for
//! several addresses. They are merged.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use holdfast_core::Outage;
use holdfast_wire::Instant;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::mpsc;

use crate::control::{BucketStatus, OutageStatus, OutagesStatus};

/// The limit of records that wait for the control thread. Further ones wait in their worker.
pub(crate) const QUEUED_MAX: usize = 256;
/// How long an outage waits for records of other workers, to be merged with them.
const MERGE_WAIT: Duration = Duration::from_secs(1);
/// The limit of outages that are listed: the newest.
const LISTED_MAX: usize = 256;
/// The limit of outage lines in the log, per interval. One line has the totals of further outages.
const LINES_MAX: u32 = 10;
const LINES_INTERVAL: Duration = Duration::from_secs(1);
/// The interval of the lines with the totals.
const DAY: Duration = Duration::from_secs(86_400);

/// The upper bounds of the histograms, in seconds.
const BOUNDS_S: [f64; 10] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 600.0, 3600.0];

/// An outage of the mobile with this address. None: the outage of this mobile's own link.
pub(crate) type EndedOutage = Outage<Option<IpAddr>>;
/// The queue to which workers report outages.
pub(crate) type OutageSender = mpsc::Sender<EndedOutage>;

/// An outage that waits for records of other workers.
#[derive(Debug)]
struct Pending {
    outage: EndedOutage,
    name: Option<String>,
    settled_at: Instant,
}

/// How many outages there were, and how long they were.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    outages: u64,
    down: Duration,
    stall_saved: Duration,
}

impl Totals {
    fn add(&mut self, outage: &EndedOutage) {
        self.outages += 1;
        self.down = self.down.saturating_add(outage.length);
        self.stall_saved = self.stall_saved.saturating_add(outage.stall_saved);
    }
}

/// The outages of a daemon.
#[derive(Debug)]
pub(crate) struct OutageList {
    only_observed: bool,
    pending: BTreeMap<Option<IpAddr>, Pending>,
    /// The times at which pending outages are due, earliest first. An entry may be about a settled outage.
    due: VecDeque<(Instant, Option<IpAddr>)>,
    totals: Totals,
    /// Outages by length and by stall saved: up to each bound, and above all bounds.
    histograms: [[u64; BOUNDS_S.len() + 1]; 2],
    newest: VecDeque<OutageStatus>,
    lines_left: u32,
    lines_until: Instant,
    /// Outages without a log line of their own.
    unlogged: Totals,
    /// Outages of the current day, and when the day ends.
    day: Totals,
    day_ends: Instant,
}

impl OutageList {
    /// `only_observed`: the scheme saves no stall.
    pub(crate) fn new(only_observed: bool, now: Instant) -> Self {
        Self {
            only_observed,
            pending: BTreeMap::new(),
            due: VecDeque::new(),
            totals: Totals::default(),
            histograms: [[0; BOUNDS_S.len() + 1]; 2],
            newest: VecDeque::new(),
            lines_left: LINES_MAX,
            lines_until: Instant::ZERO,
            unlogged: Totals::default(),
            day: Totals::default(),
            day_ends: now + DAY,
        }
    }

    /// Adds a worker's record of an outage. `name`: the mobile's name in the settings.
    pub(crate) fn add(&mut self, outage: EndedOutage, name: Option<String>, now: Instant) {
        let mobile = outage.mobile;
        if let Some(pending) = self.pending.get_mut(&mobile) {
            if let Some(both) = merged(&pending.outage, &outage) {
                pending.outage = both;
                return;
            }
            self.settle(mobile, now);
        }
        let settled_at = now + MERGE_WAIT;
        let pending = Pending {
            outage,
            name,
            settled_at,
        };
        self.pending.insert(mobile, pending);
        self.due.push_back((settled_at, mobile));
    }

    /// When [`Self::handle_timeout`] is due.
    pub(crate) fn next_timeout(&self) -> Instant {
        let lines = (self.unlogged.outages > 0).then_some(self.lines_until);
        let due = self.due.front().map(|(at, _)| *at);
        let all = [lines, due].into_iter().flatten();
        all.fold(self.day_ends, Instant::min)
    }

    /// Logs and counts what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.renew_lines(now);
        while let Some((at, mobile)) = self.due.front().copied()
            && at <= now
        {
            self.due.pop_front();
            let pending = self.pending.get(&mobile);
            if pending.is_some_and(|pending| pending.settled_at <= now) {
                self.settle(mobile, now);
            }
        }
        if self.day_ends <= now {
            self.day_ends += DAY;
            let day = std::mem::take(&mut self.day);
            self.log_totals(day, "outages of 24 h");
        }
    }

    /// Logs the pending outages and the totals: the daemon ends.
    pub(crate) fn finish(&mut self, now: Instant) {
        while let Some((_, mobile)) = self.due.pop_front() {
            self.settle(mobile, now);
        }
        let unlogged = std::mem::take(&mut self.unlogged);
        if unlogged.outages > 0 {
            self.log_totals(unlogged, "more outages");
        }
        let day = std::mem::take(&mut self.day);
        if day.outages > 0 {
            self.log_totals(day, "outages of the last day, until now");
        }
    }

    fn renew_lines(&mut self, now: Instant) {
        if now < self.lines_until {
            return;
        }
        self.lines_left = LINES_MAX;
        self.lines_until = now + LINES_INTERVAL;
        let unlogged = std::mem::take(&mut self.unlogged);
        if unlogged.outages > 0 {
            self.log_totals(unlogged, "more outages");
        }
    }

    fn log_totals(&self, totals: Totals, what: &str) {
        let outages = totals.outages;
        let [down_s, stall_s] = [totals.down, totals.stall_saved].map(rounded_s);
        if self.only_observed {
            tracing::info!(outages, down_s, stall_avoidable_s = stall_s, "{what}");
        } else {
            tracing::info!(outages, down_s, stall_saved_s = stall_s, "{what}");
        }
    }

    /// Counts and logs an outage: no further record is merged with it.
    fn settle(&mut self, mobile: Option<IpAddr>, now: Instant) {
        let Some(Pending { outage, name, .. }) = self.pending.remove(&mobile) else {
            return;
        };
        self.totals.add(&outage);
        self.day.add(&outage);
        let times = [outage.length, outage.stall_saved];
        for (histogram, time) in self.histograms.iter_mut().zip(times) {
            let bucket = BOUNDS_S.partition_point(|bound| *bound < time.as_secs_f64());
            histogram[bucket] += 1;
        }
        let begin = SystemTime::now() - now.saturating_since(outage.begin);
        let begin_unix = begin.duration_since(SystemTime::UNIX_EPOCH);
        let status = OutageStatus {
            number: self.totals.outages,
            name,
            mobile,
            begin_unix_s: begin_unix.unwrap_or_default().as_secs_f64(),
            length_s: outage.length.as_secs_f64(),
            source: outage.source,
            flows: outage.flows.into(),
            cached_bytes: outage.cached_bytes,
            stall_saved_s: outage.stall_saved.as_secs_f64(),
        };
        self.renew_lines(now);
        if self.lines_left == 0 {
            self.unlogged.add(&outage);
        } else {
            self.lines_left -= 1;
            let (mobile, name) = (mobile.map(tracing::field::display), &status.name);
            let (begin, source) = (date(status.begin_unix_s), outage.source.name());
            let [length_s, stall_s] = times.map(rounded_s);
            let OutageStatus {
                flows,
                cached_bytes,
                ..
            } = status;
            if self.only_observed {
                tracing::info!(
                    mobile,
                    name,
                    begin,
                    length_s,
                    source,
                    flows,
                    stall_avoidable_s = stall_s,
                    "outage"
                );
            } else {
                tracing::info!(
                    mobile,
                    name,
                    begin,
                    length_s,
                    source,
                    flows,
                    cached_bytes,
                    stall_saved_s = stall_s,
                    "outage"
                );
            }
        }
        self.newest.push_front(status);
        self.newest.truncate(LISTED_MAX);
    }

    /// What status and metrics show, with up to `outages_max` single outages.
    pub(crate) fn status(&self, outages_max: usize) -> OutagesStatus {
        let [lengths, stalls] = self.histograms.map(|counts| {
            let mut outages = 0;
            let buckets = BOUNDS_S.iter().zip(counts).map(|(up_to_s, count)| {
                outages += count;
                BucketStatus {
                    up_to_s: *up_to_s,
                    outages,
                }
            });
            buckets.collect()
        });
        OutagesStatus {
            only_observed: self.only_observed,
            count: self.totals.outages,
            down_s: self.totals.down.as_secs_f64(),
            stall_saved_s: self.totals.stall_saved.as_secs_f64(),
            lengths,
            stalls,
            newest: self.newest.iter().take(outages_max).cloned().collect(),
        }
    }
}

/// Both records as one, if their outages overlap.
fn merged(first: &EndedOutage, second: &EndedOutage) -> Option<EndedOutage> {
    let (first, second) = if second.begin < first.begin {
        (second, first)
    } else {
        (first, second)
    };
    let ends = [first, second].map(|outage| outage.begin + outage.length);
    (second.begin <= ends[0]).then(|| Outage {
        length: ends[0].max(ends[1]).saturating_since(first.begin),
        flows: first.flows + second.flows,
        cached_bytes: first.cached_bytes + second.cached_bytes,
        stall_saved: first.stall_saved.max(second.stall_saved),
        ..*first
    })
}

fn rounded_s(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

/// A time in seconds since 1970, in whole seconds of UTC.
pub(crate) fn date(unix_s: f64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(unix_s as i64).ok();
    let text = date.and_then(|date| date.format(&Rfc3339).ok());
    text.unwrap_or_else(|| unix_s.to_string())
}

#[cfg(test)]
mod tests {
    use holdfast_core::LinkSource;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000_000 + ms)
    }

    fn outage(mobile: u8, begin: u64, end: u64, flows: u32) -> EndedOutage {
        Outage {
            mobile: Some(IpAddr::from([10, 0, 0, mobile])),
            begin: at(begin),
            length: Duration::from_millis(end - begin),
            source: LinkSource::Silence,
            flows,
            cached_bytes: 1_000,
            stall_saved: Duration::from_millis(500),
        }
    }

    fn list_of(outages: &[EndedOutage]) -> OutagesStatus {
        let mut list = OutageList::new(false, at(0));
        for outage in outages {
            list.add(*outage, None, outage.begin + outage.length);
        }
        assert_eq!(list.status(9).count, 0, "others may come");
        list.handle_timeout(at(0) + DAY / 2);
        assert_eq!(list.next_timeout(), at(0) + DAY, "nothing waits");
        list.status(9)
    }

    #[test]
    fn records_of_two_workers_are_one_outage() {
        let signal = EndedOutage {
            source: LinkSource::Signal,
            ..outage(1, 100, 3_100, 2)
        };
        let status = list_of(&[outage(1, 400, 3_050, 1), signal]);
        assert_eq!((status.count, status.newest.len()), (1, 1));
        let only = &status.newest[0];
        assert_eq!((only.number, only.flows, only.cached_bytes), (1, 3, 2_000));
        assert_eq!(only.source, LinkSource::Signal, "the first to notice it");
        assert_eq!((only.length_s, only.stall_saved_s), (3.0, 0.5));
        assert_eq!((status.down_s, status.stall_saved_s), (3.0, 0.5));
    }

    #[test]
    fn other_mobiles_and_later_outages_stay_apart() {
        let mut list = OutageList::new(false, at(0));
        for one in [
            outage(1, 0, 100, 1),
            outage(2, 0, 100, 1),
            outage(1, 200, 300, 1),
        ] {
            list.add(one, None, at(300));
        }
        list.handle_timeout(at(9_000));
        let status = list.status(2);
        assert_eq!((status.count, status.newest.len()), (3, 2));
        assert_eq!(status.newest[0].number, 3, "the newest first");
    }

    #[test]
    fn histograms_are_cumulative_and_end_with_the_count_of_what_fits() {
        let status = list_of(&[
            outage(1, 0, 100, 1),
            outage(2, 0, 101, 1),
            outage(3, 0, 5_000_000, 1),
        ]);
        let counts = |buckets: &[BucketStatus]| -> Vec<u64> {
            buckets.iter().map(|bucket| bucket.outages).collect()
        };
        assert_eq!(counts(&status.lengths), [1, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(counts(&status.stalls), [0, 0, 3, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!(status.count, 3);
    }

    #[test]
    fn a_flood_of_outages_is_counted_whole_and_logged_and_listed_in_part() {
        let mut list = OutageList::new(false, at(0));
        for mobile in 0..2_000_u32 {
            let address = Some(IpAddr::from(mobile.to_be_bytes()));
            list.add(outage(0, 0, 1_000, 1).of(address), None, at(1_000));
        }
        list.handle_timeout(at(2_000));
        assert_eq!(list.lines_left, 0);
        assert_eq!(list.unlogged.outages, 2_000 - u64::from(LINES_MAX));
        assert_eq!(list.next_timeout(), at(3_000), "a line with the rest");
        list.handle_timeout(at(3_000));
        assert_eq!(list.unlogged.outages, 0);
        assert_eq!(list.next_timeout(), at(0) + DAY);
        assert_eq!(list.day.outages, 2_000);
        list.handle_timeout(at(0) + DAY);
        assert_eq!(list.day.outages, 0, "the next day begins");
        let status = list.status(usize::MAX);
        assert_eq!((status.count, status.newest.len()), (2_000, LISTED_MAX));
        assert!((status.down_s - 2_000.0).abs() < 1e-6);
    }

    #[test]
    fn at_the_end_of_the_daemon_what_waits_is_counted() {
        let mut list = OutageList::new(false, at(0));
        list.add(outage(1, 0, 1_000, 1), None, at(1_000));
        assert_eq!(list.status(1).count, 0, "another worker may report it too");
        list.finish(at(1_001));
        assert_eq!((list.status(1).count, list.day.outages), (1, 0));
    }

    #[test]
    fn a_date_is_in_seconds_of_utc_and_any_number_has_one() {
        assert_eq!(date(1_795_591_562.9), "2026-11-25T07:26:02Z");
        assert_eq!(date(0.0), "1970-01-01T00:00:00Z");
        for strange in [f64::NAN, f64::INFINITY, -1e300] {
            assert!(!date(strange).is_empty());
        }
    }
}
