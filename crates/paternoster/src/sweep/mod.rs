// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster sweep`: the rows of a plan that the results lack, or one of several parts.
//!
//! ```text
//! plan.csv ─▶ part 17/200 ─▶ less what results/rows-* have ─▶ rows.rs ─▶ results/rows-….csv
//!                                                             each chunk a file
//! ```
//!
//! A row is a pure function of itself (`rows.rs`); the Python package runs rows with the same
//! function ([`run_row`]), whatever engine calls it. docs/sweeps.md says what a user sees.
//!
//! # Invariants
//! I1  A file of results is written whole or not at all, and is named after its rows.
//! I2  A plan that is run again runs what the results lack.

mod cost;
mod files;
mod plan;
mod rows;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use paternoster_frame::cells::Row;
use paternoster_frame::format::Format;
use paternoster_frame::say;
use paternoster_frame::{Failure, interrupt};
use serde_json::{Map, Value, json};

use crate::Call;

/// Run the rows of a plan that the results lack: jobs or traces on devices under schedulers
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  paternoster sweep plan.csv --predict plan-with-costs.csv
  paternoster sweep plan.csv --out results
  seq 1 8 | xargs -P 2 -I{} paternoster sweep plan.csv --out results --part {}/8
Exit status: 0 done, 1 rows have errors, 2 the request was wrong, 130 interrupted; what was done
before stands in the results.")]
pub(crate) struct SweepOptions {
    /// A table with a row for each run (PLAN.csv, PLAN.parquet); its columns are in docs/sweeps.md
    plan: PathBuf,
    /// The folder of the results; made if it does not exist
    #[arg(long, value_name = "FOLDER", required_unless_present = "predict")]
    out: Option<PathBuf>,
    /// Only the Ith of N parts of about equal cost
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    part: String,
    /// How long a file of results is worked on, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    chunk: f64,
    /// How results are written: csv or parquet
    #[arg(long, alias = "form", value_name = "FORMAT", default_value = "csv")]
    format: Format,
    /// Instead of that, write the plan with what each row will cost, in ns
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    predict: Option<PathBuf>,
}

/// The ending of the files; formats that a sweep cannot read again are refused.
fn extension(format: Format) -> Result<&'static str, Failure> {
    match format {
        Format::Csv => Ok("csv"),
        Format::Parquet => Ok("parquet"),
        _ => Err(Failure::Request(
            "--format: a sweep reads its results again, to go on where it ended: csv, or parquet"
                .to_owned(),
        )),
    }
}

pub(crate) fn sweep(options: &SweepOptions) -> Result<(), Failure> {
    let extension = extension(options.format)?;
    let rows = files::read(&options.plan).map_err(|failure| match failure {
        Failure::Request(message) => Failure::Request(format!("plan {message}")),
        other => other,
    })?;
    let call = Call::default();
    interrupt::hear()?;
    if let Some(path) = &options.predict {
        return predicted(&call, rows, path);
    }
    let part = mine(&rows, &options.part)?;
    let out = options.out.as_deref().unwrap_or(Path::new("."));
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::Request(format!("{}: {error}", out.display())))?;
    files::check(&out.join("rows").with_extension(extension))?;
    let done = done(out)?;
    let asked = part.into_iter().map(|place| &rows[place]);
    let left: Vec<&Row> = asked.filter(|row| !done.contains(&plan::name(row))).collect();
    let chunk = Duration::try_from_secs_f64(options.chunk)
        .map_err(|_| Failure::Request(format!("--chunk {}: seconds", options.chunk)))?;
    let (mut failed, mut left) = (0, left.as_slice());
    let count = left.len();
    while !left.is_empty() {
        let (found, stopped) = worked(&call, &mut left, chunk);
        failed += found.iter().filter(|row| row.contains_key("error")).count();
        keep(out, extension, &found)?;
        if let Some(failure) = stopped {
            let undone = left.len();
            say!("paternoster: interrupted: {undone} of {count} rows were not done");
            return Err(failure);
        }
    }
    say!("{count} rows done, {failed} with errors");
    if failed > 0 { Err(Failure::Status(1)) } else { Ok(()) }
}

/// The rows of the requested part.
fn mine(rows: &[Row], part: &str) -> Result<Vec<usize>, Failure> {
    let numbers = part.split_once('/').and_then(|(i, n)| i.parse().ok().zip(n.parse().ok()));
    let wrong = || Failure::Request(format!("--part {part}: it is I/N, as 17/200"));
    let (part, parts) = numbers.ok_or_else(wrong)?;
    plan::part_of(rows, part, parts)
}

/// Works on rows for this long, at least one; returns the results, and why it was stopped.
fn worked(call: &Call, left: &mut &[&Row], chunk: Duration) -> (Vec<Row>, Option<Failure>) {
    let (began, mut found) = (Instant::now(), Vec::new());
    while let Some((row, rest)) = left.split_first() {
        match rows::run(call, row) {
            Ok(row) => found.push(row),
            Err(stopped) => return (found, Some(stopped)),
        }
        *left = rest;
        if began.elapsed() >= chunk {
            break;
        }
    }
    (found, None)
}

/// Writes a file of results, if there are any.
fn keep(out: &Path, extension: &str, found: &[Row]) -> Result<(), Failure> {
    if found.is_empty() {
        return Ok(());
    }
    let names: String = found.iter().filter_map(|row| row["row"].as_str()).collect();
    // Named after its contents: no two parts write one file.
    let name = &plan::hash(names.as_bytes())[..16];
    let columns: Vec<_> = plan::columns().collect();
    files::write(&out.join(format!("rows-{name}.{extension}")), &columns, found)
}

/// The names of the rows in a folder.
fn done(out: &Path) -> Result<HashSet<String>, Failure> {
    let mut names = HashSet::new();
    let wrong = |error| Failure::Request(format!("{}: {error}", out.display()));
    for entry in std::fs::read_dir(out).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if !entry.file_name().to_string_lossy().starts_with("rows-") {
            continue;
        }
        let rows = files::read(&entry.path())?;
        names.extend(rows.iter().filter_map(|row| row.get("row")?.as_str().map(str::to_owned)));
    }
    Ok(names)
}

/// Writes a plan with what its rows will cost.
fn predicted(call: &Call, mut rows: Vec<Row>, path: &Path) -> Result<(), Failure> {
    let costs = cost::predict(call, &rows)?;
    for (row, cost) in rows.iter_mut().zip(costs) {
        row.insert("cost".to_owned(), json!(cost.round()));
    }
    files::write(path, &plan::PLAN, &rows)
}

/// Runs a row of a plan, given as a map of JSON's values, and returns one. For a program that
/// embeds this one, such as Python.
///
/// # Errors
/// Only if the call is stopped: a row that fails or panics is a row with an `error`.
pub fn run_row(call: &Call, row: &Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    rows::run(call, row)
}

/// The result of a row that began then, and failed for a reason known only to the program around
/// this one.
#[must_use]
pub fn failed_row(row: &Map<String, Value>, error: String, began: Instant) -> Map<String, Value> {
    rows::result(row, Err(error), began)
}

/// The names of rows, derived from their contents.
#[must_use]
pub fn row_names(rows: &[Map<String, Value>]) -> Vec<String> {
    rows.iter().map(plan::name).collect()
}

/// The indices of one of several parts of equal cost.
///
/// # Errors
/// If there is no such part.
pub fn part_of(
    rows: &[Map<String, Value>],
    part: usize,
    parts: usize,
) -> Result<Vec<usize>, Failure> {
    plan::part_of(rows, part, parts)
}

/// What each row will take, in nanoseconds.
///
/// # Errors
/// Only if the call is stopped.
pub fn predict(call: &Call, rows: &[Map<String, Value>]) -> Result<Vec<f64>, Failure> {
    cost::predict(call, rows)
}

#[cfg(test)]
mod tests;
