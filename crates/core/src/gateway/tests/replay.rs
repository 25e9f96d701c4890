// SPDX-License-Identifier: Apache-2.0
//! Two engines get the same packets, and have to be in the same state. One is in line, the other is
//! fed a recording of packets that passed without a gateway. Or one has its idle flows in full, the
//! other packs them at once.
//!
//! `HOLDFAST_SEED=n` runs one case, `HOLDFAST_CASES=n` changes how many are run.

use holdfast_wire::Instant;

use super::dice::Dice;
use super::property::{Case, LIVENESS, Variant, finish, numbers, world_of};
use super::world::{Input, Tapped, World};
use crate::gateway::flows::Row;
use crate::testing::{MH, Packet};
use crate::{Action, Direction, Gateway, Scheme, SnoopSet, Verdict};

/// The cases of a variant, each with its seed. `run`: whether the case counts.
fn run_all(variant: Variant, run: impl Fn(Variant, u64) -> bool) {
    let (seeds, is_one) = numbers(1_000);
    let cases = seeds.end - seeds.start;
    let mut counted = 0;
    for seed in seeds {
        let _case = Case(variant, seed);
        counted += u64::from(run(variant, seed));
    }
    let enough = counted * 100 > cases;
    assert!(is_one || enough, "{variant:?}: {counted} of {cases} cases");
}

/// What the engine does for an input, as text.
fn carry_out(gateway: &mut Gateway<Packet>, input: &Input, now: Instant) -> String {
    let mut actions = Vec::new();
    let verdict = match input {
        Input::Segment(direction, packet) => {
            let segment = &packet.segment;
            gateway.handle_segment(*direction, segment, packet, now, &mut actions)
        }
        Input::Timeout => {
            gateway.handle_timeout(now, &mut actions);
            Verdict::Forward
        }
        Input::Link(event, source) if *source == crate::LinkSource::Carrier => {
            gateway.handle_all_links(*event, *source, now, &mut actions);
            Verdict::Forward
        }
        Input::Link(event, source) => {
            gateway.handle_link(&[MH.address], *event, *source, now, &mut actions);
            Verdict::Forward
        }
    };
    format!("{verdict:?} {actions:?}")
}

/// All that can be seen of an engine.
fn state(gateway: &Gateway<Packet>) -> String {
    let counters: Vec<_> = gateway.counters().filter(|counter| counter.1 > 0).collect();
    let flows: Vec<_> = gateway.flows().collect();
    let mobiles: Vec<_> = gateway.mobiles().collect();
    let stats = gateway.stats();
    format!("{counters:?} {flows:?} {mobiles:?} {stats:?}")
}

/// A case to its end, with all inputs and outputs of its engine. None: it has no use.
fn tapped(variant: Variant, seed: u64) -> Option<(World, Vec<Tapped>)> {
    let (mut world, healed) = world_of(variant, seed);
    if world.interrupted {
        return None;
    }
    world.tap = Some(Vec::new());
    world.begin();
    world.run_until(healed + LIVENESS, true);
    let tap = world.tap.take()?;
    Some((world, tap))
}

/// An engine that has seen what the one of the case has seen when the case begins.
fn twin(variant: Variant, seed: u64) -> Gateway<Packet> {
    world_of(variant, seed).0.gateway
}

/// Idle flows that are packed after each input are served as if they were not.
fn packs_without_a_trace(variant: Variant, seed: u64) -> bool {
    let Some((world, tap)) = tapped(variant, seed) else {
        return false;
    };
    let mut packing = twin(variant, seed);
    let mut packed = 0;
    for Tapped { at, input, output } in &tap {
        packing.flows.shrink_all();
        packed += packing
            .flows
            .rows()
            .filter(|row| matches!(row, Row::Idle(_)))
            .count();
        assert_eq!(carry_out(&mut packing, input, *at), *output, "at {at:?}");
    }
    assert_eq!(state(&packing), state(&world.gateway));
    packed > 0
}

#[test]
fn a_packed_flow_is_served_as_one_in_full() {
    for scheme in [
        Scheme::Hold,
        Scheme::Observe,
        Scheme::MtcpPlus,
        Scheme::Mtcp2007,
    ] {
        run_all((scheme, SnoopSet::Today, false), packs_without_a_trace);
    }
}

/// What Snoop and M-TCP have measured of an idle flow is dropped; no byte is.
#[test]
fn a_flow_that_is_packed_whenever_it_is_idle_loses_no_byte() {
    for (scheme, set, compressed) in [
        (Scheme::Snoop, SnoopSet::Paper1995, false),
        (Scheme::Snoop, SnoopSet::Today, false),
        (Scheme::Mtcp, SnoopSet::Today, false),
        (Scheme::Mtcp, SnoopSet::Today, true),
    ] {
        run_all((scheme, set, compressed), |variant, seed| {
            let (mut world, healed) = world_of(variant, seed);
            world.packs = true;
            world.begin();
            finish(&mut world, healed);
            world.packed > 0
        });
    }
}

/// Timers that are due before `now` expire, and nothing comes of them.
fn expire_before(gateway: &mut Gateway<Packet>, now: Instant) {
    while let Some(at) = gateway.poll_timeout().filter(|at| *at < now) {
        gateway.handle_timeout(at, &mut Vec::new());
    }
}

/// The packets that pass while no gateway is there, up to `until`.
fn recording(variant: Variant, seed: u64, until: Instant) -> Vec<(Instant, Direction, Packet)> {
    let (mut world, _) = world_of(variant, seed);
    world.tap = Some(Vec::new());
    world.bypass = true;
    world.begin();
    world.run_until(until, false);
    let tap = world.tap.take().unwrap_or_default();
    let packets = tap.into_iter().filter_map(|tapped| match tapped.input {
        Input::Segment(direction, packet) => Some((tapped.at, direction, packet)),
        Input::Timeout | Input::Link(..) => None,
    });
    packets.filter(|(at, ..)| *at < until).collect()
}

/// An engine in line has changed nothing by this.
fn is_transparent(tapped: &Tapped) -> bool {
    let Tapped { input, output, .. } = tapped;
    let nothing: Vec<Action<Packet>> = Vec::new();
    !matches!(input, Input::Link(..)) && *output == format!("{:?} {nothing:?}", Verdict::Forward)
}

/// Until something is changed packets pass without a gateway and are recorded. An engine that is
/// fed the recording in batches then goes on as one that was in line.
fn replays(variant: Variant, seed: u64) -> bool {
    let Some((_, tap)) = tapped(variant, seed) else {
        return false;
    };
    let Some(first) = tap.iter().position(|tapped| !is_transparent(tapped)) else {
        return false;
    };
    let begin = tap[first].at;
    let mut in_line = twin(variant, seed);
    let before = tap.iter().take_while(|tapped| tapped.at < begin);
    for Tapped { at, input, .. } in before.clone() {
        carry_out(&mut in_line, input, *at);
    }
    expire_before(&mut in_line, begin);

    let mut fed = twin(variant, seed);
    let recording = recording(variant, seed, begin);
    let packets = before.filter(|tapped| matches!(tapped.input, Input::Segment(..)));
    assert_eq!(recording.len(), packets.count(), "the gateway was seen");
    let mut dice = Dice::of_seed(seed);
    let mut rest = &recording[..];
    while !rest.is_empty() {
        let len = dice.range(1, 64).min(rest.len() as u64) as usize;
        let (batch, later) = rest.split_at(len);
        for (at, direction, packet) in batch {
            expire_before(&mut fed, *at);
            let segment = &packet.segment;
            let _ = fed.handle_segment(*direction, segment, packet, *at, &mut Vec::new());
        }
        rest = later;
    }
    expire_before(&mut fed, begin);
    assert_eq!(state(&fed), state(&in_line));

    let mut acted = false;
    for Tapped { at, input, output } in tap.iter().skip_while(|tapped| tapped.at < begin) {
        acted |= output.contains("Resend");
        assert_eq!(carry_out(&mut fed, input, *at), *output, "at {at:?}");
    }
    recording.len() >= 10 && acted
}

#[test]
fn an_engine_that_was_fed_a_recording_goes_on_as_one_in_line() {
    for variant in [
        (Scheme::Hold, SnoopSet::Today, false),
        (Scheme::Auto, SnoopSet::Today, false),
        (Scheme::MtcpPlus, SnoopSet::Today, false),
        (Scheme::Snoop, SnoopSet::Paper1995, false),
        (Scheme::Snoop, SnoopSet::Today, false),
    ] {
        run_all(variant, replays);
    }
}
