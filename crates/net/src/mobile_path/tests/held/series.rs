// SPDX-License-Identifier: Apache-2.0
//! The kernel's program and `holdfast_core`'s rule get the same series of events. Data of the FH: in order, with gaps,
//! retransmitted, in super-segments. ACKs of the MH: pure, with data, with SACK blocks, late. Orders lapse; flows pause.
//!
//! The kernel's clock cannot be set. So the rule gets each event's time and round trip from the program's record, and
//! time passes by setting the record's times back.
//!
//! The seeds are 1 to 90; the test with the timer takes more if necessary. `HOLDFAST_SEED=N` chooses one. A failure
//! prints its seed.

use holdfast_core::mobile_host::withheld::{
    ANSWER, AckAndWindow, FhData, MhSegment, WithheldSegment,
};

use super::*;

const STEPS: usize = 700;
/// Offsets of times in `struct state` and `struct withheld`.
const STATE_TIMES: [usize; 6] = [24, 32, 64, 104, 112, 120];
const WITHHELD_TIMES: [usize; 11] = [32, 48, 56, 64, 96, 104, 128, 144, 152, 168, 176];
const EGRESS_AT: usize = 64;
const INGRESS_AT: usize = 104;
const RTT: usize = 128;
const SRTT: usize = 136;
const EPOCH_AT: usize = 32;
const DONE_AT: usize = 104;
const RELEASED: usize = 112;
const WITHHELD_AT: usize = 96;
const ARMED: usize = 120;
const SCALE: u8 = 7;
/// Series with the timer at most. Forty are usually enough.
const SERIES_MAX: u64 = 2_000;
/// Releases by the timer that are enough: each one was compared with the rule.
const RELEASES: u32 = 20;
/// Series in which the kernel has no memory for the timer. From Linux 6.18 on a lock that another holds is enough.
const WITHOUT_TIMER_MAX: u32 = 5;
const UPTIME_LEFT_NS: u64 = 30_000_000_000;
const AHEAD_BYTES_MAX: u32 = 30_000;

struct Series<'a> {
    loaded: &'a Loaded,
    seed: u64,
    rng: TestRng,
    key: FlowKey,
    rule: WithheldSegment,
    /// The time that has passed beyond the kernel's clock, in nanoseconds.
    later: u64,
    began_ns: u64,
    /// The FH's next sequence number, the end of what arrived without a gap, and the gap's start.
    next: u32,
    received: u32,
    missing: Option<u32>,
    acked: u32,
    snd_nxt: u32,
    round_trip_ms: u32,
    window: u16,
    ordered: bool,
    /// What the daemon has released since the MH's last segment.
    released: Option<SeqNum>,
    /// The program's own timer releases too; when the rule last followed it.
    has_timer: bool,
    done_at: u64,
    /// The timer's release began before the last segment and ended after it: the rule has no such order.
    is_over: bool,
    /// The kernel had no memory for the timer at that moment, so the program withheld nothing. The series ends.
    had_no_timer: bool,
    /// The MH's next segment is a request; the data before it end with PSH.
    requests: bool,
    answer_at: Instant,
    checked: [u32; 6],
}

impl<'a> Series<'a> {
    fn new(loaded: &'a Loaded, seed: u64) -> Self {
        let key = flow(seed.is_multiple_of(2), 20_000 + seed as u16);
        // Sequence numbers wrap around.
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
            released: None,
            has_timer: false,
            done_at: 0,
            is_over: false,
            had_no_timer: false,
            requests: false,
            answer_at: Instant::ZERO,
            checked: [0; 6],
        }
    }

    fn context(&self) -> String {
        let [data, held, bulk, ..] = self.checked;
        format!(
            "seed {}, after {data} data, {held} withheld, {bulk} in bulk",
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

    /// Lets time pass without an event.
    fn pass_time(&mut self, time: Duration) {
        let nanos = time.as_nanos() as u64;
        // A machine that has just started has no times so old.
        if self.later + nanos + UPTIME_LEFT_NS > self.began_ns {
            self.checked[4] += 1;
            return;
        }
        let set_back = |value: &mut [u8], times: &[usize]| {
            for at in times {
                let long = u64_at(value, *at);
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

    /// The MH's timestamp clock.
    fn ms(&self) -> u32 {
        ((monotonic_ns() + self.later) / 1_000_000) as u32
    }

    /// The first answer has become a download.
    fn begin_download(&mut self) {
        self.data();
        self.ack();
        self.pass_time(ANSWER);
    }

    /// The FH's data end with PSH, the MH sends a request, and 2/8 to 13/8 of a round trip pass.
    fn request(&mut self) {
        self.requests = true;
        self.data();
        self.ack();
        self.requests = false;
        let eighths = 2 + self.rng.below(12) as u32;
        let round_trip = Duration::from_millis(u64::from(self.round_trip_ms));
        self.pass_time(round_trip / 8 * eighths);
    }

    /// The FH sends data to the program and to the rule.
    fn data(&mut self) {
        if self.received.wrapping_sub(self.acked) > AHEAD_BYTES_MAX {
            return self.ack();
        }
        // The kernel runs programs on at most a page of data.
        let count = 1 + self.rng.below(3) as u32;
        let tail = [0, 0, 0, 0, 0, 300][self.rng.below(6)];
        let payload = count * PIECE - tail;
        // The data stay within any window.
        let full = self.next.wrapping_sub(self.received) > AHEAD_BYTES_MAX;
        let seq = match (self.rng.below(60), self.missing) {
            // The missing segment, one that has arrived before, one after a gap.
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
        let push = self.requests || self.rng.below(30) == 0;
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
        let before = u64_at(&before, INGRESS_AT);
        assert_ne!(
            u64_at(&self.state(), INGRESS_AT),
            before,
            "{}: implausible",
            self.context()
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
        let data = FhData {
            seq: SeqNum::new(seq),
            len: payload,
            segment_bytes: if segment_bytes == 0 {
                payload
            } else {
                segment_bytes
            },
            push,
        };
        let rtt = Some(u64_at(&state, RTT)).filter(|rtt| *rtt != 0);
        let now = self.at(u64_at(&state, INGRESS_AT));
        self.rule
            .handle_fh_data(&data, rtt.map(Duration::from_nanos), now);
        self.checked[0] += 1;
        self.compare();
    }

    /// The MH sends a segment through the program and the rule.
    fn ack(&mut self) {
        let late = self.rng.below(40) == 0 && !self.requests;
        let has_payload = (self.requests || self.rng.below(12) == 0) && !late;
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
        let now = self.at(u64_at(&self.state(), EGRESS_AT));
        if self
            .withheld()
            .is_none_or(|value| self.has_released(&value))
        {
            return;
        }
        // The program releases with the MH's next segment, too.
        if let Some(released) = self.released.take() {
            self.rule.release(released, now);
        }
        let segment = MhSegment {
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
        if self.has_timer && is == own && expected != own && self.has_no_timer() {
            (self.is_over, self.had_no_timer) = (true, true);
            return;
        }
        assert_eq!(is, expected, "{}: {spec:?}", self.context());
        self.checked[1] += u32::from(is != own);
        self.compare();
    }

    fn compare(&mut self) {
        let context = self.context();
        let value = self.withheld().expect("data have come");
        if self.has_released(&value) {
            return;
        }
        let known = withheld_segments::read(&value);
        assert_eq!(
            known.download.boundaries,
            self.rule.boundaries(),
            "{context}"
        );
        let answer_at = self.at(u64_at(&value, ANSWER_AT));
        assert_eq!(answer_at, self.rule.answer_at(), "{context}");
        self.checked[5] += u32::from(answer_at != self.answer_at);
        self.answer_at = answer_at;
        let bulk = u32::from_ne_bytes(*value[BULK..].first_chunk().unwrap()) != 0;
        assert_eq!(bulk, self.rule.is_bulk(), "{context}");
        assert_eq!(known.download.segments, self.rule.segments(), "{context}");
        assert_eq!(
            known.is_withholding(),
            self.rule.is_withholding(),
            "{context}"
        );
        self.checked[2] += u32::from(bulk);
    }

    fn srtt(&self) -> Option<Duration> {
        let srtt = u64_at(&self.state(), SRTT);
        (srtt != 0).then(|| Duration::from_nanos(srtt))
    }

    /// Without timers in the programs: the daemon detects that the flow pauses, and releases.
    fn detect_pause(&mut self) {
        let maps = &self.loaded.maps;
        let now = monotonic_ns();
        let pausing = maps.pausing(Instant::from_nanos(now)).unwrap();
        let pauses = pausing.iter().any(|noted| noted.flow.key == self.key);
        let srtt = self.srtt();
        let due = self
            .rule
            .poll_timeout(srtt)
            .is_some_and(|at| at <= self.at(now));
        assert_eq!(pauses, due, "{}", self.context());
        if pauses && self.released.is_none() {
            let own = maps.flow(&self.key).unwrap().unwrap().flow.rcv_nxt;
            maps.release(&self.key, own).unwrap();
            self.released = Some(own);
            self.checked[3] += 1;
        }
    }

    /// The program's timer has released. Whether before or after the last segment is not known, so the
    /// series ends.
    fn has_released(&self, withheld: &[u8]) -> bool {
        self.has_timer && u64_at(withheld, DONE_AT) != self.done_at
    }

    /// What the program leaves if it could not start its timer.
    fn has_no_timer(&self) -> bool {
        let value = self.withheld().expect("data have come");
        let armed = u32::from_ne_bytes(*value[ARMED..].first_chunk().unwrap());
        armed == 0 && u64_at(&value, WITHHELD_AT) == 0
    }

    /// Compares with the rule if the program's timer has released. True if it has.
    fn note_timer(&mut self) -> bool {
        let Some(value) = self.withheld() else {
            return false;
        };
        let done_at = u64_at(&value, DONE_AT);
        if done_at == self.done_at {
            return false;
        }
        self.done_at = done_at;
        let (state, released_at) = (self.state(), u64_at(&value, EPOCH_AT));
        if released_at <= u64_at(&state, INGRESS_AT).max(u64_at(&state, EGRESS_AT)) {
            self.is_over = true;
            return true;
        }
        let now = self.at(released_at);
        let released = SeqNum::new(u32::from_ne_bytes(
            *value[RELEASED..].first_chunk().unwrap(),
        ));
        let expected = self.rule.handle_timeout(self.srtt(), now);
        assert_eq!(expected, Some(released), "{}", self.context());
        self.checked[3] += 1;
        true
    }
}

fn u64_at(value: &[u8], at: usize) -> u64 {
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

/// Series with any times; the daemon detects pauses.
#[test]
fn program_and_rule_withhold_the_same_in_a_series_of_events() {
    if !available_or_skip("program_and_rule_withhold_the_same_in_a_series_of_events") {
        return;
    }
    let programs = load_withholding(&interface(), FLOWS, false).unwrap();
    let maps = FlowMaps::of(&programs, &interface()).unwrap();
    let loaded = Loaded { programs, maps };
    let mut checked = [0; 6];
    for seed in seeds(90) {
        let mut series = Series::new(&loaded, seed);
        // A round trip has many segments, few, or very few.
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
            let pauses = us > 90_000 && series.rule.is_withholding();
            match series.rng.below(8) {
                number if pauses || number == 0 && series.withheld().is_some() => {
                    series.detect_pause();
                }
                _ if series.rng.below(250) == 0 => series.request(),
                0..=4 => series.data(),
                _ => series.ack(),
            }
        }
        for (sum, one) in checked.iter_mut().zip(series.checked) {
            *sum += one;
        }
    }
    println!("data, withheld, in bulk, released, times that could not pass, answers: {checked:?}");
    if std::env::var_os("HOLDFAST_SEED").is_none() {
        let [data, held, bulk, released, _, answers] = checked;
        assert!(
            data > 10_000 && held > 400 && bulk > 3_000 && released > 8 && answers > 150,
            "{checked:?}"
        );
    }
}

/// The program's timer releases. Its clock cannot be set: time passes without an event only until the first segment is
/// withheld, which starts the timer.
#[test]
fn programs_timer_and_rule_release_the_same_in_a_series_of_events() {
    let test = "programs_timer_and_rule_release_the_same_in_a_series_of_events";
    let Some(loaded) = wake(test) else {
        return;
    };
    let mut checked = [0; 6];
    let is_enough = |checked: &[u32; 6]| checked[3] >= RELEASES;
    let mut without_timer = 0;
    for seed in seeds(SERIES_MAX) {
        if is_enough(&checked) {
            break;
        }
        let mut series = Series::new(&loaded, seed);
        (series.round_trip_ms, series.has_timer) = (60, true);
        series.begin_download();
        let mut pause_at = 1;
        for _ in 0..STEPS {
            if series.checked[1] == 0 {
                let us = 200 + series.rng.below(50) as u64;
                series.pass_time(Duration::from_micros(us));
            }
            series.note_timer();
            if series.is_over {
                break;
            }
            match series.rng.below(8) {
                0..=4 => series.data(),
                _ => series.ack(),
            }
            let withheld = series.withheld();
            if series.is_over || withheld.is_some_and(|value| series.has_released(&value)) {
                break;
            }
            if series.checked[1] >= pause_at && series.rule.is_withholding() {
                pause_at += 10;
                let began = monotonic_ns();
                while !series.note_timer() {
                    assert!(monotonic_ns() - began < LIMIT_NS, "{}", series.context());
                }
                if series.is_over {
                    break;
                }
            }
        }
        without_timer += u32::from(series.had_no_timer);
        for (sum, one) in checked.iter_mut().zip(series.checked) {
            *sum += one;
        }
    }
    println!("data, withheld, in bulk, released, times that could not pass, answers: {checked:?}");
    assert!(without_timer <= WITHOUT_TIMER_MAX, "{without_timer} series");
    let is_one_series = std::env::var_os("HOLDFAST_SEED").is_some();
    assert!(is_one_series || is_enough(&checked), "{checked:?}");
}
