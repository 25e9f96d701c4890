// SPDX-License-Identifier: Apache-2.0
//! One MH as the gateway knows it: the state of its link, its rate, and how much
//! is in flight.
//!
//! ```text
//!            no answer for an RTO                     any segment of the MH
//!      UP -------------------------> SILENT (probes) ----------------------+
//!      |  <---------------------+                                          |
//!      | down (signal,          | nothing left to send                     v
//!      | carrier, command)      +----------------------------------- RECOVERING
//!      +--------------------------> DOWN (probes) ------------------------>+
//!                                       up, or a segment of the MH
//! ```
//!
//! Not drawn: a report of link down leads from SILENT and RECOVERING to DOWN, too. RECOVERING becomes
//! SILENT as UP does.
//!
//! While RECOVERING, cached segments go out at the link's pace: no faster than the link
//! delivered before the outage, and no more in flight than it took then.
//!
//! For a link whose rate changes ([`ChangingLink`]) three things differ. SILENT begins with a gap
//! longer than the recent ones. An answer to a segment from before the probes shows that the link
//! has lost nothing: SILENT ends in UP. The pace of RECOVERING is measured anew.

use core::cell::Cell;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;

use holdfast_wire::{Instant, LinkAddresses};

use crate::Payload;
use crate::bandwidth::CellMember;
use crate::budget::CacheBudget;
use crate::changing_link::ChangingLink;
use crate::delivery::DeliveryRate;
use crate::flow::Flow;
use crate::link_state::LinkSource;
use crate::recently_missing::RecentlyMissing;
use crate::rtt::RttEstimator;
use crate::settings::Settings;
use crate::table::FlowId;
use crate::timers::{Scheduled, earliest};
use crate::upload_watch::UploadWatch;

mod outage;
mod pace;
mod upload;

use outage::OngoingOutage;

/// Where an MH stands in the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    Silent,
    Down,
    Recovering,
}

/// See [`Mobile::cache_room`].
const CACHE_SHARE: usize = 4;
/// After this time a handshake's round trip gives way to a longer one: the MH may have another link.
const HANDSHAKE_AGE_MAX: Duration = Duration::from_secs(600);
/// A round trip, as long as none was measured.
const SRTT_INITIAL: Duration = Duration::from_millis(100);
/// A warning was a false one if no outage has begun within this time after its lead.
const WARNING_MAX: Duration = Duration::from_secs(1);
/// Probes without an answer before silence counts as a disconnection.
const PROBES_UNTIL_DISCONNECTED: u32 = 2;
/// After this number of probes the interval grows, by one `srtt` for each 16 probes.
const PROBES_AT_FIRST_INTERVAL: u32 = 256;

/// What is in flight to an MH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub bytes: u64,
    /// The flows that have a part of it.
    pub flows: u32,
}

impl InFlight {
    /// A flow that had `before` bytes of it has `now`.
    pub(crate) fn count(&mut self, before: u32, now: u32) {
        self.bytes = self.bytes - u64::from(before) + u64::from(now);
        self.flows = self.flows - u32::from(before > 0) + u32::from(now > 0);
    }

    /// The bytes in flight of each of these flows if all had the same part.
    pub(crate) fn fair_part(&self) -> u64 {
        self.bytes / u64::from(self.flows.max(1))
    }
}

/// An MH.
pub(crate) struct Mobile {
    pub address: IpAddr,
    pub scheduled: Scheduled,
    /// Its flows; first the `open` ones.
    pub flows: Vec<FlowId>,
    pub open: usize,
    /// Index of the open flow that was looked at last, for a probe or for copies to suppress.
    pub cursor: usize,
    /// Flows with something to send from the cache, in turn; each once. Some may have nothing any more,
    /// or be forgotten.
    pub send_queue: VecDeque<FlowId>,
    pub link: Link,
    /// What reported the state.
    pub source: LinkSource,
    pub since: Instant,
    /// Its outages are detected.
    pub detects_outages: bool,
    /// The caller was notified to redirect the mobile's segments to the engine.
    pub is_redirected: bool,
    /// The outage that has not ended.
    outage: Option<OngoingOutage>,
    pub going_down_soon: bool,
    /// A warning counts until then, if no outage follows.
    pub warned_until: Option<Instant>,
    /// Schemes have been notified that the MH is unreachable.
    pub disconnected: bool,
    pub outages: u64,
    /// Payload that it has acknowledged, and that it has sent, in bytes.
    pub delivered_bytes: u64,
    pub received_bytes: u64,
    pub rtt: RttEstimator,
    /// The shortest round trip of a handshake of late, and when it was: most likely the MH's own queue was
    /// short then.
    shortest_handshake: Option<(Duration, Instant)>,
    pub delivery: DeliveryRate,
    /// The state of a link whose rate changes. None: the scheme takes the rate for constant.
    pub changing: Option<Box<ChangingLink>>,
    /// What it sends, once it has sent data.
    pub upload: Option<Box<UploadWatch>>,
    /// What was sent to it and is not acknowledged, all flows.
    pub in_flight: InFlight,
    /// The bytes that were sent to it and that it lately reported as missing.
    pub missing: Cell<RecentlyMissing>,
    /// When the newest packet that it has reported was sent, and when it last reported one.
    pub newest_arrival: Cell<Option<(Instant, Instant)>>,
    /// Bytes in the cache for its flows.
    cached_bytes: usize,
    /// When a flow last found that the radio had lost something.
    pub radio_lost_at: Option<Instant>,
    /// Since when data in flight waits for an answer.
    unanswered_since: Option<Instant>,
    probes: u32,
    probe_at: Option<Instant>,
    /// Recovery: the most bytes in flight, and when the next piece may be sent.
    window: u64,
    pub pace_at: Instant,
    /// Its part in its cell.
    pub cell: CellMember,
    /// The link-layer addresses of the newest packet to it. Cached packets may have an earlier next hop's.
    pub link_addresses: Option<LinkAddresses>,
}

impl Mobile {
    pub(crate) fn new(address: IpAddr, now: Instant) -> Self {
        Self {
            address,
            scheduled: Scheduled::default(),
            flows: Vec::new(),
            open: 0,
            cursor: 0,
            send_queue: VecDeque::new(),
            link: Link::Up,
            source: LinkSource::None,
            since: now,
            detects_outages: true,
            is_redirected: false,
            outage: None,
            going_down_soon: false,
            warned_until: None,
            disconnected: false,
            outages: 0,
            delivered_bytes: 0,
            received_bytes: 0,
            rtt: RttEstimator::default(),
            shortest_handshake: None,
            delivery: DeliveryRate::default(),
            changing: None,
            upload: None,
            in_flight: InFlight::default(),
            missing: Cell::default(),
            newest_arrival: Cell::default(),
            cached_bytes: 0,
            radio_lost_at: None,
            unanswered_since: None,
            probes: 0,
            probe_at: None,
            window: 0,
            pace_at: now,
            cell: CellMember::default(),
            link_addresses: None,
        }
    }

    /// Notes the link-layer addresses of a packet to it. If the next hop is a new one, the kernel has just resolved
    /// it: then a scheduled probe is sent at once, because it may be answered.
    pub(crate) fn note_link_addresses(&mut self, addresses: Option<LinkAddresses>, now: Instant) {
        if addresses == self.link_addresses {
            return;
        }
        let next_hop = |addresses: Option<LinkAddresses>| addresses?.first_chunk::<6>().copied();
        let (old, new) = (next_hop(self.link_addresses), next_hop(addresses));
        self.link_addresses = addresses;
        let is_other = old.is_some() && old != new;
        if let Some(probe_at) = self.probe_at.as_mut().filter(|_| is_other) {
            *probe_at = now;
        }
    }

    /// Flows in which both ends were seen. An attacker can make up others.
    pub(crate) fn open_flows(&self) -> &[FlowId] {
        &self.flows[..self.open.min(self.flows.len())]
    }

    /// Cached segments are being sent.
    pub(crate) fn is_recovering(&self) -> bool {
        self.link == Link::Recovering
    }

    /// A handshake took this round trip.
    pub(crate) fn note_handshake(&mut self, rtt: Duration, now: Instant) {
        let is_best = |(least, at)| rtt < least || now.saturating_since(at) > HANDSHAKE_AGE_MAX;
        if self.shortest_handshake.is_none_or(is_best) {
            self.shortest_handshake = Some((rtt, now));
        }
    }

    /// The shortest round trip of a handshake of late.
    pub(crate) fn handshake_rtt(&self) -> Option<Duration> {
        self.shortest_handshake.map(|(rtt, _)| rtt)
    }

    fn srtt(&self) -> Duration {
        self.rtt.srtt().unwrap_or(SRTT_INITIAL)
    }

    /// Segments are forwarded to it as they arrive.
    pub(crate) fn receives_at_once(&self) -> bool {
        match self.link {
            Link::Up => true,
            // The silence may be a slow link's, which loses nothing.
            Link::Silent => self.changing.is_some(),
            Link::Down | Link::Recovering => false,
        }
    }

    /// It is taken for unreachable.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self.link, Link::Silent | Link::Down)
    }

    fn enter(&mut self, link: Link, source: LinkSource, now: Instant) {
        self.link = link;
        self.source = source;
        self.since = now;
    }

    /// True if data in flight has waited too long for an answer: the MH is silent from now on.
    pub(crate) fn falls_silent(&mut self, settings: &Settings, now: Instant) -> bool {
        let listening = matches!(self.link, Link::Up | Link::Recovering);
        let due = self.silent_at(settings).is_some_and(|at| at <= now);
        if !(listening && due) {
            return false;
        }
        let has_download = self.in_flight.bytes > 0;
        let upload = self.upload.as_mut();
        let received_at = upload.map(|watch| {
            // The silence counts as the download's.
            watch.probed_at.take_if(|_| has_download);
            watch.received_at
        });
        // The first segment without an answer was sent in the outage.
        let begin = self.unanswered_since.or(received_at).unwrap_or(now);
        self.begin_outage(begin, LinkSource::Silence);
        self.enter(Link::Silent, LinkSource::Silence, now);
        self.delivery.interrupt();
        self.probes = 0;
        self.probe_at = Some(now);
        true
    }

    /// When the MH counts as silent, if it does not answer before. None: nothing waits for an answer.
    /// A connection that was reset has nothing in flight.
    fn silent_at(&self, settings: &Settings) -> Option<Instant> {
        if !self.detects_outages {
            return None;
        }
        if self.in_flight.bytes == 0 {
            return self.upload.as_ref()?.silent_at(settings.silence_min);
        }
        let since = self.unanswered_since?;
        Some(match &self.changing {
            Some(link) => {
                let patience = link.patience_nanos(&self.rtt, settings.silence_min);
                Instant::from_nanos(since.as_nanos().saturating_add(patience))
            }
            None => since + self.rtt.rto(settings.silence_min),
        })
    }

    /// After this time without an answer recovery retransmits what it has sent.
    pub(crate) fn rto(&self, settings: &Settings) -> Duration {
        let rto = self.rtt.rto(settings.silence_min);
        // The round trip is one without a queue, and most of recovery is not timed (Karn).
        self.changing.as_ref().map_or(rto, |link| {
            let patience = link.patience_nanos(&self.rtt, settings.silence_min);
            rto.max(Duration::from_nanos(patience))
        })
    }

    /// While the link delivers what is in its queue, the next answer comes in this time: twice what
    /// this one took.
    pub(crate) fn next_answer_in(&self, settings: &Settings, now: Instant) -> Duration {
        let gap = self
            .unanswered_since
            .map(|since| now.saturating_since(since));
        (gap.unwrap_or_default() * 2).min(self.rto(settings))
    }

    fn probe_interval(&self, settings: &Settings, now: Instant) -> Duration {
        if let Some(link) = &self.changing {
            let away = now.saturating_since(self.since);
            // Without data in flight the answer to a probe waits for no segment.
            let measured = self.rtt.least().is_some() || self.in_flight.bytes == 0;
            let interval = link.probe_interval(self.delivery.bytes_per_s(), away, measured);
            return interval.min(settings.probe_interval_max);
        }
        let growth = self.probes.saturating_sub(PROBES_AT_FIRST_INTERVAL) / 16;
        let growth = 1 + growth.min(1000);
        let interval = self.srtt() * growth;
        interval.clamp(settings.probe_interval_min, settings.probe_interval_max)
    }

    /// The most bytes of a probe. One byte needs little time on a slow link, and its ACK differs from that of its
    /// original segment.
    pub(crate) fn probe_len_max(&self) -> u32 {
        self.changing.as_ref().map_or(u32::MAX, |_| 1)
    }

    /// A probe is due: true if one is to be sent now.
    pub(crate) fn poll_probe(&mut self, settings: &Settings, now: Instant) -> bool {
        let due = self.is_away() && self.probe_at.is_some_and(|at| at <= now);
        if due {
            self.probes = self.probes.saturating_add(1);
            self.probe_at = Some(now + self.probe_interval(settings, now));
        }
        due
    }

    /// The link is down, or the silence has lasted long enough to count as a disconnection.
    pub(crate) fn counts_as_disconnected(&self) -> bool {
        self.link == Link::Down
            || (self.link == Link::Silent && self.probes > PROBES_UNTIL_DISCONNECTED)
    }

    /// A segment of the MH came. True if that shows that the link is up again.
    pub(crate) fn on_segment(&mut self, now: Instant) -> bool {
        if let Some(watch) = &mut self.upload {
            watch.on_segment(now);
        }
        let waited_since = self.unanswered_since;
        self.unanswered_since = (self.in_flight.bytes > 0).then_some(now);
        if let Some(link) = &mut self.changing {
            let was_busy = link.set_busy(self.in_flight.bytes > 0);
            let listening = matches!(self.link, Link::Up | Link::Recovering);
            if let Some(since) = waited_since.filter(|_| was_busy && listening) {
                link.on_gap(now.saturating_since(since), now);
            }
        }
        match self.link {
            Link::Silent => true,
            // What was in flight at link down may still arrive.
            Link::Down => now.saturating_since(self.since) > self.srtt().max(SRTT_INITIAL),
            Link::Up | Link::Recovering => false,
        }
    }

    /// What the cache takes for this mobile: up to [`CACHE_SHARE`] times what is left for all. So
    /// one mobile takes four fifths at most, and the next one four fifths of the rest.
    pub(crate) fn cache_room(&self, budget: &CacheBudget) -> usize {
        let free = budget.free();
        let share = free.saturating_mul(CACHE_SHARE);
        share.saturating_sub(self.cached_bytes).min(free)
    }

    /// What the flow has in flight and in the cache may have changed.
    pub(crate) fn count_flow<P: Payload>(&mut self, flow: &mut Flow<P>, budget: &mut CacheBudget) {
        let (counted, now) = flow.count_in_flight();
        self.in_flight.count(counted, now);
        self.count_cached_bytes(flow, budget);
        if self.in_flight.bytes == 0 {
            self.unanswered_since = None;
        }
    }

    /// What the flow has in the cache may have changed.
    pub(crate) fn count_cached_bytes<P: Payload>(
        &mut self,
        flow: &mut Flow<P>,
        budget: &mut CacheBudget,
    ) {
        let (counted, kept) = flow.count_cached_bytes();
        self.cached_bytes = (self.cached_bytes + kept).saturating_sub(counted);
        budget.recount(counted, kept);
    }

    /// Bytes were newly acknowledged: the link has delivered them.
    pub(crate) fn on_delivered(&mut self, bytes: u32, now: Instant) {
        let rate = self.delivery.on_acked(bytes, self.rtt.srtt(), now);
        if let (Some(link), Some(rate)) = (&mut self.changing, rate) {
            link.on_rate(rate, now);
        }
    }

    /// Data went out to the MH.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        self.unanswered_since.get_or_insert(now);
        self.on_data(now);
    }

    /// An FH has sent data to the MH.
    pub(crate) fn on_data(&mut self, now: Instant) {
        if let Some(outage) = &mut self.outage {
            outage.timer_at.get_or_insert(now);
        }
    }

    /// The link is up again: the cache is to be sent.
    pub(crate) fn enter_recovery(&mut self, source: LinkSource, now: Instant) {
        self.enter(Link::Recovering, source, now);
        self.going_down_soon = false;
        // A flow that the gateway cannot retransmit may still have data in flight.
        self.unanswered_since = (self.in_flight.bytes > 0).then_some(now);
        self.probe_at = None;
        if let Some(watch) = &mut self.upload {
            watch.on_link_up(now);
        }
        if let Some(link) = &mut self.changing {
            link.on_link_up();
            self.rtt.forget_queue();
        }
        self.begin_pace(now);
    }

    /// The link was up all the time: something cached is to be sent. The wait for an answer goes on if
    /// something is in flight.
    pub(crate) fn resume_recovery(&mut self, now: Instant) {
        let source = match self.source {
            LinkSource::None => LinkSource::Silence,
            source => source,
        };
        self.enter(Link::Recovering, source, now);
        if self.unanswered_since.is_none()
            && let Some(link) = &mut self.changing
        {
            link.become_idle();
        }
        self.begin_pace(now);
        self.widen_window_beyond_flight();
    }

    /// Everything cached has been sent.
    pub(crate) fn end_recovery(&mut self, now: Instant) {
        let source = self.source;
        self.enter(Link::Up, source, now);
    }

    /// When something is due.
    pub(crate) fn deadline(&self, settings: &Settings) -> Option<Instant> {
        let probe = if self.is_away() { self.probe_at } else { None };
        let silent = if self.is_away() {
            None
        } else {
            self.silent_at(settings)
        };
        let window_open = self.window > self.in_flight.bytes;
        let pace = (self.link == Link::Recovering && window_open).then_some(self.pace_at);
        earliest([
            probe,
            silent,
            pace,
            self.upload_probe_at(),
            self.warned_until,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(10_000 + ms)
    }

    fn mobile() -> Mobile {
        Mobile::new([10, 2, 0, 2].into(), at(0))
    }

    #[test]
    fn a_warning_without_an_outage_is_over_a_second_after_its_lead_and_once() {
        let mut mobile = mobile();
        for (lead_ms, over_ms) in [(None, 1_000), (Some(2_500), 3_500)] {
            mobile.warn(lead_ms.map(Duration::from_millis), at(0));
            assert!(!mobile.was_warned_in_vain(at(over_ms - 1)), "{lead_ms:?}");
            assert!(mobile.was_warned_in_vain(at(over_ms)), "{lead_ms:?}");
            assert!(!mobile.was_warned_in_vain(at(over_ms + 1)), "{lead_ms:?}");
        }
        // A second source has no lead: the first one's counts.
        mobile.warn(Some(Duration::from_secs(5)), at(5_000));
        mobile.warn(None, at(6_000));
        assert!(!mobile.was_warned_in_vain(at(10_999)));
        assert!(mobile.was_warned_in_vain(at(11_000)));
        mobile.warn(None, at(12_000));
        mobile.disconnected = true;
        assert!(!mobile.was_warned_in_vain(at(13_000)), "the outage came");
        assert_eq!(mobile.warned_until, None);
    }

    #[test]
    fn the_shortest_round_trip_of_the_handshakes_of_ten_minutes_counts() {
        let mut mobile = mobile();
        for (rtt_ms, ms, shortest_ms) in [
            (50, 0, 50),
            (60, 1, 50),
            (40, 2, 40),
            (60, 600_002, 40),
            (60, 600_003, 60),
        ] {
            mobile.note_handshake(Duration::from_millis(rtt_ms), at(ms));
            let shortest = Some(Duration::from_millis(shortest_ms));
            assert_eq!(mobile.handshake_rtt(), shortest, "{ms}");
        }
    }

    #[test]
    fn a_segment_shows_link_up_only_if_it_was_not_on_its_way_at_link_down() {
        for (srtt_ms, on_its_way_ms) in [(20, 100), (300, 300)] {
            let mut mobile = mobile();
            mobile.rtt.sample(Duration::from_millis(srtt_ms));
            mobile.go_down(LinkSource::Signal, &Settings::default(), at(0));
            assert!(!mobile.on_segment(at(on_its_way_ms)), "{srtt_ms}");
            assert!(mobile.on_segment(at(on_its_way_ms + 1)), "{srtt_ms}");
        }
    }

    #[test]
    fn without_a_carrier_nothing_is_probed() {
        let settings = Settings::default();
        for (source, probes) in [(LinkSource::Signal, true), (LinkSource::Carrier, false)] {
            let mut mobile = mobile();
            mobile.go_down(source, &settings, at(0));
            assert_eq!(mobile.poll_probe(&settings, at(60_000)), probes);
            assert_eq!(mobile.deadline(&settings).is_some(), probes);
        }
    }

    #[test]
    fn probes_go_at_the_first_interval_256_times_and_then_more_rarely() {
        let settings = Settings::default();
        let mut mobile = mobile();
        mobile.rtt.sample(settings.probe_interval_min);
        mobile.go_down(LinkSource::Signal, &settings, at(0));
        let mut now = at(0);
        let mut intervals = Vec::new();
        for _ in 0..310 {
            let due = mobile.deadline(&settings).expect("it probes");
            intervals.push(due.saturating_since(now));
            assert!(!mobile.poll_probe(&settings, due - Duration::from_nanos(1)));
            assert!(mobile.poll_probe(&settings, due));
            now = due;
        }
        let first = settings.probe_interval_min;
        // The 272nd is the 16th after those.
        assert!(intervals[..272].iter().all(|interval| *interval == first));
        assert_eq!(intervals[272], first * 2);
        assert_eq!([intervals[287], intervals[288]], [first * 2, first * 3]);
    }

    #[test]
    fn silence_is_a_disconnection_after_the_third_probe() {
        let settings = Settings::default();
        let mut mobile = mobile();
        mobile.in_flight.count(0, 1000);
        mobile.on_sent(at(0));
        // The RTO without a measurement.
        assert!(!mobile.falls_silent(&settings, at(999)));
        assert!(mobile.falls_silent(&settings, at(1_000)));
        assert!(!mobile.falls_silent(&settings, at(2_000)), "it is silent");
        for probe in 0..3 {
            assert!(!mobile.counts_as_disconnected(), "{probe}");
            let due = mobile.deadline(&settings).expect("it probes");
            assert!(mobile.poll_probe(&settings, due));
        }
        assert!(mobile.counts_as_disconnected());
    }

    #[test]
    fn one_mobile_takes_four_times_what_the_cache_leaves_to_all() {
        let mut mobile = mobile();
        let mut budget = CacheBudget::new(10_000);
        assert_eq!(mobile.cache_room(&budget), 10_000);
        for (own, others, room) in [
            (5_000, 0, 5_000),
            (8_000, 0, 0),
            (7_999, 0, 5),
            (3_000, 6_000, 1_000),
            (3_999, 5_000, 5),
            (0, 10_000, 0),
        ] {
            mobile.cached_bytes = own;
            budget.recount(budget.bytes(), own + others);
            assert_eq!(mobile.cache_room(&budget), room, "{own} {others}");
        }
    }

    #[test]
    fn each_flow_in_flight_has_its_part() {
        let mut in_flight = InFlight::default();
        assert_eq!(in_flight.fair_part(), 0);
        in_flight.count(0, 3000);
        in_flight.count(0, 1000);
        in_flight.count(0, 0);
        assert_eq!((in_flight.bytes, in_flight.flows), (4000, 2));
        assert_eq!(in_flight.fair_part(), 2000);
        in_flight.count(3000, 0);
        assert_eq!((in_flight.bytes, in_flight.flows), (1000, 1));
    }

    #[test]
    fn the_wait_for_an_answer_begins_with_the_first_data_after_all_was_answered() {
        let settings = Settings::default();
        // Without a measurement, and on a link whose rate changes: 240 ms for a round trip of 40.
        for (changing, patience_ms) in [(false, 1_000), (true, 240)] {
            let mut mobile = mobile();
            if changing {
                mobile.changing = Some(Box::default());
                mobile.rtt.sample(Duration::from_millis(40));
            }
            assert!(!mobile.on_segment(at(0)));
            mobile.in_flight.count(0, 1000);
            mobile.on_sent(at(500));
            let due = 500 + patience_ms;
            assert!(!mobile.falls_silent(&settings, at(due - 1)), "{changing}");
            assert!(mobile.falls_silent(&settings, at(due)), "{changing}");
        }
    }

    #[test]
    fn on_a_changing_link_probes_are_rare_if_data_is_in_flight_and_no_round_trip_is_known() {
        let settings = Settings::default();
        for (measured, in_flight, interval_ms) in
            [(false, 0, 100), (false, 1000, 1_000), (true, 1000, 100)]
        {
            let mut mobile = mobile();
            mobile.changing = Some(Box::default());
            if measured {
                mobile.rtt.sample(Duration::from_millis(40));
            }
            mobile.in_flight.count(0, in_flight);
            mobile.go_down(LinkSource::Signal, &settings, at(0));
            let due = mobile.deadline(&settings);
            assert_eq!(due, Some(at(interval_ms)), "{measured} {in_flight}");
        }
    }

    #[test]
    fn a_recovery_without_an_outage_does_not_put_off_silence() {
        let settings = Settings::default();
        let mut mobile = mobile();
        mobile.in_flight.count(0, 1000);
        mobile.on_sent(at(0));
        mobile.resume_recovery(at(900));
        assert!(mobile.is_recovering());
        assert!(!mobile.falls_silent(&settings, at(999)));
        assert!(mobile.falls_silent(&settings, at(1_000)));
    }

    #[test]
    fn a_second_report_of_an_outage_counts_no_other_one() {
        let mut mobile = mobile();
        for outages in [1, 1] {
            mobile.go_down(LinkSource::Signal, &Settings::default(), at(0));
            assert_eq!(mobile.outages, outages);
        }
        mobile.enter_recovery(LinkSource::Signal, at(1_000));
        mobile.go_down(LinkSource::Signal, &Settings::default(), at(2_000));
        assert_eq!(mobile.outages, 2);
    }
}
