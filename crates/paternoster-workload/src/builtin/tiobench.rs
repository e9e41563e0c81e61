// SPDX-License-Identifier: MIT OR Apache-2.0
//! tiobench: tiotest with 1, 2, 4 and 8 threads on the same amount of data, as four tables.
//!
//! ```text
//! --size 2048 --threads 1 2 4 8      one file of 2048 MB, two of 1024, four of 512, eight of 256
//! ```
//!
//! Source: LOAD-3.

use std::fmt::Write as _;

use super::tiotest::{Phase, PhaseResult, Tiotest};

/// tiobench's options.
#[derive(Debug, Clone)]
pub struct Tiobench {
    /// `--threads`: numbers of threads, one run after the other.
    pub threads: Vec<u32>,
    /// `--size`: MB (2^20) of all files together.
    pub size_mb: u64,
    /// `--random`: random calls of all threads together.
    pub random_calls: u64,
    /// `--block`: bytes of a call.
    pub block: u64,
    /// `--identifier`: the first column.
    pub identifier: String,
}

impl Tiobench {
    /// The runs of tiotest that make the tables, each on a fresh device.
    #[must_use]
    pub fn runs(&self) -> Vec<Tiotest> {
        let run = |&threads: &u32| Tiotest {
            threads,
            file_mb: (self.size_mb / u64::from(threads.max(1))).max(1),
            random_calls: (self.random_calls / u64::from(threads.max(1))).max(1),
            block: self.block,
            drop_caches: true,
            ..Tiotest::default()
        };
        self.threads.iter().map(run).collect()
    }

    /// The four tables, from the phases of each run.
    #[must_use]
    pub fn table(&self, runs: &[Vec<PhaseResult>]) -> String {
        let mut text = String::from(UNITS);
        for (phase, title) in [
            (Phase::Read, "Sequential Reads"),
            (Phase::RandomRead, "Random Reads"),
            (Phase::Write, "Sequential Writes"),
            (Phase::RandomWrite, "Random Writes"),
        ] {
            let _infallible = write!(text, "\n{title}\n{HEAD}");
            for (threads, phases) in self.threads.iter().zip(runs) {
                if let Some(result) = phases.iter().find(|result| result.phase == phase) {
                    text.push_str(&self.row(*threads, result));
                }
            }
        }
        text
    }

    fn row(&self, threads: u32, result: &PhaseResult) -> String {
        let (user, system) = result.cpu();
        let (cpu, rate) = (user + system, result.rate());
        let [mean, max, over_2s, over_10s] = result.latency().figures();
        let efficiency = if cpu > 0.0 { rate / (cpu / 100.0) } else { 0.0 };
        format!(
            "{:<28} {:>6} {:>5}  {threads:>3}  {rate:6.2} {cpu:5.2}% {mean:9.3} {max:11.2}  \
             {over_2s:8.5} {over_10s:8.5} {efficiency:5.0}\n",
            self.identifier, self.size_mb, self.block,
        )
    }
}

const UNITS: &str = "\
Unit information
================
File size = megabytes
Blk Size  = bytes
Rate      = megabytes per second
CPU%      = percentage of CPU used during the test
Latency   = milliseconds
Lat%      = percent of requests that took longer than X seconds
CPU Eff   = Rate divided by CPU% - throughput per cpu load
";

const HEAD: &str = concat!(
    "                              File  Blk   Num                   Avg      ",
    "Maximum      Lat%     Lat%    CPU\n",
    "Identifier                    Size  Size  Thr   Rate  (CPU%)  Latency    ",
    "Latency      >2s      >10s    Eff\n",
    "---------------------------- ------ ----- ---  ------ ------ --------- ",
    "-----------  -------- -------- -----\n",
);
