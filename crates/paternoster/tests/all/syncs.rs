// SPDX-License-Identifier: MIT OR Apache-2.0
//! Syncs, event by event: which bios `fsync` and its relatives make of a job's data, and when.
//!
//! Every command takes 1 ms, up to 32 at a time; see `timeline.rs` for how lines are read. A
//! buffered write of a page takes 1 ns.

use paternoster_core::{Action, Nanos};
use paternoster_workload::Direction;

use crate::timeline::{Cache, Timeline, millisecond, quick_host, run};

/// Runs one job of these options, which writes pages.
fn job(cache: Cache, options: &str) -> Timeline {
    let options = options.replace(' ', "\n");
    run(&millisecond(cache), quick_host(), &format!("[a]\nrw=write\nbs=4k\n{options}\n"))
}

/// Does fsync write what is dirty as one sync bio, wait for it, and flush? Two pages 1 ms, flush
/// 1 ms, and again; the sync's latency is both.
#[test]
fn fsync_writes_waits_and_flushes() {
    for option in ["fsync=2", "fdatasync=2"] {
        let timeline = job(Cache::Volatile, &format!("size=20k {option}"));
        assert_eq!(
            timeline.issued(),
            ["0 D WS 0+16 a", "1000 D F 0+0 a", "2000 D WS 16+16 a", "3000 D F 0+0 a"],
            "{option}"
        );
        let sync = timeline.result.processes[0].statistics.sync();
        assert_eq!((sync.n(), sync.max()), (2, Nanos::from_millis(2)));
    }
}

/// Is a direct file's sync the flush alone, and nothing on a device without a cache?
#[test]
fn direct_syncs_flush() {
    let timeline = job(Cache::Volatile, "size=12k direct=1 fsync=2");
    let expected = ["0 D WS 0+8 a", "1000 D WS 8+8 a", "2000 D F 0+0 a", "3000 D WS 16+8 a"];
    assert_eq!(timeline.issued(), expected);
    let timeline = job(Cache::None, "size=12k direct=1 fsync=2");
    assert_eq!(timeline.issued(), ["0 D WS 0+8 a", "1000 D WS 8+8 a", "2000 D WS 16+8 a"]);
}

/// Is a direct `O_DSYNC` write a FUA write where there is FUA, and otherwise a write and a flush of
/// its own? 1 ms a write, or 2.
#[test]
fn o_dsync_writes_through_the_cache() {
    for open in ["sync=dsync", "sync=1"] {
        let job = |cache| job(cache, &format!("size=8k direct=1 {open}")).issued();
        assert_eq!(job(Cache::Fua), ["0 D WFS 0+8 a", "1000 D WFS 8+8 a"]);
        let flushes = ["0 D WS 0+8 a", "1000 D F 0+0 a", "2000 D WS 8+8 a", "3000 D F 0+0 a"];
        assert_eq!(job(Cache::Volatile), flushes);
        assert_eq!(job(Cache::None), ["0 D WS 0+8 a", "1000 D WS 8+8 a"]);
    }
}

/// Does an I/O of two bios flush once, after both? A request holds 1280 KiB = 2560 sectors.
#[test]
fn a_large_durable_write_flushes_once() {
    let timeline = job(Cache::Volatile, "bs=2m size=2m direct=1 sync=dsync");
    let expected = ["0 D WS 0+2560 a", "0 D WS 2560+1536 a", "1000 D F 0+0 a"];
    assert_eq!(timeline.issued(), expected);
    let write = timeline.result.processes[0].statistics.direction(Direction::Write);
    // A write and a flush, and 1 ns to submit.
    assert_eq!(write.total().max(), Nanos(2_000_001));
}

/// Does each of several writes in flight make itself durable? Three at a time, each asks for a
/// flush. The first goes out as soon as the first write has ended, and may not cover the others,
/// which share the second.
#[test]
fn durable_writes_have_a_depth() {
    let options = "size=12k direct=1 sync=dsync ioengine=libaio iodepth=3";
    let timeline = job(Cache::Volatile, options);
    assert_eq!((timeline.count("WS"), timeline.count("F")), (3, 2));
    let asked: Vec<String> = timeline.of(Action::Queue);
    let writes = ["0 Q WS 0+8 a", "0 Q WS 8+8 a", "0 Q WS 16+8 a"];
    assert_eq!(asked, [&writes[..], &["1000 Q F 0+0 a"; 3]].concat());
}

/// Is a buffered write of a file that is open with `O_SYNC` the page as a sync bio and a flush,
/// before the call ends? 2 ms each; that is the write's latency, and no sync's.
#[test]
fn buffered_o_sync_writes_flush() {
    let timeline = job(Cache::Volatile, "size=8k sync=1");
    let expected = ["0 D WS 0+8 a", "1000 D F 0+0 a", "2000 D WS 8+8 a", "3000 D F 0+0 a"];
    assert_eq!(timeline.issued(), expected);
    assert_eq!(timeline.result.processes[0].statistics.sync().n(), 0);
}

/// Is each second write a barrier: a flush before it, and its own data durable?
#[test]
fn barriers_flush_before_and_behind() {
    let asked = ["0 Q WS 0+8 a", "1000 Q FWFS 8+8 a"];
    let timeline = job(Cache::Fua, "size=12k direct=1 write_barrier=2");
    assert_eq!(timeline.of(Action::Queue)[..2], asked);
    let fua = ["0 D WS 0+8 a", "1000 D F 0+0 a", "2000 D WFS 8+8 a", "3000 D WS 16+8 a"];
    assert_eq!(timeline.issued(), fua);
    let issued = job(Cache::Volatile, "size=12k direct=1 write_barrier=2").issued();
    let volatile = ["1000 D F 0+0 a", "2000 D WS 8+8 a", "3000 D F 0+0 a", "4000 D WS 16+8 a"];
    assert_eq!(issued[1..], volatile);
}

/// Is a large barrier's flush sent once, before its first piece?
#[test]
fn a_large_barrier_flushes_once_before() {
    let asked = job(Cache::Fua, "bs=2m size=2m direct=1 write_barrier=1").of(Action::Queue);
    assert_eq!(asked, ["0 Q FWFS 0+2560 a", "0 Q WFS 2560+1536 a"]);
}

/// Which parts does `sync_file_range` do? `write` alone begins to write, as async bios, and does
/// not wait; with all three words the bios are sync and waited for; it never flushes. Of four pages
/// a range ends after the second; the last two stay dirty.
#[test]
fn ranges_are_written_but_not_flushed() {
    let latency = |timeline: &Timeline| timeline.result.processes[0].statistics.sync().max();
    let timeline = job(Cache::Volatile, "size=16k sync_file_range=write:2");
    assert_eq!(
        (timeline.issued(), latency(&timeline)),
        (vec!["0 D W 0+16 a".to_owned()], Nanos(0))
    );
    let all = "size=16k sync_file_range=wait_before,write,wait_after:2";
    let timeline = job(Cache::Volatile, all);
    let expected = (vec!["0 D WS 0+16 a".to_owned()], Nanos::from_millis(1));
    assert_eq!((timeline.issued(), latency(&timeline)), expected);
    // What is waited for before is of the second range itself: nothing is in flight.
    let timeline = job(Cache::Volatile, "size=20k sync_file_range=wait_before,write:2");
    assert_eq!(timeline.issued(), ["0 D W 0+16 a", "0 D W 16+16 a"]);
}

/// Is a file synced once at the end of each loop, and with `fsync_on_close` once more when it is
/// closed between two? Measured on fio 3.33 with strace: `wwSwwS` and `wwSSwwS`; and neither is
/// among the syncs in its report. The second of two in a row finds a clean cache, and takes no
/// time.
#[test]
fn loops_end_with_a_sync() {
    for (option, flushes) in [("end_fsync=1", vec![1, 3]), ("fsync_on_close=1", vec![1, 2, 3])] {
        let timeline = job(Cache::Volatile, &format!("size=8k loops=2 {option}"));
        let expected: Vec<String> = flushes.iter().map(|ms| format!("{ms}000 Q F 0+0 a")).collect();
        let asked = timeline.of(Action::Queue);
        let found: Vec<&String> = asked.iter().filter(|line| line.contains(" F ")).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{option}");
        assert_eq!(timeline.result.processes[0].statistics.sync().n(), 0);
    }
}
