// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of the models from outside, in one program: each links everything there is, and one is
//! linked sooner than a dozen.
//!
//! A new file of tests goes in here, with a line below. What may not share a process with others
//! has a program of its own: `no_allocation` counts what the whole process allocates.

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
