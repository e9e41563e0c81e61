// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio's job-file language: what a job file says, and the I/O that its jobs make.
//!
//! ```text
//! text --lines--> sections --variables, value, option, apply--> Job
//! Job  --offsets, sizes, random, block_map--> Piece, Piece, Piece ...
//! ```
//!
//! A [`jobfile`] is parsed into [`job::Job`]s; [`offsets::Offsets`] then gives the same directions,
//! offsets and lengths as fio 3.33 does with the same seeds. Nothing here knows time or devices.
//!
//! Source: spec `fio.md` sections 1 to 4, written from experiments; no line of fio is used here.

mod apply;
mod block_map;
mod check;
mod command_line;
pub mod job;
pub mod jobfile;
mod lines;
pub mod offsets;
pub mod option;
mod problem;
pub mod random;
mod sizes;
pub mod syncs;
pub mod value;
mod variables;
