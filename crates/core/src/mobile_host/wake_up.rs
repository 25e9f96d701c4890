// SPDX-License-Identifier: Apache-2.0
//! `wake`: the FHs that are woken after an outage, reported or not.
//!
//! A reported outage ends with an `up`: then each live flow is woken. An outage without
//! a report shows itself in downloads that fall silent. Their FHs are probed meanwhile; the first
//! answer after a while shows that the link is up again ([`Outages`]).

use core::time::Duration;

use holdfast_wire::Instant;

use super::action::WakeUp;
use super::{FLOWS_SERVED_MAX, HostAction, HostFlow, MadeAck, MobileHost, MobileScheme};
use crate::FlowKey;
use crate::link_state::{LinkEvent, LinkSource};
use outages::{Outages, ProbeResult, unreachables_for_silent};
use silent_flows::TimedWakeUp;

mod outages;
mod probe_timer;
mod silent_flows;

/// Echoes from before an outage are renewed for this time after a flow was woken.
const ECHO_RENEWED_FOR: Duration = Duration::from_secs(10);
/// They are renewed for this time after link down, and after the wake-up of a silent flow.
const OUTAGE_MAX: Duration = Duration::from_secs(3_600);
/// Silent downloads are searched for at most this often.
const LOOK_FOR_SILENT: Duration = Duration::from_millis(150);
/// The search ends after this time without a segment.
const FALLS_SILENT_WITHIN: Duration = Duration::from_secs(10);

/// The additional state of the machine for `wake`.
#[derive(Debug, Default)]
pub(super) struct WakeUps {
    outages: Outages,
    /// The machine does not search for outages without a report.
    ignores_silence: bool,
    /// When segments are counted next.
    count_at: Option<Instant>,
    /// The number of received segments, and when it last grew.
    segments: u64,
    segments_at: Instant,
    /// No segment arrives: the machine searches all flows for silent downloads.
    looks_for_silent: bool,
    /// A probed FH has shown that the link is up again, without a report.
    link_is_up: bool,
    /// Pausing flows that received data long after the link was reported down: the link is up.
    up_by: Vec<FlowKey>,
}

impl WakeUps {
    pub(super) fn handle_link(&mut self, event: LinkEvent, now: Instant) {
        if matches!(event, LinkEvent::Up | LinkEvent::Down) {
            self.link_is_up = false;
        }
        self.outages.handle_link(event, now);
    }

    /// The next deadline; `at_once` if it has passed.
    pub(super) fn poll_timeout(&self, at_once: Instant) -> Option<Instant> {
        let needs_all = self.needs_all_at_once();
        [self.outages.poll_timeout(), needs_all.then_some(at_once)]
            .into_iter()
            .flatten()
            .min()
    }

    fn needs_all_at_once(&self) -> bool {
        self.looks_for_silent || self.link_is_up || !self.up_by.is_empty()
    }

    /// True if a timer that is due at this time needs all flows.
    pub(super) fn need_all(&self, now: Instant) -> bool {
        let silent = self.outages.wake_up_at();
        self.needs_all_at_once() || silent.is_some_and(|at| at <= now)
    }

    /// The flows whose FHs were probed, and may have answered by now.
    pub(super) fn probed(&self, now: Instant) -> Vec<FlowKey> {
        if self.outages.probe_is_due(now) {
            self.outages.probed()
        } else {
            Vec::new()
        }
    }
}

impl MobileHost {
    /// The same machine without the search for outages: it relies on reports.
    #[must_use]
    pub const fn without_silence(mut self) -> Self {
        self.wake_ups.ignores_silence = true;
        self
    }
}

/// Inputs.
impl MobileHost {
    /// These flows pause, and the data path has released their withheld segments: no ACK below the MH's own
    /// number leaves any more.
    pub fn handle_pauses(
        &mut self,
        pausing: &[HostFlow],
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        for flow in pausing.iter().filter(|_| !self.wake_ups.ignores_silence) {
            self.wake_ups.outages.begin_silence(flow, now);
        }
        let keys = pausing.iter().map(|flow| flow.key);
        if pausing
            .iter()
            .any(|flow| self.wake_ups.outages.shows_link_up(flow))
        {
            // All flows are woken first.
            self.wake_ups.up_by.extend(keys);
            return;
        }
        for key in keys {
            self.acknowledge_withheld(key, actions);
        }
    }

    fn acknowledge_withheld(&mut self, key: FlowKey, actions: &mut Vec<HostAction>) {
        // In an outage this ACK would be lost. The wake-up at link up has the same number.
        if !self.is_down() {
            self.send(key, MadeAck::Last, 1, actions);
        }
    }

    /// Whether [`handle_segment_count`](Self::handle_segment_count) is due.
    pub fn needs_segment_count(&self, now: Instant) -> bool {
        let count_at = self.wake_ups.count_at;
        let is_wake = self.settings.scheme == MobileScheme::Wake;
        is_wake && !self.wake_ups.ignores_silence && count_at.is_none_or(|at| at <= now)
    }

    /// `segments`: how many segments of all flows have arrived; `None`: the number cannot be read. While it
    /// grows, or has not grown for long, no download falls silent.
    pub fn handle_segment_count(&mut self, segments: Option<u64>, now: Instant) {
        let wake_ups = &mut self.wake_ups;
        wake_ups.count_at = Some(now + LOOK_FOR_SILENT);
        let Some(segments) = segments else {
            return;
        };
        if segments != wake_ups.segments {
            (wake_ups.segments, wake_ups.segments_at) = (segments, now);
            return;
        }
        let since = now.saturating_since(wake_ups.segments_at);
        wake_ups.looks_for_silent = since < FALLS_SILENT_WITHIN;
    }

    /// The keep-alive probe to the FH of this flow has left.
    pub fn handle_probe_sent(&mut self, key: &FlowKey, now: Instant) {
        self.counters.probes += 1;
        self.wake_ups.outages.note_probed(key, now);
    }

    /// The flows cannot be read at the moment: everything that needs all of them is put off.
    pub fn handle_unreadable(&mut self, now: Instant) {
        self.wake_ups.looks_for_silent = false;
        // The FH's next answer will show link up again.
        self.wake_ups.link_is_up = false;
        self.wake_ups.outages.put_off(now);
    }

    /// The interface was removed, and the state of its flows with it. Reports of the link stay valid.
    pub fn forget_flows(&mut self) {
        let wake_ups = &mut self.wake_ups;
        wake_ups.outages.forget_flows();
        (wake_ups.count_at, wake_ups.segments) = (None, 0);
        (wake_ups.looks_for_silent, wake_ups.link_is_up) = (false, false);
        wake_ups.up_by.clear();
    }
}

impl MobileHost {
    /// True if no flow is silent.
    #[cfg(test)]
    pub(super) fn is_at_rest(&self) -> bool {
        self.wake_ups.poll_timeout(Instant::ZERO).is_none()
    }

    pub(super) fn handle_wake_timeout(
        &mut self,
        flows: &[HostFlow],
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        let up_by = core::mem::take(&mut self.wake_ups.up_by);
        if !up_by.is_empty() {
            self.handle_link(LinkEvent::Up, flows, now, actions);
            for key in up_by {
                self.acknowledge_withheld(key, actions);
            }
        }
        if core::mem::take(&mut self.wake_ups.link_is_up) {
            self.end_silent_outage(flows, now, actions);
        } else if self.wake_ups.outages.probe_is_due(now) {
            self.look_for_answers(flows, now, actions);
        }
        if core::mem::take(&mut self.wake_ups.looks_for_silent) {
            let newest = flows.iter().filter_map(|flow| flow.received_at).max();
            for flow in flows {
                if self.wake_ups.outages.is_quiet(flow, newest, now) {
                    self.wake_ups.outages.begin_silence(flow, now);
                }
            }
        }
        if self
            .wake_ups
            .outages
            .wake_up_at()
            .is_some_and(|at| at <= now)
        {
            self.wake_silent_flows(flows, now, actions);
        }
    }

    /// Checks whether a probed FH has answered, and probes the next one.
    fn look_for_answers(
        &mut self,
        flows: &[HostFlow],
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        match self.wake_ups.outages.poll_probe(flows, now) {
            None => {}
            Some(ProbeResult::Probe(key)) => actions.push(HostAction::Probe(key)),
            Some(ProbeResult::Pauses(key)) => {
                self.counters.pauses += 1;
                if let Some(flow) = flows.iter().find(|flow| flow.key == key) {
                    Self::wake_silent(flow, now, actions);
                }
            }
            Some(ProbeResult::LinkUp) => self.wake_ups.link_is_up = true,
        }
    }

    /// The link is up again after an outage without a report.
    fn end_silent_outage(
        &mut self,
        flows: &[HostFlow],
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        if let Some(begin) = self.wake_ups.outages.silence_began() {
            self.note_outage(begin, LinkSource::Silence, flows, now);
        }
        let waiting = self.wake_ups.outages.handle_link_up_inferred(flows, now);
        // If only one flow exists and its data showed link up, no flow is left to wake.
        self.counters.silent_outages += 1;
        for key in waiting {
            if let Some(flow) = flows.iter().find(|flow| flow.key == key) {
                self.wake_up(flow, now, actions);
            }
        }
    }

    fn wake_silent_flows(
        &mut self,
        flows: &[HostFlow],
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        for TimedWakeUp { key, link_is_up } in self.wake_ups.outages.timed_wake_ups(flows, now) {
            let Some(flow) = flows.iter().find(|flow| flow.key == key) else {
                continue;
            };
            self.counters.timed_wake_ups += 1;
            if link_is_up {
                self.wake_up(flow, now, actions);
            } else {
                Self::wake_silent(flow, now, actions);
            }
        }
    }

    /// Wakes the FH of a flow after an outage.
    ///
    /// The first wake-up has three kinds of packets. ICMP unreachables wake an FH that has received all
    /// ACKs of the MH. ACKs at the newest segment boundaries follow: an FH that has missed the last ACKs
    /// receives the ACK of its retransmitted segment first, and alone. Otherwise BBR would wait for the
    /// length of its queue (docs/schemes/wake.md). The MH's own ACK is last. An FH without SACK gets the
    /// unreachables only. It takes ACKs of what it has not retransmitted as proof of a false alarm, and
    /// then nothing shows it the loss.
    pub(super) fn wake_up(&mut self, flow: &HostFlow, now: Instant, actions: &mut Vec<HostAction>) {
        let notifications = self.wake_ups.outages.notifications(flow, now);
        actions.push(HostAction::WakeUp(WakeUp {
            key: flow.key,
            unreachables: notifications.unreachables,
            boundary_acks: notifications.boundary_acks,
            sends_ack: flow.permits_sack,
            renews_echo_for: ECHO_RENEWED_FOR,
        }));
    }

    /// Wakes the FH of a silent flow: by a copy of the MH's own ACK, and after a while by unreachables
    /// too.
    fn wake_silent(flow: &HostFlow, now: Instant, actions: &mut Vec<HostAction>) {
        actions.push(HostAction::WakeUp(WakeUp {
            key: flow.key,
            unreachables: unreachables_for_silent(flow, now),
            boundary_acks: 0,
            sends_ack: flow.permits_sack,
            renews_echo_for: OUTAGE_MAX,
        }));
    }

    /// Segments that the MH itself sends at link up, before any report, must also have an echo of the time
    /// of link up.
    pub(super) fn renew_echoes(flows: &[HostFlow], actions: &mut Vec<HostAction>) {
        // With options that may be signed nothing is changed; ACKs do not wake an FH without SACK.
        let may = |flow: &&HostFlow| !flow.is_opaque && !flow.is_finished && flow.permits_sack;
        let mut renewed: Vec<_> = flows.iter().filter(may).collect();
        renewed.sort_by_key(|flow| core::cmp::Reverse(flow.received_at));
        let keys = renewed.iter().take(FLOWS_SERVED_MAX).map(|flow| flow.key);
        actions.extend(keys.map(|key| HostAction::RenewEcho {
            key,
            lasts: OUTAGE_MAX,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::wake_flow;
    use super::super::{FlowsNeeded, MobileHostSettings};
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000_000 + ms)
    }

    /// A machine whose flows have received data at 100 ms, and pause from 300 ms on.
    fn silent(ports: &[u16]) -> (MobileHost, Vec<HostFlow>) {
        let mut host = MobileHost::new(MobileHostSettings::new(MobileScheme::Wake));
        let flows: Vec<_> = ports
            .iter()
            .map(|port| HostFlow {
                data_at: Some(at(100)),
                ..wake_flow(*port, at(100))
            })
            .collect();
        host.handle_pauses(&flows, at(300), &mut Vec::new());
        (host, flows)
    }

    /// What is done for the flows until then; each probe leaves at once.
    fn until(host: &mut MobileHost, flows: &[HostFlow], ms: u64) -> Vec<HostAction> {
        let mut all = Vec::new();
        while let Some(due) = host.poll_timeout().filter(|due| *due <= at(ms)) {
            let mut actions = Vec::new();
            host.handle_timeout(flows, due, &mut actions);
            for action in &actions {
                if let HostAction::Probe(key) = action {
                    host.handle_probe_sent(key, due);
                }
            }
            all.append(&mut actions);
        }
        all
    }

    fn woken(actions: &[HostAction]) -> Vec<FlowKey> {
        let keys = actions.iter().filter_map(|action| match action {
            HostAction::WakeUp(wake_up) => Some(wake_up.key),
            _ => None,
        });
        keys.collect()
    }

    #[test]
    fn an_outage_that_nothing_reports_is_recorded_from_the_silence_to_the_answer() {
        let (mut host, mut flows) = silent(&[1]);
        until(&mut host, &flows, 7_000);
        assert_eq!(host.poll_outage(), None);
        flows[0].received_at = Some(at(7_010));
        let actions = until(&mut host, &flows, 7_100);
        assert!(woken(&actions).contains(&flows[0].key), "{actions:?}");
        let outage = host.poll_outage().expect("it has ended");
        assert_eq!(
            (outage.source, outage.begin),
            (LinkSource::Silence, at(300))
        );
        assert_eq!(outage.flows, 1);
        assert!(outage.length >= Duration::from_millis(6_700), "{outage:?}");
    }

    #[test]
    fn a_silent_flow_is_woken_by_the_clock_and_a_flow_that_receives_is_not() {
        let (mut host, mut flows) = silent(&[1]);
        flows.push(HostFlow {
            data_at: Some(at(100)),
            ..wake_flow(2, at(100))
        });
        let keys = woken(&until(&mut host, &flows, 3_000));
        assert!(!keys.is_empty());
        assert!(keys.iter().all(|key| *key == flows[0].key), "{keys:?}");
    }

    #[test]
    fn the_answer_to_a_probe_is_looked_for_in_the_probed_flow_alone() {
        let (mut host, flows) = silent(&[1, 2]);
        let actions = until(&mut host, &flows, 350);
        assert_eq!(actions, [HostAction::Probe(flows[0].key)]);
        let look = host.poll_timeout().expect("the answer is looked for");
        let probed = FlowsNeeded::Some([flows[0].key].into());
        assert_eq!(host.flows_needed(look), probed);
    }

    #[test]
    fn silent_downloads_are_looked_for_only_for_a_while_after_the_newest_segment() {
        let mut host = MobileHost::new(MobileHostSettings::new(MobileScheme::Wake));
        let mut looks = |ms, segments| {
            if !host.needs_segment_count(at(ms)) {
                return false;
            }
            host.handle_segment_count(Some(segments), at(ms));
            core::mem::take(&mut host.wake_ups.looks_for_silent)
        };
        assert!(!looks(0, 5));
        assert!(!looks(100, 5), "a moment ago");
        assert!(looks(500, 5));
        assert!(!looks(1_000, 6), "more have come");
        assert!(looks(1_500, 6));
        assert!(!looks(11_500, 6), "none for long");
    }
}
