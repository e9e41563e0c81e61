// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of callers, with processes and cgroups that are plain files.

use std::path::Path;

use paternoster_core::Class;

use super::fake::Fake;
use super::*;
use crate::host::peer;

/// Best effort of that level, as ionice sets it.
const fn best_effort(level: u32) -> u32 {
    2 << 13 | level
}

/// Realtime of that level.
const fn realtime(level: u32) -> u32 {
    1 << 13 | level
}

fn callers(fake: &Fake) -> Callers {
    Callers::asking(Fuse::new("/mnt".into()), fake.path("proc"), Fake::ask)
}

fn with_cgroups(fake: &Fake) -> Callers {
    let cgroups = Some(fake.path("cgroups"));
    let settings = Fuse { cgroups, ..Fuse::new("/mnt".into()) };
    Callers::asking(settings, fake.path("proc"), Fake::ask)
}

/// K2 and the counts of threads.
fn check(callers: &mut Callers, threads: &[u32]) {
    let mut counts: HashMap<*const Caller, usize> = HashMap::new();
    for thread in threads {
        if let Some(known) = callers.threads.get(thread) {
            *counts.entry(Arc::as_ptr(&known.caller)).or_insert(0) += 1;
        }
    }
    let kept: HashMap<_, _> =
        callers.callers.iter().map(|(caller, count)| (Arc::as_ptr(caller), *count)).collect();
    assert_eq!(kept, counts);
}

/// Is a thread its process, with its own ionice and its user?
#[test]
fn a_thread_is_its_process() {
    let fake = Fake::new();
    fake.thread(10, 10, "fio (x)", 500);
    fake.thread(11, 10, "worker", 501);
    Fake::ionice(11, best_effort(6));
    let mut callers = callers(&fake);
    let now = Instant::now();
    let caller = callers.of(11, 1000, now).unwrap();
    let expected = Caller {
        pid: 10,
        started: 500,
        uid: 1000,
        name: "fio (x)".to_owned(),
        priority: Priority { class: Class::BestEffort, level: 6 },
        cgroup: String::new(),
        weights: Vec::new(),
    };
    assert_eq!(*caller, expected);
    // The first thread has no ionice of its own: nice 0 is level 4.
    let first = callers.of(10, 1000, now).unwrap();
    assert_eq!((first.pid, first.priority), (10, Priority::default()));
    for nobody in [0, 12, u32::MAX] {
        assert_eq!(callers.of(nobody, 1000, now), None, "{nobody}");
    }
    check(&mut callers, &[10, 11]);
}

/// Is nothing read within the second (K1), and an unchanged thread the same caller after it?
#[test]
fn a_second_is_believed() {
    let fake = Fake::new();
    fake.thread(10, 10, "dd", 500);
    let mut callers = callers(&fake);
    let start = Instant::now();
    let first = callers.of(10, 0, start).unwrap();
    Fake::ionice(10, best_effort(7));
    let almost = start + TTL - Duration::from_nanos(1);
    assert!(Arc::ptr_eq(&first, &callers.of(10, 0, almost).unwrap()));
    assert_eq!(Fake::looks(), 1);
    let changed = callers.of(10, 0, start + TTL).unwrap();
    assert_eq!((changed.priority.level, Fake::looks()), (7, 2));
    assert!(Arc::ptr_eq(&changed, &callers.of(10, 0, start + TTL * 2).unwrap()));
    assert_eq!(Fake::looks(), 3);
    // A clock that seems to go back is no reason to look.
    assert!(callers.of(10, 0, start).is_some());
    assert_eq!(Fake::looks(), 3);
    check(&mut callers, &[10]);
}

/// Are equal threads of a process one caller, and those of different ionice two (K2)?
#[test]
fn equal_callers_are_one() {
    let fake = Fake::new();
    for thread in 10..14 {
        fake.thread(thread, 10, "fio", 500);
    }
    Fake::ionice(13, best_effort(0));
    let mut callers = callers(&fake);
    let start = Instant::now();
    let of = |callers: &mut Callers, thread, after: u32| {
        callers.of(thread, 5, start + TTL / 2 * after).unwrap()
    };
    let one = of(&mut callers, 10, 0);
    assert!(Arc::ptr_eq(&one, &of(&mut callers, 11, 0)));
    assert!(Arc::ptr_eq(&one, &of(&mut callers, 12, 1)));
    let urgent = of(&mut callers, 13, 1);
    assert_ne!(one, urgent);
    check(&mut callers, &[10, 11, 12, 13]);
    // It returns to the others' values, and is one of them again.
    Fake::ionice(13, 0);
    assert!(Arc::ptr_eq(&one, &of(&mut callers, 13, 3)));
    check(&mut callers, &[10, 11, 12, 13]);
}

/// Is a thread that acts for two users two callers, without another look?
#[test]
fn a_thread_for_two_users() {
    let fake = Fake::new();
    fake.thread(10, 10, "smbd", 500);
    Fake::ionice(10, realtime(2));
    let mut callers = callers(&fake);
    let now = Instant::now();
    let (root, other) = (callers.of(10, 0, now).unwrap(), callers.of(10, 1000, now).unwrap());
    assert_eq!(root.priority, Priority { class: Class::Realtime, level: 2 });
    // Only root may by default; what is left is the most of best effort.
    assert_eq!(other.priority, Priority { class: Class::BestEffort, level: 0 });
    assert_eq!(callers.of(10, 0, now), Some(root));
    assert_eq!(Fake::looks(), 1);
    check(&mut callers, &[10]);
}

/// Does a process that has ended keep its identity (K4), also while its parent has not reaped it?
#[test]
fn the_ended_are_remembered() {
    let fake = Fake::new();
    fake.thread(10, 10, "dd", 500);
    fake.cgroup(10, "7:blkio:/a\n");
    fake.write("cgroups/a/blkio.weight", "300\n");
    Fake::ionice(10, best_effort(1));
    let mut callers = with_cgroups(&fake);
    let start = Instant::now();
    let alive = callers.of(10, 0, start).unwrap();
    assert_eq!((alive.cgroup.as_str(), &alive.weights[..]), ("/a", &[300][..]));
    // Of a zombie the system has forgotten ionice and cgroup.
    fake.stat(10, "dd", 'Z', 500);
    fake.cgroup(10, "7:blkio:/\n");
    Fake::ionice(10, 0);
    assert!(Arc::ptr_eq(&alive, &callers.of(10, 0, start + TTL).unwrap()));
    fake.end(10);
    std::fs::remove_dir_all(fake.path("cgroups/a")).unwrap();
    for seconds in 2..5 {
        assert!(Arc::ptr_eq(&alive, &callers.of(10, 0, start + TTL * seconds).unwrap()));
    }
    // Another thread has found out that the cgroup has gone with it.
    fake.thread(20, 20, "late", 600);
    fake.cgroup(20, "7:blkio:/a\n");
    let late = callers.of(20, 0, start + TTL * 5).unwrap();
    assert_eq!(late.weights, [100]);
    assert!(Arc::ptr_eq(&alive, &callers.of(10, 0, start + TTL * 5).unwrap()));
    check(&mut callers, &[10, 20]);
}

/// Is a number that another process has got that process, once the second is over?
#[test]
fn a_number_is_used_again() {
    let fake = Fake::new();
    fake.thread(10, 10, "dd", 500);
    fake.thread(11, 10, "dd", 500);
    let mut callers = callers(&fake);
    let start = Instant::now();
    let (before, thread) = (callers.of(10, 0, start).unwrap(), callers.of(11, 0, start).unwrap());
    assert!(Arc::ptr_eq(&before, &thread));
    fake.thread(10, 10, "cat", 900);
    fake.thread(11, 3, "worker", 901);
    fake.thread(3, 3, "postgres", 40);
    assert_eq!(callers.of(10, 0, start + TTL / 2), Some(before));
    let (after, thread) =
        (callers.of(10, 0, start + TTL).unwrap(), callers.of(11, 0, start + TTL).unwrap());
    assert_eq!((after.pid, after.started, after.name.as_str()), (10, 900, "cat"));
    assert_eq!((thread.pid, thread.started, thread.name.as_str()), (3, 40, "postgres"));
    check(&mut callers, &[10, 11]);
}

/// Does a process that became another program by `exec` have its new name?
#[test]
fn a_new_name() {
    let fake = Fake::new();
    fake.thread(10, 10, "sh", 500);
    let mut callers = callers(&fake);
    let start = Instant::now();
    assert_eq!(callers.of(10, 0, start).unwrap().name, "sh");
    fake.stat(10, "fio", 'R', 500);
    let after = callers.of(10, 0, start + TTL).unwrap();
    assert_eq!((after.name.as_str(), after.started), ("fio", 500));
}

/// Are path and weights those of the configured hierarchy, of version 2 and of version 1?
#[test]
fn cgroups_of_both_versions() {
    for (version, path, weights) in [(2, "/db/pg", [200, 50]), (1, "/old/x", [300, 100])] {
        let fake = Fake::new();
        fake.thread(10, 10, "postgres", 500);
        fake.cgroup(10, "7:blkio:/old/x\n0::/db/pg\n");
        if version == 2 {
            fake.write("cgroups/cgroup.controllers", "io\n");
        }
        fake.write("cgroups/db/io.bfq.weight", "200\n");
        fake.write("cgroups/db/pg/io.weight", "default 50\n");
        fake.write("cgroups/old/blkio.bfq.weight", "300\n");
        let caller = with_cgroups(&fake).of(10, 0, Instant::now()).unwrap();
        assert_eq!((caller.cgroup.as_str(), &caller.weights[..]), (path, &weights[..]));
        // Without a configured root they do not count.
        let caller = callers(&fake).of(10, 0, Instant::now()).unwrap();
        assert_eq!((caller.cgroup.as_str(), &caller.weights[..]), ("", &[][..]));
    }
}

/// In version 1 a thread may be elsewhere than its process; in version 2 it is where that is.
#[test]
fn a_thread_in_a_cgroup_of_its_own() {
    let fake = Fake::new();
    fake.thread(10, 10, "fio", 500);
    fake.thread(11, 10, "fio", 501);
    fake.cgroup(10, "7:blkio:/a\n0::/a\n");
    fake.cgroup(11, "7:blkio:/b\n0::/b\n");
    let of = || with_cgroups(&fake).of(11, 0, Instant::now()).unwrap().cgroup.clone();
    assert_eq!(of(), "/b");
    fake.write("cgroups/cgroup.controllers", "");
    assert_eq!(of(), "/a");
}

/// Does a changed weight reach all threads of a cgroup at once, after one look (K5)?
#[test]
fn weights_that_change() {
    let fake = Fake::new();
    for thread in 10..13 {
        fake.thread(thread, 10, "fio", 500);
        fake.cgroup(thread, "7:blkio:/a/b\n");
    }
    fake.write("cgroups/a/blkio.bfq.weight", "100\n");
    let mut callers = with_cgroups(&fake);
    let start = Instant::now();
    let of = |callers: &mut Callers, thread, quarters: u32| {
        callers.of(thread, 0, start + TTL / 4 * quarters).unwrap()
    };
    let before = of(&mut callers, 10, 0);
    assert!(Arc::ptr_eq(&before, &of(&mut callers, 11, 2)));
    assert!(Arc::ptr_eq(&before, &of(&mut callers, 12, 3)));
    fake.write("cgroups/a/blkio.bfq.weight", "400\n");
    assert_eq!(of(&mut callers, 10, 3).weights, [100, 100]);
    // Four quarters: the weight is looked at again, for the first thread.
    let after = of(&mut callers, 10, 4);
    assert_eq!(after.weights, [400, 100]);
    let looks = Fake::looks();
    assert!(Arc::ptr_eq(&after, &of(&mut callers, 11, 4)));
    assert!(Arc::ptr_eq(&after, &of(&mut callers, 12, 4)));
    assert_eq!(Fake::looks(), looks, "the threads themselves are believed still");
    check(&mut callers, &[10, 11, 12]);
}

/// Is a process that moved into another cgroup there, and one without a line in the root?
#[test]
fn processes_that_move() {
    let fake = Fake::new();
    fake.thread(10, 10, "fio", 500);
    fake.cgroup(10, "7:blkio:/a\n");
    let mut callers = with_cgroups(&fake);
    let start = Instant::now();
    let mut at = |seconds| callers.of(10, 0, start + TTL * seconds).unwrap();
    assert_eq!(at(0).cgroup, "/a");
    fake.cgroup(10, "7:blkio:/../../outside\n");
    assert_eq!((at(1).cgroup.as_str(), at(1).weights.len()), ("/", 0));
    fake.cgroup(10, "7:blkio:/b/c\n");
    assert_eq!((at(2).cgroup.as_str(), &at(2).weights[..]), ("/b/c", &[100, 100][..]));
    std::fs::remove_file(fake.path("proc/10/cgroup")).unwrap();
    assert_eq!(at(3).cgroup, "/b/c");
    fake.thread(20, 20, "new", 600);
    assert_eq!(callers.of(20, 0, start).unwrap().cgroup, "/");
}

/// Are there never more threads and callers than the limit, and the longest unused gone (K3)?
#[test]
fn the_memory_is_bounded() {
    let fake = Fake::new();
    let mut callers = callers(&fake);
    // The real limit would only make more folders.
    callers.threads = Recent::new(8);
    let now = Instant::now();
    for thread in 1..=10 {
        fake.thread(thread, thread, "x", 1);
        assert!(callers.of(thread, 0, now).is_some());
        fake.end(thread);
        assert!(callers.of(1, 0, now).is_some(), "it is used all the time");
    }
    assert_eq!(callers.callers.len(), 8);
    for (thread, known) in [(1, true), (2, false), (3, false), (4, true), (10, true)] {
        assert_eq!(callers.of(thread, 0, now).is_some(), known, "{thread}");
    }
    check(&mut callers, &[1, 4, 5, 6, 7, 8, 9, 10]);
}

/// Is this very test identified rightly by the real system?
#[test]
fn ourselves() {
    let proc_root = Path::new(peer::PROC);
    let settings = Fuse { cgroups: Some("/sys/fs/cgroup".into()), ..Fuse::new("/mnt".into()) };
    let mut callers = Callers::new(settings, proc_root.to_owned());
    let caller = callers.of(process::own_thread(), 7, Instant::now()).unwrap();
    assert_eq!((caller.pid, caller.uid), (std::process::id(), 7));
    assert_eq!(caller.weights.len(), caller.cgroup.split('/').filter(|n| !n.is_empty()).count());
    let name = std::fs::read_to_string(format!("/proc/{}/comm", caller.pid)).unwrap();
    assert_eq!(caller.name, name.trim_end());
}

/// Is an answer from memory much cheaper than a look at the system? Prints what both cost.
#[test]
fn a_hit_costs_little() {
    let settings = Fuse { cgroups: Some("/sys/fs/cgroup".into()), ..Fuse::new("/mnt".into()) };
    let mut callers = Callers::new(settings, peer::PROC.into());
    let (thread, start) = (process::own_thread(), Instant::now());
    let mut time = |times: u32, step: Duration| {
        let begun = Instant::now();
        for number in 0..times {
            assert!(callers.of(thread, 0, start + step * number).is_some());
        }
        begun.elapsed() / times
    };
    // Five tries: another process may have the processor just then. A look is some ten system
    // calls.
    let cheap = (0..5).any(|_| {
        let (hit, look) = (time(20_000, Duration::ZERO), time(200, TTL));
        eprintln!("from memory {hit:?}, with a look {look:?}");
        hit * 5 < look
    });
    assert!(cheap, "an answer from memory costs as much as a look");
}
