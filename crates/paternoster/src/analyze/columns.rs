// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--format parquet`: the rows of the CSV as columns, for pandas, duckdb and the like.
//!
//! The schema is the CSV's head line: `trace, device, process, phase` strings, `pid` an optional
//! 64-bit number, `count` and every time in nanoseconds 64-bit numbers, `mean_ns` a double.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::data::Row;

const SCHEMA: &str = "message phases {
    required binary trace (UTF8);
    required binary device (UTF8);
    optional int64 pid;
    required binary process (UTF8);
    required binary phase (UTF8);
    required int64 count;
    required int64 min_ns;
    required double mean_ns;
    required int64 p50_ns;
    required int64 p90_ns;
    required int64 p95_ns;
    required int64 p99_ns;
    required int64 p99_9_ns;
    required int64 max_ns;
}";

/// Writes the rows to a file.
pub(super) fn write(path: &Path, rows: &[Row]) -> Result<(), String> {
    let said = |error: ParquetError| format!("{}: {error}", path.display());
    let file = std::fs::File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(said)?);
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED);
    let mut writer =
        SerializedFileWriter::new(file, schema, Arc::new(properties.build())).map_err(said)?;
    let mut group = writer.next_row_group().map_err(said)?;
    columns(&mut group, rows).map_err(said)?;
    group.close().map_err(said)?;
    writer.close().map(drop).map_err(said)
}

type Group<'a> = SerializedRowGroupWriter<'a, std::fs::File>;

/// All columns, in the order of the schema.
fn columns(group: &mut Group<'_>, rows: &[Row]) -> Result<(), ParquetError> {
    words(group, rows, |row| &row.trace)?;
    words(group, rows, |row| &row.device)?;
    pids(group, rows)?;
    words(group, rows, |row| &row.process)?;
    words(group, rows, |row| row.phase)?;
    numbers(group, rows, |row| row.count)?;
    numbers(group, rows, |row| row.min)?;
    means(group, rows)?;
    for place in 0..5 {
        numbers(group, rows, |row| row.percentiles[place])?;
    }
    numbers(group, rows, |row| row.max)
}

fn words(
    group: &mut Group<'_>,
    rows: &[Row],
    of: impl Fn(&Row) -> &str,
) -> Result<(), ParquetError> {
    let values: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(of(row))).collect();
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
    column.close()
}

fn numbers(
    group: &mut Group<'_>,
    rows: &[Row],
    of: impl Fn(&Row) -> u64,
) -> Result<(), ParquetError> {
    let signed = |row| i64::try_from(of(row)).unwrap_or(i64::MAX);
    let values: Vec<i64> = rows.iter().map(signed).collect();
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<Int64Type>().write_batch(&values, None, None)?;
    column.close()
}

fn means(group: &mut Group<'_>, rows: &[Row]) -> Result<(), ParquetError> {
    let values: Vec<f64> = rows.iter().map(|row| row.mean).collect();
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<DoubleType>().write_batch(&values, None, None)?;
    column.close()
}

fn pids(group: &mut Group<'_>, rows: &[Row]) -> Result<(), ParquetError> {
    let values: Vec<i64> = rows.iter().filter_map(|row| row.pid.map(i64::from)).collect();
    let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.pid.is_some())).collect();
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    /// Does a reader of the format find the rows that were written?
    #[test]
    fn rows_come_back() {
        let row = |pid, process: &str| Row {
            trace: "t".to_owned(),
            device: "8,0".to_owned(),
            pid,
            process: process.to_owned(),
            phase: "Q2C",
            count: 7,
            min: 1,
            mean: 2.5,
            percentiles: [2, 3, 4, 5, 6],
            max: 9,
        };
        let name = format!("paternoster-rows-{}.parquet", std::process::id());
        let path = std::env::temp_dir().join(name);
        write(&path, &[row(None, ""), row(Some(42), "dd")]).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(rows.len(), 2);
        assert!(rows[0].is_null(2).unwrap());
        assert_eq!(
            (rows[1].get_long(2).unwrap(), rows[1].get_string(3).unwrap().as_str()),
            (42, "dd")
        );
        assert_eq!((rows[1].get_double(7).unwrap(), rows[1].get_long(13).unwrap()), (2.5, 9));
    }
}
