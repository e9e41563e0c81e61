// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block trace: btt's figures of a run, computed during it and without a file.
//!
//! The records that `--trace` would have written go to the same analysis that
//! `analyze --format btt` prints.

use paternoster_core::{Event, Nanos, Note, Observer};
use paternoster_frame::Failure;
use paternoster_trace::Entry;
use paternoster_trace::blktrace::{DeviceNumber, Record, Sink, Traced, Tracer};
use paternoster_trace::btt::{Analysis, DeviceFigures, Interval, Nowhere, Options};

use super::experiment::Measured;

/// Observes a run whose block trace is wanted; otherwise it costs a branch.
#[derive(Debug)]
pub(super) struct BlockTrace(Option<Tracer<Analysed>>);

#[derive(Debug)]
struct Analysed(Analysis<Nowhere>);

impl Sink for Analysed {
    fn record(&mut self, record: &Record, payload: &[u8]) {
        self.0.record(&Entry { record: *record, payload });
    }
}

impl BlockTrace {
    pub(super) fn new(wanted: bool, elevator: &str) -> BlockTrace {
        BlockTrace(wanted.then(|| {
            let traced = Traced {
                device: DeviceNumber::new(8, 0),
                cpus: 1,
                elevator: elevator.to_owned(),
                clients: Vec::new(),
            };
            Tracer::new(traced, Analysed(Analysis::new(Options::default(), Nowhere)))
        }))
    }

    /// Adds the figures to the others, each with `btt` before its name.
    pub(super) fn tell(&mut self, measured: &mut Measured) -> Result<(), Failure> {
        let Some(tracer) = self.0.take() else { return Ok(()) };
        let figures = tracer.into_sink().0.finish()?;
        let Some(device) = figures.devices.first() else { return Ok(()) };
        let numbers = numbers(device);
        measured.numbers.extend(numbers.map(|(name, number)| (format!("btt {name}"), number)));
        Ok(())
    }
}

/// The figures of btt's report on a device, by btt's names.
#[expect(clippy::cast_precision_loss, reason = "printed figures")]
fn numbers(device: &DeviceFigures) -> [(&'static str, f64); 20] {
    let average = |interval: Interval| {
        let spread = &device.intervals[interval];
        if spread.count == 0 { 0.0 } else { spread.sum as f64 / spread.count as f64 / 1e3 }
    };
    let share = device.overhead.unwrap_or_default();
    [
        ("Q2Q us", average(Interval::Q2Q)),
        ("Q2G us", average(Interval::Q2G)),
        ("G2I us", average(Interval::G2I)),
        ("Q2M us", average(Interval::Q2M)),
        ("I2D us", average(Interval::I2D)),
        ("M2D us", average(Interval::M2D)),
        ("D2C us", average(Interval::D2C)),
        ("Q2C us", average(Interval::Q2C)),
        ("Q2G %", share.q2g),
        ("I2D %", share.i2d),
        ("D2C %", share.d2c),
        ("#Q", device.merges.queued as f64),
        ("#D", device.merges.issued as f64),
        ("ratio", device.merges.ratio()),
        ("BLKavg", device.merges.average() as f64),
        ("Q2Q seek", device.queue_seeks.mean),
        ("D2D seek", device.device_seeks.mean),
        ("reqs @ Q", device.waiting),
        ("active periods", device.active.live as f64),
        ("% live", device.active.percent),
    ]
}

impl Observer for BlockTrace {
    #[inline]
    fn event(&mut self, event: &Event) {
        if let Some(tracer) = &mut self.0 {
            tracer.event(event);
        }
    }

    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        if let Some(tracer) = &mut self.0 {
            tracer.note(at, sequence, note);
        }
    }
}
