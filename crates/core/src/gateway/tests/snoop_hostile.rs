// SPDX-License-Identifier: Apache-2.0
//! Snoop, both directions, and segments that no sane end sends. A scenario with losses in both
//! directions runs twice, once with a bad segment in the middle. The bad segment passes and is
//! counted, and everything after it is the same. The scenario also runs with sequence numbers
//! that wrap around at any point.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Options, Segment, SeqNum, Timestamps};

use crate::testing::{FH, MH, Packet};
use crate::{Action, Direction, Gateway, Scheme, Settings, SnoopSet, SnoopSettings, Verdict};

const LEN: u32 = 1000;
/// The first bytes of both.
const FH_FIRST: u32 = 1;
const MH_FIRST: u32 = 5001;

const fn fh(n: u32) -> u32 {
    FH_FIRST + n * LEN
}

const fn mh(n: u32) -> u32 {
    MH_FIRST + n * LEN
}

/// What one end sends, in numbers without shifts.
#[derive(Clone, Debug)]
struct Sent {
    way: Direction,
    seq: u32,
    ack: u32,
    len: u32,
    sack: Vec<(u32, u32)>,
    flags: Flags,
    /// Instead of the bytes that belong there.
    other_bytes: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Send(Sent),
    Wait(u64),
}

/// The FH has everything of the MH before the nth packet, and sends `count` of its own.
fn of_fh(n: u32, data: core::ops::Range<u32>, ack: u32, sack: &[(u32, u32)]) -> Vec<Step> {
    sends(Direction::Downlink, fh(n), data.len() as u32, mh(ack), {
        let blocks = sack.iter().map(|(left, right)| (mh(*left), mh(*right)));
        blocks.collect()
    })
}

fn of_mh(n: u32, data: core::ops::Range<u32>, ack: u32, sack: &[(u32, u32)]) -> Vec<Step> {
    sends(Direction::Uplink, mh(n), data.len() as u32, fh(ack), {
        let blocks = sack.iter().map(|(left, right)| (fh(*left), fh(*right)));
        blocks.collect()
    })
}

/// `count` data segments from `seq` on, a millisecond apart; an ACK if there are none.
fn sends(way: Direction, seq: u32, count: u32, ack: u32, sack: Vec<(u32, u32)>) -> Vec<Step> {
    let one = |seq, len| {
        Step::Send(Sent {
            way,
            seq,
            ack,
            len,
            sack: sack.clone(),
            flags: Flags::ACK,
            other_bytes: false,
        })
    };
    if count == 0 {
        return vec![one(seq, 0), Step::Wait(1)];
    }
    (0..count)
        .flat_map(|i| [one(seq + i * LEN, LEN), Step::Wait(1)])
        .collect()
}

/// Ten packets of each end; the wireless half loses the FH's third and the MH's third, the
/// wired half the MH's fifth behind a report.
fn story() -> Vec<Step> {
    let steps = [
        of_mh(0, 0..0, 0, &[]),
        of_fh(0, 0..1, 0, &[]),
        vec![Step::Wait(20)],
        of_mh(0, 0..1, 1, &[]),
        vec![Step::Wait(10)],
        of_fh(1, 0..9, 1, &[]),
        vec![Step::Wait(10)],
        of_mh(1, 0..1, 2, &[(3, 4)]),
        of_mh(2, 0..0, 2, &[(3, 6)]),
        of_mh(2, 0..0, 2, &[(3, 8)]),
        vec![Step::Wait(20)],
        of_mh(2, 0..0, 10, &[]),
        // While the FH sends, nothing is reported.
        vec![Step::Wait(150)],
        of_mh(3, 0..3, 10, &[]),
        vec![Step::Wait(20)],
        of_mh(6, 0..2, 10, &[]),
        of_fh(10, 0..0, 2, &[(3, 4)]),
        vec![Step::Wait(5)],
        of_mh(2, 0..1, 10, &[]),
        vec![Step::Wait(15)],
        of_fh(10, 0..0, 4, &[(5, 7)]),
        vec![Step::Wait(10)],
        of_mh(8, 0..2, 10, &[]),
        of_fh(10, 0..0, 4, &[(5, 8)]),
        of_fh(10, 0..0, 4, &[(5, 9)]),
        of_fh(10, 0..0, 4, &[(5, 10)]),
        vec![Step::Wait(400)],
        of_fh(10, 0..0, 10, &[]),
        of_fh(10, 0..3, 10, &[]),
        vec![Step::Wait(30)],
        of_mh(10, 0..0, 13, &[]),
        vec![Step::Wait(1000)],
    ];
    steps.concat()
}

struct Run {
    gateway: Gateway<Packet>,
    now: Instant,
    /// Added to all numbers of the FH, of the MH.
    shifts: (u32, u32),
    /// The newest timestamps that the FH and the MH were sent.
    seen: (u32, u32),
    lines: Vec<String>,
}

impl Run {
    fn new(settings: &Settings, shifts: (u32, u32)) -> Self {
        let mut run = Self {
            gateway: Gateway::new(settings.clone()),
            now: Instant::from_millis(1000),
            shifts,
            seen: (0, 0),
            lines: Vec::new(),
        };
        let handshake = [
            (Direction::Uplink, MH_FIRST - 1, 0, Flags::SYN),
            (
                Direction::Downlink,
                FH_FIRST - 1,
                MH_FIRST,
                Flags::SYN.with(Flags::ACK),
            ),
        ];
        for (way, seq, ack, flags) in handshake {
            let verdict = run.send(&Sent {
                way,
                seq,
                ack,
                len: 0,
                sack: Vec::new(),
                flags,
                other_bytes: false,
            });
            assert_eq!(verdict, Verdict::Forward);
        }
        run
    }

    /// What is added to the sender's numbers, and to those of the other end.
    const fn shifts_of(&self, way: Direction) -> (u32, u32) {
        match way {
            Direction::Downlink => (self.shifts.0, self.shifts.1),
            Direction::Uplink => (self.shifts.1, self.shifts.0),
        }
    }

    fn send(&mut self, sent: &Sent) -> Verdict {
        let (own, others) = self.shifts_of(sent.way);
        let clock = (self.now.as_nanos() / 1_000_000) as u32;
        let (from, to, tsval, tsecr) = match sent.way {
            Direction::Downlink => (FH, MH, clock, self.seen.0),
            Direction::Uplink => (MH, FH, clock + 70_000, self.seen.1),
        };
        let mut options = Options {
            timestamps: Some(Timestamps { tsval, tsecr }),
            ..Options::default()
        };
        for (left, right) in &sent.sack {
            let [left, right] = [left, right].map(|number| number.wrapping_add(others));
            assert!(options.sack.push(SeqNum::new(left), SeqNum::new(right)));
        }
        if sent.flags.has(Flags::SYN) {
            (options.sack_permitted, options.window_scale) = (true, Some(7));
        }
        let segment = Segment {
            from,
            to,
            seq: SeqNum::new(sent.seq.wrapping_add(own)),
            ack: SeqNum::new(sent.ack.wrapping_add(others)),
            flags: sent.flags,
            window: 1000,
            options,
            payload_len: sent.len,
        };
        let mut bytes = stream(sent.seq, sent.len);
        if sent.other_bytes {
            for byte in &mut bytes {
                *byte ^= 0x55;
            }
        }
        let packet = Packet::new(segment, &bytes, LEN);
        let mut actions = Vec::new();
        let verdict =
            self.gateway
                .handle_segment(sent.way, &segment, &packet, self.now, &mut actions);
        if verdict != Verdict::Suppress && Self::counts_for_clock(sent) {
            match sent.way {
                Direction::Downlink => self.seen.1 = tsval,
                Direction::Uplink => self.seen.0 = tsval,
            }
        }
        self.note(actions);
        verdict
    }

    /// An end takes a timestamp from what it accepts.
    const fn counts_for_clock(sent: &Sent) -> bool {
        !sent.other_bytes
    }

    fn note(&mut self, actions: Vec<Action<Packet>>) {
        for action in actions {
            let (what, packet) = match action {
                Action::Resend(resend) => ("again", Packet::of_resend(&resend)),
                Action::Send(made) => ("made", Packet::of_made(&made)),
                Action::Repeat(packet) => ("repeated", packet),
                Action::Notify(_) | Action::Record(_) => continue,
            };
            let segment = packet.segment;
            let way = if segment.to == MH {
                Direction::Downlink
            } else {
                Direction::Uplink
            };
            let (own, others) = self.shifts_of(way);
            let seq = segment.seq.get().wrapping_sub(own);
            assert_eq!(packet.bytes[..], stream(seq, segment.payload_len)[..]);
            let blocks = segment.options.sack.iter().map(|(left, right)| {
                let [left, right] = [left, right].map(|number| number.get().wrapping_sub(others));
                format!(" {left}..{right}")
            });
            let blocks: String = blocks.collect();
            self.lines.push(format!(
                "{} {what} {way:?} {seq}+{} ack {} {:?}{blocks}",
                self.now.as_nanos(),
                segment.payload_len,
                segment.ack.get().wrapping_sub(others),
                segment.options.timestamps,
            ));
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Send(sent) => {
                let verdict = self.send(sent);
                let verdict = match verdict {
                    Verdict::Forward => "forwarded".to_owned(),
                    Verdict::Suppress => "suppressed".to_owned(),
                    Verdict::ForwardWithAck { ack, .. } => format!("forwarded with {ack:?}"),
                    Verdict::ForwardWithSack(sack) => {
                        let blocks = sack.iter().count();
                        format!("forwarded with {blocks} blocks")
                    }
                };
                let line = format!("{} {sent:?} {verdict}", self.now.as_nanos());
                self.lines.push(line);
            }
            Step::Wait(millis) => {
                let until = self.now + Duration::from_millis(*millis);
                while let Some(at) = self.gateway.poll_timeout().filter(|at| *at <= until) {
                    self.now = self.now.max(at);
                    let mut actions = Vec::new();
                    self.gateway.handle_timeout(self.now, &mut actions);
                    self.note(actions);
                }
                self.now = until;
            }
        }
    }

    /// Counters but those that count segments and what was not believed, and what is kept.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.gateway.counters();
        let chosen =
            counters.filter(|(name, _)| !["segments", "passed.implausible"].contains(name));
        chosen
            .chain([("kept", self.gateway.stats().cached_bytes)])
            .collect()
    }

    fn implausible(&self) -> u64 {
        let mut counters = self.gateway.counters();
        let one = counters.find(|counter| counter.0 == "passed.implausible");
        one.expect("a counter").1
    }
}

/// The bytes of a stream; each shows its sequence number.
fn stream(seq: u32, len: u32) -> Vec<u8> {
    (0..len)
        .map(|i| (seq.wrapping_add(i) % 251) as u8)
        .collect()
}

fn both_sets() -> [Settings; 2] {
    [SnoopSettings::paper_1995(), SnoopSettings::today()].map(|snoop| Settings {
        scheme: Scheme::Snoop,
        snoop,
        ..Settings::default()
    })
}

fn bare(way: Direction, seq: u32, ack: u32) -> Sent {
    Sent {
        way,
        seq,
        ack,
        len: 0,
        sack: Vec::new(),
        flags: Flags::ACK,
        other_bytes: false,
    }
}

/// The bad segment passes before the step; what follows is as without it.
fn changes_nothing(bad: &Sent) {
    for settings in both_sets() {
        let steps = story();
        let mut undisturbed = Run::new(&settings, (0, 0));
        for step in &steps {
            undisturbed.step(step);
        }
        // From the first ACK of each end on.
        for at in 4..steps.len() {
            let what = format!("{:?}: {bad:?} before step {at}", settings.snoop.set);
            let mut disturbed = Run::new(&settings, (0, 0));
            steps[..at].iter().for_each(|step| disturbed.step(step));
            let (lines, implausible) = (disturbed.lines.len(), disturbed.implausible());
            let (kept, seen) = (disturbed.counters(), disturbed.seen);
            assert_eq!(disturbed.send(bad), Verdict::Forward, "{what}");
            disturbed.seen = seen;
            assert_eq!(disturbed.lines[lines..], [] as [&str; 0], "{what}");
            assert_eq!(disturbed.implausible(), implausible + 1, "{what}");
            assert_eq!(disturbed.counters(), kept, "{what}");
            steps[at..].iter().for_each(|step| disturbed.step(step));
            assert_eq!(disturbed.lines, undisturbed.lines, "{what}");
            assert_eq!(disturbed.counters(), undisturbed.counters(), "{what}");
        }
    }
}

#[test]
fn the_scenario_has_retransmissions_and_reports() {
    for settings in both_sets() {
        let mut run = Run::new(&settings, (0, 0));
        for step in &story() {
            run.step(step);
        }
        let counter = |name| {
            let mut counters = run.gateway.counters();
            counters.find(|counter| counter.0 == name).map(|one| one.1)
        };
        let set = settings.snoop.set;
        assert!(counter("repaired") > Some(0), "{set:?}");
        // Of today's set no report, and so nothing to make good.
        let reports = set == SnoopSet::Paper1995;
        for name in ["reports", "repaired_uplink"] {
            assert_eq!(counter(name) > Some(0), reports, "{set:?} {name}");
        }
        // The wired half has lost something of the same window.
        assert_eq!(counter("undone_uplink"), Some(0), "{set:?}");
        assert_eq!(run.gateway.stats().cached_bytes, 0, "{set:?}");
    }
}

#[test]
fn wherever_sequence_numbers_wrap_the_run_is_the_same() {
    for settings in both_sets() {
        let mut undisturbed = Run::new(&settings, (0, 0));
        for step in &story() {
            undisturbed.step(step);
        }
        // Through all packets of either end, on a packet's border and within.
        let wraps = (0..26).map(|half| 0_u32.wrapping_sub(half * LEN / 2 + half % 3));
        for wrap in wraps {
            for shifts in [
                (wrap, 0),
                (0, wrap.wrapping_sub(MH_FIRST)),
                (wrap, wrap),
                (1 << 31, wrap.wrapping_sub(MH_FIRST)),
            ] {
                let mut run = Run::new(&settings, shifts);
                for step in &story() {
                    run.step(step);
                }
                assert_eq!(run.lines, undisturbed.lines, "{shifts:?}");
            }
        }
    }
}

#[test]
fn an_ack_of_either_end_from_the_future_changes_nothing() {
    // With a number that does not fit either: otherwise it may show what passed unseen.
    changes_nothing(&bare(Direction::Uplink, mh(600), fh(900)));
    changes_nothing(&bare(Direction::Downlink, fh(10), mh(900)));
    changes_nothing(&bare(Direction::Downlink, fh(0), mh(11)));
}

#[test]
fn an_ack_from_long_ago_changes_nothing() {
    let long_ago = 0_u32.wrapping_sub(1 << 30);
    changes_nothing(&bare(Direction::Uplink, mh(0), long_ago));
    changes_nothing(&bare(Direction::Downlink, fh(0), long_ago));
}

#[test]
fn data_outside_of_the_windows_change_nothing() {
    for (way, seq, ack) in [
        (Direction::Downlink, fh(900), mh(0)),
        (Direction::Uplink, mh(900), fh(500)),
    ] {
        changes_nothing(&Sent {
            len: LEN,
            ..bare(way, seq, ack)
        });
    }
}

/// The same ACK once with bad blocks and once without any.
fn bad_blocks_change_nothing(way: Direction, sack: &[(u32, u32)]) {
    for settings in both_sets() {
        let steps = story();
        let acks = (4..steps.len()).filter(|at| {
            let step = &steps[*at];
            matches!(step, Step::Send(sent) if sent.way == way && sent.sack.is_empty())
        });
        for at in acks {
            let what = format!("{:?}: {way:?} {sack:?} at step {at}", settings.snoop.set);
            let mut plain = Run::new(&settings, (0, 0));
            let mut bad = Run::new(&settings, (0, 0));
            for run in [&mut plain, &mut bad] {
                steps[..at].iter().for_each(|step| run.step(step));
            }
            let Step::Send(sent) = &steps[at] else {
                unreachable!("only what is sent was taken");
            };
            let with_blocks = Sent {
                sack: sack.to_vec(),
                ..sent.clone()
            };
            let (lines, implausible) = (plain.lines.len(), bad.implausible());
            let without = plain.send(sent);
            let verdict = bad.send(&with_blocks);
            // What goes on goes on as it came.
            assert!(!matches!(verdict, Verdict::ForwardWithSack(_)), "{what}");
            assert!(
                verdict == Verdict::Forward || without == Verdict::Suppress,
                "{what}: {verdict:?}, {without:?} without blocks"
            );
            assert_eq!(bad.implausible(), implausible + 1, "{what}");
            if plain.lines[lines..]
                .iter()
                .any(|line| line.contains("made Downlink"))
            {
                // The forged segment replaced another one; it must not if it makes no sense.
                assert_eq!(verdict, Verdict::Forward, "{what}");
                continue;
            }
            bad.seen = plain.seen;
            for run in [&mut plain, &mut bad] {
                steps[at + 1..].iter().for_each(|step| run.step(step));
            }
            assert_eq!(bad.counters(), plain.counters(), "{what}");
            assert_eq!(bad.lines, plain.lines, "{what}");
        }
    }
}

#[test]
fn blocks_outside_of_what_was_sent_change_nothing() {
    bad_blocks_change_nothing(Direction::Uplink, &[(fh(40), fh(41))]);
    bad_blocks_change_nothing(Direction::Downlink, &[(mh(40), mh(41))]);
}

#[test]
fn blocks_the_wrong_way_round_change_nothing() {
    bad_blocks_change_nothing(Direction::Uplink, &[(fh(12), fh(11))]);
    bad_blocks_change_nothing(Direction::Downlink, &[(mh(9), mh(8))]);
}

/// A segment again, with another border and once with the bytes of before and once with
/// others.
fn other_bytes_change_nothing(way: Direction, seq: u32, ack: u32, from: usize) {
    for settings in both_sets() {
        let steps = story();
        let mut runs = [false, true].map(|other_bytes| {
            let mut run = Run::new(&settings, (0, 0));
            steps[..from].iter().for_each(|step| run.step(step));
            let implausible = run.implausible();
            let again = Sent {
                len: LEN,
                other_bytes,
                ..bare(way, seq, ack)
            };
            let seen = run.seen;
            let verdict = run.send(&again);
            run.seen = seen;
            let what = format!(
                "{:?} {way:?} {seq}, others: {other_bytes}",
                settings.snoop.set
            );
            assert_eq!(verdict, Verdict::Forward, "{what}");
            let counted = run.implausible() - implausible;
            // `today` has no bytes of the MH to compare with.
            let compares = way == Direction::Downlink || settings.snoop.set == SnoopSet::Paper1995;
            assert_eq!(counted, u64::from(other_bytes && compares), "{what}");
            steps[from..].iter().for_each(|step| run.step(step));
            run
        });
        let [same, other] = &mut runs;
        // All retransmissions have the bytes that came first ([`Run::note`]).
        assert_eq!(same.lines, other.lines);
        assert_eq!(same.counters(), other.counters());
    }
}

#[test]
fn overlapping_segments_with_other_bytes_change_nothing() {
    let steps = story();
    let after = |way, seq| {
        let sent = |step: &Step| matches!(step, Step::Send(sent) if sent.way == way && sent.seq == seq && sent.len > 0);
        steps.iter().position(sent).expect("a step") + 1
    };
    // The FH's third packet, which the wireless half has lost and the gateway retransmits.
    let lost = after(Direction::Downlink, fh(5));
    other_bytes_change_nothing(Direction::Downlink, fh(2) + LEN / 2, mh(1), lost);
    // The MH's fifth, which the wired half has lost.
    let lost = after(Direction::Uplink, mh(5));
    other_bytes_change_nothing(Direction::Uplink, mh(3) + LEN / 2, fh(10), lost);
}

#[test]
fn after_an_ack_of_what_was_never_sent_the_transfer_goes_on() {
    // The MH's number fits to the byte, so that it is believed: what the FH may send by its
    // windows may have passed by unseen.
    for settings in both_sets() {
        let mut run = Run::new(&settings, (0, 0));
        let steps = story();
        steps[..10].iter().for_each(|step| run.step(step));
        let Some(Step::Send(last)) = steps[..10]
            .iter()
            .rfind(|step| matches!(step, Step::Send(sent) if sent.way == Direction::Uplink))
        else {
            unreachable!("the MH has sent a segment");
        };
        let early = bare(Direction::Uplink, last.seq + last.len, fh(40));
        assert_eq!(run.send(&early), Verdict::Forward);
        // The MH's true ACKs, three duplicates and then new ones: the FH receives all.
        let mut forwarded = 0;
        for n in [2, 2, 2, 2, 3, 4, 5] {
            let ack = bare(Direction::Uplink, last.seq + last.len, fh(n));
            forwarded += u32::from(run.send(&ack) != Verdict::Suppress);
            run.step(&Step::Wait(5));
        }
        assert_eq!(forwarded, 7, "{:?}", settings.snoop.set);
    }
}
