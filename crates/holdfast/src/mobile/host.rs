// SPDX-License-Identifier: Apache-2.0
//! What the daemon does for the mobile's own flows: the machine of `core::mobile_host`
//! between the interface's data path and the sender of ACKs.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::{
    HostAction, HostFlow, HostLinkEvent, MadeAck, MobileHost, MobileHostSettings, MobileScheme,
};
use holdfast_net::datapath::{AttachMode, Interface, monotonic_ns};
use holdfast_net::mobile_path::{AckSender, MobilePath, Pauses};
use holdfast_wire::{Instant, SeqNum};

use super::decompress::Decompression;
use super::guard::Guard;

mod wake;
mod waking;

use wake::let_go;
use waking::Waking;

/// How long after a failure following the flows is tried again.
const ATTACH_AGAIN: Duration = Duration::from_secs(5);
/// How often it is looked whether the guard lives, while a window is closed or limited...
const GUARD_LOOK: Duration = Duration::from_millis(500);
/// ... and after one could not be started.
const GUARD_AGAIN: Duration = Duration::from_secs(10);
/// Starting one takes less than this; what is ordered is not to lapse meanwhile.
const GUARD_START: Duration = Duration::from_secs(2);

/// The own flows of one interface.
pub(super) struct Host {
    interface: String,
    flows_max: u32,
    machine: MobileHost,
    scheme: MobileScheme,
    /// Whether segments that the gateway has compressed are restored here.
    decompresses: bool,
    attached: Option<Attached>,
    /// The interface is there, and following its flows is tried again then.
    retry_at: Option<Instant>,
    send_errors: u64,
    path_errors: u64,
    /// When it is next looked whether the guard lives.
    guard_look_at: Instant,
    /// Of `wake`.
    waking: Waking,
    /// Wake-ups of flows that were silent without an outage that anybody told of.
    silence_broken: u64,
    /// FHs asked whether the link is back, and outages of which nobody told whose end was heard of so.
    asked: u64,
    silent_outages: u64,
}

/// What is read of the flows for the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    All,
    /// What it asks for at its time, one by one.
    WhatIsDue,
}

/// What is there while the interface is.
struct Attached {
    /// Its device goes after the programs that redirect to it.
    path: MobilePath,
    sender: AckSender,
    /// Opens the windows if this process cannot any more.
    guard: Option<Guard>,
    decompression: Option<Decompression>,
    /// Of `wake`: which flows pause.
    pauses: Option<Pauses>,
    /// Of `wake` without them: when it is looked which flows pause, and what was let go of them.
    look_at: Option<Instant>,
    let_go: BTreeMap<FlowKey, SeqNum>,
}

impl Host {
    /// Attaches to the interface; if there is none yet, when it appears.
    ///
    /// Errors: no permission, a kernel without what is needed; one line. Not if it `may_wait`:
    /// then it is tried again.
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
            guard_look_at: Instant::ZERO,
            waking: Waking::default(),
            silence_broken: 0,
            asked: 0,
            silent_outages: 0,
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
                Some(Guard::start(&self.interface, &path)?)
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
            look_at: looks.then(now),
            let_go: BTreeMap::new(),
            pauses,
        });
        Ok(())
    }

    fn attach_path(&self) -> anyhow::Result<(MobilePath, Option<Decompression>, Option<Pauses>)> {
        let (interface, mode) = (&self.interface, AttachMode::Auto);
        if self.scheme == MobileScheme::Wake {
            let (path, pauses) = MobilePath::attach_with_reserves(interface, mode, self.flows_max)?;
            return Ok((path, None, pauses));
        }
        if !self.decompresses {
            let path = MobilePath::attach(interface, mode, self.flows_max)?;
            return Ok((path, None, None));
        }
        let (path, detour) = MobilePath::attach_with_detour(interface, mode, self.flows_max)?;
        Ok((path, Some(Decompression::start(detour)?), None))
    }

    /// Whether compressed segments are restored at the moment.
    pub(super) fn can_decompress(&self) -> bool {
        let decompression = |attached: &Attached| {
            let thread = attached.decompression.as_ref();
            thread.is_some_and(Decompression::runs)
        };
        self.attached.as_ref().is_some_and(decompression)
    }

    /// The interface is there, under this index, or none of that name is.
    pub(super) fn note_interface(&mut self, ifindex: Option<u32>) {
        let attached_to = |attached: &Attached| attached.path.interface().ifindex;
        let before = self.attached.as_ref().map(attached_to);
        if before.is_some() && before != ifindex {
            self.detach();
        }
        self.retry_at = None;
        if ifindex.is_some() && self.attached.is_none() {
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

    /// Whether there is a guard: one that has died is replaced, if that can be done. Without one no other
    /// window is closed.
    fn is_guarded(&mut self) -> bool {
        let Some(attached) = &mut self.attached else {
            return false;
        };
        if attached.guard.as_mut().is_some_and(Guard::lives) {
            return true;
        }
        if self.machine.orders_until(now()).is_some() {
            let until = now() + GUARD_START;
            attached.path.maps().set_orders_until(until);
        }
        match Guard::start_again(&self.interface, &attached.path) {
            Ok(guard) => {
                attached.guard = Some(guard);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "no guard: what is held back stays so in a hang, and no other window is closed");
                false
            }
        }
    }

    /// While a window is closed or limited a guard stands by. If there can be none it stays so: in an
    /// outage nobody would hear of anything else, and this daemon lives.
    fn look_at_guard(&mut self) {
        let ordered = self.machine.closed_count() + self.machine.opening_count() > 0;
        if !ordered || now() < self.guard_look_at {
            return;
        }
        let again = if self.is_guarded() {
            GUARD_LOOK
        } else {
            GUARD_AGAIN
        };
        self.guard_look_at = now() + again;
        if let Some(guard) = self.attached.as_mut().and_then(|of| of.guard.as_mut()) {
            // A new one does not know of anything yet.
            guard.watch(true);
        }
    }

    /// The interface whose flows these are.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// Something became of the link.
    pub(super) fn handle_link(&mut self, event: HostLinkEvent) {
        tracing::debug!(?event, "for the own flows");
        let closes =
            matches!(event, HostLinkEvent::GoingDownSoon(_)) && self.scheme == MobileScheme::Freeze;
        if closes && !self.is_guarded() {
            return;
        }
        if event == HostLinkEvent::Down && self.scheme == MobileScheme::Freeze {
            // Windows may be closed again: a guard that has died is replaced. Without one it says so.
            let _ = self.is_guarded();
        }
        self.waking.handle_link(event);
        self.drive(|machine, now, flows, actions| machine.handle_link(event, now, flows, actions));
        if event == HostLinkEvent::Down && self.scheme == MobileScheme::Wake {
            self.prepare_to_wake();
        }
    }

    /// How long until [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let look_at = self.attached.as_ref().and_then(|of| of.look_at);
        let attached = self.attached.as_ref();
        let silence = attached.and_then(|_| self.waking.poll_timeout());
        let due = [self.machine.poll_timeout(), self.retry_at, look_at, silence];
        let due = due.into_iter().flatten().min()?;
        Some(due.saturating_since(now()))
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self) {
        if self.retry_at.is_some_and(|at| at <= now()) {
            self.try_to_attach();
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now()) {
            self.drive_with(Reads::WhatIsDue, MobileHost::handle_timeout);
        }
        self.look_at_guard();
        self.look_for_pauses();
        self.watch_silence();
        self.look_for_silence();
    }

    /// Opens what is closed, acknowledges what is held back, and leaves.
    pub(super) fn release(&mut self) {
        self.drive(|machine, now, _, actions| machine.release(now, actions));
        if let Some(attached) = &self.attached
            && self.scheme == MobileScheme::Wake
        {
            // From here on nothing is held back.
            attached.path.maps().set_orders_until(Instant::ZERO);
            let held = attached.path.maps().held_flows().unwrap_or_else(|error| {
                tracing::warn!(%error, "what is held back cannot be read");
                Vec::new()
            });
            for noted in held {
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
        // Nothing of it is known any more.
        self.waking.forget_flows();
    }

    /// What was counted, by name.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        let machine = self.machine.counters();
        let mut by_name = BTreeMap::from([
            ("host.frozen".to_owned(), machine.frozen),
            ("host.not-covered".to_owned(), machine.not_covered),
            ("host.false-alarms".to_owned(), machine.false_alarms),
            ("host.acks-made".to_owned(), machine.acks_made),
            ("host.opened-in-steps".to_owned(), machine.opened_in_steps),
            (
                "host.opening-now".to_owned(),
                self.machine.opening_count() as u64,
            ),
            (
                "host.closed-now".to_owned(),
                self.machine.closed_count() as u64,
            ),
            ("host.send-errors".to_owned(), self.send_errors),
            ("host.path-errors".to_owned(), self.path_errors),
            ("host.silences".to_owned(), self.silence_broken),
            ("host.asked".to_owned(), self.asked),
            ("host.silent-outages".to_owned(), self.silent_outages),
        ]);
        if let Some(Ok(counters)) = self.attached.as_ref().map(|of| of.path.counters()) {
            let named = counters.into_iter();
            by_name.extend(named.map(|(name, count)| (format!("path.{name}"), count)));
        }
        let decompression = self
            .attached
            .as_ref()
            .and_then(|of| of.decompression.as_ref());
        by_name.extend(decompression.into_iter().flat_map(Decompression::counters));
        by_name
    }

    /// Asks the machine, and does what it says.
    fn drive(
        &mut self,
        ask: impl FnOnce(
            &mut MobileHost,
            Instant,
            &mut dyn FnMut() -> Vec<HostFlow>,
            &mut Vec<HostAction>,
        ),
    ) {
        self.drive_with(Reads::All, ask);
    }

    fn drive_with(
        &mut self,
        reads: Reads,
        ask: impl FnOnce(
            &mut MobileHost,
            Instant,
            &mut dyn FnMut() -> Vec<HostFlow>,
            &mut Vec<HostAction>,
        ),
    ) {
        let now = now();
        let wanted = match reads {
            Reads::All => None,
            Reads::WhatIsDue => self.machine.flows_due(now),
        };
        let mut actions = Vec::new();
        let attached = self.attached.as_ref();
        let mut errors = 0;
        let mut flows = || {
            let Some(attached) = attached else {
                return Vec::new();
            };
            let maps = attached.path.maps();
            let noted = match &wanted {
                None => maps.flows().unwrap_or_else(|error| {
                    tracing::warn!(%error, "the flows cannot be read");
                    errors += 1;
                    Vec::new()
                }),
                Some(keys) => {
                    let read = |key| {
                        maps.flow(key).unwrap_or_else(|error| {
                            tracing::warn!(%error, ?key, "the flow cannot be read");
                            errors += 1;
                            None
                        })
                    };
                    keys.iter().filter_map(read).collect()
                }
            };
            noted.into_iter().map(|noted| noted.flow).collect()
        };
        ask(&mut self.machine, now, &mut flows, &mut actions);
        self.path_errors += errors;
        if let Some(attached) = &mut self.attached {
            let until = self.machine.orders_until(now).unwrap_or(Instant::ZERO);
            attached.path.maps().set_orders_until(until);
            if let Some(guard) = &mut attached.guard {
                guard.watch(self.machine.orders_until(now).is_some());
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
            HostAction::Send { key, ack, copies } => match maps.flow(&key) {
                Ok(None) => Ok(()),
                Ok(Some(mut flow)) => {
                    if ack == MadeAck::Last && self.scheme == MobileScheme::Wake {
                        let_go(maps, &flow);
                    }
                    let sent = match ack {
                        MadeAck::Wake => self.waking.wake_up(maps, &attached.sender, &mut flow),
                        _ => attached.sender.send(&flow, ack, copies),
                    };
                    if let Err(error) = sent {
                        self.send_errors += 1;
                        tracing::debug!(%error, ?ack, "not sent");
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = done {
            self.path_errors += 1;
            tracing::warn!(%error, ?action, "not done");
        }
    }
}

/// The clock of the programs.
fn now() -> Instant {
    Instant::from_nanos(monotonic_ns())
}
