// SPDX-License-Identifier: MIT OR Apache-2.0
//! blktrace: the binary records that the kernel's block tracer writes, read and written.
//!
//! ```text
//! sda.blktrace.0 ─┐
//! sda.blktrace.1 ─┴▶ Merged ─┐
//! merged file ───┐           ├─▶ Source (records in order of time)
//! pipe ──────────┴▶ Ordered ─┘
//! ```
//!
//! * [`Record`], [`Code`], [`Categories`]: one event.
//! * [`Reader`]: one stream in file order; [`Ordered`]: in order of time; [`Merged`]: several
//!   files.
//! * [`Tracer`]: a run's events as such records.
//! * [`Writer`]: one stream; [`PerCpu`]: a file for each processor.
//!
//! Source: `docs/rules/trace.md`, TRACE-1 to TRACE-19.

mod merge;
mod order;
mod reader;
mod record;
mod tracer;
mod words;
mod writer;

pub use merge::Merged;
pub use order::{Ordered, PAYLOAD_MAX, WINDOW};
pub use reader::Reader;
pub use record::{Categories, Code, DeviceNumber, Head, Layout, RECORD_V7, RECORD_V8, Record};
pub use tracer::{PID_FIRST, Sink, Traced, Tracer};
pub use words::MESSAGE_MAX;
pub use writer::{CPUS_MAX, PerCpu, Writer};
