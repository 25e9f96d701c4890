// SPDX-License-Identifier: Apache-2.0
//! Results as a table of columns, in CSV and in Parquet. Each run is a row. The keys of tables
//! become columns with dots in their names; lists stay JSON. Time series are left out.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::Context as _;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use serde_json::{Map, Value as Json};

use crate::results::{ResultLine, word};

/// Columns that come first.
const FIRST: [&str; 4] = ["scenario", "variant", "substrate", "seed"];
/// Prefixes: swept parameters come next, then the results, and the conditions at the end.
const PARAMETERS: &str = "parameters.";
const CONDITIONS: &str = "conditions.";
/// The key that the table leaves out.
const SERIES: &str = "series";
/// The number of rows in one Parquet group.
const GROUP_ROWS: usize = 100_000;

/// Results by columns.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<Column>,
    rows: usize,
}

#[derive(Debug)]
struct Column {
    name: String,
    /// One cell for each row; null: the line has no such value.
    cells: Vec<Json>,
}

/// The type of all cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Truth,
    Integer,
    Number,
    Text,
}

/// A field of CSV.
fn quoted(text: String) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// A line's values by their names with dots. Lists are not split.
pub(crate) fn flat(line: &ResultLine) -> anyhow::Result<Map<String, Json>> {
    let mut values = Map::new();
    if let Json::Object(own) = serde_json::to_value(line)? {
        for (name, value) in own.into_iter().filter(|(name, _)| name != SERIES) {
            add(name, value, &mut values);
        }
    }
    Ok(values)
}

fn add(name: String, value: Json, values: &mut Map<String, Json>) {
    match value {
        Json::Object(table) => {
            for (own, value) in table {
                add(format!("{name}.{own}"), value, values);
            }
        }
        value => {
            values.insert(name, value);
        }
    }
}

impl Columns {
    /// The table of these lines.
    ///
    /// # Errors
    /// A line cannot be written as JSON.
    pub fn of(lines: &[ResultLine]) -> anyhow::Result<Self> {
        let mut columns: BTreeMap<String, Vec<Json>> = BTreeMap::new();
        for (row, line) in lines.iter().enumerate() {
            for (name, value) in flat(line)? {
                let cells = columns.entry(name).or_default();
                cells.resize(row, Json::Null);
                cells.push(value);
            }
        }
        let columns = columns.into_iter().map(|(name, mut cells)| {
            cells.resize(lines.len(), Json::Null);
            Column { name, cells }
        });
        let mut columns: Vec<Column> = columns.collect();
        columns.sort_by_key(Column::position);
        Ok(Self {
            columns,
            rows: lines.len(),
        })
    }

    /// Writes CSV (RFC 4180, but with LF) with the columns' names in the first row. A cell without
    /// a value is empty.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn write_csv(&self, mut to: impl Write) -> anyhow::Result<()> {
        let names = self
            .columns
            .iter()
            .map(|column| quoted(column.name.clone()));
        writeln!(to, "{}", names.collect::<Vec<_>>().join(","))?;
        for row in 0..self.rows {
            let cells = self.columns.iter().map(|column| column.text(row));
            let cells = cells.map(|cell| cell.map(quoted).unwrap_or_default());
            writeln!(to, "{}", cells.collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }

    /// Writes uncompressed Parquet. A column has truth values, integers, numbers or text.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn write_parquet(&self, to: impl Write + Send) -> anyhow::Result<()> {
        let fields = self.columns.iter().map(Column::field);
        let fields = fields.collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("results")
            .with_fields(fields)
            .build()?;
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(to, Arc::new(schema), properties)?;
        for from in (0..self.rows).step_by(GROUP_ROWS) {
            let rows = from..self.rows.min(from + GROUP_ROWS);
            let mut group = writer.next_row_group()?;
            for column in &self.columns {
                column.write(&mut group, rows.clone())?;
            }
            group.close()?;
        }
        writer.close()?;
        Ok(())
    }
}

impl Column {
    fn position(&self) -> (usize, String) {
        let first = FIRST.iter().position(|name| *name == self.name);
        let position = match first {
            Some(position) => position,
            None if self.name.starts_with(PARAMETERS) => FIRST.len(),
            None if self.name.starts_with(CONDITIONS) => FIRST.len() + 2,
            None => FIRST.len() + 1,
        };
        (position, self.name.clone())
    }

    fn text(&self, row: usize) -> Option<String> {
        let cell = &self.cells[row];
        (!cell.is_null()).then(|| word(cell))
    }

    fn kind(&self) -> Kind {
        let all = |is: fn(&Json) -> bool| {
            let cells = self.cells.iter().filter(|cell| !cell.is_null());
            cells.into_iter().all(is)
        };
        if all(Json::is_null) {
            Kind::Text
        } else if all(Json::is_boolean) {
            Kind::Truth
        } else if all(Json::is_i64) {
            Kind::Integer
        } else if all(|cell| cell.is_f64() || cell.is_i64()) {
            Kind::Number
        } else {
            // Also for integers above 2^63: as numbers they would lose digits.
            Kind::Text
        }
    }

    fn field(&self) -> Result<Arc<Type>, parquet::errors::ParquetError> {
        let (physical, logical) = match self.kind() {
            Kind::Truth => (PhysicalType::BOOLEAN, None),
            Kind::Integer => (PhysicalType::INT64, None),
            Kind::Number => (PhysicalType::DOUBLE, None),
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(&self.name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL);
        field.build().map(Arc::new)
    }

    fn write<W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        rows: std::ops::Range<usize>,
    ) -> anyhow::Result<()> {
        let cells = &self.cells[rows.clone()];
        match self.kind() {
            Kind::Truth => write_values::<BoolType, W>(group, cells.iter().map(Json::as_bool)),
            Kind::Integer => write_values::<Int64Type, W>(group, cells.iter().map(Json::as_i64)),
            Kind::Number => write_values::<DoubleType, W>(group, cells.iter().map(Json::as_f64)),
            Kind::Text => {
                let texts = rows.map(|row| Some(ByteArray::from(self.text(row)?.as_str())));
                write_values::<ByteArrayType, W>(group, texts)
            }
        }
    }
}

/// Writes the values of a group's next column; none: the row has no value.
fn write_values<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: impl Iterator<Item = Option<T::T>>,
) -> anyhow::Result<()> {
    let cells: Vec<Option<T::T>> = cells.collect();
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    let column = group.next_column()?;
    let mut column = column.context("there are more columns than in the schema")?;
    column
        .typed::<T>()
        .write_batch(&values, Some(&levels), None)?;
    column.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    fn lines() -> Vec<ResultLine> {
        let line = |seed: u64, delay: Json, transfer_s| ResultLine {
            scenario: "folder/s".into(),
            variant: "a \"b\", c".into(),
            parameters: Map::from_iter([("delay_ms".to_owned(), delay)]),
            seed,
            transfer_s,
            stalls_s: vec![Some(0.5), None],
            finished: transfer_s.is_some(),
            ..ResultLine::default()
        };
        let mut lines = vec![
            line(1, 5.into(), Some(1.25)),
            line(2, 7.5.into(), None),
            line(u64::MAX, 5.into(), Some(3.0)),
        ];
        for line in &mut lines[1..] {
            let conditions = [("wireless.delay_ms".to_owned(), Json::from(25))];
            line.conditions = conditions.into_iter().collect();
        }
        lines
    }

    #[test]
    fn csv_has_a_row_for_each_run_and_a_column_for_each_value() {
        let mut octets = Vec::new();
        let columns = Columns::of(&lines()).unwrap();
        columns.write_csv(&mut octets).unwrap();
        let text = String::from_utf8(octets).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 4, "{text}");
        let begin = "scenario,variant,substrate,seed,parameters.delay_ms,";
        assert!(rows[0].starts_with(begin), "{text}");
        assert!(rows[0].ends_with(",conditions.wireless.delay_ms"), "{text}");
        assert!(
            rows[1].starts_with("folder/s,\"a \"\"b\"\", c\",,1,5,"),
            "{text}"
        );
        assert!(rows[1].contains(",\"[0.5,null]\","), "{text}");
        assert!(
            rows[3].starts_with("folder/s,\"a \"\"b\"\", c\",,18446744073709551615,"),
            "{text}"
        );
        // The second run has no `transfer_s`, and the first one no condition.
        let cells = |row: &str| -> Vec<String> { row.rsplit(',').map(str::to_owned).collect() };
        let at = cells(rows[0])
            .iter()
            .position(|name| name == "transfer_s")
            .unwrap();
        let times = rows[1..].iter().map(|row| cells(row)[at].clone());
        assert_eq!(times.collect::<Vec<_>>(), ["1.25", "", "3.0"]);
        let conditions = rows[1..].iter().map(|row| cells(row)[0].clone());
        assert_eq!(conditions.collect::<Vec<_>>(), ["", "25", "25"]);
    }

    #[test]
    fn parquet_that_is_read_again_has_the_same_values_with_their_types() {
        let lines = lines();
        let mut octets = Vec::new();
        let columns = Columns::of(&lines).unwrap();
        columns.write_parquet(&mut octets).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.parquet");
        std::fs::write(&path, octets).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), 3);
        let cell = |row: usize, name: &str| {
            let mut cells = rows[row].get_column_iter();
            cells.find(|(own, _)| *own == name).unwrap().1.clone()
        };
        assert_eq!(cell(0, "transfer_s"), Field::Double(1.25));
        assert_eq!(cell(1, "transfer_s"), Field::Null);
        assert_eq!(cell(1, "parameters.delay_ms"), Field::Double(7.5));
        assert_eq!(cell(1, "finished"), Field::Bool(false));
        assert_eq!(cell(0, "segments"), Field::Long(0));
        // One seed is above 2^63: no seed may lose its last digits.
        assert_eq!(cell(2, "seed"), Field::Str(u64::MAX.to_string()));
        assert_eq!(cell(0, "stalls_s"), Field::Str("[0.5,null]".into()));
    }
}
