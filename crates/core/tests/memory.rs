// SPDX-License-Identifier: Apache-2.0
//! Ten thousand flows with holes in both directions. The bytes that the engine counts and the
//! heap that the allocator counts stay within the settings' limits. When all data is
//! acknowledged, the memory is released.

use std::alloc::System;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use holdfast_core::{Actions, Direction, Gateway, Payload, Scheme, Settings, SnoopSettings};
use holdfast_wire::{Endpoint, Flags, Header, Instant, Options, Segment, SeqNum, Timestamps};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const FLOWS: u32 = 10_000;
const CACHE_BYTES_MAX: usize = 32 << 20;
/// Memory of a flow besides its payload: the flow, its MH, its timers, the list of holes.
const FLOW_BYTES: usize = 6 << 10;

fn heap_bytes() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// A payload of real bytes.
#[derive(Clone)]
struct Bytes(Rc<[u8]>);

impl Payload for Bytes {
    type Header = Header;

    fn header(&self) -> Option<Header> {
        let end = |octet| Endpoint {
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, octet)),
            port: 80,
        };
        Header::made(&[], end(1), end(2))
    }

    fn segment_len(&self) -> u32 {
        (self.0.len() as u32).max(1)
    }

    fn is_cacheable(&self) -> bool {
        true
    }
}

struct World {
    gateway: Gateway<Bytes>,
    now: Instant,
    actions: Actions<Bytes>,
    actions_max: usize,
}

impl World {
    fn put(&mut self, direction: Direction, mut segment: Segment, n: u32) {
        let mh = Endpoint {
            address: IpAddr::V4(Ipv4Addr::from(0x0a02_0000 + n)),
            port: 40_000,
        };
        let fh = Endpoint {
            address: IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2)),
            port: 80,
        };
        (segment.from, segment.to) = match direction {
            Direction::Downlink => (fh, mh),
            Direction::Uplink => (mh, fh),
        };
        let payload = Bytes(vec![7; segment.payload_len as usize].into());
        let _ =
            self.gateway
                .handle_segment(direction, &segment, &payload, self.now, &mut self.actions);
        self.actions_max = self.actions_max.max(self.actions.len());
        self.actions.clear();
    }

    fn wait(&mut self, wait: Duration) {
        let until = self.now + wait;
        while let Some(at) = self.gateway.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.gateway.handle_timeout(self.now, &mut self.actions);
            self.actions.clear();
        }
        self.now = until;
    }

    fn segment(&self, seq: u32, ack: u32, len: u32) -> Segment {
        let clock = (self.now.as_nanos() / 1_000_000) as u32;
        let nowhere = Endpoint {
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 0,
        };
        Segment {
            from: nowhere,
            to: nowhere,
            seq: SeqNum::new(seq),
            ack: SeqNum::new(ack),
            flags: Flags::ACK,
            window: u16::MAX,
            options: Options {
                timestamps: Some(Timestamps {
                    tsval: clock,
                    tsecr: clock.saturating_sub(20),
                }),
                ..Options::default()
            },
            payload_len: len,
        }
    }

    fn shake_hands(&mut self, n: u32) {
        let mut syn = self.segment(0, 0, 0);
        syn.options.sack_permitted = true;
        syn.options.window_scale = Some(7);
        syn.flags = Flags::SYN;
        self.put(Direction::Uplink, syn, n);
        (syn.flags, syn.ack) = (Flags::SYN.with(Flags::ACK), SeqNum::new(1));
        self.put(Direction::Downlink, syn, n);
        let ack = self.segment(1, 1, 0);
        self.put(Direction::Uplink, ack, n);
    }

    /// Sends `segments` segments on each flow in both directions. The first segment of each is
    /// lost. The MH's ACKs report the others by SACK.
    fn lose_the_first(&mut self, segments: u32, len: u32) {
        for i in 0..segments {
            for n in 0..FLOWS {
                let seq = 1 + i * len;
                let data = self.segment(seq, 1, len);
                self.put(Direction::Downlink, data, n);
                if i == 0 {
                    continue;
                }
                self.put(Direction::Uplink, data, n);
                let mut ack = self.segment(seq + len, 1, 0);
                ack.options
                    .sack
                    .push(SeqNum::new(1 + len), SeqNum::new(seq + len));
                self.put(Direction::Uplink, ack, n);
            }
            self.wait(Duration::from_millis(5));
        }
    }
}

/// Returns the bytes that the engine counts and the heap without the empty engine: first with
/// all data in flight, then with all data acknowledged.
fn run(settings: Settings, segments: u32, len: u32) -> [(usize, usize); 2] {
    let mut world = World {
        gateway: Gateway::new(settings),
        now: Instant::from_millis(1000),
        actions: Vec::with_capacity(10_000),
        actions_max: 0,
    };
    let empty = heap_bytes();
    for n in 0..FLOWS {
        world.shake_hands(n);
    }
    world.lose_the_first(segments, len);
    let counted = world.gateway.stats().cached_bytes as usize;
    let full = (counted, heap_bytes() - empty);
    let end = 1 + segments * len;
    for n in 0..FLOWS {
        let first = world.segment(1, end, len);
        world.put(Direction::Uplink, first, n);
        let last = world.segment(end, end, 0);
        world.put(Direction::Downlink, last, n);
        let last = world.segment(end, end, 0);
        world.put(Direction::Uplink, last, n);
    }
    let stats = world.gateway.stats();
    assert_eq!(stats.flows, FLOWS as usize);
    assert!(world.actions_max < 1_000, "{}", world.actions_max);
    let counted = stats.cached_bytes as usize;
    [full, (counted, heap_bytes() - empty)]
}

#[test]
fn memory_stays_within_the_limits_with_ten_thousand_flows_under_loss() {
    let limit = CACHE_BYTES_MAX + FLOWS as usize * FLOW_BYTES;
    for snoop in [SnoopSettings::paper_1995(), SnoopSettings::today()] {
        // First ordinary segments, far more than the limit. Then tiny segments, whose entries
        // take more memory than their bytes.
        for (segments, len) in [(12, 1448), (100, 8)] {
            let settings = Settings {
                scheme: Scheme::Snoop,
                snoop: snoop.clone(),
                cache_bytes_max: CACHE_BYTES_MAX,
                ..Settings::default()
            };
            let what = format!("{:?}, {segments} segments of {len} bytes", snoop.set);
            let [(counted, heap), (counted_after, heap_after)] = run(settings, segments, len);
            println!("{what}: counted {counted}, heap {heap}; then {counted_after}, {heap_after}");
            assert!(counted <= CACHE_BYTES_MAX, "{what}: counted {counted}");
            assert!(counted > CACHE_BYTES_MAX / 2, "{what}: nothing was cached");
            assert!(heap <= limit, "{what}: heap {heap}, limit {limit}");
            assert_eq!(counted_after, 0, "{what}");
            let limit = FLOWS as usize * FLOW_BYTES;
            assert!(heap_after <= limit, "{what}: heap {heap_after} after all");
        }
    }
}
