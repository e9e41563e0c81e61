// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster replay --decisions` as a user meets it: records of queues run here, sound ones and
//! others.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use paternoster_core::{Bio, ClientSpec, DeviceFacts, Limits, Nanos, NoObserver, Op, Outcome};
use paternoster_serve::recorded_queue::RecordedQueue;

fn paternoster(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("replay").args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn own_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A record of two clients that read in turns, on a device that takes 1 ms for each of two
/// commands; returns what went to the device, as CSV.
fn record(name: &str) -> (String, String) {
    let path = own_path(name);
    let facts = DeviceFacts { capacity: 1 << 20, depth: 2, ..DeviceFacts::default() };
    let elevator = paternoster_schedulers::by_name("bfq").unwrap();
    let mut recorded_queue =
        RecordedQueue::new(facts, Limits::default(), elevator, NoObserver).unwrap();
    recorded_queue.record(Box::new(File::create(&path).unwrap())).unwrap();
    let clients = [4711, 4712]
        .map(|pid| recorded_queue.attach(Nanos::ZERO, ClientSpec::new().pid(pid)).unwrap());
    let mut csv = String::from("time_ns,op,sector,sectors,client\n");
    let (mut now, mut inside) = (Nanos::from_secs(2), Vec::new());
    for number in 0..50u64 {
        let client = clients[usize::from(number % 3 == 0)];
        let bio = Bio::new(client, Op::Read, number * 7919 % 100_000 * 8, 8).cookie(number);
        recorded_queue.submit(now, bio).unwrap();
        loop {
            match recorded_queue.next(now) {
                paternoster_core::Output::Issue(command) => {
                    let (sector, client) = (command.sector, command.client.index());
                    csv += &format!("{},read,{sector},8,{client}\n", now.0);
                    inside.push(command.tag);
                }
                paternoster_core::Output::Wait { .. } => break,
                _ => {}
            }
        }
        now += Nanos::from_millis(1);
        inside.drain(..).for_each(|tag| recorded_queue.complete(now, tag, Outcome::OK).unwrap());
    }
    recorded_queue.finish_record().unwrap();
    (path.to_str().unwrap().to_owned(), csv)
}

/// Is a record repeated and reported, and is its dispatch order what went to the device?
#[test]
fn a_record_is_repeated() {
    let (record, csv) = record("sound.decisions");
    let order = own_path("order.csv");
    let output = paternoster(&["--decisions", &record, "--dispatch", order.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(order).unwrap(), csv);
    let commands = csv.lines().count() - 1;
    let text = String::from_utf8(output.stdout).unwrap();
    // From 2 s to the end of the last but one: 49 submissions later, and the last completion.
    for line in [
        "scheduler  bfq",
        "clients    2",
        "bios       50",
        &format!("commands   {commands}"),
        "time       2 s to 2.05 s, 50 ms",
        "end        with its queue",
        "identical  yes, every answer",
    ] {
        assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
    }
    // And once more the same, digest and all.
    assert_eq!(String::from_utf8(paternoster(&["--decisions", &record]).stdout).unwrap(), text);
}

/// Is the trace of the repeated run one that can be replayed elsewhere, with the processes' names?
#[test]
fn the_repeated_run_can_be_traced() {
    let (record, csv) = record("traced.decisions");
    let prefix = own_path("again");
    let prefix = prefix.to_str().unwrap();
    let output = paternoster(&["--decisions", &record, "--trace", prefix]);
    assert!(output.status.success(), "{output:?}");
    let mut analyze = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    let text = analyze.args(["analyze", prefix]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    let line = |begins: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(begins));
        let words = line.unwrap_or_else(|| panic!("no {begins} in\n{text}")).split_whitespace();
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    let commands = (csv.lines().count() - 1).to_string();
    assert_eq!(line("D2C")[2], commands);
    // Every third of 50 from the first on is 4712's: 17.
    assert_eq!(line("4711")[..4], ["4711", "client", "0", "33"]);
    assert_eq!(line("4712")[..4], ["4712", "client", "1", "17"]);
}

/// Is a record without its end repeated as far as it goes, and a damaged one refused with status 1?
#[test]
fn what_is_broken_is_told() {
    let (record, _) = record("broken.decisions");
    let bytes = fs::read(&record).unwrap();
    // The end is a head of 13 bytes, the reason, and the number of calls in two.
    fs::write(&record, &bytes[..bytes.len() - 1]).unwrap();
    let output = paternoster(&["--decisions", &record]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let told = format!("end        breaks off at byte {}: ", bytes.len() - 16);
    assert!(text.contains(&told), "{text}");
    let mut damaged = bytes;
    damaged[200] ^= 1;
    fs::write(&record, &damaged).unwrap();
    let output = paternoster(&["--decisions", &record]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("is damaged at byte"), "{told}");
}

/// Are options that mean nothing for a record refused, and files that are not records?
#[test]
fn wrong_requests_are_refused() {
    let (record, _) = record("wrong.decisions");
    let refused = |arguments: &[&str]| {
        let output = paternoster(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let told = refused(&["--decisions", &record, "--scheduler", "noop"]);
    assert!(told.contains("cannot be used with"), "{told}");
    assert!(refused(&["--dispatch", "x.csv", "sda"]).contains("--decisions"));
    assert!(refused(&[]).contains("TRACE"));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert!(refused(&["--decisions", file]).contains("it is no record of decisions"));
    assert!(refused(&["--decisions", "/nowhere"]).contains("/nowhere: No such file"));
}
