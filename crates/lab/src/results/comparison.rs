// SPDX-License-Identifier: Apache-2.0
//! Results side by side, as documents have them: a row for what was swept, and a column for each
//! value of one parameter, of which all repetitions are one cell.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use comfy_table::{Table, presets};

use super::{Latency, ResultLine};
use crate::statistics::{median, median_with_interval};

/// What cells show.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// From each outage's end to the first new byte, round trips from the last one's to the full
    /// rate, MB received.
    Outages,
    /// Of answers.
    Latencies,
    /// Nothing but how fast.
    Goodput,
}

impl Measure {
    fn of(lines: &[ResultLine]) -> Self {
        match () {
            () if lines.iter().any(|line| line.outages > 0) => Self::Outages,
            () if lines.iter().any(|line| line.latency.is_some()) => Self::Latencies,
            () => Self::Goodput,
        }
    }

    /// What the table's foot says of its cells.
    const fn explained(self) -> &'static str {
        match self {
            Self::Outages => {
                "seconds from each outage's end to the first new byte (of several flows: their median and, in brackets, the longest), round trips from the last one's end to the full rate, MB received; -: not at all; of several repetitions medians"
            }
            Self::Latencies => {
                "p50, p99 and the longest in ms, of the answers of all repetitions (p50: the median of the repetitions'); compared is p99 of each repetition by itself"
            }
            Self::Goodput => "Mb/s, of several repetitions the median",
        }
    }
}

/// The lines of one row and one value of the parameter: one for each repetition.
type Cell<'a> = Vec<&'a ResultLine>;

/// A row: its other parameters' values, and its cells.
type Row<'a> = (Vec<String>, Vec<Cell<'a>>);

/// The table of `lines`, and a line below it: what its cells show, and what they are of. `across`:
/// the parameter that has a column for each value; none: the last sweep's. Runs that differ in
/// parameters of `pooled` alone are taken for repetitions. From two repetitions on a column says
/// what the last value makes of the first.
///
/// # Errors
/// No such parameter, or lines whose parameters are not the same.
pub fn comparison(
    lines: &[ResultLine],
    across: Option<&str>,
    pooled: &[String],
) -> anyhow::Result<(Table, String)> {
    let first = lines.first().context("there are no results")?;
    let mut names = names_in_order(first);
    if let Some(other) = lines.iter().find(|line| names_in_order(line) != names) {
        bail!(
            "\"{}\" and \"{}\" are of different sweeps: a table is of one scenario's results",
            first.variant,
            other.variant
        );
    }
    for name in pooled {
        names.remove(place(&names, name)?);
    }
    let across = match across {
        Some(across) => place(&names, across)?,
        None => names.len().checked_sub(1).context("nothing was swept")?,
    };
    let across = names.remove(across);
    let measure = Measure::of(lines);
    let (columns, rows) = laid_out(lines, &names, &across);
    let has_pairs = |(_, cells): &Row<'_>| cells.iter().all(|cell| cell.len() > 1);
    let wants = Columns {
        pairs: measure != Measure::Outages && columns.len() > 1 && rows.iter().any(has_pairs),
        probes: measure != Measure::Outages
            && lines.iter().any(|line| line.sender_timers.is_some()),
    };
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(header(names, &columns, measure, wants));
    for (mut row, cells) in rows {
        row.extend(cells.iter().map(|cell| shown(measure, cell)));
        if wants.pairs {
            row.push(compared(measure, &cells, &across));
        }
        if wants.probes {
            let probes = cells.iter().map(|cell| probes(cell).to_string());
            row.push(probes.collect::<Vec<_>>().join(", "));
            let held = cells.iter().map(|cell| held_back(cell));
            row.push(held.collect::<Vec<_>>().join(", "));
        }
        table.add_row(row);
    }
    Ok((table, foot(lines, measure, pooled)))
}

/// What stands behind a row's cells.
#[derive(Clone, Copy)]
struct Columns {
    /// What the last cell makes of the first.
    pairs: bool,
    /// Tail-loss probes, and how often something was held back, in each cell.
    probes: bool,
}

fn header(
    mut names: Vec<String>,
    columns: &[String],
    measure: Measure,
    wants: Columns,
) -> Vec<String> {
    names.extend_from_slice(columns);
    if let (true, Some(from), Some(to)) = (wants.pairs, columns.first(), columns.last()) {
        names.push(match measure {
            Measure::Latencies => format!("p99, {to} less {from}, ms [95%]"),
            _ => format!("{to} / {from} [95%]"),
        });
    }
    if wants.probes {
        names.extend(["tail-loss probes", "held back"].map(str::to_owned));
    }
    names
}

fn place(names: &[String], wanted: &str) -> anyhow::Result<usize> {
    let place = names.iter().position(|name| name == wanted);
    place.with_context(|| format!("no parameter {wanted}; there are: {}", names.join(", ")))
}

/// A line's parameters in the order of the sweeps: as its variant has them.
fn names_in_order(line: &ResultLine) -> Vec<String> {
    let mut names: Vec<(usize, &String)> = line
        .parameters
        .keys()
        .filter_map(|name| {
            let wanted = format!("{name}=");
            let mut places = line.variant.match_indices(&wanted).map(|(at, _)| at);
            let at = places.find(|&at| at == 0 || line.variant.as_bytes()[at - 1] == b' ')?;
            Some((at, name))
        })
        .collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name.clone()).collect()
}

/// The columns, and the rows with a cell for each; both as they come first in `lines`.
fn laid_out<'a>(
    lines: &'a [ResultLine],
    names: &[String],
    across: &str,
) -> (Vec<String>, Vec<Row<'a>>) {
    let value = |line: &ResultLine, name: &str| match &line.parameters[name] {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<Row<'a>> = Vec::new();
    for line in lines {
        let column = value(line, across);
        let key: Vec<String> = names.iter().map(|name| value(line, name)).collect();
        let column = columns
            .iter()
            .position(|its| *its == column)
            .unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            });
        let row = rows
            .iter()
            .position(|(its, _)| *its == key)
            .unwrap_or_else(|| {
                rows.push((key, Vec::new()));
                rows.len() - 1
            });
        let cells = &mut rows[row].1;
        cells.resize_with(cells.len().max(column + 1), Vec::new);
        cells[column].push(line);
    }
    for (_, cells) in &mut rows {
        cells.resize_with(columns.len(), Vec::new);
    }
    (columns, rows)
}

/// What a cell says.
fn shown(measure: Measure, cell: &[&ResultLine]) -> String {
    if cell.is_empty() {
        return "not run".to_owned();
    }
    let mut text = match measure {
        Measure::Outages => outages(cell),
        Measure::Latencies => latencies(cell),
        Measure::Goodput => format!("{:.2}", median_of(cell, |line| line.goodput_mbps)),
    };
    let broken = cell.iter().filter(|line| !line.intact).count();
    if broken > 0 {
        let _ = write!(text, ", {broken} BROKEN");
    }
    text
}

fn median_of(cell: &[&ResultLine], of: impl Fn(&ResultLine) -> f64) -> f64 {
    median(cell.iter().map(|line| of(line)).collect()).unwrap_or(f64::NAN)
}

/// A time, or that there was none.
fn or_never(value: f64, digits: usize) -> String {
    if value.is_finite() {
        format!("{value:.digits$}")
    } else {
        "-".to_owned()
    }
}

fn outages(cell: &[&ResultLine]) -> String {
    let count = cell
        .iter()
        .map(|line| line.stalls_s.len())
        .max()
        .unwrap_or_default();
    let never = |of: Option<&Option<f64>>| of.copied().flatten().unwrap_or(f64::INFINITY);
    let stall = |number: usize| {
        let flows = |line: &&ResultLine| -> Vec<f64> {
            let flows = line.flow_stalls_s.iter();
            flows.map(|stalls| never(stalls.get(number))).collect()
        };
        let of_flows: Vec<f64> = cell.iter().flat_map(flows).collect();
        match of_flows.iter().copied().max_by(f64::total_cmp) {
            Some(longest) => {
                let middle = median(of_flows).unwrap_or(f64::NAN);
                format!("{} ({})", or_never(middle, 2), or_never(longest, 2))
            }
            None => or_never(median_of(cell, |line| never(line.stalls_s.get(number))), 2),
        }
    };
    let stalls: Vec<String> = (0..count).map(stall).collect();
    let full_rate = median_of(cell, |line| never(line.full_rate_round_trips.last()));
    let megabytes = median_of(cell, |line| line.bytes as f64 / 1e6);
    let full_rate = or_never(full_rate, 0);
    format!("{} s, {full_rate}, {megabytes:.1}", stalls.join(" "))
}

/// The answers of all repetitions as one: how many there were, and the longest of them as far as
/// they are known from each.
fn together(cell: &[&ResultLine]) -> (usize, Vec<f64>) {
    let latencies = || cell.iter().filter_map(|line| line.latency.as_ref());
    let count = latencies().map(|its| its.count).sum();
    // Of a result from before they were told of nothing is known.
    if latencies().any(|its| its.longest_ms.is_empty()) {
        return (count, Vec::new());
    }
    let mut longest: Vec<f64> = latencies().flat_map(|its| its.longest_ms.clone()).collect();
    longest.sort_unstable_by(|one, other| other.total_cmp(one));
    // Shorter than the last that one of them tells of there may be more.
    let known = latencies().filter(|its| its.longest_ms.len() < its.count);
    let least = known.filter_map(|its| its.longest_ms.last().copied());
    let least = least.fold(0.0, f64::max);
    longest.retain(|ms| *ms >= least);
    (count, longest)
}

/// 99 of 100 of all answers took no longer; if that cannot be told, the median of the repetitions'.
fn p99_ms(cell: &[&ResultLine]) -> f64 {
    let (count, longest) = together(cell);
    let of_each = |line: &ResultLine| line.latency.as_ref().map_or(f64::NAN, |its| its.p99_ms);
    longest
        .get(count - (count * 99).div_ceil(100))
        .copied()
        .unwrap_or_else(|| median_of(cell, of_each))
}

fn latencies(cell: &[&ResultLine]) -> String {
    let p50 = |line: &ResultLine| line.latency.as_ref().map_or(f64::NAN, |its| its.p50_ms);
    let max_ms = |its: &Latency| its.max_ms;
    let longest = cell
        .iter()
        .filter_map(|line| line.latency.as_ref().map(max_ms));
    format!(
        "{:.1}, {:.1}, {:.1}",
        median_of(cell, p50),
        p99_ms(cell),
        longest.fold(0.0, f64::max)
    )
}

/// What the last cell makes of the first: the median of the pairs, which differ in `across` alone, with
/// its interval if there are enough.
fn compared(measure: Measure, cells: &[Cell<'_>], across: &str) -> String {
    let (Some(from), Some(to)) = (cells.first(), cells.last()) else {
        return String::new();
    };
    let pairs = from.iter().filter_map(|one| {
        let is_its = |other: &&&ResultLine| {
            let mut others = other.parameters.iter().zip(&one.parameters);
            other.seed == one.seed && others.all(|(its, own)| its == own || its.0 == across)
        };
        let other = to.iter().find(is_its)?;
        Some(match measure {
            Measure::Latencies => other.latency.as_ref()?.p99_ms - one.latency.as_ref()?.p99_ms,
            _ => other.goodput_mbps / one.goodput_mbps,
        })
    });
    let digits = if measure == Measure::Latencies { 1 } else { 4 };
    match median_with_interval(pairs.collect()) {
        None => "no pairs".to_owned(),
        Some((middle, None)) => format!("{middle:.digits$}"),
        Some((middle, Some([low, high]))) => {
            format!("{middle:.digits$} [{low:.digits$}, {high:.digits$}]")
        }
    }
}

fn probes(cell: &[&ResultLine]) -> u64 {
    let timers = cell.iter().filter_map(|line| line.sender_timers);
    timers.map(|its| its.loss_probes).sum()
}

/// In how many ACKs of a run something was held back, by the scheme `wake`: the median.
fn held_back(cell: &[&ResultLine]) -> String {
    let mobiles = cell.iter().filter_map(|line| line.mobile.as_ref());
    let counts = mobiles.filter_map(|its| its.get("path.held_back"));
    let counts: Vec<f64> = counts.map(|count| *count as f64).collect();
    median(counts).map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"))
}

/// What stands below the table.
fn foot(lines: &[ResultLine], measure: Measure, pooled: &[String]) -> String {
    let each = |of: &dyn Fn(&ResultLine) -> String| {
        let mut all: Vec<String> = lines.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        all.join(", ")
    };
    let mut text = format!(
        "In each cell: {}. {} runs of {} on {}, commit {}, kernel {}.",
        measure.explained(),
        lines.len(),
        each(&|line| line.scenario.clone()),
        each(&|line| line.substrate.clone()),
        each(&|line| line.commit.clone()),
        each(&|line| line.kernel.clone().unwrap_or_else(|| "none".to_owned())),
    );
    if !pooled.is_empty() {
        let _ = write!(
            text,
            " Repetitions: runs that differ in {} too.",
            pooled.join(", ")
        );
    }
    let errors = lines.iter().filter_map(|line| line.mobile.as_ref());
    let errors = errors.filter(|its| its.get("send-errors").is_some_and(|count| *count > 0));
    match errors.count() {
        0 => {}
        count => {
            let _ = write!(
                text,
                " In {count} runs something of the mobile's could not be sent."
            );
        }
    }
    text
}

#[cfg(test)]
mod tests;
