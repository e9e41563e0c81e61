// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built-in workloads as a user meets them: tables of the right form, figures near those that
//! were published, refusals with the remedy.

use std::process::{Command, Output, Stdio};

fn paternoster(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = paternoster(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

/// The number before `unit` in the line that begins with `name`.
fn figure(text: &str, name: &str, unit: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name)).expect(name);
    let before = line.split(unit).next().expect(unit);
    before.split_whitespace().last().and_then(|word| word.parse().ok()).expect("a number")
}

/// Has the table tiotest's own form, line by line? (Numbers are replaced by 9.)
#[test]
fn tiotest_prints_its_own_table() {
    let text = succeeds(&[
        "tiotest", "-t", "2", "-f", "4", "-F", "-r", "50", "-q", "--device", "hdd-7200",
    ]);
    let masked = |line: &str| {
        let digit = |c: char| if c.is_ascii_digit() { '9' } else { c };
        line.chars().map(digit).collect::<String>()
    };
    let lines: Vec<String> = text.lines().map(masked).collect();
    assert_eq!(lines[0], "Tiotest results for 9 concurrent io threads:");
    let width = lines[1].len();
    assert!(lines[1..9].iter().all(|line| line.len() == width), "{text}");
    assert!(lines[4].starts_with("| Write           9 MBs |    9.9 s |"), "{}", lines[4]);
    assert!(lines[5].starts_with("| Random Write    9 MBs |"), "{}", lines[5]);
    assert_eq!(lines[9], "Tiotest latency results:");
    let terse = succeeds(&["tiotest", "-f", "4", "-r", "50", "-T", "-q", "--device", "hdd-7200"]);
    let names: Vec<&str> = terse.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["write", "rwrite", "read", "rread", "total"]);
    assert_eq!(terse.lines().next().map(|line| line.split(',').count()), Some(8));
    let skipped = succeeds(&["tiotest", "-f", "4", "-r", "50", "-k", "0", "-k", "1", "-L", "-q"]);
    assert!(!skipped.contains("Write") && skipped.contains("Random Read"), "{skipped}");
    assert!(!skipped.contains("latency"));
}

/// Seed 001's disktest under noop: 32 threads on one stream, 27285 IOPS on another host's array.
/// Here: one line a heartbeat, a total of them, and of one stream as much as buffered readers get.
#[test]
fn disktest_reads_one_stream() {
    let text = succeeds(&[
        "disktest",
        "-B",
        "4k",
        "-h",
        "1",
        "-I",
        "BD",
        "-K",
        "32",
        "-p",
        "l",
        "-P",
        "T",
        "-T",
        "3",
        "-r",
        "/dev/sdf",
        "-q",
        "--device",
        "array-eva",
        "--scheduler",
        "noop",
    ]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with("STAT  | 1001 | v1.4.2 | /dev/sdf | Heartbeat read throughput: "));
    assert!(lines[3].contains("Total read throughput: ") && lines[3].ends_with("/s."));
    let iops = figure(lines[3], "STAT", "/s.");
    assert!((iops / 27_285.0 - 1.0).abs() < 0.15, "{iops}");
    // Calls are of 4 KiB each: bytes are IOPS times 4096.
    assert!(lines[3].contains(&format!("throughput: {:.1}B/s ", iops * 4096.0)), "{}", lines[3]);
}

/// Is iostest's table the original's, with averages over sets?
#[test]
fn iostest_prints_its_own_table() {
    let text = succeeds(&[
        "iostest",
        "bsr",
        "--jobs",
        "1,2",
        "--sets",
        "2",
        "--filesize",
        "64m",
        "-q",
        "--device",
        "array-eva",
        "--scheduler",
        "noop",
    ]);
    assert!(text.contains("Workload=bsr      iosched=noop     Filesz=64M   bs=4K\n"), "{text}");
    let head = "job       Set NR  ReadBW(KB/s)   MaxClat(us)    WriteBW(KB/s)  MaxClat(us)\n";
    assert_eq!(text.matches(head).count(), 2);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("bsr ")).collect();
    assert_eq!(rows.len(), 4 + 2);
    // Virtual time repeats itself: the average is each of the two.
    assert_eq!(rows[4].replace("bsr       2", "bsr       1"), rows[0]);
    let message = paternoster(&["iostest", "xyz"]);
    assert_eq!(message.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&message.stderr).contains("as bsr"));
}

/// Does dd say what it copied, and do interleaved files cost a disk more than near ones when they
/// are read one by one? Half of what passes the head belongs to the other file.
#[test]
fn dd_reads_files_as_they_lie() {
    let run = |placement: &str| {
        let text = succeeds(&[
            "dd",
            "--files",
            "2",
            "--size",
            "256m",
            "--placement",
            placement,
            "-q",
            "--device",
            "hdd-7200",
            "--scheduler",
            "noop",
        ]);
        assert_eq!(text.matches("256+0 records in\n").count(), 2, "{text}");
        assert!(text.contains("268435456 bytes (268 MB, 256 MiB) copied, "), "{text}");
        let line = text.lines().find(|line| line.contains("copied")).expect("a line");
        let seconds = line.split("copied, ").nth(1).and_then(|rest| rest.split(" s").next());
        seconds.and_then(|word| word.parse::<f64>().ok()).expect("seconds")
    };
    let (near, interleaved) = (run("near"), run("interleaved:1m"));
    // 268.4 MB at 197 MB/s.
    assert!((1.2..1.5).contains(&near), "{near}");
    assert!(interleaved > 1.5 * near, "{interleaved} against {near}");
}

/// tiobench makes four tables with a row for each number of threads.
#[test]
fn tiobench_makes_four_tables() {
    let text = succeeds(&[
        "tiobench",
        "--size",
        "16",
        "--random",
        "40",
        "--threads",
        "1,2",
        "-q",
        "--device",
        "ssd-870evo",
        "--scheduler",
        "noop",
    ]);
    for title in ["Sequential Reads", "Random Reads", "Sequential Writes", "Random Writes"] {
        assert!(text.contains(&format!("\n{title}\n      ")), "{title}: {text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("noop ")).count(), 8);
}

/// Does the total of disktest count what comes after the last whole heartbeat? Three seconds with
/// one heartbeat of two are as many I/Os a second as with three of one.
#[test]
fn disktest_counts_to_the_end() {
    let total = |heartbeat: &str| {
        let text = succeeds(&[
            "disktest", "-B", "4k", "-h", heartbeat, "-T", "3", "-p", "r", "/dev/sdf", "-q",
            "--device", "hdd-7200",
        ]);
        let total = text.lines().last().expect("a total").to_owned();
        figure(&total, "STAT", "/s.")
    };
    assert!((total("1") - total("2")).abs() < 1.0, "{} {}", total("1"), total("2"));
}

/// Are distances and counts that would overflow refused?
#[test]
fn impossible_sizes_are_refused() {
    for options in [["-o", "17592186044416"], ["-r", "18446744073709551615"], ["-f", "0"]] {
        let output = paternoster(&[&["tiotest", "-R", "/dev/sdf"][..], &options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
    }
}
