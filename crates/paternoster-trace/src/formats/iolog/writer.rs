// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writer: the arrivals of a trace as a log of fio, version 3.
//!
//! ```text
//! Q 8,0 read 128 + 8 at 149.2 us   ▶   149 device-8-0 read 65536 4096
//! Q 8,0 flush                      ▶   3500 device-8-0 sync 0 0
//! ```
//!
//! Every `Q` becomes a line, at its time cut to microseconds: a discard a trim, a flush a sync, a
//! write that flushes first a sync and a write. A device is a file with its name, or `device-8-0`
//! without one (fio's `replay_redirect` sends all to one file); it is added and opened when it
//! first appears. Passed-through commands, and I/O without data other than flushes, are left out.

use std::collections::BTreeMap;
use std::io::{self, Write};

use paternoster_core::Nanos;

use crate::blktrace::{Categories, Code, DeviceNumber, Record};
use crate::formats::Written;
use crate::formats::fields::SECTOR;
use crate::source::Source;

/// Devices of one log; the I/O of further ones is left out.
const DEVICES_MAX: usize = 1 << 16;
/// Characters of a file's name; fio takes no more than 256.
const NAME_MAX: usize = 200;

/// Writes the arrivals of `source`, to its end.
///
/// # Errors
/// Those of `out`.
pub fn write(source: &mut dyn Source, mut out: impl Write) -> io::Result<Written> {
    let mut files: BTreeMap<DeviceNumber, String> = BTreeMap::new();
    let (mut written, mut last) = (Written::default(), Nanos::ZERO);
    writeln!(out, "fio version 3 iolog")?;
    while let Some(entry) = source.next() {
        let record = entry.record;
        if record.is_note() || record.code != Code::QUEUE {
            continue;
        }
        let us = record.at.as_micros();
        let actions = actions(&record);
        let known = files.contains_key(&record.device);
        if actions == [None, None] || !known && files.len() >= DEVICES_MAX {
            written.left_out += 1;
            continue;
        }
        if !known {
            let name = file_name(record.device, source.device_name(record.device));
            writeln!(out, "{us} {name} add\n{us} {name} open")?;
            files.insert(record.device, name);
        }
        let name = &files[&record.device];
        for action in actions.into_iter().flatten() {
            let (offset, bytes) = match action {
                "sync" => (0, 0),
                _ => (record.sector.saturating_mul(SECTOR), record.bytes),
            };
            writeln!(out, "{us} {name} {action} {offset} {bytes}")?;
        }
        last = record.at;
        written.ios += 1;
    }
    for name in files.values() {
        writeln!(out, "{} {name} close", last.as_micros())?;
    }
    out.flush()?;
    Ok(written)
}

/// What fio does for an I/O, one after the other.
fn actions(record: &Record) -> [Option<&'static str>; 2] {
    let is = |category| record.categories.contains(category);
    let flush = is(Categories::FLUSH).then_some("sync");
    let data = match record.bytes {
        0 => None,
        _ if is(Categories::DISCARD) => Some("trim"),
        _ if record.is_write() => Some("write"),
        _ => Some("read"),
    };
    if record.is_passthrough() { [None, None] } else { [flush, data] }
}

/// A device's name as a log can hold it, which takes a blank for the name's end.
fn file_name(device: DeviceNumber, name: Option<&str>) -> String {
    match name {
        Some(name) if !name.is_empty() => {
            let plain = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
            name.chars().take(NAME_MAX).map(plain).collect()
        }
        _ => format!("device-{}-{}", device.major(), device.minor()),
    }
}
