// SPDX-License-Identifier: Apache-2.0
//! A settings file as a table whose every key is known.

use std::path::{Path, PathBuf};

use holdfast_lab::document::{self, nearest, shown};
use holdfast_lab::files::read_up_to;
use toml::{Table, Value};

use super::SettingsError;
use super::keys::{Key, Kind};

/// Longest settings file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A settings file, or the absence of one.
#[derive(Debug, Default)]
pub(crate) struct SettingsFile {
    path: Option<PathBuf>,
    table: Table,
}

/// What a section of a file may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionKeys {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether it is written `[[name]]`, any number of times.
    pub(crate) repeated: bool,
    /// Its keys.
    pub(crate) keys: &'static [Key],
}

/// One table of the file: where to look keys up and how to name them in errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'a> {
    file: Option<&'a Path>,
    /// The section as keys' paths have it, and as errors name it.
    name: &'static str,
    shown: Shown,
    table: Option<&'a Table>,
}

#[derive(Clone, Copy, Debug)]
enum Shown {
    Single,
    /// One of several `[[name]]`, counted from 1.
    Number(usize),
}

impl SettingsFile {
    /// Reads the file and checks that each of its keys is one of `keys`.
    pub(crate) fn read(path: &Path, sections: &[SectionKeys]) -> Result<Self, SettingsError> {
        let unreadable = |error: std::io::Error| {
            SettingsError::in_file(
                path,
                format!("cannot be read: {error}; name another with --config"),
            )
        };
        let text = read_up_to(path, FILE_BYTES_MAX).map_err(unreadable)?;
        Self::parse(path, &text, sections)
    }

    /// Reads settings from `text`, which came from `path`.
    pub(crate) fn parse(
        path: &Path,
        text: &str,
        sections: &[SectionKeys],
    ) -> Result<Self, SettingsError> {
        let table = document::parse(text).map_err(|error| SettingsError::in_file(path, error))?;
        check_known(path, &table, sections)?;
        Ok(Self {
            path: Some(path.to_owned()),
            table,
        })
    }

    /// The section `[name]`; where there is none, all its keys are absent.
    pub(crate) fn section(&self, name: &'static str) -> Section<'_> {
        let table = self.table.get(name).and_then(Value::as_table);
        Section {
            file: self.path.as_deref(),
            name,
            shown: Shown::Single,
            table,
        }
    }

    /// The sections `[[name]]`.
    pub(crate) fn sections(&self, name: &'static str) -> impl Iterator<Item = Section<'_>> {
        let tables = self.table.get(name).and_then(Value::as_array);
        tables
            .into_iter()
            .flatten()
            .enumerate()
            .map(move |(index, value)| Section {
                file: self.path.as_deref(),
                name,
                shown: Shown::Number(index + 1),
                table: value.as_table(),
            })
    }
}

/// Refuses what is in `table` and not in `sections`.
fn check_known(file: &Path, table: &Table, sections: &[SectionKeys]) -> Result<(), SettingsError> {
    let all = sections.iter().flat_map(|section| section.keys);
    let paths: Vec<&str> = all.map(|key| key.path).collect();
    for (name, value) in table {
        let Some(section) = sections.iter().find(|section| section.name == name) else {
            let first = value.as_table().and_then(|table| table.keys().next());
            let bad = first.map_or(name.clone(), |key| format!("{name}.{key}"));
            return Err(unknown(file, &bad, &paths));
        };
        let tables: Vec<&Table> = match value {
            Value::Table(table) if !section.repeated => vec![table],
            Value::Array(values) if section.repeated && values.iter().all(Value::is_table) => {
                values.iter().filter_map(Value::as_table).collect()
            }
            _ => {
                let header = if section.repeated {
                    format!("[[{name}]]")
                } else {
                    format!("[{name}]")
                };
                let got = shown(value);
                let problem = format!("got {got}, takes a section: write {header}");
                return Err(SettingsError::at_key(Some(file), name, problem));
            }
        };
        let mut within = tables.iter().flat_map(|table| table.keys());
        let is_known = |key: &String| paths.contains(&format!("{name}.{key}").as_str());
        if let Some(bad) = within.find(|key| !is_known(key)) {
            return Err(unknown(file, &format!("{name}.{bad}"), &paths));
        }
    }
    Ok(())
}

/// The error for a key that does not exist, with the nearest that does.
fn unknown(file: &Path, key: &str, paths: &[&str]) -> SettingsError {
    let nearest = nearest(key, paths.iter().copied());
    let remedy = nearest.map_or(String::new(), |path| format!("; did you mean `{path}`?"));
    SettingsError::at_key(Some(file), key, format!("there is no such key{remedy}"))
}

impl<'a> Section<'a> {
    /// The value of `key` as `parse` reads it; `None` if the file does not have it.
    pub(crate) fn get<T>(
        &self,
        key: &Key,
        parse: impl Fn(Kind, &Value) -> Option<T>,
    ) -> Result<Option<T>, SettingsError> {
        self.value(key)
            .map(|value| parse(key.kind, value).ok_or_else(|| self.refused(key, value)))
            .transpose()
    }

    /// As [`get`](Self::get), or the key's default.
    pub(crate) fn get_or_default<T>(
        &self,
        key: &Key,
        parse: impl Fn(Kind, &Value) -> Option<T>,
    ) -> Result<T, SettingsError> {
        match self.get(key, &parse)? {
            Some(value) => Ok(value),
            None => parse(key.kind, &default_value(key)).ok_or_else(|| self.missing(key)),
        }
    }

    /// As [`get`](Self::get), and it must be there.
    pub(crate) fn require<T>(
        &self,
        key: &Key,
        parse: impl Fn(Kind, &Value) -> Option<T>,
    ) -> Result<T, SettingsError> {
        self.get(key, parse)?.ok_or_else(|| self.missing(key))
    }

    /// The raw value of `key`.
    pub(crate) fn value(&self, key: &Key) -> Option<&'a Value> {
        debug_assert!(
            key.path.starts_with(self.name),
            "{} is not of [{}]",
            key.path,
            self.name
        );
        self.table?.get(key.path.rsplit('.').next()?)
    }

    /// The error that says what `key` takes.
    pub(crate) fn refused(&self, key: &Key, value: &Value) -> SettingsError {
        // A wrong key may be nearly the right one: it is not shown.
        let got = if matches!(key.kind, Kind::SecretKey) {
            "something else".into()
        } else {
            shown(value)
        };
        self.error(key, format!("got {got}, {}", takes(key)))
    }

    /// The error for a key that must be there.
    pub(crate) fn missing(&self, key: &Key) -> SettingsError {
        self.error(key, format!("missing; {}", takes(key)))
    }

    /// Any other error about `key`.
    pub(crate) fn error(&self, key: &Key, problem: impl Into<String>) -> SettingsError {
        let shown = match self.shown {
            Shown::Single => key.path.to_owned(),
            Shown::Number(number) => {
                let last = key.path.rsplit('.').next().unwrap_or_default();
                format!("{}[{number}].{last}", self.name)
            }
        };
        SettingsError::at_key(self.file, shown, problem)
    }
}

/// What `key` takes, with an example.
fn takes(key: &Key) -> String {
    format!("takes {}, for example {}", key.kind.takes(), key.example)
}

/// The default of `key` as a value.
fn default_value(key: &Key) -> Value {
    key.default
        .and_then(|text| format!("value = {text}").parse::<Table>().ok())
        .and_then(|mut table| table.remove("value"))
        .unwrap_or(Value::Boolean(false))
}
