// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--plot KIND=FILE.svg` or `.png`: all runs of a command in one picture for each kind.
//!
//! ```text
//! latency=a.svg         a curve for each run                none   bfq
//! latency:job=a.svg     one for each process of each run    none, pg-read   none, backup   bfq, …
//! ```
//!
//! Errors in a request are found before the first run; pictures are written after the results were
//! printed. Without `--plot` nothing is recorded. PNG needs a renderer and a font, which are in a
//! program built with the feature `png`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paternoster_frame::Failure;
use paternoster_frame::page::apart;
use paternoster_trace::record::ByClient;
use paternoster_trace::{Kind, Recorder, Run, draw};
use paternoster_workload::fio::job::Job;

/// What a picture is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
}

/// A requested picture.
#[derive(Debug)]
struct Wanted {
    kind: Kind,
    /// A curve for each process instead of each run.
    by_job: bool,
    file: PathBuf,
    format: Format,
}

/// The requested pictures, and the runs so far.
#[derive(Debug)]
pub(crate) struct Plots {
    wanted: Vec<Wanted>,
    runs: Vec<Run>,
    /// Each process of each run.
    jobs: Vec<Run>,
}

impl Plots {
    /// Reads what was given to `--plot`.
    pub(crate) fn new(texts: &[String]) -> Result<Plots, Failure> {
        let mut wanted: Vec<Wanted> = Vec::new();
        for text in texts {
            let next =
                parse(text).map_err(|why| Failure::Request(format!("--plot {text}: {why}")))?;
            if wanted.iter().any(|other| other.file == next.file) {
                let why = "two pictures would go into one file";
                return Err(Failure::Request(format!("--plot {text}: {why}")));
            }
            wanted.push(next);
        }
        Ok(Plots { wanted, runs: Vec::new(), jobs: Vec::new() })
    }

    /// The observer for the next run.
    pub(crate) fn recorder(&self) -> Recorder {
        let mut recorder = Recorder::default();
        for wanted in &self.wanted {
            wanted.kind.record(&mut recorder);
        }
        recorder
    }

    /// The observer for the clients of the next run, if a picture shows them separately.
    pub(crate) fn by_job(&self) -> Option<Box<ByClient>> {
        self.wanted.iter().any(|wanted| wanted.by_job).then(Box::default)
    }

    /// Takes what was recorded of a run's clients.
    pub(crate) fn add_jobs(&mut self, label: &str, clients: ByClient, names: &[String]) {
        let jobs = apart(clients, names).into_iter();
        self.jobs.extend(jobs.map(|run| Run { label: format!("{label}, {}", run.label), ..run }));
    }

    /// Takes what was recorded of a run, or of a trace.
    pub(crate) fn add(&mut self, run: Run) {
        if !self.wanted.is_empty() {
            self.runs.push(run);
        }
    }

    /// Draws and writes every picture; `subject` says what ran.
    pub(crate) fn write(&self, subject: &str) -> Result<(), Failure> {
        for wanted in &self.wanted {
            let runs = if wanted.by_job { &self.jobs } else { &self.runs };
            let svg = draw(wanted.kind, subject, runs);
            let written = match wanted.format {
                Format::Svg => Ok(svg.into_bytes()),
                Format::Png => png(&svg),
            };
            let written = written.and_then(|bytes| {
                std::fs::write(&wanted.file, bytes).map_err(|error| error.to_string())
            });
            written.map_err(|error| {
                let (kind, file) = (wanted.kind.name(), wanted.file.display());
                let by_job = if wanted.by_job { BY_JOB } else { "" };
                Failure::Request(format!("--plot {kind}{by_job}={file}: {error}"))
            })?;
        }
        Ok(())
    }
}

/// A picture as PNG, with two pixels for each of the SVG's across and down.
#[cfg(feature = "png")]
fn png(svg: &str) -> Result<Vec<u8>, String> {
    paternoster_trace::plot::png(svg, 2).map_err(|error| error.to_string())
}

/// Never reached: such a file was refused.
#[cfg(not(feature = "png"))]
fn png(_: &str) -> Result<Vec<u8>, String> {
    Err(NO_PNG.to_owned())
}

/// What a program without PNG says.
const NO_PNG: &str = "this program was built without pictures as PNG: build it with \
                      `--features png`";

/// What follows a kind whose picture has a curve for each process.
const BY_JOB: &str = ":job";
/// The kinds that can have one.
const OF_JOBS: [Kind; 4] = [Kind::Throughput, Kind::Iops, Kind::Latency, Kind::LatencyHistogram];

fn parse(text: &str) -> Result<Wanted, String> {
    let kinds = Kind::ALL.map(Kind::name).join(", ");
    let Some((name, file)) = text.split_once('=') else {
        return Err(format!("it is KIND=FILE.svg; kinds are {kinds}"));
    };
    let (own, by_job) = match name.strip_suffix(BY_JOB) {
        Some(own) => (own, true),
        None => (name, false),
    };
    let Some(kind) = Kind::by_name(own) else {
        let by_job = OF_JOBS.map(|kind| format!("{}{BY_JOB}", kind.name())).join(", ");
        return Err(format!(
            "there is no picture `{own}`; there are {kinds}, and with a curve for each job {by_job}"
        ));
    };
    if by_job && !OF_JOBS.contains(&kind) {
        let known = OF_JOBS.map(Kind::name).join(", ");
        return Err(format!("a picture with a curve for each job is one of {known}"));
    }
    let path = Path::new(file);
    let ends = |with: &str| path.extension().is_some_and(|end| end.eq_ignore_ascii_case(with));
    let format = match () {
        () if ends("svg") => Format::Svg,
        () if ends("png") && cfg!(feature = "png") => Format::Png,
        () if ends("png") => return Err(format!("{NO_PNG}, or name the file {name}=….svg")),
        () => return Err(format!("pictures are SVG or PNG: name the file {name}=….svg")),
    };
    if path.is_dir() {
        return Err("that is a folder".to_owned());
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("there is no folder {}", folder.display()))
        }
        _ => Ok(Wanted { kind, by_job, file: path.to_path_buf(), format }),
    }
}

/// The names of a run's clients in the order of their indices: every clone of every job, numbered
/// where several share a name, then the flusher of the page cache and the journal's thread.
pub(crate) fn clients(jobs: &[Job]) -> Vec<String> {
    let mut left: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for job in jobs {
        left.entry(&job.name).or_default().0 += job.clones.numjobs;
    }
    let mut names = Vec::new();
    for job in jobs {
        for _ in 0..job.clones.numjobs {
            let (all, next) = left.entry(&job.name).or_default();
            names.push(if *all > 1 { format!("{}.{next}", job.name) } else { job.name.clone() });
            *next += 1;
        }
    }
    names.extend(["flusher".to_owned(), "journal".to_owned()]);
    names
}
