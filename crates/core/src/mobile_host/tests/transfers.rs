// SPDX-License-Identifier: Apache-2.0
//! Downloads through whatever may happen, under each scheme: loss, reordering, duplicates, corruption, outages,
//! signals that are right, wrong, late, repeated or missing, a reader that pauses, a daemon that hangs or dies and comes
//! again, a machine that is suspended. The machine, the reserve and the rule of wake-ups are the product's; around them
//! stand a sender with a doubling RTO, a receiver, and what the programs do to each segment that leaves.
//!
//! What must hold is asked at each segment that the FH hears: nothing is acknowledged that the MH has not received,
//! and no window ends beyond the MH's own. In the end every transfer is done, and nothing is held back or closed.
//!
//! The seeds are 1 to 400 of each scheme; another one: `HOLDFAST_SEED=N`. A failure prints its own.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use super::wake::{Before, FromFh, FromMh, Leaves, Outages, Reserve, was_download};
use super::*;

const PIECE: u32 = 1_448;
const SCALE: u8 = 7;
/// Sequence numbers turn over within the transfer.
const START: SeqNum = SeqNum::new(u32::MAX - 500_000);
const DISTURBED: Duration = Duration::from_secs(8);
/// By then all is done: some timeouts after the last disturbance.
const DONE_WITHIN: Duration = Duration::from_secs(90);
const DELAYED_ACK: Duration = Duration::from_millis(40);
const RTO_MIN: Duration = Duration::from_millis(200);
const DOUBLINGS_MAX: u32 = 4;
const FLOWS: usize = 2;

/// What is on its way, or due.
#[derive(Clone, Copy, Debug)]
enum Event {
    ToMh {
        place: usize,
        seq: u32,
        sent_at: Instant,
    },
    ToFh {
        place: usize,
        ack: SeqNum,
        window: u16,
    },
    Rto {
        place: usize,
        turn: u64,
    },
    DelayedAck {
        place: usize,
    },
    /// The programs' timer.
    Pause {
        place: usize,
    },
    Daemon,
    Guard,
    Disturbance,
    Tell(HostLinkEvent),
}

/// The sender; its numbers count from [`START`].
#[derive(Clone, Copy, Debug)]
struct Sender {
    una: u32,
    nxt: u32,
    edge: u32,
    window: u32,
    window_max: u32,
    doublings: u32,
    same: u32,
    turn: u64,
    /// More follows until this is settled.
    total: u32,
}

/// The receiver, and what is noted of it on the way out.
#[derive(Clone, Debug)]
struct Receiver {
    received: u32,
    beyond: BTreeSet<u32>,
    /// The right edge of its window.
    edge: u32,
    space: u32,
    unread: u32,
    reads: bool,
    unacknowledged: u32,
    noted: HostFlow,
    reserve: Reserve,
    segments: u32,
}

struct Daemon {
    machine: MobileHost,
    outages: Outages,
}

struct World {
    seed: u64,
    scheme: MobileScheme,
    rng: ChaCha8Rng,
    settings: MobileHostSettings,
    now: Instant,
    due: BTreeMap<(Instant, u64), Event>,
    serial: u64,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    carries: bool,
    /// When the link's ends are free for the next packet.
    free_at: [Instant; 2],
    delay: Duration,
    of_a_segment: Duration,
    disturbed_until: Instant,
    daemon: Option<Daemon>,
    hangs: bool,
    suspended_until: Instant,
    orders_until: Instant,
    orders: BTreeMap<FlowKey, Option<SeqNum>>,
    held: u64,
    woken: u64,
}

impl World {
    fn new(seed: u64, scheme: MobileScheme) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut settings = MobileHostSettings::new(scheme);
        settings.set = FreezeSet::ALL[(rng.next_u32() % 2) as usize];
        let begin = at(0);
        let senders = (0..FLOWS).map(|_| Sender {
            una: 0,
            nxt: 0,
            edge: PIECE * 10,
            window: PIECE * 10,
            window_max: PIECE * (20 + rng.next_u32() % 60),
            doublings: 0,
            same: 0,
            turn: 0,
            total: u32::MAX / 2,
        });
        let senders = senders.collect();
        let receivers = (0..FLOWS).map(|place| Receiver {
            received: 0,
            beyond: BTreeSet::new(),
            edge: PIECE * 10,
            space: PIECE * (40 + rng.next_u32() % 200),
            unread: 0,
            reads: true,
            unacknowledged: 0,
            noted: HostFlow {
                rcv_nxt: START,
                window_shift: Some(SCALE),
                srtt: None,
                rtt: None,
                sent_at: begin,
                heard_at: None,
                ..flow(1_000 + place as u16)
            },
            reserve: Reserve::default(),
            segments: 0,
        });
        let receivers = receivers.collect();
        let mut world = Self {
            seed,
            scheme,
            settings,
            now: begin,
            due: BTreeMap::new(),
            serial: 0,
            senders,
            receivers,
            carries: true,
            free_at: [begin; 2],
            delay: Duration::from_millis(5 + u64::from(rng.next_u32() % 60)),
            of_a_segment: Duration::from_micros(500 + u64::from(rng.next_u32() % 3_000)),
            rng,
            disturbed_until: begin + DISTURBED,
            daemon: None,
            hangs: false,
            suspended_until: begin,
            orders_until: Instant::ZERO,
            orders: BTreeMap::new(),
            held: 0,
            woken: 0,
        };
        world.start_daemon();
        for place in 0..FLOWS {
            world.pump(place);
        }
        world.plan(begin, Event::Disturbance);
        world
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.rng.next_u32() % limit
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    fn is_disturbed(&self) -> bool {
        self.now < self.disturbed_until
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.due.insert((at, self.serial), event);
    }

    fn after_ms(&mut self, most: u32) -> Instant {
        self.now + Duration::from_millis(u64::from(self.below(most)))
    }

    /// Puts a packet on the link, which may lose, delay or double it. What is corrupted is lost: its
    /// checksum is wrong.
    fn put(&mut self, way: usize, takes: Duration, event: Event) {
        let disturbed = self.is_disturbed();
        let free_at = self.free_at[way].max(self.now);
        let full = free_at.saturating_since(self.now) > self.of_a_segment * 100;
        if !self.carries || full || disturbed && self.one_in(200) {
            return;
        }
        self.free_at[way] = free_at + takes;
        let mut arrives = self.free_at[way] + self.delay;
        if disturbed && self.one_in(100) {
            arrives += Duration::from_millis(u64::from(self.below(30)));
        }
        self.plan(arrives, event);
        if disturbed && self.one_in(200) {
            self.plan(arrives, event);
        }
    }
}

/// The FH.
impl World {
    fn send(&mut self, place: usize, seq: u32) {
        let sent_at = self.now;
        self.put(
            0,
            self.of_a_segment,
            Event::ToMh {
                place,
                seq,
                sent_at,
            },
        );
    }

    fn pump(&mut self, place: usize) {
        loop {
            let of = self.senders[place];
            let limit = of.edge.min(of.una + of.window).min(of.total);
            if of.nxt + PIECE > limit {
                break;
            }
            self.senders[place].nxt += PIECE;
            self.send(place, of.nxt);
        }
        self.restart_timer(place);
    }

    fn restart_timer(&mut self, place: usize) {
        let of = &mut self.senders[place];
        of.turn += 1;
        if of.una < of.total {
            let (turn, doublings) = (of.turn, of.doublings);
            let round_trip = (self.delay * 2 + self.of_a_segment * 60) * 2;
            let rto = (round_trip + RTO_MIN) * (1 << doublings);
            self.plan(self.now + rto, Event::Rto { place, turn });
        }
    }

    fn on_rto(&mut self, place: usize) {
        let of = &mut self.senders[place];
        of.doublings = (of.doublings + 1).min(DOUBLINGS_MAX);
        of.window = PIECE;
        of.same = 0;
        // Into a window of 0 too: it is the probe. All is sent again from here on.
        let seq = of.una;
        of.nxt = of.una + PIECE;
        self.send(place, seq);
        self.restart_timer(place);
    }

    fn on_ack(&mut self, place: usize, ack: SeqNum, window: u16) {
        let what = format!("seed {}, {}: {ack:?}, {window}", self.seed, self.scheme);
        let receiver = &self.receivers[place];
        let said = ack.distance_from(START);
        assert!(
            said <= receiver.received,
            "{what}: of {}",
            receiver.received
        );
        let edge = said + (u32::from(window) << SCALE);
        assert!(edge <= receiver.edge, "{what}: beyond {}", receiver.edge);
        let of = &mut self.senders[place];
        if said < of.una {
            return;
        }
        let is_new = said > of.una;
        of.edge = edge;
        if !is_new {
            of.same += u32::from(of.nxt > of.una);
            if of.same == 3 {
                self.send(place, said);
            }
            return self.pump_on(place);
        }
        of.window = (of.window + PIECE).min(of.window_max);
        (of.una, of.nxt, of.doublings, of.same) = (said, of.nxt.max(said), 0, 0);
        self.pump(place);
    }

    /// The same without a new timer.
    fn pump_on(&mut self, place: usize) {
        let of = self.senders[place];
        if of.nxt + PIECE <= of.edge.min(of.una + of.window).min(of.total) {
            self.pump(place);
        }
    }

    /// ICMP, host unreachable: a doubling less (RFC 6069).
    fn on_word(&mut self, place: usize) {
        let of = &mut self.senders[place];
        if of.doublings > 0 {
            of.doublings -= 1;
            let seq = of.una;
            self.send(place, seq);
            self.restart_timer(place);
        }
    }
}

/// The MH.
impl World {
    fn on_data(&mut self, place: usize, seq: u32, sent_at: Instant) {
        let now = self.now;
        let push = self.one_in(60);
        let of = &mut self.receivers[place];
        let rtt = now.saturating_since(sent_at) + self.delay;
        (of.noted.rtt, of.noted.heard_at) = (Some(rtt), Some(now));
        of.noted.srtt = Some(of.noted.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
        let data = FromFh {
            seq: START + seq,
            len: PIECE,
            piece: PIECE,
            push,
        };
        of.reserve.note_fh(&data, Some(rtt), now);
        of.segments = of.segments.saturating_add(1);
        let is_next = seq == of.received;
        if seq >= of.received && seq + PIECE <= of.edge {
            of.beyond.insert(seq);
        }
        while of.beyond.remove(&of.received) {
            of.received += PIECE;
            of.unread += PIECE;
        }
        of.unacknowledged += 1;
        if of.unacknowledged >= 2 || !is_next || !of.beyond.is_empty() {
            self.acknowledge(place);
        } else {
            self.plan(now + DELAYED_ACK, Event::DelayedAck { place });
        }
    }

    /// The MH's stack sends an ACK, through the programs.
    fn acknowledge(&mut self, place: usize) {
        let (has_payload, now) = (self.one_in(30), self.now);
        let runs = self.daemon.is_some();
        let ordered = now < self.orders_until && runs;
        let of = &mut self.receivers[place];
        if of.reads {
            of.unread = 0;
        }
        of.unacknowledged = 0;
        let space = of.space - of.unread.min(of.space);
        let window = of.edge.max(of.received + space) - of.received;
        let window = (window >> SCALE) as u16;
        of.edge = of.edge.max(of.received + (u32::from(window) << SCALE));
        let own = Leaves {
            ack: START + of.received,
            window,
        };
        (of.noted.rcv_nxt, of.noted.window, of.noted.sent_at) = (own.ack, window, now);
        let segment = FromMh {
            own,
            scale: Some(SCALE),
            has_payload,
            has_sack: !of.beyond.is_empty(),
            is_ending: false,
        };
        let mut left = own;
        if self.scheme == MobileScheme::Wake && runs {
            left = of.reserve.pass(&segment, ordered, now);
            self.held += u64::from(left.ack != own.ack);
            if let Some(at) = of.reserve.poll_timeout(of.noted.srtt) {
                self.plan(at, Event::Pause { place });
            }
        }
        let of = &self.receivers[place];
        match self.orders.get(&of.noted.key).filter(|_| ordered) {
            Some(None) => left.window = 0,
            Some(Some(edge)) => left.window = left.window.min(of.noted.window_until(*edge)),
            None => {}
        }
        self.leave(place, left);
    }

    fn leave(&mut self, place: usize, left: Leaves) {
        let Leaves { ack, window } = left;
        let takes = self.of_a_segment / 20;
        self.put(1, takes, Event::ToFh { place, ack, window });
    }

    fn on_pause(&mut self, place: usize) {
        let now = self.now;
        let of = &mut self.receivers[place];
        let srtt = of.noted.srtt;
        if self.daemon.is_none() || of.reserve.handle_timeout(srtt, now).is_none() {
            return;
        }
        if self.hangs {
            return;
        }
        let noted = of.noted;
        let carries = self
            .daemon
            .as_ref()
            .is_some_and(|of| of.outages.carries(&noted));
        if carries {
            self.link(HostLinkEvent::Up);
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.outages.begin_silence(&noted, false, now);
        }
        self.drive(|machine, actions, _, _| machine.handle_pause(noted.key, actions));
    }
}

type Flows<'a> = &'a mut dyn FnMut() -> Vec<HostFlow>;

/// The daemon and its guard.
impl World {
    fn start_daemon(&mut self) {
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

    fn drive(&mut self, ask: impl FnOnce(&mut MobileHost, &mut Vec<HostAction>, Instant, Flows)) {
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

    fn perform(&mut self, action: HostAction) {
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

    fn make(&mut self, place: usize, ack: MadeAck) {
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

    fn wake_up(&mut self, place: usize, own: Leaves) {
        let of = &self.receivers[place];
        let before = Before {
            key: of.noted.key,
            data_at: of.noted.heard_at,
            climbs: of.beyond.is_empty(),
            segments: of.segments,
            uploads: self.seed.is_multiple_of(2),
        };
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        let said = daemon.outages.say(&before, self.now);
        self.woken += 1;
        for _ in 0..said.words {
            if self.carries {
                self.on_word(place);
            }
        }
        let grid = self.receivers[place].reserve.grid();
        for step in grid.steps(own, SCALE, said.steps) {
            self.leave(place, step);
        }
    }

    fn link(&mut self, event: HostLinkEvent) {
        let now = self.now;
        if let Some(daemon) = &mut self.daemon {
            daemon.outages.handle_link(event, now);
        }
        self.drive(|machine, actions, now, flows| {
            machine.handle_link(event, now, flows, actions);
        });
    }

    fn on_daemon(&mut self) {
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
            .map(|of| (of.noted, of.segments))
            .collect();
        let newest = noted.iter().filter_map(|(of, _)| of.heard_at).max();
        let is_wake = self.scheme == MobileScheme::Wake;
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        for (of, segments) in noted.iter().filter(|_| is_wake) {
            if was_download(*segments) && daemon.outages.is_quiet(of, newest, now) {
                daemon.outages.begin_silence(of, false, now);
            }
        }
        if is_due(daemon.outages.poll_timeout()) {
            let heard = noted.iter().map(|(of, _)| (of.key, of.heard_at));
            let find = |key: &FlowKey| noted.iter().find(|(of, _)| of.key == *key);
            let silent = daemon
                .outages
                .silent(now, heard, |key| find(key).map(|(of, _)| *of));
            for key in silent {
                let place = self.receivers.iter().position(|of| of.noted.key == key);
                self.make(place.expect("it is one of these"), MadeAck::Last);
            }
            self.drive(|_, _, _, _| {});
        }
    }

    /// The guard, when orders lapse for the daemon hangs, or it has died.
    fn guard_says_all(&mut self) {
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

    fn on_guard(&mut self) {
        if self.hangs && self.daemon.is_some() && self.now >= self.orders_until {
            self.guard_says_all();
        }
    }
}

/// What happens.
impl World {
    fn disturb(&mut self) {
        match self.below(16) {
            0..=2 => {
                self.carries = false;
                // The word of it may come late, twice, or not at all.
                for _ in 0..self.below(3) {
                    let at = self.after_ms(400);
                    self.plan(at, Event::Tell(HostLinkEvent::Down));
                }
            }
            3..=6 => {
                self.carries = true;
                for _ in 0..self.below(3) {
                    let at = self.after_ms(400);
                    self.plan(at, Event::Tell(HostLinkEvent::Up));
                }
            }
            7 | 8 => {
                let lead = Duration::from_millis(u64::from(self.below(600)));
                self.link(HostLinkEvent::GoingDownSoon(Some(lead)));
            }
            9 => self.link(HostLinkEvent::Down),
            10 => {
                let place = self.below(FLOWS as u32) as usize;
                self.receivers[place].reads ^= true;
                self.acknowledge(place);
            }
            11 => self.hangs ^= true,
            12 => {
                if self.daemon.take().is_some() {
                    self.guard_says_all();
                } else {
                    self.start_daemon();
                }
            }
            13 => self.suspended_until = self.after_ms(3_000),
            _ => {}
        }
        let at = self.after_ms(600);
        self.plan(at, Event::Disturbance);
    }

    /// From here on nothing happens. Whether anybody says that the link is up is left open.
    fn calm(&mut self) {
        self.carries = true;
        self.suspended_until = self.now;
        if self.hangs {
            self.hangs = false;
            self.drive(|_, _, _, _| {});
        }
        if self.one_in(2) {
            self.link(HostLinkEvent::Up);
        }
        for place in 0..FLOWS {
            self.senders[place].total = self.senders[place].nxt + 100 * PIECE;
            self.receivers[place].reads = true;
            self.acknowledge(place);
            self.pump(place);
        }
    }

    fn handle(&mut self, event: Event) {
        let sleeps = self.now < self.suspended_until;
        match event {
            Event::ToFh { place, ack, window } => self.on_ack(place, ack, window),
            Event::Rto { place, turn } if self.senders[place].turn == turn => self.on_rto(place),
            Event::Rto { .. } => {}
            Event::Disturbance if self.is_disturbed() => self.disturb(),
            Event::Disturbance => self.calm(),
            // What comes to a sleeping machine is lost.
            Event::ToMh { .. } if sleeps => {}
            _ if sleeps => self.plan(self.suspended_until, event),
            Event::ToMh {
                place,
                seq,
                sent_at,
            } => self.on_data(place, seq, sent_at),
            Event::DelayedAck { place } => {
                if self.receivers[place].unacknowledged > 0 {
                    self.acknowledge(place);
                }
            }
            Event::Pause { place } => self.on_pause(place),
            Event::Guard => self.on_guard(),
            _ if self.hangs => {
                let at = self.now + Duration::from_millis(50);
                self.plan(at, event);
            }
            Event::Daemon => self.on_daemon(),
            Event::Tell(event) => self.link(event),
        }
    }

    fn is_done(&self) -> bool {
        let settled = !self.is_disturbed();
        settled && self.senders.iter().all(|of| of.una + PIECE > of.total)
    }

    fn run_until(&mut self, end: Instant, mut stop: impl FnMut(&Self) -> bool) {
        while let Some((&(at, serial), &event)) = self.due.first_key_value() {
            if at > end || stop(self) {
                break;
            }
            self.due.remove(&(at, serial));
            self.now = self.now.max(at);
            self.handle(event);
        }
    }
}

/// How many ACKs were held back, and how many wake-ups made.
fn run(seed: u64, scheme: MobileScheme) -> (u64, u64) {
    let mut world = World::new(seed, scheme);
    let end = world.disturbed_until + DONE_WITHIN;
    world.run_until(end, World::is_done);
    let what = format!("seed {seed}, {scheme}");
    assert!(world.is_done(), "{what}: {:?}", world.senders);
    // Longer than any pause, and any order.
    let after = world.now + Duration::from_secs(5);
    world.run_until(after, |_| false);
    let ordered = after < world.orders_until && world.daemon.is_some();
    for (of, sender) in world.receivers.iter().zip(&world.senders) {
        assert!(
            !of.reserve.is_held() || world.daemon.is_none(),
            "{what}: held"
        );
        let order = world.orders.get(&of.noted.key).filter(|_| ordered);
        assert_eq!(order, None, "{what}: closed");
        assert!(sender.edge > sender.una, "{what}: {sender:?}");
    }
    (world.held, world.woken)
}

fn transfers_of(scheme: MobileScheme) -> (u64, u64) {
    let seeds = match std::env::var("HOLDFAST_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("HOLDFAST_SEED is a number");
            seed..=seed
        }
        Err(_) => 1..=400,
    };
    let all = seeds.map(|seed| run(seed, scheme));
    all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn with_wake_every_transfer_ends_and_nothing_stays_held() {
    let (held, woken) = transfers_of(MobileScheme::Wake);
    println!("{held} held back, {woken} wake-ups");
    // It was about something.
    assert!(std::env::var_os("HOLDFAST_SEED").is_some() || held > 10_000 && woken > 500);
}

#[test]
fn with_fast_retransmit_every_transfer_ends() {
    transfers_of(MobileScheme::FastRetransmit);
}

#[test]
fn with_mtcp_every_transfer_ends() {
    transfers_of(MobileScheme::Mtcp);
}

#[test]
fn with_freeze_every_transfer_ends_and_nothing_stays_closed() {
    transfers_of(MobileScheme::Freeze);
}
