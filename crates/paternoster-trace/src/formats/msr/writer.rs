// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writer: a trace in the form of the MSR Cambridge set, which many programs read.
//!
//! ```text
//! Q 240,0 (hm_0) read 8 + 8 at 5 us, C at 25 us
//!    ▶ 116444736000000050,hm,0,Read,4096,4096,200
//!                            └ 20 us in 100 ns
//! ```
//!
//! Every `Q` that reads or writes becomes a line, in order of arrival; its response time lasts up
//! to the `C` of its last sector (see [`InFlight`]; a merged one ends with its request). Where no
//! `C` comes it is 0.
//!
//! Times count from 1970, because a trace has no date. A device `hm_0` is host `hm`, disk 0; one
//! without a name is host `dev8`, disk 16 for 8,16. Flushes and discards have no line, nor has
//! anything after 215 years.
//!
//! Invariants: I1 at most [`IN_FLIGHT_MAX`] lines wait for their response, or one before them; then
//! the oldest is written without.

use std::collections::VecDeque;
use std::io::{self, Write};

use paternoster_core::Nanos;
use paternoster_measure::{IN_FLIGHT_MAX, InFlight, IoId};

use crate::blktrace::{Categories, Code, DeviceNumber, Record};
use crate::formats::Written;
use crate::formats::fields::SECTOR;
use crate::source::Source;

/// Characters of a host's name.
const NAME_MAX: usize = 200;
/// The beginning of 1970, in 100 ns since 1601.
const UNIX_EPOCH: u64 = 116_444_736_000_000_000;
/// The last arrival that has a stamp which readers with 64 bits of nanoseconds take: 215 years.
const LAST: Nanos = Nanos(u64::MAX - UNIX_EPOCH * 100);

/// A line that waits.
#[derive(Debug)]
struct Waiting {
    record: Record,
    io: IoId,
    end: Option<Nanos>,
}

/// Lines in order of arrival, of which the first is number `first`.
#[derive(Debug, Default)]
struct Outstanding {
    lines: VecDeque<Waiting>,
    first: u64,
    /// I/Os without an end, as numbers of lines.
    in_flight: InFlight<u64>,
}

impl Outstanding {
    fn arrive(&mut self, record: Record) {
        let number = self.first + self.lines.len() as u64;
        // There is room for as many as there are lines.
        let (io, _) = self.in_flight.insert(record.extent(), number);
        self.lines.push_back(Waiting { record, io, end: None });
    }

    /// Some sectors have ended, and what they are the last of.
    fn complete(&mut self, done: &Record) {
        let Outstanding { lines, first, in_flight } = self;
        in_flight.complete(done.extent(), |part| {
            let line = usize::try_from(*part.value - *first).ok();
            if let Some(line) = line.and_then(|line| lines.get_mut(line)).filter(|_| part.last) {
                line.end = Some(done.at);
            }
        });
    }

    /// The oldest line, if it has its end, or if none may wait longer.
    fn take(&mut self, all: bool) -> Option<Waiting> {
        let front = self.lines.front()?;
        if front.end.is_none() && !all && self.lines.len() < IN_FLIGHT_MAX {
            return None;
        }
        self.in_flight.remove(front.io);
        self.first += 1;
        self.lines.pop_front()
    }
}

/// Writes the reads and writes of `source`, to its end.
///
/// # Errors
/// Those of `out`.
pub fn write(source: &mut dyn Source, mut out: impl Write) -> io::Result<Written> {
    let mut written = Written::default();
    let mut outstanding = Outstanding::default();
    while let Some(entry) = source.next() {
        let record = entry.record;
        let data = record.categories.intersects(Categories::READ | Categories::WRITE)
            && !record.categories.contains(Categories::DISCARD)
            && !record.is_passthrough()
            && record.bytes > 0;
        match record.code {
            _ if record.is_note() => {}
            Code::QUEUE if data && record.at <= LAST => outstanding.arrive(record),
            Code::QUEUE => written.left_out += 1,
            Code::COMPLETE if data => outstanding.complete(&record),
            _ => {}
        }
        while let Some(line) = outstanding.take(false) {
            written.ios += 1;
            write_line(&mut out, &line, source)?;
        }
    }
    while let Some(line) = outstanding.take(true) {
        written.ios += 1;
        write_line(&mut out, &line, source)?;
    }
    out.flush()?;
    Ok(written)
}

fn write_line(out: &mut impl Write, line: &Waiting, source: &dyn Source) -> io::Result<()> {
    let record = &line.record;
    let (host, disk) = host_and_disk(record.device, source.device_name(record.device));
    let kind = if record.is_write() { "Write" } else { "Read" };
    let response = line.end.map_or(0, |end| end.0.saturating_sub(record.at.0) / 100);
    let stamp = UNIX_EPOCH + record.at.0 / 100;
    let offset = record.sector.saturating_mul(SECTOR);
    writeln!(out, "{stamp},{host},{disk},{kind},{offset},{},{response}", record.bytes)
}

/// A device as a host's name and a disk's number.
fn host_and_disk(device: DeviceNumber, name: Option<&str>) -> (String, u32) {
    let Some(name) = name else { return (format!("dev{}", device.major()), device.minor()) };
    let letter = |c: char| if c == ',' || c.is_control() { '_' } else { c };
    let plain = |name: &str| name.chars().take(NAME_MAX).map(letter).collect();
    let parts = name.rsplit_once('_').and_then(|(host, disk)| Some((host, disk.parse().ok()?)));
    match parts {
        Some((host, disk)) if !host.is_empty() => (plain(host), disk),
        _ => (plain(name), 0),
    }
}
