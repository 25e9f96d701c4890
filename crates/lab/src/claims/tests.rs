// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::results::Framing;
use crate::scenario::Scenario;

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
    rule = { kind = "gain", metric = "transfer_s", parameter = "tcp", better = "a", than = "b", printed = 10, points = 3 }
    [[statement]]
    id = "alike"
    text = "all are alike"
    scenario = "s.toml"
    where = { len = 5 }
    rule = { kind = "alike", metric = "transfer_s", parameter = "tcp", percent = 20 }
    [[statement]]
    id = "reduced"
    text = "a takes less"
    scenario = "s.toml"
    rule = { kind = "reduced-by", metric = "transfer_s", parameter = "tcp", better = "a", printed = [5, 9], points = 3 }
    [[statement]]
    id = "ratio"
    text = "its definition"
    scenario = "s.toml"
    rule = { kind = "ratio-is-defined" }
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
    let entries = paper(CLAIMS).entries(&lines);
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
            // b and c are printed alike and were not.
            ("times/order/len=180", Verdict::Differs),
            ("gain", Verdict::Holds),
            ("alike", Verdict::Holds),
            // a took 23% less than c over 180 s.
            ("reduced", Verdict::Differs),
            ("ratio", Verdict::Holds),
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
fn what_has_no_run_is_not_comparable() {
    let entries = paper(CLAIMS).entries(&[]);
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
    let entries = paper(CLAIMS).entries(&without_c);
    let order = entries
        .iter()
        .find(|entry| entry.id == "times/order/len=180")
        .unwrap();
    assert_eq!(
        (order.verdict, order.reason.as_str()),
        (Verdict::Holds, "1 pairs as printed; no run of c")
    );
}

#[test]
fn a_condition_that_is_not_printed_leaves_the_order_alone_to_be_compared() {
    let text = CLAIMS.replace("unfinished = 0.0", "unfinished = 0.0\nopen = \"the load\"");
    let entries = paper(&text).entries(&lines());
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
    let entries = paper(CLAIMS).entries(&lines);
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
    let entries = paper(CLAIMS).entries(&lines());
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
