// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files: plans and results as CSV, or as Parquet in a program built with `parquet`.
//!
//! CSV follows RFC 4180: a head line, commas, quotes around cells with a comma, a quote or a line
//! end, quotes in them doubled. Invariant: a file is written whole or not at all.

use std::path::Path;

use serde_json::Value;

#[cfg(feature = "parquet")]
use super::columns;
use super::plan::{Kind, Row};
use crate::Failure;
use crate::results::field;

fn said(path: &Path, message: impl std::fmt::Display) -> Failure {
    Failure::Request(format!("{}: {message}", path.display()))
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
}

/// The rows of a file.
pub(super) fn read(path: &Path) -> Result<Vec<Row>, Failure> {
    if is_parquet(path) {
        #[cfg(feature = "parquet")]
        return columns::read(path).map_err(|message| said(path, message));
        #[cfg(not(feature = "parquet"))]
        return Err(absent(path));
    }
    let text = std::fs::read_to_string(path).map_err(|error| said(path, error))?;
    let mut records = records(&text).map_err(|message| said(path, message))?.into_iter();
    let head = records.next().unwrap_or_default();
    let row = |(number, cells): (usize, Vec<String>)| {
        if cells.len() > head.len() {
            return Err(said(path, format!("row {number} has more cells than the head line")));
        }
        let named = head.iter().cloned().zip(cells.into_iter().map(Value::String));
        Ok(named.collect())
    };
    (1..).zip(records).map(row).collect()
}

/// Refuses a form that this program cannot write.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    #[cfg(not(feature = "parquet"))]
    if is_parquet(path) {
        return Err(absent(path));
    }
    let _ = path;
    Ok(())
}

#[cfg(not(feature = "parquet"))]
fn absent(path: &Path) -> Failure {
    said(path, "Parquet needs a program that was built with `--features parquet`; CSV needs none")
}

/// Writes rows with these columns.
pub(super) fn write(path: &Path, kinds: &[(&str, Kind)], rows: &[Row]) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!(".{name}.{}", std::process::id()));
    if is_parquet(path) {
        #[cfg(feature = "parquet")]
        columns::write(&unfinished, kinds, rows).map_err(|message| said(path, message))?;
        #[cfg(not(feature = "parquet"))]
        return Err(absent(path));
    } else {
        std::fs::write(&unfinished, csv(kinds, rows)).map_err(|error| said(path, error))?;
    }
    std::fs::rename(&unfinished, path).map_err(|error| said(path, error))
}

/// The type of a column with these cells: text if results have a column of that name that is text
/// (a digest may have no letter, and a job any name), else the first number as which all cells are
/// written out as they stand here. So no digit is lost, and `007` and `1e5` are text.
#[cfg(any(test, feature = "parquet"))]
fn kind_of(name: &str, cells: &[&str]) -> Kind {
    let is_text = super::plan::columns().any(|known| known == (name, Kind::Text));
    let all = |is: fn(&str) -> bool| !cells.is_empty() && cells.iter().all(|cell| is(cell));
    let is_real = |cell: &str| {
        let decimals = cell.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        cell.parse::<f64>().is_ok_and(|it| it.is_finite() && format!("{it:.decimals$}") == cell)
    };
    match () {
        () if is_text => Kind::Text,
        () if all(|cell| cell.parse::<i64>().is_ok_and(|it| it.to_string() == cell)) => {
            Kind::Integer
        }
        () if all(|cell| cell.parse::<u64>().is_ok_and(|it| it.to_string() == cell)) => {
            Kind::Unsigned
        }
        () if all(is_real) => Kind::Real,
        () => Kind::Text,
    }
}

/// Lines of CSV as columns, their types by [`kind_of`]; an empty cell is null.
#[cfg(feature = "parquet")]
pub(crate) fn columns_of(csv: &str) -> Result<Vec<u8>, String> {
    let mut records = records(csv)?.into_iter();
    let head = records.next().unwrap_or_default();
    let records: Vec<Vec<String>> = records.collect();
    let kind = |(column, name): (usize, &String)| {
        let cells = records.iter().filter_map(|record| record.get(column));
        let cells: Vec<&str> = cells.map(String::as_str).filter(|cell| !cell.is_empty()).collect();
        kind_of(name, &cells)
    };
    let kinds: Vec<Kind> = head.iter().enumerate().map(kind).collect();
    let kinds: Vec<(&str, Kind)> = head.iter().map(String::as_str).zip(kinds).collect();
    let row = |cells: &Vec<String>| -> Row {
        let cells = head.iter().cloned().zip(cells.iter().cloned().map(Value::String));
        cells.filter(|(_, cell)| cell != "").collect()
    };
    let rows: Vec<Row> = records.iter().map(row).collect();
    let mut bytes = Vec::new();
    columns::write_to(&mut bytes, &kinds, &rows)?;
    Ok(bytes)
}

fn csv(kinds: &[(&str, Kind)], rows: &[Row]) -> String {
    let names: Vec<String> = kinds.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut text = names.join(",") + "\n";
    for row in rows {
        let cells = kinds.iter().map(|(name, _)| match row.get(*name).unwrap_or(&Value::Null) {
            Value::Null => String::new(),
            Value::String(text) => field(text),
            number => number.to_string(),
        });
        text += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

/// The records of a text; empty lines are skipped.
fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut all, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    let mut in_quotes = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' if in_quotes && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => in_quotes = !in_quotes,
            letter if in_quotes => cell.push(letter),
            ',' => record.push(core::mem::take(&mut cell)),
            '\r' if letters.peek() == Some(&'\n') => {}
            '\n' => {
                if !(record.is_empty() && cell.is_empty()) {
                    record.push(core::mem::take(&mut cell));
                    all.push(core::mem::take(&mut record));
                }
            }
            letter => cell.push(letter),
        }
    }
    if in_quotes {
        return Err("a quote is not closed".to_owned());
    }
    if !(record.is_empty() && cell.is_empty()) {
        record.push(cell);
        all.push(record);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Has a column the type that keeps every digit of its cells, whatever they look like?
    #[test]
    fn columns_keep_what_cells_say() {
        for (name, cells, kind) in [
            ("x", &["0", "-7", "9223372036854775807"][..], Kind::Integer),
            // The largest whole number of 64 bits; as a real one it would end in 2000.
            ("seed", &["1", "18446744073709551615"], Kind::Unsigned),
            ("x", &["0.5", "1384448.000000", "3"], Kind::Real),
            // Neither is written as it is read.
            ("x", &["18446744073709551617"], Kind::Text),
            ("x", &["007"], Kind::Text),
            ("x", &["1e5"], Kind::Text),
            ("x", &["+1"], Kind::Text),
            ("x", &["nan"], Kind::Text),
            ("x", &[], Kind::Text),
            ("digest", &["1234567890123456"], Kind::Text),
            ("job", &["1", "2"], Kind::Text),
        ] {
            assert_eq!(kind_of(name, cells), kind, "{name} {cells:?}");
        }
    }

    /// Is what is written read again, with commas, quotes and ends of lines in cells?
    #[test]
    fn what_is_written_is_read_again() {
        let folder = std::env::temp_dir().join(format!("paternoster-csv-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        let kinds = [("a", Kind::Text), ("b", Kind::Real)];
        let cells = ["x", "a,b", "\"q\"", "[a]\nrw=read\n", "", "\r"];
        let row = |cell: &&str| -> Row {
            [("a".to_owned(), json!(cell)), ("b".to_owned(), json!("0.5"))].into_iter().collect()
        };
        let rows: Vec<Row> = cells.iter().map(row).collect();
        let file = folder.join("t.csv");
        write(&file, &kinds, &rows).expect("written");
        assert_eq!(read(&file).expect("read"), rows);
        for (text, told) in [("a,b\n1,2,3\n", "row 1 has more cells"), ("a\n\"x\n", "not closed")] {
            std::fs::write(&file, text).expect("written");
            let Err(Failure::Request(message)) = read(&file) else { panic!("{text}") };
            assert!(message.contains(told), "{message}");
        }
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
