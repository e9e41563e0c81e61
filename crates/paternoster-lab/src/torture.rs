// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster torture`: schedulers under randomly drawn loads, judged by laws.
//!
//! ```text
//! scheduler  cases  sums  waits  equals  shares  busy  repeats  more  classes
//! noop          25    ok     ok      ok      ok    ok       ok    ok       ok
//! bfq           25    ok  2 (1)      ok  3 (3)     ok       ok    ok       ok
//! ```
//!
//! Two of bfq's cases broke the law of waits, one of them by a rule of bfq, which excuses it.
//!
//! A case that breaks a law without an excuse is shrunk and becomes a job file, and a device file
//! if the device was drawn: `paternoster run` shows it again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use paternoster_core::{DeviceFacts, Limits, RequestQueue};
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::progress::Steps;
use paternoster_frame::results::{self, Format, Results, emit, field};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::{Failure, interrupt};
use paternoster_torture::bench::{Bench, MEMORY_MIB};
use paternoster_torture::bounds::bounds;
use paternoster_torture::draw::any;
use paternoster_torture::excuses::excuse;
use paternoster_torture::laws::{Fault, LAWS};
use paternoster_torture::{Case, judge, shrink};
use serde_json::{Value, json};

/// All that are judged by default.
const SCHEDULERS: [&str; 7] =
    ["noop", "deadline", "mq-deadline", "kyber", "cfq-4.19", "bfq", "paternoster"];

/// Judge schedulers with random loads on random devices, by laws that each must obey
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster torture
  paternoster torture --scheduler paternoster --cases 500 --seed 1000
  paternoster torture --scheduler bfq:low_latency=0 --save found/
  paternoster run found/seed-7-waits.fio --device found/seed-7.toml --scheduler bfq \
    --host memory=64m

Each seed is a load: a device, of the catalog or drawn within what drives are, and 2 to 64 clients.
Every scheduler gets the loads of the same seeds.

Exit status: 0 done, 1 a law is broken without an excuse, 2 the request was wrong.")]
pub struct TortureOptions {
    /// Schedulers, with attributes if you like; seven of them if none is named
    #[arg(long, value_name = "NAME[:ATTRIBUTE=VALUE,…]")]
    scheduler: Vec<String>,

    /// How many loads
    #[arg(long, value_name = "N", default_value_t = 40)]
    cases: u64,

    /// The first load's seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Write cases that break a law there, shrunk, as job and device files
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,

    /// How to print the results
    #[arg(long, alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "table")]
    format: Format,

    /// No progress on the terminal
    #[arg(long, short)]
    quiet: bool,
}

/// Cases of one scheduler that broke a law, and how many of them an excuse explains.
type Counts = BTreeMap<&'static str, (u64, u64)>;

/// The results of one scheduler.
struct Row {
    scheduler: String,
    counts: Counts,
    /// Of the loads in which shares are promised: the most that a client missed.
    missed: Vec<f64>,
}

/// A case that broke a law without an excuse.
struct Found {
    case: Case,
    /// The smallest load that still breaks the law, judged anew.
    least: Case,
}

/// The judgement as JSON, for a call; a broken law is not a failure of it.
///
/// # Errors
/// There is no such scheduler, or the work was stopped.
pub fn judgement(options: &TortureOptions) -> Result<Value, Failure> {
    let (rows, excused, found) = find(options, &schedulers(options)?);
    interrupt::end(String::new)?;
    Ok(results(options, &rows, &excused, &found).document)
}

/// The judged schedulers, checked to exist with their attributes.
fn schedulers(options: &TortureOptions) -> Result<Vec<String>, Failure> {
    let schedulers: Vec<String> = if options.scheduler.is_empty() {
        SCHEDULERS.map(str::to_owned).to_vec()
    } else {
        options.scheduler.clone()
    };
    for scheduler in &schedulers {
        let choice = SchedulerChoice::parse(scheduler)?;
        let limits = Limits::default();
        let mut queue =
            RequestQueue::builder(DeviceFacts::default(), choice.make()).limits(limits).build()?;
        choice.prepare(&mut queue, &[])?;
    }
    Ok(schedulers)
}

/// Carries it out, and prints the results.
///
/// # Errors
/// The request is wrong, or a law is broken without an excuse.
pub fn torture(options: &TortureOptions) -> Result<(), Failure> {
    let (rows, excused, found) = find(options, &schedulers(options)?);
    emit(options.format, None, |format| results(options, &rows, &excused, &found).told(format))?;
    if let Some(folder) = &options.save {
        for one in &found {
            save(folder, one)
                .map_err(|error| Failure::Request(format!("{}: {error}", folder.display())))?;
        }
    }
    match found.len() {
        0 => Ok(()),
        broken => Err(Failure::Job(format!("{broken} cases broke a law without an excuse"))),
    }
}

fn find(
    options: &TortureOptions,
    schedulers: &[String],
) -> (Vec<Row>, BTreeMap<&'static str, u64>, Vec<Found>) {
    let mut bench = Bench::ended_by(interrupt::heard);
    let row = |scheduler: &String| Row {
        scheduler: scheduler.clone(),
        counts: Counts::new(),
        missed: Vec::new(),
    };
    let mut rows: Vec<Row> = schedulers.iter().map(row).collect();
    let (mut excused, mut found) = (BTreeMap::new(), Vec::new());
    let steps = Steps::new(options.quiet, usize::try_from(options.cases).unwrap_or(usize::MAX));
    for seed in options.seed..options.seed.saturating_add(options.cases) {
        if interrupt::heard() {
            break;
        }
        let load = any(seed);
        let within = bounds(&mut bench, &load);
        for row in &mut rows {
            let case = judge(&mut bench, &load, &row.scheduler, &within);
            row.missed.extend(case.missed);
            let Some(fault) = &case.fault else { continue };
            let count = row.counts.entry(fault.law()).or_default();
            count.0 += 1;
            if let Some(excuse) = excuse(&load, &row.scheduler, fault) {
                count.1 += 1;
                *excused.entry(excuse.rule).or_default() += 1;
                continue;
            }
            let least = shrink(&mut bench, &load, &row.scheduler, fault.law());
            let within = bounds(&mut bench, &least);
            let least = judge(&mut bench, &least, &row.scheduler, &within);
            found.push(Found { case, least });
        }
        steps.done(&format!("seed {seed}"));
    }
    steps.clear();
    (rows, excused, found)
}

fn results(
    options: &TortureOptions,
    rows: &[Row],
    excused: &BTreeMap<&'static str, u64>,
    found: &[Found],
) -> Results {
    let laws = LAWS.map(str::to_owned);
    let heads = ["scheduler", "cases"].map(str::to_owned).into_iter().chain(laws);
    let mut sheet = Sheet::new(1, heads);
    for row in rows {
        let cell = |law: &&'static str| match row.counts.get(law) {
            None => "ok".to_owned(),
            Some((broken, 0)) => broken.to_string(),
            Some((broken, excused)) => format!("{broken} ({excused})"),
        };
        let head = [row.scheduler.clone(), options.cases.to_string()];
        sheet.row(head.into_iter().chain(LAWS.iter().map(cell)).collect());
    }
    let mut rules =
        "N (M): N loads broke the law, M of them by a rule of the scheduler:".to_owned();
    for (rule, count) in excused {
        rules.push_str(&format!("\n{count:7}  {rule}"));
    }
    let broken = found.iter().map(|Found { case, least }| {
        let Case { scheduler, fault, seconds, load, .. } = case;
        let law = fault.as_ref().map_or("", |fault| fault.law());
        format!(
            "{scheduler}, law {law}, in {seconds:.1} s: {fault:?}\n  {}\n  shrunk: {}",
            load.tell(),
            least.load.tell()
        )
    });
    Results {
        title: format!("{} drawn loads, seeds from {}", options.cases, options.seed),
        sheets: vec![("Laws".to_owned(), sheet)],
        notes: std::iter::once(rules).chain(broken).collect(),
        csv: csv(options, rows),
        document: results::document("torture", document(options, rows, excused, found)),
        ..Results::default()
    }
}

/// A line for each scheduler and law.
fn csv(options: &TortureOptions, rows: &[Row]) -> String {
    let mut text = String::from("scheduler,cases,law,broken,excused\n");
    for row in rows {
        for law in LAWS {
            let (broken, excused) = row.counts.get(law).copied().unwrap_or_default();
            let (scheduler, cases) = (field(&row.scheduler), options.cases);
            text += &format!("{scheduler},{cases},{law},{broken},{excused}\n");
        }
    }
    text
}

fn document(
    options: &TortureOptions,
    rows: &[Row],
    excused: &BTreeMap<&'static str, u64>,
    found: &[Found],
) -> Value {
    let row = |row: &Row| {
        let count = |(law, (broken, excused)): (&&str, &(u64, u64))| {
            ((*law).to_owned(), json!({ "broken": broken, "excused": excused }))
        };
        let counts: serde_json::Map<String, Value> = row.counts.iter().map(count).collect();
        json!({ "scheduler": row.scheduler, "laws": counts, "missed_of_entitled": row.missed })
    };
    let one = |Found { case, least }: &Found| {
        json!({
            "seed": case.load.seed,
            "scheduler": case.scheduler,
            "law": case.fault.as_ref().map(Fault::law),
            "fault": format!("{:?}", case.fault),
            "seconds": case.seconds,
            "shrunk": least.load.tell(),
        })
    };
    json!({
        "cases": options.cases,
        "seed": options.seed,
        "schedulers": rows.iter().map(row).collect::<Vec<_>>(),
        "excused": excused,
        "found": found.iter().map(one).collect::<Vec<_>>(),
    })
}

/// Writes the smallest load of a case, and its device if that was drawn. Its first lines say what
/// is wrong with that load, and the command that runs it in that folder as it was judged: as long,
/// with the same seed and memory.
fn save(folder: &Path, Found { case, least }: &Found) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let seed = case.load.seed;
    let law = case.fault.as_ref().map_or("", |fault| fault.law());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
    let jobs = least.load.job_file((least.seconds * 1000.0) as u64);
    let device = match &least.load.device.file {
        Some(file) => {
            let name = format!("seed-{seed}.toml");
            fs::write(folder.join(&name), file)?;
            name
        }
        None => least.load.device.name().to_owned(),
    };
    let name = format!("seed-{seed}-{law}.fio");
    let again = format!(
        "# {:?}\n# in this folder: paternoster run {name} --device {device} \\\n\
         #   --scheduler {} --seed {seed} --host memory={MEMORY_MIB}m\n",
        least.fault, case.scheduler,
    );
    fs::write(folder.join(name), again + &jobs)
}
