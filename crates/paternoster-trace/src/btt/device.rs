// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device: all counts of one device, and its side files.

use super::active::Periods;
use super::files::{Files, Output, Outputs, Overlaid};
use super::histograms::{QueueTimes, Unplugs};
use super::intervals::{Arrivals, Intervals};
use super::iostat::Load;
use super::latencies::Latencies;
use super::options::Options;
use super::plugs::Plugs;
use super::ranges::Activity;
use super::rates::{PerSecond, SeeksPerSecond};
use super::seeks::Seeks;
use super::times::seconds;
use super::waiting::Waiting;
use crate::blktrace::DeviceNumber;

/// Majors of drivers that remap to other devices: md and device-mapper.
const REMAPPERS: [u32; 3] = [9, 253, 254];

/// Files of reads, writes and both.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByDirection {
    reads: Output,
    writes: Output,
    both: Output,
}

impl ByDirection {
    fn new(base: &str, outputs: &mut Outputs<impl Files>) -> ByDirection {
        let [reads, writes, both] = ["r", "w", "c"].map(|kind| format!("{base}_{kind}.dat"));
        let (reads, writes) = (outputs.open(reads), outputs.open(writes));
        ByDirection { reads, writes, both: outputs.open(both) }
    }

    /// A line for one I/O.
    pub(super) fn write(
        &self,
        write: bool,
        line: core::fmt::Arguments<'_>,
        outputs: &mut Outputs<impl Files>,
    ) {
        outputs.write(if write { self.writes } else { self.reads }, line);
        outputs.write(self.both, line);
    }
}

/// Seeks of bios or of requests, and their output.
#[derive(Debug)]
pub(super) struct SeekTrack {
    pub(super) seeks: Seeks,
    files: Option<ByDirection>,
    rate: SeeksPerSecond,
}

/// The writers of the seeks of requests and of bios into their common file.
const ISSUED: usize = 0;
const QUEUED: usize = 1;

impl SeekTrack {
    fn new(label: &str, kind: &str, options: &Options, out: &mut Outputs<impl Files>) -> SeekTrack {
        let base = options.seeks.as_ref().map(|name| format!("{name}_{label}_{kind}"));
        SeekTrack {
            seeks: Seeks::new(),
            files: base.map(|base| ByDirection::new(&base, out)),
            rate: SeeksPerSecond::default(),
        }
    }

    /// The seek to an I/O: when, from where to where, whether it writes.
    fn seek(
        &mut self,
        (at, extent, write): (u64, (u64, u64), bool),
        absolute: bool,
        outputs: &mut Outputs<impl Files>,
    ) {
        let distance = self.seeks.seek(extent.0, extent.1, absolute);
        if let Some(files) = &self.files {
            let (at, kind) = (seconds(at), if write { 'w' } else { 'r' });
            files.write(write, format_args!("{at:15.9} {distance:13} {kind}\n"), outputs);
        }
    }
}

/// Sectors of completed requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Blocks {
    pub(super) count: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) total: u64,
}

impl Blocks {
    pub(super) fn add(&mut self, sectors: u64) {
        self.min = if self.count == 0 { sectors } else { self.min.min(sectors) };
        self.max = self.max.max(sectors);
        self.total = self.total.saturating_add(sectors);
        self.count += 1;
    }
}

/// Requests in the device, for the graph of the queue depth.
#[derive(Debug)]
pub(super) struct Depth {
    output: Option<Output>,
    now: u64,
}

impl Depth {
    /// A request goes to the device.
    pub(super) fn issued(&mut self, at: u64, outputs: &mut Outputs<impl Files>) {
        self.now += 1;
        if let Some(output) = self.output {
            let (at, now) = (seconds(at), self.now);
            outputs.write(output, format_args!("{at:.6} {}\n{at:.6} {now}\n", now - 1));
        }
    }

    /// One comes back.
    pub(super) fn completed(&mut self, at: u64, outputs: &mut Outputs<impl Files>) {
        let Some(left) = self.now.checked_sub(1) else { return };
        if let Some(output) = self.output {
            let (at, now) = (seconds(at), self.now);
            outputs.write(output, format_args!("{at:.6} {now}\n{at:.6} {left}\n"));
        }
        self.now = left;
    }
}

/// One device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) number: DeviceNumber,
    pub(super) label: String,
    pub(super) remapper: bool,
    /// Its first bio or remap was seen: what comes before is not counted.
    pub(super) begun: bool,
    pub(super) started: u64,
    pub(super) ended: u64,
    pub(super) intervals: Intervals,
    pub(super) arrivals: Arrivals,
    pub(super) activity: Activity,
    pub(super) queue_seeks: SeekTrack,
    pub(super) device_seeks: SeekTrack,
    pub(super) issues: u64,
    pub(super) blocks: Blocks,
    pub(super) plugs: Plugs,
    pub(super) unplugs: Unplugs,
    pub(super) waiting: Waiting,
    pub(super) periods: Periods,
    pub(super) queue_times: QueueTimes,
    pub(super) rates: PerSecond,
    pub(super) depth: Depth,
    pub(super) q2c: Latencies,
    pub(super) d2c: Latencies,
    pub(super) q2d: Latencies,
    pub(super) block_files: Option<ByDirection>,
    pub(super) tree_file: Option<Output>,
    pub(super) load: Load,
    seek_rates: Option<Overlaid>,
}

impl Device {
    pub(super) fn new(
        number: DeviceNumber,
        at: u64,
        options: &Options,
        outputs: &mut Outputs<impl Files>,
    ) -> Device {
        let label = options.label(number);
        let remapper = REMAPPERS.contains(&number.major());
        let rates = PerSecond::new(&label, outputs);
        let depth = options.depth.as_ref();
        let depth = depth.map(|name| outputs.open(format!("{name}_{label}_aqd.dat")));
        let mut latencies = |kind: &str, single: &Option<String>| {
            let single = single.as_ref();
            let single = single.map(|name| outputs.open(format!("{name}_{label}_{kind}.dat")));
            let average = |length| (outputs.open(format!("{label}_{kind}_plat.dat")), length);
            Latencies::new(single, options.periodic.map(average))
        };
        let q2c = latencies("q2c", &options.q2c);
        let d2c = latencies("d2c", &options.d2c);
        let q2d = latencies("q2d", &options.q2d);
        let block_files = options.blocks.as_ref();
        let block_files =
            block_files.map(|name| ByDirection::new(&format!("{name}_{label}"), outputs));
        let tree_file = options.per_io_trees.then(|| outputs.make(format!("{label}_pit.dat")));
        let seek_rates = options.seeks_per_second.as_ref().and(options.seeks.as_ref());
        let seek_rates = seek_rates.map(|_| Overlaid::default());
        Device {
            number,
            remapper,
            begun: false,
            started: at,
            ended: 0,
            intervals: Intervals::default(),
            arrivals: Arrivals::new(),
            activity: Activity::default(),
            queue_seeks: SeekTrack::new(&label, "q2q", options, outputs),
            device_seeks: SeekTrack::new(&label, "d2d", options, outputs),
            issues: 0,
            blocks: Blocks::default(),
            plugs: Plugs::new(),
            unplugs: Unplugs::default(),
            waiting: Waiting::default(),
            periods: Periods::new(options.live),
            queue_times: QueueTimes::default(),
            rates,
            depth: Depth { output: depth, now: 0 },
            q2c,
            d2c,
            q2d,
            block_files,
            tree_file,
            load: Load::default(),
            seek_rates,
            label,
        }
    }
}

impl Device {
    /// The seek to a bio: when, its first sector and the one after it, whether it writes.
    pub(super) fn seek_queued(
        &mut self,
        io: (u64, (u64, u64), bool),
        absolute: bool,
        outputs: &mut Outputs<impl Files>,
    ) {
        self.queue_seeks.seek(io, absolute, outputs);
        if let Some(file) = &mut self.seek_rates {
            self.queue_seeks.rate.add(io.0, QUEUED, file);
        }
    }

    /// The seek to a request.
    pub(super) fn seek_issued(
        &mut self,
        io: (u64, (u64, u64), bool),
        absolute: bool,
        outputs: &mut Outputs<impl Files>,
    ) {
        self.device_seeks.seek(io, absolute, outputs);
        if let Some(file) = &mut self.seek_rates {
            self.device_seeks.rate.add(io.0, ISSUED, file);
        }
    }
}

/// A device's side files at the end.
pub(super) fn close(device: &mut Device, options: &Options, outputs: &mut Outputs<impl Files>) {
    device.rates.close(outputs);
    for latencies in [&device.q2c, &device.d2c, &device.q2d] {
        latencies.close(outputs);
    }
    if let (Some(mut file), Some(name)) = (device.seek_rates.take(), &options.seeks_per_second) {
        device.device_seeks.rate.close(ISSUED, &mut file);
        device.queue_seeks.rate.close(QUEUED, &mut file);
        // btt opens one name twice: closing the empty file of requests deletes that of bios.
        if file.has_written(ISSUED) {
            let output = outputs.open(format!("{name}_{}.dat", device.label));
            outputs.write_bytes(output, &file.close());
        }
    }
    if let Some(name) = &options.unplugs {
        let output = outputs.open(format!("{name}_{}.dat", device.label));
        for (bucket, count) in device.unplugs.lines() {
            outputs.write(output, format_args!("{bucket} {count}\n"));
        }
    }
}
