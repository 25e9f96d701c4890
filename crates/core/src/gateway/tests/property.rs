// SPDX-License-Identifier: Apache-2.0
//! One flow through anything that can happen, thousands of times: what an end gets is
//! what the other sent, and no ACK runs ahead of the rules of its scheme.
//!
//! `HOLDFAST_SEED=n` replays one case with a trace, `HOLDFAST_CASES=n` changes how many
//! are run.

use core::time::Duration;

use holdfast_wire::Instant;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::compression::{self, Daemon};
use super::dice::Dice;
use super::host::{Host, HostProfile};
use super::world::{Event, Half, World};
use crate::compression::{CompressionSettings, Method};
use crate::link_state::{LinkEvent, LinkSource};
use crate::testing::{FH, MH};
use crate::{
    BandwidthSettings, MtcpPersist, MtcpRelease, MtcpSettings, MtcpShrink, Scheme, Settings, Side,
    SnoopSet, SnoopSettings,
};

/// After the last trouble everything has to be done within this virtual time: some of
/// the ends' longest timeouts (10 s), and the slowest reader.
pub(super) const LIVENESS: Duration = Duration::from_secs(240);

impl Dice {
    fn half(&mut self) -> Half {
        let bad = self.chance(60);
        let rate = if self.chance(50) {
            self.range(50_000, 4_000_000)
        } else {
            0
        };
        Half {
            delay: self.millis(1, 60),
            jitter: if bad && self.chance(50) {
                self.millis(1, 40)
            } else {
                Duration::ZERO
            },
            loss: if bad { self.range(0, 100) } else { 0 },
            duplication: if bad && self.chance(50) {
                self.range(0, 100)
            } else {
                0
            },
            rate,
            queue_max: self.millis(20, 300),
        }
    }
}

fn ends(dice: &mut Dice) -> (HostProfile, HostProfile) {
    let (timestamps, sack) = (dice.chance(75), dice.chance(75));
    let mss = dice.range(300, 1460) as usize;
    let mut end = |me, peer, closes_last| {
        let window_scale = dice.range(0, 8) as u8;
        HostProfile {
            me,
            peer,
            iss: dice.number(),
            mss,
            gso: dice.range(1, 5) as usize,
            buffer: (dice.range(2 * mss as u64, 64_000) as usize >> window_scale) << window_scale,
            window_scale,
            timestamps,
            clock_start: dice.number(),
            sack,
            ack_every: dice.range(1, 5) as u32,
            ack_delay: dice.millis(20, 200),
            probe_has_byte: dice.chance(50),
            closes_last,
        }
    };
    let fh = end(FH, MH, false);
    let mh = end(MH, FH, false);
    let last = dice.range(0, 3);
    (
        HostProfile {
            closes_last: last == 1,
            ..fh
        },
        HostProfile {
            closes_last: last == 2,
            ..mh
        },
    )
}

/// Outages, link signals, restarts, hangs; then the end of all faults.
fn plan(dice: &mut Dice, world: &mut World) -> Instant {
    let start = world.now;
    let (troubles, mut at) = (dice.range(0, 5), start);
    for _ in 0..troubles {
        at += dice.millis(10, 1500);
        let back = at + dice.millis(5, 4000);
        world.at(at, Event::Link(false));
        world.at(back, Event::Link(true));
        let source = dice.pick(&[LinkSource::Signal, LinkSource::Carrier, LinkSource::Command]);
        for (when, event) in [(at, LinkEvent::Down), (back, LinkEvent::Up)] {
            let late = if dice.chance(50) {
                dice.millis(0, 700)
            } else {
                Duration::ZERO
            };
            if source == LinkSource::Carrier || dice.chance(60) {
                world.at(when + late, Event::Signal(event, source));
            }
        }
        at = back;
    }
    let end = at + dice.millis(100, 3000);
    let span = end.saturating_since(start).as_millis() as u64;
    for _ in 0..dice.range(0, 4) {
        let event = dice.pick(&[
            LinkEvent::Up,
            LinkEvent::Down,
            LinkEvent::GoingDownSoon(None),
        ]);
        let source = dice.pick(&[LinkSource::Signal, LinkSource::Command]);
        world.at(start + dice.millis(0, span), Event::Signal(event, source));
    }
    if dice.chance(30) {
        for _ in 0..dice.range(1, 3) {
            let at = start + dice.millis(0, span);
            if dice.chance(50) {
                world.at(at, Event::Bypass(true));
                world.at(at + dice.millis(0, 300), Event::Bypass(false));
            }
            world.at(at, Event::Restart);
        }
    }
    if dice.chance(20) {
        let at = start + dice.millis(0, span);
        world.at(at, Event::Bypass(true));
        world.at(at + dice.millis(0, 1000), Event::Bypass(false));
    }
    let end = end + Duration::from_secs(1);
    world.at(end, Event::Heal);
    for side in [Side::Fh, Side::Mh] {
        let (slow, step) = (dice.chance(30), dice.millis(20, 900));
        let mut at = start;
        let bytes = dice.range(2000, 20_000) as usize;
        for _ in 0..400 {
            at += if slow {
                step
            } else {
                Duration::from_millis(20)
            };
            let everything = !slow || at > end;
            world.at(
                at,
                Event::Read(side, if everything { usize::MAX } else { bytes }),
            );
            if at > end + LIVENESS {
                break;
            }
        }
        while at < end + LIVENESS {
            at += Duration::from_millis(500);
            world.at(at, Event::Read(side, usize::MAX));
        }
    }
    end
}

/// The MH's daemon registers, may die and may start again.
fn plan_daemon(dice: &mut Dice, world: &mut World, end: Instant) {
    let start = world.now;
    let span = end.saturating_since(start).as_millis() as u64;
    for _ in 0..dice.range(0, 3) {
        let at = start + dice.millis(0, span);
        world.at(at, Event::Daemon(false));
        if dice.chance(60) {
            let back = at + dice.millis(0, 3000);
            world.at(back, Event::Daemon(true));
            world.at(back + dice.millis(0, 300), Event::Register);
        }
    }
    let (mut at, step) = (start, dice.millis(50, 2000));
    while at < end {
        world.at(at, Event::Register);
        at += step;
    }
}

fn mtcp_settings(dice: &mut Dice) -> MtcpSettings {
    MtcpSettings {
        persist: dice.pick(&[MtcpPersist::Published, MtcpPersist::RoundTrip]),
        release: dice.pick(&[MtcpRelease::Wintimer, MtcpRelease::AtOnce]),
        shrink: dice.pick(&[MtcpShrink::Published, MtcpShrink::Late]),
        initial_window_segments: dice.pick(&[1, 1, 10]),
        slow_start: dice.chance(50),
        rto_variation_min: dice.millis(1, 300),
        window_bytes: dice.pick(&[0, 0, 3_000, 20_000]),
        ..MtcpSettings::default()
    }
}

/// A scheme, for Snoop the set of its parameters, and whether payload is compressed.
pub(super) type Variant = (Scheme, SnoopSet, bool);

/// Prints the case if it fails.
pub(super) struct Case(pub Variant, pub u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}: replay with HOLDFAST_SEED={}", self.0, self.1);
        }
    }
}

pub(super) fn world_of(variant: Variant, seed: u64) -> (World, Instant) {
    world_with(variant, seed, Duration::from_secs(60))
}

/// The schemes that serve uploads have long ones more often.
fn upload_len(dice: &mut Dice, scheme: Scheme, most: u64) -> u64 {
    match scheme {
        Scheme::Hold | Scheme::Snoop | Scheme::Auto | Scheme::Mtcp if dice.chance(80) => {
            dice.range(0, most)
        }
        _ if dice.chance(50) => dice.range(0, 8_000),
        _ => 0,
    }
}

/// The same with a gateway that forgets an idle flow after this time.
pub(super) fn world_with(
    (scheme, set, compressed): Variant,
    seed: u64,
    flow_idle_max: Duration,
) -> (World, Instant) {
    let mut dice = Dice::of_seed(seed);
    let (fh, mh) = ends(&mut dice);
    let most = dice.pick(&[2_000, 40_000, 150_000]);
    let down = dice.range(1, most);
    let up = upload_len(&mut dice, scheme, most);
    let (mut down, up) = (dice.bytes(down), dice.bytes(up));
    let mut daemon = Daemon::default();
    let mut compression = None;
    if compressed {
        let (method, level) = (dice.pick(&[Method::Deflate, Method::Zstd]), 3);
        compression = Some(CompressionSettings { method, level });
        let damage = dice.pick(&[0, 0, 30]);
        daemon = Daemon::new(method, damage);
        compression::make_compressible(&mut down, dice.range(0, 4));
    }
    let tight = dice.chance(30);
    let limit = |dice: &mut Dice, from, to, roomy| {
        if tight {
            dice.range(from, to) as usize
        } else {
            roomy
        }
    };
    let settings = Settings {
        scheme,
        flows_max: 8,
        cache_bytes_max: limit(&mut dice, 1_000, 20_000, 1 << 20),
        flow_cache_bytes_max: limit(&mut dice, 1_000, 20_000, 1 << 20),
        flow_cache_entries_max: limit(&mut dice, 1, 20, 1000),
        flow_idle_max,
        snoop: match set {
            SnoopSet::Paper1995 => SnoopSettings::paper_1995(),
            // By the seed, so that nothing else is drawn otherwise.
            SnoopSet::Today => SnoopSettings {
                congested_rtts: [0.0, 0.2, 2.0][(seed % 3) as usize],
                ..SnoopSettings::today()
            },
        },
        mtcp: if scheme == Scheme::Mtcp {
            mtcp_settings(&mut dice)
        } else {
            MtcpSettings::default()
        },
        compression,
        bandwidth: match seed % 6 {
            0 => BandwidthSettings::one_cell(Some(20_000)),
            1 => BandwidthSettings::one_cell(Some(1_000_000)),
            2 => BandwidthSettings::one_cell(None),
            _ => BandwidthSettings::default(),
        },
        ..Settings::default()
    };
    let rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let mut host_fh = Host::new(fh.clone(), &mh, down);
    host_fh.sets_back = scheme == Scheme::Mtcp && dice.chance(30);
    let host_mh = Host::new(mh, &fh, up);
    let mut world = World::new(host_fh, host_mh, settings, rng);
    world.daemon = daemon;
    (world.wired, world.wireless) = (dice.half(), dice.half());
    world.wired.rate = 0;
    world.queues_in_outage = dice.chance(30);
    world.splits = dice.pick(&[0, 500, 1000]);
    world.uncacheable = if dice.chance(10) {
        dice.range(0, 300)
    } else {
        0
    };
    if dice.chance(90) {
        // By the seed, so that nothing else is drawn otherwise.
        let opens_at_fh = matches!(seed % 7, 2 | 4 | 6);
        world.shake_hands(if opens_at_fh { Side::Fh } else { Side::Mh });
    }
    let healed = plan(&mut dice, &mut world);
    if compressed {
        plan_daemon(&mut dice, &mut world, healed);
    }
    // Between a window that was closed and one that is opened only the SH knows that an FH has
    // set `snd_max` back: without it the ends do not come together again (docs/schemes/mtcp.md,
    // limits).
    world.fh.sets_back &= !world.interrupted;
    (world, healed)
}

fn run(variant: Variant, seed: u64, trace: bool) -> World {
    let _case = Case(variant, seed);
    let (mut world, healed) = world_of(variant, seed);
    world.trace = trace;
    world.begin();
    finish(&mut world, healed);
    world
}

/// All goes on to its end: every byte is where it belongs, or both ends are reset; and nothing
/// stays in the tables. Returns when the ends were done.
pub(super) fn finish(world: &mut World, healed: Instant) -> Instant {
    world.run_until(healed + LIVENESS, true);
    let done_at = world.now;
    if world.trace {
        eprintln!("{}", world.describe());
    }
    if world.fh.reset || world.mh.reset {
        // An end without data to send misses a lost RST. It receives another one from the other
        // end at its next keep-alive.
        world.keep_alive();
        world.run_until(healed + LIVENESS * 2, true);
        assert!(world.fh.reset && world.mh.reset, "one end alone was reset");
        return done_at;
    }
    assert_eq!(
        world.mh.received.len(),
        world.fh.sending.len(),
        "the MH lacks bytes"
    );
    assert_eq!(
        world.fh.received.len(),
        world.mh.sending.len(),
        "the FH lacks bytes"
    );
    assert!(world.fh.is_done() && world.mh.is_done(), "not closed");
    let end = world.now.max(healed) + Duration::from_secs(100);
    world.run_until(end, false);
    assert_eq!(world.gateway.stats().flows, 0, "a flow is left");
    assert_eq!(world.gateway.budget.bytes(), 0);
    assert_eq!(world.gateway.mobiles().count(), 0, "a mobile is left");
    done_at
}

/// What was done in all cases.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// Segments that the MH has restored, and that it could not.
    restored: u64,
    dropped: u64,
    made: u64,
    resent: u64,
    /// Of the MH's data.
    reported: u64,
    resent_uplink: u64,
}

/// All cases, from seed `HOLDFAST_FIRST` on, `HOLDFAST_CASES` of them. None:
/// `HOLDFAST_SEED` was replayed, with a trace.
fn run_all(variant: Variant) -> Option<Done> {
    let (seeds, is_one) = numbers(5000);
    let mut done = Done::default();
    for seed in seeds {
        let world = run(variant, seed, is_one);
        let counters = world.daemon.counters();
        done.restored += counters.restored;
        done.dropped += counters.bad_header + counters.bad_bytes + counters.unknown_dictionary;
        done.made += world.made;
        done.resent += world.resent;
        done.reported += world.reported;
        done.resent_uplink += world.resent_uplink;
    }
    (!is_one).then_some(done)
}

/// The seeds of the cases; true: `HOLDFAST_SEED` alone.
pub(super) fn numbers(cases: u64) -> (core::ops::Range<u64>, bool) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
    };
    if let Some(seed) = number("HOLDFAST_SEED") {
        return (seed..seed + 1, true);
    }
    let first = number("HOLDFAST_FIRST").unwrap_or(0);
    let cases = number("HOLDFAST_CASES").unwrap_or(cases);
    (first..first + cases, false)
}

#[test]
fn hold_delivers_every_byte_and_makes_no_ack() {
    if let Some(done) = run_all((Scheme::Hold, SnoopSet::Today, false)) {
        assert!(done.made == 0 && done.resent > 0, "{done:?}");
    }
}

#[test]
fn mtcp_plus_delivers_every_byte_or_resets_both_ends() {
    if let Some(done) = run_all((Scheme::MtcpPlus, SnoopSet::Today, false)) {
        assert!(done.made > 0 && done.resent > 0, "{done:?}");
    }
}

#[test]
fn the_m_tcp_of_2007_delivers_every_byte_and_acknowledges_none_ahead() {
    if let Some(done) = run_all((Scheme::Mtcp2007, SnoopSet::Today, false)) {
        assert!(done.made > 0 && done.resent > 0, "{done:?}");
    }
}

#[test]
fn m_tcp_delivers_every_byte_and_acknowledges_none_ahead() {
    if let Some(done) = run_all((Scheme::Mtcp, SnoopSet::Today, false)) {
        assert!(done.made > 0 && done.resent > 0, "{done:?}");
    }
}

#[test]
fn compressed_m_tcp_delivers_every_byte_whatever_becomes_of_segments_and_daemons() {
    if let Some(done) = run_all((Scheme::Mtcp, SnoopSet::Today, true)) {
        assert!(done.restored > 0 && done.dropped > 0, "{done:?}");
    }
}

#[test]
fn snoop_of_1995_delivers_every_byte() {
    if let Some(done) = run_all((Scheme::Snoop, SnoopSet::Paper1995, false)) {
        assert!(done.made > 0 && done.resent > 0, "{done:?}");
        assert!(done.reported > 0 && done.resent_uplink > 0, "{done:?}");
    }
}

#[test]
fn snoop_of_today_delivers_every_byte_and_acknowledges_none_ahead() {
    if let Some(done) = run_all((Scheme::Snoop, SnoopSet::Today, false)) {
        assert!(done.made > 0 && done.resent > 0, "{done:?}");
        // No report, and so nothing of the MH's to make good; but ACKs that have it undo.
        assert!(done.reported > 0 && done.resent_uplink == 0, "{done:?}");
    }
}

#[test]
fn auto_delivers_every_byte_and_acknowledges_none_ahead() {
    if let Some(done) = run_all((Scheme::Auto, SnoopSet::Today, false)) {
        assert!(done.resent > 0, "{done:?}");
        assert!(done.resent_uplink == 0, "{done:?}");
    }
}
