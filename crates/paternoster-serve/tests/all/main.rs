// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of the server from outside that do not depend on the clock, in one program: each
//! program links everything, and one is linked sooner than a dozen. A time limit here only ends a
//! test that hangs.
//!
//! A new file of tests goes in here, with a line below. In `real_time` is what a slow or busy
//! machine decides; in `mounts` what has files of its own mounts open.

#[path = "../common/mod.rs"]
mod common;

mod back_pressure;
mod conformance;
mod data;
mod faults;
mod handover;
mod kept;
mod odd_reloads;
mod orders;
mod owners;
mod recorded;
mod reload;
mod rights;
