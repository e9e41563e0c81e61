// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics: snapshots as the text that monitors read.
//!
//! ```text
//! # HELP paternoster_requests Requests answered.
//! # TYPE paternoster_requests counter                                ┐ a family
//! paternoster_requests_total{device="disk0",tenant="db",op="read"} 7 ┘
//! ```
//!
//! Two dialects differ in little: OpenMetrics 1.0 names a counter's family without `_total`, tells
//! units, and ends with `# EOF`; the older Prometheus text names families as their samples.
//! Numbers are whole, or decimals made of whole nanoseconds: no rounding.
//!
//! A bucket of latencies holds those below a power of two of microseconds, while `le` means "at
//! most": a request of exactly 1.024 ms is counted one bucket higher than `le` says.
//!
//! Invariants: I1 all samples of a family are together; I2 the last bucket is the count; I3 names
//! from outside are escaped and quoted. Source: OpenMetrics 1.0, exposition formats.

use std::fmt::{Display, Write as _};

use super::snapshot::{Figures, Snapshot, TenantLine};

/// Text format of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Dialect {
    /// The HTTP content type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Dialect::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Dialect::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The text for these devices; those without a snapshot did not answer.
#[must_use]
pub fn exposition(devices: &[(String, Option<Snapshot>)], dialect: Dialect) -> String {
    let mut page = Page { text: String::new(), dialect, sample: String::new() };
    page.family(Kind::Gauge, "up", "", "Whether the device's thread answers.");
    for (name, snapshot) in devices {
        page.sample(&[("device", name)], u8::from(snapshot.is_some()));
    }
    page.family(Kind::Info, "build", "", "The program.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let snapshots: Vec<&Snapshot> =
        devices.iter().filter_map(|(_, known)| known.as_ref()).collect();
    of_devices(&mut page, &snapshots);
    of_volumes(&mut page, &snapshots);
    of_groups(&mut page, &snapshots);
    of_tenants(&mut page, &snapshots);
    if dialect == Dialect::OpenMetrics {
        page.text.push_str("# EOF\n");
    }
    page.text
}

fn of_devices(page: &mut Page, snapshots: &[&Snapshot]) {
    page.family(Kind::Info, "device", "", "What the device is.");
    for s in snapshots {
        let labels = [("device", &*s.device), ("scheduler", &s.scheduler), ("backend", &s.backend)];
        page.sample(&labels, 1);
    }
    let mut each = |kind, name, unit, help, value: &dyn Fn(&Snapshot) -> String| {
        page.family(kind, name, unit, help);
        for s in snapshots {
            page.sample(&[("device", &*s.device)], value(s));
        }
    };
    use Kind::{Counter, Gauge};
    each(Gauge, "device_uptime_seconds", "seconds", "Since it was opened.", &|s| seconds(s.now_ns));
    let help = "Time during which at least one command was in the device.";
    each(Counter, "device_busy_seconds", "seconds", help, &|s| seconds(s.busy_ns));
    let help = "Commands that the device takes at a time.";
    each(Gauge, "device_depth", "", help, &|s| s.depth.to_string());
    each(Gauge, "device_commands", "", "Commands in the device.", &|s| s.in_device.to_string());
    let help = "Requests that wait in the queue.";
    each(Gauge, "device_waiting", "", help, &|s| s.waiting.to_string());
    let help = "Memory for data under way.";
    each(Gauge, "device_memory_bytes", "bytes", help, &|s| s.memory.to_string());
    let help = "Memory in use for data under way.";
    each(Gauge, "device_memory_used_bytes", "bytes", help, &|s| s.memory_used.to_string());
    let help = "Present connections.";
    each(Gauge, "device_connections", "", help, &|s| s.connections.len().to_string());
    let help = "Schedulers that broke a law and were replaced.";
    let failures = |s: &Snapshot| s.scheduler_failures.to_string();
    each(Counter, "device_scheduler_failures", "", help, &failures);
    let help = "Whether a trace is being written.";
    each(Gauge, "device_tracing", "", help, &|s| u8::from(s.tracing).to_string());
    let help = "How long the oldest command is in the device.";
    let oldest = |s: &Snapshot| seconds(s.oldest_command_ns);
    each(Gauge, "device_oldest_command_seconds", "seconds", help, &oldest);
    let help = "Whether a flush failed: data that were acknowledged may be lost.";
    each(Gauge, "device_data_lost", "", help, &|s| u8::from(s.lost).to_string());
    each(Gauge, "device_stopping", "", "Whether the server stops.", &|s| {
        u8::from(s.stopping).to_string()
    });
    page.family(Counter, "device_errors", "", "Commands that the device failed.");
    for s in snapshots {
        for (errno, count) in &s.errors {
            page.sample(&[("device", &*s.device), ("errno", &errno.to_string())], count);
        }
    }
}

fn of_volumes(page: &mut Page, snapshots: &[&Snapshot]) {
    let lines =
        || snapshots.iter().flat_map(|s| s.volumes.iter().map(|volume| (&s.device, volume)));
    page.family(Kind::Gauge, "volume_size_bytes", "bytes", "Size of the volume.");
    for (device, volume) in lines() {
        page.sample(&[("device", device), ("volume", &volume.name)], volume.size);
    }
    page.family(Kind::Gauge, "volume_drained", "", "Whether it takes no requests now.");
    for (device, volume) in lines() {
        page.sample(&[("device", device), ("volume", &volume.name)], u8::from(volume.drained));
    }
}

/// A gauge of tenants or groups: name, help, value.
type LineGauge = (&'static str, &'static str, fn(&TenantLine) -> u32);

fn of_groups(page: &mut Page, snapshots: &[&Snapshot]) {
    let weights: [LineGauge; 2] = [
        ("group_weight", "Weight as configured or ordered.", |line| line.weight),
        ("group_effective_weight", "Weight that the scheduler goes by.", |l| l.effective_weight),
    ];
    for (name, help, value) in weights {
        page.family(Kind::Gauge, name, "", help);
        for (device, line) in lines(snapshots, true) {
            page.sample(&[("device", device), ("group", &line.name)], value(line));
        }
    }
}

fn of_tenants(page: &mut Page, snapshots: &[&Snapshot]) {
    let gauges: [LineGauge; 3] = [
        ("tenant_weight", "Weight as configured or ordered.", |line| line.weight),
        ("tenant_effective_weight", "Weight that the scheduler goes by.", |l| l.effective_weight),
        ("tenant_connections", "Present connections.", |line| line.connections),
    ];
    for (name, help, value) in gauges {
        page.family(Kind::Gauge, name, "", help);
        for (device, line) in lines(snapshots, false) {
            page.sample(&tenant(device, line), value(line));
        }
    }
    page.family(Kind::Counter, "requests", "", "Requests answered.");
    for ([device, whose], figures) in accounts(snapshots) {
        let Figures { reads, writes, flushes, .. } = figures;
        for (op, count) in [("read", reads), ("write", writes), ("flush", flushes)] {
            page.sample(&[device, whose, ("op", op)], count);
        }
    }
    page.family(Kind::Counter, "transferred_bytes", "bytes", "Bytes of requests answered.");
    for ([device, whose], figures) in accounts(snapshots) {
        let Figures { read_bytes, write_bytes, .. } = figures;
        for (op, bytes) in [("read", read_bytes), ("write", write_bytes)] {
            page.sample(&[device, whose, ("op", op)], bytes);
        }
    }
    page.family(Kind::Counter, "errors", "", "Requests answered with an error.");
    for (labels, figures) in accounts(snapshots) {
        page.sample(&labels, figures.errors);
    }
    page.family(Kind::Counter, "device_time_seconds", "seconds", "Device time that it was given.");
    for (labels, figures) in accounts(snapshots) {
        page.sample(&labels, seconds(figures.served_ns));
    }
    let help = "From a request's arrival to its answer.";
    page.family(Kind::Histogram, "latency_seconds", "seconds", help);
    for (labels, figures) in accounts(snapshots) {
        page.histogram(&labels, figures);
    }
}

/// The figures of all tenants with their labels, departed ones included. Those that are no longer
/// kept by name are summed by volume: sums over all never go backwards.
fn accounts<'a>(
    snapshots: &'a [&'a Snapshot],
) -> impl Iterator<Item = ([(&'a str, &'a str); 2], &'a Figures)> {
    snapshots.iter().flat_map(|s| {
        let present = s.tenants.iter().filter(|line| !line.is_group);
        let named = present.chain(&s.departed).map(|line| (tenant(&s.device, line), &line.figures));
        let labels = |volume: &'a str| [("device", &*s.device), ("volume", volume)];
        let earlier = s.earlier.iter().map(move |line| (labels(&line.volume), &line.figures));
        named.chain(earlier)
    })
}

fn tenant<'a>(device: &'a str, line: &'a TenantLine) -> [(&'a str, &'a str); 2] {
    [("device", device), ("tenant", &line.name)]
}

/// Groups, or tenants, each with its device.
fn lines<'a>(
    snapshots: &'a [&'a Snapshot],
    groups: bool,
) -> impl Iterator<Item = (&'a str, &'a TenantLine)> {
    let of = move |s: &'a &Snapshot| s.tenants.iter().map(|line| (&*s.device, line));
    snapshots.iter().flat_map(of).filter(move |(_, line)| line.is_group == groups)
}

/// Nanoseconds as seconds, exactly: 1,500,000,000 is `1.5`.
fn seconds(nanos: u64) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

impl Kind {
    /// The suffix that a sample's name has after its family's name.
    const fn suffix(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        }
    }

    const fn name(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Kind::Counter, _) => "counter",
            (Kind::Histogram, _) => "histogram",
            (Kind::Info, Dialect::OpenMetrics) => "info",
            (Kind::Info, Dialect::Prometheus) | (Kind::Gauge, _) => "gauge",
        }
    }
}

struct Page {
    text: String,
    dialect: Dialect,
    /// The metric whose samples are being written.
    sample: String,
}

impl Page {
    fn family(&mut self, kind: Kind, name: &str, unit: &str, help: &str) {
        self.sample = format!("paternoster_{name}{}", kind.suffix());
        let open = self.dialect == Dialect::OpenMetrics;
        let family = if open { format!("paternoster_{name}") } else { self.sample.clone() };
        let kind = kind.name(self.dialect);
        let _ = write!(self.text, "# HELP {family} {help}\n# TYPE {family} {kind}\n");
        if open && !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, &value);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: &dyn Display) {
        let _ = write!(self.text, "{}{suffix}{{", self.sample);
        for (place, (name, text)) in labels.iter().enumerate() {
            let between = if place == 0 { "" } else { "," };
            let _ = write!(self.text, "{between}{name}=\"{}\"", Escaped(text));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    fn histogram(&mut self, labels: &[(&str, &str); 2], figures: &Figures) {
        let mut count = 0;
        let buckets = &figures.latency_log2_us;
        let bounded = buckets.len().saturating_sub(1).min(44);
        for (place, bucket) in buckets[..bounded].iter().enumerate() {
            count += bucket;
            let most = seconds(1000 << place);
            self.line("_bucket", &[labels[0], labels[1], ("le", &most)], &count);
        }
        count += buckets[bounded..].iter().sum::<u64>();
        self.line("_bucket", &[labels[0], labels[1], ("le", "+Inf")], &count);
        self.line("_sum", labels, &seconds(figures.latency_ns));
        self.line("_count", labels, &count);
    }
}

/// A label's value between its quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
