// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes do: fio job files, the processes they describe, and fio's reports.
//!
//! ```text
//! job file ──▶ fio::jobfile ──▶ Job ──▶ Process ─┐
//!                                                ├─ run ──▶ statistics ──▶ report
//!                     RequestQueue, impl Device ─┘    └──▶ events ──▶ meter
//! ```
//!
//! * [`fio`]: the language: job files, values, offsets as fio draws them.
//! * [`io_tester`]: Seastar's job files, in fio's words.
//! * [`layout`], [`process`], [`mod@run`]: where files lie, what a process does, and the loop
//!   around the library.
//! * [`page_cache`]: memory in front of the queue: read-ahead, dirty pages, the flusher.
//! * [`meter`], [`statistics`]: counts, from the event stream and by the processes themselves.
//! * [`observed`]: the one type of queue for runs and replays.
//! * [`replay`]: a recorded trace under other schedulers, on other devices.
//! * [`shares`], [`outcome`]: device time and fairness; the result in the shape that reports
//!   take.
//! * [`entitlement`]: what each client should have had.
//! * [`report`]: fio's output formats.
#![forbid(unsafe_code)]

pub mod builtin;
pub mod direction;
pub mod fio;
pub mod io_tester;
pub mod layout;
pub mod meter;
pub mod observed;
pub mod outcome;
pub mod page_cache;
pub mod process;
pub mod replay;
pub mod report;
pub mod run;
pub mod shares;
pub mod statistics;

pub use paternoster_base::entitlement;

pub use direction::Direction;
pub use observed::Queue;
pub use run::{NoWatcher, Progress, RunError, RunResult, Settings, Watcher, run};
