// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio's job-file language: the contents of a job file, and the I/O that its jobs make.
//!
//! ```text
//! text --lines--> sections --variables, value, option, apply--> Job
//! Job  --offsets, sizes, random, block_map--> Piece, Piece, Piece ...
//! ```
//!
//! A [`jobfile`] is parsed into [`job::Job`]s; [`offsets::Offsets`] then gives the same files,
//! directions, offsets and lengths as fio 3.33 does with the same seeds.
//!
//! The other modules are the rules for how a job proceeds, each separate and without a clock or I/O
//! of its own; the code that runs processes asks them: [`pace`] when an I/O may start, [`syncs`]
//! when a sync is due, [`cmdprio`] which priority it has, [`flow`] which job is next, [`frames`]
//! when a player's frame is due, [`latency_target`] how deep the queue may be, [`verify_plan`] what
//! is read back, [`file_choice`] and [`file_sizes`] for several files, [`ending`] which job's end
//! ends others, [`relay`] which job hands over to which, [`cpu_load`] how much CPU is burned;
//! [`iolog`] and [`replay`] read and write logs of I/O, [`job_logs`] the logs of figures.
//!
//! [`unwired`] lists what the language allows but a run cannot do yet.
//!
//! Source: `docs/rules/fio.md` and `docs/rules/fio-io.md`; no line of fio is used here.

mod apply;
mod block_map;
pub mod changes;
mod check;
pub mod cmdprio;
mod command_line;
pub mod cpu_load;
pub mod distribution;
pub mod ending;
pub mod file_choice;
pub mod file_sizes;
pub mod flow;
pub mod frames;
pub mod iolog;
pub mod job;
pub mod job_logs;
pub mod jobfile;
pub mod latency_target;
mod lines;
pub mod offsets;
pub mod option;
pub mod pace;
mod problem;
pub mod random;
pub mod recorded;
pub mod relay;
pub mod replay;
mod sizes;
pub mod strides;
pub mod syncs;
pub mod taus258;
pub mod unwired;
pub mod value;
mod variables;
pub mod verify_plan;
pub mod work;
