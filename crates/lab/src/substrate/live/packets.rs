// SPDX-License-Identifier: Apache-2.0
//! The packet files that a run's links write, and the results that are read from them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_net::datapath::monotonic_ns;

use crate::endpoint::PORT;
use crate::handoffs::Journal;
use crate::packet_files::read_segments;
use crate::results::ResultLine;
use crate::scenario::{Conditions, Run};
use crate::substrate::{ExecutionSettings, SubstrateKind, trace_file, trace_parts};
use crate::transfer::Measurement;
use holdfast_files::packet_trace::Passing;

/// The files of a hop: at the device toward the FH, and at the device toward the MH; none: no file.
pub(super) type HopFiles = [Option<PathBuf>; 2];

/// The files of each hop: the wired hop, then the cells. They are in the folder that the user
/// named; if only the costs of moves need them, they are in the run's own folder.
pub(super) fn files(run: &Run, settings: &ExecutionSettings, folder: &Path) -> Vec<HopFiles> {
    let moves = !run.conditions.moves.is_empty();
    let folder = settings.pcap.as_deref().or_else(|| moves.then_some(folder));
    let file = |part: String| Some(trace_file(folder?, run, SubstrateKind::Live, &part));
    trace_parts(run.conditions.cells.len())
        .into_iter()
        .map(|parts| parts.map(file))
        .collect()
}

/// Adds the costs of the moves to a line.
pub(super) fn add_handoffs(
    line: &mut ResultLine,
    conditions: &Conditions,
    measured: &Measurement,
    files: &[HopFiles],
) -> anyhow::Result<()> {
    let journal = journal(conditions, measured, files)?;
    let end_s = line.end_s(conditions, conditions.limit().as_secs_f64());
    line.note_moves(conditions, journal, end_s, measured.buffered_bytes_max);
    Ok(())
}

fn journal(
    conditions: &Conditions,
    measured: &Measurement,
    files: &[HopFiles],
) -> anyhow::Result<Journal> {
    let mut journal = Journal::new(conditions.transfer.direction);
    // The files' times are wall-clock times, the links' times are CLOCK_MONOTONIC.
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let since_origin = Duration::from_nanos(monotonic_ns().saturating_sub(measured.origin_ns));
    let origin = since_1970.saturating_sub(since_origin);
    let ends = files
        .iter()
        .zip(0_usize..)
        .filter_map(|([near, far], hop)| {
            let cell = hop.checked_sub(1);
            let file = if cell.is_none() { near } else { far };
            Some((cell, file.as_ref()?))
        });
    for (cell, file) in ends {
        read_segments(file, |segment| {
            if segment.ports.contains(&PORT) {
                let at_s = segment.at.saturating_sub(origin).as_secs_f64();
                let is_sent = segment.passing == Passing::Outbound;
                journal.record(cell, is_sent, at_s, [segment.seq, segment.len]);
            }
        })?;
    }
    Ok(journal)
}
