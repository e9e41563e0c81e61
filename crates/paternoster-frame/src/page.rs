// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page: what runs did, as one file for a browser, and why requests waited, as text.
//!
//! ```text
//! in short       what came out, in sentences, and the longest wait of each run in parts
//! over time      each client's share, throughput and latency, a section for each run
//! turns          which client had the device when, and what waited; a click shows why
//! the device     queue depth and places, all runs in one picture
//! tables         those of `--format table`
//! about          the command, the version, notes
//! ```
//!
//! The file needs nothing else: no network, no other file (`paternoster_trace::html`). Without
//! recordings (other commands' `--format html`) there are only tables and notes.

use std::path::Path;

use paternoster_core::{Event, Nanos, Note, Observer};
use paternoster_trace::html::{Report, Section, Timeline, name, parts, what};
use paternoster_trace::plot::shares;
use paternoster_trace::record::{ByClient, FoundTurns, Turn, Turns};
use paternoster_trace::{Kind, Recorder, Run, picture};
use serde_json::{Value, json};

use crate::results::{Results, one_line};
use crate::units::span;
use crate::{Failure, interrupt, units};

/// The recordings of each client of a run, as runs of their own: up to
/// [`paternoster_trace::record::CLIENTS_APART`], then all others as one.
pub fn apart(clients: ByClient, names: &[String]) -> Vec<Run> {
    let (own, others) = clients.finish();
    let named = |(client, recorder): (u32, Recorder)| (name(client, names), recorder);
    let others = others.map(|recorder| ("others".to_owned(), recorder));
    let all = own.into_iter().map(named).chain(others);
    all.map(|(label, recorder)| Run { label, clients: Vec::new(), recorder }).collect()
}

/// Records a run for a page.
#[derive(Debug, Default)]
pub struct Watch {
    clients: ByClient,
    turns: Turns,
    recorder: Recorder,
}

impl Watch {
    /// A watch that has recorded nothing yet.
    pub fn new() -> Watch {
        let mut watch = Watch::default();
        [Kind::QueueDepth, Kind::Access].iter().for_each(|kind| kind.record(&mut watch.recorder));
        watch
    }

    /// The recording of the run of this label, whose clients have these names.
    pub fn finish(self, label: String, names: Vec<String>) -> Watched {
        let clients = apart(self.clients, &names);
        let whole = Run { label: label.clone(), clients: names.clone(), recorder: self.recorder };
        Watched { label, names, clients, whole, turns: self.turns.finish() }
    }
}

impl Observer for Watch {
    fn event(&mut self, event: &Event) {
        self.clients.event(event);
        self.turns.event(event);
        self.recorder.event(event);
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

/// A recorded run.
#[derive(Debug)]
pub struct Watched {
    /// What distinguishes the run from others.
    pub label: String,
    names: Vec<String>,
    /// Each client as a run of its own.
    clients: Vec<Run>,
    whole: Run,
    turns: FoundTurns,
}

impl Watched {
    /// The longest wait of each client, the longest of all first.
    fn longest(&self) -> Vec<&Turn> {
        let mut longest: Vec<&Turn> = self.turns.longest.iter().collect();
        longest.sort_by_key(|turn| (std::cmp::Reverse(turn.latency()), turn.client));
        longest
    }

    /// The turn in words: its client, its kind, how long it took, and when it began.
    fn said(&self, turn: &Turn) -> String {
        let (latency, asked) = (span(turn.latency()), span(turn.asked));
        format!("{}: {latency} for a {}, asked for at {asked}", self.name(turn), what(turn))
    }

    fn name(&self, turn: &Turn) -> String {
        name(turn.client, &self.names)
    }

    /// `--explain`: the longest wait of each client, in parts that sum to it.
    pub fn explained(&self) -> String {
        let mut text = format!("{}: the longest wait of each client\n", self.label);
        for turn in self.longest() {
            text += &format!(" {}\n", self.said(turn));
            for (label, part) in parts(turn, &self.names) {
                text += &format!("{:>12}  {label}\n", span(part));
            }
        }
        text.trim_end().to_owned()
    }

    /// The same for programs.
    pub fn document(&self) -> Value {
        let one = |turn: &Turn| {
            let parts = parts(turn, &self.names);
            let parts: Vec<Value> =
                parts.iter().map(|(what, span)| json!({ "what": what, "ns": span.0 })).collect();
            json!({
                "client": self.name(turn),
                "what": what(turn),
                "asked_ns": turn.asked.0,
                "latency_ns": turn.latency().0,
                "parts": parts,
            })
        };
        self.longest().into_iter().map(one).collect()
    }

    /// The longest wait of all in one sentence.
    fn sentence(&self) -> Option<String> {
        let turn = *self.longest().first()?;
        let mut parts = parts(turn, &self.names);
        parts.sort_by_key(|(_, span)| std::cmp::Reverse(*span));
        let parts = parts.iter().take(3).map(|(label, part)| format!("{} {label}", span(*part)));
        let parts = parts.collect::<Vec<String>>().join("; ");
        Some(format!("{}: the longest wait. {}; of these {parts}.", self.label, self.said(turn)))
    }

    /// A section with each client over time.
    fn over_time(&self) -> Section {
        let label = &self.label;
        let mut section = Section::new(format!("{label}: each client over time"));
        if self.clients.len() > 1 {
            section = section.plot(shares(label, &self.clients));
        }
        for kind in [Kind::Throughput, Kind::Latency] {
            section = section.plot(picture(kind, label, &self.clients));
        }
        section
    }

    fn timeline(&self) -> Timeline {
        let (label, clients) = (self.label.clone(), self.names.clone());
        Timeline { label, clients, turns: self.turns.around.clone() }
    }
}

/// Everything as one page.
pub fn render(results: &Results, runs: &[Watched]) -> String {
    let subject = results.subject.clone().unwrap_or_else(|| one_line(&results.title));
    let mut report = Report::new(&subject);
    let stopped = interrupt::note();
    if !runs.is_empty() || !results.headline.is_empty() || stopped.is_some() {
        let sentences = stopped.into_iter().chain(results.headline.iter().cloned());
        let sentences = sentences.chain(runs.iter().filter_map(Watched::sentence));
        report = report.section(sentences.fold(Section::new("In short"), Section::paragraph));
    }
    for run in runs {
        report = report.section(run.over_time());
    }
    if !runs.is_empty() {
        let about = "A bar is a request: pale while it waited, full while the device had it. The \
                     requests around the longest wait of each run are shown; a click, or the arrow \
                     keys, tell what one waited for.";
        let section = Section::new("Turns: who had the device, and what waited").paragraph(about);
        let timelines = runs.iter().map(Watched::timeline);
        report = report.section(timelines.fold(section, Section::turns));
        let whole: Vec<Run> = runs.iter().map(|run| run.whole.clone()).collect();
        let kinds = [Kind::QueueDepth, Kind::Access].into_iter();
        let pictures = kinds.map(|kind| picture(kind, &subject, &whole));
        report = report.section(pictures.fold(Section::new("The device"), Section::plot));
    }
    for (heading, sheet) in &results.sheets {
        report = report.section(Section::new(one_line(heading)).table(sheet.html()));
    }
    let notes = results.notes.iter().cloned();
    let about = notes.fold(Section::new("About"), Section::paragraph);
    let version = env!("CARGO_PKG_VERSION");
    report.section(about.paragraph(format!("{}\n\npaternoster {version}", command()))).render()
}

/// The command that is running.
fn command() -> String {
    let quoted = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,%+@".contains(c);
        if word.chars().all(plain) && !word.is_empty() { word } else { format!("'{word}'") }
    };
    let words = std::env::args().skip(1).map(quoted);
    std::iter::once("paternoster".to_owned()).chain(words).collect::<Vec<String>>().join(" ")
}

/// Writes a page into a file.
pub fn write(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page)
        .map_err(|error| Failure::Request(format!("--html {}: {error}", path.display())))
}

/// Refuses a file that cannot be written, before anything runs.
pub fn check(option: &str, path: Option<&std::path::PathBuf>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let wrong = |why: String| Err(Failure::Request(format!("{option} {}: {why}", path.display())));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => wrong(format!("there is no folder {}", folder.display())),
        None if path.is_dir() => wrong("that is a folder".to_owned()),
        None => Ok(()),
    }
}

/// Which run did best by a figure, and what the others had.
pub fn most(what: &str, figures: &[(String, f64)], told: fn(f64) -> String) -> Option<String> {
    let known = figures.iter().filter(|(_, figure)| figure.is_finite());
    let best = known.clone().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let others = known.filter(|other| other.0 != best.0);
    let others: Vec<String> =
        others.map(|(name, figure)| format!("{name} {}", told(*figure))).collect();
    let others =
        if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    Some(format!("{what}: {} with {}{others}.", best.0, told(best.1)))
}

/// A fraction of an entitlement.
pub fn due(part: f64) -> String {
    units::percent(part.min(1.0))
}
