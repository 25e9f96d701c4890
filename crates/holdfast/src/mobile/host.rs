// SPDX-License-Identifier: Apache-2.0
//! The mobile's flows: moves data between the interface's data path and the machine of
//! `core::mobile_host`, which decides.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use holdfast_core::mobile_host::{
    FlowsNeeded, HostAction, HostFlow, MadeAck, MobileHost, MobileHostSettings, MobileScheme,
};
use holdfast_core::{FlowKey, LinkEvent, Outage, counters};
use holdfast_net::datapath::{AttachMode, Interface, InterfaceId, now};
use holdfast_net::mobile_path::{AckSender, MobilePath, NotedFlow, Pauses};
use holdfast_wire::{Instant, SeqNum};

use super::decompress::Decompression;
use super::guard::{Guard, READY_AGAIN_WITHIN, READY_WITHIN};

mod wake;

/// After a failure, the next attempt to follow the flows is made after this time.
const ATTACH_AGAIN: Duration = Duration::from_secs(5);
/// The guard is checked at this interval while a window is closed or limited.
const GUARD_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// After a failed start of the guard the next attempt is made after this time.
const GUARD_AGAIN: Duration = Duration::from_secs(10);
/// With `wake` the guard is checked at this interval.
const GUARD_LOOK_WAKE: Duration = Duration::from_secs(1);
/// With `wake`, the wait after a failed start of the guard. It doubles with each further failure.
const GUARD_AGAIN_WAKE: Duration = Duration::from_secs(5);
/// The limit of that wait.
const GUARD_AGAIN_WAKE_MAX: Duration = Duration::from_secs(60);
/// A guard starts in less than this. The orders must not lapse meanwhile.
const GUARD_START: Duration = Duration::from_secs(2);

counters! {
    /// What is counted beside the machine.
    pub(super) struct HostCounters {
        /// Packets that could not be sent: the link is down, or the device's queue is full.
        send_errors = "send-errors",
        /// Reads and writes of the data path's tables that failed.
        path_errors = "path-errors",
    }
}

counters! {
    gauge
    /// What there is at present.
    pub(super) struct HostGauges {
        /// Windows that open in steps.
        opening = "opening-now",
        /// Windows that are closed.
        closed = "closed-now",
    }
}

/// The flows of one interface.
pub(super) struct Host {
    interface: String,
    flows_max: u32,
    machine: MobileHost,
    scheme: MobileScheme,
    /// Whether segments that the gateway has compressed are restored here.
    decompresses: bool,
    attached: Option<Attached>,
    /// When the next attempt to follow the flows is due, after a failure.
    retry_at: Option<Instant>,
    send_errors: u64,
    path_errors: u64,
    /// When the guard is checked next, and the interval before that.
    guard_check_at: Instant,
    guard_check_interval: Duration,
}

/// The objects that exist while the interface does.
struct Attached {
    /// Dropped first: the programs go before the device to which they redirect.
    path: MobilePath,
    sender: AckSender,
    /// Opens the windows if this process dies or hangs.
    guard: Option<Guard>,
    decompression: Option<Decompression>,
    /// With `wake`: reports which flows pause.
    pauses: Option<Pauses>,
    /// With `wake` but without `pauses`: when the daemon next looks for flows that pause, and the ACKs it has sent.
    pause_check_at: Option<Instant>,
    released: BTreeMap<FlowKey, SeqNum>,
}

impl Host {
    /// Attaches to the interface. If it does not exist yet, it is attached when it appears.
    ///
    /// Errors: no permission, or the kernel lacks a feature; one line. With `may_wait` there is no error:
    /// the attempt is repeated.
    pub(super) fn open(
        interface: &str,
        settings: MobileHostSettings,
        flows_max: u32,
        decompresses: bool,
        may_wait: bool,
    ) -> anyhow::Result<Self> {
        let mut host = Self {
            interface: interface.to_owned(),
            flows_max,
            scheme: settings.scheme,
            decompresses,
            machine: MobileHost::new(settings),
            attached: None,
            retry_at: None,
            send_errors: 0,
            path_errors: 0,
            guard_check_at: Instant::ZERO,
            guard_check_interval: Duration::ZERO,
        };
        match Interface::query(interface) {
            Err(error) if error.kind() != io::ErrorKind::Unsupported => {
                tracing::warn!(interface, "no such interface yet");
            }
            _ if may_wait => host.try_to_attach(),
            _ => host.attach()?,
        }
        Ok(host)
    }

    fn attach(&mut self) -> anyhow::Result<()> {
        let (path, decompression, pauses) = self.attach_path()?;
        let sender = AckSender::open(path.interface())?;
        let guard = match self.scheme {
            MobileScheme::Freeze | MobileScheme::Wake => {
                Some(Guard::start(&path, &sender, READY_WITHIN)?)
            }
            MobileScheme::FastRetransmit | MobileScheme::Mtcp => None,
        };
        let looks = self.scheme == MobileScheme::Wake && pauses.is_none();
        if looks {
            tracing::info!("no timers for programs in this kernel: pauses are looked for");
        }
        tracing::info!(
            interface = self.interface,
            scheme = %self.scheme,
            tcx = path.detaches_on_death(),
            "following flows"
        );
        self.attached = Some(Attached {
            path,
            sender,
            guard,
            decompression,
            pause_check_at: looks.then(now),
            released: BTreeMap::new(),
            pauses,
        });
        Ok(())
    }

    fn attach_path(&self) -> anyhow::Result<(MobilePath, Option<Decompression>, Option<Pauses>)> {
        let (interface, mode) = (&self.interface, AttachMode::Auto);
        if self.scheme == MobileScheme::Wake {
            let (path, pauses) = MobilePath::attach_withholding(interface, mode, self.flows_max)?;
            return Ok((path, None, pauses));
        }
        if !self.decompresses {
            let path = MobilePath::attach(interface, mode, self.flows_max)?;
            return Ok((path, None, None));
        }
        let (path, detour) = MobilePath::attach_with_detour(interface, mode, self.flows_max)?;
        Ok((path, Some(Decompression::start(detour)?), None))
    }

    /// Whether compressed segments are restored at present.
    pub(super) fn can_decompress(&self) -> bool {
        let decompression = |attached: &Attached| {
            let thread = attached.decompression.as_ref();
            thread.is_some_and(Decompression::runs)
        };
        self.attached.as_ref().is_some_and(decompression)
    }

    /// Notes the interface of that name. None: no interface has the name.
    pub(super) fn note_interface(&mut self, id: Option<InterfaceId>) {
        let attached_to = |attached: &Attached| attached.path.interface().id();
        let before = self.attached.as_ref().map(attached_to);
        if before.is_some() && before != id {
            self.detach();
        }
        self.retry_at = None;
        if id.is_some() && self.attached.is_none() {
            self.try_to_attach();
        }
    }

    fn try_to_attach(&mut self) {
        self.retry_at = None;
        if let Err(error) = self.attach() {
            tracing::warn!(%error, "the flows of the interface are not followed; trying again");
            self.retry_at = Some(now() + ATTACH_AGAIN);
        }
    }

    /// Replaces a guard that has died, if possible. False: there is none, and no further window may be closed.
    fn is_guarded(&mut self) -> bool {
        let Some(attached) = &mut self.attached else {
            return false;
        };
        if attached.guard.as_mut().is_some_and(Guard::is_alive) {
            return true;
        }
        if self.machine.orders_until(now()).is_some() {
            let until = now() + GUARD_START;
            attached.path.maps().set_orders_until(until);
        }
        match Guard::start(&attached.path, &attached.sender, READY_AGAIN_WITHIN) {
            Ok(guard) => {
                attached.guard = Some(guard);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "guard process unavailable: withheld ACKs are not released if the daemon hangs; no further windows will be closed");
                false
            }
        }
    }

    /// A guard must run while a window is closed or limited, and always with `wake`. If none can be
    /// started, closed windows stay closed: in an outage no packet would arrive, and this daemon lives.
    fn check_guard(&mut self) {
        let is_wake = self.scheme == MobileScheme::Wake && self.attached.is_some();
        let ordered = self.machine.closed_count() + self.machine.opening_count() > 0;
        if !(is_wake || ordered) || now() < self.guard_check_at {
            return;
        }
        // The daemon waits for a guard's start, which is short.
        let is_there = self.is_guarded();
        self.guard_check_interval = match (self.scheme, is_there) {
            (MobileScheme::Wake, _) => check_interval_of_wake(self.guard_check_interval, is_there),
            (_, true) => GUARD_CHECK_INTERVAL,
            (_, false) => GUARD_AGAIN,
        };
        self.guard_check_at = now() + self.guard_check_interval;
        if let Some(guard) = self
            .attached
            .as_mut()
            .and_then(|attached| attached.guard.as_mut())
        {
            // A new guard does not know of closed windows yet.
            guard.watch(true);
        }
    }

    /// The interface whose flows these are.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// Handles an event of the link.
    pub(super) fn handle_link(&mut self, event: LinkEvent) {
        tracing::debug!(?event, "for the flows");
        let closes =
            matches!(event, LinkEvent::GoingDownSoon(_)) && self.scheme == MobileScheme::Freeze;
        if closes && !self.is_guarded() {
            return;
        }
        if event == LinkEvent::Down && self.scheme == MobileScheme::Freeze {
            // Windows may be closed later: a guard that has died is replaced, or a warning logged.
            let _ = self.is_guarded();
        }
        let now = now();
        let needed = self.machine.flows_needed_for(event, now);
        let flows = self.read_flows(&needed, now);
        let mut actions = Vec::new();
        self.machine.handle_link(event, &flows, now, &mut actions);
        self.perform_all(actions);
    }

    /// The next outage that has ended.
    pub(super) fn poll_outage(&mut self) -> Option<Outage<()>> {
        self.machine.poll_outage()
    }

    /// How long until [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let pause_check_at = self.attached.as_ref().and_then(|one| one.pause_check_at);
        let due = [self.machine.poll_timeout(), self.retry_at, pause_check_at];
        Some(due.into_iter().flatten().min()?.saturating_since(now()))
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self) {
        if self.retry_at.is_some_and(|at| at <= now()) {
            self.try_to_attach();
        }
        let now = now();
        if let Some(attached) = &self.attached
            && self.machine.needs_segment_count(now)
        {
            let segments = attached.segments_received();
            self.machine.handle_segment_count(segments, now);
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            let was_down = self.machine.is_down();
            let flows = self.read_flows(&self.machine.flows_needed(now), now);
            let mut actions = Vec::new();
            self.machine.handle_timeout(&flows, now, &mut actions);
            if was_down && !self.machine.is_down() {
                tracing::info!("the link was reported down, and is up");
            }
            self.perform_all(actions);
        }
        self.check_guard();
        self.look_for_pauses();
    }

    /// Opens closed windows, acknowledges withheld segments, and detaches.
    pub(super) fn release(&mut self) {
        if self.machine.is_down() && self.machine.closed_count() > 0 && self.is_guarded() {
            // No packet arrives now. The dropped guard opens the windows, and repeats its ACKs.
            drop(self.attached.take());
            return;
        }
        let mut actions = Vec::new();
        self.machine.release(now(), &mut actions);
        self.perform_all(actions);
        if let Some(attached) = &self.attached
            && self.scheme == MobileScheme::Wake
        {
            // From here on no segment is withheld.
            let maps = attached.path.maps();
            maps.set_orders_until(Instant::ZERO);
            let withheld = maps.withholding_flows().unwrap_or_else(|error| {
                tracing::warn!(%error, "withheld segments cannot be read");
                Vec::new()
            });
            for noted in withheld {
                // The link may be down.
                let _ = attached.sender.send(&noted, MadeAck::Last, 1);
            }
        }
        self.detach();
    }

    fn detach(&mut self) {
        if let Some(guard) = self.attached.take().and_then(|attached| attached.guard) {
            guard.dismiss();
        }
        self.machine.forget_flows();
    }

    /// What was counted, by name.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        let own = HostCounters {
            send_errors: self.send_errors,
            path_errors: self.path_errors,
        };
        let gauges = HostGauges {
            opening: self.machine.opening_count() as u64,
            closed: self.machine.closed_count() as u64,
        };
        let counters = self.machine.counters().named();
        let counters = counters.chain(own.named()).chain(gauges.named());
        let mut by_name: BTreeMap<_, _> = counters
            .map(|(name, count)| (format!("host.{name}"), count))
            .collect();
        if let Some(Ok(counters)) = self
            .attached
            .as_ref()
            .map(|attached| attached.path.counters())
        {
            let named = counters.into_iter();
            by_name.extend(named.map(|(name, count)| (format!("path.{name}"), count)));
        }
        let decompression = self
            .attached
            .as_ref()
            .and_then(|attached| attached.decompression.as_ref());
        by_name.extend(decompression.into_iter().flat_map(Decompression::counters));
        by_name
    }

    /// Reads these flows from the data path.
    fn read_flows(&mut self, needed: &FlowsNeeded, now: Instant) -> Vec<HostFlow> {
        let Some(attached) = &self.attached else {
            return Vec::new();
        };
        let maps = attached.path.maps();
        let noted = match needed {
            FlowsNeeded::All => match maps.flows() {
                Ok(noted) => noted,
                Err(error) => {
                    tracing::warn!(%error, "the flows cannot be read");
                    self.path_errors += 1;
                    self.machine.handle_unreadable(now);
                    Vec::new()
                }
            },
            FlowsNeeded::Some(keys) => {
                let read = |key| {
                    maps.flow(key).unwrap_or_else(|error| {
                        tracing::warn!(%error, ?key, "the flow cannot be read");
                        self.path_errors += 1;
                        None
                    })
                };
                keys.iter().filter_map(read).collect()
            }
        };
        noted.iter().map(|noted| self.observed(noted)).collect()
    }

    /// The flow, with `wake` also its download.
    fn observed(&self, noted: &NotedFlow) -> HostFlow {
        let attached = self.attached.as_ref();
        let attached = attached.filter(|_| self.scheme == MobileScheme::Wake);
        let withheld = attached.and_then(|attached| attached.withheld(noted));
        HostFlow {
            download: withheld.map(|withheld| withheld.download),
            ..noted.flow
        }
    }

    /// Does the machine's actions.
    fn perform_all(&mut self, actions: Vec<HostAction>) {
        if let Some(attached) = &mut self.attached {
            let until = self.machine.orders_until(now());
            let maps = attached.path.maps();
            maps.set_orders_until(until.unwrap_or(Instant::ZERO));
            if let Some(guard) = &mut attached.guard {
                guard.watch(until.is_some());
            }
        }
        for action in actions {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: HostAction) {
        let Some(attached) = &self.attached else {
            return;
        };
        let maps = attached.path.maps();
        let done = match action {
            HostAction::Close(key) => maps.close(&key),
            HostAction::Open(key) => maps.open_window(&key),
            HostAction::Limit { key, edge } => maps.limit_window(&key, edge),
            HostAction::Send { key, .. } | HostAction::RenewEcho { key, .. } => {
                self.with_flow(&key, action)
            }
            HostAction::WakeUp(wake_up) => self.with_flow(&wake_up.key, action),
            HostAction::Probe(key) => self.with_flow(&key, action),
        };
        if let Err(error) = done {
            self.path_errors += 1;
            tracing::warn!(%error, ?action, "not done");
        }
    }

    /// Does what needs the flow's newest notes. Errors: they cannot be read.
    fn with_flow(&mut self, key: &FlowKey, action: HostAction) -> io::Result<()> {
        let Some(attached) = &self.attached else {
            return Ok(());
        };
        let Some(mut noted) = attached.path.maps().flow(key)? else {
            return Ok(());
        };
        let sent = match action {
            HostAction::Send { ack, copies, .. } => {
                if ack == MadeAck::Last && self.scheme == MobileScheme::Wake {
                    attached.release(&noted);
                }
                attached.sender.send(&noted, ack, copies)
            }
            HostAction::WakeUp(wake_up) => attached.wake_up(&wake_up, &mut noted),
            HostAction::RenewEcho { lasts, .. } => {
                attached.renew_echo(&mut noted, lasts);
                Ok(())
            }
            HostAction::Probe(key) => attached.sender.probe(&noted).map(|()| {
                self.machine.handle_probe_sent(&key, now());
            }),
            HostAction::Close(_) | HostAction::Open(_) | HostAction::Limit { .. } => Ok(()),
        };
        if let Err(error) = sent {
            self.send_errors += 1;
            tracing::debug!(%error, ?action, "not sent");
        }
        Ok(())
    }
}

/// The wait before the guard's next check. A start takes long: after failures it is tried less often.
fn check_interval_of_wake(before: Duration, is_there: bool) -> Duration {
    match before {
        _ if is_there => GUARD_LOOK_WAKE,
        wait if wait < GUARD_AGAIN_WAKE => GUARD_AGAIN_WAKE,
        wait => (wait * 2).min(GUARD_AGAIN_WAKE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_cannot_be_started_is_looked_for_less_and_less() {
        let mut wait = Duration::ZERO;
        let waits = [true, false, false, false, false, false, false, true].map(|is_there| {
            wait = check_interval_of_wake(wait, is_there);
            wait.as_secs()
        });
        assert_eq!(waits, [1, 5, 10, 20, 40, 60, 60, 1]);
    }
}
