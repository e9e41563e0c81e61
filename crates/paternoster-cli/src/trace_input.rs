// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as they are named on the command line, and what was wrong with them.

use std::fs::File;
use std::io;
use std::path::Path;

use paternoster_trace::Source;
use paternoster_trace::blktrace::{Merged, Ordered};

use crate::Failure;

/// Opens a trace.
pub(crate) fn open_trace(name: &str) -> Result<Box<dyn Source>, Failure> {
    if name == "-" {
        return Ok(Box::new(Ordered::new("stdin", io::stdin())));
    }
    let prefix = name.rfind(".blktrace.").map_or(name, |at| &name[..at]);
    let mut files = Vec::new();
    for cpu in 0.. {
        let file = format!("{prefix}.blktrace.{cpu}");
        match File::open(&file) {
            Ok(opened) => files.push((file, Some(cpu), opened)),
            Err(_) => break,
        }
    }
    if !files.is_empty() {
        return Ok(Box::new(Merged::new(files)));
    }
    if Path::new(name).is_dir() {
        return Err(Failure::Request(format!("{name}: that is a folder")));
    }
    let file = File::open(name).map_err(|error| Failure::Request(format!("{name}: {error}")))?;
    Ok(Box::new(Ordered::new(name, file)))
}

/// Tells what was refused, on stderr.
pub(crate) fn tell_problems(source: &dyn Source) {
    let problems = source.problems();
    for problem in problems.shown() {
        eprintln!("note: {problem}");
    }
    let shown = problems.shown().len() as u64;
    if problems.count() > shown {
        eprintln!("note: … and {} more", problems.count() - shown);
    }
}
