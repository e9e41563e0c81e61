// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever events come, in whatever order, with whatever numbers: an analysis ends, and its
//! figures hold together.

use paternoster_core::Nanos;
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, Record};
use paternoster_trace::btt::{Analysis, Figures, Interval, Memory, Options};
use paternoster_trace::source::Entry;
use proptest::prelude::*;

/// Numbers, some small, some near the end of their range, some equal.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..64_u64, Just(u64::MAX), Just(u64::MAX - 7), any::<u64>(), 0..10_000_000_000_u64]
}

fn record() -> impl Strategy<Value = (Record, Vec<u8>)> {
    let numbers = (number(), number(), number());
    let kinds = (0..20_u16, any::<u32>(), 0..6_u32, 0..4_u32);
    (numbers, kinds, proptest::collection::vec(any::<u8>(), 0..40)).prop_map(
        |((at, sector, bytes), (code, categories, pid, device), payload)| {
            // Half with the categories of ordinary I/O: otherwise many are notes and commands.
            let categories =
                if code % 2 == 0 { categories & 0xfbff_u32 & !0x200 } else { categories };
            let record = Record {
                at: Nanos(at),
                sector,
                bytes: u32::try_from(bytes % (1 << 32)).unwrap(),
                code: Code(code),
                categories: Categories(categories),
                pid,
                device: DeviceNumber::new([8, 253, 7, 4095][device as usize], device),
                ..Record::default()
            };
            (record, payload)
        },
    )
}

/// All options.
fn everything() -> Options {
    let name = |name: &str| Some(name.to_owned());
    Options {
        output: name("out"),
        all: true,
        easy: true,
        seeks: name("seek"),
        seeks_per_second: name("sps"),
        blocks: name("bno"),
        q2c: name("q2c"),
        d2c: name("d2c"),
        q2d: name("q2d"),
        periodic: Some(0.5),
        depth: name("aqd"),
        unplugs: name("unplug"),
        live: true,
        per_io: name("perio"),
        per_io_trees: true,
        iostat: name("iostat"),
        iostat_interval: 3600,
        ..Options::default()
    }
}

fn analyse(records: &[(Record, Vec<u8>)], options: Options) -> (Figures, Memory) {
    let mut files = Memory::default();
    let mut analysis = Analysis::new(options, &mut files);
    for (record, payload) in records {
        analysis.record(&Entry { record: *record, payload });
    }
    (analysis.finish().unwrap(), files)
}

proptest! {
    /// Does nothing panic, and do the counts of steps fit together?
    #[test]
    fn any_events_are_analysed(records in proptest::collection::vec(record(), 0..200)) {
        let (figures, files) = analyse(&records, everything());
        prop_assert!(files.0["out.avg"].starts_with(b"==================== Per Process"));
        let count = |interval| figures.intervals[interval].count;
        prop_assert!(count(Interval::D2C) <= count(Interval::Q2C) + count(Interval::Q2CRemapper));
        prop_assert!(count(Interval::S2G) <= count(Interval::Q2G));
        for interval in Interval::ALL {
            let spread = figures.intervals[interval];
            prop_assert!(spread.min <= spread.max);
            prop_assert_eq!(spread.count == 0, spread.max == 0);
        }
        let seeks: u64 = figures.devices.iter().map(|device| device.queue_seeks.seeks).sum();
        prop_assert_eq!(figures.queue_seeks.seeks, seeks);
    }

    /// Are the figures the same whatever other options are set?
    #[test]
    fn figures_do_not_depend_on_files(records in proptest::collection::vec(record(), 0..100)) {
        let (with, _) = analyse(&records, everything());
        let (without, files) = analyse(&records, Options::default());
        prop_assert_eq!(format!("{with:?}"), format!("{without:?}"));
        prop_assert!(files.0.keys().all(|name| name == "-" || name.ends_with("_fp.dat")));
    }
}
