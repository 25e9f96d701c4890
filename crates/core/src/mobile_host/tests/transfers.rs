// SPDX-License-Identifier: Apache-2.0
//! Downloads with faults, under each scheme: loss, reordering, duplicates, corruption, outages, signals that are right,
//! wrong, late, repeated or missing, a reader that pauses, a daemon that hangs, dies and restarts, a suspended machine.
//! The machine, the withheld segment and the rule of wake-ups are the product's. A sender with a doubling RTO, a
//! receiver, and a model of the programs are here.
//!
//! Each segment of the MH is checked as it leaves: it acknowledges only what the MH has received, and no window ends
//! beyond the MH's own. In the end every transfer is complete, no ACK is withheld and no window is closed.
//!
//! The seeds are 1 to 400 of each scheme; `HOLDFAST_SEED=N` runs another one. A failure prints its seed.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::withheld::{AckAndWindow, FhData, MhSegment, WithheldSegment};
use super::*;

mod daemon;
mod ends;

const PIECE: u32 = 1_448;
const SCALE: u8 = 7;
/// Sequence numbers wrap within the transfer.
const START: SeqNum = SeqNum::new(u32::MAX - 500_000);
const DISTURBED: Duration = Duration::from_secs(8);
/// Every transfer is complete within this time: some timeouts after the last fault.
const DONE_WITHIN: Duration = Duration::from_secs(90);
const DELAYED_ACK: Duration = Duration::from_millis(40);
const RTO_MIN: Duration = Duration::from_millis(200);
const DOUBLINGS_MAX: u32 = 4;
const FLOWS: usize = 2;

/// What is in flight, or due.
#[derive(Clone, Copy, Debug)]
enum Event {
    ToMh {
        index: usize,
        seq: u32,
        sent_at: Instant,
    },
    ToFh {
        index: usize,
        ack: SeqNum,
        window: u16,
    },
    /// A probe to the FH, and its answer.
    Probe {
        index: usize,
    },
    ProbeAnswer {
        index: usize,
    },
    Rto {
        index: usize,
        turn: u64,
    },
    DelayedAck {
        index: usize,
    },
    /// The programs' timer.
    Pause {
        index: usize,
    },
    Daemon,
    Guard,
    Disturbance,
    Signal(LinkEvent),
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
    dup_acks: u32,
    turn: u64,
    /// The FH answers no probe before this time.
    answers_from: Instant,
    /// The sender sends more until this is settled.
    total: u32,
}

/// The receiver, and what the programs note of its segments.
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
    /// The flow as the data path shows it; `None` until its first segment.
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
    link_is_up: bool,
    /// When the link's ends are free for the next packet.
    free_at: [Instant; 2],
    delay: Duration,
    segment_time: Duration,
    disturbed_until: Instant,
    daemon: Option<MobileHost>,
    /// Segments that the MH has received.
    segments: u64,
    hangs: bool,
    suspended_until: Instant,
    orders_until: Instant,
    orders: BTreeMap<FlowKey, Option<SeqNum>>,
    withheld: u64,
    woken: u64,
    /// Counters of the machines that have died: probes, FHs that pause, silent outages.
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
            dup_acks: 0,
            turn: 0,
            answers_from: Instant::ZERO,
            total: u32::MAX / 2,
        });
        let senders = senders.collect();
        let receivers = (0..FLOWS).map(|index| Receiver {
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
                ..flow(1_000 + index as u16)
            },
            withheld: WithheldSegment::default(),
            upload_at: None,
        });
        // One FH or several.
        let receivers = receivers.enumerate().map(|(index, mut receiver)| {
            if seed.is_multiple_of(2) {
                receiver.noted.key.fh.address = [10, 0, 1, index as u8].into();
            }
            receiver
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
            link_is_up: true,
            free_at: [begin; 2],
            delay: Duration::from_millis(5 + u64::from(rng.next_u32() % 60)),
            segment_time: Duration::from_micros(500 + u64::from(rng.next_u32() % 3_000)),
            rng,
            disturbed_until: begin + DISTURBED,
            daemon: None,
            segments: 0,
            hangs: false,
            suspended_until: begin,
            orders_until: Instant::ZERO,
            orders: BTreeMap::new(),
            withheld: 0,
            woken: 0,
            counted: [0; 3],
        };
        world.start_daemon();
        for index in 0..FLOWS {
            world.pump(index);
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

    /// Sends a packet over the link, which may lose, delay or duplicate it. A corrupted packet is lost: its checksum
    /// is wrong.
    fn put(&mut self, direction: usize, takes: Duration, event: Event) {
        let disturbed = self.is_disturbed();
        let free_at = self.free_at[direction].max(self.now);
        let full = free_at.saturating_since(self.now) > self.segment_time * 100;
        if !self.link_is_up || full || disturbed && self.one_in(200) {
            return;
        }
        self.free_at[direction] = free_at + takes;
        let mut arrives = self.free_at[direction] + self.delay;
        if disturbed && self.one_in(100) {
            arrives += Duration::from_millis(u64::from(self.below(30)));
        }
        self.plan(arrives, event);
        if disturbed && self.one_in(200) {
            self.plan(arrives, event);
        }
    }
}

/// The faults and signals.
impl World {
    /// In some worlds the link is never signalled.
    const fn is_mute(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// How many signals of a change there are: fewer than `below`.
    fn signals(&mut self, below: u32) -> u32 {
        let times = self.below(below);
        if self.is_mute() { 0 } else { times }
    }

    fn disturb(&mut self) {
        match self.below(16) {
            0..=2 => {
                self.link_is_up = false;
                // The signal of the change may arrive late, twice, or not at all.
                for _ in 0..self.signals(3) {
                    let at = self.after_ms(400);
                    self.plan(at, Event::Signal(LinkEvent::Down));
                }
            }
            // Without signals the outages last longer.
            3..=6 if !self.is_mute() || self.one_in(4) => {
                self.link_is_up = true;
                for _ in 0..self.signals(3) {
                    let at = self.after_ms(400);
                    self.plan(at, Event::Signal(LinkEvent::Up));
                }
            }
            7..=9 if self.is_mute() => {}
            7 | 8 => {
                let lead = Duration::from_millis(u64::from(self.below(600)));
                self.link(LinkEvent::GoingDownSoon(Some(lead)));
            }
            9 => self.link(LinkEvent::Down),
            10 => {
                let index = self.below(FLOWS as u32) as usize;
                self.receivers[index].reads ^= true;
                self.acknowledge(index);
            }
            11 => self.hangs ^= true,
            12 => {
                if self.daemon.is_some() {
                    self.counted = self.counters();
                    self.daemon = None;
                    self.guard_releases_all();
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

    /// The end of all faults. Link up may be signalled or not.
    fn calm(&mut self) {
        self.link_is_up = true;
        self.suspended_until = self.now;
        if self.hangs {
            self.hangs = false;
            self.drive(|_, _, _, _| {});
        }
        if self.one_in(2) {
            self.link(LinkEvent::Up);
        }
        for index in 0..FLOWS {
            self.senders[index].total = self.senders[index].nxt + 100 * PIECE;
            self.receivers[index].reads = true;
            self.acknowledge(index);
            self.pump(index);
        }
    }

    fn handle(&mut self, event: Event) {
        let sleeps = self.now < self.suspended_until;
        match event {
            Event::ToFh { index, ack, window } => self.on_ack(index, ack, window),
            Event::Probe { index } => self.on_probe(index),
            Event::Rto { index, turn } if self.senders[index].turn == turn => self.on_rto(index),
            Event::Rto { .. } => {}
            Event::Disturbance if self.is_disturbed() => self.disturb(),
            Event::Disturbance => self.calm(),
            // What arrives at a suspended machine is lost.
            Event::ToMh { .. } | Event::ProbeAnswer { .. } if sleeps => {}
            _ if sleeps => self.plan(self.suspended_until, event),
            Event::ToMh {
                index,
                seq,
                sent_at,
            } => self.on_data(index, seq, sent_at),
            Event::ProbeAnswer { index } => {
                self.receivers[index].noted.received_at = Some(self.now);
            }
            Event::DelayedAck { index } => {
                if self.receivers[index].unacknowledged > 0 {
                    self.acknowledge(index);
                }
            }
            Event::Pause { index } => self.on_pause(index),
            Event::Guard => self.on_guard(),
            _ if self.hangs => {
                let at = self.now + Duration::from_millis(50);
                self.plan(at, event);
            }
            Event::Daemon => self.on_daemon(),
            Event::Signal(event) => self.link(event),
        }
    }

    fn is_done(&self) -> bool {
        let settled = !self.is_disturbed();
        settled
            && self
                .senders
                .iter()
                .all(|sender| sender.una + PIECE > sender.total)
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

/// Returns the number of withheld ACKs, of wake-ups, and of answers that showed a pause and link up.
fn run(seed: u64, scheme: MobileScheme) -> [u64; 4] {
    let mut world = World::new(seed, scheme);
    let end = world.disturbed_until + DONE_WITHIN;
    world.run_until(end, World::is_done);
    let what = format!("seed {seed}, {scheme}");
    assert!(world.is_done(), "{what}: {:?}", world.senders);
    // Longer than any pause, and longer than any order is valid.
    let after = world.now + Duration::from_secs(5);
    world.run_until(after, |_| false);
    let ordered = after < world.orders_until && world.daemon.is_some();
    for (receiver, sender) in world.receivers.iter().zip(&world.senders) {
        assert!(
            !receiver.withheld.is_withholding() || world.daemon.is_none(),
            "{what}: held"
        );
        let order = world.orders.get(&receiver.noted.key).filter(|_| ordered);
        assert_eq!(order, None, "{what}: closed");
        assert!(sender.edge > sender.una, "{what}: {sender:?}");
    }
    let [probes, ..] = world.counters();
    assert!(probes < 1_000, "{what}: {probes} probes");
    // Probes and wake-ups end.
    let after = world.now + Duration::from_secs(200);
    world.run_until(after, |_| false);
    if let Some(daemon) = &world.daemon {
        assert!(daemon.is_at_rest(), "{what}");
    }
    let [_, pauses, returns] = world.counters();
    [world.withheld, world.woken, pauses, returns]
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
        core::array::from_fn(|counter| sum[counter] + one[counter])
    })
}

#[test]
fn with_wake_every_transfer_ends_and_no_ack_stays_withheld() {
    let [withheld, woken, pauses, returns] = transfers_of(MobileScheme::Wake);
    println!("{withheld} withheld, {woken} wake-ups; answers: {pauses} pauses, {returns} returns");
    // The worlds had something to handle.
    let some = withheld > 10_000 && woken > 500 && pauses > 100 && returns > 8;
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
