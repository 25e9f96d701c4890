// SPDX-License-Identifier: Apache-2.0
//! The files of packets that a run's links write, and what is read from them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::Direction;
use holdfast_net::datapath::monotonic_ns;

use crate::endpoint::pair::PORT;
use crate::handoffs::files::{FileSegment, read_segments};
use crate::handoffs::{HandoffSummary, Journal};
use crate::results::ResultLine;
use crate::scenario::{Conditions, Run};
use crate::substrate::{ExecutionSettings, SubstrateKind, trace_file, trace_parts};
use crate::transfer::Measurement;
use holdfast_files::packet_trace::Passing;

/// Of a hop: the device toward the FH, and the one toward the MH; none: no file.
pub(super) type HopFiles = [Option<PathBuf>; 2];

/// The files of each hop, the wired one first, then the cells: where they are asked for, or
/// in the run's own folder if what a move cost is to be read from them.
pub(super) fn files(run: &Run, settings: &ExecutionSettings, folder: &Path) -> Vec<HopFiles> {
    let moves = !run.conditions.moves.is_empty();
    let folder = settings.pcap.as_deref().or_else(|| moves.then_some(folder));
    let file = |part: String| Some(trace_file(folder?, run, SubstrateKind::Live, &part));
    trace_parts(run.conditions.cells.len())
        .into_iter()
        .map(|parts| parts.map(file))
        .collect()
}

/// Adds what the moves cost to a line.
pub(super) fn add_handoffs(
    line: &mut ResultLine,
    conditions: &Conditions,
    measured: &Measurement,
    files: &[HopFiles],
) -> anyhow::Result<()> {
    let journal = journal(conditions, measured, files)?;
    let begin_s = conditions.start().as_secs_f64();
    let end_s = line
        .transfer_s
        .map_or(conditions.limit().as_secs_f64(), |s| begin_s + s);
    let outages = conditions
        .wireless
        .outages_of(conditions.transfer.direction);
    line.stalls_s = journal.stalls_s(outages, [begin_s, end_s]);
    line.outages = line.stalls_s.len();
    line.handoffs = journal.handoffs(&conditions.moves, [begin_s, end_s]);
    line.handoff = HandoffSummary::of(&line.handoffs, measured.buffered_bytes_max);
    Ok(())
}

fn journal(
    conditions: &Conditions,
    measured: &Measurement,
    files: &[HopFiles],
) -> anyhow::Result<Journal> {
    let mut journal = Journal::default();
    // The files have the wall clock, the links CLOCK_MONOTONIC.
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let since_origin = Duration::from_nanos(monotonic_ns().saturating_sub(measured.origin_ns));
    let origin = since_1970.saturating_sub(since_origin);
    let at_s = |segment: &FileSegment| segment.at.saturating_sub(origin).as_secs_f64();
    let own = |segment: &FileSegment| segment.ports.contains(&PORT);
    let downlink = Direction::from(conditions.transfer.direction) == Direction::Downlink;
    if let Some(Some(at_fh)) = files.first().map(|[at_fh, _]| at_fh) {
        read_segments(at_fh, |segment| match segment.passing {
            _ if !own(&segment) => {}
            Passing::Outbound if downlink => {
                journal.note_sent(at_s(&segment), segment.seq, segment.len);
            }
            Passing::Inbound if !downlink => {
                journal.note_received(at_s(&segment), segment.seq, segment.len);
            }
            _ => {}
        })?;
    }
    for (cell, [_, at_mh]) in files.iter().skip(1).enumerate() {
        let Some(at_mh) = at_mh else { continue };
        read_segments(at_mh, |segment| match segment.passing {
            _ if !own(&segment) => {}
            Passing::Inbound => {
                journal.note_heard(at_s(&segment), cell);
                if downlink {
                    journal.note_received(at_s(&segment), segment.seq, segment.len);
                }
            }
            Passing::Outbound if !downlink => {
                journal.note_sent(at_s(&segment), segment.seq, segment.len);
            }
            Passing::Outbound => {}
        })?;
    }
    Ok(journal)
}
