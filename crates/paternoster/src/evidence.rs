// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence: what a command keeps of its runs besides its tables: pictures (`--plot`), block traces
//! (`--trace`), a trace for a viewer (`--perfetto`), and what a page (`--html`) or `--explain` says
//! of each request.
//!
//! ```text
//! --trace t            one run        t.blktrace.0 … t.blktrace.3
//! --trace t, several   cfq, noop      t.cfq.blktrace.0 …  t.noop.blktrace.0 …
//! ```
//!
//! A trace is written while its run lasts, one file for each of [`CPUS`] processors, as blktrace
//! does; existing files of the name are overwritten, those of further processors removed. The
//! device is 8,0. All runs of a command go into one file of `--perfetto`, one after the other.
//! Without these options nothing is recorded.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::PathBuf;

use paternoster_core::{Event, Nanos, Note, Observer};
use paternoster_frame::Failure;
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::page::{self, Watch, Watched};
use paternoster_frame::say;
use paternoster_frame::setting::{Setting, SettingOptions};
use paternoster_frame::target::Target;
use paternoster_trace::blktrace::{DeviceNumber, PerCpu, Record, Sink, Traced, Tracer};
use paternoster_trace::perfetto::{Perfetto, REQUESTS_MAX};
use paternoster_trace::record::ByClient;
use paternoster_trace::{Entry, Recorder, Run};

use crate::plot::Plots;

/// Processors that the processes of a run are spread over.
const CPUS: u32 = 4;
/// The device that is traced.
const DEVICE: DeviceNumber = DeviceNumber::new(8, 0);

/// A run and what distinguishes it from the command's other runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Which<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) device: &'a Target,
    pub(crate) scheduler: &'a SchedulerChoice,
    /// What else distinguishes it, as `, seed 3`; empty if nothing.
    pub(crate) more: &'a str,
}

impl Which<'_> {
    /// The run's name in pictures.
    pub(crate) fn label(&self) -> String {
        self.setting.label(self.device, self.scheduler) + self.more
    }

    /// What follows the prefix of its files: its label if there are several runs, in letters that
    /// suit file names.
    fn suffix(&self) -> String {
        let setting = self.setting;
        let several = setting.devices.len() * setting.schedulers.len() > 1;
        let said = if several { self.label() } else { self.more.to_owned() };
        let good = |c: char| c.is_ascii_alphanumeric() || "=._+".contains(c);
        let words: Vec<&str> = said.split(|c| !good(c)).filter(|word| !word.is_empty()).collect();
        words.join("-")
    }
}

/// The requested evidence, and the runs so far.
#[derive(Debug)]
pub(crate) struct Evidence {
    plots: Plots,
    trace: Option<String>,
    /// The file for perfetto, and how many runs are in it.
    perfetto: Option<(PathBuf, Cell<u32>)>,
    /// Recordings of runs for a page, if there is to be one.
    watched: Option<Vec<Watched>>,
    /// How many runs had this name.
    named: RefCell<BTreeMap<String, u32>>,
}

impl Evidence {
    /// Reads what was given to `--plot`, `--trace` and `--perfetto`.
    pub(crate) fn new(options: &SettingOptions) -> Result<Evidence, Failure> {
        let plots = Plots::new(&options.plot)?;
        if let Some(prefix) = &options.trace {
            let folder = PathBuf::from(prefix);
            let folder = folder.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                let message = format!("--trace {prefix}: there is no folder {}", folder.display());
                return Err(Failure::Request(message));
            }
            if prefix.is_empty() || prefix.ends_with('/') {
                let message = "it is a prefix: `--trace a/b` writes a/b.blktrace.0 and so on";
                return Err(Failure::Request(format!("--trace {prefix}: {message}")));
            }
        }
        page::check("--perfetto", options.perfetto.as_ref())?;
        let perfetto = options.perfetto.clone().map(|file| (file, Cell::default()));
        let trace = options.trace.clone();
        Ok(Evidence { plots, trace, perfetto, watched: None, named: RefCell::default() })
    }

    /// Records runs for a page, or for `--explain`, if `wanted`.
    pub(crate) fn watch(&mut self, wanted: bool) {
        self.watched = wanted.then(Vec::new);
    }

    /// The recordings of the runs so far.
    pub(crate) fn watched(&self) -> &[Watched] {
        self.watched.as_deref().unwrap_or_default()
    }

    /// The observer for a run of clients of these names.
    pub(crate) fn run_observer(
        &self,
        which: Which<'_>,
        clients: Vec<String>,
    ) -> Result<RunObserver, Failure> {
        let tracer = match &self.trace {
            None => None,
            Some(prefix) => {
                let suffix = self.unique(which.suffix());
                let dot = if suffix.is_empty() { "" } else { "." };
                let traced = Traced {
                    device: DEVICE,
                    cpus: CPUS,
                    elevator: which.scheduler.name.clone(),
                    clients: clients.clone(),
                };
                Some(Tracer::new(traced, TraceFiles::create(format!("{prefix}{dot}{suffix}"))?))
            }
        };
        let watch = self.watched.is_some().then(|| Box::new(Watch::new()));
        let perfetto = self.perfetto(which, &clients)?;
        let (recorder, jobs) = (self.plots.recorder(), self.plots.by_job());
        Ok(RunObserver { clients, recorder, jobs, tracer, perfetto, watch })
    }

    /// What writes the next run into the file for perfetto, if there is to be one.
    fn perfetto(
        &self,
        which: Which<'_>,
        clients: &[String],
    ) -> Result<Option<Box<ForPerfetto>>, Failure> {
        let Some((path, runs)) = &self.perfetto else { return Ok(None) };
        let run = runs.replace(runs.get() + 1);
        let mut how = OpenOptions::new();
        let how = how.create(true).append(run > 0).truncate(run == 0).write(true);
        let file = how.open(path).map_err(|error| self.unwritten(&error))?;
        let label = format!("{} on {}", which.scheduler.text, which.device.name) + which.more;
        let out = BufWriter::new(file);
        Ok(Some(Box::new(Perfetto::new(out, run, &label, clients.to_vec()))))
    }

    fn unwritten(&self, error: &io::Error) -> Failure {
        let path = self.perfetto.iter().map(|(path, _)| path.display().to_string());
        Failure::Request(format!("--perfetto {}: {error}", path.collect::<String>()))
    }

    /// A tracer for runs without a setting, if a trace was requested.
    #[cfg(feature = "serve")]
    pub(crate) fn tracer(&self, elevator: &str) -> Result<Option<Tracer<TraceFiles>>, Failure> {
        let Some(prefix) = &self.trace else { return Ok(None) };
        let (elevator, clients) = (elevator.to_owned(), Vec::new());
        let traced = Traced { device: DEVICE, cpus: CPUS, elevator, clients };
        Ok(Some(Tracer::new(traced, TraceFiles::create(prefix.clone())?)))
    }

    /// A name that no run had before: the second one of a name is its `-2`.
    fn unique(&self, suffix: String) -> String {
        let mut named = self.named.borrow_mut();
        let count = named.entry(suffix.clone()).or_default();
        *count += 1;
        match *count {
            1 => suffix,
            count if suffix.is_empty() => count.to_string(),
            count => format!("{suffix}-{count}"),
        }
    }

    /// Takes what a run's observer has.
    pub(crate) fn keep(
        &mut self,
        which: Which<'_>,
        run_observer: RunObserver,
    ) -> Result<(), Failure> {
        let RunObserver { recorder, clients, jobs, tracer, perfetto, watch } = run_observer;
        if let Some(jobs) = jobs {
            self.plots.add_jobs(&which.label(), *jobs, &clients);
        }
        if let Some(perfetto) = perfetto {
            let left_out = perfetto.finish().map_err(|error| self.unwritten(&error))?;
            if left_out > 0 {
                let label = which.label();
                say!(
                    "note: --perfetto: of {label} the first {REQUESTS_MAX} requests are in the \
                     file, {left_out} more are not"
                );
            }
        }
        if let (Some(watched), Some(watch)) = (&mut self.watched, watch) {
            watched.push(watch.finish(which.label(), clients.clone()));
        }
        self.plots.add(Run { label: which.label(), clients, recorder });
        tracer.map_or(Ok(()), |tracer| tracer.into_sink().finish())
    }

    /// Draws and writes every picture; `subject` says what ran.
    pub(crate) fn write(&self, subject: &str) -> Result<(), Failure> {
        self.plots.write(subject)
    }
}

/// Observes one run.
pub(crate) struct RunObserver {
    clients: Vec<String>,
    recorder: Recorder,
    jobs: Option<Box<ByClient>>,
    tracer: Option<Tracer<TraceFiles>>,
    perfetto: Option<Box<ForPerfetto>>,
    watch: Option<Box<Watch>>,
}

/// Writes a run for perfetto into a file.
type ForPerfetto = Perfetto<BufWriter<File>>;

impl Observer for RunObserver {
    #[inline]
    fn event(&mut self, event: &Event) {
        self.recorder.event(event);
        if let Some(jobs) = &mut self.jobs {
            jobs.event(event);
        }
        if let Some(watch) = &mut self.watch {
            watch.event(event);
        }
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.event(event);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.event(event);
        }
    }

    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.note(at, sequence, note);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.note(at, sequence, note);
        }
    }
}

/// Opens the file of a processor.
type Opener = Box<dyn FnMut(u32) -> io::Result<BufWriter<File>>>;

fn file_name(prefix: &str, cpu: u32) -> String {
    format!("{prefix}.blktrace.{cpu}")
}

/// Removes what an older trace of more processors has left: readers would take it for ours.
pub(crate) fn remove_further(prefix: &str, cpus: u32) {
    for cpu in cpus.. {
        if std::fs::remove_file(file_name(prefix, cpu)).is_err() {
            break;
        }
    }
}

/// The files of one run's trace; the first thing that goes wrong is kept until the end.
pub(crate) struct TraceFiles {
    prefix: String,
    files: PerCpu<BufWriter<File>, Opener>,
    wrong: Option<io::Error>,
}

impl TraceFiles {
    fn create(prefix: String) -> Result<TraceFiles, Failure> {
        let folder = prefix.clone();
        let open = move |cpu| File::create(file_name(&folder, cpu)).map(BufWriter::new);
        remove_further(&prefix, CPUS);
        // Also those without events: what an older run left there must not be read.
        let all = (0..CPUS).try_for_each(|cpu| File::create(file_name(&prefix, cpu)).map(drop));
        match all {
            Ok(()) => Ok(TraceFiles { prefix, files: PerCpu::new(Box::new(open)), wrong: None }),
            Err(error) => Err(TraceFiles::failed(&prefix, &error)),
        }
    }

    fn failed(prefix: &str, error: &io::Error) -> Failure {
        Failure::Request(format!("--trace {prefix}: {error}"))
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let result = self.wrong.map_or_else(|| self.files.finish(), Err);
        result.map_err(|error| TraceFiles::failed(&self.prefix, &error))
    }
}

impl Sink for TraceFiles {
    fn record(&mut self, record: &Record, payload: &[u8]) {
        if self.wrong.is_none() {
            self.wrong = self.files.record(&Entry { record: *record, payload }).err();
        }
    }
}
