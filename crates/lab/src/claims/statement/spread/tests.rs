// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::claims::tests::{judged, line};
use crate::claims::{Entry, Verdict};

/// Three runs each of `a` and `b` at two lengths; of `b` at the second one `None` does not
/// finish.
fn lines(a: [[f64; 3]; 2], b: [[Option<f64>; 3]; 2]) -> Vec<ResultLine> {
    let mut lines = Vec::new();
    for (len, (a, b)) in [5, 180].into_iter().zip(a.into_iter().zip(b)) {
        for seed in 0..3 {
            for (name, seconds) in [("a", Some(a[seed])), ("b", b[seed])] {
                let mut line = line("s", name, len, seconds);
                line.seed = seed as u64;
                lines.push(line);
            }
        }
    }
    lines
}

fn judged_by(rule: &str, lines: &[ResultLine]) -> Entry {
    judged(&format!("{{ {rule} }}"), lines)
}

fn usual() -> Vec<ResultLine> {
    lines(
        [[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]],
        [
            [Some(40.0), Some(44.0), Some(48.0)],
            [Some(30.0), Some(60.0), None],
        ],
    )
}

fn verdict(rule: &str) -> Verdict {
    judged_by(rule, &usual()).verdict
}

#[test]
fn at_most_compares_means_of_finished_runs_in_a_share_of_the_combinations() {
    let rule = |times: f64, share: f64| {
        let text = format!(
            "kind = \"at-most\", metric = \"transfer_s\", parameter = \"tcp\", better = \"a\", \
             than = \"b\", times = {times}, share = {share}"
        );
        judged_by(&text, &usual())
    };
    // 11/44 and 21/45.
    assert_eq!(rule(0.3, 1.0).verdict, Verdict::Differs);
    assert_eq!(rule(0.3, 0.5).verdict, Verdict::Holds);
    assert_eq!(rule(0.2, 0.5).verdict, Verdict::Differs);
    let entry = rule(0.47, 1.0);
    assert_eq!(entry.verdict, Verdict::Holds);
    assert_eq!(
        entry.reason,
        "so in 2 of 2 combinations; asked for in 100%; 1 runs that did not finish are left out"
    );
}

#[test]
fn at_most_of_intervals_compares_their_lengths() {
    let rule = |times: f64| {
        verdict(&format!(
            "kind = \"at-most\", metric = \"transfer_s\", parameter = \"tcp\", better = \"a\", \
             than = \"b\", times = {times}, of = \"interval\""
        ))
    };
    // At 5: deviations 1 and 4.
    assert_eq!(rule(0.26), Verdict::Holds);
    assert_eq!(rule(0.24), Verdict::Differs);
}

#[test]
fn apart_asks_for_intervals_that_do_not_meet() {
    let rule = "kind = \"apart\", metric = \"transfer_s\", parameter = \"tcp\", better = \"a\", than = \"b\"";
    // At 180 the interval of two runs is wide.
    assert_eq!(verdict(rule), Verdict::Differs);
    let clear = lines(
        [[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]],
        [[Some(40.0), Some(41.0), Some(42.0)]; 2],
    );
    assert_eq!(judged_by(rule, &clear).verdict, Verdict::Holds);
    let other_way = rule
        .replace("better = \"a\"", "better = \"b\"")
        .replace("than = \"b\"", "than = \"a\"");
    assert_eq!(judged_by(&other_way, &clear).verdict, Verdict::Differs);
}

#[test]
fn a_gap_shrinks_along_another_parameter_or_does_not() {
    let rule = |from: u32, to: u32| {
        verdict(&format!(
            "kind = \"gap-shrinks\", metric = \"transfer_s\", parameter = \"tcp\", better = \"a\", \
             than = \"b\", along = \"len\", from = {from}, to = {to}"
        ))
    };
    assert_eq!(rule(5, 180), Verdict::Holds);
    assert_eq!(rule(180, 5), Verdict::Differs);
    assert_eq!(rule(5, 7), Verdict::NotComparable);
}

#[test]
fn unfinished_runs_are_asked_for_where_the_paper_has_them() {
    let some = |all: &str, some: &str| {
        verdict(&format!(
            "kind = \"some-unfinished\", parameter = \"tcp\", all = \"{all}\", some = \"{some}\""
        ))
    };
    assert_eq!(some("a", "b"), Verdict::Holds);
    assert_eq!(some("b", "a"), Verdict::Differs);
    let all = |value: &str| {
        verdict(&format!(
            "kind = \"all-finish\", parameter = \"tcp\", value = \"{value}\""
        ))
    };
    assert_eq!(all("a"), Verdict::Holds);
    assert_eq!(all("b"), Verdict::Differs);
    assert_eq!(all("c"), Verdict::NotComparable);
}
