// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole analyses, fed event by event as a simulation would, without files.

use paternoster_core::Nanos;

use super::*;
use crate::blktrace::{Categories, Code, DeviceNumber, Record};
use crate::source::Entry;

const DISK: DeviceNumber = DeviceNumber::new(8, 64);

/// A read of eight sectors by process 7.
fn event(at: u64, code: Code, sector: u64) -> Record {
    Record {
        at: Nanos(at),
        sector,
        bytes: 4096,
        code,
        categories: Categories::FS | Categories::READ,
        pid: 7,
        device: DISK,
        ..Record::default()
    }
}

fn figures(limit: u32, records: &[Record]) -> Figures {
    let mut analysis = Analysis::with_limit(Options::default(), Nowhere, limit);
    for record in records {
        analysis.record(&Entry { record: *record, payload: &[] });
    }
    analysis.finish().unwrap()
}

/// Do six reads give the figures that can be added up by hand?
#[test]
fn six_reads_add_up() {
    let mut records = Vec::new();
    for read in 0..6 {
        let (at, sector) = (read * 2_500_000, 2048 + 8 * read);
        let issued = at + 3100 + 37 * read;
        let steps = [(at, Code::QUEUE), (at + 800, Code::GET), (at + 1700, Code::INSERT)];
        records.extend(steps.map(|(at, code)| event(at, code, sector)));
        records.push(event(issued, Code::ISSUE, sector));
        records.push(event(issued + (150 + 311 * read) * 1000, Code::COMPLETE, sector));
    }
    let figures = figures(OUTSTANDING_MAX, &records);
    let spread = |interval| figures.intervals[interval];
    let same = |count, ns| Spread { count, sum: count * ns, min: ns, max: ns };
    assert_eq!(spread(Interval::Q2Q), same(5, 2_500_000));
    assert_eq!(spread(Interval::Q2G), same(6, 800));
    assert_eq!(spread(Interval::G2I), same(6, 900));
    // 1400, 1437 … 1585: six times 1400 and 15 times 37.
    let waited = Spread { count: 6, sum: 8955, min: 1400, max: 1585 };
    assert_eq!(spread(Interval::I2D), waited);
    // (6 * 150 + 15 * 311) us.
    let served = Spread { count: 6, sum: 5_565_000, min: 150_000, max: 1_705_000 };
    assert_eq!(spread(Interval::D2C), served);
    // All together: 6 * 1700 + 8955 + 5565000.
    assert_eq!(spread(Interval::Q2C).sum, 5_584_155);
    assert_eq!(spread(Interval::M2D), Spread::default());

    let disk = &figures.devices[0];
    assert_eq!(disk.intervals, figures.intervals);
    let overhead = disk.overhead.unwrap();
    assert_eq!(format!("{:.4}", overhead.d2c), "99.6570");
    assert_eq!((disk.merges.queued, disk.merges.issued, disk.merges.ratio()), (6, 6, 1.0));
    // From sector 0 to the first, then one after the other.
    assert_eq!((disk.queue_seeks.modes[0], disk.queue_seeks.mode_count), (0, 5));
    assert_eq!((disk.active.live, disk.waiting), (6, 0.0));
    let names: Vec<&str> = figures.processes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((names, figures.left_out), (vec!["pid000000007"], LeftOut::default()));
}

/// Is the oldest bio dropped where too many are never completed, and is that reported?
#[test]
fn lost_bios_fall_out_and_are_told() {
    let mut records: Vec<Record> =
        (0..10).map(|bio| event(100 * bio, Code::QUEUE, 8 * bio)).collect();
    records.extend((0..10).map(|bio| event(2000, Code::COMPLETE, 8 * bio)));
    let figures = figures(4, &records);
    // Of ten, six made room for others; completions of these find nothing.
    assert_eq!(figures.left_out, LeftOut { bios: 6, ..LeftOut::default() });
    assert_eq!(figures.intervals[Interval::Q2C].count, 4);
    assert_eq!(figures.devices[0].merges.queued, 10);
}

/// Do devices beyond the limit not count, and is that reported?
#[test]
fn devices_beyond_the_limit_do_not_count() {
    let records: Vec<Record> = (0..1030)
        .map(|minor| Record { device: DeviceNumber::new(8, minor), ..event(1, Code::QUEUE, 8) })
        .collect();
    let figures = figures(OUTSTANDING_MAX, &records);
    // 1030 less 1024.
    assert_eq!((figures.devices.len(), figures.left_out.events), (DEVICES_MAX, 6));
}

/// Is an event before the first bio of its device left out, and are later ones counted?
#[test]
fn what_comes_before_the_first_bio_is_left_out() {
    let records = [
        event(0, Code::ISSUE, 64),
        event(10, Code::COMPLETE, 64),
        event(20, Code::QUEUE, 64),
        event(30, Code::ISSUE, 64),
        event(50, Code::COMPLETE, 64),
    ];
    let figures = figures(OUTSTANDING_MAX, &records);
    assert_eq!(figures.devices[0].merges.issued, 1);
    assert_eq!(figures.intervals[Interval::D2C], Spread { count: 1, sum: 20, min: 20, max: 20 });
}

/// Do a mapped device's bios count apart, and has it no row where it makes no sense?
#[test]
fn mapped_devices_count_apart() {
    let mapped = DeviceNumber::new(253, 0);
    let of = |device, record: Record| Record { device, ..record };
    let payload = [&mapped.0.to_be_bytes()[..], &DISK.0.to_be_bytes(), &500_u64.to_be_bytes()];
    let payload = payload.concat();
    let mut analysis = Analysis::new(Options::default(), Nowhere);
    for record in [
        of(mapped, event(0, Code::QUEUE, 500)),
        event(350, Code::REMAP, 100),
        event(600, Code::QUEUE, 100),
        event(900, Code::ISSUE, 100),
        event(1900, Code::COMPLETE, 100),
        of(mapped, event(2000, Code::COMPLETE, 500)),
    ] {
        analysis.record(&Entry { record, payload: &payload });
    }
    let figures = analysis.finish().unwrap();
    let sum = |interval| figures.intervals[interval].sum;
    assert_eq!((sum(Interval::Q2ARemapper), sum(Interval::Q2CRemapper)), (350, 2000));
    // To the system the bio below is one that comes after the one above.
    assert_eq!((sum(Interval::Q2Q), sum(Interval::Q2C), sum(Interval::D2C)), (600, 1300, 1000));
    assert!(figures.devices[0].overhead.is_none());
    assert_eq!(figures.devices[1].device, DISK);
}
