// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as text: for each device how long its I/Os took and where, how it was used, and who
//! got what.

use std::fmt::Write as _;

use paternoster::Nanos;
use paternoster_trace::analysis::{DeviceFigures, Findings, Phase, ProcessFigures};
use paternoster_trace::record::Histogram;

use super::sheet::Sheet;

/// Processes that are shown; the others are one row.
const SHOWN: usize = 24;

/// The report; `name` says what a device is called beside its number.
pub(super) fn report(
    title: &str,
    found: &Findings,
    name: &dyn Fn(&DeviceFigures) -> String,
) -> String {
    let mut text = String::new();
    let _infallible = writeln!(text, "{title}: {}", facts(found));
    for device in &found.devices {
        text.push('\n');
        text.push_str(&of_device(&name(device), device));
    }
    text
}

/// How much there is.
pub(super) fn facts(found: &Findings) -> String {
    let (devices, events) = (found.devices.len(), found.events);
    let messages = match found.messages {
        0 => String::new(),
        1 => ", 1 message".to_owned(),
        messages => format!(", {messages} messages"),
    };
    let devices = if devices == 1 { "1 device".to_owned() } else { format!("{devices} devices") };
    format!("{events} events{messages}, {:.3} s, {devices}", seconds(found.span()))
}

fn of_device(name: &str, device: &DeviceFigures) -> String {
    let mut text = String::new();
    let _infallible = writeln!(text, "device {name}");
    text.push('\n');
    text.push_str(&transfer(device).text());
    text.push('\n');
    text.push_str(&phases(device).text());
    text.push('\n');
    for line in use_lines(device) {
        text.push_str(&format!(" {line}\n"));
    }
    text.push('\n');
    text.push_str(&processes(device).text());
    text
}

/// What went to the device and came back.
pub(super) fn transfer(device: &DeviceFigures) -> Sheet {
    let mut table = Sheet::new(
        1,
        [
            "", "asked", "merged", "issued", "done", "MB", "MB/s", "IOPS", "kB each", "mean us",
            "p50 us", "p99 us", "max us",
        ],
    );
    let counts = &device.counts;
    for (place, direction) in ["read", "write"].into_iter().enumerate() {
        if counts.queued[place] + counts.issued[place] + counts.completed[place] == 0 {
            continue;
        }
        let (done, bytes) = (counts.completed[place], counts.completed_bytes[place]);
        let (issued, sent) = (counts.issued[place], counts.issued_bytes[place]);
        let whole = match device.whole[place].count() {
            0 => &device.device[place],
            _ => &device.whole[place],
        };
        let mut row = vec![
            direction.to_owned(),
            counts.queued[place].to_string(),
            counts.merged[place].to_string(),
            issued.to_string(),
            done.to_string(),
            format!("{:.1}", bytes as f64 / 1e6),
            per_second(bytes as f64 / 1e6, device.span, 2),
            per_second(done as f64, device.span, 1),
            if issued == 0 { "-".to_owned() } else { format!("{:.1}", ratio(sent, issued) / 1e3) },
        ];
        row.extend(latencies(whole, &[500, 990]));
        table.row(row);
    }
    table
}

/// How long each part of the way took.
pub(super) fn phases(device: &DeviceFigures) -> Sheet {
    let mut table = Sheet::new(
        2,
        [
            "phase", "", "count", "mean us", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us",
            "of Q2C %",
        ],
    );
    let whole = device.phases[Phase::Whole as usize].sum();
    for phase in Phase::ALL {
        let histogram = &device.phases[phase as usize];
        if histogram.count() == 0 {
            continue;
        }
        let (letters, words) = phase.names();
        let mut row = vec![letters.to_owned(), words.to_owned(), histogram.count().to_string()];
        row.extend(latencies(histogram, &[500, 900, 990, 999]));
        row.push(match whole {
            0 => "-".to_owned(),
            whole => format!("{:.2}", 100.0 * histogram.sum() as f64 / whole as f64),
        });
        table.row(row);
    }
    if device.flush.count() > 0 {
        let mut row =
            vec!["D2C".to_owned(), "flushes".to_owned(), device.flush.count().to_string()];
        row.extend(latencies(&device.flush, &[500, 900, 990, 999]));
        row.push(String::new());
        table.row(row);
    }
    table
}

/// Merges, seeks, depths, the device's time: each a line.
pub(super) fn use_lines(device: &DeviceFigures) -> Vec<String> {
    let (counts, seeks, span) = (&device.counts, &device.seeks, device.span);
    let (queued, issued) = (sum(counts.queued), sum(counts.issued));
    let mut lines = Vec::new();
    if issued > 0 {
        let merged = sum(counts.merged);
        lines.push(format!(
            "merges      {merged} of {queued} I/Os, {:.2} I/Os a command",
            ratio(queued.max(issued), issued)
        ));
    }
    if seeks.count > 0 {
        let percent = |part: u64| 100.0 * ratio(part, seeks.count);
        let median = seeks.distances.permille(500).0;
        lines.push(format!(
            "seeks       {:.1} % sequential, {:.1} % within 64 KiB; distance mean {:.0}, median {} \
             sectors",
            percent(seeks.sequential),
            percent(seeks.near),
            seeks.distance as f64 / seeks.count as f64,
            if median < 1024 { "below 1024".to_owned() } else { median.to_string() },
        ));
    }
    lines.push(format!(
        "waiting     mean {:.2}, most {} I/Os that the device did not have yet",
        device.waiting.mean(span),
        device.waiting.most()
    ));
    let (inside, busy) = (&device.in_device, device.in_device.busy());
    lines.push(format!(
        "in device   mean {:.2} ({:.2} while busy), most {} commands",
        inside.mean(span),
        inside.mean_busy(),
        inside.most()
    ));
    if span > Nanos::ZERO {
        lines.push(format!(
            "busy        {:.2} % of the time, in {} periods",
            100.0 * busy.0 as f64 / span.0 as f64,
            inside.periods()
        ));
    }
    let more = [
        (counts.requeued, "requeued", "commands that the device refused"),
        (counts.failed, "failed", "commands that came back with an error"),
        (counts.flushes, "flushes", "without data"),
        (counts.discards, "discards", "among the writes"),
        (device.lost, "replaced", "I/Os by others at the same sector; their ways are not counted"),
    ];
    for (count, head, words) in more {
        if count > 0 {
            lines.push(format!("{head:<11} {count} {words}"));
        }
    }
    if let Some(fairness) = device.fairness {
        lines.push(format!("fairness    Jain index of device time {fairness:.3}"));
    }
    lines
}

/// What each process got.
pub(super) fn processes(device: &DeviceFigures) -> Sheet {
    let mut table = Sheet::new(
        2,
        [
            "pid",
            "process",
            "I/Os",
            "MB",
            "MB/s",
            "mean us",
            "p99 us",
            "max us",
            "waited us",
            "device time s",
            "%",
        ],
    );
    let (shown, others) = device.processes.split_at(device.processes.len().min(SHOWN));
    for process in shown {
        let mut row = vec![process.pid.to_string(), printable(&process.name)];
        row.extend(cells(process, device.span));
        table.row(row);
    }
    if !others.is_empty() {
        let time: u64 = others.iter().map(|process| process.device_time.0).sum();
        let bytes: u64 = others.iter().map(|other| other.read_bytes + other.write_bytes).sum();
        let share: f64 = others.iter().map(|process| process.share).sum();
        let done: u64 = others.iter().map(|process| process.done).sum();
        let most = others.iter().map(|process| process.whole.most()).max().unwrap_or_default();
        table.row(vec![
            String::new(),
            format!("{} others", others.len()),
            done.to_string(),
            format!("{:.1}", bytes as f64 / 1e6),
            per_second(bytes as f64 / 1e6, device.span, 2),
            String::new(),
            String::new(),
            micros(most),
            String::new(),
            format!("{:.3}", seconds(Nanos(time))),
            format!("{:.1}", 100.0 * share),
        ]);
    }
    table
}

fn cells(process: &ProcessFigures, span: Nanos) -> [String; 9] {
    let megabytes = (process.read_bytes + process.write_bytes) as f64 / 1e6;
    let [mean, p99, max] = match &latencies(&process.whole, &[990])[..] {
        [mean, p99, max] => [mean.clone(), p99.clone(), max.clone()],
        _ => Default::default(),
    };
    let waited = match process.waited.count() {
        0 => "-".to_owned(),
        _ => micros(process.waited.mean()),
    };
    [
        process.done.to_string(),
        format!("{megabytes:.1}"),
        per_second(megabytes, span, 2),
        mean,
        p99,
        max,
        waited,
        format!("{:.3}", seconds(process.device_time)),
        format!("{:.1}", 100.0 * process.share),
    ]
}

/// Mean, percentiles in permille, maximum; in microseconds.
fn latencies(histogram: &Histogram, permilles: &[u64]) -> Vec<String> {
    if histogram.count() == 0 {
        return vec!["-".to_owned(); permilles.len() + 2];
    }
    let mut all = vec![micros(histogram.mean())];
    all.extend(permilles.iter().map(|permille| micros(histogram.permille(*permille))));
    all.push(micros(histogram.most()));
    all
}

/// In microseconds, to the nanosecond where that says something.
fn micros(time: Nanos) -> String {
    let digits = if time < Nanos::from_micros(10) { 3 } else { 1 };
    format!("{:.digits$}", time.0 as f64 / 1e3)
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

fn per_second(amount: f64, span: Nanos, digits: usize) -> String {
    match span {
        Nanos::ZERO => "-".to_owned(),
        span => format!("{:.digits$}", amount / seconds(span)),
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn sum(both: [u64; 2]) -> u64 {
    both[0] + both[1]
}

/// A name of foreign bytes as it may be printed.
pub(super) fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{b7}' } else { c }).collect()
}
