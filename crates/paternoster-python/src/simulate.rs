// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulate: a call's work on a thread without the GIL, while this one handles signals.
//!
//! With schedulers in Python the worker holds the GIL, and releases it as any Python thread does.
//!
//! ```text
//! Python's thread   detached: waits ── 50 ms ──▶ signals? ──▶ waits … ──▶ result, or exception
//! worker            ════════════ the program's command ════════════▶
//!                                    ▲ stop, after Ctrl-C
//! ```
//!
//! Python runs signal handlers only in its main thread, and there only when a call checks for
//! signals.
//!
//! # Invariants
//! I1  When this returns, the worker has ended.
//! I2  A panic becomes `paternoster_io.Error`.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use paternoster::guard::guarded;
use paternoster::{Call, Failure};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::elevator::watched;
use crate::{POLL, exception};

/// Does the work of `call`, attached to Python if there are schedulers of its `own`; an exception
/// has the program's message, or comes from such a scheduler.
pub(crate) fn simulate<T: Send>(
    py: Python<'_>,
    call: &Call,
    own: bool,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (stop, work_stop) = (call.stop(), call.stop());
    let (done, heard) = py.detach(|| {
        let mut heard = None;
        let (tell, told) = channel();
        let done = thread::scope(|scope| {
            let begun = thread::Builder::new().spawn_scoped(scope, move || {
                let watched = || watched(work_stop, work);
                let attached = || if own { Python::attach(|_| watched()) } else { watched() };
                let _received = tell.send(guarded(attached));
            });
            if let Err(error) = begun {
                return Err(format!("no thread could be started: {error}"));
            }
            loop {
                match told.recv_timeout(POLL) {
                    Ok(done) => return done,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err("its thread has ended".to_owned());
                    }
                    Err(RecvTimeoutError::Timeout) if heard.is_none() => {
                        heard = Python::attach(|py| py.check_signals()).err();
                        stop.store(heard.is_some(), Ordering::Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        });
        (done, heard)
    });
    match (heard, done) {
        (Some(signal), _) => Err(signal),
        (None, Ok((_, Some(error)))) => Err(error),
        (None, Ok((done, None))) => done.map_err(|failure| raised(py, failure)),
        (None, Err(panic)) => Err(exception(py, "Error", &panic)),
    }
}

/// Does work without a separate thread; a panic becomes an exception here, too.
pub(crate) fn kept<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    guarded(work).unwrap_or_else(|panic| Err(exception(py, "Error", &panic)))
}

/// The exception for a message of the program.
fn raised(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::Request(message) => exception(py, "RequestError", &message),
        Failure::Job(message) => exception(py, "JobError", &message),
        Failure::Status(_) => PyKeyboardInterrupt::new_err(()),
    }
}
