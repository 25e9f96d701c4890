// SPDX-License-Identifier: Apache-2.0
//! An MH that moves between three base stations with faults: messages and copies are lost,
//! duplicated and reordered, stations die and restart, routes are moved late or never. Each end
//! receives what the other sent. At the end at most one station has the mobile.
//!
//!
//! `HOLDFAST_SEED=n` replays one case with a trace, `HOLDFAST_CASES=n` changes how many are
//! run.

use core::time::Duration;

use holdfast_wire::Instant;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::agenda::Agenda;
use super::bench::{LEN, bench, lines, not_adopted, passed, settings, suppressed};
use super::dice::Dice;
use super::host::Host;
use crate::MtcpSetUp::{Early, LockStep};
use crate::handoff::HandoffSettings;
use crate::testing::{FH, MH};
use crate::{
    FlowKey, MtcpHandoff, MtcpPersist, MtcpRelease, MtcpSetUp, MtcpSettings, MtcpShrink, Scheme,
    Settings, Side,
};

mod world;

use world::{Event, INPUTS_MAX, KEEPALIVE, LIVENESS, SETTLED, STATIONS, World};

/// Moves, warnings, crashes and routes; then the end of all trouble.
///
/// `may_crash`: false for connections that were set up early. Only the station that has the mobile
/// knows their numbers, and the next station does not request them from one that has restarted.
fn plan(dice: &mut Dice, world: &mut World, may_crash: bool) -> Instant {
    let start = world.now;
    let mut at = start;
    for _ in 0..dice.range(1, 7) {
        at += dice.millis(50, 3000);
        if dice.chance(50) {
            let lead = dice.millis(1, 300);
            world.at(at, Event::Warn);
            at += lead;
        }
        let cell = dice.range(0, STATIONS as u64) as usize;
        let silence = dice.millis(0, 120);
        world.at(at, Event::Move(cell, silence));
        if dice.chance(40) {
            let again = silence + dice.millis(0, 40);
            world.at(at + again, Event::Raise(cell));
        }
        if dice.chance(60) {
            let late = dice.millis(0, 2000);
            world.at(at + late, Event::Route(cell));
        }
    }
    let span = at.saturating_since(start).as_millis() as u64 + 500;
    if may_crash && dice.chance(50) {
        for _ in 0..dice.range(1, 3) {
            let station = dice.range(0, STATIONS as u64) as usize;
            let dies = start + dice.millis(0, span);
            world.at(dies, Event::Crash(station));
            let back = dies + dice.millis(0, 2000);
            world.at(back, Event::Restart(station));
        }
    }
    let healed = at + Duration::from_secs(4);
    world.at(healed, Event::Heal);
    world.at(start + KEEPALIVE, Event::Keepalive);
    world.at(start, Event::Read);
    healed
}

/// What the stations run.
#[derive(Clone, Copy, Debug)]
struct Variant(Scheme, MtcpHandoff, MtcpSetUp);

fn mtcp_settings(handoff: MtcpHandoff, dice: &mut Dice) -> MtcpSettings {
    MtcpSettings {
        persist: if dice.chance(50) {
            MtcpPersist::Published
        } else {
            MtcpPersist::RoundTrip
        },
        slow_start: dice.chance(50),
        shrink: dice.pick(&[MtcpShrink::Published, MtcpShrink::Late]),
        release: dice.pick(&[MtcpRelease::Wintimer, MtcpRelease::AtOnce]),
        handoff,
        ..MtcpSettings::default()
    }
}

fn world_of(Variant(scheme, handoff, set_up): Variant, seed: u64) -> (World, Instant) {
    let mut dice = Dice::of_seed(seed);
    let is_early = set_up == MtcpSetUp::Early;
    let options = (dice.chance(75) && !is_early, dice.chance(75));
    let (fh, mh) = (
        dice.large_end((FH, MH), options),
        dice.large_end((MH, FH), options),
    );
    let down = dice.range(1, 300_000);
    let up = if dice.chance(50) {
        dice.range(0, 60_000)
    } else {
        0
    };
    let (down, up) = (dice.bytes(down), dice.bytes(up));
    let bad = dice.chance(60);
    let mut world = World {
        now: Instant::from_millis(1000),
        fh: Host::new(fh.clone(), &mh, down),
        mh: Host::new(mh, &fh, up),
        stations: Vec::new(),
        settings: Settings {
            scheme,
            flows_max: 8,
            cache_bytes_max: 1 << 20,
            flow_cache_bytes_max: 1 << 20,
            mtcp: MtcpSettings {
                set_up,
                ..mtcp_settings(handoff, &mut Dice::of_seed(seed ^ 0x517))
            },
            ..Settings::default()
        },
        handoff_settings: HandoffSettings {
            always: dice.chance(30),
            mobile_buffer_bytes_max: if dice.chance(40) {
                dice.range(2_000, 20_000) as usize
            } else {
                dice.range(20_000, 400_000) as usize
            },
            ..HandoffSettings::default()
        },
        route: 0,
        cell: 0,
        epoch: 1,
        message_loss: if bad { dice.range(0, 300) } else { 0 },
        duplication: if bad { dice.range(0, 300) } else { 0 },
        message_jitter: dice.millis(0, 40),
        air_loss: if bad { dice.range(0, 80) } else { 0 },
        air_delay: dice.millis(1, 30),
        wired_delay: dice.millis(1, 60),
        rng: ChaCha8Rng::seed_from_u64(seed ^ 0x5eed),
        agenda: Agenda::of_inputs(INPUTS_MAX),
        trace: false,
        adopted: 0,
        shrunk: 0,
        by_copy: 0,
        no_room: 0,
        largest_state: 0,
    };
    for number in 0..STATIONS {
        let station = world.new_station(number);
        world.stations.push(station);
    }
    let healed = plan(&mut dice, &mut world, !is_early);
    (world, healed)
}

/// Prints the case if it fails.
struct Case(Variant, u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}: replay with HOLDFAST_SEED={}", self.0, self.1);
        }
    }
}

fn run(variant: Variant, seed: u64, trace: bool) -> World {
    let _case = Case(variant, seed);
    let (mut world, healed) = world_of(variant, seed);
    world.trace = trace;
    let by_fh = variant.2 == Early && seed.is_multiple_of(2);
    world.shake_hands(if by_fh { Side::Fh } else { Side::Mh });
    world.register(0, 1);
    if variant.2 == Early {
        let refused = world.stations[0].gateway.counters.early_refused;
        if refused > 0 {
            // The numbers were too near each other.
            return world;
        }
        (world.fh.other_numbering, world.mh.other_numbering) = (true, true);
    }
    for side in [Side::Fh, Side::Mh] {
        let (now, mut out) = (world.now, Vec::new());
        world.host(side).pump(now, &mut out);
        world.transmit(side, out);
    }
    world.run_until(healed + SETTLED, false);
    world.check_settled();
    world.run_until(healed + LIVENESS, true);
    let (fh, mh) = (&world.fh, &world.mh);
    assert_eq!(mh.received.len(), fh.sending.len(), "the MH lacks bytes");
    assert_eq!(fh.received.len(), mh.sending.len(), "the FH lacks bytes");
    world
}

fn run_all(variant: Variant) {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    if let Some(seed) = number("HOLDFAST_SEED") {
        run(variant, seed, true);
        return;
    }
    let first = number("HOLDFAST_FIRST").unwrap_or(0);
    let (mut adopted, mut shrunk, mut by_copy, mut no_room, mut largest) = (0, 0, 0, 0, 0);
    for seed in first..first + number("HOLDFAST_CASES").unwrap_or(500) {
        let world = run(variant, seed, false);
        adopted += world.adopted;
        shrunk += world.shrunk;
        by_copy += world.by_copy;
        no_room += world.no_room;
        largest = largest.max(world.largest_state);
    }
    println!(
        "{adopted} states taken over, {shrunk} with the window closed, {by_copy} packets by copies, {no_room} with no room, \
         largest record {largest}"
    );
    assert!(adopted > 0 && by_copy > 0);
    let closes = variant.0 == Scheme::Mtcp && variant.1 == MtcpHandoff::Published;
    assert!(shrunk > 0 || !closes);
}

#[test]
fn an_mh_moves_about_with_hold_and_every_byte_arrives() {
    run_all(Variant(Scheme::Hold, MtcpHandoff::Published, LockStep));
}

#[test]
fn an_mh_moves_about_with_auto_and_every_byte_arrives() {
    run_all(Variant(Scheme::Auto, MtcpHandoff::Published, LockStep));
}

#[test]
fn an_mh_moves_about_with_snoop_and_every_byte_arrives() {
    run_all(Variant(Scheme::Snoop, MtcpHandoff::Published, LockStep));
}

#[test]
fn an_mh_moves_about_with_mtcp_that_discards_its_buffers_and_every_byte_arrives() {
    run_all(Variant(Scheme::Mtcp, MtcpHandoff::Published, LockStep));
}

#[test]
fn an_mh_moves_about_with_mtcp_that_forwards_its_buffers_and_every_byte_arrives() {
    run_all(Variant(Scheme::Mtcp, MtcpHandoff::Forward, LockStep));
}

#[test]
fn an_mh_moves_about_with_connections_that_were_set_up_early_and_every_byte_arrives() {
    for handoff in [MtcpHandoff::Published, MtcpHandoff::Forward] {
        run_all(Variant(Scheme::Mtcp, handoff, Early));
    }
}

#[test]
fn a_flow_that_another_station_knew_is_adopted_and_counted_once() {
    let mut west = bench(Scheme::Hold);
    west.forward(1, 3);
    let mut actions = Vec::new();
    let states = west.gateway.export(&[MH.address], west.now, &mut actions);
    let mut east = not_adopted(settings(Scheme::Hold));
    for is_new in [true, false] {
        let (state, now) = (&states[0], east.now);
        let is_adopted = east.gateway.adopt(state, None, now, &mut actions);
        assert_eq!(is_adopted, is_new);
        assert_eq!(east.counter("flows_adopted"), 1);
    }
}

/// The state came late: both ends are ahead of it here.
#[test]
fn an_older_state_from_another_station_does_not_replace_what_is_known_here() {
    let [mut west, mut east] = [(); 2].map(|()| bench(Scheme::Hold));
    west.forward(1, 1);
    let mut actions = Vec::new();
    let states = west.gateway.export(&[MH.address], west.now, &mut actions);
    east.forward(1, 3);
    assert_eq!(east.up(2001), passed());
    let now = east.now;
    assert!(!east.gateway.adopt(&states[0], None, now, &mut actions));
    // Nothing is retransmitted, and new data pass.
    east.forward(3001, 1);
    assert_eq!(east.wait(20), [""; 0]);
    assert_eq!(east.up(4001), passed());
    assert_eq!(east.cached(), 0);
}

#[test]
fn a_flow_that_goes_on_ends_a_silence_of_its_mobile_and_is_no_recovery_otherwise() {
    for is_silent in [false, true] {
        let mut bench = bench(Scheme::Hold);
        bench.forward(1, 1);
        if is_silent {
            bench.wait(3_000);
        } else {
            bench.up(1001);
        }
        let flows = [FlowKey { fh: FH, mh: MH }];
        bench.gateway.queue_segments(&flows);
        assert_eq!(bench.down(1001, LEN), suppressed(&[]));
        let mut actions = Vec::new();
        bench
            .gateway
            .resume_sending(&flows, bench.now, &mut actions);
        let sent = lines(actions);
        assert!(sent[0].starts_with("DATA"), "{is_silent}: {sent:?}");
        assert_eq!(bench.counter("recoveries"), u64::from(is_silent));
    }
}

#[test]
fn what_was_queued_for_a_handoff_goes_out_at_the_pace_without_any_answer() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 1);
    bench.wait(3_000);
    let flows = [FlowKey { fh: FH, mh: MH }];
    bench.gateway.queue_segments(&flows);
    for number in 1..8 {
        assert_eq!(bench.down(1 + number * LEN, LEN), suppressed(&[]));
    }
    let mut actions = Vec::new();
    bench
        .gateway
        .resume_sending(&flows, bench.now, &mut actions);
    let sent = lines(actions).len() + bench.wait(100).len();
    assert_eq!(sent, 8);
}
