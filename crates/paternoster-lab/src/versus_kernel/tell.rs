// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: the kernel's figures next to ours, as a table, Markdown, CSV, a page, JSON.
//!
//! A row is a process under a scheduler. The difference is ours compared with the kernel's, in per
//! cent of the kernel's. With several runs the median of each figure counts, and a kernel rate
//! within the range of our runs is no further from ours than they are from each other. A scheduler
//! that the kernel lacks has rows of its own, with nothing next to it.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use paternoster_core::Nanos;
use paternoster_frame::results::{self, Format, Results, field};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::{align_right, plain_table, trimmed};
use paternoster_serve::emulate::Precision;
use serde_json::{Value, json};

use super::fio::Got;
use super::way::Costs;

/// Differences up to this are the goal, in per cent.
pub(super) const NEAR: f64 = 10.0;

/// The machine and the date.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) date: String,
}

/// One job file under all schedulers.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) jobs: String,
    pub(super) rows: Vec<Row>,
}

/// A process under a scheduler.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) process: String,
    pub(super) scheduler: String,
    /// `None` if the kernel lacks this scheduler.
    pub(super) kernel: Option<Got>,
    /// Least and largest rate of several runs on the kernel.
    pub(super) range: (f64, f64),
    pub(super) ours: Got,
    /// The same of ours.
    pub(super) ours_range: (f64, f64),
}

/// All results.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) machine: Machine,
    pub(super) device: String,
    pub(super) tags: u32,
    pub(super) repeat: u32,
    pub(super) costs: Costs,
    pub(super) hz: u32,
    pub(super) precision: Precision,
    /// Attributes of the kernel that ours lacks, by scheduler.
    pub(super) unknown: Vec<String>,
    pub(super) tables: Vec<Table>,
}

/// The heads of [`Row::cells`].
const HEADS: [&str; 7] = ["kernel MB/s", "ours", "%", "p50 ms", "ours", "p99 ms", "ours"];

impl Row {
    /// A row from the runs on the kernel, empty if it lacks this scheduler, and ours.
    pub(super) fn new(process: String, scheduler: &str, runs: &[Got], ours: &[Got]) -> Row {
        let scheduler = scheduler.to_owned();
        let (kernel, range) = middle(runs);
        let (ours, ours_range) = middle(ours);
        let kernel = (!runs.is_empty()).then_some(kernel);
        Row { process, scheduler, kernel, range, ours, ours_range }
    }

    /// How far ours is from the kernel's, in per cent; `None` if the kernel's did nothing.
    fn difference(&self) -> Option<f64> {
        let rate = self.kernel.as_ref()?.rate;
        (rate > 0.0).then(|| 100.0 * (self.ours.rate / rate - 1.0))
    }

    /// The figures of a line: rates in MB/s and their difference, latencies in ms.
    fn cells(&self) -> [String; 7] {
        let rate = |rate: f64| format!("{:.2}", rate / 1e6);
        let millis = |nanos: f64| format!("{:.2}", nanos / 1e6);
        let theirs = |told: &dyn Fn(&Got) -> String| {
            self.kernel.as_ref().map_or_else(|| "-".to_owned(), told)
        };
        [
            theirs(&|got| rate(got.rate)),
            rate(self.ours.rate),
            self.difference().map_or("-".to_owned(), |apart| format!("{apart:+.1}")),
            theirs(&|got| millis(got.p50)),
            millis(self.ours.p50),
            theirs(&|got| millis(got.p99)),
            millis(self.ours.p99),
        ]
    }
}

/// The median of each figure, and the least and the largest rate.
fn middle(runs: &[Got]) -> (Got, (f64, f64)) {
    let of = |figure: fn(&Got) -> f64| median(runs.iter().map(figure).collect());
    let got = Got {
        name: runs.first().map_or(String::new(), |got| got.name.clone()),
        rate: of(|got| got.rate),
        iops: of(|got| got.iops),
        mean: of(|got| got.mean),
        p50: of(|got| got.p50),
        p99: of(|got| got.p99),
    };
    let rates = runs.iter().map(|got| got.rate);
    (got, (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)))
}

/// The middle one, or the mean of the two in the middle.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => 0.0,
        count if count % 2 == 1 => all[count / 2],
        count => f64::midpoint(all[count / 2 - 1], all[count / 2]),
    }
}

impl Told {
    /// How many rows are close, how many more lie in the range of our runs, and how many the kernel
    /// has.
    fn near(&self) -> [usize; 3] {
        let rows = self.tables.iter().flat_map(|table| &table.rows);
        let rows: Vec<&Row> = rows.filter(|row| row.kernel.is_some()).collect();
        let near = |row: &Row| row.difference().is_none_or(|apart| apart.abs() <= NEAR);
        let (least, most) = (|row: &Row| row.ours_range.0, |row: &Row| row.ours_range.1);
        let within = |row: &Row| {
            row.kernel.as_ref().is_some_and(|got| (least(row)..=most(row)).contains(&got.rate))
        };
        let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
        [count(&near), count(&|row| !near(row) && within(row)), rows.len()]
    }

    /// What all tables have in common, in sentences.
    fn head(&self) -> Vec<String> {
        let Told { machine, device, tags, costs, precision, .. } = self;
        let micros = |time: Nanos| micros(time);
        let runs = if self.repeat == 1 { "one run" } else { "medians of several runs" };
        let mut head = vec![
            format!("Linux {}, {}; {device}, {tags} tags, {runs}", machine.kernel, machine.date),
            format!(
                "the way to the device, given to ours: {} us a command and {} a KiB; fio needs {} \
                 us between two",
                micros(costs.command),
                micros(costs.kib),
                micros(costs.submit)
            ),
        ];
        if precision.commands > 0 {
            head.push(format!(
                "{} commands were to take {} us (p50; p99 {}) and were late by {} us (p99 {})",
                precision.commands,
                micros(precision.set.p50),
                micros(precision.set.p99),
                micros(precision.late.p50),
                micros(precision.late.p99)
            ));
        }
        if self.hz > 0 {
            head.push(format!("the kernel's tick: {} Hz, as ours", self.hz));
        }
        if !self.unknown.is_empty() {
            head.push(format!("not in ours: {}", self.unknown.join(", ")));
        }
        let [near, within, all] = self.near();
        head.push(format!(
            "{near} of {all} rates are within {NEAR:.0} % of the kernel's; of the others {within} \
             lie where ours are by chance"
        ));
        head
    }

    /// The results as text, for a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = self.head().join("\n") + "\n";
        for table in &self.tables {
            let _infallible = write!(text, "\n{}\n", table.jobs);
            let mut plain = plain_table();
            plain.set_header(["process", "scheduler"].into_iter().chain(HEADS));
            align_right(&mut plain, 2);
            for (name, row) in named_once(&table.rows) {
                plain.add_row(
                    [name, &row.scheduler].map(str::to_owned).into_iter().chain(row.cells()),
                );
            }
            text.push_str(&trimmed(&plain));
        }
        text
    }

    /// For a page: a table, all job files in it.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        for line in self.head() {
            let _infallible = writeln!(text, "* {line}");
        }
        text.push_str(
            "\n| job | process | scheduler | kernel MB/s | ours | % | p50 ms | ours | p99 ms \
             | ours |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        for table in &self.tables {
            for (place, (name, row)) in named_once(&table.rows).enumerate() {
                let jobs = if place == 0 { table.jobs.as_str() } else { "" };
                let cells = row.cells().join(" | ");
                let _infallible =
                    writeln!(text, "| {jobs} | {name} | {} | {cells} |", row.scheduler);
            }
        }
        text
    }

    /// The results as a page, for a browser.
    pub(super) fn html(&self) -> String {
        let heads = ["process", "scheduler"].into_iter().chain(HEADS);
        let sheet = |table: &Table| {
            let mut sheet = Sheet::new(2, heads.clone());
            for row in &table.rows {
                let words = [&row.process, &row.scheduler].map(String::clone);
                sheet.row(words.into_iter().chain(row.cells()).collect());
            }
            (table.jobs.clone(), sheet)
        };
        let results = Results {
            title: "our figures beside those of this machine's kernel".to_owned(),
            headline: self.head(),
            sheets: self.tables.iter().map(sheet).collect(),
            ..Results::default()
        };
        results.told(Format::Html)
    }

    /// A line for each process under each scheduler; latencies in nanoseconds.
    pub(super) fn csv(&self) -> String {
        let mut text = String::from(
            "jobs,process,scheduler,kernel_bytes_per_second,ours_bytes_per_second,\
             difference_percent,kernel_p50_ns,ours_p50_ns,kernel_p99_ns,ours_p99_ns\n",
        );
        for table in &self.tables {
            for row in &table.rows {
                let words = [&table.jobs, &row.process, &row.scheduler];
                let words = words.map(|word| field(word)).join(",");
                let kernel = |figure: fn(&Got) -> f64| row.kernel.as_ref().map(figure);
                let figures = [
                    kernel(|got| got.rate),
                    Some(row.ours.rate),
                    row.difference(),
                    kernel(|got| got.p50),
                    Some(row.ours.p50),
                    kernel(|got| got.p99),
                    Some(row.ours.p99),
                ];
                let told = |figure: Option<f64>| {
                    figure.map_or_else(String::new, |figure| format!("{figure:.1}"))
                };
                let _infallible = writeln!(text, "{words},{}", figures.map(told).join(","));
            }
        }
        text
    }

    /// The results as JSON.
    pub(super) fn json(&self) -> Value {
        let got = |got: &Got| {
            json!({
                "bytes_per_second": got.rate, "ios_per_second": got.iops,
                "latency_ns": { "mean": got.mean, "p50": got.p50, "p99": got.p99 },
            })
        };
        let row = |row: &Row| {
            let mut ours = got(&row.ours);
            let kernel = row.kernel.as_ref().map(|theirs| {
                let mut kernel = got(theirs);
                kernel["bytes_per_second_range"] = json!([row.range.0, row.range.1]);
                kernel
            });
            ours["bytes_per_second_range"] = json!([row.ours_range.0, row.ours_range.1]);
            json!({
                "process": row.process, "scheduler": row.scheduler,
                "kernel": kernel, "ours": ours, "difference_percent": row.difference(),
            })
        };
        let tables = self.tables.iter().map(|table| {
            json!({ "jobs": table.jobs, "rows": table.rows.iter().map(row).collect::<Vec<_>>() })
        });
        let Precision { commands, set, served, late, .. } = &self.precision;
        let found = json!({
            "kernel": self.machine.kernel, "date": self.machine.date,
            "device": self.device, "tags": self.tags, "repeat": self.repeat, "hz": self.hz,
            "way_ns": { "command": self.costs.command.0, "kib": self.costs.kib.0,
                "submit": self.costs.submit.0 },
            "emulation_ns": { "commands": commands,
                "set": { "p50": set.p50.0, "p99": set.p99.0 },
                "served": { "p50": served.p50.0, "p99": served.p99.0 },
                "late": { "p50": late.p50.0, "p99": late.p99.0 } },
            "not_in_ours": self.unknown,
            "tables": tables.collect::<Vec<_>>(),
        });
        results::document("versus-kernel", found)
    }
}

/// The rows, each process named only in its first.
fn named_once(rows: &[Row]) -> impl Iterator<Item = (&str, &Row)> {
    let mut last = "";
    rows.iter().map(move |row| {
        let again = std::mem::replace(&mut last, &row.process) == row.process;
        (if again { "" } else { row.process.as_str() }, row)
    })
}

fn micros(time: Nanos) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a printed figure")]
    let micros = time.0 as f64 / 1e3;
    if micros < 10.0 { format!("{micros:.2}") } else { format!("{micros:.0}") }
}

/// The day of a time, as 2026-11-23, in UTC.
pub(super) fn day(time: SystemTime) -> String {
    let days = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    // Years begin with March: the leap day is the last of its year. 146 097 days are 400 years, and
    // the first of March of the year 0 is 719 468 days before 1970.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, more) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + more)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn got(name: &str, rate: f64) -> Got {
        let (mean, p50, p99) = (2e6, 2e6, 4e6);
        Got { name: name.to_owned(), rate, iops: rate / 4096.0, mean, p50, p99 }
    }

    fn told() -> Told {
        let row = |process: &str, scheduler: &str, runs: &[f64], ours: f64| {
            let runs: Vec<Got> = runs.iter().map(|&rate| got("a", rate)).collect();
            // Ours from 0.6 to 1.2 times: the middle one as given.
            let ours = [0.6, 1.2, 1.0].map(|part| got("a", part * ours));
            Row::new(process.to_owned(), scheduler, &runs, &ours)
        };
        let rows = vec![
            row("a", "none", &[3e6, 1e6, 2e6], 2.1e6),
            row("a", "bfq", &[4e6, 2e6], 4.5e6),
            row("b", "none", &[0.0], 1e6),
            row("b", "paternoster", &[], 5e6),
        ];
        Told {
            machine: Machine { kernel: "6.18".to_owned(), date: "2026-11-23".to_owned() },
            device: "slow-disk".to_owned(),
            tags: 4,
            repeat: 3,
            costs: Costs { command: Nanos(61_000), kib: Nanos(250), submit: Nanos(21_000) },
            hz: 250,
            precision: Precision::default(),
            unknown: Vec::new(),
            tables: vec![Table { jobs: "two.fio".to_owned(), rows }],
        }
    }

    /// Does CSV have a line for each process and scheduler, with nothing where the kernel has
    /// nothing, and a page the same rows?
    #[test]
    fn csv_and_page_have_each_row() {
        let told = told();
        let csv = told.csv();
        let lines: Vec<&str> = csv.lines().collect();
        let latencies = "2000000.0,2000000.0,4000000.0,4000000.0";
        assert_eq!(lines[1], format!("two.fio,a,none,2000000.0,2100000.0,5.0,{latencies}"));
        assert_eq!(lines[4], "two.fio,b,paternoster,,5000000.0,,,2000000.0,,4000000.0");
        assert_eq!(lines.len(), 5);
        let page = told.html();
        assert!(page.contains("two.fio") && page.contains("kernel MB/s"));
        assert_eq!(page.matches("<td>bfq</td>").count(), 1);
    }

    /// Does the table name each process once, with medians (2 of 1, 2, 3; 3 of 2, 4) and
    /// differences (2.1 is +5.0 % of 2, 4.5 is +50.0 % of 3, with nothing to compare with there is
    /// none)?
    #[test]
    fn the_table_has_medians_and_differences() {
        let text = told().text();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let latencies = ["2.00", "2.00", "4.00", "4.00"];
        let expects =
            [(&["a", "none", "2.00", "2.10", "+5.0"][..]), (&["bfq", "3.00", "4.50", "+50.0"][..])];
        for expected in expects {
            assert!(lines.contains(&[expected, &latencies].concat()), "{expected:?}\n{text}");
        }
        // 3 lies between 0.6 * 4.5 = 2.7 and 1.2 * 4.5 = 5.4.
        let near = "2 of 3 rates are within 10 % of the kernel's; of the others 1 lie";
        assert!(text.contains(near), "{text}");
        assert!(text.contains("61 us a command and 0.25 a KiB"), "{text}");
    }

    /// Does the page have a line for each row, under a head of as many columns?
    #[test]
    fn the_page_has_every_row() {
        let page = told().markdown();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), 2 + 4);
        assert!(rows.iter().all(|row| row.matches('|').count() == 11), "{page}");
        assert!(rows[2].starts_with("| two.fio | a | none | 2.00 | 2.10 | +5.0 |"), "{page}");
        assert!(rows[4].contains("| b | none | 0.00 | 1.00 | - |"), "{page}");
        // The kernel lacks this scheduler, and it counts for nothing above.
        let alone = "|  |  | paternoster | - | 5.00 | - | - | 2.00 | - | 4.00 |";
        assert_eq!(rows[5], alone, "{page}");
    }

    /// Does the document have the figures in full, and how far the runs were apart?
    #[test]
    fn the_document_has_the_figures() {
        let document = told().json();
        let row = &document["tables"][0]["rows"][0];
        assert_eq!(row["kernel"]["bytes_per_second_range"], json!([1e6, 3e6]));
        assert_eq!(row["ours"]["latency_ns"]["p99"], 4e6);
        assert!(document["tables"][0]["rows"][2]["difference_percent"].is_null());
        assert_eq!(document["way_ns"]["command"], 61_000);
        assert!(document["tables"][0]["rows"][3]["kernel"].is_null());
    }

    /// Are days right? 1970 begins with day 0; 29 February 2000 is 11 016 days later; 1 March 2100
    /// (no leap year) 47 541; 23 November 2026 20 780.
    #[test]
    fn days_are_those_of_the_calendar() {
        let dates = [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (47_541, "2100-03-01"),
            (20_780, "2026-11-23"),
        ];
        for (days, expected) in dates {
            assert_eq!(day(UNIX_EPOCH + Duration::from_secs(days * 86_400 + 86_399)), expected);
        }
    }
}
