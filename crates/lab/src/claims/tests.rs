// SPDX-License-Identifier: Apache-2.0
use std::path::{Path, PathBuf};

use super::file::ClaimsFile;
use super::*;
use crate::framing::Framing;
use crate::handoffs::HandoffSummary;
use crate::scenario::Scenario;
use crate::traced::Traced;

mod assumptions;
mod means;

const CLAIMS: &str = r#"
    title = "t"
    tie_percent = 1
    [tolerance]
    transfer_s = { percent = 5 }
    [[table]]
    id = "times"
    metric = "transfer_s"
    scenario = "s.toml"
    variants = "tcp"
    column = "len"
    columns = [5, 180]
    unfinished = 0.0
    row = [
        { where = { tcp = "a" }, printed = [100.0, 200.0] },
        { where = { tcp = "b" }, printed = [110.0, 0.0] },
        { where = { tcp = "c" }, printed = [110.0, 0.0] },
    ]
    alternative = [{ text = "luck", scenario = "other.toml", where = { luck = true } }]
    [[statement]]
    id = "gain"
    text = "a is faster"
    scenario = "s.toml"
    where = { len = 5 }
    rule = [{ metric = "transfer_s", reduce = "each", compare = { parameter = "tcp", value = "b", with = "a", by = "gain" }, per = [], expect = { is = "ends", printed = [10, 10], points = 3 } }]
    [[statement]]
    id = "alike"
    text = "all are alike"
    scenario = "s.toml"
    where = { len = 5 }
    rule = [{ metric = "transfer_s", reduce = "each", compare = { parameter = "tcp", by = "gain" }, expect = { is = "at-most", value = 20 } }]
    [[statement]]
    id = "reduced"
    text = "a takes less"
    scenario = "s.toml"
    rule = [{ metric = "transfer_s", reduce = "each", compare = { parameter = "tcp", value = "a", by = "saving" }, expect = { is = "ends", printed = [5, 9], points = 3 } }]
    [[statement]]
    id = "ratio"
    text = "its definition"
    scenario = "s.toml"
    definition = true
    rule = [{ metric = "retransmission_ratio_error", reduce = "each", expect = { is = "at-most", value = 1e-09 } }]
"#;

fn paper(text: &str) -> Paper {
    Paper {
        name: "p".into(),
        folder: PathBuf::from("papers/p"),
        claims: ClaimsFile::parse("claims.toml", text).unwrap(),
    }
}

fn line(scenario: &str, tcp: &str, len: u64, transfer_s: Option<f64>) -> ResultLine {
    let text = "[transfer]\nbytes = 1000\n[wireless]";
    let run = Scenario::parse(Path::new("papers/p/s.toml"), text)
        .unwrap()
        .runs(None)
        .unwrap()
        .remove(0);
    let mut line = ResultLine::of(&run, "model", "reno".into(), Framing::new(1460, false));
    line.scenario = format!("p/{scenario}");
    line.parameters.insert("tcp".into(), tcp.into());
    line.parameters.insert("len".into(), len.into());
    line.transfer_s = transfer_s;
    line.finished = transfer_s.is_some();
    line
}

fn lines() -> Vec<ResultLine> {
    vec![
        line("s", "a", 5, Some(104.0)),
        line("s", "b", 5, Some(112.0)),
        line("s", "c", 5, Some(112.2)),
        line("s", "a", 180, Some(230.0)),
        line("s", "b", 180, None),
        line("s", "c", 180, Some(300.0)),
    ]
}

fn verdicts(entries: &[Entry]) -> Vec<(&str, Verdict)> {
    entries
        .iter()
        .map(|entry| (entry.id.as_str(), entry.verdict))
        .collect()
}

#[test]
fn cells_orders_and_statements_are_judged_by_the_files_rules() {
    let mut lines = lines();
    let mut lucky = line("other", "a", 180, Some(201.0));
    lucky.parameters.insert("luck".into(), true.into());
    lines.push(lucky);
    let entries = super::entries(&paper(CLAIMS), &lines);
    assert_eq!(
        verdicts(&entries),
        [
            ("times/tcp=a/len=5", Verdict::Holds),
            ("times/tcp=a/len=180", Verdict::Differs),
            ("times/tcp=b/len=5", Verdict::Holds),
            ("times/tcp=b/len=180", Verdict::Holds),
            ("times/tcp=c/len=5", Verdict::Holds),
            ("times/tcp=c/len=180", Verdict::Differs),
            ("times/order/len=5", Verdict::Holds),
            // b and c are printed as equal, and differ here.
            ("times/order/len=180", Verdict::Differs),
            ("gain", Verdict::Holds),
            ("alike", Verdict::Holds),
            // a took only 23% less time than c over 180 s.
            ("reduced", Verdict::Differs),
            // Our figures are defined by this rule, so they cannot contradict it.
            ("ratio", Verdict::NotComparable),
        ]
    );
    assert_eq!(
        entries[1].reason,
        "+15.0% (+30.00); within 5% is the same; with luck: 201.0"
    );
    assert_eq!(entries[3].model, Some("unfinished".into()));
    assert_eq!(entries[6].printed, "a < b = c");
    assert_eq!(entries[7].printed, "a < b = c");
    assert_eq!(entries[7].model, Some("a < c < b".into()));
    assert!(
        entries[7].reason.contains("not b and c"),
        "{}",
        entries[7].reason
    );
}

#[test]
fn what_is_left_open_gives_a_range_and_how_many_cells_fit_at_each_value() {
    let text = CLAIMS.replace(
        "where = { luck = true } }",
        "over = \"luck\" }, { text = \"timeouts\", scenario = \"other.toml\", where = { luck = 3 }, \
         metric = \"timeouts_per_100_s\" }",
    );
    let mut lines = lines();
    for (luck, transfer_s) in [(1, Some(201.0)), (2, Some(240.0)), (3, None)] {
        let mut other = line("other", "a", 180, transfer_s);
        other.parameters.insert("luck".into(), luck.into());
        // 3 timeouts in 50 s.
        (other.timeouts, other.bytes, other.goodput_mbps) = (Some(3), 50_000_000, 8.0);
        lines.push(other);
    }
    let paper = paper(&text);
    assert_eq!(
        super::entries(&paper, &lines)[1].reason,
        "+15.0% (+30.00); within 5% is the same; with luck: 201.0 to unfinished, as printed for \
         1 of 3; with timeouts: 6.0"
    );
    let fits = fits(&paper, &lines);
    let fits: Vec<_> = fits
        .iter()
        .map(|fit| (fit.value.clone(), fit.as_printed, fit.cells))
        .collect();
    let expected = [(1, 1), (2, 0), (3, 0)].map(|(luck, fitting)| (luck.into(), fitting, 1));
    assert_eq!(fits, expected);
}

#[test]
fn what_has_no_run_is_not_comparable() {
    let entries = super::entries(&paper(CLAIMS), &[]);
    assert_eq!(entries.len(), 12);
    assert!(
        entries
            .iter()
            .all(|entry| entry.verdict == Verdict::NotComparable),
        "{entries:?}"
    );
    let without_c: Vec<_> = lines()
        .into_iter()
        .filter(|line| line.parameters["tcp"] != "c")
        .collect();
    let entries = super::entries(&paper(CLAIMS), &without_c);
    let order = entries
        .iter()
        .find(|entry| entry.id == "times/order/len=180")
        .unwrap();
    assert_eq!(
        (order.verdict, order.reason.as_str()),
        (Verdict::NotComparable, "1 pairs as printed; no run of c")
    );
}

#[test]
fn a_condition_that_is_not_printed_leaves_the_order_alone_to_be_compared() {
    let text = CLAIMS.replace("unfinished = 0.0", "unfinished = 0.0\nopen = \"the load\"");
    let entries = super::entries(&paper(&text), &lines());
    assert!(
        entries[..6]
            .iter()
            .all(|entry| entry.verdict == Verdict::NotComparable)
    );
    assert_eq!(entries[0].reason, "not printed: the load");
    assert_eq!(entries[6].verdict, Verdict::Holds);
}

#[test]
fn repetitions_count_by_their_median_and_other_substrates_stand_beside() {
    let mut lines = lines();
    for (seed, transfer_s) in [(2, 99.0), (3, 101.0)] {
        let mut more = line("s", "a", 5, Some(transfer_s));
        more.seed = seed;
        lines.push(more);
    }
    let mut linux = line("s", "a", 5, Some(150.0));
    linux.substrate = "linux".into();
    lines.push(linux);
    let entries = super::entries(&paper(CLAIMS), &lines);
    assert_eq!(
        (&entries[0].model, &entries[0].linux),
        (&Some(101.0.into()), &Some(150.0.into()))
    );
    assert_eq!(entries[0].verdict, Verdict::Holds);
}

#[test]
fn a_wrong_file_is_refused_in_one_line() {
    let error = |text: &str| {
        ClaimsFile::parse("claims.toml", text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(&CLAIMS.replace("unfinished", "unfinisht")),
        "claims.toml: key `table.0.unfinisht`: got 0.0; there is no such key; did you mean `table.0.unfinished`?"
    );
    assert_eq!(
        error(&CLAIMS.replace("[110.0, 0.0] },\n    ]", "[110.0] },\n    ]")),
        "claims.toml: key `table.0.row.2.printed`: got [110.0]; takes 2 values, one a column"
    );
    assert!(
        error(&CLAIMS.replace("transfer_s = { percent = 5 }", "")).contains("`table.0.metric`")
    );
}

#[test]
fn the_json_is_what_readers_are_promised() {
    let entries = super::entries(&paper(CLAIMS), &lines());
    let json = serde_json::to_value(&entries[0]).unwrap();
    let mut keys: Vec<_> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "id", "linux", "live", "model", "paper", "printed", "reason", "verdict"
        ]
    );
    assert_eq!(json["verdict"], "holds");
}

/// The entry of the statement with this rule.
fn judged(rule: &str, lines: &[ResultLine]) -> Entry {
    let text = format!(
        "title = \"t\"\n[tolerance]\n[[statement]]\nid = \"claim\"\ntext = \"so\"\n\
         scenario = \"s.toml\"\nrule = [{rule}]"
    );
    super::entries(&paper(&text), lines).remove(0)
}

#[test]
fn alike_can_fail_and_reports_when_there_is_nothing_to_compare() {
    let rule = |parameter: &str| {
        format!(
            "{{ metric = \"transfer_s\", reduce = \"each\", compare = {{ parameter = \"{parameter}\", by = \"gain\" }}, expect = {{ is = \"at-most\", value = 5 }} }}"
        )
    };
    let two = |a, b| [line("s", "a", 5, a), line("s", "b", 5, b)];
    let apart = two(Some(100.0), Some(626.0));
    assert_eq!(judged(&rule("tcp"), &apart).verdict, Verdict::Differs);
    // Each run is a group of its own.
    let none = judged(&rule("pct"), &apart);
    assert_eq!(
        (none.verdict, none.reason.as_str()),
        (Verdict::NotComparable, "nothing to compare")
    );
    let none = judged(&rule("tcp"), &two(None, None));
    assert_eq!(
        (none.verdict, none.reason.as_str()),
        (
            Verdict::NotComparable,
            "nothing to compare; 2 of 2 unfinished, or without a run"
        )
    );
    let some = judged(&rule("tcp"), &two(Some(100.0), None));
    assert_eq!(some.verdict, Verdict::Differs);
    assert!(
        some.model
            .unwrap()
            .to_string()
            .contains("unfinished for 100.0"),
        "{}",
        some.reason
    );
    let mut near = two(Some(100.0), Some(104.0)).to_vec();
    near.extend([line("s", "a", 180, None), line("s", "b", 180, None)]);
    let near = judged(&rule("tcp"), &near);
    assert_eq!(near.verdict, Verdict::Holds);
    assert!(
        near.reason
            .ends_with("; 2 of 4 unfinished, or without a run")
    );
    // Two runs without retransmissions are also equal.
    let ratio = rule("tcp").replace("transfer_s", "retransmission_ratio_percent");
    assert_eq!(judged(&ratio, &apart).verdict, Verdict::Holds);
}

#[test]
fn pairs_that_cannot_be_compared_are_counted_in_the_reason() {
    let reduced = "{ metric = \"transfer_s\", reduce = \"each\", \
        compare = { parameter = \"tcp\", value = \"a\", by = \"saving\" }, \
        expect = { is = \"ends\", printed = [5, 9], points = 3 } }";
    // b over 180 s did not finish.
    let reason = judged(reduced, &lines()).reason;
    assert!(
        reason.ends_with("; 1 of 4 unfinished, or without a run"),
        "{reason}"
    );
    let gain = "{ metric = \"transfer_s\", reduce = \"each\", \
        compare = { parameter = \"tcp\", value = \"b\", with = \"a\", by = \"gain\" }, per = [], \
        expect = { is = \"ends\", printed = [10, 10], points = 3 } }";
    let reason = judged(gain, &lines()).reason;
    assert!(
        reason.ends_with("; 1 of 2 unfinished, or without a run"),
        "{reason}"
    );
    let whole = lines()
        .into_iter()
        .filter(|line| line.parameters["len"] == 5);
    let reason = judged(gain, &whole.collect::<Vec<_>>()).reason;
    assert!(!reason.contains("without a run"), "{reason}");
}

/// Compares the printed ratios with those of the segment counts.
const DEFINED: &str = "{ metric = \"retransmission_ratio_error\", reduce = \"each\", \
    expect = { is = \"at-most\", value = 1e-9 } }";

#[test]
fn ratios_of_a_file_that_are_not_those_of_their_segments_differ() {
    let mut lines = lines();
    lines[0].retransmission_ratio_percent = 1.0;
    let entry = judged(DEFINED, &lines);
    assert_eq!(entry.verdict, Verdict::Differs);
}

#[test]
fn what_is_the_same_in_a_cell_is_a_tie_in_an_order() {
    let text = CLAIMS.replace(
        "transfer_s = { percent = 5 }",
        "transfer_s = { percent = 5, absolute = 0.3 }",
    );
    let get = |b: f64, c: f64| {
        let lines = [
            line("s", "a", 5, Some(0.0)),
            line("s", "b", 5, Some(b)),
            line("s", "c", 5, Some(c)),
        ];
        let entries = super::entries(&paper(&text), &lines);
        let order = entries
            .into_iter()
            .find(|entry| entry.id == "times/order/len=5")
            .unwrap();
        (order.verdict, order.model.unwrap())
    };
    // The printed order is a < b = c.
    assert_eq!(get(1.0, 1.25), (Verdict::Holds, "a < b = c".into()));
    assert_eq!(get(1.0, 1.35), (Verdict::Differs, "a < b < c".into()));
    // The difference is less than a tie, in the printed order.
    let entries = entries(
        &paper(&text),
        &[
            line("s", "a", 5, Some(0.9)),
            line("s", "b", 5, Some(1.0)),
            line("s", "c", 5, Some(1.0)),
        ],
    );
    let order = entries.iter().find(|entry| entry.id == "times/order/len=5");
    assert_eq!(
        order.unwrap().reason,
        "1 pairs as printed, not a and b, a and c; 2 of these in the printed order, by less than \
         what counts as equal"
    );
    assert_eq!(order.unwrap().verdict, Verdict::Differs);
    // A tie also applies to values of 0.
    assert_eq!(get(0.2, 0.2), (Verdict::Differs, "a = b = c".into()));
    assert_eq!(get(0.4, 0.4), (Verdict::Holds, "a < b = c".into()));
}

#[test]
fn each_substrate_has_an_order_of_its_own() {
    let mut lines = lines();
    let order = |lines: &[ResultLine]| {
        let entries = super::entries(&paper(CLAIMS), lines);
        let get = |entry: &Entry| entry.id == "times/order/len=5";
        entries.into_iter().find(get).unwrap()
    };
    for (tcp, transfer_s) in [("a", 120.0), ("b", 110.0), ("c", 110.0)] {
        let mut linux = line("s", tcp, 5, Some(transfer_s));
        linux.substrate = "linux".into();
        lines.push(linux);
    }
    let both = order(&lines);
    assert_eq!(both.model, Some("a < b = c".into()));
    assert_eq!(both.linux, Some("b = c < a".into()));
    assert_eq!((both.live, both.verdict), (None, Verdict::Holds));
    lines.retain(|line| line.substrate == "linux");
    assert_eq!(order(&lines).verdict, Verdict::Differs);
}

#[test]
fn a_parameter_that_the_scenario_does_not_sweep_is_refused() {
    let sweeps = |_: &str| Ok(vec!["tcp".to_owned(), "len".to_owned(), "luck".to_owned()]);
    let check = |text: &str| {
        ClaimsFile::parse("claims.toml", text)?.check_parameters("claims.toml", text, &sweeps)
    };
    assert!(check(CLAIMS).is_ok());
    let error = |from: &str, to: &str| {
        assert!(CLAIMS.contains(from));
        check(&CLAIMS.replacen(from, to, 1))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("variants = \"tcp\"", "variants = \"tpc\""),
        "claims.toml: key `table.0.variants`: got `tpc`, which s.toml does not sweep; did you mean `tcp`?"
    );
    assert!(error("column = \"len\"", "column = \"length\"").contains("`table.0.column`"));
    assert!(error("{ tcp = \"b\" }", "{ tpc = \"b\" }").contains("`table.0.row.1.where`"));
    assert!(
        error("{ tcp = \"b\" }", "{ luck = 1 }")
            .contains("`table.0.row.1.where`: got { luck = 1 }; does not")
    );
    assert!(error("{ luck = true }", "{ lick = true }").contains("`table.0.alternative.0.where`"));
    assert!(error("where = { len = 5 }", "where = { lan = 5 }").contains("`statement.0.where`"));
    assert!(
        error("parameter = \"tcp\"", "parameter = \"tpc\"")
            .contains("`statement.0.rule.0.compare.parameter`: got `tpc`, which s.toml")
    );
}

#[test]
fn what_no_table_or_tolerance_can_be_is_refused() {
    let error = |from: &str, to: &str| {
        assert!(CLAIMS.contains(from));
        ClaimsFile::parse("claims.toml", &CLAIMS.replacen(from, to, 1))
            .unwrap_err()
            .to_string()
    };
    for (from, to, key) in [
        ("columns = [5, 180]", "columns = []", "`table.0.columns`"),
        ("[100.0, 200.0]", "[nan, 200.0]", "`table.0.row.0.printed`"),
        ("percent = 5", "percent = -5", "percent`: got -5"),
        ("percent = 5", "absolute = nan", "absolute`"),
        ("tie_percent = 1", "tie_percent = inf", "`tie_percent`"),
        ("points = 3", "points = -3", "`statement.0.rule.0.expect"),
    ] {
        let error = error(from, to);
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn a_papers_name_does_not_depend_on_the_path_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let paper = folder.path().join("paper-1999");
    std::fs::create_dir_all(paper.join("figures")).unwrap();
    std::fs::write(paper.join(CLAIMS_FILE), "title = \"t\"\n[tolerance]").unwrap();
    for path in [".", "figures/.."] {
        assert_eq!(Paper::load(&paper.join(path)).unwrap().name, "paper-1999");
    }
}

/// Lines of two variants; `fill` adds a handoff or packets to each.
fn filled(values: [f64; 2], fill: impl Fn(&mut ResultLine, f64)) -> Vec<ResultLine> {
    let lines = ["a", "b"].map(|tcp| line("s", tcp, 5, Some(1.0)));
    let mut lines: Vec<ResultLine> = lines.into();
    for (line, value) in lines.iter_mut().zip(values) {
        fill(line, value);
    }
    lines
}

#[test]
fn times_are_as_printed_if_the_least_and_the_most_of_the_medians_are() {
    let rule = "{ metric = \"goodput_mbps\", \
        compare = { parameter = \"tcp\", value = \"a\", with = \"b\" }, \
        expect = { is = \"ends\", printed = [1, 20], percent = 25 } }";
    let get = |near: f64, far: f64| {
        let mut lines = filled([near, 1.0], |line, value| line.goodput_mbps = value);
        let others = filled([far, 1.0], |line, value| line.goodput_mbps = value);
        lines.extend(others.into_iter().map(|mut line| {
            line.parameters.insert("len".into(), 180.into());
            line
        }));
        judged(rule, &lines)
    };
    let holds = get(0.9, 24.9);
    assert_eq!(holds.verdict, Verdict::Holds);
    assert_eq!(
        holds.reason,
        "0.90 to 24.90 times for 1.00 to 20.00 times; 25% more or less at either end is the same"
    );
    assert_eq!(holds.printed, "a against b: 1.00 to 20.00 times");
    assert_eq!(
        holds.model,
        Some("0.90 to 24.90 times (24.90 for 1.00, 0.90 for 1.00)".into())
    );
    assert_eq!(get(0.79, 20.0).verdict, Verdict::Differs);
    assert_eq!(get(1.0, 25.1).verdict, Verdict::Differs);
    // No value is beyond the printed one, but none is near it either.
    assert_eq!(get(1.0, 1.8).verdict, Verdict::Differs);
}

#[test]
fn a_range_is_kept_by_every_median_and_what_has_no_value_is_outside_of_it() {
    let rule = "{ metric = \"timeouts_per_100_s\", expect = { is = \"between\", printed = [10, 25], percent = 20 } }";
    let get = |values| {
        judged(
            rule,
            &filled(values, |line, value| line.timeouts = Some(value as u64)),
        )
    };
    // Within one second there are 100 times as many.
    assert_eq!(get([1.0, 1.0]).verdict, Verdict::Differs);
    let mut few = filled([1.0, 2.0], |line, value| {
        line.transfer_s = Some(10.0);
        line.timeouts = Some(value as u64);
    });
    assert_eq!(judged(rule, &few).verdict, Verdict::Holds);
    few[1].timeouts = None;
    let entry = judged(rule, &few);
    assert_eq!(entry.verdict, Verdict::Differs);
    assert!(
        entry.reason.contains("1 of 2 unfinished"),
        "{}",
        entry.reason
    );
}

/// Three runs of `a` hung, and one was fast. All runs of `b` were slower than that one.
fn mostly_hung(metric: fn(&mut ResultLine, Option<f64>)) -> Vec<ResultLine> {
    let hung = [None, None, None, Some(10.0)].map(|value| ("a", value));
    let slow = [20.0; 4].map(|value| ("b", Some(value)));
    let runs = (0..4).flat_map(|seed| [(seed, hung[seed]), (seed, slow[seed])]);
    let lines = runs.map(|(seed, (tcp, value))| {
        let mut line = line("s", tcp, 5, None);
        line.seed = seed as u64;
        metric(&mut line, value);
        line
    });
    lines.collect()
}

#[test]
fn runs_that_never_came_to_it_are_the_longest_of_a_median() {
    let transfer = |line: &mut ResultLine, value: Option<f64>| line.transfer_s = value;
    let handoff = |line: &mut ResultLine, value: Option<f64>| {
        line.handoff = Some(HandoffSummary {
            count: 1,
            first_packet_ms_median: value,
            first_packet_ms_max: value,
            new_byte_ms_median: value,
            lost_packets_median: 0.0,
            duplicate_packets_median: 0.0,
            sent_again_packets_median: 0.0,
            buffered_bytes_max: None,
            state_bytes_max: None,
        });
    };
    for (metric, lines) in [
        ("transfer_s", mostly_hung(transfer)),
        ("handoff_ms", mostly_hung(handoff)),
    ] {
        let rule = |expect: &str| {
            format!(
                "{{ metric = \"{metric}\", compare = {{ parameter = \"tcp\", value = \"a\", \
                 with = \"b\" }}, expect = {{ {expect} }} }}"
            )
        };
        let less = rule("is = \"below\", value = 1");
        let entry = judged(&less, &lines);
        assert_eq!(
            entry.verdict,
            Verdict::Differs,
            "{metric}: {}",
            entry.reason
        );
        assert_eq!(entry.model, Some("inf times (unfinished for 20.0)".into()));
        // Without the hung runs it would be 10 over 20.
        let half = rule("is = \"ends\", printed = [0.5, 0.5], percent = 5");
        let times = judged(&half, &lines);
        assert_eq!(
            times.verdict,
            Verdict::Differs,
            "{metric}: {}",
            times.reason
        );
        // If neither side reached the metric, there is nothing to compare.
        let hung = lines.into_iter().filter(|line| line.seed < 3);
        let hung = hung.map(|mut line| {
            (line.transfer_s, line.handoff) = (None, None);
            line
        });
        let hung: Vec<_> = hung.collect();
        for rule in [less, half] {
            assert_eq!(judged(&rule, &hung).verdict, Verdict::NotComparable);
        }
    }
}

fn traced(line: &mut ResultLine, acks_not_of_the_mh: u64, sent_again_ms: f64) {
    line.traced = Some(Traced {
        acks: 100,
        acks_not_of_the_mh,
        sent_again_ms: Some(sent_again_ms),
    });
}

#[test]
fn less_is_less_in_every_pair() {
    let rule = "{ metric = \"sent_again_ms\", \
        compare = { parameter = \"tcp\", value = \"a\", with = \"b\" }, \
        expect = { is = \"below\", value = 1 } }";
    let get = |values| judged(rule, &filled(values, |line, value| traced(line, 0, value)));
    assert_eq!(get([10.0, 20.0]).verdict, Verdict::Holds);
    assert_eq!(get([20.0, 20.0]).verdict, Verdict::Differs);
    // The packets were not read.
    assert_eq!(judged(rule, &lines()).verdict, Verdict::NotComparable);
}

/// All ACKs of `a` are the MH's.
const ACKS: &str = "{ metric = \"acks_not_of_the_mh\", where = { tcp = \"a\" }, reduce = \"mean\", \
    expect = { is = \"between\", printed = [0, 0] } }";

#[test]
fn one_ack_that_is_not_the_mhs_is_too_many() {
    let get = |values| {
        judged(
            ACKS,
            &filled(values, |line, value| traced(line, value as u64, 1.0)),
        )
    };
    // b is another variant, which the rule leaves out.
    let holds = get([0.0, 7.0]);
    assert_eq!(holds.verdict, Verdict::Holds);
    assert_eq!(
        holds.reason,
        "so in 1 of 1 combinations; asked for in 100%; 0% beyond is the same"
    );
    assert_eq!(holds.model, Some("0 of 100".into()));
    assert_eq!(get([1.0, 0.0]).verdict, Verdict::Differs);
    assert_eq!(judged(ACKS, &lines()).verdict, Verdict::NotComparable);
}

#[test]
fn packets_are_read_only_where_a_rule_needs_them() {
    let file = |rule: &str| {
        let at = CLAIMS.find("rule = ").unwrap();
        let end = at + CLAIMS[at..].find('\n').unwrap();
        format!("{}rule = [{rule}]{}", &CLAIMS[..at], &CLAIMS[end..])
    };
    let get = |rule: &str| {
        let claims = ClaimsFile::parse("claims.toml", &file(rule)).unwrap();
        claims.traced_scenarios().join(" ")
    };
    assert_eq!(get(ACKS), "s.toml");
    assert_eq!(get(DEFINED), "");
}
