// SPDX-License-Identifier: MIT OR Apache-2.0
//! Built-in workloads: other programs that people measure with, as jobs and as their tables.
//!
//! Each is options that become [`Job`]s, and a table made from the result of their run, in the form
//! of its original:
//!
//! ```text
//! options ──jobs()──▶ run ──▶ RunResult ──table()──▶ what the original prints
//! ```
//!
//! * [`tiotest`]: four phases of several threads; [`tiobench`]: tiotest with several thread counts.
//! * [`disktest`]: many threads that read one stream.
//! * [`iostest`]: 1 to 16 readers or writers, in repetitions.
//! * [`dd`]: files read or written as a whole, one after the other or together.
//! * [`startup`]: a program starts while others read and write.
//! * [`sysbench`]: many threads on many files, with bursts of fsync.
//!
//! Source: LOAD-1 to LOAD-10, seed 001; for startup see there.

pub mod dd;
pub mod disktest;
pub mod iostest;
pub mod startup;
pub mod sysbench;
pub mod tiobench;
pub mod tiotest;

use paternoster_core::Nanos;

use crate::direction::Direction;
use crate::fio::job::{Blocks, Caching, Job, Kind, Order, Pattern, Randomness, Section};
use crate::run::RunResult;

/// A job of one direction in blocks of one size; everything else as fio's defaults.
fn job(name: &str, direction: Direction, random: bool, block: u64) -> Job {
    let (kind, rw_text) = match (direction, random) {
        (Direction::Write, false) => (Kind::WriteOnly, "write"),
        (Direction::Write, true) => (Kind::WriteOnly, "randwrite"),
        (_, false) => (Kind::ReadOnly, "read"),
        (_, true) => (Kind::ReadOnly, "randread"),
    };
    Job {
        name: name.to_owned(),
        section: Section { file: name.to_owned(), ..Section::default() },
        order: Order {
            rw: Pattern { random, kind, skip: i64::from(random) },
            rw_text,
            ..Order::default()
        },
        blocks: Blocks { block_size: [(block, block); 3], ..Blocks::default() },
        cache: Caching { direct: Some(false), ..Caching::default() },
        // Draws may repeat, as in programs that draw without a map.
        random: Randomness { norandommap: true, ..Randomness::default() },
        ..Job::default()
    }
}

/// From the beginning of a job's section to its end.
fn wall_time(result: &RunResult, job: usize) -> Nanos {
    let section = result.processes.iter().find(|process| process.job == job);
    let section = section.and_then(|process| result.sections.get(process.section));
    section.map_or(Nanos::ZERO, |section| section.ended - section.began)
}

/// Seconds, for tables.
#[expect(clippy::cast_precision_loss, reason = "printed figures")]
fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// Milliseconds, for tables.
#[expect(clippy::cast_precision_loss, reason = "printed figures")]
fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Megabytes of 2^20, for tables.
#[expect(clippy::cast_precision_loss, reason = "printed figures")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// `amount` in `time`, per second; 0 in no time.
fn per_second(amount: f64, time: Nanos) -> f64 {
    if time == Nanos::ZERO { 0.0 } else { amount / seconds(time) }
}
