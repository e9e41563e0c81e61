// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random bytes, and random pieces of lines, as every format: no panic, times that never go back,
//! no more events and problems than there are lines, and what is written can be read.

use paternoster_trace::blktrace::Code;
use paternoster_trace::formats::{Format, open, recognise, write_iolog, write_msr};
use paternoster_trace::source::PROBLEMS_SHOWN;
use proptest::prelude::*;

/// The counts of a trace.
#[derive(Debug, Default)]
struct Counts {
    queued: u64,
    issued: u64,
    completed: u64,
    notes: u64,
    problems: u64,
}

/// Formats that have events as they come, instead of accesses.
fn is_kernels(format: Format) -> bool {
    matches!(format, Format::Blktrace | Format::Blkparse | Format::Ftrace)
}

fn counts(format: Option<Format>, bytes: &[u8]) -> Result<Counts, TestCaseError> {
    let mut counts = Counts::default();
    let Ok(mut source) = open("any", bytes, format) else { return Ok(counts) };
    let format = format.or_else(|| recognise(bytes));
    let (mut last, mut depth) = (0, 0_i64);
    while let Some(entry) = source.next() {
        let record = entry.record;
        if record.is_note() {
            counts.notes += 1;
            continue;
        }
        prop_assert!(record.at.0 >= last, "{} behind {last}", record.at.0);
        last = record.at.0;
        match record.code {
            Code::QUEUE => counts.queued += 1,
            Code::ISSUE => {
                counts.issued += 1;
                depth += 1;
            }
            _ => {
                counts.completed += 1;
                depth -= 1;
            }
        }
        if !format.is_some_and(is_kernels) {
            prop_assert!(counts.issued <= counts.queued && depth >= 0);
        }
    }
    // Nothing comes after the end.
    prop_assert!(source.next().is_none());
    let problems = source.problems();
    counts.problems = problems.count();
    let shown = problems.shown();
    prop_assert_eq!(shown.len() as u64, counts.problems.min(PROBLEMS_SHOWN as u64));
    prop_assert!(shown.iter().all(|problem| !problem.message.is_empty()));
    prop_assert!(shown.iter().all(|problem| problem.message.len() < 600));
    Ok(counts)
}

/// Reads bytes as every format, and holds what must be true of all.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    for format in Format::ALL {
        let counts = counts(Some(format), bytes)?;
        if is_kernels(format) {
            continue;
        }
        prop_assert_eq!(counts.issued, counts.completed);
        prop_assert!(counts.notes <= counts.queued);
        // A binary record is no line, but has 32 bytes.
        let most = lines.max(bytes.len() as u64 / 32 + 1);
        prop_assert!(counts.queued <= most, "{} of {most}", counts.queued);
        // A line is refused, or an I/O that may be reported as late.
        prop_assert!(counts.problems <= most, "{} of {most}", counts.problems);
    }
    counts(None, bytes)?;
    Ok(())
}

/// Fields that are right somewhere, and some that are right nowhere.
const PIECES: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "512",
    "4096",
    "128166372003061629",
    "1538323200",
    "18446744073709551615",
    "99999999999999999999",
    "0.000004",
    "1455592200.008817",
    ".5",
    "1e9",
    "-1",
    "R",
    "W",
    "r",
    "w",
    "Read",
    "Write",
    "RA",
    "FWFS",
    "2a",
    "28",
    "35",
    "hm",
    "fio",
    "f.dat",
    "read",
    "write",
    "sync",
    "trim",
    "wait",
    "add",
    "Hit",
    "Seq",
    "START",
    "xterm-31657",
    "sda",
    "é",
    "\0",
    "",
    "fio version 2 iolog",
    "fio version 3 iolog",
];

/// Lines of pieces, with one separator.
fn lines() -> impl Strategy<Value = String> {
    let line = prop::collection::vec(prop::sample::select(PIECES), 0..11);
    let lines = prop::collection::vec(line, 0..40);
    (lines, prop::sample::select(&[",", " ", "\t", ", "][..]))
        .prop_map(|(lines, between)| lines.iter().map(|line| line.join(between) + "\n").collect())
}

/// Lines that are right in one of the formats, with numbers of any size.
fn right_lines() -> impl Strategy<Value = String> {
    let number = prop_oneof![0..100_u64, 0..1_u64 << 40, any::<u64>()];
    let numbers = (number.clone(), number.clone(), number.clone(), number, 0..2_u8);
    prop::collection::vec((numbers, 0..10_u8), 0..60).prop_map(|lines| {
        let line = |((a, b, c, d, kind), form): &((u64, u64, u64, u64, u8), u8)| {
            let letter = if *kind == 0 { "R" } else { "W" };
            match *form {
                0 => format!("{a},h,1,{},{b},{c},{d}\n", ["Read", "Write"][usize::from(*kind)]),
                1 => format!("{a},{b},{c},{letter},{d}.5\n"),
                2 => format!("{a},{letter},{b},{c},{d}\n"),
                3 => format!("{a},{b},{c},{kind},{d}\n"),
                4 => format!("{a}.5,{b}.25,{letter},1,{c},{d}\n"),
                5 => format!("{a} 1 {b} {c} {kind}\n"),
                6 => format!("{letter} Hit {a} {b} {c}.5 {d}\n"),
                7 => format!("{a} {b} name {c} {d} {letter} 8 0\n"),
                8 => format!("{a}.5 name {b} sda {letter} {c} 512 {d}.5 {d}.25\n"),
                _ => format!("name-{a} 0 {b} {c} Seq 0 0 {letter} {d}.5 C\n"),
            }
        };
        lines.iter().map(line).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Do bytes of any kind give events or problems, and never a panic?
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        check(&bytes)?;
    }

    /// Do lines of pieces that are right somewhere?
    #[test]
    fn any_pieces_are_read(text in lines()) {
        check(text.as_bytes())?;
    }

    /// Do lines that are right in one of the formats, with numbers up to the largest?
    #[test]
    fn any_numbers_are_read(text in right_lines()) {
        check(text.as_bytes())?;
    }

    /// Can any trace be written in another format and read again, with every I/O and without
    /// problems?
    #[test]
    fn what_is_written_can_be_read(text in right_lines()) {
        for format in Format::ALL {
            let source = || open("any", text.as_bytes(), Some(format)).expect("a named format");
            for form in [Format::Iolog, Format::Msr] {
                let (mut source, mut out) = (source(), Vec::new());
                let written = match form {
                    Format::Iolog => write_iolog(&mut *source, &mut out),
                    _ => write_msr(&mut *source, &mut out),
                };
                let written = written.expect("memory takes all");
                let again = counts(Some(form), &out)?;
                prop_assert_eq!(again.problems, 0, "{}", String::from_utf8_lossy(&out));
                // A write that flushes first is two lines of a log; none of these does.
                prop_assert_eq!(again.queued, written.ios);
            }
        }
    }
}
