// SPDX-License-Identifier: MIT OR Apache-2.0
//! All external tests of the models, in one program: each test program links everything, and
//! linking one is faster than linking a dozen.
//!
//! A new file of tests gets a line below. A test that may not share a process with others has a
//! program of its own: `no_allocation` counts what the whole process allocates.

mod common;

mod array_model;
mod device_files;
mod disksim_validation;
mod flush_figures;
mod hdd_figures;
mod power_cuts;
// It needs bugs to plant: `./test` asks for the feature.
#[cfg(feature = "planted-bugs")]
mod power_planted;
mod ssd_cliff;
mod ssd_figures;
mod ssd_streams;
mod ssd_tails;
