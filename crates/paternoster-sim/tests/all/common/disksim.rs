// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads measurements of real disks: DiskSim's validation set.
//!
//! A disk there is three files and a trace:
//!
//! ```text
//! NAME.model       zones (cylinders, sectors a track, skews), heads, rpm, head switch, settle
//! NAME.seek        "distance, ms" lines: the measured seek curve
//! NAME.diskspecs   controller times, the cache's segments, the bus
//! NAME.parv        the bus of the older disks
//! NAME.trace       R|W Hit|Miss lba sectors response_us gap_us
//! ```
//!
//! They are `name = value` lists; only the names used here are looked up. This is no general reader
//! of DiskSim's language, and uses none of its code.
use std::fs;
use std::path::{Path, PathBuf};

use paternoster_core::Nanos;
use paternoster_sim::hdd::DriveParameters;
use paternoster_sim::hdd::bus::Bus;
use paternoster_sim::hdd::drive::Overheads;
use paternoster_sim::hdd::mechanism::Mechanism;
use paternoster_sim::hdd::read_ahead::{ReadAhead, Until};
use paternoster_sim::hdd::schedule::Order;
use paternoster_sim::hdd::seek::{Curve, SeekTable};
use paternoster_sim::hdd::segments::{SegmentSizes, Written};
use paternoster_sim::hdd::write_cache::WriteRoom;
use paternoster_sim::transfer::Transfer;

/// The set's folder; `None`, with a printed line that says so, if it is not here.
pub(crate) fn folder() -> Option<PathBuf> {
    let shared = "../../../shared/data/traces-public/disksim-valid";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(shared);
    if !path.is_dir() {
        super::skipped("the measurements of real disks are not here (traces-public/disksim-valid)");
        return None;
    }
    Some(path)
}

/// A span of time in milliseconds.
pub(crate) fn in_ms(time: Nanos) -> f64 {
    std::time::Duration::from_nanos(time.0).as_secs_f64() * 1e3
}

/// One measured request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) write: bool,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    /// Time from issue to end.
    pub(crate) response_us: f64,
    /// From its end to the next one's issue.
    pub(crate) gap_us: f64,
}

/// Reads a trace.
pub(crate) fn trace(file: &Path) -> Vec<Measured> {
    let text = fs::read_to_string(file).expect("the trace is there");
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Measured {
                write: words[0] == "W",
                sector: words[2].parse().expect("an address"),
                sectors: words[3].parse().expect("a count"),
                response_us: words[4].parse().expect("a time"),
                gap_us: words[5].parse().expect("a time"),
            }
        })
        .collect()
}

/// A text without its comments.
fn read(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let lines: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap_or("")).collect();
    lines.join("\n")
}

/// The number after `name =` at its first occurrence.
pub(crate) fn number(text: &str, name: &str) -> Option<f64> {
    let mut from = text;
    loop {
        let at = from.find(name)?;
        let rest = from[at + name.len()..].trim_start();
        if let Some(value) = rest.strip_prefix('=') {
            let value = value.trim_start();
            let end = value.find([',', '\n', ']', ' ']).unwrap_or(value.len());
            return value[..end].trim().parse().ok();
        }
        from = rest;
    }
}

pub(crate) fn whole(text: &str, name: &str) -> u32 {
    let value = number(text, name).unwrap_or_else(|| panic!("{name} is not there"));
    format!("{value:.0}").parse().unwrap_or_else(|_| panic!("{name} is {value}"))
}

/// A time in milliseconds, exact to the nanosecond.
pub(crate) fn ms(value: f64) -> Nanos {
    Nanos(format!("{:.0}", value * 1e6).parse().expect("not negative"))
}

/// A time in milliseconds that may be negative, in nanoseconds.
fn signed(value: f64) -> i64 {
    format!("{:.0}", value * 1e6).parse().expect("a time")
}

fn time(text: &str, name: &str) -> Nanos {
    ms(number(text, name).unwrap_or_else(|| panic!("{name} is not there")))
}

/// The seek curve: measured, or three parts with ten measured distances before them.
fn curve(folder: &Path, model: &str) -> Curve {
    if model.contains("= extracted") {
        let name = model.split("Full seek curve = ").nth(1).expect("a file");
        let text = read(&folder.join(name.split(',').next().expect("a name").trim()));
        let points = text.lines().skip(1).filter_map(|line| {
            let (distance, time) = line.split_once(',')?;
            Some((distance.trim().parse().ok()?, ms(time.trim().parse().ok()?)))
        });
        return Curve::Points(points.collect());
    }
    let list = |name: &str| -> Vec<f64> {
        let rest = model.split(name).nth(1).expect("a list");
        let inside = rest.split(['[', ']']).nth(1).expect("brackets");
        inside.split(',').filter_map(|value| value.trim().parse().ok()).collect()
    };
    let (first, law) = (list("First ten seek times"), list("HPL seek equation values"));
    let cylinders = 4_000;
    let of = |distance: u32| {
        let d = f64::from(distance);
        match first.get(distance as usize - 1) {
            Some(&time) => time,
            None if d < law[0] => law[1] + law[2] * d.sqrt(),
            None => law[3] + law[4] * d,
        }
    };
    Curve::Points((1..cylinders).map(|distance| (distance, ms(of(distance)))).collect())
}

/// How the disk reads ahead.
fn read_ahead(specs: &str, segment: u64) -> ReadAhead {
    let until = match whole(specs, "Buffer continuous read") {
        0 => Until::Nothing,
        1 => Until::Track,
        2 => Until::Cylinder,
        3 => Until::Segment,
        4 => Until::Follow,
        other => panic!("read-ahead of kind {other}"),
    };
    ReadAhead {
        until,
        most: u64::from(whole(specs, "Maximum read-ahead (blks)")).min(segment),
        over_requested: number(specs, "Read-ahead over requested") != Some(0.0),
        on_hit: number(specs, "Read-ahead on idle hit") == Some(1.0),
    }
}

/// Which segments take what is written.
fn written(specs: &str) -> Written {
    let most = whole(specs, "Maximum number of write segments");
    match number(specs, "Use separate write segment") {
        Some(1.0) => Written::Own(1),
        _ => Written::Shared(most),
    }
}

/// The times to leave the bus and to come back.
///
/// A disk with the extra disconnect leaves it between the command of a write and its data, too.
fn shared_bus(specs: &str) -> Bus {
    let optional = |name| number(specs, name).unwrap_or(0.0);
    let (first, other) = (optional("First reselect overhead"), optional("Other reselect overhead"));
    let prepares = optional("Data preparation overhead");
    let extra = number(specs, "Extra write disconnect") == Some(1.0);
    let away = optional("Extradisc disconnect overhead")
        + optional("Extradisc inter-disconnect delay")
        + first;
    let (data, leave, back) = if extra {
        (away + prepares, optional("Extradisc 2nd disconnect overhead"), other)
    } else {
        (prepares, optional("Write disconnect overhead"), first)
    };
    let mark = optional("High (read) water mark") * 1000.0;
    Bus {
        read_mark: format!("{mark:.0}").parse().expect("a share"),
        read_leave: ["Read disconnect afterread", "Read disconnect afterwrite"]
            .map(|name| ms(optional(name))),
        read_return: ms(first + prepares),
        read_done: ms(optional("Read completion overhead")),
        write_data: ms(data),
        write_rest: ms(if extra { optional("Extradisc seek delta") } else { 0.0 }),
        write_least: ms(optional("Minimum seek delay")),
        write_leave: ms(leave),
        write_done: ms(back + optional("Write completion overhead")),
    }
}

/// A disk as DiskSim's files describe it; `turn` is a revolution, if not the stated one.
pub(crate) fn disk(
    folder: &Path,
    name: &str,
    model_name: &str,
    specs: &str,
    turn: Option<Nanos>,
) -> DriveParameters {
    let model = read(&folder.join(format!("{model_name}.model")));
    let specs = read(&folder.join(format!("{specs}.diskspecs")));
    let parv = read(&folder.join(format!("{name}.parv")));
    let rpm = number(&model, "Rotation speed (in rpms)").expect("rpm");
    let revolution = turn.unwrap_or(ms(60_000.0 / rpm));
    let geometry = super::layout::geometry(&model, revolution);
    let seek = SeekTable::new(&curve(folder, &model), geometry.cylinders());
    let write_back = number(&specs, "Fast write level") != Some(0.0);
    // The newer disks have their link in the specs, the older a bus in a separate file.
    let bus = |name| parv.split("BUS1").nth(1).and_then(|bus| number(bus, name));
    let link = |name| {
        let both = number(&specs, "Bulk sector transfer time").into_iter().chain(bus(name));
        let nanos = ms(both.fold(0.0, f64::max)).0;
        Transfer { nanos, bytes: 512 }
    };
    let optional = |name| number(&specs, name).unwrap_or(0.0);
    let completion = optional("Read completion overhead") + optional("Data preparation overhead");
    let pair = |name: &str, always: f64| {
        ["read", "write"].map(|after| {
            let value = number(&specs, &format!("{name} over. after {after}")).expect(name);
            ms(value + always)
        })
    };
    let answered = optional("Write completion overhead") + optional("Data preparation overhead");
    let extra = number(&specs, "Extra write disconnect") == Some(1.0);
    let extra_command = [ms(optional("Extradisc command overhead")); 2];
    let segment = u64::from(whole(&specs, "Segment size (in blks)"));
    DriveParameters {
        mechanism: Mechanism {
            seek,
            head_switch: time(&model, "Head switch time"),
            write_settle: signed(number(&model, "Add. write settling delay").expect("a time")),
            zero_latency: number(&specs, "Immediate buffer read") == Some(1.0),
            geometry,
        },
        depth: 1,
        order: Order { window: 1, age_limit: u64::MAX },
        segments: SegmentSizes {
            count: whole(&specs, "Number of buffer segments"),
            sectors: segment,
            read_ahead: read_ahead(&specs, segment),
            written: written(&specs),
            keep_before: number(&specs, "Read any free blocks") == Some(1.0),
            almost_hits: number(&specs, "Allow almost read hits") == Some(1.0),
            // "Each segment contains data that is disjoint from all other segments."
            disjoint: true,
        },
        room: WriteRoom {
            sectors: if write_back { segment } else { 0 },
            extents: 64,
            chunk: segment,
        },
        drain_delay: Nanos::ZERO,
        drain_window: 1,
        flush_base: Nanos::ZERO,
        flush_queueable: true,
        overheads: Overheads {
            read_hit: pair("Read hit", completion),
            read_miss: pair("Read miss", 0.0),
            write_hit: pair("Write hit", answered),
            write_miss: if extra { extra_command } else { pair("Write miss", 0.0) },
        },
        link: link("Read block transfer time"),
        write_link: link("Write block transfer time"),
        bus: shared_bus(&specs),
    }
}
