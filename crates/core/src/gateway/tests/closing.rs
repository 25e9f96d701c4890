// SPDX-License-Identifier: Apache-2.0
//! However a connection ends, the gateway forgets it in time: nothing stays in its tables, nothing
//! in its caches, and no timer runs.
//!
//! `HOLDFAST_CASES=n` changes the number of cases for each ending, `HOLDFAST_FIRST=n` the first
//! seed. `HOLDFAST_ENDING=name` takes one ending alone, and with `HOLDFAST_SEED=n` replays one of
//! its cases with a trace. A failed test lists each ending that failed and its seeds.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::bench::{Bench, LEN, bench, not_adopted, settings};
use super::dice::Dice;
use super::host::{Host, HostProfile};
use super::property::{LIVENESS, Variant, world_with};
use super::world::{Event, World};
use crate::testing::MH;
use crate::{LinkState, Scheme, Settings, Side, SnoopSet};

/// The time after which a flow is forgotten that both FINs or a RST have ended: `CLOSED_WAIT`, and
/// a few steps of the sweep. A full table takes 16 steps.
const CLOSED_FORGOTTEN: Duration = Duration::from_secs(60 + 5);

/// The same of a flow whose data are cached, and that neither end asks for (`GIVEN_UP_WAIT`).
const GIVEN_UP_FORGOTTEN: Duration = Duration::from_secs(300 + 5);

/// After this time a flow is forgotten that ended without a word: the default of the gateway's
/// settings (RFC 5382, REQ-5).
const IDLE_MAX: Duration = Duration::from_secs(2 * 3600 + 4 * 60);
const IDLE_FORGOTTEN: Duration = Duration::from_secs(2 * 3600 + 4 * 60 + 5);

/// The longest timer of a flow. A timer of a forgotten flow may still fire once.
const TIMER_MAX: Duration = Duration::from_secs(130);

/// Cases for each ending and each scheme.
const CASES: u64 = 100;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The FH sends its FIN first: the last ACK goes downlink.
    FinOfFhFirst,
    FinOfMhFirst,
    /// Both FINs are on their way at the same time.
    BothFinsAtOnce,
    /// The FIN of one end comes early, and the other goes on sending.
    HalfClosedByFh,
    HalfClosedByMh,
    /// Three segments of ten are lost while the ends close, in both halves.
    LossWhileClosing,
    /// FINs come again, of either end, in TIME-WAIT.
    FinsAgain,
    /// The ports are used again, with other numbers, soon after the connection was closed.
    PortsUsedAgain,
    /// An end aborts at some time: before, in, and after outages.
    ResetByFh,
    ResetByMh,
    /// An end aborts while the link does not carry.
    ResetByFhInOutage,
    ResetByMhInOutage,
    /// An end aborts just after an outage.
    ResetByFhInRecovery,
    ResetByMhInRecovery,
    /// An end is switched off; the other gives up after a while, with a RST.
    FhVanishesAndMhResets,
    MhVanishesAndFhResets,
    /// The same, but the other end gives up without a word.
    FhVanishes,
    MhVanishes,
}

impl Ending {
    const ALL: [Self; 18] = [
        Self::FinOfFhFirst,
        Self::FinOfMhFirst,
        Self::BothFinsAtOnce,
        Self::HalfClosedByFh,
        Self::HalfClosedByMh,
        Self::LossWhileClosing,
        Self::FinsAgain,
        Self::PortsUsedAgain,
        Self::ResetByFh,
        Self::ResetByMh,
        Self::ResetByFhInOutage,
        Self::ResetByMhInOutage,
        Self::ResetByFhInRecovery,
        Self::ResetByMhInRecovery,
        Self::FhVanishesAndMhResets,
        Self::MhVanishesAndFhResets,
        Self::FhVanishes,
        Self::MhVanishes,
    ];

    /// True if neither end resets the connection or vanishes.
    fn is_orderly(self) -> bool {
        matches!(
            self,
            Self::FinOfFhFirst
                | Self::FinOfMhFirst
                | Self::BothFinsAtOnce
                | Self::HalfClosedByFh
                | Self::HalfClosedByMh
                | Self::LossWhileClosing
                | Self::FinsAgain
                | Self::PortsUsedAgain
        )
    }

    /// The gateway forgets the flow within this time after the last segment. An end that vanished
    /// answers nothing, so a RST counts only with the number that the gateway expects.
    fn forgotten_within(self, world: &World) -> Duration {
        match self {
            Self::FhVanishes | Self::MhVanishes => IDLE_FORGOTTEN,
            Self::FhVanishesAndMhResets if !world.saw_all_of(Side::Mh) => IDLE_FORGOTTEN,
            // An FH that has set SND.NXT back resets with a number of its own.
            Self::MhVanishesAndFhResets if world.fh.sets_back => IDLE_FORGOTTEN,
            Self::MhVanishesAndFhResets if !world.saw_all_of(Side::Fh) => IDLE_FORGOTTEN,
            // Its RST may wait for data that never arrive.
            Self::MhVanishesAndFhResets => GIVEN_UP_FORGOTTEN,
            _ => CLOSED_FORGOTTEN,
        }
    }
}

/// A world with trouble, in which the connection will end in this way. None: in the world of this
/// seed the gateway does not see all of the connection, so that it cannot know what has ended.
fn world_that_ends(variant: Variant, ending: Ending, seed: u64) -> Option<(World, Instant)> {
    let (mut world, healed) = world_with(variant, seed, IDLE_MAX);
    if world.interrupted || world.watch.opener.is_none() {
        return None;
    }
    let mut dice = Dice::of_seed(seed ^ 0xc105e);
    let start = world.now;
    let span = healed.saturating_since(start).as_millis() as u64;
    let some_time = start + dice.millis(0, span);
    let gives_up = healed + dice.millis(1_000, 100_000);
    let (fh_last, mh_last) = match ending {
        Ending::FinOfFhFirst => (false, true),
        Ending::FinOfMhFirst => (true, false),
        _ => (world.fh.profile.closes_last, world.mh.profile.closes_last),
    };
    (world.fh.profile.closes_last, world.mh.profile.closes_last) = (fh_last, mh_last);
    match ending {
        Ending::BothFinsAtOnce => shorten(&mut world, 200, 200),
        Ending::HalfClosedByFh => shorten(&mut world, 200, usize::MAX),
        Ending::HalfClosedByMh => shorten(&mut world, usize::MAX, 200),
        Ending::LossWhileClosing => (world.wired.loss, world.wireless.loss) = (300, 300),
        Ending::ResetByFh => world.at(some_time, Event::Abort(Side::Fh)),
        Ending::ResetByMh => world.at(some_time, Event::Abort(Side::Mh)),
        Ending::ResetByFhInOutage => abort_in_outage(&mut world, &mut dice, Side::Fh),
        Ending::ResetByMhInOutage => abort_in_outage(&mut world, &mut dice, Side::Mh),
        Ending::ResetByFhInRecovery => abort_in_recovery(&mut world, &mut dice, Side::Fh),
        Ending::ResetByMhInRecovery => abort_in_recovery(&mut world, &mut dice, Side::Mh),
        Ending::FhVanishesAndMhResets => {
            world.at(some_time, Event::Vanish(Side::Fh));
            world.at(gives_up, Event::Abort(Side::Mh));
        }
        Ending::MhVanishesAndFhResets => {
            world.at(some_time, Event::Vanish(Side::Mh));
            world.at(gives_up, Event::Abort(Side::Fh));
        }
        Ending::FhVanishes => {
            world.at(some_time, Event::Vanish(Side::Fh));
            world.at(gives_up, Event::Vanish(Side::Mh));
        }
        Ending::MhVanishes => {
            world.at(some_time, Event::Vanish(Side::Mh));
            world.at(gives_up, Event::Vanish(Side::Fh));
        }
        _ => {}
    }
    Some((world, healed))
}

/// Limits the bytes that each end sends. Neither end delays its FIN.
fn shorten(world: &mut World, fh: usize, mh: usize) {
    world.fh.sending.truncate(fh);
    world.mh.sending.truncate(mh);
    (world.fh.profile.closes_last, world.mh.profile.closes_last) = (false, false);
}

/// An outage early in the transfer.
fn outage(world: &mut World, dice: &mut Dice) -> (Instant, Instant) {
    let down = world.now + dice.millis(1, 300);
    let up = down + dice.millis(300, 5000);
    world.at(down, Event::Link(false));
    world.at(up, Event::Link(true));
    (down, up)
}

fn abort_in_outage(world: &mut World, dice: &mut Dice, side: Side) {
    let (down, up) = outage(world, dice);
    let span = up.saturating_since(down).as_millis() as u64;
    world.at(down + dice.millis(0, span), Event::Abort(side));
}

fn abort_in_recovery(world: &mut World, dice: &mut Dice, side: Side) {
    let (_, up) = outage(world, dice);
    world.at(up + dice.millis(0, 300), Event::Abort(side));
}

/// Both ends send everything.
fn run_to_the_end(world: &mut World, healed: Instant, ending: Ending) {
    world.begin();
    if ending.is_orderly() {
        world.run_until(healed + LIVENESS, true);
        assert!(world.fh.is_done() && world.mh.is_done(), "not closed");
        return;
    }
    world.run_until(healed + Duration::from_secs(110), true);
    // An end that has nothing to send learns from the other one, at its next keep-alive.
    world.keep_alive();
    world.run_until(healed + LIVENESS, false);
}

fn assert_forgotten(world: &mut World, within: Duration) {
    while world.now < world.seen_at + within {
        world.run_until(world.seen_at + within, false);
    }
    let stats = world.gateway.stats();
    let state = world.gateway.flows().next().map(|flow| flow.state);
    assert_eq!(stats.flows, 0, "a flow is left, {state:?}");
    assert_eq!(stats.mobiles, 0, "a mobile is left");
    assert_eq!(stats.cached_bytes, 0, "bytes are left in the cache");
    world.run_until(world.now + TIMER_MAX, false);
    assert_eq!(world.gateway.poll_timeout(), None, "a timer runs");
}

/// The ports of the connection once more, with other numbers and other bytes.
fn connect_again(world: &mut World, dice: &mut Dice) {
    let mut anew = |profile: &HostProfile| HostProfile {
        iss: dice.number(),
        ..profile.clone()
    };
    let (fh, mh) = (anew(&world.fh.profile), anew(&world.mh.profile));
    let (down, up) = (dice.range(1, 30_000), dice.range(0, 5_000));
    let host_fh = Host::new(fh.clone(), &mh, dice.bytes(down));
    let host_mh = Host::new(mh, &fh, dice.bytes(up));
    world.reconnect(host_fh, host_mh);
    world.begin();
    world.run_until(world.now + LIVENESS, true);
    let done = world.fh.is_done() && world.mh.is_done();
    assert!(done, "the next connection does not end");
}

fn run(variant: Variant, ending: Ending, seed: u64, trace: bool) {
    let Some((mut world, healed)) = world_that_ends(variant, ending, seed) else {
        return;
    };
    world.trace = trace;
    run_to_the_end(&mut world, healed, ending);
    let mut dice = Dice::of_seed(seed ^ 0xa9a19);
    match ending {
        Ending::FinsAgain => {
            for _ in 0..4 {
                let side = dice.pick(&[Side::Fh, Side::Mh]);
                let at = world.now + dice.millis(0, 50_000);
                world.at(at, Event::RepeatFin(side));
            }
            world.run_until(world.now + Duration::from_secs(51), false);
        }
        Ending::PortsUsedAgain => {
            for _ in 0..dice.range(1, 4) {
                let later = world.now + dice.millis(1, 59_000);
                world.run_until(later, false);
                connect_again(&mut world, &mut dice);
            }
        }
        _ => {}
    }
    let within = ending.forgotten_within(&world);
    assert_forgotten(&mut world, within);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn endings() -> Vec<Ending> {
    let only = std::env::var("HOLDFAST_ENDING").ok();
    let fits = |ending: &Ending| {
        only.as_ref()
            .is_none_or(|name| format!("{ending:?}") == *name)
    };
    Ending::ALL.into_iter().filter(fits).collect()
}

/// All endings of a scheme, and what failed of them.
fn run_all(variant: Variant) {
    let endings = endings();
    if let (Some(seed), [ending]) = (number("HOLDFAST_SEED"), &endings[..]) {
        return run(variant, *ending, seed, true);
    }
    let first = number("HOLDFAST_FIRST").unwrap_or(0);
    let cases = number("HOLDFAST_CASES").unwrap_or(CASES);
    let mut text = String::new();
    for ending in endings {
        let mut failures: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for seed in first..first + cases {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(variant, ending, seed, false)));
            if let Err(panic) = outcome {
                let why = panic.downcast_ref::<String>().map(String::as_str);
                let why = why.or_else(|| panic.downcast_ref::<&str>().copied());
                let line = why.and_then(|why| why.lines().next()).unwrap_or_default();
                failures.entry(line.to_owned()).or_default().push(seed);
            }
        }
        for (why, seeds) in failures {
            let some = &seeds[..seeds.len().min(4)];
            let count = seeds.len();
            writeln!(text, "{ending:?}: {count} cases: {why}, seeds {some:?}").expect("a string");
        }
    }
    assert!(
        text.is_empty(),
        "{variant:?}, replay with HOLDFAST_ENDING and HOLDFAST_SEED:\n{text}"
    );
}

/// The FIN of one end of the next connection passed while its numbers were not believed yet; an FH
/// without a connection answered an ACK without the saved byte.
#[test]
fn endings_that_failed_once_leave_nothing() {
    for (ending, seed) in [
        (Ending::PortsUsedAgain, 1071),
        (Ending::PortsUsedAgain, 1331),
        (Ending::ResetByFh, 487),
    ] {
        let m_tcp = (Scheme::Mtcp, SnoopSet::Today, false);
        run(m_tcp, ending, seed, false);
    }
}

#[test]
fn a_connection_that_ended_leaves_nothing_with_hold() {
    run_all((Scheme::Hold, SnoopSet::Today, false));
}

#[test]
fn a_connection_that_ended_leaves_nothing_with_auto() {
    run_all((Scheme::Auto, SnoopSet::Today, false));
}

#[test]
fn a_connection_that_ended_leaves_nothing_with_mtcp_plus() {
    run_all((Scheme::MtcpPlus, SnoopSet::Today, false));
}

#[test]
fn a_connection_that_ended_leaves_nothing_with_m_tcp() {
    run_all((Scheme::Mtcp, SnoopSet::Today, false));
}

#[test]
fn a_connection_that_ended_leaves_nothing_with_the_m_tcp_of_2007() {
    run_all((Scheme::Mtcp2007, SnoopSet::Today, false));
}

#[test]
fn a_connection_that_ended_leaves_nothing_with_snoop_of_today() {
    run_all((Scheme::Snoop, SnoopSet::Today, false));
}

#[test]
fn a_connection_that_ended_leaves_nothing_with_snoop_of_1995() {
    run_all((Scheme::Snoop, SnoopSet::Paper1995, false));
}

const SCHEMES: [Scheme; 5] = [
    Scheme::Hold,
    Scheme::MtcpPlus,
    Scheme::Mtcp,
    Scheme::Mtcp2007,
    Scheme::Snoop,
];

/// Data of the FH. M-TCP sends them on itself.
fn send(bench: &mut Bench, seq: u32, count: u32) {
    for i in 0..count {
        bench.down(seq + i * LEN, LEN);
    }
}

/// The FH closes first, as a web server does: its FIN, the MH's, and an ACK downlink.
fn close_by_fh(bench: &mut Bench, fh_next: u32) {
    let mut fin = bench.fh_segment(fh_next, 0);
    fin.flags = Flags::ACK.with(Flags::FIN);
    bench.put(fin);
    let mut answer = bench.mh_segment(fh_next + 1);
    answer.flags = Flags::ACK.with(Flags::FIN);
    bench.put(answer);
    let mut last = bench.fh_segment(fh_next + 1, 0);
    last.ack = SeqNum::new(5002);
    bench.put(last);
}

#[test]
fn flow_closed_by_its_fh_leaves_the_table() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        send(&mut bench, 1, 1);
        bench.up(1001);
        close_by_fh(&mut bench, 1001);
        assert_eq!(bench.state(), "closed", "{scheme:?}");
        bench.wait(CLOSED_FORGOTTEN.as_millis() as u64);
        assert_eq!(bench.gateway.stats().flows, 0, "{scheme:?}");
        bench.wait(TIMER_MAX.as_millis() as u64);
        assert_eq!(bench.gateway.poll_timeout(), None, "{scheme:?}");
    }
}

#[test]
fn closed_flow_is_in_no_outage() {
    let mut bench = bench(Scheme::Hold);
    send(&mut bench, 1, 1);
    bench.up(1001);
    bench.link_down();
    assert_eq!(bench.gateway.stats().flows_in_outage, 1);
    close_by_fh(&mut bench, 1001);
    bench.link_down();
    let stats = bench.gateway.stats();
    assert_eq!((stats.flows, stats.flows_in_outage), (1, 0));
}

#[test]
fn connections_that_their_fh_closes_do_not_fill_the_table() {
    for scheme in SCHEMES {
        let mut bench = not_adopted(Settings {
            flows_max: 5,
            ..settings(scheme)
        });
        for port in 0..8 {
            bench.mh_port = MH.port + port;
            bench.shake_hands(0, 5000);
            bench.up(1);
            send(&mut bench, 1, 1);
            bench.up(1001);
            close_by_fh(&mut bench, 1001);
            bench.wait(CLOSED_FORGOTTEN.as_millis() as u64);
        }
        assert_eq!(bench.counter("passed.table_full"), 0, "{scheme:?}");
    }
}

/// A download in mid-flight, the only flow of its mobile.
fn download(scheme: Scheme) -> Bench {
    let mut bench = bench(scheme);
    send(&mut bench, 1, 1);
    bench.wait(20);
    bench.up(1001);
    send(&mut bench, 1001, 3);
    bench.wait(5);
    bench
}

fn reset_of(segment: Segment) -> Segment {
    let mut reset = segment;
    reset.flags = Flags::RST;
    reset.options.timestamps = None;
    (reset.window, reset.payload_len) = (0, 0);
    reset
}

/// A server closes with a request unread, or answers one after its end. The link would deliver its data first.
#[test]
fn a_reset_of_the_fh_does_not_overtake_its_data() {
    for scheme in [Scheme::Auto, Scheme::Hold, Scheme::Snoop] {
        for ends_at_once in [false, true] {
            let mut bench = download(scheme);
            bench.link_down();
            let end = 4001 + 30 * LEN;
            for begin in (4001..end).step_by(LEN as usize) {
                bench.down(begin, LEN);
            }
            let mut lines = bench.link_up();
            let reset = reset_of(bench.fh_segment(if ends_at_once { end } else { 1001 }, 0));
            assert!(!bench.put(reset).forwarded, "{scheme:?}, {ends_at_once}");
            for begin in (1001..end).step_by(LEN as usize) {
                lines.extend(bench.wait(20));
                let data = format!("DATA {begin}..{} ", begin + LEN);
                let is_sent = lines.iter().any(|line| line.starts_with(&data));
                assert!(is_sent, "{scheme:?}, {data}: {lines:?}");
                lines.extend(bench.up(begin + LEN).lines);
            }
            // The FH's host answers what the MH sends.
            let reset = reset_of(bench.fh_segment(end, 0));
            assert!(bench.put(reset).forwarded, "{scheme:?}");
            assert_eq!((bench.state(), bench.cached()), ("closed", 0), "{scheme:?}");
        }
    }
}

/// A RST ended the connection. That is no outage: the mobile's link is up.
fn assert_no_outage(bench: &mut Bench, case: &str) {
    bench.wait(10_000);
    assert_eq!(bench.counter("silences"), 0, "{case}: counted as a silence");
    assert_eq!(bench.counter("probes"), 0, "{case}: probed");
    let mobile = bench.gateway.mobiles().next();
    if let Some(mobile) = mobile {
        assert_eq!(mobile.outages, 0, "{case}: counted as an outage");
        assert_eq!(mobile.link, LinkState::Up, "{case}: the link");
    }
}

#[test]
fn a_download_whose_mobile_resets_it_is_no_outage() {
    for scheme in SCHEMES {
        // The process is killed: a RST with the next number.
        let mut bench = download(scheme);
        let reset = reset_of(bench.mh_segment(1001));
        assert!(bench.put(reset).forwarded);
        assert_no_outage(&mut bench, &format!("{scheme:?}, killed"));
    }
}

#[test]
fn a_download_that_its_mobile_closes_and_resets_then_is_no_outage() {
    for scheme in SCHEMES {
        // The socket is closed, and data still come: a FIN, and a RST in answer to each.
        let mut bench = download(scheme);
        let mut fin = bench.mh_segment(1001);
        fin.flags = Flags::ACK.with(Flags::FIN);
        assert!(bench.put(fin).forwarded);
        bench.wait(10);
        for _ in 0..3 {
            let mut reset = reset_of(bench.mh_segment(0));
            reset.seq = SeqNum::new(5002);
            assert!(bench.put(reset).forwarded);
        }
        assert_no_outage(&mut bench, &format!("{scheme:?}, closed"));
    }
}

#[test]
fn a_download_that_its_mobile_answers_with_resets_after_a_fin_that_was_acknowledged_is_no_outage() {
    for scheme in SCHEMES {
        let mut bench = download(scheme);
        let mut fin = bench.mh_segment(1001);
        fin.flags = Flags::ACK.with(Flags::FIN);
        assert!(bench.put(fin).forwarded);
        bench.wait(10);
        let mut more = bench.fh_segment(4001, LEN);
        more.ack = SeqNum::new(5002);
        bench.put(more);
        let mut reset = reset_of(bench.mh_segment(0));
        reset.seq = SeqNum::new(5002);
        assert!(bench.put(reset).forwarded);
        assert_no_outage(&mut bench, &format!("{scheme:?}, closed and acknowledged"));
    }
}

#[test]
fn a_download_that_its_fh_resets_is_no_outage() {
    for scheme in SCHEMES {
        let mut bench = download(scheme);
        let reset = reset_of(bench.fh_segment(4001, 0));
        assert!(bench.put(reset).forwarded);
        assert_no_outage(&mut bench, &format!("{scheme:?}, reset by the FH"));
    }
}

#[test]
fn a_download_that_ends_leaves_other_flows_of_its_mobile_served_at_once() {
    for scheme in SCHEMES {
        let mut bench = download(scheme);
        let reset = reset_of(bench.mh_segment(1001));
        assert!(bench.put(reset).forwarded);
        bench.wait(1000);
        // A push on another connection of the mobile.
        bench.mh_port = MH.port + 1;
        bench.shake_hands(0, 5000);
        bench.up(1);
        let answer = bench.down(1, LEN);
        let sent = answer.forwarded || !answer.lines.is_empty();
        assert!(sent, "{scheme:?}: the push waits");
        bench.wait(20);
        bench.up(1001);
        assert_no_outage(&mut bench, &format!("{scheme:?}, with another flow"));
    }
}
