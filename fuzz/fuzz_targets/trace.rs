// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the readers of traces, all formats: the first byte chooses one, or none, which has
//! the format recognised.
//!
//! What must hold: no panic, times that never go back, problems that say what is wrong, an end; and
//! a written trace can be read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_trace::Source;
use paternoster_trace::formats::{Format, open, recognise, write_iolog, write_msr};

/// How a packed stream begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads to the end; returns how many events arrived.
fn read(source: &mut dyn Source) -> u64 {
    let (mut last, mut events) = (0, 0);
    while let Some(entry) = source.next() {
        let record = entry.record;
        if record.is_note() {
            continue;
        }
        assert!(record.at.0 >= last);
        last = record.at.0;
        events += 1;
    }
    assert!(source.problems().shown().iter().all(|problem| !problem.message.is_empty()));
    events
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let format = Format::ALL.get(usize::from(*choice)).copied();
    let opened = open("fuzz", bytes, format);
    let known = format.is_some() || recognise(bytes).is_some();
    // What is packed is recognised by what is in it.
    let is_packed = [&GZIP[..], &ZSTD].iter().any(|magic| bytes.starts_with(magic));
    assert!(is_packed || opened.is_ok() == known);
    let Ok(mut source) = opened else { return };
    read(&mut *source);

    let mut out = Vec::new();
    let mut source = open("fuzz", bytes, format).expect("opened before");
    write_iolog(&mut *source, &mut out).expect("memory takes all");
    let mut again = open("again", &out[..], Some(Format::Iolog)).expect("its format is named");
    read(&mut *again);
    // Sectors of a kernel's trace may be higher than any device has; nothing else is refused.
    let high = |message: &str| message.contains("2^63") || message.contains("2^64");
    assert!(again.problems().shown().iter().all(|problem| high(&problem.message)));

    let mut out = Vec::new();
    let mut source = open("fuzz", bytes, format).expect("opened before");
    let written = write_msr(&mut *source, &mut out).expect("memory takes all");
    let mut again = open("again", &out[..], Some(Format::Msr)).expect("its format is named");
    let events = read(&mut *again);
    assert_eq!(events, 3 * (written.ios - again.problems().count()));
});
