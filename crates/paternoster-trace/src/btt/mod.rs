// SPDX-License-Identifier: MIT OR Apache-2.0
//! btt: the figures that blktrace's `btt` makes of a trace, and its files, byte for byte.
//!
//! ```text
//! Source ──entries──▶ Analysis ──▶ Figures ──▶ report, .xvg
//!                        ├──▶ ranges of activity
//!                        └──▶ side files, by name
//! ```
//!
//! * [`Options`]: what to do; [`Files`]: where outputs go; [`Analysis`]: takes events; [`Figures`]:
//!   the findings, as plain data.
//!
//! It differs from btt where that would fail: an unplug without a number counts as 0, not as a
//! crash. It counts what btt counts, even where that is odd (its median is not a median).
//!
//! Bounds: [`OUTSTANDING_MAX`], [`DEVICES_MAX`], [`PROCESSES_MAX`], [`RANGES_MAX`],
//! [`PERIODS_MAX`]. Memory grows with different seek distances only, 18 bytes for each.
//!
//! Source: `docs/rules/btt.md`, BTT-1 to BTT-37.

mod accept;
mod active;
mod analysis;
mod chunks;
mod device;
mod distances;
mod figures;
mod files;
mod finish;
mod histograms;
mod intervals;
mod iostat;
mod latencies;
mod numbers;
mod options;
mod outstanding;
mod per_io;
mod plugs;
mod processes;
mod ranges;
mod rates;
mod report;
mod seeks;
mod shape;
mod tables;
#[cfg(test)]
mod tests;
mod times;
mod tree;
mod waiting;
mod xvg;

pub use active::{ActiveFigures, PERIODS_MAX};
pub use analysis::{Analysis, DEVICES_MAX};
pub use figures::{DeviceFigures, Figures, LeftOut, MergeFigures, Overhead, ProcessFigures};
pub use files::{Files, Folder, Memory, Nowhere, STANDARD_OUTPUT};
pub use intervals::{Interval, Intervals, Spread};
pub use options::Options;
pub use outstanding::OUTSTANDING_MAX;
pub use plugs::PlugFigures;
pub use processes::PROCESSES_MAX;
pub use ranges::RANGES_MAX;
pub use seeks::SeekFigures;
