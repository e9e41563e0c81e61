// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as a user of the crate makes them: from I/Os passed to the statistics, through the
//! public functions only. They are compared with samples of fio 3.33 and the report of seed 000.

use std::collections::BTreeMap;

use paternoster_core::Nanos;
use paternoster_workload::direction::Direction;
use paternoster_workload::fio::job::Unified;
use paternoster_workload::fio::latency_target::LatencyGoal;
use paternoster_workload::report::{DiskReport, JobReport, RunReport, csv, json, normal, normal1};
use paternoster_workload::statistics::JobStatistics;
use serde_json::Value;

use crate::common::skipped;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/fio-3.33");

const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// A job that moved `kib` (whole blocks of 4 KiB) in `ms`, one I/O after the other.
fn job(name: &str, group: u32, direction: Direction, kib: u64, ms: u64) -> JobReport {
    let mut statistics = JobStatistics::new(Nanos::from_millis(500));
    statistics.start(Nanos::ZERO);
    let ios = kib / 4;
    for n in 0..ios {
        let now = Nanos(Nanos::from_millis(ms).0 * n / ios);
        statistics.issued(1);
        statistics.submitted(1);
        statistics.ended(now, direction, 4096);
        statistics.latency(direction, Nanos(500), Nanos::from_micros(80 + n % 40), false);
        statistics.reaped(1);
        statistics.waited();
    }
    statistics.end(Nanos::from_millis(ms));
    JobReport {
        name: name.to_owned(),
        description: None,
        group,
        group_reporting: false,
        clones: 1,
        error: 0,
        pid: 1,
        options: vec![("bs".to_owned(), "4k".to_owned())],
        rw_text: "randread".to_owned(),
        block_size: [(4096, 4096); 3],
        engine: "sync".to_owned(),
        iodepth: 1,
        percentiles: PERCENTILES.to_vec(),
        elapsed_s: 5,
        first_of_section: true,
        section_clones: 1,
        unified: Unified::None,
        latency_goal: LatencyGoal::default(),
        searched_depth: None,
        statistics,
    }
}

fn run(jobs: Vec<JobReport>) -> RunReport {
    RunReport {
        device: "flash".to_owned(),
        scheduler: "cfq".to_owned(),
        seed: 7,
        jobs,
        disks: vec![DiskReport { name: "vda".to_owned(), ..DiskReport::default() }],
        ..RunReport::default()
    }
}

/// The kinds of all values by their path; elements of an array share one path. Left out: options
/// (they are the user's), `bins` (`json+` only), percentiles' own keys (they are options too).
fn tree(value: &Value, path: &str, into: &mut BTreeMap<String, &'static str>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_u64() => "whole",
        Value::Number(_) => "float",
        Value::String(_) => "string",
        Value::Array(elements) => {
            elements.iter().for_each(|element| tree(element, &format!("{path}[]"), into));
            "array"
        }
        Value::Object(entries) => {
            let own = path.ends_with("options") || path.ends_with("percentile");
            for (key, value) in entries.iter().filter(|(key, _)| !own && *key != "bins") {
                tree(value, &format!("{path}.{key}"), into);
            }
            "object"
        }
    };
    into.insert(path.to_owned(), kind);
}

fn tree_of(text: &str) -> BTreeMap<String, &'static str> {
    let mut paths = BTreeMap::new();
    tree(&serde_json::from_str(text).expect("the report is JSON"), "", &mut paths);
    paths
}

/// Does the JSON report of a run of readers have exactly the keys and kinds of values of fio's?
#[test]
fn key_tree_of_readers() {
    let Ok(sample) = std::fs::read_to_string(format!("{SAMPLES}/fair.json")) else {
        return skipped(&format!("no samples in {SAMPLES}"));
    };
    let report = run(vec![
        job("test00", 0, Direction::Read, 16008, 5001),
        job("test01", 0, Direction::Read, 8004, 5001),
    ]);
    assert_eq!(tree_of(&json(&report)), tree_of(&sample));
}

/// The same with writers and syncs. A sync's percentiles appear only if syncs were made, like a
/// direction's.
#[test]
fn key_tree_of_a_mix() {
    let Ok(sample) = std::fs::read_to_string(format!("{SAMPLES}/mix.json")) else {
        return skipped(&format!("no samples in {SAMPLES}"));
    };
    let mut writer = job("seqw", 1, Direction::Write, 57664, 3001);
    writer.statistics.synced(Nanos::from_micros(700));
    let report = run(vec![job("bufread", 0, Direction::Read, 3604, 3001), writer]);
    assert_eq!(tree_of(&json(&report)), tree_of(&sample));
}

/// Do the eight groups of seed 000 print as in 2010? Of each pair's (KiB, ms) the seed has only
/// the sums and rates; these are the splits in whole blocks that yield them. For the first group:
/// 14272 * 1024 / 5001 = 2922.3, 7256 * 1024 / 5003 = 1485.1, 21528 * 1024 / 5003 = 4406.4.
#[test]
fn run_status_of_seed_000() {
    // (KiB, ms) of the job with larger blocks, the same of the one with 4 KiB, then the figures of
    // the printed line in its order: io, aggrb, minb, maxb, mint, maxt.
    let groups = [
        ((14272, 5001), (7256, 5003), [21528, 4406, 1485, 2922, 5001, 5003]),
        ((25040, 5002), (6484, 5003), [31524, 6452, 1327, 5126, 5002, 5003]),
        ((41504, 5004), (5040, 5001), [46544, 9524, 1031, 8493, 5001, 5004]),
        ((60992, 5002), (3720, 5004), [64712, 13242, 761, 12486, 5002, 5004]),
        ((14160, 5003), (7384, 5002), [21544, 4409, 1511, 2898, 5002, 5003]),
        ((25760, 5001), (6240, 5003), [32000, 6549, 1277, 5274, 5001, 5003]),
        ((31744, 5002), (7700, 5003), [39444, 8073, 1576, 6498, 5002, 5003]),
        ((41792, 5006), (7388, 5001), [49180, 10059, 1512, 8548, 5001, 5006]),
    ];
    for (group, (large, small, printed)) in (0..).zip(groups) {
        let report = run(vec![
            job("large", group, Direction::Read, large.0, large.1),
            job("small", group, Direction::Read, small.0, small.1),
        ]);
        let text = normal1(&report);
        let [io, aggrb, minb, maxb, mint, maxt] = printed;
        let wanted = format!(
            "\nRun status group {group} (all jobs):\n   READ: io={io}KiB, aggrb={aggrb}KiB/s, \
             minb={minb}KiB/s, maxb={maxb}KiB/s, mint={mint}msec, maxt={maxt}msec\n",
        );
        assert!(text.contains(&wanted), "{text}");
    }
}

/// Do the lines which open the report of seed 000 have its form, and a job's the form of the age?
/// 911 I/Os of 8 KiB in 5003 ms: 7288 KiB, 7288 * 1024 / 5003 = 1491, 911000 / 5003 = 182.
#[test]
fn lines_of_that_age() {
    let mut reader = job("test00", 0, Direction::Read, 4, 5003);
    reader.block_size = [(8192, 8192); 3];
    reader.statistics.start(Nanos::ZERO);
    for _ in 0..911 {
        let clat = Nanos::from_millis(2);
        reader.statistics.ended(Nanos(1), Direction::Read, 8192);
        reader.statistics.latency(Direction::Read, Nanos::ZERO, clat, false);
    }
    reader.statistics.end(Nanos::from_millis(5003));
    let text = normal1(&run(vec![reader]));
    for line in [
        "test00: (g=0): rw=randread, bs=8K-8K/8K-8K, ioengine=sync, iodepth=1",
        "Starting 1 process",
        "test00: (groupid=0, jobs=1): err= 0: pid=1",
        "  read : io=7288KiB, bw=1491KiB/s, iops=182, runt=5003msec",
        "    clat (usec): min=2000, max=2000, avg=2000.00, stdev= 0.00",
        "     issued r/w: total=911/0, short=0/0",
        "     lat (msec): 4=100.00%",
    ] {
        assert!(text.lines().any(|ours| ours == line), "{line} in\n{text}");
    }
}

/// Has each CSV line as many fields as the head has names, and the job's figures?
/// 8000 KiB in 5000 ms = 1600 KiB/s, 2000 I/Os = 400 per s.
#[test]
fn csv_has_named_columns() {
    let report = run(vec![
        job("reader", 0, Direction::Read, 8000, 5000),
        job("writer, slow", 1, Direction::Write, 40, 5000),
    ]);
    let text = csv(&report, true);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    let names: Vec<&str> = lines[0].split(',').collect();
    let fields: Vec<&str> = lines[1].split(',').collect();
    assert_eq!(names.len(), fields.len());
    let field = |name: &str| fields[names.iter().position(|column| *column == name).unwrap()];
    assert_eq!((field("scheduler"), field("device"), field("job")), ("cfq", "flash", "reader"));
    assert_eq!((field("bw_kib_per_s"), field("iops")), ("1600.000", "400.000"));
    // Latencies of 80 to 119 us by 1, and the half us of preparation: mean 99.5 + 0.5.
    assert_eq!((field("lat_mean_us"), field("lat_max_us")), ("100.000", "119.500"));
    assert!(lines[2].contains(",\"writer, slow\","));
    assert_eq!(csv(&report, false).lines().count(), 2);
}

/// Do equal runs print equal reports? No report may look at a clock.
#[test]
fn reports_repeat() {
    let make = || run(vec![job("a", 0, Direction::Trim, 400, 1000)]);
    let all =
        |report: &RunReport| [normal(report), json(report), normal1(report), csv(report, true)];
    assert_eq!(all(&make()), all(&make()));
    assert!(normal(&make()).contains("   TRIM: bw=400KiB/s (410kB/s)"));
}
