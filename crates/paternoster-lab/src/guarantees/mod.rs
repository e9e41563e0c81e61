// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster guarantees`: which scheduler guarantees what, found out by running it.
//!
//! Tables of this kind are usually typed from memory of what schedulers are for. This one is
//! measured: each cell is a run of a few virtual seconds, with its figure next to the verdict.
//!
//! ```text
//! scheduler  levels    groups    crowd     …
//! noop       no 1.00   no 1.00   no 6 %
//! bfq        yes 7.39  yes 2.86  yes 48 %
//! ```

mod promises;

use clap::Args;
use paternoster_frame::Failure;
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::results::{self, Format, Results, emit, field};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::wrapped;
use paternoster_sim::schedulers;
use serde_json::json;

use crate::guarantees::promises::{ALL, Beside, Promise};
use crate::reproduce::experiment::{Device, FioJobs, Measured, Run, Workload};
use crate::reproduce::measure_all;

/// Find out which scheduler guarantees what, each answer by a run
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster guarantees
  paternoster guarantees --scheduler bfq --scheduler bfq:slice_idle=0 --scheduler noop
  paternoster guarantees --format=json

Exit status: 0 done, whatever is kept; 1 a job failed; 2 the request was wrong.")]
pub struct GuaranteesOptions {
    /// Schedulers, with attributes if you like; all of them, and two ways to set bfq, if none is
    /// named
    #[arg(long, value_name = "NAME[:ATTRIBUTE=VALUE,…]")]
    scheduler: Vec<String>,

    /// How to print the results
    #[arg(long, alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "table")]
    format: Format,

    /// No progress on the terminal
    #[arg(long, short)]
    quiet: bool,
}

/// Variants that count as schedulers of their own: bfq as its manual sets it for throughput, and
/// bfq that does not merge processes for having started together.
const VARIANTS: [&str; 2] = ["bfq:low_latency=0", "bfq:stable_merging=0"];

/// The results of one scheduler, by promise.
struct Row {
    scheduler: String,
    found: Vec<Option<f64>>,
}

/// Carries it out, and prints the results.
///
/// # Errors
/// The request is wrong, or a run fails.
pub fn guarantees(options: &GuaranteesOptions) -> Result<(), Failure> {
    let schedulers: Vec<String> = if options.scheduler.is_empty() {
        let all = schedulers::all().map(|entry| entry.name);
        all.chain(VARIANTS).map(str::to_owned).collect()
    } else {
        options.scheduler.clone()
    };
    for scheduler in &schedulers {
        SchedulerChoice::parse(scheduler)?;
    }
    let rows = find_out(&schedulers, options.quiet)?;
    emit(options.format, None, |format| match format {
        Format::Markdown => markdown(&rows),
        format => results(&rows).told(format),
    })
}

fn run(promise: &Promise, jobs: &'static str, scheduler: &str) -> Run {
    let workload = Workload::Fio(FioJobs::new("guarantees", jobs));
    let name = format!("{} under {scheduler}", promise.word);
    // As a block device with a driver's usual 128 tags has; the emulated disk has four.
    Run::new(name, workload, Device::Named(promise.device), scheduler).set(&["nr_requests=256"])
}

/// The run that a promise's run is compared with, if any.
fn beside(promise: &Promise, scheduler: &str) -> Option<Run> {
    match promise.beside {
        Beside::Nothing => None,
        Beside::Jobs(jobs) => Some(run(promise, jobs, scheduler)),
        Beside::Noop => Some(run(promise, promise.jobs, "noop")),
    }
}

fn find_out(schedulers: &[String], quiet: bool) -> Result<Vec<Row>, Failure> {
    let mut runs = Vec::new();
    for scheduler in schedulers {
        for promise in &ALL {
            runs.push(run(promise, promise.jobs, scheduler));
            runs.extend(beside(promise, scheduler));
        }
    }
    let mut measured = measure_all(&runs.iter().collect::<Vec<_>>(), quiet)?.into_iter();
    let mut rows = Vec::new();
    for scheduler in schedulers {
        let mut found = Vec::new();
        for promise in &ALL {
            let own = measured.next().unwrap_or_default();
            let other: Option<Measured> =
                if promise.beside == Beside::Nothing { None } else { measured.next() };
            found.push((promise.figure)(&own, other.as_ref()));
        }
        rows.push(Row { scheduler: scheduler.clone(), found });
    }
    Ok(rows)
}

fn is_kept(promise: &Promise, found: Option<f64>) -> bool {
    found.is_some_and(|found| promise.kept.0 <= found && found <= promise.kept.1)
}

fn cell(promise: &Promise, found: Option<f64>) -> String {
    let verdict = if is_kept(promise, found) { "yes" } else { "no" };
    format!("{verdict} {}", figure(promise, found))
}

fn figure(promise: &Promise, found: Option<f64>) -> String {
    match (found, promise.unit) {
        (None, _) => "nothing".to_owned(),
        (Some(found), "") => format!("{found:.2}"),
        (Some(found), unit) => format!("{found:.0} {unit}"),
    }
}

fn results(rows: &[Row]) -> Results {
    let heads = ALL.iter().map(|promise| promise.word);
    let mut sheet = Sheet::new(1, std::iter::once("scheduler").chain(heads));
    for row in rows {
        let cells = ALL.iter().zip(&row.found).map(|(promise, found)| cell(promise, *found));
        sheet.row(std::iter::once(row.scheduler.clone()).chain(cells).collect());
    }
    let note = |promise: &Promise| {
        let text = wrapped(&format!("{}: {}", promise.word, asked(promise)));
        text.trim_end().to_owned()
    };
    Results {
        title: "what each scheduler guarantees, found out by running it".to_owned(),
        sheets: vec![("Guarantees".to_owned(), sheet)],
        notes: vec![ALL.iter().map(note).collect::<Vec<String>>().join("\n")],
        csv: csv(rows),
        document: results::document("guarantees", document(rows)),
        ..Results::default()
    }
}

/// A line for each scheduler and promise.
fn csv(rows: &[Row]) -> String {
    let mut text = String::from("scheduler,promise,device,unit,found,kept_from,kept_to,kept\n");
    for row in rows {
        for (promise, found) in ALL.iter().zip(&row.found) {
            let figure = found.map_or(String::new(), |found| format!("{found:.6}"));
            let (from, most) = promise.kept;
            let most = if most.is_finite() { most.to_string() } else { String::new() };
            let kept = is_kept(promise, *found);
            let words = [&row.scheduler, promise.word, promise.device, promise.unit].map(field);
            text += &format!("{},{figure},{from},{most},{kept}\n", words.join(","));
        }
    }
    text
}

/// The question of a promise, its device, and what counts as kept.
fn asked(promise: &Promise) -> String {
    let Promise { question, device, unit, kept, .. } = promise;
    let kept = match *kept {
        (least, most) if most.is_infinite() => format!("from {least} {unit} on"),
        (0.0, most) => format!("up to {most} {unit}"),
        (least, most) => format!("from {least} to {most} {unit}"),
    };
    format!("{question} On {device}; kept {}.", kept.replace("  ", " ").trim_end())
}

/// Kept promises are bold; then a line for each question.
fn markdown(rows: &[Row]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = ALL.iter().map(|promise| promise.word.to_owned());
    let mut text = line(std::iter::once("scheduler".to_owned()).chain(heads).collect());
    text += &format!("|{}\n", "---|".repeat(ALL.len() + 1));
    for row in rows {
        let cells = ALL.iter().zip(&row.found).map(|(promise, found)| {
            let figure = figure(promise, *found);
            if is_kept(promise, *found) { format!("**{figure}**") } else { figure }
        });
        text += &line(std::iter::once(format!("`{}`", row.scheduler)).chain(cells).collect());
    }
    text += "\n| column | what is asked |\n|---|---|\n";
    for promise in &ALL {
        text += &format!("| {} | {} |\n", promise.word, asked(promise));
    }
    text
}

fn document(rows: &[Row]) -> serde_json::Value {
    let promises = ALL.iter().map(|promise| {
        let most = Some(promise.kept.1).filter(|most| most.is_finite());
        json!({
            "name": promise.word, "question": promise.question, "device": promise.device,
            "unit": promise.unit, "kept_from": promise.kept.0, "kept_to": most,
        })
    });
    let found = rows.iter().map(|row| {
        let each = ALL.iter().zip(&row.found).map(|(promise, found)| {
            let told = json!({ "found": found, "kept": is_kept(promise, *found) });
            (promise.word.to_owned(), told)
        });
        let each: serde_json::Map<String, serde_json::Value> = each.collect();
        json!({ "scheduler": row.scheduler, "promises": each })
    });
    json!({
        "promises": promises.collect::<Vec<_>>(),
        "schedulers": found.collect::<Vec<_>>(),
    })
}
