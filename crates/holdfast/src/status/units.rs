// SPDX-License-Identifier: Apache-2.0
//! Times and sizes in the unit that fits them.

/// A time for people, in the unit that fits.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        _ if s < 1.0 => format!("{:.0} ms", s * 1e3),
        _ if s < 120.0 => format!("{s:.1} s"),
        _ if s < 7200.0 => format!("{:.0} min", s / 60.0),
        _ => format!("{:.1} h", s / 3600.0),
    }
}

/// A size for people, in the unit that fits.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    UNITS
        .iter()
        .find(|(unit, _)| count >= *unit)
        .map_or(format!("{count} B"), |(unit, name)| {
            format!("{:.1} {name}", count as f64 / *unit as f64)
        })
}
