// SPDX-License-Identifier: Apache-2.0
//! `[[sweep]]`: one document becomes many, one for each combination of values.

use serde::Deserialize;
use serde_json::Value as Json;
use toml::{Table, Value};

use crate::document::{self, DocumentError};

/// Combinations at most.
const POINTS_MAX: usize = 100_000;

/// What a run is among its scenario's runs: the sweeps' names and values, in order.
pub type Parameters = serde_json::Map<String, Json>;

/// One combination.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The names and values of all sweeps.
    pub(super) parameters: Parameters,
    /// `name=value` of each sweep, in their order.
    pub(super) variant: String,
    /// The document with the values in their places, and without sweeps.
    pub(super) document: Table,
}

impl Point {
    /// The point with one more sweep's value; none: that name is taken.
    fn with(&self, name: &str, value: &Json) -> Option<Self> {
        let mut point = self.clone();
        let shown = match value {
            Json::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        };
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

/// What one value of a sweep sets.
struct Setting {
    shown: Json,
    values: Vec<(String, Value)>,
}

/// All combinations; the document itself if it has no sweeps.
pub(super) fn points(document: &Table) -> Result<Vec<Point>, DocumentError> {
    let Sweeps { sweep: sweeps } = document::read(document)?;
    let mut base = document.clone();
    base.remove("sweep");
    let mut points = vec![Point {
        parameters: Parameters::new(),
        variant: String::new(),
        document: base,
    }];
    for (number, sweep) in sweeps.iter().enumerate() {
        let at = |error: DocumentError| error.within(&number.to_string()).within("sweep");
        let settings = settings(sweep).map_err(at)?;
        if points.len() * settings.len() > POINTS_MAX {
            let problem = format!("more than {POINTS_MAX} combinations; sweep less");
            return Err(DocumentError::at("sweep", problem));
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
    let settings = match (&sweep.key, sweep.values.as_slice(), sweep.points.as_slice()) {
        (Some(key), [_, ..], []) => sweep
            .values
            .iter()
            .map(|value| Setting {
                shown: to_json(value),
                values: vec![(key.clone(), value.clone())],
            })
            .collect(),
        (None, [], [_, ..]) => sweep.points.iter().map(named).collect(),
        _ => {
            let problem = "takes `key` with `values`, or `points`, each with `name` and `set`";
            return Err(DocumentError::at("name", problem));
        }
    };
    Ok(settings)
}

fn named(point: &NamedPoint) -> Setting {
    Setting {
        shown: to_json(&point.name),
        values: point
            .set
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    }
}

fn to_json(value: &Value) -> Json {
    serde_json::to_value(value).unwrap_or(Json::Null)
}
