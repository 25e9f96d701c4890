// SPDX-License-Identifier: Apache-2.0
//! The committed table of `baseline.md`, which a change may not exceed by much.

/// A packet may take this much more, percent.
const EXCESS_MAX_PERCENT: u64 = 2;

/// The table that was printed when it was committed.
const TABLE: &str = include_str!("baseline.md");

/// The fields of a row: case, direction of the data, instructions without and with loss, and more.
fn fields(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// What in a row of the table exceeds the committed one.
///
/// Errors: there is no such row.
pub(crate) fn excess(row: &str) -> Result<Vec<String>, String> {
    let new = fields(row);
    let mut rows = TABLE.lines().map(fields);
    let old = rows.find(|old| old[..2] == new[..2]);
    let old = old.ok_or_else(|| format!("no row in baseline.md: {row}"))?;
    let columns = ["without loss", "with loss"].iter().zip(&old[2..]);
    let exceeds = columns.zip(&new[2..]).filter_map(|((column, old), new)| {
        let (before, now): (u64, u64) = (old.parse().ok()?, new.parse().ok()?);
        let is_more = now * 100 > before * (100 + EXCESS_MAX_PERCENT);
        let [case, way] = [fields(row)[0], fields(row)[1]];
        is_more.then(|| format!("{case}, {way}, {column}: {now} instructions, {before} before"))
    });
    Ok(exceeds.collect())
}
