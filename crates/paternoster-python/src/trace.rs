// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trace: the events of a trace of any format, in batches that a thread reads ahead.
//!
//! ```text
//! reader's thread   open ─▶ events ─▶ batch ─▶ │two│ ─▶ next(trace): a Table
//! ```
//!
//! The reader does not hold the GIL and pauses when two batches are ready; it ends when the trace
//! is closed.
//!
//! # Invariants
//! I1  Memory is bounded by three batches, however long the trace.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;

use paternoster::guard::guarded;
use paternoster_trace::Source;
use paternoster_trace::blktrace::{Categories, Code, Record};
use paternoster_trace::formats::{Format, open_path};
use pyo3::prelude::*;

use crate::table::{Cell, Kind, Table};
use crate::{POLL, exception};

const HEAD: &[(&str, Kind)] = &[
    ("time_ns", Kind::Integer),
    ("device", Kind::Word),
    ("cpu", Kind::Integer),
    ("sequence", Kind::Integer),
    ("pid", Kind::Integer),
    ("process", Kind::Word),
    ("action", Kind::Word),
    ("op", Kind::Word),
    ("sync", Kind::Integer),
    ("sector", Kind::Integer),
    ("bytes", Kind::Integer),
    ("error", Kind::Integer),
];

/// The letters that blkparse prints, by code from 1.
const LETTERS: [&str; 17] =
    ["Q", "M", "F", "G", "S", "R", "D", "C", "P", "U", "UT", "I", "X", "B", "A", "abort", "m"];

/// A message of the reader.
enum Said {
    Batch(Vec<Vec<Cell>>),
    /// The number of refused records, and the first of them.
    End(u64, Vec<String>),
    Refused(String),
    Panicked(String),
}

/// Batches of events.
#[pyclass(frozen, module = "paternoster_io._native")]
pub(crate) struct Trace {
    told: Mutex<Option<Receiver<Said>>>,
    problems: Mutex<(u64, Vec<String>)>,
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (path, format = None, batch = 65536))]
    fn new(py: Python<'_>, path: String, format: Option<&str>, batch: usize) -> PyResult<Trace> {
        let format = match format {
            None => None,
            Some(name) => match Format::ALL.into_iter().find(|format| format.name() == name) {
                None => {
                    let names = Format::ALL.map(Format::name).join(", ");
                    let message = format!("there is no format `{name}`; there are {names}");
                    return Err(exception(py, "RequestError", &message));
                }
                known => known,
            },
        };
        let (tell, told) = sync_channel(2);
        let begun = thread::Builder::new().spawn(move || {
            if let Err(panic) = guarded(|| read(&path, format, batch.max(1), &tell)) {
                let _closed = tell.send(Said::Panicked(panic));
            }
        });
        begun.map_err(|error| exception(py, "Error", &format!("no thread to read: {error}")))?;
        Ok(Trace { told: Mutex::new(Some(told)), problems: Mutex::default() })
    }

    fn __iter__(this: Py<Trace>) -> Py<Trace> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        loop {
            let said = py.detach(|| {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                let said = told.as_ref()?.recv_timeout(POLL);
                if !matches!(said, Ok(Said::Batch(_)) | Err(RecvTimeoutError::Timeout)) {
                    *told = None;
                }
                Some(said)
            });
            match said {
                None => return Ok(None),
                Some(Err(RecvTimeoutError::Timeout)) => py.check_signals()?,
                Some(Err(RecvTimeoutError::Disconnected)) => {
                    return Err(exception(py, "Error", "the reader has ended"));
                }
                Some(Ok(Said::Panicked(panic))) => return Err(exception(py, "Error", &panic)),
                Some(Ok(Said::Refused(message))) => {
                    return Err(exception(py, "RequestError", &message));
                }
                Some(Ok(Said::End(count, shown))) => {
                    *self.problems.lock().unwrap_or_else(PoisonError::into_inner) = (count, shown);
                    return Ok(None);
                }
                Some(Ok(Said::Batch(rows))) => {
                    let made = Table::new(HEAD, &rows);
                    return made.map(Some).map_err(|e| exception(py, "Error", &e.to_string()));
                }
            }
        }
    }

    /// How many records were refused, and the first of them; known at the end.
    #[getter]
    fn problems(&self) -> (u64, Vec<String>) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the reader.
    fn close(&self) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    #[staticmethod]
    fn formats() -> Vec<&'static str> {
        Format::ALL.map(Format::name).to_vec()
    }
}

/// Reads the whole trace, or until the receiver is gone.
fn read(path: &str, format: Option<Format>, batch: usize, tell: &SyncSender<Said>) {
    let mut source = match open_path(Path::new(path), format) {
        Ok(source) => source,
        Err(error) => {
            let _closed = tell.send(Said::Refused(error.to_string()));
            return;
        }
    };
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    // The requested batch may be larger than memory.
    let room = batch.min(1 << 16);
    let mut rows = Vec::with_capacity(room);
    while let Some(entry) = source.next() {
        let record = entry.record;
        if record.is_note() {
            if record.is_note_of(Code::NOTE_PROCESS) {
                let name = String::from_utf8_lossy(entry.payload);
                names.insert(record.pid, name.trim_end_matches('\0').to_owned());
            }
            continue;
        }
        let device = source.device_name(record.device).map(str::to_owned);
        rows.push(row(&record, device, names.get(&record.pid)));
        if rows.len() == batch {
            let full = std::mem::replace(&mut rows, Vec::with_capacity(room));
            if tell.send(Said::Batch(full)).is_err() {
                return;
            }
        }
    }
    if !rows.is_empty() && tell.send(Said::Batch(rows)).is_err() {
        return;
    }
    let problems = source.problems();
    let shown = problems.shown().iter().map(ToString::to_string).collect();
    let _closed = tell.send(Said::End(problems.count(), shown));
}

fn row(record: &Record, device: Option<String>, process: Option<&String>) -> Vec<Cell> {
    let categories = record.categories;
    let is = |category| categories.contains(category);
    let op = match () {
        () if is(Categories::DISCARD) => "trim",
        () if is(Categories::FLUSH) && record.bytes == 0 => "flush",
        () if is(Categories::WRITE) => "write",
        () if is(Categories::READ) => "read",
        () => "none",
    };
    let letter = usize::from(record.code.0).checked_sub(1).and_then(|code| LETTERS.get(code));
    vec![
        record.at.0.into(),
        device.unwrap_or_else(|| record.device.to_string()).as_str().into(),
        record.cpu.into(),
        record.sequence.into(),
        record.pid.into(),
        process.map(String::as_str).into(),
        letter.copied().into(),
        op.into(),
        u32::from(is(Categories::SYNC)).into(),
        record.sector.into(),
        record.bytes.into(),
        u32::from(record.error).into(),
    ]
}
