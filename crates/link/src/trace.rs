// SPDX-License-Identifier: Apache-2.0
//! Traces of a link's rate: text in, capacity and gaps out.
//!
//! Two formats. Mahimahi: one whole number of milliseconds a line, never falling,
//! each the time of an opportunity to deliver 1500 bytes. Steps: two columns,
//! `t_end_s mbit_per_s`, a rate that holds until `t_end_s`. Both start again when
//! they end. Empty lines and lines that start with `#` are skipped in both.

use std::sync::Arc;

use crate::capacity::{Capacity, Opportunities, Steps};
use serde::{Deserialize, Serialize};

/// The most lines that a trace may have.
pub(crate) const TRACE_LINES_MAX: usize = 4_000_000;
/// The latest time in a trace, in seconds: a year.
pub(crate) const TRACE_SECONDS_MAX: f64 = 31_536_000.0;
/// The highest rate in a trace or a setting, in Mb/s: one Tb/s.
pub(crate) const MBIT_PER_S_MAX: f64 = 1_000_000.0;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFormat {
    /// A millisecond a line, each an opportunity for 1500 bytes.
    Mahimahi,
    /// `t_end_s mbit_per_s` a line.
    Steps,
}

impl TraceFormat {
    /// By a file's name: mahimahi's traces end in `.mm`, `.up`, `.down` or
    /// `.pps`.
    pub fn of_file_name(name: &str) -> Self {
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("mm" | "up" | "down" | "pps") => Self::Mahimahi,
            _ => Self::Steps,
        }
    }
}

/// What is wrong with a trace, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TraceError {
    /// The line, from 1; the last one if the whole is at fault.
    pub line: usize,
    /// What the line holds and what it takes.
    pub reason: String,
}

/// A trace, parsed: not empty, in order, with some capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    capacity: Capacity,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// Names the line that cannot be read, is out of order or out of range.
    pub fn parse(text: &str, format: TraceFormat) -> Result<Self, TraceError> {
        let lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let capacity = match format {
            TraceFormat::Mahimahi => parse_opportunities(lines)?,
            TraceFormat::Steps => parse_steps(lines)?,
        };
        Ok(Self { capacity })
    }

    /// A rate in Mb/s until each time in seconds; times rise, one rate is above 0.
    pub(crate) fn of_steps(steps: &[(f64, f64)]) -> Self {
        let steps: Vec<(u64, u64)> = steps.iter().copied().map(step_units).collect();
        Self {
            capacity: Capacity::Steps(Arc::new(Steps::new(&steps))),
        }
    }

    /// The trace as text of [`TraceFormat::Steps`]; empty if its rate is no table of steps.
    pub fn steps_text(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        if let Capacity::Steps(steps) = &self.capacity {
            for (end_ns, bits_per_s) in steps.ends_and_rates() {
                let _ = writeln!(
                    text,
                    "{}.{:09} {}.{:06}",
                    end_ns / 1_000_000_000,
                    end_ns % 1_000_000_000,
                    bits_per_s / 1_000_000,
                    bits_per_s % 1_000_000
                );
            }
        }
        text
    }

    /// The same trace, entered at `start_ns`. It starts again when it ends.
    pub(crate) fn starting_at(&self, start_ns: u64) -> Self {
        Self {
            capacity: self.capacity.starting_at(start_ns),
        }
    }

    /// What a link with this trace can carry.
    pub fn capacity(&self) -> Capacity {
        self.capacity.clone()
    }

    /// The stretches of one period in which nothing can be delivered for at
    /// least `gap_min_ns`, as (begin, end) in ns, and the period in ns.
    ///
    /// A gap between two mahimahi opportunities is shorter by a millisecond, the format's
    /// grain, at either end.
    pub fn gaps_ns(&self, gap_min_ns: u64) -> (Vec<(u64, u64)>, u64) {
        const GRAIN_NS: u64 = 1_000_000;
        match &self.capacity {
            Capacity::Steps(steps) => {
                let gaps = steps
                    .gaps_ns()
                    .into_iter()
                    .filter(|(b, e)| e - b >= gap_min_ns);
                (gaps.collect(), steps.repeats_after_ns())
            }
            Capacity::Opportunities(opportunities) => {
                let times = opportunities.times_ns();
                let period_ns = opportunities.repeats_after_ns();
                let before = std::iter::once(0).chain(times.iter().copied());
                let gaps = before
                    .zip(times.iter().copied().chain([period_ns]))
                    .map(|(a, b)| (a + GRAIN_NS, b.saturating_sub(GRAIN_NS)))
                    .filter(|(begin, end)| end.saturating_sub(*begin) >= gap_min_ns);
                (gaps.collect(), opportunities.repeats_after_ns())
            }
            Capacity::Unlimited | Capacity::Constant(_) => (Vec::new(), 1),
        }
    }
}

fn error(line: usize, reason: impl Into<String>) -> TraceError {
    TraceError {
        line,
        reason: reason.into(),
    }
}

/// The line's content, short enough for an error message.
fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(40)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.chars().nth(40).is_some() {
        shown.push_str("...");
    }
    shown
}

fn too_long(line: usize) -> TraceError {
    error(line, format!("more than {TRACE_LINES_MAX} entries"))
}

fn parse_opportunities<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Capacity, TraceError> {
    let (mut at_ns, mut last_line): (Vec<u64>, usize) = (Vec::new(), 1);
    for (line, text) in lines {
        last_line = line;
        let at_ms: u64 = text
            .parse()
            .ok()
            .filter(|&ms| ms as f64 <= TRACE_SECONDS_MAX * 1e3)
            .ok_or_else(|| {
                error(
                    line,
                    format!(
                        "got `{}`, takes whole milliseconds up to a year",
                        shown(text)
                    ),
                )
            })?;
        let at = at_ms * 1_000_000;
        if at_ns.last().is_some_and(|&before| at < before) {
            return Err(error(
                line,
                format!("{at_ms} ms is before the line above; times never fall"),
            ));
        }
        if at_ns.len() == TRACE_LINES_MAX {
            return Err(too_long(line));
        }
        at_ns.push(at);
    }
    match at_ns.last() {
        None => Err(error(
            last_line,
            "the trace is empty; a delivery time in ms a line",
        )),
        Some(0) => Err(error(
            last_line,
            "the last time is 0 ms; it must be later, the trace repeats after it",
        )),
        Some(_) => Ok(Capacity::Opportunities(Arc::new(Opportunities::new(at_ns)))),
    }
}

fn parse_steps<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Capacity, TraceError> {
    let (mut steps, mut last_line): (Vec<(u64, u64)>, usize) = (Vec::new(), 1);
    for (line, text) in lines {
        last_line = line;
        let step = parse_step(text).map_err(|reason| error(line, reason))?;
        if step.0 <= steps.last().map_or(0, |&(end, _)| end) {
            return Err(error(
                line,
                format!(
                    "`{}`: t_end_s must be above 0 and above that of the line before",
                    shown(text)
                ),
            ));
        }
        if steps.len() == TRACE_LINES_MAX {
            return Err(too_long(line));
        }
        steps.push(step);
    }
    if steps.is_empty() {
        return Err(error(
            last_line,
            "the trace is empty; `t_end_s mbit_per_s` a line",
        ));
    }
    if steps.iter().all(|&(_, rate)| rate == 0) {
        return Err(error(last_line, "every rate is 0; one must be above it"));
    }
    Ok(Capacity::Steps(Arc::new(Steps::new(&steps))))
}

/// `t_end_s mbit_per_s` to (ns, bit/s).
fn parse_step(text: &str) -> Result<(u64, u64), String> {
    let mut columns = text.split_ascii_whitespace();
    let (Some(t_end), Some(rate), None) = (columns.next(), columns.next(), columns.next()) else {
        return Err(format!(
            "got `{}`, takes two columns, `t_end_s mbit_per_s`",
            shown(text)
        ));
    };
    let number = |name: &str, text: &str, max: f64| {
        text.parse::<f64>()
            .ok()
            .filter(|value| (0.0..=max).contains(value))
            .ok_or_else(|| {
                format!(
                    "{name} got `{}`, takes a number from 0 to {max}",
                    shown(text)
                )
            })
    };
    let t_end_s = number("t_end_s", t_end, TRACE_SECONDS_MAX)?;
    let mbit_per_s = number("mbit_per_s", rate, MBIT_PER_S_MAX)?;
    Ok(step_units((t_end_s, mbit_per_s)))
}

/// Seconds and Mb/s to ns and bit/s.
fn step_units((t_end_s, mbit_per_s): (f64, f64)) -> (u64, u64) {
    (
        (t_end_s * 1e9).round() as u64,
        (mbit_per_s * 1e6).round() as u64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::need;
    use holdfast_wire::Instant;
    use proptest::prelude::*;
    use std::fmt::Write;

    fn steps(text: &str) -> Result<Trace, TraceError> {
        Trace::parse(text, TraceFormat::Steps)
    }

    fn mahimahi(text: &str) -> Result<Trace, TraceError> {
        Trace::parse(text, TraceFormat::Mahimahi)
    }

    #[test]
    fn a_mahimahi_trace_gives_an_opportunity_a_line() {
        let trace = mahimahi("# a comment\n3\n3\n\n10\n").unwrap();
        let at = |n: u64| trace.capacity().time_of(need(1500 * n));
        assert_eq!(
            [at(1), at(2), at(3), at(4)],
            [3, 3, 10, 13].map(Instant::from_millis)
        );
    }

    #[test]
    fn a_step_trace_gives_a_rate_until_each_end() {
        let trace = steps("0.5 8\n1.0\t16.5\n").unwrap();
        assert_eq!(
            trace.capacity().time_of(need(500_000)),
            Instant::from_millis(500)
        );
        let second = trace.capacity().units_by(Instant::from_millis(1000)) - need(500_000);
        assert_eq!(second, need(16_500_000 / 16));
    }

    #[test]
    fn an_error_names_its_line_and_what_it_takes() {
        let text = |result: Result<Trace, TraceError>| result.unwrap_err().to_string();
        assert_eq!(
            text(mahimahi("1\n2\nx\n")),
            "line 3: got `x`, takes whole milliseconds up to a year"
        );
        assert_eq!(
            text(mahimahi("5\n\n4\n")),
            "line 3: 4 ms is before the line above; times never fall"
        );
        assert!(text(mahimahi("0\n0\n")).starts_with("line 2: the last time is 0 ms"));
        assert!(text(mahimahi("")).starts_with("line 1: the trace is empty"));
        assert!(text(steps("1 2\n1 2\n")).starts_with("line 2: `1 2`: t_end_s must be above"));
        assert!(text(steps("1 2\n2 nan\n")).starts_with("line 2: mbit_per_s got `nan`"));
        assert!(text(steps("1 -2\n")).starts_with("line 1: mbit_per_s got `-2`"));
        assert!(text(steps("1 2 3\n")).starts_with("line 1: got `1 2 3`, takes two columns"));
        assert!(text(steps("1 0\n2 0\n")).starts_with("line 2: every rate is 0"));
        assert!(text(steps("1e300 1\n")).starts_with("line 1: t_end_s got `1e300`"));
        assert!(text(steps(&format!("{}\n", "a".repeat(10_000)))).len() < 200);
    }

    #[test]
    fn gaps_are_found_in_both_formats() {
        let ms = 1_000_000;
        let gaps = steps("1 5\n1.5 0\n2 0\n3 5\n3.01 0\n")
            .unwrap()
            .gaps_ns(100 * ms);
        assert_eq!(gaps, (vec![(1000 * ms, 2000 * ms)], 3010 * ms));
        let gaps = mahimahi("10\n12\n500\n501\n").unwrap().gaps_ns(100 * ms);
        assert_eq!(gaps, (vec![(13 * ms, 499 * ms)], 501 * ms));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_every_error_names_a_line_of_it(
            text in "([0-9]{1,12}|[0-9.e+-]{1,8}[ \t][0-9.e+-]{1,8}|[ \t]|#.{0,5}|.{0,12}|\n){0,40}",
        ) {
            for format in [TraceFormat::Mahimahi, TraceFormat::Steps] {
                match Trace::parse(&text, format) {
                    Ok(trace) => {
                        let t = trace.capacity().time_of(need(1500));
                        prop_assert!(trace.capacity().units_by(t) >= need(1500));
                    }
                    Err(error) => {
                        prop_assert!((1..=text.lines().count().max(1)).contains(&error.line));
                    }
                }
            }
        }

        #[test]
        fn a_written_trace_reads_back(
            steps_in in prop::collection::vec((1u32..100_000, 0u32..1_000_000), 1..20),
        ) {
            let mut end_ms = 0u64;
            let mut text = String::new();
            for (ms, kbit) in &steps_in {
                end_ms += u64::from(*ms);
                let _ = writeln!(text, "{}.{:03} {}.{:03}", end_ms / 1000, end_ms % 1000, kbit / 1000, kbit % 1000);
            }
            let total_bits_milli: u128 = steps_in.iter().map(|(ms, kbit)| u128::from(*ms) * u128::from(*kbit) * 1000).sum();
            let trace = steps(&text);
            prop_assert_eq!(trace.is_err(), total_bits_milli == 0);
            if let Ok(trace) = trace {
                prop_assert_eq!(trace.capacity().units_by(Instant::from_millis(end_ms)), total_bits_milli * 1_000_000);
            }
        }
    }
}
