// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the reader of fio's I/O logs: no panic, times that never go back, errors that say
//! where they are; and a log that was read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_core::Nanos;
use paternoster_workload::fio::iolog::{LogEntry, LogReader, LogWriter, WaitRule};

fuzz_target!(|data: &[u8]| {
    for rule in [WaitRule::Manual, WaitRule::Fio] {
        let mut reader = LogReader::new("fuzz.log", data, rule);
        let mut entries: Vec<LogEntry> = Vec::new();
        for result in reader.by_ref() {
            match result {
                Ok(entry) => {
                    assert!(entries.last().is_none_or(|last| last.at <= entry.at));
                    entries.push(entry);
                }
                Err(problem) => assert!(problem.line > 0 && !problem.message.is_empty()),
            }
        }
        let Ok(mut writer) = LogWriter::new(Vec::new(), reader.files()) else { continue };
        for entry in &entries {
            writer.entry(entry).expect("memory takes all");
        }
        // A log that ends after ten years would not be read again.
        let end = entries.last().map_or(Nanos::ZERO, |last| last.at);
        let bytes = writer.finish(end).expect("memory takes all");
        let again = LogReader::new("again.log", &bytes[..], rule);
        let again: Result<Vec<LogEntry>, _> = again.collect();
        // A log keeps microseconds.
        let rounded = entries.iter().map(|entry| entry.at.as_micros());
        assert!(again.expect("our own log").iter().map(|e| e.at.as_micros()).eq(rounded));
    }
});
