// SPDX-License-Identifier: MIT OR Apache-2.0
//! Analysis: takes events one by one and hands each to what counts it.
//!
//! Source: BTT-1 to BTT-11.

use std::collections::BTreeMap;
use std::io;

use super::accept::{self, Kind};
use super::active::Periods;
use super::device::Device;
use super::figures::LeftOut;
use super::files::{Files, Output, Outputs, STANDARD_OUTPUT};
use super::histograms::Sizes;
use super::intervals::{Arrivals, Interval, Intervals, delta};
use super::iostat::Iostat;
use super::options::Options;
use super::outstanding::{Bio, OUTSTANDING_MAX, Outstanding, Room};
use super::per_io::{self, Completion};
use super::processes::Processes;
use super::ranges::Activity;
use super::rates::PerSecond;
use super::times::{Exact, NEVER, seconds};
use crate::blktrace::{Code, DeviceNumber, Record};
use crate::source::Entry;

/// Devices that are counted separately; events of further ones do not count.
pub const DEVICES_MAX: usize = 1 << 10;

/// The counts of all devices together.
#[derive(Debug)]
pub(super) struct System {
    pub(super) intervals: Intervals,
    pub(super) arrivals: Arrivals,
    pub(super) activity: Activity,
    pub(super) periods: Periods,
    pub(super) queue_sizes: Sizes,
    pub(super) device_sizes: Sizes,
    pub(super) rates: PerSecond,
}

/// An analysis in progress.
#[derive(Debug)]
pub struct Analysis<F> {
    pub(super) options: Options,
    pub(super) outputs: Outputs<F>,
    pub(super) system: System,
    pub(super) devices: Vec<Device>,
    by_number: BTreeMap<DeviceNumber, u32>,
    last: Option<(DeviceNumber, u32)>,
    /// The time window is over.
    ended: bool,
    pub(super) processes: Processes,
    bios: Outstanding,
    found: Vec<u32>,
    pub(super) left_out: LeftOut,
    /// Messages go there, and the report if it has no file.
    pub(super) text: Output,
    pub(super) iostat: Option<Iostat>,
    per_io: Option<Output>,
}

impl<F: Files> Analysis<F> {
    /// An analysis whose side files go to `files`.
    pub fn new(options: Options, files: F) -> Analysis<F> {
        Analysis::with_limit(options, files, OUTSTANDING_MAX)
    }

    pub(super) fn with_limit(options: Options, files: F, bios_max: u32) -> Analysis<F> {
        let mut outputs = Outputs::new(files);
        let output = options.output.as_ref();
        let text = match output {
            Some(name) => outputs.make(format!("{name}.msg")),
            None => outputs.make(STANDARD_OUTPUT.to_owned()),
        };
        let iostat = options.iostat.as_ref();
        let iostat = iostat.map(|name| Iostat::new(name, options.iostat_interval, &mut outputs));
        let per_io = options.per_io.as_ref().map(|name| outputs.open(name.clone()));
        let system = System {
            intervals: Intervals::default(),
            arrivals: Arrivals::new(),
            activity: Activity::default(),
            periods: Periods::new(options.live),
            queue_sizes: Sizes::new(),
            device_sizes: Sizes::new(),
            rates: PerSecond::new("sys", &mut outputs),
        };
        Analysis {
            options,
            outputs,
            system,
            devices: Vec::new(),
            by_number: BTreeMap::new(),
            last: None,
            ended: false,
            processes: Processes::new(),
            bios: Outstanding::new(bios_max),
            found: Vec::new(),
            left_out: LeftOut::default(),
            text,
            iostat,
            per_io,
        }
    }

    /// Takes the next event.
    pub fn record(&mut self, entry: &Entry<'_>) {
        let record = &entry.record;
        self.ended |= accept::is_end(record, &self.options);
        if self.ended {
            return;
        }
        if self.iostat.is_some() {
            self.table(record);
        }
        match accept::kind(record, &self.options) {
            Kind::Name => self.processes.name(record.pid, entry.payload),
            Kind::Message => self.message(record, entry.payload),
            Kind::Plug => self.plug(record, entry.payload),
            Kind::Step => self.step(record, entry.payload),
            Kind::Nothing => {}
        }
    }

    /// Writes a table of iostat's if one is due.
    fn table(&mut self, record: &Record) {
        let Some(iostat) = &mut self.iostat else { return };
        if accept::is_event(record, &self.options)
            && iostat.is_due(record.at.0)
            && !self.devices.is_empty()
        {
            let options = &self.options;
            let devices = self.devices.iter_mut();
            let shown = |one: &&mut Device| {
                options.devices.is_empty() || options.devices.contains(&one.number)
            };
            let loads = devices.filter(shown).map(|one| (options.row(one.number), &mut one.load));
            iostat.write(loads, &mut self.outputs);
        }
    }

    /// The device of this number, if it is known.
    #[inline]
    fn known(&mut self, number: DeviceNumber) -> Option<u32> {
        match self.last {
            Some((last, device)) if last == number => Some(device),
            _ => {
                let device = *self.by_number.get(&number)?;
                self.last = Some((number, device));
                Some(device)
            }
        }
    }

    /// The device of a step, which may be new; `None` if it does not count.
    fn device(&mut self, record: &Record) -> Option<u32> {
        let number = record.device;
        if let Some(device) = self.known(number) {
            return Some(device);
        }
        if self.devices.len() >= DEVICES_MAX {
            self.left_out.events += 1;
            return None;
        }
        let new = Device::new(number, record.at.0, &self.options, &mut self.outputs);
        let device = u32::try_from(self.devices.len()).expect("devices are limited");
        self.devices.push(new);
        self.bios.add_device();
        self.by_number.insert(number, device);
        Some(device)
    }

    fn message(&mut self, record: &Record, text: &[u8]) {
        let Some(device) = self.device(record) else { return };
        let device = &mut self.devices[device as usize];
        if device.begun {
            device.ended = record.at.0;
            // The process that wrote it has a row, even if it did nothing else.
            self.processes.of(record.pid);
            let name = self.options.row(device.number);
            let (at, text) = (Exact(record.at.0), String::from_utf8_lossy(text));
            let line = format_args!("{name} {at:5} {text}\n");
            self.outputs.write(self.text, line);
        }
    }

    fn plug(&mut self, record: &Record, payload: &[u8]) {
        let Some(device) = self.known(record.device) else { return };
        let device = &mut self.devices[device as usize];
        let at = record.at.0;
        if record.code == Code::PLUG {
            device.plugs.plug(at);
            return;
        }
        // btt reads past the end of a missing payload.
        let requests = payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let timer = record.code == Code::UNPLUG_TIMER;
        device.plugs.unplug(at, requests, timer);
        if !timer {
            device.unplugs.add(requests);
        }
    }

    fn step(&mut self, record: &Record, payload: &[u8]) {
        let Some(device) = self.device(record) else { return };
        let own = &mut self.devices[device as usize];
        own.begun |= matches!(record.code, Code::QUEUE | Code::REMAP);
        if !own.begun {
            return;
        }
        let process = self.processes.of(record.pid);
        own.ended = record.at.0;
        match record.code {
            Code::QUEUE => self.queue(device, process, record),
            Code::REMAP => self.remap(record, payload),
            Code::REQUEUE => own.waiting.arrive(),
            Code::ISSUE => self.issue(device, record),
            Code::COMPLETE => self.complete(device, process, record),
            _ => self.single(device, record),
        }
    }

    /// A sample for the system, the device, and the process whose bio it is.
    fn sample(&mut self, device: u32, process: u32, interval: Interval, ns: u64) {
        self.system.intervals.add(interval, ns);
        self.devices[device as usize].intervals.add(interval, ns);
        self.processes.get_mut(process).intervals.add(interval, ns);
    }

    fn queue(&mut self, device: u32, process: u32, record: &Record) {
        let (at, extent) = (record.at.0, (record.sector, record.end()));
        let (delta, absolute) = (self.options.range_delta, self.options.absolute_seeks);
        let clock = seconds(at);
        let own = &mut self.devices[device as usize];
        let interval = if own.remapper { Interval::Q2QRemapper } else { Interval::Q2Q };
        own.waiting.arrive();
        own.activity.queued.add(clock, delta);
        own.seek_queued((at, extent, record.is_write()), absolute, &mut self.outputs);
        if !own.remapper {
            self.system.queue_sizes.add(record.sectors());
        }
        if let Some(ns) = own.arrivals.next(at) {
            own.intervals.add(interval, ns);
        }
        let submitter = self.processes.get_mut(process);
        submitter.activity.queued.add(clock, delta);
        if let Some(ns) = submitter.arrivals.next(at) {
            submitter.intervals.add(interval, ns);
        }
        self.system.activity.queued.add(clock, delta);
        if let Some(ns) = self.system.arrivals.next(at) {
            self.system.intervals.add(interval, ns);
        }
        match self.bios.insert(Bio::new(device, process, extent, at)) {
            Room::Enough => {}
            Room::Replaced(bio) => self.lose(&bio),
            Room::FellOut(bio) => {
                self.left_out.bios += 1;
                self.lose(&bio);
            }
        }
    }

    /// A bio will not be completed.
    fn lose(&mut self, bio: &Bio) {
        if bio.issued != NEVER {
            self.devices[bio.device as usize].periods.lost();
            self.system.periods.lost();
        }
    }

    fn remap(&mut self, record: &Record, payload: &[u8]) {
        let Some(payload) = payload.first_chunk::<16>() else { return };
        let from = u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]);
        let [.., a, b, c, d, e, f, g, h] = *payload;
        let sector = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let Some(device) = self.known(DeviceNumber(from)) else { return };
        let Some(bio) = self.bios.find(device, sector) else { return };
        let (queued, process) = (self.bios.get(bio).queued, self.bios.get(bio).process);
        let remapper = self.devices[device as usize].remapper;
        let interval = if remapper { Interval::Q2ARemapper } else { Interval::Q2A };
        self.sample(device, process, interval, delta(queued, record.at.0));
    }

    /// A step of the bio that contains the event's first sector.
    fn single(&mut self, device: u32, record: &Record) {
        let merge = matches!(record.code, Code::BACK_MERGE | Code::FRONT_MERGE);
        let own = &mut self.devices[device as usize];
        if merge {
            own.waiting.leave();
            own.load.merged(record.is_write());
        } else if record.code == Code::GET {
            own.load.got(record.at.0);
        }
        let Some(found) = self.bios.find(device, record.sector) else { return };
        let (at, bio) = (record.at.0, self.bios.get_mut(found));
        let before = *bio;
        match record.code {
            Code::SLEEP => bio.slept = at,
            Code::GET => bio.got = at,
            Code::INSERT => bio.inserted = at,
            _ => bio.merged = at,
        }
        let (process, queued) = (before.process, before.queued);
        match record.code {
            Code::GET => {
                self.sample(device, process, Interval::Q2G, delta(queued, at));
                // To btt, a process that slept at time 0 did not sleep.
                if !matches!(before.slept, 0 | NEVER) {
                    self.sample(device, process, Interval::S2G, delta(before.slept, at));
                }
            }
            Code::INSERT if before.got != NEVER => {
                self.sample(device, process, Interval::G2I, delta(before.got, at));
            }
            _ if merge => self.sample(device, process, Interval::Q2M, delta(queued, at)),
            _ => {}
        }
    }

    fn issue(&mut self, device: u32, record: &Record) {
        let (at, extent) = (record.at.0, (record.sector, record.end()));
        let absolute = self.options.absolute_seeks;
        let own = &mut self.devices[device as usize];
        own.issues += 1;
        own.waiting.leave();
        own.depth.issued(at, &mut self.outputs);
        let write = record.is_write();
        own.load.issued(at, write, record.sectors());
        own.seek_issued((at, extent, write), absolute, &mut self.outputs);
        if let Some(files) = &own.block_files {
            let (at, from, to) = (seconds(at), extent.0, extent.1);
            files.write(write, format_args!("{at:15.9} {from} {to}\n"), &mut self.outputs);
        }
        if !own.remapper {
            self.system.device_sizes.add(record.sectors());
        }
        let mut found = core::mem::take(&mut self.found);
        self.bios.within(device, extent, &mut found);
        for bio in &found {
            self.issue_bio(device, *bio, record);
        }
        self.found = found;
    }

    fn issue_bio(&mut self, device: u32, bio: u32, record: &Record) {
        let at = record.at.0;
        let bio = self.bios.get_mut(bio);
        let before = *bio;
        bio.issued = at;
        bio.request = (record.sector, record.sectors());
        let own = &mut self.devices[device as usize];
        let waited = delta(before.queued, at);
        own.queue_times.add(waited);
        own.q2d.add(at, waited, &mut self.outputs);
        if before.issued == NEVER {
            own.periods.issued();
            self.system.periods.issued();
        }
        if before.inserted != NEVER {
            self.sample(device, before.process, Interval::I2D, delta(before.inserted, at));
        } else if before.merged != NEVER {
            self.sample(device, before.process, Interval::M2D, delta(before.merged, at));
        }
    }

    fn complete(&mut self, device: u32, process: u32, record: &Record) {
        let done = Completion { at: record.at.0, sector: record.sector, sectors: record.sectors() };
        let (delta, clock) = (self.options.range_delta, seconds(done.at));
        let own = &mut self.devices[device as usize];
        own.blocks.add(done.sectors);
        own.activity.completed.add(clock, delta);
        own.depth.completed(done.at, &mut self.outputs);
        own.rates.add(done.at, done.sectors, &mut self.outputs);
        self.processes.get_mut(process).activity.completed.add(clock, delta);
        self.system.activity.completed.add(clock, delta);
        self.system.rates.add(done.at, done.sectors, &mut self.outputs);
        let mut found = core::mem::take(&mut self.found);
        self.bios.within(device, (record.sector, record.end()), &mut found);
        self.write_steps(device, &found, done);
        for bio in &found {
            self.complete_bio(device, *bio, done.at);
        }
        self.found = found;
    }

    fn write_steps(&mut self, device: u32, found: &[u32], done: Completion) {
        let own = &self.devices[device as usize];
        if let Some(output) = own.tree_file {
            let bios = found.iter().map(|bio| self.bios.get(*bio));
            per_io::tree_line(bios, done.at, (output, &mut self.outputs));
        }
        if let Some(output) = self.per_io {
            for bio in found {
                let bio = self.bios.get(*bio);
                per_io::steps(own.number, bio, done, (output, &mut self.outputs));
            }
            per_io::rule(output, &mut self.outputs);
        }
    }

    fn complete_bio(&mut self, device: u32, found: u32, at: u64) {
        let bio = *self.bios.get(found);
        self.bios.remove(found);
        let own = &mut self.devices[device as usize];
        let whole = delta(bio.queued, at);
        if bio.issued != NEVER {
            let inserted = if bio.inserted == NEVER { bio.merged } else { bio.inserted };
            own.load.completed(at, bio.queued, inserted);
        }
        own.q2c.add(bio.queued, whole, &mut self.outputs);
        let interval = if own.remapper { Interval::Q2CRemapper } else { Interval::Q2C };
        self.sample(device, bio.process, interval, whole);
        if bio.issued == NEVER {
            return;
        }
        let served = delta(bio.issued, at);
        let own = &mut self.devices[device as usize];
        own.d2c.add(at, served, &mut self.outputs);
        own.periods.completed(bio.issued, at);
        self.system.periods.completed(bio.issued, at);
        self.sample(device, bio.process, Interval::D2C, served);
    }

    /// Ends the analysis: writes the report and all that is still held back.
    ///
    /// # Errors
    /// The first output that could not be written.
    pub fn finish(self) -> io::Result<super::Figures> {
        super::finish::finish(self)
    }
}
