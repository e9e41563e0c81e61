// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finish: figures from the counts, and all outputs that come at the end.
//!
//! Seek distances are most of the memory. They are turned into figures one device after the other,
//! and of the most frequent ones only two are kept: all that a report prints. Their full list goes
//! to the `.xvg` at once.

use std::io;

use super::analysis::Analysis;
use super::device::{self, Device};
use super::figures::{DeviceFigures, Figures, MergeFigures, OverheadSums, ProcessFigures};
use super::files::{Files, Output, Outputs};
use super::options::Options;
use super::plugs::ratio;
use super::seeks::{SeekFigures, Seeks, together};
use super::times::seconds;
use super::{ranges, report, xvg};

/// Ends an analysis.
pub(super) fn finish<F: Files>(mut analysis: Analysis<F>) -> io::Result<Figures> {
    let (left_out, text) = (analysis.left_out, analysis.text);
    let Analysis { options, outputs, system, devices, processes, iostat, .. } = &mut analysis;
    let several = devices.len() > 1;
    for device in devices.iter_mut() {
        device::close(device, options, outputs);
    }
    system.rates.close(outputs);
    options.select(devices);
    if let Some(iostat) = iostat {
        let loads = devices.iter_mut().map(|one| (options.row(one.number), &mut one.load));
        iostat.finish(loads, outputs);
    }
    write_periods(devices, system.periods.known(), options, outputs);
    let easy = options.output.as_ref().filter(|_| options.easy);
    let easy = easy.map(|name| outputs.make(format!("{name}.xvg")));

    let mut figures = Figures {
        intervals: system.intervals,
        devices: devices.iter().map(device_figures).collect(),
        active: system.periods.figures(),
        left_out,
        ..Figures::default()
    };
    figures.left_out.processes = processes.shared();
    let named = processes.by_name();
    figures.processes = named
        .map(|one| ProcessFigures { name: one.name.clone(), intervals: one.intervals })
        .collect();
    summarize(&mut figures);
    if let Some(output) = easy {
        xvg::begin(&figures, (output, outputs));
    }
    let queue =
        |device: &mut Device| core::mem::replace(&mut device.queue_seeks.seeks, Seeks::new());
    figures.queue_seeks = seeks(devices, queue, ("QSK", easy), outputs, |at, seeks| {
        figures.devices[at].queue_seeks = seeks;
    });
    let issue =
        |device: &mut Device| core::mem::replace(&mut device.device_seeks.seeks, Seeks::new());
    figures.device_seeks = seeks(devices, issue, ("DSK", easy), outputs, |at, seeks| {
        figures.devices[at].device_seeks = seeks;
    });
    if let Some(output) = easy {
        xvg::end(&figures, (output, outputs));
    }
    let kept = ranges::All {
        system: &system.activity,
        several,
        devices: devices.iter().map(|one| (one.number.to_string(), &one.activity)).collect(),
        processes: processes.by_name().map(|one| (one.name.clone(), &one.activity)).collect(),
    };
    let (report, activity) = match &options.output {
        Some(name) => (outputs.make(format!("{name}.avg")), outputs.make(format!("{name}.dat"))),
        None => (text, text),
    };
    report::write(&figures, options, &mut Text { output: report, outputs })?;
    kept.write(&mut Text { output: activity, outputs })?;
    if let Some(name) = &options.output {
        let sizes = [("qhist", 'Q', &system.queue_sizes), ("dhist", 'D', &system.device_sizes)];
        for (kind, what, sizes) in sizes {
            let output = outputs.open(format!("{name}_{kind}.dat"));
            outputs.write(output, format_args!("{}", sizes.render(what)));
        }
    }
    outputs.finish()?;
    Ok(figures)
}

/// An output as something to write to.
struct Text<'a, F> {
    output: Output,
    outputs: &'a mut Outputs<F>,
}

impl<F: Files> io::Write for Text<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outputs.write_bytes(self.output, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The counts of a device, without its seeks.
fn device_figures(device: &Device) -> DeviceFigures {
    let mut queued = device.waiting.arrivals();
    let issued = device.issues;
    // btt takes a trace that lost bios to have as many as requests.
    if queued > 0 && queued < issued {
        queued = issued;
    }
    let blocks = device.blocks;
    let (min, max, total) = (blocks.min, blocks.max, blocks.total);
    let sums = OverheadSums::of(&device.intervals);
    DeviceFigures {
        device: device.number,
        label: device.label.clone(),
        remapper: device.remapper,
        intervals: device.intervals,
        overhead: sums.overhead(),
        merges: MergeFigures { queued, issued, min, max, total },
        queue_seeks: SeekFigures::default(),
        device_seeks: SeekFigures::default(),
        plugs: device.plugs.figures(device.started, device.ended),
        waiting: ratio(device.waiting.sum(), queued),
        active: device.periods.figures(),
        waiting_sum: device.waiting.sum(),
        queue_times: device.queue_times,
    }
}

/// The figures of all devices together.
fn summarize(figures: &mut Figures) {
    let mut sums = OverheadSums::default();
    let mut merges = MergeFigures { min: u64::MAX, ..MergeFigures::default() };
    for device in &figures.devices {
        if device.overhead.is_some() {
            sums.add(&OverheadSums::of(&device.intervals));
        }
        if device.merges.is_told() {
            merges.queued += device.merges.queued;
            merges.issued += device.merges.issued;
            merges.min = merges.min.min(device.merges.min);
            merges.max = merges.max.max(device.merges.max);
            merges.total = merges.total.saturating_add(device.merges.total);
        }
    }
    figures.overhead = sums.overhead();
    figures.merges = if merges.issued == 0 { MergeFigures::default() } else { merges };
}

/// Turns one kind of seeks into figures, device by device, and prints them; then of all devices
/// together.
fn seeks<F: Files>(
    devices: &mut [Device],
    take: impl Fn(&mut Device) -> Seeks,
    (kind, easy): (&str, Option<Output>),
    outputs: &mut Outputs<F>,
    mut tell: impl FnMut(usize, SeekFigures),
) -> SeekFigures {
    let mut all = Vec::new();
    let several = devices.len() > 1;
    for (at, device) in devices.iter_mut().enumerate() {
        let mut figures = take(device).figures();
        if let Some(output) = easy.filter(|_| figures.seeks > 0) {
            xvg::seeks(kind, &device.label, &figures, (output, outputs));
        }
        if several {
            all.push(figures.clone());
        }
        figures.forget_modes();
        if !several {
            all.push(figures.clone());
        }
        tell(at, figures);
    }
    together(all)
}

/// The files of `-Z`.
fn write_periods<F: Files>(
    devices: &[Device],
    system: &[(u64, u64)],
    options: &Options,
    outputs: &mut Outputs<F>,
) {
    if !options.live {
        return;
    }
    let active = devices.iter().filter(|device| !device.periods.known().is_empty());
    let rows = active.map(|device| (device.label.as_str(), device.periods.known()));
    let rows = core::iter::once(("sys", system)).chain(rows);
    for (row, (label, periods)) in (0_u32..).zip(rows) {
        let output = outputs.open(format!("{label}_live.dat"));
        let (base, mut last) = (f64::from(row), 0);
        for period in periods {
            let [end, from, to] = [last, period.0, period.1].map(seconds);
            let top = base + 0.9;
            outputs.write(
                output,
                format_args!(
                    "{end:.9} {base:.1}\n{from:.9} {base:.1}\n{from:.9} {top:.1}\n\
                     {to:.9} {top:.1}\n{to:.9} {base:.1}\n"
                ),
            );
            last = period.1;
        }
    }
}
