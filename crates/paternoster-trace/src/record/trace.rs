// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a trace: the records of whatever a [`Source`] reads, with the names of its processes.
//!
//! ```text
//! note   pid 812 is fio             pid 812 ─▶ client 0 "fio"
//! Q 8,0  pid 812  sector 64         pid 813 ─▶ client 1 "fio 813"    (a name that is not unique
//! D 8,0  pid 97   sector 64                     has its pid: "fio 812", "fio 813";
//!                                               or all of one name are one client)
//! C 8,0  pid 0    sector 64  ─▶ one read of client 0
//! ```
//!
//! One device is chosen, or all are taken together: their requests add up, and their used ranges of
//! sectors are stacked ([`AccessRecord::shelves`]). Where a trace has arrivals only, these are the
//! accesses.
//!
//! # Limits
//! * Clients are numbered as they come; from the 257th on they are one ([`CLIENTS_KEPT`]).
//! * Devices from the 16th on ([`DEVICES_MAX`]) share one place, and are one device there: once
//!   something goes to any of them, arrivals are not its accesses.
//! * A disk and what was remapped onto it (partitions, RAID, LVM) are several devices whose
//!   requests are the same ones: choose one, or requests count twice.
//! * Commands that are passed through to the device are neither read nor write, and left out.
//! * Which events belong to one request is found by their sectors: see [`Journeys`].

use std::collections::BTreeMap;

use paternoster_core::Nanos;

use super::Recorder;
use super::access::{AccessRecord, CLIENTS_KEPT};
use super::journeys::Journeys;
use super::step::{Step, StepKind};
use crate::blktrace::{Code, DeviceNumber, Record};
use crate::source::{Entry, Source};

/// The most devices that have a place of their own.
pub const DEVICES_MAX: usize = 16;
/// The most processes whose client, or name, is known.
const PROCESSES_MAX: usize = 4_096;
/// The longest name of a process, in bytes; a kernel's has 15.
const NAME_MAX: usize = 64;

/// Which devices of a trace are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Devices {
    /// All of them.
    #[default]
    All,
    /// This one.
    One(DeviceNumber),
}

/// Where the accesses of a device are, or of the last ones together.
#[derive(Debug, Clone)]
struct Place {
    device: DeviceNumber,
    accesses: AccessRecord,
    /// Something went to it; until then arrivals are its accesses.
    issued: bool,
}

/// A recorder that reads a trace.
#[derive(Debug, Clone)]
pub struct FromTrace {
    recorder: Recorder,
    devices: Devices,
    journeys: Journeys,
    /// Accesses of each device; those that come late share the last one's.
    places: Vec<Place>,
    /// The client of each process that did something.
    clients: BTreeMap<u32, u32>,
    /// Names of processes that are clients, or may become one.
    names: BTreeMap<u32, String>,
    /// The client of each name, if all processes of one name are one client.
    namesakes: Option<BTreeMap<String, u32>>,
    /// The next client.
    next: u32,
    at: Nanos,
}

impl FromTrace {
    /// Makes a recorder read a trace; its records were requested before.
    #[must_use]
    pub fn new(recorder: Recorder, devices: Devices) -> FromTrace {
        FromTrace {
            recorder,
            devices,
            journeys: Journeys::default(),
            places: Vec::new(),
            clients: BTreeMap::new(),
            names: BTreeMap::new(),
            namesakes: None,
            next: 0,
            at: Nanos::ZERO,
        }
    }

    /// Counts all processes of one name as one client.
    #[must_use]
    pub fn by_name(mut self) -> FromTrace {
        self.namesakes = Some(BTreeMap::new());
        self
    }

    /// Reads all that a source has left.
    pub fn read(&mut self, source: &mut (impl Source + ?Sized)) {
        while let Some(entry) = source.next() {
            self.entry(&entry);
        }
    }

    /// Reads one entry.
    pub fn entry(&mut self, entry: &Entry<'_>) {
        let record = &entry.record;
        if record.is_note() {
            if record.is_note_of(Code::NOTE_PROCESS) {
                self.name(record.pid, entry.payload);
            }
            return;
        }
        let chosen = match self.devices {
            Devices::All => true,
            Devices::One(device) => device == record.device,
        };
        if !chosen || record.is_passthrough() {
            return;
        }
        if let Some(step) = self.step(record) {
            self.follow(record.device, step);
        }
    }

    /// The records, and the names of clients by their index, for a [`crate::Run`]. `device_name`
    /// gives the name of a device that has more than a number.
    #[must_use]
    pub fn finish(
        mut self,
        device_name: impl Fn(DeviceNumber) -> Option<String>,
    ) -> (Recorder, Vec<String>) {
        if let Some(access) = &mut self.recorder.access {
            let mut places = core::mem::take(&mut self.places);
            places.sort_by_key(|place| place.device);
            *access = match <[_; 1]>::try_from(places) {
                Ok([alone]) => alone.accesses,
                Err(several) => AccessRecord::stack(
                    several
                        .into_iter()
                        .map(|Place { device, accesses, .. }| {
                            (device_name(device).unwrap_or_else(|| device.to_string()), accesses)
                        })
                        .collect(),
                ),
            };
            access.set_of_machine();
        }
        let names = self.client_names();
        (self.recorder, names)
    }

    /// The step that a record is, if it is one.
    fn step(&mut self, record: &Record) -> Option<Step> {
        let kind = match record.code {
            Code::QUEUE => StepKind::Queue,
            Code::ISSUE => StepKind::Issue,
            Code::COMPLETE => StepKind::Complete,
            Code::REQUEUE => StepKind::Requeue,
            _ => return None,
        };
        // A source's times do not go back; entries from elsewhere may.
        self.at = self.at.max(record.at);
        let completes = matches!(kind, StepKind::Complete | StepKind::Requeue);
        let client = if completes { CLIENTS_KEPT } else { self.client(record.pid) };
        let sectors = u32::try_from(record.sectors()).unwrap_or(u32::MAX);
        let (at, write, sector) = (self.at, record.is_write(), record.sector);
        Some(Step { at, kind, client, write, sector, sectors, latency: None })
    }

    fn follow(&mut self, device: DeviceNumber, step: Step) {
        let FromTrace { recorder, journeys, places, .. } = self;
        // Where each device has its accesses, the recorder's own are put together at the end.
        let mut own = recorder.access.take();
        let mut place = own.as_ref().map(|_| place(places, device));
        journeys.follow(device.0, step, |step| {
            recorder.step(step);
            let Some(place) = &mut place else { return };
            match step.kind {
                StepKind::Issue if !place.issued => {
                    place.issued = true;
                    place.accesses = AccessRecord::default();
                    place.accesses.step(step);
                }
                StepKind::Queue if !place.issued => {
                    place.accesses.step(&Step { kind: StepKind::Issue, ..*step });
                }
                _ => place.accesses.step(step),
            }
        });
        recorder.access = own.take();
    }

    /// The client that a process is.
    fn client(&mut self, pid: u32) -> u32 {
        if let Some(client) = self.clients.get(&pid) {
            return *client;
        }
        let name = self.names.get(&pid);
        let namesake = self.namesakes.as_ref().zip(name).and_then(|(all, name)| all.get(name));
        let client = namesake.copied().unwrap_or(self.next);
        if client >= CLIENTS_KEPT || self.clients.len() >= PROCESSES_MAX {
            return CLIENTS_KEPT;
        }
        if let Some((all, name)) = self.namesakes.as_mut().zip(name) {
            all.entry(name.clone()).or_insert(client);
        }
        self.next = self.next.max(client + 1);
        self.clients.insert(pid, client);
        client
    }

    /// Records a process's name; it may change its name, the last one counts.
    fn name(&mut self, pid: u32, payload: &[u8]) {
        let end = payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len());
        let name = String::from_utf8_lossy(&payload[..end.min(NAME_MAX)]).into_owned();
        if self.names.len() < PROCESSES_MAX || self.clients.contains_key(&pid) {
            self.names.insert(pid, name);
        }
    }

    fn client_names(&self) -> Vec<String> {
        let mut pids: Vec<(u32, u32)> =
            self.clients.iter().map(|(pid, client)| (*client, *pid)).collect();
        pids.sort_unstable();
        pids.dedup_by_key(|(client, _)| *client);
        let mut shared: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, pid) in &pids {
            if let Some(name) = self.names.get(pid) {
                *shared.entry(name).or_default() += 1;
            }
        }
        let name = |(_, pid): &(u32, u32)| match self.names.get(pid) {
            Some(name) if shared.get(name.as_str()) == Some(&1) => name.clone(),
            Some(name) => format!("{name} {pid}"),
            None => format!("pid {pid}"),
        };
        let mut names: Vec<String> = pids.iter().map(name).collect();
        if pids.len() >= CLIENTS_KEPT as usize || self.clients.len() >= PROCESSES_MAX {
            names.resize(CLIENTS_KEPT as usize, String::new());
            names.push("all others".to_owned());
        }
        names
    }
}

/// The place of a device.
fn place(places: &mut Vec<Place>, device: DeviceNumber) -> &mut Place {
    let found = places.iter().position(|place| place.device == device);
    let nth = match found {
        Some(nth) => nth,
        None if places.len() < DEVICES_MAX => {
            places.push(Place { device, accesses: AccessRecord::default(), issued: false });
            places.len() - 1
        }
        None => DEVICES_MAX - 1,
    };
    &mut places[nth]
}

#[cfg(test)]
mod tests {
    use super::super::{DepthRecord, LatencyRecord, Way};
    use super::*;
    use crate::blktrace::Categories;

    const SDA: DeviceNumber = DeviceNumber::new(8, 0);
    const SDB: DeviceNumber = DeviceNumber::new(8, 16);

    fn recorder() -> Recorder {
        Recorder {
            depth: Some(DepthRecord::default()),
            access: Some(AccessRecord::default()),
            latency: Some(LatencyRecord::default()),
            ..Recorder::default()
        }
    }

    fn record(at: u64, code: Code, pid: u32, device: DeviceNumber, sector: u64) -> Record {
        let categories = Categories::READ | Categories::FS;
        Record {
            at: Nanos(at),
            code,
            pid,
            device,
            sector,
            bytes: 4096,
            categories,
            ..Record::default()
        }
    }

    fn named(pid: u32, name: &'static [u8]) -> (Record, &'static [u8]) {
        let categories = Categories::NOTIFY;
        (Record { code: Code::NOTE_PROCESS, pid, categories, ..Record::default() }, name)
    }

    fn feed(trace: &mut FromTrace, entries: &[(Record, &[u8])]) {
        for &(record, payload) in entries {
            trace.entry(&Entry { record, payload });
        }
    }

    /// Are arrivals the accesses of a device to which nothing goes, and forgotten once something
    /// does? sda: the Q at 8 until the D at 64; sdb: its two.
    #[test]
    fn arrivals_are_accesses_if_nothing_else_is_known() {
        let accesses = |entries: &[(Record, &[u8])], device| {
            let mut trace = FromTrace::new(recorder(), Devices::One(device));
            feed(&mut trace, entries);
            let (recorder, _) = trace.finish(|_| None);
            let access = recorder.access.unwrap();
            access.accesses().map(|access| access.sector).collect::<Vec<_>>()
        };
        let entries = [
            (record(1, Code::QUEUE, 7, SDA, 8), &[][..]),
            (record(2, Code::ISSUE, 7, SDA, 64), &[]),
            (record(3, Code::QUEUE, 7, SDA, 800), &[]),
            (record(4, Code::QUEUE, 7, SDB, 8), &[]),
            (record(5, Code::QUEUE, 7, SDB, 8000), &[]),
        ];
        assert_eq!(accesses(&entries, SDA), [64]);
        assert_eq!(accesses(&entries, SDB), [8, 8000]);
    }

    /// Are no accesses lost where devices share a place? 24 devices, each with three commands at
    /// places of its own, one device after the other; and with arrivals alone.
    #[test]
    fn devices_that_share_a_place_lose_nothing() {
        for code in [Code::ISSUE, Code::QUEUE] {
            let mut trace = FromTrace::new(recorder(), Devices::All);
            for device in 0..24 {
                for nth in 0..3 {
                    let at = u64::from(device) * 10 + nth;
                    let sector = u64::from(device) * 100_000 + nth * 8000;
                    let entry = record(at, code, 7, DeviceNumber::new(8, device * 16), sector);
                    feed(&mut trace, &[(entry, &[])]);
                }
            }
            let (recorder, _) = trace.finish(|_| None);
            let access = recorder.access.unwrap();
            assert_eq!((access.shelves().len(), access.count()), (16, 72), "{code:?}");
        }
    }

    /// Does a request belong to its submitter, with the name from its note, and with pids added to
    /// names that are not unique? The example above.
    #[test]
    fn processes_have_names() {
        let mut trace = FromTrace::new(recorder(), Devices::All);
        feed(
            &mut trace,
            &[
                named(812, b"fio\0\0"),
                named(97, b"kworker/0:1H"),
                (record(10, Code::QUEUE, 812, SDA, 64), b""),
                (record(20, Code::ISSUE, 97, SDA, 64), b""),
                (record(90, Code::COMPLETE, 0, SDA, 64), b""),
            ],
        );
        let (records, names) = trace.finish(|_| None);
        assert_eq!(names, ["fio", "kworker/0:1H"]);
        let access = records.access.expect("asked for");
        assert_eq!(access.accesses().map(|cell| cell.client).collect::<Vec<_>>(), [0]);
        let latency = records.latency.expect("asked for");
        let means = Way::ALL.map(|way| latency.total(way, false).mean().0);
        assert_eq!(means, [70, 80]);

        let mut trace = FromTrace::new(recorder(), Devices::All);
        feed(
            &mut trace,
            &[
                named(812, b"fio"),
                named(813, b"fio"),
                (record(1, Code::QUEUE, 812, SDA, 0), b""),
                (record(2, Code::QUEUE, 813, SDA, 0), b""),
                (record(3, Code::QUEUE, 5, SDA, 0), b""),
            ],
        );
        assert_eq!(trace.finish(|_| None).1, ["fio 812", "fio 813", "pid 5"]);
    }

    /// On request, are all processes of one name one client?
    #[test]
    fn namesakes_are_one() {
        let mut trace = FromTrace::new(recorder(), Devices::All).by_name();
        feed(
            &mut trace,
            &[
                named(812, b"fio"),
                named(813, b"dd"),
                named(814, b"fio"),
                (record(1, Code::ISSUE, 814, SDA, 0), b""),
                (record(2, Code::ISSUE, 813, SDA, 8), b""),
                (record(3, Code::ISSUE, 812, SDA, 16), b""),
            ],
        );
        let (records, names) = trace.finish(|_| None);
        assert_eq!(names, ["fio", "dd"]);
        let access = records.access.expect("asked for");
        let clients: Vec<(u32, u64)> =
            access.accesses().map(|cell| (cell.client, cell.sector)).collect();
        assert_eq!(clients, [(0, 0), (0, 16), (1, 8)]);
    }

    /// Is one device chosen, or are several one above the other with their names?
    #[test]
    fn devices_are_chosen_or_stacked() {
        let entries = [
            (record(1, Code::ISSUE, 1, SDB, 5_000), &b""[..]),
            (record(2, Code::ISSUE, 1, SDA, 1_000), b""),
            (record(3, Code::COMPLETE, 1, SDB, 5_000), b""),
        ];
        let mut one = FromTrace::new(recorder(), Devices::One(SDB));
        feed(&mut one, &entries);
        let access = one.finish(|_| None).0.access.expect("asked for");
        assert_eq!((access.sectors(), access.count()), (Some((5_000, 5_008)), 1));
        assert!(access.shelves().is_empty());
        let mut all = FromTrace::new(recorder(), Devices::All);
        feed(&mut all, &entries);
        let name = |device| (device == SDB).then(|| "sdb".to_owned());
        let records = all.finish(name).0;
        let access = records.access.expect("asked for");
        let shelves: Vec<(&str, u64)> =
            access.shelves().iter().map(|shelf| (&*shelf.name, shelf.base)).collect();
        assert_eq!(shelves, [("8,0", 0), ("sdb", 8)]);
        // Two in the devices from 2 ns on, for one nanosecond, after one for one.
        assert_eq!(records.depth.expect("asked for").area(), 1 + 2);
    }

    /// Are there no more clients than are kept, however many processes and names a trace has?
    #[test]
    fn processes_are_bounded() {
        let mut trace = FromTrace::new(recorder(), Devices::All);
        for pid in 0..10_000 {
            feed(&mut trace, &[named(pid, b"x"), (record(1, Code::ISSUE, pid, SDA, 0), b"")]);
        }
        assert_eq!((trace.names.len(), trace.clients.len()), (4_096, 256));
        let (records, names) = trace.finish(|_| None);
        assert_eq!((names.len(), names[256].as_str()), (257, "all others"));
        assert_eq!(records.access.expect("asked for").count(), 10_000);
    }
}
