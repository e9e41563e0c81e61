// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffered I/O: each test is a small job whose times can be computed by hand.
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
/// 4 + 8 + 16 + 7 * 32 + 4: 11 reads.
#[test]
fn sequential_reads_come_in_windows() {
    let report = run("lab-disk", &["--name=a", "--rw=read", "--size=1m", "--bs=4k"]);
    assert_eq!(device_ios(&report), (11, 0));
    assert_eq!(number(&report["jobs"][0]["read"]["total_ios"]), 256);
}

/// Does a window of 512 KiB give fewer, larger reads? 4 + 16 + 32 + 64 + 128 + 12 pages: 6 reads.
#[test]
fn read_ahead_kb_is_the_largest_window() {
    let options = ["--set", "read_ahead_kb=512", "--name=a", "--rw=read", "--size=1m", "--bs=4k"];
    assert_eq!(device_ios(&run("lab-disk", &options)), (6, 0));
}

/// Is a page that is read a segment, so that a long window is several bios? The array takes 64
/// segments: 4 + 16 + 32 + 64 + (64 + 64) + 12 pages are 7 reads of 1 MiB. The disk takes 128, and
/// 2 MiB with windows of 256 pages are 4 + 16 + 32 + 64 + 128 + (128 + 128) + 12: 8 reads.
#[test]
fn a_page_is_a_segment() {
    let reads = |device: &str, window: &str, size: &str| {
        let options = ["--set", window, "--name=a", "--rw=read", "--bs=4k", size];
        device_ios(&run(device, &options))
    };
    assert_eq!(reads("array-eva", "read_ahead_kb=512", "--size=1m"), (7, 0));
    assert_eq!(reads("lab-disk", "read_ahead_kb=1024", "--size=2m"), (8, 0));
}

/// Does reading from memory cost only CPU time? The second of two passes is 256 copies of 2 us.
#[test]
fn cached_reads_cost_cpu_only() {
    let once = run("lab-disk", &["--name=a", "--rw=read", "--size=1m"]);
    let twice = run("lab-disk", &["--name=a", "--rw=read", "--size=1m", "--loops=2"]);
    assert_eq!(device_ios(&once), device_ios(&twice));
    let time = |report: &Value| number(&report["paternoster"]["virtual_time_ns"]);
    assert_eq!(time(&twice) - time(&once), 256 * 2000);
}

/// Does the cache evict what does not fit? A pass over 4 MiB with 1 MiB of memory leaves nothing of
/// its beginning, so the second pass reads everything again.
#[test]
fn a_small_memory_forgets() {
    let job = ["--host", "memory=1m", "--name=a", "--rw=read", "--size=4m"];
    let once = run("lab-disk", &job);
    let twice = run("lab-disk", &[&job[..], &["--loops=2"]].concat());
    assert!(device_ios(&twice).0 >= 2 * device_ios(&once).0 - 2);
}

/// Is nothing read ahead for a random reader? It reads 64 blocks, none of them twice (the random
/// map), so exactly 64 reads reach the device.
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

/// Does a writer that stays below the limits cause no device I/O? 256 pages of 8 GiB, at 2 us each,
/// are 512 us, and no page is 30 s old.
#[test]
fn few_dirty_pages_stay_in_memory() {
    let report = run("lab-disk", &["--name=a", "--rw=write", "--size=1m"]);
    assert_eq!(device_ios(&report), (0, 0));
    assert_eq!(number(&report["paternoster"]["virtual_time_ns"]), 256 * 2000);
}

/// Does the flusher write old pages? They are dirtied at 0, and 30 s old at its round at 30 s.
#[test]
fn old_pages_are_written() {
    let writer = ["--name=a", "--rw=write", "--size=1m"];
    let waiter = ["--name=b", "--rw=read", "--size=4k", "--startdelay=36"];
    let report = run("lab-disk", &[&writer[..], &waiter[..]].concat());
    // 1 MiB is less than a request may be, so it is one write.
    assert_eq!(device_ios(&report), (1, 1));
}

/// Must a writer wait for the device when too much is dirty? Of 64 MiB written with 8 MiB of
/// memory, nearly everything goes to the device at 150 MB/s or less. That takes at least (64 - 8)
/// MiB / 150 MB/s = 391 ms, whereas copying alone would take 33 ms.
#[test]
fn writers_wait_at_the_limit() {
    let job = ["--host", "memory=8m", "--name=a", "--rw=write", "--size=64m", "--bs=64k"];
    let report = run("lab-disk", &job);
    let time = number(&report["paternoster"]["virtual_time_ns"]);
    assert!((391_000_000..900_000_000).contains(&time), "{time}");
}

/// Are windows cut where a file's pieces end? Two files of 256 pages alternate in pieces of 16:
/// windows 0-3 and 4-11 lie in one piece each, 12-27 in two, each of the seven windows of 32 pages
/// from 28 on in three (4, 16, 12), and the last 4 pages in one: 2 + 2 + 21 + 1 = 26 reads per
/// file.
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

/// Does fsync write the dirty pages and then flush? 256 pages are one write of 1 MiB: 8.1 ms, plus
/// 7.0 ms for the bytes; the device has no cache, so the flush costs nothing. As in fio, the sync
/// that ends a job is not in its report.
#[test]
fn fsync_writes_the_file() {
    let report = run("lab-disk", &["--name=a", "--rw=write", "--size=1m", "--end_fsync=1"]);
    assert_eq!(device_ios(&report), (0, 1));
    assert_eq!(number(&report["jobs"][0]["sync"]["total_ios"]), 0);
    // 256 copies of 2 us, then 8.1 ms + 1048576 B / 150 MB/s = 15.0905 ms.
    let time = number(&report["paternoster"]["virtual_time_ns"]);
    assert_eq!(time, 256 * 2000 + 15_090_506);
}

/// Is each write to a file opened with O_SYNC on the device when it ends? 16 writes of one page:
/// the first takes 8.127 ms, the others are contiguous and take 0.127 ms, plus 2 us of copying
/// each.
#[test]
fn o_sync_writes_go_through() {
    let report = run("lab-disk", &["--name=a", "--rw=write", "--size=64k", "--sync=1"]);
    assert_eq!(device_ios(&report), (0, 16));
    let write = &report["jobs"][0]["write"]["clat_ns"];
    assert_eq!((number(&write["min"]), number(&write["max"])), (129_306, 8_129_306));
    assert_eq!(number(&report["jobs"][0]["sync"]["total_ios"]), 0);
}

/// Does sync_file_range write out what was written since the last call, and wait only if requested?
/// Eight writes of 64 KiB, with a call after every second one but the last: three ranges of 128
/// KiB.
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

/// Is a sync of a direct job just a flush of the device?
#[test]
fn a_direct_sync_is_a_flush() {
    let job = ["--name=a", "--rw=write", "--size=64k", "--direct=1", "--fsync=4"];
    let report = run("lab-disk", &job);
    // 16 writes: after the 4th, 8th and 12th; the one that would follow the last is not made.
    assert_eq!(number(&report["jobs"][0]["sync"]["total_ios"]), 3);
    assert_eq!(device_ios(&report).1, 16);
}

/// Does an fsync end while writers keep dirtying the same file? Four of them run for two seconds;
/// each sync waits only for what was dirty when it began.
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

/// Does each file of a job have its own range of unsynced data? With two files as with one, all
/// writes but the last ones are on the device. (With a sync after every write, fio's alternation
/// would give all syncs to the other file.)
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

/// Does data read before a job (`pre_read`) stay only as far as there is memory? With 16 MiB of
/// memory the last quarter of 64 MiB stays. A pass from the beginning finds nothing, because its
/// own reads evict that quarter before it gets there.
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
