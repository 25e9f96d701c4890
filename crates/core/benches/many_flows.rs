// SPDX-License-Identifier: Apache-2.0
//! How long the engine stops for 400,000 flows of one mobile: the longest call, by the wall clock,
//! while they become idle, when the link goes down and up, and while they are forgotten.
//!
//! ```text
//! cargo bench -p holdfast-core --bench many_flows [-- FLOWS]
//! ```

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the wall clock is what is measured"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use holdfast_core::{
    Actions, Direction, Gateway, LinkEvent, LinkSource, Payload, Scheme, Settings,
};
use holdfast_wire::{Endpoint, Flags, Header, Instant, Options, Segment, SeqNum, Timestamps};

const FLOWS: u32 = 400_000;
const MH: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 2));

/// Headers, and no payload.
#[derive(Clone)]
struct Bare(Header);

impl Payload for Bare {
    type Header = Header;

    fn header(&self) -> Option<Header> {
        Some(self.0)
    }

    fn segment_len(&self) -> u32 {
        1
    }

    fn is_cacheable(&self) -> bool {
        true
    }
}

struct World {
    gateway: Gateway<Bare>,
    now: Instant,
    actions: Actions<Bare>,
    /// The longest call so far.
    longest: Duration,
    calls: u64,
}

impl World {
    fn timed(&mut self, call: impl FnOnce(&mut Gateway<Bare>, Instant, &mut Actions<Bare>)) {
        let begun = std::time::Instant::now();
        call(&mut self.gateway, self.now, &mut self.actions);
        self.longest = self.longest.max(begun.elapsed());
        self.calls += 1;
        self.actions.clear();
    }

    fn put(&mut self, way: Direction, n: u32, flags: Flags, (seq, ack): (u32, u32)) {
        let [.., a, b] = (n >> 8).to_be_bytes();
        let (mh, fh) = (MH, IpAddr::V4(Ipv4Addr::new(10, 1, a, b)));
        let end = |address, port| Endpoint { address, port };
        let (mh, fh) = (end(mh, 40_000), end(fh, 1 + (n & 0xff) as u16));
        let (from, to) = match way {
            Direction::Downlink => (fh, mh),
            Direction::Uplink => (mh, fh),
        };
        let is_syn = flags.has(Flags::SYN);
        let segment = Segment {
            from,
            to,
            seq: SeqNum::new(seq),
            ack: SeqNum::new(ack),
            flags,
            window: 40_000,
            options: Options {
                timestamps: Some(Timestamps { tsval: 1, tsecr: 1 }),
                sack_permitted: is_syn,
                window_scale: is_syn.then_some(7),
                ..Options::default()
            },
            payload_len: 0,
        };
        let Some(header) = Header::made(&[2; 14], from, to) else {
            return;
        };
        let payload = Bare(header);
        self.timed(|gateway, now, actions| {
            let _ = gateway.handle_segment(way, &segment, &payload, now, actions);
        });
    }

    /// The engine's timers run for this time.
    fn wait(&mut self, wait: Duration) {
        let until = self.now + wait;
        while let Some(at) = self.gateway.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.timed(Gateway::handle_timeout);
        }
        self.now = until;
    }

    fn link(&mut self, event: LinkEvent) {
        self.timed(|gateway, now, actions| {
            gateway.handle_link(&[MH], event, LinkSource::Command, now, actions);
        });
    }

    /// One line of the table.
    fn report(&mut self, scheme: Scheme, what: &str) {
        let flows = self.gateway.stats().flows;
        let (longest, calls) = (self.longest.as_secs_f64() * 1e3, self.calls);
        println!("| {scheme:?} | {what} | {flows} | {calls} | {longest:.2} |");
        (self.longest, self.calls) = (Duration::ZERO, 0);
    }
}

fn run(scheme: Scheme, flows: u32) {
    let settings = Settings {
        scheme,
        flows_max: 2 * flows as usize,
        ..Settings::default()
    };
    let idle_max = settings.flow_idle_max;
    let mut world = World {
        gateway: Gateway::new(settings),
        now: Instant::from_millis(1000),
        actions: Vec::new(),
        longest: Duration::ZERO,
        calls: 0,
    };
    for n in 0..flows {
        world.put(Direction::Uplink, n, Flags::SYN, (0, 0));
        let answer = Flags::SYN.with(Flags::ACK);
        world.put(Direction::Downlink, n, answer, (0, 1));
        world.put(Direction::Uplink, n, Flags::ACK, (1, 1));
    }
    world.report(scheme, "packets that begin them");
    // Each slot is visited once in flows / 4096 seconds.
    let round = Duration::from_secs(u64::from(flows) / 4096 + 1);
    world.wait(round + Duration::from_secs(60));
    world.report(scheme, "timeouts, they become idle");
    world.wait(round);
    world.report(scheme, "timeouts, they are idle");
    world.link(LinkEvent::Down);
    world.report(scheme, "link down");
    world.wait(Duration::from_secs(2));
    world.link(LinkEvent::Up);
    world.report(scheme, "link up");
    world.wait(round + Duration::from_secs(120));
    world.report(scheme, "timeouts after the outage");
    world.wait(idle_max + round);
    world.report(scheme, "timeouts, they are forgotten");
}

fn main() {
    let flows = std::env::args().find_map(|argument| argument.parse().ok());
    let flows = flows.unwrap_or(FLOWS);
    println!("| scheme | what | flows then | calls | longest call, ms |");
    println!("| --- | --- | --- | --- | --- |");
    for scheme in [Scheme::Hold, Scheme::Snoop, Scheme::MtcpPlus, Scheme::Mtcp] {
        run(scheme, flows);
    }
}
