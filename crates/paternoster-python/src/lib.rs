// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compiled half of the Python package `paternoster_io`: the program's own commands as calls.
//!
//! ```text
//! paternoster_io/__init__.py   jobs, devices and options as words of the command line
//!        │ words, files
//!        ▼
//! _native (here) ──▶ paternoster::Call ──▶ outcomes ──▶ results.rs ──▶ Table ──▶ Arrow consumers
//!        │                                                             PyCapsules, no Arrow type
//!        └ simulate.rs: a thread without the GIL; handles signals; no panic crosses
//! ```
//!
//! docs/python.md describes what a user sees.
//!
//! # Invariants
//! I1  The program computes every figure: none is made here.
//! I2  Errors are the package's exceptions, with the program's messages.
#![forbid(unsafe_code)]

mod elevator;
mod gate;
mod results;
mod series;
mod simulate;
mod table;
mod trace;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use paternoster::{Call, Failure, sweep};
use paternoster_core::Nanos;
use paternoster_sim::catalog;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};

use self::elevator::{Idle, Request, lend, watched};
use self::gate::{PyClass, PyGate, PyPermit};
use self::series::Series;
use self::simulate::{kept, simulate};
use self::table::Table;
use self::trace::Trace;

/// Words, files in memory.
type Files = BTreeMap<String, String>;

/// One of the package's exceptions, by its name in `_errors.py`.
pub(crate) fn exception(py: Python<'_>, name: &str, message: &str) -> PyErr {
    let made = PyModule::import(py, "paternoster_io._errors")
        .and_then(|module| module.getattr(name)?.call1((message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The runs of `run`, once for each seed: tables, each run's JSON, notes, why it failed. `own` says
/// that some schedulers are in Python.
#[pyfunction]
fn run(
    py: Python<'_>,
    words: Vec<String>,
    files: Files,
    seeds: Vec<u64>,
    interval: u64,
    own: bool,
) -> PyResult<Bound<'_, PyDict>> {
    let call = Call::default().with_files(files);
    let all = simulate(py, &call, own, || {
        let mut all = Vec::new();
        for seed in seeds {
            let words = words.iter().cloned().chain(["--seed".to_owned(), seed.to_string()]);
            let series = |jobs: &[_]| Series::new(jobs, Nanos(interval));
            all.push(call.run(words.collect(), series)?);
        }
        Ok(results::found(&all))
    })?;
    let told = PyDict::new(py);
    for (name, table) in all.tables {
        told.set_item(name, table)?;
    }
    told.set_item("documents", all.documents)?;
    told.set_item("notes", all.notes)?;
    told.set_item("failed", all.failed)?;
    Ok(told)
}

/// `compare`, `replay`, `torture`, `analyze`, `devices` or `schedulers`: the JSON that the program
/// prints.
#[pyfunction]
fn document(py: Python<'_>, words: Vec<String>, files: Files, own: bool) -> PyResult<String> {
    let call = Call::default().with_files(files).with_threads(if own { 1 } else { usize::MAX });
    simulate(py, &call, own, || {
        let found = match words.first().map(String::as_str) {
            Some("compare") => call.compare(words),
            Some("replay") => call.replay(words),
            Some("torture") => call.torture(words),
            Some("analyze") => call.analyze(words).map(Into::into),
            _ => call.list(words),
        };
        found.map(|value| value.to_string())
    })
}

/// Rows of a plan, as Python writes them: a JSON list of objects.
fn rows(py: Python<'_>, text: &str) -> PyResult<Vec<Map<String, Value>>> {
    serde_json::from_str(text).map_err(|error| exception(py, "RequestError", &error.to_string()))
}

/// Runs rows of a plan; returns results as JSON. An exception of a scheduler in Python is its row's
/// error.
#[pyfunction]
fn sweep_rows(py: Python<'_>, text: &str) -> PyResult<String> {
    let (call, rows) = (Call::default(), rows(py, text)?);
    simulate(py, &call, false, || {
        let done = |row| {
            let (part, began) = (call.part(), Instant::now());
            let (done, error) = watched(part.stop(), || sweep::run_row(&part, row));
            error.map_or(done, |error| Ok(sweep::failed_row(row, named(&error), began)))
        };
        let found: Result<Vec<_>, Failure> = rows.iter().map(done).collect();
        found.map(|found| Value::from(found).to_string())
    })
}

/// An exception as rows name it: `ElevatorError: scheduler lottery: …`.
fn named(error: &PyErr) -> String {
    Python::attach(|py| {
        let kind =
            error.get_type(py).name().map_or_else(|_| "Error".into(), |name| name.to_string());
        format!("{kind}: {}", error.value(py))
    })
}

/// The names of rows.
#[pyfunction]
fn sweep_names(py: Python<'_>, text: &str) -> PyResult<Vec<String>> {
    kept(py, || Ok(sweep::row_names(&rows(py, text)?)))
}

/// The rows of one of `parts` parts.
#[pyfunction]
fn sweep_part(py: Python<'_>, text: &str, part: usize, parts: usize) -> PyResult<Vec<usize>> {
    let raised = |failure| match failure {
        Failure::Request(message) | Failure::Job(message) => {
            exception(py, "RequestError", &message)
        }
        Failure::Status(_) => exception(py, "Error", "stopped"),
    };
    kept(py, || sweep::part_of(&rows(py, text)?, part, parts).map_err(raised))
}

/// What rows will take, in ns.
#[pyfunction]
fn sweep_costs(py: Python<'_>, text: &str) -> PyResult<Vec<f64>> {
    let (call, rows) = (Call::default(), rows(py, text)?);
    simulate(py, &call, false, || sweep::predict(&call, &rows))
}

/// The whole program in this process: it prints, and handles signals itself.
#[pyfunction]
fn program(py: Python<'_>, words: Vec<String>) -> PyResult<u8> {
    kept(py, || Ok(py.detach(|| paternoster::program(words))))
}

/// The device file of a device of the catalog.
#[pyfunction]
fn device_file(name: &str) -> Option<&'static str> {
    catalog::FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// How long a call waits for its thread before it looks for signals.
pub(crate) const POLL: Duration = Duration::from_millis(50);

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // Tests check whether it exists.
    #[cfg(feature = "planted-bugs")]
    module.add("planted_bugs", true)?;
    module.add_class::<Table>()?;
    module.add_class::<Trace>()?;
    module.add_class::<Request>()?;
    module.add_class::<Idle>()?;
    module.add_class::<PyGate>()?;
    module.add_class::<PyClass>()?;
    module.add_class::<PyPermit>()?;
    module.add_function(wrap_pyfunction!(lend, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(document, module)?)?;
    module.add_function(wrap_pyfunction!(sweep_rows, module)?)?;
    module.add_function(wrap_pyfunction!(sweep_names, module)?)?;
    module.add_function(wrap_pyfunction!(sweep_part, module)?)?;
    module.add_function(wrap_pyfunction!(sweep_costs, module)?)?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(device_file, module)?)
}
