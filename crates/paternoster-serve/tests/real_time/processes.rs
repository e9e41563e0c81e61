// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does every process that uses a volume's file get the share of its ionice and its cgroup?
//!
//! The processes are real ones, started by `ionice` or put into cgroups by a shell, and know
//! nothing of the server: they read a file from 32 threads. The device is that of `sharing.rs`.
//!
//! ```text
//! ionice -c 2 -n 2 flood ─┐
//!                         ├─ 32 reads each ─▶ FOLDER/disk ─▶ bfq ─▶ four at a time, 1 ms each
//! ionice -c 2 -n 6 flood ─┘
//! ```
//!
//! They need root and `/dev/fuse`, some of them `ionice`, writable cgroups, or fio. A test for
//! which something is missing prints that and passes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use paternoster_serve::config::{Config, Engine, Fuse};
use paternoster_serve::control::order::Order;
use paternoster_serve::control::snapshot::{ConnectionLine, Snapshot};
use paternoster_serve::fuse::callers::TTL;
use paternoster_serve::server::Server;

use crate::common::contended::{BFQ, COUNT, MODEL, PATIENCE, SETTLE, median_is};
use crate::common::{Folder, config, device, end, skipped, start};

/// Bytes of the volume.
const SIZE: u64 = 4 << 20;
/// Bytes of a read.
const BLOCK: usize = 4096;
/// Threads of a process that reads.
const THREADS: u64 = 32;
/// Requests that are counted where two share, at least a quarter each: 2,000 or more, of which a
/// turn more or less (32) is 1.6 %.
const TWO: u64 = 2 * COUNT;
/// And where the least has an eighth: 1,500, of which a turn is 2.1 %.
const THREE: u64 = 3 * COUNT;
/// Names the file to a child of ours that is to read it.
const CHILD: &str = "PATERNOSTER_TEST_FLOOD";

/// Whether this machine can run it at all; prints why not.
fn can(tools: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |tool: &&str| std::env::split_paths(&path).any(|at| at.join(tool).is_file());
    let missing = tools.iter().find(|tool| !found(tool)).copied();
    let missing = missing.or((!Path::new("/dev/fuse").exists()).then_some("/dev/fuse"));
    let missing = missing.or((!rustix::process::geteuid().is_root()).then_some("root's power"));
    if let Some(missing) = missing {
        skipped(&format!("{missing} is missing"));
    }
    missing.is_none()
}

/// A server that shows one volume as a file, and has no socket.
struct Bench {
    folder: Folder,
    server: Server,
}

impl Bench {
    fn new(change: impl FnOnce(&Folder, &mut Config)) -> Bench {
        let folder = Folder::in_memory("processes");
        let mut dev = device("bfq", &[("disk", &folder.file("data", SIZE))]);
        // Raising the weight of a process that has just begun helps people who wait; it is not
        // meant for floods.
        dev.attributes = vec![("low_latency".into(), "0".into())];
        let mount = folder.path("shown");
        fs::create_dir(&mount).expect("a folder to mount on");
        let mut config = config(&folder, dev);
        config.rules.clear();
        config.server.listen.clear();
        config.server.connections = 8;
        config.server.fuse = Some(Fuse { processes: 8, ..Fuse::new(mount) });
        change(&folder, &mut config);
        let server = start(config);
        Bench { folder, server }
    }

    /// Before the model.
    fn contended(change: impl FnOnce(&mut Fuse)) -> Bench {
        Bench::new(|folder, config| {
            let model = folder.path("contended.toml");
            fs::write(&model, MODEL).expect("a device file");
            let dev = &mut config.devices[0];
            dev.engine = Engine::Model(model.to_str().expect("a plain path").into());
            let (_, budget) = BFQ.rsplit_once('=').expect("an attribute");
            dev.attributes.push(("max_budget".into(), budget.into()));
            change(config.server.fuse.as_mut().expect("there are files"));
        })
    }

    fn file(&self) -> PathBuf {
        self.folder.path("shown").join("disk")
    }

    fn snapshot(&self) -> Snapshot {
        let told = self.server.device_loops()[0].ask(Order::Snapshot).expect("an answer");
        serde_json::from_value(told).expect("a snapshot")
    }

    /// The first snapshot that is as wanted.
    fn when(&self, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let begun = Instant::now();
        loop {
            let snapshot = self.snapshot();
            if wanted(&snapshot) {
                return snapshot;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} never came: {snapshot:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Processes that read as fast as they can, each started by some words before its own, such as
    /// `ionice -c 3`. Each has got something before the next one comes: next to a realtime flood
    /// others get nothing.
    fn floods(&self, before: &[Vec<String>]) -> Floods {
        let mut floods = Floods(Vec::new());
        for words in before {
            floods.0.push(flood(&self.file(), words));
            let number = floods.0.len() - 1;
            self.when("a first read", |now| self.reads(now, &floods)[number] > 0);
        }
        floods
    }

    /// Requests answered for each process.
    fn reads(&self, snapshot: &Snapshot, floods: &Floods) -> Vec<u64> {
        let of = |child: &Child| {
            let ending = format!("[{}]", child.id());
            let is_its = |line: &&ConnectionLine| line.peer.ends_with(&ending);
            snapshot.connections.iter().filter(is_its).map(|line| line.figures.reads).sum()
        };
        floods.0.iter().map(of).collect()
    }

    /// Parts of the next `count` requests, in thousandths, after others that are not counted.
    fn shares(&self, floods: &Floods, count: u64) -> Vec<u64> {
        let sum = |snapshot: &Snapshot| self.reads(snapshot, floods).iter().sum::<u64>();
        let begun = sum(&self.snapshot());
        let from = self.when("settling", |now| sum(now) >= begun + SETTLE);
        let to = self.when("the end", |now| sum(now) >= sum(&from) + count);
        let (all, to) = (sum(&to) - sum(&from), self.reads(&to, floods));
        let each = to.iter().zip(self.reads(&from, floods));
        each.map(|(to, from)| (to - from) * 1000 / all).collect()
    }
}

/// Processes, ended when they are dropped.
struct Floods(Vec<Child>);

impl Drop for Floods {
    fn drop(&mut self) {
        // Stops all of them first: one may wait for an answer that comes only when the others have
        // ended.
        for child in &mut self.0 {
            let _ended = child.kill();
        }
        for child in &mut self.0 {
            let _reaped = child.wait();
        }
    }
}

/// Starts [`floods_as_a_child`] in a process.
fn flood(file: &Path, before: &[String]) -> Child {
    let own = std::env::current_exe().expect("a program");
    let mut words = before.iter().map(std::ffi::OsString::from).chain([own.into_os_string()]);
    let mut command = Command::new(words.next().expect("at least its own name"));
    command.args(words).args(["--exact", "processes::floods_as_a_child", "--test-threads=1"]);
    command.env(CHILD, file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a process")
}

/// What a child of ours does until it is killed, or the server ends; nothing otherwise.
#[test]
fn floods_as_a_child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let file = File::open(path).unwrap();
    let reads = |thread: u64| {
        let mut bytes = [0; BLOCK];
        // Strides without a common divisor with the number of blocks: all places, in no order.
        let mut place = thread * 37;
        while file.read_at(&mut bytes, place * BLOCK as u64 % SIZE).is_ok() {
            place += 389;
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let reads = &reads;
            scope.spawn(move || reads(thread));
        }
    });
}

fn ionice(class: u32, level: u32) -> Vec<String> {
    ["ionice", "-c", &class.to_string(), "-n", &level.to_string()].map(str::to_owned).to_vec()
}

/// Do best-effort levels 2 and 6 get 3:1? bfq's weight of a level is (8 - level) * 10: 60 and 20.
/// Within 5 % of 3 is 2.85 to 3.15: 2.85 / 3.85 = 740 to 3.15 / 4.15 = 759 thousandths.
#[test]
fn levels_of_ionice() {
    if !can(&["ionice"]) {
        return;
    }
    median_is("ionice -n 2, -n 6", &[740..=759, 241..=260], || {
        let bench = Bench::contended(|_| {});
        let floods = bench.floods(&[ionice(2, 2), ionice(2, 6)]);
        let shares = bench.shares(&floods, TWO);
        drop(floods);
        end(&bench.server);
        shares
    });
}

/// Does a realtime process get nearly all against a best-effort one, and if its user may not be
/// realtime the share of level 0: weight 80 to the 40 of level 4, 2:1? Within 5 % of 2 is 1.9 to
/// 2.1: 1.9 / 2.9 = 655 to 2.1 / 3.1 = 677 thousandths.
#[test]
fn realtime_is_for_those_who_may() {
    if !can(&["ionice"]) {
        return;
    }
    let bounds = [0..=50, 950..=1000, 323..=345, 655..=677];
    median_is("ionice -c 1: allowed, not allowed", &bounds, || {
        let shares = |realtime: &[u32]| {
            let bench = Bench::contended(|fuse| fuse.realtime = realtime.to_vec());
            let floods = bench.floods(&[ionice(2, 4), ionice(1, 4)]);
            let shares = bench.shares(&floods, TWO);
            drop(floods);
            end(&bench.server);
            shares
        };
        [shares(&[0]), shares(&[])].concat()
    });
}

/// A cgroup of the real system, removed at its end. Its processes must have ended by then.
struct Cgroup(PathBuf);

impl Cgroup {
    /// A cgroup below that folder of a hierarchy; `None`, and printed, if it cannot be made.
    fn new(above: &Path, name: &str) -> Option<Cgroup> {
        let path = above.join(name);
        match fs::create_dir(&path) {
            Ok(()) => Some(Cgroup(path)),
            Err(error) => {
                skipped(&format!("no cgroup {} can be made: {error}", path.display()));
                None
            }
        }
    }

    /// The words that put a process into it.
    fn words(&self) -> Vec<String> {
        let procs = self.0.join("cgroup.procs");
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        ["sh", "-c", script, procs.to_str().expect("a plain path")].map(str::to_owned).to_vec()
    }

    /// Its path as a process in it has it, in the line that `is_line` takes.
    fn path(&self, is_line: impl Fn(&str) -> bool) -> Option<String> {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["cat", "/proc/self/cgroup"]);
        let told = String::from_utf8(command.output().ok()?.stdout).ok()?;
        let line = told.lines().find(|line| is_line(line))?;
        line.splitn(3, ':').nth(2).map(str::to_owned)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that was reaped may still be leaving.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{}: this cgroup could not be removed", self.0.display());
    }
}

/// The folder where a hierarchy is mounted; `None`, and printed, if there is none.
fn hierarchy(kind: &str, controller: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_it = |line: &&str| {
        let mut words = line.split(' ').skip(2);
        let same = words.next() == Some(kind);
        let options = words.next().unwrap_or_default();
        same && (controller.is_empty() || options.split(',').any(|option| option == controller))
    };
    let found = mounts.lines().find(is_it).and_then(|line| line.split(' ').nth(1));
    if found.is_none() {
        skipped(&format!("no {kind} {controller} is mounted"));
    }
    found.map(PathBuf::from)
}

/// A name that no other test has.
fn name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("paternoster-test-{}-{number}", std::process::id())
}

/// Do cgroups of version 2 share by weight, at each level, and as soon as weights are others?
///
/// Cgroups and processes are real, the files of weights are not: few kernels of test machines have
/// them. `pair` and `single` have 100, the halves of the pair 100 and 300: an eighth, three eighths
/// and a half; then the two change places. All within 5 %.
#[test]
fn weights_of_cgroups() {
    if !can(&["sh"]) {
        return;
    }
    let Some(root) = hierarchy("cgroup2", "") else { return };
    let Some(pair) = Cgroup::new(&root, &name()) else { return };
    let Some(one) = Cgroup::new(&pair.0, "one") else { return };
    let Some(other) = Cgroup::new(&pair.0, "other") else { return };
    let Some(single) = Cgroup::new(&root, &name()) else { return };
    let all = [&one, &other, &single];
    let paths = all.map(|cgroup| cgroup.path(|line| line.starts_with("0::")));
    let [Some(first), Some(second), Some(third)] = paths else {
        return skipped("a process in a cgroup of ours does not know its path");
    };
    let fake = Folder::in_memory("weights");
    fs::write(fake.path("cgroup.controllers"), "io\n").unwrap();
    let weigh = |path: &str, weight: u32| {
        let folder = fake.path(path.trim_start_matches('/'));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("io.weight"), format!("default {weight}\n")).unwrap();
    };
    let (eighth, three) = (119..=131, 356..=394);
    let bounds =
        [eighth.clone(), three.clone(), 475..=525, three.clone(), eighth.clone(), 475..=525];
    median_is("cgroups 100:300 in one, beside another", &bounds, || {
        weigh(&first, 100);
        weigh(&second, 300);
        weigh(&third, 100);
        let bench = Bench::contended(|fuse| fuse.cgroups = Some(fake.path("")));
        let floods = bench.floods(&all.map(Cgroup::words));
        let before = bench.shares(&floods, THREE);
        weigh(&first, 300);
        weigh(&second, 100);
        // Cached this long at most: a thread's cgroup, and its weight.
        std::thread::sleep(TTL * 2);
        let after = bench.shares(&floods, THREE);
        drop(floods);
        end(&bench.server);
        [before, after].concat()
    });
}

/// And those of version 1 by the kernel's own files, 100:300?
#[test]
fn weights_of_old_cgroups() {
    if !can(&["sh"]) {
        return;
    }
    let Some(root) = hierarchy("cgroup", "blkio") else { return };
    let Some(one) = Cgroup::new(&root, &name()) else { return };
    let Some(other) = Cgroup::new(&root, &name()) else { return };
    let files = ["blkio.bfq.weight", "blkio.weight"];
    let Some(file) = files.into_iter().find(|file| one.0.join(file).exists()) else {
        return skipped("blkio.bfq.weight is missing");
    };
    fs::write(one.0.join(file), "100").unwrap();
    fs::write(other.0.join(file), "300").unwrap();
    median_is(&format!("{file} 100:300"), &[241..=260, 740..=759], || {
        let bench = Bench::contended(|fuse| fuse.cgroups = Some(root.clone()));
        let floods = bench.floods(&[one.words(), other.words()]);
        let shares = bench.shares(&floods, TWO);
        drop(floods);
        end(&bench.server);
        shares
    });
}

/// Does an unchanged fio find what it has written, and does each of its requests count for its
/// process?
#[test]
fn fio_verifies() {
    if !can(&["fio", "timeout"]) {
        return;
    }
    let bench = Bench::new(|_, _| {});
    // 2 MiB / 4 KiB = 512 writes, and as many reads that look.
    let output = Command::new("timeout")
        .args(["120", "fio", "--name=verify", "--rw=randwrite", "--bs=4k", "--size=2m"])
        .args(["--direct=1", "--ioengine=libaio", "--iodepth=8", "--verify=crc32c"])
        .args(["--verify_fatal=1", "--fsync_on_close=1"])
        .arg(format!("--filename={}", bench.file().display()))
        .current_dir(bench.folder.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let snapshot = bench.snapshot();
    let lines = || snapshot.connections.iter().filter(|line| line.peer.starts_with("fio["));
    let sum = |figure: fn(&ConnectionLine) -> u64| lines().map(figure).sum::<u64>();
    assert_eq!(sum(|line| line.figures.writes), 512, "{snapshot:?}");
    assert_eq!(sum(|line| line.figures.reads), 512, "{snapshot:?}");
    assert!(sum(|line| line.figures.flushes) > 0, "it syncs at the end");
    assert_eq!(sum(|line| line.figures.errors), 0);
    end(&bench.server);
    // The file's zeroes have been overwritten.
    let data = fs::read(bench.folder.path("data")).unwrap();
    assert!(data[..2 << 20].chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)));
}
