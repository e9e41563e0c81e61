// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows: what a tenant or a connection got between two snapshots.
//!
//! Share is of the device time that all tenants got in that time, so that shares add up to 100 %
//! whenever any got something. A process without a tenant (FUSE, without a rule and cgroups) has a
//! row next to the tenants'. A restarted server has smaller counters: what came before is forgotten
//! then.

use paternoster_serve::control::snapshot::{ConnectionLine, Figures, Snapshot, TenantLine};

use super::due::{Claim, due};
use crate::ctl::units::{Bound, harmless, mean, p99};

/// A line of figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Row {
    pub(super) name: String,
    /// Fraction of all tenants' device time, 0 to 1.
    pub(super) share: f64,
    /// The part that it is entitled to, for a tenant.
    pub(super) entitled: Option<f64>,
    pub(super) bytes_per_second: f64,
    pub(super) reads_per_second: f64,
    pub(super) writes_per_second: f64,
    /// Nanoseconds, if anything was answered.
    pub(super) mean: Option<f64>,
    pub(super) p99: Option<Bound>,
    /// Requests taken and not answered.
    pub(super) open: u64,
}

/// What rows are sorted by, in the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Column {
    Name,
    #[default]
    Share,
    Entitled,
    Bytes,
    Reads,
    Writes,
    Mean,
    P99,
    Open,
}

impl Column {
    pub(super) const ALL: [Column; 9] = [
        Column::Name,
        Column::Share,
        Column::Entitled,
        Column::Bytes,
        Column::Reads,
        Column::Writes,
        Column::Mean,
        Column::P99,
        Column::Open,
    ];

    /// This many columns to the right, wrapping around.
    pub(super) fn step(self, right: bool) -> Column {
        let all = Column::ALL;
        let place = all.iter().position(|column| *column == self).unwrap_or(0);
        let step = if right { 1 } else { all.len() - 1 };
        all[(place + step) % all.len()]
    }

    /// Larger values come first.
    const fn key(self, row: &Row) -> f64 {
        match self {
            Column::Name => 0.0,
            Column::Share => row.share,
            Column::Entitled => match row.entitled {
                Some(part) => part,
                None => -1.0,
            },
            Column::Bytes => row.bytes_per_second,
            Column::Reads => row.reads_per_second,
            Column::Writes => row.writes_per_second,
            Column::Mean => match row.mean {
                Some(nanos) => nanos,
                None => -1.0,
            },
            Column::P99 => match row.p99 {
                Some(bound) => bound.nanos(),
                None => -1.0,
            },
            Column::Open => row.open as f64,
        }
    }
}

/// A tenant's row and those of its connections; or a process without a tenant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tenant {
    pub(super) row: Row,
    pub(super) connections: Vec<Row>,
}

/// What one device did between two snapshots.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Interval {
    /// Fraction of the time that the device was busy, 0 to 1.
    pub(super) busy: f64,
    pub(super) requests_per_second: f64,
    pub(super) bytes_per_second: f64,
    /// Sorted.
    pub(super) tenants: Vec<Tenant>,
}

/// Compares two snapshots of a device.
pub(super) fn interval(before: &Snapshot, after: &Snapshot, sort: Column) -> Interval {
    let nothing = Snapshot::default();
    let before = if before.now_ns > after.now_ns { &nothing } else { before };
    let passed = after.now_ns - before.now_ns;
    let part = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let lines: Vec<(&TenantLine, Figures)> = after
        .tenants
        .iter()
        .filter(|line| !line.is_group)
        .map(|line| {
            let same = |other: &&TenantLine| other.name == line.name && !other.is_group;
            let then = before.tenants.iter().find(same).map(|line| &line.figures);
            (line, difference(then, &line.figures))
        })
        .collect();
    let lone: Vec<(&ConnectionLine, Figures)> = after
        .connections
        .iter()
        .filter(|line| line.tenant.is_empty())
        .map(|line| (line, since(before, line)))
        .collect();
    let served = lines.iter().map(|(_, f)| f).chain(lone.iter().map(|(_, f)| f));
    let all = served.fold(0_u64, |sum, f| sum.saturating_add(f.served_ns));
    let tenant = |(line, figures): &(&TenantLine, Figures)| {
        let own = || after.connections.iter().filter(|one| one.tenant == line.name);
        let mut connections: Vec<Row> =
            own().map(|one| connection(before, one, passed, all)).collect();
        order(&mut connections, sort, |row| row);
        let name = match &*line.parent {
            "" => harmless(&line.name),
            parent => format!("{}/{}", harmless(parent), harmless(&line.name)),
        };
        let open = own().map(|one| u64::from(one.under_way)).sum();
        Tenant { row: row(name, figures, passed, all, open), connections }
    };
    let alone = |(line, figures): &(&ConnectionLine, Figures)| {
        let row = row(harmless(&line.peer), figures, passed, all, line.under_way.into());
        Tenant { row, connections: Vec::new() }
    };
    let mut tenants: Vec<Tenant> = lines.iter().map(tenant).chain(lone.iter().map(alone)).collect();
    let whose = lines.iter().map(|(line, _)| Some(*line)).chain(lone.iter().map(|_| None));
    let claims = whose.zip(&tenants).map(|(line, Tenant { row, .. })| Claim {
        line,
        share: row.share,
        wants_more: row.open > 0,
    });
    let claims: Vec<Claim<'_>> = claims.collect();
    for ((part, claim), tenant) in due(after, &claims).into_iter().zip(&claims).zip(&mut tenants) {
        tenant.row.entitled = claim.line.map(|_| part);
    }
    order(&mut tenants, sort, |tenant| &tenant.row);
    let sum =
        |value: fn(&Row) -> f64| tenants.iter().fold(0.0, |sum, tenant| sum + value(&tenant.row));
    Interval {
        busy: part(after.busy_ns.saturating_sub(before.busy_ns), passed).min(1.0),
        requests_per_second: sum(|row| row.reads_per_second + row.writes_per_second),
        bytes_per_second: sum(|row| row.bytes_per_second),
        tenants,
    }
}

fn connection(before: &Snapshot, line: &ConnectionLine, passed: u64, all: u64) -> Row {
    let figures = since(before, line);
    let name = format!("#{} {} {}", line.id, harmless(&line.volume), harmless(&line.peer));
    row(name, &figures, passed, all, u64::from(line.under_way))
}

/// What a connection got since the snapshot before.
fn since(before: &Snapshot, line: &ConnectionLine) -> Figures {
    let then = before.connections.iter().find(|other| other.id == line.id);
    difference(then.map(|line| &line.figures), &line.figures)
}

fn row(name: String, f: &Figures, passed: u64, all: u64, open: u64) -> Row {
    let rate = |count: u64| if passed == 0 { 0.0 } else { count as f64 * 1e9 / passed as f64 };
    Row {
        name,
        share: if all == 0 { 0.0 } else { f.served_ns as f64 / all as f64 },
        entitled: None,
        bytes_per_second: rate(f.read_bytes.saturating_add(f.write_bytes)),
        reads_per_second: rate(f.reads),
        writes_per_second: rate(f.writes),
        mean: mean(f),
        p99: p99(f),
        open,
    }
}

/// The largest first; by name where figures are equal.
fn order<T>(all: &mut [T], sort: Column, row: impl Fn(&T) -> &Row) {
    all.sort_by(|one, other| {
        let (one, other) = (row(one), row(other));
        sort.key(other).total_cmp(&sort.key(one)).then_with(|| one.name.cmp(&other.name))
    });
}

/// What was added since; everything if the line is new.
fn difference(before: Option<&Figures>, after: &Figures) -> Figures {
    let Some(before) = before else { return after.clone() };
    let buckets = after.latency_log2_us.iter().enumerate();
    let bucket = |(place, count): (usize, &u64)| {
        count.saturating_sub(before.latency_log2_us.get(place).copied().unwrap_or(0))
    };
    Figures {
        reads: after.reads.saturating_sub(before.reads),
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        writes: after.writes.saturating_sub(before.writes),
        write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
        flushes: after.flushes.saturating_sub(before.flushes),
        errors: after.errors.saturating_sub(before.errors),
        served_ns: after.served_ns.saturating_sub(before.served_ns),
        latency_ns: after.latency_ns.saturating_sub(before.latency_ns),
        latency_log2_us: buckets.map(bucket).collect(),
    }
}
