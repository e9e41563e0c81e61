// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: the recording and its replays side by side, as tables, JSON or CSV.
//!
//! Two tables: the figures of everything (and of reads and writes, if there are both) as rows, the
//! recording and each replay as columns; then a row for each process and each of these. Units suit
//! the figure. A figure that the trace does not have is `-`.

use paternoster_core::Nanos;
use paternoster_frame::page::{Watched, most};
use paternoster_frame::results::{Results, document, field};
use paternoster_frame::setting::Setting;
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::wrapped;
use paternoster_frame::units;
use paternoster_workload::replay::{Account, Figures, Manner, PERCENTILES, RecordedProcess, Speed};
use serde_json::{Value, json};

use super::likeness::{self, Likeness};
use super::options::ReplayOptions;
use super::read::Read;

/// How the recording itself is called.
const RECORDED: &str = "as recorded";

/// A replay's results.
pub(super) struct ToldRun {
    /// What distinguishes the replay from the others.
    pub(super) label: String,
    pub(super) device: String,
    pub(super) scheduler: String,
    pub(super) account: Account,
    /// I/Os that were moved.
    pub(super) moved: u64,
    /// I/Os that failed, and the first errno.
    pub(super) failed: (u64, i32),
    pub(super) sleeps: u64,
}

/// All results.
pub(super) struct Told<'a> {
    pub(super) options: &'a ReplayOptions,
    pub(super) read: &'a Read,
    pub(super) setting: &'a Setting,
    pub(super) manner: Manner,
    pub(super) speed: Speed,
    pub(super) recorded: Account,
    pub(super) runs: Vec<ToldRun>,
}

/// What a cell of a table or of CSV is made of.
type Cell = fn(&Account, &Figures) -> Option<String>;

/// A part of an account.
type Group = fn(&Account) -> &Figures;

/// The rows of the first table: name, figure, whether it is only one of the whole.
const ROWS: [(&str, Cell, bool); 14] = [
    ("I/Os", |_, of| Some(of.ios.to_string()), false),
    ("data", |_, of| Some(units::size(as_f64(of.bytes))), false),
    ("length", |_, of| Some(units::span(of.length)), false),
    ("IOPS", |_, of| of.ios_per_second().map(units::rate), false),
    ("bandwidth", |_, of| of.bytes_per_second().map(units::bandwidth), false),
    ("mean", |_, of| latency(of, of.mean), false),
    ("p50", |_, of| percentile(of, 0), false),
    ("p90", |_, of| percentile(of, 1), false),
    ("p99", |_, of| percentile(of, 2), false),
    ("p99.9", |_, of| percentile(of, 3), false),
    ("max", |_, of| latency(of, as_f64(of.max.0)), false),
    ("most under way", |all, _| known(all).map(|_| all.backlog.most.to_string()), true),
    ("device busy", |all, _| busy(all).map(units::percent), true),
    ("device time", |all, of| share(all, of).map(units::percent), false),
];

impl Told<'_> {
    /// The results; `watched` has the recording of each replay, if waits are to be explained.
    pub(super) fn results(&self, watched: &[Watched]) -> Results {
        let (processes, left_out) = self.sheet_of_processes();
        let mut sheets = vec![("Everything".to_owned(), self.sheet_of_all())];
        if !processes.is_empty() {
            sheets.push(("Processes".to_owned(), processes));
        }
        let warnings = self.runs.iter().filter_map(|run| self.warning(run));
        let explained = watched.iter().filter(|_| self.options.explain).map(Watched::explained);
        Results {
            title: self.heading(),
            headline: self.headline(),
            sheets,
            notes: left_out.into_iter().chain(warnings).chain(self.likeness()).collect(),
            explained: explained.collect(),
            subject: Some(self.setting.subject(&format!("replay of {}", self.options.trace()))),
            csv: self.csv(),
            document: document("replay", self.json(watched)),
        }
    }

    /// The outcome, in sentences.
    fn headline(&self) -> Vec<String> {
        let of = |figure: fn(&Account) -> Option<f64>| -> Vec<(String, f64)> {
            let told = |(label, account): (&str, &Account)| {
                (label.to_owned(), figure(account).unwrap_or(f64::NAN))
            };
            self.columns().map(told).collect()
        };
        let p99 = |account: &Account| {
            (account.all.timed > 0).then(|| -as_f64(account.all.percentiles[2].0))
        };
        let sentences = [
            most("Most I/Os a second", &of(|account| account.all.ios_per_second()), units::rate),
            most("Least p99", &of(p99), |nanos| units::time(-nanos)),
        ];
        sentences.into_iter().flatten().collect()
    }

    /// The recording and every replay, each with its name.
    fn columns(&self) -> impl Iterator<Item = (&str, &Account)> {
        let runs = self.runs.iter().map(|run| (run.label.as_str(), &run.account));
        std::iter::once((RECORDED, &self.recorded)).chain(runs)
    }

    fn heading(&self) -> String {
        let read = self.read;
        let on = match &self.setting.devices[..] {
            [device] => format!(" on {}", device.name),
            _ => String::new(),
        };
        let speed = match self.speed {
            Speed::AS_RECORDED => String::new(),
            speed => format!(", {} times as fast", speed.factor()),
        };
        let processes = match read.recording.processes().len() {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        };
        format!(
            "{}, device {}: {} I/Os of {processes}\nreplayed{on}, {}{speed}",
            self.options.trace(),
            read.device,
            read.recording.ios().len(),
            match self.manner {
                Manner::Timed => "timed: at the recorded times",
                Manner::Think => "think: as long after what each I/O followed as recorded",
                Manner::Asap => "asap: at once after what each I/O followed",
            }
        )
    }

    fn sheet_of_all(&self) -> Sheet {
        let labels = self.columns().map(|(label, _)| label.to_owned());
        let mut sheet =
            Sheet::new(2, [String::new(), String::new()].into_iter().chain(labels)).in_blocks();
        let both = self.recorded.reads.ios > 0 && self.recorded.writes.ios > 0;
        let groups: [(&str, Group); 3] =
            [("all", |of| &of.all), ("reads", |of| &of.reads), ("writes", |of| &of.writes)];
        for (group, figures) in groups.into_iter().take(if both { 3 } else { 1 }) {
            // Device time is the whole's by definition, and not known for a part.
            let rows = ROWS[..ROWS.len() - 1].iter();
            let rows = rows.filter(|(_, _, of_all)| group == "all" || !of_all);
            for (nth, (name, cell, _)) in rows.enumerate() {
                let head = if nth == 0 { group } else { "" };
                let cells = self.columns().map(|(_, of)| shown(cell(of, figures(of))));
                let head = [head.to_owned(), (*name).to_owned()];
                sheet.row(head.into_iter().chain(cells).collect());
            }
        }
        let likenesses: Vec<_> = self.likenesses().collect();
        let Some((_, first)) = likenesses.first() else { return sheet };
        for (nth, (name, _)) in first.differences().enumerate() {
            let head = if nth == 0 { "likeness" } else { "" };
            let cells = likenesses.iter().map(|(_, of)| {
                let off = of.differences().nth(nth).and_then(|(_, off)| off);
                off.map_or(units::NONE.to_owned(), |off| format!("{off:+.1} %"))
            });
            let head = [head.to_owned(), name.to_owned(), String::new()];
            sheet.row(head.into_iter().chain(cells).collect());
        }
        sheet
    }

    /// How close each replay is to the recording.
    fn likenesses(&self) -> impl Iterator<Item = (&ToldRun, Likeness)> {
        self.runs.iter().map(|run| (run, Likeness::of(&self.recorded, &run.account)))
    }

    fn likeness(&self) -> Option<String> {
        let labelled = |(run, of): (&ToldRun, Likeness)| (run.label.clone(), of);
        likeness::sentence(&self.likenesses().map(labelled).collect::<Vec<_>>(), self.manner)
    }

    /// The processes with the most bytes, and how many were left out.
    fn sheet_of_processes(&self) -> (Sheet, Option<String>) {
        let rows: Vec<_> = ROWS.iter().filter(|(_, _, of_all)| !of_all).collect();
        let mut sheet =
            Sheet::new(2, ["process", ""].into_iter().chain(rows.iter().map(|(name, ..)| *name)))
                .in_blocks();
        let processes = self.read.recording.processes();
        let mut by_bytes: Vec<usize> = (0..processes.len()).collect();
        by_bytes.sort_by_key(|&place| std::cmp::Reverse(processes[place].bytes));
        let shown_processes = by_bytes.len().min(self.options.processes);
        for &place in &by_bytes[..shown_processes] {
            for (nth, (label, of)) in self.columns().enumerate() {
                let name = if nth == 0 { processes[place].label() } else { String::new() };
                let figures = &of.processes[place];
                let cells = rows.iter().map(|(_, cell, _)| shown(cell(of, figures)));
                sheet.row([name, label.to_owned()].into_iter().chain(cells).collect());
            }
        }
        let left_out = match by_bytes.len() - shown_processes {
            0 => None,
            1 => Some("and 1 process more (--processes)".to_owned()),
            more => Some(format!("and {more} processes more (--processes)")),
        };
        (sheet, left_out)
    }

    /// Notes without which the figures could mislead.
    fn warning(&self, run: &ToldRun) -> Option<String> {
        let (own, recorded) = (&run.account.backlog, &self.recorded.backlog);
        let behind = self.manner == Manner::Timed && own.falls_behind(recorded);
        behind.then(|| {
            let most = known(&self.recorded).map(|_| recorded.most.to_string());
            let text = wrapped(&format!(
                "{} falls behind: I/Os come faster than they end. When the last one had come {} \
                 were under way, {} at most (recorded: {}), and it took another {}. Its latencies \
                 say how long the recording is; see --manner think, or --speed below 1.",
                run.label,
                own.at_last_arrival,
                own.most,
                most.as_deref().unwrap_or("not known"),
                own.draining,
            ));
            text.trim_end().to_owned()
        })
    }

    fn json(&self, watched: &[Watched]) -> Value {
        let processes = self.read.recording.processes();
        let replays = self.runs.iter().enumerate().map(|(nth, run)| {
            let mut told = account_json(&run.account, processes);
            told["device"] = json!(run.device);
            told["scheduler"] = json!(run.scheduler);
            told["moved_ios"] = json!(run.moved);
            told["failed_ios"] = json!(run.failed.0);
            told["sleeps"] = json!(run.sleeps);
            let likeness = Likeness::of(&self.recorded, &run.account);
            let [iops, mean, p99] = ["iops_percent", "mean_percent", "p99_percent"];
            for (key, (_, off)) in [iops, mean, p99].into_iter().zip(likeness.differences()) {
                told["likeness"][key] = json!(off);
            }
            told["waits"] = json!(watched.get(nth).map(Watched::document));
            let behind = run.account.backlog.falls_behind(&self.recorded.backlog);
            told["falls_behind"] = json!(self.manner == Manner::Timed && behind);
            told
        });
        let replays: Vec<Value> = replays.collect();
        json!({
            "trace": self.options.trace(),
            "from_device": self.read.device,
            "manner": self.manner.name(),
            "speed": self.speed.factor(),
            "seed": self.setting.seed(),
            "recorded": account_json(&self.recorded, processes),
            "replays": replays,
        })
    }

    fn csv(&self) -> String {
        let mut text = String::from(
            "scheduler,device,manner,group,process,ios,bytes,length_ns,iops,bytes_per_second,\
             mean_ns,p50_ns,p90_ns,p99_ns,p99.9_ns,max_ns,device_time_share\n",
        );
        let runs = self.runs.iter();
        let runs =
            runs.map(|run| (&*run.scheduler, &*run.device, self.manner.name(), &run.account));
        let recorded = (RECORDED, &*self.read.device, "", &self.recorded);
        for (scheduler, device, manner, account) in std::iter::once(recorded).chain(runs) {
            let mut line = |group: &str, name: &str, of: &Figures| {
                let mut fields = [scheduler, device, manner, group, name].map(field).to_vec();
                fields.extend([of.ios.to_string(), of.bytes.to_string()]);
                fields.push(of.length.0.to_string());
                let rate = |rate: Option<f64>| rate.map(|rate| format!("{rate:.3}"));
                let rest = [rate(of.ios_per_second()), rate(of.bytes_per_second())];
                let nanos = |nanos: f64| (of.timed > 0).then(|| format!("{nanos:.0}"));
                let mean = [nanos(of.mean)];
                let percentiles = of.percentiles.map(|at| nanos(as_f64(at.0)));
                let share = share(account, of).map(|share| format!("{share:.6}"));
                let last = [nanos(as_f64(of.max.0)), share];
                let rest = rest.into_iter().chain(mean).chain(percentiles).chain(last);
                fields.extend(rest.map(Option::unwrap_or_default));
                text.push_str(&fields.join(","));
                text.push('\n');
            };
            line("all", "", &account.all);
            line("reads", "", &account.reads);
            line("writes", "", &account.writes);
            for (process, of) in self.read.recording.processes().iter().zip(&account.processes) {
                line("process", &process.label(), of);
            }
        }
        text
    }
}

fn shown(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| units::NONE.to_owned())
}

/// The account, if the end of anything in it is known.
fn known(all: &Account) -> Option<&Account> {
    (all.all.timed > 0).then_some(all)
}

/// A latency, if any is known.
fn latency(of: &Figures, nanos: f64) -> Option<String> {
    (of.timed > 0).then(|| units::time(nanos))
}

fn percentile(of: &Figures, nth: usize) -> Option<String> {
    latency(of, as_f64(of.percentiles[nth].0))
}

/// The fraction of time in which the device was busy.
fn busy(all: &Account) -> Option<f64> {
    let busy = all.busy.filter(|_| all.all.length > Nanos::ZERO)?;
    Some(as_f64(busy.0) / as_f64(all.all.length.0))
}

/// The fraction of all device time.
fn share(all: &Account, of: &Figures) -> Option<f64> {
    let (own, sum) = (of.served?, all.all.served.filter(|sum| *sum > Nanos::ZERO)?);
    Some(as_f64(own.0) / as_f64(sum.0))
}

fn account_json(account: &Account, processes: &[RecordedProcess]) -> Value {
    let each = processes.iter().zip(&account.processes).map(|(process, of)| {
        let mut told = figures_json(account, of);
        told["pid"] = json!(process.pid);
        told["name"] = json!(process.name);
        told
    });
    json!({
        "all": figures_json(account, &account.all),
        "reads": figures_json(account, &account.reads),
        "writes": figures_json(account, &account.writes),
        "processes": each.collect::<Vec<Value>>(),
        "device_busy": busy(account),
        "most_under_way": known(account).map(|account| account.backlog.most),
        "under_way_at_last_arrival":
            known(account).map(|account| account.backlog.at_last_arrival),
        "draining_ns": known(account).map(|account| account.backlog.draining.0),
    })
}

fn figures_json(account: &Account, of: &Figures) -> Value {
    let nanos = |time: Nanos| (of.timed > 0).then_some(time.0);
    let percentiles = PERCENTILES.iter().zip(of.percentiles);
    let percentiles = percentiles.map(|(p, time)| (format!("p{p}_ns"), json!(nanos(time))));
    let mut told = json!({
        "ios": of.ios,
        "bytes": of.bytes,
        "timed_ios": of.timed,
        "length_ns": of.length.0,
        "iops": of.ios_per_second(),
        "bytes_per_second": of.bytes_per_second(),
        "mean_ns": (of.timed > 0).then_some(of.mean),
        "max_ns": nanos(of.max),
        "device_time_ns": of.served.map(|served| served.0),
        "device_time_share": share(account, of),
    });
    percentiles.for_each(|(key, value)| told[key] = value);
    told
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
pub(super) const fn as_f64(value: u64) -> f64 {
    value as f64
}
