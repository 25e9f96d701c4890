// SPDX-License-Identifier: Apache-2.0
//! Means, intervals, shares, and the equation of Freeze-TCP.

use super::*;

/// Three runs each of `a` and `b`, at two lengths. A `None` of `b` does not finish.
fn runs_of_two(a: [[f64; 3]; 2], b: [[Option<f64>; 3]; 2]) -> Vec<ResultLine> {
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

const COMPARED: &str = "compare = { parameter = \"tcp\", value = \"a\", with = \"b\" }";

fn judged_by(rule: &str, lines: &[ResultLine]) -> Entry {
    judged(&format!("{{ {rule} }}"), lines)
}

fn usual() -> Vec<ResultLine> {
    runs_of_two(
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
            "metric = \"transfer_s\", reduce = \"mean\", {COMPARED}, \
             expect = {{ is = \"at-most\", value = {times:.2}, share = {share:.2} }}"
        );
        // A run that is not compared did not finish either.
        let mut lines = usual();
        lines.push(line("s", "c", 5, None));
        judged_by(&text, &lines)
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
fn at_least_takes_the_value_itself_and_more_in_a_share_of_the_combinations() {
    let rule = |times: f64, share: f64| {
        let text = format!(
            "metric = \"transfer_s\", reduce = \"mean\", {COMPARED}, \
             expect = {{ is = \"at-least\", value = {times}, share = {share} }}"
        );
        judged_by(&text, &usual())
    };
    // 11/44 and 21/45.
    assert_eq!(rule(0.25, 1.0).verdict, Verdict::Holds);
    assert_eq!(rule(0.26, 1.0).verdict, Verdict::Differs);
    assert_eq!(rule(0.26, 0.5).verdict, Verdict::Holds);
    assert_eq!(rule(0.47, 0.001).verdict, Verdict::Differs);
    assert_eq!(
        rule(0.25, 1.0).printed,
        "mean of a against b: at least 0.25 times"
    );
}

#[test]
fn at_most_of_intervals_compares_their_lengths() {
    let rule = |times: f64| {
        verdict(&format!(
            "metric = \"transfer_s\", reduce = \"interval\", {COMPARED}, \
             expect = {{ is = \"at-most\", value = {times:.2} }}"
        ))
    };
    // At length 5 the deviations are 1 and 4.
    assert_eq!(rule(0.26), Verdict::Holds);
    assert_eq!(rule(0.24), Verdict::Differs);
}

#[test]
fn apart_asks_for_intervals_that_do_not_meet() {
    let rule = "metric = \"transfer_s\", reduce = \"mean\", compare = { parameter = \"tcp\", \
        value = \"a\", with = \"b\", by = \"separation\" }, expect = { is = \"at-most\", value = -1 }";
    // At length 180 the interval of two runs is wide.
    assert_eq!(verdict(rule), Verdict::Differs);
    let clear = runs_of_two(
        [[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]],
        [[Some(40.0), Some(41.0), Some(42.0)]; 2],
    );
    assert_eq!(judged_by(rule, &clear).verdict, Verdict::Holds);
    let other_way = rule
        .replace("value = \"a\"", "value = \"b\"")
        .replace("with = \"b\"", "with = \"a\"");
    assert_eq!(judged_by(&other_way, &clear).verdict, Verdict::Differs);
}

#[test]
fn a_gap_shrinks_along_another_parameter_or_does_not() {
    let rule = |from: u32, to: u32| {
        verdict(&format!(
            "metric = \"transfer_s\", reduce = \"mean\", compare = {{ parameter = \"tcp\", \
             value = \"b\", with = \"a\", along = {{ parameter = \"len\", from = {from}, \
             to = {to} }} }}, expect = {{ is = \"below\", value = 1 }}"
        ))
    };
    assert_eq!(rule(5, 180), Verdict::Holds);
    assert_eq!(rule(180, 5), Verdict::Differs);
    assert_eq!(rule(5, 7), Verdict::NotComparable);
}

#[test]
fn a_rule_can_require_unfinished_runs() {
    let finished = |value: &str, expect: &str| {
        verdict(&format!(
            "metric = \"finished\", where = {{ tcp = \"{value}\" }}, reduce = \"mean\", \
             expect = {{ {expect} }}"
        ))
    };
    let all = |value: &str| finished(value, "is = \"between\", printed = [1, 1]");
    assert_eq!(all("a"), Verdict::Holds);
    assert_eq!(all("b"), Verdict::Differs);
    assert_eq!(all("c"), Verdict::NotComparable);
    let some = |value: &str| finished(value, "is = \"below\", value = 1, share = 0.001");
    assert_eq!(some("b"), Verdict::Holds);
    assert_eq!(some("a"), Verdict::Differs);
    // Several rules together: all runs of `a` finish, but not all of `b`.
    let both = |all: &str, some: &str| {
        let rule = format!(
            "{{ metric = \"finished\", where = {{ tcp = \"{all}\" }}, reduce = \"mean\", \
             expect = {{ is = \"between\", printed = [1, 1] }} }}, \
             {{ metric = \"finished\", where = {{ tcp = \"{some}\" }}, reduce = \"mean\", \
             expect = {{ is = \"below\", value = 1, share = 0.001 }} }}"
        );
        judged(&rule, &usual()).verdict
    };
    assert_eq!(both("a", "b"), Verdict::Holds);
    assert_eq!(both("b", "a"), Verdict::Differs);
    assert_eq!(both("a", "c"), Verdict::NotComparable);
}

/// A run of W = 8: 10 s, a number of segments of 1 ms each, and a stall.
fn windowed(scheme: &str, segments: f64, stall_s: Option<f64>) -> ResultLine {
    let mut line = line("s", scheme, 5, None);
    line.parameters.insert("window".into(), 8.into());
    line.transfer_s = Some(10.0 + segments / 1e3 + stall_s.unwrap_or_default());
    line.stalls_s = vec![stall_s];
    line
}

/// Equation (3) of Freeze-TCP.
const EQUATION: &str = "metric = \"without_stalls_per_outage_s\", reduce = \"each\", \
    compare = { parameter = \"tcp\", value = \"lost\", with = \"kept\", by = \"difference\", \
    equation = { window = \"window\", segment_s = 0.001 } }, per = [\"window\"], \
    expect = { is = \"between\", printed = [1, 1], percent = 5 }";

/// W = 8, by figure 4: the windows 1, 2, 4, 5, 6, 7 lack 7 + 6 + 4 + 3 + 2 + 1 = 23 segments.
#[test]
fn segments_lost_beside_the_stall_are_those_of_the_equation_or_not() {
    let kept = windowed("kept", 0.0, Some(0.1));
    let judged = |lost: ResultLine| judged_by(EQUATION, &[kept.clone(), lost]);
    let holds = judged(windowed("lost", 23.0, Some(1.5)));
    assert_eq!(holds.verdict, Verdict::Holds);
    assert_eq!(holds.model, Some("1.00 (23 for 23)".into()));
    let differs = judged(windowed("lost", 30.0, Some(1.5)));
    assert_eq!(differs.verdict, Verdict::Differs);
    let open = judged(windowed("lost", 23.0, None));
    assert_eq!(open.verdict, Verdict::NotComparable);
    assert!(open.reason.contains("without a run"), "{}", open.reason);
}

#[test]
fn a_combination_in_which_neither_side_finishes_is_missed_by_a_limit() {
    let mut lines = usual();
    for name in ["a", "b"] {
        lines.push(line("s", name, 7, None));
    }
    for limit in ["at-most", "below", "at-least"] {
        let value = if limit == "at-least" { 0.2 } else { 0.5 };
        let rule = |share: f64| {
            let text = format!(
                "metric = \"transfer_s\", reduce = \"mean\", {COMPARED}, \
                 expect = {{ is = \"{limit}\", value = {value}, share = {share:.2} }}"
            );
            judged_by(&text, &lines)
        };
        let entry = rule(1.0);
        assert_eq!(entry.verdict, Verdict::Differs, "{limit}");
        assert!(
            entry.reason.starts_with("so in 2 of 3 combinations"),
            "{}",
            entry.reason
        );
        assert_eq!(rule(0.6).verdict, Verdict::Holds, "{limit}");
    }
}

#[test]
fn something_is_not_less_than_nothing() {
    let rule =
        format!("metric = \"transfer_s\", {COMPARED}, expect = {{ is = \"below\", value = 1 }}");
    let lines = |b: f64| {
        let a = [[1.0; 3], [2.0; 3]];
        runs_of_two(a, [[Some(3.0); 3], [Some(b); 3]])
    };
    assert_eq!(judged_by(&rule, &lines(3.0)).verdict, Verdict::Holds);
    assert_eq!(judged_by(&rule, &lines(0.0)).verdict, Verdict::Differs);
}

#[test]
fn runs_with_other_outages_are_not_compared_with_the_equation() {
    let kept = windowed("kept", 0.0, Some(0.1));
    let mut lost = windowed("lost", 46.0, Some(1.5));
    lost.stalls_s.push(Some(1.5));
    lost.transfer_s = lost.transfer_s.map(|seconds| seconds + 10.0 + 1.5);
    // If each run were divided by its own count, it would be 23 segments per outage.
    let entry = judged_by(EQUATION, &[kept, lost]);
    assert_eq!(entry.verdict, Verdict::NotComparable, "{}", entry.reason);
}

#[test]
fn cells_are_means_where_the_paper_prints_means() {
    // The median is 104, the mean 114.
    let runs = [(0, Some(103.0)), (1, Some(104.0)), (2, Some(135.0))];
    let cell = |text: &str, runs: &[(u64, Option<f64>)]| {
        let lines = runs.iter().map(|(seed, transfer_s)| {
            let mut line = line("s", "a", 5, *transfer_s);
            line.seed = *seed;
            line
        });
        let lines: Vec<_> = lines.collect();
        entries(&paper(text), &lines).remove(0)
    };
    let means = CLAIMS.replacen("[[table]]\n", "[[table]]\nmeans = true\n", 1);
    let median = cell(CLAIMS, &runs);
    assert_eq!(median.model, Some(104.0.into()));
    assert_eq!(median.verdict, Verdict::Holds);
    let mean = cell(&means, &runs);
    assert_eq!(mean.model, Some(114.0.into()));
    assert_eq!(mean.verdict, Verdict::Differs);
    // Most runs did not finish: a mean of the others would not be comparable.
    let hung = [(0, Some(100.0)), (1, None), (2, None)];
    assert_eq!(cell(&means, &hung).model, Some("unfinished".into()));
    let one_hung = [(0, Some(100.0)), (1, Some(102.0)), (2, None)];
    assert_eq!(cell(&means, &one_hung).model, Some(101.0.into()));
}

#[test]
fn on_the_average_is_the_mean_of_all_combinations() {
    // 11, 21 and 40: their mean is 24.
    let mut lines = usual();
    lines.push(line("s", "a", 7, Some(40.0)));
    let verdict = |reduce: &str| {
        let rule = format!(
            "metric = \"transfer_s\", where = {{ tcp = \"a\" }}, reduce = \"{reduce}\", per = [], \
             expect = {{ is = \"between\", printed = [23, 25] }}"
        );
        judged_by(&rule, &lines).verdict
    };
    assert_eq!(verdict("mean"), Verdict::Holds);
    assert_eq!(verdict("median"), Verdict::Differs);
}

#[test]
fn a_comparison_that_no_run_is_of_does_not_hold() {
    let rule = |value: f64| {
        format!(
            "metric = \"transfer_s\", reduce = \"mean\", {COMPARED}, \
             expect = {{ is = \"below\", value = {value:.2} }}"
        )
    };
    let mut lines = usual();
    assert_eq!(judged_by(&rule(1.0), &lines).verdict, Verdict::Holds);
    // A third length, at which neither variant has a run.
    lines.push(line("s", "c", 7, Some(1.0)));
    assert_eq!(
        judged_by(&rule(1.0), &lines).verdict,
        Verdict::NotComparable
    );
    // The existing runs are enough to refute the claim.
    assert_eq!(judged_by(&rule(0.1), &lines).verdict, Verdict::Differs);
}

#[test]
fn something_against_nothing_is_a_gain_without_a_limit() {
    let ratios = |a: f64, b: f64| {
        let mut lines = vec![line("s", "a", 5, Some(1.0)), line("s", "b", 5, Some(1.0))];
        lines[0].retransmission_ratio_percent = a;
        lines[1].retransmission_ratio_percent = b;
        lines
    };
    let rule = |expect: &str| {
        let compared = COMPARED.replace("\"b\" }", "\"b\", by = \"gain\" }");
        format!("metric = \"retransmission_ratio_percent\", {compared}, expect = {{ {expect} }}")
    };
    for expect in ["is = \"below\", value = 10", "is = \"at-most\", value = 10"] {
        let get = |a, b| judged_by(&rule(expect), &ratios(a, b)).verdict;
        assert_eq!(get(1.0, 1.0), Verdict::Holds);
        assert_eq!(get(1.0, 0.0), Verdict::Differs);
        assert_eq!(get(0.0, 0.0), Verdict::Holds);
    }
}

#[test]
fn figures_that_follow_from_others_need_them() {
    let mut run = line("s", "a", 5, Some(20.0));
    run.optimal_s = Some(18.0);
    run.timeouts = Some(2);
    let value = |run: &ResultLine, metric: Metric| metric.of(run);
    assert_eq!(value(&run, Metric::BeyondOptimumS), Some(2.0));
    assert_eq!(value(&run, Metric::TimeoutsPer100Repeated), None);
    assert_eq!(value(&run, Metric::RetransmissionSecondsPercent), None);
    run.retransmitted_segments = 40;
    (run.seconds_sending, run.seconds_repeating) = (Some(50), Some(3));
    assert_eq!(value(&run, Metric::TimeoutsPer100Repeated), Some(5.0));
    assert_eq!(value(&run, Metric::RetransmissionSecondsPercent), Some(6.0));
    run.transfer_s = None;
    assert_eq!(value(&run, Metric::BeyondOptimumS), None);
}
