// SPDX-License-Identifier: Apache-2.0

use std::path::Path;

use super::*;
use crate::framing::Framing;
use crate::scenario::Scenario;

const SWEEPS: &str = "[[sweep]]\nname = \"path\"\npoints = [{ name = \"a b\", set = {} }, { name = \"c\", set = {} }]\n\
    [[sweep]]\nname = \"a\"\nkey = \"gateway.scheme\"\nvalues = [\"none\", \"hold\"]\n";

/// A line for each run, filled by `get` from the run's number.
fn lines(more: &str, get: impl Fn(usize, &mut ResultLine)) -> Vec<ResultLine> {
    let text =
        format!("{more}[transfer]\nbytes = 2920000\n[wireless]\nrate_mbit_per_s = 20\n{SWEEPS}");
    let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
    let runs = scenario.runs(None).unwrap();
    let line = |(number, run)| {
        let mut line = ResultLine::of(run, "model", "sack".to_owned(), Framing::new(1460, false));
        line.intact = true;
        get(number, &mut line);
        line
    };
    runs.iter().enumerate().map(line).collect()
}

/// The cells of each row.
fn cells(table: &Table) -> Vec<Vec<String>> {
    let row = |row: &comfy_table::Row| row.cell_iter().map(comfy_table::Cell::content).collect();
    table.row_iter().map(row).collect()
}

fn header(table: &Table) -> Vec<String> {
    table
        .header()
        .unwrap()
        .cell_iter()
        .map(comfy_table::Cell::content)
        .collect()
}

#[test]
fn after_outages_a_cell_has_stalls_full_rate_and_bytes() {
    let all = lines("", |number, line| {
        line.outages = 2;
        line.stalls_s = vec![Some(0.1 * number as f64), None];
        line.full_rate_round_trips = vec![None, (number > 0).then_some(4.6)];
        line.bytes = 1_000_000 * number as u64;
    });
    let (table, foot) = comparison(&all, None, &[]).unwrap();
    assert_eq!(header(&table), ["path", "none", "hold"]);
    assert_eq!(
        cells(&table),
        [
            ["a b", "0.00 - s, -, 0.0", "0.10 - s, 5, 1.0"],
            ["c", "0.20 - s, 5, 2.0", "0.30 - s, 5, 3.0"]
        ]
    );
    assert!(foot.contains("4 runs of s on model"), "{foot}");
    // Another parameter gives the columns, and one run is missing.
    let (table, _) = comparison(&all[..3], Some("path"), &[]).unwrap();
    assert_eq!(header(&table), ["a", "a b", "c"]);
    assert_eq!(cells(&table)[1], ["hold", "0.10 - s, 5, 1.0", "not run"]);
    let error = comparison(&all, Some("sender"), &[])
        .unwrap_err()
        .to_string();
    assert_eq!(error, "no parameter sender; there are: path, a");
}

#[test]
fn of_several_flows_the_median_and_the_longest_are_shown() {
    let all = lines("", |_, line| {
        line.outages = 1;
        line.stalls_s = vec![Some(0.1)];
        line.flow_stalls_s = vec![vec![Some(0.1)], vec![Some(0.2)], vec![None]];
        line.full_rate_round_trips = vec![Some(2.0)];
        line.intact = false;
    });
    let (table, _) = comparison(&all, None, &[]).unwrap();
    assert_eq!(cells(&table)[0][1], "0.20 (-) s, 2, 0.0, 1 BROKEN");
}

#[test]
fn pairs_of_repetitions_are_compared() {
    let all = lines("repetitions = 6\n", |number, line| {
        let is_hold = number % 2 == 1;
        line.goodput_mbps = if is_hold { 9.0 } else { 10.0 } * line.seed as f64;
    });
    let (table, _) = comparison(&all, None, &[]).unwrap();
    assert_eq!(header(&table)[3], "hold / none [95%]");
    let row = &cells(&table)[0];
    assert_eq!(row[1..], ["35.00", "31.50", "0.9000 [0.9000, 0.9000]"]);
}

#[test]
fn runs_of_a_pooled_parameter_are_repetitions_and_pairs_are_of_one_value() {
    let all = lines("", |number, line| {
        line.goodput_mbps = [10.0, 9.0, 20.0, 16.0][number];
    });
    let (table, foot) = comparison(&all, None, &["path".to_owned()]).unwrap();
    assert!(foot.contains("differ in path too"), "{foot}");
    assert_eq!(header(&table), ["none", "hold", "hold / none [95%]"]);
    assert_eq!(cells(&table), [["15.00", "12.50", "0.8500"]]);
}

#[test]
fn what_was_withheld_is_counted_for_each_column() {
    let all = lines("repetitions = 3\n", |number, line| {
        line.sender_timers = Some(holdfast_testbed::counters::TimerCounts {
            loss_probes: 1,
            ..Default::default()
        });
        let held = [("path.withheld".to_owned(), 100 * number as u64)];
        line.mobile = (number % 2 == 1).then(|| held.into());
    });
    let (table, _) = comparison(&all, None, &[]).unwrap();
    assert_eq!(header(&table)[4..], ["tail-loss probes", "withheld"]);
    // The first row's runs are 1, 5 and 9.
    assert_eq!(cells(&table)[0][4..], ["3, 3", "-, 500"]);
}

#[test]
fn the_longest_answers_of_all_repetitions_give_p99() {
    let all = lines("repetitions = 2\n", |number, line| {
        let slow = if number % 2 == 0 { 3 } else { 20 };
        let ms = |n: u64| if n < slow { line.seed * 1_000 - n } else { 10 };
        line.latency = Latency::of((0..400).map(|n| ms(n) * 1_000_000).collect());
    });
    let (table, _) = comparison(&all, None, &[]).unwrap();
    assert_eq!(header(&table)[3], "p99, hold less none, ms [95%]");
    // The ninth longest of 800 answers counts. The first column has six slow ones. The second one has
    // forty: the longest twenty are in one repetition.
    let row = &cells(&table)[0];
    assert_eq!(
        row[1..],
        ["10.0, 10.0, 2000.0", "10.0, 1992.0, 2000.0", "1486.0"]
    );
    // One result has no longest times: then each repetition has its own percentile.
    let mut all = all;
    if let Some(latency) = &mut all[1].latency {
        latency.longest_ms.clear();
    }
    let (table, _) = comparison(&all, None, &[]).unwrap();
    assert_eq!(cells(&table)[0][2], "10.0, 1496.0, 2000.0");
}
