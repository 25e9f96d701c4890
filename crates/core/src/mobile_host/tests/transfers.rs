// SPDX-License-Identifier: Apache-2.0
//! Downloads through whatever may happen, under each scheme: loss, reordering, duplicates, corruption, outages,
//! signals that are right, wrong, late, repeated or missing, a reader that pauses, a daemon that hangs or dies and comes
//! again, a machine that is suspended. The machine, the reserve and the rule of wake-ups are the product's; around them
//! stand a sender with a doubling RTO, a receiver, and what the programs do to each segment that leaves.
//!
//! What must hold is asked of each segment as it leaves: nothing is acknowledged that the MH has not received,
//! and no window ends beyond the MH's own. In the end every transfer is done, and nothing is held back or closed.
//!
//! The seeds are 1 to 400 of each scheme; another one: `HOLDFAST_SEED=N`. A failure prints its own.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use super::withheld::{AckAndWindow, FromFh, FromMh, WithheldSegment};
use super::*;

mod daemon;
mod ends;

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
    /// Whether the link is back, and that it is.
    Question {
        place: usize,
    },
    Answer {
        place: usize,
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
    /// It answers no probe before.
    answers_from: Instant,
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
    withheld: WithheldSegment,
    /// When it last sent data.
    upload_at: Option<Instant>,
}

impl Receiver {
    /// As the data path shows it; none: the MH knows nothing of it yet.
    fn observed(&self) -> Option<HostFlow> {
        self.noted.received_at?;
        Some(HostFlow {
            download: Some(self.withheld.download(self.upload_at)),
            ..self.noted
        })
    }
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
    daemon: Option<MobileHost>,
    /// Segments that have come to the MH.
    segments: u64,
    hangs: bool,
    suspended_until: Instant,
    orders_until: Instant,
    orders: BTreeMap<FlowKey, Option<SeqNum>>,
    held: u64,
    woken: u64,
    /// What machines that have died had counted: probes, FHs that pause, silent outages.
    counted: [u64; 3],
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
            answers_from: Instant::ZERO,
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
                received_at: None,
                ..flow(1_000 + place as u16)
            },
            withheld: WithheldSegment::default(),
            upload_at: None,
        });
        // One FH or several.
        let receivers = receivers.enumerate().map(|(place, mut of)| {
            if seed.is_multiple_of(2) {
                of.noted.key.fh.address = [10, 0, 1, place as u8].into();
            }
            of
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
            segments: 0,
            hangs: false,
            suspended_until: begin,
            orders_until: Instant::ZERO,
            orders: BTreeMap::new(),
            held: 0,
            woken: 0,
            counted: [0; 3],
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

/// What happens.
impl World {
    /// In some worlds nobody tells of the link.
    const fn is_mute(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// How often something of the link is told, less than so often.
    fn tells(&mut self, below: u32) -> u32 {
        let times = self.below(below);
        if self.is_mute() { 0 } else { times }
    }

    fn disturb(&mut self) {
        match self.below(16) {
            0..=2 => {
                self.carries = false;
                // The word of it may come late, twice, or not at all.
                for _ in 0..self.tells(3) {
                    let at = self.after_ms(400);
                    self.plan(at, Event::Tell(HostLinkEvent::Down));
                }
            }
            // Where nobody tells of outages they last longer.
            3..=6 if !self.is_mute() || self.one_in(4) => {
                self.carries = true;
                for _ in 0..self.tells(3) {
                    let at = self.after_ms(400);
                    self.plan(at, Event::Tell(HostLinkEvent::Up));
                }
            }
            7..=9 if self.is_mute() => {}
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
                if self.daemon.is_some() {
                    self.counted = self.counters();
                    self.daemon = None;
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
            Event::Question { place } => self.on_question(place),
            Event::Rto { place, turn } if self.senders[place].turn == turn => self.on_rto(place),
            Event::Rto { .. } => {}
            Event::Disturbance if self.is_disturbed() => self.disturb(),
            Event::Disturbance => self.calm(),
            // What comes to a sleeping machine is lost.
            Event::ToMh { .. } | Event::Answer { .. } if sleeps => {}
            _ if sleeps => self.plan(self.suspended_until, event),
            Event::ToMh {
                place,
                seq,
                sent_at,
            } => self.on_data(place, seq, sent_at),
            Event::Answer { place } => {
                self.receivers[place].noted.received_at = Some(self.now);
            }
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

/// How many ACKs were held back, how many wake-ups made, and how many answers told of a pause and of the
/// link's return.
fn run(seed: u64, scheme: MobileScheme) -> [u64; 4] {
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
            !of.withheld.is_held() || world.daemon.is_none(),
            "{what}: held"
        );
        let order = world.orders.get(&of.noted.key).filter(|_| ordered);
        assert_eq!(order, None, "{what}: closed");
        assert!(sender.edge > sender.una, "{what}: {sender:?}");
    }
    let [probes, ..] = world.counters();
    assert!(probes < 1_000, "{what}: {probes} probes");
    // Nobody is asked or woken for ever.
    let after = world.now + Duration::from_secs(200);
    world.run_until(after, |_| false);
    if let Some(daemon) = &world.daemon {
        assert!(daemon.is_at_rest(), "{what}");
    }
    let [_, pauses, returns] = world.counters();
    [world.held, world.woken, pauses, returns]
}

fn transfers_of(scheme: MobileScheme) -> [u64; 4] {
    let seeds = match std::env::var("HOLDFAST_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("HOLDFAST_SEED is a number");
            seed..=seed
        }
        Err(_) => 1..=400,
    };
    let all = seeds.map(|seed| run(seed, scheme));
    all.fold([0; 4], |sum, one| {
        core::array::from_fn(|of| sum[of] + one[of])
    })
}

#[test]
fn with_wake_every_transfer_ends_and_nothing_stays_held() {
    let [held, woken, pauses, returns] = transfers_of(MobileScheme::Wake);
    println!("{held} held back, {woken} wake-ups; answers: {pauses} pauses, {returns} returns");
    // It was about something.
    let some = held > 10_000 && woken > 500 && pauses > 100 && returns > 8;
    assert!(std::env::var_os("HOLDFAST_SEED").is_some() || some);
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
