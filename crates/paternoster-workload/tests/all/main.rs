// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of job files, logs and reports from outside, in one program: each links everything
//! there is, and one is linked sooner than several.
//!
//! A new file of tests goes in here, with a line below.

mod changes;
mod common;

mod fio_drawn;
mod fio_examples;
mod fio_files;
mod fio_real;
mod flush_owners;
mod iolog_real;
mod levels;
mod report_forms;
