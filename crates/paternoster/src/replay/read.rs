// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read: the events of a trace, made into the recording of one device.
//!
//! ```text
//! 8,0    Q D C …  ──▶ Matcher of 8,0  ─┐
//! 8,16   Q D C …  ──▶ Matcher of 8,16 ─┴─▶ the requested one, or the one with most bytes
//! 253,0  Q …      left out: what a remapper gets comes again at the devices below it
//! ```
//!
//! Of a window of time the arrivals count; reading goes on until everything that arrived in it has
//! ended.
//!
//! Left out, and counted: commands passed through to the device (no reads or writes), arrivals
//! without sectors that are not flushes.
//!
//! Source: TRACE-8, TRACE-13, TRACE-35; BTT-4 (remappers).

use std::collections::BTreeMap;

use paternoster_core::{Flags, Nanos, Op};
use paternoster_frame::Failure;
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, Record};
use paternoster_trace::{Entry, Source};
use paternoster_workload::replay::{Arrival, Matcher, Recording, RecordingError};

/// Majors of drivers that pass requests on to the devices below: md, device-mapper.
const REMAPPERS: [u32; 3] = [9, 253, 254];
/// The most devices of one trace.
const DEVICES_MAX: usize = 1024;

/// A part of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Start and end, since the first event.
    pub(super) window: (Option<Nanos>, Option<Nanos>),
    /// The device, as `8,16` or by its name; the one with the most bytes otherwise.
    pub(super) device: Option<String>,
}

/// A trace that was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) recording: Recording,
    /// The device, by name if it has one.
    pub(super) device: String,
    /// The other devices.
    pub(super) others: Vec<String>,
    /// Arrivals that are not reads, writes, discards or flushes.
    pub(super) left_out: u64,
    /// Arrivals at remappers.
    pub(super) remapped: u64,
    /// Problems in the trace: how many, and the first of them.
    pub(super) problems: (u64, Vec<String>),
}

/// Reads a trace to its end.
///
/// # Errors
/// Nothing arrives in it, the device does not exist, or it is too large.
pub(super) fn read(name: &str, source: &mut dyn Source, part: &Part) -> Result<Read, Failure> {
    let mut reader = Reader::new(part);
    while let Some(entry) = source.next() {
        let done = reader.take(&entry).map_err(|error| refusal(name, &error))?;
        if done {
            break;
        }
    }
    let label = |device: DeviceNumber| match source.device_name(device) {
        Some(name) => name.to_owned(),
        None => device.to_string(),
    };
    let shown = source.problems().shown().iter().map(ToString::to_string).collect();
    let problems = (source.problems().count(), shown);
    reader.choose(name, &label, problems)
}

fn refusal(name: &str, error: &RecordingError) -> Failure {
    let remedy = match error {
        RecordingError::Late(_) => "",
        _ => " (--window START:END)",
    };
    Failure::Request(format!("trace {name}: {error}{remedy}"))
}

struct Reader<'a> {
    part: &'a Part,
    devices: BTreeMap<DeviceNumber, Matcher>,
    names: BTreeMap<u32, String>,
    /// The time of the first event.
    first: Option<Nanos>,
    left_out: u64,
    remapped: u64,
}

impl<'a> Reader<'a> {
    fn new(part: &'a Part) -> Reader<'a> {
        let (devices, names) = (BTreeMap::new(), BTreeMap::new());
        Reader { part, devices, names, first: None, left_out: 0, remapped: 0 }
    }

    /// Takes an event. True once nothing that follows can matter.
    fn take(&mut self, entry: &Entry<'_>) -> Result<bool, RecordingError> {
        let record = &entry.record;
        if record.is_note_of(Code::NOTE_PROCESS) {
            self.name(record.pid, entry.payload);
        }
        if record.is_note() {
            return Ok(false);
        }
        let at = Nanos(record.at.0.saturating_sub(self.first.get_or_insert(record.at).0));
        let (start, end) = self.part.window;
        let ended = end.is_some_and(|end| at > end);
        if ended && self.devices.values().all(|matcher| matcher.outstanding() == 0) {
            return Ok(true);
        }
        if REMAPPERS.contains(&record.device.major()) {
            self.remapped += u64::from(record.code == Code::QUEUE);
            return Ok(false);
        }
        if record.code == Code::QUEUE {
            if !ended && start.is_none_or(|start| at >= start) {
                self.arrive(record, at)?;
            }
        } else if let Some(matcher) = self.devices.get_mut(&record.device) {
            pass_on(matcher, record, at, entry.payload);
        }
        Ok(false)
    }

    fn arrive(&mut self, record: &Record, at: Nanos) -> Result<(), RecordingError> {
        let Some((op, flags)) = operation(record) else {
            self.left_out += 1;
            return Ok(());
        };
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&record.device) {
            self.left_out += 1;
            return Ok(());
        }
        let matcher = self.devices.entry(record.device).or_default();
        if let Some(name) = self.names.get(&record.pid) {
            matcher.name(record.pid, name);
        }
        let (sector, sectors) =
            if op == Op::Flush { (0, 0) } else { (record.sector, sectors(record)) };
        matcher.arrive(&Arrival { at, pid: record.pid, op, flags, sector, sectors })
    }

    fn name(&mut self, pid: u32, payload: &[u8]) {
        let end = payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len());
        let name: String = String::from_utf8_lossy(&payload[..end])
            .chars()
            .map(|c| if c.is_control() { '\u{b7}' } else { c })
            .take(64)
            .collect();
        if name.is_empty() {
            return;
        }
        self.devices.values_mut().for_each(|matcher| matcher.name(pid, &name));
        if self.names.len() < 1 << 17 {
            self.names.insert(pid, name);
        }
    }

    /// The recording of the requested device, or of the one with the most bytes.
    fn choose(
        mut self,
        name: &str,
        label: &dyn Fn(DeviceNumber) -> String,
        problems: (u64, Vec<String>),
    ) -> Result<Read, Failure> {
        let bytes = |matcher: &Matcher| matcher.recording().bytes();
        let chosen = match &self.part.device {
            Some(asked) => {
                let named = |device: &&DeviceNumber| {
                    device.to_string() == *asked || label(**device) == *asked
                };
                self.devices.keys().find(named).copied()
            }
            // If several have as many bytes, the first.
            None => {
                let most = self.devices.iter().rev().max_by_key(|(_, matcher)| bytes(matcher));
                most.map(|(device, _)| *device)
            }
        };
        let Some(chosen) = chosen else { return Err(self.nothing(name, label, &problems)) };
        let recording = self.devices.remove(&chosen).unwrap_or_default().finish();
        Ok(Read {
            recording,
            device: label(chosen),
            others: self.devices.keys().map(|device| label(*device)).collect(),
            left_out: self.left_out,
            remapped: self.remapped,
            problems,
        })
    }

    /// Why there is nothing to replay.
    fn nothing(
        &self,
        name: &str,
        label: &dyn Fn(DeviceNumber) -> String,
        problems: &(u64, Vec<String>),
    ) -> Failure {
        let devices: Vec<String> = self.devices.keys().map(|device| label(*device)).collect();
        let why = match (&self.part.device, devices.is_empty(), self.first) {
            (Some(asked), false, _) => {
                format!("no I/O arrives at `{asked}`; there are {}", devices.join(", "))
            }
            (_, _, None) => match problems.1.first() {
                Some(problem) => format!("there is no event in it ({problem})"),
                None => "there is no event in it".to_owned(),
            },
            _ if self.remapped > 0 => "I/Os arrive at remappers (md, device-mapper) only; trace \
                                       the devices below them"
                .to_owned(),
            _ if self.part.window != (None, None) => "no I/O arrives in the window".to_owned(),
            _ => "no I/O arrives in it (Q events)".to_owned(),
        };
        Failure::Request(format!("trace {name}: {why}"))
    }
}

/// An event that is not an arrival.
fn pass_on(matcher: &mut Matcher, record: &Record, at: Nanos, payload: &[u8]) {
    if record.is_passthrough() {
        return;
    }
    let has = |category| record.categories.contains(category);
    let flushes = record.bytes == 0 && has(Categories::FLUSH);
    let write = record.is_write() || has(Categories::DISCARD);
    match record.code {
        Code::GET if flushes => matcher.allocate_flush(record.pid),
        Code::ISSUE if flushes => matcher.issue_flush(at),
        // The device's command carries no write; the process's flush does.
        Code::COMPLETE if flushes && record.is_write() => matcher.complete_flush_of_process(at),
        Code::COMPLETE if flushes => matcher.complete_flush(at),
        Code::ISSUE => matcher.issue(at, write, record.sector, sectors(record)),
        Code::REQUEUE => matcher.requeue(write, record.sector, sectors(record)),
        Code::COMPLETE => matcher.complete(at, write, record.sector, sectors(record)),
        Code::PLUG => matcher.plug(record.pid),
        Code::UNPLUG | Code::UNPLUG_TIMER => matcher.unplug(record.pid),
        Code::SPLIT => {
            if let Some(rest) = payload.first_chunk::<8>() {
                matcher.split(record.pid, u64::from_be_bytes(*rest));
            }
        }
        _ => {}
    }
}

/// The operation of an arrival; `None` if it is not replayed.
fn operation(record: &Record) -> Option<(Op, Flags)> {
    let has = |category| record.categories.contains(category);
    if record.is_passthrough() {
        return None;
    }
    let kept = [
        (Categories::SYNC, Flags::SYNC),
        (Categories::META, Flags::META),
        (Categories::AHEAD, Flags::AHEAD),
        (Categories::FUA, Flags::FUA),
        (Categories::FLUSH, Flags::PREFLUSH),
    ];
    let own = kept.into_iter().filter(|(category, _)| has(*category));
    let flags = own.fold(Flags::NONE, |flags, (_, flag)| flags | flag);
    match () {
        () if record.bytes == 0 && has(Categories::FLUSH) => Some((Op::Flush, Flags::NONE)),
        () if record.bytes == 0 => None,
        () if has(Categories::DISCARD) => {
            Some((Op::Discard, flags.without(Flags::FUA | Flags::PREFLUSH)))
        }
        () if record.is_write() => Some((Op::Write, flags)),
        // Reads order nothing.
        () => Some((Op::Read, flags.without(Flags::FUA | Flags::PREFLUSH))),
    }
}

/// Sectors of an event; a partial one counts as a whole one.
const fn sectors(record: &Record) -> u32 {
    record.bytes.div_ceil(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What do the flags of a record become? A flush has none, a discard and a read order nothing.
    #[test]
    fn records_become_operations() {
        let of = |categories: Categories, bytes: u32| {
            operation(&Record { categories, bytes, ..Record::default() })
        };
        let (write, flush) = (Categories::WRITE, Categories::FLUSH);
        let sync = Categories::SYNC;
        assert_eq!(of(Categories::READ | sync, 4096), Some((Op::Read, Flags::SYNC)));
        let durable = of(write | flush | Categories::FUA | sync | Categories::META, 512);
        let flags = Flags::PREFLUSH | Flags::FUA | Flags::SYNC | Flags::META;
        assert_eq!(durable, Some((Op::Write, flags)));
        assert_eq!(of(write | flush | sync, 0), Some((Op::Flush, Flags::NONE)));
        assert_eq!(of(write | Categories::DISCARD, 4096), Some((Op::Discard, Flags::NONE)));
        assert_eq!(of(write, 0), None);
        assert_eq!(of(Categories::PASSTHROUGH, 36), None);
        assert_eq!(sectors(&Record { bytes: 513, ..Record::default() }), 2);
    }
}
