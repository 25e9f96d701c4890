// SPDX-License-Identifier: Apache-2.0
//! A document of settings (TOML) read into types, with errors that an author can act
//! on: the key with all the tables it is in, what it got, what it takes, and for a key
//! that does not exist the nearest one that does.

use std::fmt;

use serde::Serialize;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde_path_to_error::Segment;
use toml::{Table, Value};

/// Longest value that an error shows, in characters.
const SHOWN_CHARS_MAX: usize = 60;

/// What is wrong with a document. One line, without the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// The key with its tables, outermost first; empty: the document as a whole.
    path: Vec<String>,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    UnknownKey {
        known: Vec<&'static str>,
    },
    Missing,
    Wrong {
        got: String,
        takes: String,
        remedy: String,
    },
    Other(String),
}

impl DocumentError {
    /// An error about `key`, which may be dotted.
    pub fn at(key: &str, problem: impl Into<String>) -> Self {
        Self {
            path: key.split('.').map(str::to_owned).collect(),
            problem: Problem::Other(problem.into()),
        }
    }

    /// The key with its tables, outermost first; elements of lists by their index.
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// The same error, with the key in `table`.
    #[must_use]
    pub fn within(mut self, table: &str) -> Self {
        self.path.insert(0, table.to_owned());
        self
    }

    /// One line for `file`, whose contents are `document`; `more` are keys that the
    /// error's own list of known keys lacks.
    pub fn explain(&self, file: &str, document: &Table, more: &[&str]) -> String {
        let key = self.path.join(".");
        let at = if key.is_empty() {
            file.to_owned()
        } else {
            format!("{file}: key `{key}`")
        };
        let got = value_at(document, &self.path)
            .map_or(String::new(), |value| format!("got {}; ", shown(value)));
        match &self.problem {
            Problem::Other(problem) if problem.starts_with("got ") => format!("{at}: {problem}"),
            Problem::Other(problem) => format!("{at}: {got}{problem}"),
            Problem::Wrong { got, takes, remedy } => {
                format!("{at}: got {got}, takes {takes}{remedy}")
            }
            Problem::Missing => format!("{at}: missing; give it a value"),
            Problem::UnknownKey { known } => {
                let last = self.path.last().map_or("", String::as_str);
                let known = known.iter().chain(more).copied();
                let tables = &self.path[..self.path.len().saturating_sub(1)];
                let remedy = nearest(last, known).map_or(String::new(), |key| {
                    let mut path = tables.to_vec();
                    path.push(key.to_owned());
                    format!("; did you mean `{}`?", path.join("."))
                });
                format!("{at}: {got}there is no such key{remedy}")
            }
        }
    }
}

impl DocumentError {
    fn wrong(got: String, takes: String, remedy: String) -> Self {
        Self {
            path: Vec::new(),
            problem: Problem::Wrong { got, takes, remedy },
        }
    }
}

fn one_of(known: &[&str]) -> String {
    format!("one of {}", known.join(", "))
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explain("settings", &Table::new(), &[]))
    }
}

impl std::error::Error for DocumentError {}

impl de::Error for DocumentError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self {
            path: Vec::new(),
            problem: Problem::Other(text.to_string()),
        }
    }

    fn invalid_type(got: de::Unexpected<'_>, takes: &dyn de::Expected) -> Self {
        Self::wrong(found(got), wanted(takes), String::new())
    }

    fn invalid_value(got: de::Unexpected<'_>, takes: &dyn de::Expected) -> Self {
        Self::wrong(found(got), wanted(takes), String::new())
    }

    fn unknown_variant(got: &str, known: &'static [&'static str]) -> Self {
        let remedy = nearest(got, known.iter().copied()).map_or(String::new(), |variant| {
            format!("; did you mean `{variant}`?")
        });
        Self::wrong(format!("`{got}`"), one_of(known), remedy)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self {
            path: vec![field.to_owned()],
            problem: Problem::UnknownKey {
                known: known.to_vec(),
            },
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            path: vec![field.to_owned()],
            problem: Problem::Missing,
        }
    }
}

/// The value as an author wrote it.
fn found(got: de::Unexpected<'_>) -> String {
    match got {
        de::Unexpected::Bool(is) => is.to_string(),
        de::Unexpected::Unsigned(number) => number.to_string(),
        de::Unexpected::Signed(number) => number.to_string(),
        de::Unexpected::Float(number) => number.to_string(),
        de::Unexpected::Str(text) => format!("\"{text}\""),
        de::Unexpected::Seq => "a list".to_owned(),
        de::Unexpected::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// What the key takes, without the name of the type.
fn wanted(takes: &dyn de::Expected) -> String {
    let expected = takes.to_string();
    let unsigned = |bits: u32| format!("a whole number from 0 to {}", (1_u128 << bits) - 1);
    match expected.as_str() {
        "u8" => unsigned(8),
        "u16" => unsigned(16),
        "u32" => unsigned(32),
        "u64" | "usize" => "a whole number from 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f64" | "f32" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        // "struct CrossTraffic", "adjacently tagged enum ...": its name is of no use.
        text if text.starts_with("struct ") || text.contains("enum ") => "a table".to_owned(),
        _ => expected,
    }
}

/// The one of `known` that is most like `key`.
pub fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    // The right key in the wrong table is nearest of all.
    let score = |path: &str| {
        strsim::jaro_winkler(&last(path), &last(key)) + strsim::jaro_winkler(path, key)
    };
    known.max_by(|a, b| score(a).total_cmp(&score(b)))
}

/// A value as in a document, on one line, shortened.
pub fn shown(value: &Value) -> String {
    let text = value.to_string().replace('\n', " ");
    if text.chars().count() > SHOWN_CHARS_MAX {
        return text.chars().take(SHOWN_CHARS_MAX - 3).collect::<String>() + "...";
    }
    text
}

/// TOML as a table; the error is one line with the line's number.
pub fn parse(text: &str) -> Result<Table, String> {
    text.parse().map_err(|error: toml::de::Error| {
        let span = error.span().unwrap_or_default();
        let at = text.get(..span.start).unwrap_or(text);
        let line = at.matches('\n').count() + 1;
        let message = error.message().replace('\n', " ");
        let named = text.get(span).unwrap_or_default().trim();
        if message == "duplicate key" {
            return format!("line {line}: `{named}` is there already; remove one of them");
        }
        if message.starts_with("invalid type: integer") || message == "integer number overflowed" {
            return format!("line {line}: got {named}, takes a number of at most 64 bits");
        }
        format!("line {line}: not TOML: {message}")
    })
}

/// Reads a `T`, whose types refuse unknown keys.
pub fn read<T: DeserializeOwned>(table: &Table) -> Result<T, DocumentError> {
    let value = Value::Table(table.clone());
    serde_path_to_error::deserialize(Node(&value)).map_err(|error| {
        let names = error.path().iter().filter_map(|segment| match segment {
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Map { key } => Some(key.clone()),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let mut path: Vec<String> = names.collect();
        let DocumentError { path: own, problem } = error.into_inner();
        // For an unknown key, the path may contain the name already.
        if matches!(problem, Problem::UnknownKey { .. }) && path.last() == own.first() {
            path.pop();
        }
        path.extend(own);
        DocumentError { path, problem }
    })
}

/// A table whose keys are those of several structs.
#[derive(Clone, Debug)]
pub struct TableReader {
    table: Table,
    known: Vec<&'static str>,
}

impl TableReader {
    /// A table that nothing is read from yet.
    pub fn new(table: Table) -> Self {
        Self {
            table,
            known: Vec::new(),
        }
    }

    /// Takes the keys of `T` out of the table and reads them. Other values are those of `base`.
    ///
    /// # Errors
    /// A value is not one that its key takes.
    pub fn take<T: Serialize + DeserializeOwned>(&mut self, base: &T) -> Result<T, DocumentError> {
        let mut whole = Table::try_from(base).map_err(de::Error::custom)?;
        let (_, keys) = keys_of::<T>();
        self.known.extend(keys);
        for key in keys {
            if let Some(value) = self.table.remove(*key) {
                whole.insert((*key).to_owned(), value);
            }
        }
        read(&whole)
    }

    /// As [`Self::take`], for a table that has no other keys.
    ///
    /// # Errors
    /// A value is not one that its key takes, or there is another key.
    pub fn take_all<T>(mut self, base: &T) -> Result<T, DocumentError>
    where
        T: Serialize + DeserializeOwned,
    {
        let taken = self.take(base)?;
        self.finish(&[])?;
        Ok(taken)
    }

    /// Takes a key out of the table if it has this value.
    pub fn remove_if(&mut self, key: &str, value: i64) -> bool {
        let has_value = self.table.get(key) == Some(&Value::Integer(value));
        has_value && self.table.remove(key).is_some()
    }

    /// Refuses a key that was not taken; `more` names keys that the caller has taken.
    ///
    /// # Errors
    /// There is such a key.
    pub fn finish(mut self, more: &[&'static str]) -> Result<(), DocumentError> {
        let Some(key) = self.table.keys().next() else {
            return Ok(());
        };
        self.known.extend(more);
        Err(DocumentError {
            path: vec![key.clone()],
            problem: Problem::UnknownKey { known: self.known },
        })
    }
}

/// The keys of `value` whose values differ from those in `base`, as in a file.
pub fn differing<T: Serialize>(value: &T, base: &T) -> Table {
    let base = Table::try_from(base).unwrap_or_default();
    let mut table = Table::try_from(value).unwrap_or_default();
    table.retain(|key, value| base.get(key) != Some(value));
    table
}

/// The name of a struct, and its keys in the order of its fields.
pub fn keys_of<T: DeserializeOwned>() -> (&'static str, &'static [&'static str]) {
    let mut keys = ("", [].as_slice());
    // This ends in an error as soon as it has seen the keys.
    let _ = T::deserialize(KeysOf(&mut keys));
    keys
}

/// The values that the key of a `T` takes.
pub fn takes_of<T: DeserializeOwned>(key: &str) -> String {
    // No key takes a table.
    let table = Table::from_iter([(key.to_owned(), Value::Table(Table::new()))]);
    match read::<T>(&table) {
        Err(DocumentError {
            problem: Problem::Wrong { takes, .. },
            ..
        }) => takes,
        _ => String::new(),
    }
}

struct KeysOf<'a>(&'a mut (&'static str, &'static [&'static str]));

impl<'de> Deserializer<'de> for KeysOf<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = (name, fields);
        Err(de::Error::custom("seen"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map enum option identifier ignored_any
    }
}

/// Sets the value at a dotted path, making tables on the way.
pub fn set(table: &mut Table, path: &str, value: Value) -> Result<(), DocumentError> {
    let mut tables: Vec<&str> = path.split('.').collect();
    let last = tables.pop().unwrap_or_default();
    let mut at = table;
    for name in tables {
        at = at
            .entry(name)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| DocumentError::at(path, format!("`{name}` is no table")))?;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

fn value_at<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(table.get(first)?, |value, key| match value {
            Value::Table(table) => table.get(key),
            Value::Array(values) => values.get(key.parse::<usize>().ok()?),
            _ => None,
        })
}

/// A value to be read.
struct Node<'a>(&'a Value);

impl IntoDeserializer<'_, DocumentError> for Node<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = DocumentError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        match self.0 {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(is) => visitor.visit_bool(*is),
            Value::Datetime(time) => visitor.visit_string(time.to_string()),
            Value::Array(values) => {
                visitor.visit_seq(SeqDeserializer::new(values.iter().map(Node)))
            }
            Value::Table(table) => {
                let entries = table.iter().map(|(key, value)| (key.as_str(), Node(value)));
                visitor.visit_map(MapDeserializer::new(entries))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DocumentError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DocumentError> {
        match self.0 {
            Value::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            other => Err(DocumentError::wrong(
                shown(other),
                one_of(variants),
                String::new(),
            )),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_link::LinkSettings;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Example {
        link: LinkSettings,
        #[serde(default)]
        list: Vec<LinkSettings>,
    }

    fn error(text: &str) -> String {
        let table = parse(text).unwrap();
        let error = read::<Example>(&table).unwrap_err();
        error.explain("a.toml", &table, &["more"])
    }

    #[test]
    fn what_is_right_is_read() {
        let text = "link = { delay_ms = 5, outages = { kind = 'list', list = [{ at_s = 1, for_s = 2 }] } }";
        let example: Example = read(&parse(text).unwrap()).unwrap();
        assert!((example.link.delay_ms - 5.0).abs() < 1e-9);
        assert!(example.list.is_empty());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_value_and_the_nearest_one() {
        assert_eq!(
            error("link = { delay = 5 }"),
            "a.toml: key `link.delay`: got 5; there is no such key; did you mean `link.delay_ms`?"
        );
        assert_eq!(
            error("lnk = 1"),
            "a.toml: key `lnk`: got 1; there is no such key; did you mean `link`?"
        );
        assert!(error("moer = 1").ends_with("did you mean `more`?"));
        assert_eq!(
            error("link = {}\nlist = [{}, { los = 0.5 }]"),
            "a.toml: key `list.1.los`: got 0.5; there is no such key; did you mean `list.1.loss`?"
        );
        let nested =
            "link = { outages = { kind = 'periodic', first_at_s = 1, evry_s = 2, for_s = 1 } }";
        assert_eq!(
            error(nested),
            "a.toml: key `link.outages.evry_s`: got 2; there is no such key; did you mean `link.outages.every_s`?"
        );
    }

    #[test]
    fn a_wrong_value_is_refused_with_what_the_key_takes() {
        assert_eq!(
            error("link = { delay_ms = 'x' }"),
            "a.toml: key `link.delay_ms`: got \"x\", takes a number"
        );
        assert_eq!(
            error("link = 5"),
            "a.toml: key `link`: got 5, takes a table"
        );
        assert_eq!(
            error("link = { queue_packets_max = -3 }"),
            "a.toml: key `link.queue_packets_max`: got -3, takes a whole number from 0 to 4294967295"
        );
        assert_eq!(
            error("link = { outage_effect = 'lsoe' }"),
            "a.toml: key `link.outage_effect`: got `lsoe`, takes one of lose, keep, lose-arriving; did you mean `lose`?"
        );
        assert_eq!(error(""), "a.toml: key `link`: missing; give it a value");
        assert!(
            parse("a = = 1")
                .unwrap_err()
                .starts_with("line 1: not TOML")
        );
    }

    #[test]
    fn a_path_is_set_with_its_tables() {
        let mut table = parse("a = { b = 1 }\nc = 2").unwrap();
        set(&mut table, "a.d.e", Value::Integer(3)).unwrap();
        assert_eq!(table["a"]["d"]["e"], Value::Integer(3));
        assert_eq!(table["a"]["b"], Value::Integer(1));
        assert!(set(&mut table, "c.d", Value::Integer(3)).is_err());
    }
}
