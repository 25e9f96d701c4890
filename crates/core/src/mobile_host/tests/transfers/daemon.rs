// SPDX-License-Identifier: Apache-2.0
//! The daemon of the transfers, with the product's machine, and its guard.

use super::*;

type Flows<'a> = &'a mut dyn FnMut() -> Vec<HostFlow>;

/// The daemon and its guard.
impl World {
    pub(super) fn start_daemon(&mut self) {
        self.daemon = Some(Daemon {
            machine: MobileHost::new(self.settings),
            outages: Outages::default(),
        });
        self.hangs = false;
        // Programs and maps are new.
        self.orders.clear();
        for of in &mut self.receivers {
            of.reserve = Reserve::default();
        }
        self.drive(|_, _, _, _| {});
    }

    pub(super) fn drive(
        &mut self,
        ask: impl FnOnce(&mut MobileHost, &mut Vec<HostAction>, Instant, Flows),
    ) {
        let now = self.now;
        let known: Vec<_> = self.receivers.iter().map(|of| of.noted).collect();
        let known: Vec<_> = known
            .into_iter()
            .filter(|of| of.heard_at.is_some())
            .collect();
        let mut actions = Vec::new();
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        ask(&mut daemon.machine, &mut actions, now, &mut || {
            known.clone()
        });
        self.orders_until = daemon.machine.orders_until(now).unwrap_or(Instant::ZERO);
        for action in actions {
            self.perform(action);
        }
        let Some(daemon) = &self.daemon else {
            return;
        };
        let due = [daemon.machine.poll_timeout(), daemon.outages.poll_timeout()];
        if let Some(at) = due.into_iter().flatten().min() {
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
                let of = self.receivers.iter().position(|of| of.noted.key == key);
                let place = of.expect("it is one of these");
                for _ in 0..copies {
                    self.make(place, ack);
                }
            }
        }
    }

    pub(super) fn make(&mut self, place: usize, ack: MadeAck) {
        let now = self.now;
        let of = &mut self.receivers[place];
        let noted = of.noted;
        let own = Leaves {
            ack: noted.rcv_nxt,
            window: noted.window,
        };
        let is_wake = self.scheme == MobileScheme::Wake;
        if is_wake {
            of.reserve.let_go(own.ack, now);
        }
        let left = match ack {
            MadeAck::ZeroWindow => Leaves { window: 0, ..own },
            MadeAck::Limited(edge) => Leaves {
                window: noted.window_until(edge),
                ..own
            },
            MadeAck::Last | MadeAck::Marked => own,
            MadeAck::Wake => {
                assert!(is_wake, "seed {}", self.seed);
                self.wake_up(place, own);
                own
            }
        };
        self.leave(place, left);
    }

    pub(super) fn wake_silent(&mut self, place: usize) {
        let of = &mut self.receivers[place];
        let noted = of.noted;
        let own = Leaves {
            ack: noted.rcv_nxt,
            window: noted.window,
        };
        of.reserve.let_go(own.ack, self.now);
        let words = words_for_silent(of.data_at, self.now);
        self.say(place, words);
        self.leave(place, own);
    }

    pub(super) fn say(&mut self, place: usize, words: u8) {
        for _ in 0..words {
            if self.carries {
                self.on_word(place);
            }
        }
    }

    pub(super) fn wake_up(&mut self, place: usize, own: Leaves) {
        let of = &self.receivers[place];
        let before = Before {
            key: of.noted.key,
            data_at: of.data_at,
            is_told: true,
            climbs: of.beyond.is_empty(),
            segments: of.reserve.segments(),
            uploads: self.seed.is_multiple_of(2),
        };
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        let said = daemon.outages.say(&before, self.now);
        self.woken += 1;
        self.say(place, said.words);
        let grid = self.receivers[place].reserve.grid();
        for step in grid.steps(own, SCALE, said.steps) {
            self.leave(place, step);
        }
    }

    pub(super) fn link(&mut self, event: HostLinkEvent) {
        let now = self.now;
        if let Some(daemon) = &mut self.daemon {
            daemon.outages.handle_link(event, now);
        }
        self.drive(|machine, actions, now, flows| {
            machine.handle_link(event, now, flows, actions);
        });
    }

    pub(super) fn on_daemon(&mut self) {
        let now = self.now;
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(daemon.machine.poll_timeout()) {
            self.drive(|machine, actions, now, flows| {
                machine.handle_timeout(now, flows, actions);
            });
        }
        let noted: Vec<_> = self
            .receivers
            .iter()
            .map(|of| (of.download(), of.reserve.segments()))
            .collect();
        let newest = noted.iter().filter_map(|(of, _)| of.flow.heard_at).max();
        let is_wake = self.scheme == MobileScheme::Wake;
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        for (of, segments) in noted.iter().filter(|_| is_wake) {
            if was_download(*segments) && daemon.outages.is_quiet(of, newest, now) {
                daemon.outages.begin_silence(&of.flow, false, now);
            }
        }
        if is_due(daemon.outages.poll_timeout()) {
            self.watch_silence();
            let Some(daemon) = &mut self.daemon else {
                return;
            };
            let heard = noted.iter().map(|(of, _)| (of.flow.key, of.flow.heard_at));
            let find = |key: &FlowKey| noted.iter().find(|(of, _)| of.flow.key == *key);
            let silent = daemon
                .outages
                .silent(now, heard, |key| find(key).map(|(of, _)| *of));
            for Try { key, is_back } in silent {
                let place = self.place_of(key);
                if is_back {
                    self.make(place, MadeAck::Wake);
                } else {
                    self.wake_silent(place);
                }
            }
            self.drive(|_, _, _, _| {});
        }
    }

    fn place_of(&self, key: FlowKey) -> usize {
        let place = self.receivers.iter().position(|of| of.noted.key == key);
        place.expect("it is one of these")
    }

    /// Asks whether the link is back, while flows are silent; if it is, wakes their FHs.
    fn watch_silence(&mut self) {
        let now = self.now;
        let flows: Vec<_> = self.receivers.iter().map(Receiver::download).collect();
        let find = |key: &FlowKey| flows.iter().find(|of| of.flow.key == *key).copied();
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        if !daemon.outages.looks(now) {
            return;
        }
        match daemon.outages.look(now, find) {
            None => {}
            Some(Looked::Ask(key)) => {
                daemon.outages.note_asked(&key, now);
                self.asked += 1;
                let (place, takes) = (self.place_of(key), self.of_a_segment / 20);
                self.put(1, takes, Event::Question { place });
            }
            Some(Looked::Pauses(key)) => {
                self.told_of[0] += 1;
                let place = self.place_of(key);
                self.wake_silent(place);
            }
            Some(Looked::IsBack) => {
                self.told_of[1] += 1;
                for key in daemon.outages.handle_return(flows, now) {
                    let place = self.place_of(key);
                    self.make(place, MadeAck::Wake);
                }
            }
        }
    }

    /// The guard, when orders lapse for the daemon hangs, or it has died.
    pub(super) fn guard_says_all(&mut self) {
        for place in 0..FLOWS {
            let of = &mut self.receivers[place];
            let noted = of.noted;
            let own = Leaves {
                ack: noted.rcv_nxt,
                window: noted.window,
            };
            if noted.heard_at.is_some() {
                of.reserve.let_go(own.ack, self.now);
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
