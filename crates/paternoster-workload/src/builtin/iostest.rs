// SPDX-License-Identifier: MIT OR Apache-2.0
//! iostest: 1, 2, 4, 8, 16 readers or writers, each with its own file, in repetitions.
//!
//! A workload's name has three letters:
//!
//! ```text
//! b buffered  d direct │ s sequential  r random │ r reader  w writer        bsr, drw, …
//! ```
//!
//! Only `bsr` is known from publications; the other names follow the scheme. Caches are empty
//! before each run; a run ends when the files have been read, or after 30 s.
//!
//! Source: LOAD-5; seed 001 (`bsr` on an HP EVA).

use std::fmt::Write as _;

use paternoster_core::Nanos;

use super::job;
use crate::direction::Direction;
use crate::fio::job::Job;
use crate::fio::value::Amount;
use crate::run::RunResult;

/// A workload, named by three letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    name: String,
    direct: bool,
    random: bool,
    write: bool,
}

impl Workload {
    /// Reads a name.
    ///
    /// # Errors
    /// What names there are.
    pub fn parse(name: &str) -> Result<Workload, String> {
        let wrong = || {
            format!(
                "there is no workload `{name}`: write b or d (buffered, direct), s or r \
                 (sequential, random), r or w (reader, writer), as bsr"
            )
        };
        let pick = |letter: Option<char>, no: char, yes: char| match letter {
            Some(letter) if letter == no => Ok(false),
            Some(letter) if letter == yes => Ok(true),
            _ => Err(wrong()),
        };
        let mut letters = name.chars();
        let workload = Workload {
            name: name.to_owned(),
            direct: pick(letters.next(), 'b', 'd')?,
            random: pick(letters.next(), 's', 'r')?,
            write: pick(letters.next(), 'r', 'w')?,
        };
        if letters.next().is_some() { Err(wrong()) } else { Ok(workload) }
    }
}

/// iostest's options.
#[derive(Debug, Clone)]
pub struct Iostest {
    /// The workload.
    pub workload: Workload,
    /// Numbers of jobs, one run after the other.
    pub jobs: Vec<u32>,
    /// Repetitions.
    pub sets: u32,
    /// Bytes of each file.
    pub file_size: u64,
    /// Bytes of a call.
    pub block: u64,
    /// The longest run.
    pub time: Nanos,
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Repetition, from 1.
    pub set: u32,
    /// Number of jobs.
    pub jobs: u32,
    /// kB (1000 bytes) a second, and the longest call in us: of reads, of writes.
    pub ways: [(u64, f64); 2],
}

impl Iostest {
    /// The job of one run.
    #[must_use]
    pub fn job(&self, jobs: u32) -> Vec<Job> {
        let Workload { name, direct, random, write } = &self.workload;
        let direction = if *write { Direction::Write } else { Direction::Read };
        let mut job = job(name, direction, *random, self.block);
        job.region.size = Some(Amount::Bytes(self.file_size));
        job.cache.direct = Some(*direct);
        job.random.norandommap = false;
        job.time.runtime = Some(self.time);
        job.clones.numjobs = jobs;
        vec![job]
    }

    /// The line of one run: fio's `aggrb`, and the largest completion latency of any job.
    #[must_use]
    pub fn row(&self, set: u32, jobs: u32, result: &RunResult) -> Row {
        let all = result.together(|job| job == 0);
        let way = |direction: Direction| {
            all.as_ref().map_or((0, 0.0), |all| {
                let statistics = all.direction(direction);
                let longest = statistics.completion().max().as_micros();
                #[expect(clippy::cast_precision_loss, reason = "printed figures")]
                let longest = longest as f64;
                (statistics.bytes_per_second() / 1000, longest)
            })
        };
        Row { set, jobs, ways: [way(Direction::Read), way(Direction::Write)] }
    }

    /// The table under one scheduler; and the averages if there are several sets.
    #[must_use]
    pub fn table(&self, device: &str, scheduler: &str, rows: &[Row]) -> String {
        let mut text = format!(
            "Kernel=paternoster-{}\nDIR=virtual                  DEV={device}\n",
            env!("CARGO_PKG_VERSION")
        );
        let _infallible = writeln!(
            text,
            "Workload={}      iosched={scheduler}     Filesz={}   bs={}",
            self.workload.name,
            size(self.file_size),
            size(self.block)
        );
        text.push_str(&self.lines(rows));
        if self.sets > 1 {
            let _infallible = writeln!(text, "\nAVERAGE[{}]", self.workload.name);
            text.push_str(&self.lines(&self.averages(rows)));
        }
        text
    }

    fn lines(&self, rows: &[Row]) -> String {
        let mut text = "=".repeat(73) + "\n";
        let line = |columns: [&str; 7]| {
            let [a, b, c, d, e, f, g] = columns;
            format!("{a:<10}{b:<4}{c:<4}{d:<15}{e:<15}{f:<15}{g}\n")
        };
        text.push_str(&line([
            "job",
            "Set",
            "NR",
            "ReadBW(KB/s)",
            "MaxClat(us)",
            "WriteBW(KB/s)",
            "MaxClat(us)",
        ]));
        text.push_str(&line([
            "---",
            "---",
            "--",
            "------------",
            "-----------",
            "-------------",
            "-----------",
        ]));
        for row in rows {
            let [(read, read_max), (write, write_max)] = row.ways;
            text.push_str(&line([
                &self.workload.name,
                &row.set.to_string(),
                &row.jobs.to_string(),
                &read.to_string(),
                &micros(read_max),
                &write.to_string(),
                &micros(write_max),
            ]));
        }
        text
    }

    /// The means over all sets, with the number of sets in place of the set.
    #[must_use]
    pub fn averages(&self, rows: &[Row]) -> Vec<Row> {
        let mean = |jobs: &u32| {
            let own: Vec<&Row> = rows.iter().filter(|row| row.jobs == *jobs).collect();
            let number = u32::try_from(own.len().max(1)).unwrap_or(u32::MAX);
            let way = |place: usize| {
                let rate: u64 = own.iter().map(|row| row.ways[place].0).sum();
                let longest: f64 = own.iter().map(|row| row.ways[place].1).sum();
                (rate / u64::from(number), longest / f64::from(number))
            };
            Row { set: self.sets, jobs: *jobs, ways: [way(0), way(1)] }
        };
        self.jobs.iter().map(mean).collect()
    }
}

/// Microseconds, with one decimal only if it is not zero, as in averages.
fn micros(longest: f64) -> String {
    let text = format!("{longest:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// `2G`, `4K`, as the original's header has it.
fn size(bytes: u64) -> String {
    for (shift, letter) in [(30, 'G'), (20, 'M'), (10, 'K')] {
        if bytes >> shift > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{letter}", bytes >> shift);
        }
    }
    bytes.to_string()
}
