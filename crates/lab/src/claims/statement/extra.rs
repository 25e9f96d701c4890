// SPDX-License-Identifier: Apache-2.0
//! Equation (3) of Freeze-TCP (Goff and others, 2000): the segments that a sender gains by
//! keeping its window over a disconnection.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::{Found, groups, run_of};
use crate::claims::file::Rule;
use crate::outage_matrix::median;
use crate::results::ResultLine;

/// What is compared with what the equation gives.
#[derive(Clone, Copy)]
struct Extra<'a> {
    /// The parameter, and its values with the window kept and without.
    parameter: &'a str,
    pair: [&'a Json; 2],
    /// The parameter that is W.
    window: &'a str,
    /// How long the link takes for a segment, in milliseconds.
    segment_ms: f64,
    /// How far from the equation, in percent.
    percent: f64,
}

/// What the rule found; nothing for others.
pub(super) fn found(rule: &Rule, lines: &[&ResultLine]) -> Found {
    let Rule::ExtraSegments {
        parameter,
        better,
        than,
        window,
        segment_ms,
        percent,
    } = rule
    else {
        return Found {
            printed: json!(null),
            came: None,
            holds: None,
            reason: "no rule about segments gained".to_owned(),
        };
    };
    let extra = Extra {
        parameter,
        pair: [better, than],
        window,
        segment_ms: *segment_ms,
        percent: *percent,
    };
    extra.found(lines)
}

/// W²/8 + W lg W − 5W/4 + 1.
fn equation(window: f64) -> f64 {
    window * window / 8.0 + window * libm::log2(window) - 1.25 * window + 1.0
}

/// What a transfer took but for outages' stalls, in seconds, and how many there were.
fn net(line: &ResultLine) -> Option<(f64, usize)> {
    let stalls: Option<Vec<f64>> = line.stalls_s.iter().copied().collect();
    let stalls = stalls?;
    Some((line.transfer_s? - stalls.iter().sum::<f64>(), stalls.len()))
}

impl Extra<'_> {
    /// The median of what came for a window: the time lost besides the stall, in segments for
    /// each outage.
    fn measured(self, window: f64, lines: &[&ResultLine]) -> Option<f64> {
        let gained = groups(self.parameter, lines)
            .into_iter()
            .filter_map(|group| {
                let has = |wanted: &Json| net(run_of(&group, self.parameter, wanted)?);
                let is_its = group[0]
                    .parameters
                    .get(self.window)?
                    .as_f64()?
                    .total_cmp(&window)
                    .is_eq();
                let ((kept_s, outages), (lost_s, _)) = (has(self.pair[0])?, has(self.pair[1])?);
                let segments = (lost_s - kept_s) * 1e3 / self.segment_ms;
                (is_its && outages > 0).then_some(segments / outages as f64)
            });
        median(gained.collect())
    }

    fn found(self, lines: &[&ResultLine]) -> Found {
        let of = |line: &&ResultLine| line.parameters.get(self.window)?.as_f64();
        let mut windows: Vec<f64> = lines.iter().filter_map(of).collect();
        windows.sort_by(f64::total_cmp);
        windows.dedup();
        let (mut reason, mut came, mut printed) = (String::new(), Vec::new(), Vec::new());
        let mut holds = None;
        for window in windows {
            let Some(measured) = self.measured(window, lines) else {
                continue;
            };
            let expected = equation(window);
            let is_near = (measured / expected - 1.0).abs() * 100.0 <= self.percent;
            holds = Some(holds.unwrap_or(true) && is_near);
            let _ = write!(reason, "W {window}: {measured:.0} for {expected:.0}; ");
            came.push(measured.round());
            printed.push(expected.round());
        }
        let _ = write!(reason, "{}% more or less is the same", self.percent);
        if holds.is_none() {
            "no two runs to compare".clone_into(&mut reason);
        }
        Found {
            printed: json!(printed),
            came: holds.map(|_| json!(came)),
            holds,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_is_what_the_window_lacks_until_it_is_as_wide_again() {
        // W = 8 by figure 4: 1, 2, 4, then 5, 6, 7: 7 + 6 + 4 + 3 + 2 + 1.
        assert!((equation(8.0) - 23.0).abs() < 1e-9);
        assert!((equation(64.0) - (512.0 + 384.0 - 80.0 + 1.0)).abs() < 1e-9);
    }
}
