// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the reader of the kernel's binary records: as one stream, and as two files of two
//! processors, cut where the first two bytes say.
//!
//! What must hold: no panic, times that never go back, problems that say where they are, an end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_trace::Source;
use paternoster_trace::blktrace::{Code, Merged, Ordered};

/// Reads to the end.
fn read(mut source: impl Source, bytes: usize) {
    let (mut last, mut count) = (0, 0);
    while let Some(entry) = source.next() {
        count += 1;
        let record = entry.record;
        if !record.is_note() || record.code == Code::NOTE_MESSAGE {
            assert!(record.at.0 >= last);
            last = record.at.0;
        }
    }
    // A record has at least 48 bytes.
    assert!(count <= bytes / 48);
    assert!(source.problems().shown().iter().all(|problem| !problem.message.is_empty()));
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, bytes)) = data.split_first_chunk::<2>() else { return };
    read(Ordered::new("fuzz", bytes), bytes.len());
    let cut = usize::from(u16::from_le_bytes(*cut)).min(bytes.len());
    let (first, second) = bytes.split_at(cut);
    let files = [("a".to_owned(), Some(0), first), ("b".to_owned(), Some(1), second)];
    read(Merged::new(files), bytes.len());
    let files = [("a".to_owned(), None, first), ("b".to_owned(), None, second)];
    read(Merged::new(files), bytes.len());
});
