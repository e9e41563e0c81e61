// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency in text: the lines which both forms of the normal report share.
//!
//! A latency is kept in nanoseconds and printed in the unit that leaves few digits. fio takes a
//! larger unit when even the least value has four digits in the smaller one and the greatest has
//! more than five; the deviation must be large, too, or the mean would lose what is of interest.
//!
//! ```text
//!     clat (usec): min=40, max=4448, avg=68.04, stdev=166.26
//!     clat percentiles (usec):
//!      |  1.00th=[   43],  5.00th=[   45], 10.00th=[   46], 20.00th=[   47],
//!   lat (usec)   : 50=38.08%, 100=59.77%, 250=1.30%, 500=0.25%, 750=0.10%
//! ```
//!
//! Source: FIO-113, FIO-114.

use std::fmt::Write;

use crate::statistics::{Histogram, Latency, LatencyDistribution};

use super::number::{Base, abbreviate};

/// Shares of the latency distribution on one line.
const SHARES_PER_LINE: usize = 5;
/// Columns for the percentiles of one line.
const PERCENTILE_COLUMNS: usize = 73;

/// A unit of time in which a line is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) ns: u64,
}

const NSEC: Unit = Unit { name: "nsec", ns: 1 };
const USEC: Unit = Unit { name: "usec", ns: 1_000 };
const MSEC: Unit = Unit { name: "msec", ns: 1_000_000 };

impl Unit {
    /// The unit for values between `min` and `max` ns with deviation `stdev` ns.
    pub(super) fn of(min: u64, max: u64, stdev: f64) -> Unit {
        match () {
            () if min > 2_000_000 && max > 99_999_999 && stdev > 1_000_000.0 => MSEC,
            () if min > 2_000 && max > 99_999 && stdev > 1_000.0 => USEC,
            () => NSEC,
        }
    }
}

/// A line of moments: `    clat (usec): min=40, max=4448, avg=68.04, stdev=166.26`; `label` has
/// its blanks in front.
pub(super) fn latency_line(out: &mut String, label: &str, latency: &Latency, unit: Unit) {
    if latency.n() == 0 {
        return;
    }
    let scaled = |ns: u64| abbreviate(ns / unit.ns, 6, Base::Si);
    let _ = writeln!(
        out,
        "{label} ({}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        unit.name,
        scaled(latency.min().0),
        scaled(latency.max().0),
        latency.mean() / unit.ns as f64,
        latency.stdev() / unit.ns as f64,
    );
}

/// The same in the unit that fits.
pub(super) fn fitted_latency_line(out: &mut String, label: &str, latency: &Latency) {
    let unit = Unit::of(latency.min().0, latency.max().0, latency.stdev());
    latency_line(out, label, latency, unit);
}

/// The block of percentiles: a head line and as many lines as they need.
pub(super) fn percentile_lines(
    out: &mut String,
    label: &str,
    histogram: &Histogram,
    percentiles: &[f64],
) {
    if percentiles.is_empty() || histogram.total() == 0 {
        return;
    }
    let values: Vec<u64> = percentiles.iter().map(|p| histogram.percentile(*p)).collect();
    let least = values.iter().min().copied().unwrap_or(0);
    let greatest = values.iter().max().copied().unwrap_or(0);
    let unit = Unit::of(least, greatest, f64::INFINITY);

    let decimals = decimals_of(percentiles);
    let width = greatest.div_ceil(unit.ns).to_string().len().max(5);
    let per_line = (PERCENTILE_COLUMNS / (decimals + 10 + width)).max(1);
    let percent_width = if decimals == 0 { 2 } else { decimals + 3 };
    let cells: Vec<String> = percentiles
        .iter()
        .zip(&values)
        .map(|(p, ns)| {
            let value = ns.div_ceil(unit.ns);
            format!(" {p:percent_width$.decimals$}th=[{value:width$}]")
        })
        .collect();
    let _ = writeln!(out, "    {label} percentiles ({}):", unit.name);
    let lines: Vec<String> = cells.chunks(per_line).map(|line| line.join(",")).collect();
    let _ = writeln!(out, "     |{}", lines.join(",\n     |"));
}

/// The decimals that distinguish the percentiles: 1 for 50, 99, 99.9; six at most.
fn decimals_of(percentiles: &[f64]) -> usize {
    let needed = |p: &f64| {
        let text = format!("{p:.6}");
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        fraction.trim_end_matches('0').len()
    };
    percentiles.iter().map(needed).max().unwrap_or(0)
}

/// The lines of the latency distribution; `label` makes the head of a line from the unit's name.
pub(super) fn distribution_lines(
    out: &mut String,
    label: impl Fn(&str) -> String,
    distribution: &LatencyDistribution,
    total: u64,
) {
    let scales: [(&str, Vec<(&str, f64)>); 3] = [
        ("nsec", distribution.nanoseconds(total).collect()),
        ("usec", distribution.microseconds(total).collect()),
        ("msec", distribution.milliseconds(total).collect()),
    ];
    for (unit, shares) in scales {
        let filled: Vec<String> = shares
            .iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(step, share)| format!("{step}={share:.2}%"))
            .collect();
        for line in filled.chunks(SHARES_PER_LINE) {
            let _ = writeln!(out, "{}: {}", label(unit), line.join(", "));
        }
    }
}

/// `name=share` for each of a depth's or batch's steps.
pub(super) fn share_list<'a>(shares: impl Iterator<Item = (&'a str, f64)>) -> String {
    shares.map(|(name, share)| format!("{name}={share:.1}%")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::Nanos;

    /// Does each unit begin where FIO-113 says? The least value, the greatest and the deviation
    /// must all be above their edges.
    #[test]
    fn units_begin_at_their_edges() {
        assert_eq!(Unit::of(2_001, 100_000, 1_000.1), USEC);
        assert_eq!(Unit::of(2_000, 100_000, 5_000.0), NSEC);
        assert_eq!(Unit::of(2_001, 99_999, 5_000.0), NSEC);
        assert_eq!(Unit::of(2_001, 100_000, 1_000.0), NSEC);
        assert_eq!(Unit::of(2_000_001, 100_000_000, 1_000_000.1), MSEC);
        assert_eq!(Unit::of(2_000_000, 100_000_000, 1_000_000.1), USEC);
    }

    /// Do few percentiles print as in `mix.normal.txt`? One decimal, values of six digits:
    /// 73 / (1 + 10 + 6) = 4 on a line, so all three on one.
    #[test]
    fn own_percentiles_print_on_one_line() {
        let mut histogram = Histogram::new();
        histogram.record_many(Nanos(1208), 880);
        histogram.record_many(Nanos(4256), 20);
        histogram.record_many(Nanos(246_784), 1);
        let mut out = String::new();
        percentile_lines(&mut out, "clat", &histogram, &[50.0, 99.0, 99.9]);
        let wanted = "    clat percentiles (nsec):\n     \
            | 50.0th=[  1208], 99.0th=[  4256], 99.9th=[246784]\n";
        assert_eq!(out, wanted);
    }
}
