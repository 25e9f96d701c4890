// SPDX-License-Identifier: Apache-2.0
//! Verdicts under assumptions, beside those of the printed conditions.

use super::*;

/// The claims with an assumption `late` for the table and the first statement.
fn claims(decides: bool) -> String {
    let assumed =
        "scenario = \"s.toml\"\nassumed = [{ assumption = \"late\", scenario = \"late.toml\" }]\n";
    let text = CLAIMS.replacen("scenario = \"s.toml\"\n", assumed, 2);
    let assumption = format!(
        "[[assumption]]\nid = \"late\"\nwhat = \"w\"\nwhy = \"y\"\nchanges = \"c\"\n\
         decides = {decides}\n[[table]]\n"
    );
    text.replacen("[[table]]\n", &assumption, 1)
}

/// Under the assumption each time is as printed: 100 s and 110 s.
fn lines_of_both() -> Vec<ResultLine> {
    let assumed = [
        line("late", "a", 5, Some(100.0)),
        line("late", "b", 5, Some(110.0)),
        line("late", "c", 5, Some(110.0)),
        line("late", "a", 180, Some(200.0)),
        line("late", "b", 180, None),
        line("late", "c", 180, None),
    ];
    lines().into_iter().chain(assumed).collect()
}

fn entry<'a>(entries: &'a [Entry], id: &str) -> &'a Entry {
    entries.iter().find(|entry| entry.id == id).unwrap()
}

#[test]
fn an_assumption_that_decides_gives_the_verdict_and_the_printed_one_stands_beside_it() {
    let paper = paper(&claims(true));
    let entries = super::super::entries(&paper, &lines_of_both());
    let cell = entry(&entries, "times/tcp=a/len=180");
    assert_eq!(cell.verdict, Verdict::Holds);
    assert_eq!(cell.verdict_as_printed, Some(Verdict::Differs));
    assert_eq!(cell.assumption.as_deref(), Some("late"));
    assert_eq!(cell.model, Some(200.0.into()));
    assert!(
        cell.reason.ends_with("as printed: 230.0, differs"),
        "{}",
        cell.reason
    );
    let gain = entry(&entries, "gain");
    assert_eq!(gain.verdict, Verdict::Holds);
    assert_eq!(gain.verdict_as_printed, Some(Verdict::Holds));
    // This statement has no assumption.
    assert_eq!(entry(&entries, "alike").verdict_as_printed, None);
}

#[test]
fn an_assumption_that_does_not_decide_stands_beside_the_printed_verdict() {
    let paper = paper(&claims(false));
    let entries = super::super::entries(&paper, &lines_of_both());
    let cell = entry(&entries, "times/tcp=a/len=180");
    assert_eq!((cell.verdict, &cell.assumption), (Verdict::Differs, &None));
    assert_eq!(cell.model, Some(230.0.into()));
    let beside = "; with assumption late: 200.0, holds";
    assert!(cell.reason.ends_with(beside), "{}", cell.reason);
    assert_eq!(counts_as_printed(&entries), None);
}

#[test]
fn assumed_runs_are_carried_out_on_the_model_alone() {
    let claims = paper(&claims(true)).claims;
    assert!(claims.scenarios(true).contains(&"late.toml"));
    assert!(!claims.scenarios(false).contains(&"late.toml"));
}

#[test]
fn an_assumption_that_is_not_there_or_not_used_is_refused() {
    let error = |from: &str, to: &str| {
        let text = claims(true);
        assert!(text.contains(from));
        let changed = ClaimsFile::parse("claims.toml", &text.replacen(from, to, 1));
        changed.unwrap_err().to_string()
    };
    let unknown = error("assumption = \"late\"", "assumption = \"early\"");
    assert!(
        unknown.contains("`table.0.assumed.0.assumption`"),
        "{unknown}"
    );
    let more =
        "[[assumption]]\nid = \"odd\"\nwhat = \"w\"\nwhy = \"y\"\nchanges = \"c\"\n[[table]]\n";
    let unused = error("[[table]]\n", more);
    assert!(unused.contains("`assumption.1.id`"), "{unused}");
    assert!(error("why = \"y\"\n", "").contains("why"));
}

/// The claims with a second assumption for the table, which compares another metric.
fn claims_with_goodput(decides: bool) -> String {
    let late = "{ assumption = \"late\", scenario = \"late.toml\" }";
    let both = format!(
        "{{ assumption = \"odd\", scenario = \"s.toml\", metric = \"goodput_mbps\" }}, {late}"
    );
    let text = claims(true).replacen(late, &both, 1);
    let assumption = format!(
        "goodput_mbps = {{ percent = 5 }}\n[[assumption]]\nid = \"odd\"\nwhat = \"w\"\n\
         why = \"y\"\nchanges = \"c\"\ndecides = {decides}\n[[assumption]]\n"
    );
    text.replacen("[[assumption]]\n", &assumption, 1)
}

#[test]
fn several_assumptions_stand_beside_the_one_that_decides() {
    let mut lines = lines_of_both();
    for line in &mut lines {
        line.goodput_mbps = 110.0;
    }
    let entries = super::super::entries(&paper(&claims_with_goodput(false)), &lines);
    let cell = entry(&entries, "times/tcp=b/len=5");
    assert_eq!(cell.assumption.as_deref(), Some("late"));
    assert_eq!(cell.verdicts_beside.get("odd"), Some(&Verdict::Holds));
    let beside = "; with assumption odd: 110.0, holds";
    assert!(cell.reason.ends_with(beside), "{}", cell.reason);
    // The printed value is 100 s.
    let cell = entry(&entries, "times/tcp=a/len=5");
    assert_eq!(cell.verdict, Verdict::Holds);
    assert_eq!(cell.verdicts_beside.get("odd"), Some(&Verdict::Differs));
    assert!(entry(&entries, "gain").verdicts_beside.is_empty());
}

#[test]
fn a_claim_has_one_assumption_that_decides_and_each_figure_a_tolerance() {
    let error = |text: &str| {
        ClaimsFile::parse("claims.toml", text)
            .unwrap_err()
            .to_string()
    };
    let two = error(&claims_with_goodput(true));
    assert!(two.contains("`table.0.assumed.1.assumption`"), "{two}");
    let untolerated = claims_with_goodput(false).replace("goodput_mbps = { percent = 5 }\n", "");
    let untolerated = error(&untolerated);
    assert!(
        untolerated.contains("`table.0.assumed.0.metric`"),
        "{untolerated}"
    );
    let of_statement = claims(true).replacen(
        "late.toml\" }]\n    where",
        "late.toml\", metric = \"transfer_s\" }]\n    where",
        1,
    );
    let of_statement = error(&of_statement);
    assert!(
        of_statement.contains("`statement.0.assumed.0.metric`"),
        "{of_statement}"
    );
}
