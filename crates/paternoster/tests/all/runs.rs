// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes do in time: each test is a small job whose figures can be computed by hand.
//!
//! The device `lab-disk` has one server: 100 us + bytes / 150 MB/s, and 8 ms more if a command does
//! not continue the last. A 4 KiB read that does not costs 8.127306 ms, one that does 0.127306 ms.

use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs fio options on a device under noop; returns the JSON report.
fn run(device: &str, jobs: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", device, "--scheduler", "noop", "--output-format", "json"]);
    command.args(["-q", "--direct=1"]).args(jobs).stdin(Stdio::null());
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Is a job's share its part of the device time of the jobs it competes with, however long they
/// run? 100 and 300 reads of one cost: 25 % and 75 %.
#[test]
fn shares_are_parts_of_device_time() {
    let jobs = [
        "--rw=randread",
        "--size=64m",
        "--name=short",
        "--number_ios=100",
        "--name=long",
        "--number_ios=300",
        "--new_group",
    ];
    let report = run("lab-disk", &jobs);
    let section = &report["paternoster"]["sections"][0];
    let shares: Vec<f64> = section["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .map(|process| process["device_time_share"].as_f64().expect("a share"))
        .collect();
    // Both are random on a disk of one cost; a pair may happen to be contiguous.
    assert!((shares[0] - 0.25).abs() < 0.005 && (shares[1] - 0.75).abs() < 0.005, "{shares:?}");
    // (1 + 3)^2 / (2 (1 + 9)) = 0.8.
    let jain = section["jain_device_time"].as_f64().expect("an index");
    assert!((jain - 0.8).abs() < 0.01, "{jain}");
}

/// Does a job that ends within its ramp have the figures of what it did? 16 sequential reads: the
/// first 8.127 ms, 15 of 0.127 ms and 20 us between: 10.3 ms.
#[test]
fn a_job_may_end_inside_its_ramp() {
    let jobs = ["--name=a", "--rw=read", "--size=64k", "--startdelay=3", "--ramp_time=5"];
    let read = &run("lab-disk", &jobs)["jobs"][0]["read"];
    assert_eq!((number(&read["total_ios"]), number(&read["runtime"])), (16, 10));
}

/// Does a ramp drop what was done in it, and does the runtime count after it?
#[test]
fn a_ramp_is_not_counted() {
    let jobs = [
        "--name=a",
        "--rw=read",
        "--bs=4k",
        "--size=64m",
        "--time_based",
        "--runtime=1",
        "--ramp_time=1",
    ];
    let read = &run("lab-disk", &jobs)["jobs"][0]["read"];
    // One read takes 127.306 + 20 us: 1 s / 147.306 us = 6788.6 fit.
    assert!((6786..=6790).contains(&number(&read["total_ios"])), "{}", read["total_ios"]);
    assert_eq!(number(&read["runtime"]), 1000);
}

/// Does thinking begin after the set number of completed I/Os? With 16 in flight and a pause of 100
/// ms after 8, 64 are done as 23, 1, 22, 1 and 17: what ends while a pause is due counts for the
/// next one. fio 3.33 takes 404 ms.
#[test]
fn thoughts_follow_completions() {
    let jobs = [
        "--submit-cost=0",
        "--name=a",
        "--ioengine=libaio",
        "--iodepth=16",
        "--rw=randread",
        "--size=64m",
        "--number_ios=64",
        "--thinktime=100000",
        "--thinktime_blocks=8",
    ];
    let job = &run("null", &jobs)["jobs"][0];
    let runtime = number(&job["read"]["runtime"]);
    assert!((400..=405).contains(&runtime), "{runtime} ms");
    let deepest = job["iodepth_level"]["16"].as_f64().expect("a percentage");
    assert!(deepest > 0.0, "the depth of 16 is reached between thoughts");
}

/// Does a start delay count from the beginning of the run, even after a stonewall? Job a runs for 2
/// s; job b's delay of 1 s has passed by then: 3 s in all, not 4. (A read takes 10 ms at most.)
#[test]
fn start_delays_count_from_the_beginning() {
    let jobs = [
        "--rw=randread",
        "--size=1m",
        "--time_based",
        "--name=a",
        "--runtime=2",
        "--name=b",
        "--stonewall",
        "--startdelay=1",
        "--runtime=1",
    ];
    let report = run("lab-disk", &jobs);
    let seconds = number(&report["paternoster"]["virtual_time_ns"]) / 100_000_000;
    assert_eq!(seconds, 30, "tenths of a second");
}

/// Do processes begin up to the jitter after each other, depending on the seed, and all at once
/// without? Four do one read of 8.127 ms each, one after the other, after the 20 us of the first:
/// 32.5 ms. With a jitter of 1 s the last begins up to 3 s after the first, and the default of 250
/// us does not show: the first still reads when all have begun.
#[test]
fn processes_begin_behind_each_other() {
    let time = |more: &[&str]| {
        let jobs = ["--rw=randread", "--size=64m", "--number_ios=1", "--numjobs=4", "--name=a"];
        let report = run("lab-disk", &[more, &jobs].concat());
        number(&report["paternoster"]["virtual_time_ns"])
    };
    let at_once = 20_000 + 4 * 8_127_306;
    assert_eq!(time(&["--start-jitter=0"]), at_once);
    assert_eq!(time(&[]), at_once);
    let apart = ["0", "1", "2"].map(|seed| time(&["--start-jitter=1s", "--seed", seed]));
    assert!(apart.iter().all(|time| *time < 3_000_000_000 + at_once), "{apart:?}");
    assert!(apart[0] > 100_000_000 && apart[0] != apart[1] && apart[1] != apart[2], "{apart:?}");
    assert_eq!(time(&["--start-jitter=1s"]), apart[0]);
}

/// Is a rate kept, with catching up? 100 I/Os of 4 KiB at 400 KiB/s: the last may start at 0.99 s.
#[test]
fn a_rate_is_kept() {
    let jobs = ["--name=a", "--rw=read", "--size=400k", "--rate=400k"];
    let read = &run("null", &jobs)["jobs"][0]["read"];
    assert_eq!((number(&read["total_ios"]), number(&read["runtime"])), (100, 990));
}

/// Does an I/O larger than a request come whole, even when requests run out? 4 MiB are 4 requests
/// of 1280 KiB at most; 4 nominal requests.
#[test]
fn a_large_io_is_several_requests() {
    let jobs = [
        "--set=nr_requests=4",
        "--name=a",
        "--rw=read",
        "--bs=4m",
        "--size=16m",
        "--ioengine=libaio",
        "--iodepth=4",
    ];
    let report = run("lab-disk", &jobs);
    assert_eq!(number(&report["jobs"][0]["read"]["total_ios"]), 4);
    assert_eq!(number(&report["disk_util"][0]["read_ios"]), 16);
}

/// Is the number of I/Os in flight that of the engine: `iodepth` for libaio, one for sync?
#[test]
fn engines_have_their_depth() {
    for (engine, depth) in [("libaio", "8"), ("sync", "1")] {
        let engine = format!("--ioengine={engine}");
        let jobs = ["--name=a", &engine, "--iodepth=8", "--rw=randread", "--size=1m"];
        let job = &run("lab-disk", &jobs)["jobs"][0];
        let share = job["iodepth_level"][depth].as_f64().expect("a percentage");
        assert!(share > 90.0, "{engine}: {share} % at depth {depth}");
    }
}

/// Does a job file of Seastar's io_tester run as it says, and are mistakes in it refused with their
/// line and key? 1000 requests of 4 KiB, at 100 us + 4096 B / 150 MB/s each, one by one.
#[test]
fn a_file_of_io_tester_is_a_job() {
    let file = std::env::temp_dir().join(format!("paternoster-io-tester-{}", std::process::id()));
    let text = "- name: a\n  type: seqread\n  shards: [0]\n  shard_info:\n    parallelism: 1\n\
                \u{20}   limit: 1000\n";
    std::fs::write(&file, text).expect("written");
    let name = file.to_str().expect("UTF-8");
    let read = &run("lab-disk", &[name])["jobs"][0]["read"];
    assert_eq!(number(&read["total_ios"]), 1000);
    std::fs::write(&file, text.replace("limit", "limits")).expect("written");
    let told = Command::new(env!("CARGO_BIN_EXE_paternoster")).args(["run", name]).output();
    std::fs::remove_file(&file).expect("it is there");
    let told = told.expect("the program starts");
    let message = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(2));
    let begin = format!("paternoster: {name}:6: unknown key; there are parallelism, rps,");
    assert!(message.contains(&begin) && message.ends_with("`limits: 1000`\n"), "{message}");
}
