// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells: what stands in the columns of a table that is a file.
//!
//! ```text
//! a,seed        records   [a, seed] [x, 7] ─┐
//! x,7        ──────────▶                    ├─ kind_of ─▶ a: Text, seed: Integer ─▶ columns.rs
//! ```
//!
//! CSV is read as RFC 4180 has it: commas, quotes around cells with a comma, a quote or a line end,
//! quotes in them doubled. Invariant: the type of a column keeps every digit of its cells.

use serde_json::{Map, Value, json};

use Kind::{Integer, Real, Text, Unsigned};

/// The cells of a row that are not empty, by their columns.
pub type Row = Map<String, Value>;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Letters.
    Text,
    /// A whole number of 64 bits that is not negative.
    Unsigned,
    /// A whole number of 64 bits.
    Integer,
    /// A number with decimals.
    Real,
}

/// Columns that are text in every command's tables, whatever their cells look like: names and texts
/// that users choose, digests, versions.
pub const TEXTS: [&str; 12] = [
    "row",
    "job",
    "trace",
    "sha256",
    "device",
    "scheduler",
    "set",
    "runtime",
    "window",
    "digest",
    "error",
    "version",
];

impl Kind {
    /// The type's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Text => "string",
            Unsigned => "uint64",
            Integer => "int64",
            Real => "double",
        }
    }

    /// A cell as this type, if possible.
    pub fn of(self, cell: &Value) -> Option<Value> {
        let whole = |value: f64| (value.fract() == 0.0).then_some(value);
        match (self, cell) {
            (Text, Value::String(text)) => Some(json!(text)),
            (Text, Value::Number(number)) => Some(json!(number.to_string())),
            // A library without other empty cells gives seeds as floating-point numbers.
            (Unsigned, Value::Number(number)) => {
                let real = || number.as_f64().and_then(whole).filter(|v| *v >= 0.0);
                let exact = || real().map(|value| format!("{value:.0}"));
                number.as_u64().or_else(|| exact()?.parse().ok()).map(Value::from)
            }
            (Unsigned, Value::String(text)) => text.parse::<u64>().ok().map(Value::from),
            (Integer, Value::Number(number)) => number.as_i64().map(Value::from),
            (Integer, Value::String(text)) => text.parse::<i64>().ok().map(Value::from),
            (Real, Value::Number(number)) => number.as_f64().map(Value::from),
            (Real, Value::String(text)) => text.parse::<f64>().ok().map(Value::from),
            _ => None,
        }
    }
}

/// The type of a column with these cells: text if its name is one of [`TEXTS`] (a digest may have
/// no letter, and a job any name), else the first type of number that prints all cells exactly as
/// they are here. So no digit is lost, and `007` and `1e5` are text.
#[cfg(any(test, feature = "parquet"))]
fn kind_of(name: &str, cells: &[&str]) -> Kind {
    let is_text = TEXTS.contains(&name);
    let all = |is: fn(&str) -> bool| !cells.is_empty() && cells.iter().all(|cell| is(cell));
    let is_real = |cell: &str| {
        let decimals = cell.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        cell.parse::<f64>().is_ok_and(|it| it.is_finite() && format!("{it:.decimals$}") == cell)
    };
    match () {
        () if is_text => Text,
        () if all(|cell| cell.parse::<i64>().is_ok_and(|it| it.to_string() == cell)) => Integer,
        () if all(|cell| cell.parse::<u64>().is_ok_and(|it| it.to_string() == cell)) => Unsigned,
        () if all(is_real) => Real,
        () => Text,
    }
}

/// Lines of CSV as columns of Parquet, each of the type that keeps its cells; an empty cell is
/// null.
///
/// # Errors
/// The text is no CSV, or a cell is not what Parquet can hold.
#[cfg(feature = "parquet")]
pub fn columns_of(csv: &str) -> Result<Vec<u8>, String> {
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
    crate::columns::write_to(&mut bytes, &kinds, &rows)?;
    Ok(bytes)
}

/// The records of a CSV text; empty lines are skipped.
pub fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
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
    use super::*;

    /// Does a column get a type that keeps every digit of its cells, whatever they look like?
    #[test]
    fn columns_keep_what_cells_say() {
        for (name, cells, kind) in [
            ("x", &["0", "-7", "9223372036854775807"][..], Integer),
            // The largest whole number of 64 bits; as a real one it would end in 2000.
            ("seed", &["1", "18446744073709551615"], Unsigned),
            ("x", &["0.5", "1384448.000000", "3"], Real),
            // Neither is written as it is read.
            ("x", &["18446744073709551617"], Text),
            ("x", &["007"], Text),
            ("x", &["1e5"], Text),
            ("x", &["+1"], Text),
            ("x", &["nan"], Text),
            ("x", &[], Text),
            ("digest", &["1234567890123456"], Text),
            ("job", &["1", "2"], Text),
        ] {
            assert_eq!(kind_of(name, cells), kind, "{name} {cells:?}");
        }
    }
}
