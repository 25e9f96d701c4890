// SPDX-License-Identifier: Apache-2.0
//! The daemon of the transfers, with the product's machine, and its guard.

use super::*;

/// The daemon and its guard.
impl World {
    pub(super) fn start_daemon(&mut self) {
        self.daemon = Some(MobileHost::new(self.settings));
        self.hangs = false;
        // Programs and maps are new.
        self.orders.clear();
        for of in &mut self.receivers {
            of.withheld = WithheldSegment::default();
        }
        self.drive(|_, _, _, _| {});
    }

    /// Probes, FHs that pause, silent outages.
    pub(super) fn counters(&self) -> [u64; 3] {
        let counters = self.daemon.as_ref().map(MobileHost::counters);
        let own = counters.map_or([0; 3], |of| [of.probes, of.pauses, of.silent_outages]);
        core::array::from_fn(|of| self.counted[of] + own[of])
    }

    pub(super) fn drive(
        &mut self,
        ask: impl FnOnce(&mut MobileHost, &[HostFlow], Instant, &mut Vec<HostAction>),
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
        ask(daemon, &flows, now, &mut actions);
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
                let place = self.place_of(key);
                for _ in 0..copies {
                    self.make(place, ack);
                }
            }
            HostAction::WakeUp(wake_up) => self.wake_up(&wake_up),
            HostAction::RenewEcho { key, .. } => {
                let of = self.place_of(key);
                let own = self.receivers[of].noted.rcv_nxt;
                self.receivers[of].withheld.release(own, self.now);
            }
            HostAction::Probe(key) => {
                let (place, takes) = (self.place_of(key), self.of_a_segment / 20);
                self.put(1, takes, Event::Question { place });
                if let Some(daemon) = &mut self.daemon {
                    daemon.handle_probe_sent(&key, self.now);
                }
            }
        }
    }

    pub(super) fn make(&mut self, place: usize, ack: MadeAck) {
        let now = self.now;
        let of = &mut self.receivers[place];
        let noted = of.noted;
        let own = AckAndWindow {
            ack: noted.rcv_nxt,
            window: noted.window,
        };
        let is_wake = self.scheme == MobileScheme::Wake;
        if is_wake {
            of.withheld.release(own.ack, now);
        }
        let left = match ack {
            MadeAck::ZeroWindow => AckAndWindow { window: 0, ..own },
            MadeAck::Limited(edge) => AckAndWindow {
                window: noted.window_until(edge),
                ..own
            },
            MadeAck::Last | MadeAck::Marked => own,
        };
        self.leave(place, left);
    }

    fn wake_up(&mut self, wake_up: &WakeUp) {
        assert_eq!(self.scheme, MobileScheme::Wake, "seed {}", self.seed);
        self.woken += 1;
        let place = self.place_of(wake_up.key);
        let of = &mut self.receivers[place];
        let own = AckAndWindow {
            ack: of.noted.rcv_nxt,
            window: of.noted.window,
        };
        of.withheld.release(own.ack, self.now);
        for _ in 0..wake_up.unreachables {
            if self.carries {
                self.on_word(place);
            }
        }
        let boundaries = self.receivers[place].withheld.boundaries();
        for step in boundaries.steps(own, SCALE, wake_up.boundary_acks) {
            self.leave(place, step);
        }
        self.leave(place, own);
    }

    pub(super) fn link(&mut self, event: HostLinkEvent) {
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
                // It knows what it has asked for, and no more.
                let known = flows.iter().filter(|flow| match &needed {
                    FlowsNeeded::Some(keys) => keys.contains(&flow.key),
                    FlowsNeeded::All => true,
                });
                let known: Vec<_> = known.copied().collect();
                machine.handle_timeout(&known, now, actions);
            });
        }
    }

    fn place_of(&self, key: FlowKey) -> usize {
        let place = self.receivers.iter().position(|of| of.noted.key == key);
        place.expect("it is one of these")
    }

    /// The guard, when orders lapse for the daemon hangs, or it has died.
    pub(super) fn guard_says_all(&mut self) {
        for place in 0..FLOWS {
            let of = &mut self.receivers[place];
            let noted = of.noted;
            let own = AckAndWindow {
                ack: noted.rcv_nxt,
                window: noted.window,
            };
            if noted.received_at.is_some() {
                of.withheld.release(own.ack, self.now);
                self.leave(place, own);
            }
        }
    }

    pub(super) fn on_guard(&mut self) {
        if self.hangs && self.daemon.is_some() && self.now >= self.orders_until {
            self.guard_says_all();
        }
    }
}
