// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gate: permits of `paternoster-gate` for threads and tasks of Python.
//!
//! ```text
//! with reads.permit("read", 4096)   wait: detached from Python, hears signals every 50 ms
//! async with …                      then: `call_soon_threadsafe` of the task's loop
//! ```
//!
//! # Invariants
//! I1  No thread holds the GIL while it waits for a permit, or for the gate's own lock: a thread
//!     that gives a permit back may call another thread's Python code before it returns.
//! I2  A permit is given back once: by its end, by `give_back`, or when no reference is left.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use paternoster_gate::{
    Ask, AskError, Class, ClassError, ClassSpec, Gate, Kind, Nanos, Op, Permit, PermitError, Rate,
    Settings,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{POLL, exception};

/// A gate of this process.
#[pyclass(name = "Gate", module = "paternoster_io._native", frozen)]
pub(crate) struct PyGate(Gate);

#[pymethods]
impl PyGate {
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(py: Python<'_>, path: Option<PathBuf>) -> PyGate {
        py.detach(|| {
            PyGate(path.map_or_else(|| Gate::new(Settings::default()), |path| Gate::open(&path)))
        })
    }

    fn open(&self, py: Python<'_>, name: &str, weight: u32, kind: &str) -> PyResult<PyClass> {
        let spec = spec(py, name, weight, kind)?;
        opened(py, || self.0.class(spec))
    }

    fn explain(&self, py: Python<'_>, most: usize) -> String {
        py.detach(|| self.0.explain(most))
    }

    fn metrics(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.metrics())
    }

    fn report(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.0.report()).map(|report| report.to_string())
    }
}

fn spec(py: Python<'_>, name: &str, weight: u32, kind: &str) -> PyResult<ClassSpec> {
    let kind = match kind {
        "normal" => Kind::Normal,
        "urgent" => Kind::Urgent,
        "background" => Kind::Background,
        "idle" => Kind::Idle,
        _ => {
            let message = format!("kind {kind:?}: normal, urgent, background or idle");
            return Err(exception(py, "RequestError", &message));
        }
    };
    Ok(ClassSpec::new(name).weight(weight).kind(kind))
}

fn opened(
    py: Python<'_>,
    open: impl FnOnce() -> Result<Class, ClassError> + Send,
) -> PyResult<PyClass> {
    let class = py.detach(open);
    class.map(PyClass).map_err(|error| exception(py, "RequestError", &error.to_string()))
}

/// A class of a gate.
#[pyclass(name = "GateClass", module = "paternoster_io._native", frozen)]
pub(crate) struct PyClass(Class);

#[pymethods]
impl PyClass {
    fn open(&self, py: Python<'_>, name: &str, weight: u32, kind: &str) -> PyResult<PyClass> {
        let spec = spec(py, name, weight, kind)?;
        opened(py, || self.0.class(spec))
    }

    /// Waits for a permit.
    #[pyo3(signature = (op, length, offset=None, within=None, by=None))]
    fn wait(
        &self,
        py: Python<'_>,
        op: &str,
        length: u64,
        offset: Option<u64>,
        within: Option<f64>,
        by: Option<f64>,
    ) -> PyResult<PyPermit> {
        let ask = self.ask(py, op, length, offset, within, by)?;
        let (tell, told) = channel();
        let found: PyResult<Option<_>> = py.detach(move || {
            // A permit that comes after a signal is given back when the channel is dropped.
            if let Err(error) = self.0.permit_then(ask, move |permit| drop(tell.send(permit))) {
                return Ok(Some(Err(error)));
            }
            loop {
                match told.recv_timeout(POLL) {
                    Ok(permit) => return Ok(Some(permit)),
                    Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
                    Err(RecvTimeoutError::Disconnected) => return Ok(None),
                }
            }
        });
        match found? {
            Some(permit) => permit.map(PyPermit::new).map_err(|error| refused(py, error)),
            None => Err(exception(py, "GateError", "the gate has gone")),
        }
    }

    /// A permit, if one is available at once.
    fn now(&self, py: Python<'_>, op: &str, length: u64) -> PyResult<Option<PyPermit>> {
        let op = operation(py, op)?;
        Ok(py.detach(|| self.0.try_permit(op, length)).map(PyPermit::new))
    }

    /// Calls `then(permit, None)` or `then(None, error)`, in this thread or in another.
    #[pyo3(signature = (then, op, length, offset=None, within=None, by=None))]
    #[allow(clippy::too_many_arguments)]
    fn then(
        &self,
        py: Python<'_>,
        then: Py<PyAny>,
        op: &str,
        length: u64,
        offset: Option<u64>,
        within: Option<f64>,
        by: Option<f64>,
    ) -> PyResult<()> {
        let ask = self.ask(py, op, length, offset, within, by)?;
        let call = move |permit: Result<Permit, PermitError>| {
            Python::attach(|py| {
                let called = match permit {
                    Ok(permit) => then.call1(py, (PyPermit::new(permit), py.None())),
                    Err(error) => then.call1(py, (py.None(), refused(py, error))),
                };
                if let Err(error) = called {
                    error.write_unraisable(py, None);
                }
            });
        };
        py.detach(|| self.0.permit_then(ask, call)).map_err(|error| refused(py, error))
    }

    fn eta(&self, py: Python<'_>, op: &str, length: u64) -> PyResult<Option<(f64, f64)>> {
        let op = operation(py, op)?;
        let eta = py.detach(|| self.0.eta(op, length));
        Ok(eta.map(|(permit, done)| (permit.as_secs_f64(), done.as_secs_f64())))
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = py.detach(|| self.0.counts()).unwrap_or_default();
        let told = PyDict::new(py);
        for (name, count) in [
            ("asked", counts.asked),
            ("granted", counts.granted),
            ("given_back", counts.given_back),
            ("expired", counts.expired),
            ("withdrawn", counts.withdrawn),
            ("too_late", counts.too_late),
            ("bytes", counts.bytes),
            ("device_time_ns", counts.device_time.0),
        ] {
            told.set_item(name, count)?;
        }
        Ok(told)
    }

    fn set_weight(&self, py: Python<'_>, weight: u32) -> PyResult<()> {
        let set = py.detach(|| self.0.set_weight(weight));
        set.map_err(|error| exception(py, "RequestError", &error.to_string()))
    }

    fn set_rates(&self, py: Python<'_>, cap: (u64, u64), floor: (u64, u64)) -> PyResult<()> {
        let rate = |(bytes, requests)| Rate { bytes, requests };
        let set = py.detach(|| self.0.set_rates(rate(cap), rate(floor)));
        set.map_err(|error| exception(py, "RequestError", &error.to_string()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| self.0.close());
        closed.map_err(|error| exception(py, "RequestError", &error.to_string()))
    }
}

impl PyClass {
    fn ask(
        &self,
        py: Python<'_>,
        op: &str,
        length: u64,
        offset: Option<u64>,
        within: Option<f64>,
        by: Option<f64>,
    ) -> PyResult<Ask> {
        let mut ask = Ask::new(operation(py, op)?, length);
        if let Some(offset) = offset {
            ask = ask.at(offset);
        }
        let time = |name: &str, seconds: f64| {
            let told = Duration::try_from_secs_f64(seconds).ok();
            let ns = told.and_then(|time| u64::try_from(time.as_nanos()).ok());
            let message = || format!("{name} {seconds}: seconds from now");
            ns.ok_or_else(|| exception(py, "RequestError", &message()))
                .map(|ns| Nanos(py.detach(|| self.0.gate().now()).0.saturating_add(ns)))
        };
        if let Some(seconds) = within {
            ask = ask.until(time("within", seconds)?);
        }
        if let Some(seconds) = by {
            ask = ask.by(time("by", seconds)?);
        }
        Ok(ask)
    }
}

fn operation(py: Python<'_>, op: &str) -> PyResult<Op> {
    match op {
        "read" => Ok(Op::Read),
        "write" => Ok(Op::Write),
        "flush" => Ok(Op::Flush),
        "discard" => Ok(Op::Discard),
        _ => {
            let message = format!("op {op:?}: read, write, flush or discard");
            Err(exception(py, "RequestError", &message))
        }
    }
}

fn refused(py: Python<'_>, error: PermitError) -> PyErr {
    let late = matches!(error, PermitError::TooLate | PermitError::Refused(AskError::TooLate(_)));
    exception(py, if late { "TooLate" } else { "GateError" }, &error.to_string())
}

/// A permit that is out.
#[pyclass(name = "GatePermit", module = "paternoster_io._native", frozen)]
pub(crate) struct PyPermit(Mutex<Option<Permit>>);

impl PyPermit {
    fn new(permit: Permit) -> PyPermit {
        PyPermit(Mutex::new(Some(permit)))
    }

    fn take(&self) -> Option<Permit> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

#[pymethods]
impl PyPermit {
    /// Whether it was still out: it was not given back, and has not expired.
    fn give_back(&self, py: Python<'_>) -> bool {
        self.take().is_some_and(|permit| py.detach(|| permit.give_back().is_ok()))
    }
}

impl Drop for PyPermit {
    fn drop(&mut self) {
        let permit = self.take();
        Python::attach(|py| py.detach(|| drop(permit)));
    }
}
