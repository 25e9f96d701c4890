// SPDX-License-Identifier: Apache-2.0
//! The outages of an interface: when the link went down and up, which flows had data in flight, which
//! are silent without a report, and how many packets precede the ACK that wakes an FH.

use core::time::Duration;
use std::collections::BTreeSet;

use holdfast_wire::Instant;

use super::probe_timer::ProbeTimer;
use super::silent_flows::{ProbeReply, SilentFlows, TimedWakeUp};
use crate::FlowKey;
use crate::back_off::doublings;
use crate::link_state::LinkEvent;
use crate::mobile_host::flow::ROUND_TRIP_UNKNOWN;
use crate::mobile_host::{Download, FLOWS_SERVED_MAX, HostFlow, ON_ITS_WAY, SAME_UP};

/// The FH of a flow without data for this time before an outage has nothing in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(5);
/// The same if the begin of the outage was not reported.
const OUTAGE_UNREPORTED_MAX: Duration = Duration::from_secs(60);
/// For all flows together, at an `up` and at each repetition: ICMP unreachables (57 KB, by IPv6 100), and
/// ACKs at segment boundaries (42 KB, by IPv6 55). They are sent before the user's own packets.
const UNREACHABLES_MAX: u32 = 1024;
const BOUNDARY_ACKS_ALL_MAX: u32 = 640;
/// The minimum time between repetitions.
const BUDGET_LASTS: Duration = Duration::from_millis(80);
/// ACKs at segment boundaries of one flow: as many as an outage may have lost.
const BOUNDARY_ACKS: u32 = 64;
/// The same if the MH sends data too: then ACKs wait in its queue, a round trip's at most.
const BOUNDARY_ACKS_MAX: u32 = 256;
/// At each of these times the FH of a silent flow gets one ICMP unreachable more with each try: the number
/// of its RTO's doublings is unknown.
const UNREACHABLES_FROM: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
/// A download with this many segments in the last round trip is followed if it falls silent.
const FOLLOWED_SEGMENTS: u32 = 16;
/// It is silent after two round trips and this time, but not later than the second constant.
const SILENT_AFTER: Duration = Duration::from_millis(200);
const SILENT_WITHIN: Duration = Duration::from_secs(10);
/// Data that the MH sent within this time before the newest of the FH may precede its ACKs.
const UPLOADS_WITHIN: Duration = Duration::from_secs(1);

/// What an FH receives before the ACK that wakes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notifications {
    /// ICMP unreachables, 0 to 13.
    pub(super) unreachables: u8,
    /// ACKs at its newest segment boundaries, 0 to 256.
    pub(super) boundary_acks: u32,
}

/// What is due while flows are silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// Send a probe to the FH of this flow: [`Outages::note_probed`] if it left.
    Probe(FlowKey),
    /// The FH of this flow has answered the first probe, so it pauses: it gets the MH's ACK once more.
    Pauses(FlowKey),
    /// An FH has answered a later probe: the link is up again.
    /// [`Outages::handle_link_up_inferred`] gives the flows to be woken.
    LinkUp,
}

/// The outages of an interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Outages {
    silent_flows: SilentFlows,
    probe_timer: ProbeTimer,
    is_down: bool,
    /// When the link was reported down, until the matching `up`.
    down_at: Option<Instant>,
    up_at: Option<Instant>,
    /// The last `up` was inferred from a probe, and not reported.
    is_inferred: bool,
    /// FHs that got notifications since.
    notified: BTreeSet<FlowKey>,
    unreachables_left: u32,
    boundary_acks_left: u32,
    budget_at: Instant,
}

impl Outages {
    /// A report of the link, before anything is done for it.
    pub(super) fn handle_link(&mut self, event: LinkEvent, now: Instant) {
        match event {
            LinkEvent::Down => {
                if !self.is_down {
                    self.down_at = Some(now);
                }
                self.is_down = true;
                self.is_inferred = false;
                // The source that reports the begin reports the end too.
                self.silent_flows.end();
            }
            LinkEvent::Up => {
                let since_up = self.up_at.map(|at| now.saturating_since(at));
                if !self.is_down && since_up.is_some_and(|since| since < SAME_UP) {
                    if core::mem::take(&mut self.is_inferred) {
                        // The inferred `up` is reported too: the machine wakes all flows.
                        self.silent_flows.end();
                    }
                    return;
                }
                if !self.is_down {
                    self.down_at = None;
                }
                self.is_down = false;
                // The machine wakes all flows now, and repeats that.
                self.silent_flows.end();
                self.is_inferred = false;
                self.up_at = Some(now);
                self.notified.clear();
                self.renew_budget(now);
            }
            LinkEvent::GoingDownSoon(_) => {}
        }
    }

    /// Whether a segment of the flow came after the link was reported down: then the link is up, and
    /// the report of that is missing.
    pub(super) fn shows_link_up(&self, flow: &HostFlow) -> bool {
        let Some(down_at) = self.down_at.filter(|_| self.is_down) else {
            return false;
        };
        let late = down_at + flow.round_trip().unwrap_or_default().max(ON_ITS_WAY);
        flow.received_at.is_some_and(|received| received > late)
    }

    fn renew_budget(&mut self, now: Instant) {
        self.unreachables_left = UNREACHABLES_MAX;
        self.boundary_acks_left = BOUNDARY_ACKS_ALL_MAX;
        self.budget_at = now;
    }

    /// Whether no data of a download came for long, and no segment of any other flow: then
    /// [`begin_silence`](Self::begin_silence) is for it too, though no segment of it was withheld.
    /// `newest`: when a segment of any flow came last.
    pub(super) fn is_quiet(&self, flow: &HostFlow, newest: Option<Instant>, now: Instant) -> bool {
        let Some(data_at) = flow.data_at.filter(|_| was_download(flow)) else {
            return false;
        };
        let quiet = flow.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN) * 2 + SILENT_AFTER;
        let silent = now.saturating_since(data_at);
        let is_known = self.silent_flows.is_silent(flow) || self.silent_flows.pauses(flow);
        let is_new = !self.is_down && !is_known;
        let all_are = newest.is_none_or(|newest| newest <= data_at + quiet);
        is_new && all_are && flow.is_live(now) && (quiet..SILENT_WITHIN).contains(&silent)
    }

    /// No data of a flow come: it is silent, if its FH has not ended an answer.
    pub(super) fn begin_silence(&mut self, flow: &HostFlow, now: Instant) {
        if self.is_down {
            return;
        }
        let others_wait = self.silent_flows.began().is_some();
        if self.silent_flows.begin(flow, flow.is_answered(), now) {
            self.probe_timer.begin(others_wait, now);
        }
    }

    /// When [`poll_probe`](Self::poll_probe) or [`timed_wake_ups`](Self::timed_wake_ups) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let began = self.silent_flows.began();
        let probe_at = began.map(|_| self.probe_timer.poll_timeout());
        [self.silent_flows.poll_timeout(), probe_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether [`poll_probe`](Self::poll_probe) is due.
    pub(super) fn probe_is_due(&self, now: Instant) -> bool {
        self.silent_flows.began().is_some() && self.probe_timer.poll_timeout() <= now
    }

    /// The flows that [`poll_probe`](Self::poll_probe) needs.
    pub(super) fn probed(&self) -> Vec<FlowKey> {
        self.silent_flows.probed()
    }

    /// Whether a probed FH has answered, and if not, whether it is time for another probe. `flows`: those
    /// that were [`probed`](Self::probed).
    pub(super) fn poll_probe(&mut self, flows: &[HostFlow], now: Instant) -> Option<ProbeResult> {
        let turn = self.probe_timer.look(now);
        for key in self.silent_flows.probed() {
            let flow = flows.iter().find(|flow| flow.key == key);
            let reply = flow.and_then(|flow| self.silent_flows.reply_of(flow, now));
            let Some(reply) = reply else { continue };
            self.probe_timer.note_answer(now);
            return match reply {
                ProbeReply::Pauses => Some(ProbeResult::Pauses(key)),
                ProbeReply::LinkUp => Some(ProbeResult::LinkUp),
                ProbeReply::GoesOn => None,
            };
        }
        turn.and_then(|turn| self.silent_flows.to_probe(turn))
            .map(ProbeResult::Probe)
    }

    /// The probe to the FH of this flow has left.
    pub(super) fn note_probed(&mut self, key: &FlowKey, now: Instant) {
        self.silent_flows.note_probed(key, now);
    }

    /// When the silence of the flows began, if they are silent.
    pub(super) fn silence_began(&self) -> Option<Instant> {
        self.silent_flows.began().map(|[began, _]| began)
    }

    /// The answer of an FH shows that the link is up: the flows to be woken now, the one with the newest
    /// data first. `flows` are all.
    pub(super) fn handle_link_up_inferred(
        &mut self,
        flows: &[HostFlow],
        now: Instant,
    ) -> Vec<FlowKey> {
        let Some([began, _]) = self.silent_flows.began() else {
            return Vec::new();
        };
        self.notified.clear();
        self.renew_budget(now);
        self.down_at = Some(began);
        self.up_at = Some(now);
        self.is_inferred = true;
        let may_wait = |flow: &&HostFlow| {
            let was_in_flight =
                self.silent_flows.follows(&flow.key) || self.rto_doublings(flow.data_at, now) > 0;
            was_in_flight && self.silent_flows.may_wait(flow, ON_ITS_WAY)
        };
        let mut waiting: Vec<_> = flows.iter().filter(may_wait).copied().collect();
        waiting.sort_by_key(|flow| (core::cmp::Reverse(flow.data_at), flow.key));
        self.silent_flows.wake(&waiting, now)
    }

    /// The silent flows to be woken now: see [`SilentFlows::handle_timeout`].
    pub(super) fn timed_wake_ups(&mut self, flows: &[HostFlow], now: Instant) -> Vec<TimedWakeUp> {
        let others_wait = self.silent_flows.began().is_some();
        let wake_ups = self.silent_flows.handle_timeout(flows, now);
        if !others_wait && self.silent_flows.began().is_some() {
            self.probe_timer.begin(false, now);
        }
        wake_ups
    }

    /// When [`timed_wake_ups`](Self::timed_wake_ups) is due.
    pub(super) fn wake_up_at(&self) -> Option<Instant> {
        self.silent_flows.poll_timeout()
    }

    /// What is due is due a little later: the flows cannot be read.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.silent_flows.put_off(now);
    }

    /// The interface was removed, and with it all that was known of flows. Reports of the link stay.
    pub(super) fn forget_flows(&mut self) {
        self.silent_flows.forget();
        self.notified.clear();
    }

    /// What the FH of a flow receives before the ACK that wakes it.
    ///
    /// The first time as many unreachables as undo its whole back-off (RFC 6069), and ACKs at its newest
    /// segment boundaries; at a repetition one unreachable. All flows share one budget.
    pub(super) fn notifications(&mut self, flow: &HostFlow, now: Instant) -> Notifications {
        let doublings = self.rto_doublings(flow.data_at, now);
        if doublings == 0 || !flow.takes_unreachable() {
            return Notifications::default();
        }
        if now.saturating_since(self.budget_at) >= BUDGET_LASTS {
            self.renew_budget(now);
        }
        let is_first = !self.notified.contains(&flow.key);
        let unreachables = if is_first { doublings } else { 1 };
        if u32::from(unreachables) > self.unreachables_left {
            // At the repetition, then.
            return Notifications::default();
        }
        self.unreachables_left -= u32::from(unreachables);
        if self.notified.len() < FLOWS_SERVED_MAX {
            self.notified.insert(flow.key);
        }
        let boundary_acks = if is_first {
            boundary_acks(flow).min(self.boundary_acks_left)
        } else {
            0
        };
        self.boundary_acks_left -= boundary_acks;
        Notifications {
            unreachables,
            boundary_acks,
        }
    }

    /// How often the FH of a flow with data at that time may have doubled its RTO, and once more; 0 if
    /// nothing of it can have been in flight.
    fn rto_doublings(&self, data_at: Option<Instant>, now: Instant) -> u8 {
        let Some(data_at) = data_at else {
            return 0;
        };
        let silent = now.saturating_since(data_at);
        let in_flight = match self.down_at {
            Some(down_at) => down_at.saturating_since(data_at) < IN_FLIGHT_MAX,
            None => silent < OUTAGE_UNREPORTED_MAX,
        };
        if in_flight { doublings(silent) } else { 0 }
    }
}

/// ACKs at segment boundaries that the FH of a flow takes for a recovery: it knows SACK, and the MH
/// misses nothing.
fn boundary_acks(flow: &HostFlow) -> u32 {
    let is_missing = flow.sack.iter().next().is_some();
    let Some(download) = flow.download.filter(|_| flow.permits_sack && !is_missing) else {
        return 0;
    };
    match flow.window_shift {
        Some(_) if uploads(flow, &download) => {
            download.segments.clamp(BOUNDARY_ACKS, BOUNDARY_ACKS_MAX)
        }
        Some(_) => BOUNDARY_ACKS,
        None => 0,
    }
}

/// The MH sent data too.
fn uploads(flow: &HostFlow, download: &Download) -> bool {
    let counts_until = download.upload_at.map(|at| at + UPLOADS_WITHIN);
    counts_until
        .zip(flow.data_at)
        .is_some_and(|(until, data_at)| until > data_at)
}

/// How many ICMP unreachables the FH of a silent flow gets with this try.
pub(super) fn unreachables_for_silent(flow: &HostFlow, now: Instant) -> u8 {
    let data_at = flow.data_at.filter(|_| flow.takes_unreachable());
    let Some(silent) = data_at.map(|at| now.saturating_since(at)) else {
        return 0;
    };
    UNREACHABLES_FROM
        .iter()
        .filter(|from| silent >= **from)
        .count() as u8
}

/// Whether a flow had as many segments in its last round trip as a download.
fn was_download(flow: &HostFlow) -> bool {
    let download = flow.download;
    download.is_some_and(|download| download.segments >= FOLLOWED_SEGMENTS)
}

#[cfg(test)]
mod tests {
    use holdfast_wire::SeqNum;

    use super::*;
    use crate::mobile_host::tests::wake_flow as host_flow;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000_000 + ms)
    }

    fn before(port: u16, data_ms: u64) -> HostFlow {
        known(host_flow(port, at(data_ms)), data_ms)
    }

    /// With data at that time.
    fn known(flow: HostFlow, data_ms: u64) -> HostFlow {
        HostFlow {
            data_at: Some(at(data_ms)),
            permits_sack: true,
            download: Some(Download {
                segments: 290,
                ..Download::default()
            }),
            ..flow
        }
    }

    /// The same, with this in its download.
    fn with(port: u16, download: Download) -> HostFlow {
        HostFlow {
            download: Some(download),
            ..before(port, 0)
        }
    }

    /// An outage from `down` to `up`.
    fn after(down: u64, up: u64) -> Outages {
        let mut outages = Outages::default();
        outages.handle_link(LinkEvent::Down, at(down));
        outages.handle_link(LinkEvent::Up, at(up));
        outages
    }

    #[test]
    fn in_an_outage_that_was_reported_no_flow_is_silent() {
        let flow = host_flow(1, at(0));
        let mut outages = Outages::default();
        outages.handle_link(LinkEvent::Down, at(0));
        outages.begin_silence(&flow, at(100));
        assert_eq!(outages.poll_timeout(), None);
        outages.handle_link(LinkEvent::Up, at(200));
        let answered = HostFlow {
            download: Some(Download {
                pushed_end: Some(flow.rcv_nxt),
                ..Download::default()
            }),
            ..flow
        };
        outages.begin_silence(&answered, at(300));
        assert_eq!(outages.poll_timeout(), None, "the end of an answer");
        outages.begin_silence(&flow, at(400));
        assert!(outages.poll_timeout().is_some());
        outages.handle_link(LinkEvent::Down, at(500));
        assert_eq!(outages.poll_timeout(), None);
    }

    #[test]
    fn an_fh_is_notified_only_if_something_of_the_flow_may_have_been_in_flight() {
        let unreported = Outages::default();
        let doublings =
            |outages: &Outages, data_ms, now| outages.rto_doublings(Some(at(data_ms)), at(now));
        assert_eq!(unreported.rto_doublings(None, at(0)), 0);
        assert!(doublings(&unreported, 0, 7_000) > 4);
        assert_eq!(
            doublings(&unreported, 0, 100_000),
            0,
            "its begin is unknown"
        );
        let reported = after(10_000, 17_000);
        assert!(doublings(&reported, 6_000, 17_000) > 3);
        assert_eq!(
            doublings(&reported, 4_000, 17_000),
            0,
            "idle before the outage"
        );
        assert_eq!(
            doublings(&reported, 16_900, 17_000),
            0,
            "no time for a timeout"
        );
    }

    #[test]
    fn a_repeated_down_does_not_move_the_outages_begin() {
        let mut outages = Outages::default();
        for ms in [0, 1_000, 6_000] {
            outages.handle_link(LinkEvent::Down, at(ms));
        }
        outages.handle_link(LinkEvent::Up, at(7_000));
        assert_ne!(
            outages.notifications(&before(1, 0), at(7_000)),
            Notifications::default()
        );
    }

    #[test]
    fn a_second_link_up_by_another_source_gives_no_more_notifications() {
        let mut outages = after(0, 7_000);
        let first = outages.notifications(&before(1, 0), at(7_000));
        assert_eq!(
            first,
            Notifications {
                unreachables: doublings(Duration::from_secs(7)),
                boundary_acks: BOUNDARY_ACKS
            }
        );
        outages.handle_link(LinkEvent::Up, at(7_020));
        let again = Notifications {
            unreachables: 1,
            boundary_acks: 0,
        };
        assert_eq!(outages.notifications(&before(1, 0), at(7_060)), again);
        // Much later it is another outage, with an unknown begin.
        outages.handle_link(LinkEvent::Up, at(9_000));
        assert_eq!(outages.down_at, None);
        assert!(
            outages
                .notifications(&before(1, 8_000), at(9_000))
                .unreachables
                > 1
        );
        outages.handle_link(LinkEvent::Down, at(10_000));
        outages.handle_link(LinkEvent::Up, at(10_300));
        assert!(
            outages
                .notifications(&before(1, 9_900), at(10_300))
                .boundary_acks
                > 0
        );
    }

    #[test]
    fn a_hundred_flows_share_the_notifications_and_each_keeps_its_ack() {
        let mut outages = after(0, 7_000);
        // The packets arrive one after another. The last is the first one of its flow as well.
        let all: Vec<_> = (0..100)
            .map(|port| outages.notifications(&before(port, 0), at(7_000 + u64::from(port) / 2)))
            .collect();
        let unreachables: u32 = all.iter().map(|one| u32::from(one.unreachables)).sum();
        let boundary_acks: u32 = all.iter().map(|one| one.boundary_acks).sum();
        // A hundred flows of Cubic get all their notifications.
        let each = doublings(Duration::from_secs(7));
        assert_eq!(
            (unreachables, boundary_acks),
            (100 * u32::from(each), BOUNDARY_ACKS_ALL_MAX)
        );
        assert_eq!(
            all[3].boundary_acks, BOUNDARY_ACKS,
            "the flow with the newest segment first"
        );
    }

    #[test]
    fn of_very_many_flows_those_without_a_notification_get_it_at_the_repetition() {
        let mut outages = after(0, 7_000);
        let mut notify = |ms| -> Vec<_> {
            let unreachables = |port| outages.notifications(&before(port, 0), at(ms)).unreachables;
            (0..300).map(unreachables).collect()
        };
        let (first, again) = (notify(7_000), notify(7_100));
        for sent in [&first, &again] {
            let sum: u32 = sent.iter().copied().map(u32::from).sum();
            assert!(sum <= UNREACHABLES_MAX, "{sum}");
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
        assert!(!quiet(&outages, 320, 350), "another one delivers");
        assert!(!quiet(&outages, 0, 10_500), "long ago");
        outages.begin_silence(&flow, at(350));
        assert!(!quiet(&outages, 0, 400), "it is followed");
        let mut down = Outages::default();
        down.handle_link(LinkEvent::Down, at(100));
        assert!(!quiet(&down, 0, 350));
        let download_of = |segments| {
            with(
                1,
                Download {
                    segments,
                    ..Download::default()
                },
            )
        };
        assert!(was_download(&download_of(86)) && !was_download(&download_of(10)));
    }

    #[test]
    fn where_the_mh_sends_data_too_as_many_acks_may_be_lost_as_a_round_trip_has() {
        for (segments, steps) in [(0, 64), (100, 100), (290, 256)] {
            let mut outages = after(0, 7_000);
            let upload_at = Some(at(0));
            let download = Download {
                segments,
                upload_at,
                ..Download::default()
            };
            let flow = with(1, download);
            assert_eq!(outages.notifications(&flow, at(7_000)).boundary_acks, steps);
            let mut misses = with(2, download);
            misses.sack.push(SeqNum::new(200), SeqNum::new(300));
            let without_scale = HostFlow {
                window_shift: None,
                ..with(3, download)
            };
            for flow in [misses, without_scale] {
                assert_eq!(outages.notifications(&flow, at(7_000)).boundary_acks, 0);
            }
        }
    }

    #[test]
    fn an_fh_with_neither_sack_nor_timestamps_gets_no_notification() {
        let mut outages = after(0, 7_000);
        let neither = HostFlow {
            permits_sack: false,
            timestamps: None,
            ..before(1, 0)
        };
        let left = (outages.unreachables_left, outages.boundary_acks_left);
        assert_eq!(
            outages.notifications(&neither, at(7_000)),
            Notifications::default()
        );
        assert_eq!(
            (outages.unreachables_left, outages.boundary_acks_left),
            left
        );
    }

    #[test]
    fn a_segment_long_after_link_down_shows_link_up() {
        let mut outages = Outages::default();
        assert!(!outages.shows_link_up(&host_flow(1, at(5_000))));
        outages.handle_link(LinkEvent::Down, at(0));
        assert!(!outages.shows_link_up(&host_flow(1, at(400))), "on its way");
        assert!(outages.shows_link_up(&host_flow(1, at(600))));
        outages.handle_link(LinkEvent::Up, at(700));
        assert!(!outages.shows_link_up(&host_flow(1, at(800))));
    }

    /// Polls until there is a result other than a probe. Returns its time and all results. Each probe is sent at
    /// once; the two FHs answered last at `answered_ms`.
    fn poll_all(
        outages: &mut Outages,
        answered_ms: [u64; 2],
        from: u64,
        until: u64,
    ) -> (u64, Vec<ProbeResult>) {
        let mut seen = Vec::new();
        for ms in (from..until).filter(|ms| ms.is_multiple_of(20)) {
            if !outages.probe_is_due(at(ms)) {
                continue;
            }
            let flows = [1, 2].map(|port| {
                let answered_ms = answered_ms[usize::from(port) - 1];
                known(host_flow(port, at(answered_ms)), 0)
            });
            let Some(result) = outages.poll_probe(&flows, at(ms)) else {
                continue;
            };
            if let ProbeResult::Probe(key) = result {
                outages.note_probed(&key, at(ms));
            }
            seen.push(result);
            if !matches!(result, ProbeResult::Probe(_)) {
                return (ms, seen);
            }
        }
        (until, seen)
    }

    #[test]
    fn an_unreported_outage_ends_like_a_reported_one() {
        let (flow, other) = (host_flow(1, at(0)), host_flow(2, at(0)));
        let long_ago = HostFlow {
            data_at: Some(Instant::from_millis(990_000)),
            ..known(host_flow(3, at(0)), 0)
        };
        let flows = [known(other, 0), known(flow, 0), long_ago];
        let mut outages = Outages::default();
        assert!(!outages.probe_is_due(at(0)));
        outages.begin_silence(&flow, at(300));
        let (_, probes) = poll_all(&mut outages, [0, 0], 300, 7_000);
        assert!((60..70).contains(&probes.len()), "{}", probes.len());
        assert!(
            probes
                .iter()
                .all(|probes| *probes == ProbeResult::Probe(flow.key))
        );
        let (ms, results) = poll_all(&mut outages, [7_010, 0], 7_000, 8_000);
        assert_eq!((ms, &results[..]), (7_000, &[ProbeResult::LinkUp][..]));
        let woken = outages.handle_link_up_inferred(&flows, at(7_020));
        assert_eq!(woken, [flow.key, other.key], "the other was not followed");
        let notifications = outages.notifications(&before(1, 0), at(7_020));
        let unreachables = doublings(Duration::from_millis(7_020));
        assert_eq!(
            (notifications.unreachables, notifications.boundary_acks),
            (unreachables, BOUNDARY_ACKS)
        );
        // From now on no answer causes a probe, and only timers cause wake-ups.
        assert!(!outages.probe_is_due(at(7_500)));
        assert!(
            outages
                .handle_link_up_inferred(&flows, at(7_500))
                .is_empty()
        );
        for event in [LinkEvent::Up, LinkEvent::Down] {
            outages.handle_link(event, at(10_000));
            assert_eq!(outages.poll_timeout(), None, "{event:?}");
        }
    }

    #[test]
    fn an_fh_that_answers_its_first_probe_is_not_probed_again() {
        let flow = host_flow(1, at(0));
        let mut outages = Outages::default();
        outages.begin_silence(&flow, at(300));
        let (_, probes) = poll_all(&mut outages, [0, 0], 300, 350);
        assert_eq!(probes, [ProbeResult::Probe(flow.key)]);
        let (ms, results) = poll_all(&mut outages, [400, 0], 400, 1_000);
        assert_eq!(
            (ms, &results[..]),
            (400, &[ProbeResult::Pauses(flow.key)][..])
        );
        assert!(outages.poll_timeout().is_none());
        let answer = known(host_flow(1, at(400)), 0);
        for later in (400..12_000).step_by(100) {
            assert!(!outages.is_quiet(&answer, Some(at(400)), at(later)));
        }
    }

    #[test]
    fn an_fh_whose_data_come_with_its_answer_is_not_probed_before_it_answers_again() {
        let mut outages = Outages::default();
        let mut flow = known(host_flow(1, at(0)), 0);
        outages.begin_silence(&flow, at(60));
        // Linux answers once in half a second.
        let (mut probes, mut answers_from, mut answer_at) = (Vec::new(), 0, None);
        for ms in 60..2_000 {
            if answer_at == Some(ms) || ms == 119 {
                flow.received_at = Some(at(ms));
            }
            if ms == 119 {
                flow.data_at = Some(at(ms));
                flow.rcv_nxt += 5_000;
            }
            if ms == 215 {
                outages.begin_silence(&flow, at(ms));
            }
            let result = outages
                .probe_is_due(at(ms))
                .then(|| outages.poll_probe(&[flow], at(ms)));
            match result.flatten() {
                None | Some(ProbeResult::Pauses(_)) => {}
                Some(ProbeResult::LinkUp) => panic!("{ms} ms: the link was up all the time"),
                Some(ProbeResult::Probe(key)) => {
                    outages.note_probed(&key, at(ms));
                    probes.push(ms);
                    if ms >= answers_from {
                        (answers_from, answer_at) = (ms + 500, Some(ms + 20));
                    }
                }
            }
        }
        assert_eq!(probes.len(), 2, "{probes:?}");
    }

    #[test]
    fn an_up_ends_what_was_found_though_it_comes_soon_after() {
        let flow = host_flow(1, at(0));
        let mut outages = Outages::default();
        outages.begin_silence(&flow, at(300));
        assert_eq!(
            outages
                .handle_link_up_inferred(&[known(flow, 0)], at(5_000))
                .len(),
            1
        );
        outages.handle_link(LinkEvent::Up, at(5_400));
        assert_eq!(outages.poll_timeout(), None);
        // Of a second one nothing comes, and a silence goes on.
        outages.begin_silence(&flow, at(5_500));
        outages.handle_link(LinkEvent::Up, at(5_600));
        assert!(outages.poll_timeout().is_some());
    }

    #[test]
    fn an_fh_that_never_answers_beside_others_that_do_is_woken_by_the_clock_alone() {
        let dead = host_flow(1, at(0));
        let mut outages = Outages::default();
        outages.begin_silence(&dead, at(300));
        let mut probes = 0;
        let mut tries = 0;
        for ms in (300..200_000).step_by(20) {
            let chatty_ms = ms / 800 * 800;
            let flows = [known(dead, 0), host_flow(2, at(chatty_ms))];
            if outages.probe_is_due(at(ms)) {
                let result = outages.poll_probe(&flows, at(ms));
                assert!(
                    matches!(result, None | Some(ProbeResult::Probe(_))),
                    "{result:?}"
                );
                if let Some(ProbeResult::Probe(key)) = result {
                    outages.note_probed(&key, at(ms));
                    probes += 1;
                }
            }
            let tried = outages.timed_wake_ups(&flows, at(ms));
            assert!(tried.iter().all(|tried| !tried.link_is_up));
            tries += tried.len();
        }
        // Until others deliver.
        assert!(probes < 10 && tries <= 2, "{probes} probes, {tries} tries");
        assert_eq!(outages.poll_timeout(), None);
    }

    #[test]
    fn a_silent_fh_is_notified_from_a_second_on() {
        let without_data = host_flow(1, at(0));
        assert_eq!(unreachables_for_silent(&without_data, at(0)), 0);
        let flow = before(1, 0);
        let unreachables =
            [900, 1_000, 3_000, 60_000].map(|ms| unreachables_for_silent(&flow, at(ms)));
        assert_eq!(unreachables, [0, 1, 2, 3]);
    }
}
