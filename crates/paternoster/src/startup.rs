// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster startup`: how long a program takes to start while others read and write.
//!
//! ```text
//! seed 0, 1, 2 …    with the others   ──▶ time, what the others got, queues that were merged
//!                   alone             ──▶ time
//! ```
//!
//! Each start is a run of its own on a fresh device, with the others and alone, with the same
//! requests (`starts.rs`).

use std::cell::RefCell;

use clap::Args;
use clap::builder::{PossibleValuesParser, RangedI64ValueParser};
use paternoster_core::Nanos;
use paternoster_frame::results::{Format, Listed, Results, document, emit, field};
use paternoster_frame::setting::{Setting, SettingOptions, time};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::starts::{Figures, Pair, starts};
use paternoster_frame::table::{align_right, plain_table, terminal_width, trimmed, wrap_last};
use paternoster_frame::{Failure, units};
use paternoster_workload::builtin::startup::profile::{self, PROFILES};
use paternoster_workload::builtin::startup::{Startup, Summary};
use serde_json::{Value, json};

use crate::builtin::{FILE_MAX, size, some_time};
use crate::evidence::{Evidence, Which};
use crate::plot::clients;

/// The readers in the background read so much at once.
const FILE_MIN: u64 = 128 << 10;

/// How long others may run before a start, and how long a start may take at most.
const TIME_MAX: Nanos = Nanos::from_secs(3600);

/// Start a program among readers and writers, several times: how long does it take?
#[derive(Debug, Args)]
#[command(mut_arg("device", |device| device.default_value("hdd-7200")))]
#[command(after_help = "Each start is a run on a fresh device: the others run for --warmup, then \
the program starts; once more it starts alone. Start number i has the seed --seed + i, which says \
where the program's files lie.

Examples:
  paternoster startup --profile gnome-terminal --scheduler noop --scheduler cfq
  paternoster startup --profile lxterminal --device hdd-mhx2300bt --repeat 20 --scheduler cfq
  paternoster startup --readers 10 --writers 0 --device ssd-870evo --scheduler kyber
  paternoster startup --profile xterm --format json | jq '.results[].summary'
  paternoster startup --list

Exit status: 0 done, 1 a job failed, 2 the request was wrong.")]
pub(crate) struct StartupOptions {
    /// The program that starts
    #[arg(long, value_name = "NAME", default_value = "gnome-terminal", value_parser = profiles())]
    profile: String,
    /// List the profiles with their counts and sources, start nothing
    #[arg(long)]
    list: bool,
    /// Sequential readers running meanwhile
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = others())]
    readers: u32,
    /// Sequential writers running meanwhile
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = others())]
    writers: u32,
    /// Readers of 4 KiB at random running meanwhile, direct
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = others())]
    random_readers: u32,
    /// Sequential readers and writers bypass the page cache
    #[arg(long)]
    direct: bool,
    /// How long the others run before the program starts (seconds without a unit)
    #[arg(long, value_name = "TIME", default_value = "3")]
    warmup: String,
    /// How many starts to make
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = starts_parser())]
    repeat: u32,
    /// A start that takes longer is given up
    #[arg(long, value_name = "TIME", default_value = "120")]
    limit: String,
    /// Size of each file of the others [default: 2g on disks, 16g on flash, if there is room]
    #[arg(long, value_name = "SIZE")]
    file_size: Option<String>,
    /// How to print the results
    #[arg(long, alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "table")]
    pub(crate) format: Format,
    #[command(flatten)]
    setting: SettingOptions,
}

fn profiles() -> PossibleValuesParser {
    PossibleValuesParser::new(PROFILES.iter().map(|profile| profile.name))
}

fn others() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=1024)
}

fn starts_parser() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

/// The results of one scheduler on one device.
struct Told<'a> {
    startup: &'a Startup,
    device: &'a str,
    scheduler: &'a str,
    pairs: Vec<Pair>,
}

pub(crate) fn startup(options: &StartupOptions) -> Result<(), Failure> {
    if options.list {
        return emit(options.format, None, |format| match format {
            Format::Table => list(),
            format => listed().results().told(format),
        });
    }
    let startup = asked(options)?;
    let setting = Setting::new(&options.setting, None)?;
    let evidence = RefCell::new(Evidence::new(&options.setting)?);
    for device in &setting.devices {
        for scheduler in &setting.schedulers {
            setting.check(&[], device, scheduler)?;
        }
    }
    let more = |seed: u64| match options.repeat {
        1 => String::new(),
        _ => format!(", seed {seed}"),
    };
    let mut all = Vec::new();
    for device in &setting.devices {
        for scheduler in &setting.schedulers {
            let pairs = starts(
                (&setting, device, scheduler),
                &startup,
                options.repeat,
                |seed, jobs| {
                    let which = Which { setting: &setting, device, scheduler, more: &more(seed) };
                    evidence.borrow().run_observer(which, clients(jobs))
                },
                |seed, run_observer, _| {
                    let which = Which { setting: &setting, device, scheduler, more: &more(seed) };
                    evidence.borrow_mut().keep(which, run_observer)
                },
            )?;
            let (device, scheduler) = (&*device.name, &*scheduler.text);
            all.push(Told { startup: &startup, device, scheduler, pairs });
        }
    }
    emit(options.format, None, |format| match format {
        Format::Table => text(&setting, &all),
        format => results(&setting, &all).told(format),
    })?;
    evidence.into_inner().write(&setting.subject(&format!("start of {}", startup.profile.name)))
}

/// The request, read.
pub(crate) fn asked(options: &StartupOptions) -> Result<Startup, Failure> {
    let Some(profile) = profile::by_name(&options.profile) else {
        return Err(Failure::Request(format!("there is no profile `{}`", options.profile)));
    };
    let file_size = options.file_size.as_ref().map(|text| {
        let bytes = size("--file-size", text, FILE_MAX)?;
        if bytes < FILE_MIN {
            let why = format!("--file-size {text}: at least 128 KiB, one call of its readers");
            return Err(Failure::Request(why));
        }
        Ok(bytes)
    });
    let warmup = time("--warmup", &options.warmup, Nanos::from_secs(1))?;
    let limit = some_time("--limit", &options.limit)?;
    for (option, span) in [("--warmup", warmup), ("--limit", limit)] {
        if span > TIME_MAX {
            return Err(Failure::Request(format!("{option} {span}: at most {TIME_MAX}")));
        }
    }
    Ok(Startup {
        readers: options.readers,
        writers: options.writers,
        random_readers: options.random_readers,
        direct: options.direct,
        warmup,
        limit,
        file_size: file_size.transpose()?,
        ..Startup::new(profile)
    })
}

/// The profiles for programs.
fn listed() -> Listed<7> {
    let row = |profile: &paternoster_workload::builtin::startup::Profile| {
        [
            profile.name.into(),
            profile.requests().into(),
            profile.bytes().into(),
            profile.random().into(),
            profile.waited_for().into(),
            profile.processes.len().into(),
            profile.source.into(),
        ]
    };
    let heads = ["name", "requests", "bytes", "random", "waited_for", "processes", "source"];
    Listed { kind: "profiles", heads, rows: PROFILES.iter().map(row).collect() }
}

fn list() -> String {
    let mut table = plain_table();
    table.set_header(["profile", "requests", "MB", "random", "waited for", "processes", "source"]);
    for profile in PROFILES {
        table.add_row([
            profile.name.to_owned(),
            profile.requests().to_string(),
            format!("{:.1}", as_f64(profile.bytes()) / 1e6),
            profile.random().to_string(),
            profile.waited_for().to_string(),
            profile.processes.len().to_string(),
            profile.source.to_owned(),
        ]);
    }
    align_right(&mut table, 1);
    if let Some(column) = table.column_mut(6) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    wrap_last(&mut table, 7, 12);
    trimmed(&table)
}

/// Each device with its results.
fn devices<'a>(
    setting: &'a Setting,
    all: &'a [Told<'a>],
) -> impl Iterator<Item = (String, Sheet)> + 'a {
    let names = setting.devices.iter().map(|device| device.name.as_str());
    let each = names.zip(all.chunks(setting.schedulers.len().max(1)));
    each.filter_map(|(name, rows)| Some((rows.first()?.heading(name), sheet(rows))))
}

/// A table for each device.
fn text(setting: &Setting, all: &[Told<'_>]) -> String {
    let told = devices(setting, all)
        .map(|(heading, sheet)| format!("{heading}\n\n{}", sheet.text_within(terminal_width())));
    told.collect::<Vec<String>>().join("\n")
}

fn results(setting: &Setting, all: &[Told<'_>]) -> Results {
    let results: Vec<Value> = all.iter().map(Told::json).collect();
    Results {
        title: "how long a program takes to start".to_owned(),
        sheets: devices(setting, all).collect(),
        notes: Vec::new(),
        csv: csv(all),
        document: document("startup", json!({ "results": results })),
        ..Results::default()
    }
}

fn sheet(rows: &[Told<'_>]) -> Sheet {
    let mut sheet = Sheet::new(
        1,
        [
            "scheduler",
            "alone",
            "min",
            "median",
            "max",
            "by alone",
            "given up",
            "others read",
            "written",
            "merged",
        ],
    );
    for told in rows {
        let figures = told.figures();
        let limit = told.startup.limit;
        let shown =
            |time: Option<Nanos>| time.map_or(format!("> {}", units::span(limit)), units::span);
        let Summary { least, median, greatest } = figures.beside;
        sheet.row(vec![
            told.scheduler.to_owned(),
            shown(figures.alone.median),
            shown(least),
            shown(median),
            shown(greatest),
            figures.slowdown.map_or(units::NONE.to_owned(), |by| format!("{by:.2}")),
            figures.given_up.to_string(),
            units::bandwidth(figures.others[0]),
            units::bandwidth(figures.others[1]),
            figures.merges.to_string(),
        ]);
    }
    sheet
}

/// A line for each start.
fn csv(all: &[Told<'_>]) -> String {
    let mut text = String::from(
        "device,scheduler,profile,seed,time_ns,alone_ns,others_read_bytes,others_written_bytes,\
         queues_merged\n",
    );
    for told in all {
        let profile = told.startup.profile.name;
        let words = [told.device, told.scheduler, profile].map(field).join(",");
        for pair in &told.pairs {
            let [time, alone] = [&pair.beside, &pair.alone]
                .map(|start| start.time.map_or(String::new(), |time| time.0.to_string()));
            let ([read, written], merged) = (pair.beside.others, pair.beside.merges);
            let seed = pair.seed;
            text += &format!("{words},{seed},{time},{alone},{read},{written},{merged}\n");
        }
    }
    text
}

impl Told<'_> {
    fn figures(&self) -> Figures {
        Figures::of(&self.pairs)
    }

    /// What started with which load, how often.
    fn heading(&self, device: &str) -> String {
        let Startup { profile, readers, writers, random_readers, warmup, .. } = self.startup;
        let others = [
            (*readers, "sequential reader"),
            (*writers, "sequential writer"),
            (*random_readers, "random reader"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        let others: Vec<String> = others
            .map(|(count, kind)| format!("{count} {kind}{}", if *count == 1 { "" } else { "s" }))
            .collect();
        let others = if others.is_empty() { "nobody".to_owned() } else { others.join(", ") };
        let starts = match self.pairs.len() {
            1 => "1 start".to_owned(),
            count => format!("{count} starts"),
        };
        format!(
            "{} on {device} beside {others} ({warmup} before)\n{} requests, {:.1} MB, {} at \
             random, {} waited for; {starts} with seeds from {}",
            profile.name,
            profile.requests(),
            as_f64(profile.bytes()) / 1e6,
            profile.random(),
            profile.waited_for(),
            self.pairs.first().map_or(0, |pair| pair.seed),
        )
    }

    fn json(&self) -> Value {
        let nanos = |time: Option<Nanos>| time.map(|time| time.0);
        let starts = self.pairs.iter().map(|pair| {
            json!({
                "seed": pair.seed,
                "time_ns": nanos(pair.beside.time),
                "alone_ns": nanos(pair.alone.time),
                "others_read_bytes": pair.beside.others[0],
                "others_written_bytes": pair.beside.others[1],
                "queues_merged": pair.beside.merges,
            })
        });
        let (startup, figures) = (self.startup, self.figures());
        json!({
            "profile": startup.profile.name,
            "source": startup.profile.source,
            "device": self.device,
            "scheduler": self.scheduler,
            "readers": startup.readers,
            "writers": startup.writers,
            "random_readers": startup.random_readers,
            "direct": startup.direct,
            "warmup_ns": startup.warmup.0,
            "limit_ns": startup.limit.0,
            "starts": starts.collect::<Vec<Value>>(),
            "summary": {
                "alone_median_ns": nanos(figures.alone.median),
                "min_ns": nanos(figures.beside.least),
                "median_ns": nanos(figures.beside.median),
                "max_ns": nanos(figures.beside.greatest),
                "by_alone": figures.slowdown,
                "given_up": figures.given_up,
                "others_read_bytes_per_second": figures.others[0],
                "others_written_bytes_per_second": figures.others[1],
                "queues_merged": figures.merges,
            },
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}
