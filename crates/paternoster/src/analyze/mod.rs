// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster analyze`: what block traces say.
//!
//! ```text
//! TRACE ──▶ Source ──▶ window, mask, device ─┬─▶ Analysis ──▶ report, JSON, CSV, Parquet, HTML
//!                                            ├─▶ btt, blkparse: their text, to the byte
//!                                            └─▶ pictures
//! ```
//!
//! One pass over each trace, in bounded memory. Several traces are reported one after the other,
//! and drawn into one picture of each kind.

mod btt;
#[cfg(feature = "parquet")]
mod columns;
mod data;
mod letters;
mod options;
mod page;
mod parse;
mod text;

use paternoster_frame::Failure;
use paternoster_frame::format::Form;
use paternoster_frame::results::{Format, document, emit};
use paternoster_trace::analysis::{Analysis, DeviceFigures, Findings};
use paternoster_trace::filter::Position;
use paternoster_trace::formats::processors_of;
use paternoster_trace::record::{Devices, FromTrace};
use paternoster_trace::{Entry, Recorder, Run, Source};
use serde_json::{Value, json};

use crate::plot::Plots;
use crate::trace_input::{Rebased, tell_problems};
pub(crate) use options::AnalyzeOptions;
use options::{Own, Selection};

pub(crate) fn analyze(options: &AnalyzeOptions) -> Result<(), Failure> {
    let selection = options.selection()?;
    let format = match options.format {
        Form::Own(_) if !options.plot.is_empty() || options.html.is_some() => {
            let message = "--plot and --html go with our own forms of report, not with those of \
                           btt and blkparse";
            return Err(Failure::Request(message.to_owned()));
        }
        Form::Own(Own::Btt) => return btt::run(options, &selection),
        Form::Own(Own::Blkparse) => return parse::run(options, &selection),
        Form::Shared(format) => format,
    };
    options.no_words()?;
    let mut plots = Plots::new(&options.plot)?;
    let (mut all, mut runs) = (Vec::new(), Vec::new());
    for name in distinct(&options.traces) {
        let mut recorder = plots.recorder();
        if options.draws_all() {
            page::record(&mut recorder);
        }
        let (analysed, run) = read(options, &selection, name, recorder)?;
        all.push(analysed);
        runs.push(run);
    }
    let subject = distinct(&options.traces).map(|name| label(name)).collect::<Vec<_>>().join(", ");
    match (format, &options.output) {
        // With types of its own, whatever stands in a column.
        #[cfg(feature = "parquet")]
        (Format::Parquet, Some(path)) => {
            columns::write(path, &rows(&all)).map_err(Failure::Request)?;
        }
        (format, path) => emit(format, path.as_deref(), |format| match format {
            Format::Html => page::render(&subject, &all, &runs),
            format => render(format, &all),
        })?,
    }
    if let Some(path) = &options.html {
        std::fs::write(path, page::render(&subject, &all, &runs))
            .map_err(|error| Failure::Request(format!("{}: {error}", path.display())))?;
    }
    runs.into_iter().for_each(|run| plots.add(run));
    plots.write(&subject)
}

/// The traces that were named; of the files of one trace, which are read together, the first.
fn distinct(names: &[String]) -> impl Iterator<Item = &String> {
    let is_another = |&(place, name): &(usize, &String)| match processors_of(name) {
        Some(trace) => !names[..place].iter().any(|other| processors_of(other) == Some(trace)),
        None => true,
    };
    names.iter().enumerate().filter(is_another).map(|(_, name)| name)
}

/// Reads a trace to its end, for the analysis and for pictures.
fn read(
    options: &AnalyzeOptions,
    selection: &Selection,
    name: &str,
    recorder: Recorder,
) -> Result<(Analysed, Run), Failure> {
    let mut source = Rebased::new(options.input.open(name)?);
    let draws = !options.plot.is_empty() || options.draws_all();
    let devices = selection.device.map_or(Devices::All, Devices::One);
    let mut pictures = FromTrace::new(recorder, devices);
    let mut analysis = Analysis::default();
    each(&mut source, selection, |entry| {
        analysis.record(entry);
        if draws {
            pictures.entry(entry);
        }
    });
    tell_problems(&source);
    let found = analysis.finish();
    if found.events == 0 {
        let asked = options.asked();
        let why = format!("there is no event in it that was asked for{asked}");
        return Err(Failure::Request(format!("{name}: {why}")));
    }
    let of_device = |device| source.device_name(device).map(str::to_owned);
    let (recorder, clients) = pictures.finish(of_device);
    let names = found.devices.iter().map(|device| device_name(&source, device)).collect();
    let problems = source.problems().count();
    let analysed = Analysed { name: name.to_owned(), found, names, problems };
    Ok((analysed, Run { label: label(name), clients, recorder }))
}

/// One trace with its findings.
struct Analysed {
    name: String,
    found: Findings,
    /// The names of its devices, in order.
    names: Vec<String>,
    problems: u64,
}

impl Analysed {
    fn device(&self, device: &DeviceFigures) -> String {
        let number = device.number;
        let place = self.found.devices.iter().position(|other| other.number == number);
        place.and_then(|place| self.names.get(place)).cloned().unwrap_or_default()
    }
}

/// Passes on every selected event, and all notes.
pub(crate) fn each(
    source: &mut dyn Source,
    selection: &Selection,
    mut take: impl FnMut(&Entry<'_>),
) {
    while let Some(entry) = source.next() {
        let record = &entry.record;
        if !record.is_note() {
            match selection.window.map_or(Position::Within, |window| window.place(record.at)) {
                Position::Before => continue,
                Position::Behind => break,
                Position::Within => {}
            }
            let other = selection.device.is_some_and(|device| device != record.device);
            if other || selection.mask.is_some_and(|mask| !mask.passes(record)) {
                continue;
            }
        }
        take(&entry);
    }
}

/// The figures of all traces as one table.
fn rows(all: &[Analysed]) -> Vec<data::Row> {
    let of = |one: &Analysed| data::rows(&one.name, &one.found, &|device| one.device(device));
    all.iter().flat_map(of).collect()
}

fn json_of(one: &Analysed) -> Value {
    data::json(&one.name, &one.found, &|device| one.device(device), one.problems)
}

/// What each trace says as JSON, for a call.
pub(crate) fn documents(options: &AnalyzeOptions) -> Result<Vec<Value>, Failure> {
    let selection = options.selection()?;
    let one = |name: &String| {
        let (analysed, _) = read(options, &selection, name, Recorder::default())?;
        Ok(json_of(&analysed))
    };
    distinct(&options.traces).map(one).collect()
}

fn render(form: Format, all: &[Analysed]) -> String {
    match form {
        Format::Json => {
            let documents: Vec<Value> = all.iter().map(json_of).collect();
            format!("{:#}\n", document("analyze", json!({ "traces": documents })))
        }
        Format::Csv | Format::Parquet => data::csv(&rows(all)),
        Format::Markdown => all.iter().map(text::markdown).collect::<Vec<_>>().join("\n"),
        _ => {
            let told =
                |one: &Analysed| text::report(&one.name, &one.found, &|device| one.device(device));
            all.iter().map(told).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A device's name: its number, after the name that the trace gives it.
fn device_name(source: &dyn Source, device: &DeviceFigures) -> String {
    let number = device.number;
    match source.device_name(number) {
        Some(name) => format!("{} ({number})", text::printable(name)),
        None => number.to_string(),
    }
}

/// A trace's name in pictures: without its folder.
fn label(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}
