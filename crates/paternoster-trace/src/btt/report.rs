// SPDX-License-Identifier: MIT OR Apache-2.0
//! Report: the tables that btt prints, from the figures.
//!
//! Source: BTT-8 to BTT-23.

use std::io::{self, Write};

use super::figures::{DeviceFigures, Figures, MergeFigures, Overhead};
use super::intervals::{Interval, Intervals};
use super::numbers::Number;
use super::options::Options;
use super::plugs::ratio;
use super::seeks::SeekFigures;
use super::tables;
use super::times::seconds;

/// The whole report.
pub(super) fn write(figures: &Figures, options: &Options, text: &mut impl Write) -> io::Result<()> {
    if options.all {
        tables::per_process(figures, text)?;
        tables::per_device(figures, options, text)?;
    }
    all_devices(&figures.intervals, text)?;
    overheads(figures, options, text)?;
    merges(figures, options, text)?;
    seeks("Q2Q", figures, options, (&figures.queue_seeks, |one| &one.queue_seeks), text)?;
    seeks("D2D", figures, options, (&figures.device_seeks, |one| &one.device_seeks), text)?;
    plugs(figures, options, text)?;
    waiting(figures, options, text)?;
    active(figures, options, text)?;
    if options.all {
        tables::queue_times(figures, options, text)?;
    }
    Ok(())
}

/// The heading of a section.
pub(super) fn heading(name: &str, text: &mut impl Write) -> io::Result<()> {
    writeln!(text, "==================== {name} ====================\n")
}

/// What tables call a device.
pub(super) fn row(device: &DeviceFigures, options: &Options) -> String {
    options.row(device.device)
}

/// A line of a table of intervals.
pub(super) fn interval_line(
    name: &str,
    intervals: &Intervals,
    interval: Interval,
    text: &mut impl Write,
) -> io::Result<()> {
    let spread = &intervals[interval];
    if spread.count == 0 {
        return Ok(());
    }
    let (min, max, average) = (seconds(spread.min), seconds(spread.max), spread.average());
    writeln!(text, "{name:<15} {min:13.9} {average:13.9} {max:13.9} {:11}", spread.count)
}

/// The head of a table of intervals.
pub(super) fn interval_head(name: &str, text: &mut impl Write) -> io::Result<()> {
    writeln!(text, "{name:>15} {:>13} {:>13} {:>13} {:>11}", "MIN", "AVG", "MAX", "N")?;
    writeln!(text, "--------------- ------------- ------------- ------------- -----------")
}

fn all_devices(intervals: &Intervals, text: &mut impl Write) -> io::Result<()> {
    heading("All Devices", text)?;
    interval_head("ALL", text)?;
    for (at, interval) in Interval::ALL.into_iter().enumerate() {
        if at == Interval::REMAPPER {
            writeln!(text)?;
        }
        interval_line(interval.name(), intervals, interval, text)?;
    }
    writeln!(text)
}

fn overheads(figures: &Figures, options: &Options, text: &mut impl Write) -> io::Result<()> {
    const RULE: &str = "---------- | --------- --------- --------- --------- ---------";
    heading("Device Overhead", text)?;
    writeln!(text, "       DEV |       Q2G       G2I       Q2M       I2D       D2C\n{RULE}")?;
    for device in &figures.devices {
        if let Some(overhead) = &device.overhead {
            overhead_line(&row(device, options), overhead, text)?;
        }
    }
    let told = |overhead: &&Overhead| overhead.columns().iter().any(|percent| *percent > 0.0);
    if let Some(overhead) = figures.overhead.as_ref().filter(told) {
        writeln!(text, "{RULE}")?;
        overhead_line("Overall", overhead, text)?;
    }
    writeln!(text)
}

fn overhead_line(name: &str, overhead: &Overhead, text: &mut impl Write) -> io::Result<()> {
    write!(text, "{name:>10} |")?;
    for percent in overhead.columns() {
        write!(text, " {percent:8.4}%")?;
    }
    writeln!(text)
}

fn merges(figures: &Figures, options: &Options, text: &mut impl Write) -> io::Result<()> {
    const HEAD: &str =
        "       DEV |       #Q       #D   Ratio |   BLKmin   BLKavg   BLKmax    Total";
    const RULE: &str =
        "---------- | -------- -------- ------- | -------- -------- -------- --------";
    heading("Device Merge Information", text)?;
    writeln!(text, "{HEAD}\n{RULE}")?;
    let mut told = 0;
    for device in figures.devices.iter().filter(|device| device.merges.is_told()) {
        let merges = &device.merges;
        merge_line(&row(device, options), merges, merges.ratio(), text)?;
        told += 1;
    }
    if told > 1 {
        writeln!(text, "{RULE}\n{HEAD}")?;
        // btt computes this one in single precision.
        let merges = &figures.merges;
        #[expect(clippy::cast_precision_loss, reason = "the rounding is meant")]
        let ratio = f64::from(merges.queued as f32 / merges.issued as f32);
        merge_line("TOTAL", merges, ratio, text)?;
    }
    writeln!(text)
}

fn merge_line(
    name: &str,
    merges: &MergeFigures,
    ratio: f64,
    text: &mut impl Write,
) -> io::Result<()> {
    let (queued, issued) = (merges.queued, merges.issued);
    let (min, average, max, total) = (merges.min, merges.average(), merges.max, merges.total);
    write!(text, "{name:>10} | {queued:8} {issued:8} {ratio:7.1} |")?;
    writeln!(text, " {min:8} {average:8} {max:8} {total:8}")
}

fn seeks(
    kind: &str,
    figures: &Figures,
    options: &Options,
    (overall, of): (&SeekFigures, impl Fn(&DeviceFigures) -> &SeekFigures),
    text: &mut impl Write,
) -> io::Result<()> {
    const RULE: &str =
        "---------- | --------------- --------------- --------------- | ---------------";
    let head = |name: &str| {
        format!("{name:>10} | {:>15} {:>15} {:>15} | {:<15}", "NSEEKS", "MEAN", "MEDIAN", "MODE")
    };
    heading(&format!("Device {kind} Seek Information"), text)?;
    writeln!(text, "{}\n{RULE}", head("DEV"))?;
    for device in figures.devices.iter().filter(|device| of(device).seeks > 0) {
        let seeks = of(device);
        seek_line(&row(device, options), seeks, seeks.mode_ties == 2, text)?;
        if seeks.mode_ties > 2 {
            more(seeks.mode_ties - 1, text)?;
        }
    }
    if overall.seeks > 0 {
        writeln!(text, "{RULE}\n{}", head("Overall"))?;
        seek_line("Average", overall, false, text)?;
        if overall.mode_ties > 1 {
            more(overall.mode_ties - 1, text)?;
            writeln!(text)?;
        }
    }
    writeln!(text)
}

fn seek_line(name: &str, seeks: &SeekFigures, both: bool, text: &mut impl Write) -> io::Result<()> {
    let SeekFigures { seeks, mean, btt_median, modes, mode_count, .. } = seeks;
    let mode = modes.first().copied().unwrap_or(0);
    write!(text, "{name:>10} | {seeks:15} {mean:15.1} {btt_median:15} | {mode}({mode_count})")?;
    if let Some(second) = modes.get(1).filter(|_| both) {
        write!(text, " {second}")?;
    }
    writeln!(text)
}

fn more(count: u64, text: &mut impl Write) -> io::Result<()> {
    writeln!(text, "{:>10}   {:>15} {:>15} {:>15}   ...({count} more)", "", "", "", "")
}

fn plugs(figures: &Figures, options: &Options, text: &mut impl Write) -> io::Result<()> {
    heading("Plug Information", text)?;
    writeln!(text, "       DEV |    # Plugs # Timer Us  | % Time Q Plugged")?;
    writeln!(text, "---------- | ---------- ----------  | ----------------")?;
    let told = |device: &&DeviceFigures| device.plugs.unplugs + device.plugs.timer_unplugs > 0;
    let plugged: Vec<&DeviceFigures> = figures.devices.iter().filter(told).collect();
    for device in &plugged {
        let plugs = &device.plugs;
        let counts = (plugs.unplugs, plugs.timer_unplugs);
        plug_line(&row(device, options), counts, plugs.percent, text)?;
    }
    if plugged.len() > 1 {
        let count = plugged.len() as u64;
        let unplugs: u64 = plugged.iter().map(|device| device.plugs.unplugs).sum();
        let timer: u64 = plugged.iter().map(|device| device.plugs.timer_unplugs).sum();
        let percent: f64 = plugged.iter().map(|device| device.plugs.percent).sum();
        writeln!(text, "---------- | ---------- ----------  | ----------------")?;
        writeln!(text, "   Overall |    # Plugs # Timer Us  | % Time Q Plugged")?;
        #[expect(clippy::cast_precision_loss, reason = "as many as there are devices")]
        let percent = percent / count as f64;
        plug_line("Average", (unplugs / count, timer / count), percent, text)?;
    }
    unplugs(figures, options, text)
}

fn plug_line(
    name: &str,
    (unplugs, timer): (u64, u64),
    percent: f64,
    text: &mut impl Write,
) -> io::Result<()> {
    writeln!(text, "{name:>10} | {unplugs:10}({timer:10}) | {:13.9}%", Number(percent))
}

fn unplugs(figures: &Figures, options: &Options, text: &mut impl Write) -> io::Result<()> {
    writeln!(text, "\n       DEV |    IOs/Unp   IOs/Unp(to)")?;
    writeln!(text, "---------- | ----------   ----------")?;
    for device in &figures.devices {
        let plugs = &device.plugs;
        let both = (plugs.requests_per_unplug(), plugs.requests_per_timer_unplug());
        unplug_line(&row(device, options), both, text)?;
    }
    let plugs = || figures.devices.iter().map(|device| &device.plugs);
    let own = plugs().map(|one| (one.requests, one.unplugs));
    let timed = plugs().map(|one| (one.timer_requests, one.timer_unplugs));
    let (own, timed) = (mean_of_used(own), mean_of_used(timed));
    if own > 0.0 || timed > 0.0 {
        writeln!(text, "---------- | ----------   ----------")?;
        writeln!(text, "   Overall |    IOs/Unp   IOs/Unp(to)")?;
        unplug_line("Average", (own, timed), text)?;
    }
    writeln!(text)
}

/// The mean over all unplugs of those devices that let any request go.
fn mean_of_used(devices: impl Iterator<Item = (u64, u64)>) -> f64 {
    let used = devices.filter(|(requests, _)| *requests > 0);
    let (requests, unplugs) = used.fold((0_u64, 0_u64), |sum, one| {
        (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1))
    });
    ratio(requests, unplugs)
}

fn unplug_line(name: &str, (own, timed): (f64, f64), text: &mut impl Write) -> io::Result<()> {
    writeln!(text, "{name:>10} | {own:10.1}   {timed:10.1}")
}

fn waiting(figures: &Figures, options: &Options, text: &mut impl Write) -> io::Result<()> {
    heading("Active Requests At Q Information", text)?;
    writeln!(text, "       DEV |  Avg Reqs @ Q\n---------- | -------------")?;
    let (mut told, mut sum, mut arrivals) = (0, 0_u64, 0);
    for device in figures.devices.iter().filter(|device| device.is_waited_for()) {
        writeln!(text, "{:>10} | {:13.1}", row(device, options), device.waiting)?;
        told += 1;
        sum = sum.saturating_add(device.waiting_sum);
        arrivals += device.merges.queued;
    }
    if told > 1 {
        writeln!(text, "---------- | -------------\n   Overall | Avgs Reqs @ Q")?;
        writeln!(text, "{:>10} | {:13.1}", "Average", ratio(sum, arrivals))?;
    }
    writeln!(text)
}

fn active(figures: &Figures, options: &Options, text: &mut impl Write) -> io::Result<()> {
    const RULE: &str = "---------- | ---------- ------------- ------------- ------";
    heading("I/O Active Period Information", text)?;
    writeln!(text, "       DEV |     # Live      Avg. Act     Avg. !Act % Live\n{RULE}")?;
    let rows = figures.devices.iter().map(|device| (row(device, options), device.active));
    for (name, active) in rows.chain([("Total Sys".to_owned(), figures.active)]) {
        if name == "Total Sys" {
            writeln!(text, "{RULE}")?;
        }
        let (live, busy, idle) = (active.live, active.average_active, active.average_idle);
        writeln!(text, "{name:>10} | {live:10} {busy:13.9} {idle:13.9} {:6.2}", active.percent)?;
    }
    writeln!(text)
}
