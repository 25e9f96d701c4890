// SPDX-License-Identifier: Apache-2.0
//! `holdfast status --outages`, for people.

use std::fmt::Write as _;

use super::units::{bytes, seconds};
use super::{table, word};
use crate::control::OutagesStatus;
use crate::outages::date;

/// The totals in one line, and a table of the requested outages.
pub(super) fn text(outages: &OutagesStatus, uptime_s: f64) -> String {
    let mut text = totals(outages, uptime_s) + "\n";
    if outages.newest.is_empty() {
        return text;
    }
    let stall = format!("stall {}", what_is_counted(outages));
    let mut table = table(&[
        "outage",
        "mobile",
        "begin",
        "length",
        "noticed by",
        "flows",
        "cached",
        &stall,
    ]);
    for outage in &outages.newest {
        let address = outage.mobile.map(|address| address.to_string());
        let name = outage.name.clone().or(address);
        table.add_row([
            outage.number.to_string(),
            name.unwrap_or_else(|| "this one".into()),
            date(outage.begin_unix_s),
            seconds(outage.length_s),
            word(&outage.source),
            outage.flows.to_string(),
            bytes(outage.cached_bytes),
            seconds(outage.stall_saved_s),
        ]);
    }
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{table}");
    text
}

/// What the outages cost or would have cost, in one line.
pub(super) fn totals(outages: &OutagesStatus, uptime_s: f64) -> String {
    let count = match outages.count {
        0 => return format!("in {}: no outage", seconds(uptime_s)),
        1 => "1 outage".to_owned(),
        count => format!("{count} outages"),
    };
    format!(
        "in {}: {count}, down {}, about {} of stalls {}",
        seconds(uptime_s),
        seconds(outages.down_s),
        seconds(outages.stall_saved_s),
        what_is_counted(outages)
    )
}

/// What the stalls of these outages are: saved by the scheme, or only observed.
pub(crate) const fn what_is_counted(outages: &OutagesStatus) -> &'static str {
    if outages.only_observed {
        "avoidable"
    } else {
        "saved"
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::LinkSource;

    use super::*;
    use crate::control::OutageStatus;

    fn outages() -> OutagesStatus {
        OutagesStatus {
            count: 31,
            down_s: 200.0,
            stall_saved_s: 74.0,
            newest: vec![OutageStatus {
                number: 31,
                name: None,
                mobile: Some([10, 9, 0, 2].into()),
                begin_unix_s: 1_795_591_562.0,
                length_s: 7.0,
                source: LinkSource::Signal,
                flows: 3,
                cached_bytes: 3 << 20,
                stall_saved_s: 8.75,
            }],
            ..OutagesStatus::default()
        }
    }

    #[test]
    fn the_totals_are_one_line_which_names_what_a_scheme_saved_or_would_have_saved() {
        let saved = outages();
        let line = "in 24.0 h: 31 outages, down 3 min, about 74.0 s of stalls saved";
        assert_eq!(totals(&saved, 86_400.0), line);
        let observed = OutagesStatus {
            only_observed: true,
            ..saved
        };
        let line = "in 24.0 h: 31 outages, down 3 min, about 74.0 s of stalls avoidable";
        assert_eq!(totals(&observed, 86_400.0), line);
        assert_eq!(
            totals(&OutagesStatus::default(), 60.0),
            "in 60.0 s: no outage"
        );
    }

    #[test]
    fn each_outage_is_a_row() {
        let text = text(&outages(), 86_400.0);
        for shown in [
            "31 ",
            "10.9.0.2",
            "2026-11-25T07:26:02Z",
            "7.0 s",
            "signal",
            "3.0 MiB",
            "8.8 s",
            "stall saved",
        ] {
            assert!(text.contains(shown), "{shown:?} is missing in:\n{text}");
        }
    }
}
