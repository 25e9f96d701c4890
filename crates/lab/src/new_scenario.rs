// SPDX-License-Identifier: Apache-2.0
//! New scenarios for users: one for a recording of a link's rate, and one without a recording.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use holdfast_files::read_up_to;
use holdfast_link::{Duration, Instant, Trace, TraceFormat};

use crate::scenario::{DirectionChoice, TRACE_BYTES_MAX};

/// The link counts as down after this time without delivery, in seconds.
const GAP_MIN_S: f64 = 0.3;
/// The part of the recording that the transfer is sized for, in seconds.
const PART_MAX_S: f64 = 120.0;
/// The smallest transfer, in bytes.
const BYTES_MIN: u64 = 100_000;
/// The longest limit of a run that a scenario allows, in seconds.
const LIMIT_MAX_S: f64 = 1_000_000.0;
/// The run's limit over the time that the recording needs for the transfer. At low rates TCP
/// retransmits much: the round trip is longer than its first timeouts.
const LIMIT_FACTOR: f64 = 6.0;
/// The shortest interval of the time series in milliseconds, and the largest number of its points.
const INTERVAL_MS: f64 = 100.0;
const POINTS_MAX: f64 = 100_000.0;
/// The rate of the direction that is not recorded, in Mb/s.
const OTHER_RATE: f64 = 10.0;

/// The largest transfer, in bytes: it takes seconds on the model.
const BYTES_MAX: u64 = 50_000_000;

/// A scenario without a recording, ready to run.
pub const PLAIN: &str = "\
# One download over a link with an outage, plain and with two schemes of the gateway.
# Keys and values: docs/lab.md and docs/link-models.md.
description = \"one outage of three seconds\"
seed = 1
repetitions = 5                 # with the seeds 1 to 5
record = [\"cwnd\", \"sequence\", \"queue\", \"link-state\"]    # time series, for `holdfast lab plot`
record_interval_ms = 100

[transfer]
bytes = 5_000_000
direction = \"downlink\"          # or \"uplink\"
limit_s = 120                   # the run ends here at the latest

[wireless]                      # from the gateway to the MH, both directions
rate_mbit_per_s = 10
delay_ms = 25                   # in each direction
loss = 0.001
queue_packets_max = 200
outages = { kind = \"list\", list = [{ at_s = 2, for_s = 3 }] }
outage_effect = \"lose\"          # or \"keep\": the queue survives an outage

[gateway]
signal = \"carrier\"              # what reports outages to it: none, carrier, mobile, both

[hosts]
preset = \"linux-reno\"           # the sender on the model
congestion_control = \"cubic\"    # the sender on linux and live

[[sweep]]
name = \"scheme\"
key = \"gateway.scheme\"
values = [\"none\", \"hold\", \"auto\"]

[[sweep]]
name = \"delay_ms\"
key = \"wireless.delay_ms\"
values = [10, 25, 100]
";

/// A recording that the lab reads.
#[derive(Clone, Debug)]
pub struct Recording {
    path: PathBuf,
    format: TraceFormat,
    trace: Trace,
}

impl Recording {
    /// Reads a recording. The end of its name need not be that of the format.
    ///
    /// # Errors
    /// No format of the lab fits: one line with the file and the remedy.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = read_up_to(path, TRACE_BYTES_MAX).with_context(|| {
            format!("{shown}: cannot be read as text; give a recording as Mahimahi or steps")
        })?;
        let by_name = TraceFormat::of_file_name(&path.to_string_lossy());
        let other = match by_name {
            TraceFormat::Mahimahi => TraceFormat::Steps,
            TraceFormat::Steps => TraceFormat::Mahimahi,
        };
        let parsed = [by_name, other].map(|format| Trace::parse(&text, format));
        let (format, trace) = match parsed {
            [Ok(trace), _] => (by_name, trace),
            [Err(_), Ok(trace)] => (other, trace),
            [Err(error), Err(_)] => {
                return Err(anyhow!(
                    "{shown}: {error}; give a recording as Mahimahi (a whole number of milliseconds a \
                     line, each for 1500 bytes) or as steps (`t_end_s mbit_per_s` a line)"
                ));
            }
        };
        Ok(Self {
            path: path.to_owned(),
            format,
            trace,
        })
    }

    /// The text of a scenario for the path `scenario`: each scheme over this link.
    ///
    /// # Errors
    /// The recording's path is not UTF-8, or cannot be found.
    pub fn scenario(&self, scenario: &Path) -> anyhow::Result<String> {
        let path = self.path_from(scenario)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let (gaps, period_ns) = self.trace.gaps_ns((GAP_MIN_S * 1e9) as u64);
        let period_s = period_ns as f64 / 1e9;
        // The mean over many periods: a single period of a slow link may have no byte.
        let whole_s = period_s * (LIMIT_MAX_S / period_s).ceil();
        let mean = self.bytes_in(whole_s) as f64 * 8.0 / 1e6 / whole_s;
        let part_s = period_s.clamp(1.0, PART_MAX_S);
        let half = self.bytes_in(part_s) / 2;
        let bytes = half.clamp(BYTES_MIN, BYTES_MAX);
        let carried_s = bytes as f64 * 8.0 / 1e6 / mean;
        let limit_s = (3.0 * part_s).max(LIMIT_FACTOR * carried_s);
        let limit_s = limit_s.ceil().clamp(60.0, LIMIT_MAX_S);
        let interval_ms = (limit_s * 1e3 / POINTS_MAX).ceil().max(INTERVAL_MS);
        let size = if half < BYTES_MIN {
            format!("the least; the recording has it in about {carried_s:.0} s")
        } else {
            format!("at most half of what the first {part_s:.0} s of the recording can carry")
        };
        let direction = self.direction();
        let (recorded, other) = match direction {
            DirectionChoice::Downlink => ("downlink", "uplink"),
            DirectionChoice::Uplink => ("uplink", "downlink"),
        };
        let shown = scenario.display();
        let results = scenario.with_extension("jsonl");
        let results = results.display();
        let picture = scenario.with_extension("svg");
        let picture = picture.display();
        let (format, format_line) = (self.format_name(), self.format_line(&path));
        let file = toml::Value::String(path).to_string();
        let outages = if gaps.is_empty() {
            format!("# The recording has no gap of {GAP_MIN_S} s. Outages: docs/link-models.md\n")
        } else {
            format!(
                "outages = {{ kind = \"trace\", file = {file}, gap_min_s = {GAP_MIN_S} }}   # down in gaps of this length\n"
            )
        };
        let description = toml::Value::String(format!("the link of the recording {name}"));
        let gaps = gaps.len();
        Ok(format!(
            "\
# The link of a recording: {name} ({format}, {period_s:.1} s, {mean:.2} Mb/s on average, gaps of
# {GAP_MIN_S} s or more: {gaps}). Keys and values: docs/lab.md and docs/link-models.md.
#
#     holdfast lab run {shown} --out {results}
#     holdfast lab plot {results} --kind series --out {picture}
description = {description}
seed = 1
repetitions = 1                 # more if something is random: loss, jitter, cross traffic
record = [\"cwnd\", \"sequence\", \"queue\", \"link-state\"]    # time series, for `holdfast lab plot`
record_interval_ms = {interval_ms:.0}

[transfer]
bytes = {bytes}               # {size}
direction = \"{recorded}\"
limit_s = {limit_s:.0}                    # the run ends here at the latest

[wireless]
delay_ms = 25                   # in each direction; the recording does not have it
queue_packets_max = 200
outage_effect = \"lose\"          # or \"keep\": the queue survives an outage
{outages}{format_line}# trace_start_s = 60            # enter the recording here; it starts again when it ends

[wireless.{recorded}]
rate_trace = {file}

[wireless.{other}]
rate_mbit_per_s = {OTHER_RATE:.0}            # not recorded; with a recording: rate_trace

[gateway]
signal = \"carrier\"              # what reports outages to it: none, carrier, mobile, both

[hosts]
preset = \"linux-reno\"           # the sender on the model
congestion_control = \"cubic\"    # the sender on linux and live

[[sweep]]
name = \"scheme\"
key = \"gateway.scheme\"
values = [\"none\", \"hold\", \"auto\"]
"
        ))
    }

    /// What the link can carry in the first `s` seconds.
    fn bytes_in(&self, s: f64) -> u64 {
        let until = Instant::ZERO + Duration::from_nanos((s * 1e9) as u64);
        let bytes = self.trace.capacity().bytes_between(Instant::ZERO, until);
        bytes.unwrap_or_default()
    }

    fn format_name(&self) -> &'static str {
        match self.format {
            TraceFormat::Mahimahi => "mahimahi",
            TraceFormat::Steps => "steps",
        }
    }

    /// The scenario's line with the format, if the recording's name does not imply it.
    fn format_line(&self, path: &str) -> String {
        if self.format == TraceFormat::of_file_name(path) {
            return String::new();
        }
        let format = self.format_name();
        format!("trace_format = \"{format}\"          # the recording's name has another ending\n")
    }

    /// The direction in the recording's name, as Mahimahi names it; downlink if there is none.
    fn direction(&self) -> DirectionChoice {
        let is_uplink = self.path.extension().is_some_and(|ending| ending == "up");
        if is_uplink {
            DirectionChoice::Uplink
        } else {
            DirectionChoice::Downlink
        }
    }

    /// The recording's path, as the scenario in this file needs it: only the name if both are in
    /// one folder.
    fn path_from(&self, scenario: &Path) -> anyhow::Result<String> {
        let recording = std::path::absolute(&self.path)?;
        let scenario = std::path::absolute(scenario)?;
        let path = match recording.file_name() {
            Some(name) if recording.parent() == scenario.parent() => PathBuf::from(name),
            _ => recording,
        };
        let path = path.to_str().context("the recording's path is not UTF-8")?;
        Ok(path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scenario::Scenario;
    use crate::substrate::{ExecutionSettings, Substrate, SubstrateKind};
    use holdfast_testbed::stop::StopFlag;

    /// A packet every 2 ms for 3 s, but none from 1 s to 2 s: 6 Mb/s.
    fn mahimahi() -> String {
        let times = (1..=1500).map(|n| n * 2);
        let times = times.filter(|ms| !(1000..2000).contains(ms));
        times
            .map(|ms| ms.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn each_format_gives_a_scenario_that_every_substrate_takes() {
        let steps = "1 6\n2 0\n3 6\n".to_owned();
        for (name, text, direction, format) in [
            ("cell.down", mahimahi(), "downlink", None),
            ("cell.up", mahimahi(), "uplink", None),
            ("it's \"a\" cell", steps.clone(), "downlink", None),
            ("cell.txt", mahimahi(), "downlink", Some("mahimahi")),
            ("cell.mm", steps, "downlink", Some("steps")),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            let path = folder.path().join("s.toml");
            let text = Recording::read(&file).unwrap().scenario(&path).unwrap();
            fs::write(&path, &text).unwrap();
            let runs = Scenario::load(&path).unwrap().runs(None).unwrap();
            assert_eq!(runs.len(), 3);
            for kind in SubstrateKind::ALL {
                assert_eq!(kind.takes(&runs), 3, "{text}");
            }
            let given = &runs[0].given;
            assert_eq!(given["transfer.direction"], direction);
            assert_eq!(given[&format!("wireless.{direction}.rate_trace")], name);
            assert_eq!(
                given.get("wireless.trace_format").and_then(|v| v.as_str()),
                format
            );
            // 2 s at 6 Mb/s can carry 1.5 MB.
            let bytes = given["transfer.bytes"].as_u64().unwrap();
            assert!((700_000..=760_000).contains(&bytes), "{bytes}");
            let drawn = runs[0].drawn().unwrap().conditions;
            let outages = drawn.wireless.outages_of(drawn.transfer.direction);
            let near = |value: f64, expected: f64| (value - expected).abs() < 0.01;
            assert!(
                near(outages[0].at_s, 1.0) && near(outages[0].for_s, 1.0),
                "{outages:?}"
            );
            for line in text.lines() {
                assert!(line.len() <= 140, "{line}");
            }
        }
    }

    #[test]
    fn a_recording_that_is_entered_later_has_its_gaps_sooner_in_both_directions() {
        for name in ["cell.down", "cell.up"] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(name);
            fs::write(&file, mahimahi()).unwrap();
            let path = folder.path().join("s.toml");
            let text = Recording::read(&file).unwrap().scenario(&path).unwrap();
            let text = text.replacen("# trace_start_s = 60 ", "trace_start_s = 0.6 ", 1);
            let runs = Scenario::parse(&path, &text).unwrap().runs(None).unwrap();
            let wireless = runs[0].drawn().unwrap().conditions.wireless;
            for direction in [DirectionChoice::Downlink, DirectionChoice::Uplink] {
                let outages = wireless.outages_of(direction);
                assert!((outages[0].at_s - 0.4).abs() < 0.01, "{name}: {outages:?}");
            }
        }
    }

    #[test]
    fn the_scenario_without_a_recording_is_taken_by_every_substrate() {
        let scenario = Scenario::parse(Path::new("new/s.toml"), PLAIN).unwrap();
        let runs = scenario.runs(None).unwrap();
        assert_eq!(runs.len(), 45);
        for kind in SubstrateKind::ALL {
            assert_eq!(kind.takes(&runs), runs.len());
        }
    }

    #[test]
    fn a_recording_without_gaps_gives_a_scenario_without_outages() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("steady");
        fs::write(&file, "10 6\n").unwrap();
        // The scenario is in another folder.
        let path = folder.path().join("sub").join("s.toml");
        let text = Recording::read(&file).unwrap().scenario(&path).unwrap();
        let scenario = Scenario::parse(&path, &text).unwrap();
        let run = scenario.runs(None).unwrap().remove(0);
        assert!(!run.given.contains_key("wireless.outages.kind"));
        assert_eq!(
            run.given["wireless.downlink.rate_trace"],
            file.to_str().unwrap()
        );
    }

    /// 100 KB take 800 s at 1 kbit/s.
    #[test]
    fn the_transfer_over_a_slow_link_ends_within_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("slow");
        let path = folder.path().join("s.toml");
        for (rate, limit_s) in [("0.001", 4800.0), ("0.000001", 1e6)] {
            fs::write(&file, format!("10 {rate}\n")).unwrap();
            let text = Recording::read(&file).unwrap().scenario(&path).unwrap();
            let size =
                "bytes = 100000               # the least; the recording has it in about 800";
            assert!(text.contains(size), "{text}");
            let scenario = Scenario::parse(&path, &text).unwrap();
            let runs = scenario.runs(None).unwrap();
            assert_eq!(runs[0].given["transfer.limit_s"], limit_s);
            if limit_s < 1e6 {
                let settings = ExecutionSettings {
                    holdfast: PathBuf::new(),
                    label: None,
                    pcap: None,
                };
                let model = Substrate::new(SubstrateKind::Model, settings).unwrap();
                // The first run has no gateway.
                let line = model.execute(&runs[0], &StopFlag::default()).unwrap();
                assert!(line.finished && line.transfer_s > Some(800.0));
            }
        }
    }

    #[test]
    fn another_file_is_refused_in_one_line_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        for (name, octets) in [
            ("a.csv", &b"time,rate\n1,2\n"[..]),
            ("b.mm", b"\n"),
            ("c.pcap", &[0xd4, 0xc3, 0xb2, 0xa1, 0xff]),
        ] {
            let file = folder.path().join(name);
            fs::write(&file, octets).unwrap();
            let error = format!("{:#}", Recording::read(&file).unwrap_err());
            assert!(error.starts_with(file.to_str().unwrap()), "{error}");
            assert!(error.contains("give a recording as Mahimahi"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
