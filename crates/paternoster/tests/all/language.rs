// SPDX-License-Identifier: MIT OR Apache-2.0
//! What fio's language makes a process do: each test is a small job whose figures can be computed
//! by hand.
//!
//! The device `millisecond.toml` takes 32 commands at a time and a millisecond for each; submitting
//! costs a nanosecond.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const DEVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/millisecond.toml");

fn output(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", DEVICE, "--scheduler", "noop", "--output-format", "json"]);
    command.args(["-q", "--direct=1"]).args(options).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn run(options: &[&str]) -> Value {
    let output = output(options);
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// I/Os of a job in a direction.
fn ios(report: &Value, job: usize, way: &str) -> u64 {
    number(&report["jobs"][job][way]["total_ios"])
}

/// Virtual time of the run in ms, rounded.
fn time_ms(report: &Value) -> u64 {
    (number(&report["paternoster"]["virtual_time_ns"]) + 500_000) / 1_000_000
}

/// A fresh folder for files.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("paternoster-{}-{name}", std::process::id()));
    let _not_there = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Are the I/Os of a batch issued and reaped together? 16 reads of 1 ms, four at a time, take 4 ms.
/// Without batches depth 4 takes as long, but only with them has every submission 4 I/Os.
#[test]
fn batches_go_and_come_together() {
    let job = ["--name=a", "--rw=randread", "--size=64k", "--ioengine=libaio", "--iodepth=4"];
    let report =
        run(&[&job[..], &["--iodepth_batch_submit=4", "--iodepth_batch_complete_min=4"]].concat());
    assert_eq!(time_ms(&report), 4);
    let submits = &report["jobs"][0]["iodepth_submit"];
    assert_eq!(submits["4"].as_f64(), Some(100.0), "{submits}");
}

/// Is think time counted at issues, and by time? 8 reads of 1 ms. A pause of 10 ms after each
/// second one: three between them and one after the last. After 3 ms of I/O, the first time a pause
/// later: of 40 reads after the 13th, 16th, and so on to the 40th.
#[test]
fn thoughts_have_their_kinds() {
    let job = ["--name=a", "--rw=read", "--size=32k", "--thinktime=10000"];
    for kind in ["issue", "complete"] {
        let kind = format!("--thinktime_blocks_type={kind}");
        let report = run(&[&job[..], &["--thinktime_blocks=2", &kind]].concat());
        assert_eq!(time_ms(&report), 8 + 4 * 10, "{kind}");
    }
    let by_time = ["--thinktime_iotime=3ms", "--size=160k"];
    let report = run(&[&job[..], &by_time].concat());
    assert_eq!(time_ms(&report), 40 + 10 * 10);
}

/// Does an open loop count from when an I/O should have come? 2000 a second on a device that does
/// 1000 at depth 1: the k-th should come at k/2 ms and ends at k + 1 ms. The last of 100, k = 99,
/// is 100 - 49.5 = 50.5 ms late; inline every one takes 1 ms.
#[test]
fn an_open_loop_is_late() {
    let job = ["--name=a", "--rw=read", "--size=400k", "--ioengine=libaio", "--rate_iops=2000"];
    let longest = |options: &[&str]| {
        number(&run(&[&job[..], options].concat())["jobs"][0]["read"]["lat_ns"]["max"]) / 100_000
    };
    assert_eq!(longest(&["--io_submit_mode=inline"]), 10);
    assert_eq!(longest(&["--io_submit_mode=offload"]), 505);
}

/// Does a Poisson process have as many arrivals as requested, unevenly? 1000 at 500 a second.
#[test]
fn poisson_arrivals_are_uneven() {
    let report = run(&[
        "--name=a",
        "--rw=randread",
        "--size=64m",
        "--ioengine=libaio",
        "--iodepth=32",
        "--rate_iops=500",
        "--rate_process=poisson",
        "--number_ios=1000",
    ]);
    // 2 s, and three standard deviations of a sum of 1000: 3 * sqrt(1000) * 2 ms = 190 ms.
    assert!((1810..2190).contains(&time_ms(&report)), "{}", time_ms(&report));
    let shallow = report["jobs"][0]["iodepth_level"]["1"].as_f64().expect("a share");
    assert!(shallow < 99.0, "some come together: {shallow}");
}

/// Does a job fail that is slower than allowed, and one whose I/O takes too long?
#[test]
fn least_rates_and_largest_latencies_are_watched() {
    let job = ["--name=a", "--rw=read", "--size=64m", "--runtime=10", "--time_based=1"];
    for (option, errno) in [("--rate_iops_min=2000", 5), ("--max_latency=500us", 110)] {
        let output = output(&[&job[..], &[option]].concat());
        assert_eq!(output.status.code(), Some(1), "{option}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(number(&report["jobs"][0]["error"]), errno, "{option}");
    }
    assert_eq!(time_ms(&run(&[&job[..], &["--rate_iops_min=900"]].concat())), 10_000);
}

/// Does the search find the deepest queue that keeps a latency? The device does 32 at a time, so
/// 1.5 ms are kept at every depth up to 32, doubled from 1 in windows of 10 ms. On the card, which
/// does one at a time in 1.3 ms, a depth of n takes n times that: 2 keeps 3 ms, 3 does not (90 %
/// are required, because a window begins with what was issued at another depth).
#[test]
fn a_depth_is_searched() {
    let job = ["--name=a", "--rw=randread", "--ioengine=libaio", "--iodepth=32", "--runtime=5"];
    let report = run(&[
        &job[..],
        &["--size=512m", "--time_based=1", "--latency_target=1500", "--latency_window=10000"],
    ]
    .concat());
    assert_eq!(number(&report["jobs"][0]["latency_depth"]), 32);
    // 1 2 4 8 16 32, and the last one at 32: seven windows.
    assert!((70..80).contains(&time_ms(&report)), "{}", time_ms(&report));
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--scheduler", "noop", "--output-format", "json", "-q", "--direct=1"]);
    command.args(["--device", "flash-card-2010"]);
    command.args(job).args(["--size=512m", "--time_based=1", "--latency_target=3000"]);
    let output = command
        .args(["--latency_window=100000", "--latency_percentile=90"])
        .stdin(Stdio::null())
        .output();
    let stdout = output.expect("the program starts").stdout;
    let report: Value = serde_json::from_slice(&stdout).expect("JSON");
    assert_eq!(number(&report["jobs"][0]["latency_depth"]), 2);
}

/// Do as many I/Os as requested have another class? The log shows it: 3 of 10 are 0x2000, class 1.
#[test]
fn some_ios_have_another_priority() {
    let folder = folder("priority");
    let log = format!("--write_lat_log={}", folder.join("p").display());
    run(&[
        "--name=a",
        "--rw=randread",
        "--size=4m",
        "--ioengine=libaio",
        "--iodepth=4",
        "--cmdprio_percentage=30",
        "--log_prio=1",
        "--number_ios=1000",
        &log,
    ]);
    let text = fs::read_to_string(folder.join("p_clat.1.log")).expect("a log");
    let first = text.lines().filter(|line| line.ends_with(", 0x2000")).count();
    assert_eq!(text.lines().count(), 1000);
    assert!((250..350).contains(&first), "{first}");
}

/// Do jobs of one flow keep their proportion? 3 : 1, and both do I/Os as fast as they can. They
/// begin and end together: what one does before the other has begun does not count.
#[test]
fn flows_keep_their_proportion() {
    let report = run(&[
        "--start-jitter=0",
        "--rw=randread",
        "--size=64m",
        "--runtime=1",
        "--time_based=1",
        "--name=a",
        "--flow=3",
        "--name=b",
        "--flow=1",
    ]);
    let (a, b) = (ios(&report, 0, "read"), ios(&report, 1, "read"));
    assert!(a > 700 && a.abs_diff(3 * b) <= 3, "{a} and {b}");
}

/// Does the end of one job end others, and does one wait for another? a does 10 reads, 10 ms.
#[test]
fn ends_end_others() {
    let endless = ["--name=b", "--runtime=1", "--time_based=1"];
    let common = ["--rw=read", "--size=4m"];
    let ten = ["--name=a", "--number_ios=10", "--exitall=1"];
    let report = run(&[&common[..], &ten, &endless].concat());
    assert_eq!((ios(&report, 0, "read"), ios(&report, 1, "read")), (10, 10));
    let ten = ["--name=a", "--number_ios=10"];
    let report =
        run(&[&common[..], &ten, &["--name=b", "--number_ios=5", "--wait_for=a"]].concat());
    assert_eq!(time_ms(&report), 15);
    // Everything, including jobs that have not begun: c after a stonewall does nothing.
    let ten = ["--name=a", "--number_ios=10", "--exitall=1", "--exit_what=all"];
    let later = ["--name=c", "--stonewall=1", "--number_ios=5"];
    let report = run(&[&common[..], &ten, &endless, &later].concat());
    assert_eq!((time_ms(&report), ios(&report, 2, "read")), (10, 0));
}

/// Is what was written read back: at the end, or in parts; and only read with verify_only? 16
/// writes, 16 reads.
#[test]
fn what_was_written_is_verified() {
    let job = ["--name=a", "--rw=randwrite", "--size=64k", "--verify=crc32c"];
    for options in [&[][..], &["--verify_backlog=4"]] {
        let report = run(&[&job[..], options].concat());
        assert_eq!((ios(&report, 0, "write"), ios(&report, 0, "read")), (16, 16), "{options:?}");
    }
    let report = run(&[&job[..], &["--do_verify=0"]].concat());
    assert_eq!((ios(&report, 0, "write"), ios(&report, 0, "read")), (16, 0));
    let report = run(&[&job[..], &["--verify_only=1"]].concat());
    assert_eq!((ios(&report, 0, "write"), ios(&report, 0, "read")), (0, 16));
}

/// Does another run replay what one recorded? 8 writes with a sync after each fourth, at a rate of
/// 100 a second: the last begins at 70 ms; without pauses all take 8 ms.
#[test]
fn a_log_is_recorded_and_replayed() {
    let folder = folder("iolog");
    let log = folder.join("log").display().to_string();
    let record = format!("--write_iolog={log}");
    let job = ["--name=a", "--rw=randwrite", "--size=32k", "--rate_iops=100", "--fsync=4"];
    let recorded = run(&[&job[..], &[&record]].concat());
    let replay = format!("--read_iolog={log}");
    let replayed = run(&["--name=b", &replay]);
    for report in [&recorded, &replayed] {
        assert_eq!((ios(report, 0, "write"), time_ms(report)), (8, 71));
        assert_eq!(number(&report["jobs"][0]["sync"]["total_ios"]), 1);
    }
    assert_eq!(time_ms(&run(&["--name=b", &replay, "--replay_no_stall=1"])), 8);
    assert_eq!(time_ms(&run(&["--name=b", &replay, "--replay_time_scale=200"])), 36);
    let late = "fio version 3 iolog\n0 f add\n0 f open\n18446744073709551615 f read 0 4096\n";
    fs::write(&log, late).expect("a log");
    let refused = output(&["--name=b", &replay]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("log:4: a log ends within ten years")
    );
    fs::write(&log, "fio version 2 iolog\na add\na open\na read x 4096\n").expect("a log");
    let refused = output(&["--name=b", &replay]);
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("log:4: ") && message.contains("`x`"), "{message}");
}

/// Do logs have fio's names and format? 100 reads of 1 ms, in windows of 50 ms.
#[test]
fn logs_are_written() {
    let folder = folder("logs");
    let prefix = folder.join("r").display().to_string();
    let option = |name: &str| format!("--write_{name}_log={prefix}");
    let job = ["--name=a", "--rw=read", "--size=400k", "--log_avg_msec=50"];
    run(&[&job[..], &[&option("bw"), &option("lat"), &option("iops")]].concat());
    for (name, value) in [("bw", 4000), ("clat", 1_000_000), ("lat", 1_000_000), ("iops", 1000)] {
        let text = fs::read_to_string(folder.join(format!("r_{name}.1.log"))).expect("a log");
        let first = text.lines().next().expect("a line");
        let fields: Vec<&str> = first.split(", ").collect();
        assert_eq!((fields[0], fields[2], fields.len()), ("50", "0", 5), "{name}: {first}");
        let found: u64 = fields[1].parse().expect("a number");
        assert!(found.abs_diff(value) * 20 < value, "{name}: {first}");
    }
    let unwritable = output(&["--name=a", "--rw=read", "--size=4k", "--write_bw_log=/no/such/x"]);
    assert_eq!(unwritable.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unwritable.stderr).contains("/no/such/x_bw.1.log"));
}

/// Are the files of a job used in turn, and is each as long as its part of the size? Four reads of
/// 4 KiB of each of three files.
#[test]
fn files_take_turns() {
    let folder = folder("files");
    let log = format!("--write_iolog={}", folder.join("log").display());
    let report = run(&["--name=a", "--rw=read", "--size=48k", "--nrfiles=3", &log]);
    assert_eq!(ios(&report, 0, "read"), 12);
    let text = fs::read_to_string(folder.join("log")).expect("a log");
    let reads: Vec<&str> = text.lines().filter(|line| line.contains(" read ")).collect();
    let file = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let names: Vec<String> = reads.iter().take(4).filter_map(|line| file(line)).collect();
    assert_eq!(names, ["a.0.0", "a.0.1", "a.0.2", "a.0.0"]);
    assert!(reads[11].ends_with(" a.0.2 read 12288 4096"), "{}", reads[11]);
}

/// Do syncs alternate among the files, as fio's do? Its order for two files and a sync after each
/// fourth write, measured: a b a b S(a) b a b a S(b) a b a b S(a).
#[test]
fn syncs_take_turns() {
    let folder = folder("turns");
    let log = format!("--write_iolog={}", folder.join("log").display());
    run(&["--name=a", "--rw=write", "--size=64k", "--nrfiles=2", "--fsync=4", &log]);
    let text = fs::read_to_string(folder.join("log")).expect("a log");
    let letter = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let file = if words[1].ends_with(".0") { "a" } else { "b" };
        match words.get(2) {
            Some(&"write") => file.to_owned(),
            Some(&"sync") => file.to_uppercase(),
            _ => String::new(),
        }
    };
    let order: String = text.lines().skip(1).map(letter).collect();
    assert_eq!(order, "ababAbabaBababAbaba");
}

/// Do I/Os wait for others on the same bytes? Always the same block at depth 4: one after the
/// other.
#[test]
fn overlapping_ios_are_serialized() {
    let job = [
        "--name=a",
        "--rw=randwrite",
        "--size=4k",
        "--io_size=32k",
        "--ioengine=libaio",
        "--iodepth=4",
        "--norandommap=1",
    ];
    assert_eq!(time_ms(&run(&job)), 2);
    assert_eq!(time_ms(&run(&[&job[..], &["--serialize_overlap=1"]].concat())), 8);
}

/// Does a job that burns CPU do no I/O, and end with the last job that does?
#[test]
fn cpu_is_burned() {
    let burn = ["--name=c", "--ioengine=cpuio", "--cpuload=50", "--cpuchunks=1000"];
    let read = ["--name=a", "--rw=read", "--size=400k"];
    let report = run(&[&read[..], &burn, &["--exit_on_io_done=1"]].concat());
    assert_eq!(time_ms(&report), 100);
    assert_eq!(ios(&report, 1, "read"), 0);
    let cpu = report["jobs"][1]["usr_cpu"].as_f64().expect("a share");
    assert!((cpu - 50.0).abs() < 2.0, "{cpu}");
    assert_eq!(output(&burn).status.code(), Some(2), "without end");
}

/// Does a job that reads its files before finds them in memory? 100 pages of 2 us.
#[test]
fn files_are_read_before() {
    let job = ["--name=a", "--rw=read", "--size=400k", "--buffered=1"];
    assert!(time_ms(&run(&job)) > 1);
    assert_eq!(time_ms(&run(&[&job[..], &["--pre_read=1"]].concat())), 0);
}

/// Is the report repeated during the run? 100 ms of reads, every 30 ms: three, and the last.
#[test]
fn status_is_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", DEVICE, "-q", "--output-format=normal", "--direct=1"]);
    command.args(["--status-interval=30ms", "--name=a", "--rw=read", "--size=400k"]);
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.matches("Run status group 0").count(), 4, "{text}");
    // The k-th read ends a little after k ms, so 29 have ended by then.
    assert!(text.contains("io=116KiB"), "after 30 ms");
}

/// Do flows of more than two jobs go on, even when one thinks, begins later, or never begins?
#[test]
fn flows_wait_for_nobody_in_vain() {
    let common = ["--rw=randread", "--size=1m", "--number_ios=50", "--flow=1"];
    let three = ["--name=a", "--name=b", "--name=c", "--thinktime=10000"];
    assert_eq!(time_ms(&run(&[&common[..], &three].concat())), 50 * 11);
    let later = ["--name=a", "--name=b", "--stonewall=1"];
    assert_eq!(time_ms(&run(&[&common[..], &later].concat())), 100);
    let never = [
        "--name=a",
        "--name=c",
        "--startdelay=9",
        "--new_group=1",
        "--name=d",
        "--number_ios=5",
        "--flow=0",
        "--exitall=1",
    ];
    run(&[&common[..], &never].concat());
}

/// Is a log's I/O beyond the end of its device an error, direct or not?
#[test]
fn a_log_ends_with_its_device() {
    let folder = folder("behind");
    let log = folder.join("log").display().to_string();
    for action in ["read", "write"] {
        let text = format!(
            "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x {action} 9000000000000 4096\n"
        );
        fs::write(&log, text).expect("a log");
        for direct in ["--direct=1", "--direct=0"] {
            let output = output(&["--name=a", &format!("--read_iolog={log}"), direct]);
            assert_eq!(output.status.code(), Some(1), "{action} {direct}");
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(number(&report["jobs"][0]["error"]), 22);
        }
    }
}

/// Are the figures of a job that ended within its ramp still there when others go on longer?
#[test]
fn a_ramp_ends_after_its_job() {
    let short = ["--name=a", "--rw=read", "--size=40k", "--ramp_time=1"];
    let long = ["--name=b", "--rw=read", "--size=4m", "--runtime=2", "--time_based=1"];
    let report = run(&[&short[..], &long, &["--ramp_time=0"]].concat());
    assert_eq!(ios(&report, 0, "read"), 10);
}

/// With a batch of 8 of depth 16 eight go at a time: fio's class of 5 to 8.
#[test]
fn batches_are_counted() {
    let report = run(&[
        "--name=a",
        "--rw=randread",
        "--size=4m",
        "--ioengine=libaio",
        "--iodepth=16",
        "--iodepth_batch_submit=8",
        "--iodepth_batch_complete_min=8",
        "--number_ios=160",
    ]);
    let submits = &report["jobs"][0]["iodepth_submit"];
    assert_eq!(submits["8"].as_f64(), Some(100.0), "{submits}");
    assert_eq!(report["jobs"][0]["iodepth_complete"]["8"].as_f64(), Some(100.0));
}

/// Is the submitting CPU busy and not stopped by completions? A device with almost no latency and
/// 20 us for each I/O: 50 000 a second.
#[test]
fn a_deep_job_is_bound_by_its_cpu() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", "null", "--scheduler", "noop", "--output-format", "json"]);
    command.args(["-q", "--submit-cost=20us", "--name=a", "--rw=randread", "--size=512m"]);
    command.args(["--direct=1", "--ioengine=libaio", "--iodepth=64", "--number_ios=5000"]);
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let iops = report["jobs"][0]["read"]["iops"].as_f64().expect("a number");
    assert!((iops / 50_000.0 - 1.0).abs() < 0.01, "{iops}");
}
