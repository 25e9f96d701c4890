// SPDX-License-Identifier: Apache-2.0
//! Two engines on the way of one flow: the gateway's, and that of a mobile's own daemon, at the MH
//! or beside the gateway on a host that moves itself.
//!
//! `HOLDFAST_SEED=n` replays one case with a trace, `HOLDFAST_CASES=n` changes how many are run.
//! `HOLDFAST_FORGERY=name` takes one kind of forgery alone.

use holdfast_wire::Instant;

use super::adversary::{CHANCE, kinds};
use super::dice::Dice;
use super::property::{Case, Variant, finish, numbers, world_of};
use super::world::forger::{Forger, Forgery};
use super::world::own_engine::Site;
use super::world::{Event, World};
use crate::link_state::LinkEvent;
use crate::{Scheme, SnoopSet};

/// Outages of the own engine's link, what is reported of it, and crashes and hangs.
fn plan(dice: &mut Dice, world: &mut World, site: Site, healed: Instant) {
    let start = world.now;
    let span = healed.saturating_since(start).as_millis() as u64;
    for _ in 0..dice.range(0, 4) {
        let at = start + dice.millis(0, span);
        let back = at + dice.millis(5, 3000);
        if site == Site::Gateway && back < healed {
            world.at(at, Event::Wired(false));
            world.at(back, Event::Wired(true));
        }
        for (when, event) in [(at, LinkEvent::Down), (back, LinkEvent::Up)] {
            let when = when + dice.millis(0, 300);
            if dice.chance(60) && when < healed {
                world.at(when, Event::OwnLink(event));
            }
        }
    }
    if dice.chance(30) {
        world.at(start + dice.millis(0, span), Event::OwnRestart);
    }
    if dice.chance(20) {
        let at = start + dice.millis(0, span);
        world.at(at, Event::OwnHang(true));
        world.at(at + dice.millis(0, 2000), Event::OwnHang(false));
    }
}

fn variant_of(seed: u64) -> Variant {
    let scheme = [Scheme::Auto, Scheme::Hold][(seed % 2) as usize];
    (scheme, SnoopSet::Today, false)
}

/// Both engines, and what happens to them until the path is healed.
fn two_engines(seed: u64, trace: bool) -> (World, Instant) {
    let site = [Site::Mobile, Site::Gateway][(seed / 2 % 2) as usize];
    let (mut world, healed) = world_of(variant_of(seed), seed);
    world.trace = trace;
    world.renew_own_engine(Some(site));
    world.mh.clock_is_estimated = true;
    plan(&mut Dice::of_seed(seed ^ 0xb07), &mut world, site, healed);
    (world, healed)
}

#[test]
fn two_engines_on_the_way_of_one_flow_deliver_every_byte() {
    let (seeds, is_one) = numbers(3000);
    let (mut resent, mut made, mut reported) = (0, 0, 0);
    for seed in seeds {
        let _case = Case(variant_of(seed), seed);
        let (mut world, healed) = two_engines(seed, is_one);
        world.begin();
        finish(&mut world, healed);
        resent += world.own_resent;
        made += world.own_made;
        reported += world.reported;
    }
    assert!(
        is_one || (resent > 0 && made > 0 && reported > 0),
        "{resent} {made} {reported}"
    );
}

/// Both engines serve the flow until it is done. Returns how many segments were forged.
fn attack(kind: Forgery, seed: u64, trace: bool) -> u64 {
    let _case = Case(variant_of(seed), seed);
    let (mut world, healed) = two_engines(seed, trace);
    world.is_attacked_by(Forger::new(kind, CHANCE, seed));
    world.begin();
    world.run_until(healed, true);
    let forged = world.forger.take().map_or(0, |forger| forger.sent);
    finish(&mut world, healed);
    forged
}

/// An engine that was away adopts the flow by a forged FIN. The FH refuses each copy, and each of its
/// answers is link up.
#[test]
fn a_forged_fin_that_has_opened_a_flow_is_not_sent_without_end() {
    assert!(attack(Forgery::FinWithAckOfUnsent, 246, false) > 0);
}

/// What a strict end refuses does no harm on its way through either engine.
#[test]
fn forgeries_change_nothing_for_two_engines() {
    for kind in kinds() {
        println!("{kind:?}");
        let (seeds, is_one) = numbers(100);
        let mut forged = 0;
        for seed in seeds {
            forged += attack(kind, seed, is_one);
        }
        assert!(is_one || forged > 0, "{kind:?}: nothing was forged");
    }
}
