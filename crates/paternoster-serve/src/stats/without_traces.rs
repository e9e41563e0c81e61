// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of a live device, in a program that was built without them (feature `instruments`): the
//! order to begin one is refused, and so there is none.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use paternoster_core::{Event, Nanos, Note};

use super::TraceSummary;

/// The device, the file and the time of a new trace.
#[derive(Debug)]
#[expect(dead_code, reason = "what a trace would need")]
pub(super) struct Begin<'a> {
    pub(super) prefix: &'a Path,
    pub(super) now: Nanos,
    pub(super) wall_clock: (u64, u32),
    pub(super) device: DeviceNumber,
    pub(super) elevator: &'a str,
    pub(super) bytes_max: u64,
}

/// A device's major and minor number.
#[derive(Debug, Clone, Copy)]
pub struct DeviceNumber;

impl DeviceNumber {
    /// No number is needed.
    #[must_use]
    pub const fn new(_major: u32, _minor: u32) -> DeviceNumber {
        DeviceNumber
    }
}

/// No trace can exist.
#[derive(Debug)]
pub(super) struct Trace(Infallible);

impl Trace {
    pub(super) fn start(_: &Begin<'_>) -> io::Result<Trace> {
        let told = "this program was built without traces; build it with `--features \
                    instruments`, or with the default features";
        Err(io::Error::new(io::ErrorKind::Unsupported, told))
    }

    pub(super) const fn is_writing(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn call(&mut self, _: u32, _: u32, _: &str) {
        match self.0 {}
    }

    pub(super) fn event(&mut self, _: &Event) {
        match self.0 {}
    }

    pub(super) fn note(&mut self, _: Nanos, _: u64, _: &Note) {
        match self.0 {}
    }

    pub(super) fn finish(self) -> Option<TraceEnding> {
        match self.0 {}
    }
}

/// No trace can end.
#[derive(Debug)]
pub struct TraceEnding(Infallible);

impl TraceEnding {
    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn wait(self) -> io::Result<TraceSummary> {
        match self.0 {}
    }
}
