// SPDX-License-Identifier: Apache-2.0
//! ACKs of the FH that end within a range that was reported to the MH.

use holdfast_wire::{Flags, SeqNum};

use super::super::bench::{Bench, LEN, passed};
use super::{bench_with_sack, fh_acks, nth, send_all, snoop};

/// Packet 3 is lost; all others up to 6 are named.
fn named_up_to_six() -> Bench {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [0, 1, 2, 4, 5, 6]).len(), 1);
    bench
}

#[test]
fn acks_within_a_named_range_are_withheld_and_its_end_passes() {
    let mut bench = named_up_to_six();
    assert!(!fh_acks(&mut bench, 1, &[]).forwarded);
    assert!(!fh_acks(&mut bench, 2, &[]).forwarded);
    assert_eq!(fh_acks(&mut bench, 3, &[]), passed());
    assert_eq!(
        fh_acks(&mut bench, 3, &[(4, 5)]),
        passed(),
        "a report of its own"
    );
    assert_eq!(fh_acks(&mut bench, 7, &[]), passed());
    assert_eq!(bench.cached(), 0);
}

#[test]
fn a_withheld_ack_is_sent_after_a_while() {
    let mut bench = named_up_to_six();
    assert!(!fh_acks(&mut bench, 1, &[]).forwarded);
    assert!(!fh_acks(&mut bench, 2, &[]).forwarded);
    let sent: Vec<_> = bench.wait(150);
    let plain = sent.iter().filter(|line| !line.contains("sack"));
    let expected = format!("MADE to MH seq 1 ack {} ts {}", nth(2), bench.fh_clock_seen);
    assert_eq!(plain.collect::<Vec<_>>(), [&expected]);
    // From then on the FH's ACKs pass, and there are no reports.
    let more = bench.wait(1000);
    assert!(more.iter().all(|line| line.starts_with("DATA")), "{more:?}");
    assert_eq!(fh_acks(&mut bench, 3, &[]), passed());
}

#[test]
fn an_ack_with_data_or_an_echo_of_congestion_is_never_withheld() {
    let mut bench = named_up_to_six();
    let mut ack = bench.fh_segment(1, 0);
    (ack.ack, ack.flags) = (SeqNum::new(nth(1)), Flags::ACK.with(Flags::ECE));
    assert_eq!(bench.put(ack), passed());
    let mut bench = named_up_to_six();
    let mut data = bench.fh_segment(1, LEN);
    data.ack = SeqNum::new(nth(1));
    assert_eq!(bench.put(data), passed());
    assert_eq!(fh_acks(&mut bench, 2, &[]), passed(), "nor any after it");
}

#[test]
fn an_ack_of_what_the_mh_never_sent_frees_nothing() {
    let mut bench = named_up_to_six();
    let kept = bench.cached();
    assert_eq!(fh_acks(&mut bench, 60, &[]), passed());
    assert_eq!(bench.cached(), kept);
    // An older ACK brings nothing new.
    assert_eq!(fh_acks(&mut bench, 3, &[]), passed());
    let kept = bench.cached();
    assert_eq!(fh_acks(&mut bench, 1, &[]), passed());
    assert_eq!(bench.cached(), kept);
}
