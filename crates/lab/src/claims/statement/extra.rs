// SPDX-License-Identifier: Apache-2.0
//! Equation (3) of Freeze-TCP (Goff and others, 2000): the segments that a sender gains by
//! keeping its window over a disconnection.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::{Found, groups, left_out_text, run_of};
use crate::claims::file::Rule;
use crate::statistics::median;
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
    /// What came for a window, the time lost besides the stall in segments for each outage: of
    /// each pair of runs; none: one of the two did not finish, has no run, or other outages.
    fn measured(self, window: f64, lines: &[&ResultLine]) -> Vec<Option<f64>> {
        let is_its = |group: &Vec<&ResultLine>| {
            let value = group[0].parameters.get(self.window).and_then(Json::as_f64);
            value.is_some_and(|value| value.total_cmp(&window).is_eq())
        };
        let of = |group: Vec<&ResultLine>| {
            let has = |wanted: &Json| net(run_of(&group, self.parameter, wanted)?);
            let ((kept_s, outages), (lost_s, others)) = (has(self.pair[0])?, has(self.pair[1])?);
            let segments = (lost_s - kept_s) * 1e3 / self.segment_ms;
            (outages > 0 && outages == others).then_some(segments / outages as f64)
        };
        let groups = groups(self.parameter, lines);
        groups.into_iter().filter(is_its).map(of).collect()
    }

    fn found(self, lines: &[&ResultLine]) -> Found {
        let of = |line: &&ResultLine| line.parameters.get(self.window)?.as_f64();
        let mut windows: Vec<f64> = lines.iter().filter_map(of).collect();
        windows.sort_by(f64::total_cmp);
        windows.dedup();
        let (mut reason, mut came, mut printed) = (String::new(), Vec::new(), Vec::new());
        let (mut holds, mut left_out, mut pairs) = (true, 0, 0);
        for window in windows {
            let measured = self.measured(window, lines);
            pairs += measured.len();
            left_out += measured.iter().filter(|pair| pair.is_none()).count();
            let Some(measured) = median(measured.into_iter().flatten().collect()) else {
                continue;
            };
            let expected = equation(window);
            holds &= (measured / expected - 1.0).abs() * 100.0 <= self.percent;
            let _ = write!(reason, "W {window}: {measured:.0} for {expected:.0}; ");
            came.push(measured.round());
            printed.push(expected.round());
        }
        let _ = write!(reason, "{}% more or less is the same", self.percent);
        reason.push_str(&left_out_text(left_out, pairs));
        Found {
            printed: json!(printed),
            came: (!came.is_empty()).then(|| json!(came)),
            // Part of what is claimed is no claim that holds.
            holds: (left_out == 0 && pairs > 0).then_some(holds),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::framing::Framing;
    use crate::scenario::Scenario;

    #[test]
    fn the_equation_is_what_the_window_lacks_until_it_is_as_wide_again() {
        // W = 8 by figure 4: 1, 2, 4, then 5, 6, 7: 7 + 6 + 4 + 3 + 2 + 1.
        assert!((equation(8.0) - 23.0).abs() < 1e-9);
        assert!((equation(64.0) - (512.0 + 384.0 - 80.0 + 1.0)).abs() < 1e-9);
    }

    /// A run of W = 8 that took 10 s and so many segments of 1 ms, with a stall besides.
    fn line(scheme: &str, segments: f64, stall_s: Option<f64>) -> ResultLine {
        let text = "[transfer]\nbytes = 1000\n[wireless]\n";
        let scenario = Scenario::parse(Path::new("p/s.toml"), text).unwrap();
        let run = &scenario.runs(None).unwrap()[0];
        let mut line = ResultLine::of(run, "model", "reno".into(), Framing::new(1000, false));
        line.parameters.insert("scheme".into(), json!(scheme));
        line.parameters.insert("window".into(), json!(8));
        line.transfer_s = Some(10.0 + segments / 1e3 + stall_s.unwrap_or_default());
        line.stalls_s = vec![stall_s];
        line
    }

    fn judged(kept: &ResultLine, lost: &ResultLine) -> Found {
        let (better, than) = (json!("kept"), json!("lost"));
        let extra = Extra {
            parameter: "scheme",
            pair: [&better, &than],
            window: "window",
            segment_ms: 1.0,
            percent: 5.0,
        };
        extra.found(&[kept, lost])
    }

    #[test]
    fn segments_lost_beside_the_stall_are_those_of_the_equation_or_not() {
        let kept = line("kept", 0.0, Some(0.1));
        assert_eq!(
            judged(&kept, &line("lost", 23.0, Some(1.5))).holds,
            Some(true)
        );
        assert_eq!(
            judged(&kept, &line("lost", 30.0, Some(1.5))).holds,
            Some(false)
        );
        let open = judged(&kept, &line("lost", 23.0, None));
        assert!(
            open.holds.is_none() && open.reason.contains("left out"),
            "{}",
            open.reason
        );
    }
}
