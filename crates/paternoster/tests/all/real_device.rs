// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster run --device PATH`: jobs for real, on a file of this machine.
//!
//! Requests are counted, never timed: this machine may be any speed.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::skipped;

/// A file that is removed with its test.
struct Disk(PathBuf);

impl Disk {
    fn new(name: &str, bytes: u64) -> Disk {
        let name = format!("paternoster-real-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("a temporary file");
        Disk(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.0);
    }
}

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("run").args(words).stdin(Stdio::null()).output().expect("the program starts")
}

fn refused(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

const JOBS: &str = "[global]\ndirect=1\nioengine=libaio\nsize=4m\n\
    [writer]\nrw=randwrite\nbs=4k\niodepth=8\nnumber_ios=100\nfsync=25\n\
    [reader]\nrw=read\nbs=64k\niodepth=4\n";

/// Do jobs really do what they request, under one scheduler after the other? The writer 100 of 4
/// KiB; the reader 4 MiB / 64 KiB = 64. The data is in the file, and nowhere outside the jobs'
/// regions.
#[test]
fn jobs_run_for_real() {
    let disk = Disk::new("run", 16 << 20);
    let file = Disk::new("jobs", 0);
    fs::write(&file.0, JOBS).expect("a job file");
    let on = [file.name(), "--device", disk.name(), "--scheduler", "noop", "--scheduler", "bfq"];
    let output = run(&[&on[..], &["--output-format", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let how = format!("note: {}: for real: ", disk.name());
    assert_eq!(said.matches(&how).count(), 1, "{said}");
    let mut reports = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    for scheduler in ["noop", "bfq"] {
        let report = reports.next().expect("a report for each scheduler").expect("JSON");
        assert!(report.to_string().contains(scheduler), "{report}");
        let [writer, reader] = [&report["jobs"][0], &report["jobs"][1]];
        assert_eq!((&writer["jobname"], &reader["jobname"]), (&"writer".into(), &"reader".into()));
        assert_eq!(writer["write"]["total_ios"], 100, "{scheduler}");
        assert_eq!(writer["error"], 0);
        assert_eq!(reader["read"]["total_ios"], 64, "{scheduler}");
        assert_eq!(reader["read"]["io_bytes"], 4 << 20, "{scheduler}");
    }
    assert!(reports.next().is_none());
    let content = fs::read(&disk.0).expect("the disk");
    let written = content.chunks(4096).filter(|page| page.iter().any(|byte| *byte != 0)).count();
    // The same hundred offsets under both schedulers: fio's random map gives each page once.
    assert_eq!(written, 100);
    assert_eq!(content.len(), 16 << 20);
}

/// Are there also tables and fio's report, and does a file stay as it is if jobs only read?
#[test]
fn a_file_that_is_read_stays_as_it_is() {
    let disk = Disk::new("read", 1 << 20);
    fs::write(&disk.0, vec![7; 1 << 20]).expect("the disk");
    let mut readonly = fs::metadata(&disk.0).expect("the disk").permissions();
    readonly.set_readonly(true);
    fs::set_permissions(&disk.0, readonly).expect("our own file");
    let job = ["--name=a", "--rw=randread", "--bs=4k", "--size=1m", "--direct=1"];
    let output =
        run(&[&["--device", disk.name(), "--scheduler", "mq-deadline"][..], &job].concat());
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(report.contains("issued rwts: total=256,0,0,0"), "{report}");
    assert!(report.contains(&format!("device {}", disk.name())), "{report}");
    assert!(fs::read(&disk.0).expect("the disk").iter().all(|byte| *byte == 7));
}

/// Is what cannot work reported before anything runs, with both numbers and what would be right?
#[test]
fn refusals_say_what_would_be_right() {
    let disk = Disk::new("refused", 1 << 20);
    let write = ["--device", disk.name(), "--name=a", "--rw=write", "--direct=1"];
    let with = |more: &[&str]| refused(&[&write[..], more].concat());
    let text = with(&["--size=2m"]);
    assert!(text.contains("has 1048576 bytes: ") && text.contains("end at byte 2097152"), "{text}");
    let text = with(&["--size=64k", "--fault=error every=2"]);
    assert!(text.contains("faults are for models"), "{text}");
    let text = refused(&["--device", "/nowhere/disk", "--name=a", "--size=64k"]);
    assert!(text.contains("/nowhere/disk: No such file"), "{text}");
    let text = refused(&["--device", "/dev/null", "--name=a", "--size=64k"]);
    assert!(text.contains("neither a file nor a block device"), "{text}");
    let empty = Disk::new("empty", 0);
    let text = refused(&["--device", empty.name(), "--name=a", "--size=64k"]);
    assert!(text.contains("has 0 bytes") && text.contains("truncate -s 1G"), "{text}");
    assert_eq!(fs::read(&disk.0).expect("the disk"), vec![0; 1 << 20], "nothing was written");
}

/// Is a mounted device left alone? Nothing is run, in case the check fails.
#[test]
fn a_mounted_device_is_left_alone() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let sources = mounts.lines().filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(1));
    let is_device = |source: &&str| {
        fs::metadata(source).is_ok_and(|it| it.file_type().is_block_device() && it.rdev() != 0)
    };
    let Some(device) = sources.filter(|source| source.starts_with('/')).find(is_device) else {
        return skipped("no block device of this machine is mounted where we see it");
    };
    let job = ["--parse-only", "--name=a", "--rw=write", "--size=64k", "--direct=1"];
    let text = refused(&[&["--device", device][..], &job].concat());
    let expected = format!("{device} is mounted at ");
    assert!(text.contains(&expected) && text.contains("--force"), "{text}");
}
