// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real fio as the judge of pauses: does a job pause as often, and after as many I/Os, as in fio?
//!
//! Both log when they issue what (`write_iolog`). A pause is 100 ms long and a read from memory
//! takes next to nothing, so a gap of 50 ms is a pause: the numbers of I/Os between two gaps are
//! compared. Without fio the test says so and passes.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::skipped;

/// The options of every job, after its name, file and log.
const COMMON: &str = "--rw=randread --bs=4k --size=1m --norandommap --thinktime=100000";

const ASYNC: &str = "--ioengine=libaio";

/// Jobs whose I/Os all take as long as a copy from memory.
const JOBS: &[(&str, &str)] = &[
    ("--ioengine=psync", "--number_ios=12"),
    ("--ioengine=psync", "--number_ios=30 --thinktime_blocks=3"),
    ("--ioengine=psync", "--number_ios=30 --thinktime_blocks=4 --thinktime_blocks_type=issue"),
    ("--ioengine=psync", "--number_ios=40 --thinktime_blocks=3 --iodepth=16"),
    (ASYNC, "--number_ios=14 --iodepth=2"),
    (ASYNC, "--number_ios=40 --iodepth=2 --thinktime_blocks=3"),
    (ASYNC, "--number_ios=14 --iodepth=4"),
    (ASYNC, "--number_ios=40 --iodepth=4 --thinktime_blocks=3"),
    (ASYNC, "--number_ios=40 --iodepth=4 --thinktime_blocks=4"),
    (ASYNC, "--number_ios=90 --iodepth=4 --thinktime_blocks=8"),
    (ASYNC, "--number_ios=26 --iodepth=16"),
    (ASYNC, "--number_ios=90 --iodepth=16 --thinktime_blocks=3"),
    (ASYNC, "--number_ios=90 --iodepth=16 --thinktime_blocks=8"),
    (ASYNC, "--number_ios=12 --iodepth=4 --thinktime_blocks_type=issue"),
    (ASYNC, "--number_ios=40 --iodepth=16 --thinktime_blocks=3 --thinktime_blocks_type=issue"),
    (ASYNC, "--number_ios=60 --iodepth=8 --thinktime_blocks=3 --iodepth_low=2"),
    (ASYNC, "--number_ios=60 --iodepth=8 --thinktime_blocks=3 --iodepth_batch_complete_min=4"),
    (
        ASYNC,
        "--number_ios=60 --iodepth=8 --thinktime_blocks=3 --iodepth_batch_complete_min=4 \
         --iodepth_batch_complete_max=8",
    ),
    (ASYNC, "--number_ios=30 --iodepth=8 --thinktime_blocks=3 --iodepth_batch_complete_min=0"),
    (ASYNC, "--number_ios=60 --iodepth=8 --thinktime_blocks=3 --iodepth_batch=4"),
    // 10 ms between two I/Os: by time, by number, by what comes first.
    (PACED, "--number_ios=80 --thinktime_iotime=255ms"),
    (PACED, "--number_ios=60 --thinktime_iotime=255ms --thinktime_blocks=10"),
    (PACED, "--number_ios=80 --thinktime_iotime=255ms --thinktime_blocks=30"),
];

const PACED: &str = "--ioengine=psync --rate_iops=100 --rate_ignore_thinktime=1";

/// I/Os between two pauses.
fn bursts(log: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(log).expect("a log");
    let issued = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(2) == Some(&"read")).then(|| words[0].parse::<u64>().expect("microseconds"))
    });
    let mut all = Vec::new();
    let mut last = None;
    for at in issued {
        if last.is_none_or(|last: u64| at.saturating_sub(last) > 50_000) {
            all.push(0);
        }
        *all.last_mut().expect("one was begun") += 1;
        last = Some(at);
    }
    all
}

/// Whether the numbers are equal; by time, one I/O more or less is due to the machine.
fn alike(engine: &str, ours: &[usize], theirs: Option<&Vec<usize>>) -> bool {
    let slack = usize::from(engine == PACED);
    theirs.is_some_and(|theirs| {
        let mut pairs = ours.iter().zip(theirs);
        ours.len() == theirs.len() && pairs.all(|(our, their)| our.abs_diff(*their) <= slack)
    })
}

fn judged(program: &str, before: &[&str], job: &str, log: &Path) -> Vec<usize> {
    // fio appends to an existing log.
    let _absent = std::fs::remove_file(log);
    let mut command = Command::new(program);
    command.args(before).arg("--name=a").args(job.split_whitespace());
    command.arg(format!("--write_iolog={}", log.display()));
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
    bursts(log)
}

/// Are there as many I/Os between two pauses as in fio, by depth, number, kind and time?
///
/// On a busy machine fio may be stopped for longer than a pause, hence ten tries: a systematic
/// difference shows in all of them.
#[test]
fn pauses_are_those_of_fio() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped("fio is not installed (Debian package fio)");
    }
    // In memory where possible: a read from a disk would not return at once.
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = parent.join(format!("paternoster-thinks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("data");
    std::fs::write(&file, vec![0; 1 << 20]).expect("a file");
    let next = AtomicUsize::new(0);
    let different = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((engine, job)) = JOBS.get(number) else { break };
                    let job = format!("{COMMON} {engine} {job}");
                    let log = folder.join(format!("{number}.log"));
                    let run = ["run", "-q", "--device=null", "--scheduler=noop"];
                    let ours = judged(env!("CARGO_BIN_EXE_paternoster"), &run, &job, &log);
                    let filename = format!("--filename={}", file.display());
                    let theirs = || judged("fio", &[], &format!("{filename} {job}"), &log);
                    let mut tries = Vec::new();
                    while tries.len() < 10 && !alike(engine, &ours, tries.last()) {
                        tries.push(theirs());
                    }
                    if !alike(engine, &ours, tries.last()) {
                        let line = format!("{job}:\n  ours {ours:?}\n  fio {tries:?}");
                        different.lock().expect("no panic").push(line);
                    }
                }
            });
        }
    });
    std::fs::remove_dir_all(folder).expect("a folder to remove");
    let different = different.into_inner().expect("no panic");
    assert!(different.is_empty(), "{}", different.join("\n"));
}
