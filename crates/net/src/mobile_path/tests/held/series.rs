// SPDX-License-Identifier: Apache-2.0
//! The kernel's program and `holdfast_core`'s rule, driven by one series of events each: data of the FH in order, with
//! gaps, sent again and in super-segments; ACKs of the MH, pure, with data, with SACK blocks, late; orders that lapse; pauses.
//!
//! The kernel's clock cannot be set. So each event's time and round trip are what the program has noted, and time passes
//! by setting all that was noted back.
//!
//! The seeds are 1 to 90, and as many as it takes where the timer lets go; another one: `HOLDFAST_SEED=N`. A failure
//! prints its own.

use holdfast_core::mobile_host::withheld::{ANSWER, AckAndWindow, FromFh, FromMh, WithheldSegment};

use super::*;

const STEPS: usize = 700;
/// Where times stand in `struct state` and `struct withheld`.
const STATE_TIMES: [usize; 6] = [24, 32, 64, 104, 112, 120];
const WITHHELD_TIMES: [usize; 11] = [32, 48, 56, 64, 96, 104, 128, 144, 152, 168, 176];
const EGRESS_AT: usize = 64;
const INGRESS_AT: usize = 104;
const RTT: usize = 128;
const SRTT: usize = 136;
const EPOCH_AT: usize = 32;
const DONE_AT: usize = 104;
const LET_GO: usize = 112;
const SCALE: u8 = 7;
/// How long one lasts by the clock.
const SERIES_NS: u64 = 1_500_000_000;
const UPTIME_LEFT_NS: u64 = 30_000_000_000;
const AHEAD_BYTES_MAX: u32 = 30_000;

struct Series<'a> {
    loaded: &'a Loaded,
    seed: u64,
    rng: TestRng,
    key: FlowKey,
    rule: WithheldSegment,
    /// So much later it is than the kernel says, in nanoseconds.
    later: u64,
    began_ns: u64,
    /// What the FH sends next, what has come of it in one segment_bytes, and the gap in it.
    next: u32,
    received: u32,
    missing: Option<u32>,
    /// What the MH has acknowledged.
    acked: u32,
    snd_nxt: u32,
    round_trip_ms: u32,
    window: u16,
    ordered: bool,
    /// What the daemon has let go since the MH's last segment.
    let_go: Option<SeqNum>,
    done_at: u64,
    /// The MH asks with its next segment; what comes then has PSH.
    asks: bool,
    answer_at: Instant,
    checked: [u32; 6],
}

impl<'a> Series<'a> {
    fn new(loaded: &'a Loaded, seed: u64) -> Self {
        let key = flow(seed.is_multiple_of(2), 20_000 + seed as u16);
        // Numbers turn over.
        let first = u32::MAX - 200_000;
        loaded.begin(key, SCALE, first);
        loaded.order(3_600);
        Self {
            loaded,
            seed,
            rng: TestRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            key,
            rule: WithheldSegment::default(),
            later: 0,
            began_ns: monotonic_ns(),
            next: first,
            received: first,
            missing: None,
            acked: first,
            snd_nxt: 1_000,
            round_trip_ms: 40,
            window: 501,
            ordered: true,
            let_go: None,
            done_at: 0,
            asks: false,
            answer_at: Instant::ZERO,
            checked: [0; 6],
        }
    }

    fn of(&self) -> String {
        let [data, held, bulk, ..] = self.checked;
        format!(
            "seed {}, after {data} data, {held} held, {bulk} in bulk",
            self.seed
        )
    }

    fn state(&self) -> [u8; record::VALUE_BYTES] {
        let key = record::key(&self.key);
        let value = self.loaded.maps.flows.lookup(&key, MapFlags::ANY).unwrap();
        *value.unwrap().first_chunk().unwrap()
    }

    fn withheld(&self) -> Option<[u8; withheld_segments::VALUE_BYTES]> {
        let key = record::key(&self.key);
        let value = self.loaded.maps.withheld.lookup(&key, MapFlags::ANY);
        value.unwrap().map(|value| *value.first_chunk().unwrap())
    }

    /// Lets time pass, in which nothing happens.
    fn pass_time(&mut self, time: Duration) {
        let nanos = time.as_nanos() as u64;
        // A machine that has just started has no such times.
        if self.later + nanos + UPTIME_LEFT_NS > self.began_ns {
            self.checked[4] += 1;
            return;
        }
        let set_back = |value: &mut [u8], times: &[usize]| {
            for at in times {
                let long = long_at(value, *at);
                if long != 0 {
                    value[*at..at + 8].copy_from_slice(&long.wrapping_sub(nanos).to_ne_bytes());
                }
            }
        };
        let key = record::key(&self.key);
        let maps = &self.loaded.maps;
        let mut state = self.state();
        set_back(&mut state, &STATE_TIMES);
        maps.flows.update(&key, &state, MapFlags::ANY).unwrap();
        if let Some(mut withheld) = self.withheld() {
            set_back(&mut withheld, &WITHHELD_TIMES);
            maps.withheld
                .update(&key, &withheld, MapFlags::ANY)
                .unwrap();
        }
        self.later += nanos;
    }

    fn at(&self, kernels: u64) -> Instant {
        Instant::from_nanos(kernels + self.later)
    }

    /// The MH's clock.
    fn ms(&self) -> u32 {
        ((monotonic_ns() + self.later) / 1_000_000) as u32
    }

    /// The first answer has become a download.
    fn begin_download(&mut self) {
        self.data();
        self.ack();
        self.pass_time(ANSWER);
    }

    /// The FH's data end with PSH, the MH asks, and waits for this part of a round trip, of 8.
    fn ask(&mut self) {
        self.asks = true;
        self.data();
        self.ack();
        self.asks = false;
        let eighths = 2 + self.rng.below(12) as u32;
        let round_trip = Duration::from_millis(u64::from(self.round_trip_ms));
        self.pass_time(round_trip / 8 * eighths);
    }

    /// Data of the FH come, to the program and to the rule.
    fn data(&mut self) {
        if self.received.wrapping_sub(self.acked) > AHEAD_BYTES_MAX {
            return self.ack();
        }
        // The kernel runs programs on a page at most.
        let count = 1 + self.rng.below(3) as u32;
        let tail = [0, 0, 0, 0, 0, 300][self.rng.below(6)];
        let payload = count * PIECE - tail;
        // No further ahead than any window.
        let full = self.next.wrapping_sub(self.received) > AHEAD_BYTES_MAX;
        let seq = match (self.rng.below(60), self.missing) {
            // What was missing, what has come already, what follows a gap.
            (number, Some(missing)) if number < 10 || full => missing,
            (10, _) => self.received.wrapping_sub(PIECE),
            (11, None) => {
                self.missing = Some(self.next);
                self.next = self.next.wrapping_add(PIECE);
                self.next
            }
            _ => self.next,
        };
        let is_missing = self.missing == Some(seq) && seq != self.next;
        let payload = if is_missing { PIECE } else { payload };
        let ms = self.ms();
        let push = self.asks || self.rng.below(30) == 0;
        let spec = Spec {
            seq,
            ack: self.snd_nxt,
            flags: if push { PSH_ACK } else { Flags::ACK },
            clocks: Some((ms + 7, ms - self.round_trip_ms)),
            payload: payload as usize,
            ..Spec::downlink(self.key)
        };
        let segment_bytes = if payload > PIECE { PIECE } else { 0 };
        let before = self.state();
        let run = run_super(
            &self.loaded.programs,
            "mobile_ingress",
            &spec.frame(),
            segment_bytes,
            1,
        );
        assert_eq!(run.unwrap().0, NEXT);
        let before = long_at(&before, INGRESS_AT);
        assert_ne!(
            long_at(&self.state(), INGRESS_AT),
            before,
            "{}: not credible",
            self.of()
        );
        let end = seq.wrapping_add(payload);
        if SeqNum::new(end).after(SeqNum::new(self.next)) {
            self.next = end;
        }
        if is_missing {
            self.missing = None;
        }
        if self.missing.is_none() {
            self.received = self.next;
        }
        let state = self.state();
        let data = FromFh {
            seq: SeqNum::new(seq),
            len: payload,
            segment_bytes: if segment_bytes == 0 {
                payload
            } else {
                segment_bytes
            },
            push,
        };
        let rtt = Some(long_at(&state, RTT)).filter(|rtt| *rtt != 0);
        let now = self.at(long_at(&state, INGRESS_AT));
        self.rule
            .handle_fh_data(&data, rtt.map(Duration::from_nanos), now);
        self.checked[0] += 1;
        self.compare();
    }

    /// A segment of the MH leaves, by the program and by the rule.
    fn ack(&mut self) {
        let late = self.rng.below(40) == 0 && !self.asks;
        let has_payload = (self.asks || self.rng.below(12) == 0) && !late;
        let ack = self.received.wrapping_sub(if late { 3 * PIECE } else { 0 });
        if self.rng.below(20) == 0 {
            self.window = [20, 100, 501, 501, 900, 900, 2_000, 0xffff][self.rng.below(8)];
        }
        let ms = self.ms();
        let mut sack = SackBlocks::default();
        if self.missing.is_some() && self.rng.below(4) > 0 {
            let edge = SeqNum::new(self.next);
            sack.push(edge - PIECE, edge);
        }
        let spec = Spec {
            seq: self.snd_nxt,
            ack,
            window: self.window,
            clocks: Some((ms, ms + 6)),
            payload: if has_payload { 100 } else { 0 },
            ..Spec::uplink(self.key)
        };
        let left = self.loaded.egress(&spec.frame_with(&sack));
        let (left, _) = parse(&left, LINK).unwrap();
        self.snd_nxt += spec.payload as u32;
        if !late {
            self.acked = ack;
        }
        let own = AckAndWindow {
            ack: SeqNum::new(ack),
            window: self.window,
        };
        let now = self.at(long_at(&self.state(), EGRESS_AT));
        if self.withheld().is_none() {
            return;
        }
        // As the program does, with the MH's next segment.
        if let Some(let_go) = self.let_go.take() {
            self.rule.release(let_go, now);
        }
        let segment = FromMh {
            own,
            scale: Some(SCALE),
            has_payload,
            has_sack: sack.iter().next().is_some(),
            is_ending: false,
        };
        let expected = self.rule.handle_mh_segment(&segment, self.ordered, now);
        let is = AckAndWindow {
            ack: left.ack,
            window: left.window,
        };
        assert_eq!(is, expected, "{}: {spec:?}", self.of());
        self.checked[1] += u32::from(is != own);
        self.compare();
    }

    fn compare(&mut self) {
        let of = self.of();
        let value = self.withheld().expect("data have come");
        let known = withheld_segments::read(&value);
        assert_eq!(known.download.boundaries, self.rule.boundaries(), "{of}");
        let answer_at = self.at(long_at(&value, ANSWER_AT));
        assert_eq!(answer_at, self.rule.answer_at(), "{of}");
        self.checked[5] += u32::from(answer_at != self.answer_at);
        self.answer_at = answer_at;
        let bulk = u32::from_ne_bytes(*value[BULK..].first_chunk().unwrap()) != 0;
        assert_eq!(bulk, self.rule.is_bulk(), "{of}");
        assert_eq!(known.download.segments, self.rule.segments(), "{of}");
        assert_eq!(known.is_held(), self.rule.is_held(), "{of}");
        self.checked[2] += u32::from(bulk);
    }

    fn srtt(&self) -> Option<Duration> {
        let srtt = long_at(&self.state(), SRTT);
        (srtt != 0).then(|| Duration::from_nanos(srtt))
    }

    /// Where programs have no timers: the daemon looks whether the flow pauses, and lets go.
    fn look(&mut self) {
        let maps = &self.loaded.maps;
        let now = monotonic_ns();
        let pausing = maps.pausing(Instant::from_nanos(now)).unwrap();
        let pauses = pausing.iter().any(|noted| noted.flow.key == self.key);
        let srtt = self.srtt();
        let due = self
            .rule
            .poll_timeout(srtt)
            .is_some_and(|at| at <= self.at(now));
        assert_eq!(pauses, due, "{}", self.of());
        if pauses && self.let_go.is_none() {
            let own = maps.flow(&self.key).unwrap().unwrap().flow.rcv_nxt;
            maps.let_go(&self.key, own).unwrap();
            self.let_go = Some(own);
            self.checked[3] += 1;
        }
    }

    /// The program's timer has let go, if it has.
    fn note_timer(&mut self) -> bool {
        let Some(value) = self.withheld() else {
            return false;
        };
        let done_at = long_at(&value, DONE_AT);
        if done_at == self.done_at {
            return false;
        }
        self.done_at = done_at;
        let now = self.at(long_at(&value, EPOCH_AT));
        let let_go = SeqNum::new(u32::from_ne_bytes(*value[LET_GO..].first_chunk().unwrap()));
        let expected = self.rule.handle_timeout(self.srtt(), now);
        assert_eq!(expected, Some(let_go), "{}", self.of());
        self.checked[3] += 1;
        true
    }
}

fn long_at(value: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(*value[at..].first_chunk().unwrap())
}

fn seeds(most: u64) -> std::ops::RangeInclusive<u64> {
    match std::env::var("HOLDFAST_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("HOLDFAST_SEED is a number");
            seed..=seed
        }
        Err(_) => 1..=most,
    }
}

/// Series of any times, where the daemon looks for pauses.
#[test]
fn by_one_series_of_events_program_and_rule_hold_the_same() {
    if !available_or_skip("by_one_series_of_events_program_and_rule_hold_the_same") {
        return;
    }
    let programs = load_withholding(&interface(), FLOWS, false).unwrap();
    let maps = FlowMaps::of(&programs, &interface()).unwrap();
    let loaded = Loaded { programs, maps };
    let mut checked = [0; 6];
    for seed in seeds(90) {
        let mut series = Series::new(&loaded, seed);
        // What makes a round trip of many segments, of few, or of very few.
        let mut pace_us = 200;
        series.begin_download();
        for _ in 0..STEPS {
            let us = match series.rng.below(60) {
                0 => 30_000 + series.rng.below(60_000),
                1 | 4 if series.rng.below(4) == 0 => 100_000 + series.rng.below(600_000),
                2 if series.rng.below(16) == 0 => 12_000_000,
                // An answer becomes a download.
                5 if series.rng.below(4) == 0 => 1_900_000 + series.rng.below(200_000),
                3 => {
                    pace_us = [50, 200, 600, 2_500][series.rng.below(4)];
                    pace_us
                }
                _ => pace_us + series.rng.below(50),
            };
            series.pass_time(Duration::from_micros(us as u64));
            if series.rng.below(80) == 0 {
                series.round_trip_ms = [20, 40, 55, 90][series.rng.below(4)];
            }
            if series.rng.below(150) == 0 {
                series.ordered ^= true;
                loaded.order(if series.ordered { 3_600 } else { 0 });
            }
            let pauses = us > 90_000 && series.rule.is_held();
            match series.rng.below(8) {
                number if pauses || number == 0 && series.withheld().is_some() => series.look(),
                _ if series.rng.below(250) == 0 => series.ask(),
                0..=4 => series.data(),
                _ => series.ack(),
            }
        }
        for (sum, one) in checked.iter_mut().zip(series.checked) {
            *sum += one;
        }
    }
    println!("data, held back, in bulk, let go, times that could not pass, answers: {checked:?}");
    if std::env::var_os("HOLDFAST_SEED").is_none() {
        let [data, held, bulk, let_go, _, answers] = checked;
        assert!(
            data > 10_000 && held > 400 && bulk > 3_000 && let_go > 8 && answers > 150,
            "{checked:?}"
        );
    }
}

/// The same by the clock, where the program's timer lets go.
#[test]
fn by_one_series_of_events_programs_timer_and_rule_let_go_the_same() {
    let test = "by_one_series_of_events_programs_timer_and_rule_let_go_the_same";
    let Some(loaded) = wake(test) else {
        return;
    };
    let mut checked = [0; 6];
    let start = monotonic_ns();
    // On a busy machine a series has many gaps: then it takes more of them.
    for seed in seeds(u64::MAX) {
        if checked[1] > 50 && checked[3] > 8 {
            break;
        }
        assert!(monotonic_ns() - start < LIMIT_NS, "{checked:?}");
        let mut series = Series::new(&loaded, seed);
        series.round_trip_ms = 60;
        series.begin_download();
        let began = monotonic_ns();
        let mut pause_at = 20;
        while monotonic_ns() - began < SERIES_NS {
            series.note_timer();
            match series.rng.below(8) {
                0..=4 => series.data(),
                _ => series.ack(),
            }
            // Where it has let go meanwhile, before or after the segment is not known.
            if series
                .withheld()
                .is_some_and(|value| long_at(&value, DONE_AT) != series.done_at)
            {
                break;
            }
            if series.checked[1] >= pause_at && series.rule.is_held() {
                pause_at += 20;
                let began = monotonic_ns();
                while !series.note_timer() {
                    assert!(monotonic_ns() - began < LIMIT_NS, "{}", series.of());
                }
            }
        }
        for (sum, one) in checked.iter_mut().zip(series.checked) {
            *sum += one;
        }
    }
    println!("data, held back, in bulk, let go, times that could not pass, answers: {checked:?}");
}
