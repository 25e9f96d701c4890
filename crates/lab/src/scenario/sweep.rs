// SPDX-License-Identifier: Apache-2.0
//! `[[sweep]]`: one document becomes many, one for each combination of values.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value as Json;
use toml::{Table, Value};

use holdfast_files::document::{self, DocumentError};

/// The largest number of combinations.
const POINTS_MAX: usize = 100_000;
/// The largest number of parts of a key, with the key itself.
const KEY_PARTS_MAX: usize = 16;
/// The table of the sweeps themselves.
const OWN_TABLE: &str = "sweep";

/// The sweeps' names and values, in order: they identify a run in its scenario.
pub type Parameters = serde_json::Map<String, Json>;

/// One combination.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The names and values of all sweeps.
    pub(super) parameters: Parameters,
    /// `name=value` of each sweep, in their order.
    pub(super) variant: String,
    /// The document with the sweeps' values, and without sweeps.
    pub(super) document: Table,
}

impl Point {
    /// The point with one more sweep's value; none: there is a sweep of that name already.
    fn with(&self, name: &str, value: &Json) -> Option<Self> {
        let mut point = self.clone();
        let shown = format!("{name}={}", word(value));
        if !point.variant.is_empty() {
            point.variant.push(' ');
        }
        point.variant.push_str(&shown);
        let taken = point.parameters.insert(name.to_owned(), value.clone());
        taken.is_none().then_some(point)
    }
}

/// One sweep: either `key` and `values`, or `points` that set several keys at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// Its name in results.
    name: String,
    /// The key that takes the values, with its tables.
    #[serde(default)]
    key: Option<String>,
    /// Its values.
    #[serde(default)]
    values: Vec<Value>,
    /// Named sets of keys and values.
    #[serde(default)]
    points: Vec<NamedPoint>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedPoint {
    /// Its value in results.
    name: Value,
    /// What it sets.
    set: Table,
}

#[derive(Debug, Default, Deserialize)]
struct Sweeps {
    #[serde(default)]
    sweep: Vec<Sweep>,
}

/// The keys and values that one value of a sweep sets.
struct Setting {
    shown: Json,
    values: Vec<(String, Value)>,
}

impl Setting {
    fn keys(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|(key, _)| key.clone())
    }
}

/// All combinations; without sweeps the document itself.
pub(super) fn points(document: &Table) -> Result<Vec<Point>, DocumentError> {
    let Sweeps { sweep: sweeps } = document::read(document)?;
    let mut base = document.clone();
    base.remove(OWN_TABLE);
    let mut points = vec![Point {
        parameters: Parameters::new(),
        variant: String::new(),
        document: base,
    }];
    let mut keys_before = BTreeSet::new();
    for (number, sweep) in sweeps.iter().enumerate() {
        let at = |error: DocumentError| error.within(&number.to_string()).within(OWN_TABLE);
        let settings = settings(sweep).map_err(at)?;
        let keys: BTreeSet<String> = settings.iter().flat_map(Setting::keys).collect();
        check_apart(&keys, &keys_before).map_err(at)?;
        keys_before.extend(keys);
        if points.len() * settings.len() > POINTS_MAX {
            let problem = format!("more than {POINTS_MAX} combinations; sweep less");
            return Err(DocumentError::at(OWN_TABLE, problem));
        }
        let mut next = Vec::with_capacity(points.len() * settings.len());
        for point in &points {
            for setting in &settings {
                let Some(mut point) = point.with(&sweep.name, &setting.shown) else {
                    let problem = "two sweeps have this name; give each its own";
                    return Err(at(DocumentError::at("name", problem)));
                };
                for (key, value) in &setting.values {
                    document::set(&mut point.document, key, value.clone())?;
                }
                next.push(point);
            }
        }
        points = next;
    }
    Ok(points)
}

fn settings(sweep: &Sweep) -> Result<Vec<Setting>, DocumentError> {
    let settings: Vec<Setting> =
        match (&sweep.key, sweep.values.as_slice(), sweep.points.as_slice()) {
            (Some(key), [_, ..], []) => {
                check_key(key, "key")?;
                let values = sweep.values.iter();
                let setting = values.map(|value| Setting {
                    shown: to_json(value),
                    values: vec![(key.clone(), value.clone())],
                });
                setting.collect()
            }
            (None, [], [_, ..]) => {
                let points = sweep.points.iter().enumerate();
                let setting = points.map(|(number, point)| {
                    named(point).map_err(|error| error.within(&number.to_string()).within("points"))
                });
                setting.collect::<Result<_, _>>()?
            }
            (Some(_), [], []) => {
                return Err(DocumentError::at("values", "takes at least one value"));
            }
            (None, [], []) => {
                let problem = "takes `key` with `values`, or `points`, each with `name` and `set`";
                return Err(DocumentError::at("points", problem));
            }
            (None, [_, ..], _) => {
                let problem =
                    "missing; takes the key that gets the values, as in wireless.delay_ms";
                return Err(DocumentError::at("key", problem));
            }
            (Some(_), _, [_, ..]) => {
                let problem = "stand beside a `key`; takes one of the two";
                return Err(DocumentError::at("points", problem));
            }
        };
    let mut names = BTreeSet::new();
    for setting in &settings {
        let word = word(&setting.shown);
        // Results are distinguished by this value, so it has to be unique.
        if !names.insert(word.clone()) {
            let at = if sweep.key.is_some() {
                "values"
            } else {
                "points"
            };
            let problem = format!("two of them are called {word}; give each its own");
            return Err(DocumentError::at(at, problem));
        }
    }
    Ok(settings)
}

fn named(point: &NamedPoint) -> Result<Setting, DocumentError> {
    let keys: BTreeSet<String> = point.set.keys().cloned().collect();
    for key in &keys {
        check_key(key, "set")?;
        // One key would overwrite the other, depending on their order.
        if let Some(table) = keys
            .iter()
            .find(|other| *other != key && is_within(key, other))
        {
            let problem = format!("sets `{table}` and `{key}` in it; takes one of the two");
            return Err(DocumentError::at("set", problem));
        }
    }
    Ok(Setting {
        shown: to_json(&point.name),
        values: point
            .set
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    })
}

/// Checks a key with its tables: no part is empty, and it is not in the sweeps' own table.
fn check_key(key: &str, at: &str) -> Result<(), DocumentError> {
    let mut parts = key.split('.');
    let is_key = key.split('.').count() <= KEY_PARTS_MAX
        && key.split('.').all(|part| !part.is_empty())
        && parts.next() != Some(OWN_TABLE);
    if is_key {
        return Ok(());
    }
    let problem = format!(
        "takes a scenario's key with its tables, at most {KEY_PARTS_MAX} names with a dot between \
         them, as in wireless.delay_ms"
    );
    Err(DocumentError::at(at, problem))
}

/// Whether the key is the table, or in it.
fn is_within(key: &str, table: &str) -> bool {
    key.strip_prefix(table)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Checks that a sweep sets no key that an earlier sweep sets: it would overwrite the value.
fn check_apart(keys: &BTreeSet<String>, before: &BTreeSet<String>) -> Result<(), DocumentError> {
    for key in keys {
        let clashes = |other: &&String| is_within(key, other) || is_within(other, key);
        if let Some(other) = before.iter().find(clashes) {
            let problem = format!("sets `{key}`, and a sweep before it `{other}`; leave one out");
            return Err(DocumentError::at("name", problem));
        }
    }
    Ok(())
}

/// Keys that are not conditions of a run: the run's own seed is in its line.
const NO_CONDITIONS: [&str; 3] = ["description", "repetitions", "seed"];

/// All keys of a document with their tables, and their values: `wireless.delay_ms`. Lists are not
/// split.
pub(super) fn given(document: &Table) -> Parameters {
    let mut keys = Parameters::new();
    let conditions = document.iter();
    for (key, value) in conditions.filter(|(key, _)| !NO_CONDITIONS.contains(&key.as_str())) {
        add_given(key.clone(), value, &mut keys);
    }
    keys
}

/// Adds a key with its value; for a table, adds each of its keys.
pub(super) fn add_given(key: String, value: &Value, keys: &mut Parameters) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                add_given(format!("{key}.{name}"), value, keys);
            }
        }
        value => {
            keys.insert(key, to_json(value));
        }
    }
}

fn to_json(value: &Value) -> Json {
    serde_json::to_value(value).unwrap_or(Json::Null)
}

/// A value as it is in a variant: a text has no quotes.
pub fn word(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}
