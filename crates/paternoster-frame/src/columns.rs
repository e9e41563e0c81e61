// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns: tables as Parquet, each column optional, with the types of Python's tables.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

use crate::cells::{Kind, Row};

/// The rows of a file.
pub fn read(path: &Path) -> Result<Vec<Row>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    let row = |row: Result<parquet::record::Row, ParquetError>| {
        let row = row.map_err(|error| error.to_string())?;
        let cells = row.get_column_iter();
        Ok(cells.map(|(name, field)| (name.clone(), cell(field))).collect())
    };
    rows.map(row).collect()
}

fn cell(field: &Field) -> Value {
    match field {
        Field::Str(text) => json!(text),
        Field::Bytes(bytes) => json!(String::from_utf8_lossy(bytes.data())),
        Field::Bool(value) => json!(value),
        Field::Byte(value) => json!(value),
        Field::Short(value) => json!(value),
        Field::Int(value) => json!(value),
        Field::Long(value) => json!(value),
        Field::UByte(value) => json!(value),
        Field::UShort(value) => json!(value),
        Field::UInt(value) => json!(value),
        Field::ULong(value) => json!(value),
        Field::Float(value) => json!(value),
        Field::Double(value) => json!(value),
        _ => Value::Null,
    }
}

/// Writes a file.
pub fn write(path: &Path, kinds: &[(&str, Kind)], rows: &[Row]) -> Result<(), String> {
    write_to(File::create(path).map_err(|error| error.to_string())?, kinds, rows)
}

/// Writes what a file has to this.
pub fn write_to<W: Write + Send>(
    out: W,
    kinds: &[(&str, Kind)],
    rows: &[Row],
) -> Result<(), String> {
    let told = |error: ParquetError| error.to_string();
    let column = |(name, kind): &(&str, Kind)| match kind {
        Kind::Text => format!("optional binary {name} (UTF8);"),
        Kind::Unsigned => format!("optional int64 {name} (UINT_64);"),
        Kind::Integer => format!("optional int64 {name};"),
        Kind::Real => format!("optional double {name};"),
    };
    let columns: String = kinds.iter().map(column).collect();
    let schema = parse_message_type(&format!("message rows {{ {columns} }}")).map_err(told)?;
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED);
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), properties).map_err(told)?;
    let mut group = writer.next_row_group().map_err(told)?;
    for (name, kind) in kinds {
        let cells = rows
            .iter()
            .map(|row| row.get(*name).and_then(|cell| kind.of(cell)).unwrap_or(Value::Null));
        let cells: Vec<Value> = cells.collect();
        match kind {
            Kind::Text => {
                put::<ByteArrayType, _>(&mut group, &cells, |c| c.as_str().map(Into::into))
            }
            Kind::Unsigned => {
                // The bits of an unsigned number, as the format keeps it.
                let bits = |cell: &Value| cell.as_u64().map(u64::cast_signed);
                put::<Int64Type, _>(&mut group, &cells, bits)
            }
            Kind::Integer => put::<Int64Type, _>(&mut group, &cells, Value::as_i64),
            Kind::Real => put::<DoubleType, _>(&mut group, &cells, Value::as_f64),
        }
        .map_err(told)?;
    }
    group.close().map_err(told)?;
    writer.close().map(drop).map_err(told)
}

fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &[Value],
    of: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = cells.iter().filter_map(&of).collect();
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(of(cell).is_some())).collect();
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(&values, Some(&levels), None)?;
    column.close()
}
