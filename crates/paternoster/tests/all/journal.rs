// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal, event by event: what a commit writes, in which order, and which calls wait for it.
//!
//! Every command takes 1 ms, up to 32 at a time; see `timeline.rs` for how lines are read.
//! Files lie one after the other from sector 0 on, each from a multiple of 1 MiB = 2048 sectors;
//! the journal is after the last.

use std::process::{Command, Stdio};

use paternoster_core::{Action, Nanos, Op};
use paternoster_workload::page_cache::HostSettings;
use paternoster_workload::page_cache::journal::JournalSettings;
use proptest::prelude::*;

use crate::timeline::{
    Cache, Line, Timeline, journalling_host, millisecond, quick_host, run, run_with,
};

const WRITER: &str = "rw=write\nbs=4k\n";

fn journalled(cache: Cache, jobs: &str) -> Timeline {
    run(&millisecond(cache), journalling_host(), jobs)
}

fn with(change: impl FnOnce(&mut JournalSettings)) -> HostSettings {
    let mut host = journalling_host();
    change(&mut host.journal);
    host
}

/// Data, then journal, then flush and commit block? The page that gets a block changes inode,
/// bitmap and group: with the descriptor block four blocks = 32 sectors after the file, and the
/// commit block after them. Each step waits for the one before: four, or five without FUA.
#[test]
fn a_commit_is_in_order() {
    let job = format!("[a]\n{WRITER}size=4k\nend_fsync=1\n");
    let steps = [
        "0 D WS 0+8 a",
        "1000 D WSM 2048+32 journal",
        "2000 D F 0+0 journal",
        "3000 D WFSM 2080+8 journal",
    ];
    let timeline = journalled(Cache::Fua, &job);
    assert_eq!(timeline.issued(), steps);
    assert_eq!(timeline.result.ended.0 / 1000, 4000);
    let asked = timeline.of(Action::Queue);
    assert_eq!(asked[2], "2000 Q FWFSM 2080+8 journal", "one bio says both");
    let issued = journalled(Cache::Volatile, &job).issued();
    assert_eq!(issued[3..], ["3000 D WSM 2080+8 journal", "4000 D F 0+0 journal"]);
    // Without a journal it is the data and a flush.
    let issued = run(&millisecond(Cache::Fua), quick_host(), &job).issued();
    assert_eq!(issued, ["0 D WS 0+8 a", "1000 D F 0+0 a"]);
}

/// Is data that got its blocks in a transaction written before its commit block, whichever process
/// wrote it? Without delayed allocation b's pages have blocks when they are written: a's fsync
/// drags them along. With it they have none yet and stay in memory.
#[test]
fn ordered_data_go_first() {
    let jobs = format!("[b]\n{WRITER}size=8k\n[a]\n{WRITER}size=4k\nstartdelay=1ms\nend_fsync=1\n");
    let at_once = with(|journal| journal.delayed_allocation = false);
    let timeline = run(&millisecond(Cache::Fua), at_once, &jobs);
    let dragged = [
        "1000 D WS 2048+8 a",
        "2000 D WS 0+16 journal",
        "2000 D WSM 4096+32 journal",
        "3000 D F 0+0 journal",
        "4000 D WFSM 4128+8 journal",
    ];
    assert_eq!(timeline.issued(), dragged);
    let issued = journalled(Cache::Fua, &jobs).issued();
    assert!(issued.iter().all(|line| !line.contains("0+16")), "{issued:?}");
}

/// Does the commit wait for data that others are writing? b's `sync_file_range` sends two pages at
/// 1.4 ms, which so get blocks; the device takes 4 ms for them. a's own page is written from 1
/// to 2 ms, then it asks; the log is written at 3 ms, the data at 5.4 ms: only then is the commit
/// block sent. What b sends at 2.8 ms belongs to the next transaction.
#[test]
fn a_commit_waits_for_data_under_way() {
    let jobs = format!(
        "[b]\n{WRITER}size=20k\nsync_file_range=write:2\nthinktime=700us\n\
         [a]\n{WRITER}size=4k\noverwrite=1\ndirect=1\nstartdelay=1ms\nend_fsync=1\n"
    );
    let slow = ["delay time=3ms range=0-8k"];
    let timeline = run_with(&millisecond(Cache::Fua), &slow, journalling_host(), &jobs);
    let asked = timeline.of(Action::Queue);
    let expected = [
        "1000 Q WS 2048+8 a",
        "1400 Q W 0+16 b",
        "2000 Q WSM 4096+32 journal",
        "2800 Q W 16+16 b",
        "5400 Q FWFSM 4128+8 journal",
    ];
    assert_eq!(asked, expected);
}

/// What do fdatasync and fsync need for data that is overwritten? Times have changed: fsync commits
/// the inode, with its descriptor two blocks; fdatasync only flushes.
#[test]
fn fdatasync_of_an_overwrite_is_a_flush() {
    for direct in [0, 1] {
        let job = format!("[a]\n{WRITER}size=8k\noverwrite=1\ndirect={direct}\n");
        let issued = journalled(Cache::Fua, &format!("{job}fdatasync=1\n")).issued();
        assert_eq!(issued[..2], ["0 D WS 0+8 a", "1000 D F 0+0 a"], "direct={direct}");
        let issued = journalled(Cache::Fua, &format!("{job}fsync=1\n")).issued();
        assert_eq!(issued[1], "1000 D WSM 2048+16 journal", "direct={direct}");
    }
    // A page without a block: fdatasync commits too.
    let job = format!("[a]\n{WRITER}size=8k\nfdatasync=1\n");
    assert_eq!(journalled(Cache::Fua, &job).issued()[1], "1000 D WSM 2048+32 journal");
    // A raw device has no metadata.
    let job = format!("[a]\nfilename=/dev/sda\n{WRITER}size=8k\nfsync=1\n");
    assert_eq!(journalled(Cache::Fua, &job).issued()[1], "1000 D F 0+0 a");
}

/// Do times change once a tick? On a device of 10 us a hundred overwrites and their syncs take less
/// than 4 ms: one commit, 98 flushes of the device; and the sync that would be the last is not
/// made.
#[test]
fn times_have_the_grain_of_a_tick() {
    let text = include_str!("../../../../devices/null.toml");
    let facts = "[facts]\nwrite_cache = { value = true, source = \"test\" }";
    let null =
        paternoster_sim::Description::parse("null", &text.replace("[facts]", facts)).unwrap();
    let job = format!("[a]\n{WRITER}size=400k\noverwrite=1\nfsync=1\n");
    let timeline = run(&null, journalling_host(), &job);
    assert!(timeline.result.ended < Nanos::from_millis(4), "{}", timeline.result.ended);
    let flushes = timeline.lines.iter().filter(|line| line.who == "a" && line.what() == "F");
    let flushes = flushes.filter(|line| line.event.action == Action::Issue).count();
    assert_eq!((records(&timeline).len(), flushes), (1, 98));
}

/// The requested commit blocks.
fn records(timeline: &Timeline) -> Vec<&Line> {
    let asked = timeline.lines.iter().filter(|line| line.event.action == Action::Queue);
    asked.filter(|line| line.what() == "FWFSM").collect()
}

/// Is `O_SYNC` a commit, `O_DSYNC` of an overwrite a FUA write, of a new page a commit? Direct.
#[test]
fn o_sync_commits() {
    let job = |more: &str| {
        let job = format!("[a]\n{WRITER}size=4k\ndirect=1\n{more}\n");
        journalled(Cache::Fua, &job).issued()
    };
    let commit = ["2000 D F 0+0 journal", "3000 D WFSM 2064+8 journal"];
    let issued = job("sync=1\noverwrite=1");
    assert_eq!(issued[..2], ["0 D WS 0+8 a", "1000 D WSM 2048+16 journal"]);
    assert_eq!(issued[2..], commit);
    assert_eq!(job("sync=dsync\noverwrite=1"), ["0 D WFS 0+8 a"]);
    assert_eq!(job("sync=dsync")[1], "1000 D WSM 2048+32 journal");
    // Buffered: the call ends with the commit.
    let issued = journalled(Cache::Fua, &format!("[a]\n{WRITER}size=4k\nsync=1\n")).issued();
    assert_eq!(issued.len(), 4, "{issued:?}");
}

/// Is a transaction committed when it is 5 s old? a writes a page at 0, which stays in memory: its
/// inode alone is committed, while b waits for 6 s.
#[test]
fn old_transactions_are_committed() {
    let jobs = format!(
        "[a]\n{WRITER}size=4k\n[b]\nrw=read\ndirect=1\nfilename=/dev/sda\nsize=4k\nstartdelay=6\n"
    );
    let timeline = journalled(Cache::Fua, &jobs);
    let expected = [
        "5000000 D WSM 2048+16 journal",
        "5001000 D F 0+0 journal",
        "5002000 D WFSM 2064+8 journal",
        "6000000 D R 0+8 b",
    ];
    assert_eq!(timeline.issued(), expected);
    let soon = with(|journal| journal.commit = Nanos::from_millis(100));
    let timeline = run(&millisecond(Cache::Fua), soon, &jobs);
    assert_eq!(timeline.issued()[0], "100000 D WSM 2048+16 journal");
}

/// Do fsyncs share commits? A thread that writes ten pages and syncs after each but the last makes
/// nine commits of four blocks, with a flush each: data, log, flush, commit block take 4 ms, in all
/// 36 ms. Eight such threads need no more: their data is written together, the first to ask begins
/// the commit, and the others, whose metadata it holds, wait for the same one: 72 fsyncs with nine
/// commits, 1/8 of a flush each. Their inodes are in one block, so the log is as long.
#[test]
fn fsyncs_share_commits() {
    for threads in [1, 8] {
        let job = format!("[a]\n{WRITER}size=40k\nnumjobs={threads}\nfsync=1\n");
        let timeline = journalled(Cache::Fua, &job);
        let syncs: u64 = timeline.result.processes.iter().map(|a| a.statistics.sync().n()).sum();
        assert_eq!(syncs, 9 * threads);
        assert_eq!((records(&timeline).len(), timeline.count("F")), (9, 9), "{threads} threads");
        assert_eq!(timeline.result.ended.0 / 1_000_000, 36);
        let journal = timeline.lines.iter().filter(|line| line.what() == "WSM");
        let sectors = journal.map(|line| line.event.sectors).max();
        assert_eq!(sectors, Some(4 * 8));
    }
}

/// Do changes that come while one transaction commits share the next? Eight threads write a page
/// and sync it, 0.5 ms apart. Thread 0 asks for a commit at 1 ms; threads 1 and 2 have sent their
/// pages by then and wait for the same one. Its log is written by 2 ms, its flush by 3, its commit
/// block by 4. The others' pages belong to the second, which begins then and takes 3 ms: two
/// commits for eight fsyncs.
#[test]
fn what_comes_meanwhile_shares_the_next_commit() {
    let jobs: String = (0..8)
        .map(|n| format!("[a{n}]\n{WRITER}size=4k\nstartdelay={}us\nend_fsync=1\n", n * 500))
        .collect();
    let timeline = journalled(Cache::Fua, &jobs);
    let at: Vec<u64> = records(&timeline).iter().map(|line| line.event.at.0 / 1000).collect();
    assert_eq!(at, [2000, 5000]);
    assert_eq!((timeline.count("F"), timeline.result.ended.0 / 1000), (2, 7000));
}

/// Does a sync that comes too late for a commit's flush send its own? The one transaction holds the
/// times of both files. a asks at 1 ms, its log is written at 2 ms and the commit block sent, after
/// a flush. b's data is written from 1.5 to 2.5 ms: too late to rely on that flush, which began at
/// 2. It waits for the commit, until 4 ms, and flushes.
#[test]
fn who_comes_late_flushes_himself() {
    let jobs = format!(
        "[b]\n{WRITER}size=8k\noverwrite=1\nfsync=1\nthinktime=1500us\n\
         [a]\n{WRITER}size=4k\noverwrite=1\nend_fsync=1\n"
    );
    let expected = [
        "0 D WS 2048+8 a",
        "1000 D WSM 4096+16 journal",
        "1500 D WS 0+8 b",
        "2000 D F 0+0 journal",
        "3000 D WFSM 4112+8 journal",
        "4000 D F 0+0 b",
    ];
    assert_eq!(journalled(Cache::Fua, &jobs).issued(), expected);
}

/// Does a long transaction wrap to the area's beginning? 1100 commits of one inode, 2 + 1 blocks
/// each, go round 1024 blocks three times and a bit: 3300 = 3 * 1024 + 228. A log of two blocks
/// whose first is the area's last is cut in two.
#[test]
fn the_area_is_written_round_and_round() {
    let host = with(|journal| journal.blocks = 1024);
    let job = format!("[a]\n{WRITER}size=4404k\noverwrite=1\ndirect=1\nfsync=1\n");
    let timeline = run(&millisecond(Cache::Fua), host, &job);
    let own = timeline.lines.iter().filter(|line| line.who == "journal");
    let own: Vec<&Line> = own.filter(|line| line.event.action == Action::Issue).collect();
    let writes = own.iter().filter(|line| line.event.sectors > 0);
    let (first, end) = (5 * 2048, 5 * 2048 + 1024 * 8);
    let mut next = first;
    let mut sectors = 0;
    for write in writes {
        assert_eq!(write.event.sector, next, "{write}");
        next += u64::from(write.event.sectors);
        sectors += write.event.sectors;
        if next == end {
            next = first;
        }
    }
    assert_eq!((records(&timeline).len(), sectors), (1100, 1100 * 3 * 8));
    assert_eq!(next, first + 228 * 8);
}

/// The mean latency of a hundred fsyncs in us, each after a random write of a page.
fn fsync_us(disk: &str, host: HostSettings) -> f64 {
    let disk = paternoster_sim::catalog::by_name(disk).unwrap().unwrap();
    let job = "[a]\nrw=randwrite\nbs=4k\nsize=1g\nnumber_ios=101\noverwrite=1\nfsync=1\n";
    let timeline = run(&disk, host, job);
    let sync = timeline.result.processes[0].statistics.sync();
    assert_eq!(sync.n(), 100);
    sync.mean() / 1000.0
}

/// What does an fsync'd write cost a disk? Published are 12 to 35 ms (`docs/rules/devices.md`).
///
/// The BarraCuda flushes for 28 ms and a place to write: 34 ms if that is all. With a journal it
/// flushes twice, because it has no FUA: data and log (two places) with the first, the commit block
/// with the second: 28 + 28 and three places, of which two are a turn (8.3 ms) or less apart: 56 +
/// 17 = 73 ms. The 7K8 lacks these 28 ms: 20 ms for the three places.
#[test]
fn an_fsync_costs_a_disk_some_turns() {
    for (disk, host, least, most) in [
        ("hdd-7200", quick_host(), 12_000.0, 35_000.0),
        ("hdd-7200", journalling_host(), 68_000.0, 78_000.0),
        ("hdd-7200-enterprise", journalling_host(), 12_000.0, 35_000.0),
    ] {
        let us = fsync_us(disk, host);
        assert!((least..most).contains(&us), "{disk}: {us} us");
    }
}

/// And a flash drive? The 870 EVO flushes for 3.2 ms and ends the page's program (0.39 ms) first:
/// 3.6 ms, twice with a journal. The PM883 with its capacitors needs 57 us for a write and its
/// flush; with the journal's inode (two blocks), its flushes and commit block three times that.
/// Most of its hundred fsyncs follow each other within a tick of 4 ms and need no commit.
#[test]
fn an_fsync_costs_flash_its_flushes() {
    let all = ["ssd-870evo", "ssd-pm883"]
        .map(|name| [quick_host(), journalling_host()].map(|host| fsync_us(name, host)));
    let [[evo, evo_journal], [pm883, pm883_journal]] = all;
    assert!((3_200.0..4_000.0).contains(&evo), "{evo} us");
    assert!((2.0 * evo..2.2 * evo).contains(&evo_journal), "{evo_journal} us");
    assert!((50.0..65.0).contains(&pm883), "{pm883} us");
    assert!((pm883..1.2 * pm883).contains(&pm883_journal), "{pm883_journal} us");
}

/// What a writer that syncs each page was promised, from the events alone. It sends its next page
/// when the sync of the last has returned; so between the end of a page and the same writer's next
/// page a flush must have begun and ended, and if pages get blocks a commit block too.
fn assert_promises(timeline: &Timeline, writer: &str, commits: bool) {
    let (mut written, mut flush_began, mut flushed, mut committed) = (None, None, None, None);
    for (place, line) in timeline.lines.iter().enumerate() {
        let own = line.who == writer && line.event.op == Op::Write;
        match (line.event.action, line.what().as_str()) {
            (Action::Queue, _) if own && written.is_some() => {
                assert!(flushed > written, "{writer}: no flush before {line}");
                assert!(!commits || committed > written, "{writer}: no commit before {line}");
            }
            (Action::Complete, _) if own => written = Some(place),
            // Flushes pass one at a time.
            (Action::Issue, "F") => flush_began = Some(place),
            (Action::Complete, "F") => flushed = flush_began,
            (Action::Complete, "WFSM") => committed = Some(place),
            _ => {}
        }
    }
}

/// Is all of the log written when the commit block is sent, and one sent at a time?
fn assert_order(timeline: &Timeline) {
    let (mut sent, mut written, mut records, mut recorded) = (0, 0, 0, 0);
    for line in timeline.lines.iter().filter(|line| line.who == "journal") {
        let sectors = u64::from(line.event.sectors);
        match (line.event.action, line.what().as_str()) {
            (Action::Queue, "WSM") => {
                assert_eq!(records, recorded, "{line}");
                sent += sectors;
            }
            (Action::Complete, "WSM") => written += sectors,
            (Action::Queue, "FWFSM") => {
                assert_eq!(sent, written, "{line}");
                records += 1;
            }
            (Action::Complete, "WFSM") => recorded += 1,
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Are promises kept and steps in order, whatever else is written? Writers that sync each page,
    /// others that never do or with `O_DSYNC`, at all times and speeds.
    #[test]
    fn promises_are_kept(
        (writers, data_only, overwrite) in (1..6u32, any::<bool>(), any::<bool>()),
        (others, direct, think_us) in (0..4u32, 0..3u32, 0..5000u32),
        (delay_us, delayed_allocation, commit_ms) in (0..3000u32, any::<bool>(), 1..50u64),
    ) {
        let sync = if data_only { "fdatasync=1" } else { "fsync=1" };
        let mut jobs = format!(
            "[w]\n{WRITER}size=80k\nnumjobs={writers}\n{sync}\noverwrite={}\n",
            u32::from(overwrite)
        );
        if others > 0 {
            let how = ["direct=0", "direct=1\nsync=dsync", "direct=1\nsync=1"][direct as usize];
            jobs += &format!(
                "[o]\nrw=randwrite\nbs=4k\nsize=80k\nnumjobs={others}\n{how}\n\
                 thinktime={think_us}us\nstartdelay={delay_us}us\n"
            );
        }
        let host = with(|journal| {
            journal.delayed_allocation = delayed_allocation;
            journal.commit = Nanos::from_millis(commit_ms);
        });
        let timeline = run(&millisecond(Cache::Fua), host, &jobs);
        assert_order(&timeline);
        for clone in 0..writers {
            let name = if writers > 1 { format!("w.{clone}") } else { "w".to_owned() };
            assert_promises(&timeline, &name, !overwrite);
        }
    }
}

fn paternoster(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "-q", "--scheduler", "noop"]).args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

/// Does the example run, and show what a journal costs? Four mail boxes that sync each page
/// together with readers, for two seconds on a disk: with a journal a sync takes longer, because it
/// needs a second flush, and fewer mails arrive; a log that is not synced is as fast as before, at
/// its rate of 256 writes a second.
#[test]
fn the_example_shows_what_a_journal_costs() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/journal.fio");
    let figures = |journal: &str| {
        let device = ["--device", "hdd-7200-enterprise", "--output-format", "json"];
        let more = ["--runtime=2", "--host", journal];
        let output = paternoster(&[&[example][..], &device, &more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let [mail, log] = [0, 1].map(|job| &report["jobs"][job]);
        let sync_ms = number(&mail["sync"]["lat_ns"]["mean"]) / 1e6;
        (sync_ms, number(&mail["write"]["iops"]), number(&log["write"]["iops"]))
    };
    let (none, ordered) = (figures("journal=none"), figures("journal=ordered"));
    println!("without {none:?}, with {ordered:?}");
    assert!(ordered.0 > 1.2 * none.0 && ordered.1 < none.1, "{none:?} {ordered:?}");
    assert!((none.2 - 256.0).abs() < 3.0 && (ordered.2 - 256.0).abs() < 3.0);
}

/// Does an fsync fail when its commit does?
#[test]
fn a_failed_commit_is_told() {
    let job = ["--name=a", "--rw=write", "--size=64k", "--fsync=4", "--host", "journal=ordered"];
    let device = ["--device", "hdd-7200", "--fault", "error range=1m-2m errno=5"];
    let output = paternoster(&[&device[..], &job[..]].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("job a failed with errno 5"), "{message}");
}

/// Is a journal that does not fit refused, with the remedy?
#[test]
fn a_journal_must_fit() {
    let job = ["--name=a", "--rw=write", "--size=8g", "--device", "lab-disk", "--host"];
    let output = paternoster(&[&job[..], &["journal=ordered"]].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("make `journal_blocks` or the files smaller"), "{message}");
}
