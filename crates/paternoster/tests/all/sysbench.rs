// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster sysbench` as a user meets it: times that can be computed by hand, forms, refusals.
//!
//! The device is `millisecond.toml` with a cache: a millisecond for each read and write, five for
//! a flush; submitting costs a nanosecond. There are four files of 16 blocks, and an fsync of each
//! after ten requests.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const MILLISECOND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/millisecond.toml");
const FILES: [&str; 4] =
    ["--file-num=4", "--file-total-size=1m", "--file-fsync-freq=10", "--scheduler=noop"];

/// The device as a file with a name of its own, so that tests do not collide.
struct Device(PathBuf);

impl Device {
    fn new(test: &str) -> Device {
        let text = std::fs::read_to_string(MILLISECOND).expect("it is there");
        let text = text
            .replace("[linear]", "write_cache = { value = true, source = \"a test\" }\n[linear]");
        let text =
            text.replace("[host]", "flush = { value = \"5 ms\", source = \"a test\" }\n[host]");
        let name = format!("paternoster-sysbench-{test}-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("a folder for temporary files");
        Device(path)
    }

    /// The one result of a direct test of these files.
    fn direct(&self, options: &[&str]) -> Value {
        let device = format!("--device={}", self.0.display());
        // Each fsync must take its 5 ms, even of a clean cache.
        let direct = ["fileio", "--file-extra-flags=direct", &device, "--set=flush_elide=0"];
        result(&[&direct[..], &FILES, options, &["run"]].concat())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

fn output(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["sysbench", "-q"]).args(options).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(options: &[&str]) -> String {
    let output = output(options);
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn result(options: &[&str]) -> Value {
    let text = text(&[options, &["--output-format=json"]].concat());
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    crate::results::conforms(&document);
    let results = document["results"].as_array_mut().expect("results");
    assert_eq!(results.len(), 1);
    results.remove(0)
}

fn number(result: &Value, name: &str) -> f64 {
    let found = name.split('/').fold(result, |value, key| &value[key]);
    found.as_f64().unwrap_or_else(|| panic!("{name} of {result}"))
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.01, "{found}, not {expected}");
}

/// Does a thread go through bursts as the rule says? 28 events are 10 writes, 4 fsyncs, 10 writes,
/// 4 fsyncs: 20 * 1 ms + 8 * 5 ms = 60 ms; 4 fsyncs at the end make it 80 ms. A write event takes 1
/// ms, an fsync 5.
#[test]
fn a_burst_takes_its_time() {
    let device = Device::new("burst");
    let found = device.direct(&["--file-test-mode=rndwr", "--events=28", "--time=0"]);
    assert_eq!((&found["writes"], &found["fsyncs"]), (&20.into(), &8.into()));
    assert_eq!((&found["events"], &found["fsyncs_at_end"]), (&28.into(), &4.into()));
    assert_near(number(&found, "time_ns") / 1e6, 80.0);
    assert_near(number(&found, "latency_ms/sum"), 60.0);
    assert_near(number(&found, "latency_ms/min"), 1.0);
    assert_near(number(&found, "latency_ms/max"), 5.0);
    assert_near(number(&found, "writes_per_second"), 20.0 / 0.080);
    assert_near(number(&found, "fsyncs_per_second"), 12.0 / 0.080);
    // Nothing at the end if it is not wanted: 60 ms.
    let end = ["--file-test-mode=rndwr", "--events=28", "--time=0", "--file-fsync-end=off"];
    assert_near(number(&device.direct(&end), "time_ns") / 1e6, 60.0);
    // And never one for a test that only reads: 28 ms.
    let reads = device.direct(&["--file-test-mode=rndrd", "--events=28", "--time=0"]);
    assert_near(number(&reads, "time_ns") / 1e6, 28.0);
    assert_eq!((&reads["fsyncs"], &reads["fsyncs_at_end"]), (&0.into(), &0.into()));
}

/// Does a write with `--file-fsync-all` end with its fsync, 1 + 5 ms, as with the flag `sync` on a
/// device without FUA; and are there no bursts? Ten are 60 ms, 4 fsyncs at the end 20 ms.
#[test]
fn each_write_can_be_made_safe() {
    let device = Device::new("safe");
    let test = ["--file-test-mode=rndwr", "--events=10", "--time=0"];
    let all = device.direct(&[&test[..], &["--file-fsync-all"]].concat());
    let flag =
        device.direct(&[&test[..], &["--file-extra-flags=sync", "--file-fsync-freq=0"]].concat());
    for found in [all, flag] {
        assert_eq!((&found["writes"], &found["fsyncs"]), (&10.into(), &0.into()));
        assert_near(number(&found, "latency_ms/min"), 6.0);
        assert_near(number(&found, "latency_ms/sum"), 60.0);
        assert_near(number(&found, "time_ns") / 1e6, 80.0);
    }
    // Without a burst the eleventh request is a write too.
    let more = device.direct(&["--file-test-mode=rndwr", "--events=12", "--file-fsync-all"]);
    assert_eq!((&more["writes"], &more["fsyncs"]), (&12.into(), &0.into()));
}

/// Do threads share one generator? Four read one stream, 64 blocks are 16 ms and each thread has 16
/// of them; each of four with its own ratio reads twelve of twenty times.
#[test]
fn threads_share_the_requests() {
    let device = Device::new("share");
    let found = device.direct(&["--file-test-mode=seqrd", "--threads=4", "--events=64"]);
    assert_near(number(&found, "time_ns") / 1e6, 16.0);
    for thread in found["per_thread"].as_array().expect("threads") {
        assert_eq!(thread["events"], 16);
        assert_near(number(thread, "execution_time_s"), 0.016);
    }
    let mixed = ["--file-test-mode=rndrw", "--threads=4", "--events=80", "--file-fsync-freq=0"];
    let found = device.direct(&mixed);
    assert_eq!((&found["reads"], &found["writes"]), (&48.into(), &32.into()));
    // Requests of up to four blocks: a file of 16 takes four.
    let merged = ["--file-test-mode=seqrd", "--events=4", "--file-merged-requests=4"];
    assert_eq!(device.direct(&merged)["read_bytes"], 16 << 14);
}

/// Does a test end with its time, a rate hold, and an asynchronous thread have several requests in
/// flight? One read at a time are 500 in half a second; 40 a second for 10 s are 400 (deviation
/// 20); eight at a time are 4000 in half a second.
#[test]
fn time_rate_and_backlog() {
    let device = Device::new("time");
    let reads = |options: &[&str]| {
        let read = ["--file-test-mode=rndrd"];
        number(&device.direct(&[&read[..], options].concat()), "reads")
    };
    assert_near(reads(&["--time=500ms"]), 500.0);
    let paced = reads(&["--rate=40", "--threads=4"]);
    assert!((320.0..480.0).contains(&paced), "{paced}");
    let eight = reads(&["--time=500ms", "--file-io-mode=async", "--file-async-backlog=8"]);
    assert!((3990.0..=4000.0).contains(&eight), "{eight}");
}

const SMALL: [&str; 5] =
    ["fileio", "--file-test-mode=rndwr", "--threads=4", "--time=2", "--device=hdd-7200"];

/// Do buffered writes end in memory, and wait for their fsyncs? On a disk a write takes less than a
/// millisecond, an fsync many; and fsyncs bring data to the disk.
#[test]
fn buffered_writes_end_in_memory() {
    let found = result(&[&SMALL[..], &["--scheduler=cfq", "run"]].concat());
    assert!(number(&found, "latency_ms/min") < 0.1, "{found}");
    assert!(number(&found, "latency_ms/max") > 20.0, "{found}");
    // 128 fsyncs after each 100 writes, of which some are in flight at the end.
    let (writes, fsyncs) = (number(&found, "writes"), number(&found, "fsyncs"));
    let bursts = (writes / 100.0).floor();
    assert!((bursts * 128.0 - 132.0..=bursts * 128.0).contains(&fsyncs), "{writes} {fsyncs}");
    assert_eq!(found["fsyncs_at_end"], 4 * 128);
}

/// Is a run the same for the same seed, and different for another, with either name of the option?
#[test]
fn runs_follow_the_seed() {
    let run = |seed: &str| text(&[&SMALL[..], &[seed, "--scheduler=noop", "run"]].concat());
    let first = run("--seed=1");
    assert_eq!(first, run("--seed=1"));
    assert_eq!(first, run("--rand-seed=1"));
    assert_ne!(first, run("--seed=2"));
}

/// Does the report have sysbench's lines, in order, with numbers; one a second during the run; and
/// is there one for each scheduler, followed by a table?
#[test]
fn reports_have_their_form() {
    let every = ["--report-interval=1", "--scheduler=noop", "--scheduler=cfq", "run"];
    let text = text(&[&SMALL[..], &every].concat());
    let masked = |line: &str| {
        let mut masked = String::new();
        for c in line.chars() {
            match c {
                '0'..='9' if masked.ends_with('9') => {}
                '0'..='9' => masked.push('9'),
                ' ' if masked.ends_with(' ') => {}
                c => masked.push(c),
            }
        }
        masked.trim().to_owned()
    };
    let lines: Vec<String> = text.lines().map(masked).filter(|line| !line.is_empty()).collect();
    let report = [
        "Running the test with following options:",
        "Number of threads: 9",
        "Report intermediate results every 9 second(s)",
        "Initializing random number generator from seed (9).",
        "Extra file open flags: (none)",
        "9 files, 9MiB each",
        "9GiB total file size",
        "Block size 9KiB",
        "Number of IO requests: 9",
        "Read/Write ratio for combined random IO test: 9.9",
        "Periodic FSYNC enabled, calling fsync() each 9 requests.",
        "Calling fsync() at the end of test, Enabled.",
        "Using synchronous I/O mode",
        "Doing random write test",
        "Initializing worker threads...",
        "Threads started!",
        "[ 9s ] reads: 9.9 MiB/s writes: 9.9 MiB/s fsyncs: 9.9/s latency (ms,9%): 9.9",
        "Throughput:",
        "read: IOPS=9.9 9.9 MiB/s (9.9 MB/s)",
        "write: IOPS=9.9 9.9 MiB/s (9.9 MB/s)",
        "fsync: IOPS=9.9",
        "Latency (ms):",
        "min: 9.9",
        "avg: 9.9",
        "max: 9.9",
        "9th percentile: 9.9",
        "sum: 9.9",
        "Threads fairness:",
        "events (avg/stddev): 9.9/9.9",
        "execution time (avg/stddev): 9.9/9.9",
    ];
    let mut rest = &lines[..];
    for scheduler in ["noop on hdd-9", "cfq on hdd-9"] {
        assert_eq!(rest[0], scheduler);
        assert!(rest[1].starts_with("sysbench fileio, in virtual time"), "{}", rest[1]);
        rest = &rest[2..];
        for line in report {
            assert_eq!(rest[0], line);
            // There is a line for each second.
            let same = rest.iter().take_while(|found| *found == line).count();
            assert!(same == 1 || line.starts_with('['), "{line}");
            rest = &rest[same..];
        }
    }
    assert_eq!(rest.len(), 3, "{rest:?}");
    assert!(rest[0].starts_with("device scheduler reads/s writes/s fsyncs/s"), "{}", rest[0]);
    let older = self::text(&[&SMALL[..], &["--output-format=sysbench-1.0", "run"]].concat());
    for line in ["File operations:", "General statistics:"] {
        assert_eq!(older.lines().filter(|found| *found == line).count(), 1, "{older}");
    }
}

/// Are words and names of sysbench 0.4 accepted, and do prepare and cleanup say that there is
/// nothing to do?
#[test]
fn older_names_are_taken() {
    let old = ["--test=fileio", "--num-threads=2", "--max-requests=50", "--max-time=5"];
    let init = ["--init-rng=on", "--file-test-mode", "rndwr", "run"];
    let new = ["fileio", "--threads=2", "--events=50", "--time=5", "--file-test-mode=rndwr"];
    assert_eq!(text(&[&old[..], &init].concat()), text(&new));
    assert!(text(&["fileio", "prepare"]).starts_with("Nothing to prepare"));
    assert!(text(&["fileio", "--file-num=9", "cleanup"]).starts_with("Nothing to clean up"));
}

/// Is what cannot be done refused, with what would be right?
#[test]
fn refusals() {
    for (options, words) in [
        (&["run"][..], "there is no test `run` here, only fileio"),
        (&["memory", "run"], "there is no test `memory` here, only fileio"),
        (&[], "name the test"),
        (&["fileio", "rnu"], "sysbench fileio rnu: `rnu` is none of prepare, run and cleanup"),
        (&["fileio", "run"], "--file-test-mode=MODE, one of seqwr, seqrewr, seqrd, rndrd, rndwr"),
        (&["fileio", "--file-test-mode=rnd"], "seqwr, seqrewr, seqrd, rndrd, rndwr, rndrw"),
        (&["fileio", "--file-io-mode=mmap"], "--file-io-mode=mmap: mapped files are not modelled"),
        (&["fileio", "--file-io-mode=slow"], "--file-io-mode=slow: it is none of sync and async"),
        (&["fileio", "--file-extra-flags=direct,odd"], "direct,odd: `odd` is none of sync, dsync"),
        (&["fileio", "--file-total-size=1k"], "less than one block of 16384"),
        (&["fileio", "--file-total-size=9T"], "hdd-7200 has 2000000000000 bytes, too few"),
        (&["fileio", "--file-block-size=x"], "--file-block-size x"),
        (&["fileio", "--file-rw-ratio=-1"], "as 1.5: reads by writes"),
        (&["fileio", "--file-fsync-all=maybe"], "[possible values: on, off]"),
        (&["fileio", "--percentile=101"], "0..=100"),
        (&["fileio", "--time=0"], "--time=0 --events=0: the test would never end"),
        (&["fileio", "--time=2d"], "--time 2d: at most 86400 s"),
        (&["fileio", "--file-fsync-all", "--file-io-mode=async"], "use --file-io-mode=sync"),
    ] {
        let mode = ["--file-test-mode=rndwr"];
        let has_mode = options.len() < 2 || options[1].contains("mode=r") || options[1] == "run";
        let all = if has_mode { options.to_vec() } else { [options, &mode].concat() };
        let output = output(&all);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{all:?}");
        assert!(message.contains(words), "{all:?}: {message}");
    }
    // A device that fails.
    let failing = ["--fault", "error count=1 op=write", "run"];
    let output = output(&[&SMALL[..], &failing].concat());
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("failed with errno 5"), "{message}");
}
