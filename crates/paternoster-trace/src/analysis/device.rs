// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device: the events of one device put together as journeys, and counted.
//!
//! A bio is known by its sectors from `Q` to `C`, a command from `D` to `C`, both by the rule of
//! [`InFlight`]: what is issued or completed in parts ends with its last sector, and a bio is
//! issued with its first one. Flushes without data have no sectors, and are neither reads nor
//! writes: they are counted from `D` to `C` only, the oldest first. Kernels also report the end of
//! the process's flush (`C` of a write): where commands have no write only those end one.
//!
//! A seek is from where the last command ended to where the next begins. A request that begins at
//! most [`NEAR`] sectors away is near; one that begins right there is sequential.

use std::collections::{BTreeMap, VecDeque};

use paternoster_core::Nanos;
use paternoster_measure::{CoarseHistogram, InFlight, jain};

use super::depth::Depth;
use super::names::{Names, OTHERS};
use super::process::{Process, ProcessFigures};
use crate::blktrace::{Categories, Code, DeviceNumber, Record};

/// Sectors up to which a seek is near: 64 KiB.
pub const NEAR: u64 = 128;
/// Flushes that are waited for.
const FLUSHES_MAX: usize = 1024;
/// After this many arrivals without other events a trace has only arrivals.
const ARRIVALS: u64 = 4096;

/// A part of an I/O's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// From asking for a request to sleeping for it to getting it: S to G.
    Sleep,
    /// From submission to having a request, sleep included: Q to G.
    Get,
    /// From there to the scheduler, in a plug: G to I.
    Plug,
    /// With the scheduler: I to D.
    Schedule,
    /// From submission to being merged: Q to M or F.
    Merge,
    /// From there to the device: M to D.
    MergedWait,
    /// In the device: D to C.
    Device,
    /// Everything: Q to C.
    Whole,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Phase; 8] = [
        Phase::Sleep,
        Phase::Get,
        Phase::Plug,
        Phase::Schedule,
        Phase::Merge,
        Phase::MergedWait,
        Phase::Device,
        Phase::Whole,
    ];

    /// btt's name for it, and its meaning.
    #[must_use]
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Phase::Sleep => ("S2G", "sleep for a request"),
            Phase::Get => ("Q2G", "get a request"),
            Phase::Plug => ("G2I", "plug"),
            Phase::Schedule => ("I2D", "schedule"),
            Phase::Merge => ("Q2M", "merge"),
            Phase::MergedWait => ("M2D", "wait, merged"),
            Phase::Device => ("D2C", "device"),
            Phase::Whole => ("Q2C", "whole"),
        }
    }
}

/// How often each event happened, reads first, then everything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bios that were submitted.
    pub queued: [u64; 2],
    /// Bytes of the queued bios.
    pub queued_bytes: [u64; 2],
    /// Bios that were merged into a request of others.
    pub merged: [u64; 2],
    /// Commands that went to the device, those that it refused left out.
    pub issued: [u64; 2],
    /// Bytes of the issued requests.
    pub issued_bytes: [u64; 2],
    /// Commands that came back.
    pub completed: [u64; 2],
    /// Bytes of the completed requests.
    pub completed_bytes: [u64; 2],
    /// Commands that the device refused.
    pub requeued: u64,
    /// Commands that came back with an error.
    pub failed: u64,
    /// Flushes without data that went to the device.
    pub flushes: u64,
    /// Discards that were submitted; also among the writes.
    pub discards: u64,
    /// Unplugs, and how many of them by the timer.
    pub unplugs: [u64; 2],
    /// Requests that they released.
    pub unplugged: u64,
}

impl Seeks {
    /// From where the last one ended to where this one begins.
    fn record(&mut self, record: &Record) {
        if let Some(head) = self.head.replace(record.end()) {
            let distance = record.sector.abs_diff(head);
            self.count += 1;
            self.sequential += u64::from(distance == 0);
            self.near += u64::from(distance <= NEAR);
            self.distance += u128::from(distance);
            self.distances.add(Nanos(distance));
        }
    }
}

impl Counts {
    /// Whether only arrivals are known, as in traces without completions.
    #[must_use]
    pub fn are_arrivals(&self) -> bool {
        let steps = [self.issued, self.completed, self.merged];
        steps.iter().flatten().all(|count| *count == 0)
    }
}

/// How far commands are from each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seeks {
    /// How many commands followed another.
    pub count: u64,
    /// How many of these began where the one before ended.
    pub sequential: u64,
    /// At most [`NEAR`] sectors away, the sequential ones included.
    pub near: u64,
    /// Sectors between, all together.
    pub distance: u128,
    /// The distances in sectors by size (a cell is at most 1/16 wide, but below 1024 sectors).
    pub distances: CoarseHistogram,
    /// Sector after the last request.
    head: Option<u64>,
}

/// The findings on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFigures {
    /// The device's number.
    pub number: DeviceNumber,
    /// How often each action occurred.
    pub counts: Counts,
    /// A histogram for each of [`Phase::ALL`].
    pub phases: [CoarseHistogram; 8],
    /// From submission to the end, of reads and of everything else.
    pub whole: [CoarseHistogram; 2],
    /// Histograms of the time in the device, reads and writes.
    pub device: [CoarseHistogram; 2],
    /// Flushes without data, in the device.
    pub flush: CoarseHistogram,
    /// Between commands; between arrivals if nothing else is known.
    pub seeks: Seeks,
    /// Bios that the device does not have yet.
    pub waiting: Depth,
    /// Commands that it has.
    pub in_device: Depth,
    /// From its first event to its last.
    pub active: (Nanos, Nanos),
    /// Length of the whole trace.
    pub span: Nanos,
    /// What each process got, those with the most device time first.
    pub processes: Vec<ProcessFigures>,
    /// How even device time was spread over processes that had I/O done.
    pub fairness: Option<f64>,
    /// How many bios and commands were no longer waited for, for want of room.
    pub lost: u64,
}

/// A bio on its way.
#[derive(Debug, Clone, Copy)]
struct Journey {
    process: u32,
    write: bool,
    bytes: u32,
    queued: Nanos,
    slept: Option<Nanos>,
    got: Option<Nanos>,
    inserted: Option<Nanos>,
    merged: Option<Nanos>,
    issued: Option<Nanos>,
}

// What has happened to a bio, as a stage of [`InFlight`].
const SLEPT: u8 = 1;
const GOT: u8 = 2;
const INSERTED: u8 = 4;
const MERGED: u8 = 8;

/// A command in the device.
#[derive(Debug, Clone, Copy)]
struct InService {
    process: u32,
    at: Nanos,
    /// The device's clock when it began.
    clock: f64,
    /// For flushes: whether the record has the bit of writes.
    write: bool,
}

/// How many of a limited number are in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Rows of processes.
    pub(super) rows: usize,
    /// Bios and commands under way.
    pub(super) in_flight: usize,
}

/// One device, while the trace is read.
#[derive(Debug)]
pub(super) struct Device {
    number: DeviceNumber,
    counts: Counts,
    phases: [CoarseHistogram; 8],
    whole: [CoarseHistogram; 2],
    device: [CoarseHistogram; 2],
    flush: CoarseHistogram,
    seeks: Seeks,
    queue_seeks: Seeks,
    waiting: Depth,
    in_device: Depth,
    /// Advances by 1/k of the passing time while k commands are in the device.
    clock: f64,
    bios: InFlight<Journey>,
    commands: InFlight<InService>,
    flushes: VecDeque<InService>,
    active: Option<(Nanos, Nanos)>,
    /// Bios that end together.
    ended: Vec<Journey>,
    /// Commands that end together.
    back: Vec<InService>,
    processes: BTreeMap<u32, Process>,
}

impl Device {
    pub(super) fn new(number: DeviceNumber) -> Device {
        Device {
            number,
            counts: Counts::default(),
            phases: Default::default(),
            whole: Default::default(),
            device: Default::default(),
            flush: CoarseHistogram::default(),
            seeks: Seeks::default(),
            queue_seeks: Seeks::default(),
            waiting: Depth::default(),
            in_device: Depth::default(),
            clock: 0.0,
            bios: InFlight::default(),
            commands: InFlight::default(),
            flushes: VecDeque::new(),
            active: None,
            ended: Vec::new(),
            back: Vec::new(),
            processes: BTreeMap::new(),
        }
    }

    /// Reads one event of a process, which gets a row if `room` has one, with at most so many more
    /// I/Os under way.
    pub(super) fn record(&mut self, record: &Record, process: u32, room: Use) {
        let known = room.rows > 0 || self.processes.contains_key(&process);
        self.bios.set_limit(self.bios.len() + room.in_flight);
        self.commands.set_limit(self.commands.len() + room.in_flight);
        self.step(record, if known { process } else { OTHERS });
    }

    /// How much of what is limited it has.
    pub(super) fn used(&self) -> Use {
        Use { rows: self.processes.len(), in_flight: self.bios.len() + self.commands.len() }
    }

    fn step(&mut self, record: &Record, process: u32) {
        let (begins, _) = self.active.unwrap_or((record.at, record.at));
        self.active = Some((begins, record.at));
        match record.code {
            Code::QUEUE => self.queue(record, process),
            Code::GET => self.get(record),
            Code::SLEEP => self.sleep(record, process),
            Code::INSERT => self.insert(record),
            Code::BACK_MERGE | Code::FRONT_MERGE => self.merge(record),
            Code::ISSUE => self.issue(record, process),
            Code::REQUEUE => self.requeue(record),
            Code::COMPLETE => self.complete(record),
            _ => {}
        }
    }

    fn phase(&mut self, phase: Phase, from: Nanos, to: Nanos) {
        self.phases[phase as usize].add(to - from);
    }

    fn queue(&mut self, record: &Record, process: u32) {
        if record.bytes == 0 {
            return;
        }
        let write = usize::from(record.is_write());
        self.counts.queued[write] += 1;
        self.counts.queued_bytes[write] += u64::from(record.bytes);
        self.counts.discards += u64::from(record.categories.contains(Categories::DISCARD));
        let asking = self.processes.entry(process).or_default();
        asking.queued += 1;
        asking.asked_bytes += u64::from(record.bytes);
        self.queue_seeks.record(record);
        if self.has_only_arrivals() {
            return;
        }
        let journey = Journey {
            process,
            write: record.is_write(),
            bytes: record.bytes,
            queued: record.at,
            slept: None,
            got: None,
            inserted: None,
            merged: None,
            issued: None,
        };
        self.waiting.enter(record.at);
        let (_, dropped) = self.bios.insert(record.extent(), journey);
        if dropped.is_some_and(|dropped| dropped.issued.is_none()) {
            self.waiting.leave(record.at);
        }
    }

    /// Whether only arrivals came, and nothing waits for more.
    fn has_only_arrivals(&mut self) -> bool {
        let queued: u64 = self.counts.queued.iter().sum();
        let only = queued > ARRIVALS && self.counts.are_arrivals();
        if only && !self.bios.is_empty() {
            self.bios.clear();
            self.waiting = Depth::default();
        }
        only
    }

    fn get(&mut self, record: &Record) {
        let waits = |stage| stage & GOT == 0;
        let found = self.bios.find(record.extent(), waits, |journey, stage| {
            *stage |= GOT;
            journey.got = Some(record.at);
            (journey.queued, journey.slept.take())
        });
        let Some((queued, slept)) = found else { return };
        self.phase(Phase::Get, queued, record.at);
        if let Some(slept) = slept {
            self.phase(Phase::Sleep, slept, record.at);
        }
    }

    fn sleep(&mut self, record: &Record, process: u32) {
        self.processes.entry(process).or_default().sleeps += 1;
        let waits = |stage| stage & (GOT | SLEPT) == 0;
        self.bios.find(record.extent(), waits, |journey, stage| {
            *stage |= SLEPT;
            journey.slept = Some(record.at);
        });
    }

    fn insert(&mut self, record: &Record) {
        let has_got = |stage| stage & (GOT | INSERTED) == GOT;
        let got = self.bios.find(record.extent(), has_got, |journey, stage| {
            let got = journey.got?;
            *stage |= INSERTED;
            journey.inserted = Some(record.at);
            Some(got)
        });
        if let Some(got) = got.flatten() {
            self.phase(Phase::Plug, got, record.at);
        }
    }

    fn merge(&mut self, record: &Record) {
        self.counts.merged[usize::from(record.is_write())] += 1;
        let waits = |stage| stage & (GOT | MERGED) == 0;
        let queued = self.bios.find(record.extent(), waits, |journey, stage| {
            *stage |= MERGED;
            journey.merged = Some(record.at);
            journey.queued
        });
        if let Some(queued) = queued {
            self.phase(Phase::Merge, queued, record.at);
        }
    }

    fn issue(&mut self, record: &Record, process: u32) {
        let write = usize::from(record.is_write());
        self.pass(record.at);
        let (at, clock) = (record.at, self.clock);
        let mut command = InService { process, at, clock, write: record.is_write() };
        if record.bytes == 0 {
            self.counts.flushes += 1;
            if self.flushes.len() < FLUSHES_MAX {
                self.flushes.push_back(command);
                self.in_device.enter(record.at);
            }
            return;
        }
        self.counts.issued[write] += 1;
        self.counts.issued_bytes[write] += u64::from(record.bytes);
        self.seeks.record(record);
        let mut owner = None;
        let Device { bios, phases, waiting, .. } = self;
        bios.issue(record.extent(), |part| {
            let journey = part.value;
            owner.get_or_insert(journey.process);
            if journey.issued.is_some() {
                return;
            }
            let from = match (journey.inserted, journey.merged) {
                (Some(inserted), _) => Some((Phase::Schedule, inserted)),
                (None, Some(merged)) => Some((Phase::MergedWait, merged)),
                (None, None) => None,
            };
            if let Some((phase, from)) = from {
                phases[phase as usize].add(record.at - from);
            }
            journey.issued = Some(record.at);
            waiting.leave(record.at);
        });
        command.process = owner.unwrap_or(process);
        self.in_device.enter(record.at);
        // Some never come back.
        if self.commands.insert(record.extent(), command).1.is_some() {
            self.in_device.leave(record.at);
        }
    }

    fn requeue(&mut self, record: &Record) {
        self.counts.requeued += 1;
        self.pass(record.at);
        if record.bytes == 0 {
            // A drive that cannot queue a flush refuses it many times.
            self.counts.flushes = self.counts.flushes.saturating_sub(1);
            if self.flushes.pop_back().is_some() {
                self.in_device.leave(record.at);
            }
            return;
        }
        let write = usize::from(record.is_write());
        let counts = &mut self.counts;
        counts.issued[write] = counts.issued[write].saturating_sub(1);
        let bytes = &mut counts.issued_bytes[write];
        *bytes = bytes.saturating_sub(record.bytes.into());
        let Device { bios, commands, waiting, in_device, .. } = self;
        commands.complete(record.extent(), |part| {
            if part.last {
                in_device.leave(record.at);
            }
        });
        bios.requeue(record.extent(), |part| {
            if part.value.issued.take().is_some() {
                waiting.enter(record.at);
            }
        });
    }

    fn complete(&mut self, record: &Record) {
        self.counts.failed += u64::from(record.error != 0);
        self.pass(record.at);
        if record.bytes == 0 {
            return self.complete_flush(record);
        }
        let write = usize::from(record.is_write());
        self.counts.completed[write] += 1;
        self.counts.completed_bytes[write] += u64::from(record.bytes);
        let mut back = core::mem::take(&mut self.back);
        self.commands.complete(record.extent(), |part| {
            if part.last {
                back.push(*part.value);
            }
        });
        for command in back.drain(..) {
            self.leave(&command, record.at);
        }
        self.back = back;
        let mut ended = core::mem::take(&mut self.ended);
        self.bios.complete(record.extent(), |part| {
            if part.last {
                ended.push(*part.value);
            }
        });
        for journey in ended.drain(..) {
            self.done(&journey, record.at);
        }
        self.ended = ended;
    }

    /// The end of a flush command; or of a process's flush, if the commands have no write.
    fn complete_flush(&mut self, record: &Record) {
        let of_commands = self.flushes.front().is_some_and(|one| one.write == record.is_write());
        if of_commands && let Some(command) = self.flushes.pop_front() {
            self.leave(&command, record.at);
            self.flush.add(record.at - command.at);
        }
    }

    /// A command leaves the device.
    fn leave(&mut self, command: &InService, at: Nanos) {
        let served = self.clock - command.clock;
        self.in_device.leave(at);
        self.processes.entry(command.process).or_default().device_time += served;
    }

    /// A bio has ended.
    fn done(&mut self, journey: &Journey, at: Nanos) {
        let write = usize::from(journey.write);
        let whole = at - journey.queued;
        self.phases[Phase::Whole as usize].add(whole);
        self.whole[write].add(whole);
        match journey.issued {
            Some(issued) => {
                self.phases[Phase::Device as usize].add(at - issued);
                self.device[write].add(at - issued);
            }
            None => self.waiting.leave(at),
        }
        let process = self.processes.entry(journey.process).or_default();
        process.done += 1;
        process.bytes[write] += u64::from(journey.bytes);
        process.whole.add(whole);
        if let Some(issued) = journey.issued {
            process.waited.add(issued - journey.queued);
        }
    }

    /// The device's clock goes on.
    fn pass(&mut self, at: Nanos) {
        let last = self.in_device.busy();
        self.in_device.pass(at);
        let passed = self.in_device.busy().0 - last.0;
        if passed > 0 {
            self.clock += passed as f64 / self.in_device.now() as f64;
        }
    }

    /// The figures of a trace that ends then and lasts this long.
    pub(super) fn finish(mut self, ends: Nanos, span: Nanos, names: &Names) -> DeviceFigures {
        self.waiting.pass(ends);
        self.in_device.pass(ends);
        let all: f64 = self.processes.values().map(|process| process.device_time).sum();
        let worked = self.processes.values().filter(|process| process.done > 0);
        let fairness = jain(worked.map(|process| process.device_time));
        let mut processes: Vec<ProcessFigures> = self
            .processes
            .into_iter()
            .map(|(index, process)| process.finish(names.of(index), all))
            .collect();
        processes.sort_by_key(|process| {
            let ProcessFigures { device_time, done, queued, .. } = *process;
            core::cmp::Reverse((device_time, done, queued))
        });
        DeviceFigures {
            number: self.number,
            counts: self.counts,
            phases: self.phases,
            whole: self.whole,
            device: self.device,
            flush: self.flush,
            seeks: if self.counts.are_arrivals() { self.queue_seeks } else { self.seeks },
            waiting: self.waiting,
            in_device: self.in_device,
            active: self.active.unwrap_or_default(),
            span,
            processes,
            fairness,
            lost: self.bios.lost() + self.commands.lost(),
        }
    }
}
