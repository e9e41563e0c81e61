// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job files: the built-in ones, and how one that a user names is read.
//!
//! ```text
//! jobs/a.fio ─▶ a file of the call (context.rs), or of the disk ─▶ io_tester's? in fio's words
//!    └ not there, but an example has its name ─▶ the message says how to write the examples
//! ```

use std::io::Read as _;
use std::path::Path;

use paternoster_workload::fio::jobfile::Problem;
use paternoster_workload::io_tester;

use crate::{Failure, context};

/// The path below the folder of job files, and the file's text.
pub type Example = (&'static str, &'static str);

macro_rules! examples {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../jobs/", $path)))),*]
    };
}

/// Recipes first, then the lessons of docs/learn.md; the others are experiments.
pub const EXAMPLES: [Example; 24] = examples![
    "recipes/database.fio",
    "recipes/vms.fio",
    "recipes/containers.fio",
    "recipes/desktop.fio",
    "recipes/nas.fio",
    "recipes/ci.fio",
    "recipes/logs.fio",
    "learn/1-two-readers.fio",
    "learn/2-small-and-large.fio",
    "learn/3-one-beside-a-flood.fio",
    "learn/4-weights.fio",
    "learn/5-flush.fio",
    "fair.fio",
    "fair-warm.fio",
    "ncq-readers.fio",
    "array-readers.fio",
    "array-readers-16k.fio",
    "weighted-readers.fio",
    "weighted-groups.fio",
    "weighted-mix.fio",
    "early-merge.fio",
    "record-halves.fio",
    "backlogged-readers.fio",
    "flush-owner.fio",
];

/// Whether an example has the name of this file, in any folder.
fn is_example(file: &str) -> bool {
    let name = Path::new(file).file_name().and_then(|name| name.to_str());
    let is = |path: &str| name.is_some() && Path::new(path).file_name() == name.map(str::as_ref);
    EXAMPLES.iter().any(|&(path, _)| is(path))
}

/// An example's name without folder and ending.
pub fn short(path: &str) -> &str {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.strip_suffix(".fio").unwrap_or(name)
}

/// The name of a job file and its text, in fio's language; `-` is standard input.
pub fn read_file(name: &str) -> Result<(String, String), Failure> {
    let wrong = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound if is_example(name) => {
                "; `paternoster examples --write jobs` writes the documentation's jobs into the \
                 folder jobs"
            }
            std::io::ErrorKind::NotFound => "; fio's options are written --option=value",
            _ => "",
        };
        Failure::Request(format!("job file {name}: {error}{hint}"))
    };
    if let Some(text) = context::file(name) {
        return in_fios_words(name.to_owned(), text);
    }
    let text = if name == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(wrong)?;
        text
    } else {
        std::fs::read_to_string(name).map_err(wrong)?
    };
    in_fios_words(if name == "-" { "stdin".to_owned() } else { name.to_owned() }, text)
}

/// Another program's job file as one of fio's; fio's as it is.
fn in_fios_words(name: String, text: String) -> Result<(String, String), Failure> {
    if !io_tester::looks_like(&text) {
        return Ok((name, text));
    }
    let text = io_tester::translate(&name, &text).map_err(|problems| refused(&problems))?;
    Ok((name, text))
}

/// `include FILE`, relative to the including file.
pub fn include(including: &str, named: &str) -> Result<(String, String), String> {
    let path = Path::new(including).parent().unwrap_or(Path::new("")).join(named);
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    Ok((path.display().to_string(), text))
}

/// The mistakes in job files, a line each.
pub fn refused(problems: &[Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure::Request(lines.join("\npaternoster: "))
}
