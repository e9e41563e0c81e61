// SPDX-License-Identifier: MIT OR Apache-2.0
//! All external tests of job files, logs and reports, in one program: each test program links
//! everything, and linking one is faster than linking several.
//!
//! A new file of tests gets a line below.

mod changes;
mod common;
mod endings;

mod fio_drawn;
mod fio_examples;
mod fio_files;
mod fio_real;
mod flush_owners;
mod iolog_real;
mod levels;
mod mutants;
mod report_forms;
mod sleeping;
