// SPDX-License-Identifier: Apache-2.0
//! Verdicts under assumptions, beside those of the printed conditions.

use super::*;

/// The claims with an assumption `late` for the table and the first statement.
fn claims(decides: bool) -> String {
    let assumed =
        "scenario = \"s.toml\"\nassumed = { assumption = \"late\", scenario = \"late.toml\" }\n";
    let text = CLAIMS.replacen("scenario = \"s.toml\"\n", assumed, 2);
    let assumption = format!(
        "[[assumption]]\nid = \"late\"\nwhat = \"w\"\nwhy = \"y\"\nchanges = \"c\"\n\
         decides = {decides}\n[[table]]\n"
    );
    text.replacen("[[table]]\n", &assumption, 1)
}

/// Under the assumption each time is as printed: 100 s, and 110 s.
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
    // Without an assumption of its own.
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
        unknown.contains("`table.0.assumed.assumption`"),
        "{unknown}"
    );
    let more =
        "[[assumption]]\nid = \"odd\"\nwhat = \"w\"\nwhy = \"y\"\nchanges = \"c\"\n[[table]]\n";
    let unused = error("[[table]]\n", more);
    assert!(unused.contains("`assumption.1.id`"), "{unused}");
    assert!(error("why = \"y\"\n", "").contains("why"));
}
