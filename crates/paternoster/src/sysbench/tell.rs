// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tell: the results, as sysbench tells them, as a table, as JSON.

use paternoster_core::Nanos;
use paternoster_workload::builtin::sysbench::{Form, Sysbench, Totals};
use serde_json::{Value, json};

use super::options::Told;
use crate::table::{align_right, plain_table, trimmed};

/// What one scheduler made of it on one device.
pub(super) struct Done<'a> {
    pub(super) sysbench: &'a Sysbench,
    pub(super) device: &'a str,
    pub(super) scheduler: &'a str,
    /// Those of the report interval.
    pub(super) lines: String,
    pub(super) totals: Totals,
}

/// All results in one form; `seed` is that of the runs.
pub(super) fn text(told: Told, seed: u64, all: &[Done<'_>]) -> String {
    match told {
        Told::Sysbench => reports(Form::Newer, seed, all),
        Told::SysbenchOlder => reports(Form::Older, seed, all),
        Told::Table => table(all),
        Told::Json => {
            let results: Vec<Value> = all.iter().map(Done::json).collect();
            let version = env!("CARGO_PKG_VERSION");
            format!("{:#}\n", json!({ "version": version, "results": results }))
        }
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
        text.push_str(&table(all));
    }
    text
}

fn table(all: &[Done<'_>]) -> String {
    let mut table = plain_table();
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    let percentile = all.first().map_or(0, |done| done.sysbench.percentile);
    let latency = if percentile > 0 { format!("{percentile} % ms") } else { String::new() };
    table.set_header([
        "device",
        "scheduler",
        "reads/s",
        "writes/s",
        "fsyncs/s",
        "read MiB/s",
        "written MiB/s",
        "mean ms",
        &latency,
        "max ms",
    ]);
    align_right(&mut table, 2);
    for Done { device, scheduler, totals, .. } in all {
        let [read, written] = totals.bytes_per_second().map(|bytes| bytes / f64::from(1 << 20));
        let at = totals.percentile_ms(percentile);
        table.add_row([
            (*device).to_owned(),
            (*scheduler).to_owned(),
            format!("{:.1}", totals.reads_per_second()),
            format!("{:.1}", totals.writes_per_second()),
            format!("{:.1}", totals.fsyncs_per_second()),
            format!("{read:.2}"),
            format!("{written:.2}"),
            format!("{:.3}", totals.mean_ms()),
            if percentile > 0 { format!("{at:.3}") } else { String::new() },
            format!("{:.3}", millis(totals.greatest)),
        ]);
    }
    trimmed(&table)
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
