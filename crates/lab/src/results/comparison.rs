// SPDX-License-Identifier: Apache-2.0
//! Results as a table for documents: rows for the swept parameters, and a column for each value of one
//! parameter. All repetitions are in one cell.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use comfy_table::{Table, presets};

use super::{Latency, ResultLine, grouped, word};
use crate::statistics::{median, median_with_interval};

/// The figures that cells show.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// The stall after each outage, the round trips from the last outage's end to the full rate, and
    /// the MB received.
    Outages,
    /// The latencies of answers.
    Latencies,
    /// The goodput alone.
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

    /// The explanation of the cells below the table.
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

/// The lines in one cell: one for each repetition.
type Cell<'a> = Vec<&'a ResultLine>;

/// A row: the values of its other parameters, and its cells.
type Row<'a> = (Vec<String>, Vec<Cell<'a>>);

/// The table of `lines`, and a line below it that explains the cells. `across`: the parameter whose
/// values are the columns; none: that of the last sweep. Runs that differ only in parameters of
/// `pooled` count as repetitions. With two repetitions or more a column compares the last value with
/// the first.
///
/// # Errors
/// There is no such parameter, or the lines have different parameters.
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
        names.remove(index_of(&names, name)?);
    }
    let across = match across {
        Some(across) => index_of(&names, across)?,
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
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header(names, &columns, measure, wants));
    for (mut row, cells) in rows {
        row.extend(cells.iter().map(|cell| shown(measure, cell)));
        if wants.pairs {
            row.push(compared(measure, &cells, &across));
        }
        if wants.probes {
            let probes = cells.iter().map(|cell| probes(cell).to_string());
            row.push(probes.collect::<Vec<_>>().join(", "));
            let held = cells.iter().map(|cell| withheld(cell));
            row.push(held.collect::<Vec<_>>().join(", "));
        }
        table.add_row(row);
    }
    Ok((table, foot(lines, measure, pooled)))
}

/// The columns after a row's cells.
#[derive(Clone, Copy)]
struct Columns {
    /// Whether the last cell is compared with the first.
    pairs: bool,
    /// Whether there are the counts of tail-loss probes and of withheld ACKs in each cell.
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
        names.extend(["tail-loss probes", "withheld"].map(str::to_owned));
    }
    names
}

fn index_of(names: &[String], wanted: &str) -> anyhow::Result<usize> {
    let index_of = names.iter().position(|name| name == wanted);
    index_of.with_context(|| format!("no parameter {wanted}; there are: {}", names.join(", ")))
}

/// A line's parameters in the order of the sweeps, which its variant has.
fn names_in_order(line: &ResultLine) -> Vec<String> {
    let mut names: Vec<(usize, &String)> = line
        .parameters
        .keys()
        .filter_map(|name| {
            let wanted = format!("{name}=");
            let mut indices = line.variant.match_indices(&wanted).map(|(at, _)| at);
            let at = indices.find(|&at| at == 0 || line.variant.as_bytes()[at - 1] == b' ')?;
            Some((at, name))
        })
        .collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name.clone()).collect()
}

/// The columns, and the rows with a cell for each column, both in the order of `lines`.
fn laid_out<'a>(
    lines: &'a [ResultLine],
    names: &[String],
    across: &str,
) -> (Vec<String>, Vec<Row<'a>>) {
    let value = |line: &ResultLine, name: &str| word(&line.parameters[name]);
    let columns = grouped(lines, |line| value(line, across)).into_iter();
    let columns: Vec<String> = columns.map(|(column, _)| column).collect();
    let key = |line: &&ResultLine| -> Vec<String> {
        names.iter().map(|name| value(line, name)).collect()
    };
    let rows = grouped(lines, key).into_iter().map(|(key, lines)| {
        let cell = |column: &String| -> Cell<'a> {
            let own = lines.iter().copied();
            own.filter(|line| value(line, across) == *column).collect()
        };
        (key, columns.iter().map(cell).collect())
    });
    let rows = rows.collect();
    (columns, rows)
}

/// The text of a cell.
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

fn median_of(cell: &[&ResultLine], get: impl Fn(&ResultLine) -> f64) -> f64 {
    median(cell.iter().map(|line| get(line)).collect()).unwrap_or(f64::NAN)
}

/// A time as text; `-`: the event never came.
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
    let never = |value: Option<&Option<f64>>| value.copied().flatten().unwrap_or(f64::INFINITY);
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

/// The answers of all repetitions: their number, and the longest times that are known.
fn together(cell: &[&ResultLine]) -> (usize, Vec<f64>) {
    let latencies = || cell.iter().filter_map(|line| line.latency.as_ref());
    let count = latencies().map(|latency| latency.count).sum();
    // Results of older versions do not have the longest times.
    if latencies().any(|latency| latency.longest_ms.is_empty()) {
        return (count, Vec::new());
    }
    let mut longest: Vec<f64> = latencies()
        .flat_map(|latency| latency.longest_ms.clone())
        .collect();
    longest.sort_unstable_by(|one, other| other.total_cmp(one));
    // Below the shortest known time of a run other times are not known.
    let known = latencies().filter(|latency| latency.longest_ms.len() < latency.count);
    let least = known.filter_map(|latency| latency.longest_ms.last().copied());
    let least = least.fold(0.0, f64::max);
    longest.retain(|ms| *ms >= least);
    (count, longest)
}

/// The time that 99 of 100 answers did not exceed; if it is not known, the median of the repetitions'
/// values.
fn p99_ms(cell: &[&ResultLine]) -> f64 {
    let (count, longest) = together(cell);
    let of_each = |line: &ResultLine| {
        line.latency
            .as_ref()
            .map_or(f64::NAN, |latency| latency.p99_ms)
    };
    longest
        .get(count - (count * 99).div_ceil(100))
        .copied()
        .unwrap_or_else(|| median_of(cell, of_each))
}

fn latencies(cell: &[&ResultLine]) -> String {
    let p50 = |line: &ResultLine| {
        line.latency
            .as_ref()
            .map_or(f64::NAN, |latency| latency.p50_ms)
    };
    let max_ms = |latency: &Latency| latency.max_ms;
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

/// Compares the last cell with the first: the median over pairs of runs that differ in `across` alone,
/// with its confidence interval if there are enough pairs.
fn compared(measure: Measure, cells: &[Cell<'_>], across: &str) -> String {
    let (Some(from), Some(to)) = (cells.first(), cells.last()) else {
        return String::new();
    };
    let pairs = from.iter().filter_map(|one| {
        let is_its = |other: &&&ResultLine| {
            let mut others = other.parameters.iter().zip(&one.parameters);
            other.seed == one.seed
                && others.all(|(latency, own)| latency == own || latency.0 == across)
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
    timers.map(|latency| latency.loss_probes).sum()
}

/// The median number of ACKs in a run that the scheme `wake` withheld or lowered.
fn withheld(cell: &[&ResultLine]) -> String {
    let mobiles = cell.iter().filter_map(|line| line.mobile.as_ref());
    let counts = mobiles.filter_map(|latency| latency.get("path.withheld"));
    let counts: Vec<f64> = counts.map(|count| *count as f64).collect();
    median(counts).map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"))
}

/// The text below the table.
fn foot(lines: &[ResultLine], measure: Measure, pooled: &[String]) -> String {
    let each = |get: &dyn Fn(&ResultLine) -> String| {
        let mut all: Vec<String> = lines.iter().map(get).collect();
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
    let errors =
        errors.filter(|latency| latency.get("send-errors").is_some_and(|count| *count > 0));
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
