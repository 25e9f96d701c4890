// SPDX-License-Identifier: Apache-2.0
//! M-TCP at the supervisor host: every arrow of the paper's figures 4 (SH-TCP) and 5
//! (M-TCP), and the two halves' timers.
//!
//! Without slow start unless a test is about it, so that segments pass as they come.

use super::bench::{Bench, WINDOW, bench_with, settings};
use crate::{BandwidthSettings, MtcpSettings, Scheme, Settings, Verdict};

mod closed_late;
mod invariants;
mod m_tcp;
mod pace;
mod paused_reader;
mod saved_byte;
mod sh_tcp;
mod uploads;

/// As long as no round trip was measured (RFC 6298, 2.1).
const RTO_INITIAL_MS: u64 = 1000;

fn with(mtcp: MtcpSettings) -> Settings {
    Settings {
        mtcp,
        ..settings(Scheme::Mtcp)
    }
}

fn unpaced() -> MtcpSettings {
    MtcpSettings {
        slow_start: false,
        ..MtcpSettings::published()
    }
}

/// Without slow start, in one cell.
fn in_cell(bytes_per_s: u64) -> Settings {
    Settings {
        bandwidth: BandwidthSettings::one_cell(Some(bytes_per_s)),
        ..with(unpaced())
    }
}

fn mtcp() -> Bench {
    bench_with(with(unpaced()))
}

/// The MH sends this ACK. Returns the number and the window that the FH receives.
fn ack_at_fh(bench: &mut Bench, ack: u32) -> (u32, u16) {
    let (verdict, lines) = bench.judge(bench.mh_segment(ack));
    assert_eq!(lines, [] as [&str; 0]);
    match verdict {
        Verdict::Forward => (ack, WINDOW),
        Verdict::ForwardWithAck { ack, window } => (ack.get(), window),
        other => panic!("{other:?}"),
    }
}

fn ack_line(ack: u32, window: u32, tsecr: u32, bench: &Bench) -> String {
    let tsval = bench.mh_clock_newest;
    format!("ACK {ack} wnd {window} seq 5001 ts {tsval},{tsecr}")
}

fn counts(lines: &[String], what: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(what)).count()
}

/// Three segments in flight. The MH has acknowledged the first and then sends nothing more.
/// 1000 ms: the only round trip that was measured is 0.
fn one_of_three_acknowledged() -> Bench {
    let mut bench = mtcp();
    bench.forward(1, 3);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    bench
}

/// The same with link down.
fn shrunk() -> Bench {
    let mut bench = one_of_three_acknowledged();
    let lines = bench.link_down();
    assert_eq!(lines, [ack_line(1001, 0, 1000, &bench)]);
    assert_eq!(bench.state(), "shrunk");
    bench
}
