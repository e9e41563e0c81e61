// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real fio as the judge: are our directions, offsets and sizes those of fio, number for number?
//!
//! Each job is run by the installed fio with an engine that does nothing, which logs what it would
//! do (`write_iolog`); ours must be the same list. Without fio the test says so and passes.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use paternoster_workload::fio::file_sizes::file_sizes;
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::parse_command_line;
use paternoster_workload::fio::offsets::{Extent, Offsets, Piece};
use paternoster_workload::fio::random::Seeds;

use crate::common::skipped;

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
    "--rw=randread --bs=4k --size=64k --loops=3 --norandommap",
    "--rw=randread --bs=4k --size=64k --loops=4 --percentage_random=50",
    "--rw=randread:3 --bs=4k --size=64k --loops=4",
    "--rw=rw --bs=4k --size=64k --io_size=200k",
    "--rw=read --bs=4k --size=256k --io_size=100k --loops=3",
    "--rw=read --bsrange=4k-16k --size=64k --io_size=300k",
    "--rw=read:4k --bs=4k --size=64k --loops=3",
    "--rw=read:-8k --bs=4k --size=64k --loops=3",
    "--rw=randrw --bs=4k,8k --size=256k --loops=3",
    "--rw=randread --bs=8k --ba=4k --size=256k --loops=3",
    "--rw=randrw --bs=4k --size=64k --loops=3",
    "--rw=randrw --bs=4k --size=64k --loops=3 --norandommap",
    "--rw=rw --bs=4k --size=256k --loops=3",
    "--rw=read --bsrange=4k-16k --size=256k --loops=3",
    "--rw=randread --bsrange=4k-16k --size=64k --loops=3",
    "--rw=randread --bsrange=4k-16k --size=64k --loops=3 --norandommap",
    "--rw=randread --bs=4k --ba=4k --size=64k --loops=3",
    "--rw=randread --bs=4k --size=64k --loops=2 --random_generator=tausworthe64 --norandommap",
    "--rw=randread --bs=4k --size=64k --loops=2 --random_generator=tausworthe64",
    "--rw=randread --bs=8k --size=1m --randseed=7",
    "--rw=randread --bs=8k --size=1m --randseed=7 --randrepeat=0",
    "--rw=randrw --bs=4k --size=1m --allrandrepeat=1",
    // Distributions.
    "--rw=randread --bs=4k --size=4m --random_distribution=zoned:60/10:40/90",
    "--rw=randread --bs=512 --size=1m --random_distribution=zoned:50/5:30/15:20/",
    "--rw=randread --bs=4k --size=777k --random_distribution=zoned:33/33:33/33:34/34",
    "--rw=randrw --bs=4k --size=4m --random_distribution=zoned:60/10:40/90 --rwmixread=30",
    "--rw=randread --bs=4k --size=1m --random_distribution=zoned:60/10:40/90 --loops=2",
    "--rw=randread --bsrange=4k-16k --size=1m --random_distribution=zoned:60/10:40/90",
    "--rw=randread --bs=4k --size=1m --io_size=3m --random_distribution=zoned:60/10:40/90",
    "--rw=randread --bs=4k --size=4m --random_distribution=zoned_abs:60/100k:40/1000k",
    "--rw=randread --bs=4k --size=4m --random_distribution=zoned_abs:95/1m:5/5m",
    "--rw=randread --bs=4k --size=4m --random_distribution=zoned_abs:60/1m:40/2k",
    "--rw=randread --bs=4k --size=4m --random_distribution=zipf:0.5",
    "--rw=randread --bs=4k --size=1002k --random_distribution=zipf:1.2",
    "--rw=randwrite --bs=4k --size=4m --random_distribution=zipf:1.2:0.25",
    "--rw=randrw --bs=4k --size=4m --random_distribution=zipf",
    "--rw=randread --bs=4k --ba=512 --size=1000k --random_distribution=zipf:1.1",
    "--rw=randread --bsrange=4k-16k --size=1m --random_distribution=zipf:1.1",
    "--rw=randread --bs=4k --size=200k --loops=3 --random_distribution=zipf:1.1",
    "--rw=randread --bs=4k --size=1m --io_size=3m --random_distribution=zipf:1.1",
    "--rw=randread --bs=4k --size=1m --randseed=7 --random_distribution=zipf:1.1",
    "--rw=randread --bs=4k --size=1m --randseed=7 --randrepeat=0 --random_distribution=zipf:1.1",
    "--rw=randread --bs=4k --size=1m --percentage_random=60 --random_distribution=zipf:1.1",
    "--rw=randread:3 --bs=4k --size=1m --random_distribution=zipf:1.1",
    "--rw=randread --bs=4k --size=4m --random_distribution=pareto:0.2",
    "--rw=randread --bs=512 --size=1m --random_distribution=pareto:0.9:0.3",
    "--rw=randread --bs=4k --size=4m --random_distribution=normal:20",
    "--rw=randread --bs=4k --size=4m --random_distribution=normal:99.9",
    "--rw=randread --bs=4k --size=777k --random_distribution=normal:5:0.25",
    "--rw=randread --bs=4k --size=777k --random_distribution=normal",
    // Generators.
    "--rw=randread --bs=4k --size=1m --random_generator=tausworthe64",
    "--rw=randread --bs=4k --size=1m --random_generator=tausworthe64 --norandommap",
    "--rw=randrw --bs=4k --size=1m --random_generator=tausworthe64 --randseed=3 --randrepeat=0",
    "--rw=randread --bs=512 --size=8192g --norandommap --number_ios=100",
    "--rw=randread --bs=512 --size=8193g --norandommap --number_ios=100 \
        --random_generator=tausworthe64",
    "--rw=randread --bs=4k --size=1m --random_generator=lfsr",
    "--rw=randread --bs=4k --size=1000k --random_generator=lfsr --norandommap",
    "--rw=randrw --bs=4k --size=1m --random_generator=lfsr",
    "--rw=randread --bs=4k --size=64k --random_generator=lfsr --loops=2",
    "--rw=randread --bs=4k --size=64k --io_size=200k --random_generator=lfsr",
    "--rw=randread --bs=4k --size=1m --random_generator=lfsr --randseed=3 --randrepeat=0",
    "--rw=randread --bs=4k --size=1m --random_generator=lfsr --percentage_random=50",
    // Zones.
    "--rw=read --bs=16k --size=1m --zonemode=strided --zonesize=16k --zoneskip=32k",
    "--rw=read --bs=4k --size=256k --zonemode=strided --zonesize=16k --zoneskip=16k",
    "--rw=read --bs=4k --size=256k --zonemode=strided --zonesize=8k --zonerange=16k --zoneskip=16k",
    "--rw=write --bs=4k --size=256k --zonemode=strided --zonesize=32k --zonerange=16k \
        --zoneskip=16k",
    "--rw=randread --bs=4k --size=256k --zonemode=strided --zonesize=16k --zoneskip=16k",
    "--rw=randread --bs=4k --size=256k --zonemode=strided --zonesize=32k --zonerange=16k \
        --zoneskip=16k",
    "--rw=randread --bs=4k --size=256k --zonemode=strided --zonesize=16k --zonerange=32k \
        --zoneskip=16k --norandommap",
    "--rw=rw --bs=4k --size=256k --zonemode=strided --zonesize=16k --zoneskip=16k",
    "--rw=randrw --bs=4k --size=256k --zonemode=strided --zonesize=16k --zoneskip=16k",
    "--rw=read --bs=16k --size=1m --zonemode=strided --zonesize=16k --zoneskip=32769",
    "--rw=read --bs=4k --size=256k --zonemode=strided --zonesize=16k",
    "--rw=read --bs=4k --size=100k --zonemode=strided --zonesize=16k --zoneskip=16k --loops=2",
    "--rw=read --bs=4k --size=100k --io_size=300k --zonemode=strided --zonesize=16k \
        --zoneskip=16k",
    "--rw=read --bs=4k --size=100k --zonemode=strided --zonesize=6k --zoneskip=16k",
    "--rw=read:4k --bs=4k --size=256k --zonemode=strided --zonesize=16k --zoneskip=16k",
    "--rw=randread --bs=4k --size=256k --zonemode=strided --zonesize=16k --zoneskip=16k \
        --random_generator=tausworthe64",
    // Several files.
    "--rw=read --bs=4k --size=96k --nrfiles=3",
    "--rw=read --bs=4k --size=100k --nrfiles=3 --file_service_type=roundrobin:2",
    "--rw=read --bs=4k --size=96k --nrfiles=3 --file_service_type=sequential",
    "--rw=read --bs=4k --size=96k --nrfiles=3 --file_service_type=random",
    "--rw=read --bs=4k --size=96k --nrfiles=3 --file_service_type=random:4",
    "--rw=randread --bs=4k --size=96k --nrfiles=3",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --file_service_type=random",
    "--rw=rw --bs=4k --size=96k --nrfiles=3",
    "--rw=randrw --bs=4k --size=400k --nrfiles=5",
    "--rw=randrw --bs=4k --size=400k --nrfiles=5 --norandommap",
    "--rw=randrw --bs=4k --size=400k --nrfiles=5 --file_service_type=random:3 --rwmixread=80",
    "--rw=read --bs=4k --size=400k --nrfiles=10 --file_service_type=zipf",
    "--rw=read --bs=4k --size=400k --nrfiles=10 --file_service_type=zipf:0.5",
    "--rw=randread --bs=4k --size=400k --nrfiles=10 --file_service_type=zipf:1.2",
    "--rw=read --bs=4k --size=400k --nrfiles=10 --file_service_type=pareto:0.3",
    "--rw=read --bs=4k --size=400k --nrfiles=10 --file_service_type=gauss:10",
    "--rw=read --bs=4k --size=96k --nrfiles=3 --loops=2",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --loops=2",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --file_service_type=random --loops=2",
    "--rw=read --bs=4k --size=96k --nrfiles=3 --io_size=200k",
    "--rw=read --bs=4k --size=96k --nrfiles=3 --io_size=60k",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --io_size=200k",
    "--rw=randread:3 --bs=4k --size=96k --nrfiles=3",
    "--rw=randread --bsrange=4k-16k --size=384k --nrfiles=3",
    "--rw=randread --bs=4k --size=3m --nrfiles=3 --random_distribution=zipf:1.1",
    "--rw=randread --bs=4k --size=3m --nrfiles=3 --random_distribution=zoned:50/10:50/90",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --random_generator=lfsr",
    "--rw=read --bs=4k --size=400k --nrfiles=10 --file_service_type=zipf --loops=2",
    "--rw=randread --bs=4k --size=400k --nrfiles=10 --file_service_type=normal --loops=2",
    "--rw=read --bs=4k --size=400k --nrfiles=10 --file_service_type=random --io_size=900k",
    "--rw=read --bs=4k --size=400k --nrfiles=10 --file_service_type=random --loops=2",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --norandommap --loops=2",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --norandommap --io_size=200k",
    // No end but the time: as many I/Os as fio makes in a second of thinking.
    "--rw=read --bs=4k --size=64k --time_based --runtime=1 --thinktime=2000",
    "--rw=randread --bs=4k --size=64k --time_based --runtime=1 --thinktime=2000",
    "--rw=randrw --bs=4k --size=64k --time_based --runtime=1 --thinktime=2000",
    "--rw=randread --bs=4k --size=64k --time_based --runtime=1 --thinktime=2000 \
        --random_generator=lfsr",
    "--rw=randrw --bs=4k --size=64k --time_based --runtime=1 --thinktime=2000 \
        --random_generator=lfsr",
    "--rw=randrw --bs=4k --size=64k --time_based --runtime=1 --thinktime=2000 --norandommap",
    "--rw=rw --bs=4k --size=64k --time_based --runtime=1 --thinktime=2000",
    "--rw=randread --bs=4k --size=64k --time_based --runtime=1 --thinktime=2000 \
        --random_distribution=zipf:1.1",
    "--rw=read --bs=4k --size=100k --time_based --runtime=1 --thinktime=2000 \
        --zonemode=strided --zonesize=16k --zoneskip=16k",
    "--rw=randread --bs=4k --size=128k --time_based --runtime=1 --thinktime=2000 \
        --zonemode=strided --zonesize=16k --zoneskip=16k",
    "--rw=read --bs=4k --size=96k --nrfiles=3 --time_based --runtime=1 --thinktime=2000",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --time_based --runtime=1 --thinktime=2000",
    "--rw=read --bs=4k --size=96k --nrfiles=3 --time_based --runtime=1 --thinktime=2000 \
        --file_service_type=sequential",
    "--rw=randread --bs=4k --size=96k --nrfiles=3 --time_based --runtime=1 --thinktime=2000 \
        --file_service_type=random",
    "--rw=read --bs=4k --size=400k --nrfiles=10 --file_service_type=zipf --time_based \
        --runtime=1 --thinktime=2000",
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
    "--rw=randread --bs=4k --size=4m --random_distribution=zipf:1.1",
    "--rw=randread --bs=4k --size=4m --random_distribution=normal:20",
    "--rw=randrw --bs=4k --size=1m --random_generator=tausworthe64",
    "--rw=randread --bs=4k --size=1000k --random_generator=lfsr",
    "--rw=randread --bs=4k --size=400k --nrfiles=10 --file_service_type=random",
];

/// One I/O: file, direction, offset, bytes.
type Io = (String, String, u64, u64);

/// fios that run at one time.
const JUDGES: usize = 8;

/// More I/Os than any of these jobs makes.
const IOS_MAX: usize = 100_000;

fn ours(arguments: &[String]) -> Vec<Io> {
    let jobs = parse_command_line(arguments, &|_| None).expect("a sound job");
    let thread = u32::try_from(jobs.jobs.len()).expect("one or two");
    let job = jobs.jobs.last().expect("a job");
    let size = job.region.size.expect("a size").of(0);
    let names = job.file_names(0);
    let sizes = file_sizes(job, job.files.nrfiles, 0, &Seeds::of(job, thread, 0));
    let extents = names.iter().zip(sizes).map(|(name, bytes)| Extent {
        room: 0,
        later: 0,
        file: name,
        start: 0,
        bytes: bytes.expect("a size"),
    });
    let extents: Vec<Extent<'_>> = extents.collect();
    let all_bytes = extents.iter().map(|extent| extent.bytes).sum();
    let io_size = job.region.io_size.map_or(all_bytes, |io_size| io_size.of(size));
    let mut offsets = Offsets::over(job, thread, &extents, io_size, 0);
    let mut all = Vec::new();
    loop {
        while let Some(piece) = next(job, &mut offsets) {
            let direction = piece.direction.name().to_owned();
            all.push((names[piece.file].clone(), direction, piece.offset, piece.bytes));
            if all.len() > IOS_MAX || (job.time.time_based && all.len() > 2000) {
                return all;
            }
        }
        if !offsets.next_pass() {
            break;
        }
    }
    all
}

/// The next I/O, over the ends of passes if the job has no other end.
fn next(job: &Job, offsets: &mut Offsets) -> Option<Piece> {
    let piece = offsets.next();
    if piece.is_some() || !job.time.time_based || offsets.is_finished() {
        return piece;
    }
    offsets.restart();
    offsets.next()
}

fn theirs(arguments: &[String], folder: &PathBuf, number: usize) -> Vec<Io> {
    let log = folder.join(format!("{number}.log"));
    let output = Command::new("fio")
        .current_dir(folder)
        .args(arguments)
        .arg("--ioengine=null")
        .arg(format!("--write_iolog={}", log.display()))
        .output()
        .expect("fio starts");
    let text = std::fs::read_to_string(&log).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    text.lines().filter_map(io_of_line).collect()
}

/// The last four words of a line of an iolog, if it is an I/O.
fn io_of_line(line: &str) -> Option<Io> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [.., file, direction, offset, bytes] = words[..] else { return None };
    Some((file.to_owned(), direction.to_owned(), offset.parse().ok()?, bytes.parse().ok()?))
}

/// The first difference between two lists.
fn difference(ours: &[Io], theirs: &[Io]) -> Option<String> {
    let nth = ours.iter().zip(theirs).position(|(our, their)| our != their);
    match nth {
        Some(nth) => Some(format!("I/O {nth} is {:?}, fio's {:?}", ours[nth], theirs[nth])),
        None if ours.len() == theirs.len() => None,
        None => Some(format!("{} I/Os, fio's {}", ours.len(), theirs.len())),
    }
}

/// Runs one job with both; returns what is different, if anything is. `before` are the arguments of
/// a first job.
fn judged(before: &str, job: &str, folder: &PathBuf, number: usize) -> Option<String> {
    let before = before.split_whitespace().chain(["--name=judge"]).map(str::to_owned);
    let mut arguments: Vec<String> = before.collect();
    arguments.extend(job.split_whitespace().map(str::to_owned));
    // Files of their own have names by clone and number.
    if !job.contains("--nrfiles") {
        arguments.push("--filename=judge.dat".to_owned());
    }
    let (mut ours, theirs) = (ours(&arguments), theirs(&arguments, folder, number));
    if job.contains("time_based") {
        ours.truncate(theirs.len());
    }
    if theirs.len() < 3 {
        return Some(format!("{job}: fio made {} I/Os", theirs.len()));
    }
    difference(&ours, &theirs).map(|difference| format!("{job}: {difference}"))
}

/// Does every job make the very I/Os that fio makes?
#[test]
fn every_io_is_that_of_fio() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped("fio is not installed (Debian package fio)");
    }
    let folder = std::env::temp_dir().join(format!("paternoster-fio-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let first = "--name=first --rw=read --bs=4k --size=4k --ioengine=null --filename=first.dat ";
    let jobs = JOBS.iter().map(|job| ("", *job));
    let jobs: Vec<_> = jobs.chain(SECOND_JOBS.iter().map(|job| (first, *job))).collect();
    // fio sleeps for most of its short life; this many at a time cost no more.
    let next = AtomicUsize::new(0);
    let different = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..JUDGES {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((before, job)) = jobs.get(number) else { break };
                    let difference = judged(before, job, &folder, number);
                    different.lock().unwrap().extend(difference);
                }
            });
        }
    });
    let different = different.into_inner().unwrap();
    assert!(different.is_empty(), "{}", different.join("\n"));
    std::fs::remove_dir_all(folder).unwrap();
}
