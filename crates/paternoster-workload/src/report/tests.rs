// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden tests: reports rebuilt from the figures in fio's own JSON, against fio's own text.
//!
//! A sample is one run of fio 3.33 in two forms. The accumulators are set to the figures of its
//! JSON; then `json()` must print that JSON again and `normal()` the text that fio printed with it.
//! Masked is only what a simulation lacks: pid and date, sys CPU, minor faults, the program's
//! version, lines about files being laid out.
//!
//! Without the folder of samples a test says so and passes.

use paternoster_core::Nanos;
use serde_json::Value;

use super::*;
use crate::direction::Direction;
use crate::fio::job::Unified;
use crate::fio::latency_target::LatencyGoal;
use crate::statistics::{DirectionStatistics, Histogram, Latency, Moments};
use paternoster_measure::reaches;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/fio-3.33");

fn sample(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("{SAMPLES}/{name}"));
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    text.inspect_err(|error| eprintln!("skipped: {test}: no sample {name}: {error}")).ok()
}

/// The options in order of appearance: the global block, then one block for each job. Read from
/// the text, because a parsed object would lose the order and the second `runtime`.
fn option_blocks(text: &str) -> Vec<Vec<(String, String)>> {
    let mut blocks: Vec<Vec<(String, String)>> = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if line.ends_with("options\" : {") {
            blocks.push(Vec::new());
            inside = true;
        } else if let (true, Some((key, value))) = (inside, line.split_once(" : ")) {
            let bare = |text: &str| text.trim_matches([',', '"']).to_owned();
            blocks.last_mut().unwrap().push((bare(key), bare(value)));
        } else {
            inside = false;
        }
    }
    blocks
}

fn whole(tree: &Value, key: &str) -> u64 {
    tree[key].as_u64().unwrap_or_else(|| panic!("{key} in {tree}"))
}

fn float(tree: &Value, key: &str) -> f64 {
    tree[key].as_f64().unwrap_or_else(|| panic!("{key} in {tree}"))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares of counts")]
fn count_of(share: f64, total: u64) -> u64 {
    (share * total as f64 / 100.0).round() as u64
}

fn latency(tree: &Value) -> Latency {
    let (min, max) = (Nanos(whole(tree, "min")), Nanos(whole(tree, "max")));
    Latency::from_parts(whole(tree, "N"), min, max, float(tree, "mean"), float(tree, "stddev"))
}

fn percentiles(tree: &Value) -> Vec<(f64, u64)> {
    let Some(entries) = tree["percentile"].as_object() else { return Vec::new() };
    let parsed = |(p, ns): (&String, &Value)| (p.parse().unwrap(), ns.as_u64().unwrap());
    let mut entries: Vec<(f64, u64)> = entries.iter().map(parsed).collect();
    entries.sort_by(|one, other| one.0.total_cmp(&other.0));
    entries
}

/// The bins if the sample has them; otherwise bins that yield its percentiles, by placing at each
/// percentile's value as many as are missing to reach its rank.
fn histogram(tree: &Value) -> Histogram {
    let mut histogram = Histogram::new();
    if let Some(bins) = tree["bins"].as_object() {
        for (ns, count) in bins {
            histogram.record_many(Nanos(ns.parse().unwrap()), count.as_u64().unwrap());
        }
        return histogram;
    }
    let n = whole(tree, "N");
    for (p, ns) in percentiles(tree) {
        let rank = (1..=n).find(|rank| reaches(*rank, p, n)).unwrap();
        histogram.record_many(Nanos(ns), rank - histogram.total());
    }
    histogram
}

fn fill_direction(statistics: &mut DirectionStatistics, tree: &Value) {
    statistics.bytes = whole(tree, "io_bytes");
    statistics.ios = whole(tree, "total_ios");
    statistics.runtime = Nanos::from_millis(whole(tree, "runtime"));
    statistics.submission = latency(&tree["slat_ns"]);
    statistics.completion = latency(&tree["clat_ns"]);
    statistics.total = latency(&tree["lat_ns"]);
    statistics.completion_histogram = histogram(&tree["clat_ns"]);
    let moments = |name: &str, stdev: &str| {
        Moments::from_parts(
            whole(tree, &format!("{name}_samples")),
            whole(tree, &format!("{name}_min")),
            whole(tree, &format!("{name}_max")),
            float(tree, &format!("{name}_mean")),
            float(tree, &format!("{name}_{stdev}")),
        )
    };
    statistics.samples.set(moments("bw", "dev"), moments("iops", "stddev"));
}

fn statistics(tree: &Value) -> JobStatistics {
    let mut statistics = JobStatistics::new(Nanos::from_millis(500));
    for direction in Direction::ALL {
        fill_direction(&mut statistics.directions[direction as usize], &tree[direction.name()]);
    }
    statistics.sync = latency(&tree["sync"]["lat_ns"]);
    statistics.sync_histogram = histogram(&tree["sync"]["lat_ns"]);
    statistics.runtime = Nanos::from_millis(whole(tree, "job_runtime"));
    statistics.user = Nanos(count_of(float(tree, "usr_cpu"), statistics.runtime.0));
    statistics.waits = whole(tree, "ctx");

    let ios = statistics.ios();
    let counts = |key: &str, names: &[&str], total| -> Vec<u64> {
        names.iter().map(|name| count_of(float(&tree[key], name), total)).collect()
    };
    let (steps, steps_ms) =
        (crate::statistics::distribution::STEPS, crate::statistics::distribution::STEPS_MS);
    let distribution = &mut statistics.distribution;
    distribution.nanoseconds = counts("latency_ns", &steps, ios).try_into().unwrap();
    distribution.microseconds = counts("latency_us", &steps, ios).try_into().unwrap();
    distribution.milliseconds = counts("latency_ms", &steps_ms, ios).try_into().unwrap();

    let (levels, batches) = (crate::statistics::depth::LEVELS, crate::statistics::depth::BATCHES);
    statistics.depths.issued = ios;
    statistics.depths.counts = counts("iodepth_level", &levels, ios).try_into().unwrap();
    statistics.submits.counts = counts("iodepth_submit", &batches, 1000).try_into().unwrap();
    statistics.reaps.counts = counts("iodepth_complete", &batches, 1000).try_into().unwrap();
    statistics
}

fn job(tree: &Value, global: &[(String, String)], options: &[(String, String)]) -> JobReport {
    let option = |key: &str| {
        let given = options.iter().chain(global).find(|(name, _)| name == key);
        given.map(|(_, value)| value.clone())
    };
    let number = |key: &str| option(key).map_or(1, |text| text.parse::<u32>().unwrap());
    let block = option("bs").map(|text| text.trim_end_matches('k').parse::<u64>().unwrap() * 1024);
    let all = [tree["read"].clone(), tree["write"].clone()];
    let listed = all.iter().map(|tree| percentiles(&tree["clat_ns"])).find(|list| !list.is_empty());
    JobReport {
        name: tree["jobname"].as_str().unwrap().to_owned(),
        description: None,
        group: u32::try_from(whole(tree, "groupid")).unwrap(),
        group_reporting: number("numjobs") > 1,
        clones: number("numjobs"),
        error: 0,
        pid: 1,
        options: options.to_vec(),
        rw_text: option("rw").unwrap(),
        // Only the job with a bssplit has no `bs`: 4k/60:16k/40 for reads, 8k for the others.
        block_size: block.map_or([(4096, 16384), (8192, 8192), (8192, 8192)], |bs| [(bs, bs); 3]),
        engine: option("ioengine").unwrap(),
        iodepth: number("iodepth"),
        percentiles: listed.unwrap_or_default().iter().map(|(p, _)| *p).collect(),
        elapsed_s: whole(tree, "elapsed"),
        first_of_section: true,
        section_clones: number("numjobs"),
        unified: Unified::None,
        latency_goal: LatencyGoal::default(),
        searched_depth: None,
        statistics: statistics(tree),
    }
}

/// The run whose JSON is `text`.
fn run(text: &str) -> RunReport {
    let tree: Value = serde_json::from_str(text).unwrap();
    let blocks = option_blocks(text);
    let jobs = tree["jobs"].as_array().unwrap();
    assert_eq!(blocks.len(), jobs.len() + 1);
    let disk = &tree["disk_util"][0];
    let pair =
        |key: &str| [whole(disk, &format!("read_{key}")), whole(disk, &format!("write_{key}"))];
    RunReport {
        global_options: blocks[0].clone(),
        jobs: jobs.iter().zip(&blocks[1..]).map(|(tree, own)| job(tree, &blocks[0], own)).collect(),
        disks: vec![DiskReport {
            name: "vda".to_owned(),
            ios: pair("ios"),
            merges: pair("merges"),
            ticks_ms: pair("ticks"),
            in_queue_ms: whole(disk, "in_queue"),
            util_percent: float(disk, "util"),
        }],
        ..RunReport::default()
    }
}

/// Cuts from a line of a normal report what a simulation cannot have equal.
fn masked(line: &str) -> Option<String> {
    if line.contains("Laying out IO file") || line.contains("fio-3.33") {
        return None;
    }
    if let Some((head, _)) = line.split_once(" pid=") {
        return Some(head.to_owned());
    }
    if let (Some((head, rest)), true) = (line.split_once(", sys="), line.starts_with("  cpu")) {
        let switches = rest.split(", ").find(|part| part.starts_with("ctx=")).unwrap_or("");
        return Some(format!("{head} {switches}"));
    }
    Some(line.to_owned())
}

fn assert_same_lines(ours: Vec<String>, theirs: Vec<String>) {
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "line {}", number + 1);
    }
    assert_eq!(ours.len(), theirs.len());
}

fn assert_normal_equals(name: &str) {
    let (Some(json), Some(text)) =
        (sample(&format!("{name}.json")), sample(&format!("{name}.normal.txt")))
    else {
        return;
    };
    let ours = normal(&run(&json));
    assert!(ours.contains("in the form of fio-3.33\nStarting "));
    let lines = |text: &str| text.lines().filter_map(masked).collect();
    assert_same_lines(lines(&ours), lines(&text));
}

/// Does the normal report of eight jobs in four groups equal fio's, line by line?
#[test]
fn normal_report_of_fair() {
    assert_normal_equals("fair");
}

/// The same with clones merged, slat, writes, syncs, latencies in ns, and own percentiles.
#[test]
fn normal_report_of_mix() {
    assert_normal_equals("mix");
}

/// The lines of a JSON sample without trailing commas and what a simulation lacks.
fn json_lines(text: &str) -> Vec<String> {
    let masked = ["fio version", "timestamp", "time\"", "sys_cpu", "minf"];
    let kept = |line: &&str| {
        let key = line.trim_start().trim_start_matches('"');
        !masked.iter().any(|name| key.starts_with(name))
    };
    text.lines().filter(kept).map(|line| line.trim_end_matches(',').to_owned()).collect()
}

fn assert_json_equals(name: &str) {
    if let Some(text) = sample(&format!("{name}.json")) {
        let ours = json(&run(&text));
        assert_same_lines(json_lines(&ours), json_lines(&text));
    }
}

/// Does the JSON of eight jobs equal fio's, line by line: keys, order, blanks, digits?
#[test]
fn json_report_of_fair() {
    assert_json_equals("fair");
}

/// The same as `json+`, whose bins this sample has, with shares raised to 0.1 %, syncs among the
/// depths, and summed samples.
#[test]
fn json_report_of_mix() {
    if let Some(text) = sample("mix.json") {
        let ours = json_plus(&run(&text));
        // 2 of 2688 I/Os at depth 4 print as 0.1 %, of which the test can only guess 3: 0.111607.
        let ours = ours.replace("\"4\" : 0.111607", "\"4\" : 0.100000");
        assert_same_lines(json_lines(&ours), json_lines(&text));
        // Without bins nothing else is missing.
        let without = json(&run(&text));
        assert!(!without.contains("\"bins\"") && without.contains("\"percentile\""));
    }
}

/// Is the terse report of the same run fio's, field by field? Masked are fio's version, system
/// time and minor faults.
#[test]
fn terse_report_of_mix() {
    let (Some(json), Some(text)) = (sample("mix.json"), sample("mix.terse.txt")) else { return };
    let ours = terse(&run(&json), TerseVersion::Three);
    assert_eq!(ours.lines().count(), 3);
    for (ours, theirs) in ours.lines().zip(text.lines()) {
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            (ours.split(';').collect(), theirs.split(';').collect());
        assert_eq!((ours.len(), theirs.len()), (130, 130));
        for (place, (our, their)) in ours.iter().zip(&theirs).enumerate() {
            // Numbered from 1, as scripts do.
            let number = place + 1;
            let masked = [2, 89, 92].contains(&number);
            assert!(masked || our == their, "{}: field {number} is {our}, fio's {their}", ours[2]);
        }
    }
}

/// Have the other versions as many fields as fio's, and the description where it has it? Measured
/// with one disk and a description: 161 and a line of its own, 131, 172, 190.
#[test]
fn terse_versions_have_their_fields() {
    let jobs = vec![small_job("a", 0, false)];
    let disks = vec![DiskReport { name: "vda".to_owned(), ..DiskReport::default() }];
    let report = RunReport { jobs, disks, ..RunReport::default() };
    for (number, lines, fields) in [(2, 2, 161), (3, 1, 131), (4, 1, 172), (5, 1, 190)] {
        let text = terse(&report, TerseVersion::of(number).unwrap());
        assert_eq!(text.lines().count(), lines, "{number}");
        assert_eq!(text.lines().next().unwrap().split(';').count(), fields, "{number}");
        assert!(text.starts_with(&format!("{number};")) && text.ends_with(";as seen\n"));
    }
    assert_eq!(TerseVersion::of(6), None);
}

/// Are the directions reported as one on request, with their sums?
#[test]
fn directions_as_one() {
    let mut job = small_job("a", 0, false);
    let clat = Nanos::from_micros(40);
    job.statistics.ended(Nanos(30), Direction::Read, 4096);
    job.statistics.latency(Direction::Read, Nanos::ZERO, clat, false);
    job.statistics.end(Nanos::from_millis(10));
    let told = |unified| {
        let jobs = vec![JobReport { unified, ..job.clone() }];
        let report = RunReport { jobs, ..RunReport::default() };
        (normal(&report), json(&report), terse(&report, TerseVersion::Three))
    };
    // 2 I/Os of 4 KiB in 10 ms are 200 per second, 800 KiB/s; latencies 20 and 40 us.
    let (text, tree, line) = told(Unified::Mixed);
    assert!(text.contains("  mixed: IOPS=200, BW=800KiB/s (819kB/s)(8192B/10msec)\n"), "{text}");
    assert!(text.contains("min=20000, max=40000") && !text.contains("  write: "), "{text}");
    assert!(text.contains("  MIXED: bw=800KiB/s") && text.contains("total=2,0,0,0"), "{text}");
    let tree: Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(tree["jobs"][0]["mixed"]["total_ios"], 2);
    assert!(tree["jobs"][0].get("read").is_none() && tree["jobs"][0].get("sync").is_none());
    // 41 fields of a direction and a disk's 9 are missing; the description is there.
    assert_eq!(line.split(';').count(), 130 - 41 - 9 + 1);
    let (text, tree, line) = told(Unified::Both);
    assert!(text.contains("  write: IOPS=100") && text.contains("  mixed: IOPS=200"), "{text}");
    assert!(text.contains("\n  WRITE: ") && text.contains("\n  MIXED: "), "{text}");
    let tree: Value = serde_json::from_str(&tree).unwrap();
    let keys: Vec<&String> = tree["jobs"][0].as_object().unwrap().keys().collect();
    assert!(["read", "sync", "mixed"].iter().all(|key| keys.iter().any(|k| k == key)));
    assert_eq!(line.split(';').count(), 130 + 41 - 9 + 1);
}

fn small_job(name: &str, group: u32, group_reporting: bool) -> JobReport {
    let mut statistics = JobStatistics::new(Nanos::from_millis(500));
    statistics.issued(1);
    let clat = Nanos::from_micros(20);
    statistics.ended(Nanos(20), Direction::Write, 4096);
    statistics.latency(Direction::Write, Nanos::ZERO, clat, false);
    statistics.end(Nanos::from_millis(10));
    JobReport {
        name: name.to_owned(),
        description: Some("as seen".to_owned()),
        group,
        group_reporting,
        clones: 1,
        error: 0,
        pid: 1,
        options: vec![("bs".into(), "4k".into()), ("time_based".into(), String::new())],
        rw_text: "write".to_owned(),
        block_size: [(4096, 4096); 3],
        engine: "sync".to_owned(),
        iodepth: 1,
        percentiles: vec![50.0],
        elapsed_s: 1,
        first_of_section: true,
        section_clones: 1,
        unified: Unified::None,
        latency_goal: LatencyGoal::default(),
        searched_depth: None,
        statistics,
    }
}

/// Do only neighbours of one group with the option merge, keeping the first error, and is a second
/// merge without effect?
#[test]
fn groups_merge() {
    let mut failed = small_job("b", 0, true);
    failed.error = 5;
    let jobs = vec![
        small_job("a", 0, true),
        failed,
        small_job("c", 1, true),
        small_job("d", 1, false),
        small_job("e", 1, true),
    ];
    let names = |jobs: &[JobReport]| -> Vec<(String, u32, u32, u64)> {
        let facts =
            |job: &JobReport| (job.name.clone(), job.clones, job.error, job.statistics.ios());
        jobs.iter().map(facts).collect()
    };
    let merged = merge_groups(jobs);
    let wanted = [("a", 2, 5, 2), ("c", 1, 0, 1), ("d", 1, 0, 1), ("e", 1, 0, 1)];
    assert_eq!(names(&merged), wanted.map(|(name, c, e, n)| (name.to_owned(), c, e, n)));
    assert_eq!(names(&merge_groups(merged.clone())), names(&merged));
}

/// Do all sections keep their line when their figures merge?
#[test]
fn merged_sections_keep_their_lines() {
    let jobs = vec![small_job("a", 0, true), small_job("b", 0, true)];
    let text = normal(&RunReport { jobs, ..RunReport::default() });
    assert!(text.contains("a: (g=0): rw=write"), "{text}");
    assert!(text.contains("b: (g=0): rw=write"), "{text}");
    assert!(
        text.contains("Starting 2 processes\na: (groupid=0, jobs=2): err= 0: pid=1: Thu Jan  1")
    );
    assert!(text.contains("\n  Description  : [as seen]\n"), "{text}");
    assert_eq!(text.matches("(groupid=").count(), 1);
}

/// Is what fio has no key for printed last, with floats alike, and left out when there is none?
#[test]
fn extra_figures_come_last() {
    let jobs = vec![small_job("a", 0, false)];
    let mut report = RunReport { jobs, ..RunReport::default() };
    assert!(!json(&report).contains("\"paternoster\" :"));
    report.extra = serde_json::json!({ "jain" : 0.5 });
    let text = json(&report);
    assert!(text.ends_with("  \"paternoster\" : {\n    \"jain\" : 0.500000\n  }\n}\n"), "{text}");
    // Options without a value are not listed, as in the samples.
    assert!(!text.contains("time_based"));
}

/// Does a run without jobs or I/O print, and not divide by zero?
#[test]
fn empty_runs_print() {
    let mut idle = small_job("idle", 0, false);
    idle.statistics = JobStatistics::new(Nanos::ZERO);
    for report in [RunReport::default(), RunReport { jobs: vec![idle], ..RunReport::default() }] {
        assert!(normal(&report).contains("Starting "));
        assert!(normal1(&report).contains("Starting "));
        assert!(serde_json::from_str::<Value>(&json(&report)).is_ok());
        assert_eq!(csv(&report, false), "");
    }
}
