// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `run` reports for each job: its share of the device, and the share that it is entitled to.

use std::process::{Command, Stdio};

use serde_json::Value;

/// Two readers of weights 100 and 300 on an SSD under noop, for a tenth of a second.
fn output(more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", "ssd-870evo", "--scheduler", "noop", "-q"]).args(more);
    // Both from the beginning, or the later one gets less.
    command.arg("--start-jitter=0");
    command.args(["--direct=1", "--rw=randread", "--ioengine=libaio", "--iodepth=32"]);
    command.args(["--size=1g", "--runtime=100ms", "--time_based=1"]);
    command.args(["--name=light", "--cgroup=light", "--cgroup_weight=100"]);
    command.args(["--name=heavy", "--cgroup=heavy", "--cgroup_weight=300"]);
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Is the job named that got the smallest part of its entitlement? noop gives each job half of a
/// full device; by weight they are entitled to a quarter and three quarters, so the heavy one gets
/// 0.5 / 0.75 = 67 % of it.
#[test]
fn the_worst_off_is_told() {
    let text = output(&["--output-format", "table"]);
    let has = |words: &str| text.contains(words);
    assert!(has(" got ") && has(" entitled "), "{text}");
    let cells = |row: &str| {
        let line = text.lines().find(|line| line.contains(row)).expect("a row");
        line.split(row).nth(1).map(|cells| cells.trim().to_owned())
    };
    assert_eq!(cells("worst off  ").as_deref(), Some("heavy"), "{text}");
    assert!(cells("its got/entitled  ").is_some_and(|part| part.starts_with("66.")), "{text}");
    assert!(!has("Jain"), "{text}");
}

/// Does the JSON report both the entitlement and Jain's index? Equal device time is an index of 1.
#[test]
fn the_document_has_both_measures() {
    let report: Value = serde_json::from_str(&output(&["--output-format", "json"])).expect("JSON");
    let section = &report["paternoster"]["sections"][0];
    let number = |value: &Value| value.as_f64().expect("a number");
    assert_eq!(section["worst_off"]["jobname"], "heavy");
    let ratio = number(&section["worst_off"]["got_of_entitled"]);
    assert!((ratio - 0.667).abs() < 0.01, "{ratio}");
    let heavy = &section["processes"][1];
    let (got, due) = (number(&heavy["device_got"]), number(&heavy["device_entitled"]));
    assert!((got - 0.5).abs() < 0.02 && (due - 0.75).abs() < 0.02, "{got} of {due}");
    assert!(number(&section["jain_device_time"]) > 0.999);
}

/// A reader of depth 32 together with logs on an SSD, for two seconds under `scheduler`: what each
/// process got and is entitled to; nothing if that is not known.
fn beside_logs(scheduler: &str, logs: u32, sync: &str) -> Option<Vec<(f64, f64)>> {
    beside_logs_on("ssd-870evo", scheduler, logs, sync)
}

fn beside_logs_on(device: &str, scheduler: &str, logs: u32, sync: &str) -> Option<Vec<(f64, f64)>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", device, "-q", "--format", "json", "--scheduler"]);
    command.args([scheduler, "--direct=1", "--time_based=1", "--runtime=2", "--size=1g"]);
    command.args(["--name=reader", "--rw=randread", "--ioengine=libaio", "--iodepth=32"]);
    command.args(["--name=log", "--rw=write", "--ioengine=psync", sync]);
    let output = command.arg(format!("--numjobs={logs}")).stdin(Stdio::null()).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let jobs = report["runs"][0]["jobs"].as_array().expect("jobs");
    jobs.iter().map(|job| Some((job["got"].as_f64()?, job["entitled"].as_f64()?))).collect()
}

/// Does a write with its sync count as one kind of request, measured with the device full of them?
/// Then the shares of all clients add up to the whole device, under any scheduler, within a few per
/// cent, because it is never idle. A single log can use all of it, so two clients are entitled to
/// halves; of three logs each can use a third, so four clients are entitled to quarters.
#[test]
fn a_write_and_its_sync_are_one_request() {
    for (scheduler, logs) in [("noop", 1), ("bfq", 1), ("paternoster", 1), ("paternoster", 3)] {
        let found = beside_logs(scheduler, logs, "--fdatasync=1").expect("it is known");
        assert_eq!(u32::try_from(found.len()), Ok(logs + 1));
        let used: f64 = found.iter().map(|(got, _)| got).sum();
        assert!((used - 1.0).abs() < 0.05, "{scheduler}, {logs} logs: {found:?}");
        for (_, entitled) in &found {
            let owed = used / f64::from(logs + 1);
            assert!((entitled - owed).abs() < 0.01, "{scheduler}, {logs} logs: {found:?}");
        }
    }
}

/// Is a log's part that of a plain writer where the device has no volatile cache? There a sync is
/// no command, so that two logs of one request at a time are as far from a full device with syncs
/// as without.
#[test]
fn without_a_cache_a_sync_is_nothing() {
    for device in ["array-eva", "raid0-4-hdd"] {
        let with = beside_logs_on(device, "noop", 2, "--fdatasync=1").expect("it is known");
        let plain = beside_logs_on(device, "noop", 2, "--invalidate=1").expect("it is known");
        assert_eq!(with, plain, "{device}");
    }
}

/// Is no entitlement reported for a job that syncs now and then? How much of the device such
/// requests can take is not known.
#[test]
fn of_syncs_now_and_then_nothing_is_claimed() {
    assert_eq!(beside_logs("noop", 1, "--fdatasync=16"), None);
    assert_eq!(beside_logs("noop", 1, "--end_fsync=1"), None);
}

/// Can it be turned off?
#[test]
fn it_can_be_turned_off() {
    let text = output(&["--output-format", "table", "--no-entitlement"]);
    assert!(text.contains("Jain of device time") && !text.contains("entitled"), "{text}");
}

/// Does a note say why a weight has little effect? There are 4 requests for 2 * 16 I/Os: 28 wait
/// for one, and cfq does not see whose they are. Depths of 1 and 30 fit into the drive's 32
/// together, so the scheduler never has to choose.
#[test]
fn it_is_said_why_weights_fail() {
    let told = |words: &str, form: &str| {
        let common = "run --scheduler cfq --direct=1 --rw=randread --ioengine=libaio --runtime=1";
        let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
        command.args(common.split(' ')).arg(form).args(words.split(' '));
        let output = command.stdin(Stdio::null()).output().expect("the program starts");
        let all = [output.stderr, output.stdout].concat();
        // Sentences are wrapped.
        String::from_utf8_lossy(&all).split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    let few = "--device flash-card-2010 --set nr_requests=4 --size=64m --iodepth=16 \
               --name=light --cgroup=light --cgroup_weight=100 \
               --name=heavy --cgroup=heavy --cgroup_weight=300";
    for form in ["--format=table", "--format=json", "--format=csv", "--output-format=json"] {
        let text = told(few, form);
        assert!(text.contains("32 requests at a time and nr_requests is 4:"), "{form}: {text}");
    }
    let deep = "--device ssd-870evo --size=1g \
                --name=light --iodepth=1 --cgroup=light --cgroup_weight=900 \
                --name=heavy --bs=1m --iodepth=30 --cgroup=heavy --cgroup_weight=100";
    let text = told(deep, "--format=table");
    assert!(text.contains("little effect on light: the device takes all 31"), "{text}");
    let text = told(&few.replace("=300", "=100"), "--format=table");
    assert!(!text.contains("little effect"), "equal weights say nothing: {text}");
}
