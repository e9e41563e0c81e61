// SPDX-License-Identifier: MIT OR Apache-2.0
//! xvg: the averages as words, for programs.
//!
//! Source: BTT-27.

use core::fmt::Write;

use super::figures::Figures;
use super::files::{Files, Output, Outputs};
use super::intervals::Interval;
use super::numbers::Number;
use super::seeks::SeekFigures;
use super::times::seconds;

type Sink<'a, F> = (Output, &'a mut Outputs<F>);

/// What comes before the seeks.
pub(super) fn begin<F: Files>(figures: &Figures, (output, outputs): Sink<'_, F>) {
    for interval in &Interval::ALL[Interval::REMAPPER..] {
        let (spread, name) = (&figures.intervals[*interval], interval.name());
        if spread.count > 0 {
            let [min, max] = [spread.min, spread.max].map(seconds);
            let (average, count) = (spread.average(), spread.count);
            outputs.write(output, format_args!("{name} {min:.9} {average:.9} {max:.9} {count}\n"));
        }
    }
    for device in figures.devices.iter().filter(|device| device.merges.is_told()) {
        let (label, merges) = (&device.label, &device.merges);
        let (queued, issued, ratio) = (merges.queued, merges.issued, merges.ratio());
        let (min, average, max, total) = (merges.min, merges.average(), merges.max, merges.total);
        let line = format_args!(
            "DMI {label} {queued} {issued} {ratio:.9} {min} {average} {max} {total}\n"
        );
        outputs.write(output, line);
    }
}

/// One device's seeks, with all their modes.
pub(super) fn seeks<F: Files>(
    kind: &str,
    label: &str,
    figures: &SeekFigures,
    (output, outputs): Sink<'_, F>,
) {
    let SeekFigures { seeks, mean, btt_median, modes, mode_count, .. } = figures;
    let mode = modes.first().copied().unwrap_or(0);
    let head = format_args!("{kind} {label} {seeks} {mean:.9} {btt_median} {mode} {mode_count}");
    outputs.write(output, head);
    let mut text = String::new();
    for mode in modes.iter().skip(1) {
        text.clear();
        write!(text, " {mode}").expect("a string takes all");
        outputs.write_bytes(output, text.as_bytes());
    }
    outputs.write_bytes(output, b"\n");
}

/// The lines after the seeks.
pub(super) fn end<F: Files>(figures: &Figures, (output, outputs): Sink<'_, F>) {
    for device in &figures.devices {
        let (label, plugs) = (&device.label, &device.plugs);
        let (unplugs, timer, percent) = (plugs.unplugs, plugs.timer_unplugs, plugs.percent);
        if unplugs + timer > 0 {
            outputs.write(
                output,
                format_args!("PLG {label} {unplugs} {timer} {:.9}\n", Number(percent)),
            );
        }
    }
    for device in &figures.devices {
        let (label, plugs) = (&device.label, &device.plugs);
        let [own, timer] = [plugs.requests_per_unplug(), plugs.requests_per_timer_unplug()];
        outputs.write(output, format_args!("UPG {label} {own:.9} {timer:.9}\n"));
    }
    for device in figures.devices.iter().filter(|device| device.is_waited_for()) {
        let (label, waiting) = (&device.label, device.waiting);
        outputs.write(output, format_args!("ARQ {label} {waiting:.9}\n"));
    }
}
