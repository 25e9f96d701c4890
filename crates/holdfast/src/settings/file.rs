// SPDX-License-Identifier: Apache-2.0
//! A settings file whose every key is known, and the structs of its sections.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use holdfast_files::document::{self, DocumentError, TableReader, nearest, shown};
use holdfast_files::read_up_to;
use holdfast_settings::Contradiction;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::SettingsError;
use super::key_file::readable_by_daemons;
use super::keys::{GATEWAY_FILE, Key, MOBILE_FILE, Section};

/// Longest settings file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A settings file, or the absence of one.
#[derive(Clone, Debug)]
pub(crate) struct SettingsFile {
    path: Option<PathBuf>,
    table: Table,
    sections: &'static [Section],
}

/// One table of the file: its values, and how errors name its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionValues<'a> {
    file: Option<&'a Path>,
    section: &'static Section,
    /// The number of a repeated section, from 1.
    number: Option<usize>,
    table: Option<&'a Table>,
}

impl SettingsFile {
    /// The file at `path`. Without a path, a file without keys.
    pub(crate) fn of(
        path: Option<&Path>,
        sections: &'static [Section],
    ) -> Result<Self, SettingsError> {
        let Some(path) = path else {
            return Ok(Self {
                path: None,
                table: Table::new(),
                sections,
            });
        };
        let unreadable = |error: std::io::Error| {
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => readable_by_daemons(path),
                _ => "name another with --config".into(),
            };
            let problem = format!("cannot be read: {error}; {remedy}");
            SettingsError::in_file(path, problem)
        };
        let text = read_up_to(path, FILE_BYTES_MAX).map_err(unreadable)?;
        Self::parse(path, &text, sections)
    }

    /// Reads settings from `text`, which came from `path`, and checks that each key is known.
    pub(crate) fn parse(
        path: &Path,
        text: &str,
        sections: &'static [Section],
    ) -> Result<Self, SettingsError> {
        let table = document::parse(text).map_err(|error| SettingsError::in_file(path, error))?;
        if let Err(error) = check_known(path, &table, sections) {
            let files = [(&GATEWAY_FILE, "gateway"), (&MOBILE_FILE, "mobile")];
            let mut other = files
                .iter()
                .filter(|(known, _)| !std::ptr::eq(known.as_slice(), sections));
            let is_of = |known: &'static [Section]| check_known(path, &table, known).is_ok();
            return Err(match other.find(|(known, _)| is_of(known.as_slice())) {
                Some((_, daemon)) => SettingsError::in_file(
                    path,
                    format!(
                        "is a file of `holdfast {daemon}`, the other daemon; name it with its --config"
                    ),
                ),
                None => error,
            });
        }
        Ok(Self {
            path: Some(path.to_owned()),
            table,
            sections,
        })
    }

    /// The file with its present content.
    pub(super) fn read_again(&self, path: Option<&Path>) -> Result<Self, SettingsError> {
        Self::of(path, self.sections)
    }

    /// The keys with other values than in `other`, in the order of the sections. A repeated section
    /// is one key.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let mut keys = Vec::new();
        for section in self.sections {
            if section.is_repeated {
                keys.push(section.name.to_owned());
            } else {
                let names = section.keys.iter();
                keys.extend(names.map(|key| format!("{}.{}", section.name, key.name)));
            }
        }
        keys.retain(|key| self.value(key) != other.value(key));
        keys
    }

    /// The value of `section.key`, or of a repeated section.
    fn value(&self, key: &str) -> Option<&Value> {
        match key.split_once('.') {
            Some((section, key)) => self.table.get(section)?.get(key),
            None => self.table.get(key),
        }
    }

    /// Takes over a key of [`SettingsFile::differences`], or removes it if `other` does not have it.
    pub(super) fn take_over(&mut self, key: &str, other: &Self) {
        let (table, name) = match key.split_once('.') {
            Some((section, name)) => {
                let section = self.table.entry(section);
                let section = section.or_insert_with(|| Value::Table(Table::new()));
                (section.as_table_mut(), name)
            }
            None => (Some(&mut self.table), key),
        };
        let table = table.expect("the reader has refused all but sections");
        match other.value(key) {
            Some(value) => table.insert(name.to_owned(), value.clone()),
            None => table.remove(name),
        };
    }

    fn of_name(&self, name: &str) -> &'static Section {
        let mut sections = self.sections.iter();
        let named = sections.find(|section| section.name == name);
        named.expect("the file has this section")
    }

    /// The section `[name]`; where there is none, all its keys are absent.
    pub(crate) fn section(&self, name: &str) -> SectionValues<'_> {
        SectionValues {
            file: self.path.as_deref(),
            section: self.of_name(name),
            number: None,
            table: self.table.get(name).and_then(Value::as_table),
        }
    }

    /// The sections `[[name]]`.
    pub(crate) fn repeated(&self, name: &str) -> impl Iterator<Item = SectionValues<'_>> {
        let whole = self.section(name);
        let tables = self.table.get(name).and_then(Value::as_array);
        let tables = tables.into_iter().flatten().enumerate();
        tables.map(move |(index, value)| SectionValues {
            number: Some(index + 1),
            table: value.as_table(),
            ..whole
        })
    }
}

/// Refuses sections and keys in `table` that are not in `sections`.
fn check_known(
    file: &Path,
    table: &Table,
    sections: &'static [Section],
) -> Result<(), SettingsError> {
    for (name, value) in table {
        let Some(section) = sections.iter().find(|section| section.name == name) else {
            let first = value.as_table().and_then(|table| table.keys().next());
            let is_table = |value: &Value| value.is_table();
            let is_list = value
                .as_array()
                .is_some_and(|list| list.iter().any(is_table));
            if first.is_none() && (value.is_table() || is_list) {
                let headers: Vec<String> = sections.iter().map(Section::header).collect();
                let problem = format!(
                    "there is no such section; takes one of {}",
                    headers.join(", ")
                );
                return Err(SettingsError::at_key(Some(file), name, problem));
            }
            let bad = first.map_or(name.clone(), |key| format!("{name}.{key}"));
            return Err(unknown(file, &bad, sections));
        };
        let tables: Vec<&Table> = match value {
            Value::Table(table) if !section.is_repeated => vec![table],
            Value::Array(values) if section.is_repeated && values.iter().all(Value::is_table) => {
                values.iter().filter_map(Value::as_table).collect()
            }
            _ => {
                let (got, header) = (shown(value), section.header());
                let problem = format!("got {got}, takes a section: write {header}");
                return Err(SettingsError::at_key(Some(file), name, problem));
            }
        };
        let mut names = tables.iter().flat_map(|table| table.keys());
        let is_known = |name: &String| section.keys.iter().any(|key| key.name == name);
        if let Some(bad) = names.find(|name| !is_known(name)) {
            return Err(unknown(file, &format!("{name}.{bad}"), sections));
        }
    }
    Ok(())
}

/// The error for a key that does not exist, with the nearest key that exists.
fn unknown(file: &Path, key: &str, sections: &[Section]) -> SettingsError {
    let keys = sections.iter().flat_map(|section| {
        let keys = section.keys.iter();
        keys.map(move |key| format!("{}.{}", section.name, key.name))
    });
    let keys: Vec<String> = keys.collect();
    let nearest = nearest(key, keys.iter().map(String::as_str));
    let remedy = nearest.map_or(String::new(), |path| format!("; did you mean `{path}`?"));
    SettingsError::at_key(Some(file), key, format!("there is no such key{remedy}"))
}

impl SectionValues<'_> {
    /// The keys of a `T`; a key that is not given has its default.
    pub(crate) fn read<T>(&self) -> Result<T, SettingsError>
    where
        T: Default + Serialize + DeserializeOwned,
    {
        self.read_over(&T::default())
    }

    /// The keys of a `T`; a key that is not given has its value in `base`.
    pub(crate) fn read_over<T>(&self, base: &T) -> Result<T, SettingsError>
    where
        T: Serialize + DeserializeOwned,
    {
        let table = self.table.cloned().unwrap_or_default();
        let read = TableReader::new(table).take(base);
        read.map_err(|error| self.wrong(&error))
    }

    /// Whether the file has the key.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(name))
    }

    /// The first key of the section that the file has.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let mut keys = self.section.keys.iter();
        keys.find(|key| self.has(key.name)).map(|key| key.name)
    }

    fn key(&self, name: &str) -> &'static Key {
        let mut keys = self.section.keys.iter();
        let named = keys.find(|key| key.name == name);
        named.expect("the section has this key")
    }

    fn wrong(&self, error: &DocumentError) -> SettingsError {
        match error.path().first() {
            // The error about an element of a list shows the whole list.
            Some(name) if self.section.keys.iter().any(|key| key.name == name) => {
                self.refused(name)
            }
            _ => SettingsError::at_key(self.file, self.section.name, error.to_string()),
        }
    }

    /// The error that states what a key takes.
    pub(crate) fn refused(&self, name: &str) -> SettingsError {
        let value = self.table.and_then(|table| table.get(name));
        let got = match value {
            // A wrong secret may be nearly the right one: it is not shown.
            Some(_) if (self.section.name, name) == ("mobile", "key") => {
                "something else".to_owned()
            }
            Some(value) => shown(value),
            None => "nothing".to_owned(),
        };
        self.error(name, format!("got {got}, {}", self.key(name).takes()))
    }

    /// The error for a key that must be given.
    pub(crate) fn missing(&self, name: &str) -> SettingsError {
        self.error(name, format!("missing; {}", self.key(name).takes()))
    }

    /// The error for a key that must be given, here or by a flag.
    pub(crate) fn missing_or_flag(&self, name: &str, flag: &str) -> SettingsError {
        let takes = self.key(name).takes();
        self.error(name, format!("missing; {takes} (or the flag {flag})"))
    }

    /// The error for values that contradict each other.
    pub(crate) fn contradiction(&self, contradiction: Contradiction) -> SettingsError {
        let (key, problem) = contradiction.of_given(|key| self.has(key));
        self.error(key, problem)
    }

    /// Refuses an invalid filter of the log.
    pub(crate) fn check_log_filter(&self, filter: Option<&str>) -> Result<(), SettingsError> {
        // A single word that is no level would name a part that does not exist.
        let is_one = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
        let is_filter =
            |text: &str| text.split(',').all(is_one) && EnvFilter::try_new(text).is_ok();
        if filter.is_none_or(is_filter) {
            return Ok(());
        }
        Err(self.refused("log_filter"))
    }

    /// Any other error about a key.
    pub(crate) fn error(&self, name: &str, problem: impl Into<String>) -> SettingsError {
        let section = self.section.name;
        let shown = match self.number {
            None => format!("{section}.{name}"),
            Some(number) => format!("{section}[{number}].{name}"),
        };
        SettingsError::at_key(self.file, shown, problem)
    }
}
