// SPDX-License-Identifier: Apache-2.0
//! What a paper claims, beside the results of our runs.
//!
//! `papers/PAPER/claims.toml` has the paper's tables and statements as printed. For each it names
//! the scenarios and runs ([`mod@file`]). The rules in that file give a verdict:
//!
//! - a **cell** holds if the median of its runs is within the metric's tolerance of the printed
//!   value; the mean counts instead if the paper prints `means`; a cell printed as unfinished holds
//!   if most of its runs do not finish;
//! - an **order** holds if each two variants are in the same order here as in the paper, and equal
//!   where the paper prints them as equal; values are equal within `tie_percent`, or within the
//!   metric's `absolute` tolerance;
//! - a **statement** has rules of its own ([`rule`]): they select runs, reduce them to values,
//!   compare the values, and state what is expected;
//! - a claim is **not comparable** if it needs a condition that the paper does not print, or a
//!   variant for which there is no run.
//!
//! A claim may have runs under an **assumption**: a condition that the paper does not print. It
//! decides the verdict if it has better support than the printed conditions; otherwise they decide.
//! The other verdict is shown beside.
//!
//! Where the paper leaves a condition open, the reason also shows the results under other
//! assumptions. No verdict depends on them.

mod case;
mod cells;
mod entry;
pub mod file;
mod judge;
mod metric;
mod orders;
mod paper;
mod parameters;
pub mod rule;
mod statement;

use crate::results::ResultLine;
use file::{Assumed, ClaimedTable, Statement};

pub use entry::{Entry, Fit, Verdict, counts, counts_as_printed, counts_beside, table};
pub use metric::Metric;
pub use paper::{CLAIMS_FILE, Paper, SUBSTRATES};

/// The entries of a table.
pub(crate) struct TableEntries {
    /// The entries of the cells, row by row.
    pub(crate) cells: Vec<Entry>,
    /// The entries of the orders of the variants.
    pub(crate) orders: Vec<Entry>,
    /// How many cells are as printed, for each value of a condition that the paper leaves open.
    pub(crate) fits: Vec<Fit>,
}

/// The entries of one of the paper's tables.
pub(crate) fn table_entries(
    paper: &Paper,
    table: &ClaimedTable,
    lines: &[ResultLine],
) -> TableEntries {
    let mut entries = table_entries_of_runs(paper, table, lines);
    for assumed in first_that_decides(paper, &table.assumed) {
        let table = ClaimedTable {
            scenario: assumed.scenario.clone(),
            metric: assumed.metric.unwrap_or(table.metric),
            ..table.clone()
        };
        let under = table_entries_of_runs(paper, &table, lines);
        let beside = |so_far: Vec<Entry>, under: Vec<Entry>| {
            let pairs = so_far.into_iter().zip(under);
            let beside = pairs.map(|(so_far, under)| decided(paper, so_far, under, assumed));
            beside.collect()
        };
        entries.cells = beside(entries.cells, under.cells);
        entries.orders = beside(entries.orders, under.orders);
    }
    entries
}

/// A claim's assumptions; the one that decides comes first. The verdicts under the others are shown
/// beside its verdict.
fn first_that_decides<'a>(paper: &Paper, all: &'a [Assumed]) -> Vec<&'a Assumed> {
    let mut all: Vec<&Assumed> = all.iter().collect();
    all.sort_by_key(|assumed| !paper.claims.decides(assumed));
    all
}

/// Combines the entry so far with the entry under one more assumption.
fn decided(paper: &Paper, so_far: Entry, under: Entry, assumed: &Assumed) -> Entry {
    if paper.claims.decides(assumed) {
        under.beside_printed(so_far, &assumed.assumption)
    } else {
        so_far.beside_assumed(&under, &assumed.assumption)
    }
}

/// The entries from the runs of the table's scenario alone, without assumptions.
fn table_entries_of_runs(
    paper: &Paper,
    table: &ClaimedTable,
    lines: &[ResultLine],
) -> TableEntries {
    TableEntries {
        cells: cells::entries(paper, table, lines),
        orders: orders::entries(paper, table, lines),
        fits: cells::fits(paper, table, lines),
    }
}

/// The entries on orders and statements under the printed conditions.
pub(crate) fn order_and_statement_entries(paper: &Paper, lines: &[ResultLine]) -> Vec<Entry> {
    let tables = paper.claims.table.iter();
    let orders = tables.flat_map(|table| orders::entries(paper, table, lines));
    let statements = paper.claims.statement.iter();
    let statements = statements.map(|statement| statement::entry(paper, statement, lines));
    orders.chain(statements).collect()
}

fn statement_entries(paper: &Paper, lines: &[ResultLine]) -> impl Iterator<Item = Entry> {
    let statements = paper.claims.statement.iter();
    statements.map(move |statement| {
        let mut entry = statement::entry(paper, statement, lines);
        for assumed in first_that_decides(paper, &statement.assumed) {
            let statement = Statement {
                scenario: assumed.scenario.clone(),
                ..statement.clone()
            };
            let under = statement::entry(paper, &statement, lines);
            entry = decided(paper, entry, under, assumed);
        }
        entry
    })
}

/// The entry of every claim. `lines` may be of any substrates and scenarios.
pub fn entries(paper: &Paper, lines: &[ResultLine]) -> Vec<Entry> {
    let tables = paper.claims.table.iter().flat_map(|table| {
        let TableEntries { cells, orders, .. } = table_entries(paper, table, lines);
        cells.into_iter().chain(orders)
    });
    tables.chain(statement_entries(paper, lines)).collect()
}

/// How many cells of each table are as printed, for each value of a condition that the paper leaves
/// open.
pub fn fits(paper: &Paper, lines: &[ResultLine]) -> Vec<Fit> {
    let tables = paper.claims.table.iter();
    tables
        .flat_map(|table| cells::fits(paper, table, lines))
        .collect()
}

#[cfg(test)]
mod tests;
