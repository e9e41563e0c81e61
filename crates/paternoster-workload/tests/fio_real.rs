// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real fio as the judge: are our directions, offsets and sizes those of fio, number for number?
//!
//! Each job is run by the installed fio with an engine that does nothing, which writes down what it
//! would do (`write_iolog`); ours has to be the same list. Without fio the test says so and passes.

use std::path::PathBuf;
use std::process::Command;

use paternoster_workload::fio::jobfile::parse_command_line;
use paternoster_workload::fio::offsets::Offsets;

/// Jobs of one clone on one file; `--size` is always given in bytes.
const JOBS: &[&str] = &[
    "--rw=randread --bs=4k --size=1m",
    "--rw=randread --bs=512 --size=1m",
    "--rw=randread --bs=64k --size=1000k",
    "--rw=randrw --bs=4k --size=1m --rwmixread=70",
    "--rw=readwrite --bs=4k --size=1m --rwmixwrite=20",
    "--rw=randtrim --bs=4k --size=256k",
    "--rw=trimwrite --bs=4k --size=256k",
    "--rw=randtrimwrite --bs=4k --size=256k",
    "--rw=randread --bsrange=4k-16k --size=1m",
    "--rw=randread --bsrange=4k-16k --size=1m --norandommap",
    "--rw=read --bsrange=4k-16k --size=1m",
    "--rw=randwrite --bssplit=4k/60:16k/40 --size=1m",
    "--rw=randread --bssplit=4k/10:64k/50:32k/40 --size=4m",
    "--rw=randrw --bssplit=4k/50:8k/50,16k/30:32k/70 --size=4m",
    "--rw=randrw --bs=4k,8k --size=1m",
    "--rw=randrw --bs=16k,4k --size=1m",
    "--rw=rw --bs=4k,16k --size=1m",
    "--rw=randrw --bsrange=4k-8k,8k-32k --size=2m",
    "--rw=randread:4 --bs=4k --size=1m",
    "--rw=randread:8 --bs=4k --size=1m --rw_sequencer=identical",
    "--rw=read:-8k --bs=4k --size=1m --io_size=256k",
    "--rw=read:4k --bs=4k --size=64k --io_size=160k",
    "--rw=write:8k --bs=4k --size=128k --io_size=200k",
    "--rw=write --bs=4k --size=1m --io_size=300k",
    "--rw=read --bs=4k --size=64k --io_size=100k",
    "--rw=randread --bs=4k --size=1m --io_size=300k",
    "--rw=randread --bs=4k --size=256k --io_size=600k",
    "--rw=randread --bs=4k --size=100k --io_size=1m --norandommap",
    "--rw=randread --bs=4k --size=1m --percentage_random=40",
    "--rw=randrw --bs=4k --size=1m --percentage_random=30,60",
    "--rw=randread --bs=4k --size=1m --blockalign=8k",
    "--rw=randread --bs=4k --size=64k --loops=3",
    "--rw=randwrite --bs=4k --size=1m --number_ios=100 --loops=2",
    "--rw=randread --bs=8k --size=1m --randseed=7",
    "--rw=randread --bs=8k --size=1m --randseed=7 --randrepeat=0",
    "--rw=randrw --bs=4k --size=1m --allrandrepeat=1",
];

/// Jobs that run as the second thread of a run, whose generators have other seeds.
const SECOND_JOBS: &[&str] = &[
    "--rw=randread --bs=4k --size=1m",
    "--rw=randrw --bs=4k --size=4m",
    "--rw=randrw --bs=4k --size=4m --rwmixread=70",
    "--rw=rw --bs=4k --size=4m --rwmixread=30",
    "--rw=randrw --bssplit=4k/60:16k/40,8k --size=4m --rwmixread=70",
    "--rw=randread --bsrange=4k-16k --size=1m",
    "--rw=randread --bs=4k --size=1m --percentage_random=40",
];

/// One I/O: direction, offset, bytes.
type Io = (String, u64, u64);

fn ours(arguments: &[String]) -> Vec<Io> {
    let jobs = parse_command_line(arguments, &|_| None).expect("a sound job");
    let thread = u32::try_from(jobs.jobs.len()).expect("one or two");
    let job = jobs.jobs.last().expect("a job");
    let size = job.size.expect("a size").of(0);
    let io_size = job.io_size.map_or(size, |io_size| io_size.of(size));
    let mut offsets = Offsets::new(job, thread, 0, size, io_size, 0);
    let mut all = Vec::new();
    for pass in 0..job.loops {
        if pass > 0 {
            offsets.replay();
        }
        while let Some(piece) = offsets.next() {
            all.push((piece.direction.name().to_owned(), piece.offset, piece.bytes));
        }
    }
    all
}

fn theirs(arguments: &[String], folder: &PathBuf, number: usize) -> Vec<Io> {
    let log = folder.join(format!("{number}.log"));
    let output = Command::new("fio")
        .current_dir(folder)
        .args(arguments)
        .args(["--ioengine=null", "--filename=judge.dat"])
        .arg(format!("--write_iolog={}", log.display()))
        .output()
        .expect("fio starts");
    let text = std::fs::read_to_string(&log).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    text.lines().filter_map(io_of_line).collect()
}

/// The last three words of a line of an iolog, if it is an I/O.
fn io_of_line(line: &str) -> Option<Io> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [.., direction, offset, bytes] = words[..] else { return None };
    Some((direction.to_owned(), offset.parse().ok()?, bytes.parse().ok()?))
}

/// Does every job make the very I/Os that fio makes?
#[test]
fn every_io_is_that_of_fio() {
    if Command::new("fio").arg("--version").output().is_err() {
        println!("skipped: fio is not installed");
        return;
    }
    let folder = std::env::temp_dir().join(format!("paternoster-fio-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let first = "--name=first --rw=read --bs=4k --size=4k --ioengine=null --filename=first.dat ";
    let jobs = JOBS.iter().map(|job| ("", job));
    let jobs = jobs.chain(SECOND_JOBS.iter().map(|job| (first, job)));
    for (number, (before, job)) in jobs.enumerate() {
        let before = before.split_whitespace().chain(["--name=judge"]).map(str::to_owned);
        let mut arguments: Vec<String> = before.collect();
        arguments.extend(job.split(' ').map(str::to_owned));
        let (ours, theirs) = (ours(&arguments), theirs(&arguments, &folder, number));
        assert!(theirs.len() > 10, "{job}: fio made {} I/Os", theirs.len());
        let first = ours.iter().zip(&theirs).position(|(our, their)| our != their);
        assert_eq!(first.map(|nth| (nth, &ours[nth], &theirs[nth])), None, "{job}");
        assert_eq!(ours.len(), theirs.len(), "{job}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
