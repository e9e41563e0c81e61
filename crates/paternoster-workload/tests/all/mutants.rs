// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutants: does a damaged job file give jobs or problems, and never a panic?
//!
//! ```text
//! jobs/, docs/examples, fio's own examples, the fuzzer's corpus ─▶ 1 to 4 changes ─▶ parse
//!      bytes changed, cut out, doubled; numbers at their edges; lines of another file
//! ```
//!
//! A refusal has a file, a line, a text and a message; an accepted job makes I/Os within its
//! region. Every ninth text is bytes without any sense. `PATERNOSTER_FIO_MUTANTS` says how many,
//! and `PATERNOSTER_FIO_SEED` the first seed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use paternoster_workload::fio::jobfile::{Source, parse, parse_command_line};
use paternoster_workload::fio::offsets::Offsets;

use crate::common::number;
use crate::fio_drawn::draw::Chance;

/// Mutants of every day.
const MUTANTS: u64 = 1000;
/// The region of an accepted job; small, so that its end is reached.
const REGION: u64 = 300_000;
/// Where the region begins.
const START: u64 = 4096;

/// Numbers at the edges of what is read.
const EDGES: &[&str] = &[
    "0",
    "-1",
    "1",
    "100%",
    "101%",
    "0x",
    "0xffffffffffffffff",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "4294967296",
    "1e9",
    "1p",
    "16777216p",
    "0.5",
    ",",
    "4k-",
    "8k-4k",
    "1:1",
    "/",
    "$A",
    "${",
    "\"",
    "é",
];

/// All job files of a folder and of those in it.
fn gather(folder: &Path, texts: &mut Vec<Vec<u8>>) {
    let mut paths: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            gather(&path, texts);
        } else if let Ok(text) = fs::read(&path) {
            texts.push(text);
        }
    }
}

fn below(chance: &mut Chance, count: usize) -> usize {
    let most = u64::try_from(count.max(1) - 1).expect("few");
    usize::try_from(chance.number(0, most)).expect("few")
}

/// A piece of a text, of at most 40 bytes.
fn piece(chance: &mut Chance, text: &[u8]) -> std::ops::Range<usize> {
    let begin = below(chance, text.len() + 1);
    let most = (text.len() - begin).min(40);
    begin..begin + below(chance, most + 1)
}

/// The numbers of a text.
fn numbers(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            all.push(at..at + digits);
        }
        at += digits + 1;
    }
    all
}

/// One change.
fn change(chance: &mut Chance, text: &mut Vec<u8>, other: &[u8]) {
    match chance.number(0, 7) {
        0 => {
            let byte = u8::try_from(chance.number(0, 255)).expect("a byte");
            if let Some(place) = text.len().checked_sub(1) {
                text[below(chance, place + 1)] = byte;
            }
        }
        1 => {
            let cut = piece(chance, text);
            text.drain(cut);
        }
        2 => {
            let copy = text[piece(chance, text)].to_vec();
            let at = below(chance, text.len() + 1);
            text.splice(at..at, copy);
        }
        3 | 4 => {
            let lines: Vec<&[u8]> = other.split(|byte| *byte == b'\n').collect();
            let mut line = lines[below(chance, lines.len())].to_vec();
            line.push(b'\n');
            let ends = |(at, byte): (usize, &u8)| (*byte == b'\n').then_some(at + 1);
            let ends: Vec<usize> = text.iter().enumerate().filter_map(ends).collect();
            let at = ends.get(below(chance, ends.len())).copied().unwrap_or(0);
            text.splice(at..at, line);
        }
        _ => {
            let all = numbers(text);
            if !all.is_empty() {
                let place = all[below(chance, all.len())].clone();
                text.splice(place, chance.of(EDGES).bytes());
            }
        }
    }
}

/// The mutant of a seed.
fn mutant(seed: u64, texts: &[Vec<u8>]) -> String {
    let mut chance = Chance::new(seed);
    if seed.is_multiple_of(9) {
        let count = chance.number(0, 400);
        let bytes = (0..count).map(|_| u8::try_from(chance.number(0, 255)).expect("a byte"));
        return String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned();
    }
    let mut text = texts[below(&mut chance, texts.len())].clone();
    let other = &texts[below(&mut chance, texts.len())];
    for _ in 0..chance.number(1, 4) {
        change(&mut chance, &mut text, other);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads a text in both ways, and makes I/Os of the jobs in it; says whether there are jobs.
fn read(text: &str) -> bool {
    let include = |_: &str, named: &str| Ok((named.to_owned(), text.to_owned()));
    let environment = |name: &str| (name.len() < 8).then(|| name.to_owned());
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let source = Source { name: "mutant.fio", text };
    let from_file = parse(&[source], &[], &[], &environment, &include);
    let accepted = from_file.is_ok();
    for found in [from_file, parse_command_line(&words, &environment)] {
        let file = match found {
            Ok(file) => file,
            Err(problems) => {
                assert!(!problems.is_empty(), "a refusal has a reason");
                for problem in problems {
                    assert!(!problem.file.is_empty() && problem.line > 0, "{problem}");
                    let quotes = !problem.text.is_empty() || words.is_empty();
                    assert!(quotes && !problem.message.is_empty(), "{problem}");
                }
                continue;
            }
        };
        for (job, thread) in file.jobs.iter().take(4).zip(1..) {
            let mut offsets = Offsets::new(job, thread, START, REGION, REGION, 0);
            for _ in 0..200 {
                let Some(piece) = offsets.next() else { break };
                assert!(piece.bytes > 0 && piece.offset >= START, "{piece:?}");
                assert!(piece.offset + piece.bytes <= START + REGION, "{piece:?}");
            }
        }
    }
    accepted
}

#[test]
fn mutants_give_jobs_or_problems() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = Vec::new();
    for folder in ["jobs", "docs/examples", "fuzz/corpus/job_file"] {
        gather(&here.join(folder), &mut texts);
    }
    gather(Path::new("/usr/share/doc/fio/examples"), &mut texts);
    // The longest are pictures of what jobs do, and no job files.
    texts.retain(|text| text.len() < 16_000);
    assert!(texts.len() >= 20, "{} files", texts.len());
    let count = number("PATERNOSTER_FIO_MUTANTS").unwrap_or(MUTANTS);
    let first = number("PATERNOSTER_FIO_SEED").unwrap_or(1);
    let mut accepted = 0;
    for seed in first..first + count {
        let text = mutant(seed, &texts);
        match catch_unwind(AssertUnwindSafe(|| read(&text))) {
            Ok(jobs) => accepted += u64::from(jobs),
            Err(_) => panic!("PATERNOSTER_FIO_SEED={seed} PATERNOSTER_FIO_MUTANTS=1:\n{text}"),
        }
    }
    println!("{accepted} of {count} mutants of {} files are jobs", texts.len());
    // Otherwise only the first lines of the reader would be judged.
    assert!(count < 1000 || 100 * accepted >= 5 * count, "{accepted} of {count} are jobs");
}
