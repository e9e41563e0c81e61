// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as text: for each device how long its I/Os took and where, how it was used, and what
//! each process got.

use std::fmt::Write as _;

use paternoster_core::Nanos;
use paternoster_frame::sheet::Sheet;
use paternoster_frame::units;
use paternoster_trace::analysis::{DeviceFigures, Findings, Phase, ProcessFigures};
use paternoster_trace::record::CoarseHistogram;

use super::Analysed;

/// With more devices there is an overview, and only this many in full.
const DEVICES_SHOWN: usize = 4;
const DEVICES_IN_FULL: usize = 2;
/// Number of processes shown; the others are summed in one row.
const SHOWN: usize = 24;

/// The report; `name` says what a device is called besides its number.
pub(super) fn report(
    title: &str,
    found: &Findings,
    name: &dyn Fn(&DeviceFigures) -> String,
) -> String {
    let mut text = String::new();
    let _infallible = writeln!(text, "{title}: {}", facts(found));
    let mut shown: Vec<&DeviceFigures> = found.devices.iter().collect();
    if shown.len() > DEVICES_SHOWN {
        text.push('\n');
        text.push_str(&overview(found, name).text());
        shown.sort_by_key(|device| core::cmp::Reverse(bytes(device)));
        let _infallible = writeln!(
            text,
            "\nthose with the most bytes in full; --device MAJOR,MINOR shows any other"
        );
        shown.truncate(DEVICES_IN_FULL);
    }
    for device in shown {
        text.push('\n');
        text.push_str(&of_device(&name(device), device));
    }
    text
}

/// The report in Markdown: every device in full.
pub(super) fn markdown(one: &Analysed) -> String {
    let mut text = format!("# {}\n\n{}\n", one.name, facts(&one.found));
    if one.found.devices.len() > 1 {
        text += &format!("\n{}", overview(&one.found, &|device| one.device(device)).markdown());
    }
    for device in &one.found.devices {
        text += &format!("\n## Device {}\n\n{}", one.device(device), transfer(device).markdown());
        let phases = phases(device);
        if !phases.is_empty() {
            text += &format!("\n{}", phases.markdown());
        }
        text.push('\n');
        for line in use_lines(device) {
            text += &format!("* {}\n", line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        if tells_processes(device) {
            text += &format!("\n{}", processes(device).markdown());
        }
    }
    text
}

/// A row for each device, those with the most bytes first.
pub(super) fn overview(found: &Findings, name: &dyn Fn(&DeviceFigures) -> String) -> Sheet {
    let mut table =
        Sheet::new(1, ["device", "I/Os", "data", "reads", "mean", "p99", "in device", "busy"]);
    let mut devices: Vec<&DeviceFigures> = found.devices.iter().collect();
    devices.sort_by_key(|device| core::cmp::Reverse(bytes(device)));
    for device in devices {
        let ios = if device.counts.are_arrivals() {
            device.counts.queued
        } else {
            device.counts.completed
        };
        let whole = &device.phases[Phase::Whole as usize];
        let [mean, p99, _] = &latencies(whole, &[990])[..] else { continue };
        let (inside, span) = (&device.in_device, device.span);
        let known = whole.count() > 0;
        let figure = |told: String| if known { told } else { units::NONE.to_owned() };
        table.row(vec![
            name(device),
            sum(ios).to_string(),
            units::size(bytes(device) as f64),
            units::percent(ratio(ios[0], sum(ios))),
            mean.clone(),
            p99.clone(),
            figure(format!("{:.2}", inside.mean(span))),
            figure(units::percent(inside.busy().0 as f64 / (span.0 as f64).max(1.0))),
        ]);
    }
    table
}

/// What went through a device, or what was requested if nothing else is known.
fn bytes(device: &DeviceFigures) -> u64 {
    let counts = &device.counts;
    sum(if counts.are_arrivals() { counts.queued_bytes } else { counts.completed_bytes })
}

/// The trace's totals.
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
    let phases = phases(device);
    if !phases.is_empty() {
        text.push_str(&phases.text());
        text.push('\n');
    }
    for line in use_lines(device) {
        text.push_str(&format!(" {line}\n"));
    }
    if tells_processes(device) {
        text.push('\n');
        text.push_str(&processes(device).text());
    }
    text
}

/// What went to the device and came back.
pub(super) fn transfer(device: &DeviceFigures) -> Sheet {
    let mut table = Sheet::new(
        1,
        [
            "",
            "asked",
            "merged",
            "issued",
            "done",
            "data",
            "bandwidth",
            "IOPS",
            "each",
            "mean",
            "p50",
            "p99",
            "max",
        ],
    );
    let counts = &device.counts;
    for (place, direction) in ["read", "write"].into_iter().enumerate() {
        if counts.queued[place] + counts.issued[place] + counts.completed[place] == 0 {
            continue;
        }
        let (done, bytes) = if counts.are_arrivals() {
            (counts.queued[place], counts.queued_bytes[place])
        } else {
            (counts.completed[place], counts.completed_bytes[place])
        };
        let (issued, sent) = if counts.are_arrivals() {
            (counts.queued[place], counts.queued_bytes[place])
        } else {
            (counts.issued[place], counts.issued_bytes[place])
        };
        let whole = match device.whole[place].count() {
            0 => &device.device[place],
            _ => &device.whole[place],
        };
        let mut row = vec![
            direction.to_owned(),
            counts.queued[place].to_string(),
            counts.merged[place].to_string(),
            counts.issued[place].to_string(),
            counts.completed[place].to_string(),
            units::size(bytes as f64),
            units::bandwidth(per_second(bytes, device.span)),
            units::rate(per_second(done, device.span)),
            units::size(ratio(sent, issued)),
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
        ["phase", "", "count", "mean", "p50", "p90", "p99", "p99.9", "max", "of Q2C"],
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
            whole => units::percent(histogram.sum() as f64 / whole as f64),
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

/// Merges, seeks, depths, the device's time: one line each.
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
    if counts.are_arrivals() {
        lines
            .push("The trace has arrivals only: rates are those of what was asked for.".to_owned());
        return lines;
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
        (device.lost, "lost", "I/Os, too many being under way; they are not in the phases"),
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

/// Whether the trace knows processes: most formats do not.
pub(super) fn tells_processes(device: &DeviceFigures) -> bool {
    !matches!(&device.processes[..], [only] if only.pid == 0)
}

/// A sheet of what each process got.
pub(super) fn processes(device: &DeviceFigures) -> Sheet {
    let mut table = Sheet::new(
        2,
        [
            "pid",
            "process",
            "I/Os",
            "data",
            "bandwidth",
            "mean",
            "p99",
            "max",
            "waited",
            "device time",
            "of it",
        ],
    );
    let (shown, others) = device.processes.split_at(device.processes.len().min(SHOWN));
    for process in shown {
        let mut row = vec![process.pid.to_string(), printable(&process.name)];
        row.extend(cells(process, device));
        table.row(row);
    }
    if !others.is_empty() {
        let time: u64 = others.iter().map(|process| process.device_time.0).sum();
        let amounts = others.iter().map(|other| amount(other, device));
        let (done, bytes) = amounts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let share: f64 = others.iter().map(|process| process.share).sum();
        let most = others.iter().map(|process| process.whole.most()).max().unwrap_or_default();
        table.row(vec![
            String::new(),
            format!("{} others", others.len()),
            done.to_string(),
            units::size(bytes as f64),
            units::bandwidth(per_second(bytes, device.span)),
            String::new(),
            String::new(),
            units::span(most),
            String::new(),
            units::time(time as f64),
            units::percent(share),
        ]);
    }
    table
}

fn cells(process: &ProcessFigures, device: &DeviceFigures) -> [String; 9] {
    let (ios, bytes) = amount(process, device);
    let [mean, p99, max] = match &latencies(&process.whole, &[990])[..] {
        [mean, p99, max] => [mean.clone(), p99.clone(), max.clone()],
        _ => Default::default(),
    };
    let waited = match process.waited.count() {
        0 => units::NONE.to_owned(),
        _ => units::span(process.waited.mean()),
    };
    [
        ios.to_string(),
        units::size(bytes as f64),
        units::bandwidth(per_second(bytes, device.span)),
        mean,
        p99,
        max,
        waited,
        units::span(process.device_time),
        units::percent(process.share),
    ]
}

/// I/Os and bytes that a process got, or that it requested if nothing else is known.
fn amount(process: &ProcessFigures, device: &DeviceFigures) -> (u64, u64) {
    if device.counts.are_arrivals() {
        (process.queued, process.asked_bytes)
    } else {
        (process.done, process.read_bytes + process.write_bytes)
    }
}

/// Mean, percentiles in permille, maximum.
fn latencies(histogram: &CoarseHistogram, permilles: &[u64]) -> Vec<String> {
    if histogram.count() == 0 {
        return vec!["-".to_owned(); permilles.len() + 2];
    }
    let mut all = vec![units::span(histogram.mean())];
    all.extend(permilles.iter().map(|permille| units::span(histogram.permille(*permille))));
    all.push(units::span(histogram.most()));
    all
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

fn per_second(amount: u64, span: Nanos) -> f64 {
    amount as f64 / seconds(span)
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn sum(both: [u64; 2]) -> u64 {
    both[0] + both[1]
}

/// A name of unknown bytes in printable form.
pub(super) fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{b7}' } else { c }).collect()
}
