// SPDX-License-Identifier: MIT OR Apache-2.0
//! One matcher: figures, pictures and the MSR form must find the same ends of the same bios.
//!
//! Loads are drawn whose I/Os overlap in every way: merged, split, at one place twice, ended in
//! pieces, never ended, ended without a beginning.

use paternoster_core::Nanos;
use paternoster_trace::Recorder;
use paternoster_trace::analysis::Analysis;
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, Record};
use paternoster_trace::formats::write_msr;
use paternoster_trace::record::{Devices, FromTrace, LatencyRecord, Way};
use paternoster_trace::source::{Entry, Problems, Source};
use proptest::prelude::*;

/// Events from memory.
struct Events {
    records: Vec<Record>,
    next: usize,
    problems: Problems,
}

impl Source for Events {
    fn next(&mut self) -> Option<Entry<'_>> {
        let record = *self.records.get(self.next)?;
        self.next += 1;
        Some(Entry { record, payload: &[] })
    }

    fn problems(&self) -> &Problems {
        &self.problems
    }
}

fn source(records: &[Record]) -> Events {
    Events { records: records.to_vec(), next: 0, problems: Problems::default() }
}

fn events() -> impl Strategy<Value = Vec<Record>> {
    let code = prop_oneof![
        4 => Just(Code::QUEUE), 1 => Just(Code::GET), 1 => Just(Code::BACK_MERGE),
        3 => Just(Code::ISSUE), 1 => Just(Code::REQUEUE), 4 => Just(Code::COMPLETE),
    ];
    let place = (0..6u64, 1..5u32, any::<bool>(), 0..2u32);
    prop::collection::vec((code, place), 1..80).prop_map(|all| {
        let record = |(at, (code, (place, length, write, disk)))| Record {
            // In hundreds of nanoseconds, which is as exact as the MSR form is.
            at: Nanos(at * 1_000),
            pid: 7,
            code,
            sector: place * 4,
            bytes: length * 4 * 512,
            device: DeviceNumber::new(8, disk * 16),
            categories: if write { Categories::WRITE } else { Categories::READ },
            ..Record::default()
        };
        (1u64..).zip(all).map(record).collect()
    })
}

/// How many bios ended, and after how many ns in all: reads, writes.
type Ends = [(u64, u128); 2];

fn analyzed(records: &[Record]) -> Ends {
    let mut analysis = Analysis::default();
    for record in records {
        analysis.record(&Entry { record: *record, payload: &[] });
    }
    let found = analysis.finish();
    [0, 1].map(|write| {
        let all = found.devices.iter().map(|device| &device.whole[write]);
        all.fold((0, 0), |sum, one| (sum.0 + one.count(), sum.1 + one.sum()))
    })
}

fn pictured(records: &[Record]) -> Ends {
    let mut recorder = Recorder::default();
    recorder.latency = Some(LatencyRecord::default());
    let mut reader = FromTrace::new(recorder, Devices::All);
    reader.read(&mut source(records));
    let (recorder, _) = reader.finish(|_| None);
    let latency = recorder.latency.expect("it was requested");
    [false, true].map(|write| {
        let all = latency.total(Way::Whole, write);
        (all.count(), all.sum())
    })
}

fn written(records: &[Record]) -> Ends {
    let mut text = Vec::new();
    write_msr(&mut source(records), &mut text).expect("memory takes all");
    let mut ends = [(0, 0); 2];
    for line in String::from_utf8(text).expect("text").lines() {
        let words: Vec<&str> = line.split(',').collect();
        let took: u128 = words[6].parse().expect("a number");
        let end = &mut ends[usize::from(words[3] == "Write")];
        // Every end is at least 1000 ns after its beginning: 0 is a line without one.
        *end = (end.0 + u64::from(took > 0), end.1 + took * 100);
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1024, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Do `analyze`, `--plot latency` and the MSR form say the same of every trace?
    #[test]
    fn all_find_the_same_ends(records in events()) {
        let ends = analyzed(&records);
        prop_assert_eq!(pictured(&records), ends);
        prop_assert_eq!(written(&records), ends);
    }
}
