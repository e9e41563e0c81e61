// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings as texts and as binary files: does reading the text give the same events, as far as
//! the text has them?
//!
//! Without the recordings the tests say so and pass.

use std::collections::BTreeMap;
use std::fs::File;

use paternoster_core::Nanos;
use paternoster_trace::blkparse::Options;
use paternoster_trace::blktrace::{Categories, Code, Merged, Ordered, PerCpu, Record, Writer};
use paternoster_trace::formats::{blkparse_text, ftrace_text};
use paternoster_trace::ftrace::{self, What};
use paternoster_trace::{Entry, Source};

use crate::common::golden::{
    CASES, KERNEL, assert_same, data, merged, text, unpacked, without_files,
};

type Owned = (Record, Vec<u8>);

/// All entries of a source that refuses nothing.
fn entries(mut source: impl Source) -> Vec<Owned> {
    let mut found = Vec::new();
    while let Some(entry) = source.next() {
        found.push((entry.record, entry.payload.to_vec()));
    }
    assert_eq!(source.problems().shown(), []);
    found
}

/// The events and messages among them.
fn events(source: impl Source) -> Vec<Owned> {
    let stays = |record: &Record| !record.is_note() || record.code == Code::NOTE_MESSAGE;
    entries(source).into_iter().filter(|(record, _)| stays(record)).collect()
}

/// The events without what a text does not say: that an event without data is a read, and that it
/// comes from a file system (the kernel's own tracer does not say that either).
fn as_told(mut events: Vec<Owned>) -> Vec<Owned> {
    for (record, _) in &mut events {
        record.categories.0 &= !Categories::FS.0;
        if record.bytes == 0 {
            record.categories.0 &= !Categories::READ.0;
        }
    }
    events
}

/// Is a kernel's trace the same, read from blkparse's text and from the binary files?
#[test]
fn kernel_traces_as_text() {
    let Some(folder) = data("kernel-traces") else { return };
    for name in KERNEL {
        let folder = folder.join(name);
        let real = unpacked(&folder.join(format!("{name}.blkparse.txt.gz")));
        assert!(blkparse_text::looks_like(&real.as_bytes()[..4096]));
        let told = as_told(events(blkparse_text::Reader::new(name, real.as_bytes())));
        let kept = as_told(events(merged(&folder, name)));
        assert_eq!(told.len(), kept.len(), "{name}");
        for (told, kept) in told.iter().zip(&kept) {
            assert_eq!(told, kept, "{name}");
        }
    }
}

/// If the golden cases' texts are read and printed again, are they the same?
#[test]
fn golden_texts_again() {
    let Some(folder) = data("btt-golden") else { return };
    for case in CASES {
        let real = std::fs::read(folder.join(case).join("blkparse.txt")).unwrap();
        let real = without_files(&real);
        let end = real.windows(4).position(|window| window == b"CPU0").unwrap();
        let source = blkparse_text::Reader::new(case, real);
        let ours = text(source, Options { quiet: true, ..Options::of_file(case) });
        assert_same(case, &ours, &real[..end]);
    }
}

/// Does the text of a running bfq give the events and messages that its own reader gives?
#[test]
fn bfq_logs() {
    let Some(folder) = data("kernel-traces/bfq-decisions") else { return };
    let mut logs = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let log = unpacked(&path);
        assert!(ftrace_text::looks_like(&log.as_bytes()[..4096]));
        let told = events(ftrace_text::Reader::new("log", log.as_bytes()));
        let typed = ftrace::Reader::new(log.as_bytes()).map(Result::unwrap);
        let mut origin = None;
        let mut count = 0;
        for (entry, (record, payload)) in typed.zip(&told) {
            let ftrace::Entry::Record(wanted) = entry else { panic!("{entry:?}") };
            let at = wanted.at_ns - *origin.get_or_insert(wanted.at_ns);
            assert_eq!((record.at, record.cpu), (Nanos(at), wanted.cpu), "line {}", wanted.line);
            match wanted.what {
                What::Event(event) => {
                    assert_eq!(record.sector, event.sector);
                    assert_eq!(record.bytes, event.sectors * 512);
                    assert_eq!(record.pid, wanted.pid);
                    assert_eq!(record.categories.contains(Categories::SYNC), event.letters.sync());
                    assert!(!record.is_note());
                }
                What::Message { queue, message } => {
                    let speaker = queue.map_or("bfq".to_owned(), |queue| queue.to_string());
                    let words = String::from_utf8(payload.clone()).unwrap();
                    assert_eq!(words, format!("{speaker} {message}"), "line {}", wanted.line);
                }
                What::Note(words) => assert_eq!(payload, words.as_bytes()),
            }
            count += 1;
        }
        assert_eq!(count, log.lines().count(), "{}", path.display());
        logs += 1;
    }
    assert_eq!(logs, 7);
}

/// Is every line of the logs of a running cfq an event or a message? Their actions are counted as
/// the lines' third words.
#[test]
fn cfq_logs() {
    let Some(folder) = data("kernel-traces/cfq-decisions") else { return };
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gz") {
            continue;
        }
        let log = unpacked(&path);
        assert!(ftrace_text::looks_like(&log.as_bytes()[..4096]), "{}", path.display());
        let mut wanted = BTreeMap::new();
        for line in log.lines() {
            let letters = line.split(' ').nth(2).unwrap();
            *wanted.entry(letters).or_insert(0) += 1;
        }
        let mut found = BTreeMap::new();
        let mut source = ftrace_text::Reader::new("log", log.as_bytes());
        while let Some(entry) = source.next() {
            let letters = match entry.record.code {
                _ if entry.record.is_note_of(Code::NOTE_MESSAGE) => "m",
                _ if entry.record.is_note() => continue,
                Code::QUEUE => "Q",
                Code::GET => "G",
                Code::INSERT => "I",
                Code::ISSUE => "D",
                Code::COMPLETE => "C",
                Code::REQUEUE => "R",
                Code::BACK_MERGE => "M",
                Code::FRONT_MERGE => "F",
                Code::PLUG => "P",
                Code::UNPLUG => "U",
                Code::UNPLUG_TIMER => "UT",
                Code::SLEEP => "S",
                other => panic!("{other:?}"),
            };
            *found.entry(letters).or_insert(0) += 1;
        }
        assert_eq!(source.problems().shown(), [], "{}", path.display());
        assert_eq!(found, wanted, "{}", path.display());
    }
}

/// Is the binary stream of ftrace, which has no sequences and all processors in blocks, the same
/// trace as blktrace's files? Blocks are what happened on one processor in 10 ms.
#[test]
fn binary_stream_of_ftrace() {
    let Some(folder) = data("kernel-traces") else { return };
    for name in KERNEL {
        let wanted = events(merged(&folder.join(name), name));
        let mut blocks = wanted.clone();
        blocks.sort_by_key(|(record, _)| (record.at.0 / 10_000_000, record.cpu));
        assert_ne!(blocks, wanted);
        let mut bytes = Vec::new();
        let mut stream = Writer::new(&mut bytes);
        for (record, payload) in &blocks {
            let record = Record { sequence: 0, ..*record };
            stream.record(&Entry { record, payload }).unwrap();
        }
        stream.finish().unwrap();
        let found = events(Ordered::new(name, &bytes[..]));
        let wanted = wanted.into_iter();
        let wanted: Vec<Owned> =
            wanted.map(|(record, payload)| (Record { sequence: 0, ..record }, payload)).collect();
        assert!(found == wanted, "{name}");
    }
}

/// Do merged traces go through files of processors and come back, and through one stream unchanged?
#[test]
fn merged_traces_again() {
    let Some(folder) = data("btt-golden") else { return };
    for case in CASES {
        let path = folder.join(case).join(format!("{case}.bin"));
        let bytes = std::fs::read(&path).unwrap();
        let mut stream = Vec::new();
        let mut writer = Writer::new(&mut stream);
        for (record, payload) in entries(Ordered::new(case, &bytes[..])) {
            writer.record(&Entry { record, payload: &payload }).unwrap();
        }
        writer.finish().unwrap();
        // The case in big-endian order comes back in little-endian order.
        assert_eq!(stream.len(), bytes.len(), "{case}");
        assert!(case == "bigendian" || stream == bytes, "{case}");

        let kept = entries(Ordered::new(case, &bytes[..]));
        let again = entries(Ordered::new(case, &stream[..]));
        assert_eq!(kept, again, "{case}");
        let folder =
            std::env::temp_dir().join(format!("paternoster-{}-{case}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut trace =
            PerCpu::new(|cpu| File::create(folder.join(format!("{case}.blktrace.{cpu}"))));
        for (record, payload) in &kept {
            trace.record(&Entry { record: *record, payload }).unwrap();
        }
        trace.finish().unwrap();
        let is_event =
            |(record, _): &&Owned| !record.is_note() || record.code == Code::NOTE_MESSAGE;
        let kept: Vec<&Owned> = kept.iter().filter(is_event).collect();
        let files: Merged<File> = merged(&folder, case);
        let found = events(files);
        assert_eq!(found.iter().collect::<Vec<_>>(), kept, "{case}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
