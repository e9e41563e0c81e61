// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: what is kept of the event stream, the pictures that are drawn of it, and what a running
//! kernel wrote.
//!
//! ```text
//! RequestQueue ──events──▶ record::Recorder ──┐
//!                                             ├─▶ plot::picture ──▶ SVG, PNG, html::Report
//! Source ──records──────▶ record::FromTrace ──┘
//! ```
//!
//! * [`source`]: the events of a trace, whatever its format; [`blktrace`]: the format itself;
//!   [`filter`]: which of them are looked at.
//! * [`blkparse`]: what the program of this name prints of them.
//! * [`source`]: the events of a trace, whatever its format; [`blktrace`]: the format itself.
//! * [`btt`]: what blktrace's `btt` makes of a trace, byte for byte.
//! * [`record`]: observers that keep a run in bounded memory, however long it is.
//! * [`plot`]: pictures of one run or several: equal runs, equal bytes.
//! * [`html`]: a report of tables and pictures, in one file for a browser.
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
pub mod outstanding;
pub mod plot;
pub mod record;
pub mod source;

pub use plot::{Kind, Picture, Run, draw, picture};
pub use record::{FromTrace, Recorder};
pub use source::{Entry, Problems, Source};
