// SPDX-License-Identifier: Apache-2.0
//! The daemon of the transfers, with the machine of the product, and its guard.

use super::*;

/// The daemon and its guard.
impl World {
    pub(super) fn start_daemon(&mut self) {
        self.daemon = Some(MobileHost::new(self.settings));
        self.hangs = false;
        // A new daemon loads new programs and maps.
        self.orders.clear();
        for receiver in &mut self.receivers {
            receiver.withheld = WithheldSegment::default();
        }
        self.drive(|_, _, _, _| {});
    }

    /// The counters of probes, FHs that pause, and silent outages.
    pub(super) fn counters(&self) -> [u64; 3] {
        let counters = self.daemon.as_ref().map(MobileHost::counters);
        let own = counters.map_or([0; 3], |own| [own.probes, own.pauses, own.silent_outages]);
        core::array::from_fn(|counter| self.counted[counter] + own[counter])
    }

    pub(super) fn drive(
        &mut self,
        call: impl FnOnce(&mut MobileHost, &[HostFlow], Instant, &mut Vec<HostAction>),
    ) {
        let now = self.now;
        let flows: Vec<_> = self
            .receivers
            .iter()
            .filter_map(Receiver::observed)
            .collect();
        let mut actions = Vec::new();
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        call(daemon, &flows, now, &mut actions);
        self.orders_until = daemon.orders_until(now).unwrap_or(Instant::ZERO);
        for action in actions {
            self.perform(action);
        }
        if let Some(at) = self.daemon.as_ref().and_then(MobileHost::poll_timeout) {
            self.plan(at.max(now), Event::Daemon);
        }
        self.plan(self.orders_until.max(now), Event::Guard);
    }

    pub(super) fn perform(&mut self, action: HostAction) {
        match action {
            HostAction::Close(key) => {
                self.orders.insert(key, None);
            }
            HostAction::Open(key) => {
                self.orders.remove(&key);
            }
            HostAction::Limit { key, edge } => {
                self.orders.insert(key, Some(edge));
            }
            HostAction::Send { key, ack, copies } => {
                let index = self.index_of(key);
                for _ in 0..copies {
                    self.make(index, ack);
                }
            }
            HostAction::WakeUp(wake_up) => self.wake_up(&wake_up),
            HostAction::RenewEcho { key, .. } => {
                let index = self.index_of(key);
                let own = self.receivers[index].noted.rcv_nxt;
                self.receivers[index].withheld.release(own, self.now);
            }
            HostAction::Probe(key) => {
                let (index, takes) = (self.index_of(key), self.segment_time / 20);
                self.put(1, takes, Event::Probe { index });
                if let Some(daemon) = &mut self.daemon {
                    daemon.handle_probe_sent(&key, self.now);
                }
            }
        }
    }

    pub(super) fn make(&mut self, index: usize, ack: MadeAck) {
        let now = self.now;
        let receiver = &mut self.receivers[index];
        let noted = receiver.noted;
        let own = AckAndWindow {
            ack: noted.rcv_nxt,
            window: noted.window,
        };
        let is_wake = self.scheme == MobileScheme::Wake;
        if is_wake {
            receiver.withheld.release(own.ack, now);
        }
        let left = match ack {
            MadeAck::ZeroWindow => AckAndWindow { window: 0, ..own },
            MadeAck::Limited(edge) => AckAndWindow {
                window: noted.window_until(edge),
                ..own
            },
            MadeAck::Last | MadeAck::Marked => own,
        };
        self.leave(index, left);
    }

    fn wake_up(&mut self, wake_up: &WakeUp) {
        assert_eq!(self.scheme, MobileScheme::Wake, "seed {}", self.seed);
        self.woken += 1;
        let index = self.index_of(wake_up.key);
        let receiver = &mut self.receivers[index];
        let own = AckAndWindow {
            ack: receiver.noted.rcv_nxt,
            window: receiver.noted.window,
        };
        receiver.withheld.release(own.ack, self.now);
        for _ in 0..wake_up.unreachables {
            if self.link_is_up {
                self.on_unreachable(index);
            }
        }
        let boundaries = self.receivers[index].withheld.boundaries();
        for step in boundaries.acks_below(own, SCALE, wake_up.boundary_acks, wake_up.boundary_acks)
        {
            self.leave(index, step);
        }
        self.leave(index, own);
    }

    pub(super) fn link(&mut self, event: LinkEvent) {
        self.drive(|machine, flows, now, actions| {
            machine.handle_link(event, flows, now, actions);
        });
    }

    pub(super) fn on_daemon(&mut self) {
        let now = self.now;
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        if daemon.needs_segment_count(now) {
            daemon.handle_segment_count(Some(self.segments), now);
        }
        if daemon.poll_timeout().is_some_and(|at| at <= now) {
            let needed = daemon.flows_needed(now);
            self.drive(|machine, flows, now, actions| {
                // The machine gets only the flows that it requested.
                let known = flows.iter().filter(|flow| match &needed {
                    FlowsNeeded::Some(keys) => keys.contains(&flow.key),
                    FlowsNeeded::All => true,
                });
                let known: Vec<_> = known.copied().collect();
                machine.handle_timeout(&known, now, actions);
            });
        }
    }

    fn index_of(&self, key: FlowKey) -> usize {
        let index = self
            .receivers
            .iter()
            .position(|receiver| receiver.noted.key == key);
        index.expect("it is one of these")
    }

    /// The guard acts for a daemon that hangs or has died: each MH sends its own ACK.
    pub(super) fn guard_releases_all(&mut self) {
        for index in 0..FLOWS {
            let receiver = &mut self.receivers[index];
            let noted = receiver.noted;
            let own = AckAndWindow {
                ack: noted.rcv_nxt,
                window: noted.window,
            };
            if noted.received_at.is_some() {
                receiver.withheld.release(own.ack, self.now);
                self.leave(index, own);
            }
        }
    }

    pub(super) fn on_guard(&mut self) {
        if self.hangs && self.daemon.is_some() && self.now >= self.orders_until {
            self.guard_releases_all();
        }
    }
}
