// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the job-file parser, and of the offsets of the jobs that it makes.
//!
//! The text includes itself under any name, so that includes are reached too. What must hold: no
//! panic, no endless loop, problems that say where they are, pieces within their region.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_workload::fio::jobfile::{Source, parse, parse_command_line};
use paternoster_workload::fio::offsets::Offsets;

/// The region of a job; small, so that its end is reached.
const REGION: u64 = 300_000;

fuzz_target!(|text: &str| {
    let include = |_: &str, named: &str| Ok((named.to_owned(), text.to_owned()));
    let environment = |name: &str| (name.len() < 8).then(|| name.to_owned());
    let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let source = Source { name: "fuzz.fio", text };
    for result in [
        parse(&[source], &[], &[], &environment, &include),
        parse_command_line(&arguments, &environment),
    ] {
        match result {
            Ok(file) => {
                for (job, thread) in file.jobs.iter().take(4).zip(1..) {
                    let mut offsets = Offsets::new(job, thread, 4096, REGION, REGION, 0);
                    for _ in 0..200 {
                        let Some(piece) = offsets.next() else { break };
                        assert!(piece.bytes > 0);
                        assert!(piece.offset >= 4096);
                        assert!(piece.offset + piece.bytes <= 4096 + REGION);
                    }
                }
            }
            Err(problems) => {
                assert!(problems.iter().all(|p| !p.file.is_empty() && p.line > 0));
            }
        }
    }
});
