// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables: the additional ones of `-A`: intervals per process and per device, and how long bios
//! took from Q to D.
//!
//! Source: BTT-26.

use std::io::{self, Write};

use super::figures::Figures;
use super::histograms::QueueTimes;
use super::intervals::{Interval, Intervals};
use super::options::Options;
use super::report::{heading, interval_head, interval_line, row};

/// Characters of a process's name.
const NAME_MAX: usize = 14;

/// Intervals per process.
pub(super) fn per_process(figures: &Figures, text: &mut impl Write) -> io::Result<()> {
    heading("Per Process", text)?;
    let rows = figures.processes.iter().map(|process| {
        let name: String = process.name.chars().take(NAME_MAX).collect();
        (name, process.intervals)
    });
    tables(&rows.collect::<Vec<_>>(), text)
}

/// Intervals per device.
pub(super) fn per_device(
    figures: &Figures,
    options: &Options,
    text: &mut impl Write,
) -> io::Result<()> {
    heading("Per Device", text)?;
    let rows = figures.devices.iter().map(|device| (row(device, options), device.intervals));
    tables(&rows.collect::<Vec<_>>(), text)
}

fn tables(rows: &[(String, Intervals)], text: &mut impl Write) -> io::Result<()> {
    for (at, interval) in Interval::ALL.into_iter().enumerate() {
        if at == Interval::REMAPPER {
            writeln!(text)?;
        }
        if interval == Interval::M2D {
            continue;
        }
        interval_head(interval.name(), text)?;
        for (name, intervals) in rows {
            interval_line(name, intervals, interval, text)?;
        }
        writeln!(text)?;
    }
    Ok(())
}

/// How long bios took from Q to D, per device.
pub(super) fn queue_times(
    figures: &Figures,
    options: &Options,
    text: &mut impl Write,
) -> io::Result<()> {
    const RULE: &str = "===== ===== ===== ===== ===== ===== ===== ===== ===== =====";
    heading("Q2D Histogram", text)?;
    writeln!(text, "       DEV | <.005 <.010 <.025 <.050 <.075 <.100 <.250 <.500 < 1.0 >=1.0")?;
    writeln!(text, " --------- | {RULE} ")?;
    let mut all = QueueTimes::default();
    for device in &figures.devices {
        all.extend(&device.queue_times);
        if let Some(percent) = device.queue_times.percent() {
            times_line(&row(device, options), &percent, text)?;
        }
    }
    if let Some(percent) = all.percent() {
        writeln!(text, "========== | {RULE} ")?;
        times_line("AVG", &percent, text)?;
        writeln!(text)?;
    }
    Ok(())
}

fn times_line(name: &str, percent: &[f64], text: &mut impl Write) -> io::Result<()> {
    write!(text, "{name:>10} | ")?;
    for share in percent {
        write!(text, "{share:5.1} ")?;
    }
    writeln!(text)
}
