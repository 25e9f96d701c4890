// SPDX-License-Identifier: Apache-2.0
//! A model of the kernel's program, of a device with a queue, and of a link that comes and goes.

use std::collections::{BTreeMap, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::*;

/// One packet: its flow, by number, and its own number within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub flow: u32,
    pub number: u32,
}

/// What the program knows of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Pass,
    Take,
    Drain,
}

/// What becomes of packets in an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    Loses,
    Keeps,
}

/// Everything below the keeper: one peer.
pub(super) struct Below {
    mode: Kernel,
    taken: u32,
    done: u32,
    device: VecDeque<Numbered>,
    device_max: usize,
    pub link_is_up: bool,
    pub outage: Outage,
    /// What the link has kept in an outage.
    link: VecDeque<Numbered>,
    /// What the peer got, in order.
    pub delivered: Vec<Numbered>,
    pub ignores_silence: bool,
    /// A packet of the peer was seen while a flow waits for that.
    pub seen: u32,
    pub lost_in_device: usize,
}

impl Edge<Numbered> for Below {
    fn send(&mut self, frame: &Numbered) {
        if self.link_is_up {
            self.delivered.push(*frame);
        } else if self.outage == Outage::Keeps {
            self.link.push_back(*frame);
        }
    }

    fn set_mode(&mut self, _: PeerId, mode: Mode) {
        self.mode = match mode {
            Mode::Take => Kernel::Take,
            Mode::Drain => Kernel::Drain,
        };
    }

    fn ignore_silence(&mut self, _: PeerId) {
        self.ignores_silence = true;
    }
}

impl Below {
    /// A packet for the peer, as the program handles it. `alarm`: it finds the peer silent.
    fn egress(&mut self, packet: Numbered, alarm: bool) {
        if self.mode == Kernel::Drain && self.done == self.taken {
            self.mode = Kernel::Pass;
        }
        if self.mode == Kernel::Pass && alarm && !self.ignores_silence {
            self.mode = Kernel::Take;
        }
        if self.mode == Kernel::Pass {
            self.send(&packet);
            return;
        }
        self.taken += 1;
        if self.device.len() < self.device_max {
            self.device.push_back(packet);
        } else {
            self.lost_in_device += 1;
        }
    }

    pub(super) fn set_link(&mut self, is_up: bool) {
        self.link_is_up = is_up;
        if is_up {
            self.delivered.extend(self.link.drain(..));
        }
    }

    fn ingress(&mut self) {
        self.ignores_silence = false;
        if self.mode != Kernel::Pass {
            self.seen += 1;
        }
    }

    pub(super) fn passes(&self) -> bool {
        self.mode == Kernel::Pass
    }
}

/// Flows below this number are two-way, and may repeat; those below the next are two-way and may
/// not; all others are one-way.
pub(super) const REPEATING: u32 = 3;
pub(super) const TWO_WAY: u32 = 4;
pub(super) const FLOWS: u32 = 6;

pub(super) struct World {
    pub keeper: Keeper<Numbered>,
    pub below: Below,
    pub now: Instant,
    pub dice: ChaCha8Rng,
    pub next: BTreeMap<u32, u32>,
    settings: KeepSettings,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let settings = KeepSettings {
            flow_packets_max: [1, 4, 16][dice.next_u32() as usize % 3],
            ..KeepSettings::default()
        };
        let outage = if dice.next_u32() & 1 == 0 {
            Outage::Loses
        } else {
            Outage::Keeps
        };
        Self {
            keeper: Keeper::new(settings),
            below: Below {
                mode: Kernel::Pass,
                taken: 0,
                done: 0,
                device: VecDeque::new(),
                device_max: 1_000,
                link_is_up: true,
                outage,
                link: VecDeque::new(),
                delivered: Vec::new(),
                ignores_silence: false,
                seen: 0,
                lost_in_device: 0,
            },
            now: at(1_000),
            dice,
            next: BTreeMap::new(),
            settings,
        }
    }

    pub(super) fn below(&mut self, limit: u32) -> u32 {
        self.dice.next_u32() % limit
    }

    pub(super) const fn packets_max(&self) -> usize {
        self.settings.flow_packets_max
    }

    /// The sender of a flow sends its next packet.
    pub(super) fn send(&mut self, flow: u32, alarm: bool) -> Numbered {
        let next = self.next.entry(flow).or_default();
        let packet = Numbered {
            flow,
            number: *next,
        };
        *next += 1;
        self.below.egress(packet, alarm);
        packet
    }

    /// The daemon reads up to `frames` of what was taken.
    pub(super) fn read(&mut self, frames: u32) {
        for _ in 0..frames {
            let Some(packet) = self.below.device.pop_front() else {
                return;
            };
            let protocol = if packet.flow == REPEATING { ICMP } else { TCP };
            let arrival = Arrival {
                peer: PEER,
                flow: flow(packet.flow, protocol),
                answers: if packet.flow < TWO_WAY {
                    Answers::Many
                } else {
                    Answers::None
                },
                bytes: 1_500,
                segments: 1,
                frame: packet,
            };
            let alarm = self.below.mode == Kernel::Take;
            self.keeper
                .handle_packet(arrival, alarm, self.now, &mut self.below);
            self.below.done += 1;
        }
    }

    /// A packet of the peer arrives, if the link is up.
    pub(super) fn answer(&mut self) {
        if self.below.link_is_up {
            self.below.ingress();
        }
    }

    /// The daemon learns which peers were seen, and does what is due.
    pub(super) fn turn(&mut self) {
        let seen = core::mem::take(&mut self.below.seen);
        if seen > 0 {
            self.keeper
                .see(PEER, seen, ANSWER_MAX, self.now, &mut self.below);
        }
        self.keeper.handle_timeout(self.now, &mut self.below);
        self.check();
    }

    pub(super) fn link(&mut self, event: LinkEvent, source: LinkSource) {
        self.keeper
            .handle_link(PEER, event, source, self.now, &mut self.below);
    }

    /// The daemon dies, the kernel passes everything, and a successor comes.
    pub(super) fn crash(&mut self) {
        self.keeper = Keeper::new(self.settings);
        self.below.device.clear();
        self.below.mode = Kernel::Pass;
        self.below.done = self.below.taken;
    }

    /// The books agree, and nothing is above its limit.
    fn check(&self) {
        let shelves: usize = self.keeper.peers().map(|peer| peer.bytes).sum();
        assert_eq!(self.keeper.bytes(), shelves, "bytes");
        let packets_max = self.packets_max() * FLOWS as usize;
        assert!(shelves <= packets_max * 2_304, "{shelves} bytes are kept");
    }
}
