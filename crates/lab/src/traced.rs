// SPDX-License-Identifier: Apache-2.0
//! The figures of a run's acknowledgements and retransmissions that its packets show, for claims
//! that need them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::packet_files::{FileSegment, read_segments};
use crate::statistics::median;

/// The figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    /// ACKs that reached the FH.
    pub acks: u64,
    /// Those of them with an acknowledgement number that the MH had not sent by then.
    pub acks_not_of_the_mh: u64,
    /// Median time from the first to the second sending of a segment by the MH, in milliseconds;
    /// none: the MH retransmitted nothing.
    pub sent_again_ms: Option<f64>,
}

/// Reads the packet files in a run's folder.
///
/// # Errors
/// A file is not there, or cannot be read.
pub fn read_folder(folder: &Path) -> anyhow::Result<Traced> {
    let segments = |end: &str| read(&file(folder, end)?);
    Ok(facts(&segments("at-mh")?, &segments("at-fh")?))
}

fn file(folder: &Path, end: &str) -> anyhow::Result<PathBuf> {
    let end = format!("-{end}.pcapng");
    let files = std::fs::read_dir(folder).context("the folder for packets cannot be read")?;
    let mut paths = files.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .find(|path| path.to_string_lossy().ends_with(&end))
        .with_context(|| format!("the run wrote no file of packets *{end}"))
}

fn read(path: &Path) -> anyhow::Result<Vec<FileSegment>> {
    let mut segments = Vec::new();
    read_segments(path, |segment| segments.push(segment))?;
    Ok(segments)
}

/// The figures from the segments at the MH's end and at the FH's end. The MH opens the connection.
fn facts(at_mh: &[FileSegment], at_fh: &[FileSegment]) -> Traced {
    let Some(opening) = at_mh.iter().find(|segment| segment.opens) else {
        return Traced::default();
    };
    let is_the_mhs = |segment: &&FileSegment| segment.ports[0] == opening.ports[0];
    let mut acked: BTreeMap<u32, Duration> = BTreeMap::new();
    let mut sent: BTreeMap<u32, (Duration, Option<Duration>)> = BTreeMap::new();
    for segment in at_mh.iter().filter(is_the_mhs) {
        if let Some(ack) = segment.ack {
            acked.entry(ack).or_insert(segment.at);
        }
        if segment.len > 0 {
            let times = sent.entry(segment.seq).or_insert((segment.at, None));
            if times.0 < segment.at {
                times.1.get_or_insert(segment.at);
            }
        }
    }
    let acks = at_fh.iter().filter(is_the_mhs);
    let acks: Vec<(u32, Duration)> = acks
        .filter_map(|segment| Some((segment.ack?, segment.at)))
        .collect();
    let unknown = acks
        .iter()
        .filter(|(ack, at)| acked.get(ack).is_none_or(|since| since > at));
    let again = sent
        .values()
        .filter_map(|(first, again)| Some((*again)?.saturating_sub(*first).as_secs_f64() * 1e3));
    Traced {
        acks: acks.len() as u64,
        acks_not_of_the_mh: unknown.count() as u64,
        sent_again_ms: median(again.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_files::packet_trace::Passing;

    fn segment(at_ms: u64, from_port: u16, seq: u32, ack: u32, len: u32) -> FileSegment {
        FileSegment {
            at: Duration::from_millis(at_ms),
            passing: Passing::Outbound,
            ports: [from_port, 0],
            seq,
            ack: Some(ack),
            len,
            opens: false,
        }
    }

    fn opening() -> FileSegment {
        FileSegment {
            ack: None,
            opens: true,
            ..segment(0, 7, 0, 0, 0)
        }
    }

    #[test]
    fn an_ack_that_the_mh_has_not_sent_yet_is_not_the_mhs() {
        let at_mh = [
            opening(),
            segment(10, 7, 1, 100, 0),
            segment(30, 7, 1, 200, 0),
        ];
        let at_fh = [
            segment(15, 7, 1, 100, 0),
            // The same acknowledgement number again.
            segment(16, 7, 1, 100, 0),
            // Numbers that the MH has not sent yet, or never sends.
            segment(20, 7, 1, 200, 0),
            segment(40, 7, 1, 300, 0),
            // A segment of the FH.
            segment(41, 80, 1, 999, 0),
        ];
        let traced = facts(&at_mh, &at_fh);
        assert_eq!((traced.acks, traced.acks_not_of_the_mh), (4, 2));
    }

    #[test]
    fn the_time_to_the_second_sending_is_that_of_the_segments_that_had_one() {
        let at_mh = [
            opening(),
            segment(10, 7, 1, 1, 100),
            segment(11, 7, 101, 1, 100),
            segment(12, 7, 201, 1, 100),
            segment(30, 7, 101, 1, 100),
            segment(90, 7, 101, 1, 100),
            segment(52, 7, 201, 1, 100),
        ];
        let traced = facts(&at_mh, &[]);
        // The median of 19 and 40 ms.
        assert_eq!(traced.sent_again_ms, Some(29.5));
        assert_eq!(facts(&[], &[]), Traced::default());
    }
}
