// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: the results as sysbench prints them, as a table, as JSON.

use paternoster_core::Nanos;
use paternoster_frame::results::{Format, Results, document, emit, field};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::terminal_width;
use paternoster_frame::{Failure, format, print, units};
use paternoster_workload::builtin::sysbench::{Form, Sysbench, Totals};
use serde_json::{Value, json};

use super::options::Told;

/// The results of one scheduler on one device.
pub(super) struct Done<'a> {
    pub(super) sysbench: &'a Sysbench,
    pub(super) device: &'a str,
    pub(super) scheduler: &'a str,
    /// Lines of the report interval.
    pub(super) lines: String,
    pub(super) totals: Totals,
}

/// Tells all results; `seed` is that of the runs.
pub(super) fn tell(told: format::Form<Told>, seed: u64, all: &[Done<'_>]) -> Result<(), Failure> {
    match told {
        format::Form::Own(Told::Sysbench) => print(&reports(Form::Newer, seed, all)),
        format::Form::Own(Told::SysbenchOlder) => print(&reports(Form::Older, seed, all)),
        format::Form::Shared(format) => emit(format, None, |format| match format {
            Format::Table => sheet(all).text_within(terminal_width()),
            format => results(all).told(format),
        }),
    }
}

/// sysbench's report of each run, and a table of several.
fn reports(form: Form, seed: u64, all: &[Done<'_>]) -> String {
    let (several, mut text) = (all.len() > 1, String::new());
    for done in all {
        let Done { sysbench, device, scheduler, lines, totals } = done;
        if several {
            text.push_str(&format!("{scheduler} on {device}\n"));
        }
        text.push_str(&sysbench.heading(seed));
        text.push_str(lines);
        text.push_str(&sysbench.figures(form, totals));
    }
    if several {
        text.push_str(&sheet(all).text_within(terminal_width()));
    }
    text
}

fn results(all: &[Done<'_>]) -> Results {
    let mut csv = String::from(
        "device,scheduler,mode,reads_per_second,writes_per_second,fsyncs_per_second,read_bytes,\
         written_bytes,time_ns,mean_ns,max_ns\n",
    );
    for Done { sysbench, device, scheduler, totals, .. } in all {
        let words = [device, scheduler, sysbench.mode.name()].map(field).join(",");
        let rates =
            [totals.reads_per_second(), totals.writes_per_second(), totals.fsyncs_per_second()];
        let rates = rates.map(|rate| format!("{rate:.3}")).join(",");
        let [read, written] = totals.bytes;
        let (time, mean, max) = (totals.time.0, totals.mean_ms() * 1e6, totals.greatest.0);
        csv += &format!("{words},{rates},{read},{written},{time},{mean:.0},{max}\n");
    }
    let each: Vec<Value> = all.iter().map(Done::json).collect();
    Results {
        title: "sysbench fileio".to_owned(),
        sheets: vec![("Runs".to_owned(), sheet(all))],
        notes: Vec::new(),
        csv,
        document: document("sysbench", json!({ "results": each })),
        ..Results::default()
    }
}

fn sheet(all: &[Done<'_>]) -> Sheet {
    let percentile = all.first().map_or(0, |done| done.sysbench.percentile);
    let latency = if percentile > 0 { format!("p{percentile}") } else { String::new() };
    let heads: [&str; 10] = [
        "device",
        "scheduler",
        "reads/s",
        "writes/s",
        "fsyncs/s",
        "read",
        "written",
        "mean",
        &latency,
        "max",
    ];
    let mut sheet = Sheet::new(2, heads.map(str::to_owned));
    for Done { device, scheduler, totals, .. } in all {
        let [read, written] = totals.bytes_per_second().map(units::bandwidth);
        let at = totals.percentile_ms(percentile);
        let millis = |millis: f64| units::time(millis * 1e6);
        sheet.row(vec![
            (*device).to_owned(),
            (*scheduler).to_owned(),
            units::rate(totals.reads_per_second()),
            units::rate(totals.writes_per_second()),
            units::rate(totals.fsyncs_per_second()),
            read,
            written,
            millis(totals.mean_ms()),
            if percentile > 0 { millis(at) } else { String::new() },
            millis(self::millis(totals.greatest)),
        ]);
    }
    sheet
}

impl Done<'_> {
    fn json(&self) -> Value {
        let Done { sysbench, device, scheduler, totals, .. } = self;
        let threads = totals.threads.iter();
        let threads = threads
            .map(|thread| json!({ "events": thread.events, "execution_time_s": thread.seconds }));
        json!({
            "test": "fileio",
            "mode": sysbench.mode.name(),
            "device": device,
            "scheduler": scheduler,
            "threads": sysbench.threads,
            "files": sysbench.files,
            "file_bytes": sysbench.file_bytes(),
            "block_bytes": sysbench.block,
            "direct": sysbench.direct,
            "fsync_freq": sysbench.sync_every,
            "time_ns": totals.time.0,
            "events": totals.events(),
            "reads": totals.reads,
            "writes": totals.writes,
            "fsyncs": totals.fsyncs,
            "fsyncs_at_end": totals.closing_fsyncs,
            "reads_per_second": totals.reads_per_second(),
            "writes_per_second": totals.writes_per_second(),
            "fsyncs_per_second": totals.fsyncs_per_second(),
            "read_bytes": totals.bytes[0],
            "written_bytes": totals.bytes[1],
            "latency_ms": {
                "min": millis(totals.least),
                "mean": totals.mean_ms(),
                "max": millis(totals.greatest),
                "percentile": sysbench.percentile,
                "at_percentile": (sysbench.percentile > 0)
                    .then(|| totals.percentile_ms(sysbench.percentile)),
                "sum": 1000.0 * totals.busy_seconds(),
            },
            "per_thread": threads.collect::<Vec<Value>>(),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
const fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}
