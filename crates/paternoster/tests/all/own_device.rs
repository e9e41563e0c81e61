// SPDX-License-Identifier: MIT OR Apache-2.0
//! Your own device, as in `docs/own-device.md`; and devices that misbehave.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn paternoster(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.current_dir(ROOT).args(["run", "-q", "--scheduler", "noop"]).args(arguments);
    command.stdin(Stdio::null()).output().expect("the program starts")
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

const ONE_JOB: [&str; 7] =
    ["--name=a", "--rw=read", "--bs=4k", "--size=4m", "--direct=1", "--output-format", "json"];

/// Does an error end the job and the program with status 1, with the errno of the rule? Sectors of
/// the second MiB fail: the 257th read of 4 KiB is the first, 256 have ended well.
#[test]
fn errors_surface() {
    let output = paternoster(&[&ONE_JOB[..], &["--fault", "error range=1m-2m errno=61"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("job a failed with errno 61"));
    let job = &report(&output)["jobs"][0];
    assert_eq!(job["error"], 61);
    assert_eq!(job["read"]["total_ios"], 256);
}

/// Do delays add exactly? On `null` a read takes 10 us and 2 us of CPU; every hundredth of 1024
/// takes 50 ms more: the longest 50,010 us, in all 1024 * 12 - 2 us + 10 * 50 ms = 512.286 ms.
#[test]
fn delays_add() {
    let fault = "--fault=delay every=100 time=50ms";
    let output = paternoster(&[&ONE_JOB[..], &["--device", "null", fault]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(&output);
    let read = &report["jobs"][0]["read"];
    assert_eq!(read["clat_ns"]["max"], 50_010_000);
    assert_eq!(read["runtime"], 512);
}

/// Is chance the same for the same seed, and different for another?
#[test]
fn chance_follows_the_seed() {
    let longest = |seed: &str| {
        let faults = ["--device", "null", "--fault", "delay probability=0.05 time=1ms"];
        let arguments = [&ONE_JOB[..], &faults, &["--seed", seed]].concat();
        report(&paternoster(&arguments))["paternoster"]["virtual_time_ns"].clone()
    };
    assert_eq!(longest("1"), longest("1"));
    assert_ne!(longest("1"), longest("2"));
}

/// Is a bad rule refused with its text and what would be right, from the command line and from a
/// device file, before anything runs?
#[test]
fn bad_rules_are_refused() {
    let output = paternoster(&[&ONE_JOB[..], &["--fault", "error evry=3"]].concat());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("--fault: the rule `error evry=3`: `evry` is not known"), "{message}");
    assert!(message.contains("every="), "{message}");

    let text = std::fs::read_to_string(format!("{ROOT}/devices/null.toml")).unwrap();
    let faults = "[faults]\nrules = { value = [\"error\", \"delay\"], source = \"assumed\" }\n";
    let file = std::env::temp_dir().join(format!("paternoster-fault-{}.toml", std::process::id()));
    std::fs::write(&file, text + faults).unwrap();
    let output = paternoster(&[&ONE_JOB[..], &["--device", file.to_str().unwrap()]].concat());
    std::fs::remove_file(&file).unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("`faults.rules` cannot be"), "{message}");
    assert!(message.contains("the rule `delay`: `delay` needs a time"), "{message}");
}

/// Does a disk that takes writes to the medium as well as cached ones go on? A cache of one write,
/// four that wait for it, and another client whose durable writes cover its contents.
#[test]
fn durable_writes_let_waiting_ones_in() {
    let source = include_str!("../../../../devices/hdd-7200.toml");
    let lines = source.lines().map(|line| match line.split_whitespace().next() {
        Some("fua") => "fua = { value = true, source = \"test\" }",
        Some("write_buffer") => "write_buffer = { value = \"64 KiB\", source = \"test\" }",
        _ => line,
    });
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let file = std::env::temp_dir().join(format!("paternoster-fua-{}.toml", std::process::id()));
    std::fs::write(&file, text).expect("a file");
    let device = file.to_str().expect("a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "-q", "--device", device, "--scheduler", "noop", "--name=a"]);
    command.args(["--rw=write", "--bs=64k", "--direct=1", "--size=64k", "--filename=x"]);
    command.args(["--runtime=1", "--time_based=1", "--ioengine=libaio", "--iodepth=4"]);
    command.args(["--name=b", "--rw=write", "--bs=64k", "--direct=1", "--size=64k", "--sync=1"]);
    command.args(["--filename=x", "--runtime=1", "--time_based=1"]);
    let output = command.output().expect("the program ends");
    let _still_there = std::fs::remove_file(&file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
