// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffered I/O in time: each test is a small job whose figures can be computed by hand.
//!
//! The device `lab-disk` has one server: 100 us + bytes / 150 MB/s, and 8 ms more if a command does
//! not continue the last. Copying a page costs 2 us of CPU.

use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs fio options on a device under noop; returns the JSON report.
fn run(device: &str, options: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", device, "--scheduler", "noop", "--output-format", "json"]);
    command.args(["-q", "--direct=0"]).args(options).stdin(Stdio::null());
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Reads and writes that reached the device.
fn device_ios(report: &Value) -> (u64, u64) {
    let disk = &report["disk_util"][0];
    (number(&disk["read_ios"]), number(&disk["write_ios"]))
}

/// Does a sequential reader read its file in windows of 4, 8, 16 and then 32 pages? 256 pages are
/// 4, 8, 16, seven times 32 and the last 4: 11 reads.
#[test]
fn sequential_reads_come_in_windows() {
    let report = run("lab-disk", &["--name=a", "--rw=read", "--size=1m", "--bs=4k"]);
    assert_eq!(device_ios(&report), (11, 0));
    assert_eq!(number(&report["jobs"][0]["read"]["total_ios"]), 256);
}

/// Does a window of 512 KiB cost fewer, larger reads? 4, 16, 32, 64, 128 and the last 12 pages: 6.
#[test]
fn read_ahead_kb_is_the_largest_window() {
    let options = ["--set", "read_ahead_kb=512", "--name=a", "--rw=read", "--size=1m", "--bs=4k"];
    assert_eq!(device_ios(&run("lab-disk", &options)), (6, 0));
}

/// Does what is in memory cost CPU only? The second of two passes is 256 copies of 2 us.
#[test]
fn cached_reads_cost_cpu_only() {
    let once = run("lab-disk", &["--name=a", "--rw=read", "--size=1m"]);
    let twice = run("lab-disk", &["--name=a", "--rw=read", "--size=1m", "--loops=2"]);
    assert_eq!(device_ios(&once), device_ios(&twice));
    let time = |report: &Value| number(&report["paternoster"]["virtual_time_ns"]);
    assert_eq!(time(&twice) - time(&once), 256 * 2000);
}

/// Does the cache forget what does not fit? A pass over 4 MiB in a memory of 1 MiB leaves nothing
/// of its beginning, so the second pass reads it again.
#[test]
fn a_small_memory_forgets() {
    let job = ["--host", "memory=1m", "--name=a", "--rw=read", "--size=4m"];
    let once = run("lab-disk", &job);
    let twice = run("lab-disk", &[&job[..], &["--loops=2"]].concat());
    assert!(device_ios(&twice).0 >= 2 * device_ios(&once).0 - 2);
}

/// Does a random reader get what it asks for and no more? 64 different blocks of 256: with the
/// random map no block is read twice, so at least 64 reads, and hardly more for blocks that happen
/// to be neighbours.
#[test]
fn random_reads_are_not_extended() {
    let report = run("lab-disk", &["--name=a", "--rw=randread", "--size=64m", "--number_ios=64"]);
    let kib = number(&report["jobs"][0]["read"]["io_kbytes"]);
    assert_eq!((device_ios(&report), kib), ((64, 0), 256));
}

/// Do two readers of one file read each page once?
#[test]
fn readers_share_pages() {
    let job = ["--name=a", "--filename=f", "--rw=read", "--size=1m", "--numjobs=2"];
    assert_eq!(device_ios(&run("lab-disk", &job)), (11, 0));
}

/// Does a writer that stays below the limits leave the device alone? 256 pages of 8 GiB, at 2 us
/// each: 512 us, and nothing is 30 s old.
#[test]
fn few_dirty_pages_stay_in_memory() {
    let report = run("lab-disk", &["--name=a", "--rw=write", "--size=1m"]);
    assert_eq!(device_ios(&report), (0, 0));
    assert_eq!(number(&report["paternoster"]["virtual_time_ns"]), 256 * 2000);
}

/// Are old pages written by the flusher? Dirtied at 0, 30 s old at the round of 30 s.
#[test]
fn old_pages_are_written() {
    let writer = ["--name=a", "--rw=write", "--size=1m"];
    let waiter = ["--name=b", "--rw=read", "--size=4k", "--startdelay=36"];
    let report = run("lab-disk", &[&writer[..], &waiter[..]].concat());
    // 1 MiB is less than a request may be, so it is one write.
    assert_eq!(device_ios(&report), (1, 1));
}

/// Must a writer wait for the device when too much is dirty? 64 MiB into a memory of 8 MiB: nearly
/// everything goes through the device, at most 150 MB/s: at least (64 - 8) MiB / 150 MB/s = 391 ms,
/// where copying alone would take 33 ms.
#[test]
fn writers_wait_at_the_limit() {
    let job = ["--host", "memory=8m", "--name=a", "--rw=write", "--size=64m", "--bs=64k"];
    let report = run("lab-disk", &job);
    let time = number(&report["paternoster"]["virtual_time_ns"]);
    assert!((391_000_000..900_000_000).contains(&time), "{time}");
}

/// Are windows cut where a file's pieces end? Two files of 256 pages in pieces of 16 by turns:
/// windows 0-3 and 4-11 lie in one piece, 12-27 in two, each of the seven of 32 pages from 28 on in
/// three (4, 16, 12), and the last 4 pages in one: 2 + 2 + 21 + 1 = 26 reads a file.
#[test]
fn interleaved_files_are_read_in_pieces() {
    let job = ["--placement", "interleaved:64k", "--name=a", "--rw=read", "--size=1m"];
    // Another file of the same size, read later.
    let other = ["--name=b", "--rw=read", "--size=1m", "--stonewall"];
    let report = run("lab-disk", &[&job[..], &other[..]].concat());
    let (reads, _) = device_ios(&report);
    assert_eq!(reads, 2 * 26);
}

/// Do direct jobs bypass the cache? 1 MiB in blocks of 64 KiB plus the 11 windows.
#[test]
fn direct_and_buffered_jobs_live_side_by_side() {
    let buffered = ["--name=a", "--rw=read", "--size=1m"];
    let direct = ["--name=b", "--rw=read", "--size=1m", "--direct=1", "--bs=64k"];
    let report = run("lab-disk", &[&buffered[..], &direct[..]].concat());
    assert_eq!(device_ios(&report), (11 + 16, 0));
}

/// Does fsync write what is dirty and then flush? 256 pages in one write of 1 MiB: 8.1 ms and 7.0
/// ms for the bytes; the device has no cache, so its flush costs nothing. As in fio, the sync that
/// ends a job is not in its report.
#[test]
fn fsync_writes_the_file() {
    let report = run("lab-disk", &["--name=a", "--rw=write", "--size=1m", "--end_fsync=1"]);
    assert_eq!(device_ios(&report), (0, 1));
    assert_eq!(number(&report["jobs"][0]["sync"]["total_ios"]), 0);
    // 256 copies of 2 us, then 8.1 ms + 1048576 B / 150 MB/s = 15.0905 ms.
    let time = number(&report["paternoster"]["virtual_time_ns"]);
    assert_eq!(time, 256 * 2000 + 15_090_506);
}

/// Is each write of a file that is open with O_SYNC on the device when it ends? 16 writes of one
/// page: the first 8.127 ms, the others contiguous, 0.127 ms, and 2 us of copying each.
#[test]
fn o_sync_writes_go_through() {
    let report = run("lab-disk", &["--name=a", "--rw=write", "--size=64k", "--sync=1"]);
    assert_eq!(device_ios(&report), (0, 16));
    let write = &report["jobs"][0]["write"]["clat_ns"];
    assert_eq!((number(&write["min"]), number(&write["max"])), (129_306, 8_129_306));
    assert_eq!(number(&report["jobs"][0]["sync"]["total_ios"]), 0);
}

/// Does sync_file_range write what was written since the last one, and wait only if requested?
/// Eight writes of 64 KiB, a range after each second one but the last: three ranges of 128 KiB.
#[test]
fn ranges_are_written() {
    let job = ["--name=a", "--rw=write", "--bs=64k", "--size=512k"];
    for (steps, waits) in [("write:2", false), ("write,wait_after:2", true)] {
        let option = format!("--sync_file_range={steps}");
        let report = run("lab-disk", &[&job[..], &[&option]].concat());
        let latency = number(&report["jobs"][0]["sync"]["lat_ns"]["max"]);
        assert_eq!(number(&report["jobs"][0]["sync"]["total_ios"]), 3);
        // 131072 B / 150 MB/s + 0.1 ms = 0.97 ms, and 8 ms for the first.
        assert_eq!(latency > 900_000, waits, "{latency}");
    }
}

/// Is a sync of a direct job a flush of the device alone?
#[test]
fn a_direct_sync_is_a_flush() {
    let job = ["--name=a", "--rw=write", "--size=64k", "--direct=1", "--fsync=4"];
    let report = run("lab-disk", &job);
    // 16 writes: after the 4th, 8th and 12th; the one that would follow the last is not made.
    assert_eq!(number(&report["jobs"][0]["sync"]["total_ios"]), 3);
    assert_eq!(device_ios(&report).1, 16);
}

/// Does an fsync end while writers dirty the same file all the time? Four of them for two seconds;
/// each sync waits for what was dirty when it began.
#[test]
fn fsync_does_not_wait_for_what_comes_later() {
    let report = run(
        "ssd-870evo",
        &[
            "--host",
            "memory=64m,dirty_background_ratio=0",
            "--filename=x",
            "--size=1m",
            "--bs=4k",
            "--rw=randwrite",
            "--time_based=1",
            "--runtime=2",
            "--name=w",
            "--numjobs=4",
            "--name=f",
            "--fsync=1",
        ],
    );
    let syncs = number(&report["jobs"][4]["sync"]["total_ios"]);
    assert!(syncs > 20, "{syncs}");
}

/// Does time pass for a cached read even if copying is set to cost nothing?
#[test]
fn copying_is_never_free() {
    let job = ["--host", "copy_cost=0", "--name=a", "--rw=read", "--size=64k"];
    run("lab-disk", &[&job[..], &["--time_based=1", "--runtime=100us"]].concat());
}

/// Is a write that failed in the background reported to the process that syncs, and to no other?
#[test]
fn failed_writes_are_told_by_fsync() {
    let job = [
        "--host",
        "memory=1m",
        "--fault",
        "error op=write every=3",
        "--name=a",
        "--rw=write",
        "--bs=4k",
        "--size=8m",
    ];
    run("lab-disk", &job);
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", "lab-disk", "--output-format", "json", "-q", "--direct=0"]);
    let output = command.args(job).arg("--end_fsync=1").stdin(Stdio::null()).output();
    assert_eq!(output.expect("the program starts").status.code(), Some(1));
}

/// Does each file of a job keep its own range that was not synced? All but the last writes of two
/// files are on the device, as of one. (With a sync after every write fio's turns would give all
/// syncs to the other file.)
#[test]
fn ranges_belong_to_their_file() {
    let job = ["--name=a", "--rw=write", "--bs=4k", "--size=1m"];
    let steps = "--sync_file_range=wait_before,write,wait_after:2";
    for files in ["--nrfiles=1", "--nrfiles=2"] {
        let report = run("ssd-870evo", &[&job[..], &[files, steps]].concat());
        let syncs = number(&report["jobs"][0]["sync"]["total_ios"]);
        // 256 writes: a sync after every second one but the last, each with something to write.
        assert_eq!((syncs, device_ios(&report).1), (127, 127), "{files}");
    }
}

/// Does what is read ahead of a job stay only as far as there is memory? Of 64 MiB in 16 the last
/// quarter: a pass from the beginning finds nothing, because what it reads pushes that out.
#[test]
fn what_is_read_before_fits() {
    let job = ["--host", "memory=16m", "--name=a", "--rw=read", "--size=64m", "--pre_read=1"];
    assert!(device_ios(&run("lab-disk", &[&job[..], &["--bs=128k"]].concat())).0 > 300);
}

/// Are all bytes read when a request need not be a whole number of pages? 4 MiB in bios of one
/// page.
#[test]
fn odd_limits_lose_no_bytes() {
    let job = ["--set", "max_sectors_kb=5", "--name=a", "--rw=read", "--bs=64k", "--size=4m"];
    assert_eq!(device_ios(&run("ssd-870evo", &job)).0, 1024);
}
