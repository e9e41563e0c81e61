// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real fio as the judge of I/O logs: does it replay what we write, and do we read what it writes?
//!
//! Without fio the tests print a message and pass.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use paternoster_core::Nanos;
use paternoster_workload::fio::iolog::{LogAction, LogEntry, LogReader, LogWriter, WaitRule};

use crate::common::skipped;

/// A folder of this test alone, or `None` without fio.
fn folder(name: &str) -> Option<PathBuf> {
    if Command::new("fio").arg("--version").output().is_err() {
        skipped("fio is not installed (Debian package fio)");
        return None;
    }
    let folder =
        std::env::temp_dir().join(format!("paternoster-iolog-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    Some(folder)
}

fn fio(folder: &Path, arguments: &[&str]) {
    let output = Command::new("fio").current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The I/Os in a latency log with offsets: direction, offset, bytes.
fn logged(path: &Path) -> Vec<(u8, u64, u64)> {
    let text = fs::read_to_string(path).unwrap();
    let fields = |line: &str| -> Vec<u64> {
        line.split(", ").take(5).map(|field| field.parse().unwrap()).collect()
    };
    let io = |line: &str| {
        let fields = fields(line);
        (u8::try_from(fields[2]).unwrap(), fields[4], fields[3])
    };
    text.lines().map(io).collect()
}

/// Does fio replay exactly the I/Os of a log that we wrote, in order?
#[test]
fn fio_replays_what_we_write() {
    let Some(folder) = folder("write") else { return };
    let entry = |at_us: u64, action, offset, bytes| LogEntry {
        at: Nanos::from_micros(at_us),
        file: 0,
        action,
        offset,
        bytes,
    };
    let entries = [
        entry(10, LogAction::Write, 0, 65_536),
        entry(2_000, LogAction::Read, 8192, 4096),
        entry(2_000, LogAction::Sync, 0, 0),
        entry(3_000, LogAction::Write, 12_288, 512),
        entry(50_000, LogAction::Read, 0, 65_536),
    ];
    let files = ["replay.dat".to_owned()];
    let log = File::create(folder.join("t.log")).unwrap();
    let mut writer = LogWriter::new(log, &files).unwrap();
    entries.iter().for_each(|entry| writer.entry(entry).unwrap());
    writer.finish(Nanos::from_millis(60)).unwrap();
    fs::write(folder.join("replay.dat"), vec![0; 65_536]).unwrap();
    fio(
        &folder,
        &[
            "--name=replay",
            "--ioengine=psync",
            "--read_iolog=t.log",
            "--replay_no_stall=1",
            "--write_lat_log=l",
            "--log_offset=1",
        ],
    );
    let replayed = logged(&folder.join("l_clat.1.log"));
    let wanted = [(1, 0, 65_536), (0, 8192, 4096), (1, 12_288, 512), (0, 0, 65_536)];
    assert_eq!(replayed, wanted);
    fs::remove_dir_all(folder).unwrap();
}

/// Do we read what fio writes, with its files, times and syncs?
#[test]
fn we_read_what_fio_writes() {
    let Some(folder) = folder("read") else { return };
    fio(
        &folder,
        &[
            "--name=w",
            "--ioengine=null",
            "--rw=write",
            "--bs=4k",
            "--size=64k",
            "--nrfiles=2",
            "--fsync=4",
            "--rate_iops=200",
            "--write_iolog=t.log",
        ],
    );
    let log = BufReader::new(File::open(folder.join("t.log")).unwrap());
    let mut reader = LogReader::new("t.log", log, WaitRule::Manual);
    let entries: Vec<LogEntry> = reader.by_ref().map(|entry| entry.unwrap()).collect();
    assert_eq!(reader.files(), ["w.0.0", "w.0.1"]);
    let writes: Vec<&LogEntry> =
        entries.iter().filter(|entry| entry.action == LogAction::Write).collect();
    let blocks = |file: usize| -> Vec<u64> {
        let of_file = writes.iter().filter(|entry| entry.file == file);
        of_file.map(|entry| entry.offset / 4096).collect()
    };
    assert!((0..2).all(|file| blocks(file).iter().copied().eq(0..8)));
    // A sync takes a turn among the files, too.
    let syncs: Vec<usize> = entries
        .iter()
        .filter(|entry| entry.action == LogAction::Sync)
        .map(|entry| entry.file)
        .collect();
    assert_eq!(syncs, [0, 1, 0]);
    // Sixteen writes, one every 5 ms: the last one is due at 75.
    let last = writes.last().unwrap().at;
    assert!(last >= Nanos::from_millis(70), "{last}");
    fs::remove_dir_all(folder).unwrap();
}
