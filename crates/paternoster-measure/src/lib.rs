// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures: what a run, a trace and a server are measured with, each once.
//!
//! * [`Histogram`]: latencies in fio's bins; [`CoarseHistogram`]: in fewer, with exact extremes.
//! * [`jain`]: how even shares are.
//! * [`InFlight`]: which I/O an event of a trace belongs to.
//!
//! It reads no clock and does no I/O. Kyber's histogram (quarters of its target) and the gate's
//! (ratios of an estimate) are parts of what they decide, and stay there.

#![forbid(unsafe_code)]

mod bins;
mod coarse;
mod fairness;
mod histogram;
mod in_flight;
mod places;
mod progress;
mod sectors;

pub use coarse::{CELLS, Cell, CoarseHistogram, PARTS};
pub use fairness::jain;
pub use histogram::{Histogram, bin_of, reaches};
pub use in_flight::{Extent, IN_FLIGHT_MAX, InFlight, IoId, Part};
