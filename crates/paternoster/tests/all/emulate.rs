// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster emulate`, as a user runs it: a command, one that was killed, a file system on a
//! loop device. How long a read takes is in `tests/real_time/emulate.rs`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::emulate::{PATIENCE, Place, can, texts};
use crate::common::skipped;

/// Does a command get the file by name, is its exit status ours, and is the precision reported?
#[test]
fn as_long_as_a_command() {
    if !can() {
        return;
    }
    let place = Place::new();
    let report = place.0.join("report.json");
    let line = "test $size = 33554432 && test $mount/$device = $file && \
                dd if=/dev/zero of=$file bs=4k count=3 conv=fsync 2>&1 && exit 7";
    let more = ["--run", line, "--report-json", report.to_str().unwrap()];
    let output = place.emulate("ssd-870evo", &more).output().unwrap();
    let (said, why) = texts(&output);
    assert_eq!(output.status.code(), Some(7), "{said}{why}");
    assert!(place.is_empty());
    assert!(why.contains("below 500 us an emulation is not precise"), "{why}");
    let rows: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(rows.ends_with(&["write", "flush", "all"]), "{said}");
    let told: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert_eq!(
        (&told["kinds"]["write"]["commands"], &told["all"]["commands"]),
        (&3.into(), &4.into())
    );
    // 3.2 ms, reported within 1/128.
    assert!(told["kinds"]["flush"]["set"]["p50_ns"].as_u64() >= Some(3_175_000), "{told}");
}

/// Does one that was killed not block others? The next one removes its dead mount.
#[test]
fn the_dead_are_taken_away() {
    if !can() {
        return;
    }
    let place = Place::new();
    let mut child = place.emulate("lab-disk", &[]).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while place.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    // At any time, even while it looks at its own file.
    child.kill().unwrap();
    child.wait().unwrap();
    let output = place.emulate("lab-disk", &["--run", "ls $mount"]).output().unwrap();
    let (said, why) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{said}{why}");
    assert!(said.starts_with("lab-disk"), "{said}");
    assert!(place.is_empty());
}

/// Does it carry a loop device with a file system, as the lab has it?
#[test]
fn a_file_system_on_a_loop_device() {
    if !can() {
        return;
    }
    let there = |program: &str| Path::new("/usr/sbin").join(program).exists();
    if !Path::new("/dev/loop-control").exists() || !there("losetup") || !there("mkfs.ext4") {
        return skipped("no loop devices, losetup or mkfs.ext4");
    }
    let place = Place::new();
    // A machine without a free loop device says so and passes.
    let line = "export PATH=$PATH:/usr/sbin:/sbin\n\
                loop=$(losetup -f --show --direct-io=on $file) || { echo no loop; exit 0; }\n\
                trap 'losetup -d $loop' EXIT\n\
                mkfs.ext4 -q $loop && e2fsck -fn $loop";
    let output = place.emulate("nvme-kc3000", &["--run", line]).output().unwrap();
    let (said, why) = texts(&output);
    if said.contains("no loop") {
        return skipped("no free loop device");
    }
    assert_eq!(output.status.code(), Some(0), "{said}{why}");
    assert!(said.contains("write") && said.contains("flush"), "{said}");
    assert!(place.is_empty());
}

/// Are mistakes reported, and nothing mounted?
#[test]
fn what_is_wrong_is_said() {
    let place = Place::new();
    let refused = |command: &mut Command, status: i32, words: &str| {
        let output = command.output().unwrap();
        let (_, why) = texts(&output);
        assert_eq!(output.status.code(), Some(status), "{why}");
        assert!(why.contains(words), "{why}");
    };
    refused(&mut place.emulate("floppy", &[]), 2, "there is no device `floppy`");
    refused(&mut place.emulate("lab-disk", &["--size", "big"]), 2, "--size");
    std::fs::write(place.mount().join("something"), "").unwrap();
    refused(&mut place.emulate("lab-disk", &[]), 1, "not empty");
    std::fs::remove_file(place.mount().join("something")).unwrap();
}
