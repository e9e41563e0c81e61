// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: records of the event stream, pictures drawn from it, and the traces of a running kernel.
//!
//! ```text
//! RequestQueue ──events──▶ record::Recorder ──┐
//!                                             ├─▶ plot::picture ──▶ SVG, PNG, html::Report
//! Source ──records──────▶ record::FromTrace ──┘
//! ```
//!
//! * [`source`]: the events of a trace, whatever its format; [`blktrace`]: the kernel's own, and
//!   how a run is written in it; [`formats`]: all others, recognised by their contents.
//! * [`filter`]: the selection of events.
//! * [`analysis`]: a trace in figures for people.
//! * [`blkparse`], [`btt`]: the output of the programs of these names, byte for byte.
//! * [`record`]: observers that keep a run in bounded memory, however long it is.
//! * [`plot`]: pictures of one run or several: equal runs, equal bytes.
//! * [`html`]: a report of tables and pictures, in one file for a browser.
//! * [`perfetto`]: a run for a viewer of traces.
//! * [`ftrace`]: the text of a kernel's own tracer, with the decisions of its scheduler.
//!
//! No figure here is measured twice: everything is read off the events.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod blkparse;
pub mod blktrace;
pub mod btt;
pub mod filter;
pub mod formats;
pub mod ftrace;
pub mod html;
#[cfg(test)]
mod made;
pub mod perfetto;
pub mod plot;
pub mod record;
pub mod source;

pub use plot::{Kind, Picture, Run, draw, picture};
pub use record::{FromTrace, Recorder};
pub use source::{Entry, Problems, Source};
