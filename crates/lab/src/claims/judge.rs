// SPDX-License-Identifier: Apache-2.0
//! Judges runs by a rule, and gives the reasons.

use super::case::{Case, cases, pooled};
use super::rule::{Compare, Expect, Quantity, Reduce, Rule};
use crate::results::{ResultLine, word};

/// The largest number of values that are shown one by one.
const SHOWN_MAX: usize = 12;

/// The result of a rule: what is printed, what came out, whether it holds, and why.
pub(super) struct Found {
    pub(super) printed: String,
    pub(super) came: Option<String>,
    pub(super) holds: Option<bool>,
    pub(super) reason: String,
}

/// Judges the runs.
pub(super) fn judge(rule: &Rule, lines: &[&ResultLine]) -> Found {
    Judge(rule).judge(lines)
}

/// A rule, with functions for its texts.
#[derive(Clone, Copy)]
struct Judge<'a>(&'a Rule);

impl Judge<'_> {
    /// Judges the runs.
    fn judge(self, lines: &[&ResultLine]) -> Found {
        let lines: Vec<&ResultLine> = lines
            .iter()
            .copied()
            .filter(|l| l.has(&self.0.runs))
            .collect();
        let mut cases = cases(self.0, &lines);
        let count = cases.len();
        let lacks_runs = cases.iter().any(|case| case.lacks_runs);
        let without = cases.iter().filter(|case| case.value.is_none()).count();
        cases.retain(|case| !case.is_empty() || self.counts_empty_cases());
        // A case without a run is unknown. A case whose runs did not finish is not as expected.
        let missing = cases
            .iter()
            .filter(|case| case.value.is_none() && !case.lacks_runs)
            .count();
        if let Some(per) = &self.0.per {
            cases = pooled(per, self.0.reduce, cases);
        }
        if let Some(equation) = self
            .0
            .compare
            .as_ref()
            .and_then(|compare| compare.equation.as_ref())
        {
            for case in &mut cases {
                case.divide(equation);
            }
            // The equation needs every case: if one lacks a value, nothing is compared.
            if without > 0 {
                cases.clear();
            }
        }
        let values: Vec<f64> = cases.iter().filter_map(|case| case.value).collect();
        let printed = format!("{}{}", self.subject(), self.expected());
        let left_out = self.left_out(without, count, &lines);
        if values.is_empty() {
            return Found {
                printed,
                came: None,
                holds: None,
                reason: format!("nothing to compare{left_out}"),
            };
        }
        let (holds, count) = self.holds(&values, missing);
        Found {
            printed,
            came: Some(self.came(&cases, values, &lines)),
            // It holds only if no run is missing: a missing run could contradict it.
            holds: Some(holds).filter(|holds| !holds || !lacks_runs),
            reason: format!("{count}{left_out}"),
        }
    }

    /// Whether a combination without a finished run counts as not as expected. For other rules it
    /// is left out: it has no value to compare.
    fn counts_empty_cases(self) -> bool {
        let is_of_means = matches!(self.0.reduce, Reduce::Mean | Reduce::Interval);
        let is_limit = matches!(
            self.0.expect,
            Expect::AtMost { .. } | Expect::AtLeast { .. } | Expect::Below { .. }
        );
        self.0.compare.is_none() || (is_of_means && is_limit)
    }

    /// Whether the values are as expected, and the count or tolerance behind that.
    fn holds(self, values: &[f64], missing: usize) -> (bool, String) {
        let share_of = |right: usize, all: usize, share: f64| {
            let text = format!(
                "so in {right} of {all} combinations; asked for in {:.0}%",
                share * 100.0
            );
            (right as f64 >= share * all as f64, text)
        };
        match self.0.expect {
            Expect::AtMost { value, share } => {
                let right = values.iter().filter(|came| **came <= value).count();
                share_of(right, values.len() + missing, share)
            }
            Expect::AtLeast { value, share } => {
                let right = values.iter().filter(|came| **came >= value).count();
                share_of(right, values.len() + missing, share)
            }
            Expect::Below { value, share } => {
                let right = values.iter().filter(|came| **came < value).count();
                share_of(right, values.len() + missing, share)
            }
            Expect::Between { printed, percent } => {
                let slack = 1.0 + percent / 100.0;
                let range = printed[0] / slack..=printed[1] * slack;
                let right = values.iter().filter(|came| range.contains(came)).count();
                let (_, text) = share_of(right, values.len() + missing, 1.0);
                let holds = right == values.len() + missing;
                (holds, format!("{text}; {percent}% beyond is the same"))
            }
            Expect::Ends {
                printed,
                percent,
                points,
            } => {
                let slack = 1.0 + percent / 100.0;
                let is_near = |value: f64, other: f64| {
                    (value - other).abs() <= points
                        || percent > 0.0 && (other / slack..=other * slack).contains(&value)
                };
                let [least, most] = ends(values);
                let off = if points > 0.0 {
                    points.to_string()
                } else {
                    format!("{percent}%")
                };
                let text = format!(
                    "{} for {}; {off} more or less at either end is the same",
                    self.range([least, most]),
                    self.range(printed)
                );
                let holds = is_near(least, printed[0]) && is_near(most, printed[1]);
                (holds, text)
            }
        }
    }

    /// What the rule is about.
    fn subject(self) -> String {
        let Some(compare) = &self.0.compare else {
            let runs = self.0.runs.values();
            let runs: Vec<String> = runs.map(|value| word(value) + ": ").collect();
            return runs.concat();
        };
        let name = |value: &Option<serde_json::Value>, none: &str| {
            value.as_ref().map_or_else(|| none.to_owned(), word)
        };
        let what = match self.0.reduce {
            Reduce::Median | Reduce::Each => "",
            Reduce::Mean => "mean of ",
            Reduce::Interval => "95% interval of ",
        };
        let (first, second) = (
            name(&compare.value, "any"),
            name(&compare.with, "any other"),
        );
        let along = compare.along.iter().map(|along| {
            let (from, to) = (word(&along.from), word(&along.to));
            format!(", {} {to} against {from}", along.parameter)
        });
        let along: String = along.collect();
        format!("{what}{first} against {second}{along}: ")
    }

    fn expected(self) -> String {
        match self.0.expect {
            Expect::AtMost { value, .. } => format!("at most {}", self.shown(value)),
            Expect::AtLeast { value, .. } => format!("at least {}", self.shown(value)),
            Expect::Below { value, .. } => format!("less than {}", self.shown(value)),
            Expect::Between { printed, .. } | Expect::Ends { printed, .. } => self.range(printed),
        }
    }

    fn shown(self, value: f64) -> String {
        match self.0.compare.as_ref().map(|compare| compare.by) {
            None => self.0.metric.text(value),
            Some(Quantity::Times) => format!("{value:.2} times"),
            Some(Quantity::Gain) => format!("{value:+.2}%"),
            Some(Quantity::Saving) => format!("{value:.1}%"),
            Some(Quantity::Difference) => format!("{value:.2}"),
            Some(Quantity::Separation) => format!("{value:.2} intervals"),
        }
    }

    /// `1.00 to 20.00 times`.
    fn range(self, [least, most]: [f64; 2]) -> String {
        let (least, most) = (self.shown(least), self.shown(most));
        if least == most {
            return least;
        }
        let unit = least.trim_start_matches(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        let number = least.strip_suffix(unit).filter(|_| most.ends_with(unit));
        format!("{} to {most}", number.unwrap_or(&least))
    }

    /// The least, the median and the greatest value. Up to [`SHOWN_MAX`] cases are shown with both
    /// sides.
    fn came(self, cases: &[Case], values: Vec<f64>, lines: &[&ResultLine]) -> String {
        let Some(compare) = &self.0.compare else {
            let total = self.0.metric.total(lines);
            let total = total.map(|(count, all)| format!("{count} of {all}"));
            return total.unwrap_or_else(|| self.extent(values));
        };
        let side = |value: f64| match compare {
            Compare { along: Some(_), .. } => format!("{value:.2}"),
            Compare {
                equation: Some(_), ..
            } => format!("{value:.0}"),
            _ => self.0.metric.text(value),
        };
        let sides = || {
            let sides = cases.iter().map(|case| case.sides[0].zip(case.sides[1]));
            sides.flatten()
        };
        let text = self.extent(values);
        if cases.len() > SHOWN_MAX {
            let middles = [
                middle(sides().map(|(first, _)| first).collect()),
                middle(sides().map(|(_, second)| second).collect()),
            ];
            let [first, second] = middles.map(side);
            return format!("{text} (medians {first} for {second})");
        }
        let sides: Vec<String> = sides()
            .map(|(first, second)| format!("{} for {}", side(first), side(second)))
            .collect();
        format!("{text} ({})", sides.join(", "))
    }

    /// The least and the greatest value; of three or more also the median.
    fn extent(self, values: Vec<f64>) -> String {
        let text = self.range(ends(&values));
        if values.len() < 3 {
            return text;
        }
        format!("{text}, median {}", self.shown(middle(values)))
    }

    /// What could not be compared, as text for the reason.
    fn left_out(self, without: usize, all: usize, lines: &[&ResultLine]) -> String {
        let mut text = String::new();
        if without > 0 {
            text = format!("; {without} of {all} unfinished, or without a run");
        }
        let compare = self.0.compare.as_ref();
        let compared = lines
            .iter()
            .filter(|line| compare.is_none_or(|compare| compare.is_about(line)));
        let unfinished = compared
            .filter(|line| self.0.metric.of(line).is_none())
            .count();
        if unfinished > 0 && matches!(self.0.reduce, Reduce::Mean | Reduce::Interval) {
            text.push_str(&format!(
                "; {unfinished} runs that did not finish are left out"
            ));
        }
        text
    }
}

/// The least and the greatest value.
fn ends(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    [
        least,
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    ]
}

/// The middle value; of an even number of values the greater of the middle two. NaN: there are
/// none.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
