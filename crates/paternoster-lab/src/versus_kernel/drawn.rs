// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drawn: random jobs and devices, under the kernel's schedulers and ours, collected over time.
//!
//! ```text
//! --drawn 1-60 ──▶ seed 1: device, job ──▶ versus-kernel ──▶ a line for each rate ──▶ --results
//!                  seed 2 …                                                               │
//!                                                  the table of all that was collected ◀──┘
//! ```
//!
//! A seed whose lines exist already is left out, so that hours of runs can be split up, for when a
//! machine has nothing else to do. The kernel is the reference only where it agrees with itself:
//! where its repeats differ by more than 5 % of their median, ranges are compared instead.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use paternoster_frame::{Failure, setting};
use paternoster_torture::emulable::emulable;
use paternoster_torture::load::Load;

use super::tell::{NEAR, Row, Told};
use super::{Plan, VersusOptions};

/// The first line of a file of results.
const HEAD: &str = "seed\tkernel\tlate_p99_us\tprocess\tclient\tscheduler\tkernel_median\t\
                    kernel_least\tkernel_most\tours_median\tours_least\tours_most";
/// Repeats of the kernel that differ by at most this, in per cent of their median, agree.
const AGREES: f64 = 5.0;
/// How long a drawn job runs.
const RUNTIME_MS: u64 = 3000;

/// The numbers of `--drawn`: one, or a range.
pub(super) fn seeds(text: &str) -> Result<(u64, u64), String> {
    setting::seeds(text).ok_or_else(|| "a seed, or the first and the last as 1-60".to_owned())
}

/// One client's result under one scheduler: median, minimum and maximum of the repeats, in bytes
/// per second.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    seed: u64,
    process: String,
    /// The kind of job, in the words for a load.
    client: String,
    scheduler: String,
    kernel: [f64; 3],
    ours: [f64; 3],
}

impl Line {
    /// The lines of a run, as they are stored.
    fn all(told: &Told, load: &Load) -> String {
        let mut text = String::new();
        let late = told.precision.late.p99.0 / 1000;
        for row in told.tables.iter().flat_map(|table| &table.rows) {
            let Row { process, scheduler, kernel: Some(kernel), range, ours, ours_range } = row
            else {
                continue;
            };
            let client = process.strip_prefix('c').and_then(|place| place.parse::<usize>().ok());
            let client = client.and_then(|place| load.clients.get(place));
            let client = client.map_or(String::new(), paternoster_torture::load::Client::tell);
            let _infallible = writeln!(
                text,
                "{}\t{}\t{late}\t{process}\t{client}\t{scheduler}\t{:.0}\t{:.0}\t{:.0}\t{:.0}\t\
                 {:.0}\t{:.0}",
                load.seed,
                told.machine.kernel,
                kernel.rate,
                range.0,
                range.1,
                ours.rate,
                ours_range.0,
                ours_range.1
            );
        }
        text
    }

    fn parse(text: &str) -> Option<Line> {
        let cells: Vec<&str> = text.split('\t').collect();
        let [seed, _, _, process, client, scheduler, numbers @ ..] = &cells[..] else {
            return None;
        };
        let numbers: Vec<f64> = numbers.iter().map_while(|cell| cell.parse().ok()).collect();
        let [a, b, c, d, e, f] = numbers[..] else { return None };
        Some(Line {
            seed: seed.parse().ok()?,
            process: (*process).to_owned(),
            client: (*client).to_owned(),
            scheduler: (*scheduler).to_owned(),
            kernel: [a, b, c],
            ours: [d, e, f],
        })
    }

    /// Whether the kernel's repeats agree with each other.
    fn is_judge(&self) -> bool {
        let [median, least, most] = self.kernel;
        median > 0.0 && 100.0 * (most - least) <= AGREES * median
    }

    /// Ours compared with the kernel's, in per cent of the kernel's.
    fn difference(&self) -> f64 {
        100.0 * (self.ours[0] / self.kernel[0] - 1.0)
    }

    fn is_near(&self) -> bool {
        100.0 * (self.ours[0] - self.kernel[0]).abs() <= NEAR * self.kernel[0]
    }

    /// Whether the range of ours and that of the kernel's overlap.
    fn overlaps(&self) -> bool {
        self.ours[1] <= self.kernel[2] && self.kernel[1] <= self.ours[2]
    }
}

/// The contents of a file of results; nothing if it does not exist yet.
fn read(path: &Path) -> Result<Vec<Line>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| Failure::Request(format!("{}: {error}", path.display())))?,
    };
    let lines = text.lines().enumerate().skip(1).map(|(place, line)| {
        let wrong = || format!("{}:{}: no line of results: {line}", path.display(), place + 1);
        Line::parse(line).ok_or_else(|| Failure::Request(wrong()))
    });
    lines.collect()
}

/// Runs the seeds without results, and adds each when it is done; returns what failed.
pub(super) fn collect(
    options: &VersusOptions,
    (first, last): (u64, u64),
    path: &Path,
    stop: &AtomicBool,
) -> Result<Vec<String>, Failure> {
    let done: Vec<u64> = read(path)?.iter().map(|line| line.seed).collect();
    let mut failed = Vec::new();
    for seed in first..=last {
        if done.contains(&seed) {
            continue;
        }
        let load = emulable(seed);
        let stem = std::env::temp_dir().join(format!("paternoster-drawn-{}", std::process::id()));
        let (job, device) = (stem.with_extension("fio"), stem.with_extension("toml"));
        let name = |path: &Path| path.display().to_string();
        let at = |path: &Path, error: std::io::Error| {
            Failure::Request(format!("{}: {error}", path.display()))
        };
        std::fs::write(&job, load.job_file(RUNTIME_MS)).map_err(|error| at(&job, error))?;
        let file = load.device.file.as_deref().unwrap_or_default();
        std::fs::write(&device, file).map_err(|error| at(&device, error))?;
        let one = VersusOptions {
            files: vec![name(&job)],
            device: Some(name(&device)),
            ..options.clone()
        };
        let ran = Plan::new(&one).and_then(|plan| plan.run(stop));
        let gone = [&job, &device].map(std::fs::remove_file);
        let (told, wrong) = ran?;
        for result in gone {
            result.map_err(|error| at(&job, error))?;
        }
        if wrong.is_empty() {
            add(path, &Line::all(&told, &load)).map_err(|error| at(path, error))?;
        }
        failed.extend(wrong.into_iter().map(|wrong| format!("seed {seed}: {wrong}")));
    }
    Ok(failed)
}

/// Adds lines to a file of results, which is made if it does not exist.
fn add(path: &Path, lines: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    if file.metadata()?.len() == 0 {
        writeln!(file, "{HEAD}")?;
    }
    file.write_all(lines.as_bytes())
}

/// The table of all results, as Markdown: by scheduler, and each rate that is not close.
pub(super) fn summary(path: &Path) -> Result<String, Failure> {
    let lines = read(path)?;
    if lines.is_empty() {
        let message =
            format!("{}: there are no results; --drawn 1-60 collects some", path.display());
        return Err(Failure::Request(message));
    }
    let mut seeds: Vec<u64> = lines.iter().map(|line| line.seed).collect();
    seeds.dedup();
    let mut text = format!(
        "{} jobs, {} rates\n\n| scheduler | rates | the kernel agrees with itself | of them within \
         {NEAR:.0} % | of the others, ranges overlap |\n|---|--:|--:|--:|--:|\n",
        seeds.len(),
        lines.len()
    );
    let mut by: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in &lines {
        by.entry(&line.scheduler).or_default().push(line);
    }
    for (scheduler, lines) in &by {
        let count = |is: &dyn Fn(&Line) -> bool| lines.iter().filter(|line| is(line)).count();
        let judges = count(&Line::is_judge);
        let near = count(&|line| line.is_judge() && line.is_near());
        let overlap = count(&|line| !line.is_judge() && line.overlaps());
        let _infallible = writeln!(
            text,
            "| {scheduler} | {} | {judges} | {near} ({} %) | {overlap} of {} |",
            lines.len(),
            100 * near / judges.max(1),
            lines.len() - judges
        );
    }
    text.push_str(
        "\n| seed | process | scheduler | kernel MB/s | ours | % |\n|--:|---|---|--:|--:|--:|\n",
    );
    for line in lines.iter().filter(|line| line.is_judge() && !line.is_near()) {
        let Line { seed, process, client, scheduler, kernel, ours } = line;
        let _infallible = writeln!(
            text,
            "| {seed} | {process} {client} | {scheduler} | {:.2} | {:.2} | {:+.1} |",
            kernel[0] / 1e6,
            ours[0] / 1e6,
            line.difference()
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kernel: [f64; 3], ours: [f64; 3]) -> Line {
        let text = |text: &str| text.to_owned();
        Line {
            seed: 7,
            process: text("c0"),
            client: text("x"),
            scheduler: text("bfq"),
            kernel,
            ours,
        }
    }

    /// Is a seed read as a seed, a range as a range, and anything else as neither?
    #[test]
    fn seeds_are_read() {
        assert_eq!((seeds("7"), seeds("1-60")), (Ok((7, 7)), Ok((1, 60))));
        for wrong in ["", "-", "5-3", "a-b", "1-", "-4"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }

    /// Is the kernel a reference up to 5 % between its runs, are we close up to 10 %, and do ranges
    /// that touch overlap? 100, 98 to 103: 5 %; 110 is +10 %. 98 to 104 is 6 %; 104 to 120 touches
    /// it.
    #[test]
    fn rates_are_judged_where_the_kernel_agrees() {
        let agrees = line([100.0, 98.0, 103.0], [110.0, 104.0, 120.0]);
        assert!(agrees.is_judge() && agrees.is_near() && !agrees.overlaps());
        let varies = line([100.0, 98.0, 104.0], [111.0, 104.0, 120.0]);
        assert!(!varies.is_judge() && !varies.is_near() && varies.overlaps());
        assert!(!line([0.0; 3], [1.0; 3]).is_judge());
    }

    /// Are results read as they were written, is an existing seed counted, and is a broken line
    /// reported with its number?
    #[test]
    fn results_are_read_as_written() {
        let path = std::env::temp_dir().join(format!("paternoster-results-{}", std::process::id()));
        let _absent = std::fs::remove_file(&path);
        assert!(summary(&path).is_err());
        add(&path, "3\t6.18\t90\tc1\tpsync/read/4k/1\tbfq\t200\t199\t201\t100\t90\t110\n").unwrap();
        add(&path, "4\t6.18\t90\tc0\tpsync/read/4k/1\tnone\t5\t5\t5\t5\t5\t5\n").unwrap();
        let text = summary(&path).unwrap();
        assert!(text.starts_with("2 jobs, 2 rates\n"), "{text}");
        assert!(text.contains("| bfq | 1 | 1 | 0 (0 %) | 0 of 0 |"), "{text}");
        assert!(text.contains("| none | 1 | 1 | 1 (100 %) | 0 of 0 |"), "{text}");
        assert!(text.contains("| 3 | c1 psync/read/4k/1 | bfq | 0.00 | 0.00 | -50.0 |"), "{text}");
        add(&path, "5\tbroken\n").unwrap();
        let wrong = summary(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(wrong, Failure::Request(why) if why.contains(":4: no line of results")));
    }
}
