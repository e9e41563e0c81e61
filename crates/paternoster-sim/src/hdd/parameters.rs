// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters: a disk's section of a device file.
//!
//! | name | what | default |
//! |---|---|---|
//! | `rpm` | revolutions a minute | |
//! | `heads`, `zones` | surfaces; steps of the rate between outside and inside | 4, 16 |
//! | `rate_outer`, `rate_inner` | sustained sequential rates | |
//! | `track_to_track`, `average_seek` | square-root seek curve | |
//! | `seek_short_base`, `seek_short_root`, `seek_knee`, `seek_long_base`, `seek_long_slope` | or: three-part curve | |
//! | `seek_points` | or: measured, `[[1, "1.2 ms"], …]` | |
//! | `head_switch` | to another surface | `track_to_track` |
//! | `write_settle` | longer than a read after each move | 0 |
//! | `track_skew`, `cylinder_skew` | what switches are given | from the switches |
//! | `overhead`, `hit_overhead` | controller, with and without the mechanism | |
//! | `link` | rate to the host | |
//! | `segments`, `segment_size`, `read_ahead` | read cache | |
//! | `keep_before`, `zero_latency` | keeps what passes before; begins anywhere on a track | no |
//! | `queue_window`, `age_limit` | queued commands that compete; how long one may wait | depth, 500 ms |
//! | `write_buffer`, `write_extents`, `drain_chunk` | room for what is dirty | 0, 1024, 512 KiB |
//! | `drain_delay`, `drain_window` | idle time before draining; extents that compete | 0, `queue_window` |
//! | `flush_base` | a flush beside its draining | 0 |

use paternoster::{DeviceFacts, Nanos};
use toml::Value;

use super::drive::{DriveParameters, Overheads, Watermarks};
use super::geometry::{EvenZones, Geometry};
use super::mechanism::Mechanism;
use super::schedule::Order;
use super::seek::{Curve, SeekTable};
use super::segments::SegmentSizes;
use super::write_cache::WriteRoom;
use crate::quantity;
use crate::sections::{DeviceFileError, Fields, Sections};

const MINUTE: u64 = 60_000_000_000;
/// Firmware does not let a command starve: `devices.md` 1.1.
const AGE_LIMIT: Nanos = Nanos::from_millis(500);
/// More dirty extents than any firmware's table holds would only take memory.
const EXTENTS_MAX: u64 = 65_536;
/// The same for segments, each of which is looked at for each read.
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
    let overhead = fields.time("overhead", None)?;
    let hit = fields.time("hit_overhead", Some(overhead))?;
    let link = fields.rate("link", None)?;
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
        drain_delay: fields.time("drain_delay", Some(Nanos::ZERO))?,
        drain_window: fields.number("drain_window", Some(window), 1..=EXTENTS_MAX)?,
        flush_base: fields.time("flush_base", Some(Nanos::ZERO))?,
        flush_queueable: facts.flush_queueable,
        overheads: Overheads::even(hit, overhead),
        link,
        watermarks: Watermarks::default(),
    };
    fields.finish()?;
    Ok(parameters)
}

/// Platters and arm.
fn mechanism(fields: &mut Fields<'_>, facts: &DeviceFacts) -> Result<Mechanism, DeviceFileError> {
    let rpm = fields.number("rpm", None, 60..=100_000)?;
    let revolution = Nanos(MINUTE / u64::from(rpm));
    let (curve, next) = curve(fields)?;
    let head_switch = bounded(fields, "head_switch", Some(next))?;
    let write_settle = bounded(fields, "write_settle", Some(Nanos::ZERO))?;
    let even = EvenZones {
        capacity: facts.capacity,
        heads: fields.number("heads", Some(4), 1..=64)?,
        zones: fields.number("zones", Some(16), 1..=256)?,
        outer: fields.rate("rate_outer", None)?,
        inner: fields.rate("rate_inner", None)?,
        track_skew: bounded(fields, "track_skew", Some(head_switch + write_settle))?,
        cylinder_skew: bounded(
            fields,
            "cylinder_skew",
            Some(head_switch.max(next) + write_settle),
        )?,
    };
    let geometry =
        Geometry::even(revolution, &even).map_err(|why| fields.wrong("rate_outer", &why))?;
    let seek = SeekTable::new(&curve, geometry.cylinders());
    let zero_latency = fields.switch("zero_latency", false)?;
    Ok(Mechanism { geometry, seek, head_switch, write_settle, zero_latency })
}

/// A time of the mechanism: more than a second is a slip of the pen.
fn bounded(
    fields: &mut Fields<'_>,
    name: &'static str,
    default: Option<Nanos>,
) -> Result<Nanos, DeviceFileError> {
    let time = fields.time(name, default)?;
    if time > Nanos::from_secs(1) {
        return Err(fields.wrong(name, "no part of a disk takes more than a second"));
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
    if time > Nanos::from_secs(1) {
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
    let (sectors, read_ahead) = (bytes / SECTOR, read_ahead / SECTOR);
    Ok(SegmentSizes { count, sectors, read_ahead, keep_before })
}
