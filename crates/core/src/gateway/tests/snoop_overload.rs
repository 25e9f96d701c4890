// SPDX-License-Identifier: Apache-2.0
//! Snoop for today's senders where the losses are the FH's own overload, and where they are not:
//! one transfer over a link with a queue, until both ends are done.

use core::time::Duration;

use holdfast_wire::Instant;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::host::{Host, HostProfile};
use super::world::{Half, World};
use crate::testing::{FH, MH};
use crate::{Scheme, Settings, Side};

const MSS: usize = 1448;
/// 20 Mb/s.
const RATE: u64 = 2_500_000;
const BYTES: u64 = 6_000_000;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn end(me: holdfast_wire::Endpoint, peer: holdfast_wire::Endpoint, buffer: usize) -> HostProfile {
    HostProfile {
        me,
        peer,
        iss: 1000,
        mss: MSS,
        gso: 1,
        buffer,
        window_scale: 8,
        timestamps: true,
        clock_start: 5,
        sack: true,
        ack_every: 2,
        ack_delay: ms(40),
        probe_has_byte: false,
        closes_last: false,
    }
}

/// What became of a transfer over 20 ms of wired and 30 ms of wireless round trip.
#[derive(Debug)]
struct Outcome {
    /// Retransmitted bytes in 1/1000 of all: by the FH and by the gateway.
    by_fh: u64,
    by_gateway: u64,
    reported: u64,
}

/// `loss` in 1/1000; `window` is the MH's.
fn transfer(queue_max: Duration, loss: u64, window: usize, seed: u64) -> Outcome {
    let (fh, mh) = (end(FH, MH, 1 << 16), end(MH, FH, window));
    let settings = Settings {
        scheme: Scheme::Snoop,
        cache_bytes_max: 32 << 20,
        flow_cache_bytes_max: 32 << 20,
        ..Settings::default()
    };
    let (host_fh, host_mh) = (
        Host::new(fh.clone(), &mh, vec![7; BYTES as usize]),
        Host::new(mh, &fh, Vec::new()),
    );
    let rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new(host_fh, host_mh, settings, rng);
    world.wired = Half {
        delay: ms(10),
        ..Half::default()
    };
    world.wireless = Half {
        delay: ms(15),
        loss,
        rate: RATE,
        queue_max,
        ..Half::default()
    };
    world.shake_hands(Side::Mh);
    let reads = world.now + Duration::from_secs(60);
    let mut at = world.now;
    while at < reads {
        at += ms(5);
        world.at(at, super::world::Event::Read(crate::Side::Mh, usize::MAX));
    }
    world.begin();
    world.run_until(Instant::from_millis(0) + Duration::from_secs(60), true);
    assert!(world.fh.is_done(), "not through in a minute");
    let reported = world.gateway.counters().find(|one| one.0 == "congested");
    let outcome = Outcome {
        by_fh: world.fh_retransmitted * 1000 / BYTES,
        by_gateway: world.resent * MSS as u64 * 1000 / BYTES,
        reported: reported.expect("counted").1,
    };
    eprintln!("queue {queue_max:?}, loss {loss}, seed {seed}: {outcome:?}");
    outcome
}

#[test]
fn a_slow_start_that_has_overrun_the_queue_is_reported_by_single_holes() {
    for seed in 1..5 {
        let outcome = transfer(ms(120), 5, 8 << 20, seed);
        assert!(outcome.reported > 0);
        assert!(outcome.by_fh < 10, "{} in 1000", outcome.by_fh);
    }
}

#[test]
fn a_queue_shorter_than_two_round_trips_is_not_overrun_for_long() {
    for seed in 1..5 {
        let outcome = transfer(ms(30), 5, 8 << 20, seed);
        assert!(outcome.reported > 0);
        assert!(outcome.by_gateway < 300, "{} in 1000", outcome.by_gateway);
    }
}

#[test]
fn no_radio_loss_is_reported_to_the_fh_while_its_window_makes_no_queue() {
    // A window of 120 kB, of 125 that the path holds.
    for (loss, seed) in [(10, 1), (30, 2), (100, 3)] {
        let outcome = transfer(ms(120), loss, 120_000, seed);
        assert_eq!((outcome.reported, outcome.by_fh), (0, 0), "{loss} in 1000");
        assert!(outcome.by_gateway >= loss * 8 / 10);
    }
}
