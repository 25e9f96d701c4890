// SPDX-License-Identifier: Apache-2.0
//! What an idle flow and a closed one take, by the allocator's own count: the row, the scheme's
//! state, the headers, the table's index, the list of the mobile.

use std::alloc::System;
use std::net::IpAddr;
use std::time::Duration;

use holdfast_core::{
    Action, Actions, Direction, Gateway, MtcpSettings, Payload, Scheme, Settings, SnoopSettings,
    Stats,
};
use holdfast_wire::{Endpoint, Flags, Header, Instant, Options, Segment, SeqNum, Timestamps};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A power of two: the table has no slots to spare.
const FLOWS: u32 = 8_192;
const IDLE_BYTES_MAX: usize = 512;
/// Without what finds it: the table's index and the mobile's list.
const CLOSED_BYTES_MAX: usize = 64;
const FOUND_BY_BYTES: usize = 20;
const LEN: u32 = 1_000;
/// The sequence number after all data, in both directions.
const END: u32 = 1 + 4 * LEN;

fn heap_bytes() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Headers as they came on Ethernet, and so much payload.
#[derive(Clone)]
struct Frame(Header, u32);

impl Payload for Frame {
    type Header = Header;

    fn header(&self) -> Option<Header> {
        Some(self.0)
    }

    fn segment_len(&self) -> u32 {
        self.1.max(1)
    }

    fn is_cacheable(&self) -> bool {
        true
    }
}

struct World {
    gateway: Gateway<Frame>,
    now: Instant,
    actions: Actions<Frame>,
    mh: IpAddr,
    fh: IpAddr,
}

impl World {
    fn new(settings: Settings, [fh, mh]: [&str; 2]) -> Self {
        Self {
            gateway: Gateway::new(settings),
            now: Instant::from_millis(1000),
            actions: Vec::with_capacity(64),
            mh: mh.parse().expect("an address"),
            fh: fh.parse().expect("an address"),
        }
    }

    fn put(&mut self, way: Direction, n: u32, flags: Flags, (seq, ack): (u32, u32), len: u32) {
        let mh = Endpoint {
            address: self.mh,
            port: 1 + (n / 8) as u16,
        };
        let fh = Endpoint {
            address: self.fh,
            port: 1 + (n % 8) as u16,
        };
        let (from, to) = match way {
            Direction::Downlink => (fh, mh),
            Direction::Uplink => (mh, fh),
        };
        let clock = (self.now.as_nanos() / 1_000_000) as u32;
        let is_syn = flags.has(Flags::SYN);
        let segment = Segment {
            from,
            to,
            seq: SeqNum::new(seq),
            ack: SeqNum::new(ack),
            flags,
            window: 40_000,
            options: Options {
                timestamps: Some(Timestamps {
                    tsval: clock,
                    tsecr: clock.saturating_sub(20),
                }),
                sack_permitted: is_syn,
                window_scale: is_syn.then_some(7),
                ..Options::default()
            },
            payload_len: len,
        };
        let link = [[2; 12].as_slice(), &[0x08, 0x00]].concat();
        let header = Header::made(&link, from, to).expect("short");
        let payload = Frame(header, len);
        let now = self.now;
        let _ = self
            .gateway
            .handle_segment(way, &segment, &payload, now, &mut self.actions);
        self.actions.clear();
    }

    fn wait(&mut self, wait: Duration) {
        let until = self.now + wait;
        while let Some(at) = self.gateway.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.gateway.handle_timeout(self.now, &mut self.actions);
            let is_keep_alive = |action: &Action<Frame>| {
                matches!(action, Action::Send(made)
                    if made.direction == Direction::Downlink && made.seq == SeqNum::new(END - 1))
            };
            let is_probed = self.actions.iter().any(is_keep_alive);
            self.actions.clear();
            if is_probed {
                // Flows of an MH that does not answer stay as they are.
                self.put(Direction::Uplink, 0, Flags::ACK, (END, END), 0);
            }
        }
        self.now = until;
    }

    /// Both ends of all flows send data, and have it acknowledged.
    fn exchange(&mut self) {
        let (down, up) = (Direction::Downlink, Direction::Uplink);
        for n in 0..FLOWS {
            self.put(up, n, Flags::SYN, (0, 0), 0);
            self.put(down, n, Flags::SYN.with(Flags::ACK), (0, 1), 0);
            self.put(up, n, Flags::ACK, (1, 1), 0);
        }
        for i in 0..4 {
            let seq = 1 + i * LEN;
            for n in 0..FLOWS {
                self.put(down, n, Flags::ACK, (seq, seq), LEN);
            }
            self.wait(Duration::from_millis(5));
            for n in 0..FLOWS {
                self.put(up, n, Flags::ACK, (seq, seq + LEN), LEN);
                self.put(down, n, Flags::ACK, (seq + LEN, seq + LEN), 0);
            }
        }
    }

    fn close(&mut self) {
        let (down, up) = (Direction::Downlink, Direction::Uplink);
        let (end, fin) = (END, Flags::ACK.with(Flags::FIN));
        for n in 0..FLOWS {
            self.put(down, n, fin, (end, end), 0);
            self.put(up, n, fin, (end, end + 1), 0);
            self.put(down, n, Flags::ACK, (end + 1, end + 1), 0);
        }
        self.wait(Duration::from_secs(5));
    }
}

fn settings(scheme: Scheme, snoop: SnoopSettings) -> Settings {
    Settings {
        scheme,
        snoop,
        mtcp: MtcpSettings::default(),
        flows_max: FLOWS as usize,
        ..Settings::default()
    }
}

#[test]
fn an_idle_flow_and_a_closed_one_take_little() {
    let today = SnoopSettings::today;
    for settings in [
        settings(Scheme::Hold, today()),
        settings(Scheme::Observe, today()),
        settings(Scheme::MtcpPlus, today()),
        settings(Scheme::Mtcp2007, today()),
        settings(Scheme::Mtcp, today()),
        settings(Scheme::Snoop, SnoopSettings::paper_1995()),
        settings(Scheme::Snoop, today()),
    ] {
        for addresses in [["10.1.0.2", "10.2.0.2"], ["2001:db8::1", "2001:db8::2"]] {
            let what = format!("{:?} {}", settings.scheme, addresses[0]);
            let empty = heap_bytes();
            let mut world = World::new(settings.clone(), addresses);
            let each = || (heap_bytes() - empty) / FLOWS as usize;
            world.exchange();
            let used = each();
            world.wait(Duration::from_secs(70));
            let idle = each();
            world.close();
            let closed = each();
            let Stats { flows, .. } = world.gateway.stats();
            println!("{what}: {used} bytes in use, {idle} idle, {closed} closed");
            assert_eq!(flows, FLOWS as usize, "{what}");
            assert!(idle <= IDLE_BYTES_MAX, "{what}: {idle} bytes idle");
            let closed_max = CLOSED_BYTES_MAX + FOUND_BY_BYTES;
            assert!(closed <= closed_max, "{what}: {closed} bytes closed");
            let open = world.gateway.flows().filter(|flow| flow.state != "closed");
            assert_eq!(open.count(), 0, "{what}");
        }
    }
}
