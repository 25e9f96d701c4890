// SPDX-License-Identifier: Apache-2.0
//! Rules that count: ACKs, runs that finish, ratios that are what they should be.

use serde_json::{Value as Json, json};

use super::Found;
use crate::claims::file::Rule;
use crate::claims::verdict::{same, word};
use crate::results::{ResultLine, retransmission_ratio_percent};

/// What such a rule found; nothing for others.
pub(super) fn found(rule: &Rule, lines: &[&ResultLine]) -> Found {
    match rule {
        Rule::AcksOfTheMh { parameter, value } => acks_of_the_mh(parameter, value, lines),
        Rule::Finishes {
            parameter,
            with,
            without,
        } => finishes(parameter, [with, without], lines),
        Rule::RatioIsDefined {} => ratio_is_defined(lines),
        Rule::AllFinish { parameter, value } => all_finish(parameter, value, lines),
        Rule::SomeUnfinished {
            parameter,
            all,
            some,
        } => some_unfinished(parameter, [all, some], lines),
        _ => Found {
            printed: json!(null),
            came: None,
            holds: None,
            reason: "a rule that counts nothing".to_owned(),
        },
    }
}

fn acks_of_the_mh(parameter: &str, value: &Json, lines: &[&ResultLine]) -> Found {
    let traced: Vec<_> = lines
        .iter()
        .filter(|line| {
            let has = line.parameters.get(parameter);
            has.is_some_and(|has| same(has, value))
        })
        .filter_map(|line| line.traced.as_ref())
        .collect();
    let all: u64 = traced.iter().map(|its| its.acks).sum();
    let others: u64 = traced.iter().map(|its| its.acks_not_of_the_mh).sum();
    let came = format!("{others} of {all} ACKs are not the MH's");
    Found {
        printed: json!("no ACK that the MH did not send"),
        holds: (all > 0).then_some(others == 0),
        reason: format!("{came}, in the packets of {} runs", traced.len()),
        came: (all > 0).then(|| json!(came)),
    }
}

/// How many runs with a value finished, of how many.
fn count(parameter: &str, wanted: &Json, lines: &[&ResultLine]) -> (usize, usize) {
    let has = |line: &&&ResultLine| {
        let value = line.parameters.get(parameter);
        value.is_some_and(|value| same(value, wanted))
    };
    let runs: Vec<_> = lines.iter().filter(has).collect();
    let finished = runs.iter().filter(|line| line.finished).count();
    (finished, runs.len())
}

fn all_finish(parameter: &str, value: &Json, lines: &[&ResultLine]) -> Found {
    let (finished, runs) = count(parameter, value, lines);
    let came = format!("{finished} of {runs} with {}", word(value));
    Found {
        printed: json!("all finish"),
        holds: (runs > 0).then_some(finished == runs),
        reason: format!("finished: {came}"),
        came: (runs > 0).then(|| json!(came)),
    }
}

fn some_unfinished(parameter: &str, [all, some]: [&Json; 2], lines: &[&ResultLine]) -> Found {
    let (of_all, all_runs) = count(parameter, all, lines);
    let (of_some, some_runs) = count(parameter, some, lines);
    let came = format!(
        "{of_all} of {all_runs} with {}, {of_some} of {some_runs} with {}",
        word(all),
        word(some)
    );
    let has_runs = all_runs > 0 && some_runs > 0;
    Found {
        printed: json!(format!(
            "all with {}, not all with {}",
            word(all),
            word(some)
        )),
        holds: has_runs.then_some(of_all == all_runs && of_some < some_runs),
        reason: format!("finished: {came}"),
        came: has_runs.then(|| json!(came)),
    }
}

fn finishes(parameter: &str, [with, without]: [&Json; 2], lines: &[&ResultLine]) -> Found {
    let (with_finished, with_runs) = count(parameter, with, lines);
    let (without_finished, without_runs) = count(parameter, without, lines);
    let came = format!(
        "{with_finished} of {with_runs} with {}, {without_finished} of {without_runs} with {}",
        word(with),
        word(without)
    );
    Found {
        printed: json!(format!("with {}, not with {}", word(with), word(without))),
        holds: (with_runs > 0 && without_runs > 0)
            .then_some(with_finished == with_runs && without_finished == 0),
        reason: format!("finished: {came}"),
        came: Some(json!(came)),
    }
}

/// A definition claims nothing that could come out otherwise: our ratios are computed by it.
/// Those of a file may not be.
fn ratio_is_defined(lines: &[&ResultLine]) -> Found {
    let wrong = lines.iter().filter(|line| {
        let ratio = retransmission_ratio_percent(line.segments, line.retransmitted_segments);
        (ratio - line.retransmission_ratio_percent).abs() > 1e-9
    });
    let (wrong, all) = (wrong.count(), lines.len());
    let reason = if wrong == 0 {
        format!("a definition: the ratios of all {all} runs are computed by it")
    } else {
        format!("the ratios of {wrong} of {all} runs are not those of their segments")
    };
    Found {
        printed: json!("100 x retransmitted / (all - retransmitted)"),
        came: Some(json!(format!("{} of {all} runs", all - wrong))),
        holds: (wrong > 0).then_some(false),
        reason,
    }
}
