// SPDX-License-Identifier: Apache-2.0
//! Finds keys that no run of a scenario reads: `gateway.mtcp.slow_start` beside `gateway.scheme = "snoop"`,
//! or `bit_error_effect` without an error rate. The author expects an effect, and the results would be those
//! without the key. A sweep sets keys for several runs: one run that reads the key is enough. The tables of
//! single cells are not searched.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_files::document::DocumentError;
use holdfast_link::{LinkSettings, OutageSettings};
use toml::{Table, Value};

use super::conditions::{self, Conditions};
use super::gateway::{SchemeChoice, SignalChoice};
use super::keys::Keys;
use super::sweep::{Parameters, Point, add_given};

/// A key that is read only if another key is set.
struct Companion {
    /// The key's name in a hop's table.
    key: &'static str,
    /// The key that has to be set too.
    beside: &'static str,
    /// Whether that key is set in a direction of a hop.
    is_there: fn(&LinkSettings) -> bool,
}

const COMPANIONS: [Companion; 3] = [
    Companion {
        key: "trace_format",
        beside: "rate_trace",
        is_there: has_trace,
    },
    Companion {
        key: "trace_start_s",
        beside: "rate_trace",
        is_there: has_trace,
    },
    Companion {
        key: "bit_error_effect",
        beside: "bit_error_rate",
        is_there: |link| link.bit_error_rate > 0.0,
    },
];
/// The key outside of hops that needs another key, and that other key.
const RECORD_INTERVAL: [&str; 2] = ["record_interval_ms", "record"];
/// The keys that describe the gateway's signals.
const OF_SIGNALS: [&str; 2] = ["gateway.signal_delay_ms", "gateway.warning_ms"];

/// The tables with keys of schemes.
const TABLES: [&str; 2] = ["gateway", "mobile"];
/// The tables of hops, and the tables of directions in them.
const HOPS: [&str; 2] = ["wired", "wireless"];
const DIRECTIONS: [&str; 2] = ["downlink", "uplink"];
/// Keys that a sweep of schemes may have even if none of its schemes reads signals.
const SIGNALS: [&str; 2] = ["gateway.signal", "mobile.signal"];

/// The first key that the scenario sets and none of its runs reads, with a document that sets it. A default
/// value changes nothing, and is accepted.
pub(super) fn first(combinations: &[(Point, Conditions)]) -> Option<(&Table, DocumentError)> {
    let mut read = BTreeSet::new();
    // For each key its values, each with the first combination that sets it.
    let mut unread: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for (number, (point, conditions)) in combinations.iter().enumerate() {
        let mut given = given(&point.document);
        given.retain(|key, _| !read.contains(key) && !SIGNALS.contains(&key.as_str()));
        if given.is_empty() {
            continue;
        }
        let keys = keys(conditions);
        for (key, value) in given {
            if keys.contains_key(&key) {
                unread.remove(&key);
                read.insert(key);
            } else {
                let values = unread.entry(key).or_default();
                values.entry(value.to_string()).or_insert(number);
            }
        }
    }
    unread.into_iter().find_map(|(key, values)| {
        let mut numbers = values.into_values();
        let number = numbers.find(|number| changes(&combinations[*number], &key))?;
        let (point, conditions) = &combinations[number];
        let problem = problem(&key, conditions, combinations);
        Some((&point.document, DocumentError::at(&key, problem)))
    })
}

/// The keys that a document sets for schemes, and those that need another key.
fn given(document: &Table) -> Parameters {
    let mut keys = Parameters::new();
    for (path, table) in hops(document) {
        for Companion { key, .. } in COMPANIONS {
            if let Some(value) = table.get(key) {
                add_given(format!("{path}.{key}"), value, &mut keys);
            }
        }
    }
    if let Some(value) = document.get(RECORD_INTERVAL[0]) {
        add_given(RECORD_INTERVAL[0].to_owned(), value, &mut keys);
    }
    for table in TABLES {
        if let Some(value) = document.get(table) {
            add_given(table.to_owned(), value, &mut keys);
        }
    }
    keys
}

/// The tables of hops and of their directions, with their paths.
fn hops(document: &Table) -> Vec<(String, &Table)> {
    let mut tables = Vec::new();
    for name in HOPS {
        let Some(Value::Table(hop)) = document.get(name) else {
            continue;
        };
        tables.push((name.to_owned(), hop));
        for direction in DIRECTIONS {
            if let Some(Value::Table(own)) = hop.get(direction) {
                tables.push((format!("{name}.{direction}"), own));
            }
        }
    }
    tables
}

fn has_trace(link: &LinkSettings) -> bool {
    link.rate_trace.is_some() || matches!(link.outages, OutageSettings::Trace { file: Some(_), .. })
}

/// The keys that these conditions read: keys of schemes, and keys that need another key.
fn keys(conditions: &Conditions) -> Parameters {
    let mut keys = Keys::default();
    let wired = conditions.wired.iter().map(|hop| (HOPS[0], hop));
    let cells = conditions.cells.iter().map(|cell| (HOPS[1], cell));
    for (name, hop) in wired.chain(cells) {
        for Companion { key, is_there, .. } in COMPANIONS {
            let read = [&hop.downlink, &hop.uplink].map(is_there);
            for (direction, is_read) in DIRECTIONS.into_iter().zip(read) {
                if is_read {
                    keys.add(&format!("{name}.{direction}.{key}"), true);
                    // A key in the hop's own table is for both directions.
                    keys.add(&format!("{name}.{key}"), true);
                }
            }
        }
    }
    if !conditions.record.is_empty() {
        keys.add(RECORD_INTERVAL[0], true);
    }
    conditions.gateway.add_to(&mut keys, conditions.cells.len());
    conditions.mobile.add_to(&mut keys);
    if conditions.gateway.signal == SignalChoice::None {
        keys.0.retain(|key, _| !OF_SIGNALS.contains(&key.as_str()));
    }
    keys.0
}

/// Whether the key changes the conditions.
fn changes((point, conditions): &(Point, Conditions), key: &str) -> bool {
    let mut without = point.document.clone();
    remove(&mut without, key);
    conditions::read(&without).as_ref() != Ok(conditions)
}

fn remove(table: &mut Table, key: &str) {
    let mut tables: Vec<&str> = key.split('.').collect();
    let last = tables.pop().unwrap_or_default();
    let within = tables.into_iter().try_fold(table, |table, name| {
        table.get_mut(name).and_then(Value::as_table_mut)
    });
    if let Some(table) = within {
        table.remove(last);
    }
}

/// The problem with the key, and the remedy.
fn problem(key: &str, conditions: &Conditions, combinations: &[(Point, Conditions)]) -> String {
    let of_hops = COMPANIONS.iter().map(|item| [item.key, item.beside]);
    let mut companions = of_hops.chain([RECORD_INTERVAL]);
    if let Some([_, beside]) = companions.find(|[own, _]| key.rsplit('.').next() == Some(own)) {
        return format!(
            "no run of this scenario reads it, without {beside}; remove it, or set {beside}"
        );
    }
    let mut signals = combinations
        .iter()
        .map(|(_, conditions)| conditions.gateway.signal);
    if OF_SIGNALS.contains(&key) && signals.all(|signal| signal == SignalChoice::None) {
        return "no run of this scenario reads it, with gateway.signal = none; remove it, or set gateway.signal"
            .to_owned();
    }
    let is_of_mobile = key.starts_with("mobile.");
    let own = if is_of_mobile {
        "mobile.scheme"
    } else {
        "gateway.scheme"
    };
    let schemes = combinations.iter().map(|(_, conditions)| {
        if is_of_mobile {
            conditions.mobile.scheme.name()
        } else {
            conditions.gateway.scheme.name()
        }
    });
    let schemes: BTreeSet<&str> = schemes.collect();
    let schemes: Vec<&str> = schemes.into_iter().collect();
    let remedy = match readers(key, conditions).as_slice() {
        _ if is_of_mobile => format!(", or set {own}"),
        [] if key.starts_with("gateway.handoff.") => {
            ", or set gateway.handoff.kind with hold, snoop or mtcp, and several cells".to_owned()
        }
        [] => String::new(),
        [one] => format!(", or set {own} = {one}"),
        several => format!(", or set {own} to one of {}", several.join(", ")),
    };
    format!(
        "no run of this scenario reads it, with {own} = {}; remove it{remedy}",
        schemes.join(", ")
    )
}

/// The gateway's schemes with which these conditions would read the key.
fn readers(key: &str, conditions: &Conditions) -> Vec<&'static str> {
    let readers = SchemeChoice::ALL.into_iter().filter(|scheme| {
        let mut conditions = conditions.clone();
        conditions.gateway.scheme = *scheme;
        conditions.gateway.signal = SignalChoice::default();
        keys(&conditions).contains_key(key)
    });
    readers.map(SchemeChoice::name).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::scenario::Scenario;

    fn error(more: &str) -> Option<String> {
        let text = format!("[transfer]\nbytes = 1000\n[wireless]\n{more}");
        let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
        scenario.runs(None).err().map(|error| error.to_string())
    }

    #[test]
    fn a_key_of_a_scheme_that_no_run_has_is_refused_in_one_line_with_the_remedy() {
        for (more, line) in [
            (
                "[gateway]\nscheme = \"snoop\"\nmtcp = { slow_start = false }",
                "`gateway.mtcp.slow_start`: got false; no run of this scenario reads it, \
                 with gateway.scheme = snoop; remove it, or set gateway.scheme = mtcp",
            ),
            (
                "[gateway.snoop]\npersist_ms = 100\n[[sweep]]\nname = \"scheme\"\nkey = \"gateway.scheme\"\n\
                 values = [\"none\", \"mtcp\", \"hold\"]",
                "`gateway.snoop.persist_ms`: got 100; no run of this scenario reads it, \
                 with gateway.scheme = hold, mtcp, none; remove it, or set gateway.scheme to one of auto, snoop",
            ),
            (
                "[mobile]\nwarning_ms = 100",
                "`mobile.warning_ms`: got 100; no run of this scenario reads it, \
                 with mobile.scheme = none; remove it, or set mobile.scheme",
            ),
            (
                "[gateway]\nscheme = \"hold\"\nwarning_ms = 5",
                "`gateway.warning_ms`: got 5; no run of this scenario reads it, \
                 with gateway.scheme = hold; remove it, or set gateway.scheme = mtcp-2007",
            ),
            (
                "[gateway]\nscheme = \"hold\"\nsignal = \"none\"\nsignal_delay_ms = 5",
                "`gateway.signal_delay_ms`: got 5; no run of this scenario reads it, \
                 with gateway.signal = none; remove it, or set gateway.signal",
            ),
            (
                "bit_error_effect = \"corrupt\"",
                "`wireless.bit_error_effect`: got \"corrupt\"; no run of this scenario reads it, \
                 without bit_error_rate; remove it, or set bit_error_rate",
            ),
            (
                "uplink = { trace_start_s = 3 }",
                "`wireless.uplink.trace_start_s`: got 3; no run of this scenario reads it, \
                 without rate_trace; remove it, or set rate_trace",
            ),
            (
                "[gateway]\nscheme = \"hold\"\nhandoff = { always = true }",
                "`gateway.handoff.always`: got true; no run of this scenario reads it, \
                 with gateway.scheme = hold; remove it, or set gateway.handoff.kind with hold, snoop or mtcp, and several cells",
            ),
        ] {
            assert_eq!(
                error(more).as_deref(),
                Some(format!("s.toml: key {line}").as_str())
            );
        }
    }

    #[test]
    fn an_interval_without_a_record_is_refused() {
        let text = "record_interval_ms = 50\n[transfer]\nbytes = 1000\n[wireless]\n";
        let refusal = |text: &str| {
            let scenario = Scenario::parse(Path::new("s.toml"), text).unwrap();
            scenario.runs(None).err().map(|error| error.to_string())
        };
        let line = "s.toml: key `record_interval_ms`: got 50; no run of this scenario reads it, \
                    without record; remove it, or set record";
        assert_eq!(refusal(text).as_deref(), Some(line));
        let recorded = format!("record = [\"cwnd\"]\n{text}");
        assert_eq!(refusal(&recorded), None);
    }

    #[test]
    fn an_effect_of_bit_errors_is_read_if_one_run_has_errors() {
        let sweep = "bit_error_effect = \"corrupt\"\n[[sweep]]\nname = \"rate\"\n\
            key = \"wireless.bit_error_rate\"\nvalues = [0, 1e-6]";
        assert_eq!(error(sweep), None);
    }

    #[test]
    fn a_sweep_that_gives_a_key_where_it_is_not_read_is_refused() {
        let sweep = "[[sweep]]\nname = \"scheme\"\npoints = [\n\
            { name = \"snoop\", set = { \"gateway.scheme\" = \"snoop\", \"gateway.mtcp.persist\" = \"published\" } },\n\
            { name = \"mtcp\", set = { \"gateway.scheme\" = \"mtcp\" } },\n]";
        let line = error(sweep).unwrap();
        assert!(
            line.contains("`gateway.mtcp.persist`: got \"published\""),
            "{line}"
        );
    }

    #[test]
    fn one_run_that_reads_the_key_is_enough() {
        let keys = "[gateway]\nsignal = \"mobile\"\nresend_dscp = 46\nmtcp = { set = \"published\" }\n\
            snoop = { set = \"1995\" }\n[mobile]\nsignal = \"none\"\n";
        for schemes in [
            "\"snoop\", \"mtcp\", \"none\"",
            "\"none\", \"mtcp\", \"snoop\"",
        ] {
            let sweep = "[[sweep]]\nname = \"scheme\"\nkey = \"gateway.scheme\"";
            assert_eq!(error(&format!("{keys}{sweep}\nvalues = [{schemes}]")), None);
        }
    }

    #[test]
    fn a_value_that_changes_nothing_is_taken() {
        let defaults = "[gateway]\nwarning_ms = 0.0\nrestarts_s = []\nsnoop = { set = \"today\" }\n\
            handoff = { kind = \"none\" }\n[mobile]\nwarning_ms = 0\nfreeze_set = \"today\"";
        assert_eq!(error(defaults), None);
    }
}
