// SPDX-License-Identifier: Apache-2.0
//! The path: packets between hosts and gateway are delayed, lost, duplicated and queued.

use core::time::Duration;

use rand_core::Rng;

use super::own_engine::Site;
use super::{Event, Half, World};
use crate::testing::Packet;
use crate::{Direction, Side};

impl World {
    pub(super) fn transmit(&mut self, side: Side, packets: Vec<Packet>) {
        for mut packet in packets {
            if side == Side::Mh {
                if self.has_own_engine(Site::Mobile) {
                    self.pass_own_engine(true, packet);
                } else {
                    self.over_wireless(Direction::Uplink, packet);
                }
                continue;
            }
            packet.cacheable = !self.chance(self.uncacheable);
            let pieces = if self.chance(self.splits) {
                packet.split()
            } else {
                vec![packet]
            };
            for piece in pieces {
                self.over_wired(Event::ToGateway(Direction::Downlink, piece));
            }
        }
    }

    pub(super) fn over_wireless(&mut self, direction: Direction, packet: Packet) {
        for packet in packet.split() {
            if !self.link_is_up {
                if self.queues_in_outage && self.queued.len() < 200 {
                    self.queued.push((direction, packet));
                }
                continue;
            }
            let mut half = self.wireless;
            // Without a rate, no limit.
            let scaled = (packet.bytes.len() as u64 + 52) * 1_000_000_000;
            if let Some(nanos) = scaled.checked_div(half.rate) {
                let busy = &mut self.busy_until[direction as usize];
                let waits = busy.saturating_since(self.now);
                if waits > half.queue_max {
                    continue;
                }
                *busy = self.now + waits + Duration::from_nanos(nanos);
                half.delay += waits + Duration::from_nanos(nanos);
            }
            let event = match direction {
                Direction::Downlink => Event::ToHost(Side::Mh, packet),
                Direction::Uplink => Event::ToGateway(Direction::Uplink, packet),
            };
            self.travel(half, event);
        }
    }

    pub(super) fn over_wired(&mut self, event: Event) {
        if self.wired_is_up {
            self.travel(self.wired, event);
        }
    }

    pub(super) fn travel(&mut self, half: Half, event: Event) {
        if self.chance(half.loss) {
            return;
        }
        let copies = 1 + u32::from(self.chance(half.duplication));
        for _ in 0..copies {
            let jitter = half.jitter.as_micros() as u64;
            let micros = if jitter == 0 {
                0
            } else {
                self.rng.next_u64() % jitter
            };
            let at = self.now + half.delay + Duration::from_micros(micros);
            self.at(at, event.clone());
        }
    }

    pub(super) fn send_out(&mut self, direction: Direction, packet: Packet) {
        match direction {
            Direction::Downlink => self.over_wireless(direction, packet),
            Direction::Uplink if self.has_own_engine(Site::Gateway) => {
                self.pass_own_engine(true, packet);
            }
            Direction::Uplink => self.over_wired(Event::ToHost(Side::Fh, packet)),
        }
    }
}
