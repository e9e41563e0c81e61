// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters: a disk's section of a device file.
//!
//! `docs/models/hdd.md` has the table of names, meanings and defaults. A seek curve is given in one
//! of three ways; the first that is present counts:
//!
//! ```text
//! seek_points                                         measured
//! seek_short_base, _root, seek_knee, seek_long_base, _slope     three parts
//! track_to_track, average_seek                        square root
//! ```
//!
//! Every number has bounds, so that no sum of the model overflows: 85 s where 8.5 ms was meant is
//! refused here.

use paternoster_core::{DeviceFacts, Nanos};
use toml::Value;

use super::bus::Bus;
use super::drive::{DriveParameters, Overheads};
use super::geometry::{EvenZones, Geometry};
use super::mechanism::Mechanism;
use super::read_ahead::{ReadAhead, Until};
use super::schedule::Order;
use super::seek::{Curve, SeekTable};
use super::segments::{SegmentSizes, Written};
use super::write_cache::WriteRoom;
use crate::quantity;
use crate::sections::{DeviceFileError, Fields, Sections};

const SECOND: Nanos = Nanos::from_secs(1);
const HOUR: Nanos = Nanos::from_secs(3600);
const MINUTE: u64 = 60_000_000_000;
/// Firmware does not let a command starve: `docs/rules/devices.md`.
const AGE_LIMIT: Nanos = Nanos::from_millis(500);
/// A table larger than any firmware's would only take memory.
const EXTENTS_MAX: u64 = 65_536;
/// The same limit for segments, as each read looks at all of them.
const SEGMENTS_MAX: u64 = 1024;
/// The least of a segment and of a drained chunk: one sector.
const SECTOR: u64 = 512;

/// Reads a disk's parameters from the section `name`.
pub(crate) fn read(
    sections: &mut Sections<'_>,
    name: &'static str,
    facts: &DeviceFacts,
) -> Result<DriveParameters, DeviceFileError> {
    let mut fields = sections.open(name);
    let mechanism = mechanism(&mut fields, facts)?;
    let overhead = bounded(&mut fields, "overhead", None)?;
    let hit = bounded(&mut fields, "hit_overhead", Some(overhead))?;
    let link = fields.rate("link", None)?;
    if link.time(SECTOR) > SECOND {
        return Err(fields.wrong("link", "a sector takes more than a second"));
    }
    let segments = segments(&mut fields)?;
    let depth = u64::from(facts.depth);
    let window = fields.number("queue_window", Some(facts.depth), 1..=depth)?;
    let age_limit = fields.time("age_limit", Some(AGE_LIMIT))?.0;
    let room = WriteRoom {
        sectors: fields.size("write_buffer", Some(0))? / SECTOR,
        extents: fields.number("write_extents", Some(1024), 1..=EXTENTS_MAX)?,
        chunk: (fields.size("drain_chunk", Some(512 << 10))? / SECTOR).max(1),
    };
    let parameters = DriveParameters {
        mechanism,
        depth: facts.depth,
        order: Order { window, age_limit },
        segments,
        room,
        drain_delay: at_most(&mut fields, "drain_delay", Some(Nanos::ZERO), HOUR)?,
        drain_window: fields.number("drain_window", Some(window), 1..=EXTENTS_MAX)?,
        flush_base: bounded(&mut fields, "flush_base", Some(Nanos::ZERO))?,
        flush_queueable: facts.flush_queueable,
        overheads: Overheads::even(hit, overhead),
        link,
        write_link: link,
        bus: Bus::default(),
    };
    fields.finish()?;
    Ok(parameters)
}

/// Platters and arm.
fn mechanism(fields: &mut Fields<'_>, facts: &DeviceFacts) -> Result<Mechanism, DeviceFileError> {
    let rpm = fields.number("rpm", None, 600..=100_000)?;
    let revolution = Nanos(MINUTE / u64::from(rpm));
    let (curve, next) = curve(fields)?;
    let head_switch = bounded(fields, "head_switch", Some(next))?;
    let write_settle = fields.read_or("write_settle", Some(0), quantity::signed_time)?;
    if write_settle.unsigned_abs() > SECOND.0 {
        return Err(fields.wrong("write_settle", &format!("it is at most {SECOND}")));
    }
    let settled = |switch: Nanos| Nanos(switch.0.saturating_add_signed(write_settle));
    let even = EvenZones {
        capacity: facts.capacity,
        heads: fields.number("heads", Some(4), 1..=64)?,
        zones: fields.number("zones", Some(16), 1..=256)?,
        outer: fields.rate("rate_outer", None)?,
        inner: fields.rate("rate_inner", None)?,
        track_skew: bounded(fields, "track_skew", Some(settled(head_switch)))?,
        cylinder_skew: bounded(fields, "cylinder_skew", Some(settled(head_switch.max(next))))?,
    };
    let geometry =
        Geometry::even(revolution, &even).map_err(|why| fields.wrong("rate_outer", &why))?;
    let seek = SeekTable::new(&curve, geometry.cylinders());
    let zero_latency = fields.switch("zero_latency", false)?;
    Ok(Mechanism { geometry, seek, head_switch, write_settle, zero_latency })
}

/// A time of the mechanism or the controller: more than a second is a typing error.
fn bounded(
    fields: &mut Fields<'_>,
    name: &'static str,
    default: Option<Nanos>,
) -> Result<Nanos, DeviceFileError> {
    at_most(fields, name, default, SECOND)
}

fn at_most(
    fields: &mut Fields<'_>,
    name: &'static str,
    default: Option<Nanos>,
    most: Nanos,
) -> Result<Nanos, DeviceFileError> {
    let time = fields.time(name, default)?;
    if time > most {
        return Err(fields.wrong(name, &format!("it is at most {most}")));
    }
    Ok(time)
}

/// The seek curve, and its time to the next cylinder.
fn curve(fields: &mut Fields<'_>) -> Result<(Curve, Nanos), DeviceFileError> {
    if let Some(points) = fields.list("seek_points", point)? {
        let ascending = points.windows(2).all(|two| two[0].0 < two[1].0);
        if points.is_empty() || !ascending {
            return Err(fields.wrong("seek_points", "its distances must ascend"));
        }
        let next = points[0].1;
        return Ok((Curve::Points(points), next));
    }
    if fields.has("seek_short_base") {
        let short_base = bounded(fields, "seek_short_base", None)?;
        let short_root = bounded(fields, "seek_short_root", None)?;
        let knee = fields.number("seek_knee", None, 1..=1 << 28)?;
        let long_base = bounded(fields, "seek_long_base", None)?;
        let long_slope = fields.time("seek_long_slope", None)?;
        if long_slope > Nanos::from_millis(1) {
            return Err(fields.wrong("seek_long_slope", "at most 1 ms a cylinder"));
        }
        let curve = Curve::ThreeParts { short_base, short_root, knee, long_base, long_slope };
        return Ok((curve, short_base + short_root));
    }
    let track_to_track = bounded(fields, "track_to_track", None)?;
    let average = bounded(fields, "average_seek", None)?;
    if average < track_to_track {
        return Err(fields.wrong("average_seek", "it is less than `track_to_track`"));
    }
    Ok((Curve::SquareRoot { track_to_track, average }, track_to_track))
}

/// One measured point: `[100, "4.4 ms"]`.
fn point(entry: &Value) -> Result<(u32, Nanos), String> {
    let wrong = || "each entry is `[distance, \"time\"]`".to_owned();
    let entry = entry.as_array().filter(|entry| entry.len() == 2).ok_or_else(wrong)?;
    let distance = entry[0].as_integer().and_then(|distance| u32::try_from(distance).ok());
    let distance = distance.filter(|&distance| distance > 0).ok_or_else(wrong)?;
    let time = quantity::time(entry[1].as_str().ok_or_else(wrong)?)?;
    if time > SECOND {
        return Err("no seek takes more than a second".to_owned());
    }
    Ok((distance, time))
}

/// The read cache.
fn segments(fields: &mut Fields<'_>) -> Result<SegmentSizes, DeviceFileError> {
    let count = fields.number("segments", Some(0), 0..=SEGMENTS_MAX)?;
    let bytes = fields.size("segment_size", Some(256 << 10))?;
    if !(SECTOR..=1 << 32).contains(&bytes) {
        return Err(fields.wrong("segment_size", "from 512 B to 4 GiB"));
    }
    let read_ahead = fields.size("read_ahead", Some(bytes / 2))?;
    if read_ahead > bytes {
        return Err(fields.wrong("read_ahead", "at most a segment"));
    }
    let keep_before = fields.switch("keep_before", false)?;
    let (sectors, most) = (bytes / SECTOR, read_ahead / SECTOR);
    let until = fields.read_or("read_ahead_until", Some(Until::Segment), until)?;
    let read_ahead = ReadAhead {
        until,
        most,
        over_requested: fields.switch("read_ahead_over_requested", true)?,
        on_hit: fields.switch("read_ahead_on_hit", true)?,
    };
    let written = Written::Apart;
    let (almost_hits, disjoint) = (true, false);
    Ok(SegmentSizes { count, sectors, read_ahead, written, keep_before, almost_hits, disjoint })
}

/// Where reading ahead stops, from its keyword.
fn until(word: &str) -> Result<Until, String> {
    let found = Until::WORDS.iter().find(|(known, _)| *known == word);
    let words = || Until::WORDS.map(|(known, _)| format!("`{known}`")).join(", ");
    found.map(|&(_, until)| until).ok_or_else(|| format!("one of {}", words()))
}

#[cfg(test)]
mod tests {
    use crate::Description;

    const DISK: &str = include_str!("../../devices/hdd-7200.toml");

    fn refusal(from: &str, to: &str) -> String {
        assert!(DISK.contains(from), "{from}");
        Description::parse("disk.toml", &DISK.replacen(from, to, 1)).unwrap_err().message
    }

    /// Are impossible disks refused, with the reason?
    #[test]
    fn impossible_disks_are_refused() {
        for (from, to, why) in [
            ("value = 7200", "value = 6", "a whole number from 600 to 100000"),
            ("\"95 MB/s\"", "\"950 MB/s\"", "the inner rate is above the outer"),
            ("\"200 MB/s\"", "\"1 B/s\"", "a track would have no sectors, or too many"),
            ("\"8.5 ms\"", "\"0.5 ms\"", "it is less than `track_to_track`"),
            ("\"8.5 ms\"", "\"85 s\"", "it is at most 1 s"),
            ("\"1792 KiB\"", "\"3 MiB\"", "at most a segment"),
            ("\"560 MB/s\"", "\"5 B/s\"", "a sector takes more than a second"),
        ] {
            let message = refusal(from, to);
            assert!(message.ends_with(why), "{message}");
        }
    }

    /// Can a write settle faster than a read, and is another kind of read-ahead taken? Neither is a
    /// mistake.
    #[test]
    fn kinds_and_signs_are_read() {
        let line = DISK.lines().find(|line| line.starts_with("read_ahead ")).expect("a read-ahead");
        let with = |more: &str| {
            let text = format!("{line}\n{more} source = \"a test\" }}");
            Description::parse("disk.toml", &DISK.replacen(line, &text, 1))
        };
        for good in ["nothing", "track", "cylinder", "segment", "follow"] {
            assert!(with(&format!("read_ahead_until = {{ value = \"{good}\",")).is_ok(), "{good}");
        }
        let error = with("read_ahead_until = { value = \"tracks\",").unwrap_err().message;
        let words = "one of `nothing`, `track`, `cylinder`, `segment`, `follow`";
        assert!(error.ends_with(words), "{error}");
        let settle = DISK.lines().find(|line| line.starts_with("write_settle")).expect("a settle");
        let with = |value: &str| {
            let text = format!("write_settle = {{ value = \"{value}\", source = \"a test\" }}");
            Description::parse("disk.toml", &DISK.replacen(settle, &text, 1))
        };
        assert!(with("-0.642 ms").is_ok());
        assert!(with("-2 s").unwrap_err().message.ends_with("it is at most 1 s"));
        assert!(with("--1 ms").is_err());
    }

    /// Are the three ways to give a seek curve read, and mistakes in them refused?
    #[test]
    fn seek_curves_are_read() {
        let source = "source = \"a test\"";
        let with = |lines: &str| {
            let kept = DISK.lines().filter(|line| {
                !line.starts_with("track_to_track") && !line.starts_with("average_seek")
            });
            let text: Vec<&str> = kept
                .flat_map(|line| [line].into_iter().chain((line == "[hdd]").then_some(lines)))
                .collect();
            Description::parse("disk.toml", &text.join("\n"))
        };
        let parts = [
            ("seek_short_base", "\"3.24 ms\""),
            ("seek_short_root", "\"0.4 ms\""),
            ("seek_knee", "383"),
            ("seek_long_base", "\"8 ms\""),
            ("seek_long_slope", "\"8 us\""),
        ]
        .map(|(name, value)| format!("{name} = {{ value = {value}, {source} }}"));
        assert!(with(&parts.join("\n")).is_ok());
        let points = |value: &str| with(&format!("seek_points = {{ value = {value}, {source} }}"));
        assert!(points("[[1, \"1 ms\"], [100, \"4 ms\"]]").is_ok());
        let error = points("[[100, \"1 ms\"], [1, \"4 ms\"]]").unwrap_err();
        assert!(error.message.ends_with("its distances must ascend"), "{}", error.message);
        assert!(points("[[1, 1]]").unwrap_err().message.contains("each entry is"));
    }
}
