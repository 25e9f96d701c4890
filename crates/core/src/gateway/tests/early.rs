// SPDX-License-Identifier: Apache-2.0
//! Early set-up, arrow by arrow, both orders.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Options, SackBlocks, Segment, SeqNum, Timestamps};

use crate::testing::{Bytes, FH, MH, Packet, direction_of};
use crate::{
    Action, Actions, Direction, FlowRecord, Gateway, MtcpSetUp, MtcpSettings, Scheme, Settings,
    Verdict,
};

mod held;
mod leaving;

const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);
const OPENER: u32 = 1000;
const OTHER: u32 = 900_000;

fn settings() -> Settings {
    Settings {
        scheme: Scheme::Mtcp,
        mtcp: MtcpSettings {
            set_up: MtcpSetUp::Early,
            slow_start: false,
            ..MtcpSettings::default()
        },
        hash_seed: 0x5eed,
        ..Settings::default()
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(1000 + ms)
}

/// The gateway between the opener, which sends the SYN, and the other end.
struct Bench {
    gateway: Gateway<Packet>,
    /// The direction of the opener's segments.
    direction: Direction,
    records: Vec<FlowRecord>,
}

impl Bench {
    fn new(direction: Direction) -> Self {
        Self {
            gateway: Gateway::new(settings()),
            direction,
            records: Vec::new(),
        }
    }

    /// A segment by the opener, or by the other end.
    fn segment(&self, by_opener: bool, flags: Flags, seq: SeqNum, ack: SeqNum) -> Segment {
        let direction = if by_opener {
            self.direction
        } else {
            self.direction.back()
        };
        let (from, to) = match direction {
            Direction::Downlink => (FH, MH),
            Direction::Uplink => (MH, FH),
        };
        Segment {
            from,
            to,
            seq,
            ack,
            flags,
            window: 1000,
            options: Options::default(),
            payload_len: 0,
        }
    }

    fn give(&mut self, segment: Segment, bytes: &[u8], ms: u64) -> Vec<Packet> {
        let segment = Segment {
            payload_len: bytes.len() as u32,
            ..segment
        };
        let packet = Packet::new(segment, bytes, 1000);
        let direction = direction_of(&segment);
        let mut actions = Vec::new();
        let gateway = &mut self.gateway;
        let verdict = gateway.handle_segment(direction, &segment, &packet, at(ms), &mut actions);
        let mut out = Vec::from_iter(packet.judged(verdict));
        out.extend(self.sent(actions));
        out
    }

    fn sent(&mut self, actions: Actions<Packet>) -> Vec<Packet> {
        let mut out = Vec::new();
        for action in actions {
            match action {
                Action::Resend(piece) => out.push(Packet::of_resend(&piece)),
                Action::Send(made) => out.push(Packet::of_made(&made)),
                Action::Repeat(packet) => out.push(packet),
                Action::Notify(_) => {}
                Action::Record(record) => {
                    self.records.retain(|old| old.key != record.key);
                    self.records.extend((!record.gone).then_some(record));
                }
            }
        }
        out
    }

    fn wait(&mut self, ms: u64) -> Vec<Packet> {
        let mut out = Vec::new();
        while let Some(due) = self.gateway.poll_timeout().filter(|due| *due <= at(ms)) {
            let mut actions = Vec::new();
            self.gateway.handle_timeout(due, &mut actions);
            out.extend(self.sent(actions));
        }
        out
    }

    fn syn(&self) -> Segment {
        // Asks for ECN, as many do.
        let flags = Flags(Flags::SYN.0 | 0xc0);
        let mut syn = self.segment(true, flags, SeqNum::new(OPENER), SeqNum::default());
        syn.options = Options {
            mss: Some(1460),
            window_scale: Some(9),
            sack_permitted: true,
            timestamps: Some(Timestamps { tsval: 5, tsecr: 0 }),
            ..Options::default()
        };
        syn
    }

    /// The opener's SYN; the number in the answer.
    fn open(&mut self) -> SeqNum {
        let syn = self.syn();
        let out = self.give(syn, &[], 0);
        assert_eq!(out.len(), 1, "{out:?}");
        out[0].segment.seq
    }

    /// As far as the SYN for the other end.
    fn ask(&mut self) -> SeqNum {
        let iss = self.open();
        let ack = self.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 1);
        let out = self.give(ack, &[], 10);
        assert_eq!(out.len(), 1, "{out:?}");
        assert_eq!(out[0].segment.flags, Flags::SYN);
        iss
    }

    fn answer(&self) -> Segment {
        let mut answer = self.segment(false, SYN_ACK, SeqNum::new(OTHER), SeqNum::new(OPENER + 1));
        answer.options = Options {
            mss: Some(1400),
            window_scale: Some(3),
            sack_permitted: true,
            ..Options::default()
        };
        answer
    }

    /// Both halves are there; the number that the opener knows the other end by.
    fn connect(&mut self) -> SeqNum {
        let iss = self.ask();
        let answer = self.answer();
        let out = self.give(answer, &[], 20);
        assert_eq!(out.len(), 1, "the ACK that was held: {out:?}");
        let ack = &out[0].segment;
        assert_eq!((ack.flags, ack.ack), (Flags::ACK, SeqNum::new(OTHER + 1)));
        assert_eq!(ack.seq, SeqNum::new(OPENER + 1));
        iss
    }
}

const BOTH: [Direction; 2] = [Direction::Downlink, Direction::Uplink];

#[test]
fn a_syn_is_answered_in_the_other_ends_name_without_timestamps_and_goes_no_further() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let syn = bench.syn();
        let out = bench.give(syn, &[], 0);
        assert_eq!(out.len(), 1, "{out:?}");
        let answer = &out[0].segment;
        assert_eq!((answer.from, answer.to), (syn.to, syn.from));
        assert_eq!((answer.flags, answer.ack), (SYN_ACK, syn.seq + 1));
        let options = &answer.options;
        assert_eq!((options.mss, options.window_scale), (Some(1360), Some(7)));
        assert!(options.sack_permitted && options.timestamps.is_none());
        // Once more, the same answer.
        assert_eq!(bench.give(syn, &[], 5)[0], out[0]);
    }
}

#[test]
fn when_a_set_up_has_begun_nothing_is_due_yet() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        bench.open();
        let due = bench.gateway.poll_timeout();
        assert!(due.is_some_and(|due| due > at(0)), "{due:?}");
    }
}

#[test]
fn the_openers_own_syn_goes_to_the_other_end_when_the_opener_has_acknowledged_ours() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.open();
        let wrong = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 2);
        // It may be of a connection that the gateway does not know: the other end judges it.
        let out = bench.give(wrong, &[], 1);
        assert_eq!(out.len(), 1, "{out:?}");
        assert_eq!(out[0].segment, wrong);
        let ack = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 1);
        let out = bench.give(ack, &[], 2);
        let mut expected = bench.syn();
        expected.options.timestamps = None;
        expected.flags = Flags::SYN;
        assert_eq!(out[0].segment, expected);
        assert!(bench.give(ack, &[], 3).is_empty(), "sent once");
    }
}

#[test]
fn numbers_windows_and_blocks_are_translated_in_both_directions() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.connect();
        let mut from_other = bench.segment(
            false,
            Flags::ACK,
            SeqNum::new(OTHER + 1),
            SeqNum::new(OPENER + 1),
        );
        from_other.window = 2000;
        let out = bench.give(from_other, b"hello", 30);
        let got = &out.last().unwrap().segment;
        assert_eq!(got.seq, iss + 1, "{direction:?}");
        assert_eq!(
            u32::from(got.window) << 7,
            2000 << 3 >> 7 << 7,
            "{direction:?}"
        );
        let mut from_opener = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 1);
        let mut sack = SackBlocks::default();
        sack.push(iss + 3, iss + 6);
        from_opener.options.sack = sack;
        let out = bench.give(from_opener, &[], 40);
        let got = &out.last().unwrap().segment;
        assert_eq!(got.ack, SeqNum::new(OTHER + 1), "{direction:?}");
        let blocks: Vec<_> = got.options.sack.iter().collect();
        assert_eq!(blocks, [(SeqNum::new(OTHER + 3), SeqNum::new(OTHER + 6))]);
        assert_eq!(got.window, 1000, "the opener's own scale");
        // A RST names the number that its receiver expects.
        let reset = bench.segment(false, Flags::RST, SeqNum::new(OTHER + 6), SeqNum::default());
        let out = bench.give(reset, &[], 50);
        assert_eq!(out[0].segment.seq, iss + 6);
        assert!(bench.records.is_empty(), "{:?}", bench.records);
    }
}

#[test]
fn data_that_comes_before_the_other_half_is_set_up_is_queued_and_not_acknowledged() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.ask();
        let data = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 1);
        assert!(bench.give(data, b"request", 11).is_empty());
        assert!(bench.give(data, b"request", 12).is_empty(), "retransmitted");
        let answer = bench.answer();
        let out = bench.give(answer, &[], 20);
        assert_eq!(out.len(), 2, "the ACK and the data once: {out:?}");
        assert_eq!(&out[1].bytes[..], b"request");
        assert_eq!(out[1].segment.ack, SeqNum::new(OTHER + 1));
    }
}

#[test]
fn if_the_other_end_refuses_the_opener_is_reset_and_so_are_its_later_segments() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.ask();
        let stray = bench.segment(
            false,
            Flags::RST.with(Flags::ACK),
            SeqNum::default(),
            SeqNum::new(OPENER + 2),
        );
        assert!(bench.give(stray, &[], 11).is_empty(), "forged");
        let reset = Segment {
            ack: SeqNum::new(OPENER + 1),
            ..stray
        };
        let out = bench.give(reset, &[], 12);
        assert_eq!(out.len(), 1);
        assert!(out[0].segment.flags.has(Flags::RST));
        assert_eq!(out[0].segment.seq, iss + 1);
        let data = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 1);
        let out = bench.give(data, b"x", 20);
        assert!(out[0].segment.flags.has(Flags::RST));
        // It may begin anew.
        assert_eq!(bench.open().get(), iss.get(), "of the same moment");
    }
}

#[test]
fn a_newcomer_to_a_full_table_evicts_no_flow_whose_opener_is_still_to_be_reset() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        bench.gateway = Gateway::new(Settings {
            flows_max: 1,
            ..settings()
        });
        let iss = bench.ask();
        let mut reset = bench.answer();
        reset.flags = Flags::RST.with(Flags::ACK);
        assert_eq!(bench.give(reset, &[], 12).len(), 1);
        let mut newcomer = bench.syn();
        newcomer.from.port += 1;
        let out = bench.give(newcomer, &[], 15);
        assert_eq!(out[0].segment, newcomer, "it passes");
        let data = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 1);
        let out = bench.give(data, b"x", 20);
        assert!(out[0].segment.flags.has(Flags::RST), "{out:?}");
    }
}

#[test]
fn if_the_other_ends_number_is_too_near_both_ends_are_reset() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.ask();
        let mut answer = bench.answer();
        answer.seq = iss + (1 << 22);
        let out = bench.give(answer, &[], 20);
        assert_eq!(out.len(), 2);
        assert!(out.iter().all(|it| it.segment.flags.has(Flags::RST)));
        assert_eq!(out[0].segment.to, answer.from);
        assert_eq!(
            (out[1].segment.to, out[1].segment.seq),
            (answer.to, iss + 1)
        );
    }
}

#[test]
fn a_silent_other_end_gets_four_syns_and_then_the_opener_is_reset() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.ask();
        let out = bench.wait(29_000);
        let (resets, syns): (Vec<_>, Vec<_>) = out
            .iter()
            .partition(|packet| packet.segment.flags.has(Flags::RST));
        assert_eq!(syns.len(), 3, "{syns:?}");
        assert!(syns.iter().all(|syn| syn.segment.flags == Flags::SYN));
        assert_eq!(resets.len(), 1);
        assert_eq!(resets[0].segment.seq, iss + 1);
    }
}

#[test]
fn an_opener_that_vanishes_gets_the_syn_ack_again_and_is_then_forgotten() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        bench.open();
        let out = bench.wait(40_000);
        assert_eq!(out.len(), 3, "{out:?}");
        assert!(out.iter().all(|packet| packet.segment.flags == SYN_ACK));
    }
}

#[test]
fn an_opener_that_gives_up_during_the_set_up_resets_the_other_end_too() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        bench.ask();
        let far = bench.segment(
            true,
            Flags::RST,
            SeqNum::new(OPENER + 77),
            SeqNum::default(),
        );
        assert!(bench.give(far, &[], 11).is_empty(), "forged");
        let reset = bench.segment(true, Flags::RST, SeqNum::new(OPENER + 1), SeqNum::default());
        let out = bench.give(reset, &[], 12);
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].segment.to, bench.answer().from);
        assert_eq!(out[0].segment.seq, SeqNum::new(OPENER + 1));
    }
}

#[test]
fn an_opener_that_resets_the_answer_at_once_gets_nothing_more() {
    for direction in BOTH {
        for (seq, repeated) in [(OPENER + 1, 0), (OPENER, 3), (OPENER + 2, 3)] {
            let mut bench = Bench::new(direction);
            bench.open();
            let reset = bench.segment(true, Flags::RST, SeqNum::new(seq), SeqNum::default());
            assert!(bench.give(reset, &[], 10).is_empty());
            let out = bench.wait(40_000);
            assert_eq!(out.len(), repeated, "{direction:?}, {seq}: {out:?}");
        }
    }
}

#[test]
fn an_end_without_scale_and_sack_gets_windows_and_acks_that_it_understands() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.ask();
        let mut answer = bench.answer();
        answer.options = Options {
            mss: Some(536),
            ..Options::default()
        };
        let _ = bench.give(answer, &[], 20);
        let mut from_opener = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 1);
        from_opener.window = 100;
        from_opener.options.sack.push(iss + 3, iss + 6);
        let out = bench.give(from_opener, &[], 30);
        let got = &out.last().unwrap().segment;
        assert_eq!(got.window, 100 << 9, "{direction:?}");
        assert!(got.options.sack.is_empty());
        let mut from_other = bench.segment(
            false,
            Flags::ACK,
            SeqNum::new(OTHER + 1),
            SeqNum::new(OPENER + 1),
        );
        from_other.window = 65_535;
        let out = bench.give(from_other, &[], 40);
        let got = &out.last().unwrap().segment;
        assert_eq!(got.window, (65_535_u32 >> 7) as u16);
    }
}

#[test]
fn a_successor_continues_with_the_numbers_in_the_state_file() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.connect();
        assert_eq!(bench.records.len(), 1);
        let record = bench.records[0];
        let bytes = record.to_bytes();
        assert_eq!(FlowRecord::from_bytes(&bytes), Some(record));
        bench.gateway = Gateway::new(Settings::default());
        bench.gateway.import(&record, at(25));
        let from_other = bench.segment(
            false,
            Flags::ACK,
            SeqNum::new(OTHER + 1),
            SeqNum::new(OPENER + 1),
        );
        let out = bench.give(from_other, b"hello", 30);
        assert_eq!(out.last().unwrap().segment.seq, iss + 1, "{direction:?}");
        let from_opener = bench.segment(true, Flags::ACK, SeqNum::new(OPENER + 1), iss + 6);
        let out = bench.give(from_opener, &[], 40);
        assert_eq!(out.last().unwrap().segment.ack, SeqNum::new(OTHER + 6));
    }
}

/// The other end is away, and the records of the predecessor are forgotten meanwhile.
#[test]
fn a_successor_keeps_the_numbers_of_a_connection_of_which_it_sees_one_end_alone() {
    const MINUTE_MS: u64 = 60_000;
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.connect();
        let record = bench.records[0];
        bench.gateway = Gateway::new(Settings::default());
        bench.gateway.import(&record, at(25));
        for ms in [120 * MINUTE_MS, 130 * MINUTE_MS] {
            bench.wait(ms);
            let from_other = bench.segment(
                false,
                Flags::ACK,
                SeqNum::new(OTHER + 1),
                SeqNum::new(OPENER + 1),
            );
            let out = bench.give(from_other, b"hello", ms);
            let seq = out.last().unwrap().segment.seq;
            assert_eq!(seq, iss + 1, "{direction:?}, {ms} ms");
        }
    }
}

/// As of a caller that cannot make packets from others.
#[test]
fn a_segment_that_cannot_be_renumbered_is_dropped_and_counted() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.connect();
        let mut gateway = Gateway::<Bytes>::new(settings());
        gateway.import(&bench.records[0], at(25));
        let of_other = (SeqNum::new(OTHER + 1), SeqNum::new(OPENER + 1));
        let of_opener = (SeqNum::new(OPENER + 1), iss + 1);
        for (lost, by_opener) in [(1, false), (2, true)] {
            let (seq, ack) = if by_opener { of_opener } else { of_other };
            let segment = bench.segment(by_opener, Flags::ACK, seq, ack);
            let mut actions = Vec::new();
            let way = direction_of(&segment);
            let payload = Bytes([].into());
            let verdict = gateway.handle_segment(way, &segment, &payload, at(30), &mut actions);
            assert_eq!(verdict, Verdict::Suppress);
            let repeated = |action: &Action<Bytes>| matches!(action, Action::Repeat(_));
            assert!(!actions.iter().any(repeated), "{actions:?}");
            let mut counters = gateway.counters();
            let counted = counters.find(|counter| counter.0 == "early_lost");
            assert_eq!(counted, Some(("early_lost", lost)), "{direction:?}");
        }
    }
}

#[test]
fn what_cannot_be_set_up_early_passes_as_it_came() {
    let mut bench = Bench::new(Direction::Downlink);
    let mut syn = bench.syn();
    syn.options.others = true;
    assert_eq!(bench.give(syn, &[], 0)[0].segment, syn, "MPTCP, TFO");
    let mut full = Bench::new(Direction::Downlink);
    full.gateway = Gateway::new(Settings {
        flows_max: 0,
        ..settings()
    });
    let syn = full.syn();
    assert_eq!(full.give(syn, &[], 0)[0].segment, syn, "the table is full");
}

#[test]
fn a_late_or_forged_syn_does_not_change_the_numbers() {
    for direction in BOTH {
        for is_imported in [false, true] {
            let mut bench = Bench::new(direction);
            let iss = bench.connect();
            if is_imported {
                let record = bench.records[0];
                bench.gateway = Gateway::new(settings());
                bench.gateway.import(&record, at(25));
            }
            for (by_opener, seq) in [(true, OPENER), (true, 77), (false, 78)] {
                let syn = bench.segment(by_opener, Flags::SYN, SeqNum::new(seq), SeqNum::default());
                let out = bench.give(syn, &[], 30);
                assert_eq!(out.len(), 1, "the end judges it: {out:?}");
                assert_eq!(out[0].segment.flags, Flags::SYN);
            }
            let from_other = bench.segment(
                false,
                Flags::ACK,
                SeqNum::new(OTHER + 1),
                SeqNum::new(OPENER + 1),
            );
            let out = bench.give(from_other, b"hello", 40);
            assert_eq!(out.last().unwrap().segment.seq, iss + 1, "{direction:?}");
        }
    }
}

#[test]
fn a_syn_with_another_number_gets_a_challenge_ack_once_the_opener_is_connected() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        let iss = bench.ask();
        let forged = bench.segment(true, Flags::SYN, SeqNum::new(5), SeqNum::default());
        let out = bench.give(forged, &[], 11);
        assert_eq!(out.len(), 1);
        let challenge = &out[0].segment;
        assert_eq!((challenge.flags, challenge.seq), (Flags::ACK, iss + 1));
        assert_eq!(challenge.ack, SeqNum::new(OPENER + 1));
        let answer = bench.answer();
        assert_eq!(bench.give(answer, &[], 20).len(), 1, "it goes on");
    }
}

#[test]
fn an_other_end_in_an_older_connection_is_reset_and_gets_the_syn_again() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        bench.ask();
        let old = bench.segment(false, Flags::ACK, SeqNum::new(50), SeqNum::new(60));
        let out = bench.give(old, &[], 11);
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].segment.flags, Flags::RST);
        assert_eq!(out[0].segment.seq, SeqNum::new(60));
        let out = bench.wait(1_100);
        assert!(out.iter().any(|packet| packet.segment.flags == Flags::SYN));
    }
}

#[test]
fn a_forged_syn_into_an_unknown_connection_ends_with_the_other_ends_next_segment() {
    for direction in BOTH {
        let mut bench = Bench::new(direction);
        bench.open();
        let next = bench.segment(false, Flags::ACK, SeqNum::new(50), SeqNum::new(60));
        assert_eq!(bench.give(next, b"data", 5)[0].segment.seq, next.seq);
        let next = bench.segment(true, Flags::ACK, SeqNum::new(60), SeqNum::new(54));
        assert_eq!(bench.give(next, &[], 6)[0].segment.seq, next.seq);
    }
}

/// As of a caller that cannot make packets from others.
#[test]
fn a_syn_that_cannot_be_answered_goes_on_as_it_came() {
    for direction in BOTH {
        let mut gateway = Gateway::<Bytes>::new(settings());
        let syn = Bench::new(direction).syn();
        let payload = Bytes([].into());
        let mut actions = Vec::new();
        let verdict = gateway.handle_segment(direction, &syn, &payload, at(0), &mut actions);
        assert_eq!(verdict, Verdict::Forward);
        assert!(actions.is_empty(), "{actions:?}");
    }
}
