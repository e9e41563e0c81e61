// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files: plans and results as CSV, or as Parquet in a program built with `parquet`.
//!
//! CSV follows RFC 4180: a head line, commas, quotes around cells with a comma, a quote or a line
//! end, quotes in them doubled. Invariant: a file is written whole or not at all.

use std::path::Path;

use paternoster_frame::Failure;
use paternoster_frame::cells::{Kind, Row, records};
#[cfg(feature = "parquet")]
use paternoster_frame::columns;
use paternoster_frame::results::field;
use serde_json::Value;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
